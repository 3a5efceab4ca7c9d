"""Services in processes of their own, which tests kill and start again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

TOKEN = "write-token-of-the-tests"


UNASSIGNED_PORTS = range(20_000, 32_000)
"""Ports that no system gives to clients: a service can be started again on its port at any time."""


def free_port() -> int:
    while True:
        with socket.socket() as server, contextlib.suppress(OSError):
            server.bind(("127.0.0.1", random.choice(UNASSIGNED_PORTS)))
            return int(server.getsockname()[1])


class ServiceParent:
    """The process that services are forked from: it imports everything once."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("forking_service.py")), TOKEN]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )

    def start(self, home: Path, port: int, query_seconds: float = 30.0) -> int:
        """Start a service, wait until it answers, and return its process id."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{port} {query_seconds} {home}\n")
        pid = int(self.process.stdout.readline())
        assert pid > 0, "the service did not start"
        return pid

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


class ServiceProcess:
    """A service over a home that can be killed and started again on the same port."""

    def __init__(self, parent: ServiceParent, home: Path, *, query_seconds: float = 30.0) -> None:
        self.home = home
        self.query_seconds = query_seconds
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid = 0
        self._parent = parent

    def start(self) -> None:
        """Start the service, and wait until it answers."""
        self.pid = self._parent.start(self.home, self.port, self.query_seconds)

    def kill(self) -> None:
        """Kill the service, as `kill -9` does."""
        pid, self.pid = self.pid, 0
        if pid:
            os.kill(pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the service."""
        os.kill(self.pid, number)


def wait_until(condition: object, seconds: float = 30.0) -> None:
    """Wait until a function returns something true."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
