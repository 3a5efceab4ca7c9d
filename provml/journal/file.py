"""Journal files: one append-only file of events per writing process, safe against `kill -9`.

A line is in the page cache before `append` returns. If the file system allows it, the file is mapped into memory and a
line is copied into the map; otherwise (network file systems, or if mapping fails) each line is one write(2). Both write
into space that was allocated before, so that a full disk is an error here and not a signal in the middle of a training,
and both keep a reserve for the last events of a run. Allocated space that is not written yet holds zeros, which occur
in no line: a reader that finds a zero is at the end, and never takes half a line for a complete one. Programs that
follow a log file do not expect zeros: for them, PROVML_JOURNAL=append writes lines without allocating space.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

MAX_GROWTH_BYTES = 1 << 20
FIRST_GROWTH_BYTES = 1 << 16
PAGE_BYTES = 4096
RESERVE_BYTES = 16 << 10
"""Space for the last events of a run only: the count of its capture errors and its end."""
RETRY_SECONDS = 1.0
"""Time between two attempts to allocate space on a full disk: an attempt may take long."""
MOUNT_TABLE = Path("/proc/self/mountinfo")
MAPPABLE_FILE_SYSTEMS = frozenset(["ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs", "overlay", "ramfs"])
"""File systems that keep the space they allocate for a mapped file. Copy-on-write file systems (btrfs, zfs) may need
new space for each page, and end the process if there is none; they get write(2), as do network file systems."""
MODES = ("map", "write", "append", "plain")
"""Ways to write a journal: through a memory map, with write(2), or with write(2) without allocating space."""


class JournalFile:
    """A file that is written by one write(2) per line, in space that doubles up to `MAX_GROWTH_BYTES` at a time."""

    def __init__(self, path: Path, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self.path = path
        self.size = 0
        """Allocated bytes."""
        self.limit = 0
        """Allocated bytes without the reserve."""
        self.end = 0
        """Written bytes."""
        self._retry_seconds = retry_seconds
        self._last_attempt = 0.0
        self._disk_full: OSError | None = None
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            self._grow(1)
        except BaseException:
            self.abandon()
            path.unlink(missing_ok=True)
            raise

    def append(self, line: bytes, use_reserve: bool = False) -> None:
        """Append a line, which ends with a line break; the last events of a run may use the reserve."""
        start = self.end
        end = start + len(line)
        if end > self.limit and not (use_reserve and end <= self.size):
            self._grow(end - self.size)
        try:
            self._write(line, start)
            self.end = end
        except Exception:
            raise
        except BaseException:  # Ctrl-C: a reader may have read the line already, so it must be completed
            self._write(line, start)
            self.end = end
            raise

    def _write(self, line: bytes, offset: int) -> None:
        written = os.pwrite(self._file, line, offset)
        while written < len(line):
            written += os.pwrite(self._file, line[written:], offset + written)

    def _grow(self, min_bytes: int) -> None:
        """Allocate more space, at least a number of bytes; fail at once if the disk was full a moment ago."""
        if self._disk_full is not None and time.monotonic() - self._last_attempt < self._retry_seconds:
            raise self._disk_full.with_traceback(None)
        needed = -(-(max(min_bytes, 0) + RESERVE_BYTES) // PAGE_BYTES) * PAGE_BYTES
        try:
            try:
                self._allocate(max(needed, min(max(self.size, FIRST_GROWTH_BYTES), MAX_GROWTH_BYTES)))
            except OSError:
                self._allocate(needed)
        except OSError as error:
            self._disk_full, self._last_attempt = error, time.monotonic()
            raise
        self._disk_full = None
        self.limit = self.size - RESERVE_BYTES

    def _allocate(self, count: int) -> None:
        os.posix_fallocate(self._file, self.size, count)
        self.size += count

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes that were written."""
        return os.pread(self._file, count, offset)

    def is_deleted(self) -> bool:
        """Return whether the file was deleted, so that everything written to it will be lost."""
        return os.fstat(self._file).st_nlink == 0

    def sync(self) -> None:
        """Flush the file to disk; other threads continue meanwhile."""
        os.fsync(self._file)

    def touch(self) -> None:
        """Update the modification time, as a heartbeat for readers on other machines."""
        os.utime(self._file)

    def release(self) -> None:
        """Release the space that is not used, and flush the file to disk."""
        os.ftruncate(self._file, self.end)
        os.fsync(self._file)

    def append_after_release(self, line: bytes) -> None:
        """Append a line to a file that has no allocated space any more."""
        JournalFile._write(self, line, self.end)
        self.end += len(line)

    def close(self) -> None:
        """Release the space that is not used, flush the file to disk, and close it."""
        try:
            self.release()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file and leave it as it is, in a forked child: it belongs to the parent."""
        os.close(self._file)


class MappedJournalFile(JournalFile):
    """A file that is written through memory, without a system call per line."""

    def __init__(self, path: Path, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._map: mmap.mmap | None = None
        super().__init__(path, retry_seconds=retry_seconds)

    def append(self, line: bytes, use_reserve: bool = False) -> None:
        """Append a line, which ends with a line break; the last events of a run may use the reserve."""
        start = self.end
        end = start + len(line)
        if end > self.limit and not (use_reserve and end <= self.size):
            self._grow(end - self.size)
        self._map[start:end] = line  # type: ignore[index]  # mapped since __init__
        self.end = end

    def _allocate(self, count: int) -> None:
        os.posix_fallocate(self._file, self.size, count)
        previous, self._map = self._map, mmap.mmap(self._file, self.size + count)
        self.size += count
        if previous is not None:  # last, because an interrupt may come in between
            previous.close()

    def abandon(self) -> None:
        """Close the map and the file."""
        if self._map is not None:
            self._map.close()
        super().abandon()


class UnreservedJournalFile(JournalFile):
    """A file that ends with its last line: write(2), without space allocated in advance and without a reserve.

    If the disk is full in the middle of a line, the next line that fits replaces what was written of it.
    """

    def _allocate(self, count: int) -> None:
        self.size += count


class Mount(NamedTuple):
    """A mounted file system: where it is mounted, the folder of it that is mounted, its type, and its source."""

    point: Path
    root: str
    type: str
    source: str


def find_mount(path: Path, mount_table: Path = MOUNT_TABLE) -> Mount | None:
    """Return the mount that a folder is on; None if the system does not list its mounts."""
    try:
        mounts = mount_table.read_bytes()
        folder = os.fsencode(path.resolve())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError
        return None
    best = None
    for line in mounts.splitlines():
        fields, _, source = (part.split() for part in line.partition(b" - "))
        root, point = map(_unescaped, fields[3:5])
        if (folder == point or folder.startswith(point.rstrip(b"/") + b"/")) and (
            best is None or len(point) >= len(os.fsencode(best.point))
        ):
            kind, device = (os.fsdecode(_unescaped(text)) for text in source[:2])
            best = Mount(Path(os.fsdecode(point)), os.fsdecode(root), kind, device)
    return best


def _unescaped(text: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), text)


def file_system(path: Path, mount_table: Path = MOUNT_TABLE) -> str:
    """Return the type of the file system of a folder; empty if the system does not list its mounts."""
    mount = find_mount(path, mount_table)
    return "" if mount is None else mount.type


def open_journal(path: Path, mode: str | None = None) -> JournalFile:
    """Create a journal file, mapped if that is safe; `mode` or PROVML_JOURNAL, one of `MODES`, overrides the choice."""
    mode = mode or os.environ.get("PROVML_JOURNAL", "")
    if mode and mode not in MODES:
        _warn_unknown_mode(mode)
    if mode in ("append", "plain") or not hasattr(os, "posix_fallocate"):
        return UnreservedJournalFile(path)
    if mode == "map" or (mode != "write" and file_system(path.parent) in MAPPABLE_FILE_SYSTEMS):
        try:
            return MappedJournalFile(path)
        except FileExistsError:
            raise
        except (OSError, ValueError):
            if mode == "map":
                raise
    try:
        return JournalFile(path)
    except FileExistsError:
        raise
    except OSError:
        return UnreservedJournalFile(path)


@cache
def _warn_unknown_mode(mode: str) -> None:
    import logging

    message = "provml: PROVML_JOURNAL is %r. Use one of %s. Until then, provml chooses."
    logging.getLogger("provml").warning(message, mode, ", ".join(MODES))
