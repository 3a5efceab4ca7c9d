"""Where a writer puts its journal: directory and header, attempts to open it, and a backlog until it is open."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec

from provml.journal import events, process
from provml.journal.events import encode
from provml.journal.file import JournalFile, open_journal
from provml.journal.segments import is_packed
from provml.recording import ids
from provml.recording.context import Limits


class JournalTarget:
    """A journal that may not be open yet. `error` says why it could not be opened."""

    def __init__(self, folder: Path, header: events.Header, limits: Limits) -> None:
        self.folder = folder
        self.header = header
        self.error: Exception | None = None
        self.backlog: list[bytes] = []
        self.has_kept = False
        """Whether the backlog took the last line that could not be written."""
        self._limits = limits
        self._last_attempt = 0.0
        self._is_deleted = False

    def claim_folder(self) -> None:
        """Create the directory of a new run; draw another run id if another process has drawn the same one."""
        with contextlib.suppress(OSError):  # `open` reports why there is no directory
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(100):
                try:
                    self.folder.mkdir()
                    break
                except FileExistsError:
                    self.header = msgspec.structs.replace(self.header, run=ids.new_run_id())
                    self.folder = self.folder.parent / self.header.run

    def open(self) -> JournalFile | None:
        """Create the journal and write header and backlog; None if that failed. A name that is taken is replaced."""
        self._last_attempt = time.monotonic()
        header = self.header
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                if is_packed(self.folder / f"{header.writer}.jsonl"):
                    raise FileExistsError(header.writer)
                file = open_journal(self.folder / f"{header.writer}.jsonl")
            except FileExistsError:
                header = msgspec.structs.replace(header, writer=ids.new_writer_id())
                file = open_journal(self.folder / f"{header.writer}.jsonl")
            try:
                file.append(b"".join([encode(header), *self.backlog]))
            except BaseException:
                file.abandon()
                file.path.unlink(missing_ok=True)
                raise
        except Exception as error:
            self.error = error
            return None
        self.header, self.error, self.has_kept = header, None, False
        self.backlog.clear()
        return file

    def for_child(self) -> JournalTarget:
        """Return the target of a forked child: a journal of its own, whose parent is this one."""
        return JournalTarget(self.folder, self.header, self._limits)

    def identify_child(self) -> None:
        """Put this process, a forked child, into the header."""
        begin = {"writer": ids.new_writer_id(), "time": time.time(), "main": False, "parent": self.header.writer}
        identity = {"pid": os.getpid(), "start_ticks": process.start_ticks(), "pid_namespace": process.namespace()}
        self.header = msgspec.structs.replace(self.header, **begin, **identity)

    def identify_successor(self) -> None:
        """Give the header of this journal, which continues another one of this process, a name and a time of its own.

        It inherits what the other journal defined, as that of a forked child does.
        """
        begin = {"writer": ids.new_writer_id(), "time": time.time(), "parent": self.header.writer}
        self.header = msgspec.structs.replace(self.header, **begin)

    def mark_deleted(self, error: Exception) -> None:
        """Give up: the journal was deleted."""
        self.error, self._is_deleted = error, True

    @property
    def can_retry(self) -> bool:
        """True if the last attempt failed and another may succeed."""
        return self.error is not None and not self._is_deleted

    @property
    def is_retry_due(self) -> bool:
        """True if it is time for another attempt."""
        return self.can_retry and time.monotonic() - self._last_attempt >= self._limits.retry_seconds

    def keep(self, line: bytes) -> None:
        """Keep a line for a later attempt, so that a home that appears late gets the run from its beginning."""
        self.has_kept = self.can_retry and len(self.backlog) < self._limits.max_backlog
        if self.has_kept:
            self.backlog.append(line)
