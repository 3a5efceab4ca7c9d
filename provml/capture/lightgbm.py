"""LightGBM: two callbacks for `train`, `cv` and the estimators of LightGBM."""

from __future__ import annotations

import re
from functools import partial
from os import PathLike
from typing import Any, Unpack

from provml.capture._boosting import Boosting, function_name, parse_number
from provml.capture._hyperparameters import MANUAL, Technique
from provml.capture._settings import CaptureSettings
from provml.errors import MissingDependency, WrongType
from provml.recording.data import Data
from provml.recording.frames import caller_arguments
from provml.recording.run import Run
from provml.recording.safety import never_raise

try:
    import lightgbm
except ImportError as error:
    raise MissingDependency("lightgbm", "lightgbm") from error

SETTING = re.compile(r"^\[(\w+): (.+)\]$", re.M)
IGNORED_SETTINGS = ("data", "valid", "verbosity", "output_model", "input_model", "saved_feature_importance_type")
ALIASES = {
    "eta": "learning_rate",
    "shrinkage_rate": "learning_rate",
    "reg_alpha": "lambda_l1",
    "reg_lambda": "lambda_l2",
}


class Capture(Boosting):
    """Records a training: `lightgbm.train(…, callbacks=capture.callbacks)`, or `.fit(…, callbacks=capture.callbacks)`.

    `save_model` is the file for the model when a training is over; the other settings are those of every capture.
    """

    framework = "lightgbm"
    epoch_count_parameter = "num_iterations"

    def __init__(
        self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Unpack[CaptureSettings]
    ) -> None:
        super().__init__(name, save_model=save_model, **settings)
        self.callbacks = [_Callback(self._before, 15, before=True), _Callback(self._after, 25, before=False)]
        self._model: Any = None
        self._params: dict[str, Any] = {}
        self._callbacks_of_call: list[Any] = []
        self._rounds = 0
        self._objective: str | None = None

    def __call__(self, env: Any) -> None:
        """Refuse to be a callback: LightGBM would call it either before or after the rounds, not both."""
        raise WrongType("train", "callbacks", self, "the callbacks of a capture", "Pass callbacks=capture.callbacks.")

    # ---- hooks

    def _before(self, env: Any) -> None:
        self._params = env.params
        if env.iteration == env.begin_iteration:
            self.conclude_training()
            call = caller_arguments("lightgbm.engine", "train", "cv")
            self._model, self._rounds = env.model, 0
            self._objective = function_name(call.get("fobj"))
            self._callbacks_of_call = list(call.get("callbacks") or ())
            self._planned_rounds = env.end_iteration - env.begin_iteration
            self._begin(env, call)
        self._begin_round(env.iteration - env.begin_iteration + 1)

    @never_raise
    def _begin(self, env: Any, call: dict[str, Any]) -> None:
        is_cv = hasattr(env.model, "boosters")
        train_set = call.get("train_set")
        sets, names = _as_list(call.get("valid_sets")), _as_list(call.get("valid_names"))
        by_name = dict(zip(names or [f"valid_{n}" for n in range(len(sets))], sets, strict=False))
        training_names = [name for name, dataset in by_name.items() if dataset is train_set]
        self._training_set_name = training_names[0] if training_names and names else "training"
        self.data.reset("training", "validation")
        evaluation_names = [name for name in by_name if name not in training_names]
        for name in evaluation_names[:1]:
            dataset = by_name[name]
            register = partial(_record_dataset, self.run, dataset, "validation", name)
            self.data.get("validation", register, source=dataset)
        register = partial(_record_dataset, self.run, train_set, "training", "training data")
        using = self.data.get("training", register, source=train_set)
        values = {
            **self._all_settings(),
            **self.current_hyperparameters(),
            self.epoch_count_parameter: self._planned_rounds,
        }
        values |= {"early_stopping_rounds": self._patience(), "folds": len(env.model.boosters) if is_cv else None}
        after = call.get("init_model")
        stage = self.begin(values, using, evaluation_names, is_cv=is_cv, model=env.model, after=after)
        algorithm = str(values.get("boosting", "gbdt"))
        stage.implemented_by(algorithm, software="lightgbm", version=lightgbm.__version__)

    @never_raise
    def _begin_round(self, index: int) -> None:
        if self.stage is not None:
            self.defer_epoch(index)
            self.open_epoch()

    def _after(self, env: Any) -> None:
        self._rounds += 1
        self._end_round(env)
        if self._rounds == self._planned_rounds and self._patience() is None:
            self.conclude_training()

    @never_raise
    def _end_round(self, env: Any) -> None:
        scores: dict[str, dict[str, Any]] = {}
        for result in env.evaluation_result_list or ():
            set_name, name, value = result[0], result[1], result[2]
            scores.setdefault(set_name, {})[name] = value
        self.close_round(scores)

    def conclude_training(self, error: BaseException | None = None) -> None:
        """End the training and save its model: LightGBM does not notify callbacks of the end."""
        model, self._model = self._model, None
        if model is None:
            return
        best = int(getattr(model, "best_iteration", 0) or 0)
        if self._rounds != self._planned_rounds and best < 1:  # nor did it stop early
            self._fail(error or self.interruption())
            return
        if self._save_to is not None and not hasattr(model, "boosters"):
            self._save_to.parent.mkdir(parents=True, exist_ok=True)
            model.save_model(self._save_to)
        self._conclude(model, best)

    @never_raise
    def _fail(self, error: BaseException) -> None:
        self.end_training(error=error)

    @never_raise
    def _conclude(self, model: Any, best: int) -> None:
        if self.stage is None:
            return
        patience = self._patience()
        reason = f"no better for {patience} rounds; the best was round {best}" if patience and best > 0 else ""
        self.record_early_stopping("early stopping" if patience else MANUAL, reason)
        if not self._is_cv:
            fields: dict[str, Any] = {"num_features": model.num_feature(), "rounds": model.current_iteration()}
            fields |= {"best_round": best} if best > 0 else {}
            self.saved(self._save_to, **fields)
        self.end_training()

    def booster(self, model: Any) -> Any:
        """Return the booster of an estimator; any other model as it is."""
        return model.booster_ if isinstance(model, lightgbm.LGBMModel) else model

    def _patience(self) -> int | None:
        """Return the rounds without improvement after which the training stops, if it stops early."""
        rounds = [getattr(callback, "stopping_rounds", None) for callback in self._callbacks_of_call]
        return next((int(count) for count in rounds if count), None)

    # ---- hyperparameters

    def _all_settings(self) -> dict[str, Any]:
        """Return all settings, including defaults, from the text of a model."""
        model = getattr(self._model, "boosters", [self._model])[0]
        text = model.model_to_string().rpartition("\nparameters:")[2].partition("end of parameters")[0]
        return {name: parse_number(value) for name, value in SETTING.findall(text) if name not in IGNORED_SETTINGS}

    def current_hyperparameters(self) -> dict[str, Any]:
        values = {
            ALIASES.get(name, name): value for name, value in self._params.items() if name not in IGNORED_SETTINGS
        }
        return values | ({"objective": self._objective} if self._objective else {})

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        scheduled = {key for callback in self._callbacks_of_call for key in (getattr(callback, "kwargs", None) or {})}
        return ("reset_parameter" if name in {ALIASES.get(key, key) for key in scheduled} else MANUAL), {}


class _Callback:
    """A callback with its order among the others, called before or after a round."""

    def __init__(self, call: Any, order: int, *, before: bool) -> None:
        self.order = order
        self.before_iteration = before
        self._call = call

    def __call__(self, env: Any) -> None:
        self._call(env)


def _as_list(value: Any) -> list[Any]:
    """Return one dataset or name as a list, and None as an empty one."""
    if value is None:
        return []
    return [value] if hasattr(value, "get_label") or isinstance(value, str) else list(value)


def _record_dataset(run: Run, dataset: Any, role: str, name: str) -> list[Data]:
    """Record a Dataset by its size: LightGBM frees the raw data."""
    if dataset is None:
        return []
    fields = {"data_type": type(dataset).__name__, "instances": dataset.num_data(), "features": dataset.num_feature()}
    return [run.dataset(None, role=role, name=name, **fields)]
