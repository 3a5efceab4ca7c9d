"""Messages of dfa-lib-python clients, as they send them to DfAnalyzer, recorded like the calls that send them.

`Dataflow.save` sends the dataflow, `Task.begin`, `save` and `end` send the task with its rows as text. An execution is
recorded by the classes that also record the calls of this package, so that both give the same graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from provml.compat.dfa_lib_python._execution import Execution, Key
from provml.compat.dfa_lib_python._tasks import TaskRecorder, create_recorder
from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.dataflow import Dataflow, family_of
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.performance import Performance
from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.task import TaskError
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.errors import TagNotFound
from provml.recording.event_list import EventListRun
from provml.recording.safety import report_errors

Message = dict[str, Any]
E = TypeVar("E", bound=Enum)
SUB_IDS = ("sub", "subid", "sub_id")
"""Names of the sub-id of a task: the clients send the first, the original server reads the second."""
ZONE_STEP_SECONDS = 900
"""Time zones differ by multiples of a quarter of an hour."""


class ReceivedDataflow(Dataflow):
    """A dataflow of another process: the tasks of this process do not find it by its tag."""

    def _register(self) -> None:
        pass


def parse_dataflow(message: Message) -> Dataflow:
    """Return the dataflow of a message. What cannot be read is left out: the message itself is kept elsewhere."""
    dataflow = ReceivedDataflow(str(message.get("tag", "")))
    for fields in objects_in(message.get("transformations")):
        transformation = Transformation(str(fields.get("tag", "")))
        for item in objects_in(fields.get("sets")):
            transformation.add_set(_parse_set(item))
        for item in objects_in(fields.get("programs")):
            transformation.add_program(Program(str(item.get("name", "")), str(item.get("path", ""))))
        dataflow.add_transformation(transformation)
    return dataflow


def predefined_dataflow(tag: str, transformations: Iterable[str]) -> Dataflow | None:
    """Return the dataflow that DNNProv or DLProv predefine, for tasks whose dataflow was not sent; None for others."""
    return ReceivedDataflow(tag, True) if any(map(family_of, transformations)) else None


def _parse_set(fields: Message) -> Set:
    attributes = [
        Attribute(str(item.get("name", "")), _member(AttributeType, item.get("type"), AttributeType.TEXT))
        for item in objects_in(fields.get("attributes"))
    ]
    extractors = []
    for item in objects_in(fields.get("extractors")):
        with contextlib.suppress(ValueError, KeyError):  # a cartridge or an extension of another version
            kinds = ExtractorCartridge(item["cartridge"]), ExtractorExtension(item["extension"])
            extractors.append(Extractor(str(item.get("tag", "")), *kinds))
    side = _member(SetType, fields.get("type"), SetType.OUTPUT)
    return Set(str(fields.get("tag", "")), side, attributes, extractors, str(fields.get("dependency") or ""))


def _member(members: type[E], value: Any, default: E) -> E:
    try:
        return members(str(value).upper())
    except ValueError:
        return default


def objects_in(value: Any) -> list[Message]:
    """Return the JSON objects in a list; none of what is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def task_key(message: Message) -> Key:
    """Return what names a task in its execution, besides a sub-id: its transformation and its id."""
    return str(message.get("transformation") or message.get("tag") or "").lower(), str(message.get("id", ""))


def rows_of(fields: Message) -> list[list[Any]]:
    """Return the rows that a message has of a set."""
    elements = fields.get("elements")
    return [row for row in elements if isinstance(row, list)] if isinstance(elements, list) else []


def sub_id_of(message: Message) -> str:
    """Return the sub-id of a task; empty if it has none."""
    return next((str(message[name]) for name in SUB_IDS if message.get(name) is not None), "")


def dependencies_of(message: Message) -> list[Key]:
    """Return the tasks that precede a task: an id is a text, or a list where the script passed lists."""
    dependency = message.get("dependency")
    if not isinstance(dependency, dict):
        return []
    tags = [str(item.get("tag", "")).lower() for item in objects_in(dependency.get("tags"))]
    ids = [item.get("id") for item in objects_in(dependency.get("ids"))]
    keys: list[Key] = []
    for tag, task_ids in zip(tags, ids, strict=False):
        keys += [(tag, str(task_id)) for task_id in (task_ids if isinstance(task_ids, list) else [task_ids])]
    return keys


class SentRows:
    """The rows that tasks have sent: some clients send all of them again with each message, others only new ones."""

    def __init__(self) -> None:
        self._digests: set[tuple[Hashable, int, int]] = set()

    def new(self, source: Hashable, rows: list[list[Any]]) -> list[list[Any]]:
        """Return the rows of a message that its source has not sent before at the same place."""
        digests = [(source, place, hash(str(row))) for place, row in enumerate(rows)]
        new = [row for row, digest in zip(rows, digests, strict=True) if digest not in self._digests]
        self._digests.update(digests)
        return new


class ReceivedExecution(Execution):
    """An execution of a dataflow by its messages. `has_failed` says whether a task reported an error.

    `repeats_rows` leaves out rows that came before, at the same place of a message.
    """

    run: EventListRun

    def __init__(self, dataflow: Dataflow, run: EventListRun, *, repeats_rows: bool) -> None:
        super().__init__(dataflow, run)
        self.has_failed = False
        self.error = ""
        self._repeats_rows = repeats_rows
        self._sent_rows = SentRows()

    def feed(self, message: Message, time: float) -> None:
        """Record a message that was received at a time."""
        self.run.now = time
        with report_errors(self.run):
            self._feed(message)

    def _feed(self, message: Message) -> None:
        key = task_key(message)
        recorder = self._recorder(key, message)
        if recorder.is_done and not recorder.location:  # an adaptation may go on after its end
            recorder.is_done = False
        for fields in objects_in(message.get("sets")):
            self._record_rows(recorder, key, sub_id_of(message), fields)
        own = _own_performance(message)
        for fields in objects_in(message.get("performances")):
            if fields is not own:
                recorder.record_performance(_performance(fields, own, self.run.now))
        error, output = str(message.get("error") or ""), str(message.get("output") or "")
        if recorder.is_done:
            return
        if error or output:
            recorder.record_execution(output=output, errors=error)
        if error:
            self.has_failed, self.error = True, error
            recorder.done(TaskError(error))
        elif str(message.get("status", "")).upper() == "FINISHED":
            recorder.done(None)

    def _recorder(self, key: Key, message: Message) -> TaskRecorder:
        sub_id = sub_id_of(message)
        recorder = self.tasks.get(key, {}).get(sub_id)
        if isinstance(recorder, TaskRecorder):
            return recorder
        recorder = create_recorder(self, self.dataflow.transformation(key[0]), dependencies_of(message))
        self.tasks.setdefault(key, {})[sub_id] = recorder
        name = f"{recorder.transformation.tag} {key[1]}" + (f".{sub_id}" if sub_id else "")
        directory, resource = (str(message.get(field) or "") for field in ("workspace", "resource"))
        recorder.record_execution(name=name, directory=directory, resource=resource)
        return recorder

    def _record_rows(self, recorder: TaskRecorder, key: Key, sub_id: str, fields: Message) -> None:
        tag = str(fields.get("tag", ""))
        if not any(item._tag == tag.lower() for item in recorder.transformation.set_objects):
            tags = tuple(item.tag for item in recorder.transformation.set_objects)
            raise TagNotFound("set", tag, f"The transformation {recorder.transformation.tag!r}", tags, "Declare it.")
        rows = rows_of(fields)
        for row in self._sent_rows.new((key, sub_id, tag), rows) if self._repeats_rows else rows:
            recorder.record_row(DataSet(tag, []), Element(row))

    @property
    def is_complete(self) -> bool:
        """Whether all tasks have ended, and each transformation of the dataflow had one."""
        begun = {tag for tag, _ in self.tasks}
        return self.is_over and all(step._tag in begun for step in self.dataflow.merged())


def _own_performance(message: Message) -> Message | None:
    """Return the times of the task itself, which the client adds when the task ends."""
    performances = objects_in(message.get("performances"))
    is_end = str(message.get("status", "")).upper() == "FINISHED"
    return performances[-1] if is_end and performances and not performances[-1].get("method") else None


def _performance(fields: Message, own: Message | None, received: float) -> Performance:
    """Return the times of a part of a task, in the time zone of the client if the end of the task shows it."""
    times = [str(fields.get(name, "")) for name in ("startTime", "endTime")]
    with contextlib.suppress(ValueError, TypeError):
        ended = datetime.fromisoformat(str((own or {}).get("endTime"))).replace(tzinfo=UTC).timestamp()
        offset = round((received - ended) / ZONE_STEP_SECONDS) * ZONE_STEP_SECONDS
        parsed = [datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() + offset for text in times]
        times = [datetime.fromtimestamp(seconds, UTC).isoformat() for seconds in parsed]
    method, description = (str(fields.get(name) or "") for name in ("method", "description"))
    return Performance(times[0], times[1], method, description)
