"""Optimizers and schedulers of PyTorch as captures see them: their hyperparameters, and who changed one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any

from provml.capture import scheduler
from provml.capture.recording import BY_HAND, Recording, Technique
from provml.capture.watch import as_written
from provml.content import Data
from provml.sections import Stage

NAMES = {"lr": "learning_rate"}
"""PyTorch's names of hyperparameters, where ours differ."""
UNTOLD = {
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum",
    "foreach", "fused", "capturable", "differentiable", "maximize",
}  # fmt: skip
"""What a parameter group holds besides its hyperparameters: what schedulers leave there, and how it is carried out."""
CYCLED = ("momentum", "betas")
"""What schedulers that go in cycles change besides the rate."""
WRAPPERS = ("module", "_orig_mod")
"""Where a network is kept that is distributed or compiled."""
PLAIN = (bool, int, float, str, type(None))
"""What cannot change in its place."""
Only = tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]


class Optimizing(Recording):
    """A recording that knows the optimizers by name, the only one by none, and their schedulers."""

    optimizers: dict[str, Any]
    schedulers: list[Any]
    _glance: Callable[[], bool] | None = None
    """Tells whether a hyperparameter was set since the last look; None before the first of a training."""
    _only: Only | None = None
    _usual: Only | None = None
    """What a step compares with in the usual case, as long as no epoch waits to be told; and what it was."""
    _is_plain = False
    """Whether a glance at the hyperparameters misses nothing: a tensor may change in its place unseen."""
    _standing: Mapping[int, scheduler.Standing] = MappingProxyType({})
    _hidden: dict[int, list[Any]]

    def moved(self) -> bool:
        """Whether a hyperparameter of an optimizer may be other than at the last look: a step asks this each time."""
        return self.watches_batches and (self._glance is None or self._glance())

    def expect_epoch(self, index: int) -> None:
        """An epoch begins, and is told when there is something to tell of it."""
        super().expect_epoch(index)
        self._only = None

    def look(self, *, during: int | None = None) -> None:
        """Tell what has changed, and remember how the optimizers and their schedulers stand."""
        if self.stage is None:
            return
        if self._glance is None or not self._is_plain or self._glance():
            super().look(during=during)
            self._glance, self._is_plain = glance(self.optimizers), is_plain(self.optimizers)
            self._usual = only(self.optimizers) if self.watches_batches else None
        self._only = self._usual
        self._note()

    def begin_training(self, values: Mapping[str, Any], **said: Any) -> Stage:
        """Begin a training stage."""
        self._hidden = {}
        self._glance = self._only = self._usual = None
        self._note()
        return super().begin_training(values, **said)

    def _note(self) -> None:
        several = [*self.schedulers, *(one for held in self._hidden.values() for one in held)]
        self._standing = {id(one): scheduler.standing(one) for one in several}

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

    def checkpoint(self, path: Any, *, read: bool) -> Data | None:
        """The checkpoint that a training goes on from: one that is known, or else a file, if it may be read."""
        return self.found(path) if read else self.known(path)

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter: the scheduler that says so, one that was not handed over, or a hand."""
        optimizer, number, _, key = self.places()[name]
        own = [one for one in self.schedulers if getattr(one, "optimizer", None) in (optimizer, *inner(optimizer))]
        for one in own:
            before = self._standing.get(id(one))
            is_cycled = key in CYCLED and getattr(one, "cycle_momentum", False)
            if is_cycled or (key == "lr" and scheduler.wrote(one, number, old, new, before)):
                return type(one).__name__, scheduler.settings(one)
        if own or key != "lr":
            return BY_HAND, {}
        for one in self._others(optimizer):
            if scheduler.wrote(one, number, old, new, self._standing.get(id(one))):
                return "scheduler", {}
        return BY_HAND, {}

    def _others(self, optimizer: Any) -> list[Any]:
        """The schedulers of an optimizer that were not handed over; they are looked for once a training."""
        torch = sys.modules["torch"]
        if id(optimizer) not in self._hidden:
            kind = torch.optim.lr_scheduler.LRScheduler
            several = (optimizer, *inner(optimizer))
            self._hidden[id(optimizer)] = [one for held in several for one in scheduler.hidden(held, kind)]
        return self._hidden[id(optimizer)]


def hooked(optimizer: Any, on_step: Callable[..., None]) -> Any:
    """Have each step of an optimizer looked at, with what it used; what is given back removes that.

    Where the step is PyTorch's own, which sets no hyperparameter, it is looked at when it is over: that takes less time
    than before it. What others have hooked there comes later, for it may set what the next step uses.
    """
    for one in (optimizer, *inner(optimizer)):
        made_in = getattr(getattr(type(one), "step", None), "__module__", None) or ""
        is_own = made_in.startswith("torch.optim.")
        try:
            handle = one.register_step_post_hook(on_step) if is_own else one.register_step_pre_hook(on_step)
        except AttributeError:  # it is around another, and its steps are those of that
            continue
        if is_own and hasattr(one, "_optimizer_step_post_hooks"):
            one._optimizer_step_post_hooks.move_to_end(handle.id, last=False)  # as the hooks of a module are prepended
        return handle
    raise TypeError(f"{type(optimizer).__name__} calls no hook at its steps: what it changes is seen once an epoch")


def is_of_step(error: BaseException | None, optimizers: Collection[Any]) -> bool:
    """Whether an error came from within a step of one of the optimizers, be it told as another error since."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # errors that were set as the context of each other go in a ring
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_code.co_name == "step" and any(frame.f_locals.get("self") is one for one in optimizers):
                return True
        error = error.__context__
    return False


def glance(optimizers: dict[str, Any]) -> Callable[[], bool]:
    """What tells whether a hyperparameter of the optimizers has been set since, be it to the same value.

    It is asked at every step, so it looks at as little as there may be.
    """
    several = [(one, one.param_groups, len(one.param_groups)) for one in optimizers.values()]
    values, tensors = [], []
    for _, groups, _ in several:
        for number, group in enumerate(groups):
            values.append((groups, number, group, _kept(group)))
            held = [value for key, value in group.items() if key not in UNTOLD and hasattr(value, "_version")]
            tensors += [(one, one._version) for one in held]  # one is changed in its place

    def is_other() -> bool:
        try:
            for one, groups, count in several:
                if one.param_groups is not groups or len(groups) != count:
                    return True
            for groups, number, group, were in values:
                if groups[number] is not group or group != were:
                    return True
            return any(one._version != version for one, version in tensors) if tensors else False
        except Exception:  # what cannot be compared may be another
            return True

    return is_other


def only(optimizers: dict[str, Any]) -> Only | None:
    """All that there is to look at, in the usual case: the groups, the only one of them, and what it holds now."""
    held = [(one.param_groups, group, _kept(group)) for one in optimizers.values() for group in one.param_groups]
    is_usual = len(held) == len(optimizers) == 1 and not any(hasattr(one, "_version") for one in held[0][1].values())
    return held[0] if is_usual else None


def is_plain(optimizers: dict[str, Any]) -> bool:
    """Whether all hyperparameters are such as cannot change in their place."""
    groups = [group for one in optimizers.values() for group in one.param_groups]
    held = [value for group in groups for key, value in group.items() if key not in UNTOLD]
    return all(type(one) in PLAIN for value in held for one in (value if type(value) is tuple else (value,)))


def _kept(group: dict[str, Any]) -> dict[str, Any]:
    """What a group holds now, to compare with later; a list or an array of its values may be changed in its place."""
    return {key: copy(one) if key not in UNTOLD and _may_change(one) else one for key, one in group.items()}


def _may_change(value: Any) -> bool:
    return isinstance(value, (list, dict)) or hasattr(value, "tobytes")


def inner(optimizer: Any) -> tuple[Any, ...]:
    """The optimizer inside one that wraps it for several devices."""
    held = getattr(optimizer, "optimizer", None)
    return (held,) if hasattr(held, "param_groups") else ()


def unwrapped(network: Any) -> Any:
    """The network itself, where it is distributed or compiled."""
    for name in WRAPPERS:
        held = getattr(network, name, None)
        if hasattr(held, "named_modules") and len(list(network.children())) == 1:
            return unwrapped(held)
    return network


def _held(value: Any) -> Any:
    """A value as it is now, and as one would write it: a rate that is a tensor changes in its place."""
    if isinstance(value, (tuple, list)):
        return [_held(one) for one in value]
    if not hasattr(value, "item") or getattr(value, "ndim", 1) != 0:
        return value
    is_32_bits = str(getattr(value, "dtype", "")).endswith("float32")
    return as_written(value.item()) if is_32_bits else value.item()


def named(one: Any) -> str | None:
    """A loss by its name."""
    if one is None or isinstance(one, str):
        return one
    return getattr(one, "__name__", None) or type(one).__name__
