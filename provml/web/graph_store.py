"""SPARQL 1.1 Graph Store Protocol at `/graphs`: graphs of runs, the ontology and loaded graphs.

A graph is named by `?graph=IRI`, by `?default`, or by the address of the request itself. Only loaded graphs, and the
loaded part of the default graph, can be written.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.errors import FileFormatError, InvalidIRI
from provml.journal.run_files import RUN_ID
from provml.model.values import IRI
from provml.rdf.namespaces import INFERRED, ONTOLOGY, PREFIXES, RUNS
from provml.rdf.parse_file import ParsedFile
from provml.store import export
from provml.web import multipart, negotiation
from provml.web.answers import PoolResponse, Version
from provml.web.problems import Problem
from provml.web.provenance import link_header
from provml.web.routing import media_type, read_body, require, route, service_of
from provml.web.service import IndexState, Service

MULTIPART = "multipart/form-data"
DEFAULT_TYPE = "application/rdf+xml"
"""Type of a body that states none, as the protocol says."""
EXPORTS = {media_type: name for name, media_type in negotiation.GRAPHS.items() if name in export.FORMATS}
READ_METHODS = "GET, HEAD"
PROVIDED = (ONTOLOGY, INFERRED)
"""Graphs that provml writes."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    methods = ("GET", "HEAD", "PUT", "POST", "DELETE")
    limit = service.limits.rdf_bytes
    paths = ("/graphs", "/graphs/{name:path}")
    return [route(path, graph_store, methods=methods, max_body=limit) for path in paths]


class Target(NamedTuple):
    """A graph: its IRI, None for the default graph, and the run if it is the graph of one."""

    iri: str | None
    run: str = ""

    @property
    def is_protected(self) -> bool:
        """True for what was recorded, and the ontology."""
        return bool(self.run) or self.iri in PROVIDED or (self.iri or "").startswith(RUNS)


async def graph_store(request: Request) -> Response:
    """Answer a request of the protocol."""
    target = find_target(request)
    if request.method in ("GET", "HEAD"):
        if target is None:
            raise Problem(400, "GraphRequired", "Name a graph: ?default, ?graph=IRI, or /graphs/NAME.")
        return await read_graph(request, target)
    if service_of(request).settings.read_only:
        raise Problem(405, "ReadOnly", "This service is read-only.", headers={"Allow": READ_METHODS})
    require(request, "write")
    if target is not None and target.is_protected:
        detail = "Recorded runs and the ontology cannot be written. Choose another graph."
        raise Problem(405, "ProtectedGraph", detail, headers={"Allow": READ_METHODS})
    return await write_graph(request, target)


def find_target(request: Request) -> Target | None:
    """Return the graph that a request is about; None for the graph store itself."""
    parameters = request.query_params
    names = parameters.getlist("graph")
    if request.path_params.get("name"):
        if names or "default" in parameters:
            raise Problem(400, "AmbiguousGraph", "Name the graph in the path or as a parameter, not both.")
        return Target(own_url(request))
    if len(names) + ("default" in parameters) > 1:
        raise Problem(400, "AmbiguousGraph", "Name one graph.")
    if "default" in parameters:
        return Target(None)
    if not names:
        return None
    try:
        iri = str(IRI(names[0]))
    except InvalidIRI as error:
        raise Problem(400, "InvalidIRI", str(error)) from None
    run = iri.removeprefix(RUNS) if iri.startswith(RUNS) else ""
    return Target(iri, run if RUN_ID.fullmatch(run) else "")


def own_url(request: Request) -> str:
    """Return the address of a request as the client sees it, without parameters."""
    base = service_of(request).settings.base_url or str(request.base_url)
    path = request.scope.get("raw_path") or request.url.path.encode()
    return base.rstrip("/") + path.decode("ascii", "replace")


# ---- read


async def read_graph(request: Request, target: Target) -> Response:
    """Return a graph in the format that the client likes best."""
    service = service_of(request)
    fmt = request.query_params.get("format", "")
    accept = request.headers.get("accept", "")
    state = await service.fresh(0.25)
    if target.run:
        media = negotiation.negotiate(accept, fmt, {name: media for media, name in EXPORTS.items()})
        return await _run_graph(request, target.run, media, state)
    media = negotiation.negotiate(accept, fmt, negotiation.GRAPHS)
    if target.iri is not None and target.iri not in PROVIDED:
        names = await run_in_threadpool(service.store.loaded_graphs)
        if target.iri not in names:
            raise Problem(404, "GraphNotFound", f"There is no graph <{target.iri[:300]}>.")
    variant = f"{target.iri} {media}"
    version = Version.of(state, variant)
    if version.is_current(request):
        return version.not_modified()
    if request.method == "HEAD":
        head = Response(headers=version.headers(), media_type=negotiation.content_type(media))
        del head.headers["content-length"]  # that of GET is not known before the graph is written
        return head
    pool_request = {"kind": "dump", "graph": target.iri, "media_type": media, "prefixes": PREFIXES}
    return PoolResponse(request, pool_request, "", variant)


async def _run_graph(request: Request, run: str, media: str, state: IndexState) -> Response:
    service = service_of(request)
    version = Version.of(state, f"{run} {media}")
    info = await run_in_threadpool(service.store.run, run)
    headers = {**version.headers(), "Link": link_header(request, info.iri)}
    if version.is_current(request):
        return version.not_modified()

    def body() -> bytes:
        file = io.BytesIO()
        service.store.export(info.id, file, EXPORTS[media])
        return file.getvalue()

    return Response(await run_in_threadpool(body), 200, headers, negotiation.content_type(media))


# ---- write


async def write_graph(request: Request, target: Target | None) -> Response:
    """Replace, extend or remove a loaded graph."""
    service = service_of(request)
    headers: dict[str, str] = {}
    if target is None:
        if request.method != "POST":
            raise Problem(400, "GraphRequired", "Name a graph: ?default, ?graph=IRI, or /graphs/NAME.")
        target = Target(f"{own_url(request).rstrip('/')}/{uuid.uuid4().hex}")
        headers["Location"] = str(target.iri)
    async with service.write_lock:
        names = await run_in_threadpool(service.store.loaded_graphs)
        exists = target.iri is None or target.iri in names
        if request.method == "DELETE":
            if not exists:
                raise Problem(404, "GraphNotFound", f"There is no graph <{str(target.iri)[:300]}>.")
            await run_in_threadpool(service.store.replace_loaded, [target.iri], None)
        else:
            parts = await read_parts(request)
            replaced = [target.iri] if request.method == "PUT" else []
            await run_in_threadpool(_replace, service, target, parts, replaced)
        service.announce_change()
    return Response(status_code=204 if exists else 201, headers=headers)


class Part(NamedTuple):
    """A piece of RDF and its format."""

    data: bytes
    rdf_format: ox.RdfFormat


async def read_parts(request: Request) -> list[Part]:
    """Return the RDF of a body, or of the files of a form."""
    body = await read_body(request)
    kind = media_type(request) or DEFAULT_TYPE
    if kind != MULTIPART:
        return [Part(body, _rdf_format(kind))]

    return [
        Part(data, _rdf_format(headers.get("content-type", "text/turtle").partition(";")[0].strip().lower()))
        for headers, data in multipart.parse(body, request.headers["content-type"])
    ]


def _rdf_format(kind: str) -> ox.RdfFormat:
    if kind not in negotiation.GRAPHS.values():
        accepted = ", ".join(negotiation.GRAPHS.values())
        raise Problem(415, "UnsupportedMediaType", f"The body is {kind[:80]}. Send {accepted}.")
    rdf_format = ox.RdfFormat.from_media_type(kind)
    assert rdf_format is not None
    return rdf_format


def _replace(service: Service, target: Target, parts: list[Part], replaced: list[str | None]) -> None:
    graph = ox.DefaultGraph() if target.iri is None else ox.NamedNode(target.iri)
    folder = Path(tempfile.mkdtemp(prefix="provml-graph-"))
    try:
        content = folder / "body.nq"
        with content.open("wb") as file:
            if target.iri is not None:
                file.write(f"# graph <{target.iri}>\n".encode())
            ox.serialize(_quads(target, parts, graph), file, format=ox.RdfFormat.N_QUADS)
        service.store.replace_loaded(replaced, content)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _quads(target: Target, parts: Iterable[Part], graph: ox.NamedNode | ox.DefaultGraph) -> Iterator[ox.Quad]:
    for part in parts:
        source = ParsedFile(Path("body"), part.rdf_format, data=part.data, base_iri=target.iri, rename_blank_nodes=True)
        for quad in source:
            if quad.graph_name not in (ox.DefaultGraph(), graph):
                raise FileFormatError("it has a graph of another name", "Send one graph.", file="body")
            yield ox.Quad(quad.subject, quad.predicate, quad.object, graph)
