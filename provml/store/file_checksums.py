"""Checksums of the data files of an index, so that damage is noticed before the engine reads them.

The engine has checksums of its own. But a query that comes across a damaged block may then take memory without end, in
particular one that sorts, so what can be known when the index is opened has to be known then. Data files never change:
each is read once more after it was written, and again when the index is opened, unless the index is large and the file
has the time that it had.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

import msgspec

from provml.errors import IndexDamaged
from provml.store import checkpoint

NAME = "checksums"
BLOCK_BYTES = 1 << 20
ALWAYS_READ_BYTES = 64 << 20
"""An index of at most this size, which takes about 0.1 s, is read whenever it is opened."""


class FileChecksum(msgspec.Struct, array_like=True, frozen=True):
    """The size, modification time and CRC-32 of a data file."""

    size: int
    time: int
    checksum: int


Checksums = dict[str, FileChecksum]


def check(folder: Path) -> Checksums:
    """Return the checksums of the data files of an index, with the present times. Raise IndexDamaged if one differs.

    A file without a checksum, or of another size, is left to the engine, which checks it when it reads it.
    """
    data = checkpoint.read_checked(folder / NAME)
    if data is None:
        return {}
    saved = msgspec.msgpack.decode(data, type=Checksums)
    is_small = sum(entry.size for entry in saved.values()) <= ALWAYS_READ_BYTES
    current: Checksums = {}
    for name, entry in saved.items():
        path = folder / "store" / name
        if not path.is_file():
            continue
        size, time = _signature(path)
        if size != entry.size:
            continue
        if (is_small or time != entry.time) and _checksum(path) != entry.checksum:
            raise IndexDamaged(f"checksum mismatch in {name}")
        current[name] = FileChecksum(size, time, entry.checksum)
    return current


def write(folder: Path, previous: Checksums) -> Checksums:
    """Write and return the checksums of the data files of an index; those that are known are not computed again.

    A file that is being written has another size later, and so its checksum does not count.
    """
    checksums: Checksums = {}
    for path in sorted((folder / "store").glob("*.sst")):
        with contextlib.suppress(FileNotFoundError):  # merged into another one meanwhile
            size, time = _signature(path)
            entry = previous.get(path.name)
            if entry is None or entry.size != size:
                entry = FileChecksum(size, time, _checksum(path))
            checksums[path.name] = entry
    checkpoint.write(folder / NAME, msgspec.msgpack.encode(checksums))
    return checksums


def _signature(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum
