"""Values computed from all runs of a home: once for each position of the index, and again in the background."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

CHEAP_SECONDS = 0.05
"""A value that takes less time is computed while the page waits."""
WAIT_SECONDS = 0.15
"""Time that a page waits for a newer value before it shows the old one."""
MAX_AGE_SECONDS = 10.0
"""A page never shows a value that was out of date for longer."""
MAX_VALUES = 64

Value = TypeVar("Value")


@dataclass
class _Entry:
    """A value with the position it is about, the time of the last page that found it current, and its cost."""

    value: Any
    position: str
    current_at: float
    seconds: float


class HomeCache:
    """Values by name. If the index has moved on and a value is costly, pages show the old one for some seconds."""

    def __init__(self, position: Callable[[], str]) -> None:
        self._position = position
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._pending: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="viewer")

    def get(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return a value; `compute` is called in this thread or in another one."""
        with self._lock:
            entry, position = self._entries.get(name), self._position()
            if entry is not None:
                self._entries.move_to_end(name)
                if entry.position == position:
                    entry.current_at = time.monotonic()
                    value: Value = entry.value
                    return value
        if entry is None or entry.seconds < CHEAP_SECONDS:
            return self._compute(name, compute)
        future = self._refresh(name, compute)
        is_recent = time.monotonic() - entry.current_at < MAX_AGE_SECONDS
        wait([future], WAIT_SECONDS if is_recent else None)
        newest: Value = future.result() if future.done() else entry.value
        return newest

    def prepare(self, work: Callable[[], object]) -> Future[object]:
        """Do some work in the background."""
        return self._pool.submit(work)

    def close(self) -> None:
        """End the thread; work that waits is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _refresh(self, name: str, compute: Callable[[], Value]) -> Future[Value]:
        with self._lock:
            future = self._pending.get(name)
            if future is None or future.done():
                future = self._pending[name] = self._pool.submit(self._compute, name, compute)
            return future

    def _compute(self, name: str, compute: Callable[[], Value]) -> Value:
        position, start = self._position(), time.monotonic()
        value = compute()
        end = time.monotonic()
        with self._lock:
            self._entries[name] = _Entry(value, position, end, end - start)
            self._entries.move_to_end(name)
            while len(self._entries) > MAX_VALUES:
                self._entries.popitem(last=False)
        return value
