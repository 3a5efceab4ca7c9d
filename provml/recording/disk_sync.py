"""Background thread of a writer: sync and seal the journal, keep the heartbeat, notice that the file was deleted."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Protocol

from provml.journal.file import JournalFile
from provml.journal.seals import RunningSeal
from provml.recording.context import Limits


class SyncOwner(Protocol):
    """The writer that a `DiskSync` reports to."""

    def on_heartbeat(self) -> None:
        """Write what is due."""

    def on_deleted(self, file: JournalFile) -> None:
        """Handle that the journal was deleted."""

    def on_sync_error(self, error: Exception) -> None:
        """Handle an error of the background thread."""

    def on_release_error(self, error: Exception, file: JournalFile) -> None:
        """Handle that the complete journal could not be synced to the disk, before it is closed."""


class DiskSync:
    """Syncs one journal file until `ended` is set, then closes it. Set `dirty` after each write."""

    def __init__(self, file: JournalFile, ended: threading.Event, owner: SyncOwner, limits: Limits) -> None:
        self.dirty = True
        self._file = file
        self._seal = RunningSeal(file)
        self._ended = ended
        self._owner = owner
        self._limits = limits
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. If the system has no more threads, the kernel decides when to write to the disk."""
        with contextlib.suppress(OSError):
            self._seal.begin()
        thread = threading.Thread(target=self._run, name="provml-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return
        self._thread = thread

    def close(self) -> None:
        """Wait for the thread to close the file, after `ended` was set; close it here if there is no thread."""
        if self._thread is not None:
            self._thread.join(self._limits.close_seconds)
        else:
            self._close_file()

    def _run(self) -> None:
        last_heartbeat = time.monotonic()
        while not self._ended.wait(self._limits.sync_seconds):
            try:
                if self._file.is_deleted():
                    self._owner.on_deleted(self._file)
                    break
                if self.dirty:
                    self.dirty = False
                    self._file.sync()
                    self._update_seal()
                if time.monotonic() - last_heartbeat > self._limits.heartbeat_seconds:
                    last_heartbeat = time.monotonic()
                    self._file.touch()
                    self._owner.on_heartbeat()
            except Exception as error:
                self._owner.on_sync_error(error)
        self._close_file()

    def _close_file(self) -> None:
        try:
            self._file.release()
        except Exception as error:
            self._owner.on_release_error(error, self._file)
        finally:
            self._close_seal()
            self._file.abandon()

    def _update_seal(self) -> None:
        """Keep the running digest. A journal without a seal is complete all the same, and `provml verify` names it."""
        with contextlib.suppress(OSError):
            self._seal.update()

    def _close_seal(self) -> None:
        with contextlib.suppress(OSError):
            self._seal.close()
