"""Why a Keras training ended before its planned number of epochs."""

from __future__ import annotations

import math
from typing import Any

import keras

from provml.capture._hyperparameters import MANUAL


def stop_cause(callbacks: list[Any], last: int, logs: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return what stopped a training after an epoch: technique, reason and parameters."""
    for callback in early_stopping_callbacks(callbacks):
        if callback.stopped_epoch + 1 == last:
            reason = f"{callback.monitor} was best at epoch {callback.best_epoch + 1} ({callback.best:.6g})"
            if callback.restore_best_weights:
                reason += ", whose weights were restored"
            names = ("monitor", "patience", "min_delta", "restore_best_weights")
            parameters = {name: getattr(callback, name) for name in names}
            return type(callback).__name__, reason, parameters | {"min_delta": abs(callback.min_delta)}
    loss = logs.get("loss")
    has_nan_check = any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in callbacks)
    if has_nan_check and (loss is None or not math.isfinite(loss)):
        return "TerminateOnNaN", f"the loss was {loss}", {}
    return MANUAL, "stop_training was set", {}


def early_stopping_callbacks(callbacks: list[Any]) -> list[Any]:
    """Return the callbacks that stop a training when a measure no longer improves."""
    return [callback for callback in callbacks if isinstance(callback, keras.callbacks.EarlyStopping)]
