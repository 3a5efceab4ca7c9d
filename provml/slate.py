"""A slate: the latest batches of an epoch as bare numbers in a small mapped file, until they are told as one event.

Inside a training, all that it takes to tell a line has left the processor's caches, and telling takes ten times as long
as by itself. A few numbers in a page take a third of that and outlive the process just as well: what stands on the
slate of a writer that was killed is read from there. See docs/decisions/slate.md.
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

from provml import event
from provml.content import jsonable
from provml.event import Batches, Measured, Value
from provml.journal import MappedFile

HEAD = 256
"""So many numbers come before the rows: how often the slate was begun anew (0: it is just being), how many rows were
told before these, the length of a text, and the text: whose batches they are and what of them was measured."""
TEXT = 3
INDEX, ENDED, SECONDS, TOLD, VALUES = range(5)
"""The columns of a row. Bits of `TOLD` say which of the values after it were measured, and which of them are whole."""
MOST = 8
"""So many measures a row has room for; it is as wide as those that there are."""
WIDEST = VALUES + MOST
WHOLE = 1 << MOST
END = HEAD + 64 * WIDEST
BYTES = 8
BLANK = memoryview(bytes(END * BYTES))
LARGEST = 2**53
"""Up to here, a double holds every whole number."""
FOLD_SECONDS = 1.0
"""After about so long a batch that ended is told, for whoever looks on."""


class Head(msgspec.Struct):
    """Whose batches stand on a slate, what of them was measured, and how many numbers a row has."""

    at: str
    names: list[str]
    width: int = WIDEST


class Holder(Protocol):
    """A section that may have the slate; `totals` are the sum and the number of each measure that was told of it."""

    at: str
    totals: dict[str, list[float]]


class Now(Protocol):
    """A batch that may have a row; it is `closed` when nothing more is told of it."""

    closed: bool
    index: int
    began: float
    """When, by the clock that counts seconds."""

    @property
    def at(self) -> str:
        """Its place in the run."""


class Slate:
    """Batches of the one section that has it now, one after the other: at most the last of them has not ended.

    That one is `now`, and writes its `row` itself: its index, what is measured, and last when it ended. The next can
    begin when there is none now. A loop's batch may stay the one that is now when it has ended, for the next that has
    not begun: what is measured meanwhile is the next one's, or its own where something else is told before that.
    One thread alone writes rows; a handler of a signal in that thread may tell something, and so have rows told in the
    middle of anything.
    """

    __slots__ = (
        "_before", "_begun", "_folded", "_map", "_new", "_sink", "_tell", "_tells", "_thread", "_whole", "at", "began",
        "due", "index", "lag", "last", "names", "now", "only", "owner", "path", "row", "told", "view", "width",
    )  # fmt: skip

    def __init__(self, sink: MappedFile, tell: Callable[[event.Event], bool]) -> None:
        self.at = ""
        self.owner: Holder | None = None
        self.now: Now | None = None
        self.row = self.last = HEAD
        self.width = VALUES
        self.told = self.index = 0
        self.began = 0.0
        self.names: dict[str, int] = {}
        self.only: Any = None
        """The name of the measure where there is just one, else none that a measure can have."""
        self.due = self.lag = 0.0
        self.path = beside(sink.path)
        self._sink, self._tell, self._tells = sink, tell, False
        self._new: list[str] = []
        self._before = self._begun = self._thread = 0
        self._folded = HEAD
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.posix_fallocate(file, 0, END * BYTES)
            self._map: mmap.mmap | bytearray = mmap.mmap(file, END * BYTES)
        except BaseException:
            self.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        self._whole = self.view = memoryview(self._map).cast("d")

    def claim(self, owner: Holder) -> bool:
        """Have it for the batches of a section, though another one of this thread has it; whether it could be had."""
        mine = self._thread == get_ident()
        if self.owner is not None and (self.owner is owner or not mine):
            return mine
        if self.owner is not None:
            self.free()
        self.at, self.owner, self._thread = owner.at, owner, get_ident()
        if not self._start():
            self.free()
        return self.owner is owner

    def _start(self) -> bool:
        """Begin with no rows, when all were told; whether that was possible."""
        names = [*self.names, *self._new][:MOST]
        width, self._new = VALUES + len(names), []
        try:
            head = msgspec.json.encode(Head(self.at, names, width))
        except UnicodeEncodeError:
            return False
        size = len(head)
        if size > (HEAD - TEXT) * BYTES:
            return False
        numbers, only = dict(zip(names, range(MOST), strict=False)), names[0] if width == VALUES + 1 else None
        used, room = min(self.row + self.width, END) * BYTES, (END - HEAD) // width * width
        view, before = self._whole, self._before + (self._folded - HEAD) // self.width
        # nothing is called from here on, so no signal comes in between
        view[0] = 0.0  # what is written now does not count before all of it is
        self._map[HEAD * BYTES : used] = BLANK[HEAD * BYTES : used]
        view[1], view[2] = before, size
        self._map[TEXT * BYTES : TEXT * BYTES + size] = head
        self._before, self._folded, self.row, self.last = before, HEAD, HEAD, HEAD + room - width
        self.names, self.only, self.width = numbers, only, width
        self.view = view[: HEAD + room]  # there is nothing after the last row
        self._begun += 1
        view[0] = self._begun
        self._set_clock()
        return True

    def _set_clock(self) -> None:
        """Compare the clock of the day with the one that counts seconds, so that a batch need ask only the latter."""
        now = perf_counter()
        self.lag = time() - now
        self.due = 0.0 if self._new else now + FOLD_SECONDS

    # ---- the row of the batch that is now

    @property
    def has_begun(self) -> bool:
        """Whether the batch that is now has begun."""
        return self.row <= self.last and self.view[self.row] != 0.0

    def begin(self, batch: Now, index: int) -> None:
        """A batch begins, and is now, if none is."""
        if self.now is None and self.row <= self.last and 0 < index <= LARGEST:
            self.view[self.row] = index
            self.now, self.index, self.began = batch, index, batch.began

    def measured(self, values: Mapping[str, Any], tensor: Any = None) -> bool:
        """Take measures of it down; whether all of them could be. A tensor is what `tolist` makes of it."""
        view, names, row, told, new = self.view, self.names, self.row, self.told, 0
        if row > self.last:  # a signal's handler measures, as rows are told
            return False
        for name, value in values.items():
            if name not in names:
                if len(names) < MOST:
                    self._new = [one for one in values if one not in names]
                    self.due = 0.0
                return False
            number = names[name]
            bit = 1 << number
            if told & bit:
                return False
            if type(value) is tensor:
                value = value.tolist()
            if type(value) is not float:
                if type(value) is not int or not -LARGEST < value < LARGEST:
                    return False
                bit |= WHOLE << number
            view[row + VALUES + number] = value
            new |= bit
        view[row + TOLD] = self.told = self.told | new  # a signal's handler may have told those before, or taken more
        return True

    def end(self, ago: float = 0.0) -> None:
        """It ended, now or some seconds ago."""
        ended, row, view = perf_counter() - ago, self.row, self.view
        view[row + SECONDS] = ended - self.began
        view[row + ENDED] = ended + self.lag
        self.row, self.now, self.told = row + self.width, None, 0
        if ended > self.due or row == self.last:
            self.turn()

    def turn(self) -> None:
        """There is no room for another row, or it is time to tell those that there are; the last has just ended."""
        before = self.lag
        self._set_clock()  # the clock of the day may have been set in a batch that took long
        self.view[self.row - self.width + ENDED] += self.lag - before
        self.fold()
        if (self.row > self.last or self._new) and not self._start():
            self.free()

    # ---- telling

    def settle(self) -> None:
        """Tell what has to come before an event that this thread tells now."""
        if self.owner is not None and not self._tells and self._thread == get_ident():
            self.fold()
            self._spill()

    def fold(self) -> None:
        """Tell the batches that have ended, as one event."""
        first, last, written = self._folded, self.row, self._sink.end
        try:
            self._folded, self._tells = last, True  # at once, for a signal's handler may come here as well
            self._set_clock()
            if first < last:
                rows, told = self.view[first:last].tolist(), self._before + (last - HEAD) // self.width
                what = _batches(self.at, [*self.names], rows, self.width, told)
                if self._tell(what):
                    self._add(what.values)
                else:
                    self._folded = first  # again with the next ones, while there is room
        except BaseException:
            if self._sink.end == written:
                self._folded = first
            raise
        finally:
            self._tells = False

    def free(self) -> None:
        """Tell all that stands on it, and leave it to whoever wants it next."""
        self.fold()
        self._spill()
        if self.now is not None and not self.has_begun:
            self.now.closed = True
        self._let_go()
        self.owner = None  # last, for another thread may have it from then on

    def _let_go(self) -> None:
        """No batch is the one that is now: it knows by itself what was known of it here."""
        if self.now is not None:
            self.now.index, self.now.began = self.index, self.began
        self.now, self.told, self._thread = None, 0, 0

    def _spill(self) -> None:
        """Tell what was measured of the batch that has not ended, after all others were told."""
        row = self.row
        if self.now is None or row > self.last:
            return
        numbers = self.view[row : row + self.width].tolist()
        if numbers[TOLD]:
            self._tells, written = True, self._sink.end
            try:
                what = _measured(self.now.at, [*self.names], numbers)
                self._tell(what)
                self._add({name: [value] for name, value in what.values.items()})
            finally:
                self._tells = False
                if self._sink.end != written:
                    self.view[row + TOLD] = self.told = 0

    def _add(self, values: Mapping[str, Sequence[Value | None]]) -> None:
        """Add measures that were told to the totals of the section."""
        totals = self.owner.totals if self.owner is not None else {}
        for name, column in values.items():
            try:
                total, count = float(sum(column)), len(column)  # type: ignore[arg-type]  # as a rule they are numbers
            except TypeError:
                numbers = [float(one[1] if isinstance(one, list) else one) for one in column if one is not None]
                total, count = sum(numbers), len(numbers)
            held = totals.setdefault(name, [0.0, 0.0])
            held[0] += total
            held[1] += count

    # ---- its end

    def close(self) -> None:
        """Tell all that stands on it, and remove it."""
        try:
            if self.owner is not None:
                self.free()
        finally:
            self.drop()
            self.path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Let go of it and leave it as it is, for it belongs to the process that forked this one."""
        self._let_go()
        self.owner = None
        self._tell = lambda what: True
        self._map = bytearray(END * BYTES)  # for a thread that is in the middle of a row
        self._whole = self.view = memoryview(self._map).cast("d")

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of what has it has none."""
        return type(None), ()


def beside(journal: Path) -> Path:
    """Where the slate of a journal's writer is."""
    return journal.with_suffix(".slate")


def snapshot(journal: Path) -> bytes:
    """The slate of a journal's writer as it is now; nothing where there is none."""
    with contextlib.suppress(OSError), beside(journal).open("rb", buffering=0) as file:
        held = file.read(END * BYTES)
        file.seek(0)
        if file.read(BYTES) == held[:BYTES]:  # else it was begun anew meanwhile
            return held
    return b""


def unwritten(held: bytes, told: int, *, is_over: bool) -> list[bytes]:
    """The lines that are missing at the end of a journal that tells so many rows: the others that stand on its slate.

    The slate is to be read before the lines: what it holds that is in none of them comes after them all. A batch that
    has not ended is told as far as it is known where its writer `is_over`, and else not yet.
    """
    try:
        numbers = memoryview(held).cast("d").tolist()
        before, length = int(numbers[1]), int(numbers[2])
        head = msgspec.json.decode(held[TEXT * BYTES :][:length], type=Head)
        width, rows = head.width, numbers[HEAD:END]
        rows = rows[: len(rows) // width * width]
        ends = rows[ENDED::width]
    except (ValueError, OverflowError, IndexError, TypeError, ZeroDivisionError, msgspec.MsgspecError):  # none, damaged
        return []
    if not numbers[0] or before > told or width < VALUES + len(head.names):
        return []  # what comes before these is in the journal by now
    ended = next((number for number, end in enumerate(ends) if not end), len(ends)) * width
    first = (told - before) * width
    missing: list[event.Event] = []
    if first < ended:
        missing.append(_batches(head.at, head.names, rows[first:ended], width, before + ended // width))
    if is_over and first <= ended < len(rows) and rows[ended + TOLD] and rows[ended]:  # else it has not begun
        row = rows[ended : ended + width]
        missing.append(_measured(f"{head.at}/{int(row[INDEX])}", head.names, row))
    return [event.encode(what)[:-1] for what in missing]


def _batches(at: str, names: list[str], rows: list[Any], width: int, told: int) -> Batches:
    """Rows as an event."""
    told_of = rows[TOLD::width]
    bits, is_even = int(told_of[0]), told_of.count(told_of[0]) == len(told_of)
    values: dict[str, list[Value | None]] = {}
    for number, name in enumerate(names):
        if is_even and not bits & (1 << number):
            continue
        column = rows[VALUES + number :: width]
        if is_even and not bits & (WHOLE << number) and isfinite(sum(column)):
            values[name] = column
            continue
        mixed = [_value(value, int(one), number) for value, one in zip(column, told_of, strict=True)]
        if any(value is not None for value in mixed):
            values[name] = mixed
    index = [*map(int, rows[INDEX::width])]
    return Batches(at, index, rows[ENDED::width], rows[SECONDS::width], values, told)


def _measured(at: str, names: list[str], row: Sequence[float]) -> Measured:
    """The measures of a batch that has not ended, as an event."""
    held = {name: _value(row[VALUES + number], int(row[TOLD]), number) for number, name in enumerate(names)}
    return Measured(at, {name: value for name, value in held.items() if value is not None})


def _value(value: float, told: int, number: int) -> Value | None:
    """A value as a journal holds it; None where there is none."""
    if not told & (1 << number):
        return None
    if told & (WHOLE << number):
        return int(value)
    return value if value - value == 0.0 else jsonable(value)
