"""One execution of a dataflow: a run, with the tasks of it that have begun."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from provml import event
from provml.compat.dfa_lib_python import plan
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.process import handed_down
from provml.recorder import Recorder
from provml.writer import new_run_id

if TYPE_CHECKING:
    from provml.compat.dfa_lib_python.telling import Telling

Key = tuple[str, str]
"""The tag of a transformation, and an id."""
LONGEST = 120
_lock = threading.Lock()
_all: weakref.WeakKeyDictionary[Dataflow, dict[str, Execution]] = weakref.WeakKeyDictionary()


class Execution:
    """A run of a dataflow. `tasks` has those that have begun, by tag of the transformation and id, then by sub-id."""

    def __init__(self, dataflow: Dataflow, exec_tag: str) -> None:
        self.dataflow = dataflow
        self.tasks: dict[Key, dict[str, Telling]] = {}
        self.is_finished = False
        self.run = Recorder(dataflow.tag, model=dataflow.tag, by=dataflow.email, run=_run_id(exec_tag))
        try:
            self.run.tell(event.Workflow(plan.workflow(dataflow)))
        except Exception as error:
            self.run.fault(error)

    @property
    def is_over(self) -> bool:
        """Whether all of its tasks have ended."""
        return bool(self.tasks) and all(task.is_done for task in self.those(self.tasks))

    def those(self, wanted: Iterable[Key]) -> list[Telling]:
        """The tasks by tag and id, of any sub-id."""
        return [task for key in wanted for task in self.tasks.get(key, {}).values()]

    def is_again(self, task: Key, sub_id: str) -> bool:
        """Whether a task has ended here already, so that another of its id belongs to another run."""
        known = self.tasks.get(task, {}).get(sub_id)
        return known is not None and known.is_done

    def finish(self) -> None:
        """End the run."""
        self.is_finished = True
        self.run.finish()

    def go_on(self) -> None:
        """A task of a run that was taken to be over: go on with it."""
        if self.is_finished:
            run, self.is_finished = self.run, False
            self.run = Recorder(run.name, model=run.model, home=run.home, run=run.id)


def execution_of(dataflow: Dataflow, exec_tag: str, task: Key, sub_id: str) -> Execution:
    """The execution that a task belongs to: the one of that tag or, where scripts give none, the dataflow's latest.

    There a task that has ended and comes again begins another run. Those that are over end when another begins.
    """
    with _lock:
        known = _all.setdefault(dataflow, {})
        found = known.get(exec_tag)
        if found is None or (not exec_tag and found.is_again(task, sub_id)):
            for executions in _all.values():
                for one in executions.values():
                    if one.is_over:
                        one.finish()
            found = known[exec_tag] = Execution(dataflow, exec_tag)
        else:
            found.go_on()
        return found


def running() -> Telling | None:
    """The task that began last, of those that have not ended."""
    tasks = [task for executions in _all.values() for one in executions.values() for task in one.those(one.tasks)]
    return max((task for task in tasks if not task.is_done), key=lambda task: task.began, default=None)


def _run_id(exec_tag: str) -> str | None:
    """An id that ends with the tag of the execution; None where the run is handed down, or there is no tag."""
    slug = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in exec_tag)[:LONGEST]
    return f"{new_run_id()}-{slug}" if slug and not handed_down()[0] else None
