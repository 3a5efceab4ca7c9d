"""Names of scikit-learn scores: a score is recorded under the name of its measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import ask

pytest.importorskip("sklearn", reason="scikit-learn is not installed; `pip install 'provml[sklearn]'`")

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import f1_score, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from capture.test_sklearn import X_TEST, Y_TEST, X, Y, captured, home  # noqa: F401
from provml.capture.sklearn import Capture

F1 = make_scorer(f1_score, average="macro")
LOSS = make_scorer(log_loss, greater_is_better=False, response_method="predict_proba")


def percent_correct(model: Any, features: Any, target: Any) -> float:
    return 100 * float((model.predict(features) == target).mean())


def scores(store: Any, kind: str) -> dict[str, float]:
    """Return the measures of all stages of a kind. Each measure belongs to a single stage."""
    return dict(
        ask(
            store,
            f"""SELECT ?name ?value {{ ?v prov:wasGeneratedBy ?s ; prov:value ?value ; a provml:ModelEvaluation ;
                provlake:wasDerivedFromAttribute/rdfs:label ?name . ?s a provml:{kind} }}""",
        )
    )


@pytest.mark.parametrize(
    ("scoring", "refit", "name", "sign"),
    [
        (None, True, "accuracy", 1),
        ("f1_macro", True, "f1_macro", 1),
        ("neg_log_loss", True, "log_loss", -1),
        (["accuracy", "neg_log_loss"], "neg_log_loss", "log_loss", -1),
        ({"mine": "f1_macro", "other": "accuracy"}, "mine", "mine", 1),
        ({"my_loss": "neg_log_loss", "other": "accuracy"}, "my_loss", "my_loss", -1),
        ({"mine": "neg_log_loss", "other": "accuracy"}, "mine", "mine", 1),
        (F1, True, "f1_score", 1),
        (LOSS, True, "log_loss", -1),
        (percent_correct, True, "percent_correct", 1),
    ],
    ids=[
        "none",
        "name",
        "negated",
        "list",
        "dictionary",
        "loss-by-name",
        "unclear-name",
        "scorer",
        "negated-scorer",
        "function",
    ],
)
@pytest.mark.parametrize(
    "wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)], ids=["", "pipeline"]
)
def test_the_score_of_a_search_has_the_name_of_the_search_measure(
    home: Path,  # noqa: F811
    scoring: Any,
    refit: Any,
    name: str,
    sign: int,
    wrap: Callable[[Any], Any],
):
    search = wrap(GridSearchCV(LogisticRegression(max_iter=200), {"C": [1.0]}, scoring=scoring, refit=refit, cv=2))
    with captured(home) as capture:
        capture.fit(search, X, Y)
        value = capture.score(search, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {name: pytest.approx(sign * value)}
        assert name in scores(store, "ValidationExecution")  # of the candidate


@pytest.mark.filterwarnings("ignore::FutureWarning")  # about defaults that will change
def test_the_scoring_of_an_estimator_names_its_score(home: Path):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(LogisticRegressionCV(Cs=2, cv=2, scoring="neg_log_loss", max_iter=200), X, Y)
        value = capture.score(model, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"log_loss": pytest.approx(-value)}


@pytest.mark.parametrize(
    ("scoring", "name"), [(None, "accuracy"), (F1, "f1_score"), (percent_correct, "percent_correct")]
)
def test_folds_have_the_requested_measure_and_not_that_of_early_stopping(home: Path, scoring: Any, name: str):  # noqa: F811
    with captured(home) as capture:
        model = HistGradientBoostingClassifier(
            max_iter=2, max_leaf_nodes=4
        )  # its parameter `scoring` is for early stopping
        scored = capture.cross_validate(model, X, Y, cv=2, scoring=scoring)
    with provml.open(home) as store:
        assert scores(store, "ValidationExecution") == {name: pytest.approx(scored["test_score"].mean())}


@pytest.mark.parametrize(
    ("scoring", "returned", "signs"),
    [
        (F1, {"f1_score"}, {"f1_score": 1}),
        (["accuracy", LOSS], {"accuracy", "log_loss"}, {"accuracy": 1, "log_loss": -1}),
        ({"mine": F1, "usual": "accuracy"}, {"mine", "usual"}, {"mine": 1, "usual": 1}),
        ({"my_loss": LOSS, "mine": "neg_log_loss"}, {"my_loss", "mine"}, {"my_loss": -1, "mine": 1}),
        (
            [F1, make_scorer(f1_score, average="micro")],
            {"f1_score", "f1_score_2"},
            {"f1_score": 1, "f1_score_2": 1},
        ),
    ],
    ids=["scorer", "list", "dictionary", "loss-by-name", "same-name"],
)
def test_an_evaluation_accepts_the_scorers_of_scikit_learn(home: Path, scoring: Any, returned: Any, signs: Any):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(LogisticRegression(max_iter=200), X, Y)
        scored = capture.evaluate(model, X_TEST, Y_TEST, scoring=scoring)
    assert set(scored) == returned
    with provml.open(home) as store:
        expected = {name: pytest.approx(sign * scored[name]) for name, sign in signs.items()}
        assert scores(store, "EvaluationExecution") == expected


def test_the_score_of_a_model_fitted_outside_the_capture_has_a_name(home: Path):  # noqa: F811
    with captured(home) as capture:
        value = capture.score(SVC().fit(X, Y), X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"accuracy": pytest.approx(value)}


def test_folds_have_the_names_of_their_scorers(home: Path):  # noqa: F811
    scoring = {"score": "accuracy", "my_loss": "neg_log_loss"}
    with captured(home) as capture:
        scored = capture.cross_validate(LogisticRegression(max_iter=200), X, Y, cv=2, scoring=scoring)
    with provml.open(home) as store:
        expected = {"score": scored["test_score"].mean(), "my_loss": -scored["test_my_loss"].mean()}
        assert scores(store, "ValidationExecution") == pytest.approx(expected)


class EstimatorWithSteps(SVC):
    """An estimator with an attribute `steps` that is not a pipeline."""

    def __init__(self, steps: Any = 3):
        super().__init__()
        self.steps = steps


@pytest.mark.parametrize("steps", [3, [1, 2], []])
def test_an_estimator_with_steps_may_be_no_pipeline(home: Path, steps: Any):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(EstimatorWithSteps(steps), X, Y)
        value = capture.score(model, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"accuracy": pytest.approx(value)}
        assert len(ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1


def test_a_score_whose_name_cannot_be_determined_is_returned(home: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    def broken(*_: Any) -> Any:
        raise RuntimeError("no name")

    monkeypatch.setattr("provml.capture.sklearn._introspect.score_measure", broken)
    with Capture("digits", home=home, capture_environment=False) as capture:
        assert capture.score(SVC().fit(X, Y), X_TEST, Y_TEST) > 0
