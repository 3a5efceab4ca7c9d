"""Merge the files of an index in a thread, so that the first answers after a large load do not wait for it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
from pathlib import Path

import pyoxigraph as ox

from provml.store import fork

MARKER = "uncompacted"
"""A file in the folder of an index that has doubled and is not compacted yet. Snapshots do not have it: compacting a
private copy takes longer than the questions that the copy is made for."""
LOGGED_ERROR = re.compile(rb"Compaction error: ([^\n]*)")
LOG_BYTES = 1 << 20
"""Free space with which the engine can certainly write to its log."""
SPACE_FACTOR = 3
"""Free space that a compaction needs, as a multiple of the files: they are written again, without compression."""


def has_space(store: Path, size: int) -> bool:
    """Return whether the disk of a store has space to compact files of a size.

    The engine would end in silence where it has none, after it has filled the disk.
    """
    return shutil.disk_usage(store).free >= SPACE_FACTOR * size


def _size(path: Path | None) -> int:
    with contextlib.suppress(OSError):
        return 0 if path is None else path.stat().st_size
    return 0


class Compaction:
    """A thread that compacts an Oxigraph store. Queries and loads go on meanwhile.

    The thread holds a reference to the store, which is not released before it has ended. `folder` is that of its files.
    """

    def __init__(self, store: ox.Store, folder: Path | None = None) -> None:
        self._log = None if folder is None else folder / "LOG"
        self._log_start = _size(self._log)
        self._error: Exception | None = None
        self._store: ox.Store | None = store
        self._ended = threading.Event()
        fork.watch(self)  # the store may be garbage otherwise
        self._thread = threading.Thread(target=self._run, args=(store,), name="provml-compaction", daemon=True)
        self._thread.start()

    def _run(self, store: ox.Store) -> None:
        try:
            store.optimize()
            store.flush()  # raises what is damaged: optimize() only ends before it is done
            self._check_log()
        except Exception as error:  # damaged files, a full disk
            self._error = error.with_traceback(None)  # its frames hold the store
        finally:
            self._store = None
            self._ended.set()

    def _check_log(self) -> None:
        """Note an error if the engine has given up, as on a disk that was filled meanwhile: only its log has that.

        A disk that is still full may have had no space for the log. A compaction that was done ends at once when it is
        repeated.
        """
        if self._log is None:
            return
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(self._log_start)
            if (failure := LOGGED_ERROR.search(file.read())) is not None:
                number = errno.ENOSPC if b"No space left" in failure[1] else errno.EIO
                self._error = OSError(number, os.strerror(number))
            elif shutil.disk_usage(self._log.parent).free < LOG_BYTES:
                self._error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @property
    def is_running(self) -> bool:
        """True until the files are merged, or the engine has given up."""
        return not self._ended.is_set()

    def wait(self) -> None:
        """Wait for the end. Raise what the engine raised."""
        self._ended.wait()  # a thread counts as dead after Ctrl-C in `join`, in Python 3.11
        self._thread.join()
        if self._error is not None:
            raise self._error
