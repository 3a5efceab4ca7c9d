"""XGBoost and LightGBM: real trainings with rounds, evaluated sets, schedules and early stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    Expected,
    SeveralTrainingsContract,
    adaptations,
    ask,
    measures_by_epoch,
    model_facts,
    models_of,
    used,
)
from capture.digits import digits
from capture.digits import rows as some_rows
from provml.mapping.plan import direction_of
from provml.recording.run import Run

xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed; `pip install 'provml[xgboost]'`")
lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed; `pip install 'provml[lightgbm]'`")

from provml.capture.lightgbm import Capture as LightGBMCapture  # noqa: E402  # needs LightGBM
from provml.capture.xgboost import Capture as XGBoostCapture  # noqa: E402  # needs XGBoost

DIGITS = digits()
X, Y = DIGITS["training"]
X_VALID, Y_VALID = DIGITS["validation"]
X_TEST, Y_TEST = DIGITS["test"]
RATES = [0.5, 0.5, 0.25, 0.25]
XGB = {"objective": "multi:softprob", "num_class": 10, "eta": 0.5, "max_depth": 2, "nthread": 1, "seed": 3}
LGB = {
    "objective": "multiclass", "num_class": 10, "num_leaves": 4, "verbosity": -1, "num_threads": 1, "seed": 3,
    "deterministic": True, "force_row_wise": True,
}  # fmt: skip


@pytest.fixture
def home(isolated_home: Path) -> Path:
    return isolated_home / "home"


def settings(home: Path) -> dict[str, Any]:
    return {"home": home, "strict": True, "capture_environment": False, "model": "digits"}


def matrices() -> tuple[Any, Any]:
    return xgboost.DMatrix(X, Y), xgboost.DMatrix(X_VALID, Y_VALID)


def datasets() -> tuple[Any, Any]:
    training = lightgbm.Dataset(X, Y)
    return training, lightgbm.Dataset(X_VALID, Y_VALID, reference=training)


class RaisingCallback(xgboost.callback.TrainingCallback):
    """A user's callback that raises in the second round."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == 1:
            raise Boom("in the middle")
        return False


class TestXGBoost(CaptureContract):
    software = "xgboost"
    section = "provml:RoundExecution"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        training, valid = matrices()
        path, log = folder / "net.json", {}
        capture = XGBoostCapture(run=run, save_model=path, data={"test": X_TEST}) if run is not None else None
        callbacks = [xgboost.callback.LearningRateScheduler(RATES), *([capture] if capture else [])]
        model = xgboost.train(
            XGB, training, 4, evals=[(training, "train"), (valid, "valid")], evals_result=log, verbose_eval=False,
            callbacks=[*callbacks, RaisingCallback()] if fails else callbacks,
        )  # fmt: skip
        accuracy = float((model.predict(xgboost.DMatrix(X_TEST)).argmax(1) == Y_TEST).mean())
        if capture:
            with capture.evaluation() as test:
                test.measured(accuracy=accuracy)
            capture.finish()
        return Expected(
            bytes(model.save_raw("json")),
            {
                "learning_rate": 0.5, "max_depth": 2, "objective": "multi:softprob", "num_boost_round": 4, "seed": 3,
                "booster": "gbtree", "num_class": 10, "subsample": 1,
            },
            log["train"],
            log["valid"],
            [(4, "learning_rate", 0.5, 0.25, "LearningRateScheduler")],
            evaluation={"accuracy": accuracy},
            model=path if capture else None,
        )  # fmt: skip


def raise_in_second_round(env: Any) -> None:
    if env.iteration == 1:
        raise Boom("in the middle")


class TestLightGBM(CaptureContract):
    software = "lightgbm"
    section = "provml:RoundExecution"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        training, valid = datasets()
        path, log = folder / "net.txt", {}
        capture = LightGBMCapture(run=run, save_model=path, data={"test": X_TEST}) if run is not None else None
        callbacks = [lightgbm.record_evaluation(log), lightgbm.reset_parameter(learning_rate=list(RATES))]
        callbacks += [*(capture.callbacks if capture else ()), *([raise_in_second_round] if fails else ())]
        model = lightgbm.train(
            LGB, training, 4, valid_sets=[training, valid], valid_names=["train", "valid"], callbacks=callbacks
        )
        accuracy = float((model.predict(X_TEST).argmax(1) == Y_TEST).mean())
        if capture:
            with capture.evaluation() as test:
                test.measured(accuracy=accuracy)
            capture.finish()
        return Expected(
            model.model_to_string().encode(),
            {"learning_rate": 0.5, "num_leaves": 4, "objective": "multiclass", "num_iterations": 4, "max_depth": -1},
            dict(log["train"]),
            dict(log["valid"]),
            [(3, "learning_rate", 0.5, 0.25, "reset_parameter")],
            evaluation={"accuracy": accuracy},
            model=path if capture else None,
        )


class TestSeveralXGBoostTrainings(SeveralTrainingsContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return XGBoostCapture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, some: slice, model: Any = None) -> Any:
        return xgboost.train(XGB, xgboost.DMatrix(*some_rows(some)), 2, xgb_model=model, callbacks=[capture])

    def test_a_training_can_continue_from_a_file_or_from_the_best_rounds(self, several: tuple[Any, Path, Path]):
        capture, folder, home = several
        capture._save_to = folder / "first.json"
        training, valid = matrices()
        more = {"evals": [(valid, "valid")], "verbose_eval": False}
        stop = xgboost.callback.EarlyStopping(rounds=1, save_best=True)
        best = xgboost.train({**XGB, "eta": 2.0}, training, 20, callbacks=[capture, stop], **more)
        capture._save_to = folder / "second.json"
        xgboost.train(XGB, training, 1, xgb_model=best, callbacks=[capture])
        xgboost.train(XGB, training, 1, xgb_model=folder / "first.json", callbacks=[capture])
        capture.finish()
        with provml.open(home) as store:
            produced, initial = models_of(store)
            assert initial == [None, produced[0], produced[0]]


class TestSeveralLightGBMTrainings(SeveralTrainingsContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return LightGBMCapture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, some: slice, model: Any = None) -> Any:
        data = lightgbm.Dataset(*some_rows(some))
        return lightgbm.train(LGB, data, 2, init_model=model, callbacks=capture.callbacks)


@pytest.mark.parametrize(
    ("measure", "direction"),
    [("mlogloss", "minimize"), ("merror", "minimize"), ("l2", "minimize"), ("auc", "maximize"), ("ndcg", None)],
)
def test_measures_of_boosting_have_a_direction(measure: str, direction: str | None):
    assert direction_of(measure) == direction


# ---- early stops


def rounds(store: Any) -> list[int]:
    rows = ask(store, "SELECT ?i { ?r a provml:RoundExecution ; provml:sectionIndex ?i } ORDER BY ?i")
    return [row[0] for row in rows]


def test_early_stopping_of_xgboost_changes_the_number_of_rounds_and_records_the_best(home: Path):
    training, valid = matrices()
    path = home.parent / "best.json"
    with XGBoostCapture("digits", save_model=path, **settings(home)) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=2, save_best=True)
        best = xgboost.train(
            {**XGB, "eta": 2.0}, training, 40, evals=[(valid, "valid")], callbacks=[capture, stop], verbose_eval=False
        )
    with provml.open(home) as store:
        count = len(rounds(store))
        assert count < 40
        [(_, name, old, new, technique)] = adaptations(store)
        assert (name, old, new, technique) == ("num_boost_round", 40, count, "early stopping")
        facts = model_facts(store)
        assert facts["best_round"] == best.num_boosted_rounds() == count - 2
    assert xgboost.Booster(model_file=path).num_boosted_rounds() == best.num_boosted_rounds()


@pytest.mark.parametrize("is_first", [True, False])
def test_the_round_that_early_stopping_ends_with_is_complete(home: Path, is_first: bool):
    """XGBoost does not call callbacks after one that stops the training."""
    training, valid = xgboost.DMatrix(X, Y), xgboost.DMatrix(X_VALID, Y_VALID)
    history: dict[str, Any] = {}
    with XGBoostCapture("digits", **settings(home)) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=2)
        callbacks = [capture, stop] if is_first else [stop, capture]
        xgboost.train(
            {**XGB, "eta": 2.0}, training, 40, evals=[(valid, "valid")], evals_result=history, callbacks=callbacks,
            verbose_eval=False,
        )  # fmt: skip
    (losses,) = history["valid"].values()
    with provml.open(home) as store:
        assert len(rounds(store)) == len(losses)
        assert [new for *_, new, _ in adaptations(store)] == [len(losses)]
        (measured,) = measures_by_epoch(store, "provml:ValidationSectionExecution").values()
        assert measured == pytest.approx(losses)


def test_early_stopping_of_lightgbm_changes_the_number_of_rounds_and_records_the_best(home: Path):
    training, valid = datasets()
    with LightGBMCapture("digits", **settings(home)) as capture:
        model = lightgbm.train(
            {**LGB, "learning_rate": 2.0}, training, 40, valid_sets=[valid],
            callbacks=[*capture.callbacks, lightgbm.early_stopping(2, verbose=False)],
        )  # fmt: skip
    with provml.open(home) as store:
        count = len(rounds(store))
        assert count < 40
        [(_, name, old, new, technique)] = adaptations(store)
        assert (name, old, new, technique) == ("num_iterations", 40, count, "early stopping")
        assert model_facts(store)["best_round"] == model.best_iteration


def test_wrong_settings_of_xgboost_are_no_capture_error(home: Path):
    x, y = some_rows(slice(0, 40))
    with XGBoostCapture("digits", home=home, capture_environment=False) as capture:
        with pytest.raises(xgboost.core.XGBoostError, match="Unknown objective"):
            xgboost.train({"objective": "nope"}, xgboost.DMatrix(x, y), 2, callbacks=[capture])
        assert capture.run.capture_errors == 0


def test_a_lightgbm_training_that_raised_is_failed_and_has_no_model(home: Path):
    with LightGBMCapture("digits", save_model=home.parent / "net.txt", **settings(home)) as capture:
        with pytest.raises(Boom):
            lightgbm.train(LGB, datasets()[0], 4, callbacks=[*capture.callbacks, raise_in_second_round])
        assert not (home.parent / "net.txt").exists()
        lightgbm.train(LGB, datasets()[0], 1, callbacks=capture.callbacks)
        with pytest.raises(Boom):
            lightgbm.train(LGB, datasets()[0], 4, callbacks=[*capture.callbacks, raise_in_second_round])
    with provml.open(home) as store:
        rows = ask(
            store,
            "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s ; prov:startedAtTime ?b } ORDER BY ?b",
        )
        assert rows == [("FAILED",), ("FINISHED",), ("FAILED",)]
        assert len(ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t }")) == 1
        assert adaptations(store) == []


def test_the_best_model_is_saved_also_if_recording_is_disabled(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    training, valid = matrices()
    path = home.parent / "best.json"
    with XGBoostCapture("digits", save_model=path, **settings(home)) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=2, save_best=True)
        best = xgboost.train(
            {**XGB, "eta": 2.0}, training, 40, evals=[(valid, "valid")], callbacks=[capture, stop], verbose_eval=False
        )
    assert xgboost.Booster(model_file=path).num_boosted_rounds() == best.num_boosted_rounds() < 40
    training_set, valid_set = datasets()
    with LightGBMCapture("digits", save_model=home.parent / "best.txt", **settings(home)) as light:
        stopped = lightgbm.train(
            {**LGB, "learning_rate": 2.0}, training_set, 40, valid_sets=[valid_set],
            callbacks=[*light.callbacks, lightgbm.early_stopping(2, verbose=False)],
        )  # fmt: skip
    assert lightgbm.Booster(model_file=home.parent / "best.txt").num_trees() == stopped.best_iteration * 10


# ---- estimators, cross-validation, several trainings


def test_xgboost_estimators_accept_the_capture(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, callbacks=[capture])
        model.fit(X, Y, eval_set=[(X, Y), (X_VALID, Y_VALID)], verbose=False)
    with provml.open(home) as store:
        assert rounds(store) == [1, 2, 3]
        # the first set is the training data
        assert len(measures_by_epoch(store, "provml:RoundExecution")["mlogloss"]) == 3
        assert len(measures_by_epoch(store, "provml:ValidationEpochExecution")["mlogloss"]) == 3
        assert store.run("latest").status == "FINISHED"


def test_a_lightgbm_capture_passed_as_a_callback_raises_with_advice(home: Path):
    error = pytest.raises(TypeError, match=r"callbacks=capture\.callbacks")
    with error, LightGBMCapture("digits", **settings(home)) as capture:
        lightgbm.train(LGB, datasets()[0], 1, callbacks=[capture])


@pytest.mark.filterwarnings(
    "ignore:The argument 'eval_set' is deprecated"
)  # since 4.7; older versions have no other argument
def test_lightgbm_estimators_accept_the_capture(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        model = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, n_jobs=1, verbosity=-1)
        model.fit(X, Y, eval_set=[(X_VALID, Y_VALID)], callbacks=capture.callbacks)
    with provml.open(home) as store:
        assert rounds(store) == [1, 2, 3]
        assert len(measures_by_epoch(store, "provml:ValidationEpochExecution")["multi_logloss"]) == 3


def test_a_cross_validation_of_xgboost_is_a_validation_with_means_over_folds(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        history = xgboost.cv(XGB, matrices()[0], 3, nfold=3, callbacks=[capture], as_pandas=False, seed=1)
    with provml.open(home) as store:
        recorded = measures_by_epoch(store, "provml:ValidationEpochExecution")
        assert recorded["mlogloss"] == pytest.approx(history["test-mlogloss-mean"])
        assert recorded["training_mlogloss"] == pytest.approx(history["train-mlogloss-mean"])
        assert not ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")


def test_a_cross_validation_of_lightgbm_is_a_validation_with_means_over_folds(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        history = lightgbm.cv(LGB, datasets()[0], 3, nfold=3, callbacks=capture.callbacks, seed=1)
    with provml.open(home) as store:
        recorded = measures_by_epoch(store, "provml:ValidationEpochExecution")
        assert recorded["multi_logloss"] == pytest.approx(history["valid multi_logloss-mean"])


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm"])
def test_a_cross_validation_after_a_training_records_no_adaptation(home: Path, framework: str):
    if framework == "lightgbm":
        with LightGBMCapture("digits", **settings(home)) as light:
            lightgbm.train(LGB | {"learning_rate": 0.3}, datasets()[0], 2, callbacks=light.callbacks)
            lightgbm.cv(LGB | {"learning_rate": 0.2}, datasets()[0], 2, nfold=2, callbacks=light.callbacks)
    else:
        with XGBoostCapture("digits", **settings(home)) as capture:
            schedule = xgboost.callback.LearningRateScheduler([0.5, 0.5])
            xgboost.train(XGB | {"max_depth": 3}, matrices()[0], 2, callbacks=[capture, schedule])
            xgboost.cv(XGB, matrices()[0], 2, nfold=2, callbacks=[capture, schedule])
    with provml.open(home) as store:
        assert adaptations(store) == []


def test_two_trainings_with_a_capture_are_two_stages(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        for _ in range(2):
            training, valid = datasets()
            stop = lightgbm.early_stopping(2, verbose=False)
            lightgbm.train(LGB, training, 2, valid_sets=[valid], callbacks=[*capture.callbacks, stop])
    with provml.open(home) as store:
        assert rounds(store) == [1, 1, 2, 2]
        statuses = ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }")
        assert statuses == [("FINISHED",), ("FINISHED",)]


def test_each_evaluated_set_is_a_stage(home: Path):
    training, valid = matrices()
    other = xgboost.DMatrix(X_TEST, Y_TEST)
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train(
            XGB, training, 2, evals=[(valid, "valid"), (other, "other")], callbacks=[capture], verbose_eval=False
        )
    with provml.open(home) as store:
        rows = ask(
            store,
            """SELECT ?set (COUNT(?e) AS ?n) { ?e a provml:ValidationEpochExecution ; provml:wasSectionOf ?s ;
               prov:wasInformedBy/a provml:RoundExecution . ?s prov:used ?v . ?v prov:value ?set ;
               provlake:wasDerivedFromAttribute/rdfs:label "evaluation_set" } GROUP BY ?set ORDER BY ?set""",
        )
        assert rows == [("other", 2), ("valid", 2)]


def test_only_selected_hyperparameters_are_recorded(home: Path):
    with LightGBMCapture("digits", hyperparameters={"learning_rate": True}, **settings(home)) as capture:
        lightgbm.train(LGB, datasets()[0], 1, callbacks=capture.callbacks)
    with provml.open(home) as store:
        rows = ask(
            store,
            """SELECT ?name ?value { ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert rows == [("learning_rate", 0.1)]


def test_xgboost_parameters_are_recorded_with_the_digits_that_were_passed(home: Path):
    parameters = {"eta": 0.1, "subsample": 0.8, "colsample_bytree": 0.7, "lambda": 1e-4, "gamma": 0.123456}
    lower = xgboost.callback.LearningRateScheduler([0.1, 0.03, 0.01])  # each after its round
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train(XGB | parameters, matrices()[0], 3, callbacks=[lower, capture])
    with provml.open(home) as store:
        recorded = used(store)
        names = ("learning_rate", "subsample", "colsample_bytree", "reg_lambda", "min_split_loss")
        assert [recorded[name] for name in names] == list(parameters.values())
        assert "rng_state" not in recorded  # a parameter of XGBoost since 3.4
        assert [row[2:4] for row in adaptations(store)] == [(0.1, 0.03)]


def test_the_data_of_a_matrix_is_identified_by_its_content(home: Path):
    for _ in range(2):
        training, _ = matrices()
        with XGBoostCapture("digits", **settings(home)) as capture:
            xgboost.train(XGB, training, 1, callbacks=[capture])
    with provml.open(home) as store:
        rows = ask(store, "SELECT DISTINCT ?d { ?t a provml:TrainingExecution ; prov:used ?d . ?d provlake:sha256 ?s }")
        assert len(rows) == 2  # features and labels, the same in both runs


def squared_error(predicted: Any, matrix: Any) -> tuple[Any, Any]:
    return predicted - matrix.get_label(), predicted * 0 + 1


def estimator_error(target: Any, predicted: Any) -> tuple[Any, Any]:
    return predicted - target, predicted * 0 + 1


def objectives(home: Path) -> list[Any]:
    with provml.open(home) as store:
        assert adaptations(store) == []
        rows = ask(
            store,
            """SELECT ?value { ?t a provml:TrainingExecution ; prov:startedAtTime ?at ; prov:used ?v .
               ?v prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label "objective" } ORDER BY ?at""",
        )
        return [row[0] for row in rows]


class UserCallback(xgboost.callback.TrainingCallback):
    """A user's callback, which could change hyperparameters."""


def test_a_custom_objective_of_xgboost_is_recorded_by_name(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train({"nthread": 1}, matrices()[0], 2, obj=squared_error, callbacks=[capture, UserCallback()])
        xgboost.XGBRegressor(
            n_estimators=2, objective=estimator_error, callbacks=[capture, UserCallback()], n_jobs=1
        ).fit(X, Y)
    assert objectives(home) == ["squared_error", "estimator_error"]


def test_a_custom_objective_of_lightgbm_is_recorded_by_name(home: Path):
    quiet = {"verbosity": -1, "num_threads": 1}
    with LightGBMCapture("digits", **settings(home)) as capture:
        lightgbm.train(quiet | {"objective": squared_error}, datasets()[0], 2, callbacks=capture.callbacks)
        lightgbm.LGBMRegressor(n_estimators=2, objective=estimator_error, **quiet).fit(
            X, Y, callbacks=capture.callbacks
        )
    assert objectives(home) == ["squared_error", "estimator_error"]


def evaluated_rounds(store: Any) -> dict[str, int]:
    """Return the rounds that the model of each evaluation was trained for, by the evaluation's name."""
    return dict(
        ask(
            store,
            """SELECT ?name ?rounds { ?e a provml:EvaluationExecution ; prov:used ?m ;
               provlake:wasDerivedFromDataTransformation/rdfs:label ?name . ?m a provml:Model ; prov:wasGeneratedBy ?t .
               ?t prov:used ?v . ?v prov:value ?rounds ; prov:wasDerivedFrom/rdfs:label ?n .
               FILTER(?n IN ("num_boost_round", "num_iterations")) }""",
        )
    )


def test_an_evaluation_belongs_to_the_model_that_is_passed(tmp_path: Path):
    training, _ = matrices()
    with XGBoostCapture("digits", home=tmp_path / "x", strict=True, capture_environment=False) as capture:
        first, _ = (xgboost.train(XGB, training, n, callbacks=[capture], verbose_eval=False) for n in (1, 2))
        third = xgboost.XGBClassifier(n_estimators=3, callbacks=[capture]).fit(*digits()["training"])
        xgboost.train(XGB, training, 4, callbacks=[capture], verbose_eval=False)
        for name, model in (("first", [first]), ("third", [third]), ("last", [])):
            with capture.evaluation(*model, name=name, by="ann", threshold=0.5) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path / "x") as store:
        assert evaluated_rounds(store) == {"first": 1, "third": 3, "last": 4}

    with LightGBMCapture("digits", home=tmp_path / "l", strict=True, capture_environment=False) as light:
        first = lightgbm.train(LGB, datasets()[0], 1, callbacks=light.callbacks)
        second = lightgbm.LGBMClassifier(n_estimators=2, verbosity=-1, n_jobs=1)
        second.fit(*digits()["training"], callbacks=light.callbacks)
        lightgbm.train(LGB, datasets()[0], 3, callbacks=light.callbacks)
        for name, model in (("first", [first]), ("second", [second]), ("last", [])):
            with light.evaluation(*model, name=name) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path / "l") as store:
        assert evaluated_rounds(store) == {"first": 1, "second": 2, "last": 3}


def test_the_best_rounds_are_the_model_of_their_training(tmp_path: Path):
    training, valid = matrices()
    with XGBoostCapture("digits", home=tmp_path, strict=True, capture_environment=False) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=1, save_best=True)
        parameters = {**XGB, "learning_rate": 3.0}
        best = xgboost.train(
            parameters, training, 9, evals=[(valid, "v")], callbacks=[capture, stop], verbose_eval=False
        )
        capture.evaluation(best).measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 1
