"""Why a Keras training ended before its planned number of epochs."""

from __future__ import annotations

import math
from typing import Any

import keras

from provml.capture._hyperparameters import MANUAL

CALLBACK_SETTINGS = {
    "EarlyStopping": (
        "early_stopping",
        ("monitor", "patience", "min_delta", "baseline", "start_from_epoch", "restore_best_weights"),
    ),
    "ModelCheckpoint": (
        "model_checkpoint",
        ("monitor", "filepath", "save_best_only", "save_weights_only", "save_freq"),
    ),
}
"""The settings of callbacks that are recorded, and the prefix of their names."""


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


def callback_settings(callbacks: list[Any]) -> dict[str, Any]:
    """Return the settings of the callbacks that decide when a training stops and which weights are saved."""
    settings: dict[str, Any] = {}
    for callback in callbacks:
        for kind, (prefix, names) in CALLBACK_SETTINGS.items():
            if isinstance(callback, getattr(keras.callbacks, kind)):
                number = sum(key.startswith(prefix) and key.endswith(".monitor") for key in settings) + 1
                label = prefix if number == 1 else f"{prefix}_{number}"
                values = {name: getattr(callback, name, None) for name in names}
                values |= {"min_delta": abs(callback.min_delta)} if "min_delta" in values else {}
                settings |= {f"{label}.{name}": value for name, value in values.items() if value is not None}
    return settings


def early_stopping_callbacks(callbacks: list[Any]) -> list[Any]:
    """Return the callbacks that stop a training when a measure no longer improves."""
    return [callback for callback in callbacks if isinstance(callback, keras.callbacks.EarlyStopping)]
