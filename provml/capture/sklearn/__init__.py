"""Scikit-learn: any estimator, fitted, cross-validated and scored through a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from time import perf_counter
from typing import Any, TypeVar, Unpack

from provml.capture import _tables
from provml.capture._hyperparameters import HyperparameterSource
from provml.capture._settings import CaptureSettings
from provml.capture.base import CaptureBase, check_save_path
from provml.capture.sklearn import _introspect, _posthoc
from provml.errors import MissingDependency
from provml.journal.events import Produced
from provml.journal.redaction import redact
from provml.recording.data import Data
from provml.recording.data_registry import IdentityMap
from provml.recording.safety import never_raise, report_errors
from provml.recording.stages import Stage, Step

try:
    import sklearn
except ImportError as error:
    raise MissingDependency("scikit-learn", "sklearn") from error

E = TypeVar("E")


class Capture(CaptureBase, HyperparameterSource):
    """Records what is fitted through it: `capture.fit(estimator, X, y)` for `estimator.fit(X, y)`.

    The methods return what scikit-learn returns. `save_model` is the file for the model when its fit ends; the other
    settings are those of every capture.
    """

    def __init__(
        self, name: str = "", *, save_model: str | PathLike[str] | None = None, **settings: Unpack[CaptureSettings]
    ) -> None:
        self._save_to = check_save_path(save_model)
        super().__init__(name, source=self, **settings)
        self._steps: list[Step] = []
        self._clock = _posthoc.Clock()
        self._partial: Any = None
        """Estimator of the open training by `partial_fit`."""
        self._passes = 0
        self._passed = 0.0
        """When the last call of `partial_fit` ended."""
        self._using: list[Data] = []
        self._fitted: IdentityMap[Data] = IdentityMap()
        """Fitted transformers."""
        self._previous_history: _introspect.History | None = None
        """History of the fits before a warm start."""

    # ---- fit

    def fit(self, estimator: E, X: Any, *y: Any, **named: Any) -> E:  # noqa: N803  # the name of scikit-learn
        """Call `estimator.fit(X, y)` and record a training, with a preparation for each transformer of a pipeline.

        A transformer that is fitted alone is a preparation.
        """
        self._conclude_partial()
        if _introspect.is_transformer(estimator):
            self._call_transformer("fit", estimator, X, *y, **named)
            return estimator
        self._before(estimator, X, _target(y, named), {name: value for name, value in named.items() if name != "y"})
        try:
            fitted: E = estimator.fit(X, *y, **named)  # type: ignore[attr-defined]
            self._save(_model_of(fitted))
        except BaseException as error:
            self._failed(error)
            raise
        self._after(fitted)
        return fitted

    def fit_transform(self, transformer: Any, X: Any, *y: Any, **named: Any) -> Any:  # noqa: N803
        """Call `transformer.fit_transform(X, y)` and record a preparation, from the data to what comes of it."""
        return self._call_transformer("fit_transform", transformer, X, *y, **named)

    def transform(self, transformer: Any, X: Any, **named: Any) -> Any:  # noqa: N803
        """Call `transformer.transform(X)` and record a preparation, from the data to what comes of it."""
        return self._call_transformer("transform", transformer, X, **named)

    def _call_transformer(self, method: str, transformer: Any, x: Any, *y: Any, **named: Any) -> Any:
        """Call a method of a transformer and record it as a preparation."""
        opened: list[Step] = []
        self._begin_preparation(transformer, x, _target(y, named), method, opened)
        try:
            result = getattr(transformer, method)(x, *y, **named)
        except BaseException as error:
            for step in opened:
                step.done(error=error)
            raise
        for step in opened:
            self._end_preparation(step, transformer, None if method == "fit" else result, is_fit=method != "transform")
        return result

    @never_raise
    def _begin_preparation(self, transformer: Any, x: Any, y: Any, method: str, opened: list[Step]) -> None:
        last = _introspect.steps(transformer)[1]
        name = type(last if method == "fit" else transformer).__name__
        using = [data for label, table in (("X", x), ("y", y)) for data in self._table(table, label)]
        if method == "transform" and (fitted := self._fitted.get(transformer)) is not None:
            using.append(fitted)
        values = {"transformer": type(transformer).__name__, **_introspect.parameters(transformer)}
        opened.append(self.run.preparation(name, using=using, **self.hyperparameters.select(values)))
        opened[0].implemented_by(
            type(transformer).__name__,
            software="scikit-learn",
            version=sklearn.__version__,
            module=type(transformer).__module__,
        )

    @never_raise
    def _end_preparation(self, step: Step, transformer: Any, result: Any, *, is_fit: bool) -> None:
        if is_fit:
            kind = type(transformer).__name__
            self._fitted.set(transformer, step.produced(None, name=f"fitted {kind}", data_type=kind))
        for data in self._table(result, f"X by {step.name}"):
            step.run._emit(Produced(step._location, data.ref))
        step.done()

    def _table(self, table: Any, name: str) -> list[Data]:
        """Return a table as data without a role: what is made of it decides that."""
        return _tables.record_table(self.run, table, "", name)

    @never_raise
    def _before(self, estimator: Any, x: Any, y: Any, named: Mapping[str, Any]) -> None:
        transformers, last = _introspect.steps(estimator)
        self._using = self._prepare(transformers, self._data_of("training", x, y))
        if _introspect.is_search(last):
            own = {name: value for name, value in _introspect.parameters(last).items() if "__" not in name}
            values = {"search": type(last).__name__, **{f"search_{name}": value for name, value in own.items()}}
            values |= {"search_space": self._space(last)}
        else:
            values = _introspect.describe(last)
            values |= {"changed_parameters": _introspect.non_default_parameters(last) or None}
        values |= {name: _introspect.encode_param(value) for name, value in named.items() if value is not None}
        is_warm = getattr(last, "warm_start", False)
        self._previous_history = _introspect.history(last) if is_warm else None
        if not is_warm:
            self.models.rebind(estimator, None)  # the estimator is fitted from scratch
        stage = self.begin_training(values, using=self._using, model=estimator)
        stage.implemented_by(
            type(last).__name__, software="scikit-learn", version=sklearn.__version__, module=type(last).__module__
        )
        self._clock = _posthoc.Clock()

    def _prepare(self, transformers: Iterable[tuple[str, Any]], using: list[Data]) -> list[Data]:
        """Begin a preparation for each transformer and return the data of the last, of unknown content."""
        for name, transformer in transformers:
            values = {"transformer": type(transformer).__name__, **_introspect.parameters(transformer)}
            step = self.run.preparation(name, using=using, **values)
            self._steps.append(step)
            using = _posthoc.prepared_data(step, name, using)
        return using

    @staticmethod
    def _space(search: Any) -> str | None:
        """Return the searched space of parameters as text."""
        space = next((getattr(search, name) for name in _introspect.SPACES if hasattr(search, name)), None)
        if isinstance(space, Mapping):
            space = [space]
        if not isinstance(space, (list, tuple)):
            return None
        encode = _introspect.encode_param
        return str(
            [
                {name: list(map(encode, v)) if isinstance(v, list) else encode(v) for name, v in part.items()}
                for part in redact(space)
            ]
        )

    def _failed(self, error: BaseException) -> None:
        with report_errors(self.run):
            self._end_steps(error)
            self.end_training(error=error)

    def _end_steps(self, error: BaseException | None = None) -> None:
        steps, self._steps = self._steps, []
        for step in steps:
            step.done(error=error)

    @never_raise
    def _after(self, fitted: Any) -> None:
        self._end_steps()
        stage = self.stage
        if stage is None:
            return
        model, (_, last) = _model_of(fitted), _introspect.steps(fitted)
        inside = model
        if _introspect.is_search(last):
            inside = _model_of(last)
            self._after_search(stage, last, inside)
        if model is not None and inside is not None:
            if layers := _introspect.layers(inside):
                stage.layers(layers)
            if (history := _introspect.new_history(_introspect.history(inside), self._previous_history)) is not None:
                _posthoc.record_history(self.run, stage, self._clock, history, self.data.get("validation"))
            stage.measured(**_introspect.measures(inside))
            self.saved(self._save_to, **_introspect.characteristics(model))
            self.models.add_alias(model)
        self.end_training()

    def _after_search(self, stage: Stage, search: Any, model: Any) -> None:
        """Record the candidates, the best of them, and its refit."""
        using, best = self._using, {}
        if "params" in getattr(search, "cv_results_", ()):
            _posthoc.record_candidates(self.run, search, self._clock, using)
            best = _posthoc.best_candidate(search)
        self._clock = _posthoc.Clock(ago=getattr(search, "refit_time_", self._clock.seconds))
        description: dict[str, Any] = {}
        if model is not None:
            steps, last = _introspect.steps(model)
            for data in _posthoc.record_preparations(self.run, steps, self._clock, using):
                if data not in using:
                    stage.used(data)
            description = _introspect.describe(last)
        stage.parameters(**self.hyperparameters.select(best | description))

    def _save(self, model: Any) -> None:
        """Save a model, also if recording is disabled or failed."""
        if self._save_to is not None and model is not None:
            import joblib

            self._save_to.parent.mkdir(parents=True, exist_ok=True)
            joblib.dump(model, self._save_to)

    # ---- folds

    def cross_validate(self, estimator: Any, X: Any, y: Any = None, **named: Any) -> dict[str, Any]:  # noqa: N803
        """Call `sklearn.model_selection.cross_validate(estimator, X, y, …)` and record a validation in folds."""
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
        if self.run.disabled:
            return None
        with report_errors(self.run):
            transformers, last = _introspect.steps(estimator)
            using = self._prepare(transformers, self._data_of("training", x, y))
            values = _introspect.describe(last)
            values |= {
                "cv": _introspect.encode_param(named.get("cv")),
                "scoring": _introspect.encode_param(named.get("scoring")),
            }
            stage = Stage(self.run, "validation", "cross-validation", using, self.hyperparameters.select(values))
            self._clock = _posthoc.Clock()
            return stage
        return None

    def _after_folds(
        self,
        stage: Stage | None,
        estimator: Any,
        named: Mapping[str, Any],
        scores: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        with report_errors(self.run):
            self._end_steps(error)
            if stage is None:
                return
            if scores is not None:
                _posthoc.record_folds(
                    self.run, stage, self._clock, scores, estimator=estimator, scoring=named.get("scoring")
                )
            stage.done(error=error)

    # ---- pass by pass

    def partial_fit(self, estimator: E, X: Any, *y: Any, **named: Any) -> E:  # noqa: N803
        """Call `estimator.partial_fit(X, y)` and record an epoch; its calls form one training until another one begins.

        Scores in between are evaluations of the model as it is after the epoch.
        """
        is_new = self._partial is not estimator
        if is_new:
            self._conclude_partial()
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

    @never_raise
    def _before_pass(self, estimator: Any, x: Any, y: Any, weights: Any, is_new: bool) -> None:
        using = self._data_of("training", x, y)
        if is_new or self.stage is None:
            self._passes, self._passed = 0, 0.0
            values = _introspect.describe(estimator)
            values |= {"sample_weight": _introspect.encode_param(weights)} if weights is not None else {}
            stage = self.begin_training(values, using=using, model=estimator)
            stage.implemented_by(
                type(estimator).__name__,
                software="scikit-learn",
                version=sklearn.__version__,
                module=type(estimator).__module__,
            )
        self._passes += 1
        self.defer_epoch(self._passes)
        epoch = self.open_epoch()
        if epoch is not None and self._passes > 1:
            for data in using:
                epoch.used(data)

    @never_raise
    def _after_pass(self, fitted: Any) -> None:
        loss = getattr(fitted, "loss_", None)
        self.close_epoch({"loss": loss} if isinstance(loss, float) else {})
        self._passed = perf_counter()
        if self._passes == 1 and self.stage is not None and (layers := _introspect.layers(fitted)):
            self.stage.layers(layers)

    def _conclude_partial(self) -> None:
        """End the training by `partial_fit`: save and record its model."""
        partial = self._partial
        if partial is not None:
            try:
                self._save_partial()
                self._end_passes(partial)
            finally:
                self._partial = None

    def _save_partial(self) -> None:
        """Save the model of the open training by `partial_fit` as it is now."""
        if self._partial is not None:
            self._save(self._partial)

    @never_raise
    def _end_passes(self, partial: Any) -> None:
        if self.stage is not None:
            fields, is_recorded = _introspect.characteristics(partial), not self.models.changed_parts()
            model = super().saved(self._save_to, **fields)
            if model is not None and is_recorded and self._save_to is None:  # an evaluation recorded it without these
                self.run.saved(model, None, **fields)
            self._end_training_with_last_pass()

    def _end_training_with_last_pass(self) -> None:
        """End the training by `partial_fit` when its last epoch ended: scores may have been computed since."""
        if self.stage is not None and self._passed:
            self.stage.done(ago=max(perf_counter() - self._passed, 0.0))
        self.end_training()

    def current_hyperparameters(self) -> dict[str, Any]:
        return _introspect.describe(self._partial) if self._partial is not None else {}

    # ---- scores

    def score(self, estimator: Any, X: Any, y: Any = None, **named: Any) -> float:  # noqa: N803
        """Call `estimator.score(X, y)` and record an evaluation. A training by `partial_fit` goes on."""
        self._save_partial()
        test = self._before_test(estimator, X, y)
        try:
            value: float = estimator.score(X, **named) if y is None else estimator.score(X, y, **named)
        except BaseException as error:
            self._after_test(test, dict, error)
            raise
        self._after_test(test, lambda: dict([_introspect.score_measure(estimator, value)]))
        return value

    def evaluate(self, estimator: Any, X: Any, y: Any = None, *, scoring: Any) -> dict[str, float]:  # noqa: N803
        """Return the scores of one or several scorers of scikit-learn, and record them as one evaluation."""
        from sklearn.metrics import get_scorer

        scorers = _introspect.scorers_by_name(scoring)
        self._save_partial()
        test = self._before_test(estimator, X, y)
        try:
            scores = {name: get_scorer(scorer)(estimator, X, y) for name, scorer in scorers.items()}
        except BaseException as error:
            self._after_test(test, dict, error)
            raise
        self._after_test(test, lambda: _introspect.measures_of_scores(scoring, scorers, scores))
        return scores

    def _before_test(self, estimator: Any, x: Any, y: Any) -> Stage | None:
        if self.run.disabled:
            return None
        with report_errors(self.run):
            return self.begin_evaluation(using=self._data_of("test", x, y), model=estimator)
        return None

    def _after_test(
        self, test: Stage | None, measures: Callable[[], dict[str, Any]], error: BaseException | None = None
    ) -> None:
        with report_errors(self.run):
            if test is not None:
                self.end_evaluation(self.try_or(measures, dict[str, Any]()), error=error)

    # ---- data and the end

    def _data_of(self, role: str, x: Any, y: Any) -> list[Data]:
        """Return the data passed for a role, otherwise the arrays or tables of this call."""
        self.data.reset(role)
        return self.data.get(
            role,
            lambda: [
                data
                for name, table in (("X", x), ("y", y))
                for data in _tables.record_table(self.run, table, role, name)
            ],
        )

    def saved(self, path: Any, **fields: Any) -> Data | None:
        """Record that the model of the last training was saved in this file; None: it is in memory only."""
        with report_errors(self.run):
            self._end_partial_training()
        return super().saved(path, **fields)

    def _end_partial_training(self) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            self._end_training_with_last_pass()

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what is open."""
        try:
            self._conclude_partial()
            self._end_open_steps(error)
        finally:
            super().done(error=error)

    @never_raise
    def _end_open_steps(self, error: BaseException | None) -> None:
        self._end_steps(error)


def _target(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return the target of a call, passed by position or by name."""
    return args[0] if args else named.get("y")


def _model_of(fitted: Any) -> Any:
    """Return the model of a fit; of a search, the refitted best estimator."""
    return getattr(fitted, "best_estimator_", None) if _introspect.is_search(fitted) else fitted
