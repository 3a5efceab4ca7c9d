"""What a fork does to open stores: the child must not touch them, not even to close them.

Oxigraph's threads stay with the parent. A child that writes destroys what the parent writes later, one that closes the
store waits for ever, and one that only ends dies of a fault in the engine's own clean-up (tried with 0.5.13). So the
child keeps the handle for good, untouched, and leaves without that clean-up.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Any

_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(index: Any) -> None:
    """Guard an index (anything with a `_store`) in children that are forked from now on."""
    _OPEN.add(index)


def _guard() -> None:
    stores = [index._store for index in _OPEN if index._store is not None]
    if not stores:
        return
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        for store in stores:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))
        libc = ctypes.CDLL(None)
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_guard)
