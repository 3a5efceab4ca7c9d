"""A store: what is kept in one home, to sync, ask, export, remove, rebuild and verify."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyoxigraph as ox

from provml import rdf
from provml.answer import Answer
from provml.catalog import Catalog, user_folders
from provml.errors import BrokenFile, BrokenQuery, ProvmlError, QueryTookTooLong
from provml.lift import name
from provml.resources import default_home
from provml.run import find
from provml.store import adding, apart, asking, guard, upkeep
from provml.store.index import Index
from provml.store.keeping import KeepingUp
from provml.store.progress import Problem
from provml.store.standing import Journals, is_overtaken, runs_of, standing
from provml.things import Thing
from provml.values import IRI

if TYPE_CHECKING:
    from provml.validation import Report

PREFIXES = {
    "dcterms": "http://purl.org/dc/terms/",
    "mls": "http://www.w3.org/ns/mls#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "provlake": "https://w3id.org/provlake#",
    "provml": "https://w3id.org/provml#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


@dataclass(frozen=True)
class RunInfo:
    """What is known of a run at a glance."""

    id: str
    name: str
    model: str
    status: str
    started: datetime
    seconds: float | None
    error: str
    writers: int
    events: int

    @property
    def iri(self) -> IRI:
        """Its node in the graph."""
        return name.run(self.id)


class Store:
    """The runs of one home. `query` reads your own writes: it takes in what is new in the journals first."""

    def __init__(self, home: str | os.PathLike[str] | None = None) -> None:
        self.home = Path(home or default_home())
        try:
            self.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = str(error.strerror or error).lower()
            raise BrokenFile(f"it cannot be a home ({reason})", "Name another folder.", file=str(self.home)) from error
        self._lock = threading.RLock()
        self._index = Index.open(self.home)
        self._catalog: Catalog | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the index go, so that another process can have it."""
        self._index.close()

    @property
    def index(self) -> Index:
        """The index, in the process that opened it."""
        self._index.store  # noqa: B018  # it refuses a store that is closed, or that a fork handed down
        return self._index

    @property
    def engine(self) -> ox.Store:
        """The Oxigraph store, with all that is new taken in."""
        self.sync()
        return self.index.store

    # ---- taking in

    def sync(self, report: Callable[[int], None] | None = None) -> int:
        """Take in what is new in the journals; how many events that was. `report` is told of each some thousand."""
        index = self.index
        with self._lock:
            if index.is_stale():  # journals are gone, and what only they told has to go too
                self._renew()
            events = self._synced(report)
            for _ in range(3):  # more may come meanwhile; what is left then is seen when it is next opened
                if not events or not is_overtaken(self.home, self._index.progress):
                    break
                self._renew()  # the first journal of a run came after others, which are told by its words
                events = self._synced(report)
            return events

    def _renew(self) -> None:
        """An empty index in place of this one; where there is no room for it, a private one."""
        try:
            self._index = self._index.anew()
        except OSError:
            self._index = Index.reading(self.home)

    def _synced(self, report: Callable[[int], None] | None) -> int:
        """Have the index take in what is new; where it cannot be written to (a full disk), have another do it."""
        while True:
            try:
                return self._index.sync(report)
            except OSError:
                other = self._index.elsewhere()
                if other is None:
                    raise
                self._index = other

    def keeping_up(self, every: float = 10.0) -> KeepingUp:
        """Take in what is new every so many seconds, from a thread of this process: `with store.keeping_up(): …`"""
        return KeepingUp(self.sync, every)

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things straight from Python, with the things that they refer to."""
        _ = self.index
        nquads = rdf.ntriples(things, follow=follow)
        adding.keep(self.home, lambda part: part.write_bytes(nquads))
        self.sync()

    def load(self, path: str | os.PathLike[str], *, graph: str | None = None) -> int:
        """Add an RDF file (Turtle, TriG, N-Triples, N-Quads, RDF/XML, JSON-LD, by ending); how many quads it has."""
        _ = self.index
        count = adding.keep_file(self.home, Path(path), graph)
        self.sync()
        return count

    # ---- asking

    def query(
        self, sparql: str, *, sync: bool = True, timeout: float | None = None, memory: int = 0, service: bool = False
    ) -> Answer | bool:
        """SPARQL over all runs: rows for SELECT, true or false for ASK, triples for CONSTRUCT and DESCRIBE.

        The usual prefixes are known. With a `timeout` in seconds the query runs in a process of its own, which is ended
        then, and which takes no more than `memory` bytes (half of the machine's unless given); without, it runs here
        and cannot be stopped. SERVICE calls other machines and is refused unless `service` allows it.
        """
        if not isinstance(sparql, str):
            raise BrokenQuery(f"it is a {type(sparql).__name__}, not text", "Give SPARQL as text.")
        if timeout is not None and not apart.is_limit(timeout):
            wanted = f"a number of seconds from 0 to {apart.LONGEST:,}"
            raise BrokenQuery(f"its timeout is {timeout!r}, not {wanted}", "Give one, or leave it out.")
        guard.check(sparql, service=service)
        engine = self.engine if sync else self.index.store
        try:
            if timeout:
                most = memory or apart.half()
                return _answered(apart.ask(engine, self.index.folder, sparql, PREFIXES, timeout, most))
            return _answered(engine.query(sparql, prefixes=PREFIXES))
        except TimeoutError:
            failed: ProvmlError = QueryTookTooLong(timeout or 0.0)
        except MemoryError:
            failed = BrokenQuery(f"the engine gave up on it, with {(memory or apart.half()) / 1e9:.3g} GB of memory")
        except (SyntaxError, RuntimeError, OSError, ValueError) as error:
            failed = BrokenQuery(*_reason(str(error), sparql))
        # Raised out here, the error keeps no frame that holds the engine's rows: they may be let go by their own
        # thread only.
        raise failed

    @property
    def catalog(self) -> Catalog:
        """The questions that can be asked by name: provml's own and yours."""
        if self._catalog is None:
            self._catalog = Catalog(user_folders(self.home))
            for error in self._catalog.broken.values():
                logging.getLogger("provml").warning("left out of the questions: %s", error)
        return self._catalog

    def ask(self, question: str, /, *, timeout: float | None = None, service: bool = False, **values: Any) -> Answer:
        """The answer to a question of the catalog: `store.ask("q6", model="alexnet")`.

        Where a parameter stands for a node, the name that people use will do: a run's short id, a model's name. A name
        that nothing has is an error. `timeout` and `service` are those of `query`.
        """
        return asking.ask(self, self.catalog[question], values, timeout, service)

    def sparql(self, question: str, /, **values: Any) -> str:
        """The SPARQL that a question of the catalog becomes."""
        return asking.bound(self, self.catalog[question], values)

    def read(self, iri: str) -> Any:
        """The thing that the graph describes under an IRI."""
        return rdf.read(self.engine, iri)

    # ---- runs

    def runs(self) -> list[RunInfo]:
        """Every run, the latest first."""
        self.sync()
        found = [self._info(run, journals) for run, journals in runs_of(self._index.progress).items()]
        return sorted(found, key=lambda info: (info.started, info.id), reverse=True)

    def _info(self, run: str, journals: Journals) -> RunInfo:
        status, end = standing(self.home, journals)
        state = journals[0][1].state
        began = state.first.t if state.first is not None and state.first.t == state.first.t else 0.0
        return RunInfo(
            id=run,
            name=state.experiment,
            model=state.model,
            status=status,
            started=datetime.fromtimestamp(began, UTC),
            seconds=max(end.t - began, 0.0) if end is not None and began else None,
            error=": ".join(end.error) if end is not None else "",
            writers=len(journals),
            events=sum(journal.events for _, journal in journals),
        )

    def run(self, run_id: str) -> RunInfo:
        """One run, by its id or the beginning or end of it that no other has; `latest` is the last that began."""
        runs = {info.id: info for info in self.runs()}
        return runs[find(run_id, list(runs), lambda: next(iter(runs)))]

    # ---- keeping house

    @property
    def problems(self) -> list[Problem]:
        """Lines of journals, and files that were added, that could not be taken in."""
        self.sync()
        return self._index.problems()

    def verify(self) -> list[Problem]:
        """Read every journal anew; what is damaged."""
        _ = self.index
        return upkeep.verify(self.home)

    def rebuild(self, report: Callable[[int], None] | None = None) -> int:
        """Make the index again from the journals; how many events they hold."""
        if self.index.is_private:
            folder = self.home / "index"
            reason = "another process holds the index, or it cannot be written to"
            raise BrokenFile(reason, "Wait until that is done, or see to it, then rebuild.", file=str(folder))
        with self._lock:
            self._index = self._index.anew()
            return self.sync(report)

    def remove(self, run_id: str) -> RunInfo:
        """Remove a run: its journals, and by a rebuild all that only they said."""
        return self.remove_all([run_id])[0]

    def remove_all(self, run_ids: Iterable[str]) -> list[RunInfo]:
        """Remove several runs with one rebuild; none of them where one is not there or still goes on."""
        infos = list({info.id: info for info in map(self.run, run_ids)}.values())
        upkeep.remove(self.home, [info.id for info in infos])
        self.sync()
        return infos

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of all but the index in a new folder, which is a home of its own; runs may go on."""
        _ = self.index
        upkeep.backup(self.home, Path(folder))

    def validate(self, run_id: str | None = "latest", shapes: Iterable[Path | str] = (), **more: Any) -> Report:
        """Whether a run, or all (None), keeps what our shapes and yours promise; `shapes` are more files or folders."""
        from provml.store.checking import check

        return check(self, run_id, shapes, **more)

    def export(self, run_id: str | None, file: Any, form: str = "ttl") -> int:
        """Write a run, or all, as RDF to a binary file; how many triples."""
        from provml.store.export import write

        return write(self, run_id, file, form)


def _reason(said: str, sparql: str) -> tuple[str, str]:
    """What the engine says of a query, in one line (it lists every sign that could have been there), and what to do."""
    said = " ".join(said.split())
    advice = "Mend it and ask again."
    where, expected, _ = said.partition(": expected")
    if expected and (prefix := _undeclared(sparql)):
        return f"{where}: the prefix {prefix}: is not declared", f"Write PREFIX {prefix}: <…> before it and ask again."
    if re.match(r"\s*(prefix\s+\S*\s*<[^>]*>\s*)*(insert|delete|load|clear|create|drop|copy|move|add)\b", sparql, re.I):
        return "a query only reads, and this would write", "Add things by store.add or store.load."
    if re.search(r"\bservice\b", sparql, re.IGNORECASE) and not where.startswith("error at"):
        advice = "See whether the machine that SERVICE names answers, or write SERVICE SILENT."
    return (said if len(said) <= 300 else f"{said[:300]}…"), advice


def _undeclared(sparql: str) -> str:
    """The first prefix that is used and not declared, if there is one."""
    declared = {*PREFIXES, "_", *re.findall(r"prefix\s+([\w.-]*):", sparql, re.IGNORECASE)}
    bare = re.sub(r"<[^<>\s]*>|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*", " ", sparql)
    used = re.findall(r"(?<![\w?$:.-])([A-Za-z][\w.-]*):", bare)
    return next((prefix for prefix in used if prefix not in declared), "")


def _answered(answer: Any) -> Answer | bool:
    """What the engine answers, taken out of its hands."""
    if isinstance(answer, ox.QueryBoolean):
        return bool(answer)
    if isinstance(answer, ox.QuerySolutions):
        return Answer.from_terms([variable.value for variable in answer.variables], map(tuple, answer))
    rows = ((triple.subject, triple.predicate, triple.object) for triple in answer)
    graph = Answer.from_terms(["subject", "predicate", "object"], rows)
    graph.is_graph = True
    return graph


def open_store(home: str | os.PathLike[str] | None = None) -> Store:
    """The store of a home: PROVML_HOME, or `.provml` here, unless another folder is given."""
    return Store(home)
