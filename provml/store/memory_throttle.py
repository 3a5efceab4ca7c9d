"""Limit memory use while bulk-loading triples into Oxigraph.

Oxigraph sorts triples in batches of one million on several threads, and accepts the next batch while earlier ones are
still being sorted. One long load is cheaper than several short ones (their files have to be merged again and again),
but without a limit it peaks at 1.6 GB for ten million triples. Waiting between chunks until memory use drops keeps the
peak at 1.0 GB at the same speed.

Memory that the loader has freed may stay with the process. So waiting ends when the loader has nothing left to do.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

MAX_GROWTH_BYTES = 800 << 20
"""Growth over the initial memory use, in bytes, from which the producer has to wait."""
TIMEOUT_SECONDS = 60.0
"""After this time the memory is not the loader's, and the limit is raised."""
POLL_SECONDS = 0.02
IDLE_SECONDS = 1.0
IDLE_SHARE = 0.05
"""A process that has used less than this share of a core for this time does nothing: its memory will not shrink."""
IDLE_STEPS = 4
"""Then the limit is raised by a fourth of the allowed growth."""


def rss_bytes() -> int | None:
    """Return the resident memory of this process in bytes, or None if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class MemoryThrottle:
    """Block the producer while this process uses more memory than allowed.

    `max_growth` is in bytes; None switches the throttle off.
    """

    def __init__(self, max_growth: int | None = MAX_GROWTH_BYTES, timeout: float = TIMEOUT_SECONDS) -> None:
        self._max_growth = max_growth or 0
        self._timeout = timeout
        initial = rss_bytes()
        self._limit = None if initial is None or max_growth is None else initial + max_growth

    @property
    def is_active(self) -> bool:
        """True if there is a limit and the system reports the memory of this process."""
        return self._limit is not None

    def wait(self) -> None:
        """Wait until memory use is below the limit. If that does not help, raise the limit and return."""
        if self._limit is None:
            return
        begin = since = time.monotonic()
        cpu = time.process_time()
        while (rss_bytes() or 0) > self._limit:
            now = time.monotonic()
            if now - begin > self._timeout:
                self._limit += self._max_growth
                return
            if now - since > IDLE_SECONDS:
                if time.process_time() - cpu < IDLE_SHARE * (now - since):
                    self._limit += self._max_growth // IDLE_STEPS
                    return
                since, cpu = now, time.process_time()
            time.sleep(POLL_SECONDS)
