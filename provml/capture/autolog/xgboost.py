"""XGBoost: adds the capture to every list of callbacks; `train`, `cv` and all estimators make one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session


def activate(session: Session, patches: Patches) -> None:
    """Wrap the constructor of `CallbackContainer`, and the method that saves a booster."""
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

    patches.wrap(xgboost.callback.CallbackContainer, "__init__", make_init)
    patches.wrap(xgboost.Booster, "save_model", make_save)


def _add_callback(session: Session, container: Any) -> None:
    from provml.capture.xgboost import Capture

    if not any(isinstance(callback, Capture) for callback in container.callbacks):
        capture = session.capture("xgboost")
        if capture is not None:
            container.callbacks.append(capture)
