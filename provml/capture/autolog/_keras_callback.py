"""The callback that autolog adds to a list of Keras."""

from __future__ import annotations

import weakref
from typing import Any

import keras

from provml.capture.autolog._keras_loop import Loops
from provml.capture.autolog._session import Session
from provml.capture.keras._call_stack import inspect_call_stack


class FirstCallback(keras.callbacks.Callback):
    """Puts the capture in its own place when `fit` or `evaluate` begins: `predict` begins no run.

    An `evaluate` of a model that a loop of the user trains is a part of this loop.
    """

    def __init__(self, session: Session, loops: Loops, callback_list: Any) -> None:
        super().__init__()
        self._session = session
        self._loops = loops
        self._list = weakref.ref(callback_list)
        self._phase: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._session.guard(self._loops.conclude)
        capture = self._session.guard(self._replace)
        if capture is not None:
            capture.on_train_begin(logs)

    def on_test_begin(self, logs: Any = None) -> None:
        self._phase = self._session.guard(self._begin_evaluation)
        if self._phase is not None:
            return
        capture = self._session.guard(self._replace)
        if capture is not None:
            capture.on_test_begin(logs)

    def on_test_end(self, logs: Any = None) -> None:
        phase, self._phase = self._phase, None
        if phase is not None:
            self._session.guard(self._loops.end_evaluation, phase, dict(logs or {}))

    def _begin_evaluation(self) -> Any:
        if self._loops.open_capture is None:
            return None
        return self._loops.begin_evaluation(self.model, inspect_call_stack(self.model).calls.get("evaluate", {}))

    def _replace(self) -> Any:
        """Replace this callback in its list by the capture, and return it."""
        callback_list, capture = self._list(), self._session.capture("keras")
        if callback_list is None or capture is None:
            return None
        callback_list.callbacks[callback_list.callbacks.index(self)] = capture
        capture.set_model(self.model)
        capture.set_params(self.params)
        if getattr(callback_list, "_async_train", False):  # the capture needs the batches in order
            callback_list._async_train = False
        return capture
