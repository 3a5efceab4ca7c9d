"""The head of a request: limits for its time and its size, which uvicorn has not, and the host that it names."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MAX_HEAD_BYTES = 2 << 20
"""Bytes of a head that may arrive before it is complete: a long query may be a part of the address."""


def limit_header_time(seconds: float, base: Any = AutoHTTPProtocol) -> type[asyncio.Protocol]:
    """Return a protocol of uvicorn that closes connections on which no head of a request is complete in time.

    The time begins with the connection, and later with the first byte after an answer. A body has a limit of its own,
    see `provml.web.routing.stream_body`.
    """
    return type("HeadLimitsProtocol", (_HeadLimits, base), {"header_seconds": seconds})


class _HeadLimits:
    """A connection with a timer, and a count of bytes, while it waits for a head; a mixin of protocols."""

    header_seconds = 0.0
    _header_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    # of the protocol
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    url: bytes
    headers: list[tuple[bytes, bytes]]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._header_timer is None and self._is_idle():
            self._start_timer()
        super().data_received(data)  # type: ignore[misc]
        if not self._is_idle():
            self._stop_timer()
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._end()

    def on_headers_complete(self) -> None:
        """Let the host of a whole address as target replace the header Host, as RFC 9112 asks for.

        Only httptools calls this; h11 leaves the address in the path, where nothing is.
        """
        if not self.url.startswith((b"/", b"*")):
            others = [(name, value) for name, value in self.headers if name != b"host"]
            self.headers[:] = [*others, (b"host", urlsplit(self.url).netloc)]
        super().on_headers_complete()  # type: ignore[misc]

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)  # type: ignore[misc]

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_seconds, self._end)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _end(self) -> None:
        self._header_timer = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()
