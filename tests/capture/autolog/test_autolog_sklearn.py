"""Autolog of scikit-learn: the outermost call of any estimator."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import provml
from capture import test_sklearn
from capture.autolog.contracts import AutologContract, autologging
from capture.contract import ask, evaluated_models, measures_by_epoch, models_of
from capture.digits import digits
from provml.capture.autolog.sklearn import METHODS

X, Y = (array[:200] for array in digits()["training"])
X_TEST, Y_TEST = (array[:100] for array in digits()["test"])


class TestScikitLearn(AutologContract):
    software = "scikit-learn"
    explicit = test_sklearn.TestScikitLearn


@pytest.fixture
def home(isolated_home: Path) -> Path:
    return isolated_home / "home"


@pytest.fixture
def recording(home: Path) -> Any:
    """Autolog, which begins a run by itself."""
    with autologging(home=home, strict=True, capture_environment=False, frameworks=["sklearn"]):
        yield home


def stages(home: Path) -> list[tuple[str, str]]:
    """Return the kind and status of all steps of the only run, in order."""
    provml.autolog(False)
    with provml.open(home) as store:
        assert len(store.runs()) == 1
        assert store.runs()[0].status == "FINISHED"
        rows = ask(
            store,
            """SELECT ?kind ?status { ?s a ?kind ; prov:startedAtTime ?t ; provlake:status ?status ;
               provlake:wasMemberOfWorkflowExecution ?run .
               FILTER(?kind IN (provml:TrainingExecution, provml:EvaluationExecution, provml:ValidationExecution,
                                provlake:DataPreparationExecution, provml:DataPreparationExecution)) } ORDER BY ?t""",
        )
    return [(str(kind).rpartition("#")[2].removesuffix("Execution"), status) for kind, status in rows]


def test_only_the_outermost_fit_is_recorded(recording: Path):
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}, cv=2)
    search.fit(X, Y)
    RandomForestClassifier(3, random_state=0, n_jobs=2).fit(X, Y)
    search.predict(X_TEST)
    kinds = [kind for kind, _ in stages(recording)]
    assert kinds.count("Training") == 2
    assert "Evaluation" not in kinds


def test_a_cross_validation_is_one_validation_with_its_folds(recording: Path):
    from sklearn.model_selection import cross_val_score

    scores = cross_val_score(SGDClassifier(random_state=1), X, Y, cv=3)
    assert [kind for kind, _ in stages(recording)] == ["Validation"]
    with provml.open(recording) as store:
        assert measures_by_epoch(store, "provml:FoldExecution") == {"accuracy": pytest.approx(list(scores))}


def test_a_metric_of_a_prediction_is_an_evaluation_of_the_model(recording: Path):
    from sklearn import metrics

    first, second = LinearSVC().fit(X, Y), LogisticRegression(max_iter=500).fit(X, Y == 1)
    predicted = first.predict(X_TEST)
    accuracy, recall = (
        metrics.accuracy_score(Y_TEST, predicted),
        metrics.recall_score(Y_TEST, predicted, average="macro"),
    )
    area = metrics.roc_auc_score(Y_TEST == 1, second.predict_proba(X_TEST)[:, 1])  # a view of the prediction
    metrics.accuracy_score(Y_TEST, Y_TEST)  # of no model
    provml.autolog(False)
    with provml.open(recording) as store:
        produced, _ = models_of(store)
        assert evaluated_models(store) == produced
        rows = ask(
            store,
            """SELECT ?name ?value { ?e a provml:EvaluationExecution . ?v prov:wasGeneratedBy ?e ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert dict(rows) == {"accuracy": accuracy, "recall": recall, "roc_auc": area}


def test_a_transformer_is_a_preparation_whose_output_the_model_uses(recording: Path):
    scaler = StandardScaler()
    SVC().fit(scaler.fit_transform(X), Y)
    scaler.transform(X_TEST)
    assert [kind for kind, _ in stages(recording)] == ["DataPreparation", "Training", "DataPreparation"]
    with provml.open(recording) as store:
        assert ask(
            store,
            """SELECT ?data { ?step a provml:DataPreparationExecution . ?data prov:wasGeneratedBy ?step .
               ?training a provml:TrainingExecution ; prov:used ?data }""",
        )


class Own(ClassifierMixin, BaseEstimator):
    """A user's estimator."""

    def fit(self, x: Any, y: Any = None) -> Own:
        """Fit."""
        self.inner_ = SVC().fit(x, y)
        return self

    def predict(self, x: Any) -> Any:
        return self.inner_.predict(x)


def test_an_estimator_that_predicts_only_when_it_is_fitted_is_a_model(recording: Path):
    StackingClassifier([("tree", DecisionTreeClassifier())], cv=2).fit(X, Y)
    PCA(2).fit(X)
    assert stages(recording) == [("Training", "FINISHED"), ("DataPreparation", "FINISHED")]


def test_the_models_of_a_cross_validation_may_be_returned(recording: Path):
    scores = model_selection.cross_validate(SVC(), X, Y, cv=3, return_estimator=True)
    assert len(scores["estimator"]) == 3
    assert stages(recording) == [("Validation", "FINISHED")]


def test_what_a_boosting_library_prepares_inside_a_fit_is_not_recorded(recording: Path):
    lightgbm = pytest.importorskip("lightgbm")
    lightgbm.LGBMClassifier(n_estimators=2, verbosity=-1).fit(X, Y)  # encodes the labels
    StandardScaler().fit(X)
    assert [kind for kind, _ in stages(recording)] == ["DataPreparation"]


def test_estimators_look_and_behave_as_before(recording: Path):
    signature = inspect.signature(test_sklearn.SVC.fit)
    model = Own()
    assert model.fit(X, Y) is model
    assert model.fit.__doc__ == "Fit."
    assert str(signature) == "(self, X, y, sample_weight=None)"
    copy = pickle.loads(pickle.dumps(model))
    assert isinstance(clone(copy), Own)
    assert np.array_equal(copy.predict(X_TEST), model.predict(X_TEST))
    assert not hasattr(make_pipeline(StandardScaler()), "predict")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC().fit(X, Y[:3])
    provml.autolog(False)
    assert not hasattr(SVC.fit, "__wrapped__") or "autolog" not in SVC.fit.__code__.co_filename
    assert "__init_subclass__" not in vars(BaseEstimator)


def test_all_estimators_of_scikit_learn_are_recorded(recording: Path):
    """A method that an estimator inherits from a class that is no estimator, such as `predict`, is one of them."""
    from sklearn.utils import all_estimators

    def is_wrapped(function: Any) -> bool:
        is_own = function.__code__.co_filename.endswith("autolog/sklearn.py")
        return is_own or (hasattr(function, "__wrapped__") and is_wrapped(function.__wrapped__))

    missed = []
    for name, cls in all_estimators():
        for method in METHODS:
            value = next((vars(base)[method] for base in cls.__mro__ if method in vars(base)), None)
            function = getattr(value, "fn", value)  # of a method that only some instances have
            if inspect.isfunction(function) and not is_wrapped(function):
                missed.append(f"{name}.{method}")
    assert missed == []


def test_a_class_that_is_defined_later_is_recorded_too(recording: Path):
    class Later(ClassifierMixin, BaseEstimator):
        def fit(self, x: Any, y: Any) -> Any:
            self.classes_ = [0]
            return self

    Later().fit(X, Y)
    assert stages(recording) == [("Training", "FINISHED")]


def test_an_explicit_capture_is_not_recorded_twice(home: Path):
    settings = {"home": home, "strict": True, "capture_environment": False}
    with autologging(frameworks=["sklearn"], **settings), test_sklearn.Capture("digits", **settings) as capture:
        model = capture.fit(SVC(), X, Y)
        capture.score(model, X_TEST, Y_TEST)
        capture.cross_validate(SVC(), X, Y, cv=2)
        model.score(X_TEST[:50], Y_TEST[:50])  # without the capture: recorded by autolog, into the same run
    kinds = [kind for kind, _ in stages(home)]
    assert kinds == ["Training", "Evaluation", "Validation", "Evaluation"]


def test_scores_and_transforms_between_partial_fits_leave_one_training(recording: Path):
    scaler, model = StandardScaler().fit(X), SGDClassifier(random_state=0)
    for _ in range(2):
        model.partial_fit(scaler.transform(X), Y, classes=range(10))
        model.score(scaler.transform(X_TEST), Y_TEST)
    kinds = [kind for kind, _ in stages(recording)]
    assert kinds.count("Training") == 1
    assert kinds.count("Evaluation") == 2
