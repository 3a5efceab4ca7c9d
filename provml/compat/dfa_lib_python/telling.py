"""A task as the recorder tells it: a training with its epochs, an adaptation, a test, a filter, or a step."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.execution import Execution, Key
from provml.compat.dfa_lib_python.file import File
from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.performance import Performance
from provml.compat.dfa_lib_python.plan import is_layer, kind_of, measure_of
from provml.compat.dfa_lib_python.row import Row, as_seconds, row
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.content import Data
from provml.event import Begin, Done, Implementation, Produced, Ran
from provml.process import ending
from provml.sections import Stage, Step

CLOSE = 1e-6
"""How much a rate must change to have changed: some scripts give floats of 32 bits."""
RATES = ("lrate", "lr", "learningrate")
FILTERS = ("filter_name", "filter_type", "filter")
PARTS = tuple(one.value.lower() for one in MethodType)
"""The kinds of work that a part of a task may be."""
ROLES = (("train", "training"), ("val", "validation"), ("test", "test"))


class Telling:
    """A task that is told as a step; `made` is the data that it gave out, with the tag of the set, and `at` its place,
    which one that is no step of its own has not."""

    def __init__(self, execution: Execution, transformation: Transformation, before: list[Key]) -> None:
        self.execution = execution
        self.run = execution.run
        self.transformation = transformation
        self.before = before
        self.kind = kind_of(transformation.tag)
        self.made: list[tuple[str, Data]] = []
        self.is_done = False
        self.step = self.begin(self.given())
        self.began = time.time()
        self.at = "" if self.kind == "adaptation" else self.step.at
        for program in transformation.programs if self.at else ():
            self.run.tell(Implementation(self.at, program.name, where=program.path))

    def begin(self, using: list[Data]) -> Step:
        """Begin the step."""
        return Step(self.run, self.kind, self.transformation.tag, using, {})

    def given(self) -> list[Data]:
        """What the tasks before gave out and this one takes in: the sets that it declares, or else all of theirs."""
        wanted = {one._tag for one in self.transformation.on(SetType.INPUT)}
        tasks = self.execution.those(self.before)
        found = [(tag, data) for task in tasks for tag, data in task.made if data.kind != "model"]
        return [data for tag, data in found if tag in wanted] or [data for _, data in found]

    def row(self, dataset: DataSet, element: Element) -> None:
        """Tell a row. What goes wrong in here is a fault of capture, and the script goes on."""
        try:
            the_set = next(one for one in self.transformation.held if one._tag == dataset._tag)
            held = row(self.run, the_set, element)
            (self.took if the_set.side is SetType.INPUT else self.gave)(the_set, held)
        except Exception as error:
            self.run.fault(error)

    def ran(self, **said: str) -> None:
        """What is said of it besides: what it is called, where it ran, what it wrote."""
        if self.at and any(said.values()):
            self.step.ran(**said)

    def file(self, file: File, *, is_made: bool) -> None:
        """A file that it used, or made."""
        if self.at:
            data = self.run.refer("dataset", file, "", file.name, (), "", "", {})
            if not is_made:
                self.step.used(data)
            elif data.ref:  # of no set, so that it does not go on to the tasks after this
                self.run.tell(Produced(self.at, data.ref))

    def performed(self, performance: Performance) -> None:
        """How long a part of it took. Times of scripts are of whole seconds, so that one may seem to be before it."""
        try:
            began, ended = performance.seconds
            if 0 < self.began - began < 1:
                began, ended = self.began, max(self.began, ended)
            kind = performance.kind.lower() or "part"
            self.part(kind, f"{self.transformation.tag} {kind}", began, ended, said=performance.description)
        except Exception as error:
            self.run.fault(error)

    def part(
        self, kind: str, title: str, began: float, ended: float, error: BaseException | None = None, said: str = ""
    ) -> None:
        """A part of it: a step that ran while it did."""
        if self.at:
            at = self.run.place(title)
            self.run.tell(Begin(at, kind if kind in PARTS else "step", began, title, during=self.at))
            if said:
                self.run.tell(Ran(at, said))
            self.run.tell(Done(at, ended, ended - began, *ending(error)))

    def took(self, the_set: Set, held: Row) -> None:
        """It took a row in: files are data that it used, all else are parameters."""
        for name, path in held.files.items():
            self.step.used(self.data(the_set, name, path))
        self.step.parameters(**held.values)

    def gave(self, the_set: Set, held: Row) -> None:
        """It gave a row out: each file is data; a row without files is data that is known by its values."""
        for name, path in held.files.items():
            self.produced(the_set._tag, self.data(the_set, name, path, held.values))
        if not held.files and held.values:
            self.produced(the_set._tag, self.data(the_set, the_set._tag, None, held.values))

    def data(self, the_set: Set, name: str, source: Any, values: dict[str, Any] | None = None) -> Data:
        """Data by the name of its attribute, with the role that the names tell."""
        told = f"{the_set._tag} {name}"
        role = next(
            (role for word, role in ROLES if re.search(rf"(^|[^a-z])[io]?{word}|{word}[_ ]?(set|ing)", told)), ""
        )
        return self.run.refer("dataset", source, role, name, (), "", "", values or {})

    def produced(self, tag: str, data: Data, values: dict[str, Any] | None = None) -> None:
        """It made this data, which is of the set that has this tag."""
        if data.ref:
            self.run.tell(Produced(self.step.at, data.ref, self.run.values(values or {})))
            self.made.append((tag, data))

    def done(self, error: BaseException | None) -> None:
        """It ended."""
        self.is_done = True
        self.step.done(error=error)


class Filter(Telling):
    """A filter on the data. Where it gives out no file, what it made of the data that it names is data as well."""

    source = "dataset"

    def took(self, the_set: Set, held: Row) -> None:
        named = held.values.pop("dataset_name", None)
        if named is not None:
            self.source = str(named)
            self.step.used(self.run.refer("dataset", None, "", self.source, (), "", "", {}))
        super().took(the_set, self.named(held))

    def gave(self, the_set: Set, held: Row) -> None:
        name = self.named(held).values.pop("filter_name", None)
        if name is not None:
            self.step.parameters(filter_name=name)
        super().gave(the_set, held)

    def named(self, held: Row) -> Row:
        """The row, with the filter's name under the name that questions ask for."""
        for name in FILTERS:
            if name in held.values:
                held.values["filter_name"] = held.values.pop(name)
        return held

    def done(self, error: BaseException | None) -> None:
        if error is None and not self.made:
            made = self.run.refer("dataset", None, "", f"{self.source}-filtered", (), "", "", {})
            self.produced("filtered", made)
        super().done(error)


class Learning(Telling):
    """A stage of learning: numbers that it gives out are measures."""

    step: Stage

    def begin(self, using: list[Data]) -> Stage:
        return Stage(self.run, self.kind, self.transformation.tag, using, {}, of=self.judged())

    def judged(self) -> Data | None:
        """The model that it judges."""
        training = latest_training(self.execution, self.before)
        return training.model() if training is not None else None

    def gave(self, the_set: Set, held: Row) -> None:
        for name, path in held.files.items():
            self.produced(the_set._tag, self.data(the_set, name, path))
        numbers = {name: value for name, value in held.values.items() if is_number(value) and name != "epoch"}
        self.step.measured(**{measure_of(name): value for name, value in numbers.items()})
        self.step.parameters(**{name: value for name, value in held.values.items() if name not in numbers})


class Training(Learning):
    """A training; rows with an epoch are its epochs, files that it gives out are models."""

    def begin(self, using: list[Data]) -> Stage:
        self.in_force: dict[str, Any] = {}
        self.first_epoch: int | None = None
        self.ended = time.perf_counter()
        self.layers: list[dict[str, Any]] = []
        if not using:  # filters come before a training, though the originals do not say so
            filters = [task for task in self.execution.those(self.execution.tasks) if task.kind == "filter"]
            using = [data for _, data in filters[-1].made] if filters else []
        self.has_data = bool(using)
        return Stage(self.run, "training", self.transformation.tag, using, {})

    def took(self, the_set: Set, held: Row) -> None:
        values = held.values
        if is_layer(values):
            self.layers.append(self.layer(values))
            return
        self.tell_layers()
        self.in_force |= values
        self.has_data = self.has_data or bool(held.files)
        super().took(the_set, held)

    def file(self, file: File, *, is_made: bool) -> None:
        self.has_data = self.has_data or not is_made
        super().file(file, is_made=is_made)

    def layer(self, values: dict[str, Any]) -> dict[str, Any]:
        """A layer has a name, and one setting: the kind of it and its value."""
        kind = str(values.get("attribute_type") or values["type"])
        try:
            held: Any = float(values["value"])
        except (TypeError, ValueError):
            held = str(values["value"])
        return {"name": str(values["name"]), "type": kind, kind: held}

    def tell_layers(self) -> None:
        """Tell the layers, which come row by row, as one network, when something else comes."""
        layers, self.layers = self.layers, []
        if layers:
            self.step.layers(layers)

    def gave(self, the_set: Set, held: Row) -> None:
        self.tell_layers()
        values = held.values
        if "epoch" in values:
            self.epoch(values)
        elif held.files:
            for path in held.files.values():
                made = self.run.refer("model", path, "", self.run.model, (), "", "", {})
                self.produced(the_set._tag, made, values)
        else:
            super().gave(the_set, held)

    def number(self, said: Any) -> int:
        """The number of an epoch: scripts that count from 0 are told by their first."""
        told = int(said)
        if self.first_epoch is None:
            self.first_epoch = told
        return told + (1 if self.first_epoch == 0 else 0)

    def epoch(self, values: dict[str, Any]) -> None:
        """An epoch that has just ended: how long it took, and what was measured in training and in validation."""
        now = time.perf_counter()
        seconds = as_seconds(values.get("elapsed_time"))
        if seconds is None or not 0 <= seconds < math.inf:
            seconds = now - self.ended
        self.ended = now
        measures = {name: value for name, value in values.items() if name not in ("epoch", "elapsed_time")}
        numbers = {name: value for name, value in measures.items() if is_number(value)}
        seen = {measure_of(name): value for name, value in numbers.items() if name.startswith("val_")}
        with self.step.epoch(self.number(values["epoch"]), ago=seconds) as epoch:
            epoch.measured(**{name: value for name, value in numbers.items() if not name.startswith("val_")})
            if seen:
                with epoch.validation() as twin:
                    twin.measured(**seen)

    def adapted(self, values: dict[str, Any], epoch: Any, technique: str, parameters: dict[str, Any]) -> None:
        """Hyperparameters changed; those that did not are left out, which some scripts tell at every epoch."""
        changed = {name: value for name, value in values.items() if not is_close(value, self.in_force.get(name))}
        if changed:
            self.in_force |= changed
            during = self.number(epoch) if epoch is not None else None
            self.step.adapted(technique=technique, parameters=parameters, during=during, **changed)

    def model(self) -> Data | None:
        """The last model that it made; where it told of none, one of which no more is known than that it was made."""
        if not self.has_data:  # a model comes from data, told or not
            self.has_data = True
            self.step.used(self.run.refer("dataset", None, "training", "training data", (), "", "", {}))
        if not any(data.kind == "model" for _, data in self.made):
            self.made.append(("", self.step.produced(None)))
        return next(data for _, data in reversed(self.made) if data.kind == "model")

    def done(self, error: BaseException | None) -> None:
        self.tell_layers()
        if error is None:
            self.model()
        super().done(error)


class Adaptation(Telling):
    """Changes of hyperparameters while a training runs; it is told by the training."""

    def begin(self, using: list[Data]) -> Step:
        self.parameters: dict[str, Any] = {}
        return None  # type: ignore[return-value]  # it is no step of its own

    def took(self, the_set: Set, held: Row) -> None:
        self.parameters |= held.values

    def gave(self, the_set: Set, held: Row) -> None:
        training = latest_training(self.execution, self.before)
        if training is None:
            raise LookupError("an adaptation comes while a training runs; begin the task of the training first")
        values = held.values
        values.pop("adaptation_id", None)
        epoch = values.pop("epoch_id", values.pop("epoch", None))
        technique = str(values.pop("technique", ""))
        training.adapted({_changed(name): value for name, value in values.items()}, epoch, technique, self.parameters)

    def done(self, error: BaseException | None) -> None:
        self.is_done = True


def telling_of(execution: Execution, transformation: Transformation, before: list[Key]) -> Telling:
    """A task, told by what its transformation is."""
    cls = {"training": Training, "adaptation": Adaptation, "evaluation": Learning, "validation": Learning}
    return {**cls, "filter": Filter}.get(kind_of(transformation.tag), Telling)(execution, transformation, before)


def latest_training(execution: Execution, before: list[Key]) -> Training | None:
    """The training that a task comes after, or else the last that began."""
    found = [task for task in execution.those(before) if isinstance(task, Training)]
    found = found or [task for task in execution.those(execution.tasks) if isinstance(task, Training)]
    return found[-1] if found else None


def is_number(value: Any) -> bool:
    """Whether it can be measured."""
    return not isinstance(value, str)


def is_close(one: Any, other: Any) -> bool:
    """Whether a hyperparameter has stayed what it was."""
    try:
        return math.isclose(float(one), float(other), rel_tol=CLOSE)
    except (TypeError, ValueError):
        return bool(one == other)


def _changed(name: str) -> str:
    """The hyperparameter that an attribute such as NEW_LRATE is the new value of."""
    bare = name.removeprefix("new_")
    return "learning_rate" if bare in RATES else bare
