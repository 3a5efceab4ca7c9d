"""Remove temporary files that dead processes left in a home, and old logs of the index."""

from __future__ import annotations

import contextlib
import gc
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox

from provml.journal import artifacts, segments
from provml.journal.process import is_alive
from provml.store import file_checksums, lock
from provml.store.backend import is_lock_error, old_logs

COPY_LOCK = "lock"
"""Lock file in the folder of a copy of the index that a service has made for its workers."""
MIN_AGE_SECONDS = 60.0
"""Files younger than this may be in use although they are not locked yet."""


def collect(home: Path, *, dry_run: bool = False, min_age_seconds: float = MIN_AGE_SECONDS) -> list[tuple[Path, int]]:
    """Remove unused files and return them with the number of bytes that this frees."""
    removed = []
    release: Callable[[], None] | None = None
    if (home / "index").is_dir():
        with contextlib.suppress(OSError):
            release = lock.acquire(home / "index" / "lock")
    try:
        for path in sorted(_unused(home, min_age_seconds, has_lock=release is not None)):
            size = _bytes(path)
            if not dry_run:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if dry_run or not path.exists():
                removed.append((path, size))
    finally:
        if release is not None:
            release()
    return removed


def _unused(home: Path, min_age: float, *, has_lock: bool) -> Iterator[Path]:
    """Yield unused files; snapshots only if no other process writes them."""
    index = home / "index"
    for path in index.glob("reader-*"):
        if path.is_dir() and not _is_fresh(path, min_age) and not _is_locked(path) and not _is_open(path / "store"):
            yield path
    if has_lock:
        yield from old_logs(index / "store")
        yield from _old_snapshots(index / "snapshot", (index / "store").is_dir())
    for path in (*index.glob("progress.*"), *index.glob(f"{file_checksums.NAME}.*")):
        pid = path.suffix[1:]
        if pid.isdecimal() and not _is_fresh(path, min_age) and not is_alive(int(pid), path.stat().st_mtime):
            yield path
    parts = [*home.glob("removed-*"), *home.glob("import-*.part"), *(home / "added").glob("*.part")]
    parts += (home / artifacts.FOLDER).glob(f"*{artifacts.PART_SUFFIX}")
    parts += segments.leftovers(home) if (home / segments.FOLDER).is_dir() else ()
    yield from (path for path in parts if not _is_fresh(path, min_age))


def _old_snapshots(folder: Path, has_index: bool) -> Iterator[Path]:
    """Yield all snapshots but the last complete one; that too if its index is gone."""
    complete = sorted((path for path in folder.glob("*") if path.name.isdecimal()), key=lambda path: int(path.name))
    last = complete[-1] if complete and has_index else None
    yield from (path for path in folder.glob("*") if path.is_dir() and path != last)


def remove_abandoned_copies(index: Path) -> None:
    """Remove the copies of the index that a killed service has left, whose lock files nobody holds any more."""
    for path in index.glob("reader-*"):
        if (path / COPY_LOCK).exists() and not _is_locked(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_locked(copy: Path) -> bool:
    """True if a service uses a copy."""
    if not (copy / COPY_LOCK).exists():
        return False
    try:
        lock.acquire(copy / COPY_LOCK)()
    except OSError:
        return True
    return False


def _is_open(store: Path) -> bool:
    """True if a process, possibly this one, has an Oxigraph store open; a corrupt store is never open."""
    if not (store / "CURRENT").exists():
        return False
    try:
        ox.Store(str(store))
    except Exception as error:
        return is_lock_error(error)
    gc.collect()
    return False


def _is_fresh(path: Path, min_age: float) -> bool:
    """True if a file was created, moved or changed within the last `min_age` seconds."""
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_ctime < min_age
    return True


def _bytes(path: Path) -> int:
    """Return the bytes that a removal frees: files with other hard links free nothing."""
    total = 0
    for file in [path] if path.is_file() else path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            stat = file.stat()
            if file.is_file() and stat.st_nlink == 1:
                total += stat.st_size
    return total
