"""Rebuild a large index in another process, while the old one answers.

    python -m provml.store.background_rebuild HOME

When provml or an ontology changes, the index of each home has to be rebuilt. For a large home this takes minutes. So a
process of its own builds a new index in `index/next`, and the process that holds the index replaces the old one by it
at its next sync. Until then the old index answers, without what was recorded since.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from provml.store import lock
from provml.store.index import COMPLETE, NEXT, Index, adopt_rebuilt
from provml.store.sync import sync

LOCK, PID = "next.lock", "next.pid"


def start(home: Path) -> int | None:
    """Start the process that rebuilds the index of a home, unless one is at work; return its id, None if not known."""
    import subprocess  # not at the top: it is slow to load

    folder = home / "index"
    try:
        lock.acquire(folder / LOCK)()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            return int((folder / PID).read_text())
        return None
    command = [sys.executable, "-m", __name__, str(home.resolve())]
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
    process.returncode = 0  # it is not waited for: it goes on when this process ends
    return process.pid


def rebuild(home: Path) -> None:
    """Build the new index, and put it in place unless another process holds the old one."""
    folder = home / "index"
    try:
        release = lock.acquire(folder / LOCK)
    except OSError:  # another process builds it
        return
    try:
        (folder / PID).write_text(str(os.getpid()))
        if not (folder / NEXT / COMPLETE).exists():
            shutil.rmtree(folder / NEXT, ignore_errors=True)
            (folder / NEXT).mkdir()
            index = Index(home, folder / NEXT)._initialize()
            while sync(index):
                pass
            index.close()
            (folder / NEXT / COMPLETE).touch()
        with contextlib.suppress(OSError):  # the process that holds the old index does it
            release_index = lock.acquire(folder / "lock")
            try:
                adopt_rebuilt(folder)
            finally:
                release_index()
    finally:
        (folder / PID).unlink(missing_ok=True)
        release()


if __name__ == "__main__":
    rebuild(Path(sys.argv[1]))
