"""Optimizers and schedulers of PyTorch as captures see them: their hyperparameters, and who changed one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from provml.capture.recording import BY_HAND, Recording, Technique
from provml.capture.watch import is_same
from provml.content import Data

NAMES = {"lr": "learning_rate"}
"""PyTorch's names of hyperparameters, where ours differ."""
UNTOLD = {
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum",
    "foreach", "fused", "capturable", "differentiable", "maximize",
}  # fmt: skip
"""What a parameter group holds besides its hyperparameters: what schedulers leave there, and how it is carried out."""
MOVING = {"last_epoch", "best", "cooldown_counter", "num_bad_epochs", "mode_worse", "verbose"}
"""What a scheduler's state holds besides its parameters."""
WRAPPERS = ("module", "_orig_mod")
"""Where a network is kept that is distributed or compiled."""


class Optimizing(Recording):
    """A recording that knows the optimizers by name, the only one by none, and their schedulers."""

    optimizers: dict[str, Any]
    schedulers: list[Any]

    def now(self) -> dict[str, Any]:
        """The hyperparameters of all parameter groups: the first by bare name, the others with their number."""
        return {name: _held(group[key]) for name, (_, _, group, key) in self.places().items()}

    def places(self) -> dict[str, tuple[Any, int, dict[str, Any], str]]:
        """Where each hyperparameter is: its optimizer, the number of the group, the group, and the key in that."""
        found = {}
        for title, optimizer in self.optimizers.items():
            for number, group in enumerate(optimizer.param_groups):
                head = (f"{title}." if title else "") + (f"group_{number + 1}." if number else "")
                for key in group:
                    if key not in UNTOLD:
                        found[head + NAMES.get(key, key)] = (optimizer, number, group, key)
        return found

    def checkpoint(self, path: Any, known: Iterable[Data], *, read: bool) -> Data | None:
        """The checkpoint that a training goes on from: one that is known, or else a file, if it may be read."""
        ours = next((one for one in known if one.path and Path(one.path) == Path(path)), None)
        return ours or (self._foreign(str(path)) if read else None)

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter: the scheduler that says so, one that was not handed over, or a hand."""
        optimizer, number, group, key = self.places()[name]
        own = [one for one in self.schedulers if getattr(one, "optimizer", None) in (optimizer, *inner(optimizer))]
        for one in own:
            said = _rate(one, number, new) if key == "lr" else new if getattr(one, "cycle_momentum", False) else None
            if said is not None and is_same(said, new):
                return type(one).__name__, settings(one)
        return ("scheduler" if "initial_lr" in group and not own else BY_HAND), {}


def inner(optimizer: Any) -> tuple[Any, ...]:
    """The optimizer inside one that wraps it for several devices."""
    held = getattr(optimizer, "optimizer", None)
    return (held,) if hasattr(held, "param_groups") else ()


def _rate(scheduler: Any, number: int, new: Any) -> Any:
    """The rate that a scheduler last gave to a group, if it has it; one that cannot say may have given the new one."""
    if not hasattr(scheduler, "get_last_lr"):
        return new
    rates = scheduler.get_last_lr()
    return rates[number] if number < len(rates) else None


def settings(scheduler: Any) -> dict[str, Any]:
    """The parameters of a scheduler, such as its gamma."""
    state = scheduler.state_dict() if hasattr(scheduler, "state_dict") else {}
    return {
        name: value
        for name, value in state.items()
        if not name.startswith("_") and name not in MOVING and isinstance(value, (bool, int, float, str, list, tuple))
    }


def unwrapped(network: Any) -> Any:
    """The network itself, where it is distributed or compiled."""
    for name in WRAPPERS:
        held = getattr(network, name, None)
        if hasattr(held, "named_modules") and len(list(network.children())) == 1:
            return unwrapped(held)
    return network


def _held(value: Any) -> Any:
    """A value as it is now: a rate that is a tensor changes in its place."""
    if isinstance(value, (tuple, list)):
        return [_held(one) for one in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def named(one: Any) -> str | None:
    """A loss by its name."""
    if one is None or isinstance(one, str):
        return one
    return getattr(one, "__name__", None) or type(one).__name__
