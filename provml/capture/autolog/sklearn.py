"""Scikit-learn: calls of `fit`, `score` and others of any estimator go through the capture, the outermost call only.

The methods are replaced in the dictionary of each class of estimators, also of classes that are made later. Scores that
the functions of `sklearn.metrics` compute from what `predict` returned are evaluations of the model that predicted it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

from provml.capture import _tables
from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session
from provml.recording.data import Data
from provml.recording.frames import is_called_directly_from
from provml.recording.stages import Stage

FITS = ("fit", "fit_transform", "fit_predict", "partial_fit")
CAPTURE = "provml.capture.sklearn"
"""Package of the explicit capture, whose own calls are not recorded a second time."""
PREDICTIONS = ("predict", "predict_proba", "decision_function")
METHODS = (*FITS, *PREDICTIONS, "transform", "score")
FOLDS = ("cross_validate", "cross_val_score")
METRIC_SUFFIXES = ("_score", "_error", "_loss", "_deviance", "_pinball", "_coef")
BOOSTERS = ("xgboost", "lightgbm")
"""Packages whose estimators have captures of their own."""
MAX_PREDICTIONS = 1000
"""Predictions that are remembered at most."""
MAX_TRANSFORMS = 100
"""Calls of `transform` that are recorded at most, for each transformer."""


class Prediction(NamedTuple):
    """What `predict` returned: the model and the data, as weak references."""

    model: Callable[[], Any]
    data: Callable[[], Any]
    kind: str


class Recorder:
    """Records the outermost calls of estimators."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.classes: weakref.WeakSet[type] = weakref.WeakSet()
        """Classes whose methods are wrapped."""
        self._predictions: dict[int, Prediction] = {}
        self._evaluations: dict[int, Stage] = {}
        self._transforms: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of an estimator that is recorded if it is the outermost call."""
        session = self.session

        def method(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if session.is_busy:
                return original(self_, *args, **kwargs)
            if is_called_directly_from(*BOOSTERS):  # a part of a fit, such as its encoder of labels
                return original(self_, *args, **kwargs)
            is_explicit = is_called_directly_from(CAPTURE)
            if is_explicit or (name not in PREDICTIONS and is_booster(self_)):
                return self.call_silently(name, original, self_, args, kwargs, is_explicit=is_explicit)
            return self.call(name, original, self_, args, kwargs)

        return wraps(original)(method)

    def call_silently(
        self, name: str, original: Any, estimator: Any, args: Any, kwargs: Any, *, is_explicit: bool
    ) -> Any:
        """Call a method that something else records: a capture of the user, or the capture of a booster."""
        if is_explicit:
            with self.session.owning():
                return original(estimator, *args, **kwargs)
        if name != "score":
            return original(estimator, *args, **kwargs)
        with self.session.owning():
            value = original(estimator, *args, **kwargs)
        self.session.guard(self._score_booster, estimator, value, args, kwargs)
        return value

    def call(self, name: str, original: Any, estimator: Any, args: Any, kwargs: Any) -> Any:
        """Call and record a method of an estimator."""
        from provml.capture.sklearn import _introspect

        with self.session.owning():
            if name in PREDICTIONS:
                result = original(estimator, *args, **kwargs)
                self.session.guard(self._remember, name, estimator, args, kwargs, result)
                return result
            if _introspect.is_transformer(estimator):
                return self._prepare(name, original, estimator, args, kwargs)
            capture = self.session.guard(self.session.capture, "sklearn") if "X" in kwargs or args else None
            if capture is None or name == "transform":
                return original(estimator, *args, **kwargs)
            if name in ("score", "partial_fit", "fit"):
                return getattr(capture, name)(estimator, *args, **kwargs)
            return _fitted_otherwise(capture, original, estimator, args, kwargs)

    # ---- transformers

    def _prepare(self, name: str, original: Any, estimator: Any, args: Any, kwargs: Any) -> Any:
        """Call and record a method of a transformer: a preparation with its input and its output."""
        step = self.session.guard(self._begin_preparation, name, estimator, args, kwargs)
        try:
            result = original(estimator, *args, **kwargs)
        except BaseException as error:
            if step is not None:
                self.session.guard(step.done, error=error)
            raise
        if step is not None:
            self.session.guard(self._end_preparation, step, estimator, result)
        return result

    def _begin_preparation(self, name: str, estimator: Any, args: Any, kwargs: Any) -> Any:
        from provml.capture.sklearn import _introspect

        count = self._transforms.get(estimator, 0)
        if name == "score" or (name == "transform" and not 0 < count <= MAX_TRANSFORMS):
            return None  # a transformer that was not fitted here says nothing about this run
        capture = self.session.capture("sklearn")
        if capture is None:
            return None
        self._transforms[estimator] = count + 1
        x = args[0] if args else kwargs.get("X")
        using = _tables.record_table(capture.run, x, "", "X")
        values = {"transformer": type(estimator).__name__, "method": name, **_introspect.parameters(estimator)}
        return capture.run.preparation(type(estimator).__name__, using=using, **values)

    def _end_preparation(self, step: Any, estimator: Any, result: Any) -> None:
        from provml.journal.events import Produced

        if result is not estimator:
            name = f"X by {type(estimator).__name__}"
            for data in _tables.record_table(step.run, result, "", name):
                step.run._emit(Produced(step._location, data.ref))
        step.done()

    # ---- evaluations

    def _score_booster(self, estimator: Any, value: float, args: Any, kwargs: Any) -> None:
        """Record the score of an estimator of XGBoost or LightGBM, with the model of its capture."""
        from provml.capture.sklearn import _introspect

        x, y = (args[0] if args else kwargs.get("X")), (args[1] if len(args) > 1 else kwargs.get("y"))
        model = self._model(estimator)
        if model is not None:
            run = self.session.run()
            assert run is not None
            using = [*_tables.record_table(run, x, "test", "X"), *_tables.record_table(run, y, "test", "y")]
            with run.evaluation(of=model, using=using) as test:
                test.measured(**dict([_introspect.score_measure(estimator, value)]))

    def _model(self, estimator: Any) -> Data | None:
        """Return the recorded model of a fitted estimator; None if its fit was not recorded."""
        framework = next((name for name in BOOSTERS if is_booster(estimator, name)), "sklearn")
        if not self.session.has_capture(framework):
            return None
        capture = self.session.capture(framework)
        model = capture.booster(estimator) if framework != "sklearn" else estimator
        recorded: Data | None = capture.models.lookup(model)
        return recorded

    def _remember(self, name: str, estimator: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Remember which model predicted something, as long as the prediction exists."""
        data = args[0] if args else kwargs.get("X")
        if len(self._predictions) < MAX_PREDICTIONS and data is not None:
            key = id(result)
            weakref.finalize(result, self._forget, key).atexit = False
            self._predictions[key] = Prediction(weakref.ref(estimator), _reference(data), name)

    def _forget(self, key: int) -> None:
        self._predictions.pop(key, None)
        self._evaluations.pop(key, None)

    def wrap_metric(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of `sklearn.metrics` that records its result for a known prediction."""
        session = self.session

        def metric(*args: Any, **kwargs: Any) -> Any:
            if session.is_busy or not self._predictions:
                return original(*args, **kwargs)
            with session.owning():
                value = original(*args, **kwargs)
            session.guard(self._score_prediction, name, value, [*args, *kwargs.values()])
            return value

        return wraps(original)(metric)

    def _score_prediction(self, name: str, value: Any, arguments: list[Any]) -> None:
        if not isinstance(value, (int, float)) and not (hasattr(value, "item") and getattr(value, "ndim", 1) == 0):
            return
        source = next((key for argument in arguments for key in _bases(argument) if key in self._predictions), None)
        if source is None:
            return
        prediction = self._predictions[source]
        estimator, x = prediction.model(), prediction.data()
        model = self._model(estimator) if estimator is not None else None
        run = self.session.run()
        if model is None or run is None:
            return
        measure = name.removesuffix("_score")
        stage = self._evaluations.get(source)
        if stage is None or stage.run is not run:
            targets = [
                argument for argument in arguments if source not in _bases(argument) and hasattr(argument, "shape")
            ]
            using = _tables.record_table(run, x, "test", "X") if x is not None else []
            using += _tables.record_table(run, targets[0], "test", "y") if targets else []
            stage = self._evaluations[source] = run.evaluation(of=model, using=using)
            stage.measured(**{measure: value})
            stage.done()
        else:
            stage.measured(**{measure: value})  # another measure of the same prediction


def activate(session: Session, patches: Patches) -> None:
    """Wrap the methods of all estimators, the functions for folds, and the metrics."""
    base = sys.modules["sklearn.base"]
    recorder = Recorder(session)
    for cls in _classes(base):
        _wrap_class(recorder, patches, cls)

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807  # the name of Python
        super(base.BaseEstimator, cls).__init_subclass__(**kwargs)
        if session.is_active:
            session.guard(_wrap_class, recorder, patches, cls)

    patches.replace(base.BaseEstimator, "__init_subclass__", classmethod(__init_subclass__))
    _wrap_functions(recorder, patches)


def _classes(base: Any) -> Iterator[type]:
    """Return all classes of estimators."""
    waiting, visited = [base.BaseEstimator], set()
    while waiting:
        cls = waiting.pop()
        if cls not in visited:
            visited.add(cls)
            waiting += cls.__subclasses__()
            yield cls


def _wrap_class(recorder: Recorder, patches: Patches, cls: type) -> None:
    """Wrap the methods that a class of estimators and its bases define, such as `LinearClassifierMixin.predict`."""
    for base in cls.__mro__:
        is_of_sklearn = base.__module__.partition(".")[0] == "sklearn"
        if base not in recorder.classes and (base is cls or is_of_sklearn):
            recorder.classes.add(base)
            _wrap_methods(recorder, patches, base)


def _wrap_methods(recorder: Recorder, patches: Patches, cls: type) -> None:
    """Wrap the methods that a class defines itself."""
    for name in METHODS:
        value = vars(cls).get(name)
        if value is None or isinstance(value, (classmethod, staticmethod, property)):
            continue
        if callable(value) and hasattr(value, "__code__"):
            patches.replace(cls, name, recorder.wrap(name, value))
        elif hasattr(value, "fn"):  # a method that exists only for some instances, such as `Pipeline.predict`
            patches.replace(value, "fn", recorder.wrap(name, value.fn))


def _wrap_functions(recorder: Recorder, patches: Patches) -> None:
    """Wrap `cross_validate` and the metrics, which users import by name."""
    from importlib import import_module

    selection, validation = (
        import_module("sklearn.model_selection"),
        import_module("sklearn.model_selection._validation"),
    )
    for name in FOLDS:
        wrapped = _recorded_folds(recorder.session, name, getattr(validation, name))
        for module in (validation, selection):
            patches.replace(module, name, wrapped)
    metrics = import_module("sklearn.metrics")
    for name in metrics.__all__:
        function: Any = getattr(metrics, name, None)
        if name.endswith(METRIC_SUFFIXES) and hasattr(function, "__code__"):
            patches.replace(metrics, name, recorder.wrap_metric(name, function))


def _recorded_folds(session: Session, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for folds whose outermost call goes through the capture."""

    def folds(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        is_explicit = is_called_directly_from(CAPTURE)
        can_record = len(args) <= 2 and (args or "X" in kwargs)
        capture = None
        if not session.is_busy and not is_explicit and can_record:
            capture = session.guard(session.capture, "sklearn")
        with session.owning():
            if capture is None:
                return original(estimator, *args, **kwargs)
            if name == "cross_validate":
                return capture.cross_validate(estimator, *args, **kwargs)
            return capture.cross_validate(estimator, *args, **kwargs)["test_score"]

    return wraps(original)(folds)


def _fitted_otherwise(capture: Any, original: Any, estimator: Any, args: Any, kwargs: Any) -> Any:
    """Call and record `fit_predict` or `fit_transform` of a model as a training."""
    named = {name: value for name, value in kwargs.items() if name not in ("X", "y")}
    x = args[0] if args else kwargs.get("X")
    y = args[1] if len(args) > 1 else kwargs.get("y")
    capture._conclude_partial()
    capture._before(estimator, x, y, named)
    try:
        result = original(estimator, *args, **kwargs)
    except BaseException as error:
        capture._failed(error)
        raise
    capture._after(estimator)
    return result


def is_booster(estimator: Any, *packages: str) -> bool:
    """Return whether an estimator comes from a package with a capture of its own, or inherits from such a class."""
    modules = (cls.__module__.partition(".")[0] for cls in type(estimator).__mro__)
    return any(module in (packages or BOOSTERS) for module in modules)


def _bases(value: Any) -> list[int]:
    """Return the identities of an array and of the arrays that it is a view of, such as a column of probabilities."""
    keys: list[int] = []
    while value is not None and len(keys) < 8:
        keys.append(id(value))
        value = getattr(value, "base", None)
    return keys


def _reference(value: Any) -> Callable[[], Any]:
    """Return a weak reference to data; data that has none is not kept."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None
