"""The store of a service: many requests share one look at the journals, one list of runs and one table of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from provml.answers import Answer
from provml.journal.run_files import list_journals
from provml.journal.segments import file_stat
from provml.store import RunInfo, Store
from provml.store.healing import heals
from provml.store.memory_throttle import release_freed_memory
from provml.store.run_table import RunTable, load_table

SIZES_SECONDS = 5.0
"""Time after which the sizes of all journals are read again."""
LARGE_SYNC_EVENTS = 10_000
"""Indexing this number of events at once leaves much free memory in the heap."""


class ServedStore(Store):
    """A store whose threads may read what was indexed last, while the service decides when to index."""

    def __init__(self, home: Path) -> None:
        self._thread = threading.local()
        self._shared_lock = threading.RLock()
        self._shared_runs: tuple[str, list[RunInfo]] | None = None
        self._shared_table: tuple[str, RunTable] | None = None
        self._journal_sizes: dict[str, int] = {}
        self._sizes_due = 0.0
        super().__init__(home, create=True)
        self.opens_files = False  # a path that a client names is never opened

    @contextlib.contextmanager
    def as_indexed(self) -> Iterator[None]:
        """Let this thread read what is indexed, without a look at the journals at every call."""
        self._thread.is_reading = True
        try:
            yield
        finally:
            self._thread.is_reading = False

    @property
    def _is_reading(self) -> bool:
        return getattr(self._thread, "is_reading", False)

    def backlog(self) -> tuple[int, int]:
        """Return the bytes of the journals, and how many of them are indexed."""
        total = indexed = 0
        for key, size in self._sizes().items():
            checkpoint = self._index.checkpoint.journals.get(f"runs/{key}")
            total += size
            if self._index.is_sealed(key.partition("/")[0]):
                indexed += size
            elif checkpoint is not None:
                indexed += size if checkpoint.end is not None else min(checkpoint.offset, size)
        return total, indexed

    def _sizes(self) -> dict[str, int]:
        """Return the bytes of each journal as some seconds ago: pages that show progress ask for them every second."""
        if time.monotonic() > self._sizes_due:
            sizes = {}
            for key in list_journals(self.home):
                with contextlib.suppress(OSError):  # removed meanwhile
                    sizes[key] = file_stat(self.home / "runs" / key).st_size
            self._journal_sizes, self._sizes_due = sizes, time.monotonic() + SIZES_SECONDS
        return self._journal_sizes

    def sync(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Index what is new, unless this thread reads what is indexed."""
        if self._is_reading:
            return 0
        events = super().sync(on_progress)
        if events >= LARGE_SYNC_EVENTS:
            release_freed_memory()
        return events

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """List the runs, the latest first; with `limit` at most that number."""
        if not self._is_reading:
            return super().runs(limit)
        with self._shared_lock:
            position = self.position
            if self._shared_runs is None or self._shared_runs[0] != position:
                self._shared_runs = position, super().runs()
            return self._shared_runs[1][:limit]

    @heals
    def table(
        self,
        where: str | None = None,
        *,
        sort: str | None = None,
        descending: bool = False,
        status: str | Iterable[str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Return the runs with their hyperparameters and measures, as `Store.table`."""
        table = self._whole_table().filtered(where, status, name)
        if sort is not None:
            table = table.sorted(sort, descending=descending)
        return (table if limit is None else table.first(limit)).answer()

    def _whole_table(self) -> RunTable:
        runs = self.runs()
        with self._shared_lock:
            position = self.position
            if self._shared_table is None or self._shared_table[0] != position:
                self._shared_table = position, load_table(runs, self.backend)
            return self._shared_table[1]
