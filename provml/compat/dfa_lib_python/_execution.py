"""Executions of dataflows: each is a run with its tasks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Protocol

from provml.compat.dfa_lib_python import _kinds
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.journal import events
from provml.recording.core import RunCore
from provml.recording.data import Data
from provml.recording.ids import new_run_id
from provml.recording.inherit import inherited_run
from provml.recording.run import Run
from provml.recording.safety import report_errors

Key = tuple[str, str]
"""Tag of a transformation, and id of a task."""
MAX_SLUG_CHARS = 120
_lock = threading.Lock()
_executions: weakref.WeakKeyDictionary[Dataflow, dict[str, LocalExecution]] = weakref.WeakKeyDictionary()


class RecordedTask(Protocol):
    """A task that has begun; `_tasks.TaskRecorder` implements it."""

    kind: str
    outputs: list[tuple[str, Data]]
    started: float
    is_done: bool

    def record_part(
        self, kind: str, name: str, started: float, ended: float, *, error: BaseException | None = None
    ) -> None:
        """Record a part of the task: a step that ran during it."""


class Execution:
    """A run of a dataflow. `tasks` maps tag and id, then sub-id, to the recorder of a task."""

    def __init__(self, dataflow: Dataflow, run: RunCore) -> None:
        self.dataflow = dataflow
        self.tasks: dict[Key, dict[str, RecordedTask]] = {}
        self.run = run
        with report_errors(run):
            run._emit(events.Workflow(_kinds.to_workflow(dataflow)))

    @property
    def is_over(self) -> bool:
        """Whether all tasks have ended."""
        return bool(self.tasks) and all(task.is_done for task in self.tasks_of(self.tasks))

    def tasks_of(self, keys: Iterable[Key]) -> list[RecordedTask]:
        """Return the tasks with these tags and ids, of any sub-id."""
        return [task for key in keys for task in self.tasks.get(key, {}).values()]

    def is_repeated(self, task: Key, sub_id: str) -> bool:
        """Return whether a task has ended here already, so that the same id belongs to another run."""
        recorder = self.tasks.get(task, {}).get(sub_id)
        return recorder is not None and recorder.is_done


class LocalExecution(Execution):
    """An execution of this process, which records its run."""

    run: Run

    def __init__(self, dataflow: Dataflow, exec_tag: str) -> None:
        super().__init__(dataflow, Run(dataflow.tag, model=dataflow.tag, by=dataflow.email, run=_run_id(exec_tag)))
        self.is_finished = False

    def finish(self) -> None:
        """End the run."""
        self.is_finished = True
        self.run.finish()

    def resume(self) -> None:
        """Reopen a finished run for another task."""
        if self.is_finished:
            run, self.is_finished = self.run, False
            self.run = Run(run.name, model=run.model, home=run.home, run=run.id)


def execution_of(dataflow: Dataflow, exec_tag: str, task: Key, sub_id: str) -> LocalExecution:
    """Return the execution of a task: the execution with that tag or, without a tag, the latest of the dataflow.

    Without a tag, a task that has ended and starts again starts another run. A new run finishes the completed ones.
    """
    with _lock:
        by_tag = _executions.setdefault(dataflow, {})
        execution = by_tag.get(exec_tag)
        if execution is None or (not exec_tag and execution.is_repeated(task, sub_id)):
            for executions in _executions.values():
                for other in executions.values():
                    if other.is_over:
                        other.finish()
            execution = by_tag[exec_tag] = LocalExecution(dataflow, exec_tag)
        else:
            execution.resume()
        return execution


def running_task() -> RecordedTask | None:
    """Return the running task that started last."""
    tasks = [
        task
        for executions in _executions.values()
        for execution in executions.values()
        for task in execution.tasks_of(execution.tasks)
    ]
    return max((task for task in tasks if not task.is_done), key=lambda task: task.started, default=None)


def _run_id(exec_tag: str) -> str | None:
    """Return a run id that ends with the execution's tag; None without a tag or if the run is inherited."""
    slug = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in exec_tag)[:MAX_SLUG_CHARS]
    return f"{new_run_id()}-{slug}" if slug and not inherited_run()[0] else None
