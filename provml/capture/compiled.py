"""What a Keras model was compiled with: the hyperparameters of its optimizer, its schedule and its losses."""

from __future__ import annotations

from typing import Any

from provml.capture import mover
from provml.capture.watch import as_written

RATE = mover.RATE
SAME = {"initial_scale": "loss_scale"}
"""Keras's names of hyperparameters, where ours differ."""
PLAIN = (bool, int, float, str)


def settings(optimizer: Any) -> dict[str, Any]:
    """The hyperparameters of an optimizer, with the rate as it is now."""
    config = dict(optimizer.get_config())
    config.pop("name", None)
    does = inner(optimizer)
    values = settings(does) if does is not optimizer else {}
    plain = {name: value for name, value in config.items() if value is None or isinstance(value, PLAIN)}
    values |= {SAME.get(name, name): as_written(value) for name, value in plain.items()}
    if does is optimizer:
        values[RATE] = mover.rate(optimizer)
    return values


def inner(optimizer: Any) -> Any:
    """The optimizer that does the work: one that scales the loss for mixed precision holds another."""
    return getattr(optimizer, "inner_optimizer", None) or optimizer


def schedule(optimizer: Any) -> dict[str, Any]:
    """The schedule that is an optimizer's learning rate, and its parameters; nothing where the rate is a number."""
    held = inner(optimizer).get_config().get(RATE)
    if not isinstance(held, dict) or "class_name" not in held:
        return {}
    config = held.get("config")
    config = config if isinstance(config, dict) else {}
    plain = {name: value for name, value in config.items() if isinstance(value, (bool, int, float)) and name != "name"}
    head = f"{RATE}_schedule"
    return {head: held["class_name"], **{f"{head}.{name}": as_written(value) for name, value in plain.items()}}


def loss_weights(model: Any) -> Any:
    """The weights of several losses, as `compile` was given them: Keras keeps them with the losses."""
    held = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    return dict(held) if isinstance(held, dict) else list(held) if isinstance(held, (list, tuple)) else held


def named(one: Any) -> str | None:
    """A loss or a schedule by its name."""
    if one is None or isinstance(one, str):
        return one
    if isinstance(one, dict):
        return ", ".join(f"{key}: {named(value)}" for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return ", ".join(str(named(value)) for value in one)
    return getattr(one, "__name__", None) or getattr(one, "name", None) or type(one).__name__
