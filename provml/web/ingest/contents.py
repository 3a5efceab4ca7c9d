"""Contents of artifacts that other machines record: pieces at an offset, stored by their SHA-256.

    HEAD  /api/v1/content/SHA256   200 with Upload-Offset, and Upload-Complete: ?1 if all of it is here
    PATCH … Upload-Offset: N       204; 409 if the part that is here is not N bytes long
    PUT   …                        201: the whole content in one request

The name of a file is its digest, which is checked before the content counts: no path of a client is ever used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.journal import wire
from provml.journal.artifacts import DIGEST, ArtifactFiles
from provml.web.ingest.journals import check_space, read_number
from provml.web.problems import Problem
from provml.web.routing import require, route, service_of, stream_body
from provml.web.service import Service

UPLOADS = "uploads"
MAX_AGE_SECONDS = 7 * 24 * 3600.0
"""Parts that nobody goes on with are removed."""
OCTETS = "application/octet-stream"


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    limit = service.limits.artifact_bytes
    methods = ("HEAD", "PATCH", "PUT")
    path = "/api/v1/content/{sha256}"
    return [route(path, receive_content, methods=methods, max_body=limit, content_types=(OCTETS,))]


async def receive_content(request: Request) -> Response:
    """Tell how much of a content is here, or append to it."""
    service = service_of(request)
    sha256: str = request.path_params["sha256"]
    if not DIGEST.fullmatch(sha256):
        raise Problem(400, "InvalidDigest", "A content is named by its SHA-256: 64 hexadecimal digits in lower case.")
    files = ArtifactFiles(service.home)
    part = service.home / "service" / UPLOADS / f"{sha256}-{_owner(request)}"
    if request.method == "HEAD":
        return _describe(files, part, sha256)
    require(request, "write")
    if files.has(sha256):
        headers = {wire.OFFSET: str(files.path(sha256).stat().st_size), wire.COMPLETE: "?1"}
        return Response(status_code=200, headers=headers)
    is_whole = request.method == "PUT"
    offset = 0 if is_whole else read_number(request, wire.OFFSET)
    is_last = is_whole or request.headers.get(wire.COMPLETE) == "?1"
    await run_in_threadpool(_prepare, part, service, offset, is_whole)
    size = await _append(request, service, part, offset)
    if is_last and not await run_in_threadpool(files.adopt, part, sha256):
        part.unlink(missing_ok=True)
        raise Problem(422, "WrongDigest", f"The {size:,} bytes have another SHA-256. Send them again from 0.")
    return Response(status_code=201 if is_last else 204, headers={wire.OFFSET: str(size)})


def _owner(request: Request) -> str:
    return hashlib.sha256(service_of(request).guard.owner(request).encode()).hexdigest()[:16]


def _describe(files: ArtifactFiles, part: Path, sha256: str) -> Response:
    if files.has(sha256):
        headers = {wire.OFFSET: str(files.path(sha256).stat().st_size), wire.COMPLETE: "?1"}
    elif part.exists():
        headers = {wire.OFFSET: str(part.stat().st_size), wire.COMPLETE: "?0"}
    else:
        raise Problem(404, "ContentNotFound", "Nothing of this content is here yet. Begin with PATCH at 0.")
    return Response(headers=headers | {"Cache-Control": "no-store"})


def _prepare(part: Path, service: Service, offset: int, is_whole: bool) -> None:
    """Check the offset, and remove what others have left."""
    part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_whole:
        part.unlink(missing_ok=True)
    size = part.stat().st_size if part.exists() else 0
    if size != offset:
        detail = f"{size} bytes are here, not {offset}. Go on from there."
        raise Problem(409, "WrongOffset", detail, headers={wire.OFFSET: str(size)})
    if offset == 0:
        for path in part.parent.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                    path.unlink()


async def _append(request: Request, service: Service, part: Path, offset: int) -> int:
    """Append a body to a part, as it comes: all of it or, after an error, what was there before."""
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    size = offset
    try:
        async for piece in stream_body(request):
            await run_in_threadpool(check_space, service.home, service.limits, len(piece))
            if size + len(piece) > service.limits.artifact_bytes:
                limit = service.limits.artifact_bytes
                raise Problem(413, "BodyTooLarge", f"A content has at most {limit:,} bytes here.")
            size += await run_in_threadpool(_write, file, piece, size)
    except BaseException:
        os.ftruncate(file, offset)
        raise
    finally:
        os.close(file)
    return size


def _write(file: int, piece: bytes, offset: int) -> int:
    written = 0
    while written < len(piece):
        written += os.pwrite(file, piece[written:], offset + written)
    return written
