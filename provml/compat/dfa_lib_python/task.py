"""A task: one execution of a transformation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from provml.compat.dfa_lib_python._execution import execution_of
from provml.compat.dfa_lib_python._tasks import TaskRecorder, create_recorder
from provml.compat.dfa_lib_python.dataflow import Dataflow, find_dataflow
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.dependency import Dependency
from provml.compat.dfa_lib_python.file import File
from provml.compat.dfa_lib_python.performance import TIME_FORMAT, Performance
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, specifications
from provml.compat.dfa_lib_python.task_status import TaskStatus
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.errors import MissingField, TagNotFound, WrongType

T = TypeVar("T")
NAMES = ("sub_id", "dependency", "workspace", "resource", "output", "error")


class TaskError(Exception):
    """An error that a script reports as text."""


class Task(ProvenanceObject):
    """One execution of a transformation: `Task(id, dataflow_tag, transformation_tag)`.

    DNNProv passes the tag of the execution between the two. A Dataflow may be passed instead of its tag. Scripts read
    and set some private attributes (`_id`, `_output`, `_error`, …), which keep the names of the originals.
    """

    def __init__(
        self,
        id: Any,
        dataflow_tag: str | Dataflow | None = None,
        *args: Any,
        exec_tag: str = "",
        transformation_tag: str = "",
        dataflow: Dataflow | None = None,
        **options: Any,
    ) -> None:
        flow = dataflow_tag if dataflow is None else dataflow
        rest = list(args)
        self._errors: list[Exception] = []
        """What was wrong before the task began, and is reported to its run."""
        self._recorder: TaskRecorder | None = None
        if not transformation_tag:
            flow = self._dataflow_of(flow, *(item for item in rest[:2] if isinstance(item, str)))
            exec_tag, transformation_tag, rest = _tags(flow, exec_tag, rest)
        elif rest and not exec_tag:
            exec_tag = str(rest.pop(0))
        super().__init__(transformation_tag)
        self.dataflow = self._dataflow_of(flow, transformation_tag)
        self.transformation = self._transformation_of(transformation_tag)
        options = dict(zip(NAMES, rest, strict=False)) | options
        for name in options:
            if name not in NAMES:
                raise TypeError(f"Task() got an unexpected argument {name!r}. Arguments: {', '.join(NAMES)}.")
        self._id, self._exec = str(id), exec_tag
        self._sub_id, self._workspace, self._resource, self._output, self._error = (
            "" if options.get(name) is None else str(options[name]) for name in NAMES if name != "dependency"
        )
        self._performances: list[Performance] = []
        self._files: list[File] = []
        self.status = TaskStatus.READY
        self.start_time: str | None = None
        self.end_time: str | None = None
        self.dependencies: list[tuple[str, str]] = []
        self._pending: list[DataSet] = []
        self._recorded_counts = {"files": 0, "performances": 0}
        self._outer_error: BaseException | None = None
        self._depend(options.get("dependency"))

    def _dataflow_of(self, flow: Any, *transformations: str) -> Dataflow:
        """Return the dataflow; one that nobody declared is an error of the recording, not of the script."""
        try:
            return find_dataflow(flow, *transformations)
        except TagNotFound as error:
            self._report(error)
            return Dataflow(str(flow))

    def _transformation_of(self, tag: str) -> Transformation:
        """Return a transformation; one that was not declared is reported, and its tasks are steps without rows."""
        try:
            return self.dataflow.transformation(tag)
        except TagNotFound as error:
            self._report(error)
            self.dataflow.add_transformation(Transformation(tag))
            return self.dataflow.transformation(tag)

    def _report(self, error: Exception) -> None:
        """Report an error to the run, which logs and counts it, when the task begins at the latest."""
        if self._recorder is not None:
            self._recorder.run._report_error(error)
        else:
            self._errors.append(error)

    def _depend(self, dependency: Any) -> None:
        if isinstance(dependency, Task):
            self.dependencies.append((dependency._tag, dependency._id))
        elif isinstance(dependency, Dependency):
            self.add_dependency(dependency)
        elif isinstance(dependency, Sequence) and not isinstance(dependency, str):
            for item in dependency:
                self._depend(item)
        elif dependency:
            advice = "Pass the Task that precedes this one."
            raise WrongType("Task", "dependency", dependency, "a Task or several", advice)

    def add_dependency(self, dependency: Dependency) -> None:
        """Add the tasks that precede this one."""
        for tag, task_id in expect(self, "dependency", dependency, Dependency).pairs:
            self._transformation_of(tag)
            self.dependencies.append((tag, task_id))

    def set_datasets(self, datasets: list[DataSet]) -> None:
        """Add several data sets."""
        for dataset in datasets:
            self.add_dataset(dataset)

    def add_dataset(self, dataset: DataSet) -> None:
        """Add rows. The next begin, save or end records them."""
        expect(self, "dataset", dataset, DataSet)
        if not any(item._tag == dataset._tag for item in self.transformation.set_objects):
            tags = tuple(dict.fromkeys(item.tag for item in self.transformation.set_objects))
            advice = f"Correct the tag, or add the set with add_set(Set({dataset.tag!r}, …))."
            owner = f"The transformation {self.transformation.tag!r}"
            self._report(TagNotFound("set", dataset.tag, owner, tags, advice))
        else:
            self._pending.append(dataset)

    def add_file(self, file: File) -> None:
        """Add a file. A file added before the task begins is an input, a later one is an output."""
        self._files.append(expect(self, "file", file, File))

    def add_performance(self, performance: Performance) -> None:
        """Add the duration of a part of the task."""
        self._performances.append(expect(self, "performance", performance, Performance))

    def set_status(self, status: TaskStatus) -> None:
        """Set the status. `begin` and `end` record it; FAILED makes the end a failure."""
        self.status = expect(self, "status", status, TaskStatus)

    def begin(self) -> None:
        """Record the start of the task."""
        self._begin()
        self.save()

    def _begin(self) -> TaskRecorder:
        if self._recorder is None:
            self._outer_error = sys.exc_info()[1]
            self.start_time = f"{datetime.now():{TIME_FORMAT}}"
            # programs and extractors may have been tagged since
            self.transformation = self.dataflow.transformation(self.tag)
            key = self._tag, self._id
            execution = execution_of(self.dataflow, self._exec, key, self._sub_id)
            self._recorder = create_recorder(execution, self.transformation, self.dependencies)
            execution.tasks.setdefault(key, {})[self._sub_id] = self._recorder
            errors, self._errors = self._errors, []
            for error in errors:
                self._report(error)
            name = f"{self.transformation.tag} {self._id}" + (f".{self._sub_id}" if self._sub_id else "")
            self._recorder.record_execution(name=name, directory=self._workspace, resource=self._resource)
            for file in self._unrecorded("files", self._files):
                self._recorder.record_file(file, is_output=False)
            if self.status is TaskStatus.READY:
                self.status = TaskStatus.RUNNING
        return self._recorder

    def _unrecorded(self, kind: str, items: list[T]) -> list[T]:
        """Return the items that were added since the last call."""
        count, self._recorded_counts[kind] = self._recorded_counts[kind], len(items)
        return items[count:]

    def save(self) -> None:
        """Record the added rows, files and performances."""
        recorder = self._begin()
        pending, self._pending = self._pending, []
        for dataset in pending:
            for element in dataset.rows:
                recorder.record_row(dataset, element)
        for file in self._unrecorded("files", self._files):
            recorder.record_file(file, is_output=True)
        for performance in self._unrecorded("performances", self._performances):
            recorder.record_performance(performance)

    def end(self) -> None:
        """Record the end of the task: FAILED while an exception is handled, or if the script set an error."""
        self.save()
        recorder = self._begin()
        error = sys.exc_info()[1]
        if error is self._outer_error:  # the error was being handled before the task began
            error = None
        if error is None and (self._error or self.status is TaskStatus.FAILED):
            error = TaskError(self._error or "the script set its status to FAILED")
        self.status = TaskStatus.FINISHED if error is None else TaskStatus.FAILED
        if not recorder.is_done:
            recorder.record_execution(output=self._output, errors=self._error)
        recorder.done(error)
        self.end_time = f"{datetime.now():{TIME_FORMAT}}"

    def _fields(self) -> dict[str, Any]:
        dependency = Dependency([tag for tag, _ in self.dependencies], [task for _, task in self.dependencies])
        own = [Performance(self.start_time, self.end_time)] if self.start_time and self.end_time else []
        return {
            "tag": self._tag,
            "exec": self._exec,
            "workspace": self._workspace,
            "resource": self._resource,
            "dependency": dependency.get_specification(),
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


def _tags(flow: Any, exec_tag: str, rest: list[Any]) -> tuple[str, str, list[Any]]:
    """Return the tags of the execution and of the transformation, and the remaining arguments.

    Older scripts pass no tag of an execution: the declared transformations show which of the two a text is.
    """
    if not rest:
        raise MissingField("Task", "transformation_tag", "the tag of a transformation")
    first, second = str(rest[0]), str(rest[1]) if len(rest) > 1 and isinstance(rest[1], str) else ""
    if exec_tag or not second:
        return exec_tag, first, rest[1:]
    dataflow = find_dataflow(flow, first, second)
    if dataflow.has(first) and not dataflow.has(second):
        return "", first, rest[1:]
    return first, second, rest[2:]
