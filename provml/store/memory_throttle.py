"""Limit memory use while bulk-loading triples into Oxigraph.

Oxigraph sorts triples in batches of one million on several threads, and accepts the next batch while earlier ones are
still being sorted. One long load is cheaper than several short ones (their files have to be merged again and again),
but without a limit it peaks at 1.6 GB for ten million triples. Waiting between chunks until memory use drops keeps the
peak below 1.5 GB. A lower limit would leave no room for a batch that is read while another one is sorted.

Memory that the loader has freed stays with the process until it is given back to the system. So it is given back after
each load, and again and again while the producer waits: otherwise the producer waits for memory that nobody uses.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from pathlib import Path

MAX_GROWTH_BYTES = 300 << 20
"""Growth over the initial memory use, in bytes, from which the producer has to wait..."""
MIN_LIMIT_BYTES = 950 << 20
"""...if the process uses more than this."""
TIMEOUT_CPU_SECONDS = 30.0
"""After so much CPU time of this process the memory is not the loader's, and the limit is raised. On a busy machine a
million triples may be sorted for minutes."""
POLL_SECONDS = 0.02
RELEASE_SECONDS = 0.25
"""Time between two releases of freed memory while the producer waits. One takes about 0.05 s."""
IDLE_SECONDS = 0.5
"""If no other thread of this process was at work for this time, its memory will not shrink."""
IDLE_STEPS = 4
"""Then the limit is raised by a fourth of the allowed growth."""


def rss_bytes() -> int | None:
    """Return the resident memory of this process in bytes, or None if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def is_at_work() -> bool:
    """Return whether another thread of this process runs, waits for a core, or waits for the disk."""
    own = threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, IndexError):  # the thread has ended
            state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
            if state in (b"R", b"D") and int(task.name) != own:
                return True
    return False


def release_freed_memory() -> None:
    """Give memory that was freed back to the system: the allocator of glibc keeps hundreds of megabytes otherwise."""
    if sys.platform.startswith("linux"):
        import ctypes  # not at the top: most commands load little

        with contextlib.suppress(OSError, AttributeError):  # musl has no `malloc_trim`
            ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


class MemoryThrottle:
    """Block the producer while this process uses more memory than allowed.

    That is `min_limit`, or `max_growth` more than it uses now; in bytes. No growth switches the throttle off.
    """

    def __init__(
        self,
        max_growth: int | None = MAX_GROWTH_BYTES,
        timeout: float = TIMEOUT_CPU_SECONDS,
        *,
        min_limit: int = 0,
    ) -> None:
        self._max_growth = max_growth or 0
        self._timeout = timeout
        initial = rss_bytes()
        self._last_release = -math.inf
        self._limit = None if initial is None or max_growth is None else max(initial + max_growth, min_limit)

    @property
    def is_active(self) -> bool:
        """True if there is a limit and the system reports the memory of this process."""
        return self._limit is not None

    def wait(self) -> None:
        """Wait until memory use is below the limit. If that does not help, raise the limit and return."""
        if self._limit is None:
            return
        begin, busy = time.process_time(), time.monotonic()
        while (rss_bytes() or 0) > self._limit:
            now = time.monotonic()
            if time.process_time() - begin > self._timeout:
                self._limit += self._max_growth
                return
            if now - self._last_release > RELEASE_SECONDS:
                release_freed_memory()
                self._last_release = time.monotonic()
                continue
            if is_at_work():
                busy = now
            elif now - busy > IDLE_SECONDS:
                self._limit += self._max_growth // IDLE_STEPS
                return
            time.sleep(POLL_SECONDS)
