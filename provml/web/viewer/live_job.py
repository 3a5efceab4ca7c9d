"""Work that takes longer than a page may: it runs in a thread, and the page shows how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from provml.validation.report import ProgressCallback


class LiveJob:
    """The latest result of some work, and the work that is under way."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error = ""
        self.finished: datetime | None = None
        self.seconds = 0.0
        self.share = 0.0
        self._lock = threading.Lock()
        self._future: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="viewer-job")

    @property
    def is_running(self) -> bool:
        """True while the work is under way."""
        return self._future is not None and not self._future.done()

    def start(self, work: Callable[[ProgressCallback], Any]) -> None:
        """Start the work unless it is under way; `work` gets a function to which it reports its progress."""
        with self._lock:
            if not self.is_running:
                self.share = 0.0
                self._future = self._pool.submit(self._run, work)

    def wait(self) -> None:
        """Wait until the work is done."""
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        """End the thread; work that is under way goes on to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, work: Callable[[ProgressCallback], Any]) -> None:
        began = datetime.now(UTC)
        try:
            self.result, self.error = work(self._on_progress), ""
        except Exception as error:  # the page shows it
            self.error = str(error)
        self.finished = datetime.now(UTC)
        self.seconds = (self.finished - began).total_seconds()

    def _on_progress(self, done: int, total: int, name: str) -> None:
        self.share = done / total if total else 0.0
