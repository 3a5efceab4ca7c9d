"""Work that takes longer than a page may: it runs in a thread, and the page shows how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from provml.validation.report import ProgressCallback

MAX_JOBS = 200
"""Jobs whose results are kept."""


class LiveJob:
    """The latest result of some work, and the work that is under way. `position` is what the result is about."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error = ""
        self.position = ""
        self.finished: datetime | None = None
        self.seconds = 0.0
        self.share = 0.0
        self.future: Future[None] | None = None

    @property
    def is_running(self) -> bool:
        """True while the work is under way."""
        return self.future is not None and not self.future.done()

    def wait(self) -> None:
        """Wait until the work is done."""
        if self.future is not None:
            self.future.result()

    def run(self, work: Callable[[ProgressCallback], Any]) -> None:
        """Do the work."""
        began = datetime.now(UTC)
        try:
            self.result, self.error = work(self._on_progress), ""
        except Exception as error:  # the page shows it
            self.error = str(error)
        self.finished = datetime.now(UTC)
        self.seconds = (self.finished - began).total_seconds()

    def _on_progress(self, done: int, total: int, name: str) -> None:
        self.share = done / total if total else 0.0


class LiveJobs:
    """Jobs by name; one runs at a time."""

    def __init__(self) -> None:
        self._jobs: dict[str, LiveJob] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="viewer-job")

    def get(self, name: str) -> LiveJob | None:
        """Return the job of a name, if it was ever started."""
        return self._jobs.get(name)

    def start(self, name: str, position: str, work: Callable[[ProgressCallback], Any]) -> LiveJob:
        """Start a job, unless it is under way or its result is about the same position."""
        with self._lock:
            job = self._jobs.pop(name, None) or LiveJob()
            self._jobs[name] = job  # the last of all
            for old in list(self._jobs)[:-MAX_JOBS]:
                if not self._jobs[old].is_running:
                    del self._jobs[old]
            if not job.is_running and (job.position != position or job.error):
                job.position, job.share = position, 0.0
                job.future = self._pool.submit(job.run, work)
            return job

    def close(self) -> None:
        """End the thread; work that waits is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
