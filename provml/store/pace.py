"""A pace for bulk loading: nothing more is handed over while this process holds much more memory than before.

Oxigraph sorts what it is given in batches of a million triples, on several threads, and takes the next batch while
those are at work. One long load costs less than several (their files have to be merged again and again, so that the
cost grows faster than the data), but unpaced it takes 1.6 GB at ten million triples; paced, 1.0 GB and no more time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

MOST = 800 << 20
"""So many bytes more than at the start are held before the loader has to finish something."""
PATIENCE = 60.0
"""So many seconds later it is clear that the memory is somebody else's, who will not give it back."""
GLANCE = 0.02


def held() -> int | None:
    """The memory that this process holds now, in bytes; None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class Pace:
    """Waits, each time that more is asked for, until the loader has given back what it took."""

    def __init__(self, most: int | None = MOST, patience: float = PATIENCE) -> None:
        self._step = most or 0
        self._patience = patience
        start = held()
        self._mark = None if start is None or most is None else start + most

    @property
    def is_kept(self) -> bool:
        """Whether there is something to go by: a limit is wanted, and the memory of this process is known."""
        return self._mark is not None

    def keep(self) -> None:
        """Wait while too much is held, but not for ever: then the mark is set higher."""
        if self._mark is None:
            return
        late = time.monotonic() + self._patience
        while (held() or 0) > self._mark:
            if time.monotonic() > late:
                self._mark += self._step
                return
            time.sleep(GLANCE)
