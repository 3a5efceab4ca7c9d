"""Events of a run while it is recorded: by polling from a cursor, and the same as server-sent events.

A cursor is the offset in bytes of a run's only journal, or `writer:offset` of each journal, joined by commas. It is the
`id` of a server-sent event, so that a browser that reconnects goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from provml.journal.reader import read_lines
from provml.journal.run_files import journals_of_run
from provml.web import negotiation
from provml.web.answers import Version
from provml.web.api.runs import find_run_id
from provml.web.api.tables import check_parameters, integer, last
from provml.web.api.types import Events
from provml.web.problems import Problem
from provml.web.routing import JSON, json_response, route, service_of
from provml.web.service import Service

PREFIX = "/api/v1"
SSE = "text/event-stream"
MAX_EVENTS = 1000
MAX_BYTES = 1 << 20
POLL_SECONDS = 0.5
COMMENT_SECONDS = 15.0
CURSOR = r"[0-9]{1,18}|[^:,\s]{1,200}:[0-9]{1,18}(,[^:,\s]{1,200}:[0-9]{1,18}){0,999}"
FORMATS = {"json": JSON, "sse": SSE}
EVENTS = {
    "query": {
        "after": {
            "type": "string",
            "pattern": f"^({CURSOR})$",
            "description": "the cursor `next` of the last answer; 0 for the beginning",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS},
    },
    "returns": Events,
    "formats": FORMATS,
}


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [route(f"{PREFIX}/runs/{{run}}/events", events, operation=EVENTS)]


class Chunk(NamedTuple):
    """Events after a cursor."""

    events: list[msgspec.Raw]
    cursor: str
    has_more: bool


async def events(request: Request) -> Response:
    """Return the events of a run after a cursor, as JSON or as a stream."""
    check_parameters(request, "after", "limit")
    service = service_of(request)
    run_id = await run_in_threadpool(find_run_id, service.store, request.path_params["run"])
    folder = service.home / "runs" / run_id
    accept, fmt = request.headers.get("accept", ""), request.query_params.get("format", "")
    is_stream = negotiation.negotiate(accept, fmt, FORMATS) == SSE
    after = last(request, "after") or (request.headers.get("last-event-id") if is_stream else None) or "0"
    if not re.fullmatch(CURSOR, after):
        raise Problem(400, "InvalidParameter", f"after takes a cursor of an earlier answer, not {after[:100]!r}.")
    if is_stream:
        return _stream(service, folder, after)
    limit = integer(request, "limit", MAX_EVENTS, 1, MAX_EVENTS)
    chunk = await run_in_threadpool(read_chunk, folder, after, limit)
    status = await run_in_threadpool(service.run_ends.status, folder)
    version = Version(f'W/"{after}-{chunk.cursor}-{status}-{limit}"')
    if version.is_current(request):
        return version.not_modified()
    body = Events(events=chunk.events, next=chunk.cursor, more=chunk.has_more, status=status)
    return json_response(body, headers=version.headers())


def read_chunk(folder: Path, cursor: str, limit: int = MAX_EVENTS) -> Chunk:
    """Read the events of all journals of a run after a cursor, up to a number and a size."""
    journals = {path.stem: path for path in journals_of_run(folder)}
    offsets = parse_cursor(cursor, list(journals))
    chunk: list[msgspec.Raw] = []
    size, has_more = 0, False
    for writer, path in journals.items():
        for end, _, line in read_lines(path, offsets[writer]):
            if len(chunk) >= limit or size >= MAX_BYTES:
                has_more = True
                break
            if _is_json(line):  # a damaged line is no event
                chunk.append(msgspec.Raw(line))
                size += len(line)
            offsets[writer] = end
    return Chunk(chunk, format_cursor(offsets), has_more)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def parse_cursor(cursor: str, writers: list[str]) -> dict[str, int]:
    """Return the offset of each journal."""
    offsets = dict.fromkeys(writers, 0)
    if cursor.isdecimal():
        if writers:
            offsets[writers[0]] = int(cursor)
        return offsets
    for part in cursor.split(","):
        writer, _, offset = part.rpartition(":")
        if writer in offsets:
            offsets[writer] = int(offset)
    return offsets


def format_cursor(offsets: dict[str, int]) -> str:
    """Return the cursor of some offsets."""
    if len(offsets) <= 1:
        return str(next(iter(offsets.values()), 0))
    return ",".join(f"{writer}:{offset}" for writer, offset in offsets.items())


# ---- server-sent events


def _stream(service: Service, folder: Path, cursor: str) -> Response:
    if service.streams >= service.limits.sse_connections:
        detail = f"{service.streams} streams are open. Close some, or poll without a stream."
        raise Problem(503, "TooManyStreams", detail, headers={"Retry-After": "10"})
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_messages(service, folder, cursor), headers=headers, media_type=f"{SSE}; charset=utf-8")


async def _messages(service: Service, folder: Path, cursor: str) -> AsyncIterator[bytes]:
    """Yield new events, a comment when there are none for a while, and the status when the run has ended."""
    service.streams += 1
    try:
        silent = 0.0
        yield b"retry: 2000\n\n"
        while not service.is_stopping:
            chunk = await run_in_threadpool(read_chunk, folder, cursor)
            if chunk.events:
                cursor, silent = chunk.cursor, 0.0
                data = b",".join(bytes(event) for event in chunk.events)
                yield b"id: " + cursor.encode() + b"\ndata: [" + data + b"]\n\n"
                continue
            status = await run_in_threadpool(service.run_ends.status, folder)
            if status != "RUNNING":
                yield b"event: end\ndata: " + msgspec.json.encode({"status": status}) + b"\n\n"
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await service.stopping.wait()
            silent += POLL_SECONDS
            if silent >= COMMENT_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
    finally:
        service.streams -= 1
