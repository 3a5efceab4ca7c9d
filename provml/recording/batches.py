"""Batches, and the sections that have batches. Nothing else is recorded as often, so these calls must be cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

from provml.journal import events
from provml.journal.location import split_batch
from provml.recording.encoding import encode_measures
from provml.recording.safety import EndsOnExit, as_first, as_index, report_errors

if TYPE_CHECKING:
    from provml.journal.batch_buffer import BatchBuffer
    from provml.recording.core import RunCore


class Batch(EndsOnExit):
    """An open batch. End it with `done` or a `with` block; a loop over `batches` ends its own.

    It writes to the batch buffer if it is the current batch there, otherwise one event per call.

    While it is current, the buffer keeps its index and start time, so that a loop can reuse one object for all batches.
    """

    __slots__ = ("_began", "_buffer", "_closed", "_section", "data", "index")

    def __init__(
        self, section: BatchedSection, index: int, *, data: Any, buffer: BatchBuffer | None, closed: bool
    ) -> None:
        self.index = index
        self.data = data
        self._section = section
        self._buffer = buffer
        self._closed = closed
        self._began = perf_counter()

    def __getstate__(self) -> object:
        """Take index and start time from the buffer, because a copy has no buffer."""
        buffer = self._buffer
        if buffer is not None and buffer.current is self:
            self.index, self._began = buffer.index, buffer.started
        return super().__getstate__()

    def __repr__(self) -> str:
        section, index = split_batch(self._location)
        return f"<Batch {index} of {section!r}>"

    @property
    def run(self) -> RunCore:
        """The run that the batch is recorded in."""
        return self._section.run

    @property
    def _location(self) -> str:
        """Location in the run."""
        buffer = self._buffer
        index = buffer.index if buffer is not None and buffer.current is self else self.index
        return f"{self._section._location}/{index}"

    def measured(self, /, **values: Any) -> None:
        """Record measures of this batch."""
        buffer = self._buffer
        if buffer is not None and buffer.current is self and buffer.put(values):
            return
        for error in self._record_values(values)[1]:
            self.run._report_error(error)

    def _record_values(self, values: dict[str, Any]) -> tuple[bool, list[Exception]]:
        """Encode and record measures that the buffer cannot take as they are.

        Return whether the buffer took them after all (and so adds them up), and the errors of values that cannot be
        encoded.
        """
        if self._closed:
            return False, []
        encoded, errors = encode_measures(values)
        buffer = self._buffer
        if buffer is not None and buffer.current is self and buffer.put(encoded):
            return True, errors
        if encoded := self.run._limit_measures(encoded):
            self.run._emit(events.Measured(self._location, encoded))
        return False, errors

    def done(self, *, ago: float = 0.0) -> None:
        """End the batch, now or some seconds ago."""
        if self._closed:
            return
        self._closed = True
        buffer = self._buffer
        if buffer is not None and buffer.current is self:
            buffer.end(ago)
        else:
            elapsed = max(perf_counter() - self._began - ago, 0.0)
            self.run._emit(events.BatchEnd(self._location, time() - ago, elapsed))

    def _end(self, error: BaseException | None) -> None:
        self.done()

    def _interrupted(self) -> None:
        """End the batch because its loop stopped, unless it has ended and the next one has not begun."""
        buffer = self._buffer
        if buffer is not None and buffer.current is self and not buffer.has_begun:
            self._section._release_buffer()
        else:
            self.done()


class BatchObserver(Protocol):
    """A capture that is given each batch of a loop while the loop works on it."""

    batch: Batch | None
    buffer: BatchBuffer | None
    """The buffer in which `batch` is the current batch, if there is one."""

    @property
    def run(self) -> RunCore:
        """The run that the observer records into."""

    @property
    def epoch(self) -> BatchedSection | None:
        """The section that batches belong to now; None before the first and after the last."""

    def on_first_batch(self, loader: Any) -> BatchedSection | None:
        """Return the section for a loader's batches when the first one arrives; None if they are not recorded."""

    def on_loop_left(self, batch: Batch) -> None:
        """Handle a loop that was left in the middle of a batch."""

    def measured(self, /, **values: Any) -> None:
        """Record measures of the current batch, or of its section after the last one."""


class BatchedSection:
    """A section with batches. While it owns the batch buffer, the rows of the buffer are its newest batches."""

    __slots__ = ("_buffer", "_every", "_interrupted_batch", "_interrupted_time", "_location", "_totals", "run")

    def __init__(self, run: RunCore, location: str) -> None:
        self.run = run
        self._location = location
        self._every = run.every if not run.disabled and run.detail == "batch" else 0
        self._interrupted_batch: Batch | None = None
        self._interrupted_time = 0.0
        self._buffer: BatchBuffer | None = None
        self._totals: dict[str, list[float]] = {}

    def batches(self, loader: Iterable[Any], *, first: int = 1) -> Iterator[Batch]:
        """Record the batches of a loader: `for batch in epoch.batches(loader):`, each with its `data`."""
        if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
            problem = (
                f"The loader of `batches` must be an iterable of batches, not {loader!r} ({type(loader).__name__})."
            )
            raise TypeError(f"{problem} Use batches(loader), or batches(range(100)).")
        first = as_first(first, "batch")
        self._end_interrupted_batch()
        for index, data in enumerate(loader, first):
            batch = self._begin_batch(index, data, first)
            try:
                yield batch
            except GeneratorExit:
                self._interrupted_batch, self._interrupted_time = batch, perf_counter()
                raise
            batch.done()
        if self._buffer is not None and self._buffer.is_owned_by(self):
            self._release_buffer()

    def batch(self, index: int) -> Batch:
        """Begin one batch, counted from 1, to be ended by `done`; `detail` and `every` decide if it is recorded."""
        if index.__class__ is not int or index < 0:  # called for every batch: check only what may be wrong
            index = as_index(index, "The index of a batch")
        return self._begin_batch(index, None, 1)

    def _begin_batch(self, index: int, data: Any, first: int) -> Batch:
        every, buffer = self._every, self._buffer
        if every != 1 and (not every or (index - first) % every):
            return Batch(self, index, data=data, buffer=None, closed=True)
        if buffer is None or not buffer.is_owned_by(self):
            buffer = self._acquire_buffer()
        batch = Batch(self, index, data=data, buffer=buffer, closed=False)
        if buffer is not None:
            buffer.begin(batch, index)
        return batch

    def _end_interrupted_batch(self, error: BaseException | None = None) -> None:
        """End the batch in which a loop was left, unless an error left it."""
        batch, self._interrupted_batch = self._interrupted_batch, None
        if batch is not None and error is None:
            batch.done(ago=perf_counter() - self._interrupted_time)

    def _acquire_buffer(self) -> BatchBuffer | None:
        """Acquire the batch buffer; None if a section of another thread owns it."""
        with report_errors(self.run):
            buffer = self.run._acquire_buffer(self)
            self._buffer = buffer or self._buffer
            return buffer
        return None

    def _release_buffer(self) -> None:
        """Flush all batches and leave the buffer to other sections."""
        if self._buffer is not None and self._buffer.owner is self:
            with report_errors(self.run):
                self._buffer.release()


class RecordedBatches(Iterator[Any]):
    """The batches of a loader, recorded while they are iterated over. Length and attributes are those of the loader.

    Each loop begins with the first batch, as with the loader itself, unless `next` was called before.
    """

    __slots__ = ("_iterator", "_loader", "_observer")

    def __init__(self, loader: Iterable[Any], observer: BatchObserver) -> None:
        self._loader = loader
        self._observer = observer
        self._iterator: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self._iterator if self._iterator is not None else record_batches(self._loader, self._observer)

    def __next__(self) -> Any:
        if self._iterator is None:
            self._iterator = record_batches(self._loader, self._observer)
        return next(self._iterator)

    def measured(self, /, **values: Any) -> None:
        """Record measures of the current batch, or after the loop of its epoch: where only the loader is known."""
        self._observer.measured(**values)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # raises the TypeError of a loader without a length

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in RecordedBatches.__slots__:  # a copy asks before it has a loader
            raise AttributeError(name)
        return getattr(self._loader, name)


def record_batches(loader: Iterable[Any], observer: BatchObserver) -> Iterator[Any]:
    """Yield what a loader yields, and give each batch to an observer while the loop works on it.

    Usually one `Batch` object serves all batches of an epoch, because nobody else refers to it.
    """
    if observer.run.disabled:
        yield from loader
        return
    batch: Batch | None = None
    buffer: BatchBuffer | None = None
    index = 0
    try:
        for data in loader:
            if buffer is not None and batch is not None and buffer.current is batch:  # so the epoch goes on
                index += 1
                buffer.begin_next(index)
                observer.batch, observer.buffer = batch, buffer  # another loop may have set them meanwhile
            else:
                section = batch._section if batch is not None else None
                if section is None or observer.epoch is not section:
                    section, batch, index = observer.on_first_batch(loader), None, 0
                    if section is None:
                        yield data
                        continue
                    section._end_interrupted_batch()
                index += 1
                observer.batch = batch = section.batch(index)
                observer.buffer = batch._buffer
                buffer = batch._buffer if section._every == 1 else None
            try:
                yield data
            except GeneratorExit:
                batch._section._interrupted_batch, batch._section._interrupted_time = batch, perf_counter()
                observer.on_loop_left(batch)
                batch = None
                raise
            if buffer is not None and buffer.current is batch:
                buffer.end(keep=True)
            elif observer.epoch is batch._section:  # nothing is recorded of a batch after the end of its epoch
                batch.done()
    finally:  # also if the loader raised
        if batch is not None:
            if buffer is not None:
                batch._section._release_buffer()
            if observer.batch is batch:
                observer.batch = None
