"""A training loop that autolog observes: from rows and phases to stages, epochs and batches."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection
from time import perf_counter, time
from typing import Any, NamedTuple

from provml.capture._hyperparameters import MANUAL, Technique
from provml.capture.autolog._timeline import CALL, LOADER, Phase, Row, Timeline
from provml.capture.base import CaptureBase
from provml.journal.events import Batches
from provml.journal.values import jsonable
from provml.recording.context import CONTEXT
from provml.recording.data import Data
from provml.recording.frames import LoopPosition
from provml.recording.safety import never_raise, report_errors
from provml.recording.stages import Epoch, Stage

FLUSH_ROWS, FLUSH_SECONDS = 64, 1.0
"""Rows become an event after this number or time, if their losses are in main memory."""
EVALUATIONS = "loss_evaluations"
"""The measure of a step in which an optimizer evaluated the loss several times; it has no mean over an epoch."""
MAX_ROWS = 4096
"""Rows that wait at most for the end of their epoch: reading a loss from a GPU waits for the GPU."""


class Change(NamedTuple):
    """All hyperparameters at a step, and what changed those that changed before it."""

    values: dict[str, Any]
    techniques: dict[str, Technique]


class Steps(NamedTuple):
    """Steps of one optimizer and one loss each, in one epoch, one after the other."""

    number: int
    """The number of the optimizer."""
    measure: str
    losses: list[Any]
    """Numbers, tensors of one element, or lists of several to add up."""
    began: float
    ends: list[float]

    def append(self, row: Row) -> bool:
        """Add a row that goes on directly where these steps end; return False if it is of another kind."""
        losses = row.losses.get(self.number)
        if not losses or len(row.losses) > 1 or row.change or row.closures or row.began != self.ends[-1]:
            return False
        self.losses.append(losses)
        self.ends.append(row.ended)
        return True


class LoopCapture(CaptureBase):
    """Records the training loops that an observer recognizes, one after the other.

    A subclass knows the optimizers and models of its framework. Its `tracker` has an attribute `observed`: the
    hyperparameters of the step that is being recorded.
    """

    def __init__(self, tracker: Any, **settings: Any) -> None:
        self.tracker = tracker
        super().__init__(source=tracker, **settings)
        self.last_activity = perf_counter()
        self.steps = 0
        self.position = LoopPosition()
        """Where the steps are made."""
        self.conclude_observation: Callable[[], None] = lambda: None
        """Ends the open row and phase of the observer."""
        self.on_training_end: Callable[[], None] = lambda: None
        """Tells the observer that the training is over: further steps are those of another one."""
        self._flushed = perf_counter()
        self._files: list[tuple[Any, Collection[str]]] = []
        self._start_over()

    def _start_over(self) -> None:
        """Forget the training before."""
        self.timeline = Timeline(self._begin_epoch, self._add_row, self._add_phases)
        self.row_total = 0
        """Rows of the training so far."""
        self._rows: list[Row] = []
        self._steps: Steps | None = None
        """Steps after the rows."""
        self._last_row: Row | None = None
        self._row_count = 0
        self._means: dict[str, list[float]] = {}
        self._validations: list[Stage] = []
        self._stage_by_data: dict[int, int] = {}
        self._phases_of_epoch: set[int] = set()
        self._usual_phases: int | None = None
        self._usual_steps = 0
        """Steps of the epoch before."""
        self._error: BaseException | None = None
        """The exception that left the loop."""

    # ---- what a framework knows

    def _row_values(self, rows: list[Row]) -> list[dict[str, float]]:
        """Return the measures of each row by name."""
        raise NotImplementedError

    def _measure_name(self, name: str) -> str:
        """Return the name of a measure of a phase."""
        return name

    def _phase_source(self, phase: Phase) -> Any:
        """Return the object that the data of a phase comes from; None if it is not known."""
        return None

    def _phase_data(self, phase: Phase, role: str) -> list[Data]:
        """Return the data of a phase."""
        raise NotImplementedError

    def _evaluated_model(self, phase: Phase) -> Data:
        """Return the recorded model that a phase evaluated."""
        raise NotImplementedError

    def _model_fields(self) -> dict[str, Any]:
        """Return more about the model that is trained."""
        return {}

    # ---- the end

    def conclude(self, error: BaseException | None = None) -> None:
        """End the open training: record what is waiting, and its model.

        An error after the last planned epoch, or outside of the loop of the training, is not one of the training. An
        exception that left the loop over the last batches is one, also if the script caught it.
        """
        self.conclude_observation()
        if self.stage is not None:
            if error is not None and not self.position.is_left_by(error):
                error = None
            row = next((item for item in reversed(self.timeline.waiting) if isinstance(item, Row)), self._last_row)
            error = error or (row.source.exit_error if row is not None and row.source is not None else None)
            self._error = error = error or (self.position.caught(row.ended) if row is not None else None)
            self._end_timeline()
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
            fields = {"epoch": last.index} if last is not None and self.timeline.rule else {}
            for part in self.models.changed_parts():
                self._record_saved(None, part, self._model_fields() | fields)
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
        if stage is not None:
            self.on_training_end()

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

    def _close_epoch(self, before: float = math.inf, error: BaseException | None = None) -> None:
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
        epoch.done(error=row.source.exit_error if is_pass else error)  # type: ignore[union-attr]
        self._usual_steps = self._row_count
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
        self._last_row = row
        self.row_total += 1
        if self._steps is not None:
            if self._steps.append(row):
                self._flush_steps_if_due()
                return
            self._flush()
        self._rows.append(row)
        count = len(self._rows)
        if count >= FLUSH_ROWS or row.ended - self._flushed > FLUSH_SECONDS:
            if count >= MAX_ROWS or self._are_in_main_memory():
                self._flush()
            else:
                self._flushed = row.ended

    def _add_steps(self, steps: Steps) -> None:
        """Add steps without a change, in the epoch of the last row."""
        if self._steps is not None:
            self._flush()
        self._steps = steps
        self.row_total += len(steps.ends)
        self._flush_steps_if_due()

    def _flush_steps_if_due(self) -> None:
        steps = self._steps
        if steps is None or type(steps.losses[0]) is not float:
            return
        if len(steps.ends) >= FLUSH_ROWS or steps.ends[-1] - self._flushed > FLUSH_SECONDS:
            self._flush()

    def _are_in_main_memory(self) -> bool:
        return all(
            type(loss) is float or loss.device.type == "cpu"
            for losses in self._rows[-1].losses.values()
            for loss in losses
        )

    def _flush(self) -> None:
        """Write what waits as one event. This converts the losses, which waits for the device that computed them."""
        rows, self._rows = self._rows, []
        steps, self._steps = self._steps, None
        self._flushed = perf_counter()
        if self.epoch is None:
            return
        columns: dict[str, list[Any]] = {}
        for position, values in enumerate(self._row_values(rows) if rows else ()):
            for name, value in values.items():
                columns.setdefault(name, [None] * len(rows))[position] = value
        begins, ends = [row.began for row in rows], [row.ended for row in rows]
        if steps is not None:
            for name in columns:
                if name != steps.measure:
                    columns[name] += [None] * len(steps.ends)
            columns.setdefault(steps.measure, [None] * len(rows)).extend(_sums(steps.losses))
            begins += [steps.began, *steps.ends[:-1]]
            ends += steps.ends
        if ends:
            self._write_batches(begins, ends, columns)

    def _write_batches(self, begins: list[float], ends: list[float], columns: dict[str, list[Any]]) -> None:
        """Write the next batches of the epoch as one event, and add up their measures."""
        for name, column in columns.items():
            if name != EVALUATIONS:
                values = [value for value in column if value is not None]
                total = self._means.setdefault(name, [0.0, 0])
                total[0], total[1] = sum(values, total[0]), total[1] + len(values)
        first, every = self._row_count + 1, self.run.every
        self._row_count += len(ends)
        if self.run.detail != "batch" or self.epoch is None:
            return
        chosen = slice(-(first - 1) % every, None, every)
        offset = time() - perf_counter()
        index = list(range(first, first + len(ends)))[chosen]
        times = [ended + offset for ended in ends[chosen]]
        seconds = [max(ended - began, 0.0) for began, ended in zip(begins[chosen], ends[chosen], strict=True)]
        encoded = {name: _encoded(column[chosen]) for name, column in columns.items()}
        if index:
            self.run._emit(Batches(self.epoch._location, index, times, seconds, encoded))

    # ---- validations and evaluations

    def add_phase(self, phase: Phase) -> None:
        """Add a phase that has ended. After the training, it is an evaluation of the model."""
        if self.stage is not None:
            self.timeline.add_phase(phase)
        elif self.run in CONTEXT.active_runs:
            self._record_evaluation(phase)

    def _add_phases(self, phases: list[Phase], is_final: bool) -> None:
        """Record phases after a step: validations of the epoch, or evaluations of the model at the end."""
        self._flush()
        phases = [phase for phase in phases if phase.counts]
        limit = len(phases)
        if is_final:
            has_epochs = bool(self.timeline.rule)
            limit = 0 if not has_epochs else self._usual_phases if self._usual_phases is not None else 1
            if self._error is not None and (self._usual_phases is None or self._row_count < self._usual_steps):
                limit = 0  # the epoch was not completed
        for number, phase in enumerate(phases):
            is_validation = (
                number < limit and phase.model is None and self.epoch is not None and bool(self.timeline.rule)
            )
            if is_validation and self.epoch is not None:
                self._record_validation(self.epoch, phase)
            else:
                if is_final:
                    self._close_epoch(error=self._error if not self._phases_of_epoch else None)
                self._record_evaluation(phase)

    def _measures(self, phase: Phase) -> dict[str, float]:
        """Return the mean of each measure over the rows of a phase."""
        totals: dict[str, tuple[float, float]] = {}
        values = to_floats([value for _, value, _, _ in phase.losses])
        for (name, _, count, is_sum), value in zip(phase.losses, values, strict=True):
            measure = self._measure_name(name)
            total, rows = totals.get(measure, (0.0, 0.0))
            totals[measure] = total + (value if is_sum else value * count), rows + count
        return {name: total / rows for name, (total, rows) in totals.items() if rows}

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
        source = self._phase_source(phase)
        key = id(source) if source is not None else 0
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
            self.run._unregister(self)
            self.run._register_open(self)  # registered after the stage, the capture is ended before it
        return self._validations[number]

    def _record_evaluation(self, phase: Phase) -> None:
        self._record_files()
        model = self._evaluated_model(phase)
        self.data.reset("test")
        using = self._phase_data(phase, "test")
        now = perf_counter()
        stage = Stage(self.run, "evaluation", "evaluation", using, {}, of=model, ago=max(now - phase.began, 0.0))
        stage.measured(**self._measures(phase))
        stage.done(ago=max(perf_counter() - phase.ended, 0.0))

    # ---- files

    @never_raise
    def save_file(self, path: Any, parts: Collection[str]) -> None:
        """Record a file that was saved: with networks of the training, by name, or another file."""
        self._flush()
        section = self.epoch or self.last_training
        if section is None or not os.path.exists(path):  # noqa: PTH110  # a path of any type
            return
        if parts:
            fields: dict[str, Any] = (
                {"epoch": self.epoch.index} if self.epoch is not None and self.timeline.rule else {}
            )
            fields |= self._model_fields()
            part = next(iter(parts)) if len(parts) == 1 else ""
            model = self.models.record_file(section, path, is_current=True, part=part, **fields)
            for name in {part, *parts}:
                self.models.set_last(model, name)
        else:
            section.produced(path, kind="file")

    def save_later(self, path: Any, parts: Collection[str]) -> None:
        """Record a file that is still open, when it is complete."""
        self._files.append((path, parts))

    def _record_files(self) -> None:
        files, self._files = self._files, []
        for path, parts in files:
            self.save_file(path, parts)


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


def _sums(losses: list[Any]) -> list[float]:
    """Return the loss of each step, where a step may have several."""
    if not any(type(loss) is list for loss in losses):
        return to_floats(losses)
    numbers = iter(to_floats([item for loss in losses for item in (loss if type(loss) is list else [loss])]))
    return [sum(next(numbers) for _ in range(len(loss) if type(loss) is list else 1)) for loss in losses]


def _encoded(column: list[Any]) -> list[Any]:
    return [value if value is None or value - value == 0.0 else jsonable(value) for value in column]
