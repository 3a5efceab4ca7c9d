"""Memory-mapped buffer of the newest batches, and the recovery of batches that are only there.

Inside a training the caches of the processor are cold, and encoding a line takes ten times as long as in a loop of its
own. Storing a few numbers in a mapped page takes a fraction of that and survives `kill -9` as well: the page belongs to
the kernel. The rows of the buffer become one `Batches` event from time to time; readers recover rows that have not been
written yet (`read_buffer`, `recover_lines`). This module alone knows the layout of a row. See
docs/decisions/batch-buffer.md.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from threading import get_ident
from time import perf_counter, time
from typing import Any, Protocol

import msgspec

from provml.journal import events
from provml.journal.events import Batches, Measured, Value
from provml.journal.file import MappedJournalFile
from provml.journal.values import COUNTERS, jsonable
from provml.paths import NO_FOLLOW

HEADER = 256
"""Size of the header in doubles: generation (0 while the page is rewritten), number of rows flushed before the first
row, length of the JSON text, then the text itself (`RowHeader`)."""
GENERATION, FLUSHED_ROWS, TEXT_LENGTH, TEXT = range(4)
INDEX, END_TIME, SECONDS, SET_MASK, VALUES = range(5)
"""Columns of a row. `SET_MASK` has a bit for each value that is set, and `INTEGER` times that bit if it is an integer.
`END_TIME` is written last and marks the row complete: an aligned double is written in one piece."""
MAX_MEASURES = 8
"""A row is as wide as the measures in use, up to this number."""
MAX_WIDTH = VALUES + MAX_MEASURES
INTEGER = 1 << MAX_MEASURES
SIZE = HEADER + 64 * MAX_WIDTH
"""Size of the buffer in doubles."""
DOUBLE = 8
_ZEROS = memoryview(bytes(SIZE * DOUBLE))
MAX_INTEGER = 2**53
"""A double is exact for integers up to this one."""
FLUSH_SECONDS = 1.0
"""Rows become an event after about this time, for readers that do not look at the buffer."""


class RowHeader(msgspec.Struct):
    """The section of the rows, the names of their measures, and the width of a row in doubles."""

    location: str = msgspec.field(name="at")
    names: list[str]
    width: int = MAX_WIDTH


class BufferOwner(Protocol):
    """A section that may own the buffer; `_totals` maps each measure to the sum and the number of its values."""

    _location: str
    _totals: dict[str, list[float]]


class OpenBatch(Protocol):
    """A batch that may be the current one of the buffer; it accepts no values once it is closed."""

    _closed: bool
    index: int
    _began: float
    """Start, on the clock of `perf_counter`."""

    @property
    def _location(self) -> str:
        """Location in the run."""


class BatchBuffer:
    """The newest batches of the section that owns the buffer, one row each.

    At most one batch is open (`current`), in the last row. A loop may reuse one batch object: after `end(keep=True)` it
    stays current until `begin_next`. Values that come in between belong to the next row, or to the batch that ended if
    another event is written first. Only one thread writes rows. A signal handler in that thread may write an event, and
    so flush rows, between any two instructions.
    """

    __slots__ = (
        "_all", "_emit", "_flush_pos", "_flush_seconds", "_flushed_rows", "_flushing", "_generation", "_journal",
        "_location", "_map", "_new_names", "_on_lost", "_row", "_set_mask", "_thread", "_view", "_width",
        "clock_offset", "current", "flush_deadline", "index", "last_row", "names", "owner", "path", "started",
    )  # fmt: skip

    def __init__(
        self,
        journal: MappedJournalFile,
        emit: Callable[[events.Event], bool],
        on_lost: Callable[[int], None] = lambda count: None,
        *,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self.owner: BufferOwner | None = None
        self.current: OpenBatch | None = None
        self.index = 0
        self.started = 0.0
        self.names: dict[str, int] = {}
        """Names of the measures in use, with their columns."""
        self.flush_deadline = 0.0
        self.clock_offset = 0.0
        """Difference between the time of day and `perf_counter`."""
        self.last_row = HEADER
        """Offset of the last row that fits."""
        self.path = buffer_path(journal.path)
        self._journal, self._emit, self._on_lost, self._flushing = journal, emit, on_lost, False
        self._flush_seconds = flush_seconds
        self._location = ""
        self._new_names: list[str] = []
        self._row = self._flush_pos = HEADER
        self._width = VALUES
        self._set_mask = 0
        self._flushed_rows = self._generation = self._thread = 0
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | NO_FOLLOW, 0o644)
        try:
            os.posix_fallocate(file, 0, SIZE * DOUBLE)
            self._map: mmap.mmap | bytearray = mmap.mmap(file, SIZE * DOUBLE)
        except BaseException:
            self.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        self._all = self._view = memoryview(self._map).cast("d")

    # ---- ownership

    def is_owned_by(self, owner: BufferOwner) -> bool:
        """Return whether a section owns the buffer in this thread."""
        return self.owner is owner and self._thread == get_ident()

    def acquire(self, owner: BufferOwner) -> bool:
        """Make a section the owner, also if another section of this thread is; return whether it is the owner now."""
        is_own_thread = self._thread == get_ident()
        if self.owner is not None and (self.owner is owner or not is_own_thread):
            return is_own_thread
        if self.owner is not None:
            self.release()
        self._location, self.owner, self._thread = owner._location, owner, get_ident()
        if not self._start_page():
            self.release()
        return self.owner is owner

    def release(self) -> None:
        """Flush all rows and give up the ownership."""
        self.flush_ended()
        self._flush_open()
        if self.current is not None and not self.has_begun:
            self.current._closed = True
        self._detach()
        self.owner = None  # last, because another thread may acquire the buffer from now on

    def _detach(self) -> None:
        """Hand index and start time back to the current batch; no batch is current afterwards."""
        if self.current is not None:
            self.current.index, self.current._began = self.index, self.started
        self.current, self._set_mask, self._thread = None, 0, 0

    def _start_page(self) -> bool:
        """Start without rows; those that could not be flushed are lost. Return False if the header does not fit."""
        names = [*self.names, *self._new_names][:MAX_MEASURES]
        width, self._new_names = VALUES + len(names), []
        try:
            text = msgspec.json.encode(RowHeader(self._location, names, width))
        except UnicodeEncodeError:
            return False
        length = len(text)
        if length > (HEADER - TEXT) * DOUBLE:
            return False
        numbers = dict(zip(names, range(MAX_MEASURES), strict=False))
        used, capacity = min(self._row + self._width, SIZE) * DOUBLE, (SIZE - HEADER) // width * width
        lost = self._unflushed_rows
        view, flushed = self._all, self._flushed_rows + (self._flush_pos - HEADER) // self._width
        # no function is called until the end, so no signal handler runs in between
        view[GENERATION] = 0.0  # readers ignore the buffer while it is rewritten
        self._map[HEADER * DOUBLE : used] = _ZEROS[HEADER * DOUBLE : used]
        view[FLUSHED_ROWS], view[TEXT_LENGTH] = flushed, length
        self._map[TEXT * DOUBLE : TEXT * DOUBLE + length] = text
        self._flushed_rows, self._flush_pos, self._row, self.last_row = (
            flushed,
            HEADER,
            HEADER,
            HEADER + capacity - width,
        )
        self.names, self._width = numbers, width
        self._view = view[: HEADER + capacity]  # nothing can be written after the last row
        self._generation += 1
        view[GENERATION] = self._generation
        self._set_clock()
        if lost:
            self._on_lost(lost)
        return True

    @property
    def _unflushed_rows(self) -> int:
        """Number of batches that have ended and are not in the journal."""
        return (self._row - self._flush_pos) // self._width

    def _set_clock(self) -> None:
        """Compare the time of day with `perf_counter`, so that a batch needs to read only the latter."""
        now = perf_counter()
        self.clock_offset = time() - now
        self.flush_deadline = 0.0 if self._new_names else now + self._flush_seconds

    # ---- the row of the current batch

    @property
    def has_begun(self) -> bool:
        """Whether the current batch has begun: a loop's batch stays current after its end."""
        return self._row <= self.last_row and self._view[self._row] != 0.0

    def begin(self, batch: OpenBatch, index: int) -> None:
        """Make a batch the current one, unless there is one."""
        if self.current is None and self._row <= self.last_row and 0 < index <= MAX_INTEGER:
            self._view[self._row] = index
            self.current, self.index, self.started = batch, index, batch._began

    def begin_next(self, index: int) -> None:
        """Begin the next batch of a loop with the batch object that stayed current."""
        self.index = self._view[self._row] = index
        self.started = perf_counter()

    def put(self, values: Mapping[str, Any], tensor: type[Any] | None = None) -> bool:
        """Store measures of the current batch; return False if the row cannot hold all of them.

        A value of the type `tensor` is converted by its method `tolist`.
        """
        view, names, row, mask, new = self._view, self.names, self._row, self._set_mask, 0
        if row > self.last_row:  # called by a signal handler while rows are flushed
            return False
        for name, value in values.items():
            number = names.get(name)
            if number is None:
                if len(names) < MAX_MEASURES and (new_names := values.keys() - names.keys() - COUNTERS):
                    self._new_names = [name for name in values if name in new_names]
                    self.flush_deadline = 0.0
                return False
            bit = 1 << number
            if mask & bit:
                return False
            if type(value) is tensor:
                value = value.tolist()
            if type(value) is not float:
                if type(value) is not int or not -MAX_INTEGER < value < MAX_INTEGER:
                    return False
                bit |= INTEGER << number
            view[row + VALUES + number] = value
            new |= bit
        # read again, because a signal handler may have flushed or added values
        view[row + SET_MASK] = self._set_mask = self._set_mask | new
        return True

    def end(self, ago: float = 0.0, *, keep: bool = False) -> None:
        """End the current batch, now or some seconds ago; with `keep` its object stays current for the next batch."""
        ended, row, view = perf_counter() - ago, self._row, self._view
        view[row + SECONDS] = ended - self.started
        view[row + END_TIME] = ended + self.clock_offset
        self._row, self._set_mask = row + self._width, 0
        if not keep:
            self.current = None
        if ended > self.flush_deadline or row == self.last_row:
            self._rotate()

    def _rotate(self) -> None:
        """Flush the rows, the last of which has just ended; start a new page if this one is full."""
        offset = self.clock_offset
        self._set_clock()  # the time of day may have been set during a long batch
        self._view[self._row - self._width + END_TIME] += self.clock_offset - offset
        self.flush_ended()
        if (self._row > self.last_row or self._new_names) and not self._start_page():
            self.release()

    # ---- flushing

    def flush(self) -> None:
        """Write all rows before another event of this thread."""
        if self.owner is not None and not self._flushing and self._thread == get_ident():
            self.flush_ended()
            self._flush_open()

    def flush_ended(self) -> None:
        """Write the batches that have ended as one event."""
        journal_end = self._journal.end
        first = self._flush_pos  # from here on no call until the flag is set: a signal handler may come here as well
        last = self._flush_pos = self._row
        self._flushing = True
        try:
            self._set_clock()
            if first < last:
                rows, total = self._view[first:last].tolist(), self._flushed_rows + (last - HEADER) // self._width
                event = _batches_event(RowHeader(self._location, [*self.names], self._width), rows, total)
                if self._emit(event):
                    self._add_totals(event.values)
                else:
                    self._flush_pos = first  # tried again with the next rows, as long as the page lasts
        except BaseException:
            if self._journal.end == journal_end:
                self._flush_pos = first
            raise
        finally:
            self._flushing = False

    def _flush_open(self) -> None:
        """Write the measures of the open batch, after all ended batches have been written."""
        if self.current is None or self._row > self.last_row:
            return
        journal_end, row = self._journal.end, self._row
        self._flushing = True  # before the row is read, or a signal handler would write it as well
        try:
            numbers = self._view[row : row + self._width].tolist()
            if not numbers[SET_MASK]:
                return
            event = _measured_event(self.current._location, [*self.names], numbers)
            try:
                self._emit(event)
                self._add_totals({name: [value] for name, value in event.values.items()})
            finally:
                if self._journal.end != journal_end:
                    self._view[row + SET_MASK] = self._set_mask = 0
        finally:
            self._flushing = False

    def _add_totals(self, values: Mapping[str, Sequence[Value | None]]) -> None:
        """Add written measures to the totals of the owner."""
        totals = self.owner._totals if self.owner is not None else {}
        for name, column in values.items():
            try:
                total, count = float(sum(column)), len(column)  # type: ignore[arg-type]  # numbers, in most cases
            except TypeError:
                numbers = [
                    float(value[1] if isinstance(value, list) else value) for value in column if value is not None
                ]
                total, count = sum(numbers), len(numbers)
            sums = totals.setdefault(name, [0.0, 0.0])
            sums[0] += total
            sums[1] += count

    # ---- the end

    def close(self) -> None:
        """Flush all rows and remove the file; rows that could not be flushed are lost."""
        try:
            if self.owner is not None:
                self.release()
        finally:
            if self._unflushed_rows:
                self._on_lost(self._unflushed_rows)
            self.abandon()
            self.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Let go of the file and leave it as it is, in a forked child: it belongs to the parent."""
        self._detach()
        self.owner = None
        self._emit = lambda event: True
        self._map = bytearray(SIZE * DOUBLE)  # for a thread that is in the middle of a row
        self._all = self._view = memoryview(self._map).cast("d")

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copy and pickle as None: a copy of the owner has no buffer."""
        return type(None), ()


# ---- recovery


SUFFIX = ".slate"
"""Suffix of a batch buffer; part of the disk format."""


def buffer_path(journal: Path) -> Path:
    """Return the path of the batch buffer of a journal."""
    return journal.with_suffix(SUFFIX)


def read_buffer(journal: Path) -> bytes:
    """Read the batch buffer of a journal; empty if there is none, or if it is being rewritten."""
    with contextlib.suppress(OSError), buffer_path(journal).open("rb", buffering=0) as file:
        content = file.read(SIZE * DOUBLE)
        file.seek(0)
        if file.read(DOUBLE) == content[:DOUBLE]:  # the same generation as before
            return content
    return b""


def recover_lines(content: bytes, rows_read: int, *, is_over: bool) -> list[bytes]:
    """Return the lines that a journal with `rows_read` rows of batches lacks: the other rows of its buffer.

    Read the buffer before the lines: what it holds and no line does then comes after all lines. The measures of an open
    batch are returned only if its writer is over.
    """
    try:
        numbers = memoryview(content).cast("d").tolist()
        flushed, length = int(numbers[FLUSHED_ROWS]), int(numbers[TEXT_LENGTH])
        header = msgspec.json.decode(content[TEXT * DOUBLE :][:length], type=RowHeader)
        width, rows = header.width, numbers[HEADER:SIZE]
        rows = rows[: len(rows) // width * width]
        ends = rows[END_TIME::width]
    except (ValueError, OverflowError, IndexError, TypeError, ZeroDivisionError, msgspec.MsgspecError):  # none, damaged
        return []
    if not numbers[GENERATION] or flushed > rows_read or width < VALUES + len(header.names):
        return []  # the rows before these are in lines that were written since
    ended = next((number for number, end in enumerate(ends) if not end), len(ends)) * width
    first = (rows_read - flushed) * width
    missing: list[events.Event] = []
    if first < ended:
        missing.append(_batches_event(header, rows[first:ended], flushed + ended // width))
    if is_over and first <= ended < len(rows) and rows[ended + SET_MASK] and rows[ended]:  # else it has not begun
        row = rows[ended : ended + width]
        missing.append(_measured_event(f"{header.location}/{int(row[INDEX])}", header.names, row))
    return [events.encode(event)[:-1] for event in missing]


def _batches_event(header: RowHeader, rows: list[Any], total_rows: int) -> Batches:
    """Turn complete rows into an event."""
    width = header.width
    masks = rows[SET_MASK::width]
    mask, is_uniform = int(masks[0]), masks.count(masks[0]) == len(masks)
    values: dict[str, list[Value | None]] = {}
    for number, name in enumerate(header.names):
        if is_uniform and not mask & (1 << number):
            continue
        column = rows[VALUES + number :: width]
        if is_uniform and not mask & (INTEGER << number) and isfinite(sum(column)):
            values[name] = column
            continue
        mixed = [_value(value, int(row_mask), number) for value, row_mask in zip(column, masks, strict=True)]
        if any(value is not None for value in mixed):
            values[name] = mixed
    index = [*map(int, rows[INDEX::width])]
    return Batches(header.location, index, rows[END_TIME::width], rows[SECONDS::width], values, total_rows)


def _measured_event(location: str, names: list[str], row: Sequence[float]) -> Measured:
    """Turn the measures of an open batch into an event."""
    values = {name: _value(row[VALUES + number], int(row[SET_MASK]), number) for number, name in enumerate(names)}
    return Measured(location, {name: value for name, value in values.items() if value is not None})


def _value(value: float, mask: int, number: int) -> Value | None:
    """Return a value as a journal holds it; None if it is not set."""
    if not mask & (1 << number):
        return None
    if mask & (INTEGER << number):
        return int(value)
    return value if value - value == 0.0 else jsonable(value)
