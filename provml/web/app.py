"""The ASGI application of a service: middleware, and the routes of all modules."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import ModuleType

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.web import graph_store, mcp, operation, problems, provenance, sparql, store_api
from provml.web.access_log import AccessLog
from provml.web.api import artifacts, live, openapi, questions, runs, terms
from provml.web.ingest import contents, dfanalyzer, journals, mlflow, openlineage, provlake
from provml.web.metrics import RequestMetrics
from provml.web.security import SecurityMiddleware
from provml.web.service import Service
from provml.web.viewer import routes as viewer_routes

ROUTE_MODULES: tuple[ModuleType, ...] = (
    viewer_routes,
    operation,
    sparql,
    graph_store,
    provenance,
    runs,
    questions,
    artifacts,
    terms,
    live,
    store_api,
    journals,
    contents,
    mcp,
    openapi,
    dfanalyzer,
    provlake,
    mlflow,
    openlineage,
)
"""Modules with a function `routes(service)`. The first route that matches a path answers."""


async def _handle(request: Request, error: Exception) -> Response:
    """Answer to an address that does not exist: with a page for browsers, which name HTML, else as a problem."""
    if "text/html" in request.headers.get("accept", ""):
        return viewer_routes.error_page(problems.Problem.of(error))
    return await problems.handle(request, error)


def create_app(service: Service) -> Starlette:
    """Return the application of a service. Its lifespan indexes in the background; the caller closes the service."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    metrics = RequestMetrics()
    routes: list[BaseRoute] = [route for module in ROUTE_MODULES for route in module.routes(service)]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(AccessLog, metrics=metrics),
            Middleware(SecurityMiddleware, settings=service.settings),
        ],
        exception_handlers={HTTPException: _handle},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    app.state.metrics = metrics
    return app
