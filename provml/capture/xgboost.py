"""XGBoost: a callback for `train`, `cv` and the estimators of XGBoost."""

from __future__ import annotations

import json
import time
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from provml.capture import _data, _tables
from provml.capture._boosting import Boosting, function_name, parse_number
from provml.capture._hyperparameters import MANUAL, Technique, shortest_float, to_float32
from provml.capture._settings import CaptureSettings
from provml.errors import MissingDependency
from provml.recording.data import Data
from provml.recording.frames import caller_arguments
from provml.recording.run import Run
from provml.recording.safety import never_raise

try:
    import xgboost
except ImportError as error:
    raise MissingDependency("xgboost", "xgboost") from error

ALIASES = {"eta": "learning_rate", "gamma": "min_split_loss", "lambda": "reg_lambda", "alpha": "reg_alpha"}
"""Settings that a configuration lists under two names, and the name that is recorded."""
IGNORED_SETTINGS = (
    "nthread", "random_state", "num_trees", "updater_seq", "validate_parameters", "fail_on_invalid_gpu_id", "rng_state",
)  # fmt: skip
"""Settings that are duplicates, do not describe the training, or change with each round (the random state)."""
TREE_SECTIONS = ("learner_train_param", "generic_param", "gbtree_model_param", "gbtree_train_param", "tree_train_param")
CLOCK_LAG_NS = 20_000_000
"""Nanoseconds by which the clock of a file system may be behind."""
OTHER_SECTIONS = ("dart_train_param", "gblinear_train_param", "linear_train_param", "learner_model_param")


class Capture(Boosting, xgboost.callback.TrainingCallback):
    """Records a training: `xgboost.train(…, callbacks=[capture])`, or `XGBClassifier(callbacks=[capture])`.

    `save_model` is the file for the model when a training ends; the other settings are those of every capture.
    """

    framework = "xgboost"

    def __init__(
        self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Unpack[CaptureSettings]
    ) -> None:
        xgboost.callback.TrainingCallback.__init__(self)
        super().__init__(name, save_model=save_model, **settings)
        self._model: Any = None
        self._callbacks: list[Any] = []
        self._evals_log: Any = {}
        """The measures of all rounds, which XGBoost updates."""
        self._settings_may_change = True
        self._keeps_best = False
        self._objective: str | None = None
        self._checkpoint_names: list[tuple[Path, str]] = []
        """Folders and names of the files that callbacks for checkpoints write."""
        self._file_times: dict[Path, int] = {}
        self._began_ns = 0
        self._last_checkpoint: tuple[int, Data | None] = (0, None)
        """The number of rounds in the last file, and its model."""

    # ---- hooks

    def before_training(self, model: Any) -> Any:
        call = caller_arguments("xgboost.training", "train", "cv")
        self._callbacks = list(call.get("callbacks") or ())
        self._before(model, call)
        return model

    @never_raise
    def _before(self, model: Any, call: dict[str, Any]) -> None:
        folds = getattr(model, "cvfolds", None)
        self._model = folds[0].bst if folds else model
        self._settings_may_change = "callbacks" not in call or any(
            not isinstance(callback, PASSIVE_CALLBACKS) for callback in self._callbacks
        )
        checkpoints = [c for c in self._callbacks if isinstance(c, xgboost.callback.TrainingCheckPoint)]
        self._checkpoint_names = [(Path(c._path), c._name) for c in checkpoints]
        self._last_checkpoint = (0, None)
        self._file_times, self._began_ns = {}, time.time_ns() - CLOCK_LAG_NS
        self._planned_rounds = call.get("num_boost_round")
        self._objective = function_name(call.get("obj"))
        sets = {name: matrix for matrix, name in call.get("evals") or ()}
        training_matrix = call.get("dtrain")
        self._training_set_name = next((n for n, matrix in sets.items() if matrix is training_matrix), "train")
        try:
            current = self.current_hyperparameters()
        except xgboost.core.XGBoostError:  # wrong settings: the training is about to raise this itself
            return
        values = {"booster": None, **current, self.epoch_count_parameter: self._planned_rounds}
        values |= {"early_stopping_rounds": call.get("early_stopping_rounds"), "folds": len(folds) if folds else None}
        self.data.reset("training", "validation")
        for name, matrix in sets.items():
            if name != self._training_set_name:
                self.data.get("validation", partial(_record_matrix, self.run, matrix, "validation", name))
                break
        using = self.data.get(
            "training", partial(_record_matrix, self.run, training_matrix, "training", "training data")
        )
        after = call.get("xgb_model")
        stage = self.begin(values, using, sets, is_cv=folds is not None, model=model, after=after)
        stage.implemented_by(str(values["booster"] or "gbtree"), software="xgboost", version=xgboost.__version__)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._evals_log = evals_log
        self._before_round(epoch)
        return False

    @never_raise
    def _before_round(self, epoch: int) -> None:
        if self.stage is not None:
            self.defer_epoch(epoch + 1)
            self.open_epoch()

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._after_round(evals_log)
        self._record_checkpoints()
        return False

    @never_raise
    def _after_round(self, evals_log: Any) -> None:
        latest = {
            set_name: {name: history[-1] for name, history in histories.items()}
            for set_name, histories in evals_log.items()
        }
        self.close_round(latest)

    @never_raise
    def _record_checkpoints(self) -> None:
        """Record the files that callbacks for checkpoints wrote since the last round: they may come after the capture.

        XGBoost numbers them by the rounds from 0, with those of the model that the training continues from.
        """
        stage = self.stage
        for folder, name in self._checkpoint_names if stage is not None and not self._is_cv else ():
            for path in sorted(folder.glob(f"{name}_*")):
                number = path.stem.rpartition("_")[2]
                time_ns = path.stat().st_mtime_ns
                if (
                    stage is not None
                    and number.isdecimal()
                    and time_ns >= self._began_ns
                    and self._file_times.get(path) != time_ns
                ):
                    self._file_times[path] = time_ns
                    self._last_checkpoint = (
                        int(number) + 1,
                        self.models.record_file(stage, path, rounds=int(number) + 1),
                    )

    def after_training(self, model: Any) -> Any:
        if self.epoch is not None:  # a callback before this one stopped the training: the others were not called
            self._after_round(self._evals_log)
        self._evals_log = {}
        self._record_checkpoints()
        self._save(model)
        self._after(model)
        return model

    @never_raise
    def _after(self, model: Any) -> None:
        if self.stage is None:
            return
        best = self._model.attributes() if self._model is not None else {}
        stopping = self._early_stopping()
        rounds = stopping.rounds if stopping is not None else None
        best_round = int(best["best_iteration"]) + 1 if best else None
        reason = f"no better for {rounds} rounds; the best was round {best_round}" if best else ""
        self.record_early_stopping("early stopping" if best else MANUAL, reason)
        if not self._is_cv:
            fields: dict[str, Any] = {"num_features": model.num_features(), "rounds": model.num_boosted_rounds()}
            if best:
                fields |= {"best_round": best_round, "best_score": float(best["best_score"])}
            rounds, checkpoint = self._last_checkpoint
            if checkpoint is not None and rounds == fields["rounds"] and self._save_to is None and not best:
                self.models.set_last(checkpoint)  # the file of the last round contains the same model
            else:
                self.saved(self._save_to, **fields)
        self._keeps_best = bool(getattr(stopping, "save_best", False))
        self.end_training()

    def booster(self, model: Any) -> Any:
        """Return the booster of an estimator. With `save_best`, it is a new object with the best rounds only."""
        if isinstance(model, xgboost.XGBModel):
            model = model.get_booster()
        is_new = isinstance(model, xgboost.Booster) and self.models.lookup(model) is None
        if self._keeps_best and is_new and self.models.last is not None:
            self.models.rebind(model, self.models.last)
        return model

    def _early_stopping(self) -> Any:
        """Return the callback for early stopping, if there is one."""
        early_stopping = xgboost.callback.EarlyStopping
        return next((callback for callback in self._callbacks if isinstance(callback, early_stopping)), None)

    def _save(self, model: Any) -> None:
        """Save the model, also if recording is disabled or failed."""
        if self._save_to is None or hasattr(model, "cvfolds"):
            return
        best, stopping = model.attr("best_iteration"), self._early_stopping()
        if best is not None and getattr(
            stopping, "save_best", False
        ):  # XGBoost drops the other rounds after this callback
            model = model[: int(best) + 1]
        self._save_to.parent.mkdir(parents=True, exist_ok=True)
        model.save_model(self._save_to)

    # ---- hyperparameters

    def current_hyperparameters(self) -> dict[str, Any]:
        learner = json.loads(self._model.save_config())["learner"]
        sections = {**learner.get("gradient_booster", {}), **learner}
        values: dict[str, Any] = {}
        for section in (*TREE_SECTIONS, *OTHER_SECTIONS):
            values |= {name: _parse_setting(value) for name, value in sections.get(section, {}).items()}
        values |= {name: values[alias] for alias, name in ALIASES.items() if alias in values and name not in values}
        if self._objective:  # a function: the configuration holds only the built-in objective that it replaces
            values["objective"] = self._objective
        ignored = {*ALIASES, *IGNORED_SETTINGS, "base_score", "num_feature", "num_target"}
        return {name: value for name, value in values.items() if name not in ignored and value != ""}

    def may_have_changed(self) -> bool:
        """Return whether a callback may change settings: writing the configuration out takes time."""
        return self._settings_may_change and super().may_have_changed()

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        is_scheduled = any(isinstance(callback, xgboost.callback.LearningRateScheduler) for callback in self._callbacks)
        return ("LearningRateScheduler" if is_scheduled and name == "learning_rate" else MANUAL), {}


def _parse_setting(text: Any) -> Any:
    """Return a setting as the user wrote it: XGBoost stores 32-bit floats and writes 0.1 as 0.100000001."""
    value = parse_number(text)
    if isinstance(value, float) and f"{to_float32(value):.9g}" == f"{value:.9g}":
        return shortest_float(to_float32(value))
    return value


def _record_matrix(run: Run, matrix: Any, role: str, name: str) -> list[Data]:
    """Record a DMatrix: by its content if it is small and readable, otherwise by its size."""
    if matrix is None:
        return []
    try:
        if matrix.num_nonmissing() * 4 <= _data.MAX_HASHED_BYTES:
            labels = _tables.record_table(run, matrix.get_label(), role, f"{name} labels")
            return [*_tables.record_table(run, matrix.get_data(), role, name), *labels]
    except Exception:  # a matrix on disk or in quantiles does not return its data
        pass
    fields = {"data_type": type(matrix).__name__, "instances": matrix.num_row(), "features": matrix.num_col()}
    return [run.dataset(None, role=role, name=name, **fields)]


PASSIVE_CALLBACKS = (
    Capture,
    xgboost.callback.EarlyStopping,
    xgboost.callback.EvaluationMonitor,
    xgboost.callback.TrainingCheckPoint,
)
"""Callbacks that change no setting."""
