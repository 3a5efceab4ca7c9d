"""Runs that have ended and are indexed to their end: what the index remembers of them, decoded only when needed.

A home has few open runs and many that have ended. What the index has to remember of the latter is a file of its own,
which is written rarely. A command reads the ids, names and start times in it, and looks at the rest of a run only if
somebody asks about that run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from provml.errors import IndexDamaged
from provml.journal.annotations import file_sizes
from provml.store import checkpoint
from provml.store.checkpoint import AnnotationCheckpoint, JournalCheckpoint

PREFIX = "sealed-"
"""How the name of the file starts; it ends with the digest of the content."""


class SealedRun(msgspec.Struct, array_like=True):
    """The checkpoints of a run's journals by their paths below the home, its written status, and its annotations."""

    journals: list[tuple[str, JournalCheckpoint]]
    status: str = ""
    annotations: AnnotationCheckpoint | None = None


class FolderState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The modification time of a run's folder, and name, size and time of its journals, name and size of annotations.

    Anything that somebody does to a run changes it: a new, changed or removed journal, an annotation.
    """

    time: int
    journals: tuple[tuple[str, int, int], ...] = ()
    annotations: tuple[tuple[str, int], ...] = ()

    @property
    def last_change(self) -> int:
        """The latest of its times."""
        return max(self.time, *(time for _, _, time in self.journals))


class SealedEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A run in the table: start and name, the state of its folder (null if it has none), and a `SealedRun`."""

    started: float
    name: str
    folder: msgspec.Raw
    run: msgspec.Raw


_DECODER = msgspec.msgpack.Decoder(dict[str, SealedEntry])
_FOLDER_DECODER = msgspec.msgpack.Decoder(FolderState | None)
_RUN_DECODER = msgspec.msgpack.Decoder(SealedRun)


class SealedRuns(Mapping[str, SealedRun]):
    """The sealed runs of an index by id. It does not change: sealing more runs makes a new table."""

    def __init__(self, entries: dict[str, SealedEntry] | None = None) -> None:
        self.entries = {} if entries is None else entries

    def __getitem__(self, run: str) -> SealedRun:
        return _RUN_DECODER.decode(self.entries[run].run)

    def __contains__(self, run: object) -> bool:
        return run in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def folders(self) -> dict[str, FolderState]:
        """The states of the folders of the runs that had one."""
        states = {run: _FOLDER_DECODER.decode(entry.folder) for run, entry in self.entries.items()}
        return {run: state for run, state in states.items() if state is not None}

    def replaced(self, removed: Container[str], added: Mapping[str, SealedEntry]) -> SealedRuns:
        """Return a table without some runs and with others."""
        entries = {run: entry for run, entry in self.entries.items() if run not in removed}
        return SealedRuns({**entries, **added})

    def changed(self, home: Path, names: Container[str], unsealed: Container[str]) -> list[str]:
        """Return the runs whose folders are not as they were; `names` are the folders that there are."""
        states = self.folders
        with _folder(home / "runs") as (runs, descriptor):
            changed = [
                run
                for run, state in states.items()
                if run not in unsealed
                and not (_is_unchanged(f"{runs}{run}", state, descriptor) and _has_same_annotations(home, run, state))
            ]
        if isinstance(names, Iterable):  # packed runs have no folder, unless somebody annotates or resumes them
            changed += [run for run in names if run in self.entries and run not in states and run not in unsealed]
        return changed


def make_entry(run: SealedRun, started: float, name: str, folder: FolderState | None) -> SealedEntry:
    """Return the entry of a run in the table."""
    encode = msgspec.msgpack.encode
    return SealedEntry(started, name, msgspec.Raw(encode(folder)), msgspec.Raw(encode(run)))


def replace_folder(entry: SealedEntry, folder: FolderState | None) -> SealedEntry:
    """Return the entry of a run whose folder has another state by now."""
    return msgspec.structs.replace(entry, folder=msgspec.Raw(msgspec.msgpack.encode(folder)))


def folder_state(folder: str | Path) -> FolderState | None:
    """Return the present state of a run's folder; None if there is none."""
    try:
        time = os.stat(folder).st_mtime_ns  # noqa: PTH116  # called for every run
        with os.scandir(folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".jsonl")]
    except (FileNotFoundError, NotADirectoryError):
        return None
    journals = sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)
    return FolderState(time, tuple(journals), tuple(sorted(file_sizes(Path(folder)).items())))


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[tuple[str, int | None]]:
    """Open a folder, so that paths in it are short to resolve; yield the prefix of such paths, and a descriptor."""
    if os.stat not in os.supports_dir_fd or not path.is_dir():
        yield f"{path}/", None
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield "", descriptor
    finally:
        os.close(descriptor)


def _is_unchanged(folder: str, state: FolderState, descriptor: int | None) -> bool:
    """True if the folder of a run, and its files, are as they were. Called for every run that is not packed."""
    try:
        if os.stat(folder, dir_fd=descriptor).st_mtime_ns != state.time:
            return False
        for name, size, time in state.journals:
            stat = os.stat(f"{folder}/{name}", dir_fd=descriptor)
            if stat.st_size != size or stat.st_mtime_ns != time:
                return False
    except OSError:
        return False
    return True


def _has_same_annotations(home: Path, run: str, state: FolderState) -> bool:
    if not state.annotations:  # a first one changes the time of the folder
        return True
    try:
        return tuple(sorted(file_sizes(home / "runs" / run).items())) == state.annotations
    except OSError:
        return False


# ---- the file


def read(folder: Path, digest: str) -> SealedRuns:
    """Read the table with a digest from the folder of an index. Raise IndexDamaged if it is missing or changed."""
    if not digest:
        return SealedRuns()
    data = checkpoint.read_checked(folder / f"{PREFIX}{digest}")
    if data is None:
        raise IndexDamaged("the table of finished runs is missing")
    return SealedRuns(_DECODER.decode(data))


def write(folder: Path | None, runs: SealedRuns) -> str:
    """Write a table to the folder of an index, if it has one; return its digest."""
    data = msgspec.msgpack.encode(runs.entries)
    digest = hashlib.sha256(data).hexdigest()[:16]
    if folder is not None and not (folder / f"{PREFIX}{digest}").exists():
        checkpoint.write(folder / f"{PREFIX}{digest}", data)
    return digest


def remove_others(folder: Path, digest: str) -> None:
    """Remove the tables that the checkpoint no longer refers to."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.name != f"{PREFIX}{digest}":
            path.unlink(missing_ok=True)
