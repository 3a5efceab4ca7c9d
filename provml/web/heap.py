"""Bounds for the heap of the C library, so that a service under load gives memory back that it has freed.

By default glibc gives up to eight heaps per processor to the threads of a process, and each of them retains freed
pieces. Under 200 clients these made up half of the memory of a service and grew with the number of requests. Indexing
many journals at once leaves freed pieces between those in use, which the C library gives back only on request.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

MAX_HEAPS = 2
LARGE_BYTES = 128 << 10
"""Pieces of this size are mapped one by one, and free memory of this size at the end of a heap is given back."""
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Numbers of glibc's settings, from `malloc.h`."""
ENVIRONMENT = {
    "MALLOC_ARENA_MAX": str(MAX_HEAPS),
    "MALLOC_TRIM_THRESHOLD_": str(LARGE_BYTES),
    "MALLOC_MMAP_THRESHOLD_": str(LARGE_BYTES),
}
"""The same settings for a process that is started; other C libraries ignore them."""


def bound_heap() -> bool:
    """Set the bounds for this process, before it starts threads; return whether its C library has them."""
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError):  # musl has no `mallopt`
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((ARENA_MAX, MAX_HEAPS), (TRIM_THRESHOLD, LARGE_BYTES), (MMAP_THRESHOLD, LARGE_BYTES))
        return [int(mallopt(number, value)) for number, value in settings] == [1, 1, 1]
    return False
