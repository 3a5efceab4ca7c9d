"""A task: one execution of a transformation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from provml.compat.dfa_lib_python.dataflow import Dataflow, declared
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.dependency import Dependency
from provml.compat.dfa_lib_python.execution import execution_of
from provml.compat.dfa_lib_python.file import File
from provml.compat.dfa_lib_python.performance import FORM, Performance
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, specifications
from provml.compat.dfa_lib_python.task_status import TaskStatus
from provml.compat.dfa_lib_python.telling import Telling, telling_of
from provml.errors import MissingField, NoSuchTag, WrongType

T = TypeVar("T")
NAMES = ("sub_id", "dependency", "workspace", "resource", "output", "error")


class TaskError(Exception):
    """What a script says went wrong, in words."""


class Task(ProvenanceObject):
    """One execution of a transformation: `Task(id, dataflow_tag, transformation_tag)`, or with the tag of the
    execution between the two, as DNNProv has it. The dataflow may be given itself, too.

    What scripts read and set for want of a call (`_id`, `_output`, `_error`, …) has the names of the originals.
    """

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
        said = dict(zip(NAMES, rest, strict=False)) | said
        for name in said:
            if name not in NAMES:
                raise WrongType("Task", name, said[name], "nothing by that name", f"It takes {', '.join(NAMES)}.")
        self._id, self._exec = str(id), exec_tag
        self._sub_id, self._workspace, self._resource, self._output, self._error = (
            "" if said.get(name) is None else str(said[name]) for name in NAMES if name != "dependency"
        )
        self._performances: list[Performance] = []
        self._files: list[File] = []
        self.status = TaskStatus.READY
        self.start_time: str | None = None
        self.end_time: str | None = None
        self.dependencies: list[tuple[str, str]] = []
        self._pending: list[DataSet] = []
        self._told = {"files": 0, "performances": 0}
        self._telling: Telling | None = None
        self._around: BaseException | None = None
        self._depend(said.get("dependency"))

    def _depend(self, given: Any) -> None:
        if isinstance(given, Task):
            self.dependencies.append((given._tag, given._id))
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
        if not any(one._tag == dataset._tag for one in self.transformation.held):
            known = tuple(dict.fromkeys(one.tag for one in self.transformation.held))
            advice = f"Mend the tag, or add the set with add_set(Set({dataset.tag!r}, …))."
            raise NoSuchTag("set", dataset.tag, f"The transformation {self.transformation.tag!r}", known, advice)
        self._pending.append(dataset)

    def add_file(self, file: File) -> None:
        """Add a file: one that is there when the task begins is used, one that comes later is made by it."""
        self._files.append(expect(self, "file", file, File))

    def add_performance(self, performance: Performance) -> None:
        """Add how long a part of it took."""
        self._performances.append(expect(self, "performance", performance, Performance))

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
            self.start_time = f"{datetime.now():{FORM}}"
            self.transformation = self.dataflow.transformation(self.tag)  # with what was tagged with it since
            key = self._tag, self._id
            execution = execution_of(self.dataflow, self._exec, key, self._sub_id)
            self._telling = telling_of(execution, self.transformation, self.dependencies)
            execution.tasks.setdefault(key, {})[self._sub_id] = self._telling
            called = f"{self.transformation.tag} {self._id}" + (f".{self._sub_id}" if self._sub_id else "")
            self._telling.ran(name=called, where=self._workspace, on=self._resource)
            for file in self._new("files", self._files):
                self._telling.file(file, is_made=False)
            if self.status is TaskStatus.READY:
                self.status = TaskStatus.RUNNING
        return self._telling

    def _new(self, what: str, given: list[T]) -> list[T]:
        """What was added since it was last recorded."""
        known, self._told[what] = self._told[what], len(given)
        return given[known:]

    def save(self) -> None:
        """Record the rows, files and performances that were added."""
        telling = self._begin()
        pending, self._pending = self._pending, []
        for dataset in pending:
            for element in dataset.rows:
                telling.row(dataset, element)
        for file in self._new("files", self._files):
            telling.file(file, is_made=True)
        for performance in self._new("performances", self._performances):
            telling.performed(performance)

    def end(self) -> None:
        """It ends: FAILED inside an `except` or a `finally` that an error led to, or where an error was said."""
        self.save()
        telling = self._begin()
        error = sys.exc_info()[1]
        if error is self._around:  # it was there before: another's
            error = None
        if error is None and (self._error or self.status is TaskStatus.FAILED):
            error = TaskError(self._error or "the script set its status to FAILED")
        self.status = TaskStatus.FINISHED if error is None else TaskStatus.FAILED
        if not telling.is_done:
            telling.ran(output=self._output, errors=self._error)
        telling.done(error)
        self.end_time = f"{datetime.now():{FORM}}"

    def _said(self) -> dict[str, Any]:
        before = Dependency([tag for tag, _ in self.dependencies], [one for _, one in self.dependencies])
        own = [Performance(self.start_time, self.end_time)] if self.start_time and self.end_time else []
        return {
            "tag": self._tag,
            "exec": self._exec,
            "workspace": self._workspace,
            "resource": self._resource,
            "dependency": before.get_specification(),
            "output": self._output,
            "error": self._error,
            "sets": specifications(self._pending),
            "status": self.status.value,
            "dataflow": self.dataflow._tag,
            "transformation": self._tag,
            "id": self._id,
            "sub_id": self._sub_id,
            "files": specifications(self._files),
            "performances": specifications([*self._performances, *own]),
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
