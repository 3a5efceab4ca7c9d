"""A connection that never completes a request is closed; one that does is not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from provml.web.header_timeout import limit_header_time

SECONDS = 0.4
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def slow_app(scope: Any, receive: Any, send: Any) -> None:
    """Answer after more time than a head may take."""
    if scope["type"] == "http":
        await receive()
        if scope["path"] == "/slow":
            await asyncio.sleep(2 * SECONDS)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A server with a short limit."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(slow_app, http=limit_header_time(SECONDS, request.param), lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()
        server.should_exit = True
        thread.join(timeout=10)


def is_closed(connection: socket.socket, seconds: float) -> bool:
    """Return whether the server closes a connection within some time."""
    connection.settimeout(seconds)
    try:
        return connection.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_head_that_does_not_end(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        silent, trickling = (stack.enter_context(socket.create_connection(address)) for _ in range(2))
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < start + 10:
                trickling.sendall(b"X-A: b\r\n" if time.monotonic() > start + 0.1 else REQUEST[:-2])
                time.sleep(SECONDS / 5)
        assert time.monotonic() - start < 8
        assert is_closed(silent, 5)


def test_a_request_in_time_and_a_slow_answer(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(REQUEST.replace(b"/ ", b"/slow ", 1))
        connection.settimeout(10)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        assert not is_closed(connection, 2 * SECONDS)  # it may be used again
        connection.sendall(REQUEST)
        connection.settimeout(10)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(REQUEST[:10])  # the next head does not end
        assert is_closed(connection, 10)
