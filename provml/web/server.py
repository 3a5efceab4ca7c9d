"""Run a service: bind its addresses, serve until a signal, and stop within seconds without leaving a process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from provml.errors import FileFormatError
from provml.web.app import create_app
from provml.web.header_timeout import limit_header_time
from provml.web.security import MAX_HEADER_BYTES
from provml.web.service import Service
from provml.web.settings import ServiceSettings

BACKLOG = 512
KEEP_ALIVE_SECONDS = 30


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(settings: ServiceSettings) -> list[socket.socket]:
    """Return listening sockets for the addresses of a service."""
    if settings.socket is not None:
        return [_unix_socket(settings.socket)]
    sockets = []
    try:
        for port in (settings.port, *settings.also_listen):
            sockets.append(_tcp_socket(settings.host, port))
    except OSError as error:
        for bound in sockets:
            bound.close()
        reason = f"cannot listen on {settings.host}:{port} ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Choose another address with --host and --port.", file="serve") from error
    return sockets


def _tcp_socket(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket that only the owner can use; replace the file of a service that is gone."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileFormatError("it is not a socket", "Choose another path.", file=str(path))
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FileFormatError("a service listens there already", "Choose another path.", file=str(path))
    bound = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        reason = f"cannot create the socket ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Choose another path.", file=str(path)) from error
    finally:
        os.umask(mask)
    return bound


def serve(service: Service, sockets: list[socket.socket], on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` is called when requests are answered."""
    settings = service.settings
    config = uvicorn.Config(
        create_app(service),
        http=limit_header_time(settings.limits.header_seconds),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=settings.limits.connections,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.limits.stop_seconds)),
        backlog=BACKLOG,
        ws="none",
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(_Server(config), service, sockets, on_ready))
    if settings.socket is not None:
        settings.socket.unlink(missing_ok=True)


async def _serve(server: _Server, service: Service, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        service.is_stopping = True  # ends live streams at once
        service.stopping.set()
        service.start_task(service.pool.close(), "close the pool")  # ends queries at once
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    running = asyncio.create_task(server.serve(sockets))
    while not server.started and not running.done():
        await asyncio.sleep(0.005)
    if server.started:
        on_ready()
    await running
    logging.getLogger("provml.web").info("stopped")
