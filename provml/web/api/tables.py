"""Answers as JSON, CSV and other formats, made in a thread and cached by the position of the index."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from provml.answers import Answer
from provml.answers.formats import plain
from provml.web import negotiation
from provml.web.answers import Version
from provml.web.api.types import Table
from provml.web.problems import Problem
from provml.web.routing import JSON, service_of
from provml.web.service import Service

TABLES = {
    "json": JSON,
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "sparql-json": "application/sparql-results+json",
    "sparql-xml": "application/sparql-results+xml",
}
"""Formats of tables by short name. The first is the default."""
MAX_LIMIT = 10_000
DEFAULT_LIMIT = 1000
MAX_OFFSET = 2**53

PAGE_QUERY = {
    "limit": {"type": "integer", "minimum": 0, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "offset": {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0},
    "safe": {"type": "boolean", "description": "quote cells that a spreadsheet would take for a formula"},
}
TABLE: dict[str, Any] = {"query": PAGE_QUERY, "returns": Table, "formats": TABLES}
"""OpenAPI description of an endpoint that returns a table."""

Build = Callable[[str], bytes]
"""Makes the body of an answer in a media type."""


async def respond(
    request: Request, formats: dict[str, str], build: Build, *, link: str = "", variant: str = ""
) -> Response:
    """Return an answer that is made once for each position of the index.

    Its body depends on the request, on the index and on `variant` only.
    """
    service = service_of(request)
    media = negotiation.negotiate(request.headers.get("accept", ""), request.query_params.get("format", ""), formats)
    state = await service.view_state()
    key = f"{request.url} {media} {variant}"  # with the name of the service, which links in the body have
    version = Version.of(state, key)
    if version.is_current(request):
        return version.not_modified()
    body = service.cache.get(key, state.position)
    if body is None:
        body = await run_in_threadpool(_build, service, build, media)
        service.cache.put(key, state.position, body)
    headers = version.headers()
    if link:
        headers["Link"] = link
    return Response(body, 200, headers, negotiation.content_type(media))


def _build(service: Service, build: Build, media: str) -> bytes:
    start = time.perf_counter()
    with service.store.as_indexed():
        body = build(media)
    service.view.add_cost(time.perf_counter() - start)
    return body


async def respond_table(request: Request, make: Callable[[], Answer], *, variant: str = "") -> Response:
    """Return a page of a table in the format that the client likes best."""
    limit, offset = paging(request)
    is_safe = boolean(request, "safe")

    def build(media: str) -> bytes:
        answer = make()
        page = answer[offset : offset + limit]
        if media == JSON:
            return to_json(table_of(request, answer, page, (offset, limit)))
        return encode(page, media, is_safe=is_safe)

    return await respond(request, TABLES, build, variant=variant)


def table_of(request: Request, answer: Answer, page: Answer, place: tuple[int, int]) -> Table:
    """Return a page of an answer as an object."""
    offset, limit = place
    total = len(answer)
    following = None
    if offset + limit < total:
        items = [(k, v) for k, v in request.query_params.multi_items() if k not in ("offset", "limit")]
        following = f"{request.url.path}?{urlencode([*items, ('offset', offset + limit), ('limit', limit)])}"
    return Table(
        columns=answer.columns,
        types=dict(answer.types),
        rows=[[plain(value) for value in row] for row in page.rows],
        total=total,
        offset=offset,
        limit=limit,
        next=following,
        note=answer.note,
    )


def encode(answer: Answer, media: str, *, is_safe: bool = False) -> bytes:
    """Return a table in a format; `is_safe` quotes what a spreadsheet would take for a formula."""
    writers: dict[str, Callable[[], str]] = {
        "text/csv": lambda: answer.to_csv(escape_formulas=is_safe),
        "text/tab-separated-values": lambda: answer.to_tsv(escape_formulas=is_safe),
        "application/sparql-results+json": lambda: answer.to_sparql("json"),
        "application/sparql-results+xml": lambda: answer.to_sparql("xml"),
    }
    return writers[media]().encode()


# ---- parameters


def paging(request: Request) -> tuple[int, int]:
    """Return the limit and the offset of a request."""
    return integer(request, "limit", DEFAULT_LIMIT, 0, MAX_LIMIT), integer(request, "offset", 0, 0, MAX_OFFSET)


def integer(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number among the parameters."""
    text = last(request, name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise invalid(name, text, f"a whole number from {least} to {most}")
    return int(text)


def boolean(request: Request, name: str) -> bool:
    """Return a truth value among the parameters; false if it is absent."""
    text = last(request, name)
    if text is None or text.lower() in ("0", "false", "no"):
        return False
    if text.lower() in ("1", "true", "yes", ""):
        return True
    raise invalid(name, text, "true or false")


def last(request: Request, name: str) -> str | None:
    """Return the last value of a parameter."""
    values = request.query_params.getlist(name)
    return values[-1] if values else None


def invalid(name: str, value: str, expected: str) -> Problem:
    """Return the problem of an unsuitable parameter."""
    return Problem(400, "InvalidParameter", f"{name} takes {expected}, not {value[:100]!r}.")


def check_parameters(request: Request, *names: str) -> None:
    """Raise a problem for a parameter that an endpoint does not have: a misspelt filter must not be ignored."""
    allowed = {*names, "format"}
    for name in request.query_params:
        if name not in allowed:
            detail = f"No parameter {name[:100]!r} here. Parameters: {', '.join(sorted(allowed))}."
            raise Problem(400, "UnknownParameter", detail)


def to_json(value: Any) -> bytes:
    """Return a value as JSON."""
    return msgspec.json.encode(value, enc_hook=str)
