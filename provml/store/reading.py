"""A journal read and lifted: its new events as N-Triples, and what could not be taken in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from provml import event
from provml.journal import read_lines
from provml.lift import Lifter
from provml.run import SILENT_SECONDS, first_line, is_gone, is_main, status_of
from provml.slate import snapshot, unwritten
from provml.store.kin import Eldest, Siblings
from provml.store.pace import Pace
from provml.store.progress import Journal

AT_A_TIME = 5000


def news(key: str, path: Path, journal: Journal, eldest: Eldest) -> Iterator[tuple[int, bytes]]:
    """What is new in one journal of an index, lifted; a journal that cannot be read is complained of, and left."""
    try:
        looks = _looks(path)
        if is_at_rest(path, journal, looks) or (not journal.offset and waits(path, eldest)):
            return
        journal.forgive()
        was_over = _is_over(path, journal)
        yield from lifted(key, path, journal, eldest, is_over=was_over)
        if not was_over and _is_over(path, journal):
            was_over, looks = True, _looks(path)
            yield from lifted(key, path, journal, eldest, is_over=True)  # what came in between
        if was_over:
            journal.rest(looks)
    except FileNotFoundError:  # removed just now: the next sync makes the index anew
        return
    except OSError as error:  # another user's file, or a disk that fails: the other journals can be read
        journal.refuse(key, (error.strerror or str(error)).lower())


def _is_over(path: Path, journal: Journal) -> bool:
    """Whether nothing more is to be expected: its writer told an end, or is gone, or has long been silent."""
    first = journal.state.first
    return journal.end is not None or (
        first is not None and first.host != "" and status_of(path, first, None) != "RUNNING"
    )


def is_at_rest(path: Path, journal: Journal, looks: tuple[int, int]) -> bool:
    """Whether a journal that was read to its end has nothing more; one that has is to be read anew from the start."""
    if journal.left is None:
        return False
    if journal.left != looks and looks[0] > journal.offset:
        if next(read_lines(path, journal.offset, journal.number), None) is not None:
            journal.restart()
            return False
        journal.left = looks  # what is left is room that its writer never filled
    return True


def waits(path: Path, eldest: Eldest) -> bool:
    """Whether a journal that is new waits for the first one of its run, by whose words it is lifted.

    That may not be there yet, or have told only who writes, and not by which workflow. Nothing waits for ever; where
    the first journal comes later still, what was lifted without it is told otherwise, and the index is made anew.
    """
    first = first_line(path)
    if first is None or is_main(first):
        return False
    found = eldest.of(path.parent)
    if found is not None:
        first = found[1][0] if isinstance(found[1][0], event.Run) else first
        if len(list(islice(read_lines(found[0]), 2))) > 1:
            return False
    return abs(time.time() - first.t) < SILENT_SECONDS and not is_gone(first)


def _looks(path: Path) -> tuple[int, int]:
    """How a file looks: its size, and when it was changed."""
    known = path.stat()
    return known.st_size, known.st_mtime_ns


def lifted(
    key: str, path: Path, journal: Journal, eldest: Eldest, *, is_over: bool = False
) -> Iterator[tuple[int, bytes]]:
    """The new events of one journal, as N-Triples, some thousands of events at a time.

    At each yield `journal` stands at the end of what was given. Batches that stand on a slate are among it.
    """
    if not journal.offset:
        elder = eldest.of(path.parent)
        journal.elder = elder[0].stem if elder is not None and elder[0] != path else ""
    lifter = Lifter(journal.state, Siblings(path, eldest), casts=True)
    count = 0
    lines = _Lines(path, journal, is_over=is_over)
    for end, number, line in lines:
        before = count
        try:
            what = event.decode(line)
            if isinstance(what, event.Run) and what.v > event.VERSION:
                reason = f"it is of version {what.v}, newer than this provml reads ({event.VERSION}); upgrade provml"
                journal.refuse(key, reason)
                return
            for one in event.each(what, journal.told):
                count += 1
                lifter.feed(one)
            if isinstance(what, event.End):
                journal.end = what
            elif isinstance(what, event.Batches):
                journal.told = max(journal.told, what.told)
        except Exception as error:
            count = max(count, before + 1)
            lifter.complaints.append(f"{type(error).__name__}: {error}")
        if number == 1:
            journal.problems.clear()
        if lifter.complaints:
            for complaint in lifter.complaints:
                journal.complain(key, number, complaint)
            lifter.complaints.clear()
        journal.offset, journal.number = end, number
        journal.events += count - before
        if count >= AT_A_TIME:
            yield count, lifter.written()
            count = 0
    if count:
        yield count, lifter.written()
    if lines.failed is not None:
        raise lines.failed


class _Lines:
    """The lines after where a journal stands, as far as they can be read; what failed is for later."""

    def __init__(self, path: Path, journal: Journal, *, is_over: bool) -> None:
        self.failed: OSError | None = None
        self._path = path
        self._journal = journal
        self._is_over = is_over

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        try:
            held = snapshot(self._path)
            yield from _lines(self._path, self._journal)
            for line in unwritten(held, self._journal.told, is_over=self._is_over):
                yield self._journal.offset, self._journal.number, line
        except OSError as error:  # what came before it is lifted, and has to be given first
            self.failed = error


def whole_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """All complete lines of a journal, which may be written to meanwhile."""
    journal = Journal()
    for end, number, line in _lines(path, journal):
        yield end, number, line
        journal.offset, journal.number = end, number


def _lines(path: Path, journal: Journal) -> Iterator[tuple[int, int, bytes]]:
    """The lines after where the journal stands; it moves on with each.

    What was read while a line was being written may hold zeros in its middle though it is whole by now: then again.
    """
    again = True
    while again:
        again = False
        for end, number, line in read_lines(path, journal.offset, journal.number):
            if b"\0" in line and _now(path, end, line) != line:
                again = True
                break
            yield end, number, line


def _now(path: Path, end: int, line: bytes) -> bytes:
    with path.open("rb") as file:
        file.seek(end - 1 - len(line))
        return file.read(len(line))


class Chunk:
    """Some of what is lifted, as a file that Oxigraph reads: lifted while it is loaded, and never held as a whole."""

    def __init__(
        self,
        events: int,
        held: bytes,
        more: Iterator[tuple[int, bytes]],
        most: int,
        pace: Pace,
        report: Callable[[int], None] | None = None,
    ) -> None:
        self.events = 0
        self.held = b""
        self._more = more
        self._left = most
        self._pace = pace
        self._report = report
        self._at = 0
        self._take(events, held)

    def _take(self, events: int, text: bytes) -> None:
        self.held = self.held[self._at :] + text
        self._at = 0
        self.events += events
        self._left -= len(text)
        if self._report is not None:
            self._report(events)

    def _grow(self) -> bool:
        self._pace.keep()
        new = next(self._more, None) if self._left > 0 else None
        if new is None:
            return False
        self._take(*new)
        return True

    def is_small(self, limit: int) -> bool:
        """Whether all of it is less than so many bytes."""
        while len(self.held) < limit:
            if not self._grow():
                return True
        return False

    def read(self, size: int = -1) -> bytes:
        """Bytes of it, empty at the end."""
        while self._at == len(self.held):
            if not self._grow():
                return b""
        start = self._at
        self._at = len(self.held) if size < 0 else min(start + size, len(self.held))
        return self.held[start : self._at]
