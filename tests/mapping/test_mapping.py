"""Mapping of journals: same triples in one pass or in parts, batch summaries, values in force, valid graphs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples_count import examples
from hypothesis import HealthCheck, given, settings
from journal_events import read_events
from run_strategies import SCENARIOS, graph, record_scenario, rows, to_ntriples

import provml
from provml import paths, rdf
from provml.journal import events
from provml.journal.reader import read_lines
from provml.mapping import EventMapper, State
from provml.recording.run import Run
from provml.store import Store
from provml.validation import Report, validate

GENERATED_TWICE = "SELECT ?e ?a ?b { ?e prov:wasGeneratedBy ?a, ?b FILTER(STR(?a) < STR(?b)) }"
TWO_VALUES = "SELECT ?e ?a ?b { ?e prov:value ?a, ?b FILTER(!sameTerm(?a, ?b)) }"
SUMMARIES = """
SELECT ?epoch ?name ?min ?mean ?last ?expected_min ?expected_mean {
  ?epoch provml:hasBatchSummary ?summary .
  ?summary prov:wasDerivedFrom ?measure ; provml:minValue ?min ; provml:meanValue ?mean ; provml:lastValue ?last .
  ?measure rdfs:label ?name .
  { SELECT ?epoch ?measure (MIN(xsd:double(?v)) AS ?expected_min) (AVG(xsd:double(?v)) AS ?expected_mean) {
      ?batch provml:wasSectionOf ?epoch . ?value a provml:BatchEvaluation ; prov:wasGeneratedBy ?batch ;
        prov:wasDerivedFrom ?measure ; prov:value ?v } GROUP BY ?epoch ?measure }
}"""
SECONDS = """
SELECT ?epoch ?count ?min ?mean ?max ?expected_count ?expected_min ?expected_mean ?expected_max {
  ?epoch provml:batchCount ?count .
  OPTIONAL { ?epoch provml:minBatchSeconds ?min ; provml:meanBatchSeconds ?mean ; provml:maxBatchSeconds ?max }
  { SELECT ?epoch (COUNT(DISTINCT ?batch) AS ?expected_count) (MIN(?s) AS ?expected_min) (AVG(?s) AS ?expected_mean)
      (MAX(?s) AS ?expected_max) {
      ?batch a provml:BatchExecution ; provml:wasSectionOf ?epoch OPTIONAL { ?batch provml:elapsedSeconds ?s } }
    GROUP BY ?epoch }
}"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def record(home: Path, name: str = "flowers", **settings: Any) -> Run:
    return Run(name, home=home, strict=True, capture_environment=False, **settings)


def journals(home: Path) -> list[Path]:
    return sorted(home.glob("runs/*/*.jsonl"))


def map_all(home: Path) -> Any:
    return graph(*(to_ntriples(path) for path in journals(home)))


def check(text: bytes) -> Report:
    """Validate N-Triples against the shapes of the ontology, without the constraints on whole runs."""
    return validate(text, only_shapes=paths.shapes() / "generated")


def lines(text: bytes) -> set[bytes]:
    return set(text.splitlines())


def same(value: float | None, expected: float | None) -> bool:
    if value is None or expected is None:
        return value is expected
    return (value != value and expected != expected) or value == pytest.approx(expected, rel=1e-9)


# ---- random scenarios


@given(SCENARIOS)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_a_journal_gives_the_same_triples_in_one_pass_and_one_event_at_a_time(scenario: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = record_scenario(scenario, Path(folder)).glob("*.jsonl")
        expected = lines(to_ntriples(path))
        triples, state = set(), msgspec.msgpack.encode(State())
        for event in read_events(path):
            mapper = EventMapper(msgspec.msgpack.decode(state, type=State))
            mapper.feed(event)
            triples |= lines(rdf.ntriples(mapper.take()))
            assert not mapper.problems
            state = msgspec.msgpack.encode(mapper.state)
        assert triples == expected


@given(SCENARIOS)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_generated_twice_and_no_node_has_two_values(scenario: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = record_scenario(scenario, Path(folder)).glob("*.jsonl")
        store = graph(to_ntriples(path))
        assert rows(store, GENERATED_TWICE) == []
        assert rows(store, TWO_VALUES) == []


@given(SCENARIOS)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_summaries_equal_aggregates_over_the_batches(scenario: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = record_scenario(scenario, Path(folder)).glob("*.jsonl")
        store = graph(to_ntriples(path))
        for _, name, minimum, mean, _, expected_min, expected_mean in rows(store, SUMMARIES):
            if expected_min is not None:  # Oxigraph cannot cast integers of more than 64 bits
                assert same(minimum, expected_min), name
                assert same(mean, expected_mean), name
        for _, count, *statistics, expected_count, expected_min, expected_mean, expected_max in rows(store, SECONDS):
            assert count == expected_count
            assert all(map(same, statistics, (expected_min, expected_mean, expected_max)))


@given(SCENARIOS)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_the_graph_conforms_to_the_ontology(scenario: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = record_scenario(scenario, Path(folder)).glob("*.jsonl")
        report = check(to_ntriples(path))
        assert not report.results, str(report)


@pytest.mark.parametrize("kind", ["epoch", "fold", "round", "episode"])
def test_any_section_of_a_training_may_be_validated(home: Path, kind: str):
    with record(home) as run, run.training() as training:
        for section in training.epochs(2, kind=kind):
            with section.validation() as validation:
                validation.measured(loss=1.0)
    (path,) = journals(home)
    report = check(to_ntriples(path))
    assert not report.results, str(report)


# ---- summaries and values in force


def test_a_summary_has_the_minimum_the_mean_and_the_last_value(home: Path):
    with record(home) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches([3.0, 1.0, 2.0]):
                batch.measured(loss=batch.data)
    assert rows(
        map_all(home), "SELECT ?a ?b ?c { ?s provml:minValue ?a ; provml:meanValue ?b ; provml:lastValue ?c }"
    ) == [(1.0, 2.0, 2.0)]


def test_nan_counts_as_in_sparql(home: Path):
    nan = float("nan")
    with record(home) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches([(nan, nan), (1.0, nan), (2.0, nan)]):
                batch.measured(loss=batch.data[0], other=batch.data[1])
    summaries = rows(map_all(home), SUMMARIES)
    assert len(summaries) == 2
    for _, _, minimum, mean, _, expected_min, expected_mean in summaries:
        assert same(minimum, expected_min)
        assert same(mean, expected_mean)
    assert min(minimum for _, _, minimum, *_ in summaries if minimum == minimum) == 1.0


def test_a_batch_without_an_end_is_counted_but_has_no_duration(home: Path):
    with record(home) as run, run.training() as training, training.epoch(1) as epoch:
        batches = epoch.batches([1, 2])
        next(batches).measured(loss=1.0)
        next(batches).measured(loss=2.0)
        batches = epoch._interrupted_batch = None
        path = journals(home)[0]
    assert sum(isinstance(event, events.BatchEnd) for event in read_events(path)) == 1
    assert rows(map_all(home), "SELECT ?n { ?e provml:batchCount ?n }") == [(2,)]
    assert len(rows(map_all(home), "SELECT ?b { ?b a provml:BatchExecution ; provml:elapsedSeconds ?s }")) == 1
    assert check(to_ntriples(path))


IN_FORCE = """SELECT ?n ?name ?value { ?epoch a provml:TrainingEpochExecution ; provml:sectionIndex ?n ;
  provml:hyperparameterInForce ?v . ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label ?name } ORDER BY ?n ?name"""


def test_each_epoch_has_the_values_that_were_in_force_when_it_began(home: Path):
    with record(home) as run, run.training(lr=0.1, momentum=0.9) as training:
        for epoch in training.epochs(4):
            if epoch.index == 2:
                training.adapted(lr=0.05, technique="step decay", reason="plateau", by="bob", parameters={"drop": 0.5})
            if epoch.index == 3:
                training.adapted(lr=0.01)
                training.adapted(batch_size=64)
    store = map_all(home)
    by_epoch: dict[int, dict[str, Any]] = {}
    for number, name, value in rows(store, IN_FORCE):
        assert name not in by_epoch.setdefault(number, {})
        by_epoch[number][name] = value
    assert by_epoch == {
        1: {"lr": 0.1, "momentum": 0.9},
        2: {"lr": 0.1, "momentum": 0.9},
        3: {"lr": 0.05, "momentum": 0.9},
        4: {"lr": 0.01, "momentum": 0.9, "batch_size": 64},
    }
    revisions = "SELECT ?new ?old { ?a provml:revisesValue ?b . ?a prov:value ?new . ?b prov:value ?old } ORDER BY ?new"
    assert rows(store, revisions) == [(0.01, 0.05), (0.05, 0.1)]
    epochs = "SELECT ?n { ?a a provml:AdaptationExecution ; provml:adaptedDuring/provml:sectionIndex ?n } ORDER BY ?n"
    assert rows(store, epochs) == [(2,), (3,), (3,)]


def test_a_parameter_recorded_again_is_a_new_value_in_force(home: Path):
    with record(home) as run, run.training(lr=0.1) as training:
        training.parameters(lr=0.2)
        with training.epoch(1):
            pass
    store = map_all(home)
    assert rows(store, IN_FORCE) == [(1, "lr", 0.2)]
    assert rows(store, TWO_VALUES) == []


# ---- names


def test_repeated_and_late_measures_of_an_epoch_are_separate_nodes(home: Path):
    with record(home) as run, run.training() as training:
        with training.epoch(1) as epoch:
            epoch.measured(loss=3.0)
            epoch.measured(loss=2.0, **{"loss-2": 9.0, "loss/2": 8.0, "1": 7.0})
        epoch.measured(loss=1.0)
        training.measured(network=0.5)
    store = map_all(home)
    assert rows(store, TWO_VALUES) == []
    losses = (
        "SELECT ?v { ?e a provml:ModelEvaluation ; prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'loss' } ORDER BY ?v"
    )
    assert rows(store, losses) == [(1.0,), (2.0,), (3.0,)]
    assert len(rows(store, "SELECT ?e { ?e a provml:ModelEvaluation }")) == 7


@pytest.mark.parametrize(
    "name", ["gray scale", "a/b", "größe", "x#y?z", "100 %", "日本", "task", "data", "environment"]
)
def test_names_are_labels_whatever_characters_they_have(home: Path, name: str):
    with record(home, name, model=name, task=name) as run:
        with run.preparation(name, **{name: 1}) as step:
            step.produced(b"x", name=name)
        with run.training(name=name, **{name: 2}) as training:
            training.measured(**{name: 3})
    (path,) = journals(home)
    report = check(to_ntriples(path))
    assert not report.results, str(report)
    labels = rows(map_all(home), "SELECT DISTINCT ?label { ?x rdfs:label ?label }")
    assert (name,) in labels
    assert rows(map_all(home), TWO_VALUES) == []


def test_the_same_content_produced_twice_is_two_entities_of_one_content(home: Path):
    with record(home) as run:
        raw = run.dataset(b"same", name="raw")
        with run.filter("nothing", using=raw) as first:
            filtered = first.produced(b"same", name="filtered")
        with run.filter("again", using=filtered) as second:
            second.produced(b"same", name="twice")
    store = map_all(home)
    assert rows(store, GENERATED_TWICE) == []
    lineage = """SELECT ?general ?by { ?entity prov:specializationOf ?general ;
      prov:wasGeneratedBy/provlake:wasDerivedFromDataTransformation/rdfs:label ?by } ORDER BY ?by"""
    (first_content, first_step), (second_content, second_step) = rows(store, lineage)
    assert (first_step, second_step) == ("again", "nothing")
    assert first_content == second_content
    assert first_content.startswith("urn:sha256:")
    assert check(to_ntriples(journals(home)[0]))


@pytest.mark.parametrize("kind", ["dataset", "features"])
def test_the_file_of_a_model_may_be_the_data_of_another_training(home: Path, kind: str):
    with record(home) as run:
        with run.training(using=run.dataset(b"flowers")) as teacher:
            teacher.produced(b"teacher", kind="model")
        with run.training(using=getattr(run, kind)(b"teacher")) as student:
            student.produced(b"student", kind="model")
    (path,) = journals(home)
    report = check(to_ntriples(path))
    assert not report.results, str(report)
    lineage = """SELECT ?from { ?to provlake:sha256 ?sha ; prov:wasGeneratedBy/prov:used/^prov:alternateOf/
      prov:wasGeneratedBy/prov:used/rdf:type ?from }"""
    assert ("https://w3id.org/provml#LearningDataset",) in rows(map_all(home), lineage)


def test_a_repeated_batch_index_is_another_batch(home: Path):
    with record(home) as run, run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches([1.0, 2.0]):
            batch.measured(loss=batch.data)
        for batch in epoch.batches([3.0], first=1):
            batch.measured(loss=batch.data)
    store = map_all(home)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }") == [(3,)]
    assert rows(store, "SELECT ?n { ?e provml:batchCount ?n }") == [(3,)]


# ---- damaged journals

EPOCH_INDICES = "SELECT ?n { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?n } ORDER BY ?n"


def damage(path: Path, *, drop: str = "", replace: tuple[int, bytes] | None = None) -> list[bytes]:
    """Drop the lines with a prefix, or replace a line by number; return the new lines."""
    result = [line for _, _, line in read_lines(path) if not drop or not line.decode().startswith(drop)]
    if replace is not None:
        result[replace[0]] = replace[1]
    path.write_bytes(b"".join(line + b"\n" for line in result))
    return result


def small_run(home: Path, stage: str = "training", kind: str = "epoch") -> Path:
    with record(home) as run:
        raw = run.dataset(b"raw", name="raw", role="raw")
        with run.training(name=stage, using=raw, lr=0.1) as training:
            for epoch in training.epochs(2, kind=kind):
                for batch in epoch.batches([1.0, 2.0]):
                    batch.measured(loss=batch.data)
                epoch.measured(accuracy=0.5)
            training.adapted(lr=0.05)
            training.layers([{"name": "conv", "filters": 3}])
            model = training.produced(b"m")
        with run.evaluation(of=model) as evaluation:
            evaluation.measured(accuracy=0.5)
    (path,) = journals(home)
    return path


@pytest.mark.parametrize("stage", ["training", "my stage", "resnet-50"])
@pytest.mark.parametrize(
    "drop",
    ['{"e":"begin","at"', '{"e":"run"', '{"e":"data"', '{"e":"done"', '{"e":"batch"', '{"e":"measured"', '{"e":"used"',
     '{"e":"produced"', '{"e":"end"'],
)  # fmt: skip
def test_a_graph_without_lost_lines_still_conforms(home: Path, drop: str, stage: str):
    path = small_run(home, stage)
    damage(path, drop=drop)
    text = to_ntriples(path)
    report = check(text)
    assert not report.results, str(report)
    assert rows(graph(text), TWO_VALUES) == []
    assert lines(text) == lines(to_ntriples(path))


def test_a_stage_whose_start_is_lost_is_a_training_if_it_has_sections(home: Path):
    path = small_run(home, "my stage")
    damage(path, drop='{"e":"begin","at":"my-stage","')
    text = to_ntriples(path)
    assert not check(text).results
    assert rows(graph(text), EPOCH_INDICES) == [(1,), (2,)]


def test_epochs_are_inferred_if_all_begin_events_are_lost(home: Path):
    path = small_run(home)
    damage(path, drop='{"e":"begin"')
    assert rows(graph(to_ntriples(path)), EPOCH_INDICES) == [(1,), (2,)]


DAMAGED_LINES = [
    b"{",
    b"\0\0\0\0",
    b'{"e":"nothing"}',
    b"\xff\xfe",
    b"[]",
    b'{"e":"begin","at":"a/b","kind":"epoch","t":1}',
    b'{"e":"done","at":"x","t":1e300,"s":1}',
    b'{"e":"measured","at":"training/1/x","values":{"a":1}}',
]


@pytest.mark.parametrize("line", DAMAGED_LINES)
def test_a_damaged_line_is_reported_and_the_other_lines_are_indexed(home: Path, line: bytes):
    path = small_run(home)
    measures = [i for i, (_, _, text) in enumerate(read_lines(path)) if b'"accuracy"' in text]
    damage(path, replace=(measures[0], line))
    with Store(home) as store:
        store.sync()
        (problem,) = store.problems
        assert (problem.file, problem.line) == (path.relative_to(home).as_posix(), measures[0] + 1)
        assert problem.reason
        assert store.query("SELECT ?v { ?e a provml:ModelEvaluation ; prov:value ?v }").column("v") == [0.5, 0.5]
        assert [item for item in store.verify() if item.line] == [problem]
        store.rebuild()
        assert store.problems == [problem]


def test_the_number_of_problems_of_a_journal_is_limited(home: Path):
    path = small_run(home)
    with path.open("ab") as file:
        file.write(b"{\n" * 5000)
    with Store(home) as store:
        store.sync()
        assert 0 < len(store.problems) <= 1000


def test_an_incomplete_last_line_is_read_when_it_is_complete(home: Path):
    path = small_run(home)
    whole = path.read_bytes()
    cut = whole.rindex(b'{"e":"measured"') + 20
    path.write_bytes(whole[:cut])
    with Store(home) as store:
        store.sync()
        assert store.problems == []
        before = len(store.query("SELECT ?e { ?e a provml:ModelEvaluation }"))
        path.write_bytes(whole)
        assert store.sync() > 0
        assert store.problems == []
        assert len(store.query("SELECT ?e { ?e a provml:ModelEvaluation }")) == before + 1


def test_a_journal_of_a_newer_version_is_a_problem_until_provml_is_upgraded(home: Path):
    path = small_run(home)
    first, rest = path.read_bytes().split(b"\n", 1)
    newer = json.dumps({**json.loads(first), "v": events.VERSION + 1}, separators=(",", ":")).encode()
    path.write_bytes(newer + b"\n" + rest)
    with Store(home) as store:
        assert store.runs() == []
        (problem,) = store.problems
        assert "newer" in problem.reason
        assert "upgrade provml" in problem.reason
        assert store.sync() == 0
        assert len(store.problems) == 1
        path.write_bytes(first + b"\n" + rest)
        assert store.sync() > 0
        assert store.problems == []
        assert store.runs()[0].status == "FINISHED"


def test_an_invalid_concept_is_a_problem_and_the_data_is_indexed(home: Path):
    with record(home) as run:
        run._emit(events.Data("sha256:" + "0" * 64, "dataset", "raw", about=["no iri", "http://example.org/c"]))
    with Store(home) as store:
        assert len(store.query("SELECT ?d { ?d a provml:LearningDataset ; provlake:about ?c }")) == 1
        assert len(store.problems) == 1
        assert "no iri" in store.problems[0].reason


# ---- several writers


def in_child(function: Any) -> None:
    """Call a function in a forked child process."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_forked_children_continue_with_the_state_of_their_parent(home: Path):
    with record(home) as run, run.training(name="my stage", lr=0.1) as training:
        training.adapted(lr=0.05)
        with training.epoch(1) as epoch:

            def child() -> None:
                epoch.measured(loss=2.0)
                for batch in epoch.batches([1.0]):
                    batch.measured(loss=batch.data)
                with training.epoch(7, kind="fold") as fold:
                    fold.measured(loss=3.0)
                run._writer._end_child()

            in_child(child)
            in_child(child)
            epoch.measured(loss=1.0)
        training.adapted(lr=0.01)
    assert len(journals(home)) == 3
    texts = [to_ntriples(path) for path in journals(home)]
    report = check(b"".join(texts))
    assert not report.results, str(report)
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, GENERATED_TWICE) == []
    losses = """SELECT ?v { ?x a provml:ModelEvaluation ; prov:value ?v ; prov:wasGeneratedBy/provml:sectionIndex 1 }
      ORDER BY ?v"""
    assert rows(store, losses) == [(1.0,), (2.0,), (2.0,)]
    assert rows(store, "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }") == [(2,)]
    folds = """SELECT ?lr { ?f a provml:FoldExecution ; provml:hyperparameterInForce/prov:value ?lr ;
      provml:wasSectionOf/provlake:wasDerivedFromDataTransformation/rdfs:label 'my stage' }"""
    assert rows(store, folds) == [(0.05,), (0.05,)]
    assert rows(store, "SELECT ?x { ?x a provml:TrainingExecution }") == [
        (f"https://w3id.org/provml/run/{run.id}/my-stage",)
    ]


@pytest.mark.parametrize("writer", ["first", "resumed", "rank"])
def test_children_of_any_writer_continue_with_its_state(home: Path, writer: str, monkeypatch: pytest.MonkeyPatch):
    if writer != "first":
        in_child(lambda: record(home, run="r").finish())
    if writer == "rank":
        monkeypatch.setenv("RANK", "1")
    with record(home, run="r") as run, run.training(name="my stage", lr=0.1) as training:
        data = run.dataset(b"images", name="images.h5")
        with training.epoch(1) as epoch:

            def child() -> None:
                epoch.used(data, role="validation")
                epoch.measured(loss=2.0)
                with training.epoch(7) as child_epoch:

                    def grandchild() -> None:
                        epoch.measured(loss=3.0)
                        child_epoch.measured(loss=4.0)
                        run._writer._end_child()

                    in_child(grandchild)
                    child_epoch.measured(loss=5.0)
                run._writer._end_child()

            in_child(child)
            in_child(child)
            epoch.measured(loss=1.0)
    assert len(journals(home)) == 5 + (writer != "first")
    texts = [to_ntriples(path) for path in journals(home)]
    report = check(b"".join(texts))
    assert not report.results, str(report)
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, GENERATED_TWICE) == []
    losses = """SELECT ?epoch ?index ?v { ?x a provml:ModelEvaluation ; prov:value ?v ; prov:wasGeneratedBy ?epoch .
      ?epoch a provml:TrainingEpochExecution ; provml:sectionIndex ?index } ORDER BY ?index ?epoch ?v"""
    measures = rows(store, losses)
    assert [(index, loss) for _, index, loss in measures] == [
        *((1, 1.0), (1, 2.0), (1, 2.0), (1, 3.0), (1, 3.0)),
        *((7, 4.0), (7, 5.0), (7, 4.0), (7, 5.0)),
    ]
    assert len({epoch for epoch, _, _ in measures}) == 3, "one epoch of the parent, and one of each child"
    assert len(rows(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1
    assert rows(store, "SELECT ?l { ?d a provml:LearningDatasetReference ; rdfs:label ?l }") == [("images.h5",)]
    used = "SELECT ?e { ?e a provml:TrainingEpochExecution ; prov:used <urn:sha256:%s> }" % data.sha256  # noqa: UP031
    assert len(rows(store, used)) == 1


def test_children_of_a_deleted_journal_have_separate_nodes(home: Path, monkeypatch: pytest.MonkeyPatch):
    in_child(lambda: record(home, run="r").finish())
    monkeypatch.setenv("RANK", "1")
    with record(home, run="r") as run, run.training() as training, training.epoch(1) as epoch:
        for loss in (1.0, 2.0):

            def child(loss: float = loss) -> None:
                training.measured(loss=loss)
                epoch.measured(loss=loss)
                run._writer._end_child()

            in_child(child)
    (home / "runs" / "r" / "rank-1.jsonl").unlink()
    texts = [to_ntriples(path) for path in journals(home)]
    assert len(texts) == 3
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert len(rows(store, "SELECT ?v { ?v a provml:ModelEvaluation }")) == 4


def test_wrong_parents_in_headers_are_ignored(home: Path):
    folder = home / "runs" / "r"
    folder.mkdir(parents=True)
    for name, parent in (("a-1-a", "b-1-b"), ("b-1-b", "a-1-a"), ("c-1-c", "c-1-c"), ("d-1-d", "../../etc/d\0")):
        header = events.Header(events.VERSION, "r", name, "x", 1.0, main=False, parent=parent)
        measured = events.Measured("training@9-9/1", {"loss": 1.0})
        (folder / f"{name}.jsonl").write_bytes(events.encode(header) + events.encode(measured))
    store = map_all(home)
    assert len(rows(store, "SELECT ?v { ?v a provml:ModelEvaluation }")) == 4


def test_sections_of_a_users_own_kind_have_a_plan_of_that_name(home: Path):
    with record(home) as run, run.training(lr=0.1) as training:
        for episode in training.epochs(2, kind="rollout / episode"):
            for batch in episode.batches([0.5]):
                batch.measured(loss=batch.data)
            episode.measured(reward=float(episode.index))
            episode.produced(b"policy", name=f"policy {episode.index}")
    (path,) = journals(home)
    report = check(to_ntriples(path))
    assert not report.results, str(report)
    rewards = """SELECT ?index ?reward { ?x a provml:LearningStageSectionExecution ; provml:sectionIndex ?index ;
        provlake:wasDerivedFromDataTransformation/provlake:tag "Rollout / episode" .
      ?v prov:wasGeneratedBy ?x ; prov:value ?reward ; prov:wasDerivedFrom/rdfs:label "reward" } ORDER BY ?index"""
    assert rows(map_all(home), rewards) == [(1, 1.0), (2, 2.0)]


def test_stages_of_two_kinds_with_one_name_have_two_plans(home: Path):
    with record(home) as run:
        for name in ("first", "training"):
            run.training(name=name).done()
            run.validation(name=name).done()
            run.training(name=name).done()
    (path,) = journals(home)
    report = check(to_ntriples(path))
    assert not report.results, str(report)
    plans = """SELECT ?kind ?name (COUNT(DISTINCT ?plan) AS ?n) {
      VALUES ?kind { provml:Training provml:Validation } ?plan a ?kind ; rdfs:label ?name } GROUP BY ?kind ?name"""
    assert [row[2] for row in rows(map_all(home), plans)] == [1, 1, 1, 1]


def test_capture_errors_are_one_comment_of_the_run(home: Path):
    with Run("x", home=home, capture_environment=False) as run, run.training() as training:
        for _ in range(5):
            training.measured(loss="much")
        with Store(home) as store:
            comments = "SELECT ?c { ?run a provml:LearningProcessExecution ; rdfs:comment ?c }"
            (comment,) = store.query(comments).rows
            training.measured(loss="much")
    with Store(home) as store:
        assert store.query(comments).rows == [comment]
        assert "TypeError" in comment[0]


def test_the_order_of_the_journals_of_a_run_does_not_matter(home: Path):
    with record(home) as run, run.training(lr=0.1) as training, training.epoch(1) as epoch:
        for _ in range(3):
            in_child(lambda: (epoch.measured(loss=1.0), run._writer._end_child()))
    paths = journals(home)
    assert len(paths) == 4
    forward = [to_ntriples(path) for path in paths]
    backward = [to_ntriples(path) for path in reversed(paths)]
    assert forward == backward[::-1]


def test_ranks_share_one_run_with_one_plan(home: Path, monkeypatch: pytest.MonkeyPatch):
    with record(home, "flowers") as run:
        for rank in (1, 2):

            def child(rank: int = rank) -> None:
                monkeypatch.setenv("RANK", str(rank))
                with record(home, f"worker {rank}") as joined, joined.training(lr=0.1 * rank) as training:
                    assert joined.id == run.id
                    training.measured(loss=float(rank))
                    training.produced(b"same for all", kind="dataset", name="out")

            in_child(child)
        with run.training(lr=0.3) as training:
            training.measured(loss=0.0)
            training.produced(b"same for all", kind="dataset", name="out")
    texts = [to_ntriples(path) for path in journals(home)]
    assert len(texts) == 3
    store = graph(*texts)
    report = check(b"".join(texts))
    assert not report.results, str(report)
    assert rows(store, GENERATED_TWICE) == []
    assert rows(store, "SELECT ?r { ?r a provml:LearningProcessExecution }") == [
        (f"https://w3id.org/provml/run/{run.id}",)
    ]
    assert rows(store, "SELECT DISTINCT ?e { ?r provlake:wasDerivedFromWorkflow/rdfs:label ?e }") == [("flowers",)]
    assert len(rows(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 3
    with Store(home) as opened:
        (info,) = opened.runs()
        assert (info.name, info.writers, info.status) == ("flowers", 3, "FINISHED")


def test_a_resumed_run_has_the_status_of_its_last_process(home: Path):
    first = record(home, run="again")
    with pytest.raises(ValueError), first, first.training():
        raise ValueError("out of memory")
    with Store(home) as store:
        assert store.run("again").status == "FAILED"
        with record(home, run="again") as run, run.training() as training:
            training.measured(loss=1.0)
            assert store.run("again").status == "RUNNING"
            assert (
                store.query("SELECT ?e { ?r a provml:LearningProcessExecution ; provlake:exceptionMessage ?e }").rows
                == []
            )
        assert store.run("again").status == "FINISHED"
        assert len(store.query("SELECT ?t { ?t a provml:TrainingExecution }")) == 2
        out = io.BytesIO()
        store.export("again", out, "nt")
        report = check(out.getvalue())
        assert not report.results, str(report)


def test_layers_are_a_network_with_exact_values(home: Path):
    with record(home) as run, run.training() as training:
        training.layers(
            [
                {"name": "b", "type": "DenseBlock", "is_block": True},
                {
                    "name": "conv",
                    "type": "Conv2D",
                    "filters": 96,
                    "kernel": (3, 3),
                    "block": "b",
                    "parameter_count": 10,
                },
                {"name": "drop", "rate": float("nan"), "block": "b", "pair": ["same", "valid"]},
            ]
        )
        training.layers([{"name": "conv", "filters": 1}])
        training.produced(b"m")
    (path,) = journals(home)
    assert check(to_ntriples(path))
    store = graph(to_ntriples(path))
    assert rows(store, TWO_VALUES) == []
    members = "SELECT ?name { ?b a provml:DenseBlock ; provml:hasLayer/rdfs:label ?name } ORDER BY ?name"
    assert rows(store, members) == [("conv",), ("drop",)]
    kernels = """SELECT ?v { ?l rdfs:label 'conv' ; provml:hasParameter ?p .
      ?p prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'kernel' }"""
    assert len(rows(store, kernels)) == 1


# ---- execution of steps


def test_execution_details_are_values_of_the_step(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.execution(name="tile 3", directory="/scratch", resource="node07", output="done\n", errors="slow")
    result = rows(
        map_all(home),
        """SELECT ?name ?where ?on ?output ?errors { ?s provlake:standardOutput ?output ; rdfs:label ?name ;
           provlake:standardError ?errors ; prov:atLocation ?l ; prov:wasAssociatedWith ?e .
           ?l a prov:Location ; rdfs:label ?where . ?e a provlake:ExecutionEnvironment ; rdfs:label ?on }""",
    )
    assert result == [("tile 3", "/scratch", "node07", "done\n", "slow")]


def test_a_second_output_of_a_step_is_a_problem(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.execution(output="one")
        step.execution(output="two", errors="slow")
    with Store(home) as store:
        outputs = store.query("SELECT ?o ?e { ?s provlake:standardOutput ?o ; provlake:standardError ?e }")
        assert [tuple(row) for row in outputs.rows] == [("one", "slow")]
        [problem] = store.problems
    assert "tile has a second standard output; only the first is recorded" in str(problem)


def test_implementations_of_one_name_in_two_files_are_two(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.implemented_by("main.py")
        for source in ("/a", "/b"):
            run._emit(events.Implementation(step._location, "main.py", source=source))
    result = rows(
        map_all(home),
        """SELECT DISTINCT ?i ?where { ?i a provml:Implementation OPTIONAL { ?i prov:atLocation/rdfs:label ?where } }
           ORDER BY ?where""",
    )
    assert [row[1] for row in result] == [None, "/a", "/b"]


def test_a_step_was_informed_by_its_parent(home: Path):
    with record(home) as run, run.step("tile") as step:
        run._emit(events.Begin("part", "computation", 2e9, "part", parent=step._location))
        run._emit(events.Done("part", 2e9 + 1, 1.0))
    result = rows(
        map_all(home),
        """SELECT ?whole ?tag { ?p prov:wasInformedBy/provlake:wasDerivedFromDataTransformation/rdfs:label ?whole ;
           provlake:wasDerivedFromDataTransformation/provlake:tag ?tag }""",
    )
    assert result == [("tile", "Computation")]


def test_a_model_is_an_alternate_of_the_content_of_each_file_it_was_saved_in(tmp_path: Path):
    for name, content in (("net.pt", b"torch"), ("copy.pt", b"torch"), ("net.onnx", b"onnx")):
        (tmp_path / name).write_bytes(content)
    with provml.record("x", home=tmp_path / "home", run="r", strict=True) as run:
        with run.training(using=run.dataset(b"rows")) as training:
            model = training.produced(None, epoch=3)
        for name in ("net.pt", "copy.pt", "net.onnx"):
            run.saved(model, tmp_path / name, epoch=3, file=name)
        with run.evaluation(of=model) as evaluation:
            evaluation.measured(accuracy=0.5)
    with provml.open(tmp_path / "home") as store:
        digests = [hashlib.sha256(content).hexdigest() for content in (b"torch", b"onnx")]
        (row,) = store.query("SELECT ?m ?s { ?m a provml:Model ; prov:wasGeneratedBy ?t ; provlake:sha256 ?s }").rows
        assert row[1] == digests[0], "the first file decides"
        alternates = store.query(
            "SELECT ?s { ?m a provml:Model ; prov:alternateOf/provlake:sha256 ?s } ORDER BY ?s"
        ).rows
        assert [row[0] for row in alternates] == sorted(digests)
        paths = store.query("SELECT ?p { ?m a provml:Model ; provlake:path ?p }").rows
        assert sorted(Path(path).name for (path,) in paths) == ["copy.pt", "net.onnx", "net.pt"]
        values = store.query("SELECT ?n ?v { ?h a provml:ModelHyperparameterValue ; prov:value ?v ; "
                             "provlake:wasDerivedFromAttribute/rdfs:label ?n } ORDER BY ?n ?v").rows  # fmt: skip
        expected = [("epoch", 3), ("file", "copy.pt"), ("file", "net.onnx"), ("file", "net.pt")]
        assert [tuple(row) for row in values] == expected
        assert store.validate("r")
        assert store.problems == []
