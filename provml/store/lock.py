"""The write lock of an index: one process at a time holds a lock file for as long as it has the index open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from provml.paths import NO_FOLLOW

try:
    import fcntl
except ImportError:  # without fcntl, only Oxigraph's own lock protects the index
    fcntl = None  # type: ignore[assignment]

_LOCKED: set[tuple[int, str]] = set()


def is_held_here(path: Path) -> bool:
    """True if this process holds the lock file."""
    return _key(path) in _LOCKED


def _key(path: Path) -> tuple[int, str]:
    return os.getpid(), str(path.resolve())


def acquire(path: Path) -> Callable[[], None]:
    """Acquire a lock file and return the function that releases it.

    Raises OSError if the lock is taken or the folder is read-only. The operating system releases the lock when the
    process ends, and a forked child does not inherit it. Within one process it would not stop a second holder, and
    closing the second file would release the first lock: hence the table of locked files.
    """
    key = _key(path)
    if key in _LOCKED:
        raise BlockingIOError(f"{path} is locked by this process")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    try:
        if fcntl is not None:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    _LOCKED.add(key)

    def release() -> None:
        if key in _LOCKED and key[0] == os.getpid():
            _LOCKED.discard(key)
            os.close(file)

    return release
