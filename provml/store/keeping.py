"""Keeping up: the journals taken in every few seconds by a thread of this process, where that is asked for.

A training that indexes itself pays for it (the thread takes the interpreter's lock while it lifts); asking from
another process costs the training nothing. This is for where there is no other process: a notebook, a machine that is
let go when the training ends.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

logger = logging.getLogger("provml")


class KeepingUp:
    """Syncs until it is told to stop, and once more then; a context manager. What goes wrong is logged once."""

    def __init__(self, sync: Callable[[], object], every: float) -> None:
        self._sync = sync
        self._every = max(float(every), 0.01)
        self._stopped = threading.Event()
        self._is_told = False
        self._thread = threading.Thread(target=self._keep_up, name="provml-index", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take in what is left, and end. In a forked child, which has no such thread, there is nothing to do."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._thread.join()

    def _keep_up(self) -> None:
        while not self._stopped.wait(self._every):
            self._take_in()
        self._take_in()

    def _take_in(self) -> None:
        try:
            self._sync()
        except Exception as error:  # a full disk, a store that was closed: the journals still have everything
            if not self._is_told:
                logger.warning(
                    "provml could not index: %s: %s; the journals have everything", type(error).__name__, error
                )
            self._is_told = True
        else:
            self._is_told = False
