"""Runs as PROV documents: what the package `prov` reads back is what was recorded."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import prov
import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree
from prov.model import ProvActivity, ProvDocument, ProvEntity, ProvUsage
from web.viewer.homes import record_flowers, record_hostile

import provml
from provml.errors import WrongValue
from provml.exchange.prov_export import FORMATS, prov_document, write_document
from provml.rdf.graph_files import read_quads
from provml.rdf.namespaces import RDF_TYPE, XSD
from provml.rdf.prov_documents import read_document

RUN = "https://w3id.org/provml/run/tuesday"


def document_of(home: Path, run: str) -> ProvDocument:
    with provml.open(home) as store:
        return prov_document(quad.triple for quad in store.graph(run))


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> ProvDocument:
    home = tmp_path_factory.mktemp("prov") / "home"
    record_flowers(home)
    return document_of(home, "tuesday")


def names(document: ProvDocument, kind: type) -> set[str]:
    return {record.identifier.uri for record in document.get_records(kind) if record.identifier is not None}


def test_steps_are_activities_with_times_and_data_are_entities(flowers: ProvDocument):
    activities = {record.identifier.uri: record for record in flowers.get_records(ProvActivity)}
    assert {RUN, f"{RUN}/training", f"{RUN}/training/6"} <= activities.keys()
    training = activities[f"{RUN}/training"]
    assert training.get_startTime() < training.get_endTime()
    assert any("model" in name or "data" in name for name in names(flowers, ProvEntity))


def test_a_use_has_its_role(flowers: ProvDocument):
    uses = [dict(record.attributes) for record in flowers.get_records(ProvUsage)]
    roles = {str(value) for use in uses for key, value in use.items() if str(key) == "prov:role"}
    assert any("test" in role.lower() for role in roles)


@pytest.mark.parametrize("fmt", ["json", "provn"])
def test_a_document_is_read_back_as_it_was(flowers: ProvDocument, fmt: str):
    text = write_document(flowers, fmt).decode()
    again = prov.read(io.StringIO(text), format=fmt)
    assert again == flowers


def test_hostile_names_stay_readable(tmp_path: Path):
    record_hostile(tmp_path / "home")
    document = document_of(tmp_path / "home", "h1")
    for fmt in ("json", "provn"):
        again = prov.read(io.StringIO(write_document(document, fmt).decode()), format=fmt)
        assert names(again, ProvActivity) == names(document, ProvActivity)


def test_an_unknown_format_names_the_others(flowers: ProvDocument):
    with pytest.raises(WrongValue, match="provn, json, xml"):
        write_document(flowers, "docx")


# ---- there and back


def stored(quads: Iterable[Any]) -> set[Any]:
    """Return triples as a store has them, which normalizes numbers and times."""
    graph = ox.Store()
    graph.extend(ox.Quad(*quad.triple) if isinstance(quad, ox.Quad) else ox.Quad(*quad) for quad in quads)
    return {quad.triple for quad in graph}


def read_back(triples: set[Any], fmt: str, folder: Path) -> set[Any]:
    path = folder / f"document.{fmt}"
    path.write_bytes(write_document(prov_document(triples, fmt), fmt))
    return stored(read_quads(path))


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_run_comes_back_triple_by_triple(tmp_path: Path, fmt: str):
    record_flowers(tmp_path / "home")
    record_hostile(tmp_path / "home")
    with provml.open(tmp_path / "home") as store:
        graphs = [stored(store.graph(info.id)) for info in store.runs()]
    for triples in graphs:
        assert read_back(triples, fmt, tmp_path) == triples


def test_a_document_can_be_loaded_and_asked(tmp_path: Path):
    record_flowers(tmp_path / "home")
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    with provml.open(tmp_path / "home") as store:
        triples = stored(store.graph("tuesday"))
        for fmt, name in (("prov-json", "run.json"), ("prov-xml", "run.xml"), ("provn", "run.provn")):
            store.export("tuesday", tmp_path / name, fmt)
    for name in ("run.json", "run.xml", "run.provn"):
        with provml.open(tmp_path / "empty") as store:
            store.load(tmp_path / name)
            graph = {q.triple for q in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}
            assert graph == triples, name


def test_few_prefixes_and_valid_names_of_xml(tmp_path: Path):
    record_flowers(tmp_path / "home")
    with provml.open(tmp_path / "home") as store:
        document = prov_document((quad.triple for quad in store.graph("tuesday")), "xml")
    root = etree.fromstring(write_document(document, "xml"))
    assert len(root.nsmap) < 20
    names = [str(value) for value in root.xpath("//@*[local-name()='id' or local-name()='ref']")]
    assert len(names) > 100
    assert not [name for name in names if not re.fullmatch(r"[\w.-]+:[A-Za-z_][\w.-]*", name)]


@pytest.mark.filterwarnings("ignore:NTSerializer always uses UTF-8:UserWarning")
def test_a_usage_is_not_misread_by_the_package_prov(flowers: ProvDocument):
    again = prov.read(io.StringIO(write_document(flowers, "json").decode()), format="json")
    rdf = again.serialize(format="rdf", rdf_format="nt")
    assert "qualifiedUsage" in str(rdf)
    assert "qualifiedInfluence" not in str(rdf)


P = "http://www.w3.org/ns/prov#"
IRIS = [
    "http://example.org/a", "http://example.org/b/1", "http://example.org/c?x=(1);y#z", "urn:uuid:1-2", "urn:sha256:0f",
    f"{RUN}/training/3", "http://example.org/%20x_x0041_", "http://ünï.example/é", "http://example.org/", "tag:x,y'z",
    "https://w3id.org/provml#RawRole", "http://example.org/1.", "http://example.org/-",
    "http://[::1]/y", "http://user@host:80/z", "x:", "http:///",
]  # fmt: skip
PREDICATES = [
    *(f"{P}{name}" for name in ("used", "wasGeneratedBy", "wasDerivedFrom", "wasRevisionOf", "value", "generatedAtTime",
      "startedAtTime", "atTime", "hadRole", "entity", "qualifiedUsage", "atLocation", "hadMember", "wasInfluencedBy")),
    "http://www.w3.org/2000/01/rdf-schema#label", "http://example.org/p", "http://example.org/1p", "http://example.org/p/",
]  # fmt: skip
CLASSES = [
    *(f"{P}{name}" for name in ("Entity", "Activity", "Agent", "Person", "Plan", "Usage", "Influence", "Role")),
    "http://example.org/Class",
]
XSD_VALUES = {
    "double": st.floats().map(lambda value: str(value).replace("inf", "INF").replace("nan", "NaN")),
    "integer": st.integers().map(str),
    "int": st.integers(-10, 10).map(str),
    "decimal": st.sampled_from(["1.5", "1.50", "-0.0", "10", "007"]),
    "boolean": st.sampled_from(["true", "false", "1"]),
    "dateTime": st.sampled_from(
        ["2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05.123456789Z", "2026-01-02T24:00:00Z"]
    ),
    "date": st.just("2026-01-02"),
    "anyURI": st.sampled_from(["http://example.org/a", "a b"]),
    "dayTimeDuration": st.just("PT1S"),
    "float": st.just("0.1"),
}
NODES = st.sampled_from(IRIS).map(ox.NamedNode)
TYPED = st.sampled_from(sorted(XSD_VALUES)).flatmap(
    lambda name: XSD_VALUES[name].map(lambda text: ox.Literal(text, datatype=ox.NamedNode(f"{XSD}{name}")))
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", " x ", "a\r\nb", "\t", "']]>"]
)
OBJECTS = (
    NODES | TYPED | TEXTS.map(ox.Literal) | st.tuples(TEXTS, st.sampled_from(["en", "de-at"])).map(
        lambda pair: ox.Literal(pair[0], language=pair[1])
    )
)  # fmt: skip
TRIPLES = st.builds(ox.Triple, NODES, st.sampled_from(PREDICATES).map(ox.NamedNode), OBJECTS) | st.builds(
    ox.Triple, NODES, st.just(ox.NamedNode(RDF_TYPE)), st.sampled_from(CLASSES).map(ox.NamedNode)
)


@example({ox.Triple(ox.NamedNode(iri), ox.NamedNode(RDF_TYPE), ox.NamedNode(f"{P}Entity")) for iri in IRIS})
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(TRIPLES, min_size=1, max_size=25))
def test_any_triples_come_back(tmp_path: Path, triples: set[Any]):
    expected = stored(triples)
    for fmt in FORMATS:
        assert read_back(expected, fmt, tmp_path) == expected, fmt


BUNDLES = r"""@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a a prov:Entity ; rdfs:label "a"@en .
ex:first {
    ex:e a prov:Entity ; prov:value 1.5 ; rdfs:label "tab\\there" ; prov:wasGeneratedBy ex:act .
    ex:act a prov:Activity ; prov:used ex:a ; prov:qualifiedUsage ex:u .
    ex:u a prov:Usage ; prov:entity ex:a ; prov:hadRole ex:role . ex:role rdfs:label "role" . }
<http://example.org/se/cond%20x/1> { ex:e a prov:Entity, ex:Thing ; ex:note "x"^^ex:own . ex:loose ex:p ex:q . }
<urn:sha256:00ff> { ex:z a prov:Agent, prov:Person . }
<http://example.org:8080?a=ü> { ex:z a prov:Agent . }
"""


@pytest.mark.parametrize("fmt", ["provn", "prov-json", "prov-xml", "prov-jsonld"])
def test_loaded_graphs_are_bundles_and_come_back_as_graphs(fmt: str, tmp_path: Path):
    (tmp_path / "graphs.trig").write_text(BUNDLES)
    document = tmp_path / f"all.{fmt.replace('prov-', 'prov.')}"
    lines = []
    for home, source in (("first", tmp_path / "graphs.trig"), ("second", document)):
        with provml.open(tmp_path / home, create=True) as store:
            store.load(source)
            store.export(None, tmp_path / f"{home}.nq", "nq")
            lines.append(sorted((tmp_path / f"{home}.nq").read_text().splitlines()))
            if home == "first":
                store.export(None, document, fmt)
    assert lines[0] == lines[1]
    bundles = {bundle.identifier.uri for bundle in read_document(document).bundles}
    assert "http://example.org/first" in bundles
    assert len(bundles) >= 3
