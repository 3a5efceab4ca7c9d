"""rdflib graphs: things and stores to and from them, and a graph wherever a file is accepted."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest
import rdflib
from rdflib.compare import isomorphic

import provml
from provml import IRI, Text, rdf
from provml.compiler import user_files, write
from provml.errors import InvalidIRI, ProtectedGraph, WrongType
from provml.rdf import rdflib_bridge
from provml.store import Store
from provml.validation import validate
from provml.vocab import Study
from provml.vocab.prov import Person, SoftwareAgent

EX = "http://example.org/"
DATA = """
@prefix ex: <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:a ex:p "007"^^xsd:int, "x"@en, "1.50"^^xsd:decimal, "no number"^^xsd:integer, [ ex:q ex:a ], "plain" .
"""


def test_literals_blank_nodes_and_datatypes_survive_the_way_there_and_back():
    rdflib.NORMALIZE_LITERALS, normalize = False, rdflib.NORMALIZE_LITERALS
    try:
        graph = rdflib.Graph().parse(data=DATA, format="turtle")
        quads = list(rdflib_bridge.from_rdflib(graph))
        assert {quad.object.value for quad in quads if isinstance(quad.object, ox.Literal)} >= {"007", "1.50"}
        assert isomorphic(rdflib_bridge.to_rdflib(quads), graph)
    finally:
        rdflib.NORMALIZE_LITERALS = normalize


def test_a_dataset_keeps_its_graphs():
    dataset = rdflib.Dataset()
    dataset.default_graph.add((rdflib.URIRef(f"{EX}a"), rdflib.RDF.type, rdflib.PROV.Person))
    dataset.graph(rdflib.URIRef(f"{EX}g")).add((rdflib.URIRef(f"{EX}b"), rdflib.RDF.type, rdflib.PROV.Person))
    quads = list(rdflib_bridge.from_rdflib(dataset))
    assert {quad.graph_name for quad in quads} == {ox.DefaultGraph(), ox.NamedNode(f"{EX}g")}
    copy = rdflib_bridge.to_rdflib_dataset(quads)
    assert set(rdflib_bridge.from_rdflib(copy)) == set(quads)


def test_things_go_to_an_rdflib_graph_and_come_back():
    study = Study(IRI(f"{EX}s"), label=Text("Étude", "fr"))
    ann = Person(IRI(f"{EX}ann"), label="Ann")
    graph = rdf.to_rdflib([study, ann])
    assert (rdflib.URIRef(f"{EX}ann"), rdflib.RDF.type, rdflib.PROV.Agent) in graph
    assert rdf.read(graph, f"{EX}s") == study
    assert rdf.read_all(graph) == [ann, study]
    assert rdf.read_all(graph, Person) == [ann]
    assert rdf.read_all(graph, SoftwareAgent) == []


def test_things_as_turtle_and_json_ld_are_the_same_graph():
    ann = Person(IRI(f"{EX}ann"), label=["Ann", Text("Anne", "fr")], extra={IRI(f"{EX}age"): [41]})
    text = rdf.turtle(ann, prefixes={"ex": EX})
    assert "ex:ann" in text
    assert "@prefix mls:" not in text, "only prefixes that are used are declared"
    expected = rdflib.Graph().parse(data=rdf.ntriples(ann), format="nt")
    assert isomorphic(rdflib.Graph().parse(data=text, format="turtle"), expected)
    parsed = ox.parse(rdf.jsonld(ann), format=ox.RdfFormat.JSON_LD)
    assert isomorphic(rdflib_bridge.to_rdflib(parsed), expected)


def test_what_rdf_cannot_hold_is_refused():
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("no iri at all"), rdflib.RDF.type, rdflib.PROV.Person))
    with pytest.raises(InvalidIRI):
        list(rdflib_bridge.from_rdflib(graph))
    triple = ox.Triple(ox.NamedNode(f"{EX}a"), ox.NamedNode(f"{EX}b"), ox.NamedNode(f"{EX}c"))
    with pytest.raises(WrongType, match="rdflib cannot hold them"):
        rdflib_bridge.to_rdflib([ox.Triple(ox.NamedNode(f"{EX}a"), ox.NamedNode(f"{EX}b"), triple)])


def test_a_store_goes_to_rdflib_and_comes_from_rdflib(tmp_path: Path):
    with provml.record("flowers", home=tmp_path / "home") as run, run.training(learning_rate=0.1) as training:
        training.measured(loss=0.5)
    graph = rdflib.Graph().parse(data=DATA, format="turtle")
    with Store(tmp_path / "home") as store:
        assert store.load(graph, graph=f"{EX}g") == store.load(graph, graph=f"{EX}g") == len(graph)
        assert len(store.graphs()) == 1
        of_run, of_all = store.to_rdflib("latest"), store.to_rdflib()
        assert len(of_run) > 50
        assert set(of_run) <= set(of_all)
        assert len(store.to_rdflib(graph=f"{EX}g")) == len(graph)
        live = store.rdflib_dataset()
        assert len(list(live.query("SELECT ?x { ?x a prov:Activity }"))) > 0
        assert rdflib.URIRef(f"{EX}g") in {context.identifier for context in live.graphs()}
        with pytest.raises(ProtectedGraph):
            live.add((rdflib.URIRef(f"{EX}a"), rdflib.RDF.type, rdflib.PROV.Person))
        with pytest.raises(ProtectedGraph):
            live.update("CLEAR ALL")
    with Store.from_rdflib(of_run) as copy:
        assert isomorphic(copy.to_rdflib(), of_run)
        temporary = copy.home
    assert not temporary.exists()


def test_a_graph_is_accepted_where_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = rdflib.Graph().parse(
        data=f"<{EX}a> a <http://www.w3.org/ns/prov#Activity> ; <http://www.w3.org/ns/prov#startedAtTime> 'now' .",
        format="turtle",
    )
    assert not validate(data)
    shapes = rdflib.Graph().parse(
        data=f"""@prefix sh: <http://www.w3.org/ns/shacl#> .
        <{EX}S> a sh:NodeShape ; sh:targetNode <{EX}a> ; sh:property [ sh:path <{EX}p> ; sh:minCount 1 ] .""",
        format="turtle",
    )
    assert [result.path for result in validate(data, only_shapes=shapes)] == [f"{EX}p"]
    ontology = rdflib.Graph().parse(
        data=f"<{EX}Fish> a <http://www.w3.org/2002/07/owl#Class> ; <{rdflib.RDFS.label}> 'fish' .", format="turtle"
    )
    files, _ = user_files([ontology], tmp_path / "fish_vocab.py")
    write(files)
    spec = importlib.util.spec_from_file_location("fish_vocab", tmp_path / "fish_vocab.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fish_vocab", module)
    spec.loader.exec_module(module)
    assert f"<{EX}Fish>" in rdf.ntriples(module.Fish(f"{EX}nemo")).decode()
