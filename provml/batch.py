"""Batches: a batch while it is worked on, and the sections that have some. A training says these verbs most often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from provml.event import Batch, Measured

if TYPE_CHECKING:
    from provml.recorder import Recorder
    from provml.slate import Slate


class BatchNow:
    """A batch while it is worked on: on the slate where that is to be had, else an event for all that is said of it."""

    __slots__ = ("_began", "_closed", "_row", "_section", "_slate", "data", "index")

    def __init__(self, section: Batched, index: int, data: Any, told: bool) -> None:
        self.index = index
        self.data = data
        self._section = section
        self._closed = not told
        self._row = 0
        if told:
            slate = section.slate or section.claim()
            if slate is not None:
                self._slate = slate
                try:
                    self._row = slate.begin(self, index)
                except ValueError:  # given up
                    section.slate = None
                except Exception as error:
                    section.run.fault(error)
        self._began = perf_counter()

    @property
    def run(self) -> Recorder:
        """The run that it is recorded in."""
        return self._section.run

    @property
    def at(self) -> str:
        """Its place in the run."""
        return f"{self._section.at}/{self.index}"

    def measured(self, /, **values: Any) -> None:
        """Measures of this batch."""
        if self._closed:
            return
        held = values
        for value in values.values():
            if value.__class__ is not float and value.__class__ is not int:
                held = self.run.measures(values)
                break
        if self._row:
            try:
                if self._slate.measured(self, self._row, held):
                    return
            except ValueError:
                self._row = 0
        if held is values:
            held = self.run.measures(values)  # not each of them can be told as it is
        if held:
            self.run.tell(Measured(self.at, held))

    def done(self, *, ago: float = 0.0) -> None:
        """The batch ended, now or some seconds ago."""
        if self._closed:
            return
        self._closed = True
        now = perf_counter()
        if self._row:
            try:
                self._slate.end(self, self._row, time() - ago, now - self._began - ago, now)
                return
            except ValueError:
                self._row = 0
        self.run.tell(Batch(self.at, time() - ago, now - self._began - ago))


class Batched:
    """A section with batches; while it has the slate, it is its latest batches that stand there."""

    __slots__ = ("_every", "_left", "_left_at", "at", "run", "slate")

    def __init__(self, run: Recorder, at: str) -> None:
        self.run = run
        self.at = at
        self.slate: Slate | None = None
        self._every = run.every if not run.off and run.detail == "batch" else 0
        self._left: BatchNow | None = None
        self._left_at = 0.0

    def batches(self, loader: Iterable[Any], *, first: int = 1) -> Iterator[BatchNow]:
        """The batches of a loader: `for batch in epoch.batches(loader):`, each with its `data`."""
        every = self._every
        self._settle()
        for index, data in enumerate(loader, first):
            batch = BatchNow(self, index, data, bool(every) and (index - first) % every == 0)
            try:
                yield batch
            except GeneratorExit:
                self._left, self._left_at = batch, perf_counter()
                raise
            batch.done()
        if self.slate is not None and self.slate.is_mine():
            self.free()

    def batch(self, index: int) -> BatchNow:
        """One batch, counted from 1 and ended by `done`; those that `detail` and `every` leave out are not told."""
        every = self._every
        return BatchNow(self, index, None, bool(every) and (index - 1) % every == 0)

    def _settle(self, error: BaseException | None = None) -> None:
        """A loop over batches was left in the middle: the last batch ended, unless by an error."""
        left, self._left = self._left, None
        if left is not None and error is None:
            left.done(ago=perf_counter() - self._left_at)

    def claim(self) -> Slate | None:
        """Have the slate, if nobody else has it now."""
        try:
            self.slate = self.run.slate(self.at)
        except Exception as error:
            self.run.fault(error)
        return self.slate

    def free(self) -> None:
        """Have all batches told, and leave the slate to others."""
        slate, self.slate = self.slate, None
        if slate is not None and slate.at == self.at:
            try:
                slate.free()
            except Exception as error:
                self.run.fault(error)
