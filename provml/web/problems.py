"""Errors as RFC 9457 problem documents, with the names of provml's errors as codes."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from provml.errors import ProvmlError, ServiceNotAllowed
from provml.rdf.namespaces import NODES

logger = logging.getLogger("provml.web")

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = f"{NODES}errors#"
TITLES = {
    400: "Bad request",
    401: "Token required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request too slow",
    409: "Conflict",
    411: "Length required",
    412: "Precondition failed",
    413: "Content too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    421: "Misdirected request",
    422: "Unprocessable content",
    426: "Upgrade required",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    501: "Not implemented",
    503: "Service busy",
    504: "Time limit reached",
    507: "Insufficient storage",
}
MAX_DETAIL = 2000
HINTS = {
    404: "There is nothing at this address. All addresses are at /api/docs.",
    405: "This address has no such method; the header Allow lists those that it has.",
}
"""What the framework's own errors say to a client."""


FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FULL_DISK_SECONDS = 30
"""Time after which a client may try again."""


def is_full_disk(error: Exception) -> bool:
    """Return whether an error is that of a full disk; the engine reports it as a text."""
    return isinstance(error, OSError) and (error.errno in FULL_DISK or os.strerror(errno.ENOSPC) in str(error))


class Problem(Exception):
    """An error of a request: status, code (such as `RunNotFound`), and a sentence that says what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        super().__init__(detail)

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Return the problem that an error is to a client."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, HTTPException):
            title = TITLES.get(error.status_code, "Error")
            code = "".join(word.capitalize() for word in title.split())
            detail = HINTS.get(error.status_code, str(error.detail))
            return cls(error.status_code, code, detail, headers=error.headers)
        if isinstance(error, ServiceNotAllowed):  # no client can allow it
            detail = "The query uses SERVICE, and this service calls no other machine. Remove SERVICE."
            return cls(error.http_status, type(error).__name__, detail)
        if isinstance(error, ProvmlError):
            suggestions = getattr(error, "suggestions", ())
            extra = {"suggestions": list(suggestions)} if suggestions else {}
            for name in ("line", "column"):
                if isinstance(getattr(error, name, None), int):
                    extra[name] = getattr(error, name)
            return cls(error.http_status, type(error).__name__, str(error), extra=extra)
        if is_full_disk(error):
            logger.error("the disk is full: %s", error)
            detail = "The disk of the service is full. Nothing of the request was stored; send it again later."
            return cls(507, "DiskFull", detail, headers={"Retry-After": str(FULL_DISK_SECONDS)})
        logger.error("request failed", exc_info=error)
        return cls(500, "InternalError", "The service failed. Its log has the details.")

    def document(self) -> dict[str, Any]:
        """Return the problem document."""
        return {
            "type": TYPE_PREFIX + self.code,
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail[:MAX_DETAIL],
            "code": self.code,
            **self.extra,
        }

    def response(self) -> Response:
        """Return the problem as a response."""
        headers = {"Cache-Control": "no-store", **self.headers}
        return Response(msgspec.json.encode(self.document()), self.status, headers, MEDIA_TYPE)


async def handle(request: Request, error: Exception) -> Response:
    """Turn any error into a response; exception handler of the application."""
    return Problem.of(error).response()
