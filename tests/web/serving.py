"""A real service in a process of its own, on a free port, and a client that sends exactly what it is told to."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")


class Answer(NamedTuple):
    """An answer: its status, its headers in lower case, its body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Server:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Send a request on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def children(self) -> list[int]:
        """Return the processes that the service started and that are alive."""
        return children_of(self.process.pid)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@contextlib.contextmanager
def running(home: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a service over a home, and stop it at the end of the block."""
    command = [sys.executable, "-m", "provml", "serve", "--home", str(home), *options]
    if "--port" not in options and "--socket" not in options:
        command += ["--port", "0"]
    log = home.parent / f"{home.name}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **(env or {})}
        )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        match = re.search(r" at (\S+)", first)
        assert match, f"no address in {first!r}\n{log.read_text()}"
        yield Server(process, match[1], log)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
        process.stdout.close()
