"""The heap of a service: few arenas, however many threads it has."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest

from provml.web.heap import MAX_HEAPS

PROGRAM = textwrap.dedent("""
    import ctypes, sys, threading
    from provml.web.heap import bound_heap

    assert bound_heap()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    barrier = threading.Barrier(24)

    def work():
        barrier.wait()
        for _ in range(200):
            libc.malloc(1000)
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    libc.fdopen.restype = ctypes.c_void_p
    file = libc.fdopen(1, b"w")
    libc.malloc_info(0, ctypes.c_void_p(file))
    libc.fflush(ctypes.c_void_p(file))
""")


FREE_MEMORY = textwrap.dedent("""
    import ctypes
    from pathlib import Path
    from provml.store.memory_throttle import release_freed_memory
    from provml.web.heap import bound_heap

    assert bound_heap()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    pieces = [libc.malloc(4000) for _ in range(20_000)]
    for piece in pieces:
        ctypes.memset(piece, 1, 4000)
    full = resident()
    for number, piece in enumerate(pieces):
        if number % 50:  # the pieces that stay in use hold the heap together
            libc.free(piece)
    assert full - resident() < 8e6
    release_freed_memory()
    assert full - resident() > 60e6
""")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_free_memory_between_pieces_in_use_is_given_back():
    subprocess.run([sys.executable, "-c", FREE_MEMORY], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_threads_share_few_heaps():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 1 <= len(re.findall("<heap nr=", done.stdout)) <= MAX_HEAPS
