"""SPARQL 1.1 Protocol: queries and updates at `/sparql`, and its service description."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.errors import InvalidIRI
from provml.model.values import IRI
from provml.rdf.namespaces import PREFIXES
from provml.store import query_guard, update_text
from provml.store.loaded_graphs import loaded_files
from provml.store.query_view import default_graphs as view_graphs
from provml.store.query_view import view_of
from provml.store.updates import update_request
from provml.web import negotiation
from provml.web.answers import PoolResponse, Version
from provml.web.problems import Problem
from provml.web.routing import media_type, read_body, require, route, service_of
from provml.web.service import Service
from provml.web.service_description import describe

FORM = "application/x-www-form-urlencoded"
QUERY = "application/sparql-query"
UPDATE = "application/sparql-update"
MAX_AGE = 0.25
"""Seconds for which a query does not look for new events again."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    methods = ("GET", "HEAD", "POST")
    limit = service.limits.query_bytes + 65536
    return [
        route(path, sparql, methods=methods, max_body=limit, content_types=(FORM, QUERY, UPDATE))
        for path in ("/sparql", "/sparql/")
    ]


class Operation(NamedTuple):
    """A query or an update, with the graphs that it is about."""

    kind: str
    text: str
    default_graphs: list[str]
    named_graphs: list[str]
    fmt: str = ""
    inference: bool = False


async def sparql(request: Request) -> Response:
    """Answer a request of the protocol."""
    operation = await parse_operation(request)
    if operation is None:
        return await describe(request)
    if operation.kind == "update":
        require(request, "write")
        await execute_update(service_of(request), operation, base_url(request))
        return Response(status_code=204)
    query_guard.check(operation.text)
    media_types = negotiation.query_media_types(request.headers.get("accept", ""), operation.fmt)
    service = service_of(request)
    state = await service.fresh(MAX_AGE)
    variant = "-".join([*media_types.values(), *(["inference"] if operation.inference else [])])
    version = Version.of(state, variant)
    if version.is_current(request):
        return version.not_modified()
    view = view_of(operation.text, inference=operation.inference)
    if view == "inference":
        async with service.write_lock:
            await run_in_threadpool(service.store.infer)
        service.snapshots.renew()
    pool_request: dict[str, Any] = {
        "kind": "query",
        "text": operation.text,
        "base": base_url(request),
        "prefixes": PREFIXES,
        "media_types": media_types,
    }
    if view and not operation.default_graphs and not operation.named_graphs:
        pool_request["view_graphs"] = await run_in_threadpool(view_graphs, service.store.backend.graph(), view)
    if operation.default_graphs or operation.named_graphs:
        pool_request["default_graphs"] = operation.default_graphs
        pool_request["named_graphs"] = operation.named_graphs
    return PoolResponse(request, pool_request, operation.text, variant)


def base_url(request: Request) -> str:
    """Return the address of this request without its parameters: the base of relative IRIs."""
    configured = service_of(request).settings.base_url
    if configured:
        return configured.rstrip("/") + request.url.path
    return str(request.url.replace(query="", fragment=""))


async def parse_operation(request: Request) -> Operation | None:
    """Return the operation of a request; None for a GET without one."""
    parameters = parse_form(request.url.query)
    if request.method in ("GET", "HEAD"):
        if "update" in parameters:
            raise Problem(405, "UpdateByGet", "An update cannot be sent by GET. Use POST.", headers={"Allow": "POST"})
        if "query" not in parameters:
            return None
        return _query(parameters, parameters["query"])
    _check_charset(request)
    body = _decode(await read_body(request))
    kind = media_type(request)
    if kind == FORM:
        form = parse_form(body)
        for name, values in parameters.items():
            form.setdefault(name, []).extend(values)
        if ("query" in form) == ("update" in form):
            raise Problem(400, "InvalidRequest", "Send a query or an update, as `query=…` or `update=…`.")
        return _update(form, form["update"]) if "update" in form else _query(form, form["query"])
    if "query" in parameters or "update" in parameters:
        raise Problem(400, "InvalidRequest", "Send the text in the body or in a parameter, not both.")
    return _update(parameters, [body]) if kind == UPDATE else _query(parameters, [body])


def parse_form(text: str) -> dict[str, list[str]]:
    """Return the fields of a form or of a query string."""
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000):
            fields.setdefault(name, []).append(value)
    except (UnicodeDecodeError, ValueError) as error:
        raise Problem(400, "InvalidRequest", f"The parameters cannot be decoded: {error}.") from None
    return fields


def _query(fields: Mapping[str, Sequence[str]], texts: Sequence[str]) -> Operation:
    if any(name in fields for name in ("using-graph-uri", "using-named-graph-uri")):
        raise Problem(400, "InvalidRequest", "using-graph-uri is for updates; a query takes default-graph-uri.")
    default, named = (_iris(fields.get(name, ())) for name in ("default-graph-uri", "named-graph-uri"))
    inference = (fields.get("inference") or ["false"])[-1].lower() in ("true", "1", "yes", "")
    return Operation("query", _only(texts, "query"), default, named, (fields.get("format") or [""])[-1], inference)


def _update(fields: Mapping[str, Sequence[str]], texts: Sequence[str]) -> Operation:
    if any(name in fields for name in ("default-graph-uri", "named-graph-uri")):
        raise Problem(400, "InvalidRequest", "default-graph-uri is for queries; an update takes using-graph-uri.")
    default, named = (_iris(fields.get(name, ())) for name in ("using-graph-uri", "using-named-graph-uri"))
    return Operation("update", _only(texts, "update"), default, named)


def _only(texts: Sequence[str], name: str) -> str:
    if len(texts) != 1:
        raise Problem(400, "InvalidRequest", f"Send one {name}, not {len(texts)}.")
    return texts[0]


def _iris(texts: Sequence[str]) -> list[str]:
    try:
        return [str(IRI(text)) for text in texts]
    except InvalidIRI as error:
        raise Problem(400, "InvalidIRI", str(error)) from None


def _check_charset(request: Request) -> None:
    for parameter in request.headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in ("utf-8", "utf8"):
            raise Problem(415, "UnsupportedCharset", f"The body is {value.strip()[:40]}. Send UTF-8.")


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Problem(400, "InvalidRequest", "The body is not UTF-8.") from None


# ---- updates


async def execute_update(service: Service, operation: Operation, base: str) -> None:
    """Execute an update on loaded graphs. Its patterns see everything; what runs recorded stays as it is."""
    text = update_text.prepare(operation.text, operation.default_graphs, operation.named_graphs)
    async with service.write_lock:
        await service.fresh()
        service.snapshots.renew()
        folder = Path(tempfile.mkdtemp(prefix="reader-", dir=service.store.index_folder))
        try:
            request = {
                "kind": "update",
                "text": text,
                "base": base,
                "prefixes": PREFIXES,
                "copy": str(folder / "store"),
                **update_request(text, folder, await run_in_threadpool(loaded_files, service.home)),
            }
            async with service.pool.execute(request):
                pass
            await run_in_threadpool(service.store.change_loaded, folder)
        finally:
            await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)
        service.announce_change()
