"""XGBoost: adds the capture to every list of callbacks; `train`, `cv` and all estimators make one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session


def activate(session: Session, patches: Patches) -> None:
    """Wrap the constructor of `CallbackContainer`, `train` and `cv`, and the method that saves a booster."""
    xgboost = sys.modules["xgboost"]

    def make_init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if not session.is_busy:
                session.guard(_add_callback, session, self)

        return init

    def make_save(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_model(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            session.guard(session.record_model_file, "xgboost", self, args[0] if args else kwargs.get("fname"))
            return result

        return save_model

    def make_train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException as error:  # XGBoost calls no callback then
                session.guard(_end_training, session, error)
                raise

        return train

    for name in ("train", "cv"):
        original = getattr(xgboost.training, name)
        patches.wrap(xgboost.training, name, make_train)
        for holder in (xgboost, getattr(xgboost, "sklearn", None)):
            if holder is not None and getattr(holder, name, None) is original:
                patches.replace(holder, name, getattr(xgboost.training, name))
    patches.wrap(xgboost.callback.CallbackContainer, "__init__", make_init)
    patches.wrap(xgboost.Booster, "save_model", make_save)


def _end_training(session: Session, error: BaseException) -> None:
    """End the training that an exception left: the script may catch it, and keep no reference to it."""
    capture = session.capture("xgboost") if not session.is_busy and session.has_capture("xgboost") else None
    if capture is not None and capture.stage is not None:
        capture.end_training(error=error)


def _add_callback(session: Session, container: Any) -> None:
    from provml.capture.xgboost import Capture

    if not any(isinstance(callback, Capture) for callback in container.callbacks):
        capture = session.capture("xgboost")
        if capture is not None:
            container.callbacks.append(capture)
