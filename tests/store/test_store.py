"""The store: sync, query, add, export, remove and rebuild; no event is lost or indexed twice."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pyoxigraph as ox
import pytest
from journal_events import read_events

import provml
from provml import paths
from provml.errors import (
    FileFormatError,
    ForkedStore,
    HomeNotFound,
    InvalidIRI,
    NodeNotFound,
    QueryError,
    RunNotFound,
)
from provml.journal import reader
from provml.journal.events import decode, expand
from provml.model.values import IRI
from provml.rdf import parse_file
from provml.recording.run import Run
from provml.store import Store, checkpoint, siblings
from provml.store.compaction import Compaction
from provml.store.imports import TRANSACTION_BYTES
from provml.store.index import ONTOLOGY_GRAPH, Index, IndexLimits
from provml.store.run_status import RunStatusWriter
from provml.vocab import Persona, Study

ROOT = Path(__file__).parents[2]
EVERYTHING = "SELECT ?s ?p ?o { ?s ?p ?o }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    (tmp_path / "home" / "runs").mkdir(parents=True)
    return tmp_path / "home"


def record(home: Path, name: str = "flowers", **settings: Any) -> Run:
    return Run(name, home=home, strict=True, capture_environment=False, **settings)


def train(home: Path, epochs: int = 3, batches: int = 4, **settings: Any) -> str:
    with record(home, **settings) as run:
        raw = run.dataset(b"raw", name="raw", role="raw", about="http://example.org/kg/Flower", größe=3)
        with run.training(using=raw, lr=0.1) as training:
            for epoch in training.epochs(epochs):
                for batch in epoch.batches(range(batches)):
                    batch.measured(loss=1.0 / (batch.index + epoch.index))
                epoch.measured(loss=0.5, accuracy=float("nan"))
            training.adapted(lr=0.05, reason='a "quoted"\nreason')
            training.produced(b"model")
    return run.id


def quads(store: Store) -> set[str]:
    """Return the triples of the default graph."""
    return {str(q.triple) for q in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


# ---- opening


def test_opening_an_index_removes_the_logs_of_earlier_sessions(home: Path):
    train(home)
    for _ in range(3):
        with Store(home) as store:
            assert len(store.runs()) == 1
    logs = [path.name for path in (home / "index" / "store").iterdir() if path.name.startswith("LOG")]
    assert logs == ["LOG"]


# ---- queries


def test_select_ask_construct_and_describe_work_without_prefix_declarations(home: Path):
    run = train(home)
    with Store(home) as store:
        answer = store.query("SELECT ?n { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?n } ORDER BY ?n")
        assert answer.column("n") == [1, 2, 3]
        assert store.query("ASK { ?r a provml:LearningProcessExecution ; provlake:status 'FINISHED' }") is True
        assert store.query("ASK { ?r a mls:Nothing }") is False
        graph = store.query(
            "CONSTRUCT { ?r rdfs:seeAlso ?e } { ?r a prov:Activity ; provlake:wasDerivedFromWorkflow ?e }"
        )
        assert graph.columns == ["subject", "predicate", "object"]
        assert graph[0][0] == f"https://w3id.org/provml/run/{run}"
        assert len(store.query(f"DESCRIBE <https://w3id.org/provml/run/{run}>")) > 5


def test_an_undeclared_prefix_is_an_error_with_its_place(home: Path):
    with (
        Store(home) as store,
        pytest.raises(QueryError, match=r"at line 1, column 16: the prefix nope: is not declared"),
    ):
        store.query("SELECT ?x { ?x nope:y ?z }")


def test_a_declared_prefix_overrides_the_usual_one(home: Path):
    with Store(home) as store:
        answer = store.query("PREFIX prov: <http://example.org/> SELECT (STR(prov:x) AS ?a) ('rdfs:label' AS ?b) {}")
        assert answer.rows == [("http://example.org/x", "rdfs:label")]


@pytest.mark.parametrize(
    "sparql",
    ["SELEC", "SELECT ?x { ?x nope:y ?z }", "INSERT DATA { <urn:a:b> <urn:a:b> 1 }", "SELECT ?x { <no iri> ?p ?x }",
     "{" * 20000, "SELECT (" + "(" * 20000],
)  # fmt: skip
def test_invalid_sparql_is_a_clear_error(home: Path, sparql: str):
    with Store(home) as store, pytest.raises(QueryError, match=r"Invalid query[^.]*: .+\. [A-Z]"):
        store.query(sparql)


@pytest.mark.parametrize("sparql", ["", " \n", "# SELECT * {}", "BASE <urn:a:> PREFIX ex: <urn:b#> # SELECT * {}\n"])
def test_an_empty_query_is_an_error(home: Path, sparql: str):
    with Store(home) as store, pytest.raises(QueryError, match=r"the query is empty\. Pass one such as SELECT"):
        store.query(sparql)


def test_the_ontologies_are_in_a_named_graph(home: Path):
    ask = "ASK { GRAPH <https://w3id.org/provml> { provml:TrainingEpochExecution rdfs:subClassOf ?c } }"
    with Store(home) as store:
        assert store.query(ask) is True
        assert quads(store) == set()
        with Store(home) as second:
            assert second.index_folder is None
            assert second.query(ask) is True


def test_a_thing_is_read_back_by_its_iri(home: Path):
    run = train(home)
    with Store(home) as store:
        assert store.read(f"https://w3id.org/provml/run/{run}").status == "FINISHED"
        with pytest.raises(NodeNotFound):
            store.read("http://example.org/nothing")


# ---- adding and loading


def test_added_things_survive_a_rebuild(home: Path):
    study = Study(IRI("http://example.org/s"), label="Spring", was_attributed_to=Persona(IRI("http://example.org/p")))
    with Store(home) as store:
        store.add(study)
        assert store.read("http://example.org/s") == study.replace(was_attributed_to=IRI("http://example.org/p"))
        assert store.query("ASK { <http://example.org/p> a prov:Agent }") is True
        before = quads(store)
        store.rebuild()
        assert quads(store) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ttl", "@prefix e: <http://example.org/> . e:a e:b [ e:c 1 ] ."),
        (
            "a.nt",
            "<http://example.org/a> <http://example.org/b> _:x .\n_:x <http://example.org/c> '1' .\n".replace("'", '"'),
        ),
        ("a.nq", '<http://example.org/a> <http://example.org/b> "c" <http://example.org/g> .\n'),
        ("a.trig", "@prefix e: <http://example.org/> . e:g { e:a e:b e:c } e:d e:e e:f ."),
        ("a.jsonld", '{"@id": "http://example.org/a", "http://example.org/b": [1, 2]}'),
        ("A.TTL", "<http://example.org/a> <http://example.org/b> 1 ."),
    ],
)
def test_loaded_rdf_files_survive_a_rebuild(home: Path, tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    with Store(home) as store:
        count = store.load(tmp_path / name)
        assert count > 0
        everything = {str(q) for q in store.graph() if q.graph_name != ONTOLOGY_GRAPH}
        assert len(everything) == count
        (home / "index" / "progress").unlink()
        store.rebuild()
        assert {str(q) for q in store.graph() if q.graph_name != ONTOLOGY_GRAPH} == everything
        assert not list(home.glob("added/*.part"))


def test_a_file_can_be_loaded_into_a_graph(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text("<http://example.org/a> <http://example.org/b> 1 .")
    with Store(home) as store:
        store.load(tmp_path / "a.ttl", graph="http://example.org/g")
        assert quads(store) == set()
        assert store.query("ASK { GRAPH <http://example.org/g> { ?s ?p 1 } }") is True
        with pytest.raises(InvalidIRI):
            store.load(tmp_path / "a.ttl", graph="no iri")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "unknown extension '.txt'"),
        ("a.ttl", "<http://example.org/a> <http://example.org/b> 1 .\n<http://example.org/a> nope", r"a\.ttl:2: "),
        ("a.jsonld", "{", r"a\.jsonld:"),
        ("gone.ttl", None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_an_error_and_stores_nothing(
    home: Path, tmp_path: Path, name: str, text: str | None, message: str
):
    if text is not None:
        (tmp_path / name).write_text(text)
    with Store(home) as store:
        with pytest.raises(FileFormatError, match=message):
            store.load(tmp_path / name)
        assert quads(store) == set()
        assert not list(home.glob("added/*"))


NESTED_ENTITIES = (
    '<!DOCTYPE r:RDF [<!ENTITY e0 "xxxxxxxxxx">'
    + "".join(f'<!ENTITY e{level} "{"".join([f"&e{level - 1};"] * 10)}">' for level in range(1, 8))
    + ']><r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="urn:a:">'
    + "<a:N><a:p>&e7;</a:p></a:N></r:RDF>"
)
TRIPLE_TERMS = "<urn:a:s> <urn:a:p> " + "<<( <urn:a:s> <urn:a:p> " * 20_000 + "1" + " )>>" * 20_000 + " .\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rdf", NESTED_ENTITIES),
        ("a.jsonld", '{"urn:a:b":' * 4000 + "1" + "}" * 4000),
        ("a.nt", TRIPLE_TERMS.replace(" 1 ", ' "1" ')),
        ("a.ttl", TRIPLE_TERMS),
        ("b.nt", f'<urn:a:s> <urn:a:p> "{"x" * 30_000_000}" .\n'),
    ],
)
def test_a_hostile_file_is_refused_and_the_home_stays_as_it_was(home: Path, tmp_path: Path, name: str, text: str):
    train(home)
    (tmp_path / name).write_text(text)
    with Store(home) as store:
        graph, files = quads(store), sorted(path for path in home.rglob("*") if "index" not in path.parts)
        with pytest.raises(FileFormatError, match=f"{name}: "):
            store.load(tmp_path / name)
        assert sorted(path for path in home.rglob("*") if "index" not in path.parts) == files
        assert quads(store) == graph
        assert store.problems == store.verify() == []


def test_a_thing_with_a_text_that_cannot_be_indexed_is_refused(home: Path):
    with Store(home) as store:
        with pytest.raises(FileFormatError, match=r"longer than 16 MiB\. Nothing was added\."):
            store.add(Study(IRI("http://example.org/s"), label="x" * 17_000_000))
        assert quads(store) == set()
        assert not (home / "added").exists()


def test_a_file_whose_quads_take_too_much_space_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.ttl").write_text(f"@prefix a: <urn:a:{'x' * 1000}> . {'a:a a:b a:c . ' * 1000}")
    limits = parse_file.limits_for(0)._replace(output_bytes=100_000)
    monkeypatch.setattr(parse_file, "limits_for", lambda size: limits)
    with Store(home) as store, pytest.raises(FileFormatError, match="its quads take more than"):
        store.load(tmp_path / "a.ttl")
    assert not (home / "added").exists()


@pytest.mark.parametrize(
    "text", [TRIPLE_TERMS.replace(" 1 ", ' "1" '), f'<urn:a:s> <urn:a:p> "{"x" * 17_000_000}" .\n']
)
def test_a_hostile_file_in_a_home_is_skipped_and_reported(home: Path, text: str):
    run = train(home)
    (home / "added").mkdir()
    (home / "added" / "20200101-x.nq").write_text(text)
    with Store(home) as store:
        assert [info.id for info in store.runs()] == [run]
        assert [problem.file for problem in store.problems] == ["added/20200101-x.nq"]
        assert store.verify() == store.problems


# ---- runs


def test_runs_are_sorted_latest_first_and_found_by_a_part_of_their_id(home: Path):
    first, second = train(home, name="a"), train(home, name="b", model="m")
    with Store(home) as store:
        assert [info.id for info in store.runs()] == [second, first]
        info = store.run("latest")
        assert (info.id, info.name, info.model, info.status, info.writers) == (second, "b", "m", "FINISHED", 1)
        assert info.seconds is not None
        assert info.seconds >= 0
        assert store.run(first).id == store.run(first[-6:]).id == store.run(info.iri.replace(second, first)).id == first
        with pytest.raises(RunNotFound) as caught:
            store.run(first[:8])
        assert caught.value.ambiguous
        assert set(caught.value.suggestions) == {first, second}


def test_an_unknown_run_is_an_error_with_suggestions(home: Path):
    run = train(home)
    with Store(home) as store:
        for wrong in (run[:-1] + "x" + run[-1], "nothing", ""):
            with pytest.raises(RunNotFound) as caught:
                store.run(wrong)
            assert caught.value.suggestions == (run,)
            assert not caught.value.ambiguous
            assert ("Did you mean" in str(caught.value)) == wrong.startswith(run[:8])
            assert (f"Available: {run}." in str(caught.value)) != wrong.startswith(run[:8])
    with Store(home) as store, pytest.raises(RunNotFound, match=r"^No run 3\.5\. Available: "):
        store.run(3.5)  # type: ignore[arg-type]
    with Store(home / "empty", create=True) as store, pytest.raises(RunNotFound, match="no run is recorded here yet"):
        store.run("latest")


def test_a_failed_run_has_its_error(home: Path):
    with pytest.raises(ValueError), record(home) as run, run.training():
        raise ValueError("no more memory")
    with Store(home) as store:
        info = store.run("latest")
        assert (info.status, info.error) == ("FAILED", "ValueError: no more memory")
        rows = store.query(
            """SELECT ?type ?message { ?run a provml:LearningProcessExecution ;
               provlake:exceptionType ?type ; provlake:exceptionMessage ?message }"""
        )
        assert rows.rows == [("ValueError", "no more memory")]


# ---- exporting


@pytest.mark.parametrize("form", ["nt", "nq", "ttl", "trig", "rdf", "jsonld"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_export_can_be_loaded_again(home: Path, form: str, whole: bool):
    run = train(home)
    with Store(home) as store:
        plain, out = io.BytesIO(), io.BytesIO()
        count = store.export(None if whole else run, plain, "nt")
        assert store.export(None if whole else run, out, form) == count
        back = ox.Dataset(ox.parse(out.getvalue(), ox.RdfFormat.from_extension(form)))
        wanted = ox.Dataset(ox.parse(plain.getvalue(), ox.RdfFormat.N_TRIPLES))
        assert back == wanted
        assert len(back) == count


def _canonical(dataset: ox.Dataset) -> ox.Store:
    store = ox.Store()
    store.extend(dataset)
    return store


def test_the_export_of_the_only_run_equals_the_export_of_the_store(home: Path):
    train(home)
    with Store(home) as store:
        run, whole = io.BytesIO(), io.BytesIO()
        store.export("latest", run, "nt")
        store.export(None, whole, "nt")
        assert {str(t) for t in _canonical(ox.Dataset(ox.parse(run.getvalue(), ox.RdfFormat.N_TRIPLES)))} == {
            str(t) for t in _canonical(ox.Dataset(ox.parse(whole.getvalue(), ox.RdfFormat.N_TRIPLES)))
        }


def test_json_ld_uses_the_context_and_keeps_unknown_terms(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text(
        """@prefix e: <http://example.org/> . @prefix provml: <https://w3id.org/provml#> .
        e:a e:b "x"@en , "y"@de , true , 1.5 , "2020"^^<http://www.w3.org/2001/XMLSchema#gYear> , [ e:c e:d ] ;
          provml:sectionIndex "three" ; a e:Unknown , provml:Model ."""
    )
    with Store(home) as store:
        count = store.load(tmp_path / "a.ttl")
        out = io.BytesIO()
        store.export(None, out, "jsonld")
        document = json.loads(out.getvalue())
        assert document["@context"] == json.loads((paths.ontologies() / "context.jsonld").read_text())["@context"]
        (node,) = [node for node in document["@graph"] if node["id"] == "http://example.org/a"]
        assert set(node["type"]) == {"http://example.org/Unknown", "Model"}
        back = ox.Dataset(ox.parse(out.getvalue(), ox.RdfFormat.JSON_LD))
        assert len(back) == count
        back.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
        wanted = ox.Dataset(store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph()))
        wanted.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
        assert back == wanted


def test_formats_with_named_graphs_keep_loaded_graphs_and_omit_the_ontologies(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text("<http://example.org/a> <http://example.org/b> 1 .")
    with Store(home) as store:
        store.load(tmp_path / "a.ttl", graph="http://example.org/g")
        for form, count in (("nq", 1), ("trig", 1), ("nt", 0)):
            out = io.BytesIO()
            assert store.export(None, out, form) == count
            assert (b"example.org/g" in out.getvalue()) is bool(count)


def test_rdf_xml_replaces_characters_that_xml_cannot_hold(home: Path, caplog: pytest.LogCaptureFixture):
    with record(home) as run, pytest.raises(RuntimeError), run.training():
        raise RuntimeError("\x1b[31mred\x1b[0m \ufffe\tend")
    exports = {}
    with Store(home) as store:
        for form in ("rdf", "ttl"):
            file = io.BytesIO()
            store.export(None, file, form)
            exports[form] = file.getvalue()
    ElementTree.fromstring(exports["rdf"])
    assert "\ufffd[31mred\ufffd[0m \ufffd\tend" in exports["rdf"].decode()
    exact = {
        quad.object.value
        for quad in ox.parse(exports["ttl"], ox.RdfFormat.TURTLE)
        if isinstance(quad.object, ox.Literal)
    }
    assert any("\x1b[31mred\x1b[0m \ufffe\tend" in text for text in exact)
    assert "RDF/XML cannot hold" in caplog.text
    assert len(caplog.records) == 1


def test_rdf_xml_keeps_carriage_returns(home: Path):
    text = "10 %\r100 %\r\ndone\n"
    with record(home) as run:
        run.step("report", progress=text).done()
    file = io.BytesIO()
    with Store(home) as store:
        store.export(None, file, "rdf")
    quads = ox.parse(file.getvalue(), ox.RdfFormat.RDF_XML)
    assert text in {quad.object.value for quad in quads if isinstance(quad.object, ox.Literal)}


def test_an_unknown_export_format_is_an_error(home: Path):
    with Store(home) as store, pytest.raises(FileFormatError, match=r"unknown format 'xls'. Did you mean xlsx"):
        store.export(None, io.BytesIO(), "xls")


# ---- the index is never the only copy


def test_a_deleted_or_rebuilt_index_has_the_same_graph(home: Path):
    train(home)
    with Store(home) as store:
        before = quads(store)
        events = store.rebuild()
        assert events == store.run("latest").events
        assert quads(store) == before
    shutil.rmtree(home / "index")
    with Store(home) as store:
        assert quads(store) == before


@pytest.mark.parametrize("wreck", ["CURRENT", "progress", "sst", "made"])
def test_a_corrupt_index_is_rebuilt_automatically(home: Path, wreck: str):
    train(home, batches=300)
    with Store(home) as store:
        before = quads(store)
        store.snapshot()
    index = home / "index"
    if wreck == "CURRENT":
        (index / "store" / "CURRENT").write_text("MANIFEST-999999\n")
    elif wreck == "progress":
        (index / "progress").write_bytes(b"\xc1")
    elif wreck == "made":
        saved = checkpoint.read(index / "progress")
        saved.fingerprint = "0.0.1 of old"
        checkpoint.write(index / "progress", checkpoint.encode(saved))
    else:
        for path in (index / "store").glob("*.sst"):
            path.unlink()
    with Store(home) as store:
        assert quads(store) == before


def test_a_run_whose_journals_were_deleted_disappears_from_the_index(home: Path):
    remaining, removed = train(home, name="a"), train(home, name="b")
    with Store(home) as store:
        assert len(store.runs()) == 2
        shutil.rmtree(home / "runs" / removed)
        assert [info.id for info in store.runs()] == [remaining]
        assert store.query(f"ASK {{ <https://w3id.org/provml/run/{removed}> ?p ?o }}") is False


def test_removing_a_run_keeps_statements_of_other_runs(home: Path):
    remaining, removed = train(home, name="a", by="alice"), train(home, name="b", by="alice")
    with Store(home) as store:
        before = quads(store)
        assert store.remove(removed).id == removed
        assert quads(store) < before
        assert not any(removed in triple or "/plan/b" in triple for triple in quads(store))
        assert store.query("ASK { ?d provlake:sha256 ?hash ; a provml:LearningDataset }") is True
        assert [info.id for info in store.runs()] == [remaining]
        assert sorted(path.name for path in home.iterdir()) == ["index", "runs", "seals"]
        with pytest.raises(RunNotFound):
            store.remove(removed)


def test_an_active_run_cannot_be_removed(home: Path):
    with record(home) as run, Store(home) as store:
        with pytest.raises(FileFormatError, match="still running"):
            store.remove(run.id)
        assert store.run(run.id).status == "RUNNING"


def test_a_run_cannot_be_removed_while_one_of_its_processes_is_active(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, run="r")
    monkeypatch.setenv("RANK", "1")
    with record(home, run="r") as second, second.training() as training, Store(home) as store:
        assert store.run("r").status == "FINISHED"
        with pytest.raises(FileFormatError, match=r"rank-1\.jsonl: the run is still running"):
            store.remove("r")
        training.measured(loss=1.0)
    with Store(home) as store:
        assert store.remove("r").writers == 2


def test_several_runs_are_removed_together_or_not_at_all(home: Path, monkeypatch: pytest.MonkeyPatch):
    for name in "abc":
        train(home, run=name)
    with record(home, run="live"), Store(home) as store:
        for wrong in ("nope", "live"):
            with pytest.raises((RunNotFound, FileFormatError)):
                store.remove_all(["a", wrong])
            assert len(store.runs()) == 4
        recreated = []
        recreate = Index.recreate
        monkeypatch.setattr(
            Index, "recreate", lambda index, *damage: recreated.append(index) or recreate(index, *damage)
        )
        assert [info.id for info in store.remove_all(["c", "a", "a"])] == ["c", "a"]
        assert {info.id for info in store.runs()} == {"b", "live"}
        assert not recreated, "the index was rebuilt"


def test_a_backup_has_the_questions_and_shapes_of_its_home(home: Path, tmp_path: Path):
    train(home)
    for name in ("queries/own.rq", "shapes/deep/own.ttl"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("mine")
    with Store(home) as store:
        store.backup(tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["queries", "runs", "seals", "shapes"]
    assert (tmp_path / "copy" / "shapes" / "deep" / "own.ttl").read_text() == "mine"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_failed_backup_leaves_nothing_and_can_be_repeated(home: Path, tmp_path: Path, is_there: bool):
    train(home)
    unreadable(home)
    copy = tmp_path / "deep" / "copy"
    if is_there:
        (copy / "killed.part" / "runs").mkdir(parents=True)
    with Store(home) as store:
        with pytest.raises(FileFormatError, match="cannot be copied"):
            store.backup(copy)
        assert not list(copy.glob("runs"))
        shutil.rmtree(home / "runs" / "unreadable")
        store.backup(copy)
        with Store(copy) as copied:
            assert quads(copied) == quads(store)


def test_a_backup_of_an_active_run_is_a_complete_home(home: Path, tmp_path: Path):
    train(home)
    with record(home, "b") as run, run.training() as training, Store(home) as store:
        training.measured(loss=1.0)
        store.add(Study(IRI("http://example.org/s"), label="Spring"))
        before = quads(store)
        store.backup(tmp_path / "copy")
        with Store(tmp_path / "copy") as copy:
            assert quads(copy) == before
            assert copy.verify() == []
        with pytest.raises(FileFormatError, match="the folder is not empty"):
            store.backup(tmp_path / "copy")


def test_verify_finds_no_problems_in_intact_journals(home: Path):
    train(home)
    with Store(home) as store:
        assert store.verify() == []
        assert store.problems == []


# ---- damaged files


def unreadable(home: Path) -> Path:
    """Make a journal unreadable for every user."""
    path = home / "runs" / "unreadable" / "main.jsonl"
    path.parent.mkdir(parents=True)
    path.symlink_to("/proc/self/mem")
    return path


@pytest.mark.parametrize("end", ['{"e":"end","t":1e300}', '{"e":"end","t":1.0,"status":"FINISHEX"}'])
def test_an_impossible_end_event_is_a_damaged_line(home: Path, end: str):
    good, bad = train(home, name="good"), train(home, name="bad")
    path = home / "runs" / bad / "main.jsonl"
    rewrite(path, born=1)
    lines = len(path.read_bytes().splitlines())
    with path.open("a") as file:
        file.write(f"{end}\n")
    with Store(home) as store:
        assert {info.id: info.status for info in store.runs()} == {good: "FINISHED", bad: "KILLED"}
        assert [(p.file, p.line) for p in store.problems] == [(f"runs/{bad}/main.jsonl", lines + 1)]


def test_a_run_with_an_impossible_start_time_is_indexed_without_it(home: Path):
    run = train(home)
    rewrite(home / "runs" / run / "main.jsonl", ends=True, t=1e300)
    with Store(home) as store:
        assert store.run(run).started.year == 1970
        assert [p.line for p in store.problems] == [1]
        assert len(store.query("SELECT ?e { ?e a provml:TrainingEpochExecution }")) == 3


def test_an_unreadable_journal_is_a_problem_and_the_others_are_indexed(home: Path):
    run = train(home)
    path = unreadable(home)
    with Store(home) as store:
        for _ in range(2):
            assert [info.id for info in store.runs()] == [run]
            assert [(p.file, p.line) for p in store.problems] == [("runs/unreadable/main.jsonl", 0)]
        assert store.verify() == store.problems
        path.unlink()
        path.write_bytes((home / "runs" / run / "main.jsonl").read_bytes())
        assert len(store.runs()) == 2
        assert store.problems == []


def test_events_before_a_disk_failure_are_indexed(home: Path, monkeypatch: pytest.MonkeyPatch):
    run = train(home)
    read, path = reader.read_lines, home / "runs" / run / "main.jsonl"

    def failing(path: Path, offset: int = 0, number: int = 0, **options: Any) -> Any:
        for line in read(path, offset, number, **options):
            if line[1] > 10:
                raise OSError(5, "Input/output error")
            yield line

    with Store(home) as store:
        with monkeypatch.context() as patched:
            patched.setattr(reader, "read_lines", failing)
            assert store.run(run).events == sum(
                1 for _, _, line in islice(read(path), 10) for _ in expand(decode(line))
            )
            assert [p.reason for p in store.problems] == ["input/output error"]
        live = quads(store)
        assert store.problems == []
        store.rebuild()
        assert quads(store) == live


def test_folders_and_broken_links_are_not_journals(home: Path):
    run = train(home)
    (home / "runs" / run / "folder.jsonl").mkdir()
    (home / "runs" / run / "dangling.jsonl").symlink_to(home / "nowhere")
    with Store(home) as store:
        store.sync()
        backend = store.backend
        store.sync()
        assert store.backend is backend
        assert store.run(run).writers == 1
        assert store.problems == []


@pytest.mark.parametrize("size", [1, TRANSACTION_BYTES])
def test_a_damaged_imported_file_is_skipped_and_reported(home: Path, size: int):
    train(home)
    line = b'<http://example.org/a> <http://example.org/p> "%d" .\n'
    whole = b"".join(line % number for number in range(size // len(line) + 10))
    with Store(home) as store:
        before = quads(store)
        store.add(Study(IRI("http://example.org/s"), label="Spring"))
        path = home / "added" / "20200101-x.nq"
        path.write_bytes(whole + b"\0" * 100)
        for _ in range(2):
            assert len(quads(store)) == len(before) + len(store.query("DESCRIBE <http://example.org/s>"))
            assert [(p.file, p.line) for p in store.problems] == [("added/20200101-x.nq", whole.count(b"\n") + 1)]
        assert store.verify() == store.problems
        path.write_bytes(whole)
        assert store.problems == []
        assert len(store.query("SELECT ?o { <http://example.org/a> ?p ?o }")) == whole.count(b"\n")


def test_an_imported_file_is_synced_to_the_disk(home: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[Path] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink())
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    with Store(home) as store:
        store.add(Study(IRI("http://example.org/s"), label="Spring"))
    assert [path.suffix or path.name for path in synced] == [".part", "added"]


LIMITED = """
import resource, sys
from provml.store import Store, index

limit, most, when, large, home = sys.argv[1:]
index.LARGE = int(large)
def set_limit():
    resource.setrlimit(getattr(resource, limit), (int(most),) * 2)

if when == "before":
    set_limit()
with Store(home) as store:
    if when == "after":
        store.sync()
        set_limit()
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(2):
        print(len(store.runs()), len(store.query("SELECT ?e { ?e a provml:TrainingEpochExecution }")), flush=True)
"""


@pytest.mark.parametrize("limit", [("RLIMIT_FSIZE", "64"), ("RLIMIT_NOFILE", "40")])
@pytest.mark.parametrize(("when", "large"), [("before", "1000000"), ("after", "1000000"), ("after", "1000")])
def test_queries_work_if_the_index_cannot_be_written(home: Path, limit: tuple[str, str], when: str, large: str):
    train(home)
    with Store(home) as store:
        store.sync()
    identity = (home / "index" / "store" / "IDENTITY").read_text()
    command = [sys.executable, "-c", LIMITED, *limit, when, large, str(home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        train(home, epochs=4, name="later")
        out, err = process.communicate("go\n")
    assert out.splitlines() == ["2 7", "2 7"], err
    assert process.returncode == 0
    assert (home / "index" / "store" / "IDENTITY").read_text() == identity, "an index that is whole was thrown away"


# ---- incremental sync


def test_a_killed_run_is_sealed_and_read_from_the_start_if_it_continues(home: Path):
    run = train(home)
    path = home / "runs" / run / "main.jsonl"
    rewrite(path, born=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]) + b"\0" * 100)
    with Store(home) as store:
        assert store.run(run).status == "KILLED"
        (journal,) = store._index.checkpoint.journals.values()
        assert (journal.line_number, journal.state.sections, journal.state.artifacts) == (len(lines) - 3, {}, {})
        os.utime(path)
        assert store.sync() == 0
        path.write_bytes(b"".join(lines))
        assert store.sync() == len(read_events(path))
        live = quads(store)
        store.rebuild()
        assert quads(store) == live


def rank(home: Path, number: int, monkeypatch: pytest.MonkeyPatch, name: str, **settings: Any) -> Path:
    """Record one process of a distributed training and return its journal."""
    monkeypatch.setenv("RANK", str(number))
    with record(home, name, run="shared", **settings) as run, run.training() as training:
        training.measured(loss=1.0)
    return home / "runs" / "shared" / ("main.jsonl" if number == 0 else f"rank-{number}.jsonl")


WORKFLOW = """
name: x
attributes:
  loss: {kind: measure, direction: maximize}
transformations:
  training: {kind: training, outputs: [loss]}
"""


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_order_in_which_journals_appear_does_not_change_the_graph(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
):
    (tmp_path / "x.yaml").write_text(WORKFLOW)
    with Store(home) as store:
        path = rank(home, 1, monkeypatch, "x-rank-1")
        if is_gone:
            rewrite(path, ends=True, born=1)
        assert len(store.runs()) == is_gone  # the journal of a live process waits for the first journal
        rank(home, 0, monkeypatch, "x", workflow=tmp_path / "x.yaml")
        rank(home, 2, monkeypatch, "x-rank-2")
        assert [(info.name, info.writers) for info in store.runs()] == [("x", 3)]
        live = quads(store)
        assert not any("x-rank" in triple for triple in live)
        store.rebuild()
        assert quads(store) == live


def test_a_journal_waits_for_the_workflow_of_the_first_journal(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "x.yaml").write_text(WORKFLOW)
    main = rank(home, 0, monkeypatch, "x", workflow=tmp_path / "x.yaml")
    content = main.read_bytes()
    main.write_bytes(content[: content.index(b"\n") + 1])
    rank(home, 1, monkeypatch, "x")
    with Store(home) as store:
        assert store.run("shared").writers == 1
        main.write_bytes(content)
        assert store.run("shared").writers == 2
        live = quads(store)
        store.rebuild()
        assert quads(store) == live


def test_a_run_without_a_main_journal_is_indexed_and_looked_up_once(home: Path, monkeypatch: pytest.MonkeyPatch):
    first = rank(home, 1, monkeypatch, "x")
    for number in range(2, 21):
        shutil.copy(first, first.with_name(f"rank-{number}.jsonl"))
        rewrite(first.with_name(f"rank-{number}.jsonl"), ends=True, writer=f"rank-{number}", born=1)
    rewrite(first, ends=True, born=1)
    looked = []
    words = siblings.read_first_events
    monkeypatch.setattr(siblings, "read_first_events", lambda path: looked.append(path) or words(path))
    with Store(home) as store:
        assert store.run("shared").writers == 20
    assert len(looked) <= 40


def test_a_query_during_a_run_sees_the_events_so_far(home: Path):
    count = "SELECT (COUNT(?e) AS ?n) { ?e a provml:TrainingEpochExecution }"
    with Store(home) as store, record(home) as run, run.training() as training:
        for number, _ in enumerate(training.epochs(4), 1):
            assert store.query(count)[0] == (number,)
    with Store(home) as store:
        by_and_by = quads(store)
        store.rebuild()
        assert quads(store) == by_and_by


def test_a_store_survives_a_change_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    train(Path("lab"))
    with Store("lab") as store:
        monkeypatch.chdir("elsewhere")
        train(Path("lab"))  # another home of the same relative path
        assert len(store.runs()) == 1
        train(tmp_path / "lab", name="later")
        with Store("lab") as other:
            assert not other.is_private
            assert [run.name for run in other.runs()] == ["flowers"]
        assert len(store.runs()) == 2
        store.rebuild()
        assert store.verify() == []


def test_an_interrupted_sync_loses_nothing(home: Path):
    train(home, epochs=20, batches=200)
    train(home, epochs=20, batches=200)
    with Store(home, limits=IndexLimits(transaction_bytes=1000, chunk_bytes=100_000)) as store:
        loaded = 0

        def stop(events: int) -> None:
            nonlocal loaded
            loaded += events
            if loaded > 5000:
                raise KeyboardInterrupt

        with pytest.raises(BaseException):  # noqa: B017  # the engine hands on what its reader raised
            store.sync(stop)
        by_pieces = quads(store)
    shutil.rmtree(home / "index")
    with Store(home) as store:
        assert quads(store) == by_pieces


def test_a_pending_compaction_is_done_by_the_next_process(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, epochs=20, batches=200)
    limits = IndexLimits(transaction_bytes=1000, compact_min_bytes=0)

    marker = home / "index" / "uncompacted"
    with monkeypatch.context() as ending:
        ending.setattr(RunStatusWriter, "update", lambda *args: sys.exit("the end"))
        with pytest.raises(SystemExit), Store(home, limits=limits) as store:
            store.sync()
    assert marker.exists()
    files = {path.name for path in (home / "index" / "store").glob("*.sst")}
    with Store(home) as store:
        store.sync()
    assert not marker.exists()
    assert files - {path.name for path in (home / "index" / "store").glob("*.sst")}  # they were merged into others


@pytest.fixture
def slow_compaction(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Keep compactions waiting until the event is set."""
    goes_on, run = threading.Event(), Compaction._run

    def wait(self: Compaction, store: ox.Store) -> None:
        goes_on.wait(30)
        run(self, store)

    monkeypatch.setattr(Compaction, "_run", wait)
    yield goes_on
    goes_on.set()


EAGER_COMPACTION = IndexLimits(transaction_bytes=1000, compact_min_bytes=0)
COMPACTING = """
    import os, sys, threading, time, traceback
    from provml.store import Store
    from provml.store.compaction import Compaction
    from provml.store.index import IndexLimits

    goes_on, run = threading.Event(), Compaction._run
    Compaction._run = lambda self, store: goes_on.wait() and run(self, store)
    store = Store(sys.argv[1], limits=IndexLimits(transaction_bytes=1000, compact_min_bytes=0))
    store.sync()
"""


def during_a_compaction(home: Path, code: str) -> str:
    """Return the output of code in a process whose `store` is compacted once `goes_on` is set."""
    program = textwrap.dedent(COMPACTING) + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(home)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_syncs_and_questions_go_on_during_a_compaction(home: Path, slow_compaction: threading.Event):
    train(home, epochs=20, batches=200)
    with Store(home, limits=EAGER_COMPACTION) as store:
        store.sync()
        assert store.is_compacting
        assert len(store.runs()) == 1
        train(home, name="later")
        assert len(store.runs()) == 2
        before = quads(store)
        position = store.position
        slow_compaction.set()
        while store.is_compacting:
            time.sleep(0.01)
        store.sync()
        assert not (home / "index" / "uncompacted").exists()
        assert store.position == position
        assert quads(store) == before
        files = {path.name for path in (home / "index" / "store").glob("*.sst")}
        (snapshot,) = (home / "index" / "snapshot").iterdir()  # of the merged files, for those who read meanwhile
        assert {path.name for path in (snapshot / "store").glob("*.sst")} == files
        with Store(home) as second:
            assert second.is_private
            assert quads(second) == before


def test_closing_a_store_waits_for_its_compaction(home: Path, slow_compaction: threading.Event):
    train(home, epochs=20, batches=200)
    store = Store(home, limits=EAGER_COMPACTION)
    store.sync()
    before = quads(store)
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    slow_compaction.set()
    closing.join(30)
    assert not (home / "index" / "uncompacted").exists()
    with Store(home) as store:
        assert not store.is_private
        assert quads(store) == before


def test_a_store_whose_closing_was_interrupted_is_still_compacted(home: Path):
    train(home, epochs=20, batches=200)
    code = """
        import signal

        def interrupt():
            while "close" not in functions_of(threading.main_thread().ident):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        def functions_of(thread):
            frames = traceback.extract_stack(sys._current_frames()[thread])
            return [frame.name for frame in frames]

        try:
            threading.Thread(target=interrupt).start()
            store.close()
        except KeyboardInterrupt:
            print(store.is_compacting)
        threading.Timer(0.3, goes_on.set).start()
        store.close()
        with Store(sys.argv[1]) as store:
            print(store.is_private)
        """
    assert during_a_compaction(home, code).split() == ["True", "False"]
    assert not (home / "index" / "uncompacted").exists()


def test_an_index_is_replaced_during_a_compaction(home: Path, slow_compaction: threading.Event):
    train(home, epochs=20, batches=200)
    with Store(home, limits=EAGER_COMPACTION) as store:
        store.sync()
        before = quads(store)
        threading.Timer(0.3, slow_compaction.set).start()
        store.rebuild()
        assert quads(store) == before


def test_an_index_is_not_compacted_on_a_disk_without_space_for_it(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, epochs=20, batches=200)
    marker = home / "index" / "uncompacted"
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000))
        with Store(home, limits=EAGER_COMPACTION) as store:
            store.sync()
            assert not store.is_compacting
            assert not store.is_private
            before = quads(store)
    assert marker.exists()
    with Store(home) as store:
        assert quads(store) == before
    assert not marker.exists()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 150 MB; where none may be mounted, a folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    try:
        yield folder
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def no_space(disk: Path) -> Iterator[None]:
    """Fill a disk; where none may be mounted, forbid large files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if disk.is_mount():
        with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        (disk / "filler").unlink(missing_ok=True)


def test_a_disk_that_fills_up_during_a_compaction_is_noticed(
    tmp_path: Path, slow_compaction: threading.Event, caplog: pytest.LogCaptureFixture
):
    with small_disk(tmp_path / "disk") as disk:
        home = disk / "home"
        marker = home / "index" / "uncompacted"
        for number in range(3):
            train(home, epochs=20, batches=200, name=f"run {number}")
            with Store(home, limits=replace(EAGER_COMPACTION, compact_min_bytes=1 << 40)) as store:
                store.sync()  # a file of its own for each
        with Store(home) as store:
            store._index.mark_uncompacted()
            store.sync()
            assert store.is_compacting
            with no_space(disk):
                slow_compaction.set()
                while store.is_compacting:
                    time.sleep(0.01)
                store.sync()
                assert marker.exists()
                assert "could not be compacted" in caplog.text
                before = quads(store)
            train(home, name="later")
            assert len(store.runs()) == 4
            assert quads(store) > before
            assert marker.exists()  # it is not tried again at once
            expected = quads(store)
        with Store(home) as store:
            store.sync()
            assert quads(store) == expected
            assert not store.verify()
        assert not marker.exists()


def test_a_private_index_is_not_compacted(home: Path):
    with Store(home):
        train(home, epochs=20, batches=200)
        with Store(home, limits=replace(EAGER_COMPACTION, memory_max_bytes=0)) as second:
            second.sync()
            assert second.is_private
            assert second.index_folder is not None
            assert not second.is_compacting


@pytest.mark.parametrize(
    "error",
    [
        OSError("No space left on device"),
        RuntimeError("Corruption: block checksum"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_compaction_that_fails_leaves_an_index_that_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    class Failing:
        def __init__(self, store: ox.Store, folder: Path | None) -> None:
            self.is_running = False

        def wait(self) -> None:
            raise error

    train(home, epochs=20, batches=200)
    with monkeypatch.context() as failing:
        failing.setattr("provml.store.backend.Compaction", Failing)
        with Store(home, limits=EAGER_COMPACTION) as store:
            store.sync()
            failing.undo()
            before = set(store.graph())
            store.sync()
            assert set(store.graph()) == before
            assert not store.is_private


def test_the_progress_of_a_sync_adds_up_to_its_events(home: Path):
    train(home, epochs=20, batches=200)
    with Store(home) as store:
        counts: list[int] = []
        assert store.sync(counts.append) == sum(counts) == store.run("latest").events
        assert store.sync(counts.append) == 0


@pytest.mark.parametrize(
    "limits", [IndexLimits(transaction_bytes=10_000, chunk_bytes=50_000), IndexLimits(transaction_bytes=1 << 40)]
)
def test_large_and_small_chunks_give_the_same_graph(home: Path, limits: IndexLimits):
    train(home, epochs=10, batches=100)
    with Store(home) as store:
        expected = quads(store)
    with Store(home, limits=limits) as store:
        store.rebuild()
        assert quads(store) == expected


def test_threads_can_query_one_store_concurrently(home: Path):
    failures: list[BaseException] = []
    count = "SELECT (COUNT(?e) AS ?n) { ?e a provml:BatchExecution }"

    def ask() -> None:
        try:
            last = 0
            for _ in range(30):
                now = store.query(count)[0][0]
                assert now >= last
                last = now
        except BaseException as error:
            failures.append(error)

    with Store(home) as store, record(home) as run, run.training() as training:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for epoch in training.epochs(10):
            for _ in epoch.batches(range(50)):
                pass
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.query(count)[0] == (500,)
        by_and_by = quads(store)
        store.rebuild()
        assert quads(store) == by_and_by


def test_a_snapshot_is_written_only_after_many_events(home: Path):
    snapshots = home / "index" / "snapshot"
    with record(home) as run, Store(home) as store, run.training() as training:
        for epoch in training.epochs(3):
            for batch in epoch.batches(range(1000)):
                batch.measured(loss=1.0)
        store.sync()
        (first,) = snapshots.iterdir()
        store.sync()
        training.measured(loss=1.0)
        store.sync()
        assert list(snapshots.iterdir()) == [first]
        store.snapshot()
        (second,) = snapshots.iterdir()
        assert second != first


def test_a_second_store_reads_a_private_copy_with_hard_links(home: Path):
    train(home, batches=300)
    with Store(home) as store:
        before = quads(store)
        store.snapshot()
        with Store(home) as second:
            assert second.is_private
            copy = second.index_folder
            assert copy is not None
            assert any(path.stat().st_nlink >= 3 for path in (copy / "store").glob("*.sst"))
            train(home, name="later")
            assert len(second.runs()) == 2
            second.graph().optimize()
        assert not copy.exists()
        assert len(store.runs()) == 2
        assert before < quads(store)
        later = quads(store)
        store.rebuild()
        assert quads(store) == later


def test_large_journals_without_a_snapshot_are_indexed_in_a_temporary_folder(home: Path):
    train(home)
    with Store(home) as first:
        with Store(home) as small:
            assert small.index_folder is None
        with Store(home, limits=IndexLimits(memory_max_bytes=1000)) as large:
            folder = large.index_folder
            assert folder is not None
            assert folder.parent == home / "index"
            assert large.is_private
            assert quads(large) == quads(first)
            train(home, name="later")
            assert quads(large) == quads(first)
        assert not folder.exists()


def test_the_fingerprint_changes_with_the_mapping_code_and_the_ontologies(tmp_path: Path):
    for name in ("provml", "ontologies"):
        shutil.copytree(ROOT / name, tmp_path / name)
    program = """
        import sys
        from pathlib import Path
        from provml.store.checkpoint import format_fingerprint

        fingerprints = [format_fingerprint.__wrapped__()]
        for name in sys.argv[1:]:
            with Path(name).open("a") as file:
                file.write("# another\\n")
            fingerprints.append(format_fingerprint.__wrapped__())
        print(len(set(fingerprints)), Path.cwd())
        """
    modules = [
        "mapping/mapper",
        "rdf/literals",
        "vocab/dl",
        "model/thing",
        "model/values",
        "model/field",
        "workflow",
        "journal/events",
        "journal/location",
    ]
    files = [f"provml/{module}.py" for module in modules] + ["ontologies/provml.ttl"]
    command = [sys.executable, "-c", textwrap.dedent(program), *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(files) + 1), str(tmp_path)]


def test_only_the_holder_of_the_index_can_rebuild_it(home: Path):
    with Store(home), Store(home) as second, pytest.raises(FileFormatError, match="another store of this process"):
        second.rebuild()


def test_a_store_and_its_runs_have_a_short_repr_and_html(home: Path):
    run = train(home, model="<net>")
    with Store(home) as store:
        assert repr(store) == f"<Store {str(home)!r} 1 run>"
        info = store.run(run)
        assert repr(info).startswith(f"<RunInfo {run} FINISHED name='flowers', model='<net>', started='")
        for html in (store._repr_html_(), info._repr_html_()):
            assert run in html
            assert "&lt;net&gt;" in html
            assert "<net>" not in html
        assert repr(store.catalog) == f"<Catalog {len(store.catalog)} questions>"
        assert "loss-at-epoch" in store.catalog._repr_html_()
    assert repr(store) == f"<Store {str(home)!r} closed>"
    assert store._repr_html_() == f"<p>{escape(repr(store))}</p>"


def test_a_closed_store_is_an_error(home: Path):
    store = Store(home)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.query(EVERYTHING)
    with Store(home) as again:
        assert not again.is_private


def test_a_garbage_collected_store_releases_the_index(home: Path):
    Store(home).sync()
    with Store(home) as store:
        assert not store.is_private


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path):
    (tmp_path / "home").write_text("")
    with pytest.raises(HomeNotFound, match="it is a file"):
        Store(tmp_path / "home")
    with pytest.raises(FileFormatError, match="cannot create the home"):
        Store(tmp_path / "home", create=True)


@pytest.mark.parametrize("opener", [Store, provml.open, provml.open_store], ids=["Store", "open", "open_store"])
def test_opening_a_home_that_does_not_exist_is_an_error_and_creates_nothing(tmp_path: Path, opener: Any):
    with pytest.raises(HomeNotFound, match=r"No provml home at .*typo\. Record a run there first"):
        opener(tmp_path / "a" / "typo")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("not a home")
    with pytest.raises(HomeNotFound, match="the directory holds no runs"):
        opener(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_default_home_is_not_created_by_opening_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROVML_HOME", raising=False)
    with pytest.raises(HomeNotFound, match=r"No provml home at \.provml"):
        provml.open()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_home_can_be_created_and_is_a_home_from_then_on(tmp_path: Path):
    folder = tmp_path / "a" / "lab"
    with provml.open(folder, create=True) as store:
        assert store.runs() == []
    with provml.open(folder) as store:
        assert store.runs() == []


def test_the_error_for_a_missing_home_suggests_similar_homes(tmp_path: Path):
    provml.open(tmp_path / "project" / ".provml", create=True).close()
    provml.open(tmp_path / "results", create=True).close()
    (tmp_path / "resultat").mkdir()
    for folder, expected in (("project", tmp_path / "project" / ".provml"), ("result", tmp_path / "results")):
        with pytest.raises(HomeNotFound) as caught:
            provml.open(tmp_path / folder)
        assert caught.value.suggestions == (str(expected),)
        assert f"Did you mean {expected}?" in str(caught.value)


def test_a_child_that_is_forked_after_a_store_was_closed_has_a_store_of_its_own(home: Path):
    train(home)
    with Store(home) as store:
        store.sync()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a store on the disk would wait forever for threads that stayed in the parent
        code = 9
        try:
            train(home, name="later")
            with Store(home) as own:
                assert len(own.runs()) == 2
                own.snapshot()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_store_used_after_a_fork_is_an_error_and_the_child_exits_normally(home: Path):
    train(home)
    with Store(home) as store:
        store.sync()
        child = os.fork()
        if child == 0:
            code = 9
            try:
                for use in (store.sync, store.runs, store.rebuild, lambda: store.query(EVERYTHING)):
                    with pytest.raises(ForkedStore):
                        use()
                store.close()
                with Store(home) as own:
                    assert own.is_private
                    assert own.run("latest").status == "FINISHED"
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        train(home, name="later")
        before = quads(store)
    with Store(home) as store:
        assert quads(store) == before
        assert len(store.runs()) == 2


def test_a_child_that_is_forked_while_an_abandoned_store_is_compacted_exits_normally(home: Path):
    train(home, epochs=20, batches=200)
    code = """
        import gc

        assert store.is_compacting
        del store
        gc.collect()
        child = os.fork()
        if child:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            goes_on.set()
        """
    assert during_a_compaction(home, code) == "0\n"


# ---- run status


def statuses(store: Store) -> list[tuple[str, ...]]:
    return [
        row[1:] for row in store.query("SELECT ?r ?s { ?r a provml:LearningProcessExecution ; provlake:status ?s }")
    ]


def other_host(home: Path, age: float) -> None:
    """Change a journal as if another host had written it `age` seconds ago."""
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, host="elsewhere")
    os.utime(path, (time.time() - age,) * 2)


def rewrite(path: Path, *, ends: bool = False, **fields: Any) -> None:
    """Change fields of a journal's header, and remove its end unless `ends`."""
    first, *lines = path.read_bytes().splitlines()
    header = json.dumps({**json.loads(first), **fields}, separators=(",", ":")).encode()
    rest = [line for line in lines if ends or not line.startswith(b'{"e":"end"')]
    path.write_bytes(b"\n".join([header, *rest]) + b"\n")


def test_a_run_on_another_host_is_lost_after_silence_and_running_after_a_heartbeat(home: Path):
    train(home)
    other_host(home, age=5)
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"
        assert statuses(store) == [("RUNNING",)]
        (path,) = home.glob("runs/*/*.jsonl")
        os.utime(path, (time.time() - 10_000,) * 2)
        assert store.run("latest").status == "LOST"
        assert statuses(store) == [("LOST",)]
        os.utime(path)
        assert store.run("latest").status == "RUNNING"
        assert statuses(store) == [("RUNNING",)]


@pytest.mark.parametrize("fields", [{"ns": "pid:[1]"}, {"boot": "of a machine that has the same name"}])
def test_a_process_in_another_namespace_is_running_while_it_sends_heartbeats(home: Path, fields: Any):
    train(home)
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, **fields)
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"
        with pytest.raises(FileFormatError, match="still running"):
            store.remove("latest")
        os.utime(path, (time.time() - 10_000,) * 2)
        assert store.run("latest").status == "KILLED"
        assert statuses(store) == [("KILLED",)]
        store.remove("latest")
        assert store.runs() == []


def test_runs_of_a_rebooted_machine_are_killed(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home)
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, boot="the one before")
    os.utime(path, (time.time() - 200,) * 2)
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"  # it may be another machine of the same name
        monkeypatch.setattr("provml.journal.status.uptime", lambda: 150.0)
        assert store.run("latest").status == "KILLED"


def test_a_status_written_before_a_crash_is_corrected(home: Path):
    train(home)
    other_host(home, age=5)
    with Store(home) as store:
        store.sync()
        saved = (home / "index" / "progress").read_bytes()
        (path,) = home.glob("runs/*/*.jsonl")
        os.utime(path, (time.time() - 10_000,) * 2)
        assert statuses(store) == [("LOST",)]
    (home / "index" / "progress").write_bytes(saved)
    os.utime(path)
    with Store(home) as store:
        assert statuses(store) == [("RUNNING",)]


def test_the_end_of_a_run_is_written_once(home: Path):
    with record(home) as run, Store(home) as store:
        assert statuses(store) == [("RUNNING",)]
        assert store.query("SELECT ?t { ?r a provml:LearningProcessExecution ; prov:endedAtTime ?t }").rows == []
        run.finish()
        assert statuses(store) == [("FINISHED",)]
        ended = "SELECT ?t ?s { ?r a provml:LearningProcessExecution ; prov:endedAtTime ?t ; provml:elapsedSeconds ?s }"
        assert len(store.query(ended)) == 1
        store.rebuild()
        assert len(store.query(ended)) == 1


@pytest.mark.parametrize("extension", ["ttl", "NT", "jsonld"])
def test_an_export_to_a_path_has_the_format_of_its_extension(tmp_path: Path, extension: str):
    with provml.record("r", home=tmp_path / "home"):
        pass
    file, expected = tmp_path / f"run.{extension}", io.BytesIO()
    with provml.open(tmp_path / "home") as store:
        assert store.export("latest", file) == store.export("latest", expected, extension.lower())
        assert file.read_bytes() == expected.getvalue()
        with pytest.raises(FileFormatError, match=r"x\.foo: unknown extension '\.foo'\. Name the format"):
            store.export("latest", "x.foo")
        assert store.export("latest", tmp_path / "x.foo", "nt") > 0


def test_an_unknown_setting_of_a_validation_is_reported_with_the_name_of_the_method(tmp_path: Path):
    with provml.open(tmp_path / "home", create=True) as store, pytest.raises(TypeError, match=r"Store\.validate\(\)"):
        store.validate(shaeps="mine.ttl")  # type: ignore[call-arg]
