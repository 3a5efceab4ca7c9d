"""Routes that state what they need: a token, a body of some type and size. The checks are made before the endpoint."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from provml.web.problems import Problem
from provml.web.service import Service
from provml.web.settings import Access

Endpoint = Callable[[Request], Awaitable[Response]]
ErrorFormat = Callable[[Problem], Response]
JSON = "application/json"
NDJSON = "application/x-ndjson"
_SLASHES = re.compile("/{2,}")
_BODY_METHODS = frozenset(("POST", "PUT", "PATCH"))


class ServiceRoute(Route):
    """A route with the access and the limits of its endpoint."""

    def __init__(self, path: str, endpoint: Endpoint, methods: Iterable[str], access: Access, **options: Any) -> None:
        self.access: Access = access
        self.max_body: int | None = options["max_body"]
        self.content_types: tuple[str, ...] = options["content_types"]
        self.merge_slashes: bool = options["merge_slashes"]
        self.open_on_further_ports: bool = options["open_on_further_ports"]
        self.error_format: ErrorFormat = options["error_format"] or Problem.response
        self.function = endpoint
        self.operation: Mapping[str, Any] | None = options["operation"]
        self.protocol: str = options["protocol"]

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Exception as error:
                return self._refuse(request, Problem.of(error))

        super().__init__(path, answer, methods=list(methods), name=endpoint.__name__)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a path; repeated slashes count as single ones only if the route asks for it."""
        if self.merge_slashes and "//" in scope["path"]:
            scope = {**scope, "path": _SLASHES.sub("/", scope["path"])}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then call the endpoint."""
        request = Request(scope, receive, send)
        scope["route_path"] = self.path
        try:
            self._check(request)
        except Problem as problem:
            await self._refuse(request, problem)(scope, receive, send)
            return
        await super().handle(scope, receive, send)

    def _check(self, request: Request) -> None:
        service = service_of(request)
        request.state.access = service.guard.access(request)
        if self.open_on_further_ports and service.guard.is_on_further_port(request):
            request.state.access = "write"
        request.state.route = self
        service.guard.require(request.state.access, self.access)
        if request.method not in _BODY_METHODS:
            return
        if self.content_types and media_type(request) not in self.content_types:
            accepted = ", ".join(self.content_types)
            detail = f"The body is {media_type(request) or 'of no type'}. Send {accepted}."
            raise Problem(415, "UnsupportedMediaType", detail, headers={"Accept": accepted})
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.body_limit(service):
            raise _too_large(self.body_limit(service))

    def _refuse(self, request: Request, problem: Problem) -> Response:
        """Return a problem as an answer; what a recording client loses by it is noted."""
        if self.protocol:
            client = request.client.host if request.client is not None else ""
            service_of(request).refusals.note(self.protocol, client, problem, request.path_params.get("run", ""))
        return self.error_format(problem)

    def body_limit(self, service: Service) -> int:
        """Return the size that a body may have, after inflating."""
        return service.limits.json_bytes if self.max_body is None else self.max_body


def route(
    path: str,
    endpoint: Endpoint,
    *,
    methods: Iterable[str] = ("GET",),
    access: Access = "read",
    max_body: int | None = None,
    content_types: Iterable[str] = (),
    merge_slashes: bool = False,
    open_on_further_ports: bool = False,
    error_format: ErrorFormat | None = None,
    operation: Mapping[str, Any] | None = None,
    protocol: str = "",
) -> ServiceRoute:
    """Return a route. `access` is the token that every method needs; `require` asks for more in an endpoint.

    `max_body` limits a body in bytes (by default that of JSON), also after inflating; `content_types` are the types
    that a body may have. `merge_slashes` also takes paths with repeated slashes. With `open_on_further_ports`, programs
    of this machine need no token on the ports of `--also-listen`. `error_format` turns problems into the errors of
    another protocol. `operation` is the OpenAPI description of the endpoint; None keeps it out.
    `protocol` names what a client records by: requests that are refused are noted.
    """
    return ServiceRoute(
        path,
        endpoint,
        methods,
        access,
        max_body=max_body,
        content_types=tuple(content_types),
        merge_slashes=merge_slashes,
        open_on_further_ports=open_on_further_ports,
        error_format=error_format,
        operation=operation,
        protocol=protocol,
    )


def service_of(request: Request) -> Service:
    """Return the service that a request belongs to."""
    return cast(Service, request.app.state.service)


def require(request: Request, access: Access) -> None:
    """Raise a problem unless a request has the token for an access."""
    service_of(request).guard.require(request.state.access, access)


def media_type(request: Request) -> str:
    """Return the media type of a body, without parameters and in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


# ---- bodies


async def read_body(request: Request) -> bytes:
    """Read a body whole, inflated, within the limits of its route."""
    return b"".join([piece async for piece in stream_body(request)])


async def stream_body(request: Request) -> AsyncIterator[bytes]:
    """Yield a body in pieces, inflated, within the limits of its route."""
    service = service_of(request)
    limit = request.state.route.body_limit(service)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(
            415, "UnsupportedEncoding", f"Content-Encoding {encoding!r} is not supported. Send gzip, or none."
        )
    pieces = _pieces(request, service)
    size = 0
    async for piece in _inflated(pieces, limit) if encoding == "gzip" else pieces:
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        yield piece


async def _pieces(request: Request, service: Service) -> AsyncIterator[bytes]:
    pieces = request.stream().__aiter__()
    seconds = service.limits.body_seconds
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Problem(408, "RequestTooSlow", f"No byte of the body came for {seconds:g} s.") from None
        except asyncio.CancelledError:  # the server cancels what is still open some seconds after it began to stop
            if not service.is_stopping:
                raise
            raise Problem(503, "Stopping", "The service is stopping.", headers={"Retry-After": "5"}) from None
        if piece:
            yield piece


async def _inflated(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    try:
        async for piece in pieces:
            rest = piece
            while rest and not inflater.eof:
                yield inflater.decompress(rest, min(limit + 1, 1 << 20))
                rest = inflater.unconsumed_tail
    except zlib.error:
        raise Problem(400, "InvalidGzip", "The body is not gzip, although Content-Encoding says so.") from None
    if not inflater.eof:
        raise Problem(400, "InvalidGzip", "The gzip body ends too early.")


def _too_large(limit: int) -> Problem:
    return Problem(413, "BodyTooLarge", f"The body has more than {limit:,} bytes, the limit of this endpoint.")


async def read_json(request: Request, kind: Any = Any) -> Any:
    """Read a body as JSON, and check it against a type."""
    return decode_json(await read_body(request), kind)


def decode_json(body: bytes, kind: Any = Any) -> Any:
    """Decode JSON, and check it against a type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, "InvalidBody", f"The body is not of the expected form: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "InvalidJSON", f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise Problem(400, "InvalidJSON", "The body is nested too deeply.") from None


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value, enc_hook=str), status, headers, JSON)
