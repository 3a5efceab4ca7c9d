"""From the journals of a home to an endpoint.

Statements are sent first, then the links that follow from them and from what is there, then the progress of the runs.
If the endpoint, the network or this process fails in between, the next sync sends the last part again; it adds the
same triples, so nothing is lost and nothing is there twice. Progress is kept at the endpoint by run and journal, so
that many homes can be sent to one dataset, and a copy of a home sends nothing that is there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from provml import paths
from provml.errors import QueryError, ServiceError
from provml.journal import annotations as annotation_files
from provml.journal import run_files, segments
from provml.mapping import NewLinks, iris
from provml.rdf.namespaces import ONTOLOGY, PROVML
from provml.store.annotations import RUN_PROPERTIES, annotation_ntriples, read_annotations
from provml.store.checkpoint import IndexCheckpoint, JournalCheckpoint, Problem, format_fingerprint, is_lengthened
from provml.store.endpoint.backend import CHUNK_TRIPLES, EndpointBackend, name_blank_nodes
from provml.store.endpoint.client import Endpoint, in_graph
from provml.store.endpoint.progress import (
    ENDPOINT,
    REMOVING,
    Names,
    RunProgress,
    decode,
    file_mark,
    node_of,
    progress_triples,
)
from provml.store.endpoint.remote_quads import RemoteQuads
from provml.store.endpoint.removal import remove_run
from provml.store.endpoint.run_nodes import batches, run_id
from provml.store.imports import ImportedFiles, parse_added
from provml.store.journal_mapping import JournalSource, sync_journal
from provml.store.links import link_changes
from provml.store.run_status import (
    STATUS_PROPERTIES,
    journals_by_run,
    run_status,
    status_ntriples,
    was_indexed_out_of_order,
)
from provml.store.siblings import FirstJournalCache

COMMIT_TRIPLES = 500_000
"""Triples after which links and progress are written; after an interruption at most these are sent again."""
RUNS_PER_QUERY = 200
MAX_REFUSED = 100
"""Triples that an engine may refuse; if it refuses more, the cause is not in the triples."""


@dataclass
class SyncReport:
    """What a sync has sent: the runs, their events and triples; and what it could not read or send.

    `behind` are runs of which the endpoint has more than this home, `removed` those that the home has no longer.
    """

    runs: list[str] = field(default_factory=list)
    events: int = 0
    triples: int = 0
    files: int = 0
    removed: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class HomeSync:
    """The journals of a home on their way to an endpoint."""

    def __init__(
        self,
        home: Path,
        endpoint: Endpoint,
        *,
        chunk_triples: int = CHUNK_TRIPLES,
        commit_triples: int = COMMIT_TRIPLES,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.home = home
        self.endpoint = endpoint
        self.names = Names(endpoint.data_graph)
        self.home_name = f"{socket.gethostname()}:{paths.absolute(home)}"
        self.report = SyncReport()
        self._on_progress = on_progress
        self._batch = _Batch(endpoint, self.names, self.report, chunk_triples)
        self._commit_triples = commit_triples
        self._first_journals = FirstJournalCache()

    def send(self, runs: Collection[str] = (), *, prune: bool = False) -> SyncReport:
        """Send what is new of all runs, or of some.

        With `prune`, runs are removed from the endpoint that this home has sent and has no longer. The `report` is the
        same object if this raises: what it lists has been sent.
        """
        try:
            return self._send(runs, prune=prune)
        finally:
            self._batch.close()

    def _send(self, runs: Collection[str], *, prune: bool) -> SyncReport:
        self._send_ontology()
        self._send_imported_files()
        folders = sorted(files.run for files in run_files.scan_runs(self.home) if files.journals)
        chosen = iter([run for run in folders if not runs or run in runs])
        while batch := list(islice(chosen, RUNS_PER_QUERY)):
            self._send_runs(batch)
        self._batch.commit()
        if prune:
            self._prune()
        return self.report

    # ---- what does not belong to a run

    def _marks(self, nodes: Iterable[str]) -> dict[str, str]:
        """Return the marks of some nodes of the progress graph."""
        marks: dict[str, str] = {}
        for values in batches(nodes):
            query = f"SELECT ?node ?mark WHERE {{ VALUES ?node {{ {values} }} ?node <{ENDPOINT}mark> ?mark }}"
            marks.update(
                (node.value, mark.value) for node, mark in self.endpoint.query(query, graph=self.names.progress)
            )
        return marks

    def _set_mark(self, node: str, mark: str) -> None:
        statement = f"<{node}> <{ENDPOINT}mark>"
        pattern = in_graph(f"{statement} ?mark", self.names.progress)
        data = in_graph(f'{statement} "{mark}"', self.names.progress)
        self.endpoint.update(f"DELETE {{ {pattern} }} WHERE {{ {pattern} }} ;\nINSERT DATA {{ {data} }}")

    def _send_ontology(self) -> None:
        """Send the ontologies to a named graph, for queries that use the class hierarchy."""
        node, mark = self.names.ontology, format_fingerprint()
        if self._marks([node]).get(node) == mark:
            return
        import pyoxigraph as ox

        self.endpoint.drop(ONTOLOGY)
        backend, graph = EndpointBackend(self.endpoint), ox.NamedNode(ONTOLOGY)
        for path in sorted(paths.ontologies().glob("*.ttl")):
            quads = ox.parse(path.read_bytes(), format=ox.RdfFormat.TURTLE)
            named = (ox.Quad(quad.subject, quad.predicate, quad.object, graph) for quad in quads)
            backend.add(name_blank_nodes(quad, path.name) for quad in named)
        self._set_mark(node, mark)

    def _send_imported_files(self) -> None:
        """Send RDF files that were added by hand."""
        imported = ImportedFiles(self.home)
        files = {f"{self.names.base}#file/{path.name}": path for path in sorted(imported.folder.glob("*.nq"))}
        sent = self._marks(files)
        for node, path in files.items():
            if node in sent:
                continue
            problem = imported.check(path)
            if problem is not None:
                self.report.problems.append(problem)
                continue
            EndpointBackend(self.endpoint).add(name_blank_nodes(quad, path.name) for quad in parse_added(path))
            self._set_mark(node, "sent")
            self.report.files += 1

    def _prune(self) -> None:
        """Remove the runs that this home has sent and has no longer."""
        name = self.home_name.replace("\\", "\\\\").replace('"', '\\"')
        query = f'SELECT ?run WHERE {{ ?node <{ENDPOINT}home> "{name}" ; <{ENDPOINT}run> ?run }}'
        present = {iris.run_iri(files.run) for files in run_files.scan_runs(self.home) if files.journals}
        for (run,) in self.endpoint.query(query, graph=self.names.progress):
            if run.value not in present:
                remove_run(self.endpoint, run.value)
                self.report.removed.append(run_id(run.value))

    # ---- runs

    def _send_runs(self, runs: list[str]) -> None:
        nodes = {node_of(iris.run_iri(run)): run for run in runs}
        marks = self._marks(nodes)
        changed = {
            node: run for node, run in nodes.items() if not marks.get(node) or marks[node] != self._file_mark(run)
        }
        states = self._states(node for node in changed if node in marks)
        for node, run in changed.items():
            if marks.get(node) == REMOVING:
                remove_run(self.endpoint, iris.run_iri(run))
                states.pop(node, None)
            self._send_run(run, states.get(node), is_known=node in marks and marks[node] != REMOVING)
            if self._batch.triples >= self._commit_triples:
                self._batch.commit()

    def _states(self, nodes: Iterable[str]) -> dict[str, RunProgress]:
        states = {}
        for values in batches(nodes):
            query = f"SELECT ?node ?state WHERE {{ VALUES ?node {{ {values} }} ?node <{ENDPOINT}state> ?state }}"
            for node, state in self.endpoint.query(query, graph=self.names.progress):
                progress = decode(state.value)
                if progress is not None:
                    states[node.value] = progress
        return states

    def _file_mark(self, run: str) -> str:
        """Return the mark of the files of a run as they are."""
        folder = self.home / "runs" / run
        sizes = [(path.name, segments.file_stat(path).st_size) for path in run_files.journals_of_run(folder)]
        return file_mark(format_fingerprint(), [*sizes, *annotation_files.file_sizes(folder).items()])

    def _send_run(self, run: str, progress: RunProgress | None, *, is_known: bool) -> None:
        """Send what is new of a run."""
        journals = run_files.journals_of_run(self.home / "runs" / run)
        if is_known and (progress is None or self._must_restart(run, progress, journals)):
            self._batch.commit()
            remove_run(self.endpoint, iris.run_iri(run))
            progress = None
        if progress is None:
            progress = RunProgress(fingerprint=format_fingerprint())
        if self._is_behind(progress, journals):
            self.report.behind.append(run)
            return
        mark, previous = self._file_mark(run), progress.mark
        progress.home, progress.mark = self.home_name, ""
        before = progress.events
        for path in journals:
            checkpoint = progress.journals.setdefault(path.name, JournalCheckpoint())
            source = JournalSource(f"runs/{run}/{path.name}", path, self._first_journals)
            for events, ntriples in sync_journal(source, checkpoint, self._batch.links):
                self._batch.add(run, progress, ntriples)
                self.report.events += events
                if self._on_progress is not None:
                    self._on_progress(events)
                if self._batch.triples >= self._commit_triples:
                    self._batch.commit()
            self.report.problems += checkpoint.problems
        has_changed = self._describe(run, progress) or progress.events > before
        is_complete = all(journal.signature is not None for journal in progress.journals.values())
        if has_changed or (is_complete and previous != mark):
            progress.mark = mark if is_complete else ""
            self._batch.pending[run] = progress
        if has_changed:
            self.report.runs.append(run)

    def _must_restart(self, run: str, progress: RunProgress, journals: list[Path]) -> bool:
        """True if what was sent is not what would be sent now: another mapping, or edited journals of this home."""
        if progress.fingerprint != format_fingerprint() or was_indexed_out_of_order(
            self.home, _checkpoint(run, progress)
        ):
            return True
        for path in journals if progress.home == self.home_name else ():
            journal, size = progress.journals.get(path.name), segments.file_stat(path).st_size
            if journal is not None and (size < journal.offset or is_lengthened(journal, size)):
                return True
        return False

    def _is_behind(self, progress: RunProgress, journals: list[Path]) -> bool:
        """True if another home has sent more of a run than this home has."""
        sizes = {path.name: segments.file_stat(path).st_size for path in journals}
        return any(sizes.get(name, journal.offset) < journal.offset for name, journal in progress.journals.items())

    def _describe(self, run: str, progress: RunProgress) -> bool:
        """Send the status and the annotations of a run if they have changed; return whether they have."""
        here = {name: journal for name, journal in progress.journals.items() if self._has_status(run, name, journal)}
        journals = journals_by_run(_checkpoint(run, RunProgress(journals=here))).get(run)
        if not journals:
            return False
        status, end = run_status(self.home, journals)
        sizes = annotation_files.file_sizes(self.home / "runs" / run)
        text = f"{status} {end.time if end is not None else ''}"
        if (text, sizes) == (progress.status, progress.annotations):
            return False
        ntriples = status_ntriples(journals, status, end)
        ntriples += annotation_ntriples(journals, read_annotations(self.home, run).annotations)
        if progress.status:
            self._batch.replace(iris.run_iri(run))
        self._batch.add(run, progress, ntriples, is_description=bool(progress.status))
        progress.status, progress.annotations = text, sizes
        return True

    def _has_status(self, run: str, name: str, journal: JournalCheckpoint) -> bool:
        """True if a journal is here, or has ended elsewhere."""
        return journal.end is not None or segments.exists(self.home / "runs" / run / name)


def _checkpoint(run: str, progress: RunProgress) -> IndexCheckpoint:
    return IndexCheckpoint(journals={f"runs/{run}/{name}": journal for name, journal in progress.journals.items()})


class _Batch:
    """Statements that are sent together, and what has to be written after them.

    A chunk is sent in a thread, while the next one is read and mapped.
    """

    def __init__(self, endpoint: Endpoint, names: Names, report: SyncReport, chunk_triples: int) -> None:
        self.endpoint = endpoint
        self.names = names
        self.report = report
        self.chunk_triples = chunk_triples
        self.triples = 0
        """Triples since the last commit."""
        self.links = NewLinks()
        self.pending: dict[str, RunProgress] = {}
        self._lines: list[bytes] = []
        self._shared: list[bytes] = []
        self._described: list[bytes] = []
        self._replaced: list[str] = []
        self._sender = ThreadPoolExecutor(1, "provml-sync")
        self._sending: Future[None] | None = None

    def close(self) -> None:
        """End the thread."""
        self._sender.shutdown()

    def add(self, run: str, progress: RunProgress, ntriples: bytes, *, is_description: bool = False) -> None:
        """Add statements of a run; a description replaces an older one at the next commit."""
        iri = iris.run_iri(run).encode()
        own = (b"<%b/" % iri, b"<%b>" % iri, b"<%b#" % iri)
        lines = ntriples.splitlines(keepends=True)
        graph = b" <%b> .\n" % self.names.shared_of(iri.decode()).encode()
        self._shared += [line.rstrip()[:-1].rstrip() + graph for line in lines if not line.startswith(own)]
        self.pending[run] = progress
        self.triples += len(lines)
        if is_description:
            self._described += lines
            return
        self._lines += lines
        while len(self._lines) >= self.chunk_triples:
            chunk, self._lines = self._lines[: self.chunk_triples], self._lines[self.chunk_triples :]
            self._load(chunk)

    def replace(self, run: str) -> None:
        """Remove the status and the annotations of a run at the next commit, before their new statements are sent."""
        graph = self.endpoint.data_graph
        names = ", ".join(map(str, (*STATUS_PROPERTIES, *RUN_PROPERTIES)))
        own, annotated = in_graph(f"<{run}> ?p ?o", graph), in_graph("?a ?p ?o", graph)
        where = in_graph(f"?a <{PROVML}annotates> <{run}> . ?a ?p ?o", graph)
        self._replaced += [
            f"DELETE {{ {own} }} WHERE {{ {own} FILTER(?p IN ({names})) }}",
            f"DELETE {{ {annotated} }} WHERE {{ {where} }}",
        ]

    def commit(self) -> None:
        """Send all that is left, then the links, then the progress."""
        self._load(self._lines)
        self._lines = []
        self._wait()
        if self._replaced:
            self.endpoint.update(" ;\n".join(self._replaced))
        self._load(self._described)
        self._wait()
        self._load_shared()
        self._write_links()
        self._write_progress()
        self._described, self._replaced, self.triples = [], [], 0

    def _load(self, lines: list[bytes]) -> None:
        """Send lines as soon as those before them are there."""
        self._wait()
        if lines:
            self._sending = self._sender.submit(self._load_now, lines)

    def _wait(self) -> None:
        """Wait for the lines that are being sent; raise their error."""
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def _load_now(self, lines: list[bytes]) -> None:
        self._load_checked(lines, self.endpoint.data_graph)
        self.report.triples += len(lines)

    def _load_checked(self, lines: list[bytes], graph: str) -> None:
        """Load lines; those that the engine refuses become problems, all others are loaded."""
        try:
            self.endpoint.load(b"".join(lines), graph, is_large=len(lines) >= self.chunk_triples)
        except (ServiceError, QueryError) as error:
            is_refused = not isinstance(error, ServiceError) or error.status in (400, 500)
            if not is_refused or len(self.report.problems) > MAX_REFUSED:
                raise
            if len(lines) == 1:
                line = lines[0].decode("utf-8", "replace").strip()[:200]
                self.report.problems.append(
                    Problem(self.endpoint.address.url, 0, f"refused: {line} ({error.reason[:100]})")
                )
                return
            middle = len(lines) // 2
            self._load_checked(lines[:middle], graph)
            self._load_checked(lines[middle:], graph)

    def _load_shared(self) -> None:
        lines, self._shared = self._shared, []
        for start in range(0, len(lines), self.chunk_triples):
            self.endpoint.load_quads(b"".join(lines[start : start + self.chunk_triples]))

    def _write_links(self) -> None:
        if not self.links:
            return
        write_links(self.endpoint, self.links)
        self.links.clear()

    def _write_progress(self) -> None:
        graph = self.names.progress
        runs = iter(self.pending.items())
        while part := dict(islice(runs, max(self.endpoint.dialect.update_triples // 50, 1))):
            nodes = " ".join(f"<{node_of(iris.run_iri(run))}>" for run in part)
            lines = [line for run, progress in part.items() for line in progress_triples(iris.run_iri(run), progress)]
            old = in_graph("?n ?p ?o", graph)
            self.endpoint.update(
                f"DELETE {{ {old} }} WHERE {{ {in_graph(f'VALUES ?n {{ {nodes} }} ?n ?p ?o', graph)} }} ;\n"
                f"INSERT DATA {{ {in_graph(chr(10).join(lines), graph)} }}"
            )
        self.pending.clear()


def write_links(endpoint: Endpoint, links: NewLinks) -> None:
    """Derive the links that follow from new statements and from what is at the endpoint, and write them."""
    quads = RemoteQuads(endpoint)
    added, removed = quads.settle(lambda: link_changes(quads, links))
    for lines in _parts([f"{quad.triple} ." for quad in removed], endpoint.dialect.update_triples):
        endpoint.update(f"DELETE DATA {{ {in_graph(' '.join(lines), endpoint.data_graph)} }}")
    for lines in _parts([f"{quad.triple} .\n" for quad in added], CHUNK_TRIPLES):
        endpoint.load("".join(lines).encode(), endpoint.data_graph)


def _parts(lines: list[str], size: int) -> Iterator[list[str]]:
    return (lines[start : start + size] for start in range(0, len(lines), size))
