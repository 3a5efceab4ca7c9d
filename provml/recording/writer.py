"""The writer of a journal: one per process and run, shared by its threads, replaced in a forked child."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from provml.journal import events
from provml.journal.batch_buffer import BatchBuffer, BufferOwner
from provml.journal.events import encode, encode_json
from provml.journal.file import JournalFile, MappedJournalFile
from provml.journal.redaction import REDACTED_EVENTS, redact_event
from provml.recording.context import CONTEXT, Limits
from provml.recording.disk_sync import DiskSync
from provml.recording.error_counter import ErrorCounter
from provml.recording.exit_status import status_of_exit
from provml.recording.journal_target import JournalTarget

if TYPE_CHECKING:
    from provml.remote.shipper import Destination

RUN_ENDED = "The run has ended; nothing more is recorded. To continue it, pass its id to provml.record(…, run=…)."


class JournalWriter:
    """Appends events to the journal of this process. An error is counted and logged once, or raised if `strict`."""

    def __init__(
        self,
        folder: Path,
        header: events.Header,
        *,
        strict: bool = False,
        is_new: bool = False,
        limits: Limits | None = None,
        destination: Destination | None = None,
        identify: Callable[[events.Header], None] | None = None,
        end_sections: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        self.strict = strict
        self._identify = identify
        """Completes the header before the journal is opened, with the first event."""
        self._end_sections = end_sections
        """Ends what is open in the run, with the exception that ends the process."""
        self._destination = destination
        self._limits = limits or CONTEXT.limits
        self._reset(JournalTarget(folder, header, self._limits))
        CONTEXT.writers.add(self)
        if is_new:
            self._target.claim_folder()
        if identify is None:
            self._open()
        if self._target.error is not None:
            self.report_error(self._target.error)

    def _reset(self, target: JournalTarget) -> None:
        """Start as in a new process: no file, no errors, no waiting events."""
        self.lock = threading.RLock()
        self._target = target
        self._errors = ErrorCounter(strict=self.strict)
        self._file: JournalFile | None = None
        self._sync: DiskSync | None = None
        self._buffer: BatchBuffer | None = None
        self._buffer_failed = False
        self._ended = threading.Event()
        self._is_forked = False  # a forked child opens its journal with its first event
        self.is_suspended = False
        """Whether the journal has an end, and the next event continues the run in another journal."""
        self._is_writing = False
        self._pending: list[bytes] = []  # events of signal handlers that interrupted a write

    @property
    def header(self) -> events.Header:
        """The first event of the journal."""
        return self._target.header

    @property
    def folder(self) -> Path:
        """Directory of the run."""
        return self._target.folder

    @property
    def suffix(self) -> str:
        """Suffix of the locations of this writer; empty for the main one."""
        with self.lock:
            self._open_pending()
        return events.writer_suffix(self.header.writer)

    @property
    def has_ended(self) -> bool:
        """True after `close`."""
        return self._ended.is_set() and not self.is_suspended

    def _open(self) -> None:
        file = self._target.open()
        if file is None:
            return
        self._file = file
        self._sync = DiskSync(file, self._ended, self, self._limits)
        self._write_error_count()
        if "multiprocessing.util" in sys.modules:
            self._watch_worker()
        self._sync.start()
        if self._destination is not None:
            self._attach(self._destination)

    def _attach(self, destination: Destination) -> None:
        """Have the run shipped to a service by a thread."""
        from provml.remote.shipper import attach  # not at the top: most recordings need no HTTP

        try:
            attach(self.folder, destination)
        except Exception as error:
            self.report_error(error)

    # ---- child processes

    def after_fork(self) -> None:
        """Let go of the parent's files in a forked child."""
        file, buffer, has_ended = self._file, self._buffer, self.has_ended
        self._reset(self._target.for_child())
        self._is_forked = not has_ended
        if buffer is not None:
            buffer.abandon()
        if has_ended:
            self._ended.set()
        if file is not None:
            with contextlib.suppress(OSError, ValueError, BufferError):
                file.abandon()

    def _open_pending(self) -> None:
        """Open the journal of a child process, or the next one of a run that was suspended."""
        if self._identify is not None:
            identify, self._identify = self._identify, None
            identify(self.header)
            self._open()
        elif self._is_forked:
            self._is_forked = False
            self._target.identify_child()
            self._open()
        elif self.is_suspended:
            lock, target = self.lock, self._target.for_child()
            target.identify_successor()
            self._reset(target)
            self.lock = lock  # this thread holds it
            self._open()

    def _watch_worker(self) -> None:
        """End the sections and the journal with a `multiprocessing` worker, which may not run atexit functions.

        A run may also be unpickled before the process is a worker.
        """
        from multiprocessing import parent_process, util

        util.register_after_fork(self, JournalWriter._watch_worker)
        if parent_process() is not None:
            util.Finalize(None, self._end_child, exitpriority=10)

    def _end_child(self) -> None:
        error = sys.exc_info()[1] or CONTEXT.exit_watch.exception()
        try:
            if self._end_sections is not None and not self.has_ended:
                self._end_sections(error)
        finally:
            self.close(events.End(time.time(), *status_of_exit(error)))

    # ---- writing

    def emit(self, event: events.Event, last: bool = False) -> bool:
        """Append an event. After True the event survives the end of the process; False is a capture error.

        `last` allows the reserve of the file for the final events of a run.
        """
        try:
            if self._buffer is not None:
                self._buffer.flush()
            if event.__class__ in REDACTED_EVENTS:
                redact_event(event)
            try:
                line = encode_json(event) + b"\n"
            except UnicodeEncodeError:
                line = encode(event)
            with self.lock:
                if self._is_writing:  # a signal handler interrupted a write
                    self._pending.append(line)
                    return True
                if self._file is None:
                    self._ensure_open(line)
                self._is_writing = True
                try:
                    self._file.append(line, last)  # type: ignore[union-attr]  # open by now
                finally:
                    self._is_writing = False
                self._sync.dirty = True  # type: ignore[union-attr]
            if self._pending or self._errors.deferred is not None:
                self._catch_up()
            return True
        except Exception as error:
            if event.__class__ is events.BatchEnd and not self._target.has_kept:
                self._errors.add_lost_batches(1)
            self.report_error(error)
            return False

    def acquire_buffer(self, owner: BufferOwner) -> BatchBuffer | None:
        """Return the batch buffer for a section; None if the journal is not mapped, or another thread owns it."""
        with self.lock:
            self._open_pending()
            if self._buffer is None and not self._buffer_failed and isinstance(self._file, MappedJournalFile):
                try:
                    limit = self._limits.flush_seconds
                    self._buffer = BatchBuffer(self._file, self.emit, self._on_lost_batches, flush_seconds=limit)
                except OSError:  # disk full: each batch is an event
                    self._buffer_failed = True
            return self._buffer if self._buffer is not None and self._buffer.acquire(owner) else None

    def _catch_up(self) -> None:
        """Write the events of signal handlers, and raise an error of the background thread."""
        with self.lock:
            while self._pending and self._file is not None and not self._is_writing:
                self._append_pending(self._file)
        self._errors.raise_deferred()

    def _append_pending(self, file: JournalFile) -> None:
        """Append the events of signal handlers; those of a handler that interrupts this wait for the next turn."""
        self._is_writing = True  # first, or a handler would take the line that was found here
        try:
            while self._pending:
                file.append(self._pending.pop(0))
        finally:
            self._is_writing = False

    def _append(self, file: JournalFile, line: bytes, last: bool = False) -> None:
        """Append a line; events of signal handlers wait."""
        self._is_writing = True
        try:
            file.append(line, last)
        finally:
            self._is_writing = False

    def _ensure_open(self, line: bytes) -> None:
        """Open the journal of a forked child, or try again; raise the reason if there is none, and keep the line."""
        self._open_pending()
        if self._file is None and self._target.is_retry_due:
            self._open()
        if self._file is None:
            self._target.keep(line)
            reason = self._target.error or RuntimeError(RUN_ENDED)
            raise reason.with_traceback(None)

    # ---- capture errors

    @property
    def error_count(self) -> int:
        """Number of capture errors."""
        return self._errors.count

    def _on_lost_batches(self, count: int) -> None:
        """Count batches that left the batch buffer without being written."""
        with self.lock:
            self._errors.add_lost_batches(count)
            self._write_error_count()

    def report_error(self, error: Exception) -> None:
        """Count a capture error, log it if its message is new, raise it if strict."""
        if self._errors.is_new(error):
            self._count_error(error)
        self._errors.raise_if_strict(error)

    def _count_error(self, error: Exception) -> None:
        with self.lock:
            message = self._errors.add(error)
            if self._errors.is_due:
                self._write_error_count()
        if message:
            self._errors.log(message)

    def _write_error_count(self, *, last: bool = False) -> None:
        """Write the number of errors for readers of a running run; try again later if that fails.

        On a full disk there is only the reserve, which has space for short events.
        """
        if (self._errors.is_written and not last) or self._file is None or self._sync is None or self._is_writing:
            return
        for is_short in (False, True):
            with contextlib.suppress(Exception):
                event = self._errors.event(is_short=is_short)
                self._append(self._file, encode(event), last=is_short)
                self._errors.mark_written(event)
                self._sync.dirty = True
                return

    # ---- calls of the background thread

    def on_heartbeat(self) -> None:
        """Write the number of errors if it is not in the journal."""
        with self.lock:
            self._write_error_count()

    def on_deleted(self, file: JournalFile) -> None:
        """Make every further event a capture error: the journal was deleted."""
        error = _deleted(file)
        with self.lock:
            self._file = None
            self._target.mark_deleted(error)
        self.on_sync_error(error)

    def on_sync_error(self, error: Exception) -> None:
        """Count an error of the background thread; if strict, the next event raises it."""
        self._count_error(error)
        self._errors.defer(error)

    def on_release_error(self, error: Exception, file: JournalFile) -> None:
        """Count the error of the last sync, and write it after the end of the run, so that readers see it."""
        self.on_sync_error(error)
        with contextlib.suppress(Exception):
            file.append_after_release(encode(self._errors.event()))

    # ---- the end

    def suspend(self, end: events.End) -> None:
        """End the journal for now: readers see how the run stands. The next event continues it in another journal."""
        self.close(end)
        self.is_suspended = self._ended.is_set()

    def close(self, end: events.End) -> None:
        """Write the last event and sync to the disk."""
        with self.lock:
            if self._ended.is_set():
                self.is_suspended = False  # nothing was recorded since
                return
            if self._is_forked or self._identify is not None:  # a child that recorded nothing
                self._is_forked, self._identify = False, None
                self._ended.set()
                return
        try:
            with self.lock:
                if self._file is None and self._target.can_retry:
                    self._open()
            try:
                if self._buffer is not None:
                    self._buffer.close()
            finally:
                self._buffer, self._buffer_failed = None, True
                self._write_end(end)
        finally:
            with self.lock:
                self._file = None
                self._ended.set()
            if self._sync is not None:
                self._sync.close()
                self._detach()
        self._errors.raise_deferred()

    def _detach(self) -> None:
        """Give the service a moment to get the end of the journal."""
        if self._destination is not None:
            from provml.remote.shipper import detach

            with contextlib.suppress(Exception):  # the journal is complete here, and can be shipped later
                detach(self.folder / f"{self.header.writer}.jsonl", self._destination)

    def _write_end(self, end: events.End) -> None:
        if self._file is not None:
            if self._file.is_deleted():
                self.report_error(_deleted(self._file))
            with self.lock:
                if self._errors.count:
                    self._write_error_count(last=True)
                    if not self._errors.has_counts:
                        return  # a short end may still fit the disk, but would say that the run has fewer errors
            self.emit(end, last=True)


def _deleted(file: JournalFile) -> FileNotFoundError:
    return FileNotFoundError(f"{file.path} was deleted while the run was recorded")
