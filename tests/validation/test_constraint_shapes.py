"""The handwritten constraints: each has valid and invalid examples, and recorded runs satisfy all of them."""

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
from run_strategies import SCENARIOS, record_scenario

from provml import paths
from provml.errors import FileFormatError
from provml.exchange import dnnprov
from provml.recording.run import Run
from provml.store import Store
from provml.validation import validate

ROOT = Path(__file__).parents[2]
SUITES = Path(os.environ.get("PROVML_SUITES") or ROOT.parent / "shared" / "suites")
DUMP = SUITES / "dnnprov" / "alexnet-8-runs.sql"
EXAMPLES = Path(__file__).parents[1] / "shapes"
SH = "http://www.w3.org/ns/shacl#"
SHAPE = "https://w3id.org/provml/shape/"
LABEL = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
COMMENT = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#comment")
CONSTRAINTS = {
    **{path.stem: path for path in sorted(paths.shapes().glob("*.ttl"))},
    "unknown-term": paths.shapes() / "generated" / "unknown-term.ttl",
}
PASSING = sorted(EXAMPLES.glob("*/pass-*.ttl"))
FAILING = sorted(EXAMPLES.glob("*/fail-*.ttl"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def shapes_of(constraint: str) -> ox.Store:
    store = ox.Store()
    store.load(path=str(CONSTRAINTS[constraint]), format=ox.RdfFormat.TURTLE)
    return store


def objects(store: ox.Store, predicate: str) -> set[str]:
    return {quad.object.value for quad in store.quads_for_pattern(None, ox.NamedNode(SH + predicate), None)}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_every_constraint_has_valid_and_invalid_examples(constraint: str):
    assert any(path.parent.name == constraint for path in PASSING), "add tests/shapes/*/pass-*.ttl"
    assert any(path.parent.name == constraint for path in FAILING), "add tests/shapes/*/fail-*.ttl"


def test_every_example_belongs_to_a_constraint():
    assert {path.parent.name for path in EXAMPLES.glob("*/*")} == set(CONSTRAINTS)
    assert set(EXAMPLES.glob("*/*")) == {*PASSING, *FAILING}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_constraint_is_one_file_with_a_label_a_comment_and_a_severity(constraint: str):
    store = shapes_of(constraint)
    head = ox.NamedNode(SHAPE + constraint)
    for predicate in (LABEL, COMMENT):
        (quad,) = store.quads_for_pattern(None, predicate, None)
        assert quad.subject == head
    for quad in store.quads_for_pattern(None, None, ox.NamedNode(SH + "NodeShape")):
        assert quad.subject.value.startswith(head.value), "all shapes of a file belong to its constraint"
    assert objects(store, "severity") <= {SH + kind for kind in ("Violation", "Warning", "Info")}
    assert objects(store, "severity")
    for message in objects(store, "message"):
        assert message.count(". ") >= 1, "the constraint, then what to do"
        assert message.endswith(".")


@pytest.mark.parametrize("example", PASSING, ids=name)
def test_a_valid_example_has_no_results(example: Path):
    constraint = example.parent.name
    report = validate(example, only_shapes=CONSTRAINTS[constraint])
    assert len(report) == 0, str(report)


@pytest.mark.parametrize("example", FAILING, ids=name)
def test_an_invalid_example_has_results(example: Path):
    constraint = example.parent.name
    report = validate(example, only_shapes=CONSTRAINTS[constraint])
    assert len(report) > 0
    assert {result.message for result in report} <= objects(shapes_of(constraint), "message")


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_every_message_of_a_constraint_occurs_in_an_example(constraint: str):
    messages = set()
    for example in FAILING:
        if example.parent.name == constraint:
            messages |= {result.message for result in validate(example, only_shapes=CONSTRAINTS[constraint])}
    assert messages == objects(shapes_of(constraint), "message")


# ---- recorded runs

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


def train(run: Run, *, fails: bool = False) -> None:
    """Call all methods that a training script may use."""
    raw = run.dataset(b"raw", name="raw", role="raw", about="http://example.org/kg/flowers", instances=3)
    clean = run.prepared(b"clean", step="scale", using=raw, factor=2)
    with run.training(using=clean, learning_rate=0.1, optimizer="Adam") as training:
        training.layers([{"name": "conv", "type": "Conv2D", "filters": 96}])
        for epoch in training.epochs(4):
            for batch in epoch.batches(range(12)):
                batch.measured(loss=1 / (batch.index + epoch.index), hits=batch.index)
            epoch.measured(loss=1 / epoch.index)
            if epoch.index % 2 == 0:
                with epoch.validation() as validation:
                    validation.measured(loss=2.0)
            if epoch.index == 3:
                training.adapted(learning_rate=0.05, technique="step decay", reason="the loss stalls", by="alice")
                if fails:
                    raise ValueError("out of luck")
            epoch.produced(f"weights {epoch.index}".encode(), name="checkpoint")
        model = training.produced(b"weights")
    with run.evaluation(of=model, using=raw) as test:
        test.measured(accuracy=0.5)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs of all kinds, named by their kind."""
    home = tmp_path_factory.mktemp("home")

    def record(name: str, **options: Any) -> Run:
        return Run("flowers", model="alexnet", home=home, run=name, strict=True, **options)

    def start(code: str, *args: object) -> int:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, "-c", code, *map(str, args)], env=environment, check=False).returncode

    kinds = {"finished": {}, "one-batch-in-ten": {"every": 10}, "epochs-only": {"detail": "epoch"}}
    for name, options in kinds.items():
        with record(name, by="alice", study="spring", task="classification", **options) as run:
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


REMARKS = {"running": {("Info", "no end time yet")}, "killed": {("Warning", "was killed or lost")}}
RUNS = ["finished", "one-batch-in-ten", "epochs-only", "failed", "resumed", "several-writers", "killed", "running"]


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_satisfies_all_constraints(run: str, home: Path):
    with Store(home) as store:
        report = store.validate(run)
    assert report, str(report)
    assert report.scope is not None
    assert report.scope.delegated == ()
    remarks = REMARKS.get(run, set())
    assert len(report) == len(remarks), str(report)
    for severity, words in remarks:
        assert any(result.severity == severity and words in result.message for result in report)


def test_all_runs_together_satisfy_all_constraints(home: Path):
    with Store(home) as store:
        report = store.validate(None)
    assert {result.severity for result in report} == {"Info", "Warning"}, str(report)
    assert report


def test_the_engines_agree_on_recorded_runs(home: Path):
    with Store(home) as store:
        for run in ("killed", "failed"):
            fast, slow = store.validate(run), store.validate(run, engine="pyshacl")
            assert {(r.focus, r.message, r.severity) for r in fast} == {(r.focus, r.message, r.severity) for r in slow}


def test_the_same_content_can_be_a_dataset_and_features_with_characteristics_of_both(tmp_path: Path):
    with Run("flowers", home=tmp_path, strict=True, capture_environment=False) as run:
        run.dataset(b"same", name="same", shape=3)
        run.features(b"same", name="same", shape=3)
        with run.training():
            pass
    with Store(tmp_path) as store:
        assert store.validate()


@given(SCENARIOS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
def test_random_scripts_produce_consistent_records(world: dict[str, Any]):
    """A script may train without data, evaluate nothing and leave stages open; its record is still consistent."""
    always_satisfied = (
        "end-before-start",
        "non-consecutive-epochs",
        "execution-outside-plan",
        "value-generated-twice",
        "unknown-term",
        "execution-without-plan",
        "wrong-batch-summary",
        "status-end-mismatch",
    )
    with tempfile.TemporaryDirectory() as folder:
        record_scenario(world, Path(folder))
        with Store(folder) as store:
            report = store.validate()
    shapes = tuple(SHAPE + constraint for constraint in always_satisfied)
    violations = [result for result in report if result.shape.startswith(shapes)]
    assert not violations, violations


@pytest.mark.skipif(not DUMP.exists(), reason=f"the dump of the authors is not at {DUMP} (set PROVML_SUITES)")
def test_an_imported_run_satisfies_all_constraints(tmp_path: Path):
    first, *_ = dnnprov.import_dump(DUMP, tmp_path, model="alexnet")
    with Store(tmp_path) as store:
        report = store.validate(first)
    assert report, str(report)


def test_all_runs_are_validated_together_and_shared_violations_are_reported_once(tmp_path: Path):
    for number in range(3):
        with Run("flowers", home=tmp_path, run=f"run-{number}") as run, run.evaluation() as test:
            test.measured(score=number / 10)
    with Store(tmp_path) as store:
        alone = [store.validate(f"run-{number}") for number in range(3)]
        steps: list[tuple[int, int]] = []
        together = store.validate(None, progress=lambda done, total, name: steps.append((done, total)))
    assert {result.focus for result in together} == {result.focus for report in alone for result in report}
    assert len(together) == len(set(together)) <= sum(map(len, alone))
    assert together.scope is not None
    assert together.scope.triples == sum(report.scope.triples for report in alone if report.scope)
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]


def test_a_single_path_of_shapes_need_not_be_in_a_list(tmp_path: Path):
    with Run("flowers", home=tmp_path, run="monday") as run, run.training():
        pass
    file = tmp_path / "named.ttl"
    file.write_text("""@prefix sh: <http://www.w3.org/ns/shacl#> .
        <http://example.org/s> a sh:NodeShape ; sh:targetClass <https://w3id.org/provml#TrainingExecution> ;
            sh:property [ sh:path <http://example.org/owner> ; sh:minCount 1 ] .""")
    with Store(tmp_path) as store:
        assert str(store.validate("monday", shapes=str(file))) == str(store.validate("monday", shapes=[file]))
        assert not store.validate("monday", shapes=file)
        with pytest.raises(FileFormatError, match=r"^nope\.ttl: no such file or directory"):
            store.validate("monday", shapes="nope.ttl")


def test_imported_files_are_validated_with_the_runs(tmp_path: Path):
    with Run("flowers", home=tmp_path, run="run-1"):
        pass
    (tmp_path / "mine.ttl").write_text(
        "<http://example.org/x> a <https://w3id.org/provml#TrainingExecution> , <https://w3id.org/provml#Nonsense> ."
    )
    with Store(tmp_path) as store:
        before = store.validate(None)
        store.load(tmp_path / "mine.ttl")
        after = store.validate(None)
    assert "http://example.org/x" in {result.focus for result in after} - {result.focus for result in before}
