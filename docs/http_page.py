"""The page of the HTTP interface, from the routes of the service and their OpenAPI document."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from provml.catalog import Catalog
from provml.journal import wire
from provml.web.api.openapi import document
from provml.web.app import create_app
from provml.web.routing import ServiceRoute
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens

INTRODUCTION = """# HTTP interface

The addresses of a service that [`provml serve`](../how-to/serve.md) starts. A running service has the same as an
OpenAPI 3.1 document at `/api/v1/openapi.json`, with every question and its parameters, and as a page at `/api/docs`.

"Token" is the token that a request needs: as `Authorization: Bearer TOKEN`, as the password of Basic authorization,
or as the cookie that a one-time link gives to a browser. The write token may do what the read token may.
"""
ANSWERS = """## Answers

- The format is chosen by `?format=` or by the header `Accept`. Tables come as JSON, CSV, TSV and SPARQL results,
  graphs in all RDF formats.
- Tables are paged by `limit` and `offset`; `next` is the address of the next page. `safe=1` quotes cells that a
  spreadsheet would execute.
- `ETag` is the position of the index, `Last-Modified` the time of its last change: `If-None-Match` and
  `If-Modified-Since` cost nothing until something is recorded.
- Descriptions of runs, terms and nodes are JSON-LD with their context.
- Errors are problem documents (RFC 9457) with the name of provml's [error](errors.md) as `code`.
- `/api/v1/runs/RUN/events?after=CURSOR` continues where the last answer ended (`next`). With `Accept:
  text/event-stream` it is a stream of server-sent events, whose `id` is the cursor.
"""


def http_page(head: str) -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ServiceSettings(Path(folder) / "home", tokens=Tokens("r" * 16, "w" * 16))
        with Service(settings) as service:
            app = create_app(service)
            routes = [route for route in app.routes if isinstance(route, ServiceRoute)]
            description = document(app.routes, Catalog())
    plain = [route for route in routes if route.operation is None]
    parts = [f"{head}\n{INTRODUCTION}\n## Standards, protocols and operation\n", _table(plain)]
    parts += ["\n## REST\n", _operations(description["paths"]), f"\n{ANSWERS}", _limits()]
    return "\n".join(parts)


def _table(routes: list[ServiceRoute]) -> str:
    rows = ["| address | methods | token | |", "|---|---|---|---|"]
    for route in routes:
        methods = ", ".join(sorted((route.methods or set()) - {"HEAD"}))
        rows.append(f"| `{route.path}` | {methods} | {route.access} | {_summary(route.function.__doc__)} |")
    return "\n".join(rows)


def _summary(text: str | None) -> str:
    return (text or "").strip().split("\n")[0].replace("|", "\\|")


def _operations(paths: dict[str, dict[str, Any]]) -> str:
    rows = ["| address | token | parameters | |", "|---|---|---|---|"]
    for path, methods in paths.items():
        if path.startswith("/api/v1/ask/"):
            continue
        for method, operation in methods.items():
            names = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
            listed = ", ".join(f"`{name}`" for name in names)
            summary = _summary(operation["summary"])
            rows.append(f"| {method.upper()} `{path}` | {operation['x-access']} | {listed} | {summary} |")
    return "\n".join(rows)


def _limits() -> str:
    limits = ServiceLimits()
    rows = [
        ("JSON body, after inflating", f"{limits.json_bytes >> 20} MiB"),
        ("lines of a journal in one request, after inflating", f"{wire.MAX_CHUNK_BYTES >> 20} MiB"),
        ("RDF that is loaded into a graph", f"{limits.rdf_bytes >> 20} MiB"),
        ("text of a query", f"{limits.query_bytes >> 20} MiB"),
        ("time of a query (`--timeout`)", f"{limits.query_seconds:g} s"),
        ("memory of a query", f"{limits.query_memory_bytes >> 30} GiB"),
        ("answer of a query", f"{limits.result_bytes >> 30} GiB"),
        ("queries at once (`--workers`)", str(limits.workers)),
        ("queries that wait; more get 503 with `Retry-After`", str(limits.queue)),
        ("pause between two pieces of a body", f"{limits.body_seconds:g} s"),
        ("live streams", str(limits.sse_connections)),
        ("connections", str(limits.connections)),
    ]
    return "## Limits\n\n| what | limit |\n|---|---|\n" + "".join(f"| {name} | {limit} |\n" for name, limit in rows)
