"""The capture of a plain PyTorch loop that autolog observes: from rows and phases to stages, epochs and batches."""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter, time
from typing import Any, NamedTuple

from provml.capture import _data, _layers
from provml.capture._hyperparameters import MANUAL, Technique, is_same
from provml.capture.autolog.torch._timeline import CALL, LOADER, Phase, Row, Timeline
from provml.capture.base import CaptureBase
from provml.capture.torch._optimizers import OptimizerTracker, unwrap_network
from provml.capture.torch._schedulers import initial_settings
from provml.journal.events import Batches
from provml.journal.values import jsonable
from provml.recording import inherit
from provml.recording.data import Data
from provml.recording.frames import LoopPosition
from provml.recording.safety import never_raise, report_errors
from provml.recording.stages import Epoch, Stage

FLUSH_ROWS, FLUSH_SECONDS = 64, 1.0
"""Rows become an event after this number or time, if their losses are in main memory."""
MAX_ROWS = 4096
"""Rows that wait at most for the end of their epoch: reading a loss from a GPU waits for the GPU."""


class WeakList:
    """Objects of the script in the order in which they were added, which keeps none of them alive."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._references = [weakref.ref(item) for item in items]

    def __iter__(self) -> Iterator[Any]:
        return (item for reference in self._references if (item := reference()) is not None)

    def __contains__(self, item: object) -> bool:
        return any(item is other for other in self)

    def __len__(self) -> int:
        """Return how many were added, also those that are gone."""
        return len(self._references)

    def append(self, item: Any) -> None:
        """Add an object."""
        self._references.append(weakref.ref(item))

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects that exist with their numbers, from 1."""
        for number, reference in enumerate(self._references, 1):
            if (item := reference()) is not None:
                yield number, item


class ObservedTracker(OptimizerTracker):
    """The hyperparameters of optimizers as they were at a step."""

    __slots__ = ("_weak_schedulers", "observed")

    def __init__(self) -> None:
        self._weak_schedulers = WeakList()
        super().__init__()
        self.observed: Any = None

    @property
    def schedulers(self) -> list[Any]:  # a scheduler would keep its optimizer alive
        """The schedulers that exist."""
        return list(self._weak_schedulers)

    @schedulers.setter
    def schedulers(self, schedulers: Iterable[Any]) -> None:
        self._weak_schedulers = WeakList(schedulers)

    def _undeclared_of(self, optimizer: Any) -> list[Any]:
        """Return none: autolog knows all schedulers that were made since it began."""
        return [] if self._weak_schedulers else super()._undeclared_of(optimizer)

    def on_compared(self) -> None:
        """Remember nothing: the mirror of each optimizer notices changes."""

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the step that is being recorded, otherwise those of now."""
        return dict(self.observed.values) if self.observed is not None else super().current_hyperparameters()

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter, as it was known at the step."""
        if self.observed is not None and name in self.observed.techniques:
            technique: Technique = self.observed.techniques[name]
            return technique
        return super().technique_of_change(name, old, new)

    def may_have_changed(self) -> bool:
        """Compare whenever values of a step are recorded."""
        return self.observed is not None or super().may_have_changed()


class Setup:
    """What a training begins with, as far as it was observed."""

    def __init__(self) -> None:
        self.networks = WeakList()
        self.optimizers = WeakList()
        self.schedulers = WeakList()
        self.loaders: list[Any] = []
        self.loss = ""
        self.scaler: Any = None
        self.resumed_from: Any = None
        """The file that the network was loaded from."""
        self.initial: dict[tuple[int, int, str], Any] = {}
        """Values of the first step, by optimizer, number of the parameter group, and key."""

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer with the hyperparameters of its first step."""
        self.optimizers.append(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            self.initial |= {(id(optimizer), number, key): value for key, value in group.items() if key != "params"}


class Change(NamedTuple):
    """All hyperparameters at a step, and what changed those that changed before it."""

    values: dict[str, Any]
    techniques: dict[str, Technique]


class Capture(CaptureBase):
    """Records the training loops that the observer of autolog recognizes, one after the other."""

    def __init__(self, **settings: Any) -> None:
        self.tracker = ObservedTracker()
        super().__init__(source=self.tracker, **settings)
        self.timeline = Timeline(self._begin_epoch, self._add_row, self._add_phases)
        self.setup = Setup()
        self.whole_losses: set[str] = set()
        """Functions whose result was the whole loss of a step."""
        self.last_activity = perf_counter()
        self.steps = 0
        self.row_total = 0
        """Rows of the training so far."""
        self._observed_values: dict[str, Any] = {}
        self.position = LoopPosition()
        """Where the steps are made."""
        self.conclude_observation: Callable[[], None] = lambda: None
        """Ends the open row and phase of the observer."""
        self._rows: list[Row] = []
        self._last_row: Row | None = None
        self._flushed = perf_counter()
        self._row_count = 0
        self._means: dict[str, list[float]] = {}
        self._validations: list[Stage] = []
        self._stage_by_data: dict[int, int] = {}
        self._phases_of_epoch: set[int] = set()
        self._usual_phases: int | None = None
        self._files: list[tuple[Any, bool]] = []

    # ---- begin and end

    def begin(self, setup: Setup, began: float) -> None:
        """Begin a training whose first step was observed; the training before it is over."""
        self.conclude()
        self.setup = setup
        self.timeline = Timeline(self._begin_epoch, self._add_row, self._add_phases)
        self._usual_phases, self._validations, self._stage_by_data, self._phases_of_epoch = None, [], {}, set()
        self.whole_losses, self.row_total, self._last_row = set(), 0, None
        self._set_optimizers()
        self._begin_stage(began)

    def _set_optimizers(self) -> None:
        optimizers = self.setup.optimizers
        named = {"" if len(optimizers) == 1 else f"optimizer_{number}": item for number, item in optimizers.numbered()}
        self.tracker.optimizers = weakref.WeakValueDictionary(named)  # type: ignore[assignment]  # used as a mapping
        self.tracker.schedulers = list(self.setup.schedulers)

    @never_raise
    def _begin_stage(self, began: float) -> None:
        self.data.reset("training", "validation")
        setup = self.setup
        layers = self.try_or(self._layers, list[dict[str, Any]]())
        after = self.models.checkpoint(setup.resumed_from, read=True) if setup.resumed_from is not None else None
        model = next(iter(setup.networks), None) or next(iter(setup.optimizers), None)
        values = self._settings() | {"num_layers": len(layers) or None}
        using = self._training_data()
        stage = self.begin_training(values, using=using, model=model, after=after, ago=perf_counter() - began)
        for network in list(setup.networks)[1:]:
            self.models.add_alias(network)
        torch = sys.modules["torch"]
        for kind in dict.fromkeys(type(optimizer).__name__ for optimizer in setup.optimizers):
            stage.implemented_by(kind, software="torch", version=torch.__version__)
        if layers:
            stage.layers(layers)

    def _layers(self) -> list[dict[str, Any]]:
        layers: list[dict[str, Any]] = []
        for network in self.setup.networks:
            prefix = f"{type(network).__name__}." if len(self.setup.networks) > 1 else ""
            for layer in _layers.torch_layers(unwrap_network(network)):
                block = prefix + layer["block"] if layer.get("block") else None
                layers.append({**layer, "name": prefix + layer["name"], "block": block})
        return layers

    def _settings(self) -> dict[str, Any]:
        setup = self.setup
        values: dict[str, Any] = {"optimizer": ", ".join(type(item).__name__ for item in setup.optimizers) or None}
        values |= self._initial_hyperparameters()
        for loader in setup.loaders[:1]:
            values |= _data.loader_settings(loader)
        schedulers = self.tracker.schedulers
        for number, scheduler in enumerate(schedulers, 1):
            name = "scheduler" if len(schedulers) == 1 else f"scheduler_{number}"
            values[name] = type(scheduler).__name__
            values |= {f"{name}.{key}": value for key, value in initial_settings(scheduler).items()}
        if setup.scaler is not None:
            values |= {"amp.scale": setup.scaler.get_scale(), "amp.growth_factor": setup.scaler.get_growth_factor()}
        if (size := inherit.world_size() or 1) > 1:
            values["world_size"] = size
        return values

    def _initial_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the first step: a scheduler may have changed them since."""
        values = self.tracker.current_hyperparameters()
        for name, (optimizer, number, _, key) in self.tracker.entries().items():
            value = self.setup.initial.get((id(optimizer), number, key))
            if isinstance(value, (bool, int, float, str)):
                values[name] = value
        self._observed_values = dict(values)
        return values

    def observe_hyperparameters(self, optimizer: Any) -> Change | None:
        """Return the hyperparameters of a step of an optimizer if some of its own changed since its step before."""
        before = self._observed_values
        own = {name for name, entry in self.tracker.entries().items() if entry.optimizer is optimizer}
        current = self.tracker.current_hyperparameters()
        values = before | {name: value for name, value in current.items() if name in own}
        changed = [name for name, value in values.items() if name not in before or not is_same(before[name], value)]
        change = None
        if changed and self.stage is not None:
            revised = [name for name in changed if name in before]
            techniques = {name: self.tracker.technique_of_change(name, before[name], values[name]) for name in revised}
            change = Change(values, techniques)
        self._observed_values = values
        self.tracker.on_checked()
        return change

    def _training_data(self) -> list[Data]:
        if not self.setup.loaders:
            return self.data.get("training")
        datasets: list[Data] = []
        for number, loader in enumerate(self.setup.loaders, 1):
            name = "training data" if number == 1 else f"training data {number}"
            datasets += self.try_or(partial(_data.record_data, self.run, loader, "training", name), list[Data]())
        return datasets

    @never_raise
    def join(self, optimizer: Any, network: Any, schedulers: list[Any]) -> None:
        """Add an optimizer that takes turns with those of the training."""
        self.setup.add_optimizer(optimizer)
        for scheduler in schedulers:
            self.setup.schedulers.append(scheduler)
        is_new = network not in self.setup.networks
        if network is not None and is_new:
            self.setup.networks.append(network)
            self.models.add_alias(network)
        self._set_optimizers()
        if self.stage is not None:
            names = [type(item).__name__ for item in self.setup.optimizers]
            self.stage.parameters(optimizer=", ".join(names), **self._new_hyperparameters())
            self.stage.layers(self.try_or(self._layers, list[dict[str, Any]]()))

    def _new_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters by the names that they have with several optimizers."""
        values = self.hyperparameters.select(self.tracker.current_hyperparameters())
        self.hyperparameters.begin(values)
        self._observed_values = dict(values)
        return {name: value for name, value in values.items() if value is not None}

    @never_raise
    def use_loader(self, loader: Any) -> None:
        """Record a loader of the training that was not known when it began."""
        if self.stage is None or any(loader is other for other in self.setup.loaders):
            return
        is_first = not self.setup.loaders
        self.setup.loaders.append(loader)
        if is_first:
            self.stage.parameters(**self.hyperparameters.select(_data.loader_settings(loader)))
        for data in _data.record_data(self.run, loader, "training", "training data"):
            self.stage.used(data)

    @never_raise
    def name_loss(self, name: str) -> None:
        """Record the function of the loss."""
        if name not in self.whole_losses:
            self.whole_losses.add(name)
            if self.stage is not None and not self.setup.loss:
                self.setup.loss = name
                self.stage.parameters(**self.hyperparameters.select({"loss": name}))

    def conclude(self, error: BaseException | None = None) -> None:
        """End the open training: record what is waiting, and its model.

        An error after the last planned epoch, or outside of the loop of the training, is not one of the training. An
        exception that left the loop over the last batches is one, also if the script caught it.
        """
        self.conclude_observation()
        if self.stage is not None:
            if error is not None and not self.position.is_left_by(error):
                error = None
            self._end_timeline()
            row = self._last_row
            error = error or (row.source.exit_error if row is not None and row.source is not None else None)
            self._conclude(error)
            planned = self.hyperparameters.recorded_value("epochs")
            is_complete = bool(self.timeline.rule) and isinstance(planned, int) and self.epochs_done >= planned
            self.end_training(error=None if is_complete else error)

    def _on_cell_error(self, error: BaseException) -> None:
        """End the training if the exception of a notebook's cell left its loop."""
        if self.stage is not None and self.position.is_left_by(error):
            self.conclude(error)

    @never_raise
    def _end_timeline(self) -> None:
        self.timeline.end()

    @never_raise
    def _conclude(self, error: BaseException | None) -> None:
        self._flush()
        row = self._last_row
        if error is None or (row is not None and row.source is not None and row.source.is_over):
            self._close_epoch()
        self._record_files()
        if error is None:
            self._record_early_stop()
            last = self.stage.current_epoch if self.stage is not None else None
            if self.models._training is not None and self.models._training.unchanged() is None:
                self.saved(None, **({"epoch": last.index} if last is not None and self.timeline.rule else {}))
        for stage in self._validations:
            stage.done()
        self._validations = []

    def _record_early_stop(self) -> None:
        """Record that fewer epochs were made than the command line planned."""
        planned = self.hyperparameters.recorded_value("epochs")
        if self.timeline.rule in (LOADER, CALL) and isinstance(planned, int) and 0 < self.epochs_done < planned:
            self.record_early_stop(self.epochs_done, MANUAL, "the loop over its epochs was left", {})

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training when its last step or validation ended, not now."""
        stage = self.stage
        if stage is not None and error is None:
            self.stage = self.epoch = None
            stage.done(ago=max(perf_counter() - self.last_activity, 0.0))
            self.hyperparameters.end()
        else:
            super().end_training(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End what is open."""
        try:
            with report_errors(self.run):
                self.conclude(error)
        finally:
            super().done(error=error)

    def progress(self) -> object:
        """Return a value that is different after every step."""
        return self.last_training, self.steps

    # ---- epochs and steps

    def _begin_epoch(self, row: Row, rule: str) -> None:
        """Begin an epoch, or the section of steps that belong to none."""
        self._flush()
        began = row.source.began if row.source is not None and rule == LOADER else row.began
        self._close_epoch(before=began)
        if self.stage is None:
            return
        index = self.stage.current_epoch.index + 1 if self.stage.current_epoch is not None else 1
        kind = "epoch" if rule else "steps"
        self.epoch = self.stage.epoch(index, kind=kind, ago=max(perf_counter() - began, 0.0), rule=rule)
        self._row_count, self._means, self._phases_of_epoch = 0, {}, set()

    def _close_epoch(self, before: float = math.inf) -> None:
        """End the epoch with its last step or validation, before the next epoch began."""
        epoch = self.epoch
        if epoch is None:
            return
        self._flush()
        if self._means:
            epoch.measured(**{name: total / count for name, (total, count) in self._means.items()})
        epoch._ended = min(self.last_activity, before)
        row = self._last_row
        is_pass = row is not None and row.source is not None and self.timeline.rule == LOADER
        epoch.done(error=row.source.exit_error if is_pass else None)  # type: ignore[union-attr]
        self.epoch, self._means = None, {}
        self.epochs_done += 1
        if self._phases_of_epoch or self._usual_phases is None:
            self._usual_phases = len(self._phases_of_epoch)

    def _add_row(self, row: Row) -> None:
        if row.change is not None and self.stage is not None:
            self._flush()
            self.tracker.observed = row.change
            try:
                self.record_changes()
            finally:
                self.tracker.observed = None
        self._rows.append(row)
        self._last_row = row
        self.row_total += 1
        count = len(self._rows)
        if count >= FLUSH_ROWS or row.ended - self._flushed > FLUSH_SECONDS:
            if count >= MAX_ROWS or self._are_in_main_memory():
                self._flush()
            else:
                self._flushed = row.ended

    def _are_in_main_memory(self) -> bool:
        return all(
            type(loss) is float or loss.device.type == "cpu"
            for losses in self._rows[-1].losses.values()
            for loss in losses
        )

    def _flush(self) -> None:
        """Write the rows as one event. This converts the losses, which waits for the device that computed them."""
        rows, self._rows = self._rows, []
        self._flushed = perf_counter()
        if not rows or self.epoch is None:
            return
        offset = time() - perf_counter()
        names = self._loss_names()
        columns: dict[str, list[Any]] = {}
        flat = iter(to_floats([loss for row in rows for losses in row.losses.values() for loss in losses]))
        for position, row in enumerate(rows):
            values = {
                names.get(key, "loss"): sum(next(flat) for _ in losses) for key, losses in row.losses.items() if losses
            }
            if row.closures:
                values["loss_evaluations"] = row.closures
            for name, value in values.items():
                columns.setdefault(name, [None] * len(rows))[position] = value
                if name != "loss_evaluations":
                    total = self._means.setdefault(name, [0.0, 0])
                    total[0], total[1] = total[0] + value, total[1] + 1
        first = self._row_count + 1
        self._row_count += len(rows)
        if self.run.detail == "batch":
            chosen = [i for i in range(len(rows)) if not (first + i - 1) % self.run.every]
            if chosen:
                self.run._emit(
                    Batches(
                        self.epoch._location,
                        [first + i for i in chosen],
                        [rows[i].ended + offset for i in chosen],
                        [max(rows[i].ended - rows[i].began, 0.0) for i in chosen],
                        {name: [_encoded(column[i]) for i in chosen] for name, column in columns.items()},
                    )
                )

    def _loss_names(self) -> dict[int, str]:
        """Return the names of the losses by the number of their optimizer: with several, each has its own."""
        count = len(self.setup.optimizers)
        return {n: "loss" if count <= 1 else f"optimizer_{n + 1}.loss" for n in range(max(count, 1))}

    # ---- validations and evaluations

    def _add_phases(self, phases: list[Phase], is_final: bool) -> None:
        """Record phases after a step: validations of the epoch, or evaluations of the model at the end."""
        self._flush()
        phases = [phase for phase in phases if phase.counts]
        limit = len(phases)
        if is_final:
            has_epochs = bool(self.timeline.rule)
            limit = 0 if not has_epochs else self._usual_phases if self._usual_phases is not None else 1
        for number, phase in enumerate(phases):
            is_validation = (
                number < limit and phase.model is None and self.epoch is not None and bool(self.timeline.rule)
            )
            if is_validation and self.epoch is not None:
                self._record_validation(self.epoch, phase)
            else:
                if is_final:
                    self._close_epoch()
                self._record_evaluation(phase)

    def _measures(self, phase: Phase) -> dict[str, float]:
        """Return the mean of each loss over the rows of a phase. Only the whole loss of the training is named so."""
        totals: dict[str, tuple[float, float]] = {}
        values = to_floats([value for _, value, _, _ in phase.losses])
        for (name, _, count, is_sum), value in zip(phase.losses, values, strict=True):
            measure = "loss" if name in self.whole_losses else name
            total, rows = totals.get(measure, (0.0, 0.0))
            totals[measure] = total + (value if is_sum else value * count), rows + count
        return {name: total / rows for name, (total, rows) in totals.items() if rows}

    def _phase_data(self, phase: Phase, role: str) -> list[Data]:
        loader = phase.source.loader if phase.source is not None else None
        if loader is None:
            return []
        observe = partial(_data.record_data, self.run, loader, role, f"{role} data")
        return self.data.get(role, observe, source=getattr(loader, "dataset", loader))

    def _record_validation(self, epoch: Epoch, phase: Phase) -> None:
        stage = self._validation_stage(phase)
        ago = max(perf_counter() - phase.began, 0.0)  # after the stage, whose data may take long to read
        section = stage.epoch(epoch.index, during=epoch._location, ago=ago, rule=phase.rule)
        if measures := self._measures(phase):
            section.measured(**measures)
        section._ended = phase.ended
        section.done()

    def _validation_stage(self, phase: Phase) -> Stage:
        """Return the stage of a validation: the first, second, … in an epoch have one each, by their data if known."""
        loader = phase.source.loader if phase.source is not None else None
        key = id(getattr(loader, "dataset", loader)) if loader is not None else 0
        number = self._stage_by_data.get(key) if key else None
        if number is None:
            number = len(self._phases_of_epoch)
            if key:
                self._stage_by_data[key] = number
        self._phases_of_epoch.add(number)
        while number >= len(self._validations):
            name = "validation" if not self._validations else f"validation-{len(self._validations) + 1}"
            using = self._phase_data(phase, "validation")
            ago = max(perf_counter() - phase.began, 0.0)
            self._validations.append(Stage(self.run, "validation", name, using, {}, ago=ago))
        return self._validations[number]

    def _record_evaluation(self, phase: Phase) -> None:
        self._record_files()
        if phase.model is not None:
            model = self.models.resolve(phase.model)
        else:
            network = next(iter(self.setup.networks), None)
            model = self.models.resolve(network) if network is not None else self.models.resolve()
        self.data.reset("test")
        using = self._phase_data(phase, "test")
        now = perf_counter()
        stage = Stage(self.run, "evaluation", "evaluation", using, {}, of=model, ago=max(now - phase.began, 0.0))
        stage.measured(**self._measures(phase))
        stage.done(ago=max(perf_counter() - phase.ended, 0.0))

    # ---- files

    @never_raise
    def save_file(self, path: Any, is_model: bool) -> None:
        """Record a file that was saved: a model of the training, or another file."""
        self._flush()
        section = self.epoch or self.last_training
        if section is None or not os.path.exists(path):  # noqa: PTH110  # a path of any type
            return
        if is_model:
            fields: dict[str, Any] = (
                {"epoch": self.epoch.index} if self.epoch is not None and self.timeline.rule else {}
            )
            self.models.set_last(self.models.record_file(section, path, is_current=True, **fields))
        else:
            section.produced(path, kind="file")

    def save_later(self, path: Any, is_model: bool) -> None:
        """Record a file that is still open, when it is complete."""
        self._files.append((path, is_model))

    def _record_files(self) -> None:
        files, self._files = self._files, []
        for path, is_model in files:
            self.save_file(path, is_model)


def to_floats(tensors: list[Any]) -> list[float]:
    """Return tensors of one element as numbers, with one transfer for all of a kind."""
    if all(type(tensor) is float for tensor in tensors):
        return tensors
    torch = sys.modules["torch"]
    try:
        with torch.no_grad():
            numbers: list[float] = torch.stack([tensor.reshape(()) for tensor in tensors]).tolist()
        return numbers
    except Exception:  # of several types or devices
        return [float(tensor) for tensor in tensors]


def _encoded(value: Any) -> Any:
    return value if value is None or value - value == 0.0 else jsonable(value)
