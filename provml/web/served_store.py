"""The store of a service: many requests share one look at the journals, one list of runs and one table of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from provml.answers import Answer
from provml.journal.run_files import list_journals
from provml.journal.segments import file_stat
from provml.store import RunInfo, Store
from provml.store.healing import heals
from provml.store.run_table import RunTable, load_table


class ServedStore(Store):
    """A store whose threads may read what was indexed last, while the service decides when to index."""

    def __init__(self, home: Path) -> None:
        self._thread = threading.local()
        self._shared_lock = threading.RLock()
        self._shared_runs: tuple[str, list[RunInfo]] | None = None
        self._shared_table: tuple[str, RunTable] | None = None
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
        for key in list_journals(self.home):
            checkpoint = self._index.checkpoint.journals.get(f"runs/{key}")
            with contextlib.suppress(OSError):  # removed meanwhile
                size = file_stat(self.home / "runs" / key).st_size
                total += size
                if self._index.is_sealed(key.partition("/")[0]):
                    indexed += size
                elif checkpoint is not None:
                    indexed += size if checkpoint.end is not None else min(checkpoint.offset, size)
        return total, indexed

    def sync(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Index what is new, unless this thread reads what is indexed."""
        return 0 if self._is_reading else super().sync(on_progress)

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
