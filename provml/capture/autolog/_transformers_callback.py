"""The callback that autolog gives to every Trainer of Transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from provml.capture.autolog import active_session
from provml.capture.transformers import Capture
from provml.recording.frames import caller_arguments

HOOKS = (
    "on_train_begin", "on_epoch_begin", "on_step_begin", "on_step_end", "on_epoch_end", "on_log", "on_save",
    "on_train_end", "on_prediction_step", "on_evaluate", "on_predict",
)  # fmt: skip
FIRST_HOOKS = ("on_train_begin", "on_prediction_step", "on_evaluate", "on_predict")
"""Hooks that may be the first of a training or an evaluation."""


class AutologCallback(TrainerCallback):
    """Passes the calls of a Trainer on to the capture, unless the user gave the Trainer a capture."""

    _capture: Capture | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle without the capture."""
        return {}

    def _call(self, hook: str, args: Any, state: Any, control: Any, **context: Any) -> None:
        session = active_session()
        if session is None or session.is_busy:
            return
        if hook in FIRST_HOOKS and (self._capture is None or self._capture.stage is None):
            handler = caller_arguments("transformers.trainer_callback", "call_event").get("self")
            is_explicit = any(isinstance(callback, Capture) for callback in getattr(handler, "callbacks", ()))
            self._capture = None if is_explicit else session.guard(session.capture, "transformers")
        method = getattr(self._capture, hook, None)
        if method is not None:
            method(args, state, control, **context)


def _forward(hook: str) -> Any:
    def call(self: AutologCallback, /, args: Any, state: Any, control: Any, **context: Any) -> None:
        self._call(hook, args, state, control, **context)

    call.__name__ = hook
    return call


for _hook in HOOKS:
    setattr(AutologCallback, _hook, _forward(_hook))
