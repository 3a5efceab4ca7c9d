"""Endpoints for operation: whether the service is up, and the exchange of a ticket for a cookie."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.web.metrics import TEXT_FORMAT, service_text
from provml.web.problems import Problem
from provml.web.routing import JSON, json_response, route, service_of
from provml.web.service import Service
from provml.web.viewer.routes import error_page


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route("/healthz", healthz, access="none"),
        route("/metrics", metrics),
        route("/login", login, access="none", error_format=error_page),
        route("/api/v1/tickets", create_ticket, methods=("POST",), content_types=(JSON,)),
    ]


async def healthz(request: Request) -> Response:
    """Say that the service is up."""
    return json_response({"status": "ok"}, headers={"Cache-Control": "no-store"})


async def metrics(request: Request) -> Response:
    """Return counters in the text format of Prometheus."""
    text = request.app.state.metrics.text() + service_text(service_of(request))
    return Response(text, headers={"Cache-Control": "no-store"}, media_type=TEXT_FORMAT)


async def login(request: Request) -> Response:
    """Swap a one-time ticket for a cookie, and go to the first page: the ticket leaves the address bar."""
    guard = service_of(request).guard
    cookie = guard.redeem(request.query_params.get("ticket", ""))
    if cookie is None:
        raise Problem(403, "InvalidTicket", "The link was used already or is too old. Run `provml serve --link`.")
    headers = {"Location": "/", "Set-Cookie": guard.set_cookie(cookie), "Cache-Control": "no-store"}
    return Response(status_code=303, headers=headers)


async def create_ticket(request: Request) -> Response:
    """Return a one-time ticket for a browser, which may then do what the token of the request may."""
    ticket = service_of(request).guard.new_ticket(request.state.access)
    return json_response({"ticket": ticket}, 201, {"Cache-Control": "no-store"})
