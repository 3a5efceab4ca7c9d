"""The store of a home: sync, query, ask, export, validate and maintain its runs."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, Unpack, overload
from urllib.parse import unquote

import pyoxigraph as ox

from provml import rdf
from provml.answers import Answer, RowStream
from provml.catalog import Catalog, Query, user_folders
from provml.errors import ArtifactNotFound, FileFormatError, GraphNotFound, IndexDamaged, ProtectedGraph, plural
from provml.journal import segments
from provml.journal.annotations import Annotation, Kind, present_texts
from provml.journal.capture_errors import add_up
from provml.journal.run_files import HasId, require_home, resolve_run_id, run_folders
from provml.journal.seals import seal_abandoned, seal_by_reader
from provml.model.thing import Thing
from provml.model.values import IRI
from provml.paths import atomic_write, default_home, is_utf8
from provml.rdf.namespaces import RUNS
from provml.store import background_rebuild, imports, loaded_graphs, lock, maintenance, query_terms, questions
from provml.store.annotations import add_annotations, own_name
from provml.store.artifacts import Artifact, ArtifactList, find_artifacts, list_artifacts
from provml.store.backend import Backend, damage_reason, is_damaged
from provml.store.background_sync import BackgroundSync
from provml.store.checkpoint import Problem
from provml.store.execute import QueryOptions, execute
from provml.store.fork import has_no_threads
from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.healing import healing_stream, heals
from provml.store.index import DEFAULT_LIMITS, Index, IndexLimits
from provml.store.index_comparison import compare_with_journals, find_resized
from provml.store.lineage_context import lineage_context
from provml.store.loaded_graphs import LoadedGraph
from provml.store.run_graph import run_graph
from provml.store.run_info import RunInfo, runs_html
from provml.store.run_status import RunJournals, run_status, was_indexed_out_of_order
from provml.store.seal_check import SealReport, check_seals
from provml.store.sync import sync

if TYPE_CHECKING:
    import tempfile

    import matplotlib.axes

    from provml.answers.plot import Curves
    from provml.drawing.lineage import Lineage
    from provml.rdf import rdflib_bridge
    from provml.store.compare import RunComparison
    from provml.store.exporting import Exported
    from provml.store.run_report import RunReport
    from provml.store.run_table import RunTable
    from provml.store.updates import GraphChange
    from provml.validation import Report
    from provml.validation.engine import EngineName
    from provml.validation.inference import InferenceName
    from provml.validation.report import ProgressCallback
    from provml.validation.shape_files import ShapePaths

RunNames = str | HasId | Iterable[str | HasId]
"""One or more runs, by id, by a unique start or end of it, by IRI, or as `latest`."""
MAX_HTML_RUNS = 20
"""Number of runs that a notebook shows."""


class Store:
    """The runs of one home. Queries see everything that is in the journals: they sync the index first.

    A home that does not exist is an error, unless `create` makes it: recording creates a home, reading does not.
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        create: bool = False,
        limits: IndexLimits = DEFAULT_LIMITS,
    ) -> None:
        folder = Path(home or default_home())
        if create:
            _create_home(folder)
        else:
            require_home(folder)
        self.home = folder.absolute()  # the working directory may change
        self.opens_files = True
        """Whether values of questions may be paths of files, whose content is then looked up; not in a service."""
        self._lock = threading.RLock()
        self._index = Index.open(self.home, limits)
        self._has_warned = False
        self._has_sealed = False
        self._catalog: Catalog | None = None
        self._streams: weakref.WeakSet[RowStream] = weakref.WeakSet()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._index.backend.is_open:
            return f"<Store {str(self.home)!r} closed>"
        return f"<Store {str(self.home)!r} {plural(self._run_count(), 'run')}>"

    def _repr_html_(self) -> str:
        from html import escape  # not at the top: it is slow to load

        if not self._index.backend.is_open:
            return f"<p>{escape(repr(self))}</p>"
        runs = self.runs()
        return runs_html(runs[:MAX_HTML_RUNS], max(len(runs) - MAX_HTML_RUNS, 0))

    def _run_count(self) -> int:
        return len(run_folders(self.home).union(segments.manifest(self.home)))

    def close(self) -> None:
        """Release the index, so that another process can write it, and end the open streams of this thread.

        A sync in another thread ends first.
        """
        for stream in list(self._streams):
            if stream.thread == threading.get_ident():
                stream.close()
        if self._index.backend.is_open:  # not so in a forked child, where nothing would release the lock
            with self._lock:  # a sync in another thread has noted what it read, and may not have loaded it yet
                self._index.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def backend(self) -> Backend:
        """The engine. Raises an error if the store is closed, or was opened before a fork."""
        self._index.backend.graph()
        return self._index.backend

    def _heal(self, index: Index, damage: BaseException) -> None:
        """Replace a damaged index by a rebuilt one, unless another thread has done so."""
        with self._lock:
            if self._index is index:
                self._recreate_index(damage)
            self._sync_index(None)

    @property
    def location(self) -> str:
        """The folder of the home as text."""
        return str(self.home)

    @property
    def is_private(self) -> bool:
        """True if this store works on a private index, because another process holds the index of the home."""
        return self._index.is_private

    @property
    def index_folder(self) -> Path | None:
        """The folder of the index; None if the index is in memory."""
        return self._index.folder

    @property
    def is_compacting(self) -> bool:
        """True while files of the index are merged after a large load. Closing the store waits for it."""
        return self._index.is_compacting

    @property
    def position(self) -> str:
        """A short text that changes whenever the content of the index changes, and is the same after a restart."""
        return self._index.position[0]

    @property
    def position_time(self) -> float:
        """The time of the last change of the index that this store has seen, in seconds since the epoch."""
        return self._index.position[1]

    # ---- sync

    @heals
    def sync(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Index what is new in the journals and return the number of events.

        `on_progress` is called with the number of events of each chunk.
        """
        with self._lock:  # another thread may just replace the index
            self._check_open()
            if not self._has_sealed:
                self._has_sealed = True
                seal_abandoned(self.home)
            return self._sync_index(on_progress)

    def _sync_index(self, on_progress: Callable[[int], None] | None) -> int:
        if self._index.is_outdated and not self._adopt_rebuilt():
            return 0
        if self._index.is_stale():  # journals were removed, and so have to be their triples
            for problem in find_resized(self.home, self._index.checkpoint):
                message = "provml: %s %s. The index is rebuilt from it."
                logging.getLogger("provml").warning(message, self.home / problem.file, problem.reason)
            self._recreate_index()
        events = self._sync(on_progress)
        for _ in range(3):  # journals may appear meanwhile; the next opening notices what is still out of order
            if not events or not was_indexed_out_of_order(self.home, self._index.checkpoint):
                break
            self._recreate_index()
            events = self._sync(on_progress)
        return events

    @property
    def is_outdated(self) -> bool:
        """True if the index is of another version of provml: a new one is being built, and this one answers."""
        return self._index.is_outdated

    def _adopt_rebuilt(self) -> bool:
        """Replace an outdated index by the new one if it is complete; start the process that builds it."""
        index = self._index.adopt()
        if index is not None:
            self._index = index
            return True
        if not self._has_warned:
            self._has_warned = True
            pid = None if self._index.is_private else background_rebuild.start(self.home)
            message = (
                "provml: the index of %s is of another version of provml. A new one is built in the background%s; "
                "until then answers are those of %s."
            )
            as_of = datetime.fromtimestamp(self._index.position[1], UTC).strftime("%Y-%m-%d %H:%M UTC")
            process = f" (process {pid})" if pid is not None else ""
            logging.getLogger("provml").warning(message, self.home, process, as_of)
        return False

    def _check_open(self) -> None:
        self._index.backend.graph()

    def _recreate_index(self, damage: BaseException | None = None) -> None:
        """Replace the index by an empty one; by a private one if the disk is full."""
        try:
            self._index = self._index.recreate(damage)
        except OSError:
            self._index = Index.open_copy(self.home, self._index.limits)

    def _sync(self, on_progress: Callable[[int], None] | None) -> int:
        """Sync the index; if it cannot be written to (a full disk), fall back to another one."""
        while True:
            try:
                return sync(self._index, on_progress)
            except OSError as error:
                if is_damaged(error):
                    raise
                index = self._index.fallback()
                if index is None:
                    raise
                self._index = index

    def sync_in_background(self, every: float = 10.0) -> BackgroundSync:
        """Sync every `every` seconds in a thread of this process: `with store.sync_in_background(): …`"""
        return BackgroundSync(self.sync, every)

    @heals
    def snapshot(self) -> None:
        """Write a snapshot of the index, for processes that read while this one holds it."""
        self._check_open()
        with self._lock:
            self._index.write_snapshot()

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things, with the things that they refer to unless `follow` is False."""
        self._check_open()
        ntriples = rdf.ntriples(things, follow=follow)
        content = imports.Origin("things").comment() + ntriples
        imports.store_file(self.home, lambda part: part.write_bytes(content), "things")
        self.sync()

    def load(
        self, path: str | os.PathLike[str] | rdflib_bridge.Graph, *, graph: str | None = None, replace: bool = False
    ) -> int:
        """Load an RDF file, a PROV document or an rdflib graph into the default graph, or into that of an IRI.

        Suffix and content give the format: Turtle, TriG, N-Triples, N-Quads, N3, RDF/XML, JSON-LD, PROV-N, PROV-JSON,
        PROV-XML or PROV-JSONLD. A file that was loaded into the same graph before is replaced; `replace` replaces
        everything that was loaded into that graph. Return the number of quads.
        """
        self._check_open()
        source = imports.source_of(path)
        target = self._own_graph(graph)
        with self._lock:
            self.sync()
            if replace:
                self._finish(loaded_graphs.replace(self._index, [target], None))
            count, is_unclear = loaded_graphs.load(self._index, source, graph)
            self._finish(is_unclear)
        return count

    def unload(self, *names: str) -> list[LoadedGraph]:
        """Remove loaded graphs by IRI, by the path of the file, or as `default`; return what was removed.

        What runs recorded stays, also if a file states it too.
        """
        self._check_open()
        with self._lock:
            self.sync()
            removed, is_unclear = loaded_graphs.remove(self._index, names)
            self._finish(is_unclear)
        return removed

    def _finish(self, must_rebuild: bool) -> None:
        """Bring the index up to date after loaded files were changed."""
        if must_rebuild:
            self._recreate_index()
        self.sync()

    def _own_graph(self, graph: str | None) -> Any:
        """Return the name of a graph that may be written; raise an error for one of provml."""
        name = ox.DefaultGraph() if graph is None else ox.NamedNode(IRI(graph))
        if name in PROVIDED_GRAPHS or (graph or "").startswith(RUNS):
            raise ProtectedGraph(f"<{graph}> is a graph that provml writes")
        return name

    def graphs(self) -> list[LoadedGraph]:
        """List what was loaded: the graphs, with the source and the number of triples of each."""
        self._check_open()
        return loaded_graphs.describe(self.home)

    def loaded_graphs(self) -> list[str]:
        """Return the IRIs of the named graphs that were loaded."""
        self._check_open()
        return sorted(name.value for name in loaded_graphs.graph_names(self._index))

    def to_rdflib(self, run_id: str | None = None, *, graph: str | None = None) -> rdflib_bridge.Graph:
        """Return a run, a loaded graph, or all runs and the loaded triples of the default graph, as an rdflib graph.

        It is a copy in memory. `rdflib_dataset` has all graphs, without a copy.
        """
        from provml.rdf import rdflib_bridge  # not at the top: most commands do not need it

        store = self.graph(run_id)
        name = ox.DefaultGraph() if graph is None else ox.NamedNode(IRI(graph))
        if graph is not None and run_id is None and not store.contains_named_graph(ox.NamedNode(graph)):
            raise GraphNotFound(graph, tuple(self.loaded_graphs()))
        return rdflib_bridge.to_rdflib(store.quads_for_pattern(None, None, None, name))

    def rdflib_dataset(self) -> rdflib_bridge.Dataset:
        """Return all graphs as an rdflib dataset that reads the index in place, by oxrdflib. It cannot be changed."""
        from provml.rdf import rdflib_bridge

        return rdflib_bridge.live_dataset(self.graph())

    @classmethod
    def from_rdflib(cls, graph: rdflib_bridge.Graph, home: str | os.PathLike[str] | None = None) -> Self:
        """Return a store with an rdflib graph or dataset loaded: of a home, or of one that lasts until it is closed."""
        import tempfile

        temporary = None if home is not None else tempfile.TemporaryDirectory(prefix="provml-")
        store = cls(home or (temporary.name if temporary is not None else None), create=True)
        store._temporary = temporary
        store.load(graph)
        return store

    def update(self, sparql: str) -> GraphChange:
        """Execute a SPARQL update on loaded graphs; return how many triples it added and removed.

        Its patterns see everything. It may add triples to any graph but those of provml, and remove what was loaded; an
        update that would remove what a run recorded is refused as a whole. LOAD and SERVICE are refused.
        """
        from provml.store import updates  # not at the top: most commands do not need it

        self._check_open()
        with self._lock:
            self.sync()
            change, is_unclear = updates.execute(self._index, sparql)
            self._finish(is_unclear)
        return change

    def change_loaded(self, folder: Path) -> None:
        """Do to the loaded graphs what an update, executed elsewhere, has written into a folder."""
        from provml.store import updates

        with self._lock:
            self.sync()
            self._finish(loaded_graphs.apply(self._index, folder / updates.REMOVED, folder / updates.ADDED))

    def replace_loaded(self, graphs: Iterable[str | None] | None, content: Path | None) -> None:
        """Replace what was loaded into some graphs by the N-Quads of a file, or by nothing.

        A graph is an IRI, or None for the default graph; None in place of a list stands for all graphs. What runs
        recorded, and the ontology, stay as they are.
        """
        names: list[Any] | None = None
        if graphs is not None:
            names = [self._own_graph(graph) for graph in graphs]
        with self._lock:
            self.sync()
            self._finish(loaded_graphs.replace(self._index, names, content))

    # ---- queries

    @heals
    def query(self, sparql: str, *, sync: bool = True, **options: Unpack[QueryOptions]) -> Answer | bool:
        """Execute SPARQL over all runs: rows for SELECT, a boolean for ASK, triples for CONSTRUCT and DESCRIBE.

        The usual prefixes need no declaration. `bindings={"rate": 0.1}` gives the variable `?rate` or `$rate` a value,
        safely: as an RDF term wherever it is used. With `timeout`, in seconds, the query runs in a process of its own
        that is killed then, and that uses at most `memory` bytes (default: half of the machine's); without, it runs
        here and cannot be stopped. SERVICE, which calls other machines, needs `service=True`. With
        `inference`, the query also sees what follows from all graphs by RDFS and OWL 2 RL. The `note` of an answer
        names terms that the ontology does not define, and if there are no rows, terms that no triple has.
        """
        answer = self._answer(sparql, sync=sync, **options)
        if not isinstance(answer, bool):
            answer.note = query_terms.note_on_unknown_terms(sparql, self.backend)
            if not answer.rows and not answer.note:
                answer.note = query_terms.note_on_absent_terms(sparql, self.backend)
        return answer

    @heals
    def _answer(self, sparql: str, *, sync: bool = True, **options: Unpack[QueryOptions]) -> Answer | bool:
        """Execute a query without a note on its terms."""
        stream = self._execute(sparql, sync=sync, limit_result=True, options=options)
        if isinstance(stream, bool):
            return stream
        with stream:
            return Answer.from_stream(stream)

    @heals
    def stream(self, sparql: str, *, sync: bool = True, **options: Unpack[QueryOptions]) -> RowStream | bool:
        """Execute SPARQL and return the rows one by one, for results that do not fit in memory.

        Options are those of `query`. Close the stream to end the query early. With a `timeout`, the rows are in a
        temporary file when this returns; without, they are computed while they are read.
        """
        stream = healing_stream(self, lambda: self._execute(sparql, sync=sync, limit_result=False, options=options))
        if not isinstance(stream, bool):
            self._streams.add(stream)
            stream.note = query_terms.note_on_unknown_terms(sparql, self.backend)
        return stream

    def _execute(self, sparql: str, *, sync: bool, limit_result: bool, options: QueryOptions) -> RowStream | bool:
        def backend() -> Backend:
            if sync:
                self.sync()
            if options.get("inference"):
                self.infer()
            return self.backend

        return execute(backend, sparql, options, limit_result=limit_result)

    def infer(self) -> None:
        """Bring the graph of inferred triples up to date; `query(…, inference=True)` does it itself."""
        with self._lock:
            self._index.infer()

    @property
    def catalog(self) -> Catalog:
        """The questions that can be asked by name: those of provml and of the user."""
        if self._catalog is None:
            self._catalog = Catalog(user_folders(self.home))
            for error in self._catalog.errors.values():
                logging.getLogger("provml").warning("provml: question skipped: %s", error)
        return self._catalog

    def reload_catalog(self) -> None:
        """Read the users' questions again when they are next needed."""
        self._catalog = None

    @heals
    def ask(
        self, question: str | Query, /, *, timeout: float | None = None, service: bool = False, **values: Any
    ) -> Answer:
        """Answer a question of the catalog: `store.ask("q6", model="alexnet")`.

        A parameter that takes a node also takes a name: the start of a run's id, the name of a model. A name that
        nothing has is an error. `timeout` and `service` are those of `query`.
        """
        query = self._question(question)
        self.sync()
        return questions.ask(self, query, values, timeout, service=service)

    @heals
    def sparql(self, question: str | Query, /, **values: Any) -> str:
        """Return the SPARQL of a question of the catalog, with its parameters bound."""
        query = self._question(question)
        self.sync()
        return questions.bind(self, query, values)

    def _question(self, question: str | Query) -> Query:
        return question if isinstance(question, Query) else self.catalog[question]

    @heals
    def lineage(self, subject: Any, /, *, forward: bool = False) -> Lineage:
        """Return what a thing came from, or with `forward` what came of it, as a picture: `store.lineage("latest")`.

        `subject` is a run, a model, a dataset or a step by name, digest or IRI, or a file, whose content is looked up.
        """
        from provml.store.lineage import lineage

        self.sync()
        return lineage(self, subject, forward=forward)

    @overload
    def plot(
        self, runs: RunNames = "latest", measure: str | None = None, *, ax: matplotlib.axes.Axes | None = None
    ) -> matplotlib.axes.Axes: ...
    @overload
    def plot(
        self, runs: RunNames, measure: list[str] | tuple[str, ...], *, ax: Sequence[matplotlib.axes.Axes] | None = None
    ) -> list[matplotlib.axes.Axes]: ...
    def plot(
        self, runs: RunNames = "latest", measure: str | list[str] | tuple[str, ...] | None = None, *, ax: Any = None
    ) -> Any:
        """Draw a measure, or a setting, of one or more runs by epoch with matplotlib, and return the axes.

        Training and validation are in one picture, and adaptations are marked. By default the measure is the loss.
        Several measures have axes of their own: then `ax` is a list, and so is the result.
        """
        from provml.answers.plot import draw_panels

        curves = self.curves(runs, *([measure] if isinstance(measure, str) else measure or ()))
        if measure is None or isinstance(measure, str):
            return draw_panels(curves, None if ax is None else [ax])[0]
        return draw_panels(curves, ax)

    @heals
    def curves(self, runs: RunNames = "latest", *measures: str) -> list[Curves]:
        """Return the points of the curves that `plot` draws, one item for each measure or setting."""
        from provml.store.curves import RunCurves

        return RunCurves(self, self.find_runs(runs)).panels(measures)

    @heals
    def read(self, iri: str) -> Any:
        """Return the thing that the graph describes under an IRI."""
        return rdf.read(self.graph(), iri)

    @heals
    def graph(self, run_id: str | None = None) -> ox.Store:
        """Return the graph of a run in memory, or without a run the graph of all, which must not be changed."""
        if run_id is None:
            self.sync()
            return self.backend.graph()
        info = self.run(run_id)
        return run_graph(self.home, info.id, self._index.run_journals(info.id))

    @heals
    def lineage_context(self, graph: ox.Store) -> list[ox.Quad]:
        """Return what other runs say about the data and models that a run used, given the graph of the run."""
        return list(lineage_context(self.backend.graph(), graph))

    # ---- runs

    @heals
    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """List the runs, the latest first; with `limit` at most that number, which is fast in a large home."""
        self.sync()
        if limit is not None:
            return [self._info(run, self._index.run_journals(run)) for run in self._index.latest(limit)]
        runs = [self._info(run, journals) for run, journals in self._index.journals_by_run().items()]
        return sorted(runs, key=lambda info: (info.started, info.id), reverse=True)

    def _info(self, run: str, journals: RunJournals) -> RunInfo:
        status, end = run_status(self.home, journals)
        state = journals[0][1].state
        start = state.header.time if state.header is not None and state.header.time == state.header.time else 0.0
        annotations = self._index.annotations_of(run)
        return RunInfo(
            id=run,
            name=own_name(journals, annotations) or state.experiment,
            model=state.model,
            status=status,
            started=datetime.fromtimestamp(start, UTC),
            seconds=max(end.time - start, 0.0) if end is not None and start else None,
            error=": ".join(end.error) if end is not None else "",
            writers=len(journals),
            events=sum(journal.events for _, journal in journals),
            experiment=state.experiment,
            tags=present_texts(annotations, "tag"),
            notes=tuple(a for a in annotations if a.kind == "note" and a.removed is None),
            parent=state.header.parent_run if state.header is not None else "",
            rerun_of=state.header.rerun_of if state.header is not None else "",
            capture_errors=add_up(journal.capture_errors for _, journal in journals),
        )

    def run(self, run_id: str | HasId) -> RunInfo:
        """Find a run by its id, by its name if no other run has it, by a unique start or end of its id, by its IRI,
        or as `latest`.
        """
        return self.find_runs([run_id])[0]

    @heals
    def find_runs(self, names: RunNames) -> list[RunInfo]:
        """Find several runs, as `run` finds one; each is listed once."""
        wanted = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
        if all(isinstance(name, RunInfo) for name in wanted):
            return list({info.id: info for info in wanted if isinstance(info, RunInfo)}.values())
        own_names, info_of = self._finder()

        def find(name: str | HasId) -> RunInfo:
            if isinstance(name, RunInfo):
                return name
            text: Any = name if isinstance(name, str) else getattr(name, "id", name)
            return info_of(resolve_run_id(text, list(own_names), lambda: next(iter(own_names)), lambda: own_names))

        return list({info.id: info for info in map(find, wanted)}.values())

    def _finder(self) -> tuple[dict[str, str], Callable[[str], RunInfo]]:
        """Return the names of all runs by their ids, the latest first, and a function from an id to a run."""
        self.sync()
        return self._index.names(), lambda run: self._info(run, self._index.run_journals(run))

    def children(self, run_id: str | HasId) -> list[RunInfo]:
        """List the child runs of a run, in the order in which they started."""
        return self._linked_to(run_id, "wasChildOf")

    def repetitions(self, run_id: str | HasId) -> list[RunInfo]:
        """List the runs that repeat a run, in the order in which they started."""
        return self._linked_to(run_id, "wasRerunOf")

    def _linked_to(self, run_id: str | HasId, link: str) -> list[RunInfo]:
        """List the runs with a link to a run, in the order in which they started."""
        answer = self._answer(f"SELECT ?run WHERE {{ ?run provml:{link} <{self.run(run_id).iri}> }}")
        names, info_of = self._finder()
        linked = {unquote(str(run).removeprefix(RUNS)) for (run,) in answer.rows} if isinstance(answer, Answer) else ()
        return sorted(map(info_of, filter(names.__contains__, linked)), key=lambda info: (info.started, info.id))

    def descendants(self, run_ids: Iterable[str | HasId]) -> list[RunInfo]:
        """List the child runs of some runs, their child runs, and so on, in the order in which they started."""
        children: dict[str, list[str]] = {}
        runs = self.runs()
        for info in runs:
            children.setdefault(info.parent, []).append(info.id)
        stack = [self.run(run_id).id for run_id in run_ids]
        ancestors, descendants = set(stack), set[str]()
        while stack:
            new = set(children.get(stack.pop(), ())) - descendants - ancestors
            descendants |= new
            stack += new
        return [info for info in reversed(runs) if info.id in descendants]

    # ---- annotations

    def tag(self, run_id: str | HasId, *tags: str, by: str = "") -> RunInfo:
        """Give a run tags, keywords by which it can be found; `by` is the person, by default the user."""
        return self._annotate(run_id, "tag", tags, by=by)

    def untag(self, run_id: str | HasId, *tags: str, by: str = "") -> RunInfo:
        """Remove tags from a run. The graph still states who gave and who removed them."""
        return self._annotate(run_id, "tag", tags, by=by, removed=True)

    def note(self, run_id: str | HasId, text: str, *, by: str = "") -> RunInfo:
        """Add a note to a run."""
        return self._annotate(run_id, "note", [text], by=by)

    def remove_note(self, run_id: str | HasId, text: str, *, by: str = "") -> RunInfo:
        """Remove a note from a run by its text. The graph still states who wrote and who removed it."""
        return self._annotate(run_id, "note", [text], by=by, removed=True)

    def rename(self, run_id: str | HasId, name: str, *, by: str = "") -> RunInfo:
        """Give a run a name of its own, in place of the name of its experiment."""
        return self._annotate(run_id, "name", [name], by=by)

    def _annotate(
        self, run_id: str | HasId, kind: Kind, texts: Iterable[str], *, by: str, removed: bool = False
    ) -> RunInfo:
        info = self.run(run_id)
        add_annotations(self.home, info.id, kind, texts, by=by, removed=removed)
        self._index.expect_changes()
        return self.run(info.id)

    def annotations(self, run_id: str | HasId) -> list[Annotation]:
        """Return all annotations of a run, also those that no longer hold, in the order in which they were added."""
        return list(self._index.annotations_of(self.run(run_id).id))

    # ---- artifacts

    @heals
    def artifacts(self, run_id: str | HasId | None = None) -> ArtifactList:
        """List what a run, or all runs (None), stored in the home, in the order in which it was stored."""
        return list_artifacts(self, None if run_id is None else self.run(run_id).iri)

    def find_artifacts(self, target: str | HasId, name: str = "") -> ArtifactList:
        """Return the artifact that `artifact` returns; of a run without a name all that it has."""
        return find_artifacts(self, target if isinstance(target, str) else target.id, name)

    @heals
    def artifact(self, target: str | HasId, name: str = "") -> Artifact:
        """Return an artifact by its name, its SHA-256 or the first digits of it, or by its run and `name`.

        `name` may be left out if the run has only one. Of several artifacts of one name in a run, the last counts.
        """
        artifacts = self.find_artifacts(target, name)
        if len(artifacts) > 1:
            names = tuple(dict.fromkeys(artifact.name for artifact in artifacts))
            advice = f"Pass the name of one of them: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}."
            reason = f"Run {artifacts[0].run} has {len(artifacts)} artifacts"
            raise ArtifactNotFound(str(target), reason, advice, names)
        return artifacts[0]

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
        """Return the runs with their hyperparameters and measures as typed columns: `table("learning_rate > 0.01")`.

        A run with several trainings has a row for each. Columns of the run come first, then hyperparameters (their
        initial values) and measures (the latest value; `test_` of the evaluation, `val_` of the validation, `train_` of
        the training) that differ between the rows, then those that are the same in all. `where` compares columns with
        values or other columns, with `and`, `or`, `not`, `in` and parentheses. `status` is one or more statuses, and
        `name` a pattern such as `"flowers*"`. Without `sort`, the latest runs come first.
        """
        if limit is not None and limit >= 0 and (where, sort, status, name) == (None, None, None, None):
            table = self._run_table(limit)
        else:
            table = self._run_table().filtered(where, status, name)
        if sort is not None:
            table = table.sorted(sort, descending=descending)
        return (table if limit is None else table.first(limit)).answer()

    def _run_table(self, limit: int | None = None) -> RunTable:
        """Return the table of all runs, or of the latest ones."""
        from provml.store.run_table import load_table

        return load_table(self.runs(limit), self.backend, is_part=limit is not None)

    @heals
    def compare(self, *runs: str | RunInfo) -> RunComparison:
        """Compare runs: hyperparameters, data, measures, adaptations, code, environment: `compare("monday", "latest")`.

        What differs comes first. The rows `lineage` name the first step or dataset in which the data of the trainings
        differ, seen from the first run.
        """
        from provml.store.compare import compare_runs

        self.sync()
        infos = [run if isinstance(run, RunInfo) else self.run(run) for run in runs]
        return compare_runs(self.backend, infos)

    # ---- maintenance

    @property
    def problems(self) -> list[Problem]:
        """Lines of journals, and imported files, that could not be indexed."""
        self.sync()
        return self._index.problems()

    def verify(self) -> list[Problem]:
        """Read all journals, annotations, artifacts and imported files again and return what is damaged.

        The journals are compared with their seals, and the index with the journals: a journal that was changed after it
        was sealed or indexed is a problem as well.
        """
        self._check_open()
        seal_abandoned(self.home)
        problems = [*maintenance.verify(self.home), *check_seals(self.home).problems, *self._compare_with_journals()]
        if self._index.damage:
            problems.append(Problem("index", 0, f"was damaged ({self._index.damage}) and is rebuilt", in_index=True))
        return problems

    def check_seals(self) -> SealReport:
        """Compare the journals with their seals: problems, and which journals are sealed by whom."""
        self._check_open()
        seal_abandoned(self.home)
        return check_seals(self.home)

    def seal(self) -> list[str]:
        """Seal the journals that have ended and have no seal, and return them as `run/file`.

        A process seals the journal that it has recorded. This is for journals of killed processes, from other machines,
        from imports, and of versions of provml before seals. The ledger says that a reader sealed them.
        """
        unsealed = self.check_seals().unsealed
        for key in unsealed:
            seal_by_reader(self.home / "runs" / key)
        return unsealed

    @heals
    def _compare_with_journals(self) -> list[Problem]:
        self._index.expect_changes()
        self._index.is_stale()  # reads finished runs that changed again
        problems = find_resized(self.home, self._index.checkpoint)
        if not problems:  # else the next sync rebuilds the index
            self.sync()
            problems = compare_with_journals(self.home, self._index, self.sync)
        return problems

    def rebuild(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Rebuild the index from the journals and return the number of events."""
        self._check_open()
        self._check_writable("then rebuild")
        with self._lock:
            self._index = self._index.recreate()
            return self.sync(on_progress)

    def _check_writable(self, advice: str) -> None:
        """Raise FileFormatError if this store has a private index, because that of the home cannot be written."""
        if not self._index.is_private:
            return
        reason = "another process holds the index, or the folder is not writable"
        solution = "End that process, or change the permissions"
        if not is_utf8(self.home):
            reason, solution = "the path is not valid UTF-8, so that no index can be stored there", "Rename the folder"
        elif has_no_threads():
            reason, solution = "a forked process cannot write the index", "Start a new process"
        elif lock.is_held_here(self.home / "index" / "lock"):
            reason, solution = "another store of this process holds the index", "Close that store, open this one again"
        raise FileFormatError(reason, f"{solution}, {advice}.", file=str(self.home / "index"))

    def remove(self, run_id: str) -> RunInfo:
        """Remove a run: its journals, and what no other run states from the graph."""
        return self.remove_all([run_id])[0]

    def remove_all(self, run_ids: Iterable[str]) -> list[RunInfo]:
        """Remove several runs; none of them if one does not exist or is still running."""
        infos = list({info.id: info for info in map(self.run, run_ids)}.values())
        self._remove([info.id for info in infos])
        self.sync()
        return infos

    @heals
    def _remove(self, run_ids: list[str]) -> None:
        """Remove the journals of runs, and from the index what only they state, or leave that to the next sync."""
        from provml.store.removal import apply_removal, plan_removal

        with self._lock:
            maintenance.check_removable(self.home, run_ids)
            removal = plan_removal(self._index, run_ids)
            try:
                maintenance.remove(self.home, run_ids)
                if removal is not None:
                    apply_removal(self._index, removal, run_ids)
            finally:
                if removal is not None:
                    removal.close()
            self._index.expect_changes()

    def pack(self, limit: int | None = None) -> list[str]:
        """Move the journals of runs that have ended into segments, and return the ids of these runs.

        Everything works as before; a home of many runs takes fewer files and less space. `unpack` is the inverse.
        """
        self.sync()
        self._check_writable("then pack")
        with self._lock:
            return self._index.pack(limit)

    def unpack(self, run_ids: Iterable[str | HasId] | None = None) -> list[str]:
        """Write the journals of packed runs, by default all, back to files, and return the ids of these runs."""
        self._check_open()
        ids = segments.manifest(self.home) if run_ids is None else [self.run(run_id).id for run_id in run_ids]
        try:
            return segments.restore(self.home, list(ids))
        finally:
            self._index.expect_changes()

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """Copy everything but the index to a new folder, which is then a home of its own. Runs may be active."""
        self._check_open()
        maintenance.backup(self.home, Path(folder))

    @heals
    def validate(
        self,
        run_id: str | None = "latest",
        shapes: ShapePaths = (),
        *,
        only_shapes: ShapePaths | None = None,
        engine: EngineName = "sparql",
        inference: InferenceName = "types",
        progress: ProgressCallback | None = None,
    ) -> Report:
        """Validate a run, or all (None), against the shapes of provml and of the home, and against `shapes`.

        `only_shapes` replace those of provml and of the home. `inference` is none, types, rdfs or owlrl.
        """
        from provml.store.validate import ValidationOptions, validate_runs

        options = ValidationOptions(shapes, only_shapes, engine, inference)
        return validate_runs(self, run_id, options, progress=progress)

    @heals
    def report(
        self, run_id: str | RunInfo = "latest", *, validate: bool = True, progress: ProgressCallback | None = None
    ) -> RunReport:
        """Return a report about a run: `store.report("latest").save("report.html")`.

        It also says what is not known. `validate=False` leaves out the validation, which takes most of the time.
        """
        from provml.store.run_report import report_of_run

        info = run_id if isinstance(run_id, RunInfo) else self.run(run_id)
        return report_of_run(self, info, self.validate(info.id, progress=progress) if validate else None)

    def export(
        self,
        run_id: str | HasId | None,
        file: str | os.PathLike[str] | IO[bytes],
        fmt: str | None = None,
        **options: str,
    ) -> int:
        """Write a run, or all (None), to a path or an open binary file; return the number of triples or other items.

        `fmt` is a name that `provml export --list` shows; by default that of the extension of a path, and Turtle for an
        open file. `options` are those of the format. `export_as` also returns what is not known and what is lost.
        """
        return self.export_as(run_id, file, fmt, **options).count

    def export_as(
        self,
        run_id: str | HasId | None,
        file: str | os.PathLike[str] | IO[bytes],
        fmt: str | None = None,
        **options: str,
    ) -> Exported:
        """Write a run, or all (None), as `export` does, and return an account of what was written."""
        from provml.store.export_formats import DEFAULT, RDF_WRITER, find_format, format_of_path
        from provml.store.exporting import Exported, Source, export_runs

        is_path = isinstance(file, (str, os.PathLike))
        chosen = find_format(fmt) if fmt else format_of_path(file) if is_path else find_format(DEFAULT)  # type: ignore[arg-type]
        run = None if run_id is None else self.run(run_id)
        run_name = None if run is None else run.id
        if chosen.writer != RDF_WRITER:
            runs = [run] if run is not None else self.runs()
            return export_runs(Source(self, runs, chosen, options, run is None), file)
        chosen.check_options(options)
        vocabularies = options.get("vocabularies", "")
        if not isinstance(file, (str, os.PathLike)):
            return Exported(self._export(run_name, file, chosen.name, vocabularies))
        with atomic_write(Path(file)) as output:
            return Exported(self._export(run_name, output, chosen.name, vocabularies))

    def _export(self, run_id: str | None, file: IO[bytes], fmt: str, vocabularies: str) -> int:
        """Write to a file; a damaged index is healed and exported again, unless a part is written already."""
        from provml.store import export
        from provml.store.alignments import find
        from provml.store.loaded_literals import written_quads

        chosen = find(vocabularies) if vocabularies else []
        index, output = self._index, export.Output(file)
        written = {} if run_id is not None else written_quads(self.home)
        try:
            return export.write(self.graph(run_id), output, fmt, chosen, written=written)
        except (RuntimeError, OSError) as error:
            if not is_damaged(error):
                raise
            damage = error.with_traceback(None)
        self._heal(index, damage)
        if output.has_begun:
            raise IndexDamaged(damage_reason(damage))
        return export.write(self.graph(run_id), output, fmt, chosen, written=written)


def _create_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot create the home ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Pass another folder.", file=str(home)) from error
