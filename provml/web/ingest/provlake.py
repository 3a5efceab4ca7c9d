"""The endpoints that ProvLake's client calls: retrospective and prospective provenance.

The client logs an answer that is not 2xx and goes on, so everything that can be kept is kept and answered with 2xx.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.exchange.provlake import WRITER, ProvLakeRun, execution_of, workflow_of
from provml.web.ingest.endpoint import add_ingest, keep, read_request
from provml.web.ingest.received import Received
from provml.web.ingest.translation import SILENCE_SECONDS, Ingest, TranslatedRun
from provml.web.routing import JSON, json_response, route
from provml.web.service import Service

RETROSPECTIVE, PROSPECTIVE = "retrospective", "prospective"
MOUNTS = ("", "/provenance", "/provenance/api")
"""Paths below which the client expects the endpoints, by the service_url that it was given."""


class WorkflowSource:
    """A workflow with its executions."""

    def __init__(self) -> None:
        self.prospective: dict[str, Any] | None = None
        self.runs: dict[str, ProvLakeRun] = {}
        self._owners: dict[str, str] = {}
        """The owner of each run."""

    def apply(self, request: Received) -> Iterable[str]:
        """Take in a request: an array of messages, or the plan of the workflow."""
        if request.action == PROSPECTIVE:
            self.prospective = request.body if isinstance(request.body, dict) else self.prospective
            for run in self.runs.values():
                run.prospective = self.prospective
            return list(self.runs)
        changed: dict[str, None] = {}
        for message in messages_of(request.body):
            run = ProvLakeRun(workflow_of(message), execution_of(message))
            run = self.runs.setdefault(run.id, run)
            run.prospective = self.prospective
            run.client, run.agent = run.client or request.client, run.agent or request.agent
            self._owners.setdefault(run.id, request.owner)
            run.feed(message, request.time)
            changed[run.id] = None
        return changed

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return the owners of the runs that the messages of a request are about."""
        if request.action == PROSPECTIVE:
            return {}
        ids = (ProvLakeRun(workflow_of(item), execution_of(item)).id for item in messages_of(request.body))
        return {run_id: self._owners.get(run_id, "") for run_id in ids}

    def forget(self) -> None:
        """Do nothing: there are no other references."""

    def run_ids(self) -> Iterable[str]:
        """Return the ids of all runs."""
        return list(self.runs)

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return a run. It is over when its workflow ended, or by silence."""
        run = self.runs[run_id]
        is_silent = now - run.last_time >= SILENCE_SECONDS
        is_over = run.is_over(is_silent=is_silent) or is_silent
        return TranslatedRun(run.all_events(is_silent=is_silent), run.last_time, is_over)


def messages_of(body: Any) -> list[dict[str, Any]]:
    """Return the messages of a body: an array of them, or one."""
    items = body if isinstance(body, list) else [body]
    return [item for item in items if isinstance(item, dict)]


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of ProvLake, at the places where its client expects them."""
    ingest = Ingest(service.home, WRITER, lambda key: WorkflowSource())
    add_ingest(service, ingest)

    async def receive_retrospective(request: Request) -> Response:
        """Take messages of a ProvLake client; no token is needed on a port of `--also-listen`."""
        message = await read_request(request, RETROSPECTIVE)
        by_workflow: dict[str, list[dict[str, Any]]] = {}
        for item in messages_of(message.body):
            by_workflow.setdefault(workflow_of(item), []).append(item)
        for workflow, items in by_workflow.items():
            body = items if len(by_workflow) > 1 else message.body
            await keep(service, ingest, workflow, _with_body(message, body))
        if not by_workflow:
            await keep(service, ingest, "", message)
        return json_response({"error": []})

    async def receive_prospective(request: Request) -> Response:
        """Take the plan of a ProvLake workflow; no token is needed on a port of `--also-listen`."""
        message = await read_request(request, PROSPECTIVE)
        name = workflow_of(message.body) if isinstance(message.body, dict) else ""
        await keep(service, ingest, name, message)
        return json_response({})

    return [
        route(
            f"{mount}/{kind}-provenance",
            endpoint,
            methods=methods,
            access="write",
            content_types=[JSON],
            open_on_further_ports=True,
            protocol=WRITER,
        )
        for mount in MOUNTS
        for kind, endpoint, methods in (
            (RETROSPECTIVE, receive_retrospective, ["POST"]),
            (PROSPECTIVE, receive_prospective, ["POST", "PUT"]),
        )
    ]


def _with_body(message: Received, body: Any) -> Received:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Received(**{**fields, "body": body})
