"""Read-only copies of the index for worker processes: made when it has changed, removed when nobody uses them.

Workers open a copy for reading only, which locks nothing. So the folder of a copy has a lock file, which says that the
copy is in use, until it is removed or this process ends.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool

from provml.store import Store, lock
from provml.store.gc import COPY_LOCK, remove_abandoned_copies

MIN_SECONDS = 0.2
COST_FACTOR = 10
"""Copies take at most a tenth of the time."""


class Snapshot:
    """A copy of the index at a position, and the number of its users."""

    def __init__(self, folder: Path, path: Path, position: str, time_stamp: float, release: Callable[[], None]) -> None:
        self.folder = folder
        self.path = path
        self.position = position
        self.time = time_stamp
        self.users = 0
        self._release = release

    def remove(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._release()


class Snapshots:
    """Makes copies of the index of a store, and removes old ones."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.current: Snapshot | None = None
        self._lock = asyncio.Lock()
        self._next_time = 0.0
        self._must_renew = False

    def renew(self) -> None:
        """Let the next query see what was just written, however young the present copy is."""
        self._must_renew = True

    async def acquire(self) -> Snapshot:
        """Return a copy of the present index; `release` it afterwards."""
        async with self._lock:
            current = self.current
            is_due = self._must_renew or time.monotonic() >= self._next_time
            is_old = is_due and current is not None and current.position != self.store.position
            if current is None or is_old or not current.path.exists():  # somebody may have removed it
                self._must_renew = False
                start = time.monotonic()
                self.current = await run_in_threadpool(self._copy)
                end = time.monotonic()
                self._next_time = end + max(MIN_SECONDS, COST_FACTOR * (end - start))
                self.current.users += 1  # of this table
                if current is not None:
                    self.release(current)
            assert self.current is not None
            self.current.users += 1
            return self.current

    def retain(self, snapshot: Snapshot) -> None:
        """Count another user."""
        snapshot.users += 1

    def release(self, snapshot: Snapshot) -> None:
        """Count a user less, and remove a copy that nobody uses."""
        snapshot.users -= 1
        if not snapshot.users:
            snapshot.remove()

    def close(self) -> None:
        """Remove the present copy."""
        if self.current is not None:
            self.current.remove()
            self.current = None

    def remove_abandoned(self) -> None:
        """Remove the copies of services that were killed."""
        if self.store.index_folder is not None:
            remove_abandoned_copies(self.store.index_folder)

    def _copy(self) -> Snapshot:
        index = self.store.index_folder
        folder = Path(tempfile.mkdtemp(prefix="reader-", dir=index))
        release = lock.acquire(folder / COPY_LOCK)
        try:
            position, seconds = self.store.position, self.store.position_time
            path = folder / ("store" if index is not None else "all.nq")
            if index is not None:
                self.store.backend.snapshot(path)
            else:
                self.store.backend.graph().dump(str(path), format=ox.RdfFormat.N_QUADS)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            release()
            raise
        return Snapshot(folder, path, position, seconds, release)
