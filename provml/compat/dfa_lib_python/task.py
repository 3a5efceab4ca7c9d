"""A task: one execution of a transformation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python.dataflow import Dataflow, declared
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.dependency import Dependency
from provml.compat.dfa_lib_python.execution import Execution, execution_of
from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect
from provml.compat.dfa_lib_python.task_status import TaskStatus
from provml.compat.dfa_lib_python.telling import Telling, telling_of
from provml.errors import MissingField, NoSuchTag, WrongType

NAMES = ("sub_id", "dependency", "workspace", "resource", "output", "error")


class TaskError(Exception):
    """What a script says went wrong, in words."""


class Task(ProvenanceObject):
    """One execution of a transformation: `Task(id, dataflow_tag, transformation_tag)`, or with the tag of the
    execution between the two, as DNNProv has it. The dataflow may be given itself, too."""

    def __init__(
        self,
        id: Any,
        dataflow_tag: str | Dataflow | None = None,
        *given: Any,
        exec_tag: str = "",
        transformation_tag: str = "",
        dataflow: Dataflow | None = None,
        **said: Any,
    ) -> None:
        what = dataflow_tag if dataflow is None else dataflow
        rest = list(given)
        if not transformation_tag:
            exec_tag, transformation_tag, rest = _tags(what, exec_tag, rest)
        elif rest and not exec_tag:
            exec_tag = str(rest.pop(0))
        super().__init__(transformation_tag)
        self.dataflow = declared(what, transformation_tag)
        self.transformation = self.dataflow.transformation(transformation_tag)
        self.id = str(id)
        self.exec_tag = exec_tag
        self.status = TaskStatus.READY
        self.dependencies: list[tuple[str, str]] = []
        self._said_besides = dict(zip(NAMES, rest, strict=False)) | said
        for name in self._said_besides:
            if name not in NAMES:
                advice = f"It takes {', '.join(NAMES)}."
                raise WrongType("Task", name, self._said_besides[name], "nothing by that name", advice)
        self.error = str(self._said_besides.get("error") or "")
        self._pending: list[DataSet] = []
        self._execution: Execution | None = None
        self._telling: Telling | None = None
        self._around: BaseException | None = None
        self._depend(self._said_besides.get("dependency"))

    def _depend(self, given: Any) -> None:
        if isinstance(given, Task):
            self.dependencies.append((given._tag, given.id))
        elif isinstance(given, Dependency):
            self.add_dependency(given)
        elif isinstance(given, Sequence) and not isinstance(given, str):
            for one in given:
                self._depend(one)
        elif given:
            raise WrongType(
                "Task", "dependency", given, "a Task or several", "Give the Task that this one comes after."
            )

    def add_dependency(self, dependency: Dependency) -> None:
        """Say which tasks come before."""
        for tag, one in expect(self, "dependency", dependency, Dependency).pairs:
            self.dataflow.transformation(tag)
            self.dependencies.append((tag, one))

    def set_datasets(self, datasets: list[DataSet]) -> None:
        """Add several data sets."""
        for dataset in datasets:
            self.add_dataset(dataset)

    def add_dataset(self, dataset: DataSet) -> None:
        """Add rows, to be recorded by the next begin, save or end. All that are added until then are kept."""
        expect(self, "dataset", dataset, DataSet)
        if not any(one._tag == dataset._tag for one in self.transformation.sets):
            known = tuple(dict.fromkeys(one.tag for one in self.transformation.sets))
            advice = f"Mend the tag, or add the set with add_set(Set({dataset.tag!r}, …))."
            raise NoSuchTag("set", dataset.tag, f"The transformation {self.transformation.tag!r}", known, advice)
        self._pending.append(dataset)

    def set_status(self, status: TaskStatus) -> None:
        """Say how it stands. It is recorded by begin and end; FAILED makes its end a failure."""
        self.status = expect(self, "status", status, TaskStatus)

    def begin(self) -> None:
        """It begins."""
        self._begin()
        self.save()

    def _begin(self) -> Telling:
        if self._telling is None:
            self._around = sys.exc_info()[1]
            self._execution = execution_of(self.dataflow, self.exec_tag, (self._tag, self.id))
            self._telling = telling_of(self._execution, self.transformation, self.dependencies)
            self._execution.tasks[self._tag, self.id] = self._telling
            if self.status is TaskStatus.READY:
                self.status = TaskStatus.RUNNING
        return self._telling

    def save(self) -> None:
        """Record the rows that were added."""
        telling = self._begin()
        pending, self._pending = self._pending, []
        for dataset in pending:
            for element in dataset.elements:
                telling.row(dataset, element)

    def end(self) -> None:
        """It ends: FAILED inside an `except` or a `finally` that an error led to, or where an error was said."""
        self.save()
        error = sys.exc_info()[1]
        if error is self._around:  # it was there before: another's
            error = None
        if error is None and (self.error or self.status is TaskStatus.FAILED):
            error = TaskError(self.error or "the script set its status to FAILED")
        self.status = TaskStatus.FINISHED if error is None else TaskStatus.FAILED
        self._begin().done(error)

    def _said(self) -> dict[str, Any]:
        besides = {name: str(held) for name, held in self._said_besides.items() if name != "dependency"}
        before = Dependency([tag for tag, _ in self.dependencies], [one for _, one in self.dependencies])
        return {
            "tag": self._tag,
            "exec": self.exec_tag,
            "sets": [one.get_specification() for one in self._pending],
            "status": self.status.value,
            "dataflow": self.dataflow._tag,
            "transformation": self._tag,
            "id": self.id,
            "dependency": before.get_specification() if self.dependencies else "",
            **besides,
        }


def _tags(what: Any, exec_tag: str, rest: list[Any]) -> tuple[str, str, list[Any]]:
    """The tags of the execution and of the transformation, which come first of what was given in their order.

    Older scripts give no tag of an execution: what is declared tells which of the two a text is.
    """
    if not rest:
        raise MissingField("Task", "transformation_tag", "the tag of a transformation")
    first, second = str(rest[0]), str(rest[1]) if len(rest) > 1 and isinstance(rest[1], str) else ""
    if exec_tag or not second:
        return exec_tag, first, rest[1:]
    dataflow = declared(what, first, second)
    if dataflow.has(first) and not dataflow.has(second):
        return "", first, rest[1:]
    return first, second, rest[2:]
