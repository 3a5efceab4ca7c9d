"""What the endpoints of all protocols share: keep a request, and translate in the background."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from provml.web.ingest.received import Received
from provml.web.ingest.translation import Ingest, NotTheOwner
from provml.web.problems import Problem
from provml.web.routing import read_body, service_of
from provml.web.service import Service

TURN_SECONDS = 0.25
"""Time between two looks for runs that are due to be translated."""
UNREADABLE = "unreadable"
"""Source of requests that name none."""
MAX_AGENT_CHARS = 300


def add_ingest(service: Service, ingest: Ingest[Any]) -> None:
    """Translate what a protocol receives while a service runs, and before a question is answered."""

    async def translate_forever() -> None:
        await run_in_threadpool(ingest.resume)
        try:
            while True:
                if await run_in_threadpool(ingest.translate):
                    service.wake()
                await asyncio.sleep(TURN_SECONDS)
        finally:
            ingest.finish()

    service.background.append(translate_forever)
    service.before_sync.append(lambda: ingest.translate(at_once=True))


async def read_request(request: Request, action: str) -> Received:
    """Read a request that is to be kept, whatever its body is."""
    body = await read_body(request)
    return received(request, action, body=body)


def received(request: Request, action: str, *, body: bytes = b"null") -> Received:
    """Return a request with the time, the address of its client, and a hash of its token."""
    return Received.from_bytes(
        time.time(),
        action,
        body,
        query=dict(request.query_params),
        client=request.client.host if request.client is not None else "",
        agent=request.headers.get("user-agent", "")[:MAX_AGENT_CHARS],
        owner=service_of(request).guard.owner(request),
    )


def not_the_owner(run: str, code: str = "NotTheOwner") -> Problem:
    """Return the problem of a request that would change a run of another token."""
    detail = f"Run {run} was begun with another token. Use that one, or begin a run of your own."
    return Problem(403, code, detail, extra={"run": run})


async def keep(service: Service, ingest: Ingest[Any], source: str, request: Received) -> None:
    """Keep a request and take it in; a problem if it cannot be kept, or belongs to a run of another token."""
    try:
        await run_in_threadpool(ingest.receive, source or UNREADABLE, request)
    except NotTheOwner as error:
        raise not_the_owner(error.run) from None
    except OSError as error:
        detail = f"The request could not be kept ({error.strerror or error}). Free some space, then send it again."
        raise Problem(507, "NotKept", detail, headers={"Retry-After": "10"}) from error
    service.note_recorded()
