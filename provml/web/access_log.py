"""One line in the log for each request: without query strings, which may hold tickets or queries."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provml.web.log_format import escape
from provml.web.metrics import RequestMetrics

logger = logging.getLogger("provml.access")
MAX_PATH = 200


class AccessLog:
    """Log method, path, status, bytes and time of each request."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it when it has been answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, size = time.perf_counter(), 0, 0
        self.metrics.running += 1

        async def counting_send(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counting_send)
        finally:
            seconds = time.perf_counter() - start
            self.metrics.running -= 1
            self.metrics.count(scope, status, size, seconds)
            if logger.isEnabledFor(logging.INFO):
                client = scope["client"][0] if scope.get("client") else "-"
                path = printable(scope["path"])
                logger.info("%s %s %s %d %d %.1fms", client, scope["method"][:20], path, status, size, 1000 * seconds)


def printable(text: str) -> str:
    """Return text of a client for a log: short, and without control characters."""
    return escape(text[:MAX_PATH]) + ("…" if len(text) > MAX_PATH else "")
