"""Settings of a service: the home, the address, who may do what, and the limits of requests."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Access = Literal["none", "read", "write"]
"""What a request may do, or what an endpoint needs."""
DEFAULT_PORT = 8420
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of requests and of the queries that they start."""

    json_bytes: int = 8 << 20
    """A JSON body, after inflating."""
    rdf_bytes: int = 64 << 20
    """RDF that is loaded into a graph."""
    artifact_bytes: int = 16 << 30
    """One uploaded artifact."""
    disk_floor_bytes: int = 256 << 20
    """Uploads are refused (507) when less space than this is free."""
    header_seconds: float = 20.0
    """Time for the line and the headers of a request, from the connection or the first byte."""
    body_seconds: float = 60.0
    """Longest pause between two pieces of a body."""
    query_bytes: int = 1 << 20
    """The text of a query."""
    query_seconds: float = 30.0
    answer_seconds: float = 300.0
    """Time to send an answer, which a slow client cannot exceed."""
    query_memory_bytes: int = 2 << 30
    """Address space of a worker process."""
    idle_memory_bytes: int = 256 << 20
    """A worker process that has more memory than this after a query is replaced."""
    result_bytes: int = 1 << 30
    threads: int = 16
    """Threads that answer requests. More only wait for the interpreter's lock, and make indexing wait for it too."""
    workers: int = 2
    """Processes that execute ad-hoc queries, one query at a time each."""
    queue: int = 128
    """Queries that wait for a worker; more are refused (503)."""
    connections: int = 1000
    sse_connections: int = 500
    stop_seconds: float = 3.0
    """Time that open requests have to end when the service stops."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a service. The write token may also read."""

    read: str = field(repr=False)
    write: str = field(repr=False)


@dataclass(frozen=True)
class ServiceSettings:
    """What a service is started with."""

    home: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    socket: Path | None = None
    """A Unix socket, in place of an address."""
    no_token: bool = False
    """Let every process of this machine read and write; for loopback addresses only."""
    tokens: Tokens | None = None
    """By default the tokens in `home/service`, which are created at the first start."""
    allow_hosts: tuple[str, ...] = ()
    """Further names by which clients may call the service."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may read answers."""
    also_listen: tuple[int, ...] = ()
    """Further ports, such as 22000 for DfAnalyzer clients without DFA_URL."""
    base_url: str = ""
    """Address by which clients reach the service, if a proxy stands before it."""
    read_only: bool = False
    sync_seconds: float = 2.0
    """Time between two looks at the journals."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the service."""
        return self.socket is not None or is_loopback(self.host)

    @property
    def url(self) -> str:
        """The address of the service, without a slash at its end."""
        if self.base_url:
            return self.base_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """True if an address, or the name `localhost`, is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """True for an address that stands for all interfaces."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
