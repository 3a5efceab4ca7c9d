"""The pages as routes of the service: each runs in a thread, compressed, with a tag that saves unchanged answers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from provml.errors import NodeNotFound, ProvmlError, RunNotFound
from provml.web import provenance
from provml.web.answers import Version
from provml.web.negotiation import negotiate
from provml.web.problems import TITLES, Problem
from provml.web.routing import read_body, require, route, service_of
from provml.web.service import Service
from provml.web.service_description import service_url
from provml.web.viewer import (
    build_page,
    compare_page,
    dataflow_page,
    lineage_page,
    node_page,
    ontology_page,
    query_page,
    questions_page,
    run_page,
    runs_page,
    things_page,
    validation_page,
)
from provml.web.viewer.links import Links
from provml.web.viewer.render import STATIC_FILES, render, static_file
from provml.web.viewer.viewer import Page, Viewer

HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 1 << 20
YEAR = 365 * 24 * 3600
MANY_RUNS, LARGE_BYTES = 200, 2 << 20
"""A home with more runs, or with more bytes to index, is read in the background before its first page."""
WAIT_SECONDS = 0.1
"""Time that a page waits for that reading before it shows the progress instead."""
CHEAP_SECONDS, FRESH_SECONDS = 0.03, 1.5
"""A look at the journals that takes longer than the first is done at most as often as the second says."""
PageFunction = Callable[..., Page | Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of the pages."""
    viewer = Viewer(service.store)
    service.closers.append(viewer.close)
    _read_ahead(service, viewer)
    gets: list[tuple[str, PageFunction, str]] = [
        ("/", runs_page.runs, ""),
        ("/runs.csv", runs_page.runs_csv, ""),
        ("/runs/{run}", run_page.run, ""),
        ("/runs/{run}/{tab}", run_page.run_part, ""),
        ("/artifacts/{sha256}", run_page.artifact, ""),
        ("/compare", compare_page.compare, ""),
        ("/lineage", lineage_page.lineage, "lineage"),
        ("/validation", validation_page.validation, "validation"),
        ("/questions", questions_page.questions, "questions"),
        ("/questions/{name}", questions_page.question, "questions"),
        ("/models", things_page.models, "models"),
        ("/data", things_page.data, "data"),
        ("/ontology", ontology_page.ontology, "ontology"),
        ("/ontology/{name}", ontology_page.term, "ontology"),
        ("/dataflow", dataflow_page.dataflow, "dataflow"),
        ("/build", build_page.build, "build"),
    ]
    forms: list[tuple[str, Callable[..., str]]] = [("/runs/{run}", run_page.annotate), ("/build", build_page.save)]
    return [
        *(route(path, _page(viewer, page, active), error_format=error_page) for path, page, active in gets),
        *(
            route(
                path,
                _action(viewer, action),
                methods=("POST",),
                access="write",
                max_body=MAX_FORM_BYTES,
                content_types=(FORM,),
                error_format=error_page,
            )
            for path, action in forms
        ),
        route("/query", _query(viewer), error_format=error_page),
        route("/nodes", _node(viewer), error_format=None),
        route("/static/{name}", static, access="none"),
        route("/favicon.ico", favicon, access="none"),
    ]


def _read_ahead(service: Service, viewer: Viewer) -> None:
    """Start to read a large home."""
    total, indexed = service.store.backlog()
    if total - indexed < LARGE_BYTES and viewer.count_folders() < MANY_RUNS:
        return
    no_params = QueryParams("")
    pages = (things_page.models, things_page.data, dataflow_page.dataflow, lineage_page.lineage, ontology_page.ontology)

    def work(page: PageFunction) -> None:
        with service.store.as_indexed(), contextlib.suppress(Exception):  # a page shows its own errors
            page(viewer, no_params)

    viewer.read_ahead(functools.partial(work, page) for page in pages)


async def _is_read(request: Request, viewer: Viewer) -> bool:
    """True if pages can be made: a large home was read, or is within a short time. What is new is indexed then."""
    if viewer.reading is not None and not viewer.reading.done():
        reading = asyncio.wrap_future(viewer.reading)
        await asyncio.wait([reading], timeout=WAIT_SECONDS)
        if not reading.done():
            return False
    service = service_of(request)
    await service.fresh(FRESH_SECONDS if service.sync_seconds > CHEAP_SECONDS else 0.0)
    return True


async def _progress(request: Request, viewer: Viewer) -> Response:
    """Return a page that says how far the reading of a large home is."""
    total, indexed = await run_in_threadpool(service_of(request).store.backlog)
    context = {"share": indexed / (total or 1), "size": total}
    html = render(Page("reading.html", "Reading", context, is_live=True), viewer.links, shared=_shared(request))
    response = html_response(request, html)
    response.headers["Cache-Control"], response.headers["Retry-After"] = "no-store", "1"
    return response


def _page(viewer: Viewer, page: PageFunction, active: str) -> Endpoint:
    """Return an endpoint that renders a page in a thread; the variables of its path are arguments of the page."""

    async def endpoint(request: Request) -> Response:
        if not await _is_read(request, viewer):
            return await _progress(request, viewer)
        service = service_of(request)
        position = service.store.position
        try:
            return await run_in_threadpool(answer, request)
        except (RunNotFound, NodeNotFound):  # it may have begun since the last look at the journals
            if (await service.fresh()).position == position:
                raise
        return await run_in_threadpool(answer, request)

    def answer(request: Request) -> Response:
        with service_of(request).store.as_indexed():
            return make(request)

    def make(request: Request) -> Response:
        result = page(viewer, request.query_params, **request.path_params)
        if isinstance(result, Response):
            return result
        return html_response(
            request, render(result, viewer.links, active=active, shared=_shared(request)), result.status
        )

    endpoint.__name__ = page.__name__
    return endpoint


def _query(viewer: Viewer) -> Endpoint:
    """Return the endpoint of the editor: it waits for a worker process, not in a thread."""

    async def query(request: Request) -> Response:
        if not await _is_read(request, viewer):
            return await _progress(request, viewer)
        page = await query_page.query_page(viewer, request)
        html = await run_in_threadpool(render, page, viewer.links, active="query", shared=_shared(request))
        return html_response(request, html, page.status)

    return query


def _node(viewer: Viewer) -> Endpoint:
    """Return the endpoint of any node: a page for browsers, RDF for others."""
    page = _page(viewer, node_page.node, "nodes")

    async def node(request: Request) -> Response:
        media = negotiate(request.headers.get("accept", ""), request.query_params.get("format", ""), provenance.PAGES)
        if media != "text/html":
            return await provenance.node(request)
        try:
            response = await page(request)
        except (ProvmlError, Problem) as error:
            return error_page(Problem.of(error))
        response.headers["Link"] = provenance.link_header(request, request.query_params.get("iri", ""))
        return response

    return node


def _action(viewer: Viewer, action: Callable[..., str]) -> Endpoint:
    """Return an endpoint that carries out a form in a thread and goes to the address that the action returns."""

    async def endpoint(request: Request) -> Response:
        require(request, "write")
        body = (await read_body(request)).decode("utf-8", "replace")
        fields = QueryParams(parse_qsl(body, keep_blank_values=True))
        expected = service_of(request).guard.form_token
        if not hmac.compare_digest(fields.get("form_token", "").encode(), expected.encode()):
            raise Problem(403, "InvalidFormToken", "The form is not from a page of this service. Load the page again.")
        address = await run_in_threadpool(action, viewer, fields, **request.path_params)
        return RedirectResponse(address, 303)

    endpoint.__name__ = action.__name__
    return endpoint


def _shared(request: Request) -> dict[str, Any]:
    service = service_of(request)
    can_write = request.state.access == "write"
    return {
        "can_write": can_write,
        "form_token": service.guard.form_token if can_write else "",
        "home": str(service.home),
        "origin": service_url(request),
    }


def html_response(request: Request, html: str, status: int = 200) -> Response:
    """Return a page: compressed, and without a body if the browser has it already."""
    content = html.encode()
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept, Accept-Encoding, Cookie"}
    if status == 200 and Version(tag).is_current(request):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 5)
        headers["Content-Encoding"] = "gzip"
    return Response(content, status, headers, HTML)


def error_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    context = {"problem": problem, "heading": TITLES.get(problem.status, "Error")}
    page = Page("error.html", context["heading"], context)  # type: ignore[arg-type]
    headers = {"Cache-Control": "no-store", **problem.headers}
    return Response(render(page, Links()), problem.status, headers, HTML)


async def static(request: Request) -> Response:
    """Return a static file; its address changes with its content, so browsers may keep it."""
    name = request.path_params["name"]
    if name not in STATIC_FILES:
        raise Problem(404, "NotFound", "There is no such file.")
    file = static_file(name)
    headers = {"Cache-Control": f"public, max-age={YEAR}, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, 200, {**headers, "Content-Encoding": "gzip"}, file.media_type)
    return Response(file.content, 200, headers, file.media_type)


async def favicon(request: Request) -> Response:
    """Return the picture of a tab for browsers that ask for it by this name."""
    return Response(static_file("icon.svg").content, 200, None, "image/svg+xml")
