"""A journal read and lifted: its new events as N-Triples, and what could not be taken in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from provml import event
from provml.journal import read_lines
from provml.lift import Lifter
from provml.store.kin import Eldest, Siblings
from provml.store.progress import Journal

AT_A_TIME = 5000


def lifted(key: str, path: Path, journal: Journal, eldest: Eldest) -> Iterator[tuple[int, bytes]]:
    """The new events of one journal, as N-Triples, some thousands of events at a time.

    At each yield `journal` stands at the end of what was given.
    """
    lifter = Lifter(journal.state, Siblings(path, eldest), casts=True)
    count = 0
    for end, number, line in _lines(path, journal):
        try:
            what = event.decode(line)
            if isinstance(what, event.Run) and what.v > event.VERSION:
                reason = f"it is of version {what.v}, newer than this provml reads ({event.VERSION}); upgrade provml"
                journal.problems.clear()
                journal.complain(key, number, reason)
                return
            lifter.feed(what)
            if isinstance(what, event.End):
                journal.end = what
        except Exception as error:
            lifter.complaints.append(f"{type(error).__name__}: {error}")
        if number == 1:
            journal.problems.clear()
        if lifter.complaints:
            for complaint in lifter.complaints:
                journal.complain(key, number, complaint)
            lifter.complaints.clear()
        journal.offset, journal.number = end, number
        count += 1
        if count == AT_A_TIME:
            yield count, lifter.written()
            count = 0
    if count:
        yield count, lifter.written()


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
        report: Callable[[int], None] | None = None,
    ) -> None:
        self.events = 0
        self.held = b""
        self._more = more
        self._left = most
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
