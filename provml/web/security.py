"""Who may do what: tokens, one-time tickets, cookies, checks of Host and Origin, and headers of every answer."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provml.web.problems import Problem
from provml.web.settings import LOCAL_NAMES, Access, ServiceSettings, Tokens, is_loopback, is_wildcard

LEVELS: dict[Access, int] = {"none": 0, "read": 1, "write": 2}
MAX_HEADER_BYTES = 64 << 10
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
TICKET_SECONDS = 600.0
COOKIE_SECONDS = 14 * 24 * 3600
MAX_TICKETS = 100
EXPOSED_HEADERS = "ETag, Last-Modified, Link, Location, Upload-Offset, Redacted-Lines"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


# ---- tokens, tickets, cookies


def read_or_create_tokens(home: Path) -> Tokens:
    """Return the tokens in `home/service`, which only the owner can read; create them at the first start."""
    folder = home / "service"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Tokens(*(_read_or_create(folder / f"{name}.token") for name in ("read", "write")))


def has_tokens(home: Path) -> bool:
    """True if a home has tokens already."""
    return all((home / "service" / f"{name}.token").is_file() for name in ("read", "write"))


def _read_or_create(path: Path) -> str:
    with contextlib.suppress(FileExistsError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as out:
            out.write(secrets.token_urlsafe(32) + "\n")
    path.chmod(0o600)
    token = path.read_text(encoding="ascii").strip()
    if len(token) < 16:
        raise Problem(500, "InvalidToken", f"{path} holds no token. Remove it, and it is created again.")
    return token


class Guard:
    """Decides what a request may do."""

    def __init__(self, settings: ServiceSettings, tokens: Tokens) -> None:
        self.settings = settings
        self.tokens = tokens
        self.cookie_name = f"provml-{settings.port}"
        self._tickets: dict[str, tuple[Access, float]] = {}

    def access(self, connection: HTTPConnection) -> Access:
        """Return what a request may do, by its token, its cookie, or because it came by the Unix socket."""
        server = connection.scope.get("server")
        if self.settings.no_token or (server is not None and server[1] is None):  # a Unix socket has permissions
            return self._limit("write")
        token = _token(connection.headers.get("authorization", ""))
        if token:
            return self._limit(self._access_of_token(token))
        return self._limit(self._access_of_cookie(connection.cookies.get(self.cookie_name, "")))

    def is_on_further_port(self, connection: HTTPConnection) -> bool:
        """True if a program of this machine writes to a port of `--also-listen`: some clients cannot have a token."""
        server, client = connection.scope.get("server"), connection.client
        is_open = server is not None and server[1] in self.settings.also_listen and not self.settings.read_only
        return is_open and client is not None and is_loopback(client.host)

    def require(self, access: Access, needed: Access) -> None:
        """Raise a problem if a request may not do what it needs to."""
        if LEVELS[access] >= LEVELS[needed]:
            return
        if needed == "write" and self.settings.read_only:
            raise Problem(403, "ReadOnly", "This service is read-only. Start it without --read-only to write.")
        if access == "none":
            headers = {"WWW-Authenticate": 'Bearer realm="provml", charset="UTF-8"'}
            detail = (
                f"This needs the {needed} token, as `Authorization: Bearer TOKEN` or as the password of Basic "
                "authorization. The tokens are in the folder `service` of the home; `provml serve` prints a link "
                "for browsers."
            )
            raise Problem(401, "TokenRequired", detail, headers=headers)
        raise Problem(403, "WriteTokenRequired", "This needs the write token; the request has the read token.")

    def owner(self, connection: HTTPConnection) -> str:
        """Return a hash that names the token of a request, to compare who began a run with who goes on with it."""
        token = "" if self.settings.no_token else _token(connection.headers.get("authorization", ""))
        token = token or "local"
        return hashlib.sha256(b"provml owner " + token.encode()).hexdigest()[:32]

    def new_ticket(self, access: Access = "write") -> str:
        """Return a ticket that can be swapped once for a cookie."""
        now = time.monotonic()
        self._tickets = {ticket: entry for ticket, entry in self._tickets.items() if entry[1] > now}
        while len(self._tickets) >= MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = (access, now + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """Return the cookie for a ticket, which is then used up; None if there is no such ticket."""
        access, expires = self._tickets.pop(ticket, ("none", 0.0))
        if expires <= time.monotonic():
            return None
        text = f"{access}.{int(time.time()) + COOKIE_SECONDS}"
        return f"{text}.{self._signature(text)}"

    def set_cookie(self, value: str) -> str:
        """Return the header `Set-Cookie` for a cookie."""
        secure = "; Secure" if self.settings.base_url.startswith("https:") else ""
        return f"{self.cookie_name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}{secure}"

    def _limit(self, access: Access) -> Access:
        return "read" if self.settings.read_only and access == "write" else access

    def _access_of_token(self, token: str) -> Access:
        candidate = token.encode("utf-8", "surrogateescape")
        is_write = bool(self.tokens.write) and hmac.compare_digest(candidate, self.tokens.write.encode())
        is_read = hmac.compare_digest(candidate, self.tokens.read.encode())
        return "write" if is_write else "read" if is_read else "none"

    def _access_of_cookie(self, cookie: str) -> Access:
        text, _, signature = cookie.rpartition(".")
        if not text or not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return "none"
        access, _, expires = text.partition(".")
        if int(expires) < time.time():
            return "none"
        return "write" if access == "write" else "read"

    @property
    def form_token(self) -> str:
        """What a form of our own pages has in it: a page of another origin cannot read it, so it cannot send it."""
        return self._signature("form")

    def _signature(self, text: str) -> str:
        return hmac.new(self.tokens.write.encode(), text.encode(), hashlib.sha256).hexdigest()


def _token(authorization: str) -> str:
    """Return the token of a header: of `Bearer`, or the password of `Basic`; a user name alone counts as well."""
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() in ("bearer", "token"):
        return value
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, ValueError):
            user, _, password = base64.b64decode(value, validate=True).decode("utf-8", "surrogateescape").partition(":")
            return password or user
    return ""


# ---- Host and Origin


class HostCheck:
    """Which names a service answers to: a page whose name was turned into 127.0.0.1 has another one."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.names = {name.lower() for name in (*LOCAL_NAMES, *settings.allow_hosts)}
        self.any_address = is_wildcard(settings.host)
        if self.any_address:
            self.names.add(socket.gethostname().lower())
        else:
            self.names.add(settings.host.lower())
        if settings.base_url:
            self.names.add((urlsplit(settings.base_url).hostname or "").lower())

    def allows(self, header: str | None) -> bool:
        """True if a Host header names this service, with or without a port."""
        name = host_name(header or "")
        if not name:
            return False
        if name in self.names:
            return True
        if self.any_address:  # an address cannot be turned into another one
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(name)
                return True
        return False


def host_name(header: str) -> str:
    """Return the name or address of a Host header in lower case, without port and brackets; empty if malformed."""
    if any(character in header for character in "/@\\,? \t#"):
        return ""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
        return (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def is_foreign(headers: Headers, origins: Iterable[str]) -> bool:
    """True if a request comes from a page of another origin, or may do so."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if origin in origins:
        return False
    return urlsplit(origin).netloc.lower() != headers.get("host", "").lower() or not origin.startswith("http")


class SecurityMiddleware:
    """Refuse foreign hosts and cross-origin writes, and set the security headers of every answer."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self.app = app
        self.hosts = HostCheck(settings)
        self.origins = frozenset(settings.cors_origins)
        own = [settings.base_url.rstrip("/")] if settings.base_url else []  # a proxy may change the Host
        self.writing_origins = self.origins.union(own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(MutableHeaders(scope=message), origin)
            await send(message)

        problem = self._problem(scope, headers)
        if problem is not None:
            await problem.response()(scope, receive, send_with_headers)
        elif scope["method"] == "OPTIONS" and origin in self.origins and "access-control-request-method" in headers:
            await _preflight(send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def _problem(self, scope: Scope, headers: Headers) -> Problem | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.hosts.allows(hosts[0]):
            detail = "This service does not answer to that Host. Allow the name with --allow-host."
            return Problem(421, "HostNotAllowed", detail)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            detail = f"The headers have more than {MAX_HEADER_BYTES:,} bytes. Send a long text in the body."
            return Problem(431, "HeadersTooLarge", detail)
        if "transfer-encoding" in headers and "content-length" in headers:
            return Problem(400, "AmbiguousLength", "Send Content-Length or Transfer-Encoding, not both.")
        if "\x00" in scope["path"]:
            return Problem(400, "InvalidPath", "The path has a null character.")
        if scope["method"] not in SAFE_METHODS and is_foreign(headers, self.writing_origins):
            return Problem(403, "ForeignOrigin", "Pages of other origins cannot write here. Allow one with --cors.")
        return None

    def _add_headers(self, headers: MutableHeaders, origin: str | None) -> None:
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        if self.origins:
            headers.add_vary_header("Origin")
            if origin in self.origins:
                headers["Access-Control-Allow-Origin"] = str(origin)
                headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, if-none-match, if-modified-since, upload-offset",
        ),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
