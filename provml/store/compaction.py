"""Merge the files of an index in a thread, so that the first answers after a large load do not wait for it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyoxigraph as ox

from provml.store import fork

MARKER = "uncompacted"
"""A file in the folder of an index that has doubled and is not compacted yet. Snapshots do not have it: compacting a
private copy takes longer than the questions that the copy is made for."""
SPACE_FACTOR = 3
"""Free space that a compaction needs, as a multiple of the files: they are written again, without compression."""


def has_space(store: Path, size: int) -> bool:
    """Return whether the disk of a store has space to compact files of a size.

    The engine would end in silence where it has none, after it has filled the disk.
    """
    return shutil.disk_usage(store).free >= SPACE_FACTOR * size


class Compaction:
    """A thread that compacts an Oxigraph store. Queries and loads go on meanwhile.

    The thread holds a reference to the store, which is not released before it has ended.
    """

    def __init__(self, store: ox.Store) -> None:
        self._error: Exception | None = None
        self._store: ox.Store | None = store
        self._ended = threading.Event()
        fork.watch(self)  # the store may be garbage otherwise
        self._thread = threading.Thread(target=self._run, args=(store,), name="provml-compaction", daemon=True)
        self._thread.start()

    def _run(self, store: ox.Store) -> None:
        try:
            store.optimize()
            store.flush()  # raises what was wrong: optimize() only ends before it is done
        except Exception as error:  # damaged files, a full disk
            self._error = error.with_traceback(None)  # its frames hold the store
        finally:
            self._store = None
            self._ended.set()

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
