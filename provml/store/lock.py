"""Who may write an index: one process at a time, which holds a lock file for as long as it has the index open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # where there is none, the lock of Oxigraph alone has to do
    fcntl = None  # type: ignore[assignment]

_HELD: set[tuple[int, str]] = set()


def hold(path: Path) -> Callable[[], None]:
    """Hold a lock file; what lets it go again. OSError where another holds it, or where the folder is read-only.

    A lock of this kind is not handed down to a forked child, and goes with the process however that ends. Within one
    process it would not stop a second holder, and to close the file again would let the first one's lock go, hence the
    table.
    """
    key = (os.getpid(), str(path.resolve()))
    if key in _HELD:
        raise BlockingIOError(f"{path} is held by this process")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    _HELD.add(key)

    def let_go() -> None:
        if key in _HELD and key[0] == os.getpid():
            _HELD.discard(key)
            os.close(file)

    return let_go
