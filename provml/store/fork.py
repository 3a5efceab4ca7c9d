"""Protect open Oxigraph stores from forked child processes.

Oxigraph's threads stay in the parent. A child that writes to the store destroys what the parent writes later, a child
that closes it blocks forever, and a child that only exits crashes in the engine's own clean-up (seen with 0.5.13). So a
child keeps the handle untouched for its whole life, and exits without that clean-up. The engine shares these threads
among all stores on the disk: a child of a process that ever opened one has none, and would block forever in its own
stores. It indexes in memory instead.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Any

_BACKENDS: weakref.WeakSet[Any] = weakref.WeakSet()
_PROCESSES: set[int] = set()
"""Processes, among this one and those that it was forked from, that opened a store on the disk."""


def watch(backend: Any) -> None:
    """Protect a backend (any object with a `_store`) in children that are forked from now on."""
    _BACKENDS.add(backend)


def has_no_threads() -> bool:
    """Return whether the engine's threads stayed in a parent, so that a store on the disk would block."""
    return bool(_PROCESSES) and os.getpid() not in _PROCESSES


def use_disk() -> None:
    """Note that this process opens a store on the disk."""
    _PROCESSES.add(os.getpid())


def _keep_handles() -> None:
    stores = [backend._store for backend in _BACKENDS if backend._store is not None]
    if not stores:
        return
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        for store in stores:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))
        libc = ctypes.CDLL(None)
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_handles)
