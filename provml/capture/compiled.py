"""What a Keras model was compiled with: its optimizers and their hyperparameters, schedules, and losses."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from provml.capture import mover
from provml.capture.watch import as_written

RATE = mover.RATE
SAME = {"initial_scale": "loss_scale"}
"""Keras's names of hyperparameters, where ours differ."""
PLAIN = (bool, int, float, str)
UNTOLD = {"name", "built", "dtype"}
"""What is no hyperparameter of an optimizer or a loss."""


def optimizers(model: Any) -> dict[str, Any]:
    """The optimizers of a model by what stands before the names of their hyperparameters: nothing, if it is one.

    One may hold several. A model whose training step is the user's may have its own as attributes, as GANs do: then the
    one that it was compiled with is none of them if no loss was, since that is Keras's own choice.
    """
    held = model.optimizer
    found: dict[str, Any] = {}
    for one in getattr(held, "optimizers", None) or ():
        alike = sum(one.name == other.name for other in found.values())
        found[f"{one.name}_{alike + 1}." if alike else f"{one.name}."] = one
    if found or held is None:
        return found
    own = {f"{name.strip('_')}.": one for name, one in vars(model).items() if _is_optimizer(one) and one is not held}
    is_step_own = type(model).train_step is not keras.Model.train_step
    return own if own and is_step_own and model.loss is None else {"": held, **own}


def _is_optimizer(one: Any) -> bool:
    return isinstance(one, keras.optimizers.Optimizer)


def kinds(several: dict[str, Any]) -> list[str]:
    """The names of their classes."""
    return [type(inner(one)).__name__ for one in several.values()]


def settings(optimizer: Any) -> dict[str, Any]:
    """The hyperparameters of an optimizer, with the rate as it is now."""
    does = inner(optimizer)
    values = settings(does) if does is not optimizer else {}
    plain = {name: value for name, value in _config(optimizer).items() if value is None or isinstance(value, PLAIN)}
    values |= {SAME.get(name, name): as_written(value) for name, value in plain.items() if name not in UNTOLD}
    if does is optimizer:
        values[RATE] = mover.rate(optimizer)
    return values


def _config(one: Any) -> dict[str, Any]:
    """What Keras would save of an object, or its attributes: one of the user's own need not be made to be saved."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a lambda is unsafe to load: nothing is saved here
            return dict(one.get_config())
    except Exception:
        return {name: value for name, value in vars(one).items() if not name.startswith("_")}


def inner(optimizer: Any) -> Any:
    """The optimizer that does the work: one that scales the loss for mixed precision holds another."""
    return getattr(optimizer, "inner_optimizer", None) or optimizer


def schedule(optimizer: Any) -> dict[str, Any]:
    """The schedule that is an optimizer's learning rate, and its parameters; nothing where the rate is a number."""
    held = getattr(inner(optimizer), "_learning_rate", None)
    head = f"{RATE}_schedule"
    if not isinstance(held, keras.optimizers.schedules.LearningRateSchedule):
        return {head: named(held)} if callable(held) and not hasattr(held, "assign") else {}
    told = {name: _numbers(value) for name, value in _config(held).items()}
    return {head: type(held).__name__, **{f"{head}.{name}": value for name, value in told.items() if value is not None}}


def _numbers(value: Any) -> Any:
    """A number or a few as one would write them; None for all else."""
    if isinstance(value, (list, tuple)):
        return [as_written(one) for one in value] if all(isinstance(one, (int, float)) for one in value) else None
    return as_written(value) if isinstance(value, (bool, int, float)) else None


def losses(model: Any) -> dict[str, Any]:
    """The losses by their names, and the parameters of those that are objects, as `loss.from_logits`."""
    held = model.loss
    parts = held if isinstance(held, dict) else {"": held}
    if isinstance(held, (list, tuple)):
        parts = {str(number): one for number, one in enumerate(held, 1)}
    told = {"loss": named(held)}
    for key, one in parts.items():
        said = getattr(one, "_fn_kwargs", {}) | _config(one) if isinstance(one, keras.losses.Loss) else {}
        head = f"loss.{key}." if key else "loss."
        told |= {head + name: as_written(said[name]) for name in said if _is_of_loss(name, said[name])}
    return told


def _is_of_loss(name: str, value: Any) -> bool:
    is_usual = name == "reduction" and value == "sum_over_batch_size"
    return name not in UNTOLD and isinstance(value, PLAIN) and not is_usual


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
