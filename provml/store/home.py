"""A store: what is kept in one home, to sync, ask, export, remove, rebuild and verify."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyoxigraph as ox

from provml import rdf
from provml.answer import Answer
from provml.errors import BrokenFile, BrokenQuery, NoSuchRun
from provml.lift import name
from provml.resources import default_home
from provml.store.index import Index
from provml.store.progress import Journal, Problem, status_of
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
        self.home.mkdir(parents=True, exist_ok=True)
        self._index = Index.open(self.home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the index go, so that another process can have it."""
        self._index.close()

    # ---- taking in

    def sync(self, report: Callable[[int], None] | None = None) -> int:
        """Take in what is new in the journals; how many events that was. `report` is told of each some thousand."""
        self._take_added()
        events = self._index.sync(report)
        if events:
            self._index.leave_snapshot()
        return events

    def _take_added(self) -> None:
        for path in sorted((self.home / "added").glob("*.nq")):
            if path.name not in self._index.progress.added:
                self._index.store.bulk_load(path=str(path), format=ox.RdfFormat.N_QUADS)
                self._index.progress.added.append(path.name)

    def _add(self, nquads: bytes) -> None:
        """Keep N-Quads in a file of the home, which is what a rebuild reads, and take it in."""
        folder = self.home / "added"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{uuid.uuid4().hex[:6]}.nq"
        temporary = path.with_suffix(".part")
        temporary.write_bytes(nquads)
        temporary.replace(path)
        self._take_added()
        self._index._keep()

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things straight from Python, with the things that they refer to."""
        self._add(rdf.ntriples(things, follow=follow))

    def load(self, path: str | os.PathLike[str], *, graph: str | None = None) -> int:
        """Add an RDF file (Turtle, TriG, N-Triples, N-Quads, RDF/XML, JSON-LD, by ending); how many quads it has."""
        file = Path(path)
        form = ox.RdfFormat.from_extension(file.suffix.lstrip(".").lower())
        if form is None:
            endings = "ttl, trig, nt, nq, n3, rdf, jsonld"
            raise BrokenFile(
                "its ending names no RDF format", f"Give a file that ends in one of {endings}.", file=str(file)
            )
        try:
            into = ox.NamedNode(graph) if graph else ox.DefaultGraph()
            quads = [
                ox.Quad(
                    q.subject,
                    q.predicate,
                    q.object,
                    into if isinstance(q.graph_name, ox.DefaultGraph) else q.graph_name,
                )
                for q in ox.parse(path=str(file), format=form, rename_blank_nodes=True)
            ]
        except SyntaxError as error:
            raise BrokenFile(str(error.msg), "Mend it there.", file=str(file), line=error.lineno) from error
        except OSError as error:
            raise BrokenFile(str(error.strerror or error).lower(), "Check the path.", file=str(file)) from error
        self._add(ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b"")
        return len(quads)

    # ---- asking

    def query(self, sparql: str, *, sync: bool = True) -> Answer | bool:
        """SPARQL over all runs: rows for SELECT, true or false for ASK, triples for CONSTRUCT and DESCRIBE.

        The usual prefixes are known.
        """
        if sync:
            self.sync()
        try:
            answer = self._index.store.query(with_prefixes(sparql))
            if isinstance(answer, ox.QueryBoolean):
                return bool(answer)
            if isinstance(answer, ox.QueryTriples):
                rows = [(rdf.value(t.subject), rdf.value(t.predicate), rdf.value(t.object)) for t in answer]
                return Answer(["subject", "predicate", "object"], rows)
            columns = [variable.value for variable in answer.variables]
            return Answer(columns, [tuple(None if n is None else rdf.value(n) for n in row) for row in answer])
        except (SyntaxError, RuntimeError, OSError) as error:
            raise BrokenQuery(str(error)) from error

    def read(self, iri: str) -> Any:
        """The thing that the graph describes under an IRI."""
        self.sync()
        return rdf.read(self._index.store, iri)

    # ---- runs

    def runs(self) -> list[RunInfo]:
        """Every run, the latest first."""
        self.sync()
        by_run: dict[str, list[tuple[str, Journal]]] = {}
        for key, journal in self._index.progress.journals.items():
            by_run.setdefault(Path(key).parent.name, []).append((key, journal))
        found = [self._info(run, journals) for run, journals in by_run.items()]
        return sorted(
            (info for info in found if info is not None), key=lambda info: (info.started, info.id), reverse=True
        )

    def _info(self, run: str, journals: list[tuple[str, Journal]]) -> RunInfo | None:
        mains = [(k, j) for k, j in journals if j.state.first is not None and j.state.first.main]
        others = [(k, j) for k, j in journals if j.state.first is not None]
        if not others:
            return None
        key, journal = (mains or others)[0]
        first, end = journal.state.first, journal.end
        if first is None:
            return None
        return RunInfo(
            id=run,
            name=first.name,
            model=first.model,
            status=status_of(self.home / key, journal),
            started=datetime.fromtimestamp(first.t, UTC),
            seconds=end.t - first.t if end is not None else None,
            error=": ".join(end.error) if end is not None else "",
            writers=len(journals),
            events=sum(j.number for _, j in journals),
        )

    def run(self, run_id: str) -> RunInfo:
        """One run, by its id or the beginning or end of it that no other has; `latest` is the last that began."""
        runs = self.runs()
        if run_id == "latest" and runs:
            return runs[0]
        exact = [info for info in runs if info.id == run_id or info.iri == run_id]
        found = exact or [info for info in runs if info.id.startswith(run_id) or info.id.endswith(run_id)]
        if len(found) != 1:
            raise NoSuchRun(run_id, tuple(info.id for info in (found or runs)[:10]), ambiguous=bool(found))
        return found[0]

    # ---- keeping house

    @property
    def problems(self) -> list[Problem]:
        """Lines of journals that could not be taken in."""
        return [problem for journal in self._index.progress.journals.values() for problem in journal.problems]

    def verify(self) -> list[Problem]:
        """Read every journal anew; what is damaged."""
        with_memory = Index(self.home, None)
        with_memory.sync()
        return [problem for journal in with_memory.progress.journals.values() for problem in journal.problems]

    def rebuild(self, report: Callable[[int], None] | None = None) -> int:
        """Make the index again from the journals; how many events they hold."""
        folder = self.home / "index"
        if self._index.is_private:
            raise BrokenFile(
                "another process holds the index", "Wait until it is done, then rebuild.", file=str(folder)
            )
        self._index.close()
        shutil.rmtree(folder, ignore_errors=True)
        self._index = Index.open(self.home)
        return self.sync(report)

    def remove(self, run_id: str) -> RunInfo:
        """Remove a run: its journals, and by a rebuild all that only they said."""
        info = self.run(run_id)
        if info.status == "RUNNING":
            raise BrokenFile("the run still goes on", "Stop it first.", file=info.id)
        shutil.rmtree(self.home / "runs" / info.id)
        self.rebuild()
        return info

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of journals, added files and a snapshot of the index in a new folder."""
        target = Path(folder)
        target.mkdir(parents=True)
        for part in ("runs", "added"):
            if (self.home / part).is_dir():
                shutil.copytree(self.home / part, target / part)

    def export(self, run_id: str | None, file: Any, form: str = "ttl") -> int:
        """Write a run, or all, as RDF to a binary file; how many triples."""
        from provml.store.export import write

        return write(self, run_id, file, form)


def with_prefixes(sparql: str) -> str:
    """A query with the usual prefixes that it uses and does not declare."""
    bare = re.sub(r"<[^<>\s]*>|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*", " ", sparql)
    declared = set(re.findall(r"(?i)\bprefix\s+([\w.\-]*):", bare))
    used = set(re.findall(r"(?<![\w:])([a-z]+):", bare))
    missing = sorted((used & PREFIXES.keys()) - declared)
    return "".join(f"PREFIX {prefix}: <{PREFIXES[prefix]}>\n" for prefix in missing) + sparql


def open_store(home: str | os.PathLike[str] | None = None) -> Store:
    """The store of a home: PROVML_HOME, or `.provml` here, unless another folder is given."""
    return Store(home)
