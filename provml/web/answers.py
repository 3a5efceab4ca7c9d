"""Answers that a client need not fetch again while the index stands still, and those that a worker process computes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from provml.web import negotiation
from provml.web.problems import Problem
from provml.web.routing import service_of
from provml.web.service import IndexState
from provml.web.snapshots import Snapshot


class Version(NamedTuple):
    """What tells an answer from an older one: an entity tag and, if it is known, the time of the last change."""

    tag: str
    seconds: float | None = None

    @classmethod
    def of(cls, state: IndexState, variant: str = "") -> Version:
        """Return the version of an answer at a state of the index; `variant` is what else it depends on."""
        return cls(f'W/"{state.position}-{hashlib.sha256(variant.encode()).hexdigest()[:8]}"', state.seconds)

    def headers(self, cache_control: str = "no-cache") -> dict[str, str]:
        """Return the headers that the answer has, whether it is sent or the client has it already."""
        headers = {"ETag": self.tag, "Vary": "Accept", "Cache-Control": cache_control}
        if self.seconds is not None:
            headers["Last-Modified"] = formatdate(_second(self.seconds), usegmt=True)
        return headers

    def is_current(self, request: Request) -> bool:
        """True if the client has this answer already. A time counts only where it sends no entity tag."""
        if request.method not in ("GET", "HEAD"):
            return False
        tags = request.headers.get("if-none-match")
        if tags is not None:
            names = [_opaque(item) for item in tags.split(",")]
            return "*" in names or _opaque(self.tag) in names
        since = _parse_date(request.headers.get("if-modified-since", ""))
        return since is not None and self.seconds is not None and _second(self.seconds) <= since

    def not_modified(self, cache_control: str = "no-cache") -> Response:
        """Return the answer to a client that has everything."""
        return Response(status_code=304, headers=self.headers(cache_control))


def _opaque(tag: str) -> str:
    """Return a tag without the mark of a weak one: a proxy that compresses makes a strong tag weak."""
    return tag.strip().removeprefix("W/")


def _second(seconds: float) -> int:
    """Return a time in whole seconds; the second before if this one is not over, since more may change in it."""
    whole = int(seconds)
    return whole if whole < int(time.time()) else whole - 1


def _parse_date(text: str) -> float | None:
    """Return the time of a header; None if it is not a date."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


# ---- answers from the pool


class PoolResponse(Response):
    """An answer that a worker computes while it is sent. If the client goes away, the query is ended."""

    def __init__(self, request: Request, pool_request: dict[str, Any], text: str, variant: str) -> None:
        super().__init__()
        self.request = request
        self.pool_request = pool_request
        self.text = text
        self.variant = variant

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
                await self._send_start(send, answer.head["media_type"], _state(answer.snapshot))
                is_started = True
                async for piece in answer.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:
            if is_started:  # the connection is cut: the client sees that the answer is not complete
                raise
            error_format = self.request.state.route.error_format
            await error_format(Problem.of(error))(scope, receive, send)

    async def _send_start(self, send: Send, media_type: str, state: IndexState) -> None:
        with contextlib.suppress(KeyError):
            del self.headers["content-length"]
        self.headers["Content-Type"] = negotiation.content_type(media_type)
        self.headers.update(Version.of(state, self.variant).headers())
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


def _state(snapshot: Snapshot) -> IndexState:
    return IndexState(snapshot.position, snapshot.time)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
