"""PyTorch optimizers: their hyperparameters, when these change, and what changed them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

from provml.capture._hyperparameters import MANUAL, HyperparameterSource, Technique, shortest_float
from provml.capture.torch import _schedulers

NAMES = {"lr": "learning_rate"}
"""PyTorch's names of hyperparameters that differ from ours."""
IGNORED_KEYS = {
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum",
    "foreach", "fused", "capturable", "differentiable", "maximize",
}  # fmt: skip
"""Keys of a parameter group that are not hyperparameters: those of schedulers, and how a step is executed."""
CYCLED_KEYS = ("momentum", "betas")
"""Hyperparameters that cyclic schedulers change besides the rate."""
WRAPPER_ATTRIBUTES = ("module", "_orig_mod")
"""Attributes in which a distributed or compiled network keeps the original."""
IMMUTABLE_TYPES = (bool, int, float, str, type(None))
FastPath = tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]


class Entry(NamedTuple):
    """The place of a hyperparameter in an optimizer."""

    optimizer: Any
    group_index: int
    group: dict[str, Any]
    key: str


class OptimizerTracker(HyperparameterSource):
    """The hyperparameters of optimizers, and the schedulers that change them.

    Optimizers have names; a single one has the name "". `on_change` is called at a step before which a hyperparameter
    may have changed, or an epoch began.
    """

    # all attributes are slots: they are read at every step, after a training has evicted them from the caches
    __slots__ = (
        "_changed", "_fast_path", "_immutable", "_is_epoch_pending", "_single_group", "_states", "_undeclared",
        "on_change", "optimizers", "schedulers", "steps",
    )  # fmt: skip

    def __init__(
        self,
        optimizers: Mapping[str, Any] | None = None,
        schedulers: list[Any] | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.optimizers = dict(optimizers or {})
        self.schedulers = list(schedulers or ())
        self.on_change = on_change or _ignore
        self.steps = 0
        """Number of steps of all optimizers."""
        self._undeclared: dict[int, list[Any]] = {}
        self._states: dict[int, _schedulers.SchedulerState] = {}
        self._is_epoch_pending = False
        self._immutable = False
        self._changed: Callable[[], bool] | None = None
        """Return whether a hyperparameter was set since the last comparison; None before the first one."""
        self._fast_path: FastPath | None = None
        """The single group while no epoch is pending."""
        self._single_group: FastPath | None = None
        """For one optimizer with one group of immutable values: the list of groups, the group, a copy of its values."""

    def on_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Check the hyperparameters that a step of an optimizer uses. Called at every step."""
        self.steps += 1
        fast_path = self._fast_path
        try:
            if fast_path is not None:
                groups, group, values = fast_path
                if group == values and optimizer.param_groups is groups and len(groups) == 1 and groups[0] is group:
                    return
            elif not self._is_epoch_pending and self._changed is not None and not self._changed():
                return
        except Exception:  # values that cannot be compared may have changed
            pass
        self.on_change()

    # ---- a source of hyperparameters

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of all groups; those of the second group begin with "group_2."."""
        return {name: _plain_value(entry.group[entry.key]) for name, entry in self.entries().items()}

    def entries(self) -> dict[str, Entry]:
        """Return the place of each hyperparameter by its name."""
        entries = {}
        for name, optimizer in self.optimizers.items():
            for index, group in enumerate(optimizer.param_groups):
                prefix = (f"{name}." if name else "") + (f"group_{index + 1}." if index else "")
                for key in group:
                    if key not in IGNORED_KEYS:
                        entries[prefix + NAMES.get(key, key)] = Entry(optimizer, index, group, key)
        return entries

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter: a scheduler ("scheduler" if it was not passed), or MANUAL."""
        optimizer, group, _, key = self.entries()[name]
        wrapped = (optimizer, *wrapped_optimizer(optimizer))
        declared = [scheduler for scheduler in self.schedulers if getattr(scheduler, "optimizer", None) in wrapped]
        for scheduler in declared:
            is_cycled = key in CYCLED_KEYS and getattr(scheduler, "cycle_momentum", False)
            if is_cycled or (key == "lr" and self._set_rate(scheduler, group, old, new)):
                return type(scheduler).__name__, _schedulers.scheduler_settings(scheduler)
        if declared or key != "lr":
            return MANUAL, {}
        if any(self._set_rate(scheduler, group, old, new) for scheduler in self._undeclared_of(optimizer)):
            return "scheduler", {}
        return MANUAL, {}

    def _set_rate(self, scheduler: Any, group: int, old: Any, new: Any) -> bool:
        return _schedulers.set_rate(scheduler, group, old, new, self._states.get(id(scheduler)))

    def _undeclared_of(self, optimizer: Any) -> list[Any]:
        """Return the schedulers of an optimizer that were not passed to the capture, searched once per training."""
        torch = sys.modules["torch"]
        if id(optimizer) not in self._undeclared:
            kind = torch.optim.lr_scheduler.LRScheduler
            wrapped = (optimizer, *wrapped_optimizer(optimizer))
            self._undeclared[id(optimizer)] = [
                scheduler for item in wrapped for scheduler in _schedulers.find_schedulers(item, kind)
            ]
        return self._undeclared[id(optimizer)]

    def may_have_changed(self) -> bool:
        """Return False if no hyperparameter was set; a tensor may change in place without being set."""
        return self._changed is None or not self._immutable or self._changed()

    def is_check_due(self, watches_batches: bool) -> bool:
        """Return whether a hyperparameter may have been set since the last comparison."""
        return watches_batches and (self._changed is None or self._changed())

    def on_training_begin(self) -> None:
        """Forget the state of the training before."""
        self._undeclared = {}
        self._changed = self._fast_path = self._single_group = None
        self._snapshot_schedulers()

    def on_epoch_deferred(self) -> None:
        """Leave the fast path until the epoch is recorded."""
        self._is_epoch_pending = True
        self._fast_path = None

    def on_compared(self) -> None:
        """Remember the values that were compared."""
        self._changed, self._immutable = make_change_check(self.optimizers), all_immutable(self.optimizers)
        self._single_group = single_group(self.optimizers)

    def on_checked(self) -> None:
        """Use the fast path from now on; remember the state of the schedulers."""
        self._is_epoch_pending = False
        self._fast_path = self._single_group
        self._snapshot_schedulers()

    def _snapshot_schedulers(self) -> None:
        undeclared = [scheduler for schedulers in self._undeclared.values() for scheduler in schedulers]
        self._states = {id(scheduler): _schedulers.state_of(scheduler) for scheduler in (*self.schedulers, *undeclared)}


def _ignore() -> None:
    pass


# ---- steps


def register_step_hook(optimizer: Any, on_step: Callable[..., None]) -> Any:
    """Call `on_step` at each step of an optimizer; return a handle that removes the hook.

    The steps of PyTorch's own optimizers set no hyperparameter. They are checked afterwards, which is faster, and
    before the hooks of others, which may set values for the next step.
    """
    for candidate in (optimizer, *wrapped_optimizer(optimizer)):
        module = getattr(getattr(type(candidate), "step", None), "__module__", None) or ""
        is_from_torch = module.startswith("torch.optim.")
        try:
            register = candidate.register_step_post_hook if is_from_torch else candidate.register_step_pre_hook
            handle = register(on_step)
        except AttributeError:  # a wrapper; the steps are those of the wrapped optimizer
            continue
        if is_from_torch and hasattr(candidate, "_optimizer_step_post_hooks"):
            candidate._optimizer_step_post_hooks.move_to_end(handle.id, last=False)
        return handle
    raise TypeError(f"{type(optimizer).__name__} calls no hook at its steps: changes are recorded once per epoch")


# ---- checks for changes


def make_change_check(optimizers: Mapping[str, Any]) -> Callable[[], bool]:
    """Return a function that tells whether a hyperparameter was set since, even to the same value.

    It is called at every step, so it reads as little as possible.
    """
    counts = [(optimizer, optimizer.param_groups, len(optimizer.param_groups)) for optimizer in optimizers.values()]
    snapshots, versions = [], []
    for _, groups, _ in counts:
        for index, group in enumerate(groups):
            snapshots.append((groups, index, group, snapshot(group)))
            tensors = [value for key, value in group.items() if key not in IGNORED_KEYS and hasattr(value, "_version")]
            versions += [(tensor, tensor._version) for tensor in tensors]  # tensors are changed in place

    def has_changed() -> bool:
        try:
            for optimizer, groups, count in counts:
                if optimizer.param_groups is not groups or len(groups) != count:
                    return True
            for groups, index, group, values in snapshots:
                if groups[index] is not group or group != values:
                    return True
            return any(tensor._version != version for tensor, version in versions) if versions else False
        except Exception:  # values that cannot be compared may have changed
            return True

    return has_changed


def single_group(optimizers: Mapping[str, Any]) -> FastPath | None:
    """Return the groups, the group and a copy of its values if there is one optimizer with one group and no tensors."""
    groups = [
        (item.param_groups, group, snapshot(group)) for item in optimizers.values() for group in item.param_groups
    ]
    if len(groups) != 1 or len(optimizers) != 1 or any(hasattr(value, "_version") for value in groups[0][1].values()):
        return None
    return groups[0]


def all_immutable(optimizers: Mapping[str, Any]) -> bool:
    """Return whether no hyperparameter can change in place."""
    groups = [group for optimizer in optimizers.values() for group in optimizer.param_groups]
    values = [value for group in groups for key, value in group.items() if key not in IGNORED_KEYS]
    items = [item for value in values for item in (value if type(value) is tuple else (value,))]
    return all(type(item) in IMMUTABLE_TYPES for item in items)


def snapshot(group: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a group to compare with later; lists, dictionaries and arrays are copied."""
    return {
        key: copy(value) if key not in IGNORED_KEYS and _is_mutable(value) else value for key, value in group.items()
    }


def _is_mutable(value: Any) -> bool:
    return isinstance(value, (list, dict)) or hasattr(value, "tobytes")


# ---- wrappers and values


def wrapped_optimizer(optimizer: Any) -> tuple[Any, ...]:
    """Return the optimizer inside a wrapper for several devices, if there is one."""
    inner = getattr(optimizer, "optimizer", None)
    return (inner,) if hasattr(inner, "param_groups") else ()


def unwrap_network(network: Any) -> Any:
    """Return the original of a distributed or compiled network."""
    for name in WRAPPER_ATTRIBUTES:
        inner = getattr(network, name, None)
        if hasattr(inner, "named_modules") and len(list(network.children())) == 1:
            return unwrap_network(inner)
    return network


def _plain_value(value: Any) -> Any:
    """Return a copy of a value without tensors; a tensor may change in place."""
    if isinstance(value, (tuple, list)):
        return [_plain_value(item) for item in value]
    if not hasattr(value, "item") or getattr(value, "ndim", 1) != 0:
        return value
    is_float32 = str(getattr(value, "dtype", "")).endswith("float32")
    return shortest_float(value.item()) if is_float32 else value.item()


def name_of(loss: Any) -> str | None:
    """Return the name of a loss."""
    if loss is None or isinstance(loss, str):
        return loss
    return getattr(loss, "__name__", None) or type(loss).__name__
