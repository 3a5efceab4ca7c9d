"""A writer: one process's journal of one run, shared by its threads, renewed in a forked child, never in the way."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import secrets
import threading
import time
import weakref
from pathlib import Path

import msgspec

from provml import event
from provml.journal import MappedFile, WrittenFile, open_sink

LOG = logging.getLogger("provml")
SYNC_SECONDS = 1.0


class Writer:
    """Appends events; a fault is counted and logged once, or raised where `strict`."""

    def __init__(self, folder: Path, first: event.Run, *, strict: bool = False) -> None:
        self.folder = folder
        self.first = first
        self.strict = strict
        self.faults = 0
        self.lock = threading.Lock()
        self._sink: MappedFile | WrittenFile | None = None
        self._dirty = False
        self._ended = threading.Event()
        self._open(first)
        _ALL.add(self)

    # ---- one process

    def _open(self, first: event.Run) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sink = open_sink(self.folder / f"{first.writer}.jsonl")
        except OSError as error:
            self.fault(error)
            return
        self.first = first
        self.tell(first)
        threading.Thread(target=self._keep_synced, args=(self._sink,), name="provml-sync", daemon=True).start()

    def _after_fork(self) -> None:
        """In a forked child: a journal of its own, begun when it first has something to say."""
        self.lock = threading.Lock()
        self._sink = None
        self._forked = not self._ended.is_set()
        self._ended = threading.Event()

    _forked = False

    def _reopen(self) -> None:
        self._forked = False
        self.faults = 0
        began = {"writer": new_writer_id(), "t": time.time(), "main": False, "pid": os.getpid()}
        self._open(msgspec.structs.replace(self.first, **began))

    # ---- writing

    def tell(self, what: event.Event) -> None:
        """Append one event; when this returns, the event outlives the process."""
        try:
            line = event.encode(what)
            with self.lock:
                if self._sink is None:
                    if not self._forked:
                        return
                else:
                    self._sink.append(line)
                    self._dirty = True
                    return
            self._reopen()
            self.tell(what)
        except Exception as error:
            self.fault(error)

    def fault(self, error: Exception) -> None:
        """Count what went wrong in capture; log the first; raise where strict."""
        self.faults += 1
        if self.faults == 1:
            LOG.warning(
                "provml cannot record (%s: %s); the training goes on, this is said once", type(error).__name__, error
            )
            self._first_fault = f"{type(error).__name__}: {error}"
        if self.strict:
            raise error

    _first_fault = ""

    def _keep_synced(self, sink: MappedFile | WrittenFile) -> None:
        while not self._ended.wait(SYNC_SECONDS):
            if self._sink is not sink:
                return
            if self._dirty:
                self._dirty = False
                with contextlib.suppress(OSError, ValueError):
                    sink.sync()

    def close(self, last: event.End | None) -> None:
        """Write the last event and let the disk keep all."""
        if self._ended.is_set():
            return
        if self.faults and last is not None:
            self.tell(event.Fault(self.faults, self._first_fault))
        if last is not None:
            self.tell(last)
        self._ended.set()
        with self.lock:
            sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except OSError as error:
                self.fault(error)


def new_writer_id() -> str:
    """A name for a journal file: host, process, and something that no other has."""
    host = "".join(c if c.isalnum() else "-" for c in platform.node())[:24] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


_ALL: weakref.WeakSet[Writer] = weakref.WeakSet()


def _renew_all() -> None:
    for writer in list(_ALL):
        writer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
