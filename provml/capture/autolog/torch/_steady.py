"""The short path of the observer, for steps of which everything is known: loader, optimizer, and what an epoch is.

A batch of a training evicts the code of the observer from the caches of the processor. Every function that is called
for a batch then takes several times as long as in a loop of its own. So a steady loop calls few functions, and its
steps are numbers in columns until they are recorded. Whatever else happens leaves this path: the observer goes on as if
there were none, with the last step still open.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any

from provml.capture.autolog._loop_capture import MAX_ROWS
from provml.capture.autolog._timeline import Pass
from provml.capture.autolog.torch._losses import Mirror

MAX_STEPS, MAX_SECONDS = 256, 1.0
"""Steps are handed on after this number or time, if their losses are in main memory."""
MAX_MISSES = 3
"""A loop that left the path this often, each time after less than two steps, is not steady."""


class SteadyLoop:
    """The steps of a loop since it became steady."""

    # all attributes are slots: they are read at every step
    __slots__ = (
        "_groups",
        "_on_due",
        "_values",
        "batches",
        "deadline",
        "ends",
        "is_stepping",
        "iterator",
        "losses",
        "mirror",
        "misses",
        "optimizer",
        "pending",
        "source",
        "step_batch",
        "steps",
        "thread",
        "used_batch",
    )  # fmt: skip

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self.misses = 0
        self.clear()

    def clear(self) -> None:
        """Leave the path."""
        self.thread = 0
        """The thread whose loop is steady; 0 if none is."""
        self.source: Pass | None = None
        """The pass over the loader; None if no loop is steady."""
        self.iterator: Any = None
        self.optimizer: Any = None
        """References to the iterator of the pass, and to the only optimizer."""
        self.mirror: Any = None
        self.batches = self.used_batch = self.step_batch = self.steps = 0
        """Batches of the pass since it is steady; those before the last backward pass, and before the last step."""
        self.is_stepping = False
        self.pending: Any = None
        """The loss of a backward pass that is being made."""
        self.losses: list[Any] = []
        """The loss of each step: a number, a tensor that is not in main memory, or a list of several."""
        self.ends: list[float] = []
        self.deadline = 0.0
        self._groups: Any = None
        self._values: list[dict[str, Any]] = []

    def enter(self, source: Pass, iterator: Any, optimizer: Any, mirror: Mirror) -> None:
        """Begin with an optimizer that has just made a step."""
        self.source, self.iterator, self.mirror, self.optimizer = source, iterator, mirror, mirror.optimizer
        self._groups, self._values = optimizer.param_groups, mirror.values
        self.deadline = perf_counter() + MAX_SECONDS
        self.thread = get_ident()

    def add_step(self, optimizer: Any) -> bool:
        """Add a step that the optimizer has made; return False if it is not like the ones before."""
        losses, groups, ends = self.mirror.losses, optimizer.param_groups, self.ends
        try:
            if not losses or groups is not self._groups or groups != self._values:
                return False
        except Exception:  # values that cannot be compared may have changed
            return False
        ended, is_number = perf_counter(), type(losses[0]) is float
        self.losses.append(losses[0] if len(losses) == 1 else losses[:])
        ends.append(ended)
        losses.clear()
        self.step_batch = self.batches
        if (is_number and (ended > self.deadline or len(ends) >= MAX_STEPS)) or len(ends) >= MAX_ROWS:
            self._on_due()
        return True

    def take(self) -> tuple[list[Any], list[float]]:
        """Return the losses and the ends of the steps, and forget them."""
        taken = self.losses, self.ends
        self.losses, self.ends = [], []
        self.steps += len(taken[1])
        self.deadline = perf_counter() + MAX_SECONDS
        return taken
