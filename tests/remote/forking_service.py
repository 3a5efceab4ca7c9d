"""Start a service again and again, quickly: everything is imported once, and each service is a fork of this process.

    python forking_service.py WRITE_TOKEN

Each line on standard input, a port, a time limit and a home, starts a service; its process id is printed when it
answers. SIGUSR2 lets no file of a service grow beyond 100 kB, as a full disk does; SIGUSR1 ends that.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import uvicorn

from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens

FULL_BYTES = 100_000


class Announced(uvicorn.Server):
    """A server that writes to a pipe when it answers."""

    pipe = -1

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        os.write(self.pipe, b".")


def serve(home: Path, port: int, seconds: float, pipe: int) -> None:
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGUSR1, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, unlimited))
    signal.signal(signal.SIGUSR2, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, unlimited[1])))
    limits = ServiceLimits(disk_floor_bytes=0, query_seconds=seconds)
    tokens = Tokens("read-token-of-the-tests", sys.argv[1])
    service = Service(ServiceSettings(home, port=port, tokens=tokens, limits=limits, sync_seconds=0.2))
    server = Announced(uvicorn.Config(create_app(service), port=port, log_level="critical", lifespan="on"))
    server.pipe = pipe
    server.run()


def main() -> None:
    children: dict[str, int] = {}
    for line in sys.stdin:
        port, seconds, home = line.rstrip("\n").split(" ", 2)
        with contextlib.suppress(KeyError, ChildProcessError):
            os.waitpid(children.pop(port), 0)  # a killed process may have its port a while longer
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        ready, pipe = os.pipe()
        child = os.fork()
        if not child:
            os.close(ready)
            try:
                serve(Path(home), int(port), float(seconds), pipe)
            finally:
                os._exit(0)
        children[port] = child
        os.close(pipe)
        started = os.read(ready, 1)
        os.close(ready)
        print(child if started else -1, flush=True)


if __name__ == "__main__":
    main()
