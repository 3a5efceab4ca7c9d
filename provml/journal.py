"""Journals: one append-only file of events per writing process, safe against kill -9, and their reading.

A line is in the page cache before `append` returns. Where the file system allows it the file is mapped into memory and
a line is copied into the map, its first byte last: a reader that finds a zero there is at the end, so it never sees
half a line. Elsewhere (network file systems, or where mapping fails) each line is one write(2). Blocks are allocated before
they are written to, so that a full disk is an error here and not a signal in the middle of a training.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "f2fs", "overlay", "ramfs", "apfs", "hfs"])
"""File systems on which a mapped file behaves; any other gets write(2)."""


class MappedFile:
    """A file that grows by chunks and is written through memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.end = 0
        self._map: mmap.mmap
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            self._grow(CHUNK)
        except BaseException:
            os.close(self._file)
            path.unlink()
            raise

    def _grow(self, least: int) -> None:
        size = self.size + max(CHUNK, -(-least // CHUNK) * CHUNK)
        os.posix_fallocate(self._file, self.size, size - self.size)
        mapped = mmap.mmap(self._file, size)
        if self.size:
            self._map.close()
        self._map = mapped
        self.size = size

    def append(self, line: bytes) -> None:
        """Add a whole line; it ends with a line break."""
        end = self.end
        after = end + len(line)
        if after >= self.size:
            self._grow(after - self.size + 1)
        self._map[end + 1 : after] = line[1:]
        self._map[end] = line[0]
        self.end = after

    def sync(self) -> None:
        """Have the disk keep what was written."""
        self._map.flush()

    def close(self) -> None:
        """Give back what was allocated and not used."""
        self._map.flush()
        self._map.close()
        os.ftruncate(self._file, self.end)
        os.close(self._file)


class WrittenFile:
    """A file that gets one write(2) a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def append(self, line: bytes) -> None:
        """Add a whole line; where only a part fits on the disk, the rest is an error."""
        written = os.write(self._file, line)
        while written < len(line):
            written += os.write(self._file, line[written:])

    def sync(self) -> None:
        """Have the disk keep what was written."""
        os.fsync(self._file)

    def close(self) -> None:
        """Have the disk keep it, and close."""
        os.fsync(self._file)
        os.close(self._file)


def file_system(path: Path) -> str:
    """The type of the file system that holds a folder; empty where the system does not say."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""
    best, kind = "", ""
    where = str(path.resolve())
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4].encode().decode("unicode_escape")
        if (where == point or where.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def open_sink(path: Path, how: str | None = None) -> MappedFile | WrittenFile:
    """A new journal file: mapped where that is safe, else written; `how` or PROVML_JOURNAL=map|write decides it."""
    how = how or os.environ.get("PROVML_JOURNAL", "")
    if how != "write" and (how == "map" or file_system(path.parent) in LOCAL):
        try:
            return MappedFile(path)
        except (OSError, ValueError, AttributeError):
            if how == "map":
                raise
    return WrittenFile(path)


def read_lines(path: Path, offset: int = 0, number: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """The complete lines after an offset: where each ends, its number from 1, and its bytes without the break.

    A line that begins with a zero is still being written, and ends the reading, unless whole lines follow it: then it
    is what a power cut left, and is given like any other for the caller to find it damaged.
    """
    with path.open("rb") as file:
        file.seek(offset)
        held, at = b"", 0
        while True:
            brk = held.find(b"\n", at)
            if brk < 0 or (held[at] == 0 and brk + 1 >= len(held)):
                block = file.read(CHUNK)
                if not block:
                    return
                held, at = held[at:] + block, 0
                continue
            if held[at] == 0 and held[brk + 1] != ord("{"):
                return
            offset += brk + 1 - at
            number += 1
            yield offset, number, held[at:brk]
            at = brk + 1
