"""Answers with the position of the index as their entity tag, and answers that a worker process computes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from email.utils import formatdate
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from provml.web import negotiation
from provml.web.problems import Problem
from provml.web.routing import service_of
from provml.web.snapshots import Snapshot

MAX_CACHED_BYTES = 256 << 10
"""Larger answers of workers are not cached."""


def etag(position: str, variant: str = "") -> str:
    """Return the entity tag of an answer at a position of the index; `variant` is what else it depends on."""
    return f'W/"{position}-{hashlib.sha256(variant.encode()).hexdigest()[:8]}"'


def is_current(request: Request, tag: str) -> bool:
    """True if the client has the answer with this tag already."""
    tags = [item.strip() for item in request.headers.get("if-none-match", "").split(",")]
    return "*" in tags or tag in tags


def not_modified(tag: str) -> Response:
    """Return the answer to a client that has everything."""
    return Response(status_code=304, headers={"ETag": tag, "Cache-Control": "no-cache"})


# ---- answers from the pool


class PoolResponse(Response):
    """An answer that a worker computes while it is sent. If the client goes away, the query is ended."""

    def __init__(self, request: Request, pool_request: dict[str, Any], text: str, tag: str) -> None:
        super().__init__()
        self.request = request
        self.pool_request = pool_request
        self.text = text
        self.tag = tag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or a problem if nothing was sent yet."""
        work = asyncio.create_task(self._answer(scope, receive, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                if not task.done():
                    task.cancel()
            results = await asyncio.gather(work, gone, return_exceptions=True)
        if isinstance(results[0], Exception) and not isinstance(results[0], OSError):
            raise results[0]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = service_of(self.request)
        is_started = False
        key = self._key()
        try:
            cached = await self._cached(key)
            if cached is not None:
                await self._send_start(send, *cached[:2])
                await send({"type": "http.response.body", "body": cached[2]})
                return
            async with service.pool.execute(self.pool_request, text=self.text) as answer:
                await self._send_start(send, answer.head["media_type"], answer.snapshot)
                is_started = True
                collected, size = [], 0
                async for piece in answer.pieces:
                    size += len(piece)
                    if size <= MAX_CACHED_BYTES:
                        collected.append(piece)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if size <= MAX_CACHED_BYTES:
                    body = answer.head["media_type"].encode() + b"\n" + b"".join(collected)
                    service.query_cache.put(key, answer.snapshot.position, body)
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:
            if is_started:  # the connection is cut: the client sees that the answer is not complete
                raise
            error_format = self.request.state.route.error_format
            await error_format(Problem.of(error))(scope, receive, send)

    def _key(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.pool_request)).hexdigest()

    async def _cached(self, key: str) -> tuple[str, Snapshot, bytes] | None:
        """Return the media type, the copy of the index and the body of an answer that was sent before."""
        service = service_of(self.request)
        snapshot = await service.snapshots.acquire()
        try:
            body = service.query_cache.get(key, snapshot.position)
        finally:
            service.snapshots.release(snapshot)
        if body is None:
            return None
        media_type, _, content = body.partition(b"\n")
        return media_type.decode(), snapshot, content

    async def _send_start(self, send: Send, media_type: str, snapshot: Snapshot) -> None:
        with contextlib.suppress(KeyError):
            del self.headers["content-length"]
        self.headers["Content-Type"] = negotiation.content_type(media_type)
        self.headers["Vary"] = "Accept"
        self.headers["ETag"] = etag(snapshot.position, self.tag)
        self.headers["Last-Modified"] = formatdate(snapshot.time, usegmt=True)
        self.headers["Cache-Control"] = "no-cache"
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
