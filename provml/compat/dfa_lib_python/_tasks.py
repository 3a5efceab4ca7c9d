"""Recorders of tasks: a training with its epochs, an adaptation, a test, a filter, or any other step."""

from __future__ import annotations

import logging
import math
import re
from typing import Any

from provml.compat.dfa_lib_python._execution import Execution, Key
from provml.compat.dfa_lib_python._kinds import EPOCH_COLUMNS, EPOCH_NUMBERS, is_layer, measure_of
from provml.compat.dfa_lib_python._rows import Row, as_seconds, parse_row
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.file import File
from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.performance import Performance
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.journal.events import Begin, Done, ExecutionDetails, Implementation, Produced
from provml.recording.data import Data
from provml.recording.exit_status import status_of_exit
from provml.recording.kinds import hyperparameter_of, kind_of
from provml.recording.safety import report_errors
from provml.recording.stages import Stage, Step

RELATIVE_TOLERANCE = 1e-6
"""A smaller relative change of a rate is no change: some scripts pass 32-bit floats."""
FILTER_COLUMNS = ("filter_name", "filter_type", "filter")
PART_KINDS = tuple(method.value.lower() for method in MethodType)
"""Kinds of work that a part of a task may have."""
ROLES = (("train", "training"), ("val", "validation"), ("test", "test"))


class TaskRecorder:
    """Records a task as a step.

    `outputs` holds the set's tag and the data of each output. `location` is empty for a task that is not a step.
    """

    def __init__(self, execution: Execution, transformation: Transformation, before: list[Key]) -> None:
        self.execution = execution
        self.run = execution.run
        self.transformation = transformation
        self.before = before
        self.kind = kind_of(transformation.tag)
        self.outputs: list[tuple[str, Data]] = []
        self.is_done = False
        self.step = self.begin(self.inputs())
        self.started = self.run._time()
        self.location = "" if self.kind == "adaptation" else self.step._location
        for program in transformation.programs if self.location else ():
            self.run._emit(Implementation(self.location, program.name, source=program.path))

    def begin(self, using: list[Data]) -> Step:
        """Begin the step."""
        return Step(self.run, self.kind, self.transformation.tag, using, {})

    def inputs(self) -> list[Data]:
        """Return the outputs of the previous tasks in the sets that this one declares, or all of them."""
        tags = {input_set._tag for input_set in self.transformation.sets_of(SetType.INPUT)}
        tasks = self.execution.tasks_of(self.before)
        outputs = [(tag, data) for task in tasks for tag, data in task.outputs if data.kind != "model"]
        return [data for tag, data in outputs if tag in tags] or [data for _, data in outputs]

    def record_row(self, dataset: DataSet, element: Element) -> None:
        """Record a row. An error here is counted as a capture error, and the script continues."""
        with report_errors(self.run):
            data_set = next(item for item in self.transformation.set_objects if item._tag == dataset._tag)
            row = parse_row(self.run, data_set, element)
            (self.record_input if data_set.side is SetType.INPUT else self.record_output)(data_set, row)

    def record_execution(self, **details: str) -> None:
        """Record the name of the task, where it ran, and its output."""
        if self.location and any(details.values()):
            self.step.execution(**details)

    def record_file(self, file: File, *, is_output: bool) -> None:
        """Record a file that the task used or wrote."""
        if self.location:
            data = self.run._register_data("dataset", file, name=file.name)
            if not is_output:
                self.step.used(data)
            elif data.ref:  # not added to `outputs`: the file belongs to no set, so the next tasks do not use it
                self.run._emit(Produced(self.location, data.ref))

    def record_performance(self, performance: Performance) -> None:
        """Record how long a part of the task took.

        Scripts give whole seconds, so that a part may seem to start before its task.
        """
        with report_errors(self.run):
            began, ended = performance.seconds
            if 0 < self.started - began < 1:
                began, ended = self.started, max(self.started, ended)
            kind = performance.kind.lower() or "part"
            self.record_part(
                kind, f"{self.transformation.tag} {kind}", began, ended, description=performance.description
            )

    def record_part(
        self,
        kind: str,
        name: str,
        started: float,
        ended: float,
        *,
        error: BaseException | None = None,
        description: str = "",
    ) -> None:
        """Record a part of the task: a step that ran during it."""
        if self.location:
            at = self.run._allocate_location(name)
            self.run._emit(Begin(at, kind if kind in PART_KINDS else "step", started, name, parent=self.location))
            if description:
                self.run._emit(ExecutionDetails(at, description))
            self.run._emit(Done(at, ended, ended - started, *status_of_exit(error)))

    def record_input(self, data_set: Set, row: Row) -> None:
        """Record an input row: files as used data, all else as parameters."""
        for name, path in row.files.items():
            self.step.used(self.register_data(data_set, name, path))
        self.step.parameters(**row.values)

    def record_output(self, data_set: Set, row: Row) -> None:
        """Record an output row: each file as data; a row without files as data identified by its values."""
        for name, path in row.files.items():
            self.record_produced(data_set._tag, self.register_data(data_set, name, path, row.values))
        if not row.files and row.values:
            self.record_produced(data_set._tag, self.register_data(data_set, data_set._tag, None, row.values))

    def register_data(self, data_set: Set, name: str, source: Any, values: dict[str, Any] | None = None) -> Data:
        """Register data by the name of its attribute, with a role derived from the names."""
        text = f"{data_set._tag} {name}"
        role = next(
            (role for word, role in ROLES if re.search(rf"(^|[^a-z])[io]?{word}|{word}[_ ]?(set|ing)", text)), ""
        )
        return self.run._register_data("dataset", source, role=role, name=name, characteristics=values)

    def record_produced(self, tag: str, data: Data, values: dict[str, Any] | None = None) -> None:
        """Record data that the task produced, as part of the set with this tag."""
        if data.ref:
            self.run._emit(Produced(self.step._location, data.ref, self.run._encode_values(values or {})))
            self.outputs.append((tag, data))

    def done(self, error: BaseException | None) -> None:
        """Record the end of the task."""
        self.is_done = True
        self.step.done(error=error)


class FilterRecorder(TaskRecorder):
    """Records a filter. Without an output file, the filtered version of the named dataset is the output."""

    source = "dataset"

    def record_input(self, data_set: Set, row: Row) -> None:
        name = row.values.pop("dataset_name", None)
        if name is not None:
            self.source = str(name)
            self.step.used(self.run._register_data("dataset", None, name=self.source))
        super().record_input(data_set, self.normalize(row))

    def record_output(self, data_set: Set, row: Row) -> None:
        name = self.normalize(row).values.pop("filter_name", None)
        if name is not None:
            self.step.parameters(filter_name=name)
        super().record_output(data_set, row)

    def normalize(self, row: Row) -> Row:
        """Return the row with the name of the filter in the column that questions expect."""
        for name in FILTER_COLUMNS:
            if name in row.values:
                row.values["filter_name"] = row.values.pop(name)
        return row

    def done(self, error: BaseException | None) -> None:
        if error is None and not self.outputs:
            data = self.run._register_data("dataset", None, name=f"{self.source}-filtered")
            self.record_produced("filtered", data)
        super().done(error)


class LearningRecorder(TaskRecorder):
    """Records a stage of learning: its output numbers are measures."""

    step: Stage

    def begin(self, using: list[Data]) -> Stage:
        return Stage(self.run, self.kind, self.transformation.tag, using, {}, of=self.evaluated_model())

    def evaluated_model(self) -> Data | None:
        """Return the model that this stage evaluates."""
        training = latest_training(self.execution, self.before)
        return training.model() if training is not None else None

    def record_output(self, data_set: Set, row: Row) -> None:
        for name, path in row.files.items():
            self.record_produced(data_set._tag, self.register_data(data_set, name, path))
        numbers = {name: value for name, value in row.values.items() if is_number(value) and name not in EPOCH_NUMBERS}
        self.step.measured(**{_stage_measure(name, numbers): value for name, value in numbers.items()})
        self.step.parameters(**{name: value for name, value in row.values.items() if name not in numbers})


class TrainingRecorder(LearningRecorder):
    """Records a training: rows with an epoch are its epochs, output files are models."""

    def begin(self, using: list[Data]) -> Stage:
        self.current_values: dict[str, Any] = {}
        self.first_epoch: int | None = None
        self.ended = self.run._ticks()
        self.layers: list[dict[str, Any]] = []
        self.sets_without_epoch: set[str] = set()
        if not using:  # the originals do not declare that filters precede a training
            filters = [task for task in self.execution.tasks_of(self.execution.tasks) if task.kind == "filter"]
            using = [data for _, data in filters[-1].outputs] if filters else []
        self.has_data = bool(using)
        return Stage(self.run, "training", self.transformation.tag, using, {})

    def record_input(self, data_set: Set, row: Row) -> None:
        values = row.values
        if is_layer(values):
            self.layers.append(self.parse_layer(values))
            return
        self.flush_layers()
        row = row._replace(values={hyperparameter_of(name): value for name, value in values.items()})
        self.current_values |= row.values
        self.has_data = self.has_data or bool(row.files)
        super().record_input(data_set, row)

    def record_file(self, file: File, *, is_output: bool) -> None:
        self.has_data = self.has_data or not is_output
        super().record_file(file, is_output=is_output)

    def parse_layer(self, values: dict[str, Any]) -> dict[str, Any]:
        """Parse a layer: its name, and one setting with kind and value."""
        kind = str(values.get("attribute_type") or values["type"])
        try:
            setting: Any = float(values["value"])
        except (TypeError, ValueError):
            setting = str(values["value"])
        return {"name": str(values["name"]), "type": kind, kind: setting}

    def flush_layers(self) -> None:
        """Record the layers, which arrive row by row, as one network when another row arrives."""
        layers, self.layers = self.layers, []
        if layers:
            self.step.layers(layers)

    def record_output(self, data_set: Set, row: Row) -> None:
        self.flush_layers()
        values = row.values
        number = next((values[name] for name in EPOCH_NUMBERS if name in values), None)
        if number is not None:
            self.record_epoch(number, values)
        elif row.files:
            for path in row.files.values():
                model = self.run._register_data("model", path, name=self.run.model)
                self.record_produced(data_set._tag, model, values)
        else:
            self.warn_of_missing_epoch(data_set, values)
            super().record_output(data_set, row)

    def warn_of_missing_epoch(self, data_set: Set, values: dict[str, Any]) -> None:
        """Log a warning, once for each set, that measures cannot be assigned to an epoch."""
        measures = [name for name, value in values.items() if is_number(value)]
        if measures and data_set._tag not in self.sets_without_epoch:
            self.sets_without_epoch.add(data_set._tag)
            logging.getLogger("provml").warning(
                "provml: a row of %s has no epoch, so %s are recorded for the whole training."
                " Add a number as the attribute EPOCH or EPOCH_ID.",
                data_set.tag,
                ", ".join(measures),
            )

    def epoch_number(self, value: Any) -> int:
        """Return the 1-based number of an epoch. The first epoch shows whether a script counts from 0."""
        number = int(value)
        if self.first_epoch is None:
            self.first_epoch = number
        return number + (1 if self.first_epoch == 0 else 0)

    def record_epoch(self, number: Any, values: dict[str, Any]) -> None:
        """Record an epoch that has just ended: its duration, and its measures of training and validation."""
        now = self.run._ticks()
        seconds = as_seconds(values.get("elapsed_time"))
        if seconds is None or not 0 <= seconds < math.inf:
            seconds = now - self.ended
        self.ended = now
        measures = {name: value for name, value in values.items() if name not in EPOCH_COLUMNS}
        numbers = {name: value for name, value in measures.items() if is_number(value)}
        validation = {measure_of(name): value for name, value in numbers.items() if name.startswith("val_")}
        with self.step.epoch(self.epoch_number(number), ago=seconds) as epoch:
            epoch.measured(**{name: value for name, value in numbers.items() if not name.startswith("val_")})
            if validation:
                with epoch.validation() as paired:
                    paired.measured(**validation)

    def record_adaptation(self, values: dict[str, Any], epoch: Any, technique: str, parameters: dict[str, Any]) -> None:
        """Record changed hyperparameters. Some scripts report unchanged ones at every epoch: those are left out."""
        changed = {name: value for name, value in values.items() if not is_close(value, self.current_values.get(name))}
        if changed:
            self.current_values |= changed
            during = self.epoch_number(epoch) if epoch is not None else None
            self.step.adapted(technique=technique, parameters=parameters, during=during, **changed)

    def model(self) -> Data | None:
        """Return the last model of the training; without any, register one of unknown content."""
        if not self.has_data:  # every model comes from data, also where the script reports none
            self.has_data = True
            self.step.used(self.run._register_data("dataset", None, role="training", name="training data"))
        if not any(data.kind == "model" for _, data in self.outputs):
            self.outputs.append(("", self.step.produced(None)))
        return next(data for _, data in reversed(self.outputs) if data.kind == "model")

    def done(self, error: BaseException | None) -> None:
        self.flush_layers()
        if error is None:
            self.model()
        super().done(error)


class AdaptationRecorder(TaskRecorder):
    """Records changes of hyperparameters during a training, as adaptations of the training."""

    def begin(self, using: list[Data]) -> Step:
        self.parameters: dict[str, Any] = {}
        return None  # type: ignore[return-value]  # an adaptation is not a step

    def record_input(self, data_set: Set, row: Row) -> None:
        self.parameters |= row.values

    def record_output(self, data_set: Set, row: Row) -> None:
        training = latest_training(self.execution, self.before)
        if training is None:
            raise LookupError("an adaptation needs a running training. Begin the task of the training first")
        values = row.values
        values.pop("adaptation_id", None)
        epoch = values.pop("epoch_id", values.pop("epoch", None))
        technique = str(values.pop("technique", ""))
        training.record_adaptation(
            {_hyperparameter(name): value for name, value in values.items()}, epoch, technique, self.parameters
        )

    def done(self, error: BaseException | None) -> None:
        self.is_done = True


def create_recorder(execution: Execution, transformation: Transformation, before: list[Key]) -> TaskRecorder:
    """Return the recorder for the kind of a transformation."""
    classes = {
        "training": TrainingRecorder,
        "adaptation": AdaptationRecorder,
        "evaluation": LearningRecorder,
        "validation": LearningRecorder,
    }
    return {**classes, "filter": FilterRecorder}.get(kind_of(transformation.tag), TaskRecorder)(
        execution, transformation, before
    )


def latest_training(execution: Execution, before: list[Key]) -> TrainingRecorder | None:
    """Return the training before a task, or else the training that started last."""
    trainings = [task for task in execution.tasks_of(before) if isinstance(task, TrainingRecorder)]
    trainings = trainings or [
        task for task in execution.tasks_of(execution.tasks) if isinstance(task, TrainingRecorder)
    ]
    return trainings[-1] if trainings else None


def is_number(value: Any) -> bool:
    """Return whether a value can be a measure."""
    return not isinstance(value, str)


def is_close(value: Any, other: Any) -> bool:
    """Return whether two values of a hyperparameter are equal within the tolerance."""
    try:
        return math.isclose(float(value), float(other), rel_tol=RELATIVE_TOLERANCE)
    except (TypeError, ValueError):
        return bool(value == other)


def _stage_measure(name: str, numbers: dict[str, Any]) -> str:
    """Return the measure of a column; a validation measure keeps its prefix next to the one of the training."""
    measure = measure_of(name)
    return name if measure in numbers else measure


def _hyperparameter(name: str) -> str:
    """Return the hyperparameter that an attribute such as NEW_LRATE changes."""
    return hyperparameter_of(name.removeprefix("new_"))
