"""Copies of journals that other machines record: appended to only at their own length, and only by their owner.

A file `NAME.received` beside a copy says who sends it. A journal without one is written by a process of this machine,
and nobody else may touch it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from provml.journal.reader import read_lines
from provml.paths import NO_FOLLOW

try:
    import fcntl
except ImportError:  # without fcntl, one process at a time may receive
    fcntl = None  # type: ignore[assignment]

MARK_SUFFIX = ".received"
TAIL_BYTES = 1 << 16


class Mark(msgspec.Struct, frozen=True):
    """Who sends a copy (a digest of the token), and when it began."""

    owner: str
    time: float


class WrongOffset(Exception):
    """A copy that has another length than the sender supposes; `length` is its own."""

    def __init__(self, length: int) -> None:
        super().__init__(f"The copy has {length} bytes.")
        self.length = length


class NotOwned(Exception):
    """A journal that somebody else writes."""


class ReceivedFile:
    """The copy of a journal, or of a file of annotations."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark_path = path.with_suffix(MARK_SUFFIX)

    def length(self) -> int | None:
        """Return the length in complete lines; None if there is no copy."""
        try:
            with self.path.open("rb", buffering=0) as file:
                return _complete_length(self.path, file.fileno(), os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return None

    def append(self, offset: int, data: bytes, *, owner: str, idle: float = 0.0, sync: bool = False) -> int:
        """Append whole lines at an offset and return the new length: all of them or, after an error, none.

        Raise WrongOffset if the copy has another length, NotOwned if somebody else writes it, and OSError if the disk
        is full. `idle` is the time since the last sign of life of the writer, which the modification time shows.
        """
        self._claim(owner)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)
        try:
            with _locked(file):
                size = os.fstat(file).st_size
                length = _complete_length(self.path, file, size)
                if length != offset:
                    raise WrongOffset(length)
                if size > length:  # a part of a line, which a killed receiver or a full disk has left
                    os.ftruncate(file, length)
                try:
                    _write(file, data, length)
                except BaseException:
                    os.ftruncate(file, length)
                    raise
                if sync:
                    os.fsync(file)
                now = time.time()
                os.utime(file, (now, now - max(idle, 0.0)))
                return length + len(data)
        finally:
            os.close(file)

    def _claim(self, owner: str) -> None:
        """Check that a sender owns the copy; the first one gets it."""
        mark = self._read_mark()
        if mark is None:
            if self.path.exists():
                raise NotOwned("it is recorded on the machine of the service")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mark = self._write_mark(Mark(owner, time.time()))
        if mark.owner != owner:
            raise NotOwned("it was begun with another token")

    def _read_mark(self) -> Mark | None:
        try:
            return msgspec.json.decode(self._mark_path.read_bytes(), type=Mark)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _write_mark(self, mark: Mark) -> Mark:
        """Write the mark, unless another sender was faster; return the one that counts."""
        part = self._mark_path.with_name(f"{self._mark_path.name}-{os.urandom(4).hex()}.part")
        try:
            part.write_bytes(msgspec.json.encode(mark))
            try:
                os.link(part, self._mark_path)
            except FileExistsError:
                return self._read_mark() or mark
            return mark
        finally:
            part.unlink(missing_ok=True)


def _complete_length(path: Path, file: int, size: int) -> int:
    """Return the end of the last complete line: a killed receiver, or a full disk, may have left a part of another."""
    tail = os.pread(file, TAIL_BYTES, max(size - TAIL_BYTES, 0))
    if b"\0" not in tail and b"\n" in tail:
        return size - len(tail) + tail.rindex(b"\n") + 1
    length = 0
    for length, _, line in read_lines(path):
        if b"\0" in line:  # a power cut damaged it: the sender has the rest
            return length - len(line) - 1
    return length


def _write(file: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], offset + written)


@contextlib.contextmanager
def _locked(file: int) -> Iterator[None]:
    """Exclude other threads and processes that append to the same file."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield  # closing the file releases the lock
