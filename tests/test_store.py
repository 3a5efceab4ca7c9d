"""A store: taking in, asking, adding, exporting, removing, rebuilding; nothing lost, nothing told twice."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from journals import told_in

from provml import resources
from provml.errors import BrokenFile, BrokenQuery, ForkedStore, NoSuchNode, NoSuchRun, NotAnIRI
from provml.event import decode, each
from provml.recorder import Recorder
from provml.store import Store, kin, progress, reading
from provml.store import index as index_room
from provml.values import IRI
from provml.vocab import Persona, Study

ROOT = Path(__file__).parents[1]
EVERYTHING = "SELECT ?s ?p ?o { ?s ?p ?o }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def record(home: Path, name: str = "flowers", **settings: Any) -> Recorder:
    return Recorder(name, home=home, strict=True, capture_environment=False, **settings)


def train(home: Path, epochs: int = 3, batches: int = 4, **settings: Any) -> str:
    with record(home, **settings) as run:
        raw = run.dataset(b"raw", name="raw", role="raw", about="http://example.org/kg/Flower", größe=3)
        with run.training(using=raw, lr=0.1) as training:
            for epoch in training.epochs(epochs):
                for batch in epoch.batches(range(batches)):
                    batch.measured(loss=1.0 / (batch.index + epoch.index))
                epoch.measured(loss=0.5, accuracy=float("nan"))
            training.adapted(lr=0.05, why='a "quoted"\nreason')
            training.produced(b"model")
    return run.id


def quads(store: Store) -> set[str]:
    """The default graph of a store."""
    return {str(q.triple) for q in store.engine.quads_for_pattern(None, None, None, ox.DefaultGraph())}


# ---- opening


def test_opening_an_index_again_and_again_leaves_no_logs_of_earlier_openings(home: Path):
    train(home)
    for _ in range(3):
        with Store(home) as store:
            assert len(store.runs()) == 1
    logs = [path.name for path in (home / "index" / "store").iterdir() if path.name.startswith("LOG")]
    assert logs == ["LOG"]


# ---- asking


def test_select_ask_construct_and_describe_with_the_usual_prefixes_known(home: Path):
    run = train(home)
    with Store(home) as store:
        found = store.query("SELECT ?n { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?n } ORDER BY ?n")
        assert found.column("n") == [1, 2, 3]
        assert store.query("ASK { ?r a provml:LearningProcessExecution ; provlake:status 'FINISHED' }") is True
        assert store.query("ASK { ?r a mls:Nothing }") is False
        made = store.query(
            "CONSTRUCT { ?r rdfs:seeAlso ?e } { ?r a prov:Activity ; provlake:wasDerivedFromWorkflow ?e }"
        )
        assert made.columns == ["subject", "predicate", "object"]
        assert made[0][0] == f"https://w3id.org/provml/run/{run}"
        assert len(store.query(f"DESCRIBE <https://w3id.org/provml/run/{run}>")) > 5


def test_a_prefix_that_nobody_declared_is_said_in_one_line(home: Path):
    with (
        Store(home) as store,
        pytest.raises(BrokenQuery, match=r"error at 1:22: the prefix nope: is not declared"),
    ):
        store.query("SELECT ?x { ?x nope:y ?z }")


def test_a_prefix_of_ones_own_wins_and_words_in_strings_are_left_alone(home: Path):
    with Store(home) as store:
        found = store.query("PREFIX prov: <http://example.org/> SELECT (STR(prov:x) AS ?a) ('rdfs:label' AS ?b) {}")
        assert found.rows == [("http://example.org/x", "rdfs:label")]


@pytest.mark.parametrize(
    "sparql",
    ["SELEC", "SELECT ?x { ?x nope:y ?z }", "INSERT DATA { <urn:a:b> <urn:a:b> 1 }", "SELECT ?x { <no iri> ?p ?x }",
     "{" * 20000, "SELECT (" + "(" * 20000],
)  # fmt: skip
def test_sparql_that_cannot_be_run_is_a_clear_error(home: Path, sparql: str):
    with Store(home) as store, pytest.raises(BrokenQuery, match=r"cannot be run: .+\. (Mend it|Write|Add)"):
        store.query(sparql)


@pytest.mark.parametrize("sparql", ["", " \n", "# SELECT * {}", "BASE <urn:a:> PREFIX ex: <urn:b#> # SELECT * {}\n"])
def test_a_query_that_asks_nothing_is_said_to_be_empty(home: Path, sparql: str):
    with Store(home) as store, pytest.raises(BrokenQuery, match=r"it is empty\. Give one, such as SELECT"):
        store.query(sparql)


def test_the_ontology_can_be_asked_in_a_graph_of_its_own(home: Path):
    ask = "ASK { GRAPH <https://w3id.org/provml> { provml:TrainingEpochExecution rdfs:subClassOf ?c } }"
    with Store(home) as store:
        assert store.query(ask) is True
        assert quads(store) == set()
        with Store(home) as second:
            assert second.index.folder is None
            assert second.query(ask) is True


def test_a_thing_is_read_back_by_its_iri(home: Path):
    run = train(home)
    with Store(home) as store:
        assert store.read(f"https://w3id.org/provml/run/{run}").status == "FINISHED"
        with pytest.raises(NoSuchNode):
            store.read("http://example.org/nothing")


# ---- adding and loading


def test_things_added_from_python_are_there_and_survive_a_rebuild(home: Path):
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
def test_rdf_files_are_loaded_once_and_for_good(home: Path, tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    with Store(home) as store:
        count = store.load(tmp_path / name)
        assert count > 0
        everything = {str(q) for q in store.engine if q.graph_name != index_room.ONTOLOGY}
        assert len(everything) == count
        (home / "index" / "progress").unlink()
        store.rebuild()
        assert {str(q) for q in store.engine if q.graph_name != index_room.ONTOLOGY} == everything
        assert not list(home.glob("added/*.part"))


def test_a_file_can_be_loaded_into_a_graph(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text("<http://example.org/a> <http://example.org/b> 1 .")
    with Store(home) as store:
        store.load(tmp_path / "a.ttl", graph="http://example.org/g")
        assert quads(store) == set()
        assert store.query("ASK { GRAPH <http://example.org/g> { ?s ?p 1 } }") is True
        with pytest.raises(NotAnIRI):
            store.load(tmp_path / "a.ttl", graph="no iri")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "", "names no RDF format"),
        ("a.ttl", "<http://example.org/a> <http://example.org/b> 1 .\n<http://example.org/a> nope", r"a\.ttl:2: "),
        ("a.jsonld", "{", r"a\.jsonld:"),
        ("gone.ttl", None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_of_it_is_kept(
    home: Path, tmp_path: Path, name: str, text: str | None, said: str
):
    if text is not None:
        (tmp_path / name).write_text(text)
    with Store(home) as store:
        with pytest.raises(BrokenFile, match=said):
            store.load(tmp_path / name)
        assert quads(store) == set()
        assert not list(home.glob("added/*"))


# ---- runs


def test_runs_come_the_latest_first_and_are_found_by_part_of_their_id(home: Path):
    first, second = train(home, name="a"), train(home, name="b", model="m")
    with Store(home) as store:
        assert [info.id for info in store.runs()] == [second, first]
        info = store.run("latest")
        assert (info.id, info.name, info.model, info.status, info.writers) == (second, "b", "m", "FINISHED", 1)
        assert info.seconds is not None
        assert info.seconds >= 0
        assert store.run(first).id == store.run(first[-6:]).id == store.run(info.iri.replace(second, first)).id == first
        with pytest.raises(NoSuchRun) as caught:
            store.run(first[:8])
        assert caught.value.ambiguous
        assert set(caught.value.near) == {first, second}


def test_a_run_that_is_not_there_is_answered_with_those_that_are_near(home: Path):
    run = train(home)
    with Store(home) as store:
        for wrong in (run[:-1] + "x" + run[-1], "nothing", ""):
            with pytest.raises(NoSuchRun) as caught:
                store.run(wrong)
            assert caught.value.near == (run,)
            assert not caught.value.ambiguous
    with Store(home / "empty") as store, pytest.raises(NoSuchRun, match="no run here yet"):
        store.run("latest")


def test_a_failed_run_tells_its_error(home: Path):
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
def test_what_is_exported_comes_back_the_same(home: Path, form: str, whole: bool):
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


def test_the_only_run_and_the_whole_store_export_the_same_triples(home: Path):
    train(home)
    with Store(home) as store:
        run, whole = io.BytesIO(), io.BytesIO()
        store.export("latest", run, "nt")
        store.export(None, whole, "nt")
        assert {str(t) for t in _canonical(ox.Dataset(ox.parse(run.getvalue(), ox.RdfFormat.N_TRIPLES)))} == {
            str(t) for t in _canonical(ox.Dataset(ox.parse(whole.getvalue(), ox.RdfFormat.N_TRIPLES)))
        }


def test_json_ld_uses_our_context_and_keeps_what_it_does_not_know(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text(
        """@prefix e: <http://example.org/> . @prefix provml: <https://w3id.org/provml#> .
        e:a e:b "x"@en , "y"@de , true , 1.5 , "2020"^^<http://www.w3.org/2001/XMLSchema#gYear> , [ e:c e:d ] ;
          provml:sectionIndex "three" ; a e:Unknown , provml:Model ."""
    )
    with Store(home) as store:
        count = store.load(tmp_path / "a.ttl")
        out = io.BytesIO()
        store.export(None, out, "jsonld")
        held = json.loads(out.getvalue())
        assert held["@context"] == json.loads((resources.ontologies() / "context.jsonld").read_text())["@context"]
        (node,) = [node for node in held["@graph"] if node["id"] == "http://example.org/a"]
        assert set(node["type"]) == {"http://example.org/Unknown", "Model"}
        back = ox.Dataset(ox.parse(out.getvalue(), ox.RdfFormat.JSON_LD))
        assert len(back) == count
        back.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
        wanted = ox.Dataset(store.engine.quads_for_pattern(None, None, None, ox.DefaultGraph()))
        wanted.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
        assert back == wanted


def test_formats_with_graphs_keep_the_graphs_that_were_loaded_and_leave_the_ontology_out(home: Path, tmp_path: Path):
    (tmp_path / "a.ttl").write_text("<http://example.org/a> <http://example.org/b> 1 .")
    with Store(home) as store:
        store.load(tmp_path / "a.ttl", graph="http://example.org/g")
        for form, count in (("nq", 1), ("trig", 1), ("nt", 0)):
            out = io.BytesIO()
            assert store.export(None, out, form) == count
            assert (b"example.org/g" in out.getvalue()) is bool(count)


def test_a_format_that_nobody_knows_is_refused(home: Path):
    with Store(home) as store, pytest.raises(BrokenFile, match="Use one of nt, nq"):
        store.export(None, io.BytesIO(), "xls")


# ---- the index is never the only copy


def test_an_index_that_is_deleted_or_made_again_tells_the_same(home: Path):
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
def test_a_wrecked_index_is_made_again_by_itself(home: Path, wreck: str):
    train(home, batches=300)
    with Store(home) as store:
        before = quads(store)
        store.index.leave_snapshot()
    index = home / "index"
    if wreck == "CURRENT":
        (index / "store" / "CURRENT").write_text("MANIFEST-999999\n")
    elif wreck == "progress":
        (index / "progress").write_bytes(b"\xc1")
    elif wreck == "made":
        kept = index_room.kept.read(index / "progress")
        kept.made = "0.0.1 of old"
        (index / "progress").write_bytes(index_room.kept.encode(kept))
    else:
        for path in (index / "store").glob("*.sst"):
            path.unlink()
    with Store(home) as store:
        assert quads(store) == before


def test_a_run_whose_journals_were_deleted_by_hand_is_gone_from_the_index_too(home: Path):
    kept, gone = train(home, name="a"), train(home, name="b")
    with Store(home) as store:
        assert len(store.runs()) == 2
        shutil.rmtree(home / "runs" / gone)
        assert [info.id for info in store.runs()] == [kept]
        assert store.query(f"ASK {{ <https://w3id.org/provml/run/{gone}> ?p ?o }}") is False


def test_removing_a_run_leaves_what_others_told(home: Path):
    kept, gone = train(home, name="a", by="alice"), train(home, name="b", by="alice")
    with Store(home) as store:
        before = quads(store)
        assert store.remove(gone).id == gone
        assert quads(store) < before
        assert not any(gone in triple or "/plan/b" in triple for triple in quads(store))
        assert store.query("ASK { ?d provlake:sha256 ?hash ; a provml:LearningDataset }") is True
        assert [info.id for info in store.runs()] == [kept]
        assert sorted(path.name for path in home.iterdir()) == ["index", "runs"]
        with pytest.raises(NoSuchRun):
            store.remove(gone)


def test_a_run_that_goes_on_is_not_removed(home: Path):
    with record(home) as run, Store(home) as store:
        with pytest.raises(BrokenFile, match="still goes on"):
            store.remove(run.id)
        assert store.run(run.id).status == "RUNNING"


def test_a_run_is_not_removed_while_any_of_its_processes_writes(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, run="r")
    monkeypatch.setenv("RANK", "1")
    with record(home, run="r") as second, second.training() as training, Store(home) as store:
        assert store.run("r").status == "FINISHED"
        with pytest.raises(BrokenFile, match=r"rank-1\.jsonl: the run still goes on"):
            store.remove("r")
        training.measured(loss=1.0)
    with Store(home) as store:
        assert store.remove("r").writers == 2


def test_several_runs_are_removed_together_or_none_of_them(home: Path, monkeypatch: pytest.MonkeyPatch):
    for name in "abc":
        train(home, run=name)
    with record(home, run="live"), Store(home) as store:
        for wrong in ("nope", "live"):
            with pytest.raises((NoSuchRun, BrokenFile)):
                store.remove_all(["a", wrong])
            assert len(store.runs()) == 4
        made = []
        anew = index_room.Index.anew
        monkeypatch.setattr(index_room.Index, "anew", lambda index: made.append(index) or anew(index))
        assert [info.id for info in store.remove_all(["c", "a", "a"])] == ["c", "a"]
        assert {info.id for info in store.runs()} == {"b", "live"}
        assert len(made) == 1


def test_a_backup_has_the_questions_and_shapes_of_its_home(home: Path, tmp_path: Path):
    train(home)
    for name in ("queries/own.rq", "shapes/deep/own.ttl"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("mine")
    with Store(home) as store:
        store.backup(tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["queries", "runs", "shapes"]
    assert (tmp_path / "copy" / "shapes" / "deep" / "own.ttl").read_text() == "mine"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_backup_that_fails_half_way_leaves_nothing_and_can_be_tried_again(home: Path, tmp_path: Path, is_there: bool):
    train(home)
    unreadable(home)
    copy = tmp_path / "deep" / "copy"
    if is_there:
        (copy / "killed.part" / "runs").mkdir(parents=True)
    with Store(home) as store:
        with pytest.raises(BrokenFile, match="cannot be copied"):
            store.backup(copy)
        assert not list(copy.glob("runs"))
        shutil.rmtree(home / "runs" / "unreadable")
        store.backup(copy)
        with Store(copy) as copied:
            assert quads(copied) == quads(store)


def test_a_backup_is_a_home_of_its_own_even_of_a_run_that_goes_on(home: Path, tmp_path: Path):
    train(home)
    with record(home, "b") as run, run.training() as training, Store(home) as store:
        training.measured(loss=1.0)
        store.add(Study(IRI("http://example.org/s"), label="Spring"))
        before = quads(store)
        store.backup(tmp_path / "copy")
        with Store(tmp_path / "copy") as copy:
            assert quads(copy) == before
            assert copy.verify() == []
        with pytest.raises(BrokenFile, match="something already"):
            store.backup(tmp_path / "copy")


def test_verify_finds_nothing_in_whole_journals(home: Path):
    train(home)
    with Store(home) as store:
        assert store.verify() == []
        assert store.problems == []


# ---- what is damaged or odd in a home spoils nothing else


def unreadable(home: Path) -> Path:
    """A journal that the system refuses to read, whoever asks."""
    path = home / "runs" / "unreadable" / "main.jsonl"
    path.parent.mkdir(parents=True)
    path.symlink_to("/proc/self/mem")
    return path


@pytest.mark.parametrize("end", ['{"e":"end","t":1e300}', '{"e":"end","t":1.0,"status":"FINISHEX"}'])
def test_an_end_that_cannot_be_is_a_damaged_line(home: Path, end: str):
    good, bad = train(home, name="good"), train(home, name="bad")
    path = home / "runs" / bad / "main.jsonl"
    rewrite(path, born=1)
    lines = len(path.read_bytes().splitlines())
    with path.open("a") as file:
        file.write(f"{end}\n")
    with Store(home) as store:
        assert {info.id: info.status for info in store.runs()} == {good: "FINISHED", bad: "KILLED"}
        assert [(p.file, p.line) for p in store.problems] == [(f"runs/{bad}/main.jsonl", lines + 1)]


def test_a_run_that_began_at_an_impossible_time_is_told_without_it(home: Path):
    run = train(home)
    rewrite(home / "runs" / run / "main.jsonl", ends=True, t=1e300)
    with Store(home) as store:
        assert store.run(run).started.year == 1970
        assert [p.line for p in store.problems] == [1]
        assert len(store.query("SELECT ?e { ?e a provml:TrainingEpochExecution }")) == 3


def test_a_journal_that_cannot_be_read_is_named_and_the_others_are_taken_in(home: Path):
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


def test_what_can_be_read_of_a_journal_is_taken_in_before_a_disk_fails(home: Path, monkeypatch: pytest.MonkeyPatch):
    run = train(home)
    read, path = reading.read_lines, home / "runs" / run / "main.jsonl"

    def failing(path: Path, offset: int = 0, number: int = 0) -> Any:
        for line in read(path, offset, number):
            if line[1] > 10:
                raise OSError(5, "Input/output error")
            yield line

    with Store(home) as store:
        with monkeypatch.context() as patched:
            patched.setattr(reading, "read_lines", failing)
            assert store.run(run).events == sum(1 for _, _, line in islice(read(path), 10) for _ in each(decode(line)))
            assert [p.reason for p in store.problems] == ["input/output error"]
        live = quads(store)
        assert store.problems == []
        store.rebuild()
        assert quads(store) == live


def test_what_is_no_file_is_no_journal(home: Path):
    run = train(home)
    (home / "runs" / run / "folder.jsonl").mkdir()
    (home / "runs" / run / "dangling.jsonl").symlink_to(home / "nowhere")
    with Store(home) as store:
        store.sync()
        index = store.index
        store.sync()
        assert store.index is index
        assert store.run(run).writers == 1
        assert store.problems == []


@pytest.mark.parametrize("size", [1, index_room.SMALL])
def test_an_added_file_that_is_damaged_is_left_out_whole_and_named(home: Path, size: int):
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


def test_what_is_added_is_on_the_disk_before_it_counts(home: Path, monkeypatch: pytest.MonkeyPatch):
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
def test_where_the_index_cannot_be_written_questions_are_answered_without_it(
    home: Path, limit: tuple[str, str], when: str, large: str
):
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


# ---- taking in by and by


def test_a_killed_run_keeps_no_state_and_is_read_anew_where_it_goes_on_after_all(home: Path):
    run = train(home)
    path = home / "runs" / run / "main.jsonl"
    rewrite(path, born=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]) + b"\0" * 100)
    with Store(home) as store:
        assert store.run(run).status == "KILLED"
        (journal,) = store.index.progress.journals.values()
        assert (journal.number, journal.state.places, journal.state.refs) == (len(lines) - 3, {}, {})
        os.utime(path)
        assert store.sync() == 0
        path.write_bytes(b"".join(lines))
        assert store.sync() == len(told_in(path))
        live = quads(store)
        store.rebuild()
        assert quads(store) == live


def rank(home: Path, number: int, monkeypatch: pytest.MonkeyPatch, name: str, **settings: Any) -> Path:
    """One process of a distributed training has told all that it has to tell."""
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
def test_the_order_in_which_the_processes_of_a_run_come_changes_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
):
    (tmp_path / "x.yaml").write_text(WORKFLOW)
    with Store(home) as store:
        path = rank(home, 1, monkeypatch, "x-rank-1")
        if is_gone:
            rewrite(path, ends=True, born=1)
        assert len(store.runs()) == is_gone  # who lives waits for the first one, whose words it is told by
        rank(home, 0, monkeypatch, "x", workflow=tmp_path / "x.yaml")
        rank(home, 2, monkeypatch, "x-rank-2")
        assert [(info.name, info.writers) for info in store.runs()] == [("x", 3)]
        live = quads(store)
        assert not any("x-rank" in triple for triple in live)
        store.rebuild()
        assert quads(store) == live


def test_a_process_waits_for_the_first_one_to_say_by_which_workflow(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "x.yaml").write_text(WORKFLOW)
    main = rank(home, 0, monkeypatch, "x", workflow=tmp_path / "x.yaml")
    told = main.read_bytes()
    main.write_bytes(told[: told.index(b"\n") + 1])
    rank(home, 1, monkeypatch, "x")
    with Store(home) as store:
        assert store.run("shared").writers == 1
        main.write_bytes(told)
        assert store.run("shared").writers == 2
        live = quads(store)
        store.rebuild()
        assert quads(store) == live


def test_a_run_without_a_first_process_is_told_as_it_is_and_looked_for_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    first = rank(home, 1, monkeypatch, "x")
    for number in range(2, 21):
        shutil.copy(first, first.with_name(f"rank-{number}.jsonl"))
        rewrite(first.with_name(f"rank-{number}.jsonl"), ends=True, writer=f"rank-{number}", born=1)
    rewrite(first, ends=True, born=1)
    looked = []
    words = kin.first_words
    monkeypatch.setattr(kin, "first_words", lambda path: looked.append(path) or words(path))
    with Store(home) as store:
        assert store.run("shared").writers == 20
    assert len(looked) <= 40


def test_what_is_asked_while_a_run_goes_on_is_what_was_told_so_far(home: Path):
    count = "SELECT (COUNT(?e) AS ?n) { ?e a provml:TrainingEpochExecution }"
    with Store(home) as store, record(home) as run, run.training() as training:
        for number, _ in enumerate(training.epochs(4), 1):
            assert store.query(count)[0] == (number,)
    with Store(home) as store:
        by_and_by = quads(store)
        store.rebuild()
        assert quads(store) == by_and_by


def test_a_sync_that_fails_half_way_loses_nothing(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, epochs=20, batches=200)
    train(home, epochs=20, batches=200)
    monkeypatch.setattr(index_room, "SMALL", 1000)
    monkeypatch.setattr(index_room, "CHUNK", 100_000)
    with Store(home) as store:
        seen = 0

        def stop(events: int) -> None:
            nonlocal seen
            seen += events
            if seen > 5000:
                raise KeyboardInterrupt

        with pytest.raises(BaseException):  # noqa: B017  # the engine hands on what its reader raised
            store.sync(stop)
        by_pieces = quads(store)
    monkeypatch.undo()
    shutil.rmtree(home / "index")
    with Store(home) as store:
        assert quads(store) == by_pieces


def test_what_was_loaded_and_not_optimized_before_a_process_ended_is_so_by_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    train(home, epochs=20, batches=200)
    monkeypatch.setattr(index_room, "SMALL", 1000)
    monkeypatch.setattr(index_room, "QUICK", 0)

    def is_rough() -> bool:
        return progress.decode((home / "index" / "progress").read_bytes()).is_rough

    with monkeypatch.context() as ending:
        ending.setattr(index_room.Standing, "tell", lambda *given: sys.exit("the end"))
        with pytest.raises(SystemExit), Store(home) as store:
            store.sync()
    assert is_rough()
    files = {path.name for path in (home / "index" / "store").glob("*.sst")}
    with Store(home) as store:
        store.sync()
    assert not is_rough()
    assert files - {path.name for path in (home / "index" / "store").glob("*.sst")}  # they are parts of others now


def test_the_report_of_a_sync_adds_up_to_its_events(home: Path):
    train(home, epochs=20, batches=200)
    with Store(home) as store:
        told: list[int] = []
        assert store.sync(told.append) == sum(told) == store.run("latest").events
        assert store.sync(told.append) == 0


def test_big_and_small_chunks_give_the_same_graph(home: Path, monkeypatch: pytest.MonkeyPatch):
    train(home, epochs=10, batches=100)
    with Store(home) as store:
        whole = quads(store)
        monkeypatch.setattr(index_room, "SMALL", 10_000)
        monkeypatch.setattr(index_room, "CHUNK", 50_000)
        store.rebuild()
        assert quads(store) == whole
        monkeypatch.setattr(index_room, "SMALL", 1 << 40)
        store.rebuild()
        assert quads(store) == whole


def test_threads_of_one_process_can_ask_one_store_at_once(home: Path):
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


def test_a_snapshot_is_left_only_when_much_was_taken_in(home: Path):
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
        store.index.leave_snapshot()
        (second,) = snapshots.iterdir()
        assert second != first


def test_a_second_store_of_the_same_process_reads_a_copy_that_shares_files_and_changes_nothing(home: Path):
    train(home, batches=300)
    with Store(home) as store:
        before = quads(store)
        store.index.leave_snapshot()
        with Store(home) as second:
            assert second.index.is_private
            copy = second.index.folder
            assert copy is not None
            assert any(path.stat().st_nlink >= 3 for path in (copy / "store").glob("*.sst"))
            train(home, name="later")
            assert len(second.runs()) == 2
            second.engine.optimize()
        assert not copy.exists()
        assert len(store.runs()) == 2
        assert before < quads(store)
        later = quads(store)
        store.rebuild()
        assert quads(store) == later


def test_who_has_no_snapshot_lifts_large_journals_into_a_folder_and_not_into_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    train(home)
    with Store(home) as first:
        with Store(home) as small:
            assert small.index.folder is None
        monkeypatch.setattr(index_room, "LARGE", 1000)
        with Store(home) as large:
            folder = large.index.folder
            assert folder is not None
            assert folder.parent == home / "index"
            assert large.index.is_private
            assert quads(large) == quads(first)
            train(home, name="later")
            assert quads(large) == quads(first)
        assert not folder.exists()


def test_an_index_is_of_another_making_where_anything_that_lifts_is_another(tmp_path: Path):
    for name in ("provml", "ontologies"):
        shutil.copytree(ROOT / name, tmp_path / name)
    program = """
        import sys
        from pathlib import Path
        from provml.store.progress import making

        made = [making.__wrapped__()]
        for name in sys.argv[1:]:
            with Path(name).open("a") as file:
                file.write("# another\\n")
            made.append(making.__wrapped__())
        print(len(set(made)), making.__code__.co_filename if hasattr(making, "__code__") else Path.cwd())
        """
    rooms = ["lift/lifter", "rdf/literal", "vocab/dl", "things", "values", "field", "workflow", "event"]
    files = [f"provml/{room}.py" for room in rooms] + ["ontologies/provml.ttl"]
    command = [sys.executable, "-c", textwrap.dedent(program), *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(files) + 1), str(tmp_path)]


def test_only_who_holds_the_index_can_rebuild_it(home: Path):
    with Store(home), Store(home) as second, pytest.raises(BrokenFile, match="another process holds the index"):
        second.rebuild()


def test_a_store_that_is_closed_says_so(home: Path):
    store = Store(home)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.query(EVERYTHING)
    with Store(home) as again:
        assert not again.index.is_private


def test_a_store_that_is_forgotten_lets_the_index_go(home: Path):
    Store(home).sync()
    with Store(home) as store:
        assert not store.index.is_private


def test_a_home_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "home").write_text("")
    with pytest.raises(BrokenFile, match="cannot be a home"):
        Store(tmp_path / "home")


def test_a_store_used_after_a_fork_refuses_and_the_child_ends_as_it_wants(home: Path):
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
                    assert own.index.is_private
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


# ---- standing


def statuses(store: Store) -> list[tuple[str, ...]]:
    return [
        row[1:] for row in store.query("SELECT ?r ?s { ?r a provml:LearningProcessExecution ; provlake:status ?s }")
    ]


def other_host(home: Path, age: float) -> None:
    """Make the journal one that a machine elsewhere wrote, so many seconds ago."""
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, host="elsewhere")
    os.utime(path, (time.time() - age,) * 2)


def rewrite(path: Path, *, ends: bool = False, **said: Any) -> None:
    """Let the first line of a journal say something else, and leave out its end, if it shall have none."""
    first, *lines = path.read_bytes().splitlines()
    told = json.dumps({**json.loads(first), **said}, separators=(",", ":")).encode()
    kept = [line for line in lines if ends or not line.startswith(b'{"e":"end"')]
    path.write_bytes(b"\n".join([told, *kept]) + b"\n")


def test_a_run_elsewhere_is_lost_after_long_silence_and_comes_back_with_a_sign_of_life(home: Path):
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


@pytest.mark.parametrize("said", [{"ns": "pid:[1]"}, {"boot": "of a machine that has the same name"}])
def test_a_process_that_cannot_be_seen_from_here_lives_as_long_as_it_gives_signs_of_life(home: Path, said: Any):
    train(home)
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, **said)
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"
        with pytest.raises(BrokenFile, match="still goes on"):
            store.remove("latest")
        os.utime(path, (time.time() - 10_000,) * 2)
        assert store.run("latest").status == "KILLED"
        assert statuses(store) == [("KILLED",)]
        store.remove("latest")
        assert store.runs() == []


def test_a_machine_that_was_switched_off_tells_its_runs_killed_soon_after_it_is_on_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    train(home)
    (path,) = home.glob("runs/*/*.jsonl")
    rewrite(path, boot="the one before")
    os.utime(path, (time.time() - 200,) * 2)
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"  # of another machine with the same name, as far as can be told
        monkeypatch.setattr("provml.run.uptime", lambda: 150.0)
        assert store.run("latest").status == "KILLED"


def test_a_status_told_before_a_crash_of_the_indexer_is_put_right_after(home: Path):
    train(home)
    other_host(home, age=5)
    with Store(home) as store:
        store.sync()
        kept = (home / "index" / "progress").read_bytes()
        (path,) = home.glob("runs/*/*.jsonl")
        os.utime(path, (time.time() - 10_000,) * 2)
        assert statuses(store) == [("LOST",)]
    (home / "index" / "progress").write_bytes(kept)
    os.utime(path)
    with Store(home) as store:
        assert statuses(store) == [("RUNNING",)]


def test_the_end_of_a_run_is_told_once(home: Path):
    with record(home) as run, Store(home) as store:
        assert statuses(store) == [("RUNNING",)]
        assert store.query("SELECT ?t { ?r a provml:LearningProcessExecution ; prov:endedAtTime ?t }").rows == []
        run.finish()
        assert statuses(store) == [("FINISHED",)]
        ended = "SELECT ?t ?s { ?r a provml:LearningProcessExecution ; prov:endedAtTime ?t ; provml:elapsedSeconds ?s }"
        assert len(store.query(ended)) == 1
        store.rebuild()
        assert len(store.query(ended)) == 1
