"""Scikit-learn: any estimator, fitted, cross-validated and scored through a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

from provml.capture import afterwards, table
from provml.capture import estimator as about
from provml.capture.recording import Recording, hook, save_to
from provml.content import Data
from provml.errors import MissingPart
from provml.secret import without_secrets
from provml.sections import Stage, Step

try:
    import sklearn
except ImportError as error:
    raise MissingPart("scikit-learn", "sklearn") from error

E = TypeVar("E")


class Capture(Recording):
    """Records what is fitted through it: `capture.fit(estimator, X, y)` for `estimator.fit(X, y)`.

    What it gives back is what scikit-learn gives. `save_model` is where to save a model when its fit ends; the rest is
    as in every capture.
    """

    def __init__(self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Any) -> None:
        self._save_to = save_to(save_model)
        super().__init__(name, **settings)
        self._steps: list[Step] = []
        self._clock = afterwards.Clock()
        self._partial: Any = None
        self._passes = 0
        self._using: list[Data] = []
        self._so_far: about.History | None = None

    # ---- fit

    def fit(self, estimator: E, X: Any, *y: Any, **named: Any) -> E:  # noqa: N803  # as scikit-learn has it
        """`estimator.fit(X, y)`, recorded as a training; transformers of a pipeline as preparations before it."""
        self._settle()
        self._before(estimator, X, _target(y, named), {name: value for name, value in named.items() if name != "y"})
        try:
            fitted: E = estimator.fit(X, *y, **named)  # type: ignore[attr-defined]
            self._save(_model_of(fitted))
        except BaseException as error:
            self._failed(error)
            raise
        self._after(fitted)
        return fitted

    @hook
    def _before(self, estimator: Any, x: Any, y: Any, named: Mapping[str, Any]) -> None:
        prepared, last = about.steps(estimator)
        self._using = self._prepare(prepared, self._data_of("training", x, y))
        if about.is_search(last):
            said = {name: value for name, value in about.parameters(last).items() if "__" not in name}
            values = {"search": type(last).__name__, **{f"search_{name}": value for name, value in said.items()}}
            values |= {"search_space": self._space(last)}
        else:
            values = about.described(last)
            values |= {"changed_parameters": about.changed(last) or None}
        values |= {name: about.held(value) for name, value in named.items() if value is not None}
        is_warm = getattr(last, "warm_start", False)
        self._so_far = about.history(last) if is_warm else None
        if not is_warm:
            self.is_now(estimator, None)  # it begins anew
        stage = self.begin_training(values, using=self._using, model=estimator)
        stage.implemented_by(
            type(last).__name__, software="scikit-learn", version=sklearn.__version__, module=type(last).__module__
        )
        self._clock = afterwards.Clock()

    def _prepare(self, prepared: Iterable[tuple[str, Any]], using: list[Data]) -> list[Data]:
        """Begin a preparation for each transformer; each makes what the next one takes, of which no more is known."""
        for name, one in prepared:
            said = {"transformer": type(one).__name__, **about.parameters(one)}
            step = self.run.preparation(name, using=using, **said)
            self._steps.append(step)
            using = afterwards.prepared(step, name, using)
        return using

    @staticmethod
    def _space(search: Any) -> str | None:
        """The space of parameters that is searched."""
        space = next((getattr(search, name) for name in about.SPACES if hasattr(search, name)), None)
        if isinstance(space, Mapping):
            space = [space]
        if not isinstance(space, (list, tuple)):
            return None
        return str(
            [
                {k: [about.held(o) for o in v] if isinstance(v, list) else about.held(v) for k, v in s.items()}
                for s in without_secrets(space)
            ]
        )

    def _failed(self, error: BaseException) -> None:
        try:
            self._end_steps(error)
            self.end_training(error=error)
        except Exception as fault:
            self.run.fault(fault)

    def _end_steps(self, error: BaseException | None = None) -> None:
        steps, self._steps = self._steps, []
        for step in steps:
            step.done(error=error)

    @hook
    def _after(self, fitted: Any) -> None:
        self._end_steps()
        stage = self.stage
        if stage is None:
            return
        model, (_, last) = _model_of(fitted), about.steps(fitted)
        inside = model
        if about.is_search(last):
            inside = _model_of(last)
            self._after_search(stage, last, inside)
        if model is not None and inside is not None:
            if layers := about.layers(inside):
                stage.layers(layers)
            if (history := about.added(about.history(inside), self._so_far)) is not None:
                afterwards.history(self.run, stage, self._clock, history, self.data("validation"))
            stage.measured(**about.measures(inside))
            self.saved(self._save_to, **about.facts(model))
            self.is_also(model)
        self.end_training()

    def _after_search(self, stage: Stage, search: Any, model: Any) -> None:
        """Tell the candidates, which of them won, and how the best was fitted again."""
        using, best = self._using, {}
        if "params" in getattr(search, "cv_results_", ()):
            afterwards.candidates(self.run, search, self._clock, using)
            best = afterwards.best(search)
        self._clock = afterwards.Clock(ago=getattr(search, "refit_time_", self._clock.seconds))
        described: dict[str, Any] = {}
        if model is not None:
            steps, last = about.steps(model)
            for data in afterwards.preparations(self.run, steps, self._clock, using):
                if data not in using:
                    stage.used(data)
            described = about.described(last)
        stage.parameters(**self.selection.of(best | described))

    def _save(self, model: Any) -> None:
        """Save a model, which was asked for whether or not it is recorded."""
        if self._save_to is not None and model is not None:
            import joblib

            self._save_to.parent.mkdir(parents=True, exist_ok=True)
            joblib.dump(model, self._save_to)

    # ---- folds

    def cross_validate(self, estimator: Any, X: Any, y: Any = None, **named: Any) -> dict[str, Any]:  # noqa: N803
        """`sklearn.model_selection.cross_validate(estimator, X, y, …)`, recorded as a validation in folds."""
        from sklearn.model_selection import cross_validate

        stage = self._before_folds(estimator, X, y, named)
        try:
            scores: dict[str, Any] = cross_validate(estimator, X, y, **named)
        except BaseException as error:
            self._after_folds(stage, estimator, named, error=error)
            raise
        self._after_folds(stage, estimator, named, scores)
        return scores

    def _before_folds(self, estimator: Any, x: Any, y: Any, named: Mapping[str, Any]) -> Stage | None:
        if self.run.off:
            return None
        try:
            prepared, last = about.steps(estimator)
            using = self._prepare(prepared, self._data_of("training", x, y))
            values = about.described(last)
            values |= {"cv": about.held(named.get("cv")), "scoring": about.held(named.get("scoring"))}
            stage = Stage(self.run, "validation", "cross-validation", using, self.selection.of(values))
            self._clock = afterwards.Clock()
            return stage
        except Exception as error:
            self.run.fault(error)
            return None

    def _after_folds(
        self,
        stage: Stage | None,
        estimator: Any,
        named: Mapping[str, Any],
        scores: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        try:
            self._end_steps(error)
            if stage is None:
                return
            if scores is not None:
                afterwards.folds(self.run, stage, self._clock, estimator, named.get("scoring"), scores)
            stage.done(error=error)
        except Exception as fault:
            self.run.fault(fault)

    # ---- pass by pass

    def partial_fit(self, estimator: E, X: Any, *y: Any, **named: Any) -> E:  # noqa: N803
        """`estimator.partial_fit(X, y)`: each call is an epoch of one training, until something else is recorded."""
        is_new = self._partial is not estimator
        if is_new:
            self._settle()
        self._partial = estimator
        self._before_pass(estimator, X, _target(y, named), named.get("sample_weight"), is_new)
        try:
            fitted: E = estimator.partial_fit(X, *y, **named)  # type: ignore[attr-defined]
        except BaseException as error:
            self._partial = None
            self._failed(error)
            raise
        self._after_pass(fitted)
        return fitted

    @hook
    def _before_pass(self, estimator: Any, x: Any, y: Any, weights: Any, is_new: bool) -> None:
        using = self._data_of("training", x, y)
        if is_new or self.stage is None:
            self._passes = 0
            values = about.described(estimator)
            values |= {"sample_weight": about.held(weights)} if weights is not None else {}
            stage = self.begin_training(values, using=using, model=estimator)
            said = {"software": "scikit-learn", "version": sklearn.__version__}
            stage.implemented_by(type(estimator).__name__, **said, module=type(estimator).__module__)
        self._passes += 1
        self.expect_epoch(self._passes)
        epoch = self.open_epoch()
        if epoch is not None and self._passes > 1:
            for data in using:
                epoch.used(data)

    @hook
    def _after_pass(self, fitted: Any) -> None:
        loss = getattr(fitted, "loss_", None)
        self.close_epoch({"loss": loss} if isinstance(loss, float) else {})
        if self._passes == 1 and self.stage is not None and (layers := about.layers(fitted)):
            self.stage.layers(layers)

    def _settle(self) -> None:
        """The passes are over: save what they made, and tell it."""
        partial = self._partial
        if partial is not None:
            try:
                self._save(partial)
                self._end_passes(partial)
            finally:
                self._partial = None

    @hook
    def _end_passes(self, partial: Any) -> None:
        if self.stage is not None:
            super().saved(self._save_to, **about.facts(partial))
            self.end_training()

    def now(self) -> dict[str, Any]:
        return about.described(self._partial) if self._partial is not None else {}

    # ---- scores

    def score(self, estimator: Any, X: Any, y: Any = None, **named: Any) -> float:  # noqa: N803
        """`estimator.score(X, y)`, recorded as an evaluation."""
        self._settle()
        test = self._before_test(estimator, X, y)
        try:
            value: float = estimator.score(X, **named) if y is None else estimator.score(X, y, **named)
        except BaseException as error:
            self._after_test(test, dict, error)
            raise
        self._after_test(test, lambda: dict([about.scored(estimator, value)]))
        return value

    def evaluate(self, estimator: Any, X: Any, y: Any = None, *, scoring: Any) -> dict[str, float]:  # noqa: N803
        """The scores of one or several of scikit-learn's scorers, recorded as one evaluation."""
        from sklearn.metrics import get_scorer

        asked = about.scorers(scoring)
        self._settle()
        test = self._before_test(estimator, X, y)
        try:
            found = {name: get_scorer(one)(estimator, X, y) for name, one in asked.items()}
        except BaseException as error:
            self._after_test(test, dict, error)
            raise
        self._after_test(test, lambda: about.measured(scoring, asked, found))
        return found

    def _before_test(self, estimator: Any, x: Any, y: Any) -> Stage | None:
        if self.run.off:
            return None
        try:
            return self.begin_evaluation(using=self._data_of("test", x, y), model=estimator)
        except Exception as error:
            self.run.fault(error)
            return None

    def _after_test(
        self, test: Stage | None, measured: Callable[[], dict[str, Any]], error: BaseException | None = None
    ) -> None:
        try:
            if test is not None:
                self.end_evaluation(self.tried(measured, dict[str, Any]()), error=error)
        except Exception as fault:
            self.run.fault(fault)

    # ---- data and the end

    def _data_of(self, role: str, x: Any, y: Any) -> list[Data]:
        """What was handed over for a role, or else the arrays or tables of this very call."""
        self.anew(role)
        return self.data(role, lambda: [d for n, o in (("X", x), ("y", y)) for d in table.tell(self.run, o, role, n)])

    def saved(self, path: Any, **said: Any) -> Data | None:
        """The model of the last training is in this file; None: it is in memory only."""
        try:
            self._end_partial_quietly()
        except Exception as error:
            self.run.fault(error)
        return super().saved(path, **said)

    def _end_partial_quietly(self) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            self.end_training()

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what waits for an end: passes are over, however the rest went."""
        try:
            self._settle()
            self._end_left(error)
        finally:
            super().done(error=error)

    @hook
    def _end_left(self, error: BaseException | None) -> None:
        self._end_steps(error)


def _target(given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The target that a call was given, by its place or by its name."""
    return given[0] if given else named.get("y")


def _model_of(fitted: Any) -> Any:
    """What a fit made: of a search, the best that it found, if that was fitted again."""
    return getattr(fitted, "best_estimator_", None) if about.is_search(fitted) else fitted
