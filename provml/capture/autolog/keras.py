"""Keras: adds the capture to every list of callbacks, and records loops of the user and the files that `save` writes.

`keras.callbacks.CallbackList` is the one place that `fit`, `evaluate` and loops of users go through. Loops without it
call `train_on_batch`, or `apply` of an optimizer. Only `fit` itself sees the exception that ends it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session

if TYPE_CHECKING:
    from provml.capture.autolog._keras_loop import Loops

SAVES = ("save", "save_weights")


def activate(session: Session, patches: Patches) -> None:
    """Wrap the constructor of `CallbackList`, the methods of a loop, and the methods of a model that save it."""
    keras = sys.modules["keras"]
    from provml.capture.autolog._keras_loop import Loops

    loops = Loops(session)

    def make_init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if not session.is_busy:
                session.guard(_add_callback, session, loops, self)

        return init

    def make_save(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            path = args[0] if args else kwargs.get("filepath")
            session.guard(_record_file, session, loops, self, path)
            return result

        return save

    def make_fit(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:  # Keras calls no hook then
                session.guard(_end_fit, session, self, error)
                raise

        return call

    patches.wrap(keras.callbacks.CallbackList, "__init__", make_init)
    patches.wrap(keras.Model, "fit", make_fit)
    for name in SAVES:
        patches.wrap(keras.Model, name, make_save)
    _wrap_loops(keras, loops, patches)
    _wrap_optimizers(keras, loops, patches)


def _wrap_loops(keras: Any, loops: Loops, patches: Patches) -> None:
    """Wrap the methods that a loop of the user calls."""
    from provml.capture.autolog._keras_loop import batch_rows, measures_of

    session = loops.session

    def make_train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not loops.is_observing():
                return original(self, *args, **kwargs)
            before = session.guard(loops.before_step, self, getattr(self, "optimizer", None))
            loops.is_inside = True
            try:
                result = original(self, *args, **kwargs)
            finally:
                loops.is_inside = False
            if before is not None:
                x = args[0] if args else kwargs.get("x")
                session.guard(lambda: loops.after_step(before, measures_of(self, result), batch_rows(x)))
            return result

        return train_on_batch

    def make_test(original: Callable[..., Any]) -> Callable[..., Any]:
        def test_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            result = original(self, *args, **kwargs)
            if loops.is_observing():
                x = args[0] if args else kwargs.get("x")
                session.guard(lambda: loops.on_test(self, measures_of(self, result), batch_rows(x) or 1, began))
            return result

        return test_on_batch

    patches.wrap(keras.Model, "train_on_batch", make_train)
    patches.wrap(keras.Model, "test_on_batch", make_test)


def _wrap_optimizers(keras: Any, loops: Loops, patches: Patches) -> None:
    """Wrap the step of an optimizer, and its constructor: a loop of two models begins when both exist."""
    session, is_tracing = loops.session, _tracing_check(keras)

    def make_apply(original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_tracing(args, kwargs) or not loops.is_observing():
                return original(self, *args, **kwargs)
            before = session.guard(loops.before_step, self, self)
            loops.is_inside = True
            try:
                result = original(self, *args, **kwargs)
            finally:
                loops.is_inside = False
            if before is not None:
                session.guard(loops.after_step, before, {})
            return result

        return apply

    def make_optimizer(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            session.guard(loops.on_optimizer, self)

        return init

    patches.wrap(keras.optimizers.Optimizer, "apply", make_apply)
    patches.wrap(keras.optimizers.Optimizer, "__init__", make_optimizer)
    session.other_optimizers.append(keras.optimizers.Optimizer)
    patches.on_undo(lambda: session.other_optimizers.remove(keras.optimizers.Optimizer))


def _tracing_check(keras: Any) -> Callable[[Any, Any], bool]:
    """Return a function that tells whether a step is being compiled: it is made later, without Python.

    It is called with the arguments of `apply`.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        is_compiling: Callable[[], bool] = sys.modules["torch"].compiler.is_compiling
        return lambda args, kwargs: is_compiling()
    if backend == "tensorflow":
        return lambda args, kwargs: not sys.modules["tensorflow"].executing_eagerly()
    if backend == "jax":
        tracer = getattr(sys.modules["jax"].core, "Tracer", object)
        return lambda args, kwargs: any(isinstance(item, tracer) for item in _gradients(args, kwargs))
    return lambda args, kwargs: True


def _gradients(args: Any, kwargs: Any) -> Iterable[Any]:
    """Return the gradients that `apply` was called with."""
    gradients = args[0] if args else kwargs.get("grads")
    return gradients if isinstance(gradients, (list, tuple)) else [gradients]


def _record_file(session: Session, loops: Loops, model: Any, path: Any) -> None:
    """Record a file that a model was saved in."""
    if session.is_busy or path is None or not loops.on_save(model, path):
        session.record_model_file("keras", model, path)


def _end_fit(session: Session, model: Any, error: BaseException) -> None:
    """End the training of a model that an exception left: the script may catch it, and keep no reference to it."""
    capture = session.capture("keras") if not session.is_busy and session.has_capture("keras") else None
    if capture is not None and capture.stage is not None and capture._fit_model is model:
        capture.end_evaluation(error=error)
        capture.end_training(error=error)


def _add_callback(session: Session, loops: Loops, callback_list: Any) -> None:
    """Add a callback to a new list, unless a capture of the user is in it."""
    from provml.capture.autolog._keras_callback import FirstCallback
    from provml.capture.keras import Capture

    if any(isinstance(callback, (Capture, FirstCallback)) for callback in callback_list.callbacks):
        return
    callback = FirstCallback(session, loops, callback_list)
    callback.set_model(callback_list.model)
    callback.set_params(callback_list.params)
    callback_list.callbacks.append(callback)
