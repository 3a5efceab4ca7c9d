"""Which losses an optimizer minimizes: a mirror of the gradients that its parameters have.

A backward pass adds its loss to each optimizer whose parameters it reached, `zero_grad` forgets the losses, and a step
takes their sum. So the loss of a generator, which reaches the discriminator as well, is not counted there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from provml.capture.torch._optimizers import snapshot

MAX_LOSSES = 64
"""Losses that are kept for one step: a loop that accumulates more has no loss that could be reported."""


class Mirror:
    """The losses in the gradients of an optimizer, and the parameters by which that is recognized."""

    def __init__(self, optimizer: Any, on_death: Callable[[], object]) -> None:
        self.optimizer = weakref.ref(optimizer, lambda dead: on_death())
        self.losses: list[Any] = []
        self.is_stepping = False
        """Whether a step is being made: what happens inside is the optimizer's own evaluation of the loss."""
        self.has_taken = False
        """Whether a step inside of a backward pass has taken its loss already."""
        self.closures = 0
        self.has_hooks = False
        """Whether a hook showed a step. None does if the compiler made the step a part of a graph."""
        self._versions: list[int] = []
        parameters = [item for group in optimizer.param_groups for item in group["params"] if item.requires_grad]
        positions = sorted({0, len(parameters) // 2, len(parameters) - 1}) if parameters else []
        self._probes = [weakref.ref(parameters[position]) for position in positions]
        self._groups: Any = None
        self._snapshots: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._tensors: list[tuple[Any, int]] = []

    @property
    def values(self) -> list[dict[str, Any]]:
        """The hyperparameters of each group at the last `watch`."""
        return [values for _, values in self._snapshots]

    @property
    def has_tensors(self) -> bool:
        """Whether a hyperparameter is a tensor, which may change in place."""
        return bool(self._tensors)

    def watch(self, optimizer: Any) -> None:
        """Remember the hyperparameters of the optimizer, as long as it lives."""
        self._groups = optimizer.param_groups
        self._snapshots = [(group, snapshot(group)) for group in self._groups]
        self._tensors = [
            (value, value._version) for group in self._groups for value in group.values() if hasattr(value, "_version")
        ]

    def has_changed(self, optimizer: Any) -> bool:
        """Return whether a hyperparameter may have been set since `watch`. It is called at every step."""
        groups = optimizer.param_groups
        if groups is not self._groups or len(groups) != len(self._snapshots):
            return True
        try:
            for group, (watched, values) in zip(groups, self._snapshots, strict=True):
                if group is not watched or group != values:
                    return True
            return any(tensor._version != version for tensor, version in self._tensors) if self._tensors else False
        except Exception:  # values that cannot be compared may have changed
            return True

    def state(self) -> list[Any]:
        """Return what a backward pass changes if it reaches the optimizer."""
        state: list[Any] = []
        for probe in self._probes:
            parameter = probe()
            gradient = parameter.grad if parameter is not None else None
            state += (id(gradient), gradient._version) if gradient is not None else (0, 0)
        return state

    def take_new_weights(self) -> bool:
        """Return whether weights have changed since the last backward pass, or since the last call."""
        before, self._versions = self._versions, self._weight_versions()
        return bool(before) and before != self._versions

    def _weight_versions(self) -> list[int]:
        return [parameter._version for probe in self._probes if (parameter := probe()) is not None]

    def holds(self, identities: set[int]) -> bool:
        """Return whether the parameters are among these objects."""
        return any(id(probe()) in identities for probe in self._probes)

    def add(self, losses: list[Any]) -> None:
        """Add the losses of a backward pass; of those inside a step, the first counts."""
        if self.is_stepping:
            self.closures += 1
            if self.closures > 1:
                return
            self.losses = []
        self.losses += losses
        if len(self.losses) > MAX_LOSSES:
            self.losses = []

    def add_unless_taken(self, losses: list[Any]) -> None:
        """Add the losses of a backward pass that has ended."""
        if self.has_taken:
            self.has_taken = False
        else:
            self.add(losses)
            if not self.has_hooks:
                self._versions = self._weight_versions()

    def clear(self) -> None:
        """Forget the losses: the gradients were set to zero."""
        if not self.is_stepping:
            self.losses = []

    def take(self) -> tuple[list[Any], int]:
        """Return the losses of a step and the number of evaluations inside it."""
        losses, closures = self.losses, self.closures
        self.losses, self.closures, self.is_stepping = [], 0, False
        return losses, closures
