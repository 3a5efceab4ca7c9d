"""Loops of the user with Keras: around `train_on_batch`, or around the `apply` of an optimizer.

What such a loop reveals: models, optimizers with their hyperparameters and changes, steps, the measures that
`train_on_batch` and `test_on_batch` return, evaluations, saved files. On PyTorch also the losses of `backward()` and
the passes over a DataLoader. Everything else stays out.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any

import keras

from provml.capture import _data, _layers
from provml.capture._hyperparameters import Technique, is_same
from provml.capture.autolog._loop_capture import Change, LoopCapture, to_floats
from provml.capture.autolog._session import Session
from provml.capture.autolog._timeline import LOADER, Pass, Phase, Row, now
from provml.capture.keras import _compile_config, own_name
from provml.capture.keras._call_arguments import record_arguments
from provml.capture.keras._optimizers import OptimizerTracker
from provml.recording.data import Data
from provml.recording.frames import CallTracker, LoopPosition, is_called_from
from provml.recording.safety import never_raise

LIBRARIES = ("keras", "provml", "torch", "tensorflow", "jax")
"""Packages whose functions are not the user's."""
TRAINERS = ("keras.src.trainers", *(f"keras.src.backend.{name}.trainer" for name in ("torch", "tensorflow", "jax")))
"""Modules of `fit`, which is recorded as a whole."""
MAX_FIRST_STEPS = 8
"""Steps after which another model begins a training of its own."""


@dataclass(eq=False, slots=True)
class Member:
    """A model of a loop, as far as it is known, and the optimizer that changes it."""

    optimizer: weakref.ref[Any]
    model: Callable[[], Any]
    name: str = ""


@dataclass(eq=False, slots=True)
class Step(Row):
    """A call of `train_on_batch` or `apply`, with what it returned."""

    member: int = 0
    measures: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class EvaluationPhase(Phase):
    """Calls of `test_on_batch` without a step between them, or one `evaluate`."""

    subject: Callable[[], Any] = lambda: None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Before:
    """What was observed before a step."""

    key: Any
    optimizer: Any
    began: float
    initial: dict[str, Any]
    """The hyperparameters of a member that makes its first step."""
    change: Change | None = None


class LoopTracker(OptimizerTracker):
    """The hyperparameters of the optimizers of a loop, as they were at a step."""

    def __init__(self) -> None:
        super().__init__()
        self.observed: Any = None

    def begin_loop(self, optimizers: dict[str, Any]) -> None:
        """Track these optimizers, by the prefix of the names of their hyperparameters."""
        self._optimizers = weakref.WeakValueDictionary(optimizers)  # type: ignore[assignment]  # used as a mapping

    def current_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the step that is being recorded, otherwise those of now."""
        return dict(self.observed.values) if self.observed is not None else super().current_hyperparameters()

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        """Return what changed a hyperparameter, as it was known at the step."""
        if self.observed is not None and name in self.observed.techniques:
            technique: Technique = self.observed.techniques[name]
            return technique
        return super().technique_of_change(name, old, new)

    def is_check_due(self, watches_batches: bool) -> bool:
        """Compare at no other time than the observer says."""
        return False

    def was_set(self) -> bool:
        """Return whether a rate was set since the last comparison, where that is cheap to see."""
        return self._rate_was_set()

    def _sees_batches(self) -> bool:
        return bool(keras.backend.backend() == "torch")


class Capture(LoopCapture):
    """Records the loops, with the models that the capture of `fit` knows."""

    tracker: LoopTracker

    def __init__(self, **settings: Any) -> None:
        super().__init__(LoopTracker(), **settings)
        self.members: list[Member] = []
        self.fits: Any = None
        """The capture of `fit`, which knows the same models."""
        self._values: dict[str, Any] = {}

    def begin(self, member: Member, step: Step, initial: dict[str, Any], batch_size: int | None) -> None:
        """Begin a training with its first step; the training before it is over."""
        self.conclude()
        self._start_over()
        self.members = [member]
        self._set_optimizers()
        self._begin_stage(member.model(), step, initial, batch_size)

    def _set_optimizers(self) -> None:
        named = {self._prefix(number): member.optimizer() for number, member in enumerate(self.members)}
        self.tracker.begin_loop({name: item for name, item in named.items() if item is not None})

    def _prefix(self, number: int) -> str:
        """Return the beginning of the names of a member's measures and hyperparameters, if there are several."""
        if len(self.members) == 1:
            return ""
        return f"{self.members[number].name or f'model_{number + 1}'}."

    @never_raise
    def _begin_stage(self, model: Any, step: Step, initial: dict[str, Any], batch_size: int | None) -> None:
        self.data.reset("training", "validation")
        layers: list[dict[str, Any]] = self.try_or(lambda: _layers_of(model), [])
        values = self.tracker.initial_settings() | initial
        if model is not None and getattr(model, "loss", None) is not None:
            values |= _compile_config.loss_settings(model) | {"loss_weights": _compile_config.loss_weights(model)}
        values |= {"batch_size": batch_size, "num_layers": len(layers) or None}
        if step.source is not None:
            values |= _data.loader_settings(step.source.loader)
        self._values = self.tracker.current_hyperparameters() | initial
        using = self._training_data(step.source)
        self.begin_training(values, using=using, model=model or self.members[0].optimizer(), ago=now() - step.began)
        if model is not None:
            self.models.set_name(own_name(model))
        self._describe(layers)

    def _describe(self, layers: list[dict[str, Any]]) -> None:
        stage = self.stage
        if stage is not None:
            for kind in dict.fromkeys(self.tracker.kinds):
                backend = keras.backend.backend()
                stage.implemented_by(kind, software="keras", version=keras.__version__, backend=backend)
            if layers:
                stage.layers(layers)

    def _training_data(self, source: Pass | None) -> list[Data]:
        loader = source.loader if source is not None else None
        observe = partial(_data.record_data, self.run, loader, "training", "training data")
        return self.data.get("training", observe if loader is not None else list)

    @never_raise
    def join(self, member: Member) -> None:
        """Add a model that takes turns with those of the training."""
        self.members.append(member)
        self._set_optimizers()
        self.models.add_alias(member.model())
        if self.stage is None:
            return
        values = self.hyperparameters.select(self.tracker.initial_settings())
        self.hyperparameters.begin(values)
        self._values = self.tracker.current_hyperparameters()
        self.stage.parameters(**{name: value for name, value in values.items() if value is not None})
        layers = []
        for number, other in enumerate(self.members):
            prefix = self._prefix(number)
            for layer in self.try_or(partial(_layers_of, other.model()), list[dict[str, Any]]()):
                block = prefix + layer["block"] if layer.get("block") else None
                layers.append({**layer, "name": prefix + layer["name"], "block": block})
        self._describe(layers)

    def observe_hyperparameters(self) -> Change | None:
        """Return the hyperparameters if some changed since they were observed before."""
        before, values = self._values, self.tracker.current_hyperparameters()
        changed = [name for name in values if name in before and not is_same(before[name], values[name])]
        self._values = values
        if not changed:
            return None
        techniques = {name: self.tracker.technique_of_change(name, before[name], values[name]) for name in changed}
        return Change(values, techniques)

    def is_trained(self, model: Any) -> bool:
        """Return whether a model is trained by the loop, or shares weights with one that is."""
        if self.stage is None:
            return False
        models = [member.model() for member in self.members]
        if any(model is other for other in models):
            return True
        trained = {id(item) for other in models if other is not None for item in other.trainable_variables}
        return any(id(item) in trained for item in model.trainable_variables)

    # ---- what Keras knows

    def _row_values(self, rows: list[Row]) -> list[dict[str, float]]:
        values = []
        for row in rows:
            prefix = self._prefix(getattr(row, "member", 0))
            measures = {prefix + name: value for name, value in getattr(row, "measures", {}).items()}
            losses = [loss for group in row.losses.values() for loss in group]
            if losses:
                measures[f"{prefix}loss"] = sum(to_floats(losses))
            values.append(measures)
        return values

    def _phase_source(self, phase: Phase) -> Any:
        return getattr(phase, "arguments", {}).get("x")

    def _phase_data(self, phase: Phase, role: str) -> list[Data]:
        arguments = getattr(phase, "arguments", {})
        if arguments.get("x") is None:
            return []
        values = {"x": arguments["x"], "y": arguments.get("y")}
        if role == "validation":
            values = {"validation_data": (values["x"], values["y"])}
        return self.data.get(role, lambda: record_arguments(self.run, values, role), source=arguments["x"])

    def _model_fields(self) -> dict[str, Any]:
        return {"name": self.members[0].name} if self.members[0].name else {}

    @never_raise
    def save_part(self, model: Any, path: Any) -> None:
        """Record the file of a model that shares weights with one that is trained, such as a generator."""
        self._flush()
        section = self.epoch or self.last_training
        if section is not None:
            section.produced(path, name=own_name(model))

    def _evaluated_model(self, phase: Phase) -> Data:
        return self.models.resolve(getattr(phase, "subject", lambda: None)())


class Loops:
    """Observes the loops of a process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._serials: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Optimizers by the order of their construction, from 1."""
        self._optimizer_count = 0
        self._reset()

    def _reset(self) -> None:
        self.is_inside = False
        """Whether `train_on_batch` or `apply` is running."""
        self._pid, self._thread = os.getpid(), 0
        self._capture: Capture | None = None
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """The models of the open training, or optimizers whose model is not called, with their numbers."""
        self._last_serial = 0
        self._calls = CallTracker(*LIBRARIES)
        self._phase: EvaluationPhase | None = None
        self._has_tested = False
        self._previous_end = 0.0
        self._section: object = None
        self._position = LoopPosition(*LIBRARIES)
        self._noted: Pass | None = None

    def is_observing(self) -> bool:
        """Return whether a call in this thread of this process is a part of a loop of the user."""
        if self.session.is_busy:
            return False
        if self._pid != os.getpid():
            self._reset()  # in a forked child
        is_other_thread = bool(self._thread) and self._thread != get_ident() and self.open_capture is not None
        return not self.is_inside and not is_other_thread

    @property
    def open_capture(self) -> Capture | None:
        """The capture of the loop that is open."""
        capture = self._capture
        return capture if capture is not None and capture.stage is not None else None

    def on_optimizer(self, optimizer: Any) -> None:
        """Note a new optimizer."""
        self._optimizer_count += 1
        self._serials[optimizer] = self._optimizer_count

    # ---- steps

    def before_step(self, key: Any, optimizer: Any) -> Before | None:
        """Observe what a step begins with; None if it is a part of `fit`.

        `key` is the model of `train_on_batch`, or the optimizer of `apply`.
        """
        if optimizer is None or is_called_from(*TRAINERS):
            return None
        capture = self.open_capture
        before = Before(key, optimizer, now(), {})
        if capture is None or key not in self._numbers:
            settings = _compile_config.optimizer_settings(optimizer)
            before.initial = settings | _compile_config.schedule_settings(optimizer)
            return before
        if capture.timeline.rule != LOADER:
            self._calls.on_action()
        source = self._source()
        section = id(source) if source is not None else None, self._calls.number, self._has_tested
        if section != self._section or capture.tracker.was_set():
            before.change = capture.observe_hyperparameters()
        return before

    def after_step(self, before: Before, measures: dict[str, float], batch_size: int | None = None) -> None:
        """Add a step that was made; the first one begins a training."""
        self._end_phase()
        losses = self.session.take_losses()
        source = self._source()
        capture = self.open_capture
        is_new = capture is None or before.key not in self._numbers
        if is_new:
            self._calls.on_action()
        began = self._previous_end if not is_new else source.began if source is not None else before.began
        step = Step(began, source, source.batches if source is not None else 0, self._calls.number, now())
        step.measures, step.change = measures, before.change
        if not measures:
            step.losses[0] = losses
        if is_new:
            capture = self._adopt(before, step, batch_size)
            if capture is None:
                return
        assert capture is not None
        self._note_position(capture, source)
        step.member = self._numbers[before.key]
        step.steps[step.member] = 1
        self._previous_end = capture.last_activity = step.ended
        self._section, self._has_tested = (id(source) if source is not None else None, step.call, False), False
        capture.steps += 1
        if capture.fits is not None:
            capture.fits._updates += 1
        capture.timeline.add_row(step)

    def _note_position(self, capture: Capture, source: Pass | None) -> None:
        """Note where the steps are made, for an exception that leaves the loop."""
        if source is None or source is not self._noted:
            self._noted = source
            self._position.note(loops=2 if source is not None else 1)
            capture.position = self._position

    def _adopt(self, before: Before, step: Step, batch_size: int | None) -> Capture | None:
        """Make a model that makes its first step part of the training, or begin a training with it."""
        optimizer = before.optimizer
        model = before.key if before.key is not optimizer else find_model(optimizer)
        member = Member(weakref.ref(optimizer), weakref.ref(model) if model is not None else lambda: None)
        member.name = own_name(model) if model is not None else ""
        capture = self.open_capture
        if capture is not None and self._joins(capture, optimizer):
            self._numbers[before.key] = len(capture.members)
            capture.join(member)
            return capture
        fits = self.session.capture("keras")
        capture = self._capture = self.session.capture("keras loop", __name__)
        if capture is None:
            return None
        if fits.stage is not None:  # an exception left `fit`
            fits.end_training(error=fits.interruption())
        self._thread = get_ident()
        capture.fits, capture.models = fits, fits.models
        capture.conclude_observation = self._end_phase
        self._position, self._noted = LoopPosition(*LIBRARIES), None
        self._last_serial = self._optimizer_count
        capture.begin(member, step, before.initial, batch_size)
        self._numbers = weakref.WeakKeyDictionary({before.key: 0})
        return self._capture

    def _joins(self, capture: Capture, optimizer: Any) -> bool:
        """Return whether a model takes turns with those of the open training, in its first epoch and steps."""
        if capture.run is not self.session.run() or capture.epochs_done:
            return False
        if self._serials.get(optimizer, 0) > self._last_serial:  # made for another training
            return False
        return capture.row_total + len(capture.timeline.waiting) < MAX_FIRST_STEPS

    def _source(self) -> Pass | None:
        source: Pass | None = self.session.current_pass()
        return source if source is not None and not source.is_over else None

    # ---- evaluations and files

    def on_test(self, model: Any, measures: dict[str, float], rows: int, began: float) -> None:
        """Add a call of `test_on_batch` to those before it."""
        capture = self.open_capture
        if capture is None or is_called_from(*TRAINERS) or not capture.is_trained(model):
            return
        phase = self._phase
        if phase is None or phase.subject() is not model:
            self._end_phase()
            self._calls.on_event()
            phase = self._phase = EvaluationPhase(
                began, "test_on_batch", is_in_evaluation_mode=True, subject=weakref.ref(model)
            )
        self._add_measures(phase, measures, rows)

    def begin_evaluation(self, model: Any, arguments: dict[str, Any]) -> EvaluationPhase | None:
        """Begin an `evaluate` of a model that the open loop trains; None for any other model."""
        capture = self.open_capture
        if capture is None or not capture.is_trained(model):
            return None
        self._end_phase()
        self._calls.on_event()
        data = {name: arguments[name] for name in ("x", "y") if arguments.get(name) is not None}
        phase = EvaluationPhase(now(), "evaluate", is_in_evaluation_mode=True, subject=weakref.ref(model))
        phase.arguments = data
        self._phase = phase
        return phase

    def end_evaluation(self, phase: EvaluationPhase, measures: dict[str, float]) -> None:
        """End an `evaluate`."""
        self._add_measures(phase, measures, 1)
        self._end_phase()

    def _add_measures(self, phase: EvaluationPhase, measures: dict[str, float], rows: int) -> None:
        phase.losses += [(name, value, rows, False) for name, value in measures.items()]
        phase.ended, phase.batches, self._has_tested = now(), phase.batches + 1, True

    def _end_phase(self) -> None:
        phase, self._phase = self._phase, None
        if phase is not None and self._capture is not None and phase.batches:
            self._capture.last_activity = self._previous_end = phase.ended
            self._capture.add_phase(phase)

    def on_save(self, model: Any, path: Any) -> bool:
        """Record a file of a model that the open loop trains; return False for any other model."""
        capture = self.open_capture
        if capture is None or not capture.is_trained(model):
            return False
        self._end_phase()
        if any(member.model() is model for member in capture.members):
            capture.save_file(path, [""])
        else:
            capture.save_part(model, path)
        return True

    def conclude(self) -> None:
        """End the open loop, before `fit` begins another training."""
        if self._capture is not None:
            self._capture.conclude()


# ---- what Keras returns


def measures_of(model: Any, result: Any) -> dict[str, float]:
    """Return the measures that `train_on_batch` or `test_on_batch` returned, by name."""
    if isinstance(result, dict):
        named = result
    elif isinstance(result, (list, tuple)):
        names = [part.name for metric in model.metrics for part in getattr(metric, "metrics", None) or [metric]]
        named = dict(zip(names, result, strict=True)) if len(names) == len(result) else {}
    else:
        named = {"loss": result}
    numbers = {name: _number(value) for name, value in named.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def _number(value: Any) -> float | None:
    """Return a measure as a number; None if it is something else, such as a dictionary."""
    is_scalar = isinstance(value, (int, float)) or getattr(value, "shape", None) == ()
    return float(value) if is_scalar and getattr(getattr(value, "device", None), "type", "cpu") == "cpu" else None


def batch_rows(x: Any) -> int | None:
    """Return the number of rows of a batch."""
    while isinstance(x, (dict, list, tuple)) and x:
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    shape = getattr(x, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) else None


def find_model(optimizer: Any) -> Any:
    """Return the smallest model that has all variables of an optimizer; None if there is none."""
    trained = {id(item) for item in optimizer._trainable_variables}
    models = [item for item in gc.get_objects() if issubclass(type(item), keras.Model)]
    whole = [(len(items), item) for item in models if trained <= (items := _variables(item))]
    return min(whole, key=lambda pair: pair[0])[1] if whole and trained else None


def _variables(model: Any) -> set[int]:
    try:
        return {id(item) for item in model.trainable_variables}
    except Exception:  # a model that is being built
        return set()


def _layers_of(model: Any) -> list[dict[str, Any]]:
    return list(_layers.keras_layers(model)) if model is not None and model.built else []
