"""Runs that have ended and are indexed to their end: what the index remembers of them, read only when needed.

A home has few open runs and many that have ended. What the index has to remember of the latter is a file of its own,
the table of sealed runs, which is written rarely. It begins with a head: ids, names, start times and the states of the
folders of all runs, with the place and the digest of the entry of each. A command reads what it needs of the head, and
the entry of a run only if somebody asks about that run.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import shutil
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import msgspec

from provml.errors import IndexDamaged
from provml.journal.annotations import file_sizes
from provml.store.checkpoint import DIGEST_BYTES, AnnotationCheckpoint, JournalCheckpoint

PREFIX = "sealed-"
"""How the name of the file starts; it ends with the digest of its head."""
LENGTH_BYTES = 8
ENTRY_DIGEST_BYTES = 8


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


class SealedEntry(msgspec.Struct, frozen=True):
    """A run in the table: start and name, the state of its folder (None if it has none), and an encoded `SealedRun`."""

    started: float
    name: str
    folder: FolderState | None
    run: bytes


_ENCODE = msgspec.msgpack.encode
_RUN_DECODER = msgspec.msgpack.Decoder(SealedRun)
_EMPTY_LIST, _EMPTY_MAP = msgspec.Raw(_ENCODE([])), msgspec.Raw(_ENCODE({}))


class _Head(msgspec.Struct):
    """The columns of the table: ids, names, the states of folders by row, and of the entries starts, ends, digests."""

    ids: msgspec.Raw = _EMPTY_LIST
    names: msgspec.Raw = _EMPTY_LIST
    folders: msgspec.Raw = _EMPTY_MAP
    starts: bytes = b""
    ends: bytes = b""
    digests: bytes = b""


class SealedRuns(Mapping[str, SealedRun]):
    """The sealed runs of an index by id, by their start. It does not change: sealing more runs makes a new table."""

    def __init__(self, head: _Head | None = None, content: bytes | mmap.mmap = b"", offset: int = 0) -> None:
        self._head = head or _Head()
        self._content = content
        self._offset = offset
        self._ends = _numbers("Q", self._head.ends)

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the runs; the run that started last comes last."""
        return msgspec.msgpack.decode(self._head.ids, type=list[str])

    @cached_property
    def _names(self) -> list[str]:
        return msgspec.msgpack.decode(self._head.names, type=list[str])

    @cached_property
    def _folders(self) -> dict[int, FolderState]:
        return msgspec.msgpack.decode(self._head.folders, type=dict[int, FolderState])

    @cached_property
    def _starts(self) -> array[float]:
        return _numbers("d", self._head.starts)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {run: row for row, run in enumerate(self.ids)}

    def __getitem__(self, run: str) -> SealedRun:
        return _RUN_DECODER.decode(self._encoded(self._rows[run]))

    def __contains__(self, run: object) -> bool:
        return bool(self._ends) and run in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self._ends)

    def _encoded(self, row: int) -> bytes:
        """Return the encoded run of a row; raise IndexDamaged if it was changed."""
        start, end = self._ends[row - 1] if row else 0, self._ends[row]
        data = self._content[self._offset + start : self._offset + end]
        if _entry_digest(data) != self._head.digests[row * ENTRY_DIGEST_BYTES : (row + 1) * ENTRY_DIGEST_BYTES]:
            raise IndexDamaged("digest mismatch in the table of finished runs")
        return data

    def _entry(self, row: int) -> SealedEntry:
        return SealedEntry(self._starts[row], self._names[row], self._folders.get(row), self._encoded(row))

    def entry(self, run: str) -> SealedEntry:
        """Return the entry of a run."""
        return self._entry(self._rows[run])

    def latest(self, limit: int) -> list[tuple[float, str]]:
        """Return start and id of the runs that started last, the latest first."""
        return [(self._starts[row], self.ids[row]) for row in range(len(self))[::-1][:limit]]

    def named(self) -> Iterator[tuple[float, str, str]]:
        """Yield start, id and name of all runs."""
        return zip(self._starts, self.ids, self._names, strict=True)

    @cached_property
    def folders(self) -> dict[str, FolderState]:
        """The states of the folders of the runs that had one."""
        return {self.ids[row]: state for row, state in self._folders.items()}

    def packed(self) -> Iterator[str]:
        """Yield the runs that had no folder."""
        return (run for row, run in enumerate(self.ids) if row not in self._folders)

    def replaced(self, removed: Container[str], added: Mapping[str, SealedEntry]) -> SealedRuns:
        """Return a table without some runs and with others."""
        entries = {run: self._entry(row) for row, run in enumerate(self.ids) if run not in removed and run not in added}
        return _make_table(sorted([*entries.items(), *added.items()], key=lambda item: (item[1].started, item[0])))

    @property
    def size(self) -> int:
        """The number of bytes of all entries."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def head(self) -> bytes:
        """The columns, as they are written to a file."""
        return _ENCODE(self._head)

    @property
    def digest(self) -> str:
        """The digest of the head, and so of everything: the head has those of the entries."""
        return hashlib.sha256(self.head).hexdigest()[: 2 * DIGEST_BYTES] if len(self) else ""

    def write(self, file: IO[bytes]) -> None:
        """Write the table to a file."""
        file.writelines((len(self.head).to_bytes(LENGTH_BYTES, "big"), self.head, self._content[self._offset :]))

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
            changed += [run for run in names if run in self and run not in states and run not in unsealed]
        return changed


def _make_table(entries: Sequence[tuple[str, SealedEntry]]) -> SealedRuns:
    folders = {row: entry.folder for row, (_, entry) in enumerate(entries) if entry.folder is not None}
    head = _Head(
        msgspec.Raw(_ENCODE([run for run, _ in entries])),
        msgspec.Raw(_ENCODE([entry.name for _, entry in entries])),
        msgspec.Raw(_ENCODE(folders)),
        array("d", [entry.started for _, entry in entries]).tobytes(),
        array("Q", accumulate(len(entry.run) for _, entry in entries)).tobytes(),
        b"".join(_entry_digest(entry.run) for _, entry in entries),
    )
    return SealedRuns(head, b"".join(entry.run for _, entry in entries))


def _entry_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=ENTRY_DIGEST_BYTES).digest()


def _numbers(kind: str, data: bytes) -> array[Any]:
    numbers = array(kind)
    numbers.frombytes(data)
    return numbers


def make_entry(run: SealedRun, started: float, name: str, folder: FolderState | None) -> SealedEntry:
    """Return the entry of a run in the table."""
    return SealedEntry(started, name, folder, _ENCODE(run))


def replace_folder(entry: SealedEntry, folder: FolderState | None) -> SealedEntry:
    """Return the entry of a run whose folder has another state by now."""
    return msgspec.structs.replace(entry, folder=folder)


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
    """Read the table with a digest from the folder of an index. Raise IndexDamaged if it is missing or changed.

    Entries are checked when they are read.
    """
    if not digest:
        return SealedRuns()
    try:
        with (folder / f"{PREFIX}{digest}").open("rb") as file:
            length = min(int.from_bytes(file.read(LENGTH_BYTES), "big"), os.fstat(file.fileno()).st_size)
            head = file.read(length)
            if hashlib.sha256(head).hexdigest()[: len(digest)] != digest:
                raise IndexDamaged(f"digest mismatch in {PREFIX}{digest}")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        raise IndexDamaged("the table of finished runs is missing") from None
    table = SealedRuns(msgspec.msgpack.decode(head, type=_Head), content, LENGTH_BYTES + length)
    if len(content) != LENGTH_BYTES + length + table.size:
        raise IndexDamaged(f"{PREFIX}{digest} has another size")
    return table


def write(folder: Path, runs: SealedRuns) -> SealedRuns:
    """Write a table to the folder of an index; return it as it is read from there, where entries are not in memory."""
    path = folder / f"{PREFIX}{runs.digest}"
    if len(runs) and not path.exists():
        part = folder / f"{PREFIX}{os.getpid()}.part"
        part.unlink(missing_ok=True)
        with part.open("xb") as file:  # never through a link that somebody put there
            runs.write(file)
        part.replace(path)
    return read(folder, runs.digest)


def copy(folder: Path, target: Path) -> None:
    """Copy the tables of an index to another folder; where links are possible, that takes no space."""
    for path in folder.glob(f"{PREFIX}*"):
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copy2(path, target / path.name)


def remove_others(folder: Path, digest: str) -> None:
    """Remove the tables that the checkpoint no longer refers to."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.name != f"{PREFIX}{digest}":
            path.unlink(missing_ok=True)
