"""The Model Context Protocol at `/mcp`: the tools of `provml mcp`, for assistants that call over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from provml.answers import Answer
from provml.answers.parse_results import ACCEPT, parse_results
from provml.errors import QueryError
from provml.rdf.namespaces import PREFIXES
from provml.store import query_guard
from provml.web import negotiation
from provml.web.api.questions import catalog_of
from provml.web.problems import Problem
from provml.web.routing import JSON, route
from provml.web.service import Service

MAX_BODY = 1 << 20


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    endpoint = McpEndpoint(service)

    async def mcp(request: Request) -> Response:
        return await endpoint.answer(request)

    methods = ("GET", "POST", "DELETE")
    return [route("/mcp", mcp, methods=methods, max_body=MAX_BODY, content_types=(JSON,))]


class McpEndpoint:
    """The session manager of the SDK, which is started by the first request: most services need none."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._manager: Any = None
        self._starting = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """Hand a request, whose token was checked, to the SDK."""
        async with self._starting:
            if self._manager is None:
                self._manager = await self._start()
        catalog_of(self.service)  # the user may have changed a question
        return _Delegated(self._manager)

    async def _start(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from provml.assistants.server import create_server  # raises MissingDependency without the extra
        from provml.assistants.tools import Toolbox, ToolSettings

        limits = self.service.limits
        loop = asyncio.get_running_loop()

        def query(text: str) -> Answer | bool:
            return asyncio.run_coroutine_threadsafe(run_query(self.service, text), loop).result()

        toolbox = await asyncio.to_thread(
            Toolbox, self.service.store, ToolSettings(query_seconds=limits.query_seconds), query
        )
        manager = StreamableHTTPSessionManager(
            create_server(toolbox), json_response=True, stateless=True, max_request_body_size=MAX_BODY
        )
        ready = asyncio.Event()

        async def run() -> None:
            async with manager.run():
                ready.set()
                await self.service.stopping.wait()
            self._manager = None

        self.service.start_task(run(), "mcp")
        await ready.wait()
        return manager


async def run_query(service: Service, text: str) -> Answer | bool:
    """Execute a query in the worker processes of the service, under its limits."""
    query_guard.check(text)
    await service.fresh()
    media_types = negotiation.query_media_types(ACCEPT, "")
    request = {"kind": "query", "text": text, "base": service.settings.url + "/", "prefixes": PREFIXES}
    try:
        async with service.pool.execute(request | {"media_types": media_types}, text=text) as answer:
            data = await answer.read()
            media_type = answer.head["media_type"]
    except Problem as problem:
        raise QueryError(problem.detail.rstrip("."), "Restrict the query, or try again.") from None
    return await asyncio.to_thread(_as_answer, data, media_type)


def _as_answer(data: bytes, media_type: str) -> Answer | bool:
    import pyoxigraph as ox

    result = parse_results(data, media_type)
    if isinstance(result, ox.QueryBoolean):
        return bool(result)
    if isinstance(result, list):
        triples = [(triple.subject, triple.predicate, triple.object) for triple in result]
        return Answer.from_terms(["subject", "predicate", "object"], triples, is_graph=True)
    columns = [variable.value for variable in result.variables]
    return Answer.from_terms(columns, [tuple(solution) for solution in result])


class _Delegated(Response):
    """An answer that the SDK sends."""

    def __init__(self, manager: Any) -> None:
        super().__init__()
        self.manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK read the request and send the answer."""
        await self.manager.handle_request(scope, receive, send)
