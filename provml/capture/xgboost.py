"""XGBoost: a callback for `train`, `cv`, and the estimators of its own."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from provml.capture import facts, table
from provml.capture.boosting import Boosting, number
from provml.capture.caller import caller, named
from provml.capture.recording import BY_HAND, Technique, hook
from provml.capture.watch import as_written, in_32_bits
from provml.content import Data
from provml.errors import MissingPart
from provml.recorder import Recorder

try:
    import xgboost
except ImportError as error:
    raise MissingPart("xgboost", "xgboost") from error

SAME = {"eta": "learning_rate", "gamma": "min_split_loss", "lambda": "reg_lambda", "alpha": "reg_alpha"}
"""Settings that stand in a configuration under two names, and the one that is kept."""
LEFT = (
    "nthread", "random_state", "num_trees", "updater_seq", "validate_parameters", "fail_on_invalid_gpu_id", "rng_state",
)  # fmt: skip
"""What stands there twice or says nothing of the training, and how its random numbers stand: with each round anew."""
FROM = ("learner_train_param", "generic_param", "gbtree_model_param", "gbtree_train_param", "tree_train_param")
FROM_OTHERS = ("dart_train_param", "gblinear_train_param", "linear_train_param", "learner_model_param")


class Capture(Boosting, xgboost.callback.TrainingCallback):
    """Records a training: `xgboost.train(…, callbacks=[capture])`, or `XGBClassifier(callbacks=[capture])`.

    `save_model` is where to save the model when a training ends; the rest is as in every capture.
    """

    def __init__(self, name: str = "", **settings: Any) -> None:
        xgboost.callback.TrainingCallback.__init__(self)
        super().__init__(name, **settings)
        self._model: Any = None
        self._beside: list[Any] = []
        self._may_change = True
        self._keeps_best = False
        self._objective: str | None = None

    # ---- hooks

    def before_training(self, model: Any) -> Any:
        call = caller("xgboost.training", "train", "cv")
        self._beside = list(call.get("callbacks") or ())
        self._before(model, call)
        return model

    @hook
    def _before(self, model: Any, call: dict[str, Any]) -> None:
        folds = getattr(model, "cvfolds", None)
        self._model = folds[0].bst if folds else model
        self._may_change = "callbacks" not in call or any(not isinstance(one, HARMLESS) for one in self._beside)
        self._planned = call.get("num_boost_round")
        self._objective = named(call.get("obj"))
        sets = {title: held for held, title in call.get("evals") or ()}
        self._trained_on = next((t for t, held in sets.items() if held is call.get("dtrain")), "train")
        values = {"booster": None, **self.now(), self.rounds_name: self._planned}
        values |= {"early_stopping_rounds": call.get("early_stopping_rounds"), "folds": len(folds) if folds else None}
        self.anew("training", "validation")
        for title, held in sets.items():
            if title != self._trained_on:
                self.data("validation", partial(_tell, self.run, held, "validation", title))
                break
        using = self.data("training", partial(_tell, self.run, call.get("dtrain"), "training", "training data"))
        after = call.get("xgb_model")
        stage = self.begin(values, using, sets, is_cv=folds is not None, model=model, after=after)
        stage.implemented_by(str(values["booster"] or "gbtree"), software="xgboost", version=xgboost.__version__)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._before_round(epoch)
        return False

    @hook
    def _before_round(self, epoch: int) -> None:
        if self.stage is not None:
            self.expect_epoch(epoch + 1)
            self.open_epoch()

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._after_round(evals_log)
        return False

    @hook
    def _after_round(self, evals_log: Any) -> None:
        self.close_round({name: {t: held[-1] for t, held in one.items()} for name, one in evals_log.items()})

    def after_training(self, model: Any) -> Any:
        self._save(model)
        self._after(model)
        return model

    @hook
    def _after(self, model: Any) -> None:
        if self.stage is None:
            return
        best = self._model.attributes() if self._model is not None else {}
        stopping = self._stopping()
        rounds = stopping.rounds if stopping is not None else None
        why = f"no better for {rounds} rounds; the best was round {int(best['best_iteration']) + 1}" if best else ""
        self.stopped_early("early stopping" if best else BY_HAND, why)
        if not self._is_cv:
            said: dict[str, Any] = {"num_features": model.num_features(), "rounds": model.num_boosted_rounds()}
            if best:
                said |= {"best_round": int(best["best_iteration"]) + 1, "best_score": float(best["best_score"])}
            self.saved(self._save_to, **said)
        self._keeps_best = bool(getattr(stopping, "save_best", False))
        self.end_training()

    def booster(self, model: Any) -> Any:
        """The model inside an estimator; where only the best rounds are kept, that is an object of its own."""
        if isinstance(model, xgboost.XGBModel):
            model = model.get_booster()
        is_new = isinstance(model, xgboost.Booster) and self.known(model) is None
        if self._keeps_best and is_new and self.made is not None:
            self.is_now(model, self.made)
        return model

    def _stopping(self) -> Any:
        """What stops it early, if anything does."""
        return next((one for one in self._beside if isinstance(one, xgboost.callback.EarlyStopping)), None)

    def _save(self, model: Any) -> None:
        """Save the model, which was asked for whether or not it is recorded."""
        if self._save_to is None or hasattr(model, "cvfolds"):
            return
        best, stopping = model.attr("best_iteration"), self._stopping()
        if best is not None and getattr(stopping, "save_best", False):  # it keeps the best rounds only, after this
            model = model[: int(best) + 1]
        self._save_to.parent.mkdir(parents=True, exist_ok=True)
        model.save_model(self._save_to)

    # ---- hyperparameters

    def now(self) -> dict[str, Any]:
        learner = json.loads(self._model.save_config())["learner"]
        found = {**learner.get("gradient_booster", {}), **learner}
        values: dict[str, Any] = {}
        for part in (*FROM, *FROM_OTHERS):
            values |= {name: _as_given(value) for name, value in found.get(part, {}).items()}
        values |= {ours: values[name] for name, ours in SAME.items() if name in values and ours not in values}
        values |= (
            {"objective": self._objective} if self._objective else {}
        )  # the configuration has the one it stands for
        kept = {name: held for name, held in values.items() if name not in (*SAME, *LEFT) and held != ""}
        return {name: held for name, held in kept.items() if name not in ("base_score", "num_feature", "num_target")}

    def look(self, *, during: int | None = None) -> None:
        """Tell what has changed: to write the configuration out takes time, so only where someone may change it."""
        if self._may_change:
            super().look(during=during)

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        is_scheduled = any(isinstance(one, xgboost.callback.LearningRateScheduler) for one in self._beside)
        return ("LearningRateScheduler" if is_scheduled and name == "learning_rate" else BY_HAND), {}


def _as_given(said: Any) -> Any:
    """A setting as it was given: floats are kept in 32 bits and written with nine digits, 0.1 as 0.100000001."""
    value = number(said)
    if isinstance(value, float) and f"{in_32_bits(value):.9g}" == f"{value:.9g}":
        return as_written(in_32_bits(value))
    return value


def _tell(run: Recorder, matrix: Any, role: str, name: str) -> list[Data]:
    """What a matrix of XGBoost's holds: by its content, where that can be had and is small; else by its size."""
    if matrix is None:
        return []
    try:
        if matrix.num_nonmissing() * 4 <= facts.HASHED_BYTES:
            labels = table.tell(run, matrix.get_label(), role, f"{name} labels")
            return [*table.tell(run, matrix.get_data(), role, name), *labels]
    except Exception:  # one that is read from disk, or in quantiles: it gives no data back
        pass
    said = {"data_type": type(matrix).__name__, "instances": matrix.num_row(), "features": matrix.num_col()}
    return [run.dataset(None, role=role, name=name, **said)]


HARMLESS = (
    Capture,
    xgboost.callback.EarlyStopping,
    xgboost.callback.EvaluationMonitor,
    xgboost.callback.TrainingCheckPoint,
)
"""Callbacks that change no setting."""
