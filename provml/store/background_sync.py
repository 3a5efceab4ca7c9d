"""Sync the index every few seconds from a thread of this process.

A training that indexes itself pays for it: the thread takes the interpreter's lock while it maps events. A query from
another process costs the training nothing. Use this where there is no other process: in a notebook, or on a machine
that is released when the training ends.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

logger = logging.getLogger("provml")


class BackgroundSync:
    """Call `sync` every `every` seconds until `stop`, and once more then. Repeated errors are logged once."""

    def __init__(self, sync: Callable[[], object], every: float) -> None:
        self._sync = sync
        self._every = max(float(every), 0.01)
        self._stopped = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="provml-index", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Sync one last time and end the thread. Does nothing in a forked child, which has no such thread."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._sync_once()
        self._sync_once()

    def _sync_once(self) -> None:
        try:
            self._sync()
        except Exception as error:  # a full disk, a closed store: the journals are still complete
            if not self._is_failing:
                logger.warning(
                    "provml: indexing failed (%s: %s). The journals are complete.", type(error).__name__, error
                )
            self._is_failing = True
        else:
            self._is_failing = False
