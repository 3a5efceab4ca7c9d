"""SPARQL updates: they change loaded graphs, never what runs recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

import provml
from provml.errors import ProtectedGraph, QueryError
from provml.store import Store
from provml.store.update_text import written_graphs

G = "http://example.org/g"
EX = "PREFIX ex: <http://example.org/> "


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("updates") / "home"
    with provml.record("flowers", home=home, run="monday") as run, run.training(learning_rate=0.1) as training:
        training.measured(loss=0.5)
    return home


@pytest.fixture
def store(recorded: Path) -> Iterator[Store]:
    with Store(recorded) as store:
        before = recorded_triples(store)
        yield store
        for item in {item.graph or "default" for item in store.graphs()}:
            store.unload(item)
        assert recorded_triples(store) == before


def recorded_triples(store: Store) -> set[str]:
    return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def test_an_update_writes_a_graph_of_ones_own_from_what_runs_recorded(store: Store):
    insert = f"{EX}INSERT {{ GRAPH ex:g {{ ?run ex:is 'good' }} }} WHERE {{ ?run provlake:status 'FINISHED' }}"
    change = store.update(insert)
    assert change.added > 0
    assert change.removed == 0
    assert store.update(insert) == (0, 0)
    assert store.query(f"ASK {{ GRAPH <{G}> {{ <https://w3id.org/provml/run/monday> ?p 'good' }} }}") is True
    assert [(item.graph, item.source) for item in store.graphs()] == [(G, "update")]
    store.rebuild()
    assert store.loaded_graphs() == [G]
    assert store.update(f"{EX}DELETE WHERE {{ GRAPH ex:g {{ ?s ?p ?o }} }}").removed == change.added


def test_a_file_keeps_its_name_when_an_update_changes_a_part_of_it(store: Store, tmp_path: Path):
    (tmp_path / "a.ttl").write_text("@prefix ex: <http://example.org/> . ex:a ex:p 1, '007', 'x'@en, [ ex:q 2 ] .")
    store.load(tmp_path / "a.ttl")
    assert store.update(f"{EX}DELETE {{ ?s ex:p 1 }} INSERT {{ ?s ex:p 3 }} WHERE {{ ?s ex:p 1 }}") == (1, 1)
    assert sorted((Path(item.source).name, item.triples) for item in store.graphs()) == [("a.ttl", 4), ("update", 1)]
    store.unload("a.ttl")
    rows = store.query(f"{EX}SELECT ?o {{ ?s ex:p ?o }}")
    assert not isinstance(rows, bool)
    assert rows.rows == [(3,)]
    assert store.load(tmp_path / "a.ttl") == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DELETE WHERE { ?run provlake:status ?status }", "would change what a run recorded"),
        ("DELETE { ?s ?p ?o } INSERT { GRAPH <urn:g> { ?s ?p ?o } } WHERE { ?s ?p ?o }", "what a run recorded"),
        (
            "INSERT DATA { GRAPH <https://w3id.org/provml> { <urn:a> <urn:b> 1 } }",
            "the graph <https://w3id.org/provml>",
        ),
        ("DELETE WHERE { GRAPH <https://w3id.org/provml> { ?s ?p ?o } }", "the graph <https://w3id.org/provml>"),
        ("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }", "the graph <https://w3id.org/provml>"),
    ],
)
def test_what_provml_wrote_cannot_be_changed(store: Store, text: str, message: str):
    with pytest.raises(ProtectedGraph, match=f"Not done: .*{message}.*Only loaded graphs can be changed"):
        store.update(text)
    assert store.graphs() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * { ?s ?p ?o }", "this is no update"),
        ("INSERT DATA { ex:a ex:b }", "Correct the update"),
        ("LOAD <http://127.0.0.1:9/x.ttl>", "another machine"),
        ("", "empty"),
    ],
)
def test_a_wrong_update_says_what_is_wrong(store: Store, text: str, message: str):
    with pytest.raises(QueryError, match=message):
        store.update(text)


def test_a_query_that_is_an_update_names_the_method(store: Store):
    with pytest.raises(QueryError, match=r"Use store\.update"):
        store.query("DROP ALL")
    store.update("INSERT DATA { <urn:a> <urn:b> 1 }")
    store.update("DROP ALL")
    assert store.graphs() == []


@pytest.mark.parametrize(
    ("text", "graphs"),
    [
        ("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:b> 1 ; <urn:c> 2 . } }", {"urn:g"}),
        (
            "PREFIX e: <urn:e:> INSERT { GRAPH e:g { ?s ?p ?o } } WHERE { ?s ?p ?o { SELECT * { ?s ?p ?o } } }",
            {"urn:e:g"},
        ),
        (
            "WITH <urn:g> DELETE { ?s ?p ?o } INSERT { ?s ?p 2 . GRAPH <urn:h> { ?s ?p 3 } } WHERE { ?s ?p ?o }",
            {"urn:g", "urn:h"},
        ),
        (
            "INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:b> 1 } } ; DELETE WHERE { GRAPH <urn:h> { ?s ?p ?o } }",
            {"urn:g", "urn:h"},
        ),
        ("INSERT DATA { <urn:a> <urn:b> 1 }", None),
        ("WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o } ; DELETE WHERE { ?s ?p ?o }", None),
        ("INSERT { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }", None),
        ("DELETE WHERE { GRAPH <urn:g> { ?s ?p ?o } ?s ?p 2 }", None),
        ("BASE <urn:x> INSERT DATA { GRAPH <g:> { <urn:a> <urn:b> 1 } }", None),
        ("CLEAR GRAPH <urn:g>", None),
        ("INSERT DATA { GRAPH <relative> { <urn:a> <urn:b> 1 } }", None),
    ],
)
def test_the_graphs_that_an_update_can_change_are_read_from_its_text(text: str, graphs: set[str] | None):
    assert written_graphs(text) == graphs
