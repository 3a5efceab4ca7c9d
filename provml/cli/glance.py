"""A glance at a run: its journals read as they are, without the index, also while they are written."""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from provml import event
from provml.errors import BrokenFile, NoSuchRun
from provml.journal import read_lines

BASE = "https://w3id.org/provml/run/"
YOUNG = 5.0
"""For how many seconds a journal with nothing in it counts as just begun."""


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
        self._offset = 0

    def events(self) -> Iterator[tuple[float, event.AnyEvent]]:
        """The events since the last time, each with when it was: where a line does not say, as the one before it."""
        if not self.path.exists():
            return
        for end, number, line in read_lines(self.path, self._offset, self.number):
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
            self.seen = getattr(what, "t", self.seen)
            yield self.seen, what

    @property
    def status(self) -> str:
        """How this writer ended, or whether it still lives."""
        if self.end is not None:
            return self.end.status
        if self.first is None:
            is_young = self.path.exists() and time.time() - self.path.stat().st_mtime < YOUNG
            return "RUNNING" if is_young else "LOST"
        from provml.lift.state import State
        from provml.store.progress import Journal, status_of

        return status_of(self.path, Journal(state=State(first=self.first)))


class Glance:
    """All journals of one run; new ones are found as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tails: list[Tail] = []
        self.look()

    def look(self) -> list[Tail]:
        """Find journals that are new."""
        known = {tail.path for tail in self.tails}
        new = [Tail(path) for path in sorted(self.folder.glob("*.jsonl")) if path not in known]
        self.tails += new
        return self.tails

    @property
    def main(self) -> Tail | None:
        """The journal by which the run stands: the main one that began last, for a run can be taken up again."""
        known = sorted((tail.first.t, number) for number, tail in enumerate(self.tails) if tail.first is not None)
        begun = [self.tails[number] for _, number in known]
        mains = [tail for tail in begun if tail.first is not None and tail.first.main]
        held = mains or begun[:1] or self.tails[:1]
        return held[-1] if held else None

    @property
    def status(self) -> str:
        """The true status of the run."""
        return self.main.status if self.main is not None else "LOST"


def find(home: Path, given: str) -> Path:
    """The folder of a run, by its id or IRI, the beginning or end of the id that no other has, or `latest`."""
    folders = sorted({path.parent for path in (home / "runs").glob("*/*.jsonl")}, reverse=True)
    wanted = given.removeprefix(BASE)
    if wanted == "latest" and folders:
        return max(folders, key=lambda folder: (_began(folder), folder.name))
    exact = [folder for folder in folders if folder.name == wanted]
    like = [folder for folder in folders if wanted and folder.name.startswith(wanted)]
    like += [folder for folder in folders if wanted and folder.name.endswith(wanted) and folder not in like]
    found = exact or like
    if len(found) == 1:
        return found[0]
    ids = [folder.name for folder in found or folders]
    near = ids if found else difflib.get_close_matches(wanted, ids, 3) or ids
    raise NoSuchRun(given, tuple(near[:10]), ambiguous=bool(found))


def _began(folder: Path) -> float:
    """When a run began, by the first lines of its journals."""
    times = []
    for path in folder.glob("*.jsonl"):
        for _, _, line in read_lines(path):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                times.append(getattr(event.decode(line), "t", 0.0))
            break
    return min(times, default=0.0)
