"""Keras: adds the capture to every list of callbacks, and records the files that `save` writes.

`keras.callbacks.CallbackList` is the one place that `fit`, `evaluate` and loops of users go through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session

SAVES = ("save", "save_weights")


def activate(session: Session, patches: Patches) -> None:
    """Wrap the constructor of `CallbackList`, and the methods of a model that save it."""
    keras = sys.modules["keras"]

    def make_init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if not session.is_busy:
                session.guard(_add_callback, session, self)

        return init

    def make_save(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            path = args[0] if args else kwargs.get("filepath")
            session.guard(session.record_model_file, "keras", self, path)
            return result

        return save

    patches.wrap(keras.callbacks.CallbackList, "__init__", make_init)
    for name in SAVES:
        patches.wrap(keras.Model, name, make_save)


def _add_callback(session: Session, callback_list: Any) -> None:
    """Add a callback to a new list, unless a capture of the user is in it."""
    from provml.capture.autolog._keras_callback import FirstCallback
    from provml.capture.keras import Capture

    if any(isinstance(callback, (Capture, FirstCallback)) for callback in callback_list.callbacks):
        return
    callback = FirstCallback(session, callback_list)
    callback.set_model(callback_list.model)
    callback.set_params(callback_list.params)
    callback_list.callbacks.append(callback)
