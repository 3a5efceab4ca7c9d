"""How far the index has read: for each journal an offset and the lifter's state, and what is known of each run."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path

import msgspec

from provml import event
from provml.lift import State
from provml.process import boot_id, is_alive

SILENT_SECONDS = 600.0
"""After how long without a sign of life a writer on another machine counts as lost."""


class Problem(msgspec.Struct, frozen=True):
    """A line that could not be taken in."""

    file: str
    line: int
    reason: str


class Journal(msgspec.Struct):
    """One journal file, as far as it is read."""

    offset: int = 0
    number: int = 0
    state: State = msgspec.field(default_factory=State)
    end: event.End | None = None
    last: float = 0.0
    problems: list[Problem] = []
    refused: bool = False


class Progress(msgspec.Struct):
    """All journals by path below the home, the status told for each run, and the files added by hand."""

    journals: dict[str, Journal] = {}
    told: dict[str, str] = {}
    added: list[str] = []
    ontology: str = ""


def read(path: Path) -> Progress:
    """The progress kept in a file; none where there is no such file or it is of another making."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return Progress()


def write(path: Path, progress: Progress) -> None:
    """Keep the progress, whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(msgspec.msgpack.encode(progress))
    temporary.replace(path)


def status_of(path: Path, journal: Journal) -> str:
    """The true status of a run by its main journal: how it ended, or whether its writer still lives."""
    if journal.end is not None:
        return journal.end.status
    first = journal.state.first
    if first is None:
        return "LOST"
    if first.host == platform.node():
        if first.boot == boot_id():
            return "RUNNING" if is_alive(first.pid, first.t) else "KILLED"
        return "KILLED"
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime < SILENT_SECONDS:
            return "RUNNING"
    return "LOST"
