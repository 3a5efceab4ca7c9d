"""What `provml.open("http://…")` needs beyond SPARQL: summaries of runs, annotations, validation reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from provml.errors import InvalidAnnotation
from provml.journal import wire
from provml.journal.annotations import FOLDER, file_sizes
from provml.journal.run_files import journals_of_run
from provml.journal.status import idle_seconds
from provml.web.problems import Problem
from provml.web.routing import JSON, json_response, read_json, require, route, service_of
from provml.web.service import Service

PREFIX = "/api/v1/store"
NO_CACHE = {"Cache-Control": "no-cache"}


class NewAnnotations(msgspec.Struct):
    """Tags, notes or a name for a run; `removed` takes tags or notes back."""

    kind: Literal["tag", "note", "name"]
    texts: list[str]
    by: str = ""
    removed: bool = False


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route(f"{PREFIX}/position", position),
        route(f"{PREFIX}/runs", runs),
        route(f"{PREFIX}/runs/{{run}}/annotations", annotate, methods=("GET", "POST"), content_types=(JSON,)),
        route(f"{PREFIX}/runs/{{run}}/files", files),
        route(f"{PREFIX}/graphs", graphs),
        route(f"{PREFIX}/validation", validation),
    ]


async def position(request: Request) -> Response:
    """Return a text that changes whenever the index does."""
    return Response((await service_of(request).fresh()).position, media_type="text/plain", headers=NO_CACHE)


async def runs(request: Request) -> Response:
    """Return the summaries of all runs, the latest first."""
    return json_response(await run_in_threadpool(service_of(request).store.runs), headers=NO_CACHE)


async def graphs(request: Request) -> Response:
    """List the loaded graphs, with the source and the number of triples of each."""
    return json_response(await run_in_threadpool(service_of(request).store.graphs), headers=NO_CACHE)


async def annotate(request: Request) -> Response:
    """Return all annotations of a run, or add some."""
    store = service_of(request).store
    info = await run_in_threadpool(store.run, request.path_params["run"])
    if request.method == "POST":
        require(request, "write")
        new: NewAnnotations = await read_json(request, NewAnnotations)
        if not new.texts:
            raise InvalidAnnotation(new.kind, "", "is empty", f"Pass the text of the {new.kind}.")

        def add() -> None:
            store._annotate(info, new.kind, new.texts, by=new.by, removed=new.removed)

        await run_in_threadpool(add)
        service_of(request).announce_change()
    return json_response(await run_in_threadpool(store.annotations, info.id), headers=NO_CACHE)


async def files(request: Request) -> Response:
    """List the journals and annotations of a run with the time since their last change, or return one of them."""
    store = service_of(request).store
    info = await run_in_threadpool(store.run, request.path_params["run"])
    folder = store.home / "runs" / info.id
    names = [path.name for path in journals_of_run(folder)]
    names += [f"{FOLDER}/{name}" for name in sorted(file_sizes(folder))]
    name = request.query_params.get("name")
    if name is None:
        return json_response([(each, idle_seconds(folder / each)) for each in names], headers=NO_CACHE)
    if name not in names:  # no other name becomes a path
        raise Problem(404, "JournalNotFound", f"Run {info.id} has no file {name[:100]!r}.")
    return StreamingResponse(_chunks(folder / name), media_type=wire.MEDIA_TYPE, headers=NO_CACHE)


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, without the space that is allocated after them."""
    offset = 0
    while chunk := wire.read_chunk(path, offset):
        offset += len(chunk)
        yield chunk


async def validation(request: Request) -> Response:
    """Validate a run, or all, and return everything that a report is made of."""
    run = request.query_params.get("run")
    report = await run_in_threadpool(service_of(request).store.validate, run)
    counts = [(*key, count) for key, count in report.counts.items()]
    return json_response({"results": report.results, "scope": report.scope, "counts": counts}, headers=NO_CACHE)
