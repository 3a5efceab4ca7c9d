"""Schedulers of PyTorch: which of them wrote a value, told by their own state before and after."""

from __future__ import annotations

import copy
import gc
from typing import Any, NamedTuple

from provml.capture.watch import is_same

MOVING = {"last_epoch", "best", "cooldown_counter", "num_bad_epochs", "mode_worse", "verbose"}
"""What a scheduler's state holds besides its parameters."""


class Standing(NamedTuple):
    """How far a scheduler was; those that wait for a plateau also say what was best."""

    steps: int | None
    best: Any


def standing(scheduler: Any) -> Standing:
    """How far it is now."""
    return Standing(getattr(scheduler, "last_epoch", None), getattr(scheduler, "best", None))


def wrote(scheduler: Any, number: int, old: Any, new: Any, before: Standing | None) -> bool:
    """Whether a scheduler set the rate of a group to what it is; one that cannot say what it did last may have.

    Most take the rate as they find it and then scale it, so that what a hand set looks like theirs after a step that
    changes nothing: their formula says whether it did.
    """
    if not hasattr(scheduler, "get_last_lr"):
        return True
    rates = scheduler.get_last_lr()
    now = standing(scheduler)
    if number >= len(rates) or not is_same(rates[number], new) or (now.steps is not None and now == before):
        return False
    if hasattr(scheduler, "num_bad_epochs"):
        return _fell(scheduler, number, old, new, before)
    if hasattr(scheduler, "_get_closed_form_lr") and now.steps is not None:
        earlier = copy.copy(scheduler)
        earlier.last_epoch = before.steps if before is not None else now.steps - 1
        return not is_same(_formula(earlier, number), _formula(scheduler, number))
    return True


def _formula(scheduler: Any, number: int) -> Any:
    return scheduler._get_closed_form_lr()[number]


def _fell(scheduler: Any, number: int, old: Any, new: Any, before: Standing | None) -> bool:
    """Whether one that waits for a plateau has just found it: it counts anew, and nothing was better."""
    least = scheduler.min_lrs[number] if number < len(scheduler.min_lrs) else 0.0
    counts_anew = scheduler.num_bad_epochs == 0 and scheduler.cooldown_counter == scheduler.cooldown
    is_best = before is None or scheduler.best == before.best or before.steps == 0
    return bool(counts_anew and is_best and is_same(new, max(old * scheduler.factor, least)))


def hidden(optimizer: Any, kind: type) -> list[Any]:
    """The schedulers of an optimizer that nobody handed over."""
    found = (one for one in gc.get_objects() if issubclass(type(one), kind))
    return [one for one in found if getattr(one, "optimizer", None) is optimizer]


def settings(scheduler: Any) -> dict[str, Any]:
    """The parameters of a scheduler, such as its gamma."""
    state = scheduler.state_dict() if hasattr(scheduler, "state_dict") else {}
    return {
        name: value
        for name, value in state.items()
        if not name.startswith("_") and name not in MOVING and isinstance(value, (bool, int, float, str, list, tuple))
    }
