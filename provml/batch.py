"""Batches: a batch while it is worked on, and the sections that have some. A training says these verbs most often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

from provml.content import measures
from provml.event import Batch, Measured
from provml.slate import ENDED, SECONDS, TOLD, VALUES

if TYPE_CHECKING:
    from provml.recorder import Recorder
    from provml.slate import Slate


class BatchNow:
    """A batch while it is worked on: on the slate where that is to be had, else an event for all that is said of it.

    While it is the one that is now on a slate, that knows its index and when it began: it may stand for each of a loop.
    """

    __slots__ = ("_section", "began", "closed", "data", "index", "slate")

    def __init__(self, section: Batched, index: int, data: Any, slate: Slate | None, closed: bool) -> None:
        self.index = index
        self.data = data
        self._section = section
        self.slate = slate
        self.closed = closed
        self.began = perf_counter()

    def __getstate__(self) -> object:
        """A copy has no slate, and knows by itself what that knows of it."""
        slate = self.slate
        if slate is not None and slate.now is self:
            self.index, self.began = slate.index, slate.began
        return super().__getstate__()

    @property
    def run(self) -> Recorder:
        """The run that it is recorded in."""
        return self._section.run

    @property
    def at(self) -> str:
        """Its place in the run."""
        slate = self.slate
        index = slate.index if slate is not None and slate.now is self else self.index
        return f"{self._section.at}/{index}"

    def measured(self, /, **values: Any) -> None:
        """Measures of this batch."""
        slate = self.slate
        if slate is not None and slate.now is self:
            try:  # as a rule it is one number, which is said with every batch, and so in as few steps as there may be
                if not slate.told and len(values) == 1 and type(value := values.get(slate.only)) is float:
                    row, view = slate.row, slate.view
                    view[row + VALUES] = value
                    view[row + TOLD] = slate.told = 1
                    return
            except IndexError:  # no row: a signal's handler measures, as rows are told
                pass
            if slate.measured(values):
                return
        for error in self.take(values)[1]:
            self.run.fault(error)

    def take(self, values: dict[str, Any]) -> tuple[bool, list[Exception]]:
        """Measures that the slate cannot take as they are; whether it could when they were made plain, and what is
        wrong with those that are none."""
        if self.closed:
            return False, []
        held, wrong = measures(values)
        slate = self.slate
        if slate is not None and slate.now is self and slate.measured(held):
            return True, wrong
        if held:
            self.run.tell(Measured(self.at, held))
        return False, wrong

    def done(self, *, ago: float = 0.0) -> None:
        """The batch ended, now or some seconds ago."""
        if self.closed:
            return
        self.closed = True
        slate = self.slate
        if slate is not None and slate.now is self:
            slate.end(ago)
        else:
            self.run.tell(Batch(self.at, time() - ago, perf_counter() - self.began - ago))

    def left(self) -> None:
        """Its loop goes on no more for now: it ends, unless it has, and the next was just asked for."""
        slate = self.slate
        if slate is not None and slate.now is self and not slate.has_begun:
            self._section.free()
        else:
            self.done()


class Handed(Protocol):
    """Whoever is handed each batch of a loop while it is worked on, and tells of it."""

    run: Recorder
    batch: BatchNow | None
    slate: Slate | None
    """Where its row is, if it has one: there it is the one that is now."""

    @property
    def epoch(self) -> Batched | None:
        """The section that batches belong to now; None where there is none yet, or no more."""

    def begun(self, loader: Any) -> Batched | None:
        """The section of a loader's batches, now that the first has come, or another section; None: of none."""

    def broke_off(self, batch: BatchNow) -> None:
        """The loop was left in the middle of this batch."""


class Batched:
    """A section with batches; while it has the slate, it is its latest batches that stand there."""

    __slots__ = ("_every", "_left", "_left_at", "_slate", "at", "run", "totals")

    def __init__(self, run: Recorder, at: str) -> None:
        self.run = run
        self.at = at
        self._every = run.every if not run.off and run.detail == "batch" else 0
        self._left: BatchNow | None = None
        self._left_at = 0.0
        self._slate: Slate | None = None
        self.totals: dict[str, list[float]] = {}

    def batches(self, loader: Iterable[Any], *, first: int = 1) -> Iterator[BatchNow]:
        """The batches of a loader: `for batch in epoch.batches(loader):`, each with its `data`."""
        self._settle()
        every, slate = self._every, None
        for index, data in enumerate(loader, first):
            told = every == 1 or (every > 1 and (index - first) % every == 0)
            if told and (slate is None or slate.owner is not self):
                slate = self.claim()
            batch = BatchNow(self, index, data, slate, not told)
            if told and slate is not None:
                slate.begin(batch, index)
            try:
                yield batch
            except GeneratorExit:
                self._left, self._left_at = batch, perf_counter()
                raise
            if slate is not None and slate.now is batch and not batch.closed:  # as `done` does it
                batch.closed = True
                slate.end()
            else:
                batch.done()
        if slate is not None:
            self.free()

    def batch(self, index: int) -> BatchNow:
        """One batch, counted from 1 and ended by `done`; those that `detail` and `every` leave out are not told."""
        every = self._every
        told = every == 1 or (every > 1 and (index - 1) % every == 0)
        slate = self.claim() if told else None
        batch = BatchNow(self, index, None, slate, not told)
        if slate is not None:
            slate.begin(batch, index)
        return batch

    def _settle(self, error: BaseException | None = None) -> None:
        """A loop over batches was left in the middle: the last batch ended, unless by an error."""
        left, self._left = self._left, None
        if left is not None and error is None:
            left.done(ago=perf_counter() - self._left_at)

    def claim(self) -> Slate | None:
        """The slate, unless a section of another thread has it now."""
        try:
            slate = self.run.slate(self)
        except Exception as error:
            self.run.fault(error)
            return None
        self._slate = slate or self._slate
        return slate

    def free(self) -> None:
        """Have all batches told, and leave the slate to others."""
        if self._slate is not None and self._slate.owner is self:
            try:
                self._slate.free()
            except Exception as error:
                self.run.fault(error)


def handed(loader: Iterable[Any], to: Handed) -> Iterator[Any]:
    """What a loader gives, while each batch is handed to whoever tells of it.

    As a rule a batch takes the row of the slate after the one before, and one `BatchNow` stands for each in its turn:
    nobody else has it. What is said here is said in few steps, for a training leaves nothing of ours in the caches.
    """
    if to.run.off:
        yield from loader
        return
    batch: BatchNow | None = None
    slate: Slate | None = None
    index, began, clock, seconds, end = 0, 0.0, perf_counter, SECONDS, ENDED
    try:
        for data in loader:
            if slate is not None and batch is not None and slate.now is batch:  # and so its epoch goes on
                slate.index = index = index + 1
                slate.view[slate.row] = index
                slate.began = began = clock()
                to.batch, to.slate = batch, slate  # another loop may have had its turn meanwhile
            else:
                section = batch._section if batch is not None else None
                if section is None or to.epoch is not section:
                    section, batch, index = to.begun(loader), None, 0
                    if section is None:
                        yield data
                        continue
                    section._settle()
                index += 1
                to.batch = batch = section.batch(index)
                to.slate = batch.slate
                slate, began = batch.slate if section._every == 1 else None, batch.began
            try:
                yield data
            except GeneratorExit:
                batch._section._left, batch._section._left_at = batch, clock()
                to.broke_off(batch)
                batch = None
                raise
            if slate is not None and slate.now is batch:  # as in `Slate.end`, but that it stays the one that is now
                ended, row, view = clock(), slate.row, slate.view
                view[row + seconds] = ended - began
                view[row + end] = ended + slate.lag
                slate.row, slate.told = row + slate.width, 0
                if ended > slate.due or row == slate.last:
                    slate.turn()
            elif to.epoch is batch._section:  # after its epoch nothing is told of it
                batch.done()
    finally:  # also where the loader raised
        if batch is not None:
            if slate is not None:
                batch._section.free()
            if to.batch is batch:
                to.batch = None
