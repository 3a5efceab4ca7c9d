"""Lifting: the same triples however a journal is read, right roll-ups, right values in force, graphs that conform."""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from journals import told_in
from worlds import WORLDS, graph, lift, live, rows

from provml import event, rdf, resources
from provml.journal import read_lines
from provml.lift import Lifter, State
from provml.recorder import Recorder
from provml.store import Store
from provml.validation import Report, validate

TWICE = "SELECT ?e ?a ?b { ?e prov:wasGeneratedBy ?a, ?b FILTER(STR(?a) < STR(?b)) }"
TWO_VALUES = "SELECT ?e ?a ?b { ?e prov:value ?a, ?b FILTER(!sameTerm(?a, ?b)) }"
ROLLED_UP = """
SELECT ?epoch ?title ?min ?mean ?last ?least ?average ?ends {
  ?epoch provml:hasBatchSummary ?summary .
  ?summary prov:wasDerivedFrom ?measure ; provml:minValue ?min ; provml:meanValue ?mean ; provml:lastValue ?last .
  ?measure rdfs:label ?title .
  { SELECT ?epoch ?measure (MIN(xsd:double(?v)) AS ?least) (AVG(xsd:double(?v)) AS ?average) {
      ?batch provml:wasSectionOf ?epoch . ?value a provml:BatchEvaluation ; prov:wasGeneratedBy ?batch ;
        prov:wasDerivedFrom ?measure ; prov:value ?v } GROUP BY ?epoch ?measure }
}"""
SECONDS = """
SELECT ?epoch ?count ?min ?mean ?max ?batches ?least ?average ?most {
  ?epoch provml:batchCount ?count .
  OPTIONAL { ?epoch provml:minBatchSeconds ?min ; provml:meanBatchSeconds ?mean ; provml:maxBatchSeconds ?max }
  { SELECT ?epoch (COUNT(DISTINCT ?batch) AS ?batches) (MIN(?s) AS ?least) (AVG(?s) AS ?average) (MAX(?s) AS ?most) {
      ?batch a provml:BatchExecution ; provml:wasSectionOf ?epoch OPTIONAL { ?batch provml:elapsedSeconds ?s } }
    GROUP BY ?epoch }
}"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def record(home: Path, name: str = "flowers", **settings: Any) -> Recorder:
    return Recorder(name, home=home, strict=True, capture_environment=False, **settings)


def journals(home: Path) -> list[Path]:
    return sorted(home.glob("runs/*/*.jsonl"))


def lift_all(home: Path) -> Any:
    return graph(*(lift(path) for path in journals(home)))


def checked(text: bytes) -> Report:
    """What the ontology finds wrong; what a whole run promises is another matter."""
    return validate(text, resources.shapes() / "generated")


def lines(text: bytes) -> set[bytes]:
    return set(text.splitlines())


def same(found: float | None, wanted: float | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return (found != found and wanted != wanted) or found == pytest.approx(wanted, rel=1e-9)


# ---- random worlds


@given(WORLDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_journal_gives_the_same_triples_in_one_go_and_stopped_after_every_event(world: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = live(world, Path(folder)).glob("*.jsonl")
        whole = lines(lift(path))
        pieces, kept = set(), msgspec.msgpack.encode(State())
        for what in told_in(path):
            lifter = Lifter(msgspec.msgpack.decode(kept, type=State))
            lifter.feed(what)
            pieces |= lines(rdf.ntriples(lifter.take()))
            assert not lifter.complaints
            kept = msgspec.msgpack.encode(lifter.state)
        assert pieces == whole


@given(WORLDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_generated_twice_and_no_value_has_two_values(world: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = live(world, Path(folder)).glob("*.jsonl")
        store = graph(lift(path))
        assert rows(store, TWICE) == []
        assert rows(store, TWO_VALUES) == []


@given(WORLDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_roll_ups_are_what_aggregates_over_the_batches_give(world: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = live(world, Path(folder)).glob("*.jsonl")
        store = graph(lift(path))
        for _, title, low, mean, _, least, average, _ in rows(store, ROLLED_UP):
            assert same(low, least), title
            assert same(mean, average), title
        for _, count, *rolled, batches, least, average, most in rows(store, SECONDS):
            assert count == batches
            assert all(map(same, rolled, (least, average, most)))


@given(WORLDS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_lifted_conforms_to_the_ontology(world: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        (path,) = live(world, Path(folder)).glob("*.jsonl")
        report = checked(lift(path))
        assert not report.results, str(report)


# ---- roll-ups and values in force


def test_a_summary_tells_the_least_the_mean_and_the_last_value(home: Path):
    with record(home) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches([3.0, 1.0, 2.0]):
                batch.measured(loss=batch.data)
    assert rows(
        lift_all(home), "SELECT ?a ?b ?c { ?s provml:minValue ?a ; provml:meanValue ?b ; provml:lastValue ?c }"
    ) == [(1.0, 2.0, 2.0)]


def test_nan_counts_as_in_sparql(home: Path):
    nan = float("nan")
    with record(home) as run, run.training() as training:
        for epoch in training.epochs(1):
            for batch in epoch.batches([(nan, nan), (1.0, nan), (2.0, nan)]):
                batch.measured(loss=batch.data[0], other=batch.data[1])
    found = rows(lift_all(home), ROLLED_UP)
    assert len(found) == 2
    for _, _, low, mean, _, least, average, _ in found:
        assert same(low, least)
        assert same(mean, average)
    assert min(low for _, _, low, *_ in found if low == low) == 1.0


def test_a_batch_that_never_ended_counts_as_a_batch_but_has_no_seconds(home: Path):
    with record(home) as run, run.training() as training, training.epoch(1) as epoch:
        batches = epoch.batches([1, 2])
        next(batches).measured(loss=1.0)
        next(batches).measured(loss=2.0)
        batches = epoch._left = None
        path = journals(home)[0]
    assert sum(isinstance(what, event.Batch) for what in told_in(path)) == 1
    assert rows(lift_all(home), "SELECT ?n { ?e provml:batchCount ?n }") == [(2,)]
    assert len(rows(lift_all(home), "SELECT ?b { ?b a provml:BatchExecution ; provml:elapsedSeconds ?s }")) == 1
    assert checked(lift(path))


IN_FORCE = """SELECT ?n ?title ?value { ?epoch a provml:TrainingEpochExecution ; provml:sectionIndex ?n ;
  provml:hyperparameterInForce ?v . ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label ?title } ORDER BY ?n ?title"""


def test_each_epoch_has_the_values_that_were_in_force_when_it_began(home: Path):
    with record(home) as run, run.training(lr=0.1, momentum=0.9) as training:
        for epoch in training.epochs(4):
            if epoch.index == 2:
                training.adapted(lr=0.05, technique="step decay", why="plateau", by="bob", parameters={"drop": 0.5})
            if epoch.index == 3:
                training.adapted(lr=0.01)
                training.adapted(batch_size=64)
    store = lift_all(home)
    by_epoch: dict[int, dict[str, Any]] = {}
    for number, title, value in rows(store, IN_FORCE):
        assert title not in by_epoch.setdefault(number, {})
        by_epoch[number][title] = value
    assert by_epoch == {
        1: {"lr": 0.1, "momentum": 0.9},
        2: {"lr": 0.1, "momentum": 0.9},
        3: {"lr": 0.05, "momentum": 0.9},
        4: {"lr": 0.01, "momentum": 0.9, "batch_size": 64},
    }
    chain = "SELECT ?new ?old { ?a provml:revisesValue ?b . ?a prov:value ?new . ?b prov:value ?old } ORDER BY ?new"
    assert rows(store, chain) == [(0.01, 0.05), (0.05, 0.1)]
    during = "SELECT ?n { ?a a provml:AdaptationExecution ; provml:adaptedDuring/provml:sectionIndex ?n } ORDER BY ?n"
    assert rows(store, during) == [(2,), (3,), (3,)]


def test_a_parameter_told_again_is_a_new_value_in_force(home: Path):
    with record(home) as run, run.training(lr=0.1) as training:
        training.parameters(lr=0.2)
        with training.epoch(1):
            pass
    store = lift_all(home)
    assert rows(store, IN_FORCE) == [(1, "lr", 0.2)]
    assert rows(store, TWO_VALUES) == []


# ---- names


def test_measures_of_one_epoch_are_kept_apart_however_often_and_late_they_come(home: Path):
    with record(home) as run, run.training() as training:
        with training.epoch(1) as epoch:
            epoch.measured(loss=3.0)
            epoch.measured(loss=2.0, **{"loss-2": 9.0, "loss/2": 8.0, "1": 7.0})
        epoch.measured(loss=1.0)
        training.measured(network=0.5)
    store = lift_all(home)
    assert rows(store, TWO_VALUES) == []
    of = "SELECT ?v { ?e a provml:ModelEvaluation ; prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'loss' } ORDER BY ?v"
    assert rows(store, of) == [(1.0,), (2.0,), (3.0,)]
    assert len(rows(store, "SELECT ?e { ?e a provml:ModelEvaluation }")) == 7


@pytest.mark.parametrize(
    "name", ["gray scale", "a/b", "größe", "x#y?z", "100 %", "日本", "task", "data", "environment"]
)
def test_names_of_any_kind_come_back_as_labels(home: Path, name: str):
    with record(home, name, model=name, task=name) as run:
        with run.preparation(name, **{name: 1}) as step:
            step.produced(b"x", name=name)
        with run.training(name=name, **{name: 2}) as training:
            training.measured(**{name: 3})
    (path,) = journals(home)
    report = checked(lift(path))
    assert not report.results, str(report)
    labels = rows(lift_all(home), "SELECT DISTINCT ?label { ?x rdfs:label ?label }")
    assert (name,) in labels
    assert rows(lift_all(home), TWO_VALUES) == []


def test_the_same_content_produced_twice_is_two_entities_of_one_content(home: Path):
    with record(home) as run:
        raw = run.dataset(b"same", name="raw")
        with run.filter("nothing", using=raw) as first:
            kept = first.produced(b"same", name="filtered")
        with run.filter("again", using=kept) as second:
            second.produced(b"same", name="twice")
    store = lift_all(home)
    assert rows(store, TWICE) == []
    lineage = """SELECT ?general ?by { ?entity prov:specializationOf ?general ;
      prov:wasGeneratedBy/provlake:wasDerivedFromDataTransformation/rdfs:label ?by } ORDER BY ?by"""
    (again, one), (nothing, two) = rows(store, lineage)
    assert (one, two) == ("again", "nothing")
    assert again == nothing
    assert again.startswith("urn:sha256:")
    assert checked(lift(journals(home)[0]))


@pytest.mark.parametrize("kind", ["dataset", "features"])
def test_the_file_of_a_model_may_be_the_data_of_another_training(home: Path, kind: str):
    with record(home) as run:
        with run.training(using=run.dataset(b"flowers")) as teacher:
            teacher.produced(b"teacher", kind="model")
        with run.training(using=getattr(run, kind)(b"teacher")) as student:
            student.produced(b"student", kind="model")
    (path,) = journals(home)
    report = checked(lift(path))
    assert not report.results, str(report)
    way = """SELECT ?from { ?to provlake:sha256 ?sha ; prov:wasGeneratedBy/prov:used/^prov:alternateOf/
      prov:wasGeneratedBy/prov:used/rdf:type ?from }"""
    assert ("https://w3id.org/provml#LearningDataset",) in rows(lift_all(home), way)


def test_a_batch_index_that_comes_again_is_another_batch(home: Path):
    with record(home) as run, run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches([1.0, 2.0]):
            batch.measured(loss=batch.data)
        for batch in epoch.batches([3.0], first=1):
            batch.measured(loss=batch.data)
    store = lift_all(home)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }") == [(3,)]
    assert rows(store, "SELECT ?n { ?e provml:batchCount ?n }") == [(3,)]


# ---- damage


def damage(path: Path, *, drop: str = "", replace: tuple[int, bytes] | None = None) -> list[bytes]:
    """Leave out the lines that begin so, or put others in their place."""
    kept = [line for _, _, line in read_lines(path) if not drop or not line.decode().startswith(drop)]
    if replace is not None:
        kept[replace[0]] = replace[1]
    path.write_bytes(b"".join(line + b"\n" for line in kept))
    return kept


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
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.5)
    (path,) = journals(home)
    return path


@pytest.mark.parametrize("stage", ["training", "my stage", "resnet-50"])
@pytest.mark.parametrize(
    "drop",
    ['{"e":"begin","at"', '{"e":"run"', '{"e":"data"', '{"e":"done"', '{"e":"batch"', '{"e":"measured"', '{"e":"used"',
     '{"e":"produced"', '{"e":"end"'],
)  # fmt: skip
def test_lost_lines_cost_what_they_told_and_the_rest_still_conforms(home: Path, drop: str, stage: str):
    path = small_run(home, stage)
    damage(path, drop=drop)
    text = lift(path)
    report = checked(text)
    assert not report.results, str(report)
    assert rows(graph(text), TWO_VALUES) == []
    assert lines(text) == lines(lift(path))


def test_lost_begins_keep_batches_and_measures_at_their_places(home: Path):
    path = small_run(home)
    damage(path, drop='{"e":"begin"')
    found = rows(
        graph(lift(path)), "SELECT ?n { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?n } ORDER BY ?n"
    )
    assert found == [(1,), (2,)]


WRECKS = [
    b"{",
    b"\0\0\0\0",
    b'{"e":"nothing"}',
    b"\xff\xfe",
    b"[]",
    b'{"e":"begin","at":"a/b","kind":"epoch","t":1}',
    b'{"e":"done","at":"x","t":1e300,"s":1}',
    b'{"e":"measured","at":"training/1/x","values":{"a":1}}',
]


@pytest.mark.parametrize("wreck", WRECKS)
def test_a_damaged_line_is_reported_with_file_and_line_and_the_rest_is_kept(home: Path, wreck: bytes):
    path = small_run(home)
    measures = [i for i, (_, _, line) in enumerate(read_lines(path)) if b'"accuracy"' in line]
    damage(path, replace=(measures[0], wreck))
    with Store(home) as store:
        store.sync()
        (problem,) = store.problems
        assert (problem.file, problem.line) == (path.relative_to(home).as_posix(), measures[0] + 1)
        assert problem.reason
        assert store.query("SELECT ?v { ?e a provml:ModelEvaluation ; prov:value ?v }").column("v") == [0.5, 0.5]
        assert store.verify() == [problem]
        store.rebuild()
        assert store.problems == [problem]


def test_problems_of_a_wrecked_journal_do_not_pile_up_without_end(home: Path):
    path = small_run(home)
    with path.open("ab") as file:
        file.write(b"{\n" * 5000)
    with Store(home) as store:
        store.sync()
        assert 0 < len(store.problems) <= 1000


def test_a_torn_last_line_waits_until_it_is_whole(home: Path):
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


def test_a_journal_of_a_newer_version_is_refused_with_what_to_do_and_read_after_the_upgrade(home: Path):
    path = small_run(home)
    first, rest = path.read_bytes().split(b"\n", 1)
    newer = json.dumps({**json.loads(first), "v": event.VERSION + 1}, separators=(",", ":")).encode()
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


def test_an_unusable_concept_is_left_out_and_said_so_and_the_data_is_kept(home: Path):
    with record(home) as run:
        run.tell(event.Data("sha256:" + "0" * 64, "dataset", "raw", about=["no iri", "http://example.org/c"]))
    with Store(home) as store:
        assert len(store.query("SELECT ?d { ?d a provml:LearningDataset ; provlake:about ?c }")) == 1
        assert len(store.problems) == 1
        assert "no iri" in store.problems[0].reason


# ---- several writers


def in_child(work: Any) -> None:
    """Do some work in a forked child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_children_go_on_where_the_parent_was_when_they_were_forked(home: Path):
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
    texts = [lift(path) for path in journals(home)]
    report = checked(b"".join(texts))
    assert not report.results, str(report)
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, TWICE) == []
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


@pytest.mark.parametrize("who", ["first", "resumed", "rank"])
def test_children_of_any_writer_go_on_where_their_own_parent_was(home: Path, who: str, monkeypatch: pytest.MonkeyPatch):
    if who != "first":
        in_child(lambda: record(home, run="r").finish())
    if who == "rank":
        monkeypatch.setenv("RANK", "1")
    with record(home, run="r") as run, run.training(name="my stage", lr=0.1) as training:
        data = run.dataset(b"images", name="images.h5")
        with training.epoch(1) as epoch:

            def child() -> None:
                epoch.used(data, role="validation")
                epoch.measured(loss=2.0)
                with training.epoch(7) as own:

                    def grandchild() -> None:
                        epoch.measured(loss=3.0)
                        own.measured(loss=4.0)
                        run._writer._end_child()

                    in_child(grandchild)
                    own.measured(loss=5.0)
                run._writer._end_child()

            in_child(child)
            in_child(child)
            epoch.measured(loss=1.0)
    assert len(journals(home)) == 5 + (who != "first")
    texts = [lift(path) for path in journals(home)]
    report = checked(b"".join(texts))
    assert not report.results, str(report)
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert rows(store, TWICE) == []
    losses = """SELECT ?epoch ?index ?v { ?x a provml:ModelEvaluation ; prov:value ?v ; prov:wasGeneratedBy ?epoch .
      ?epoch a provml:TrainingEpochExecution ; provml:sectionIndex ?index } ORDER BY ?index ?epoch ?v"""
    found = rows(store, losses)
    assert [(index, loss) for _, index, loss in found] == [
        *((1, 1.0), (1, 2.0), (1, 2.0), (1, 3.0), (1, 3.0)),
        *((7, 4.0), (7, 5.0), (7, 4.0), (7, 5.0)),
    ]
    assert len({epoch for epoch, _, _ in found}) == 3, "both children have an epoch of their own beside the parent's"
    assert len(rows(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1
    assert rows(store, "SELECT ?l { ?d a provml:LearningDatasetReference ; rdfs:label ?l }") == [("images.h5",)]
    used = "SELECT ?e { ?e a provml:TrainingEpochExecution ; prov:used <urn:sha256:%s> }" % data.sha256  # noqa: UP031
    assert len(rows(store, used)) == 1


def test_children_of_a_journal_that_is_gone_clash_nowhere(home: Path, monkeypatch: pytest.MonkeyPatch):
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
    texts = [lift(path) for path in journals(home)]
    assert len(texts) == 3
    store = graph(*texts)
    assert rows(store, TWO_VALUES) == []
    assert len(rows(store, "SELECT ?v { ?v a provml:ModelEvaluation }")) == 4


def test_a_parent_that_names_itself_or_nobody_harms_nothing(home: Path):
    folder = home / "runs" / "r"
    folder.mkdir(parents=True)
    for name, parent in (("a-1-a", "b-1-b"), ("b-1-b", "a-1-a"), ("c-1-c", "c-1-c"), ("d-1-d", "../../etc/d\0")):
        first = event.Run(event.VERSION, "r", name, "x", 1.0, main=False, parent=parent)
        told = [event.encode(one) for one in (first, event.Measured("training@9-9/1", {"loss": 1.0}))]
        (folder / f"{name}.jsonl").write_bytes(b"".join(told))
    store = lift_all(home)
    assert len(rows(store, "SELECT ?v { ?v a provml:ModelEvaluation }")) == 4


def test_sections_of_a_kind_that_a_user_names_are_sections_with_a_plan_of_that_name(home: Path):
    with record(home) as run, run.training(lr=0.1) as training:
        for episode in training.epochs(2, kind="rollout / episode"):
            for batch in episode.batches([0.5]):
                batch.measured(loss=batch.data)
            episode.measured(reward=float(episode.index))
            episode.produced(b"policy", name=f"policy {episode.index}")
    (path,) = journals(home)
    report = checked(lift(path))
    assert not report.results, str(report)
    found = """SELECT ?index ?reward { ?x a provml:LearningStageSectionExecution ; provml:sectionIndex ?index ;
        provlake:wasDerivedFromDataTransformation/provlake:tag "Rollout / episode" .
      ?v prov:wasGeneratedBy ?x ; prov:value ?reward ; prov:wasDerivedFrom/rdfs:label "reward" } ORDER BY ?index"""
    assert rows(lift_all(home), found) == [(1, 1.0), (2, 2.0)]


def test_stages_of_two_kinds_with_one_name_have_two_plans(home: Path):
    with record(home) as run:
        for title in ("first", "training"):
            run.training(name=title).done()
            run.validation(name=title).done()
            run.training(name=title).done()
    (path,) = journals(home)
    report = checked(lift(path))
    assert not report.results, str(report)
    plans = """SELECT ?kind ?title (COUNT(DISTINCT ?plan) AS ?n) {
      VALUES ?kind { provml:Training provml:Validation } ?plan a ?kind ; rdfs:label ?title } GROUP BY ?kind ?title"""
    assert [row[2] for row in rows(lift_all(home), plans)] == [1, 1, 1, 1]


def test_faults_are_one_note_on_the_run_however_often_they_were_told(home: Path):
    with Recorder("x", home=home, capture_environment=False) as run, run.training() as training:
        for _ in range(5):
            training.measured(loss=object())
        with Store(home) as store:
            note = "SELECT ?note { ?run a provml:LearningProcessExecution ; rdfs:comment ?note }"
            (live,) = store.query(note).rows
            training.measured(loss=object())
    with Store(home) as store:
        assert store.query(note).rows == [live]
        assert "TypeError" in live[0]


def test_journals_of_a_run_give_the_same_triples_in_any_order_of_files(home: Path):
    with record(home) as run, run.training(lr=0.1) as training, training.epoch(1) as epoch:
        for _ in range(3):
            in_child(lambda: (epoch.measured(loss=1.0), run._writer._end_child()))
    paths = journals(home)
    assert len(paths) == 4
    forward = [lift(path) for path in paths]
    backward = [lift(path) for path in reversed(paths)]
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
    texts = [lift(path) for path in journals(home)]
    assert len(texts) == 3
    store = graph(*texts)
    report = checked(b"".join(texts))
    assert not report.results, str(report)
    assert rows(store, TWICE) == []
    assert rows(store, "SELECT ?r { ?r a provml:LearningProcessExecution }") == [
        (f"https://w3id.org/provml/run/{run.id}",)
    ]
    assert rows(store, "SELECT DISTINCT ?e { ?r provlake:wasDerivedFromWorkflow/rdfs:label ?e }") == [("flowers",)]
    assert len(rows(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 3
    with Store(home) as opened:
        (info,) = opened.runs()
        assert (info.name, info.writers, info.status) == ("flowers", 3, "FINISHED")


def test_a_run_taken_up_again_stands_as_its_last_process_does(home: Path):
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
        report = checked(out.getvalue())
        assert not report.results, str(report)


def test_what_layers_tell_is_a_network_with_exact_values(home: Path):
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
    assert checked(lift(path))
    store = graph(lift(path))
    assert rows(store, TWO_VALUES) == []
    inside = "SELECT ?name { ?b a provml:DenseBlock ; provml:hasLayer/rdfs:label ?name } ORDER BY ?name"
    assert rows(store, inside) == [("conv",), ("drop",)]
    of = """SELECT ?v { ?l rdfs:label 'conv' ; provml:hasParameter ?p .
      ?p prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'kernel' }"""
    assert len(rows(store, of)) == 1


# ---- where steps ran


def test_where_a_step_ran_and_what_it_wrote_are_told_of_its_execution(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.ran(name="tile 3", where="/scratch", on="node07", output="done\n", errors="slow")
    found = rows(
        lift_all(home),
        """SELECT ?name ?where ?on ?output ?errors { ?s provlake:standardOutput ?output ; rdfs:label ?name ;
           provlake:standardError ?errors ; prov:atLocation ?l ; prov:wasAssociatedWith ?e .
           ?l a prov:Location ; rdfs:label ?where . ?e a provlake:ExecutionEnvironment ; rdfs:label ?on }""",
    )
    assert found == [("tile 3", "/scratch", "node07", "done\n", "slow")]


def test_of_an_output_that_is_said_twice_the_first_is_kept_and_the_other_complained_of(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.ran(output="one")
        step.ran(output="two", errors="slow")
    with Store(home) as store:
        found = store.query("SELECT ?o ?e { ?s provlake:standardOutput ?o ; provlake:standardError ?e }")
        assert [tuple(row) for row in found.rows] == [("one", "slow")]
        [problem] = store.problems
    assert "the standard output of tile was said twice" in str(problem)


def test_implementations_of_one_name_in_two_places_are_two(home: Path):
    with record(home) as run, run.step("tile") as step:
        step.implemented_by("main.py")
        for where in ("/a", "/b"):
            run.tell(event.Implementation(step.at, "main.py", where=where))
    found = rows(
        lift_all(home),
        """SELECT DISTINCT ?i ?where { ?i a provml:Implementation OPTIONAL { ?i prov:atLocation/rdfs:label ?where } }
           ORDER BY ?where""",
    )
    assert [row[1] for row in found] == [None, "/a", "/b"]


def test_a_step_during_another_was_informed_by_it(home: Path):
    with record(home) as run, run.step("tile") as step:
        run.tell(event.Begin("part", "computation", 2e9, "part", during=step.at))
        run.tell(event.Done("part", 2e9 + 1, 1.0))
    found = rows(
        lift_all(home),
        """SELECT ?whole ?tag { ?p prov:wasInformedBy/provlake:wasDerivedFromDataTransformation/rdfs:label ?whole ;
           provlake:wasDerivedFromDataTransformation/provlake:tag ?tag }""",
    )
    assert found == [("tile", "Computation")]
