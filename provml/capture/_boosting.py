"""Shared parts of the XGBoost and LightGBM captures: rounds, evaluation sets and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Unpack

from provml.capture._hyperparameters import HyperparameterSource
from provml.capture._section import SafeSection
from provml.capture._settings import CaptureSettings
from provml.capture.base import CaptureBase, check_save_path
from provml.recording.data import Data
from provml.recording.safety import never_raise
from provml.recording.stages import Epoch, Stage

Scores = Mapping[str, Mapping[str, Any]]


class Boosting(CaptureBase, HyperparameterSource):
    """Records the rounds of boosting. The capture of a framework calls it when a round begins and ends."""

    epoch_count_parameter = "num_boost_round"
    open_epoch_is_partial = False

    def __init__(
        self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Unpack[CaptureSettings]
    ) -> None:
        self._save_to = check_save_path(save_model)
        super().__init__(name, source=self, **settings)
        self._evaluation_stages: dict[str, Stage] = {}
        self._training_set_name = "train"
        self._planned_rounds: int | None = None
        self._is_cv = False

    def begin(
        self,
        values: Mapping[str, Any],
        using: Iterable[Data],
        sets: Iterable[str],
        *,
        is_cv: bool,
        model: Any,
        after: Any = None,
    ) -> Stage:
        """Begin a training or a cross-validation with the names of its evaluation sets, if they are known.

        Each training makes a new model. The training continues from the model `after`, an object or a file.
        """
        self._is_cv = is_cv
        if is_cv:
            self.end_training(error=self.interruption())
            stage = Stage(self.run, "validation", "cross-validation", using, self.hyperparameters.select(values))
            self.stage, self.epochs_done = stage, 0
            self.hyperparameters.begin({})
        else:
            initial = self.models.resolve(self.booster(after)) if after is not None else None
            stage = self.begin_training(values, using=using, model=model, after=initial)
        self._evaluation_stages = {}
        for name in sets:
            self._evaluation_stage_of(name)
        return stage

    def _evaluation_stage_of(self, name: str) -> Stage | None:
        """Return the stage of an evaluation set; None for the training set."""
        stages = self._evaluation_stages
        if self._is_cv or name == self._training_set_name:
            return None
        if name not in stages:
            title = "validation" if not stages else f"validation-{name}"
            using = self.data.get("validation") if not stages else ()
            stages[name] = Stage(self.run, "validation", title, using, {"evaluation_set": name})
        return stages[name]

    def may_have_changed(self) -> bool:
        """Return False in a cross-validation: it trains many models, and the settings of none are compared."""
        return not self._is_cv

    def record_epoch(self, stage: Stage, index: int, ago: float) -> Epoch:
        """Record a round that began `ago` seconds before now."""
        return stage.epoch(index, kind="epoch" if self._is_cv else "round", ago=ago)

    def close_round(self, scores: Scores) -> None:
        """Record the end of a round with the measures of each set; of folds, their mean."""
        epoch = self.open_epoch()
        if epoch is None:
            return
        training: dict[str, Any] = {}
        for set_name, scores_of_set in scores.items():
            values = {name: score[0] if isinstance(score, tuple) else score for name, score in scores_of_set.items()}
            stage = self._evaluation_stage_of(set_name)
            if self._is_cv:
                prefix = "training_" if "train" in set_name else ""
                training |= {f"{prefix}{name}": value for name, value in values.items()}
            elif stage is None:
                training |= values
            else:
                with stage.epoch(epoch.index, during=epoch._location) as paired_epoch:
                    paired_epoch.measured(**values)
        self.close_epoch(training)

    def record_early_stopping(self, technique: str, reason: str) -> None:
        """Record an early stop if fewer rounds were made than planned."""
        planned = self._planned_rounds
        if self.stage is not None and planned is not None and 0 < self.epochs_done < planned:
            self.record_early_stop(self.epochs_done, technique, reason, {})

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training and the stages of its evaluation sets."""
        stages, self._evaluation_stages = self._evaluation_stages, {}
        for stage in stages.values():
            stage.done(error=error)
        super().end_training(error=error)

    def conclude_training(self, error: BaseException | None = None) -> None:
        """Record the end of a training that the framework does not report; called before its model is used."""

    def evaluation(self, model: Any = None, *, name: str = "evaluation", **values: Any) -> SafeSection:
        """Evaluate a model after its training: `with capture.evaluation(model) as test:`.

        The model is the result of `train`, an estimator, or a file; by default the last recorded model.
        """
        self.conclude_training()
        stages: list[Stage] = []
        self._begin_test(model, name, values, stages)
        return SafeSection(self.run, lambda: stages[0] if stages else None)

    @never_raise
    def _begin_test(self, model: Any, name: str, values: dict[str, Any], stages: list[Stage]) -> None:
        self.data.reset("test")
        booster = self.booster(model)
        stages.append(self.begin_evaluation(name=name, using=self.data.get("test"), model=booster, **values))

    def booster(self, model: Any) -> Any:
        """Return the booster of an estimator; any other model as it is."""
        return model

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what is open."""
        try:
            self.conclude_training(error)
        finally:
            super().done(error=error)


def function_name(function: Callable[..., Any] | None) -> str | None:
    """Return the name of a function that a framework was given; the framework's own wrapper is looked through."""
    if function is None:
        return None
    inner = getattr(function, "func", None)
    for cell in getattr(function, "__closure__", None) or ():
        inner = inner or (cell.cell_contents if callable(cell.cell_contents) else None)
    is_wrapper = str(getattr(function, "__module__", "")).partition(".")[0] in ("xgboost", "lightgbm")
    target = inner if is_wrapper and callable(inner) else function
    return str(getattr(target, "__name__", "") or type(target).__name__)


def parse_number(value: Any) -> Any:
    """Return the number in a text; any other value as it is."""
    if not isinstance(value, str):
        return value
    for parse in (int, float):
        try:
            return parse(value)
        except ValueError:
            continue
    return value
