"""SHA-256 digests of files, directories, bytes and arrays."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from provml.paths import path_mode

SETTLED_SECONDS = 2.0
"""A file that changed more recently is not cached: it may change again within the resolution of its timestamps."""
CHUNK_BYTES = 1 << 22
"""Size of the pieces in which an array is copied."""
MAX_CACHED_DIGESTS = 10_000


UNKNOWN_SIZE = -1


class Digest(NamedTuple):
    """A SHA-256 digest and a size in bytes."""

    sha256: str
    size: int


class Identity(bytes):
    """Bytes that identify data without being its content: the size of the data is not known."""


FileKey = tuple[str, int, int, int, int]


class DigestCache:
    """Digests of files by path, inode, size and timestamps. The entry that was used longest ago is dropped first."""

    def __init__(self, max_size: int = MAX_CACHED_DIGESTS) -> None:
        self._digests: OrderedDict[FileKey, Digest] = OrderedDict()
        self._max_size = max_size

    def __len__(self) -> int:
        return len(self._digests)

    def get(self, key: FileKey) -> Digest | None:
        """Return the digest of a file that has not changed; None if it is not cached."""
        cached = self._digests.pop(key, None)  # one operation, since threads share the cache
        if cached is not None:
            self._digests[key] = cached
        return cached

    def set(self, key: FileKey, value: Digest) -> None:
        """Cache a digest."""
        self._digests[key] = value
        while len(self._digests) > self._max_size:
            self._digests.popitem(last=False)


_CACHE = DigestCache()


def digest_file(path: Path, cache: DigestCache = _CACHE) -> Digest:
    """Return the digest of a file. This process reads a file again only if it changed."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        result = cache.get(key)
        if result is None:
            sha256 = hashlib.file_digest(file, "sha256")
            result = Digest(sha256.hexdigest(), file.tell())
            if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS:
                cache.set(key, result)
    return result


def digest_folder(path: Path) -> Digest:
    """Return the digest of a directory: of the names and contents of its files, sorted by name."""
    sha256, size = hashlib.sha256(), 0
    for name, file in sorted(folder_files(path).items()):
        content = digest_file(file)
        sha256.update(name + b"\0" + content.sha256.encode() + b"\n")
        size += content.size
    return Digest(sha256.hexdigest(), size)


def folder_files(path: Path) -> dict[bytes, Path]:
    """Return the files below a directory by their names in it."""
    return {os.fsencode(file.relative_to(path).as_posix()): file for file in _files(path)}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a directory. Links are followed, except one to a directory that contains it."""
    stack: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while stack:
        directory, ancestors = stack.pop()
        status = directory.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in ancestors:
            continue
        for entry in directory.iterdir():
            mode = path_mode(entry)
            if stat.S_ISDIR(mode):
                stack.append((entry, ancestors | {identity}))
            elif stat.S_ISREG(mode):
                yield entry


def digest(data: Any, *, must_exist: bool = True, chunk_bytes: int = CHUNK_BYTES) -> Digest | None:
    """Return the digest of a path, bytes or an array; None if the content cannot be read.

    With `must_exist`, a path without a file raises FileNotFoundError. Pass False for a path in another data store.
    An array is copied in pieces of `chunk_bytes`.
    """
    if isinstance(data, (str, os.PathLike)):
        return _digest_path(data, must_exist=must_exist)
    if isinstance(data, (bytes, bytearray, memoryview)):
        size = UNKNOWN_SIZE if isinstance(data, Identity) else memoryview(data).nbytes
        return Digest(hashlib.sha256(data).hexdigest(), size)
    if hasattr(data, "tobytes") and hasattr(data, "shape"):
        return _digest_array(data, chunk_bytes)
    return None


def _digest_path(source: str | os.PathLike[str], *, must_exist: bool) -> Digest | None:
    path = Path(os.fsdecode(source))
    mode = path_mode(path)
    if stat.S_ISDIR(mode):
        return digest_folder(path)
    if stat.S_ISREG(mode):
        return digest_file(path)
    if must_exist and is_path(source) and not mode:
        advice = f"Fix the path, pass store=… if it is in another data store, or pass None and name={str(path)!r}."
        raise FileNotFoundError(f"No file or directory {str(path)!r}. {advice}")
    return None


def _digest_array(array: Any, chunk_bytes: int) -> Digest | None:
    if getattr(getattr(array, "dtype", None), "hasobject", False):  # the bytes are memory addresses
        return None
    sha256, size = hashlib.sha256(f"{array.shape}{getattr(array, 'dtype', '')}".encode()), 0
    for chunk in _chunks(array, chunk_bytes):
        sha256.update(chunk)
        size += len(chunk)
    return Digest(sha256.hexdigest(), size)


def is_path(source: str | os.PathLike[str]) -> bool:
    """Return whether a string is meant as a path: it has a directory or a file extension, and is not a URL."""
    if not isinstance(source, str):
        return True
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", source):  # a URL; a Windows drive has one letter
        return False
    return "/" in source or os.sep in source or re.search(r"[^\s.]\.[A-Za-z][A-Za-z0-9]{0,10}$", source) is not None


def _chunks(array: Any, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of an array in pieces, because all at once would need its size in memory again."""
    size, shape = getattr(array, "nbytes", 0), array.shape
    if size <= chunk_bytes or not shape:
        yield array.tobytes()
        return
    rows = chunk_bytes * shape[0] // size
    if rows:
        for start in range(0, shape[0], rows):
            yield array[start : start + rows].tobytes()
        return
    for row in array:  # each row is larger than a chunk
        if len(row.shape) < len(shape):
            yield from _chunks(row, chunk_bytes)
        else:  # a row of numpy's matrix has two dimensions
            yield row.tobytes()
