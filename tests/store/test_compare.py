"""The comparison of runs: what differs, what is the same, and where their lineages part."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from provml.errors import InvalidParameter, RunNotFound
from provml.recording.run import Run
from provml.store import Store
from provml.store.compare import RunComparison


def train(home: Path, name: str, *, raw: bytes = b"raw", tile: int = 224, rate: float = 0.1, **settings: Any) -> None:
    """Record a run whose training data two steps made."""
    with Run("flowers", home=home, run=name, model="alexnet", strict=True, capture_environment=False) as run:
        photos = run.dataset(raw, name="photos", role="raw")
        tiles = run.prepared(raw + b"%d" % tile, step="tiling", using=photos, tile=tile, name="tiles")
        gray = run.prepared(raw + b"gray %d" % tile, step="gray", using=tiles, name="gray")
        with run.training(using=gray, learning_rate=rate, optimizer="Adam", **settings) as training:
            training.layers([{"name": "conv1", "type": "Conv2D", "filters": int(1000 * rate)}])
            for epoch in training.epochs(2):
                epoch.measured(loss=rate / epoch.index)
                if epoch.index == 1 and rate != 0.1:
                    training.adapted(learning_rate=0.05, technique="step decay")
            model = training.produced(name.encode())
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.9)


def differences(home: Path, *runs: str) -> list[tuple[Any, ...]]:
    with Store(home) as store:
        return store.compare(*runs).differences.rows


def test_what_differs_comes_first_with_typed_values(tmp_path: Path):
    train(tmp_path, "a")
    train(tmp_path, "b", rate=0.01, momentum=0.9)
    with Store(tmp_path) as store:
        comparison = store.compare("a", "b")
    assert isinstance(comparison, RunComparison)
    assert comparison.columns == ["what", "name", "differs", "a", "b"]
    assert comparison.differences.rows == [
        ("hyperparameter", "learning_rate", 0.1, 0.01),
        ("hyperparameter", "momentum", None, 0.9),
        ("measure", "train_loss", 0.05, 0.005),
        ("adaptation", "learning_rate", None, "0.05 at epoch 1 by step decay"),
    ]
    assert [row[:2] for row in comparison.equal.rows] == [
        ("hyperparameter", "optimizer"),
        ("measure", "test_accuracy"),
        ("dataset", "raw"),
        ("dataset", "training"),
        ("preparation", "tile"),
    ]
    assert [row[2] for row in comparison.rows] == [True] * 4 + [False] * 5
    assert pickle.loads(pickle.dumps(comparison)).rows == comparison.rows


def test_several_runs_have_a_column_each_and_can_be_passed_as_objects(tmp_path: Path):
    for name, rate in (("a", 0.1), ("b", 0.1), ("c", 0.2)):
        train(tmp_path, name, rate=rate)
    with Store(tmp_path) as store:
        comparison = store.compare("a", store.run("b"), "c")
    assert ("hyperparameter", "learning_rate", 0.1, 0.1, 0.2) in comparison.differences.rows


def test_the_lineage_names_the_setting_of_the_first_step_that_differs(tmp_path: Path):
    train(tmp_path, "a")
    train(tmp_path, "b", tile=256)
    rows = differences(tmp_path, "a", "b")
    assert rows[-1] == ("lineage", "training ← gray ← tiling", "tile = 224", "tile = 256")
    assert [row[:2] for row in rows] == [
        ("dataset", "training"),
        ("preparation", "tile"),
        ("lineage", "training ← gray ← tiling"),
    ]


def test_the_lineage_names_the_first_dataset_that_differs(tmp_path: Path):
    train(tmp_path, "a")
    train(tmp_path, "b", raw=b"other", tile=256)  # the raw data is before the tiling
    lineage = differences(tmp_path, "a", "b")[-1]
    assert lineage[:2] == ("lineage", "training ← gray ← tiling")
    assert [text.split(" (")[0] for text in lineage[2:]] == ["photos", "photos"]
    assert lineage[2] != lineage[3]


def test_the_lineage_is_followed_into_other_runs(tmp_path: Path):
    for number in (1, 2):
        with Run("prepare", home=tmp_path, run=f"prepare-{number}", strict=True, capture_environment=False) as run:
            raw = run.dataset(b"raw", name="raw", role="raw")
            run.prepared(b"data %d" % number, step="clean", using=raw, seed=number, name="clean")
        with Run("train", home=tmp_path, run=f"train-{number}", strict=True, capture_environment=False) as run:
            data = run.dataset(b"data %d" % number, name="clean")
            with run.training(using=data):
                pass
    assert differences(tmp_path, "train-1", "train-2")[-1] == (
        *("lineage", "training ← clean"),
        *("seed = 1", "seed = 2"),
    )


def test_the_lineage_names_other_steps_and_missing_data(tmp_path: Path):
    for step in ("crop", "pad"):
        with Run("train", home=tmp_path, run=step, strict=True, capture_environment=False) as run:
            raw = run.dataset(b"raw", name="raw", role="raw")
            data = run.prepared(step.encode(), step=step, using=raw, name="data")
            with run.training(using=data):
                pass
    with Run("train", home=tmp_path, run="none", strict=True, capture_environment=False) as run, run.training():
        pass
    assert differences(tmp_path, "crop", "pad")[-1] == ("lineage", "training ← step", "crop", "pad")
    lineage = differences(tmp_path, "crop", "none", "pad")[-2]
    assert lineage[:2] == ("lineage", "training")
    assert lineage[2].startswith("data (")
    assert lineage[3:] == ("no other data", None)


def test_the_same_step_with_another_result_is_the_first_difference(tmp_path: Path):
    for number in (1, 2):
        with Run("train", home=tmp_path, run=f"run-{number}", strict=True, capture_environment=False) as run:
            raw = run.dataset(b"raw", name="raw", role="raw")
            data = run.prepared(b"shuffled %d" % number, step="shuffle", using=raw, name="data")
            with run.training(using=data):
                pass
    lineage = differences(tmp_path, "run-1", "run-2")[-1]
    assert lineage[:2] == ("lineage", "training ← shuffle")
    assert [text.split(" (")[0] for text in lineage[2:]] == ["data", "data"]


def test_environment_and_seeds_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in (1, 2):
        (tmp_path / f"folder-{number}").mkdir()
        monkeypatch.chdir(tmp_path / f"folder-{number}")
        monkeypatch.setenv("PYTHONHASHSEED", str(number))
        with Run("train", home=tmp_path, run=f"run-{number}", strict=True) as run, run.training(lr=1) as training:
            training.adapted(lr=2)
    with Store(tmp_path) as store:
        comparison = store.compare("run-1", "run-2")
    assert "workingDirectory" in [name for kind, name, *_ in comparison.differences if kind == "environment"]
    assert ("hyperparameter", "seed of python hash", 1, 2) in comparison.differences.rows
    assert {"code", "environment", "machine", "software"} <= {row[0] for row in comparison.equal.rows}


def test_differences_of_two_runs_are_those_of_the_question(tmp_path: Path):
    train(tmp_path, "a")
    train(tmp_path, "b", raw=b"other", tile=256, rate=0.3, momentum=0.9)
    with Store(tmp_path) as store:
        compared = [row for row in store.compare("a", "b").differences.rows if row[0] != "lineage"]
        asked = store.ask("difference-of-runs", one="a", other="b").rows
    prefixes = {"measure of the training": "train_", "measure of the evaluation": "test_"}
    # the question also has parameters of layers
    expected = {(kind.split()[0], prefixes.get(kind, "") + name) for kind, name, *_ in asked if name != "filters"}
    assert {row[:2] for row in compared} == expected


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ((), "a comparison needs two runs or more"),
        (("a",), "a comparison needs two runs or more"),
        (("a", "a"), "'a' is named twice"),
        (("a", "latest"), "'a' is named twice"),
    ],
)
def test_fewer_than_two_different_runs_are_an_error(tmp_path: Path, runs: tuple[str, ...], message: str):
    train(tmp_path, "a")
    with Store(tmp_path) as store, pytest.raises(InvalidParameter, match=message):
        store.compare(*runs)


def test_an_unknown_run_is_an_error(tmp_path: Path):
    train(tmp_path, "a")
    with Store(tmp_path) as store, pytest.raises(RunNotFound):
        store.compare("a", "zebra")
