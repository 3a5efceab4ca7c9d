"""LightGBM: passes the callbacks of the capture to `train` and `cv`, which have no list that could be extended."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session


def activate(session: Session, patches: Patches) -> None:
    """Wrap `train` and `cv` wherever LightGBM holds them, and the method that saves a booster."""
    lightgbm = sys.modules["lightgbm"]
    for name in ("train", "cv"):
        original = getattr(lightgbm.engine, name)
        patches.wrap(lightgbm.engine, name, lambda original: _recorded(session, original))
        for holder in (lightgbm, getattr(lightgbm, "sklearn", None)):
            if holder is not None and getattr(holder, name, None) is original:
                patches.replace(holder, name, getattr(lightgbm.engine, name))

    def make_save(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_model(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            session.guard(session.record_model_file, "lightgbm", self, args[0] if args else kwargs.get("filename"))
            return result

        return save_model

    patches.wrap(lightgbm.Booster, "save_model", make_save)


def _recorded(session: Session, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `train` or `cv` with the callbacks of the capture."""
    signature = inspect.signature(original)

    def train(*args: Any, **kwargs: Any) -> Any:
        capture = session.guard(_capture, session, signature, args, kwargs) if not session.is_busy else None
        if capture is None:
            return original(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.arguments["callbacks"] = [*(bound.arguments.get("callbacks") or ()), *capture.callbacks]
        try:
            result = original(*bound.args, **bound.kwargs)
        except BaseException as error:
            session.guard(capture.conclude_training, error)
            raise
        session.guard(capture.conclude_training)
        return result

    return train


def _capture(session: Session, signature: inspect.Signature, args: Any, kwargs: Any) -> Any:
    """Return the capture for a call; None if the user passed one, or if the call is wrong, which LightGBM will say."""
    from provml.capture.lightgbm import _Callback

    try:
        callbacks = signature.bind(*args, **kwargs).arguments.get("callbacks") or ()
        is_explicit = any(isinstance(callback, _Callback) for callback in callbacks)
    except TypeError:
        return None
    return None if is_explicit else session.capture("lightgbm")
