"""The callback that autolog adds to a list of Keras."""

from __future__ import annotations

import weakref
from typing import Any

import keras

from provml.capture.autolog._session import Session


class FirstCallback(keras.callbacks.Callback):
    """Puts the capture in its own place when `fit` or `evaluate` begins: `predict` begins no run."""

    def __init__(self, session: Session, callback_list: Any) -> None:
        super().__init__()
        self._session = session
        self._list = weakref.ref(callback_list)

    def on_train_begin(self, logs: Any = None) -> None:
        capture = self._session.guard(self._replace)
        if capture is not None:
            capture.on_train_begin(logs)

    def on_test_begin(self, logs: Any = None) -> None:
        capture = self._session.guard(self._replace)
        if capture is not None:
            capture.on_test_begin(logs)

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
