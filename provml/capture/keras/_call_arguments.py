"""The arguments of `fit` and `evaluate`: settings that influence what is learned, and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from provml.capture import _data, _tables
from provml.recording.data import Data

if TYPE_CHECKING:
    from provml.recording.run import Run

MAX_PIPELINE_STEPS = 32
"""Steps of a TensorFlow data pipeline that are searched at most."""
DEFAULT_BATCH_SIZE = 32
"""Keras's default for arrays."""
RECORDED_ARGUMENTS = ("validation_split", "initial_epoch", "class_weight")
"""Arguments of `fit` that are recorded as they are, unless they are empty or 0."""


def fit_settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fit` that influence what is learned, besides data and callbacks."""
    settings = {name: arguments[name] for name in RECORDED_ARGUMENTS if arguments.get(name)}
    if arguments.get("shuffle") and _is_shuffled(arguments.get("x")):
        settings["shuffle"] = arguments["shuffle"]
    weights = arguments.get("sample_weight")
    return settings | {"batch_size": batch_size(arguments), "sample_weight": _describe_weights(weights)}


def batch_size(arguments: dict[str, Any]) -> int | None:
    """Return the batch size: the argument, that of the loader, or Keras's default for arrays."""
    if arguments.get("batch_size"):
        return int(arguments["batch_size"])
    x = arguments.get("x")
    size: Any = getattr(x, "batch_size", None)
    if size is None and _are_arrays(x):
        return DEFAULT_BATCH_SIZE
    for _ in range(MAX_PIPELINE_STEPS):  # of TensorFlow: the step that makes batches knows their size
        if size is not None or x is None:
            break
        size, x = getattr(x, "_batch_size", None), getattr(x, "_input_dataset", None)
    size = size.numpy() if hasattr(size, "numpy") else size
    return int(size) if hasattr(size, "__index__") else None


def _is_shuffled(x: Any) -> bool:
    """Return whether `shuffle=True` has an effect: Keras does not shuffle loaders, pipelines and generators."""
    has_length = isinstance(x, keras.utils.PyDataset) and getattr(x, "num_batches", None) is not None
    return has_length or _are_arrays(x)


def _are_arrays(x: Any) -> bool:
    """Return whether this is an array, or several inputs that are arrays."""
    if not isinstance(x, (dict, list, tuple)):
        return hasattr(x, "shape")
    parts = list(x.values()) if isinstance(x, dict) else x
    return bool(parts) and all(map(_are_arrays, parts))


def _describe_weights(weights: Any) -> str | None:
    """Return the type and shape of sample weights; None if there are none."""
    if weights is None:
        return None
    shape = f" of shape {tuple(weights.shape)}" if hasattr(weights, "shape") else ""
    return type(weights).__name__ + shape


def record_arguments(run: Run, arguments: dict[str, Any], role: str) -> list[Data]:
    """Record the data that `fit` or `evaluate` was called with, for a role."""
    if role == "validation":
        value = arguments.get("validation_data")
        arguments = dict(zip("xy", value[:2], strict=False)) if isinstance(value, (tuple, list)) else {"x": value}
    prefix = "" if role == "training" else f"{role} "
    datasets = []
    for name in "xy":
        value = arguments.get(name)
        record = _data.record_data if isinstance(value, (list, tuple, dict)) else _tables.record_table
        datasets += record(run, value, role, prefix + name)
    return datasets
