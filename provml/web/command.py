"""What `provml serve` does: check the settings, open the service, say where it is, and serve."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from provml.errors import FileFormatError
from provml.web import server
from provml.web.heap import bound_heap
from provml.web.security import has_tokens, read_or_create_tokens
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens

ADDRESS_FILE = "service/address.json"
"""Where a running service can be found: its address and process."""
START = "Start one with `provml serve`."
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@*\s]+", re.IGNORECASE)
"""What browsers send as the origin of a page: no path, and no asterisk for all."""


def run_service(
    home: Path, host: str, port: int, *, tokens: Tokens | None, say: Callable[[str], object], **options: Any
) -> None:
    """Serve a home until a signal."""
    settings = ServiceSettings(
        home,
        host=host,
        port=port,
        tokens=tokens,
        socket=options["socket"],
        also_listen=tuple(options["also_listen"]),
        allow_hosts=tuple(options["allow_host"]),
        cors_origins=tuple(origin.rstrip("/") for origin in options["cors"]),
        base_url=options["base_url"],
        read_only=options["read_only"],
        no_token=options["no_token"],
        limits=ServiceLimits(workers=options["workers"], query_seconds=options["timeout"]),
    )
    check(settings)
    bound_heap()
    sockets = server.bind(settings)
    if settings.socket is None:
        settings = replace(settings, port=sockets[0].getsockname()[1])
    with Service(settings) as service:
        address = home / ADDRESS_FILE
        _write_address(address, settings)
        try:
            server.serve(service, sockets, lambda: _announce(service, say))
        finally:
            _remove_address(address)


def check(settings: ServiceSettings) -> None:
    """Raise an error for settings that would let everybody in, or that no client can use."""
    parts = urlsplit(settings.base_url)
    if settings.base_url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/")):
        raise FileFormatError(
            f"--base-url is {settings.base_url}, and has to be an address without a path, such as https://host:8420",
            "Give the service a host name or a port of its own: its pages refer to each other from the root.",
            file="serve",
        )
    for origin in settings.cors_origins:
        if not ORIGIN.fullmatch(origin):
            raise FileFormatError(
                f"--cors is {origin}, and has to be an origin such as https://lab.example or http://localhost:3000",
                "Name each origin whose pages may read answers.",
                file="serve",
            )
    if settings.is_loopback:
        return
    if settings.no_token:
        raise FileFormatError(
            f"{settings.host} can be reached by other machines, and --no-token would let all of them in",
            "Leave out --no-token, or listen on 127.0.0.1.",
            file="serve",
        )
    if settings.tokens is None and not has_tokens(settings.home):
        raise FileFormatError(
            f"{settings.host} can be reached by other machines, and there is no token yet",
            "Set PROVML_WRITE_TOKEN and PROVML_READ_TOKEN, or start the service on 127.0.0.1 once, which creates both.",
            file="serve",
        )


def _announce(service: Service, say: Callable[[str], object]) -> None:
    settings = service.settings
    if settings.socket is not None:
        say(f"Serving {service.home} at unix:{settings.socket}")
        return
    say(f"Serving {service.home} at {settings.url}")
    if not settings.is_loopback:
        say("Other machines can reach this address, without encryption. Put a proxy with TLS before it.")
    if settings.no_token:
        say("Every process of this machine may read and write: --no-token.")
        return
    say(f"Browser: {settings.url}/login?ticket={service.guard.new_ticket()}  (works once)")
    if settings.tokens is None:
        say(f"Clients: the tokens are in {service.home / 'service'}")


def _write_address(path: Path, settings: ServiceSettings) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = {"socket": str(settings.socket)} if settings.socket is not None else {"url": settings.url}
    path.write_text(json.dumps({**place, "pid": os.getpid()}), encoding="utf-8")


def _remove_address(path: Path) -> None:
    """Remove the file with the address of this service; another service over the same home has written its own."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads(path.read_text(encoding="utf-8")).get("pid") == os.getpid():
            path.unlink()


def new_link(home: Path) -> str:
    """Return a new link for the browser from the service that runs over a home."""
    try:
        url = str(json.loads((home / ADDRESS_FILE).read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        raise _no_link(home, "no service runs over this home at an address", START) from None
    token = os.environ.get("PROVML_WRITE_TOKEN") or read_or_create_tokens(home).write
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = Request(f"{url}/api/v1/tickets", b"{}", headers, method="POST")
    try:
        with contextlib.closing(urlopen(request, timeout=10)) as response:
            ticket = json.load(response)["ticket"]
    except HTTPError as error:
        advice = "Set PROVML_WRITE_TOKEN to the token of the service."
        raise _no_link(home, f"the service at {url} gives no link (status {error.code})", advice) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise _no_link(home, f"no service answers at {url}", START) from None
    return f"{url}/login?ticket={ticket}"


def _no_link(home: Path, reason: str, advice: str) -> FileFormatError:
    return FileFormatError(reason, advice, file=str(home))
