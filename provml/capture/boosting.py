"""What XGBoost and LightGBM have in common: rounds as sections, sets that are evaluated beside, and an early stop."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from os import PathLike
from time import perf_counter
from typing import Any

from provml.capture.recording import Recording, hook, save_to
from provml.capture.section import Section
from provml.capture.watch import Watch
from provml.content import Data
from provml.sections import Epoch, Stage

Scores = Mapping[str, Mapping[str, Any]]


class Boosting(Recording):
    """Records the rounds of boosting. A framework's capture says when they begin and end."""

    rounds_name = "num_boost_round"
    is_told_inside = False

    def __init__(self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Any) -> None:
        self._save_to = save_to(save_model)
        super().__init__(name, **settings)
        self._sets: dict[str, Stage] = {}
        self._trained_on = "train"
        self._planned: int | None = None
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
        """Begin a training, or a cross-validation; `sets` are the names of those to be evaluated, if known.

        Each training makes a model of its own; one that was given goes `after` another, an object or a file.
        """
        self._is_cv = is_cv
        if is_cv:
            self.end_training(error=sys.exc_info()[1] or RuntimeError("the training was left before its end"))
            stage = Stage(self.run, "validation", "cross-validation", using, self.selection.of(values))
            self.stage, self.epochs_done, self._watch = stage, 0, Watch({})
        else:
            before = self.found(self.booster(after)) if after is not None else None
            stage = self.begin_training(values, using=using, model=model, after=before)
        self._sets = {}
        for name in sets:
            self._set(name)
        return stage

    def _set(self, name: str) -> Stage | None:
        """The stage of a set that is evaluated beside; None for the training's own."""
        if self._is_cv or name == self._trained_on:
            return None
        if name not in self._sets:
            title = "validation" if not self._sets else f"validation-{name}"
            using = self.data("validation") if not self._sets else ()
            self._sets[name] = Stage(self.run, "validation", title, using, {"evaluation_set": name})
        return self._sets[name]

    def look(self, *, during: int | None = None) -> None:
        """Tell what has changed; a cross-validation is of many models, of which none is watched."""
        if not self._is_cv:
            super().look(during=during)

    def open_epoch(self) -> Epoch | None:
        """The round that is open; one that was expected begins now, after what was adapted for it."""
        if self._coming is not None and self.stage is not None:
            (index, began), self._coming = self._coming, None
            self.look(during=index)
            kind = "epoch" if self._is_cv else "round"
            self.epoch = self.stage.epoch(index, kind=kind, ago=perf_counter() - began)
        return self.epoch

    def close_round(self, scores: Scores) -> None:
        """A round ended, with what was measured on each set; folds are told by their mean."""
        epoch = self.open_epoch()
        if epoch is None:
            return
        own: dict[str, Any] = {}
        for name, measures in scores.items():
            values = {title: held[0] if isinstance(held, tuple) else held for title, held in measures.items()}
            stage = self._set(name)
            if self._is_cv:
                own |= {title if "train" not in name else f"training_{title}": held for title, held in values.items()}
            elif stage is None:
                own |= values
            else:
                with stage.epoch(epoch.index, during=epoch.at) as twin:
                    twin.measured(**values)
        self.close_epoch(own)

    def stopped_early(self, technique: str, why: str) -> None:
        """Fewer rounds were made than planned: their number was adapted."""
        if self.stage is not None and self._planned is not None and 0 < self.epochs_done < self._planned:
            self.stopped(self.epochs_done, technique, why, {})

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training, and the evaluation beside it."""
        sets, self._sets = self._sets, {}
        for stage in sets.values():
            stage.done(error=error)
        super().end_training(error=error)

    def settle(self, error: BaseException | None = None) -> None:
        """Tell what is known only when a training is over; before anything else is told of its model."""

    def evaluation(self, model: Any = None, *, name: str = "evaluation", **values: Any) -> Section:
        """An evaluation of a model, after its training: `with capture.evaluation(model) as test:`.

        It is what `train` gave, an estimator, or a file; the one that was told last where none is given.
        """
        self.settle()
        found: list[Stage] = []
        self._begin_test(model, name, values, found)
        return Section(self.run, lambda: found[0] if found else None)

    @hook
    def _begin_test(self, model: Any, name: str, values: dict[str, Any], found: list[Stage]) -> None:
        self.anew("test")
        judged = self.booster(model)
        found.append(self.begin_evaluation(name=name, using=self.data("test"), model=judged, **values))

    def booster(self, model: Any) -> Any:
        """The model inside an estimator of the framework's; any other as it is."""
        return model

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what waits for an end."""
        try:
            self.settle(error)
        finally:
            super().done(error=error)


def number(said: Any) -> Any:
    """A setting that a framework writes as text, as the number that it is; any other as it came."""
    if not isinstance(said, str):
        return said
    for read in (int, float):
        try:
            return read(said)
        except ValueError:
            continue
    return said
