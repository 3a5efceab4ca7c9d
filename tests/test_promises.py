"""The promises written by hand: each has examples that keep it and that break it, and our own runs keep them all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings
from worlds import WORLDS, live

from provml import resources
from provml.exchange import dnnprov
from provml.recorder import Recorder
from provml.store import Store
from provml.validation import validate

ROOT = Path(__file__).parents[1]
SUITES = Path(os.environ.get("PROVML_SUITES") or ROOT.parent / "shared" / "suites")
DUMP = SUITES / "dnnprov" / "alexnet-8-runs.sql"
EXAMPLES = Path(__file__).parent / "shapes"
SH = "http://www.w3.org/ns/shacl#"
SHAPE = "https://w3id.org/provml/shape/"
LABEL = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
COMMENT = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#comment")
PROMISES = {
    **{path.stem: path for path in sorted(resources.shapes().glob("*.ttl"))},
    "known-term": resources.shapes() / "generated" / "known-term.ttl",
}
PASSING = sorted(EXAMPLES.glob("*/pass-*.ttl"))
FAILING = sorted(EXAMPLES.glob("*/fail-*.ttl"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def shapes_of(promise: str) -> ox.Store:
    store = ox.Store()
    store.load(path=str(PROMISES[promise]), format=ox.RdfFormat.TURTLE)
    return store


def objects(store: ox.Store, predicate: str) -> set[str]:
    return {quad.object.value for quad in store.quads_for_pattern(None, ox.NamedNode(SH + predicate), None)}


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_has_examples_that_keep_it_and_that_break_it(promise: str):
    assert any(path.parent.name == promise for path in PASSING), "there is no tests/shapes/*/pass-*.ttl"
    assert any(path.parent.name == promise for path in FAILING), "there is no tests/shapes/*/fail-*.ttl"


def test_every_example_is_of_a_promise():
    assert {path.parent.name for path in EXAMPLES.glob("*/*")} == set(PROMISES)
    assert set(EXAMPLES.glob("*/*")) == {*PASSING, *FAILING}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_one_file_that_says_it_in_words_with_a_severity(promise: str):
    store = shapes_of(promise)
    head = ox.NamedNode(SHAPE + promise)
    for predicate in (LABEL, COMMENT):
        (quad,) = store.quads_for_pattern(None, predicate, None)
        assert quad.subject == head
    for quad in store.quads_for_pattern(None, None, ox.NamedNode(SH + "NodeShape")):
        assert quad.subject.value.startswith(head.value), "all shapes of a file belong to its promise"
    assert objects(store, "severity") <= {SH + kind for kind in ("Violation", "Warning", "Info")}
    assert objects(store, "severity")
    for message in objects(store, "message"):
        assert message.count(". ") >= 1, "what must hold, then what to do"
        assert message.endswith(".")


@pytest.mark.parametrize("example", PASSING, ids=name)
def test_what_keeps_a_promise_is_not_told(example: Path):
    promise = example.parent.name
    report = validate(example, PROMISES[promise])
    assert len(report) == 0, str(report)


@pytest.mark.parametrize("example", FAILING, ids=name)
def test_what_breaks_a_promise_is_told(example: Path):
    promise = example.parent.name
    report = validate(example, PROMISES[promise])
    assert len(report) > 0
    assert {result.message for result in report} <= objects(shapes_of(promise), "message")


@pytest.mark.parametrize("promise", PROMISES)
def test_every_part_of_a_promise_is_broken_by_an_example(promise: str):
    told = set()
    for example in FAILING:
        if example.parent.name == promise:
            told |= {result.message for result in validate(example, PROMISES[promise])}
    assert told == objects(shapes_of(promise), "message")


# ---- our own runs keep them all

KILLED = """
import os, signal, sys
import provml
run = provml.record("flowers", model="alexnet", home=sys.argv[1], run="killed")
photos = run.dataset(b"photos", name="photos")
training = run.training(using=photos, learning_rate=0.1)
for epoch in training.epochs(3):
    for batch in epoch.batches(range(4)):
        batch.measured(loss=0.5)
        if (epoch.index, batch.index) == (2, 3):
            os.kill(os.getpid(), signal.SIGKILL)
"""
JOINED = """
import provml
with provml.record("flowers", model="alexnet") as run:
    photos = run.dataset(b"photos", name="photos")
    with run.training(using=photos, learning_rate=0.1) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=0.5)
        training.produced(b"weights of a rank")
"""


def train(run: Recorder, *, fails: bool = False) -> None:
    """All verbs that a training script may use."""
    raw = run.dataset(b"raw", name="raw", role="raw", about="http://example.org/kg/flowers", instances=3)
    clean = run.prepared(b"clean", by="scale", using=raw, factor=2)
    with run.training(using=clean, learning_rate=0.1, optimizer="Adam") as training:
        training.layers([{"name": "conv", "type": "Conv2D", "filters": 96}])
        for epoch in training.epochs(4):
            for batch in epoch.batches(range(12)):
                batch.measured(loss=1 / (batch.index + epoch.index), hits=batch.index)
            epoch.measured(loss=1 / epoch.index)
            if epoch.index % 2 == 0:
                with epoch.validation() as twin:
                    twin.measured(loss=2.0)
            if epoch.index == 3:
                training.adapted(learning_rate=0.05, technique="step decay", why="it stalls", by="alice")
                if fails:
                    raise ValueError("out of luck")
            epoch.produced(f"weights {epoch.index}".encode(), name="checkpoint")
        model = training.produced(b"weights")
    with run.evaluation(of=model, using=raw) as test:
        test.measured(accuracy=0.5)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs of all kinds, by what is special of each."""
    home = tmp_path_factory.mktemp("home")

    def record(name: str, **more: Any) -> Recorder:
        return Recorder("flowers", model="alexnet", home=home, run=name, strict=True, **more)

    def start(code: str, *given: object) -> int:
        around = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, "-c", code, *map(str, given)], env=around, check=False).returncode

    for name, more in {"finished": {}, "one-batch-in-ten": {"every": 10}, "epochs-only": {"detail": "epoch"}}.items():
        with record(name, by="alice", study="spring", task="classification", **more) as run:
            train(run)
    with pytest.raises(ValueError, match="luck"), record("failed") as run:
        train(run, fails=True)
    for _ in range(2):
        with record("resumed") as run:
            train(run)
    with record("several-writers") as run:
        train(run)
        assert start(JOINED) == 0
    assert start(KILLED, home) == -signal.SIGKILL
    running = record("running")
    photos = running.dataset(b"photos", name="photos")
    training = running.training(using=photos, learning_rate=0.1)
    epoch = training.epoch(1)
    next(epoch.batches(range(3))).measured(loss=0.5)
    yield home
    running.finish()


REMARKS = {"running": {("Info", "no end yet")}, "killed": {("Warning", "tells its end")}}
RUNS = ["finished", "one-batch-in-ten", "epochs-only", "failed", "resumed", "several-writers", "killed", "running"]


@pytest.mark.parametrize("run", RUNS)
def test_a_run_of_ours_keeps_all_promises(run: str, home: Path):
    with Store(home) as store:
        report = store.validate(run)
    assert report, str(report)
    assert report.checked is not None
    assert report.checked.handed_over == ()
    told = REMARKS.get(run, set())
    assert len(report) == len(told), str(report)
    for severity, words in told:
        assert any(result.severity == severity and words in result.message for result in report)


def test_all_runs_together_keep_all_promises(home: Path):
    with Store(home) as store:
        report = store.validate(None)
    assert {result.severity for result in report} == {"Info", "Warning"}, str(report)
    assert report


def test_the_engines_agree_on_our_runs(home: Path):
    with Store(home) as store:
        for run in ("killed", "failed"):
            fast, slow = store.validate(run), store.validate(run, engine="reference")
            assert {(r.focus, r.message, r.severity) for r in fast} == {(r.focus, r.message, r.severity) for r in slow}


def test_the_same_content_as_a_dataset_and_as_features_has_characteristics_of_each(tmp_path: Path):
    with Recorder("flowers", home=tmp_path, strict=True, capture_environment=False) as run:
        run.dataset(b"same", name="same", shape=3)
        run.features(b"same", name="same", shape=3)
        with run.training():
            pass
    with Store(tmp_path) as store:
        assert store.validate()


@given(WORLDS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_script_does_the_record_itself_is_sound(world: dict[str, Any]):
    """A script may train on nothing, test nothing, and leave stages open; what is recorded of it still adds up."""
    sound = ("clock", "epoch-index", "follows-plan", "generated-once", "known-term", "one-plan", "roll-up", "run-ended")
    with tempfile.TemporaryDirectory() as folder:
        live(world, Path(folder))
        with Store(folder) as store:
            report = store.validate()
    broken = [result for result in report if result.shape.startswith(tuple(SHAPE + promise for promise in sound))]
    assert not broken, broken


@pytest.mark.skipif(not DUMP.exists(), reason=f"the authors' dump is not in the repository; {DUMP} is not there")
def test_an_imported_run_keeps_all_promises(tmp_path: Path):
    first, *_ = dnnprov.import_dump(DUMP, tmp_path, model="alexnet")
    with Store(tmp_path) as store:
        report = store.validate(first)
    assert report, str(report)


def test_all_runs_are_told_together_and_what_they_share_once(tmp_path: Path):
    for number in range(3):
        with Recorder("flowers", home=tmp_path, run=f"run-{number}") as run, run.evaluation() as test:
            test.measured(score=number / 10)
    with Store(tmp_path) as store:
        alone = [store.validate(f"run-{number}") for number in range(3)]
        steps: list[tuple[int, int]] = []
        together = store.validate(None, progress=lambda done, total, name: steps.append((done, total)))
    assert {result.focus for result in together} == {result.focus for report in alone for result in report}
    assert len(together) == len(set(together)) <= sum(map(len, alone))
    assert together.checked is not None
    assert together.checked.triples == sum(report.checked.triples for report in alone if report.checked)
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]


def test_data_that_was_added_by_hand_is_validated_with_the_runs(tmp_path: Path):
    with Recorder("flowers", home=tmp_path, run="run-1"):
        pass
    (tmp_path / "mine.ttl").write_text(
        "<http://example.org/x> a <https://w3id.org/provml#TrainingExecution> , <https://w3id.org/provml#Nonsense> ."
    )
    with Store(tmp_path) as store:
        before = store.validate(None)
        store.load(tmp_path / "mine.ttl")
        after = store.validate(None)
    assert "http://example.org/x" in {result.focus for result in after} - {result.focus for result in before}
