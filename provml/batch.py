"""Batches: a batch while it is worked on, and the sections that have some. A training says these verbs most often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

from provml.content import measures
from provml.event import Batch, Measured
from provml.slate import END, ENDED, LARGEST, LAST, SECONDS, WIDTH

if TYPE_CHECKING:
    from provml.recorder import Recorder
    from provml.slate import Slate


class BatchNow:
    """A batch while it is worked on: on the slate where that is to be had, else an event for all that is said of it."""

    __slots__ = ("_began", "_closed", "_section", "data", "index", "slate")

    def __init__(self, section: Batched, index: int, data: Any, slate: Slate | None, closed: bool) -> None:
        self.index = index
        self.data = data
        self._section = section
        self.slate = slate
        self._closed = closed
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
        slate = self.slate
        if slate is None or slate.now is not self or not slate.measured(values):
            for error in self.take(values)[1]:
                self.run.fault(error)

    def take(self, values: dict[str, Any]) -> tuple[bool, list[Exception]]:
        """Measures that the slate cannot take as they are; whether it could when they were made plain, and what is
        wrong with those that are none."""
        if self._closed:
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
        if self._closed:
            return
        self._closed = True
        seconds, slate = perf_counter() - self._began - ago, self.slate
        if slate is not None and slate.now is self:
            slate.end(seconds, time() - ago)
        else:
            self.run.tell(Batch(self.at, time() - ago, seconds))


class Handed(Protocol):
    """Whoever is handed each batch of a loop while it is worked on, and tells of it."""

    run: Recorder
    batch: BatchNow | None

    @property
    def epoch(self) -> Batched | None:
        """The section that batches belong to now; None where there is none yet, or no more."""

    def begun(self) -> Batched | None:
        """The section of the batches, now that the first has come of a loop or of another section; None: of none."""

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
        return _each(loader, first, self, None)

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
    """What a loader gives, while each batch is handed to whoever tells of it."""
    return _each(loader, 1, None, to)


def _each(loader: Iterable[Any], first: int, section: Batched | None, to: Handed | None) -> Iterator[Any]:
    """The batches of a section, or what a loader gives: one loop for both, for each call takes long in a training."""
    if to is not None and to.run.off:
        yield from loader
        return
    if section is not None:
        section._settle()
    every, slate, batch, index = section._every if section is not None else 0, None, None, first - 1
    clock, now, end, last = perf_counter, time, END, LAST  # what is at hand here need not be fetched for each batch
    for data in loader:
        if to is not None and (to.epoch is not section or section is None):  # its first, or the first of another epoch
            section, slate, batch, index = to.begun(), None, None, first - 1
            if section is not None:
                section._settle()
                every = section._every
        if section is None:
            yield data
            continue
        index += 1
        told = every == 1 or (every > 1 and (index - first) % every == 0)
        if told and (slate is None or slate.owner is not section):
            slate = section.claim() if index <= LARGEST else None
        if to is None:
            batch = BatchNow(section, index, data, slate, not told)
        elif batch is None or batch.slate is not slate:
            batch = BatchNow(section, index, None, slate, not told)
        else:  # nobody has kept the one before
            batch.index, batch._closed, batch._began = index, not told, clock()
        if told and slate is not None and slate.now is None and slate.row < end:  # as in `batch`, in fewer steps
            slate.view[slate.row] = index
            slate.now = batch
        try:
            if to is None:
                yield batch
            else:
                to.batch = batch
                yield data
        except GeneratorExit:
            section._left, section._left_at = batch, perf_counter()
            if to is not None:
                to.broke_off(batch)
            raise
        if slate is not None and slate.now is batch:  # as in `done`
            batch._closed = True
            ended, row, view = clock(), slate.row, slate.view
            view[row + SECONDS] = ended - batch._began
            view[row + ENDED] = now()
            slate.row, slate.now, slate.told = row + WIDTH, None, 0
            if ended > slate.due or row == last:
                slate.turn()
        elif to is None or to.epoch is section:  # after its epoch nothing is told of it
            batch.done()
    if section is not None and slate is not None:
        section.free()
    if to is not None and to.batch is batch:
        to.batch = None
