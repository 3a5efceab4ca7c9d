"""State of recording that all runs of this process share."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import NamedTuple, Protocol

from provml.journal.batch_buffer import FLUSH_SECONDS
from provml.journal.file import RETRY_SECONDS
from provml.journal.process import HEARTBEAT_SECONDS
from provml.recording.cells import CellWatch
from provml.recording.exit_watch import EXIT_WATCH
from provml.recording.inherit import ExportedRun


class Limits(NamedTuple):
    """Times and sizes that writers of journals keep to."""

    sync_seconds: float = 1.0
    """Interval between two syncs of a journal to the disk."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """Interval of the heartbeat of a writer that has no event to write. It carries the number of capture errors."""
    retry_seconds: float = RETRY_SECONDS
    """Interval between two attempts to open a journal."""
    close_seconds: float = 5.0
    """How long the end of a run waits for the disk."""
    flush_seconds: float = FLUSH_SECONDS
    """Interval at which the rows of the batch buffer become an event."""
    max_backlog: int = 1000
    """Number of events that are kept for a journal that cannot be opened yet."""


class ActiveRun(Protocol):
    """A run that is being recorded."""

    id: str
    home: Path

    def _on_cell_error(self, error: BaseException, cell: int) -> None:
        """End what the exception of a notebook's cell left."""


class ForkAware(Protocol):
    """A writer that needs a new journal in a forked child."""

    def after_fork(self) -> None:
        """Give up what belongs to the parent process."""


class RecordingContext:
    """The active runs of this process, their writers, and what they change in the process."""

    def __init__(self) -> None:
        self.active_runs: list[ActiveRun] = []
        self.writers: weakref.WeakSet[ForkAware] = weakref.WeakSet()
        self.exported_run = ExportedRun()
        self.exit_watch = EXIT_WATCH
        self.cells = CellWatch(self._on_cell_error)
        self.limits = Limits()

    def activate(self, run: ActiveRun) -> None:
        """Let child processes join a run, and watch how this process ends."""
        self.active_runs.append(run)
        self.exit_watch.start()
        self.cells.start()
        self.exported_run.set(run.id, run.home)

    def deactivate(self, run: ActiveRun) -> None:
        """Let child processes join the run that was active before this one, if there is one."""
        if run in self.active_runs:
            self.active_runs.remove(run)
        if self.active_runs:
            self.exported_run.set(self.active_runs[-1].id, self.active_runs[-1].home)
        else:
            self.exported_run.clear()
            self.exit_watch.stop()

    def _on_cell_error(self, error: BaseException, cell: int) -> None:
        for run in list(self.active_runs):
            run._on_cell_error(error, cell)

    def after_fork(self) -> None:
        """Make the writers of a forked child independent of its parent."""
        for writer in list(self.writers):
            writer.after_fork()


CONTEXT = RecordingContext()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CONTEXT.after_fork)
