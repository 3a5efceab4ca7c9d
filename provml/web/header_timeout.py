"""A limit for the time in which the head of a request must arrive: uvicorn has none, and would wait without end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


def limit_header_time(seconds: float, base: Any = AutoHTTPProtocol) -> type[asyncio.Protocol]:
    """Return a protocol of uvicorn that closes connections on which no head of a request is complete in time.

    The time begins with the connection, and later with the first byte after an answer. A body has a limit of its own,
    see `provml.web.routing.stream_body`.
    """

    class HeaderTimeoutProtocol(base):  # type: ignore[misc]
        """A connection with a timer while it waits for a head."""

        _header_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            if self._header_timer is None and self._is_idle():
                self._start_timer()
            super().data_received(data)
            if not self._is_idle():
                self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _start_timer(self) -> None:
            self._header_timer = self.loop.call_later(seconds, self._end)

        def _stop_timer(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

        def _end(self) -> None:
            self._header_timer = None
            if self._is_idle() and not self.transport.is_closing():
                self.transport.close()

    return HeaderTimeoutProtocol
