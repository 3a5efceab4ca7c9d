"""Scores of scikit-learn under the name of what they measure, whoever says what that is: a search, a scorer, a list."""

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


def percent(model: Any, features: Any, target: Any) -> float:
    return 100 * float((model.predict(features) == target).mean())


def scores(store: Any, kind: str) -> dict[str, float]:
    """The measures of all stages of a kind, of which one has each."""
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
        (percent, True, "percent", 1),
    ],
    ids=["none", "name", "negated", "list", "dictionary", "low", "not-said", "scorer", "negated-scorer", "function"],
)
@pytest.mark.parametrize(
    "around", [lambda one: one, lambda one: make_pipeline(StandardScaler(), one)], ids=["", "pipe"]
)
def test_the_score_of_a_search_has_the_name_of_what_the_search_measures(
    home: Path,  # noqa: F811
    scoring: Any,
    refit: Any,
    name: str,
    sign: int,
    around: Callable[[Any], Any],
):
    search = around(GridSearchCV(LogisticRegression(max_iter=200), {"C": [1.0]}, scoring=scoring, refit=refit, cv=2))
    with captured(home) as capture:
        capture.fit(search, X, Y)
        value = capture.score(search, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {name: pytest.approx(sign * value)}
        assert name in scores(store, "ValidationExecution")  # of the candidate, by the same name


@pytest.mark.filterwarnings("ignore::FutureWarning")  # some of its defaults will be others
def test_an_estimator_that_scores_by_a_measure_of_its_own_says_which(home: Path):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(LogisticRegressionCV(Cs=2, cv=2, scoring="neg_log_loss", max_iter=200), X, Y)
        value = capture.score(model, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"log_loss": pytest.approx(-value)}


@pytest.mark.parametrize(("scoring", "name"), [(None, "accuracy"), (F1, "f1_score"), (percent, "percent")])
def test_folds_are_scored_by_what_was_asked_for_and_not_by_what_stops_a_fit(home: Path, scoring: Any, name: str):  # noqa: F811
    with captured(home) as capture:
        model = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4)  # its own `scoring` is for early stopping
        found = capture.cross_validate(model, X, Y, cv=2, scoring=scoring)
    with provml.open(home) as store:
        assert scores(store, "ValidationExecution") == {name: pytest.approx(found["test_score"].mean())}


@pytest.mark.parametrize(
    ("scoring", "given", "told"),
    [
        (F1, {"f1_score": 1}, {"f1_score": 1}),
        (["accuracy", LOSS], {"accuracy": 1, "log_loss": 1}, {"accuracy": 1, "log_loss": -1}),
        ({"mine": F1, "usual": "accuracy"}, {"mine": 1, "usual": 1}, {"mine": 1, "usual": 1}),
        ({"my_loss": LOSS, "mine": "neg_log_loss"}, {"my_loss": 1, "mine": 1}, {"my_loss": -1, "mine": 1}),
        (
            [F1, make_scorer(f1_score, average="micro")],
            {"f1_score": 1, "f1_score_2": 1},
            {"f1_score": 1, "f1_score_2": 1},
        ),
    ],
    ids=["scorer", "list", "dictionary", "low", "alike"],
)
def test_an_evaluation_takes_scorers_as_scikit_learn_does(home: Path, scoring: Any, given: Any, told: Any):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(LogisticRegression(max_iter=200), X, Y)
        found = capture.evaluate(model, X_TEST, Y_TEST, scoring=scoring)
    assert set(found) == set(given)
    with provml.open(home) as store:
        wanted = {name: pytest.approx(sign * found[name]) for name, sign in told.items()}
        assert scores(store, "EvaluationExecution") == wanted


def test_a_score_of_what_was_not_fitted_here_is_named_as_well(home: Path):  # noqa: F811
    with captured(home) as capture:
        value = capture.score(SVC().fit(X, Y), X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"accuracy": pytest.approx(value)}


def test_folds_have_the_names_that_scorers_were_given(home: Path):  # noqa: F811
    scoring = {"score": "accuracy", "my_loss": "neg_log_loss"}
    with captured(home) as capture:
        found = capture.cross_validate(LogisticRegression(max_iter=200), X, Y, cv=2, scoring=scoring)
    with provml.open(home) as store:
        wanted = {"score": found["test_score"].mean(), "my_loss": -found["test_my_loss"].mean()}
        assert scores(store, "ValidationExecution") == pytest.approx(wanted)


class Walk(SVC):
    """An estimator that has steps and is no pipeline."""

    def __init__(self, steps: Any = 3):
        super().__init__()
        self.steps = steps


@pytest.mark.parametrize("steps", [3, [1, 2], []])
def test_an_estimator_that_has_steps_need_be_no_pipeline(home: Path, steps: Any):  # noqa: F811
    with captured(home) as capture:
        model = capture.fit(Walk(steps), X, Y)
        value = capture.score(model, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert scores(store, "EvaluationExecution") == {"accuracy": pytest.approx(value)}
        assert len(ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1


def test_a_score_whose_name_cannot_be_found_is_given_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    def broken(*_: Any) -> Any:
        raise RuntimeError("no name")

    monkeypatch.setattr("provml.capture.estimator.scored", broken)
    with Capture("digits", home=home, capture_environment=False) as capture:
        assert capture.score(SVC().fit(X, Y), X_TEST, Y_TEST) > 0
