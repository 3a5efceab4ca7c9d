"""Queries with inference, and the hierarchy of classes without the name of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import owlrl
import pyoxigraph as ox
import pytest
import rdflib

import provml
from provml.errors import QueryError
from provml.rdf.namespaces import INFERRED
from provml.store import Store
from provml.store.inference import materialize

EX = "http://example.org/"
PREFIXES = f"""@prefix ex: <{EX}> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
ONTOLOGY = f"""{PREFIXES}
ex:Cat rdfs:subClassOf ex:Animal . ex:Animal owl:equivalentClass ex:Beast .
ex:hasPet rdfs:subPropertyOf ex:keeps ; rdfs:domain ex:Owner ; rdfs:range ex:Animal ; owl:inverseOf ex:petOf .
ex:near a owl:SymmetricProperty . ex:partOf a owl:TransitiveProperty .
ex:hasUncle owl:propertyChainAxiom ( ex:hasParent ex:hasBrother ) .
ex:CatOwner owl:equivalentClass [ owl:intersectionOf ( ex:Owner
    [ a owl:Restriction ; owl:onProperty ex:hasPet ; owl:someValuesFrom ex:Cat ] ) ] .
ex:Red owl:equivalentClass [ a owl:Restriction ; owl:onProperty ex:colour ; owl:hasValue "red" ] .
ex:Pet rdfs:subClassOf [ a owl:Restriction ; owl:onProperty ex:livesWith ; owl:allValuesFrom ex:Human ] .
ex:Living owl:unionOf ( ex:Animal ex:Plant ) . ex:Two owl:oneOf ( ex:x ex:y ) .
ex:birthPlace a owl:FunctionalProperty . ex:passport a owl:InverseFunctionalProperty .
"""
FACTS = f"""{PREFIXES}
ex:tom a ex:Cat . ex:ann ex:hasPet ex:tom ; ex:near ex:bob ; ex:hasParent ex:eve . ex:eve ex:hasBrother ex:ed .
ex:a ex:partOf ex:b . ex:b ex:partOf ex:c . ex:c ex:partOf ex:d . ex:rose ex:colour "red" . ex:fern a ex:Plant .
ex:car a ex:Red . ex:rex a ex:Pet ; ex:livesWith ex:joe .
ex:ann ex:birthPlace ex:rome . ex:ann ex:birthPlace ex:roma . ex:rome ex:size 5 .
ex:p1 ex:passport ex:n7 . ex:p2 ex:passport ex:n7 . ex:p2 ex:name "P" .
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with provml.record("flowers", home=tmp_path / "home", run="monday") as run, run.training(rate=0.1) as training:
        training.measured(loss=0.5)
    with Store(tmp_path / "home") as opened:
        yield opened


def load(store: Store, folder: Path, text: str, name: str = "a.ttl", **options: Any) -> None:
    (folder / name).write_text(text)
    store.load(folder / name, **options)


def names(store: Store, query: str, **options: Any) -> list[str]:
    answer = store.query(f"PREFIX ex: <{EX}> {query}", **options)
    assert not isinstance(answer, bool)
    return sorted(str(row[0]).removeprefix(EX) for row in answer)


AGENTS = "SELECT ?x { ?x a prov:Agent FILTER(STRSTARTS(STR(?x), STR(ex:))) }"


def test_inference_finds_a_loaded_person_as_an_agent_and_is_off_by_default(store: Store, tmp_path: Path):
    load(store, tmp_path, f"{PREFIXES} ex:ann a prov:Person .")
    load(store, tmp_path, f"{PREFIXES} ex:bob a prov:Person .", "b.ttl", graph=f"{EX}g")
    assert names(store, AGENTS) == []
    assert names(store, AGENTS, inference=True) == ["ann", "bob"]
    assert names(store, AGENTS, inference=True, timeout=60) == ["ann", "bob"]
    assert names(store, f"SELECT ?x {{ GRAPH <{INFERRED}> {{ ?x a prov:Agent }} }}") == ["ann", "bob"]
    assert names(store, AGENTS) == [], "what is inferred stays in its own graph"


def test_what_is_inferred_follows_what_is_loaded_and_recorded(store: Store, tmp_path: Path):
    load(store, tmp_path, f"{PREFIXES} ex:ann a prov:Person .")
    assert names(store, AGENTS, inference=True) == ["ann"]
    store.unload("a.ttl")
    assert names(store, AGENTS, inference=True) == []
    load(store, tmp_path, f"{PREFIXES} prov:Activity rdfs:subClassOf ex:Event .", "o.ttl")
    events = "SELECT ?x { ?x a ex:Event }"
    count = len(names(store, events, inference=True))
    assert count > 0
    with provml.record("flowers", home=store.home, run="tuesday") as run, run.training(rate=0.2) as training:
        training.measured(loss=0.4)
    assert len(names(store, events, inference=True)) > count
    store.rebuild()
    assert len(names(store, events, inference=True)) > count


def test_the_inferred_graph_is_no_loaded_graph(store: Store, tmp_path: Path):
    load(store, tmp_path, f"{PREFIXES} ex:ann a prov:Person .")
    names(store, AGENTS, inference=True)
    assert [item.graph for item in store.graphs()] == [None]
    assert store.loaded_graphs() == []
    store.export(None, tmp_path / "all.nq")
    assert INFERRED not in (tmp_path / "all.nq").read_text()
    assert store.verify() == []
    assert store.validate("monday")


def test_the_hierarchy_needs_no_graph_name(store: Store, tmp_path: Path):
    load(store, tmp_path, f"{PREFIXES} ex:ann a prov:Person . ex:tom a ex:Cat .")
    load(store, tmp_path, ONTOLOGY, "o.ttl", graph=f"{EX}ontology")
    agents = "SELECT ?x { ?x a/rdfs:subClassOf* prov:Agent FILTER(STRSTARTS(STR(?x), STR(ex:))) }"
    assert names(store, agents) == ["ann"]
    assert names(store, agents, timeout=60) == ["ann"]
    assert names(store, "SELECT ?x { ?x a/rdfs:subClassOf* ex:Animal }") == ["tom"]
    assert names(store, "SELECT ?c { GRAPH <http://example.org/none> { ?c rdfs:subClassOf ?d } }") == []
    assert store.query("ASK FROM <http://example.org/none> { ?c rdfs:subClassOf ?d }") is False


def test_a_query_with_inference_cannot_name_its_graphs(store: Store):
    with pytest.raises(QueryError, match="Leave out FROM"):
        store.query("SELECT * FROM <http://example.org/g> { ?s ?p ?o }", inference=True)


def test_the_rules_derive_what_owlrl_derives():
    graph = rdflib.Graph().parse(data=ONTOLOGY + FACTS, format="turtle")
    own = ox.Store()
    own.bulk_load(ONTOLOGY + FACTS, format=ox.RdfFormat.TURTLE)
    stated = set(map(str, (quad.triple for quad in own)))
    target = ox.NamedNode(INFERRED)
    count = materialize(own, target)
    inferred = {str(quad.triple) for quad in own.quads_for_pattern(None, None, None, target)}
    assert len(inferred) == count
    assert not inferred & stated
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    individuals = {line for line in (_line(triple) for triple in graph) if line} - stated
    assert {line for line in inferred if _is_about_individuals(line)} == individuals


def _line(triple: tuple[Any, ...]) -> str:
    """Return a triple of rdflib about named individuals, as pyoxigraph writes it; else an empty text."""
    if any(isinstance(node, rdflib.BNode) for node in triple) or isinstance(triple[0], rdflib.Literal):
        return ""
    line = " ".join(node.n3() for node in triple)
    return line if _is_about_individuals(line) and triple[0] != triple[2] else ""


def _is_about_individuals(line: str) -> bool:
    subject, predicate, value = line.split(" ", 2)
    if not subject.startswith(f"<{EX}") or subject[len(EX) + 1 : len(EX) + 2].isupper():
        return False
    is_own = predicate.startswith(f"<{EX}") or predicate.endswith("#sameAs>")
    return is_own or (predicate.endswith("#type>") and value.startswith(f"<{EX}"))
