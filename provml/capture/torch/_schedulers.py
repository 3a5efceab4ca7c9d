"""PyTorch schedulers: whether a scheduler set a learning rate, inferred from its state before and after."""

from __future__ import annotations

import copy
import gc
from collections import Counter
from typing import Any, NamedTuple

from provml.capture._hyperparameters import is_same

STATE_KEYS = {"last_epoch", "best", "cooldown_counter", "num_bad_epochs", "mode_worse", "verbose"}
"""Keys of a scheduler's state that are not its parameters."""
RATE_KEYS = {"base_lrs", "lr_lambdas", "default_min_lr"}
"""Keys with rates of each parameter group, which are recorded as those of the optimizer, and with functions."""
LIMIT_KEYS = ("max_lr", "min_lr", "max_momentum", "base_momentum")
"""Keys of a parameter group in which OneCycleLR keeps its settings."""


class SchedulerState(NamedTuple):
    """The steps that a scheduler made, and the best value of one that waits for a plateau."""

    steps: int | None
    best: Any


def state_of(scheduler: Any) -> SchedulerState:
    """Return the current state of a scheduler."""
    return SchedulerState(getattr(scheduler, "last_epoch", None), getattr(scheduler, "best", None))


def set_rate(scheduler: Any, group: int, old: Any, new: Any, before: SchedulerState | None) -> bool:
    """Return whether a scheduler set the learning rate of a parameter group to its new value.

    A scheduler without `get_last_lr` may have done so. Most schedulers scale the rate that they find, so a rate set by
    hand looks like theirs after a step that changes nothing: their closed formula tells the two apart.
    """
    if not hasattr(scheduler, "get_last_lr"):
        return True
    rates = scheduler.get_last_lr()
    state = state_of(scheduler)
    if group >= len(rates) or not is_same(rates[group], new) or (state.steps is not None and state == before):
        return False
    if hasattr(scheduler, "num_bad_epochs"):
        return _plateau_triggered(scheduler, group, old, new, before)
    if hasattr(scheduler, "_get_closed_form_lr") and state.steps is not None:
        earlier = copy.copy(scheduler)
        earlier.last_epoch = before.steps if before is not None else state.steps - 1
        return not is_same(_formula(earlier, group), _formula(scheduler, group))
    return True


def _formula(scheduler: Any, group: int) -> Any:
    return scheduler._get_closed_form_lr()[group]


def _plateau_triggered(scheduler: Any, group: int, old: Any, new: Any, before: SchedulerState | None) -> bool:
    """Return whether a ReduceLROnPlateau just reduced the rate: it restarts counting, and no value was better."""
    min_rate = scheduler.min_lrs[group] if group < len(scheduler.min_lrs) else 0.0
    restarts = scheduler.num_bad_epochs == 0 and scheduler.cooldown_counter == scheduler.cooldown
    is_best = before is None or scheduler.best == before.best or before.steps == 0
    return bool(restarts and is_best and is_same(new, max(old * scheduler.factor, min_rate)))


def find_schedulers(optimizer: Any, kind: type) -> list[Any]:
    """Return the schedulers of an optimizer among all live objects."""
    schedulers = (item for item in gc.get_objects() if issubclass(type(item), kind))
    return [scheduler for scheduler in schedulers if getattr(scheduler, "optimizer", None) is optimizer]


def scheduler_settings(scheduler: Any) -> dict[str, Any]:
    """Return the parameters of a scheduler, such as its gamma."""
    state = scheduler.state_dict() if hasattr(scheduler, "state_dict") else {}
    return {
        name: sorted(value.elements()) if isinstance(value, Counter) else value
        for name, value in state.items()
        if not name.startswith("_")
        and name not in STATE_KEYS
        and isinstance(value, (bool, int, float, str, list, tuple, Counter))
    }


def initial_settings(scheduler: Any) -> dict[str, Any]:
    """Return the parameters of a scheduler and of the schedulers inside it, without the rates of the optimizer."""
    settings = scheduler_settings(scheduler)
    settings = {name: value for name, value in settings.items() if name not in RATE_KEYS and value != []}
    if type(scheduler).__name__ == "OneCycleLR":
        groups = scheduler.optimizer.param_groups
        limits = {key: [group.get(key) for group in groups] for key in LIMIT_KEYS}
        settings |= {key: values for key, values in limits.items() if None not in values}
    functions = getattr(scheduler, "lr_lambdas", None) or ()
    settings |= {"lr_lambdas": [_function_name(function) for function in functions]} if functions else {}
    if milestones := getattr(scheduler, "_milestones", None):
        settings["milestones"] = list(milestones)
    inner = getattr(scheduler, "_schedulers", None) or ()
    for number, part in enumerate(inner, 1):
        settings[str(number)] = type(part).__name__
        settings |= {f"{number}.{name}": value for name, value in initial_settings(part).items()}
    return settings


def _function_name(function: Any) -> str:
    return str(getattr(function, "__name__", "") or type(function).__name__)
