"""A batch while it is worked on: the verbs that a training says most often, so they take the least time."""

from __future__ import annotations

from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from provml.event import Batch, Measured

if TYPE_CHECKING:
    from provml.sections import Epoch


class BatchNow:
    """A batch while it is worked on."""

    __slots__ = ("_began", "_closed", "at", "data", "index", "run")

    def __init__(self, epoch: Epoch, index: int, data: Any, told: bool) -> None:
        self.run = epoch.run
        self.index = index
        self.data = data
        self._closed = not told
        self.at = f"{epoch.at}/{index}"
        self._began = perf_counter()

    def measured(self, /, **values: Any) -> None:
        """Measures of this batch."""
        if self._closed:
            return
        run = self.run
        for value in values.values():
            if value.__class__ is not float or value - value != 0.0:
                values = run.measures(values)
                break
        if values:
            run.tell(Measured(self.at, values))

    def done(self, *, ago: float = 0.0) -> None:
        """The batch ended, now or some seconds ago."""
        if not self._closed:
            self._closed = True
            self.run.tell(Batch(self.at, time() - ago, perf_counter() - self._began - ago))
