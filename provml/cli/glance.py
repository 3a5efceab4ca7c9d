"""A glance at a run: its journals read as they are, without the index, also while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from provml import event
from provml.errors import BrokenFile
from provml.journal import read_lines
from provml.run import journals_of, leader, status_of
from provml.slate import snapshot, unwritten


class Tail:
    """One journal, read on from where it was left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.first: event.Run | None = None
        self.end: event.End | None = None
        self.fault: event.Fault | None = None
        self.damaged: list[tuple[int, str]] = []
        self.seen = 0.0
        self.told = 0
        self._offset = 0
        self._batches = 0
        self._is_whole = False

    def events(self) -> Iterator[tuple[float, event.AnyEvent]]:
        """The events since the last time, each with when it was: where a line does not say, as the one before it."""
        try:
            yield from self._events()
        except FileNotFoundError:  # removed just now
            return
        except OSError as error:
            refused = (0, (error.strerror or str(error)).lower())
            if refused not in self.damaged:
                self.damaged.append(refused)

    def _events(self) -> Iterator[tuple[float, event.AnyEvent]]:
        for end, number, line in self._lines():
            self._offset, self.number = end, number
            try:
                what = event.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self.damaged.append((number, str(error)))
                continue
            if isinstance(what, event.Run):
                if what.v > event.VERSION:
                    reason = f"it is of version {what.v}, newer than this provml reads ({event.VERSION})"
                    raise BrokenFile(reason, "Upgrade provml.", file=str(self.path), line=number)
                self.first = self.first or what
            elif isinstance(what, event.End):
                self.end = what
            elif isinstance(what, event.Fault):
                self.fault = what
            for one in event.each(what, self._batches):
                self.seen = getattr(one, "t", self.seen)
                self.told += 1
                yield self.seen, one
            if isinstance(what, event.Batches):
                self._batches = max(self._batches, what.told)

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """The lines since the last time, and what stands on its slate."""
        held = snapshot(self.path)
        yield from read_lines(self.path, self._offset, self.number)
        if self.end is not None or self._is_whole:
            return
        is_over = self.status != "RUNNING"
        if is_over:
            held = snapshot(self.path)
            yield from read_lines(self.path, self._offset, self.number)  # what came in between
            self._is_whole = True
        for line in unwritten(held, self._batches, is_over=is_over):
            yield self._offset, self.number, line

    @property
    def status(self) -> str:
        """How this writer ended, or whether it still lives."""
        return status_of(self.path, self.first, self.end)


class Glance:
    """All journals of one run; new ones are found as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tails: list[Tail] = []
        self.look()

    def look(self) -> list[Tail]:
        """Find journals that are new."""
        known = {tail.path for tail in self.tails}
        new = [Tail(path) for path in journals_of(self.folder) if path not in known]
        self.tails += new
        return self.tails

    @property
    def main(self) -> Tail | None:
        """The journal by which the run stands."""
        return leader(self.tails, lambda tail: tail.first) if self.tails else None

    @property
    def status(self) -> str:
        """The true status of the run."""
        return self.main.status if self.main is not None else "LOST"
