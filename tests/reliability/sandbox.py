"""Run a function in a forked child with limits of time and memory, so that a crash of the engine is a result."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

SECONDS = 60
MEMORY_BYTES = 8 << 30


class Outcome(NamedTuple):
    """What a function returned, or how it failed: by an error, by a signal, or by the limit of time."""

    value: Any = None
    error: str = ""
    """Name of the class of the exception, or of the signal."""
    detail: str = ""
    """The traceback of the exception."""


def attempt(function: Callable[[], Any], *, seconds: int = SECONDS, memory_bytes: int = MEMORY_BYTES) -> Outcome:
    """Call a function in a forked child, and return its outcome. No store may be open in this process."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _work(function, write_end, seconds, memory_bytes)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status < 0:
        return Outcome(error=signal.Signals(-status).name)
    if not data:
        return Outcome(error=f"exit code {status}")
    return Outcome(*pickle.loads(data))


def _work(function: Callable[[], Any], write_end: int, seconds: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)  # ends the process even if the engine never returns
    try:
        outcome = Outcome(function())
    except BaseException as error:
        outcome = Outcome(None, type(error).__name__, traceback.format_exc())
    with os.fdopen(write_end, "wb") as pipe:
        pickle.dump(tuple(outcome), pipe)
    os._exit(0)  # without atexit functions and finalizers of the parent
