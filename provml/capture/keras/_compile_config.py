"""The configuration that a Keras model was compiled with: optimizers, learning-rate schedules and losses."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from provml.capture._hyperparameters import shortest_float
from provml.capture.keras._lr_attribution import RATE, current_rate

NAMES = {"initial_scale": "loss_scale"}
"""Keras's names of hyperparameters that differ from ours."""
PLAIN_TYPES = (bool, int, float, str)
IGNORED_KEYS = {"name", "built", "dtype"}
"""Keys of a config that are not hyperparameters of an optimizer or a loss."""
SCHEDULE = f"{RATE}_schedule"


# ---- optimizers


def optimizers(model: Any) -> dict[str, Any]:
    """Return the optimizers of a model by the prefix of their hyperparameters' names, which is "" for a single one.

    A MultiOptimizer contains several. A model with its own training step, such as a GAN, may have optimizers as
    attributes. If it was compiled without a loss, the compiled optimizer is only Keras's default, and is left out.
    """
    compiled = model.optimizer
    parts: dict[str, Any] = {}
    for part in getattr(compiled, "optimizers", None) or ():
        namesakes = sum(part.name == other.name for other in parts.values())
        parts[f"{part.name}_{namesakes + 1}." if namesakes else f"{part.name}."] = part
    if parts or compiled is None:
        return parts
    attributes = {
        f"{name.strip('_')}.": value
        for name, value in vars(model).items()
        if isinstance(value, keras.optimizers.Optimizer) and value is not compiled
    }
    has_own_step = type(model).train_step is not keras.Model.train_step
    return attributes if attributes and has_own_step and model.loss is None else {"": compiled, **attributes}


def inner_optimizer(optimizer: Any) -> Any:
    """Return the optimizer inside one that scales the loss for mixed precision; any other is returned itself."""
    return getattr(optimizer, "inner_optimizer", None) or optimizer


def optimizer_settings(optimizer: Any) -> dict[str, Any]:
    """Return the hyperparameters of an optimizer, with the current learning rate."""
    inner = inner_optimizer(optimizer)
    values = optimizer_settings(inner) if inner is not optimizer else {}
    for name, value in _config(optimizer).items():
        if name not in IGNORED_KEYS and (value is None or isinstance(value, PLAIN_TYPES)):
            values[NAMES.get(name, name)] = shortest_float(value)
    if inner is optimizer:
        values[RATE] = current_rate(optimizer)
    return values


def _config(configured: Any) -> dict[str, Any]:
    """Return the config of an object, or its public attributes: a class of the user need not support saving."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about loading lambdas, but nothing is saved here
            return dict(configured.get_config())
    except Exception:
        return {name: value for name, value in vars(configured).items() if not name.startswith("_")}


# ---- schedules


def schedule_settings(optimizer: Any) -> dict[str, Any]:
    """Return the schedule of an optimizer's learning rate with its parameters; nothing if the rate is a number."""
    schedule = getattr(inner_optimizer(optimizer), "_learning_rate", None)
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        is_function = callable(schedule) and not hasattr(schedule, "assign")
        return {SCHEDULE: display_name(schedule)} if is_function else {}
    parameters = {f"{SCHEDULE}.{name}": _numbers(value) for name, value in _config(schedule).items()}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    return {SCHEDULE: type(schedule).__name__, **parameters}


def _numbers(value: Any) -> Any:
    """Return a number or a list of numbers with as few digits as possible; None for anything else."""
    if isinstance(value, (list, tuple)):
        are_numbers = all(isinstance(item, (int, float)) for item in value)
        return [shortest_float(item) for item in value] if are_numbers else None
    return shortest_float(value) if isinstance(value, (bool, int, float)) else None


# ---- losses


def loss_settings(model: Any) -> dict[str, Any]:
    """Return the losses by name, and the parameters of those that are objects, such as `loss.from_logits`."""
    loss = model.loss
    losses = loss if isinstance(loss, dict) else {"": loss}
    if isinstance(loss, (list, tuple)):
        losses = {str(number): part for number, part in enumerate(loss, 1)}
    settings = {"loss": display_name(loss)}
    for key, part in losses.items():
        config = getattr(part, "_fn_kwargs", {}) | _config(part) if isinstance(part, keras.losses.Loss) else {}
        prefix = f"loss.{key}." if key else "loss."
        settings |= {
            prefix + name: shortest_float(value) for name, value in config.items() if _is_loss_parameter(name, value)
        }
    return settings


def _is_loss_parameter(name: str, value: Any) -> bool:
    is_default = name == "reduction" and value == "sum_over_batch_size"
    return name not in IGNORED_KEYS and isinstance(value, PLAIN_TYPES) and not is_default


def loss_weights(model: Any) -> Any:
    """Return the weights of several losses that were passed to `compile`, which Keras stores with the losses."""
    weights = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    if isinstance(weights, dict):
        return dict(weights)
    return list(weights) if isinstance(weights, (list, tuple)) else weights


def display_name(value: Any) -> str | None:
    """Return the name of a loss, of several losses, or of a schedule."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{key}: {display_name(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(display_name(item)) for item in value)
    return getattr(value, "__name__", None) or getattr(value, "name", None) or type(value).__name__
