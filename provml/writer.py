"""A writer: one process's journal of one run, shared by its threads, renewed in a forked child, never in the way."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from provml import event, process
from provml.event import encode, encode_bare
from provml.journal import PATIENCE, MappedFile, WrittenFile, open_sink
from provml.slate import Holder, Slate

SYNC_SECONDS = 1.0
LAST_SECONDS = 5.0
"""How long the end of a run waits for the disk."""
ALIVE_SECONDS = process.SIGN_SECONDS
"""How often a writer that has nothing to say gives a sign of life, and how many faults there are by now."""
MOST_HELD = 1000
"""So many events are held for a home that is not there yet."""
LONGEST_FAULT = 300
"""So much is told of a fault: a line of it for each doubling of their number has to fit into a journal's reserve."""


class Writer:
    """Appends events; a fault is counted and logged once, or raised where `strict`."""

    def __init__(self, folder: Path, first: event.Run, *, strict: bool = False, is_new: bool = False) -> None:
        self.folder = folder
        self.first = first
        self.strict = strict
        self._begin()
        _ALL.add(self)
        if is_new:
            self._claim()
        self._open(self.first)
        if self._why_not is not None:
            self.fault(self._why_not)

    def _begin(self) -> None:
        """As in a new process: no file yet, no faults, nobody waiting."""
        self.faults = self._told_faults = 0
        self.lock = threading.RLock()
        self._first_fault = ""
        self._raised: Exception | None = None
        self._later: Exception | None = None
        self._why_not: Exception | None = None
        self._tried = 0.0
        self._is_lost = False
        self._held: list[bytes] = []
        self._sink: WrittenFile | None = None
        self._slate: Slate | None = None
        self._may_slate = True
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._dirty = self._forked = self._busy = False
        self._waiting: list[bytes] = []

    # ---- one process

    def _claim(self) -> None:
        """Make the folder of a run whose id was drawn here; where somebody else drew the same one, draw again."""
        with contextlib.suppress(OSError):  # `_open` tells why there can be none
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(100):
                try:
                    self.folder.mkdir()
                    break
                except FileExistsError:
                    self.first = msgspec.structs.replace(self.first, run=new_run_id())
                    self.folder = self.folder.parent / self.first.run

    def _open(self, first: event.Run) -> None:
        """Begin a journal under the writer's name; where that is taken, under one that nobody else has."""
        self._tried = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                sink = open_sink(self.folder / f"{first.writer}.jsonl")
            except FileExistsError:
                first = msgspec.structs.replace(first, writer=new_writer_id())
                sink = open_sink(self.folder / f"{first.writer}.jsonl")
            try:
                sink.append(b"".join([encode(first), *self._held]))
            except BaseException:
                sink.abandon()
                sink.path.unlink(missing_ok=True)
                raise
        except Exception as error:
            self._why_not = error
            return
        self.first = first
        self._sink, self._dirty, self._why_not = sink, True, None
        self._held.clear()
        self._tell_faults()
        if "multiprocessing.util" in sys.modules:
            self._watch_worker()
        thread = threading.Thread(target=self._keep_synced, args=(sink, self._ended), name="provml-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: then the kernel decides when the disk gets it
            return
        self._thread = thread

    def _after_fork(self) -> None:
        """In a forked child: a journal of its own, begun when it first has something to say."""
        sink, slate, ended = self._sink, self._slate, self._ended.is_set()
        self._begin()
        self._forked = not ended
        if slate is not None:
            slate.drop()
        if ended:
            self._ended.set()
        if sink is not None:
            with contextlib.suppress(OSError, ValueError, BufferError):
                sink.abandon()

    def _reopen(self) -> None:
        self._forked = False
        began = {"writer": new_writer_id(), "t": time.time(), "main": False, "parent": self.first.writer}
        who = {"pid": os.getpid(), "born": process.born(), "ns": process.namespace()}
        self.first = msgspec.structs.replace(self.first, **began, **who)
        self._open(self.first)

    def _watch_worker(self) -> None:
        """A worker of `multiprocessing` may leave without atexit, and what it was sent may arrive before it is one."""
        from multiprocessing import parent_process, util

        util.register_after_fork(self, Writer._watch_worker)
        if parent_process() is not None:
            util.Finalize(None, self._end_child, exitpriority=10)

    def _end_child(self) -> None:
        self.close(event.End(time.time(), *process.ending(sys.exc_info()[1] or process.ended_by())))

    @property
    def suffix(self) -> str:
        """What sets this writer's places in the run apart from those of others; nothing for the first main one."""
        with self.lock:
            if self._forked:
                self._reopen()
        return event.suffix(self.first.writer)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be told."""
        return self._ended.is_set()

    # ---- writing

    def tell(self, what: event.Event, last: bool = False) -> bool:
        """Append one event; when this returns, the event outlives the process, or it is false and there is a fault."""
        try:
            if self._slate is not None:
                self._slate.settle()
            try:
                line = encode_bare(what) + b"\n"
            except UnicodeEncodeError:
                line = encode(what)
            with self.lock:
                if self._busy:  # a signal's handler came in between
                    self._waiting.append(line)
                    return True
                if self._sink is None:
                    self._make_ready(line)
                self._busy = True
                try:
                    self._sink.append(line, last)  # type: ignore[union-attr]  # made ready
                finally:
                    self._busy = False
                self._dirty = True
            if self._waiting or self._later is not None:
                self._catch_up()
            return True
        except Exception as error:
            self.fault(error)
            return False

    def slate(self, owner: Holder) -> Slate | None:
        """The slate for the batches of a section, where the journal is mapped as well and no other thread has it."""
        with self.lock:
            if self._forked:
                self._reopen()
            if self._slate is None and self._may_slate and isinstance(self._sink, MappedFile):
                try:
                    self._slate = Slate(self._sink, self.tell)
                except OSError:  # no room: each batch is told by itself
                    self._may_slate = False
            return self._slate if self._slate is not None and self._slate.claim(owner) else None

    def _catch_up(self) -> None:
        """Write what signal handlers said meanwhile, and raise what went wrong in the thread beside."""
        with self.lock:
            while self._waiting and self._sink is not None:
                self._append(self._sink, self._waiting.pop(0))
        self._raise_later()

    def _append(self, sink: WrittenFile, line: bytes, last: bool = False) -> None:
        """Append a line; what a signal's handler says meanwhile waits."""
        self._busy = True
        try:
            sink.append(line, last)
        finally:
            self._busy = False

    def _make_ready(self, line: bytes) -> None:
        """There is no file: in a forked child make one, and try again where none could be made; else say why.

        What could not be written is held for a while, so that a home that comes late gets the run from its beginning.
        """
        if self._forked:
            self._reopen()
        elif self._may_come and time.monotonic() - self._tried >= PATIENCE:
            self._open(self.first)
        if self._sink is None:
            if self._may_come and len(self._held) < MOST_HELD:
                self._held.append(line)
            reason = self._why_not or RuntimeError("the run has ended, nothing more is recorded of it")
            raise reason.with_traceback(None)

    @property
    def _may_come(self) -> bool:
        """Whether there is no file yet and may be one later; one that was removed does not come again."""
        return self._sink is None and self._why_not is not None and not self._is_lost

    def fault(self, error: Exception) -> None:
        """Count what went wrong in capture; log the first; raise where strict."""
        if error is not self._raised or not self.strict:
            self._count(error)
        if self.strict:
            self._raised = error
            raise error

    def _count(self, error: Exception) -> None:
        with self.lock:
            self.faults += 1
            is_first = not self._first_fault
            if is_first:
                self._first_fault = f"{type(error).__name__}: {error}"[:LONGEST_FAULT]
            if self.faults >= 2 * self._told_faults:
                self._tell_faults()
        if not is_first:
            return
        import logging

        said = "provml cannot record (%s); the training goes on, this is said once"
        logging.getLogger("provml").warning(said, self._first_fault)

    def _tell_faults(self) -> None:
        """Have the journal tell how many faults there are, for whoever looks before the end; one that cannot waits."""
        if self.faults == self._told_faults or self._sink is None or self._busy:
            return
        with contextlib.suppress(Exception):
            told = self.faults
            self._append(self._sink, encode(event.Fault(told, self._first_fault)), last=True)
            self._told_faults, self._dirty = told, True

    # ---- the disk, off the training's thread

    def _keep_synced(self, sink: WrittenFile, ended: threading.Event) -> None:
        alive = time.monotonic()
        while not ended.wait(SYNC_SECONDS):
            try:
                if sink.is_gone():
                    self._lose(sink)
                    break
                if self._dirty:
                    self._dirty = False
                    sink.sync()
                if time.monotonic() - alive > ALIVE_SECONDS:
                    alive = time.monotonic()
                    sink.touch()
                    with self.lock:
                        self._tell_faults()
            except Exception as error:
                self._fault_later(error)
        try:
            sink.close()
        except Exception as error:
            self._fault_later(error)

    def _lose(self, sink: WrittenFile) -> None:
        """The journal was removed: from now on every event is a fault."""
        error = FileNotFoundError(f"{sink.path} was removed while it was written to")
        with self.lock:
            self._sink, self._why_not, self._is_lost = None, error, True
        self._fault_later(error)

    def _fault_later(self, error: Exception) -> None:
        """A fault in the thread beside: where strict, the next verb raises it."""
        self._count(error)
        self._later = error

    def _raise_later(self) -> None:
        error, self._later = self._later, None
        if self.strict and error is not None:
            self._raised = error
            raise error

    # ---- the end

    def close(self, last: event.End) -> None:
        """Write the last event and let the disk keep all."""
        with self.lock:
            if self._ended.is_set():
                return
            if self._forked:  # a child that said nothing
                self._forked = False
                self._ended.set()
                return
        try:
            with self.lock:
                if self._may_come:
                    self._open(self.first)
            try:
                if self._slate is not None:
                    self._slate.close()
            finally:
                self._slate, self._may_slate = None, False
                self._tell_end(last)
        finally:
            with self.lock:
                sink, self._sink = self._sink, None
                self._ended.set()
            if self._thread is not None:
                self._thread.join(LAST_SECONDS)
            elif sink is not None:
                try:
                    sink.close()
                except OSError as error:
                    self._fault_later(error)
        self._raise_later()

    def _tell_end(self, last: event.End) -> None:
        if self._sink is not None:
            if self._sink.is_gone():
                self.fault(FileNotFoundError(f"{self._sink.path} was removed while it was written to"))
            if self.faults:
                self.tell(event.Fault(self.faults, self._first_fault), last=True)
            self.tell(last, last=True)


def new_run_id() -> str:
    """A run's id: when it began, and something that no other has. Ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def new_writer_id() -> str:
    """A name for a journal file: host, process, and something that no other has."""
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in process.host())[:24] or "host"
    return f"{host}-{os.getpid()}-{os.urandom(3).hex()}"


_ALL: weakref.WeakSet[Writer] = weakref.WeakSet()


def _renew_all() -> None:
    for writer in list(_ALL):
        writer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
