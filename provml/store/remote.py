"""A store on another machine: the same methods over the HTTP interface of a service.

Questions, tables, comparisons and lineage are computed here, of SPARQL queries that the service executes under its
limits. What only the machine of the service can do (verify, rebuild, remove, backup) says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

import msgspec
import pyoxigraph as ox

from provml import rdf
from provml.answers.parse_results import ACCEPT, parse_results
from provml.catalog import Catalog, Parameter, Query, user_folders
from provml.errors import (
    ArtifactNotFound,
    GraphNotFound,
    ProvmlError,
    QueryError,
    QueryTimeout,
    ServiceError,
    ServiceUnreachable,
)
from provml.journal import process, wire
from provml.journal.annotations import Annotation, Kind, check_text
from provml.journal.artifacts import ArtifactFiles
from provml.journal.run_files import HasId
from provml.mapping import iris
from provml.paths import service_url
from provml.remote.connection import Connection, Response, parse_address
from provml.store.artifacts import Artifact, ArtifactList, list_artifacts
from provml.store.backend import QueryResult, Readable
from provml.store.dialects import EMBEDDED
from provml.store.elsewhere import StoreElsewhere
from provml.store.loaded_graphs import DEFAULT, LoadedGraph
from provml.store.query_process import QueryLimits
from provml.store.query_view import View
from provml.store.run_info import RunInfo
from provml.store.updates import GraphChange

if TYPE_CHECKING:
    from provml.model.thing import Thing
    from provml.validation import Report
    from provml.validation.engine import EngineName
    from provml.validation.inference import InferenceName
    from provml.validation.report import ProgressCallback

FORM = "application/x-www-form-urlencoded"
QUERY_SECONDS = 300.0
"""How long an answer is waited for, unless the query has a time limit; the service has one of its own."""


class RemoteBackend:
    """The SPARQL engine of a service."""

    dialect = EMBEDDED

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.is_open = True

    def request(
        self, method: str, path: str, body: bytes | None = None, *, seconds: float = QUERY_SECONDS, **headers: str
    ) -> Response:
        """Send a request, and wait some time for its answer; raise the error that the service reports."""
        if not self.is_open:
            raise ValueError("This store is closed. Open a new one with provml.open(url).")
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with self._lock:
            self._connection.set_read_seconds(seconds)
            response = self._connection.request(method, path, body, names)
        if response.status >= 400:
            raise refusal(self._connection.url, response)
        return response

    def download(self, path: str, file: IO[bytes]) -> None:
        """Write an answer to a file, piece by piece."""
        with self._lock:
            self._connection.download(path, file)

    def query(self, sparql: str, limits: QueryLimits | None = None, view: View = "") -> QueryResult:
        """Have a query executed by the service. Errors that it reports are raised as provml has them."""
        body = urlencode({"query": sparql, **({"inference": "true"} if view == "inference" else {})}).encode()
        seconds = QUERY_SECONDS if limits is None else limits.timeout_seconds
        try:
            response = self.request("POST", "/sparql", body, seconds=seconds, Content_Type=FORM, Accept=ACCEPT)
        except ServiceUnreachable as error:
            if limits is not None and "timed out" in error.reason:
                raise TimeoutError from None  # the connection is closed, which ends the query at the service
            raise
        try:
            return parse_results(response.body, response.headers.get("Content-Type", ""))
        except ValueError as error:
            raise ServiceError(self._connection.url, str(error), "Ask again, or add a LIMIT.") from None

    def load(
        self,
        data: bytes | Readable,
        fmt: ox.RdfFormat = ox.RdfFormat.N_TRIPLES,
        *,
        graph: ox.NamedNode | None = None,
        bulk: bool = False,
    ) -> None:
        """Add RDF to a loaded graph; it needs the token for writing."""
        content = data if isinstance(data, bytes) else data.read()
        target = f"?graph={quote(graph.value, safe='')}" if graph is not None else "?default"
        self.request("POST", f"/graphs{target}", content, Content_Type=fmt.media_type)

    def add(self, quads: Iterable[ox.Quad], *, bulk: bool = False) -> NoReturn:
        """Raise an error: quads are added by `load`."""
        raise _not_here(self._connection.url, "add")

    def update(self, sparql: str) -> None:
        """Have an update of loaded graphs executed."""
        self.request("POST", "/sparql", urlencode({"update": sparql}).encode(), Content_Type=FORM)

    def snapshot(self, folder: Path) -> NoReturn:
        """Raise an error: the index is on another machine."""
        raise _not_here(self._connection.url, "snapshot")

    def graph(self) -> ox.Store:
        """Return all triples of the default graph in memory: they are sent over the network."""
        return self.fetch_graph("?default")

    def fetch_graph(self, target: str) -> ox.Store:
        """Return a graph in memory."""
        store = ox.Store()
        with tempfile.TemporaryFile() as file:
            self.download(f"/graphs{target}&format=nt", file)
            file.seek(0)
            store.bulk_load(file, format=ox.RdfFormat.N_TRIPLES, lenient=True)
        return store

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        with self._lock:
            self._connection.close()


NEEDED_TOKENS = {
    "TokenRequired": "the service needs a token, and this one is missing or wrong",
    "WriteTokenRequired": "this needs the write token of the service; the request has the read token",
}


def refusal(url: str, response: Response) -> ProvmlError:
    """Return the error that a problem document stands for."""
    try:
        problem = msgspec.json.decode(response.body, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    detail, code = str(problem.get("detail", "")), problem.get("code", "")
    if code == "QueryTimeout":
        limit = re.search(r"limit of ([\d.]+) s", detail)
        return QueryTimeout(float(limit[1]) if limit else 0.0, is_of_service=True)
    if code == "QueryError" and detail:
        return ReportedError(detail, problem.get("line"), problem.get("column"))
    if code in NEEDED_TOKENS:  # what to do in a browser, which the service says, is of no help here
        return ServiceError(url, NEEDED_TOKENS[code], status=response.status)
    return ServiceError(url, detail or response.reason(), " " if detail else "", status=response.status)


class ReportedError(QueryError):
    """An error of a query as a service described it."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        Exception.__init__(self, message)
        self.reason, self.advice, self.file, self.excerpt = message, "", None, ""
        self.line, self.column = line, column

    def in_file(self, file: str) -> QueryError:
        """Return the error with the query file in its message."""
        return ReportedError(f"{file}: {self.reason}", self.line, self.column)


class QuestionParameter(msgspec.Struct):
    """A parameter of a question, as a service describes it."""

    name: str
    type: str
    help: str = ""
    required: bool = False
    multiple: bool = False
    default: Any = None
    example: Any = None
    node_kind: str = ""
    name_kind: str = ""


class Question(msgspec.Struct):
    """A question of the catalog, as a service describes it."""

    name: str
    summary: str
    sparql: str
    is_packaged: bool
    aliases: list[str] = []
    needs: str = ""
    columns: dict[str, str] = {}
    parameters: list[QuestionParameter] = []
    plot: dict[str, Any] | None = None

    def query(self, url: str) -> Query:
        """Return the question as the catalog has it."""
        params = {}
        for item in self.parameters:
            is_optional = not item.required and item.default is None
            names = {"multiple": item.multiple, "example": item.example, "node_kind": item.node_kind}
            params[item.name] = Parameter(
                item.name, item.type, item.help, is_optional, item.default, name_kind=item.name_kind, **names
            )
        metadata = {"aliases": self.aliases, "needs": self.needs, "plot": self.plot}
        path = Path(f"{url}/api/v1/questions/{self.name}.rq")
        return Query(self.name, self.summary, self.sparql, path, params, self.columns, metadata)


class Questions(msgspec.Struct):
    """The questions of a service."""

    questions: list[Question]


class RemoteArtifactFiles(ArtifactFiles):
    """Contents of a service: each is fetched when it is needed."""

    def __init__(self, backend: RemoteBackend, folder: Path) -> None:
        super().__init__(folder)
        self._backend = backend

    def has(self, sha256: str) -> bool:
        """Return whether the service has all of a content."""
        if super().path(sha256).exists():
            return True
        try:
            answer = self._backend.request("HEAD", wire.content_path(sha256))
        except ServiceError as error:
            if error.status not in (400, 404):
                raise
            return False
        return answer.headers.get(wire.COMPLETE) == "?1"

    def path(self, sha256: str) -> Path:
        """Return a copy of a content on this machine."""
        path = super().path(sha256)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            try:
                with part.open("wb") as file:
                    self._backend.download(f"/api/v1/artifacts/{sha256}", file)
                part.replace(path)
            except ServiceError as error:
                if error.status != 404:
                    raise
            finally:
                part.unlink(missing_ok=True)
        return path


class RemoteArtifact(Artifact):
    """An artifact whose content a service has."""

    files: ArtifactFiles

    @property
    def is_stored(self) -> bool:
        """Whether the service has the content."""
        return self.files.has(self.sha256)

    def _files(self) -> ArtifactFiles:
        if not self.is_stored:
            reason = f"The content of {self.name!r} ({self.sha256[:12]}…) is not at the service"
            raise ArtifactNotFound(self.name, reason, "Ship it there from the home in which it was recorded.")
        return self.files


class RemoteStore(StoreElsewhere):
    """The runs of a service. Methods are those of a `Store`; what the service alone can do raises ServiceError."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        address = parse_address(service_url(url) or url, token)
        super().__init__(address.url, address.url)
        self._remote = RemoteBackend(Connection(address, read_seconds=QUERY_SECONDS))
        self._contents: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._remote.request("GET", "/healthz")
        except ServiceError as error:
            self.close()
            if error.status != 404:
                raise
            advice = f"Check the URL; that of a SPARQL endpoint is sparql+{address.url}."
            raise ServiceError(address.url, "no service of provml answers there", advice, status=404) from None

    def __repr__(self) -> str:
        return f"<RemoteStore {self.url!r}{'' if self._remote.is_open else ' closed'}>"

    @property
    def is_open(self) -> bool:
        """True until the connection is closed."""
        return self._remote.is_open

    def _not_here(self, method: str) -> ServiceError:
        return _not_here(self.url, method)

    def close(self) -> None:
        """Close the connection."""
        self._remote.close()
        if self._contents is not None:
            self._contents.cleanup()
            self._contents = None

    @property
    def backend(self) -> RemoteBackend:
        """The engine of the service."""
        return self._remote

    @property
    def position(self) -> str:
        """A short text that changes whenever the content of the service's index changes."""
        return self._remote.request("GET", "/api/v1/store/position").body.decode()

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things, with the things that they refer to unless `follow` is False."""
        self._remote.load(rdf.ntriples(things, follow=follow))

    def load(self, path: Any, *, graph: str | None = None, replace: bool = False) -> int:
        """Add an RDF file and return the number of quads; it needs the token for writing.

        `replace` replaces what was loaded into that graph; a file that was loaded before is not recognised.
        """
        from provml.store.imports import parse_added, source_of, store_source

        if replace:
            with contextlib.suppress(GraphNotFound):
                self.unload(graph or DEFAULT)

        with tempfile.TemporaryDirectory(prefix="provml-") as folder:  # checked and parsed as for a home here
            _, count = store_source(Path(folder), source_of(path), graph)
            by_graph: dict[ox.NamedNode | None, list[ox.Quad]] = {}
            for file in (Path(folder) / "added").glob("*.nq"):
                for quad in parse_added(file):
                    target = quad.graph_name if isinstance(quad.graph_name, ox.NamedNode) else None
                    by_graph.setdefault(target, []).append(ox.Quad(*quad.triple))
        for target, quads in by_graph.items():
            content = ox.serialize(quads, format=ox.RdfFormat.N_TRIPLES)
            assert content is not None
            self._remote.load(content, graph=target)
        return count

    def update(self, sparql: str) -> GraphChange:
        """Have an update of loaded graphs executed; it needs the token for writing."""
        before = self._sizes_of_graphs()
        self._remote.update(sparql)
        after = self._sizes_of_graphs()
        growth = [after[graph] - before[graph] for graph in before | after]
        return GraphChange(sum(n for n in growth if n > 0), -sum(n for n in growth if n < 0))

    def _sizes_of_graphs(self) -> Counter[str | None]:
        sizes: Counter[str | None] = Counter()
        for item in self.graphs():
            sizes[item.graph] += item.triples
        return sizes

    def unload(self, *names: str) -> list[LoadedGraph]:
        """Remove loaded graphs by IRI, or as `default`; return what was removed. It needs the token for writing."""
        removed = []
        for name in names:
            graphs = [item for item in self.graphs() if (item.graph or DEFAULT) == name]
            if not graphs and name != DEFAULT:
                raise GraphNotFound(name, tuple(item.graph or DEFAULT for item in self.graphs()))
            target = "?default" if name == DEFAULT else f"?graph={quote(name, safe='')}"
            self._remote.request("DELETE", f"/graphs{target}")
            removed += graphs
        return removed

    def graphs(self) -> list[LoadedGraph]:
        """List what was loaded at the service: the graphs, with the source and the number of triples of each."""
        return msgspec.json.decode(self._remote.request("GET", "/api/v1/store/graphs").body, type=list[LoadedGraph])

    def loaded_graphs(self) -> list[str]:
        """Return the IRIs of the named graphs that were loaded at the service."""
        return sorted({item.graph for item in self.graphs() if item.graph is not None})

    def replace_loaded(self, graphs: Iterable[str | None] | None, content: Path | None) -> None:
        """Raise an error: use `load(replace=True)`, `unload` or `update`."""
        raise _not_here(self.url, "replace_loaded")

    # ---- questions

    @property
    def catalog(self) -> Catalog:
        """The questions that can be asked by name: those of provml, of the user here, and of the service."""
        if self._catalog is None:
            catalog = Catalog(folder for folder in user_folders(self.home) if folder.is_dir())
            listing = msgspec.json.decode(self._remote.request("GET", "/api/v1/questions").body, type=Questions)
            for question in listing.questions:
                if not question.is_packaged and question.name not in catalog:
                    catalog.add(question.query(self.url))
            self._catalog = catalog
        return self._catalog

    # ---- runs

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """List the runs, the latest first; with `limit` at most that number."""
        runs = msgspec.json.decode(self._remote.request("GET", "/api/v1/store/runs").body, type=list[RunInfo])
        return runs[:limit]

    def fetch_journals(self, run_id: str | HasId, folder: Path) -> Path:
        """Copy the journals and annotations of a run to a folder, and return the folder of the run in it."""
        run = self.run(run_id).id
        target = folder / run
        path = f"/api/v1/store/runs/{quote(run)}/files"
        files = msgspec.json.decode(self._remote.request("GET", path).body, type=list[tuple[str, float]])
        for name, idle in files:
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as file:
                self._remote.download(f"{path}?name={quote(name, safe='')}", file)
            os.utime(copy, (time.time() - idle,) * 2)  # the sign of life of a writer on another machine
        return target

    def graph(self, run_id: str | None = None) -> ox.Store:
        """Return the graph of a run, or without a run the graph of all, in memory: it is sent over the network."""
        if run_id is None:
            return self._remote.graph()
        return self._remote.fetch_graph(f"?graph={quote(iris.run_iri(self.run(run_id).id), safe='')}")

    def read(self, iri: str) -> Any:
        """Return the thing that the graph describes under an IRI."""
        return rdf.read(self.graph(), iri)

    def annotations(self, run_id: str | HasId) -> list[Annotation]:
        """Return all annotations of a run, also those that no longer hold, in the order in which they were added."""
        path = f"/api/v1/store/runs/{quote(self.run(run_id).id)}/annotations"
        return msgspec.json.decode(self._remote.request("GET", path).body, type=list[Annotation])

    def _annotate(
        self, run_id: str | HasId, kind: Kind, texts: Iterable[str], *, by: str, removed: bool = False
    ) -> RunInfo:
        info = self.run(run_id)
        person = by.strip() or process.user_name()  # the user here, not that of the service
        body = {"kind": kind, "texts": [check_text(kind, text) for text in texts], "by": person, "removed": removed}
        path = f"/api/v1/store/runs/{quote(info.id)}/annotations"
        self._remote.request("POST", path, msgspec.json.encode(body), Content_Type="application/json")
        return self.run(info.id)

    # ---- artifacts

    def artifacts(self, run_id: str | HasId | None = None) -> ArtifactList:
        """List what a run, or all runs (None), stored, in the order in which it was stored."""
        listed = list_artifacts(self, None if run_id is None else self.run(run_id).iri)
        return ArtifactList(map(self._remote_artifact, listed))

    def find_artifacts(self, target: str | HasId, name: str = "") -> ArtifactList:
        """Return the artifact that `artifact` returns; of a run without a name all that it has."""
        return ArtifactList(map(self._remote_artifact, super().find_artifacts(target, name)))

    def _remote_artifact(self, artifact: Artifact) -> RemoteArtifact:
        remote = RemoteArtifact(**{field.name: getattr(artifact, field.name) for field in fields(Artifact)})
        object.__setattr__(remote, "files", self._artifact_files())
        return remote

    def _artifact_files(self) -> ArtifactFiles:
        with self._lock:
            if self._contents is None:
                self._contents = tempfile.TemporaryDirectory(prefix="provml-")
            return RemoteArtifactFiles(self._remote, Path(self._contents.name))

    # ---- validation

    def validate(
        self,
        run_id: str | None = "latest",
        shapes: Any = (),
        *,
        only_shapes: Any = None,
        engine: EngineName = "sparql",
        inference: InferenceName = "types",
        progress: ProgressCallback | None = None,
    ) -> Report:
        """Have a run, or all (None), validated by the service, against its shapes; `shapes` are for local stores."""
        from provml.validation.report import Report
        from provml.validation.results import Result, ValidationScope

        if shapes or only_shapes is not None or engine != "sparql" or inference != "types":
            advice = "Export the run, and validate the file with your shapes."
            raise ServiceError(self.url, "a service validates against its own shapes", advice)
        query = f"?{urlencode({'run': self.run(run_id).id})}" if run_id is not None else ""
        body = self._remote.request("GET", f"/api/v1/store/validation{query}").body
        fields_of = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        results = msgspec.json.decode(fields_of["results"], type=tuple[Result, ...])
        scope = msgspec.json.decode(fields_of["scope"], type=ValidationScope | None)
        counts = msgspec.json.decode(fields_of["counts"], type=list[tuple[str, str, int]])
        return Report(results, scope, {(shape, component): count for shape, component, count in counts})

    # ---- maintenance

    def remove_all(self, run_ids: Iterable[str]) -> list[RunInfo]:
        """Raise an error: runs are removed where they are, by the command line only."""
        raise self._not_here("remove")


def _not_here(url: str, method: str) -> ServiceError:
    return ServiceError(url, f"{method} works where the home is", "Do it on the machine of the service.")
