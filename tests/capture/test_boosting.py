"""XGBoost and LightGBM, really trained: rounds, evaluated sets, schedules and early stops are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    SeveralContract,
    Told,
    adaptations,
    ask,
    by_epoch,
    model_facts,
    models_of,
    used,
)
from capture.digits import digits
from capture.digits import rows as some_rows
from provml.lift.plan import direction_of
from provml.recorder import Recorder

xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed; `pip install 'provml[xgboost]'`")
lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed; `pip install 'provml[lightgbm]'`")

from provml.capture.lightgbm import Capture as LightGBMCapture  # noqa: E402  # it needs LightGBM
from provml.capture.xgboost import Capture as XGBoostCapture  # noqa: E402  # it needs XGBoost

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
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def settings(home: Path) -> dict[str, Any]:
    return {"home": home, "strict": True, "capture_environment": False, "model": "digits"}


def matrices() -> tuple[Any, Any]:
    return xgboost.DMatrix(X, Y), xgboost.DMatrix(X_VALID, Y_VALID)


def datasets() -> tuple[Any, Any]:
    training = lightgbm.Dataset(X, Y)
    return training, lightgbm.Dataset(X_VALID, Y_VALID, reference=training)


class Breaks(xgboost.callback.TrainingCallback):
    """A callback of the user's that raises in the middle."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == 1:
            raise Boom("in the middle")
        return False


class TestXGBoost(CaptureContract):
    software = "xgboost"
    section = "provml:RoundExecution"

    @classmethod
    def train(cls, run: Recorder | None, folder: Path, *, fails: bool = False) -> Told:
        training, valid = matrices()
        path, log = folder / "net.json", {}
        capture = XGBoostCapture(run=run, save_model=path, data={"test": X_TEST}) if run is not None else None
        callbacks = [xgboost.callback.LearningRateScheduler(RATES), *([capture] if capture else [])]
        model = xgboost.train(
            XGB, training, 4, evals=[(training, "train"), (valid, "valid")], evals_result=log, verbose_eval=False,
            callbacks=[*callbacks, Breaks()] if fails else callbacks,
        )  # fmt: skip
        accuracy = float((model.predict(xgboost.DMatrix(X_TEST)).argmax(1) == Y_TEST).mean())
        if capture:
            with capture.evaluation() as test:
                test.measured(accuracy=accuracy)
            capture.finish()
        return Told(
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


def breaks(env: Any) -> None:
    if env.iteration == 1:
        raise Boom("in the middle")


class TestLightGBM(CaptureContract):
    software = "lightgbm"
    section = "provml:RoundExecution"

    @classmethod
    def train(cls, run: Recorder | None, folder: Path, *, fails: bool = False) -> Told:
        training, valid = datasets()
        path, log = folder / "net.txt", {}
        capture = LightGBMCapture(run=run, save_model=path, data={"test": X_TEST}) if run is not None else None
        callbacks = [lightgbm.record_evaluation(log), lightgbm.reset_parameter(learning_rate=list(RATES))]
        callbacks += [*(capture.callbacks if capture else ()), *([breaks] if fails else ())]
        model = lightgbm.train(
            LGB, training, 4, valid_sets=[training, valid], valid_names=["train", "valid"], callbacks=callbacks
        )
        accuracy = float((model.predict(X_TEST).argmax(1) == Y_TEST).mean())
        if capture:
            with capture.evaluation() as test:
                test.measured(accuracy=accuracy)
            capture.finish()
        return Told(
            model.model_to_string().encode(),
            {"learning_rate": 0.5, "num_leaves": 4, "objective": "multiclass", "num_iterations": 4, "max_depth": -1},
            dict(log["train"]),
            dict(log["valid"]),
            [(3, "learning_rate", 0.5, 0.25, "reset_parameter")],
            evaluation={"accuracy": accuracy},
            model=path if capture else None,
        )


class TestSeveralByXGBoost(SeveralContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return XGBoostCapture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, some: slice, model: Any = None) -> Any:
        return xgboost.train(XGB, xgboost.DMatrix(*some_rows(some)), 2, xgb_model=model, callbacks=[capture])

    def test_a_file_and_the_best_rounds_may_be_gone_on_with(self, several: tuple[Any, Path, Path]):
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
            made, before = models_of(store)
            assert before == [None, made[0], made[0]]


class TestSeveralByLightGBM(SeveralContract):
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
def test_the_measures_of_boosting_are_better_low_or_high(measure: str, direction: str | None):
    assert direction_of(measure) == direction


# ---- early stops


def rounds(store: Any) -> list[int]:
    found = ask(store, "SELECT ?i { ?r a provml:RoundExecution ; provml:sectionIndex ?i } ORDER BY ?i")
    return [row[0] for row in found]


def test_an_early_stop_of_xgboost_adapts_the_number_of_rounds_and_names_the_best(home: Path):
    training, valid = matrices()
    path = home.parent / "best.json"
    with XGBoostCapture("digits", save_model=path, **settings(home)) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=2, save_best=True)
        best = xgboost.train(
            {**XGB, "eta": 2.0}, training, 40, evals=[(valid, "valid")], callbacks=[capture, stop], verbose_eval=False
        )
    with provml.open(home) as store:
        made = len(rounds(store))
        assert made < 40
        [(_, name, old, new, technique)] = adaptations(store)
        assert (name, old, new, technique) == ("num_boost_round", 40, made, "early stopping")
        facts = model_facts(store)
        assert facts["best_round"] == best.num_boosted_rounds() == made - 2
    assert xgboost.Booster(model_file=path).num_boosted_rounds() == best.num_boosted_rounds()


def test_an_early_stop_of_lightgbm_adapts_the_number_of_rounds_and_names_the_best(home: Path):
    training, valid = datasets()
    with LightGBMCapture("digits", **settings(home)) as capture:
        model = lightgbm.train(
            {**LGB, "learning_rate": 2.0}, training, 40, valid_sets=[valid],
            callbacks=[*capture.callbacks, lightgbm.early_stopping(2, verbose=False)],
        )  # fmt: skip
    with provml.open(home) as store:
        made = len(rounds(store))
        assert made < 40
        [(_, name, old, new, technique)] = adaptations(store)
        assert (name, old, new, technique) == ("num_iterations", 40, made, "early stopping")
        assert model_facts(store)["best_round"] == model.best_iteration


def test_a_training_of_lightgbm_that_raised_and_was_caught_failed_and_left_no_model(home: Path):
    with LightGBMCapture("digits", save_model=home.parent / "net.txt", **settings(home)) as capture:
        with pytest.raises(Boom):
            lightgbm.train(LGB, datasets()[0], 4, callbacks=[*capture.callbacks, breaks])
        assert not (home.parent / "net.txt").exists()
        lightgbm.train(LGB, datasets()[0], 1, callbacks=capture.callbacks)
        with pytest.raises(Boom):
            lightgbm.train(LGB, datasets()[0], 4, callbacks=[*capture.callbacks, breaks])
    with provml.open(home) as store:
        rows = ask(
            store,
            "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s ; prov:startedAtTime ?b } ORDER BY ?b",
        )
        assert rows == [("FAILED",), ("FINISHED",), ("FAILED",)]
        assert len(ask(store, "SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t }")) == 1
        assert adaptations(store) == []


def test_a_best_model_is_saved_where_recording_is_off_too(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    training, valid = matrices()
    path = home.parent / "best.json"
    with XGBoostCapture("digits", save_model=path, **settings(home)) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=2, save_best=True)
        best = xgboost.train(
            {**XGB, "eta": 2.0}, training, 40, evals=[(valid, "valid")], callbacks=[capture, stop], verbose_eval=False
        )
    assert xgboost.Booster(model_file=path).num_boosted_rounds() == best.num_boosted_rounds() < 40
    own, other = datasets()
    with LightGBMCapture("digits", save_model=home.parent / "best.txt", **settings(home)) as light:
        stopped = lightgbm.train(
            {**LGB, "learning_rate": 2.0}, own, 40, valid_sets=[other],
            callbacks=[*light.callbacks, lightgbm.early_stopping(2, verbose=False)],
        )  # fmt: skip
    assert lightgbm.Booster(model_file=home.parent / "best.txt").num_trees() == stopped.best_iteration * 10


# ---- other ways to train


def test_estimators_of_xgboost_take_the_capture_too(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, callbacks=[capture])
        model.fit(X, Y, eval_set=[(X, Y), (X_VALID, Y_VALID)], verbose=False)
    with provml.open(home) as store:
        assert rounds(store) == [1, 2, 3]
        assert len(by_epoch(store, "provml:RoundExecution")["mlogloss"]) == 3  # the first set is the training's own
        assert len(by_epoch(store, "provml:ValidationEpochExecution")["mlogloss"]) == 3
        assert store.run("latest").status == "FINISHED"


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")  # and what replaces it is new
def test_a_capture_of_lightgbm_that_is_handed_over_whole_says_what_to_hand_over(home: Path):
    says = pytest.raises(TypeError, match=r"callbacks=capture\.callbacks")
    with says, LightGBMCapture("digits", **settings(home)) as capture:
        lightgbm.train(LGB, datasets()[0], 1, callbacks=[capture])


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")  # from 4.7 on; before, there is no other
def test_estimators_of_lightgbm_take_the_capture_too(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        model = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, n_jobs=1, verbosity=-1)
        model.fit(X, Y, eval_set=[(X_VALID, Y_VALID)], callbacks=capture.callbacks)
    with provml.open(home) as store:
        assert rounds(store) == [1, 2, 3]
        assert len(by_epoch(store, "provml:ValidationEpochExecution")["multi_logloss"]) == 3


def test_a_cross_validation_is_a_validation_with_the_means_of_its_folds(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        told = xgboost.cv(XGB, matrices()[0], 3, nfold=3, callbacks=[capture], as_pandas=False, seed=1)
    with provml.open(home) as store:
        found = by_epoch(store, "provml:ValidationEpochExecution")
        assert found["mlogloss"] == pytest.approx(told["test-mlogloss-mean"])
        assert found["training_mlogloss"] == pytest.approx(told["train-mlogloss-mean"])
        assert not ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")


def test_a_cross_validation_of_lightgbm_is_a_validation_too(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        told = lightgbm.cv(LGB, datasets()[0], 3, nfold=3, callbacks=capture.callbacks, seed=1)
    with provml.open(home) as store:
        found = by_epoch(store, "provml:ValidationEpochExecution")
        assert found["multi_logloss"] == pytest.approx(told["valid multi_logloss-mean"])


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm"])
def test_a_cross_validation_after_a_training_adapts_nothing(home: Path, framework: str):
    if framework == "lightgbm":
        with LightGBMCapture("digits", **settings(home)) as light:
            lightgbm.train(LGB | {"learning_rate": 0.3}, datasets()[0], 2, callbacks=light.callbacks)
            lightgbm.cv(LGB | {"learning_rate": 0.2}, datasets()[0], 2, nfold=2, callbacks=light.callbacks)
    else:
        with XGBoostCapture("digits", **settings(home)) as capture:
            hand = xgboost.callback.LearningRateScheduler([0.5, 0.5])
            xgboost.train(XGB | {"max_depth": 3}, matrices()[0], 2, callbacks=[capture, hand])
            xgboost.cv(XGB, matrices()[0], 2, nfold=2, callbacks=[capture, hand])
    with provml.open(home) as store:
        assert adaptations(store) == []


def test_two_trainings_through_one_capture_are_two_stages(home: Path):
    with LightGBMCapture("digits", **settings(home)) as capture:
        for _ in range(2):
            training, valid = datasets()
            stop = lightgbm.early_stopping(2, verbose=False)
            lightgbm.train(LGB, training, 2, valid_sets=[valid], callbacks=[*capture.callbacks, stop])
    with provml.open(home) as store:
        assert rounds(store) == [1, 1, 2, 2]
        statuses = ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }")
        assert statuses == [("FINISHED",), ("FINISHED",)]


def test_sets_that_are_evaluated_beside_are_stages_of_their_own(home: Path):
    training, valid = matrices()
    other = xgboost.DMatrix(X_TEST, Y_TEST)
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train(
            XGB, training, 2, evals=[(valid, "valid"), (other, "other")], callbacks=[capture], verbose_eval=False
        )
    with provml.open(home) as store:
        found = ask(
            store,
            """SELECT ?set (COUNT(?e) AS ?n) { ?e a provml:ValidationEpochExecution ; provml:wasSectionOf ?s ;
               prov:wasInformedBy/a provml:RoundExecution . ?s prov:used ?v . ?v prov:value ?set ;
               provlake:wasDerivedFromAttribute/rdfs:label "evaluation_set" } GROUP BY ?set ORDER BY ?set""",
        )
        assert found == [("other", 2), ("valid", 2)]


def test_a_selection_narrows_the_hyperparameters(home: Path):
    with LightGBMCapture("digits", hyperparameters={"learning_rate": True}, **settings(home)) as capture:
        lightgbm.train(LGB, datasets()[0], 1, callbacks=capture.callbacks)
    with provml.open(home) as store:
        found = ask(
            store,
            """SELECT ?name ?value { ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert found == [("learning_rate", 0.1)]


def test_settings_of_xgboost_are_told_as_they_were_given(home: Path):
    given = {"eta": 0.1, "subsample": 0.8, "colsample_bytree": 0.7, "lambda": 1e-4, "gamma": 0.123456}
    lower = xgboost.callback.LearningRateScheduler([0.1, 0.03])
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train(XGB | given, matrices()[0], 2, callbacks=[lower, capture])
    with provml.open(home) as store:
        found = used(store)
        names = ("learning_rate", "subsample", "colsample_bytree", "reg_lambda", "min_split_loss")
        assert [found[name] for name in names] == list(given.values())
        assert "rng_state" not in found  # which XGBoost has from 3.4 on
        assert [row[2:4] for row in adaptations(store)] == [(0.1, 0.03)]


def test_the_data_of_a_matrix_is_known_by_its_content(home: Path):
    for _ in range(2):
        training, _ = matrices()
        with XGBoostCapture("digits", **settings(home)) as capture:
            xgboost.train(XGB, training, 1, callbacks=[capture])
    with provml.open(home) as store:
        found = ask(
            store, "SELECT DISTINCT ?d { ?t a provml:TrainingExecution ; prov:used ?d . ?d provlake:sha256 ?s }"
        )
        assert len(found) == 2  # features and labels, the same in both runs


def squares(guess: Any, matrix: Any) -> tuple[Any, Any]:
    return guess - matrix.get_label(), guess * 0 + 1


def squares_of(true: Any, guess: Any) -> tuple[Any, Any]:
    return guess - true, guess * 0 + 1


def objectives(home: Path) -> list[Any]:
    with provml.open(home) as store:
        assert adaptations(store) == []
        found = ask(
            store,
            """SELECT ?value { ?t a provml:TrainingExecution ; prov:startedAtTime ?at ; prov:used ?v .
               ?v prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label "objective" } ORDER BY ?at""",
        )
        return [row[0] for row in found]


class Idle(xgboost.callback.TrainingCallback):
    """A callback of the user's that might change something."""


def test_an_objective_of_ones_own_is_told_by_its_name(home: Path):
    with XGBoostCapture("digits", **settings(home)) as capture:
        xgboost.train({"nthread": 1}, matrices()[0], 2, obj=squares, callbacks=[capture, Idle()])
        xgboost.XGBRegressor(n_estimators=2, objective=squares_of, callbacks=[capture, Idle()], n_jobs=1).fit(X, Y)
    assert objectives(home) == ["squares", "squares_of"]


def test_an_objective_of_ones_own_is_told_by_its_name_to_lightgbm_too(home: Path):
    quiet = {"verbosity": -1, "num_threads": 1}
    with LightGBMCapture("digits", **settings(home)) as capture:
        lightgbm.train(quiet | {"objective": squares}, datasets()[0], 2, callbacks=capture.callbacks)
        lightgbm.LGBMRegressor(n_estimators=2, objective=squares_of, **quiet).fit(X, Y, callbacks=capture.callbacks)
    assert objectives(home) == ["squares", "squares_of"]


def judged(store: Any) -> dict[str, int]:
    """How many rounds each evaluation's model was trained for."""
    return dict(
        ask(
            store,
            """SELECT ?name ?rounds { ?e a provml:EvaluationExecution ; prov:used ?m ;
               provlake:wasDerivedFromDataTransformation/rdfs:label ?name . ?m a provml:Model ; prov:wasGeneratedBy ?t .
               ?t prov:used ?v . ?v prov:value ?rounds ; prov:wasDerivedFrom/rdfs:label ?n .
               FILTER(?n IN ("num_boost_round", "num_iterations")) }""",
        )
    )


def test_an_evaluation_is_of_the_model_that_it_is_given(tmp_path: Path):
    training, _ = matrices()
    with XGBoostCapture("digits", home=tmp_path / "x", strict=True, capture_environment=False) as capture:
        one, _two = (xgboost.train(XGB, training, n, callbacks=[capture], verbose_eval=False) for n in (1, 2))
        three = xgboost.XGBClassifier(n_estimators=3, callbacks=[capture]).fit(*digits()["training"])
        xgboost.train(XGB, training, 4, callbacks=[capture], verbose_eval=False)
        for name, given in (("of one", [one]), ("of three", [three]), ("of the last", [])):
            with capture.evaluation(*given, name=name, by="ann", threshold=0.5) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path / "x") as store:
        assert judged(store) == {"of one": 1, "of three": 3, "of the last": 4}

    with LightGBMCapture("digits", home=tmp_path / "l", strict=True, capture_environment=False) as leaves:
        first = lightgbm.train(LGB, datasets()[0], 1, callbacks=leaves.callbacks)
        second = lightgbm.LGBMClassifier(n_estimators=2, verbosity=-1, n_jobs=1)
        second.fit(*digits()["training"], callbacks=leaves.callbacks)
        _third = lightgbm.train(LGB, datasets()[0], 3, callbacks=leaves.callbacks)
        for name, given in (("of one", [first]), ("of two", [second]), ("of the last", [])):
            with leaves.evaluation(*given, name=name) as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path / "l") as store:
        assert judged(store) == {"of one": 1, "of two": 2, "of the last": 3}


def test_the_best_rounds_that_are_kept_are_the_model_of_their_training(tmp_path: Path):
    training, valid = matrices()
    with XGBoostCapture("digits", home=tmp_path, strict=True, capture_environment=False) as capture:
        stop = xgboost.callback.EarlyStopping(rounds=1, save_best=True)
        said = {**XGB, "learning_rate": 3.0}
        best = xgboost.train(said, training, 9, evals=[(valid, "v")], callbacks=[capture, stop], verbose_eval=False)
        capture.evaluation(best).measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 1
