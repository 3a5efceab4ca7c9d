"""What all pages share: the store, the runs and their table, and the names that forms offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from provml.answers import Answer
from provml.model.values import IRI
from provml.rdf.namespaces import RUNS
from provml.store import RunInfo, Store
from provml.store.run_table import RunTable, load_table
from provml.web.viewer.home_cache import HomeCache, Value
from provml.web.viewer.links import Links
from provml.web.viewer.live_job import LiveJobs

MAX_ANSWERS = 32
"""Answers to questions that are kept."""
STUDIES = """SELECT DISTINCT ?run ?study {
  ?run provlake:wasDerivedFromWorkflow/^provml:hasExperiment/rdfs:label ?study
}"""


def run_of(iri: object) -> str:
    """Return the id of the run whose IRI a node's own starts with; empty for other nodes and values."""
    text = str(iri) if isinstance(iri, IRI) else ""
    return unquote(text.removeprefix(RUNS).partition("/")[0]) if text.startswith(RUNS) else ""


@dataclass(frozen=True)
class Page:
    """A page: the template and what it shows. `is_live` if a browser should look for changes."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = False
    status: int = 200


class Viewer:
    """A store as pages see it. Methods are called from several threads."""

    def __init__(self, store: Store, links: Links | None = None) -> None:
        self.store = store
        self.links = links or Links()
        self.jobs = LiveJobs()
        self._sparklines: dict[str, tuple[int, Any]] = {}
        self._answers: dict[str, tuple[str, Any]] = {}
        self._cache = HomeCache(lambda: store.position)
        self.reading: Future[object] | None = None
        """The first reading of a large home, which pages do not wait for."""

    def read_ahead(self, pages: Iterable[Callable[[], object]]) -> None:
        """Read a large home in the background: first what the table of runs needs, then what other pages need."""
        self.reading = self._cache.prepare(self._read_runs)
        for page in pages:
            self._cache.prepare(page)

    def count_folders(self) -> int:
        """Return the number of folders of runs."""
        folder = self.store.home / "runs"
        return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0

    def _read_runs(self) -> None:
        self.store.sync()
        self.table()

    def close(self) -> None:
        """End the threads of this viewer."""
        self._cache.close()
        self.jobs.close()

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return a value that depends on all runs; it is computed again when the index has changed."""
        return self._cache.get(name, compute)

    def cached_answer(self, key: str, compute: Callable[[], Value]) -> Value:
        """Return an answer that is as new as the index; the latest answers are kept until the index changes."""
        position = self.store.position
        entry = self._answers.get(key)
        if entry is None or entry[0] != position:
            entry = self._answers[key] = (position, compute())
            while len(self._answers) > MAX_ANSWERS:
                self._answers.pop(next(iter(self._answers)), None)
        value: Value = entry[1]
        return value

    # ---- runs

    def runs(self) -> list[RunInfo]:
        """Return the runs, the latest first."""
        return self.store.runs()

    def latest_ids(self, limit: int) -> list[str]:
        """Return the ids of the latest runs, without looking at all of a large home."""
        return [info.id for info in self.store.runs(limit)]

    def run(self, run_id: str) -> RunInfo:
        """Find a run by its id, or as `Store.run` does."""
        exact = next((info for info in self.runs() if info.id == run_id), None)
        return exact if exact is not None else self.store.run(run_id)

    @property
    def shows_all(self) -> bool:
        """True if pages show all runs of the home."""
        return True

    def shows(self, run_id: str) -> bool:
        """True if pages show a run; a site may be about some runs only."""
        return True

    def shows_node(self, iri: object) -> bool:
        """True if pages show a node: it is not of a run that they do not show."""
        run_id = run_of(iri)
        return not run_id or self.shows(run_id)

    def table(self) -> RunTable:
        """Return the table of runs."""
        runs = self.runs()
        return self.cached("table", lambda: load_table(runs, self.store.backend))

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
