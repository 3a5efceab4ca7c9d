"""How far the index has read: for each journal an offset and the lifter's state, and what is known of each run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from functools import cache
from pathlib import Path

import msgspec

from provml import event, lift, rdf, resources
from provml.lift import State
from provml.process import boot_id, host, is_alive

SILENT_SECONDS = 600.0
"""After how long without a sign of life a writer on another machine counts as lost."""
MOST_PROBLEMS = 1000
"""So many are kept for a journal; more would tell nothing new."""


class Problem(msgspec.Struct, frozen=True):
    """A line that could not be taken in, or not whole."""

    file: str
    line: int
    reason: str


class Journal(msgspec.Struct):
    """One journal file, as far as it is read. `left` is how a file looked whose writer is gone, when it was read."""

    offset: int = 0
    number: int = 0
    state: State = msgspec.field(default_factory=State)
    end: event.End | None = None
    left: tuple[int, int] | None = None
    problems: list[Problem] = []

    def complain(self, file: str, line: int, reason: str) -> None:
        """Note a problem."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(file, line, reason[:300]))

    def rest(self) -> None:
        """Forget what only further events would need."""
        state = self.state
        self.state = State(state.first, state.experiment, state.model, state.own)


class Progress(msgspec.Struct):
    """All journals by path below the home, the standing told for each run, and the files added by hand."""

    made: str = ""
    journals: dict[str, Journal] = {}
    told: dict[str, str] = {}
    added: list[str] = []


@cache
def making() -> str:
    """What an index is made by, as a digest: other ontologies, or another way to lift, make another one."""
    digest = hashlib.sha256(str(event.VERSION).encode())
    files = [*resources.ontologies().glob("*.ttl")]
    for room in (lift, rdf):
        files += Path(str(room.__file__)).parent.glob("*.py")
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def decode(held: bytes) -> Progress:
    """The progress held in bytes; none where they are of another making."""
    try:
        return msgspec.msgpack.decode(held, type=Progress)
    except msgspec.MsgspecError:
        return Progress()


def encode(progress: Progress) -> bytes:
    """The progress as bytes."""
    return msgspec.msgpack.encode(progress)


def read(path: Path) -> Progress:
    """The progress kept in a file; none where there is no such file or it is of another making."""
    try:
        return decode(path.read_bytes())
    except OSError:
        return Progress()


def write(path: Path, held: bytes) -> None:
    """Keep the progress, whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(held)
    temporary.replace(path)


def status_of(path: Path, journal: Journal) -> str:
    """The true status of a run by its main journal: how it ended, or whether its writer still lives."""
    if journal.end is not None:
        return journal.end.status
    first = journal.state.first
    if first is None:
        return "LOST"
    if first.host == host():
        if first.boot == boot_id() and is_alive(first.pid, first.t, first.born):
            return "RUNNING"
        return "KILLED"
    with contextlib.suppress(OSError):
        if first.host and time.time() - path.stat().st_mtime < SILENT_SECONDS:
            return "RUNNING"
    return "LOST"
