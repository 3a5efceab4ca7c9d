"""Who a process is: the start of the machine that its number belongs to, and whether it still lives."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


def boot_id() -> str:
    """What tells this start of the machine from others, so that a process id means something."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def is_alive(pid: int, since: float) -> bool:
    """Whether the process that wrote at a time is still there; one that was started later is another."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    if fields[0] in "ZX":
        return False
    with contextlib.suppress(OSError, ValueError, IndexError):
        up = float(Path("/proc/uptime").read_text().split()[0])
        started = time.time() - up + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return started <= since + 2.0
    return True
