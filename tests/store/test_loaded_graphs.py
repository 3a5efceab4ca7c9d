"""Graphs that were loaded: listed, replaced and removed, without touching what runs recorded."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

import provml
from provml.errors import GraphNotFound, ProtectedGraph
from provml.store import Store

G = "http://example.org/g"
COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with provml.record("flowers", model="net", home=tmp_path / "home", run="monday") as run:
        raw = run.dataset(b"rose", name="rose.csv")
        with run.training(using=raw, learning_rate=0.1) as training:
            training.measured(loss=0.5)
    return tmp_path / "home"


def write(path: Path, body: str) -> Path:
    path.write_text(f"@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .\n{body}")
    return path


def count(store: Store) -> int:
    answer = store.query(COUNT)
    assert not isinstance(answer, bool)
    number: int = answer.rows[0][0]
    return number


def triples(store: Store) -> set[str]:
    return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def listed(store: Store) -> list[tuple[str | None, str, int]]:
    return [(item.graph, Path(item.source).name, item.triples) for item in store.graphs()]


def test_a_file_that_is_loaded_twice_is_one_graph(home: Path, tmp_path: Path):
    path = write(tmp_path / "a.ttl", "ex:a ex:knows [ ex:name 'B' ] .")
    with Store(home) as store:
        recorded = count(store)
        assert store.load(path) == store.load(path) == 2
        assert count(store) == recorded + 2
        assert store.load(path, graph=G) == store.load(path, graph=G) == 2
        assert listed(store) == [(None, "a.ttl", 2), (G, "a.ttl", 2)]
        store.rebuild()
        assert count(store) == recorded + 2
        assert store.verify() == []


def test_a_changed_file_replaces_what_it_had(home: Path, tmp_path: Path):
    path = write(tmp_path / "a.ttl", "ex:a ex:p 1, 2 .")
    other = write(tmp_path / "b.ttl", "ex:a ex:p 2 . ex:b ex:p 3 .")
    with Store(home) as store:
        recorded = count(store)
        store.load(path)
        store.load(other)
        write(path, "ex:a ex:p 4 .")
        assert store.load(path) == 1
        values = store.query("SELECT ?o { ?s <http://example.org/p> ?o } ORDER BY ?o")
        assert not isinstance(values, bool)
        assert [row[0] for row in values] == [2, 3, 4], "b.ttl still states 2"
        removed = store.unload("a.ttl", str(other))
        assert sorted(Path(item.source).name for item in removed) == ["a.ttl", "b.ttl"]
        assert count(store) == recorded
        assert store.graphs() == []


def test_replace_empties_the_graph_first(home: Path, tmp_path: Path):
    with Store(home) as store:
        store.load(write(tmp_path / "a.ttl", "ex:a ex:p 1 ."), graph=G)
        store.load(write(tmp_path / "b.ttl", "ex:b ex:p 1 ."), graph=G)
        assert listed(store) == [(G, "a.ttl", 1), (G, "b.ttl", 1)]
        store.load(write(tmp_path / "c.ttl", "ex:c ex:p 1 ."), graph=G, replace=True)
        assert listed(store) == [(G, "c.ttl", 1)]
        assert store.query(f"ASK {{ GRAPH <{G}> {{ <http://example.org/a> ?p ?o }} }}") is False
        store.unload(G)
        assert store.loaded_graphs() == []


def test_what_a_run_states_too_stays_when_a_file_is_unloaded(home: Path, tmp_path: Path):
    with Store(home) as store:
        before = triples(store)
        store.export("monday", tmp_path / "run.ttl")
        store.load(tmp_path / "run.ttl")
        plans = store.query("SELECT ?s ?t { ?s a ?t FILTER(!STRSTARTS(STR(?s), 'https://w3id.org/provml/run/')) }")
        assert not isinstance(plans, bool)
        shared = "\n".join(f"<{subject}> a <{kind}> ." for subject, kind in plans)
        store.load(write(tmp_path / "shared.ttl", f"{shared} ex:own ex:p 1 ."))
        store.unload("shared.ttl")
        assert triples(store) == before
        store.unload("default")
        assert triples(store) == before
        assert store.verify() == []


def test_unloading_removes_from_the_index_without_a_rebuild(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(home) as store:
        before = triples(store)
        store.load(write(tmp_path / "a.ttl", "ex:a a prov:Person ; ex:age 41.50 ; ex:knows ex:b ."))
        monkeypatch.setattr(Store, "_recreate_index", lambda *_: pytest.fail("the index was rebuilt"))
        store.unload("default")
        assert triples(store) == before


def test_a_file_with_graphs_of_its_own_is_unloaded_as_a_whole_or_by_graph(home: Path, tmp_path: Path):
    path = tmp_path / "a.trig"
    write(path, "ex:g { ex:a ex:p 1 } ex:h { ex:a ex:p 2 } ex:a ex:p 3 .")
    with Store(home) as store:
        store.load(path)
        assert [item[0] for item in listed(store)] == [None, G, "http://example.org/h"]
        store.unload("http://example.org/h")
        assert [item[0] for item in listed(store)] == [None, G]
        store.unload("a.trig")
        assert store.graphs() == store.loaded_graphs() == []


@pytest.mark.parametrize("graph", ["https://w3id.org/provml", "https://w3id.org/provml/run/monday"])
def test_graphs_of_provml_cannot_be_loaded_into(home: Path, tmp_path: Path, graph: str):
    path = write(tmp_path / "a.ttl", "ex:a ex:p 1 .")
    with Store(home) as store, pytest.raises(ProtectedGraph, match=r"Only loaded graphs can be changed"):
        store.load(path, graph=graph)


def test_a_name_that_was_not_loaded_is_an_error_that_lists_what_was(home: Path, tmp_path: Path):
    with Store(home) as store:
        with pytest.raises(GraphNotFound, match="Nothing was loaded here"):
            store.unload(G)
        store.load(write(tmp_path / "a.ttl", "ex:a ex:p 1 ."), graph=G)
        with pytest.raises(GraphNotFound, match=f"Loaded are: {G}"):
            store.unload("http://example.org/other")
