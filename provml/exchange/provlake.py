"""Messages of ProvLake clients (IBM's multi-data-lineage-capture) as runs.

An execution of a workflow is a run. A task is a stage of learning or a step, by its name. A cycle inside a training is
a section of it, such as an epoch. Clients leave out zeros and empty values, and end everything around an exception as
FINISHED: only a task that ended as ERRORED says that a run failed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from provml import workflow as flow
from provml.exchange.user_agent import software_of
from provml.journal import events
from provml.journal.events import LEARNING_KINDS
from provml.journal.redaction import redact_text
from provml.recording.encoding import encode_measures, encode_parameters
from provml.recording.kinds import hyperparameter_of, kind_of

Message = dict[str, Any]
WRITER = "provlake"
GLOBAL = "global"
EPOCH = "epoch"
"""Name of the workflow of tasks that have none."""
REFERENCE_TYPES = ("data_reference", "kg_reference", "dataset_item")
WRAPPER_TYPES = ("attribute_value", "dict", "list", "attribute")
ROLES = (("train", "training"), ("val", "validation"), ("test", "test"))
VALIDATION_PREFIXES = ("val_", "validation_", "valid_")
DATATYPES = {"float": "double", "double": "double", "int": "integer", "integer": "integer", "str": "string"}
MAX_SLUG_CHARS = 60


def workflow_of(message: Message) -> str:
    """Return the name of the workflow that a message is about."""
    return str(message.get("dataflow_name") or GLOBAL)


def execution_of(message: Message) -> str:
    """Return the execution of the workflow that a message is about: a time as text, or the user's own text."""
    body = _dict(message.get("prov_obj"))
    inner = next((body[name] for name in ("task", "cycle") if isinstance(body.get(name), dict)), body)
    execution = inner.get("wf_execution", body.get("wf_execution"))
    return GLOBAL if execution is None else repr(execution) if isinstance(execution, float) else str(execution)


def run_id_of(workflow: str, execution: str) -> str:
    """Return the id of a run, which is the same whenever it is received."""
    slug = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in workflow)[:MAX_SLUG_CHARS]
    return f"{slug.strip('-.') or 'workflow'}-{hashlib.sha256(f'{workflow} {execution}'.encode()).hexdigest()[:12]}"


@dataclass
class Activity:
    """A task or a cycle, with what its messages said so far."""

    name: str
    key: str
    iteration: int | None = None
    """Number of the iteration; None for a task."""
    parent_cycle: str = ""
    parent_iteration: int = 0
    generated: float | None = None
    started: float | None = None
    ended: float | None = None
    status: str = ""
    inputs: Message = field(default_factory=dict)
    outputs: Message = field(default_factory=dict)
    details: Message = field(default_factory=dict)
    person: str = ""
    stdout: str = ""
    stderr: str = ""
    location: str = ""
    sections: list[Activity] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Kind of the stage or step, by what the user said about it or by its name."""
        stage = _dict(self.details.get("custom_metadata")).get("stage")
        kind = kind_of(str(stage)) if stage else kind_of(self.name)
        return "step" if kind == "adaptation" else kind

    @property
    def has_failed(self) -> bool:
        """Whether it ended by an error."""
        return self.status == "ERRORED"

    def start(self, default: float) -> float:
        """Return the time of the start, or the best that is known of it."""
        return next((time for time in (self.started, self.generated, self.ended) if time is not None), default)


class ProvLakeRun:
    """The messages of one execution of a workflow. Messages may come in any order, and more than once."""

    def __init__(self, workflow: str, execution: str) -> None:
        self.workflow = workflow
        self.execution = execution
        self.prospective: Message | None = None
        self.client = ""
        self.agent = ""
        self.first_time = math.inf
        self.last_time = -math.inf
        self.started: float | None = None
        self.ended: float | None = None
        self.context = ""
        self.details: Message = {}
        self.values: Message = {}
        self.tasks: dict[str, Activity] = {}
        self.cycles: dict[tuple[str, int, float | None], Activity] = {}
        self.infers_failure = False
        """Whether a training that ended without an output counts as failed: the client says FINISHED in any case."""

    @property
    def id(self) -> str:
        """Id of the run."""
        return run_id_of(self.workflow, self.execution)

    # ---- messages

    def feed(self, message: Message, time: float) -> None:
        """Take in a message that was received at a time."""
        self.first_time, self.last_time = min(self.first_time, time), max(self.last_time, time)
        self.context = str(message.get("context") or self.context)
        body = _dict(message.get("prov_obj"))
        kind = message.get("act_type")
        if kind == "workflow":
            self._feed_workflow(body, message)
        elif kind == "cycle":
            self._feed_cycle(body, message)
        else:
            self._feed_task(body, message)

    def _feed_workflow(self, body: Message, message: Message) -> None:
        self.started = _time(body.get("startTime"), self.started)
        self.ended = _time(body.get("endTime"), self.ended)
        self.values |= _dict(body.get("values"))
        for name in ("custom_metadata", "stdout", "stderr"):
            if message.get(name, body.get(name)):
                self.details[name] = message.get(name, body.get(name))

    def _feed_task(self, body: Message, message: Message) -> None:
        fields = _dict(body.get("task"))
        key = str(fields.get("id"))
        task = self.tasks.setdefault(key, Activity(str(body.get("dt") or "task"), key))
        task.parent_cycle = str(fields.get("parent_cycle_name") or task.parent_cycle)
        task.parent_iteration = _int(fields.get("parent_cycle_iteration"), task.parent_iteration)
        self._feed_activity(task, fields, body, message)

    def _feed_cycle(self, body: Message, message: Message) -> None:
        fields = _dict(body.get("cycle"))
        name, iteration = str(body.get("cycle_name") or "cycle"), _int(fields.get("iteration_id"), 0)
        key = name, iteration, _time(fields.get("startTime"), None)
        cycle = self.cycles.setdefault(key, Activity(name, f"{name} {iteration}", iteration))
        self._feed_activity(cycle, fields, body, message)

    def _feed_activity(self, activity: Activity, fields: Message, body: Message, message: Message) -> None:
        activity.generated = _time(fields.get("generatedTime"), activity.generated)
        activity.started = _time(fields.get("startTime"), activity.started)
        is_output = body.get("type") == "Output"
        values = _dict(body.get("values"))
        if is_output:
            activity.outputs |= values
            activity.ended = _time(fields.get("endTime"), activity.ended)
            activity.status = str(fields.get("status") or activity.status)
        else:
            activity.inputs |= values
        activity.person = str(body.get("person") or activity.person)
        activity.stdout = str(fields.get("stdout") or activity.stdout)
        activity.stderr = str(fields.get("stderr") or activity.stderr)
        for name in ("custom_metadata", "attribute_associations"):
            value = message.get(name) or body.get(name) or fields.get(name)
            if value:
                activity.details[name] = value

    # ---- status

    @property
    def has_failed(self) -> bool:
        """Whether any task ended by an error."""
        return self.failed_task is not None

    @property
    def failed_task(self) -> Activity | None:
        """The task that ended by an error, as far as the messages show it."""
        failed = next((task for task in self.tasks.values() if task.has_failed), None)
        if failed is None and self.infers_failure:
            ended = [task for task in self.tasks.values() if task.ended is not None and task.kind in LEARNING_KINDS]
            failed = next((task for task in ended if not task.outputs), None)
        return failed

    @property
    def open_tasks(self) -> list[Activity]:
        """Tasks without an end."""
        return [task for task in self.tasks.values() if task.ended is None]

    def is_over(self, *, is_silent: bool) -> bool:
        """Return whether the run has ended: its workflow, or all of its tasks if there is no workflow and silence."""
        if self.ended is not None:
            return True
        has_workflow = self.started is not None
        return is_silent and not has_workflow and bool(self.tasks) and not self.open_tasks

    # ---- events

    def all_events(self, *, is_silent: bool = False) -> list[events.Event]:
        """Return the events of the run, with its end if it is over."""
        return list(_RunEvents(self).all_events(is_silent=is_silent))


class _RunEvents:
    """Writes the events of a run, activity by activity, in the order of their starts."""

    def __init__(self, run: ProvLakeRun) -> None:
        self.run = run
        self.names: Counter[str] = Counter()
        self.refs: dict[tuple[str, str], str] = {}
        self.model_ref = ""
        self.validations: dict[str, float] = {}
        """Start of each validation stage by its location."""

    def all_events(self, *, is_silent: bool) -> Iterator[events.Event]:
        run = self.run
        activities = self._arrange()
        times = [time for task in run.tasks.values() for time in (task.generated, task.started) if time is not None]
        started = run.started if run.started is not None else min([*times, run.first_time])
        header = events.Header(events.VERSION, run.id, WRITER, run.workflow, started, run.workflow)
        header.host, header.study = run.client, run.context
        yield header
        texts = {**_encode(run.details), **_encode(run.values)}
        comment = "\n".join(f"{name}: {value}" for name, value in texts.items() if value != "")
        software = software_of(run.agent)
        if comment or software:
            yield events.Environment(process={"comment": comment} if comment else {}, software=software)
        if run.prospective is not None:
            yield events.Workflow(to_workflow(run.workflow, run.prospective))
        is_over = run.is_over(is_silent=is_silent)
        for activity in activities:
            if activity.started is not None or activity.ended is not None or is_over:
                yield from self._top_level(activity)
        if is_over:
            ends = [activity.ended for activity in run.tasks.values() if activity.ended is not None]
            ended = run.ended if run.ended is not None else max([started, *ends])
            failed = run.failed_task
            status = "FINISHED" if failed is None else "FAILED"
            yield events.End(ended, status, _error(failed) if failed is not None else [])

    def _arrange(self) -> list[Activity]:
        """Return tasks and cycles at the top level by their starts; assign cycles to trainings, and name locations."""
        run = self.run
        items = [*run.tasks.values(), *run.cycles.values()]
        items.sort(key=lambda item: (item.start(run.first_time), item.iteration is not None, item.key))
        tasks = {id(task) for task in run.tasks.values()}
        trainings = [item for item in items if item.iteration is None and item.kind in LEARNING_KINDS]
        top: list[Activity] = []
        for item in items:
            item.location, item.sections = "", []
            if id(item) in tasks:
                item.iteration = self._epoch_of(item, trainings)
            owner = self._owner(item, trainings) if item.iteration is not None else None
            if owner is None:
                item.location = self._allocate(item.name)
                top.append(item)
            else:
                owner.sections.append(item)
        for stage in trainings:
            first = min((section.iteration or 0 for section in stage.sections), default=1)
            for section in stage.sections:
                section.location = f"{stage.location}/{(section.iteration or 0) + (1 if first == 0 else 0)}"
        return top

    def _epoch_of(self, task: Activity, trainings: list[Activity]) -> int | None:
        """Return the number of the epoch that a task inside a training is, for scripts without cycles."""
        number = task.inputs.get(EPOCH)
        if EPOCH not in task.name.lower() or task.kind in LEARNING_KINDS:
            return None
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            return None
        start = task.start(self.run.first_time)
        outer = [stage for stage in trainings if stage.start(self.run.first_time) <= start]
        return number if any(stage.ended is None or start <= stage.ended for stage in outer) else None

    def _owner(self, cycle: Activity, trainings: list[Activity]) -> Activity | None:
        """Return the stage whose section a cycle is: the last that began before it and did not end before it."""
        start = cycle.start(self.run.first_time)
        for stage in reversed(trainings):
            is_inside = stage.start(self.run.first_time) <= start and (stage.ended is None or start <= stage.ended)
            is_same_cycle = not stage.sections or stage.sections[0].name == cycle.name
            is_taken = any(section.iteration == cycle.iteration for section in stage.sections)
            if is_inside and is_same_cycle and not is_taken and (cycle.iteration or 0) >= 0:
                return stage
        return None

    def _allocate(self, name: str) -> str:
        slug = "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip("-.") or "step"
        while True:
            self.names[slug] += 1
            location = slug if self.names[slug] == 1 else f"{slug}-{self.names[slug]}"
            if location == slug or location not in self.names:
                return location

    def _top_level(self, activity: Activity) -> Iterator[events.Event]:
        location = activity.location
        kind = activity.kind if activity.iteration is None else "step"
        begin = events.Begin(location, kind, activity.start(self.run.first_time), activity.name)
        begin.by, begin.parent = activity.person, self._parent(activity)
        references, values = _split(activity.inputs)
        described = list(self._describe(references, is_model_allowed=kind in LEARNING_KINDS))
        yield from (event for event, _, _ in described if event is not None)
        yield begin
        yield from self._use(location, kind, [(name, ref) for _, name, ref in described])
        if activity.iteration is not None:
            values["iteration"] = activity.iteration
        yield from self._parameters(location, values | activity.details)
        rates = {hyperparameter_of(name): value for name, value in values.items()}
        for section in activity.sections:
            yield from self._section(activity, section, rates)
        if activity.ended is not None:
            yield from self._end_of(activity, kind)

    def _parent(self, activity: Activity) -> str:
        """Return the location of the cycle that a task belongs to."""
        cycle = self._cycle_of(activity)
        return cycle.location if cycle is not None else ""

    def _cycle_of(self, task: Activity) -> Activity | None:
        if not task.parent_cycle:
            return None
        start = task.start(self.run.first_time)
        cycles = [
            cycle
            for (name, iteration, _), cycle in self.run.cycles.items()
            if name == task.parent_cycle and iteration == task.parent_iteration
        ]
        cycles.sort(key=lambda cycle: cycle.start(self.run.first_time))
        earlier = [cycle for cycle in cycles if cycle.start(self.run.first_time) <= start]
        return next(iter([*reversed(earlier), *reversed(cycles)]), None)

    # ---- sections

    def _section(self, stage: Activity, section: Activity, rates: Message) -> Iterator[events.Event]:
        """Write an epoch or another section; hyperparameters that differ from those before it are adaptations."""
        started = section.start(self.run.first_time)
        inputs = {name: value for name, value in _split(section.inputs)[1].items() if name != EPOCH}
        values = {hyperparameter_of(name): value for name, value in inputs.items()}
        changed = {name: value for name, value in values.items() if name in rates and rates[name] != value}
        new = {name: value for name, value in values.items() if name not in rates}
        rates |= values
        if new:
            yield from self._parameters(stage.location, new)
        if changed:
            yield events.Adapted(section.location, started, _encode(changed))
        kind = EPOCH if EPOCH in section.name.lower() else section.name
        yield events.Begin(section.location, kind, started, index=int(section.location.rpartition("/")[2]))
        if section.ended is None:
            return
        measures = _measures(self._section_values(section))
        training = {name: value for name, value in measures.items() if not name.startswith(VALIDATION_PREFIXES)}
        validation = {
            name.removeprefix(prefix): value
            for name, value in measures.items()
            for prefix in VALIDATION_PREFIXES
            if name.startswith(prefix)
        }
        if training:
            yield events.Measured(section.location, training)
        if validation:
            yield from self._validation(stage, section, validation)
        yield from self._produce(section.location, "section", section)
        yield events.Done(section.location, section.ended, max(section.ended - started, 0.0))

    def _section_values(self, section: Activity) -> Message:
        """Return the values of a section: its own, and those of the tasks in it that have other names."""
        values: Message = {}
        for task in self.run.tasks.values():
            if task.parent_cycle and self._cycle_of(task) is section:
                values |= _split(task.outputs)[1]
        return values | _split(section.outputs)[1]

    def _validation(self, stage: Activity, section: Activity, values: events.Values) -> Iterator[events.Event]:
        name = "validation" if stage.location == "training" else f"{stage.location}-validation"
        index = section.location.rpartition("/")[2]
        ended = section.ended or 0.0
        if name not in self.validations:
            self.validations[name] = section.start(ended)
            yield events.Begin(name, "validation", section.start(ended), name)
        yield events.Begin(f"{name}/{index}", section.name, ended, index=int(index), parent=section.location)
        yield events.Measured(f"{name}/{index}", values)
        yield events.Done(f"{name}/{index}", ended, 0.0)

    # ---- ends

    def _end_of(self, activity: Activity, kind: str) -> Iterator[events.Event]:
        location, ended = activity.location, activity.ended or 0.0
        is_in_section = (cycle := self._cycle_of(activity)) is not None and "/" in cycle.location
        if kind in LEARNING_KINDS:
            _, values = _split(activity.outputs)
            measures = _measures(values)
            if measures:
                yield events.Measured(location, measures)
            yield from self._parameters(location, {name: item for name, item in values.items() if name not in measures})
        if kind in LEARNING_KINDS or not is_in_section:
            yield from self._produce(location, kind, activity)
        if activity.stdout or activity.stderr:
            texts = redact_text(activity.stdout), redact_text(activity.stderr)
            yield events.ExecutionDetails(location, output=texts[0], errors=texts[1])
        started = activity.start(ended)
        name = "validation" if location == "training" else f"{location}-validation"
        if activity.sections and name in self.validations:
            yield events.Done(name, ended, max(ended - self.validations[name], 0.0))
        status = "FAILED" if activity.has_failed else "FINISHED"
        error = _error(activity) if activity.has_failed else []
        yield events.Done(location, ended, max(ended - started, 0.0), status, error)

    def _produce(self, location: str, kind: str, activity: Activity) -> Iterator[events.Event]:
        """Write what an activity produced: its references with its other values, or data made of these values."""
        references, values = _split(activity.outputs)
        is_learning = kind in LEARNING_KINDS or kind == "section"
        characteristics = {} if is_learning else _encode(values)
        described = list(self._describe(references, characteristics, is_model_allowed=is_learning))
        for event, _, ref in described:
            if event is not None:
                yield event
            yield events.Produced(location, ref)
            if isinstance(event, events.Data) and event.kind == "model":
                self.model_ref = ref
        if not described and characteristics:
            ref = f"dataset-{location}"
            yield events.Data(ref, "dataset", f"{activity.name} output", values=characteristics)
            yield events.Produced(location, ref)
        if kind == "training" and not activity.has_failed and not any("model" in name for _, name, _ in described):
            self.model_ref = f"model-{location}"
            yield events.Data(self.model_ref, "model", self.run.workflow)
            yield events.Produced(location, self.model_ref)

    # ---- data and parameters

    def _describe(
        self, references: Message, characteristics: events.Values | None = None, *, is_model_allowed: bool
    ) -> Iterator[tuple[events.Event | None, str, str]]:
        """Yield the event that describes each reference, if it is new, with its name and its ref.

        What a reference points to is on another machine and is not opened.
        """
        for name, reference in references.items():
            value, store = reference.get("value"), str(reference.get("data_store_id") or "")
            path = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
            path = redact_text(path)
            ref, event = self.refs.get((path, store), ""), None
            if not ref:
                ref = self.refs[path, store] = self._allocate(f"data-{name}")
                kind = "model" if is_model_allowed and "model" in name.lower() else "dataset"
                label = self.run.workflow if kind == "model" else name
                event = events.Data(ref, kind, label, path, store=store or self.run.client)
                if kind == "dataset":
                    event.values = characteristics or {}
            yield event, name, ref

    def _use(self, location: str, kind: str, inputs: list[tuple[str, str]]) -> Iterator[events.Event]:
        has_data = has_model = False
        for name, ref in inputs:
            is_model = "model" in name.lower() and kind in LEARNING_KINDS
            has_model, has_data = has_model or is_model, has_data or not is_model
            yield events.Used(location, ref, "model" if is_model else _role(name, kind))
        if kind == "evaluation" and not has_model and self.model_ref:
            yield events.Used(location, self.model_ref, "model")
        if kind == "training" and not has_data:  # every model comes from data
            ref = self._last_dataset()
            if not ref:
                ref = "dataset-training-data"
                yield events.Data(ref, "dataset", "training data")
            yield events.Used(location, ref, "training")

    def _last_dataset(self) -> str:
        """Return the training data that an earlier step produced, by its name."""
        named = [ref for ref in self.refs.values() if ref.startswith("data-") and "train" in ref]
        return named[-1] if named else ""

    def _parameters(self, location: str, values: Message) -> Iterator[events.Event]:
        encoded = _encode(values)
        if encoded:
            yield events.Parameter(location, encoded)


def _split(values: Message) -> tuple[Message, Message]:
    """Return the references among values, and all others as plain values."""
    references: Message = {}
    others: Message = {}
    for name, value in values.items():
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in REFERENCE_TYPES:
            references[name] = value
        elif kind in WRAPPER_TYPES and isinstance(value, dict) and "value" in value:
            others[name] = value["value"]
        else:
            others[name] = value
    return references, others


def _measures(values: Message) -> events.Values:
    numbers = {
        name: value for name, value in values.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return encode_measures(numbers)[0]


def _encode(values: Message) -> events.Values:
    return encode_parameters(values)[0]


def _role(name: str, kind: str) -> str:
    """Return the role of data by its name, or by the kind of the stage."""
    role = next((role for word, role in ROLES if word in name.lower()), "")
    return role or {"training": "training", "validation": "validation", "evaluation": "test"}.get(kind, "")


def _error(activity: Activity) -> list[str]:
    lines = redact_text(activity.stderr).strip().splitlines()
    kind, separator, message = (lines[-1] if lines else "").partition(": ")
    if separator and kind.isidentifier():
        return [kind, message]
    return ["TaskError", lines[-1] if lines else f"the task {activity.name!r} ended as ERRORED"]


def _dict(value: Any) -> Message:
    return value if isinstance(value, dict) else {}


def _int(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _time(value: Any, default: float | None) -> float | None:
    """Return a time in seconds since 1970; the default if the value is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return float(value) if events.MIN_TIME <= value <= events.MAX_TIME else default


# ---- prospective provenance


def to_workflow(name: str, message: Message) -> dict[str, Any]:
    """Return a prospective message as a workflow, as plain data for an event."""
    workflow = flow.Workflow(name, study=str(message.get("context") or ""))
    for store, fields in _dict(message.get("storage_configuration")).items():
        kind = str(_dict(fields).get("type") or "")
        workflow.stores[str(store)] = flow.DataStore(description=kind)
    for step in _dicts(message.get("data_transformations")):
        kind = kind_of(str(step.get("name", "")))
        kind = "step" if kind == "adaptation" else kind
        is_learning = kind in LEARNING_KINDS
        inputs = _declare(workflow, step, ("input", "inputs"), "hyperparameter" if is_learning else "parameter")
        outputs = _declare(workflow, step, ("output", "outputs"), "measure" if is_learning else "dataset")
        workflow.transformations[str(step.get("name", "step"))] = flow.Transformation(
            kind, inputs=inputs, outputs=outputs
        )
    workflow.version = flow.content_version(workflow)
    plan: dict[str, Any] = msgspec.to_builtins(workflow)
    return plan


def _declare(workflow: flow.Workflow, step: Message, sides: Iterable[str], default: str) -> list[str]:
    keys = []
    for item in (item for side in sides for item in _dicts(step.get(side))):
        name, datatype = str(item.get("name", "")), str(item.get("datatype") or "").lower()
        kind = default
        if datatype in ("data_reference", "kg_reference", "file"):
            kind = "model" if "model" in name.lower() else "dataset"
        key = name if name not in workflow.attributes or workflow.attributes[name].kind == kind else f"{name} ({kind})"
        known_type = DATATYPES.get(datatype) if kind not in ("model", "dataset") else None
        workflow.attributes.setdefault(key, flow.Attribute(kind, name=name if key != name else "", type=known_type))
        keys.append(key)
    return keys


def _dicts(value: Any) -> list[Message]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
