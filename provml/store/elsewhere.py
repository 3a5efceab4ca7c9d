"""What stores have in common whose index is on another machine: a service, or a SPARQL endpoint."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from provml.answers.stream import RowStream
from provml.catalog import Catalog
from provml.errors import ServiceError
from provml.journal.run_files import HasId
from provml.store.checkpoint import Problem
from provml.store.index import Index
from provml.store.run_info import RunInfo, runs_html
from provml.store.store import MAX_HTML_RUNS, Store

if TYPE_CHECKING:
    from provml.store.background_sync import BackgroundSync


class StoreElsewhere(Store):
    """A store without an index here. What works only where the home is raises ServiceError."""

    def __init__(self, url: str, home: str) -> None:
        self.url = url
        self.home = Path(home)  # a name for messages; nothing is read from it
        self._lock = threading.RLock()
        self._index = cast(Index, None)
        self._catalog: Catalog | None = None
        self._streams: weakref.WeakSet[RowStream] = weakref.WeakSet()
        self.opens_files = True

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True until the store is closed."""

    @abstractmethod
    def _not_here(self, method: str) -> ServiceError:
        """Return the error of a method that works only where the home is."""

    def _repr_html_(self) -> str:
        if not self.is_open:
            return f"<p>{self!r}</p>"
        runs = self.runs()
        return runs_html(runs[:MAX_HTML_RUNS], max(len(runs) - MAX_HTML_RUNS, 0))

    @property
    def location(self) -> str:
        """The URL."""
        return self.url

    @property
    def is_private(self) -> bool:
        """False: there is no index here."""
        return False

    @property
    def is_outdated(self) -> bool:
        """False: there is no index here."""
        return False

    @property
    def index_folder(self) -> None:
        """None: there is no index here."""
        return None

    def sync(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Do nothing: journals are indexed where they are."""
        self._check_open()
        return 0

    def infer(self) -> None:
        """Do nothing: where the graph is, inference is done when it is asked, or not at all."""

    def _check_open(self) -> None:
        if not self.is_open:
            raise ValueError("This store is closed. Open a new one with provml.open(url).")

    def _finder(self) -> tuple[dict[str, str], Callable[[str], RunInfo]]:
        runs = {info.id: info for info in self.runs()}
        return {run: info.name for run, info in runs.items()}, runs.__getitem__

    def children(self, run_id: str | HasId) -> list[RunInfo]:
        """List the child runs of a run, in the order in which they started."""
        parent = self.run(run_id).id
        return [info for info in reversed(self.runs()) if info.parent == parent]

    def repetitions(self, run_id: str | HasId) -> list[RunInfo]:
        """List the runs that repeat a run, in the order in which they started."""
        repeated = self.run(run_id).id
        return [info for info in reversed(self.runs()) if info.rerun_of == repeated]

    # ---- maintenance: only where the home is

    @property
    def problems(self) -> list[Problem]:
        """Empty: what cannot be indexed is reported where the journals are."""
        return []

    def sync_in_background(self, every: float = 10.0) -> BackgroundSync:
        """Raise an error: journals are indexed where they are."""
        raise self._not_here("sync_in_background")

    def snapshot(self) -> None:
        """Raise an error: there is no index here."""
        raise self._not_here("snapshot")

    def verify(self) -> list[Problem]:
        """Raise an error: journals are checked where they are."""
        raise self._not_here("verify")

    def rebuild(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Raise an error: an index is rebuilt where it is."""
        raise self._not_here("rebuild")

    def pack(self, limit: int | None = None) -> list[str]:
        """Raise an error: journals are packed where they are."""
        raise self._not_here("pack")

    def unpack(self, run_ids: Iterable[str | HasId] | None = None) -> list[str]:
        """Raise an error: journals are unpacked where they are."""
        raise self._not_here("unpack")

    def backup(self, folder: Any) -> None:
        """Raise an error: a home is copied where it is."""
        raise self._not_here("backup")
