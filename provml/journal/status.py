"""The status of a run and of its writers: FINISHED, FAILED, INTERRUPTED, PRUNED, KILLED, LOST or RUNNING."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from provml.journal import process
from provml.journal.events import End, Header
from provml.journal.reader import read_end, read_header
from provml.journal.run_files import main_journal
from provml.journal.segments import file_stat, is_packed

HEARTBEAT_TIMEOUT = 600.0
"""Seconds without a heartbeat after which a writer whose process cannot be observed from here counts as dead."""
CLOSING_SECONDS = 60.0
"""Seconds after the last write for which a living process may still close a journal that has ended."""
NEW_JOURNAL_SECONDS = 5.0
"""Seconds for which an empty journal counts as just created."""


class WriterState(NamedTuple):
    """A journal, its header if it has been read, and its end if it has one."""

    path: Path
    header: Header | None
    end: End | None


def status_of_run(writers: Sequence[WriterState]) -> tuple[str, End | None]:
    """Return status and end of a run: those of its main journal; LOST if the run has no journal."""
    if not writers:
        return "LOST", None
    main = main_journal(writers, lambda writer: writer.header)
    return journal_status(*main), main.end


def journal_status(path: Path, header: Header | None, end: End | None) -> str:
    """Return the status by one journal: how its writer ended, or whether the writer is alive."""
    if end is not None:
        return end.status
    if header is None:
        return "RUNNING" if idle_seconds(path) < NEW_JOURNAL_SECONDS else "LOST"
    if is_local(header):
        return "KILLED" if is_dead(header) else "RUNNING"
    host, boot_id, _ = _this_process(os.getpid())
    timeout = HEARTBEAT_TIMEOUT
    if header.host == host and header.boot_id != boot_id:  # this machine before a restart, or another of its name
        timeout = min(timeout, max(uptime(), 2 * process.HEARTBEAT_SECONDS))
    if header.host and idle_seconds(path) < timeout:
        return "RUNNING"
    return "KILLED" if header.host == host else "LOST"


def is_being_written(path: Path) -> bool:
    """Return whether a process still writes a journal, main or not."""
    try:
        return journal_status(path, read_header(path), read_end(path)) == "RUNNING"
    except FileNotFoundError:
        return False
    except OSError:  # another user's journal: only its heartbeat can be observed
        if is_packed(path):  # and damaged there: only runs that have ended are packed
            return False
        return idle_seconds(path) < HEARTBEAT_TIMEOUT


def is_being_closed(path: Path) -> bool:
    """Return whether the writer of a journal that has ended may still cut its unused space and seal it."""
    try:
        return not is_dead(read_header(path)) and idle_seconds(path) < CLOSING_SECONDS
    except FileNotFoundError:
        return False


def is_local(header: Header) -> bool:
    """Return whether the process of a writer can be observed: same machine, same boot, same process id namespace."""
    return (header.host, header.boot_id, header.pid_namespace) == _this_process(os.getpid())


def is_dead(header: Header | None) -> bool:
    """Return whether a writer is certainly dead; one that cannot be observed may only be idle."""
    return header is not None and is_local(header) and not process.is_alive(header.pid, header.time, header.start_ticks)


@lru_cache(maxsize=1)
def _this_process(pid: int) -> tuple[str, str, str]:
    """Return host, boot id and process id namespace; `pid` is the key of the cache, for forked children."""
    return process.host(), process.boot_id(), process.namespace()


def uptime() -> float:
    """Return the seconds since this machine was started; infinity if the system does not report it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return float(Path("/proc/uptime").read_text().split()[0])
    return float("inf")


def idle_seconds(path: Path) -> float:
    """Return the seconds since the last write or heartbeat of a journal; infinity if the file is missing."""
    with contextlib.suppress(OSError):
        return time.time() - file_stat(path).st_mtime_ns / 1e9
    return float("inf")
