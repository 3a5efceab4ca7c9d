"""PROV-N, PROV-JSON, PROV-XML and PROV-JSONLD: recognized, read by one reader, mapped to PROV-O, checked and loaded."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

import provml
from provml.cli import main
from provml.errors import FileFormatError
from provml.rdf.graph_files import read_quads
from provml.rdf.namespaces import DCTERMS, PROV, RDF_TYPE, RDFS, XSD
from provml.rdf.prov_documents import document_quads, prov_format, read_document
from provml.validation import prov_constraints

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")
EX = "http://example.org/"

DOCUMENT = """// made by hand
document
  default <http://example.org/>
  prefix ex <http://example.org/>
  entity(e1, [prov:type='ex:Table', prov:type="wide", prov:label="Eins"@de, prov:location="shelf", prov:value="v",
              ex:small="7" %% xsd:byte, ex:whole="7" %% xsd:integer, ex:plain=7, ex:exact="1.50" %% xsd:decimal,
              ex:time="2012-03-31T09:21:00.5+02:00" %% xsd:dateTime, ex:link='ex:other', ex:sure="true" %% xsd:boolean,
              ex:page="http://example.org/p" %% xsd:anyURI])
  entity(e2) entity(plan) entity(c, [prov:type='prov:Collection'])
  activity(a1, 2012-03-31T09:00:00, 2012-03-31T10:00:00Z)
  activity(a2, -, -)
  agent(ag, [prov:type='prov:Person'])
  agent(boss)
  wasGeneratedBy(g1; e1, a1, 2012-03-31T09:30:00, [prov:role="result"])
  wasGeneratedBy(e2, a1, -)
  used(a2, e1, -)
  wasInvalidatedBy(e2, a2, 2012-03-31T11:00:00)
  wasStartedBy(a2, e1, a1, -)
  wasEndedBy(a2, -, -, 2012-03-31T12:00:00)
  wasInformedBy(a2, a1)
  wasDerivedFrom(d1; e2, e1, a1, -, -, [prov:type='prov:Revision'])
  wasAttributedTo(e1, ag)
  wasAssociatedWith(a1, ag, plan)
  actedOnBehalfOf(ag, boss, a1)
  wasInfluencedBy(i1; e2, boss)
  specializationOf(e2, e1)
  alternateOf(e1, e2)
  hadMember(c, e1)
  bundle b
    entity(e1)
    mentionOf(e2, e1, b)
  endBundle
endDocument
"""


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same document in PROV-N, PROV-JSON, PROV-XML."""
    folder = tmp_path_factory.mktemp("prov")
    path = folder / "document.provn"
    path.write_text(DOCUMENT)
    files = {"provn": path}
    document = read_document(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fmt in ("json", "xml"):
            files[fmt] = folder / f"document.{fmt}"
            document.serialize(str(files[fmt]), format=fmt)
    return files


def graph(path: Path) -> ox.Dataset:
    dataset = ox.Dataset(read_quads(path))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return dataset


def objects(quads: ox.Dataset, subject: str, predicate: str) -> set[str]:
    matches = quads.quads_for_subject(ox.NamedNode(EX + subject))
    return {str(quad.object) for quad in matches if quad.predicate.value == predicate}


@pytest.mark.parametrize("fmt", ["provn", "json", "xml"])
def test_the_forms_of_a_document_are_recognized_by_content_and_give_one_graph(fmt: str, documents: dict[str, Path]):
    assert prov_format(documents[fmt]) == fmt
    assert {str(quad) for quad in graph(documents[fmt])} == {str(quad) for quad in graph(documents["provn"])}


def test_elements_keep_their_types_attributes_and_datatypes(documents: dict[str, Path]):
    quads = graph(documents["provn"])
    assert objects(quads, "e1", RDF_TYPE) == {f"<{PROV}Entity>", f"<{EX}Table>"}
    assert objects(quads, "e1", f"{DCTERMS}type") == {'"wide"'}
    assert objects(quads, "e1", f"{RDFS}label") == {'"Eins"@de'}
    assert objects(quads, "e1", f"{PROV}atLocation") == {'"shelf"'}
    expected = {
        "small": f'"7"^^<{XSD}byte>',
        "whole": f'"7"^^<{XSD}integer>',
        "plain": f'"7"^^<{XSD}int>',
        "exact": f'"1.50"^^<{XSD}decimal>',
        "time": f'"2012-03-31T09:21:00.500000+02:00"^^<{XSD}dateTime>',
        "link": f"<{EX}other>",
        "sure": f'"true"^^<{XSD}boolean>',
        "page": f'"http://example.org/p"^^<{XSD}anyURI>',
    }
    assert {name: objects(quads, "e1", EX + name) for name in expected} == {k: {v} for k, v in expected.items()}
    assert objects(quads, "a1", f"{PROV}startedAtTime") == {f'"2012-03-31T09:00:00"^^<{XSD}dateTime>'}
    assert objects(quads, "a1", f"{PROV}endedAtTime") == {f'"2012-03-31T10:00:00Z"^^<{XSD}dateTime>'}


def test_relations_have_their_short_form_and_a_qualified_form_if_they_say_more(documents: dict[str, Path]):
    quads = graph(documents["provn"])
    short = {
        ("e1", "wasGeneratedBy"): "a1", ("a2", "used"): "e1", ("a2", "wasInformedBy"): "a1",
        ("e2", "wasDerivedFrom"): "e1", ("e2", "wasRevisionOf"): "e1", ("e1", "wasAttributedTo"): "ag",
        ("a1", "wasAssociatedWith"): "ag",
        ("ag", "actedOnBehalfOf"): "boss", ("e2", "wasInfluencedBy"): "boss", ("e2", "specializationOf"): "e1",
        ("e1", "alternateOf"): "e2", ("c", "hadMember"): "e1", ("a2", "wasStartedBy"): "e1",
    }  # fmt: skip
    for (subject, predicate), value in short.items():
        assert objects(quads, subject, PROV + predicate) == {f"<{EX}{value}>"}, predicate
    assert objects(quads, "e1", f"{PROV}qualifiedGeneration") == {f"<{EX}g1>"}
    assert objects(quads, "g1", f"{PROV}hadRole") == {'"result"'}
    assert objects(quads, "g1", f"{PROV}atTime") == {f'"2012-03-31T09:30:00"^^<{XSD}dateTime>'}
    assert objects(quads, "e2", f"{PROV}qualifiedRevision") == {f"<{EX}d1>"}
    assert objects(quads, "d1", f"{PROV}hadActivity") == {f"<{EX}a1>"}
    assert not objects(quads, "a2", f"{PROV}qualifiedUsage")
    [plan] = [quad.object for quad in quads if quad.predicate.value == f"{PROV}hadPlan"]
    assert plan == ox.NamedNode(f"{EX}plan")
    bundle = {(quad.predicate.value, str(quad.object)) for quad in quads.quads_for_graph_name(ox.NamedNode(f"{EX}b"))}
    assert (f"{PROV}mentionOf", f"<{EX}e1>") in bundle
    assert (f"{PROV}asInBundle", f"<{EX}b>") in bundle


@pytest.mark.parametrize("fmt", ["provn", "json", "xml"])
def test_a_document_is_checked_and_loaded_from_the_command_line_and_in_python(
    fmt: str, documents: dict[str, Path], tmp_path: Path
):
    result = CliRunner().invoke(main, ["validate", "--constraints", str(documents[fmt]), "--home", str(tmp_path)])
    # e2 is a specialization of e1 and derived from it, which is no contradiction
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "The graph conforms to all constraints.")
    assert "25 statements against 35 constraints" in result.output.replace("\n", " ")
    with provml.open(tmp_path / "home", create=True) as store:
        assert store.load(documents[fmt]) > 50
        query = f"SELECT ?x {{ GRAPH ?g {{ ?x <{PROV}mentionOf> ?y }} }}"
        assert [str(row[0]) for row in store.query(query)] == [f"{EX}e2"]


def test_a_placeholder_is_not_an_omitted_part(tmp_path: Path):
    path = tmp_path / "association.provn"
    head = f"document\nprefix ex <{EX}>\n"
    path.write_text(
        f"{head}wasAssociatedWith(ex:x; ex:a, ex:g, ex:p)\nwasAssociatedWith(ex:x; ex:a, ex:g, -)\nendDocument"
    )
    [violation] = prov_constraints.check(path)
    assert violation.constraint == 23
    assert "for its plan: <http://example.org/p> and none (-)" in violation.reason
    path.write_text(
        f"{head}wasDerivedFrom(ex:x; ex:e, ex:f, ex:a, -, -)\n"
        "wasDerivedFrom(ex:x; ex:e, ex:f, ex:a, ex:g, -)\nendDocument"
    )
    assert prov_constraints.check(path)
    assert prov_constraints.check(read_document(path))
    path.write_text(f"{head}alternateOf(ex:e, -)\nendDocument")
    assert "has no second entity" in str(prov_constraints.check(path))


def test_a_type_attribute_does_not_declare_an_element(tmp_path: Path):
    path = tmp_path / "type.provn"
    path.write_text(f"document\nprefix ex <{EX}>\nactivity(ex:a, [prov:type='prov:Plan'])\nendDocument")
    assert prov_constraints.check(path)


def test_statements_of_other_vocabularies_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "extended.provn"
    path.write_text(f"document\nprefix ex <{EX}>\nentity(ex:e)\nex:shown(ex:e, 7)\nendDocument")
    with caplog.at_level(logging.WARNING, "provml"):
        assert len(list(document_quads(read_document(path)))) == 1
    assert "1 statements of other vocabularies" in caplog.text
    path.write_text(f"document\nprefix ex <{EX}>\nex:shown(ex:e, 7)\nentity(\nendDocument")
    with pytest.raises(FileFormatError, match="cannot be parsed"):
        read_document(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.provn", "document\nentity(ex:e)\nendDocument", r"a\.provn:2: .*ex"),
        ("a.provn", "", "cannot be parsed"),
        ("a.json", '{"entity": {"ex:e": {}}', r"JSON|@context|EOF|[Ee]xpect"),
        ("a.json", '{"entity": {"ex:e": {}}}', "cannot be parsed"),
        ("a.xml", f'<!DOCTYPE x><prov:document xmlns:prov="{PROV}"/>', "defines entities"),
        ("a.xml", f'<prov:document xmlns:prov="{PROV}"><prov:entity>', "cannot be parsed"),
        ("a.json", '{"entity": {"a": ' + "[" * 100 + "]" * 100 + "}}", "nested too deep"),
        (
            "a.provn",
            "document\ndefault <http://example.org/a b>\nentity(e)\nendDocument",
            "cannot be parsed|invalid name",
        ),
    ],
)
def test_broken_documents_are_refused_with_the_file_and_the_reason(tmp_path: Path, name: str, text: str, message: str):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        list(read_quads(path))


def test_json_ld_and_rdf_xml_are_read_as_rdf_whatever_their_extension(tmp_path: Path):
    triple = ox.Triple(ox.NamedNode(f"{EX}e"), ox.NamedNode(RDF_TYPE), ox.NamedNode(f"{PROV}Entity"))
    for name, rdf_format in (
        ("a.json", ox.RdfFormat.JSON_LD),
        ("a.xml", ox.RdfFormat.RDF_XML),
        ("a.jsonld", ox.RdfFormat.JSON_LD),
    ):
        path = tmp_path / name
        ox.serialize([triple], path, format=rdf_format)
        assert prov_format(path) == ""
        assert [quad.triple for quad in read_quads(path)] == [triple]


@pytest.mark.skipif(not SUITES.exists(), reason=f"the suites are not at {SUITES} (set PROVML_SUITES)")
def test_each_file_of_the_suite_has_one_verdict_in_all_forms(tmp_path: Path):
    files = sorted((SUITES / "prov-constraints" / "provn").glob("*.provn"))
    assert len(files) > 90
    for path in files:
        document = read_document(path)
        verdict = prov_constraints.check(path)
        for fmt in ("json", "xml"):
            other = tmp_path / f"document.{fmt}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                document.serialize(str(other), format=fmt)
            assert prov_constraints.check(other).valid == verdict.valid, (path.name, fmt)
