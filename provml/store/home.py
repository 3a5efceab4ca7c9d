"""A store: what is kept in one home, to sync, ask, export, remove, rebuild and verify."""

from __future__ import annotations

import difflib
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyoxigraph as ox

from provml import rdf
from provml.answer import Answer
from provml.catalog import Catalog, user_folders
from provml.errors import BrokenFile, BrokenQuery, NoSuchRun
from provml.lift import name
from provml.resources import default_home
from provml.store import asking
from provml.store.index import Index
from provml.store.kin import Eldest
from provml.store.progress import Journal, Problem
from provml.store.reading import lifted, whole_lines
from provml.things import Thing
from provml.values import IRI

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

ENDINGS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".trig": ox.RdfFormat.TRIG,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".nq": ox.RdfFormat.N_QUADS,
    ".n3": ox.RdfFormat.N3,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
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
                self._index = self._index.anew()
            return self._index.sync(report)

    def _add(self, write: Callable[[Path], object]) -> None:
        """Keep quads in a file of the home, which is what a rebuild reads, and take it in."""
        _ = self.index
        folder = self.home / "added"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{uuid.uuid4().hex[:6]}.nq"
        part = path.with_suffix(".part")
        try:
            write(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        self.sync()

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things straight from Python, with the things that they refer to."""
        nquads = rdf.ntriples(things, follow=follow)
        self._add(lambda part: part.write_bytes(nquads))

    def load(self, path: str | os.PathLike[str], *, graph: str | None = None) -> int:
        """Add an RDF file (Turtle, TriG, N-Triples, N-Quads, RDF/XML, JSON-LD, by ending); how many quads it has."""
        file = Path(path)
        form = ENDINGS.get(file.suffix.lower())
        if form is None:
            advice = f"Give a file that ends in one of {', '.join(ENDINGS)}."
            raise BrokenFile("its ending names no RDF format", advice, file=str(file))
        into = ox.NamedNode(IRI(graph)) if graph else ox.DefaultGraph()
        count = 0

        def quads() -> Iterator[ox.Quad]:
            nonlocal count
            for quad in ox.parse(path=str(file), format=form, rename_blank_nodes=True):
                count += 1
                graph_name = into if isinstance(quad.graph_name, ox.DefaultGraph) else quad.graph_name
                yield ox.Quad(quad.subject, quad.predicate, quad.object, graph_name)

        try:
            self._add(lambda part: ox.serialize(quads(), str(part), format=ox.RdfFormat.N_QUADS))
        except SyntaxError as error:
            raise BrokenFile(str(error.msg), "Mend it there.", file=str(file), line=error.lineno) from error
        except (OSError, UnicodeDecodeError) as error:
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise BrokenFile(reason, "Check the path.", file=str(file)) from error
        return count

    # ---- asking

    def query(self, sparql: str, *, sync: bool = True) -> Answer | bool:
        """SPARQL over all runs: rows for SELECT, true or false for ASK, triples for CONSTRUCT and DESCRIBE.

        The usual prefixes are known.
        """
        if _depth(sparql) > DEEPEST:
            raise BrokenQuery(f"it is nested more than {DEEPEST} deep")
        engine = self.engine if sync else self.index.store
        try:
            return _answered(engine, sparql)
        except (SyntaxError, RuntimeError, OSError, ValueError) as error:
            reason = _reason(str(error))
        # Raised out here, the error keeps no frame that holds the engine's rows: they may be let go by their own
        # thread only.
        raise BrokenQuery(reason)

    @property
    def catalog(self) -> Catalog:
        """The questions that can be asked by name: provml's own and yours."""
        if self._catalog is None:
            self._catalog = Catalog(user_folders(self.home))
        return self._catalog

    def ask(self, question: str, **values: Any) -> Answer:
        """The answer to a question of the catalog: `store.ask("q6", model="alexnet")`.

        Where a parameter stands for a node, the name that people use will do: a run's short id, a model's name.
        """
        return asking.ask(self, self.catalog[question], values)

    def sparql(self, question: str, **values: Any) -> str:
        """The SPARQL that a question of the catalog becomes."""
        return asking.bound(self, self.catalog[question], values)

    def read(self, iri: str) -> Any:
        """The thing that the graph describes under an IRI."""
        return rdf.read(self.engine, iri)

    # ---- runs

    def runs(self) -> list[RunInfo]:
        """Every run, the latest first."""
        self.sync()
        found = [self._info(run, journals) for run, journals in self._index.runs().items()]
        return sorted(found, key=lambda info: (info.started, info.id), reverse=True)

    def _info(self, run: str, journals: list[tuple[str, Journal]]) -> RunInfo:
        status, end = self._index.standing(journals)
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
            events=sum(journal.number for _, journal in journals),
        )

    def run(self, run_id: str) -> RunInfo:
        """One run, by its id or the beginning or end of it that no other has; `latest` is the last that began."""
        runs = self.runs()
        if run_id == "latest" and runs:
            return runs[0]
        exact = [info for info in runs if info.id == run_id or info.iri == run_id]
        like = [info for info in runs if run_id and (info.id.startswith(run_id) or info.id.endswith(run_id))]
        found = exact or like
        if len(found) == 1:
            return found[0]
        ids = [info.id for info in found or runs]
        near = ids if found else difflib.get_close_matches(run_id, ids, 3) or ids
        raise NoSuchRun(run_id, tuple(near[:10]), ambiguous=bool(found))

    # ---- keeping house

    @property
    def problems(self) -> list[Problem]:
        """Lines of journals that could not be taken in."""
        return [problem for journal in self.index.progress.journals.values() for problem in journal.problems]

    def verify(self) -> list[Problem]:
        """Read every journal anew; what is damaged."""
        eldest, found = Eldest(), []
        for key, path in self._index.journals():
            journal = Journal()
            for _ in lifted(key, path, journal, eldest):
                pass
            found += journal.problems
        return found

    def rebuild(self, report: Callable[[int], None] | None = None) -> int:
        """Make the index again from the journals; how many events they hold."""
        if self.index.is_private:
            folder = self.home / "index"
            raise BrokenFile(
                "another process holds the index", "Wait until it is done, then rebuild.", file=str(folder)
            )
        with self._lock:
            self._index = self._index.anew()
            return self.sync(report)

    def remove(self, run_id: str) -> RunInfo:
        """Remove a run: its journals, and by a rebuild all that only they said."""
        info = self.run(run_id)
        if info.status == "RUNNING":
            raise BrokenFile("the run still goes on", "Stop it first.", file=info.id)
        away = self.home / f"removed-{uuid.uuid4().hex[:8]}"  # in one step, so that no half of a run is left
        (self.home / "runs" / info.id).rename(away)
        shutil.rmtree(away)
        self.sync()
        return info

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of the journals and the added files in a new folder, which is a home of its own; runs may go on."""
        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise BrokenFile("there is something already", "Name a new folder.", file=str(target))
        target.mkdir(parents=True, exist_ok=True)
        for key, path in self._index.journals():
            (target / key).parent.mkdir(parents=True, exist_ok=True)
            with (target / key).open("wb") as copy:
                copy.writelines(line + b"\n" for _, _, line in whole_lines(path))
            shutil.copystat(path, target / key)
        for path in (self.home / "added").glob("*.nq"):
            (target / "added").mkdir(exist_ok=True)
            shutil.copy2(path, target / "added" / path.name)

    def export(self, run_id: str | None, file: Any, form: str = "ttl") -> int:
        """Write a run, or all, as RDF to a binary file; how many triples."""
        from provml.store.export import write

        return write(self, run_id, file, form)


DEEPEST = 500
"""Deeper nesting of a query ends the process inside the engine, which parses by recursion."""


def _depth(sparql: str) -> int:
    deepest = depth = 0
    for sign in sparql:
        if sign in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in ")}]":
            depth -= 1
    return deepest


def _reason(said: str) -> str:
    """What the engine says of a query, in one line; it lists every sign that could have been there."""
    said = " ".join(said.split())
    where, _, expected = said.partition(": expected")
    if "Prefix not found" in expected:
        return f"{where}: a prefix is used that is not declared"
    return said if len(said) <= 300 else f"{said[:300]}…"


def _answered(engine: ox.Store, sparql: str) -> Answer | bool:
    """What the engine answers, taken out of its hands."""
    answer = engine.query(sparql, prefixes=PREFIXES)
    if isinstance(answer, ox.QueryBoolean):
        return bool(answer)
    if isinstance(answer, ox.QueryTriples):
        rows = [(rdf.value(t.subject), rdf.value(t.predicate), rdf.value(t.object)) for t in answer]
        return Answer(["subject", "predicate", "object"], rows)
    columns = [variable.value for variable in answer.variables]
    return Answer(columns, [tuple(None if n is None else rdf.value(n) for n in row) for row in answer])


def open_store(home: str | os.PathLike[str] | None = None) -> Store:
    """The store of a home: PROVML_HOME, or `.provml` here, unless another folder is given."""
    return Store(home)
