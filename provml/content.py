"""What data is known by: the SHA-256 of its whole content, streamed, for files, folders, arrays and bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = 1 << 20


class Content(NamedTuple):
    """A digest and a size in bytes."""

    sha256: str
    size: int


_SEEN: dict[tuple[str, int, int], Content] = {}


def of_file(path: Path) -> Content:
    """The content of a file; one that has not changed since is not read again by this process."""
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    known = _SEEN.get(key)
    if known is None:
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
        known = _SEEN[key] = Content(digest.hexdigest(), size)
    return known


def of_folder(path: Path) -> Content:
    """The content of a folder: of its files' names and contents, in the order of their names."""
    digest, size = hashlib.sha256(), 0
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        inner = of_file(file)
        digest.update(f"{file.relative_to(path).as_posix()}\0{inner.sha256}\n".encode())
        size += inner.size
    return Content(digest.hexdigest(), size)


def of(data: Any) -> Content | None:
    """The content of a path, bytes or an array; None where it has none that can be read."""
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if path.is_dir():
            return of_folder(path)
        return of_file(path) if path.is_file() else None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return Content(hashlib.sha256(data).hexdigest(), memoryview(data).nbytes)
    if hasattr(data, "tobytes") and hasattr(data, "shape"):
        held = data.tobytes()
        head = f"{data.shape}{getattr(data, 'dtype', '')}".encode()
        return Content(hashlib.sha256(head + held).hexdigest(), len(held))
    return None
