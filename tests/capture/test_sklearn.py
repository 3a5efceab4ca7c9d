"""Scikit-learn: real fits of estimators, pipelines and searches, with folds and partial fits."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    EvaluationContract,
    Expected,
    adaptations,
    ask,
    measures_by_epoch,
    model_facts,
    used,
)
from capture.digits import digits
from capture.digits import rows as some_rows
from provml.recording.run import Run

pytest.importorskip("sklearn", reason="scikit-learn is not installed; `pip install 'provml[sklearn]'`")

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from provml.capture.sklearn import Capture

DIGITS = digits()
X, Y = DIGITS["training"]
X_TEST, Y_TEST = DIGITS["test"]


def boom(x: Any) -> Any:
    raise Boom("in the middle")


def fit(model: Any, *, capture: Any = None) -> Any:
    """Fit a model, with the capture if one is passed. Few iterations do not converge, which is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return capture.fit(model, X, Y) if capture else model.fit(X, Y)


class TestScikitLearn(CaptureContract):
    software = "scikit-learn"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        network = MLPClassifier((24, 16), max_iter=6, early_stopping=True, random_state=3, learning_rate_init=0.01)
        model = Pipeline([("scale", FunctionTransformer(boom) if fails else StandardScaler()), ("net", network)])
        path = folder / "net.joblib"
        capture = Capture(run=run, save_model=path) if run is not None else None
        fit(model, capture=capture)
        accuracy = capture.score(model, X_TEST, Y_TEST) if capture else model.score(X_TEST, Y_TEST)
        if capture:
            capture.finish()
        expected = Expected(
            b"".join(array.tobytes() for array in (*network.coefs_, *network.intercepts_)),
            {
                "estimator": "MLPClassifier", "learning_rate_init": 0.01, "max_iter": 6, "activation": "relu",
                "hidden_layer_sizes": "[24, 16]", "early_stopping": True, "random_state": 3,
            },
            {"loss": network.loss_curve_},
            {"accuracy": network.validation_scores_},
        )  # fmt: skip
        expected.layers = [("hidden_1", "Dense"), ("hidden_2", "Dense"), ("output", "Dense")]
        expected.evaluation = {"accuracy": accuracy}
        expected.model = path if capture else None
        return expected


class TestSeveral(EvaluationContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return Capture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, some: slice, model: Any = None) -> Any:
        return capture.fit(model or SGDClassifier(warm_start=True), *some_rows(some))

    @classmethod
    def evaluate_on(cls, capture: Any, folder: Path, some: slice, model: Any) -> None:
        capture.score(model, *some_rows(some))


# ---- estimators, pipelines and searches


@pytest.fixture
def home(isolated_home: Path) -> Path:
    return isolated_home / "home"


def captured(home: Path, **settings: Any) -> Capture:
    return Capture("digits", home=home, strict=True, capture_environment=False, **settings)


def test_a_fit_and_a_score_are_recorded(home: Path):
    with captured(home) as capture:
        model = capture.fit(SVC(C=2.0, kernel="rbf"), X, Y)
        accuracy = capture.score(model, X_TEST, Y_TEST)
    assert accuracy == SVC(C=2.0).fit(X, Y).score(X_TEST, Y_TEST)
    with provml.open(home) as store:
        recorded = used(store)
        assert (recorded["estimator"], recorded["C"], recorded["kernel"]) == ("SVC", 2.0, "rbf")
        assert recorded["class_weight"] == "None"
        assert json.loads(recorded["changed_parameters"]) == ["C"]
        facts = model_facts(store)
        assert (facts["n_features_in"], facts["n_classes"], facts["classes"]) == (64, 10, str(list(range(10))))
        assert rows(store.ask("q4", model="digits", hyperparameter="C")) == [(2.0, pytest.approx(accuracy))]
        [(software, version)] = ask(
            store,
            """SELECT ?name ?version { ?s a provml:Software ; rdfs:label ?name ; provml:softwareVersion ?version
               FILTER(?name = "scikit-learn") }""",
        )
        import sklearn

        assert (software, version) == ("scikit-learn", sklearn.__version__)


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row)[1:] for row in answer.rows]


def test_the_same_data_is_the_same_node_in_two_runs(home: Path):
    for _ in range(2):
        with captured(home) as capture:
            capture.fit(LinearRegression(), X, Y)
    with provml.open(home) as store:
        recorded = ask(
            store, "SELECT DISTINCT ?d { ?t a provml:TrainingExecution ; prov:used ?d . ?d provlake:sha256 ?s }"
        )
        assert len(recorded) == 2  # X and y


def test_transformers_of_a_pipeline_are_preparations_before_the_training(home: Path):
    model = make_pipeline(
        StandardScaler(with_mean=False), make_pipeline(FunctionTransformer(), LogisticRegression(C=3.0))
    )
    with captured(home) as capture:
        fit(model, capture=capture)
    with provml.open(home) as store:
        recorded = ask(
            store,
            """SELECT DISTINCT ?label { ?t a provml:TrainingExecution ; (prov:used/prov:wasGeneratedBy)+ ?p .
               ?p a provml:DataPreparationExecution ; provlake:wasDerivedFromDataTransformation/rdfs:label ?label }
               ORDER BY ?label""",
        )
        assert [row[0] for row in recorded] == ["pipeline.functiontransformer", "standardscaler"]
        assert used(store, "DataPreparationExecution")["with_mean"] is False
        assert used(store)["C"] == 3.0
        origins = ask(
            store,
            """SELECT DISTINCT ?n { ?m a provml:Model ; (prov:wasGeneratedBy/prov:used)+ ?d . ?d provlake:sha256 ?s ;
               provlake:wasDerivedFromAttribute/rdfs:label ?n } ORDER BY ?n""",
        )
        assert [row[0] for row in origins] == ["X", "y"]
        assert store.problems == []


@pytest.mark.parametrize("parallel", [None, 2])
def test_candidates_of_a_search_are_validations_with_folds_and_the_best_is_a_training(home: Path, parallel: int | None):
    model = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(
        model, {"svc__C": [0.01, 1.0], "svc__kernel": ["rbf"]}, cv=3, scoring="accuracy", n_jobs=parallel
    )
    with captured(home) as capture, joblib.parallel_config(backend="threading"):
        assert capture.fit(search, X, Y) is search
        capture.score(search, X_TEST, Y_TEST)
    with provml.open(home) as store:
        folds = ask(
            store,
            """SELECT ?c ?fold ?score { ?f a provml:FoldExecution ; provml:sectionIndex ?fold ; provml:wasSectionOf ?s .
               ?s prov:used ?v . ?v prov:value ?c ; provlake:wasDerivedFromAttribute/rdfs:label "C" .
               ?m prov:wasGeneratedBy ?f ; prov:value ?score ; provlake:wasDerivedFromAttribute/rdfs:label "accuracy" }
               ORDER BY ?c ?fold""",
        )
        wanted = [
            (c, fold + 1, pytest.approx(search.cv_results_[f"split{fold}_test_score"][number]))
            for number, c in enumerate([0.01, 1.0])
            for fold in range(3)
        ]
        assert folds == wanted
        recorded = used(store)
        assert (recorded["C"], recorded["search"], recorded["search_cv"]) == (
            search.best_params_["svc__C"],
            "GridSearchCV",
            3,
        )
        assert "svc__C" in recorded["search_space"]
        assert len(rows(store.ask("q4", model="digits", hyperparameter="C"))) == 1
        conforms(store)


def test_a_random_search_and_several_scorers_are_recorded(home: Path):
    scoring = ["accuracy", "neg_log_loss"]
    search = RandomizedSearchCV(
        LogisticRegression(max_iter=500), {"C": [0.1, 1.0]}, n_iter=2, cv=2, scoring=scoring, refit="accuracy",
        random_state=0, return_train_score=True,
    )  # fmt: skip
    with captured(home) as capture:
        fit(search, capture=capture)
    with provml.open(home) as store:
        recorded = measures_by_epoch(store, "provml:FoldExecution")
        assert set(recorded) == {"accuracy", "log_loss", "training_accuracy", "training_log_loss"}
        assert all(value > 0 for value in recorded["log_loss"])  # not negated


def test_folds_of_a_cross_validation_are_sections_with_their_scores(home: Path):
    plain = cross_validate(SVC(), X, Y, cv=4)
    with captured(home) as capture:
        scores = capture.cross_validate(SVC(), X, Y, cv=4)
    assert scores["test_score"].tolist() == plain["test_score"].tolist()
    with provml.open(home) as store:
        assert measures_by_epoch(store, "provml:FoldExecution") == {
            "accuracy": pytest.approx(scores["test_score"].tolist())
        }
        assert used(store, "ValidationExecution")["cv"] == 4
        seconds = ask(store, "SELECT ?s { ?f a provml:FoldExecution ; provml:elapsedSeconds ?s } ORDER BY ?f")
        assert all(row[0] > 0 for row in seconds)
        conforms(store)


def test_a_fold_that_raises_is_a_failed_validation(home: Path):
    with captured(home) as capture, pytest.raises(Boom):
        capture.cross_validate(make_pipeline(FunctionTransformer(boom), SVC()), X, Y, cv=2, error_score="raise")
    with provml.open(home) as store:
        failed = ask(store, "SELECT DISTINCT ?e { ?s provlake:status 'FAILED' ; provlake:exceptionType ?e }")
        assert failed == [("Boom",)]


@pytest.mark.parametrize(
    ("model", "kind", "measure", "history"),
    [
        (GradientBoostingClassifier(n_estimators=3), "Round", "loss", lambda m: m.train_score_),
        (AdaBoostClassifier(n_estimators=3), "Round", "error", lambda m: m.estimator_errors_),
        (
            HistGradientBoostingClassifier(max_iter=3, early_stopping=True, max_leaf_nodes=4),
            "Round",
            "loss",
            lambda m: -m.train_score_[1:],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rounds_of_boosting_are_sections(home: Path, model: Any, kind: str, measure: str, history: Any):
    with captured(home) as capture:
        fit(model, capture=capture)
    with provml.open(home) as store:
        recorded = measures_by_epoch(store, f"provml:{kind}Execution")
        assert recorded == {measure: pytest.approx(history(model).tolist())}
        assert store.problems == []


def test_measures_that_an_estimator_computes_are_recorded(home: Path):
    with captured(home) as capture:
        forest = capture.fit(RandomForestClassifier(40, oob_score=lambda y, p: 0.5, random_state=0), X, Y)
        groups = capture.fit(KMeans(3, n_init=1, random_state=0), X)
        mixture = capture.fit(GaussianMixture(2, covariance_type="diag", random_state=0), X)
    assert forest.oob_score_ == 0.5
    with provml.open(home) as store:
        recorded = dict(
            ask(
                store,
                """SELECT ?name ?value { ?v prov:wasGeneratedBy ?t ; prov:value ?value ; a provml:ModelEvaluation ;
                   provlake:wasDerivedFromAttribute/rdfs:label ?name . ?t a provml:TrainingExecution }""",
            )
        )
        assert recorded == {"oob_score": 0.5, "inertia": pytest.approx(groups.inertia_)}
        if hasattr(mixture, "lower_bounds_"):
            assert measures_by_epoch(store, "provml:TrainingEpochExecution")["lower_bound"]


def test_partial_fits_are_epochs_of_a_training_and_a_changed_parameter_is_an_adaptation(home: Path):
    model, plain = (SGDClassifier(learning_rate="constant", eta0=0.1, random_state=0) for _ in range(2))
    with captured(home) as capture:
        for number in range(4):
            if number == 2:
                model.set_params(eta0=0.01)
                plain.set_params(eta0=0.01)
            part = slice(number * 100, number * 100 + 100)
            assert capture.partial_fit(model, X[part], Y[part], classes=range(10)) is model
            plain.partial_fit(X[part], Y[part], classes=range(10))
        capture.score(model, X_TEST, Y_TEST)
    assert model.coef_.tobytes() == plain.coef_.tobytes()
    with provml.open(home) as store:
        epochs = ask(store, "SELECT ?i { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?i } ORDER BY ?i")
        assert [row[0] for row in epochs] == [1, 2, 3, 4]
        assert adaptations(store) == [(3, "eta0", 0.1, 0.01, "by hand")]
        assert len(ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1
        conforms(store)


def test_a_warm_start_continues_from_the_model_before_and_another_fit_does_not(home: Path):
    forest = RandomForestClassifier(2, warm_start=True, random_state=0)
    with captured(home) as capture:
        capture.fit(forest, X, Y)
        capture.fit(forest.set_params(n_estimators=4), X, Y)
        capture.fit(SVC(), X, Y)
    assert len(forest.estimators_) == 4
    with provml.open(home) as store:
        recorded = ask(
            store,
            """SELECT ?n { ?t a provml:TrainingExecution ; prov:used ?model , ?v . ?model a provml:Model .
               ?v prov:value ?n ; provlake:wasDerivedFromAttribute/rdfs:label "n_estimators" }""",
        )
        assert recorded == [(4,)]


def test_several_scorers_are_one_evaluation(home: Path):
    with captured(home) as capture:
        model = capture.fit(LogisticRegression(max_iter=500), X, Y)
        scored = capture.evaluate(model, X_TEST, Y_TEST, scoring=["accuracy", "neg_log_loss"])
    assert scored["neg_log_loss"] < 0
    with provml.open(home) as store:
        recorded = dict(
            ask(
                store,
                """SELECT ?name ?value { ?v prov:wasGeneratedBy ?t ; prov:value ?value ;
                   provlake:wasDerivedFromAttribute/rdfs:label ?name . ?t a provml:EvaluationExecution }""",
            )
        )
        assert recorded == {"accuracy": scored["accuracy"], "log_loss": -scored["neg_log_loss"]}


def test_tables_and_sparse_matrices_are_identified_by_their_content(home: Path):
    import pandas as pd
    from scipy.sparse import csr_matrix

    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})
    columns = ColumnTransformer([("size", StandardScaler(), ["size"])])
    with captured(home) as capture:
        capture.fit(make_pipeline(columns, LogisticRegression()), frame, pd.Series([0, 1, 0, 1]))
        capture.fit(LogisticRegression(), csr_matrix(np.eye(4)), [0, 1, 0, 1])
    with provml.open(home) as store:
        recorded = dict(
            ask(
                store,
                """SELECT ?type (COUNT(DISTINCT ?sha) AS ?n) { ?d a provml:LearningDataset ;
                   provml:hasDatasetCharacteristicValue ?v . ?v prov:value ?type ;
                   provlake:wasDerivedFromAttribute/rdfs:label "data_type" . OPTIONAL { ?d provlake:sha256 ?sha } }
                   GROUP BY ?type""",
            )
        )
        assert recorded == {"DataFrame": 1, "Series": 1, "csr_matrix": 1, "list": 1}
        assert "size" in model_facts(store)["feature_names"]


def test_an_estimator_that_cross_validates_internally_is_one_training(home: Path):
    with captured(home) as capture:
        capture.fit(TunedThresholdClassifierCV(LogisticRegression(max_iter=500), cv=2), X, Y == 3)
    with provml.open(home) as store:
        assert used(store)["estimator"] == "TunedThresholdClassifierCV"
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 1


class UnusualEstimator(ClassifierMixin, BaseEstimator):
    """An estimator with parameters that are not plain values."""

    def __init__(self, metric: Any = None, table: Any = None, inner: Any = None, limits: Any = (1, 2)) -> None:
        self.metric, self.table, self.inner, self.limits = metric, table, inner, limits

    def fit(self, x: Any, y: Any) -> UnusualEstimator:
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Any) -> Any:
        return np.zeros(len(x))


def test_parameters_that_are_not_plain_are_recorded_by_name(home: Path):
    with captured(home) as capture:
        capture.fit(UnusualEstimator(boom, np.ones((2, 3)), SVC(C=9.0), {"a": object()}), X, Y)
    with provml.open(home) as store:
        recorded = used(store)
        assert (recorded["metric"], recorded["table"], recorded["inner"]) == ("boom", "ndarray of shape (2, 3)", "SVC")
        assert recorded["inner__C"] == 9.0
        assert json.loads(recorded["changed_parameters"]) == ["inner", "limits", "metric", "table"]


def test_only_selected_parameters_are_recorded(home: Path):
    with captured(home, hyperparameters={"C": True, "GAMMA": False}) as capture:
        capture.fit(SVC(), X, Y)
    with provml.open(home) as store:
        assert set(used(store)) == {"C"}


def test_partial_fit_passes_its_arguments_on(home: Path):
    class Estimator:
        def partial_fit(self, features: Any, target: Any) -> Estimator:
            self.arguments = features, target
            return self

    model = Estimator()
    with captured(home) as capture:
        assert capture.partial_fit(model, X, Y) is model
    assert model.arguments[0] is X
    assert model.arguments[1] is Y


def test_a_model_is_saved_also_if_recording_is_disabled(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with captured(home, save_model=tmp_path / "fitted") as capture:
        capture.fit(LinearRegression(), X, Y)
        assert joblib.load(tmp_path / "fitted").n_features_in_ == 64
    with captured(home, save_model=tmp_path / "passes") as capture:
        model = SGDClassifier(random_state=3)
        for _ in range(2):
            capture.partial_fit(model, X, Y, classes=np.arange(10))
        assert not (tmp_path / "passes").exists()
        capture.score(model, X_TEST, Y_TEST)
        assert (joblib.load(tmp_path / "passes").coef_ == model.coef_).all()


def test_an_error_of_saving_reaches_the_user(home: Path, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"), captured(home, save_model=tmp_path / "file" / "net") as capture:
        capture.fit(LinearRegression(), X, Y)
    with provml.open(home) as store:
        assert store.run("latest").status == "FAILED"


def test_a_saved_model_can_be_loaded_and_has_no_trace_of_the_capture(home: Path, tmp_path: Path):
    path = tmp_path / "deep" / "svc.joblib"
    with captured(home, save_model=path) as capture:
        model = capture.fit(SVC(), X, Y)
    assert joblib.load(path).score(X_TEST, Y_TEST) == model.score(X_TEST, Y_TEST)
    assert pickle.dumps(model) == pickle.dumps(SVC().fit(X, Y))


def test_a_parameter_that_is_a_type_is_recorded_by_name(home: Path):
    columns = ColumnTransformer([("kind", OneHotEncoder(dtype=np.float32), [0]), ("rest", StandardScaler(), [1, 2])])
    with captured(home) as capture:
        fit(make_pipeline(columns, LogisticRegression()), capture=capture)
    with provml.open(home) as store:
        assert used(store, "DataPreparationExecution")["kind__dtype"] == "float32"
        assert used(store)["estimator"] == "LogisticRegression"


def conforms(store: Any) -> None:
    """Assert that the latest run conforms to all shapes and was read completely."""
    import io

    from provml.validation import validate

    file = io.BytesIO()
    store.export("latest", file, "nt")
    report = validate(file.getvalue())
    assert report, str(report)
    assert store.problems == []
