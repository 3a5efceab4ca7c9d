"""The endpoint that OpenLineage's clients send events to.

An error reaches the user's code or is repeated, so everything that can be kept is kept and answered with 201. Events
about a job or a dataset without a run are kept, and are not runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.exchange.openlineage import WRITER, OpenLineageRun, run_id_of
from provml.web.ingest.endpoint import add_ingest, keep, read_request
from provml.web.ingest.received import Received
from provml.web.ingest.translation import SILENCE_SECONDS, Ingest, TranslatedRun
from provml.web.routing import JSON, json_response, route
from provml.web.service import Service

STATIC = "static"
"""Source of events about jobs and datasets without a run."""


class JobRunSource:
    """One run of a job."""

    def __init__(self) -> None:
        self.run_id = ""
        self.owner = ""
        self.run = OpenLineageRun()

    def apply(self, request: Received) -> Iterable[str]:
        """Take in an event."""
        event = request.body
        if not isinstance(event, dict) or not run_id_of(event):
            return ()
        self.run_id = run_id_of(event)
        self.owner = self.owner or request.owner
        self.run.client, self.run.agent = self.run.client or request.client, self.run.agent or request.agent
        self.run.feed(event, request.time)
        return [self.run_id]

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return the owner of the run."""
        return {self.run_id: self.owner}

    def run_ids(self) -> Iterable[str]:
        """Return the id of the run."""
        return [self.run_id] if self.run_id else []

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return the run. It is over after an event that ended it, or by silence."""
        is_over = self.run.end is not None or now - self.run.last_time >= SILENCE_SECONDS
        return TranslatedRun(self.run.all_events(), self.run.last_time, is_over)

    def forget(self) -> None:
        """Do nothing: there are no other references."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of OpenLineage."""
    ingest = Ingest(service.home, WRITER, lambda key: JobRunSource())
    add_ingest(service, ingest)

    async def receive_event(request: Request) -> Response:
        """Take an event of OpenLineage."""
        message = await read_request(request, "event")
        await keep(service, ingest, _source(message), message)
        return Response(status_code=201)

    async def receive_events(request: Request) -> Response:
        """Take several events of OpenLineage."""
        message = await read_request(request, "event")
        items = message.body if isinstance(message.body, list) else [message.body]
        for item in items:
            single = msgspec.structs.replace(message, body=item)
            await keep(service, ingest, _source(single), single)
        summary = {"received": len(items), "successful": len(items), "failed": 0, "retriable": 0, "non_retriable": 0}
        return json_response({"status": "success", "summary": summary, "failed_events": []})

    return [
        route(
            "/api/v1/lineage", receive_event, methods=["POST"], access="write", content_types=[JSON], protocol=WRITER
        ),
        route(
            "/api/v1/lineage/batch",
            receive_events,
            methods=["POST"],
            access="write",
            content_types=[JSON],
            protocol=WRITER,
        ),
    ]


def _source(message: Received) -> str:
    event = message.body
    if not isinstance(event, dict):
        return ""
    return run_id_of(event) or STATIC
