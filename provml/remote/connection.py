"""A connection to a service: requests with a token, on one socket that stays open, by the standard library alone."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from provml.errors import ServiceError, ServiceUnreachable

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
TOKEN_VARIABLE = "PROVML_TOKEN"
STALE_ERRORS = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
"""A server may close a connection that nobody used for a while."""


class Address(NamedTuple):
    """The URL of a service without its credentials, and the token."""

    url: str
    token: str = ""


class Response(NamedTuple):
    """An answer of a service."""

    status: int
    headers: Message
    body: bytes

    def reason(self) -> str:
        """Return why a request was refused: the detail of a problem document, or the beginning of the text."""
        try:
            problem = json.loads(self.body)
            text = problem.get("detail") or problem.get("title") or "" if isinstance(problem, dict) else ""
        except ValueError:
            text = self.body[:300].decode("utf-8", "replace").strip()
        return str(text) or f"HTTP status {self.status} {http.client.responses.get(self.status, '')}".rstrip()


def parse_address(home: str, token: str | None = None) -> Address:
    """Return the address of a service: its URL, and the token from `token`, the URL, or PROVML_TOKEN.

    Raise ServiceError for a URL that no service can have.
    """
    try:
        parts = urlsplit(home.strip())
        port = parts.port
    except ValueError as error:
        raise ServiceError(home, str(error).lower(), "Pass a URL such as http://host:8420.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ServiceError(home, "this is not the URL of a service", "Pass a URL such as http://host:8420.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    secret = token or unquote(parts.password or parts.username or "") or os.environ.get(TOKEN_VARIABLE, "")
    if not (secret.isascii() and secret.isprintable()):
        raise ServiceError(url, "the token has characters that no token has", "Copy it again.")
    return Address(url, secret)


def read_token_file(path: Path) -> str:
    """Return the token in a file."""
    return path.read_text(encoding="utf-8").strip()


class Connection:
    """Requests to one service, one at a time. A connection that the server closed meanwhile is opened again."""

    def __init__(self, address: Address, *, read_seconds: float = READ_SECONDS) -> None:
        self.url = address.url
        self._token = address.token
        self._read_seconds = read_seconds
        parts = urlsplit(address.url)
        self._is_secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._socket: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the socket; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def set_read_seconds(self, seconds: float) -> None:
        """Set how long the next answers are waited for."""
        self._read_seconds = seconds
        if self._socket is not None and self._socket.sock is not None:
            self._socket.sock.settimeout(seconds)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request and return the whole answer; raise ServiceUnreachable if there is none."""
        response = self._send(method, path, body, headers or {})
        try:
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServiceUnreachable(self.url, _describe(error)) from None
        if response.will_close:
            self.close()
        return Response(response.status, response.headers, data)

    def expect(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request; raise ServiceError unless it succeeded."""
        response = self.request(method, path, body, headers)
        if response.status >= 400:
            raise ServiceError(self.url, response.reason(), status=response.status)
        return response

    def download(self, path: str, file: IO[bytes], headers: Mapping[str, str] | None = None) -> Message:
        """Write an answer to a file, piece by piece, and return its headers; raise ServiceError if it is refused."""
        response = self._send("GET", path, None, headers or {})
        try:
            if response.status >= 400:
                refused = Response(response.status, response.headers, response.read())
                raise ServiceError(self.url, refused.reason(), status=refused.status)
            while piece := response.read(1 << 20):
                file.write(piece)
        except http.client.HTTPException as error:
            self.close()
            raise ServiceUnreachable(self.url, _describe(error)) from None
        return response.headers

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        all_headers = {"User-Agent": "provml", **self._authorization(), **headers}
        is_reused = self._socket is not None
        try:
            return self._exchange(method, path, body, all_headers)
        except STALE_ERRORS as error:
            self.close()
            if not is_reused:
                raise ServiceUnreachable(self.url, _describe(error)) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServiceUnreachable(self.url, _describe(error)) from None
        try:  # all our requests may be repeated
            return self._exchange(method, path, body, all_headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServiceUnreachable(self.url, _describe(error)) from None

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._socket is None:
            kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
            self._socket = kind(self._host, self._port, timeout=CONNECT_SECONDS)
            self._socket.connect()
            self._socket.sock.settimeout(self._read_seconds)
        self._socket.request(method, self._prefix + path, body, headers)
        return self._socket.getresponse()

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _describe(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return f"the answer ended after {len(error.partial)} bytes"
    text: Any = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"no answer ({str(text).lower()})"
