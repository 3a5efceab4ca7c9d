"""Identify a process: its machine, its start time, and whether it is still alive."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

HEARTBEAT_SECONDS = 60.0
"""Interval of the heartbeat of a process that records but has nothing to write."""


def host() -> str:
    """Return the name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def user_name() -> str:
    """Return the name of the user that runs this process; its number if it has no name."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except ImportError:  # not a POSIX system
        return os.environ.get("USERNAME", "")
    except KeyError:  # a container without an entry for this user
        return os.environ.get("USER") or f"user {os.geteuid()}"


def boot_id() -> str:
    """Return the id of this boot of the machine: process ids are unique within it; empty if the system has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def namespace() -> str:
    """Return the process id namespace (a container has its own); empty if the system has none."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # a name, not a path
    return ""


def start_ticks(pid: int | None = None) -> int:
    """Return the start time of a process, by default this one, in clock ticks since boot; 0 if it is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_stat_fields("self" if pid is None else str(pid))[19])
    return 0


def parent(pid: int) -> int:
    """Return the id of the parent of a process; 0 if it is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_stat_fields(pid)[1])
    return 0


def has_variable(pid: int, name: str) -> bool:
    """Return whether a process was started with an environment variable; False if that is not known."""
    with contextlib.suppress(OSError):
        return f"\0{name}=".encode() in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    return False


def is_alive(pid: int, since: float, ticks: int = 0) -> bool:
    """Return whether the process that ran at the time `since` is alive, and its id was not taken by another process.

    `ticks` are its `start_ticks`, if known: they do not depend on the time of day, which may be set.
    """
    try:
        fields = _stat_fields(pid)
    except OSError:
        return not Path("/proc/self/stat").exists() and _answers_signal(pid)
    if fields[0] in "ZX":  # a zombie, or dead
        return False
    with contextlib.suppress(OSError, ValueError, IndexError):
        if ticks:
            return int(fields[19]) == ticks
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        started = time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return started <= since + 2.0
    return True


def _answers_signal(pid: int) -> bool:
    """Return whether a process exists, on a system without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _stat_fields(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
