"""Answers with the position of the index as their entity tag, and answers that a worker process computes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from email.utils import formatdate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from provml.web import negotiation
from provml.web.problems import Problem
from provml.web.routing import service_of
from provml.web.snapshots import Snapshot


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
        is_started = False
        try:
            async with service_of(self.request).pool.execute(self.pool_request, text=self.text) as answer:
                if not answer.head["media_type"]:
                    raise negotiation.unavailable(answer.head["kind"])
                await self._send_start(send, answer.head["media_type"], answer.snapshot)
                is_started = True
                async for piece in answer.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:
            if is_started:  # the connection is cut: the client sees that the answer is not complete
                raise
            error_format = self.request.state.route.error_format
            await error_format(Problem.of(error))(scope, receive, send)

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
