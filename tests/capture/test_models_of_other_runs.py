"""Model files of other runs: an evaluation or a training that uses a file is linked to the training that saved it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import ask

pytest.importorskip("sklearn", reason="scikit-learn is not installed; `pip install 'provml[sklearn]'`")

import joblib
from sklearn.linear_model import SGDClassifier

from capture.test_sklearn import X_TEST, Y_TEST, X, Y, captured, conforms, home  # noqa: F401


def train(home: Path, path: Path, rate: float) -> None:  # noqa: F811
    with captured(home, model="linear", save_model=path) as capture:
        capture.fit(SGDClassifier(learning_rate="constant", eta0=rate, random_state=0), X, Y)


def evaluate(home: Path, path: Path) -> float:  # noqa: F811
    with captured(home, model="linear", data={"model": path}) as capture:
        return capture.score(joblib.load(path), X_TEST, Y_TEST)


def training_with(store: Any, eta: float) -> str:
    """Return the training with this learning rate."""
    [(training,)] = ask(
        store,
        f"""SELECT ?t {{ ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?value ;
            provlake:wasDerivedFromAttribute/rdfs:label "eta0" FILTER(?value = {eta}) }}""",
    )
    return str(training)


def test_an_evaluation_in_another_run_belongs_to_the_training_that_saved_the_file(home: Path, tmp_path: Path):  # noqa: F811
    for rate in (0.01, 5.0):
        train(home, tmp_path / f"{rate}.joblib", rate)
    worst, best = sorted((evaluate(home, tmp_path / f"{rate}.joblib"), rate) for rate in (0.01, 5.0))
    with provml.open(home) as store:
        for question in ("q4", "q5", "q6", "q8"):
            parameters = {"hyperparameter": "eta0"} if question in ("q4", "q6") else {}
            rows = [tuple(row) for row in store.ask(question, model="linear", **parameters)]
            assert rows[0][0] == training_with(store, best[1]), question
        assert tuple(next(iter(store.ask("q4", model="linear", hyperparameter="eta0"))))[1:] == (
            best[1], pytest.approx(best[0]),
        )  # fmt: skip
        assert [row[0] for row in store.ask("q8", model="linear")] == [
            training_with(store, rate) for _, rate in (best, worst)
        ]
        conforms(store)


def test_a_training_that_continues_from_a_file_is_linked_to_the_run_that_saved_it(home: Path, tmp_path: Path):  # noqa: F811
    path = tmp_path / "first.joblib"
    train(home, path, 0.25)
    with provml.record("digits", model="linear", home=home, strict=True, capture_environment=False) as run:
        initial = run._register_data("model", path, name="linear")
        data = run.dataset(b"more", name="more", role="training")
        with run.training(using=data) as training:
            training.used(initial, role="model")
            training.produced(b"second")
    with provml.open(home) as store:
        steps = [row[1] for row in store.ask("b3", model="linear@latest")]
        assert training_with(store, 0.25) in steps
        conforms(store)


def test_the_evaluation_of_an_unrecorded_model_belongs_to_no_training(home: Path, tmp_path: Path):  # noqa: F811
    path = tmp_path / "unrecorded.joblib"
    joblib.dump(SGDClassifier(random_state=0).fit(X, Y), path)
    with captured(home, model="linear", data={"model": path}) as capture:
        capture.fit(SGDClassifier(random_state=1), X, Y)
        capture.score(joblib.load(path), X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert list(store.ask("q8", model="linear")) == []
        conforms(store)
