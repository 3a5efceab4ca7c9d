"""Journals: one append-only file of events per writing process, safe against kill -9, and their reading.

A line is in the page cache before `append` returns. Where the file system allows it the file is mapped into memory and
a line is copied into the map; elsewhere (network file systems, or where mapping fails) each line is one write(2). Both
write into room that was allocated before, so that a full disk is an error here and not a signal in the middle of a
training, and both keep some of it back for the last words of a run. What is allocated and not yet written is zeros,
which no line holds: a reader that finds one is at the end, so it never takes half a line for a whole one.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
FIRST_CHUNK = 1 << 16
PAGE = 4096
RESERVE = 16 << 10
"""Room that only the last words of a run may use: its faults and how it ended."""
PATIENCE = 1.0
"""A disk that is full is not asked again for so many seconds: to ask may take long."""
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs", "overlay", "ramfs"])
"""File systems that keep the room they allocate for a mapped file. Those that copy on write (btrfs, zfs) may want new
room for each page and end the process where there is none; they get write(2), as do network file systems."""


class WrittenFile:
    """A file that gets one write(2) a line, in room allocated by chunks, each as large as all before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.limit = 0
        self.end = 0
        self._asked = 0.0
        self._full: OSError | None = None
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            self._grow(1)
        except BaseException:
            self.abandon()
            path.unlink(missing_ok=True)
            raise

    def append(self, line: bytes, last: bool = False) -> None:
        """Add a whole line, which ends with a line break; the last words may use the reserve."""
        end = self.end
        after = end + len(line)
        if after > self.limit and not (last and after <= self.size):
            self._grow(after - self.size)
        try:
            self._write(line, end)
            self.end = after
        except Exception:
            raise
        except BaseException:  # Ctrl-C: a reader may have the line already, so it has to stay
            self._write(line, end)
            self.end = after
            raise

    def _write(self, line: bytes, at: int) -> None:
        written = os.pwrite(self._file, line, at)
        while written < len(line):
            written += os.pwrite(self._file, line[written:], at + written)

    def _grow(self, least: int) -> None:
        """Allocate a chunk, or at least what is needed; a disk that was full a moment ago still is."""
        if self._full is not None and time.monotonic() - self._asked < PATIENCE:
            raise self._full.with_traceback(None)
        needed = -(-(max(least, 0) + RESERVE) // PAGE) * PAGE
        try:
            try:
                self._allocate(max(needed, min(max(self.size, FIRST_CHUNK), CHUNK)))
            except OSError:
                self._allocate(needed)
        except OSError as error:
            self._full, self._asked = error, time.monotonic()
            raise
        self._full = None
        self.limit = self.size - RESERVE

    def _allocate(self, more: int) -> None:
        os.posix_fallocate(self._file, self.size, more)
        self.size += more

    def is_gone(self) -> bool:
        """Whether somebody removed the file, so that what is written to it will vanish."""
        return os.fstat(self._file).st_nlink == 0

    def sync(self) -> None:
        """Have the disk keep what was written; other threads go on meanwhile."""
        os.fsync(self._file)

    def touch(self) -> None:
        """Give a sign of life to readers on other machines."""
        os.utime(self._file)

    def close(self) -> None:
        """Give back what was allocated and not used, and have the disk keep the rest."""
        try:
            os.ftruncate(self._file, self.end)
            os.fsync(self._file)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of it and leave it as it is, for it belongs to the process that forked this one."""
        os.close(self._file)


class MappedFile(WrittenFile):
    """A file that is written through memory: no system call a line."""

    def __init__(self, path: Path) -> None:
        self._map: mmap.mmap | None = None
        super().__init__(path)

    def append(self, line: bytes, last: bool = False) -> None:
        """Add a whole line, which ends with a line break; the last words may use the reserve."""
        end = self.end
        after = end + len(line)
        if after > self.limit and not (last and after <= self.size):
            self._grow(after - self.size)
        self._map[end:after] = line  # type: ignore[index]  # there is one since __init__
        self.end = after

    def _allocate(self, more: int) -> None:
        os.posix_fallocate(self._file, self.size, more)
        before, self._map = self._map, mmap.mmap(self._file, self.size + more)
        self.size += more
        if before is not None:  # last, for an interrupt may come in between
            before.close()

    def abandon(self) -> None:
        """Let go of the map and the file."""
        if self._map is not None:
            self._map.close()
        super().abandon()


class BareFile(WrittenFile):
    """A file on a system that allocates nothing ahead: write(2), and no reserve."""

    def _allocate(self, more: int) -> None:
        self.size += more


def file_system(path: Path) -> str:
    """The type of the file system that holds a folder; empty where the system does not say."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
        where = os.fsencode(path.resolve())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError
        return ""
    best, kind = b"", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(b" - ")
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), left.split()[4])
        if (where == point or where.startswith(point.rstrip(b"/") + b"/")) and len(point) >= len(best):
            best, kind = point, right.split()[0].decode()
    return kind


def open_sink(path: Path, how: str | None = None) -> WrittenFile:
    """A new journal file: mapped where that is safe, else written; `how` or PROVML_JOURNAL=map|write decides it."""
    how = how or os.environ.get("PROVML_JOURNAL", "")
    if not hasattr(os, "posix_fallocate"):
        return BareFile(path)
    if how == "map" or (how != "write" and file_system(path.parent) in LOCAL):
        try:
            return MappedFile(path)
        except FileExistsError:
            raise
        except (OSError, ValueError):
            if how == "map":
                raise
    try:
        return WrittenFile(path)
    except FileExistsError:
        raise
    except OSError:
        return BareFile(path)


def read_lines(path: Path, offset: int = 0, number: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """The complete lines after an offset: where each ends, its number from 1, and its bytes without the break.

    A line that holds a zero is still being written, and ends the reading, unless another line begins after it. Then
    either the writer overtook this reading, and a second look shows the line whole; or it is what a power cut left, and
    is given like any other for the caller to find it damaged.
    """
    with path.open("rb", buffering=0) as file:  # a second look must not be at a buffer
        file.seek(offset)
        held, at, zero, looked_twice = b"", 0, -1, -1
        while True:
            brk = held.find(b"\n", at)
            torn = 0 <= zero < brk
            if brk < 0 or (torn and held.find(b"\n{", brk) < 0):
                block = file.read(CHUNK)
                if not block:
                    return
                held, at = held[at:] + block, 0
                zero = held.find(b"\0")
                continue
            if torn and looked_twice != offset:
                looked_twice = file.seek(offset)
                held, at, zero = b"", 0, -1
                continue
            offset += brk + 1 - at
            number += 1
            yield offset, number, held[at:brk]
            at = brk + 1
            if torn:
                zero = held.find(b"\0", at)
