"""What all pages share: the store, the runs and their table, and the names that forms offer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from provml.answers import Answer
from provml.model.values import IRI
from provml.store import RunInfo, Store
from provml.store.run_table import RunTable, load_table
from provml.web.viewer.links import Links
from provml.web.viewer.live_job import LiveJobs

MAX_FRESH_RUNS = 200
"""With more runs than this, the list of runs may be as old as LISTING_SECONDS, and their table as TABLE_SECONDS."""
LISTING_SECONDS, TABLE_SECONDS = 4.0, 15.0
STUDIES = """SELECT DISTINCT ?run ?study {
  ?run provlake:wasDerivedFromWorkflow/^provml:hasExperiment/rdfs:label ?study
}"""


@dataclass(frozen=True)
class Page:
    """A page: the template and what it shows. `is_live` if a browser should look for changes."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = False
    status: int = 200


@dataclass
class _Cached:
    """A value with the time at which it was computed."""

    value: Any
    time: float

    def is_older(self, seconds: float) -> bool:
        """True if the value was computed more than some seconds ago."""
        return time.monotonic() - self.time > seconds


class Viewer:
    """A store as pages see it. Methods are called from several threads."""

    def __init__(self, store: Store, links: Links | None = None) -> None:
        self.store = store
        self.links = links or Links()
        self.jobs = LiveJobs()
        self.terms: tuple[str, dict[str, dict[str, Any]]] | None = None
        """The terms of the ontology with the number of their uses, and the position of the index at that time."""
        self.completions: tuple[str, list[str]] | None = None
        """What the editor completes, and the position of the index it was read at."""
        self._lock = threading.Lock()
        self._listing: _Cached | None = None
        self._table: _Cached | None = None
        self._table_runs: list[RunInfo] = []
        self._sparklines: dict[str, tuple[int, Any]] = {}
        self._warm_up = ThreadPoolExecutor(1, thread_name_prefix="viewer")

    def warm_up(self) -> None:
        """Read the table of very many runs in the background, so that the first page does not wait for it."""
        folder = self.store.home / "runs"
        if folder.is_dir() and sum(1 for _ in folder.iterdir()) > MAX_FRESH_RUNS:
            self._warm_up.submit(self.table)

    def close(self) -> None:
        """End the threads of this viewer."""
        self._warm_up.shutdown(wait=True, cancel_futures=True)
        self.jobs.close()

    # ---- runs

    def runs(self) -> list[RunInfo]:
        """Return the runs, the latest first; of very many, a list that may be some seconds old."""
        cached = self._listing
        if cached is None or len(cached.value) <= MAX_FRESH_RUNS or cached.is_older(LISTING_SECONDS):
            cached = self._listing = _Cached(self.store.runs(), time.monotonic())
        runs: list[RunInfo] = cached.value
        return runs

    def run(self, run_id: str) -> RunInfo:
        """Find a run by its id, or as `Store.run` does."""
        exact = next((info for info in self.runs() if info.id == run_id), None)
        return exact if exact is not None else self.store.run(run_id)

    def shows(self, run_id: str) -> bool:
        """True if pages show a run; a site may be about some runs only."""
        return True

    def forget_runs(self) -> None:
        """Read the runs again at the next page: one of them was annotated."""
        self._listing = None

    def table(self) -> RunTable:
        """Return the table of runs; it is read again only if a run has changed."""
        runs = self.runs()
        with self._lock:
            cached = self._table
            is_current = cached is not None and (
                self._table_runs == runs or (len(runs) > MAX_FRESH_RUNS and not cached.is_older(TABLE_SECONDS))
            )
            if cached is None or not is_current:
                cached = self._table = _Cached(load_table(runs, self.store.backend), time.monotonic())
                self._table_runs = runs
            table: RunTable = cached.value
            return table

    def studies(self) -> dict[str, str]:
        """Return the study of each run that belongs to one, by the id of the run."""
        iris = {str(info.iri): info.id for info in self.runs()}
        return {iris[str(run)]: str(study) for run, study in self.select(STUDIES) if str(run) in iris}

    # ---- queries

    def select(self, sparql: str, **bindings: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of ours on the index as it is; `$name` becomes an IRI of the bindings."""
        for name, iri in bindings.items():
            sparql = sparql.replace(f"${name}", f"<{IRI(iri)}>")
        answer = self.store._answer(sparql, sync=False)
        return answer.rows if isinstance(answer, Answer) else []

    def cached_by_run(self, infos: Iterable[RunInfo], compute: Any) -> dict[str, Any]:
        """Return what `compute` returns for runs by their ids; only runs with new events are computed."""
        wanted = list(infos)
        missing = [info for info in wanted if self._sparklines.get(info.id, (-1, None))[0] != info.events]
        if missing:
            values = compute(missing)
            for info in missing:
                self._sparklines[info.id] = (info.events, values.get(info.id))
        return {info.id: self._sparklines[info.id][1] for info in wanted}
