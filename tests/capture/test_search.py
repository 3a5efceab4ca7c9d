"""Searches, partial fits and warm starts of scikit-learn: candidates, times, and the initial model of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import adaptations, ask, measures_by_epoch

pytest.importorskip("sklearn", reason="scikit-learn is not installed; `pip install 'provml[sklearn]'`")

from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from capture.test_sklearn import X_TEST, Y_TEST, X, Y, captured, conforms, fit, home, used  # noqa: F401

SLACK = 0.002
"""Seconds by which two readings of the clock may differ."""
CLASS_COUNTS = """SELECT ?count { ?v a provml:ModelHyperparameterValue ; prov:value ?count ;
                  provlake:wasDerivedFromAttribute/rdfs:label "n_classes" }"""


def candidates(store: Any, name: str) -> list[Any]:
    rows = ask(
        store,
        f"""SELECT ?value {{ ?s a provml:ValidationExecution ; prov:used ?v , ?n . ?v prov:value ?value ;
            provlake:wasDerivedFromAttribute/rdfs:label "{name}" . ?n prov:value ?number ;
            provlake:wasDerivedFromAttribute/rdfs:label "candidate" }} ORDER BY ?number""",
    )
    return [row[0] for row in rows]


def test_ambiguous_parameters_of_candidates_have_their_full_name(home: Path):  # noqa: F811
    voting = VotingClassifier([("a", LogisticRegression(max_iter=50)), ("b", SVC())])
    with captured(home) as capture:
        fit(GridSearchCV(voting, {"a__C": [0.1, 1.0], "b__C": [5.0], "b__gamma": [0.1]}, cv=2), capture=capture)
    with provml.open(home) as store:
        assert candidates(store, "a__C") == [0.1, 1.0]
        assert candidates(store, "b__C") == [5.0, 5.0]
        assert candidates(store, "gamma") == [0.1, 0.1]
        assert candidates(store, "C") == []


def test_steps_of_the_best_pipeline_are_preparations_and_its_parameters_are_those_of_the_training(home: Path):  # noqa: F811
    model = Pipeline([("scale", StandardScaler()), ("pca", PCA(random_state=0)), ("svc", SVC())])
    search = GridSearchCV(model, {"pca__n_components": [2, 12], "svc__C": [1.0]}, cv=2)
    with captured(home) as capture:
        capture.fit(search, X, Y)
    assert search.best_params_["pca__n_components"] == 12
    with provml.open(home) as store:
        prepared = ask(
            store,
            """SELECT DISTINCT ?label { ?t a provml:TrainingExecution ; (prov:used/prov:wasGeneratedBy)+ ?p .
               ?p a provml:DataPreparationExecution ; provlake:wasDerivedFromDataTransformation/rdfs:label ?label }
               ORDER BY ?label""",
        )
        assert [row[0] for row in prepared] == ["pca", "scale"]
        assert used(store, "DataPreparationExecution")["n_components"] == 12
        recorded = used(store)
        assert (recorded["n_components"], recorded["C"], recorded["estimator"]) == (12, 1.0, "SVC")
        assert recorded["search_best_candidate"] == 2
        assert recorded["search_best_score"] == pytest.approx(search.best_score_)
        conforms(store)


def test_a_search_without_refit_records_the_best_candidate(home: Path):  # noqa: F811
    search = GridSearchCV(SVC(), {"C": [1e-4, 1.0]}, cv=2, refit=False)
    with captured(home) as capture:
        capture.fit(search, X, Y)
    with provml.open(home) as store:
        assert (used(store)["search_best_candidate"], used(store)["C"]) == (2, 1.0)


def test_folds_and_epochs_recorded_after_a_fit_are_within_the_time_of_their_stage(home: Path):  # noqa: F811
    network = MLPClassifier((8,), max_iter=4, early_stopping=True, random_state=0)
    with captured(home) as capture:
        fit(GridSearchCV(network, {"alpha": [0.1, 0.2]}, cv=2), capture=capture)
        fit(network, capture=capture)
        capture.cross_validate(SVC(), X, Y, cv=2)
    with provml.open(home) as store:
        rows = ask(
            store,
            """SELECT ?section ?begin ?end ?from ?to { ?section provml:wasSectionOf ?stage ; prov:startedAtTime ?begin ;
               prov:endedAtTime ?end . ?stage prov:startedAtTime ?from ; prov:endedAtTime ?to }""",
        )
        assert len(rows) >= 4 + 3 * 4 + 2
        for section, begin, end, start, stop in rows:
            assert (start - begin).total_seconds() < SLACK, f"{section} begins before its stage"
            assert (end - stop).total_seconds() < SLACK, f"{section} ends after its stage"
        seconds = ask(
            store,
            """SELECT ?own (SUM(?s) AS ?sum) { ?stage a provml:ValidationExecution ; provml:elapsedSeconds ?own .
               ?f a provml:FoldExecution ; provml:wasSectionOf ?stage ; provml:elapsedSeconds ?s }
               GROUP BY ?stage ?own""",
        )
        assert all(float(own) >= float(total) - SLACK for own, total in seconds)


def test_partial_fits_between_scores_are_one_training_whose_model_each_score_evaluates(home: Path):  # noqa: F811
    model = SGDClassifier(learning_rate="constant", eta0=0.1, random_state=0)
    with captured(home) as capture:
        for number in range(3):
            capture.partial_fit(model, X, Y, classes=range(10))
            capture.score(model, X, Y)
            capture.evaluate(model, X_TEST, Y_TEST, scoring="accuracy")
            model.set_params(eta0=0.1 / (number + 2))
    with provml.open(home) as store:
        epochs = ask(
            store,
            """SELECT ?index { ?test a provml:EvaluationExecution ; prov:used ?model . ?model a provml:Model ;
               prov:wasGeneratedBy/provml:sectionIndex ?index } ORDER BY ?index""",
        )
        assert [index for (index,) in epochs] == [1, 1, 2, 2, 3, 3]
        late = """SELECT ?t { ?t a provml:TrainingExecution ; prov:endedAtTime ?end .
                  ?e provml:wasSectionOf ?t . FILTER NOT EXISTS { ?e prov:endedAtTime ?late FILTER (?late > ?end) }
                  ?test a provml:EvaluationExecution ; prov:endedAtTime ?after FILTER (?after > ?end) }"""
        assert len(set(ask(store, late))) == 1, "the training ended with its last epoch, not with the last score"
        assert [row[0] for row in ask(store, CLASS_COUNTS)] == [10]
        assert [row[:2] for row in adaptations(store)] == [(2, "eta0"), (3, "eta0")]
        conforms(store)


def test_a_partial_fit_after_a_fit_continues_from_its_model(home: Path):  # noqa: F811
    with captured(home) as capture:
        capture.partial_fit(SGDClassifier(random_state=0), X, Y, classes=range(10))
        fitted = capture.fit(SGDClassifier(random_state=0, max_iter=5, tol=None), X, Y)
        capture.partial_fit(fitted, X, Y)
    with provml.open(home) as store:
        rows = ask(
            store,
            """SELECT ?at ?by { ?t a provml:TrainingExecution ; prov:startedAtTime ?at .
               OPTIONAL { ?t prov:used ?model . ?model a provml:Model ; prov:wasGeneratedBy ?by } } ORDER BY ?at""",
        )
        assert [by is not None for _, by in rows] == [False, False, True]
        conforms(store)


class CallRecorder(BaseEstimator):
    """An estimator that stores the arguments of its last call."""

    def fit(self, X: Any, *more: Any, **named: Any) -> CallRecorder:  # noqa: N803
        self.arguments = (*more, named)
        return self

    partial_fit = fit


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_the_target_is_passed_on_unchanged(home: Path, verb: str):  # noqa: F811
    with captured(home) as capture:
        for targets, named in (((), {}), ((None,), {}), ((), {"y": None}), ((Y,), {})):
            model = getattr(capture, verb)(CallRecorder(), X, *targets, **named)
            assert len(model.arguments) == len(targets) + 1
            assert model.arguments[-1] == named


def test_a_pipeline_without_an_estimator_is_a_preparation(home: Path):  # noqa: F811
    with captured(home) as capture:
        capture.fit(make_pipeline(StandardScaler(), PCA(2), "passthrough"), X)
    with provml.open(home) as store:
        values = used(store, "DataPreparationExecution")
        assert (values["transformer"], values["pca__n_components"]) == ("Pipeline", 2)
        assert not used(store)


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_sample_weights_are_recorded(home: Path, verb: str):  # noqa: F811
    with captured(home) as capture:
        more = {"classes": range(10)} if verb == "partial_fit" else {}
        getattr(capture, verb)(SGDClassifier(random_state=0), X, Y, sample_weight=np.ones(len(Y)), **more)
    with provml.open(home) as store:
        assert used(store)["sample_weight"] == f"ndarray of shape ({len(Y)},)"


def test_candidates_of_a_halving_search_have_their_iteration_and_resources(home: Path):  # noqa: F811
    search = HalvingGridSearchCV(SVC(), {"C": [0.1, 1.0, 2.0, 3.0]}, factor=2, min_resources=60, cv=2, random_state=0)
    with captured(home) as capture:
        capture.fit(search, X, Y)
    with provml.open(home) as store:
        assert candidates(store, "iteration") == [iteration + 1 for iteration in search.cv_results_["iter"]]
        assert candidates(store, "n_resources") == list(search.cv_results_["n_resources"])
        conforms(store)


def test_a_search_at_the_end_of_a_pipeline_records_its_candidates(home: Path):  # noqa: F811
    search = GridSearchCV(MLPClassifier((8,), max_iter=3, random_state=0), {"alpha": [0.1, 0.2]}, cv=2)
    with captured(home) as capture:
        model = fit(make_pipeline(StandardScaler(), search), capture=capture)
        accuracy = capture.score(model, X_TEST, Y_TEST)
    with provml.open(home) as store:
        assert candidates(store, "alpha") == [0.1, 0.2]
        recorded = used(store)
        assert (recorded["estimator"], recorded["alpha"]) == ("MLPClassifier", search.best_params_["alpha"])
        assert (recorded["search"], recorded["search_best_candidate"]) == ("GridSearchCV", search.best_index_ + 1)
        assert measures_by_epoch(store, "provml:TrainingEpochExecution") == {
            "loss": pytest.approx(search.best_estimator_.loss_curve_)
        }
        prepared = ask(
            store,
            """SELECT DISTINCT ?kind { ?s prov:used/prov:wasGeneratedBy/a provml:DataPreparationExecution .
               ?s a ?kind VALUES ?kind { provml:TrainingExecution provml:ValidationExecution } }""",
        )
        assert len(prepared) == 2
        [row] = store.ask("q4", model="digits", hyperparameter="alpha")
        assert tuple(row)[1:] == (recorded["alpha"], pytest.approx(accuracy))
        conforms(store)


@pytest.mark.parametrize(
    "wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)], ids=["", "pipeline"]
)
@pytest.mark.parametrize(
    ("model", "more", "kind"),
    [
        (MLPClassifier((8,), max_iter=2, random_state=0, early_stopping=True), {"max_iter": 3}, "TrainingEpoch"),
        (GradientBoostingClassifier(n_estimators=2, max_depth=1), {"n_estimators": 5}, "Round"),
        (HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=3, early_stopping=True), {"max_iter": 5}, "Round"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_warm_start_has_only_the_epochs_that_it_adds(
    home: Path,  # noqa: F811
    model: Any,
    more: dict[str, Any],
    kind: str,
    wrap: Any,
):
    estimator = wrap(clone(model).set_params(warm_start=True))
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    with captured(home) as capture:
        fit(estimator, capture=capture)
        last.set_params(**more)
        fit(estimator, capture=capture)
    with provml.open(home) as store:
        rows = ask(
            store,
            f"""SELECT ?begun (COUNT(?s) AS ?n) (MAX(?i) AS ?last) {{ ?t a provml:TrainingExecution ;
                prov:startedAtTime ?begun . ?s a provml:{kind}Execution ; provml:wasSectionOf ?t ;
                provml:sectionIndex ?i }} GROUP BY ?t ?begun ORDER BY ?begun""",
        )
        assert [row[1:] for row in rows] == [(2, 2), (3, 3)]
        continued = ask(store, "SELECT DISTINCT ?t { ?t a provml:TrainingExecution ; prov:used/a provml:Model }")
        assert len(continued) == 1
        conforms(store)
