"""What is of no use in a home: private copies and half-made files that dead processes left, and logs of the index."""

from __future__ import annotations

import contextlib
import gc
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox

from provml.process import is_alive
from provml.store import lock
from provml.store.index import is_lock, old_logs

FRESH = 60.0
"""Younger than so many seconds, what has no lock yet may be just in the making."""


def collect(home: Path, *, dry_run: bool = False) -> list[tuple[Path, int]]:
    """Remove what nobody uses any more; what it was, and how many bytes of the disk it held alone."""
    removed = []
    let_go: Callable[[], None] | None = None
    if (home / "index").is_dir():
        with contextlib.suppress(OSError):
            let_go = lock.hold(home / "index" / "lock")
    try:
        for path in sorted(_left_over(home, let_go is not None)):
            size = _bytes(path)
            if not dry_run:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if dry_run or not path.exists():
                removed.append((path, size))
    finally:
        if let_go is not None:
            let_go()
    return removed


def _left_over(home: Path, alone: bool) -> Iterator[Path]:
    """What is of no use; snapshots are looked at only where no other process makes them."""
    index = home / "index"
    for path in index.glob("reader-*"):
        if path.is_dir() and not _is_fresh(path) and not _is_open(path / "store"):
            yield path
    if alone:
        yield from old_logs(index / "store")
        yield from _old_snapshots(index / "snapshot", (index / "store").is_dir())
    for path in index.glob("progress.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and not _is_fresh(path) and not is_alive(int(pid), path.stat().st_mtime):
            yield path
    for path in home.glob("removed-*"):  # a run on its way out
        if not _is_fresh(path):
            yield path
    for path in (home / "added").glob("*.part"):
        if not _is_fresh(path):
            yield path


def _old_snapshots(folder: Path, is_of_use: bool) -> Iterator[Path]:
    """All but the last whole one; that too where the index that it was taken of is gone."""
    whole = sorted((path for path in folder.glob("*") if path.name.isdecimal()), key=lambda path: int(path.name))
    last = whole[-1] if whole and is_of_use else None
    yield from (path for path in folder.glob("*") if path.is_dir() and path != last)


def _is_open(store: Path) -> bool:
    """Whether a process, this one included, has an Oxigraph store open; one that is broken nobody has."""
    if not (store / "CURRENT").exists():
        return False
    try:
        ox.Store(str(store))
    except Exception as error:
        return is_lock(error)
    gc.collect()
    return False


def _is_fresh(path: Path) -> bool:
    """Whether it was made, moved or changed just now."""
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_ctime < FRESH
    return True


def _bytes(path: Path) -> int:
    """What removing it frees: files that a hard link keeps elsewhere free nothing."""
    total = 0
    for file in [path] if path.is_file() else path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            known = file.stat()
            if file.is_file() and known.st_nlink == 1:
                total += known.st_size
    return total
