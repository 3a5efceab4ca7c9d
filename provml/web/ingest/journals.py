"""Journals and annotations that other machines record: bytes at an offset (see `provml.journal.wire`).

    HEAD  /api/v1/runs/RUN/journals/WRITER   200 with Upload-Offset, the length of the copy; 404 if there is none
    PUT   …                                  201: the first lines
    PATCH … Upload-Offset: N                 204 with the new length; 409 with the present one if it is not N

`…/annotations/WRITER` takes the tags, notes and names of a run in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.journal import annotations as annotation_events
from provml.journal import events, seals, segments, wire
from provml.journal.annotations import AnnotationEvent, AnnotationHeader
from provml.journal.line_redaction import UnsuitableLine, redact_line
from provml.journal.reader import END_PREFIX, read_end
from provml.journal.received import NotOwned, ReceivedFile, WrongOffset
from provml.journal.run_files import RUN_ID
from provml.journal.schema import event_schema
from provml.web.problems import Problem
from provml.web.routing import read_body, require, route, service_of
from provml.web.service import Service
from provml.web.settings import ServiceLimits

_decode_annotation = msgspec.json.Decoder(AnnotationHeader | AnnotationEvent).decode


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route("/api/v1/events.schema.json", event_schema_file, access="none"),
        *(
            route(
                f"/api/v1/runs/{{run}}/{folder}/{{writer}}",
                endpoint,
                methods=("HEAD", "PUT", "PATCH"),
                max_body=wire.MAX_CHUNK_BYTES,
                content_types=(wire.MEDIA_TYPE,),
                protocol="journal",
            )
            for folder, endpoint in (("journals", receive_journal), ("annotations", receive_annotations))
        ),
    ]


async def event_schema_file(request: Request) -> Response:
    """Return the JSON Schema of an event."""
    return Response(msgspec.json.encode(event_schema()), media_type="application/schema+json")


async def receive_journal(request: Request) -> Response:
    """Tell the length of a journal, or append to it."""
    return await _receive(request, "")


async def receive_annotations(request: Request) -> Response:
    """Tell the length of a file of annotations, or append to it."""
    return await _receive(request, annotation_events.FOLDER)


async def _receive(request: Request, folder: str) -> Response:
    service = service_of(request)
    run, writer = _name(request, "run"), _name(request, "writer")
    if not folder:  # a run that was packed may go on
        await run_in_threadpool(segments.restore, service.home, [run])
    file = ReceivedFile(service.home / "runs" / run / folder / f"{writer}.jsonl")
    if request.method == "HEAD":
        return await run_in_threadpool(_describe, file)
    require(request, "write")
    offset = 0 if request.method == "PUT" else read_number(request, wire.OFFSET)
    idle = float(read_number(request, wire.IDLE, 0))
    is_last = request.headers.get(wire.COMPLETE) == "?1"
    redacts = request.headers.get(wire.REDACTS) == "?1"
    is_lenient = request.headers.get("prefer", "").strip().lower() == wire.LENIENT
    body = await read_body(request)
    owner = service.guard.owner(request)

    def append() -> dict[str, str]:
        check_space(service.home, service.limits, len(body))
        is_journal = not folder
        lines = _Lines(run, writer, is_first=offset == 0, is_journal=is_journal, is_lenient=is_lenient, redacts=redacts)
        data = lines.check(body)
        length = append_at(file, offset, data, owner=owner, idle=idle, sync=is_last)
        if is_journal and (is_last or data.rstrip().rpartition(b"\n")[2].startswith(END_PREFIX)):
            _seal(file.path, has_grown=bool(data))
        redacted = {wire.REDACTED_LINES: str(lines.redacted)} if lines.redacted else {}
        return {wire.OFFSET: str(length), **redacted}

    headers = await run_in_threadpool(append)
    if body:
        service.wake()
    return Response(status_code=201 if offset == 0 else 204, headers=headers)


def _seal(path: Path, *, has_grown: bool) -> None:
    """Seal a journal that is complete, or again if it was complete before. Without a seal it is stored, too."""
    with contextlib.suppress(OSError):
        if path.name in seals.sealed_journals(path.parents[2], path.parent.name):
            if has_grown:
                seals.reseal(path, by="service", reason="its recorder sent more")
        elif read_end(path) is not None:
            seals.seal_arrived(path, by="service")


def _describe(file: ReceivedFile) -> Response:
    length = file.length()
    if length is None:
        raise Problem(404, "JournalNotFound", "There is no such journal yet. Begin with PUT, or PATCH at 0.")
    headers = {wire.OFFSET: str(length), wire.FIRST_LINE: wire.first_line_id(file.path), "Cache-Control": "no-store"}
    return Response(headers=headers)


def append_at(file: ReceivedFile, offset: int, body: bytes, *, owner: str, idle: float, sync: bool) -> int:
    """Append to a copy; problems say why not, and where to go on."""
    try:
        return file.append(offset, body, owner=owner, idle=idle, sync=sync)
    except WrongOffset as error:
        detail = f"The copy has {error.length} bytes, not {offset}. Go on from there."
        raise Problem(409, "WrongOffset", detail, headers={wire.OFFSET: str(error.length)}) from None
    except NotOwned as error:
        raise Problem(403, "NotTheWriter", f"Nobody else can append to this journal: {error}.") from None


def check_space(home: Path, limits: ServiceLimits, count: int) -> None:
    """Refuse a request that would fill the disk."""
    if shutil.disk_usage(home).free - count < limits.disk_floor_bytes:
        raise OSError(errno.ENOSPC, "less space is free than has to be")


def _name(request: Request, parameter: str) -> str:
    """Return the id of a run or a writer, which becomes the name of a folder or a file."""
    name: str = request.path_params[parameter]
    if not RUN_ID.fullmatch(name):
        detail = f"A {parameter} is named by letters, digits, '-', '_' and '.', at most 200, unlike {name[:80]!r}."
        raise Problem(400, "InvalidName", detail)
    return name


def read_number(request: Request, header: str, default: int | None = None) -> int:
    """Return a header that is a number of bytes or seconds."""
    text = request.headers.get(header)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise Problem(400, "InvalidHeader", f"{header} must be a whole number, not {text!r}.")
    return int(text)


# ---- lines


class _Lines:
    """Checks the lines of a request, and replaces secrets in them unless the sender has done so.

    Lines keep their length, so that the offsets of the sender are those of the copy.
    """

    def __init__(
        self, run: str, writer: str, *, is_first: bool, is_journal: bool, is_lenient: bool, redacts: bool
    ) -> None:
        self.redacted = 0
        """Number of lines in which a secret was replaced."""
        self._run, self._writer = run, writer
        self._is_first = is_first
        self._decode: Any = events.decode if is_journal else _decode_annotation
        self._takes_damaged = is_lenient and redacts  # nobody can tell whether a damaged line has a secret
        self._redacts = redacts

    def check(self, body: bytes) -> bytes:
        """Return whole lines of events; refuse anything else, with the number of the first line that is wrong."""
        if not body:
            if self._is_first:
                raise _invalid(1, "there is no line; a file begins with its header")
            return body
        if not body.endswith(b"\n"):
            raise _invalid(body.count(b"\n") + 1, "the last line has no line break")
        if b"\0" in body:
            raise _invalid(body[: body.find(b"\0")].count(b"\n") + 1, "the line has a null byte")
        lines = [self._check_line(number, line) for number, line in _lines(body)]
        return b"".join(line + b"\n" for line in lines) if self.redacted else body

    def _check_line(self, number: int, line: bytes) -> bytes:
        is_header = self._is_first and number == 1
        try:
            event = self._decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if not self._takes_damaged or is_header:
                raise _invalid(number, str(error)) from None
            return line
        if isinstance(event, (events.Header, AnnotationHeader)):
            _check_header(event, self._run, self._writer, number)
        elif is_header:
            raise _invalid(number, "a file begins with its header")
        return line if self._redacts else self._redact(number, line, event)

    def _redact(self, number: int, line: bytes, event: Any) -> bytes:
        try:
            clean = redact_line(line, event)
        except UnsuitableLine as error:
            raise _invalid(number, str(error)) from None
        self.redacted += clean != line
        return clean


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    start, number = 0, 0
    while start < len(body):
        end = body.index(b"\n", start)
        number += 1
        yield number, body[start:end]
        start = end + 1


def _check_header(header: events.Header | AnnotationHeader, run: str, writer: str, number: int) -> None:
    supported = events.VERSION if isinstance(header, events.Header) else annotation_events.VERSION
    if header.version > supported:
        detail = f"The journal has version {header.version}, newer than {supported}. Upgrade provml on the service."
        raise Problem(426, "NewerVersion", detail, headers={"Upgrade": f"provml-journal/{header.version}"})
    if (header.run, header.writer) != (run, writer):
        reason = f"the header is that of run {header.run[:80]!r} and writer {header.writer[:80]!r}"
        raise _invalid(number, reason)
    if number != 1:
        raise _invalid(number, "a header is the first line only")
    if isinstance(header, events.Header) and not math.isfinite(header.time):
        raise _invalid(number, "the start time of the run is not a time")


def _invalid(line: int, reason: str) -> Problem:
    detail = f"Line {line} of the body: {reason[:500]}. Nothing of the request was stored."
    return Problem(422, "InvalidEvent", detail, extra={"line": line})
