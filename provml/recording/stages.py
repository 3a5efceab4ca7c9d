"""Sections of a run: steps, stages of learning, and epochs. Batches are in `batches`."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sized
from typing import Any

from provml.journal.events import (
    LEARNING_KINDS,
    Adapted,
    Begin,
    Done,
    ExecutionDetails,
    Implementation,
    Layers,
    Measured,
    Parameter,
    Produced,
    Used,
    Values,
)
from provml.journal.redaction import redact_text
from provml.recording.batches import BatchedSection
from provml.recording.core import RunCore, Using
from provml.recording.data import Data, check_role
from provml.recording.display import html_table
from provml.recording.encoding import encode_measures, to_text
from provml.recording.exit_status import status_of_exit
from provml.recording.frames import Loop, LoopIterable, TracedLoop
from provml.recording.safety import (
    ActsAsNumber,
    EndsOnExit,
    as_epoch_count,
    as_first,
    as_index,
    never_raise,
    report_errors,
)
from provml.recording.settings import DataKind

DEFAULT_ROLES = {"training": "training", "validation": "validation", "evaluation": "test"}
"""Role of input data that has none, by the kind of the stage."""
SHAPES = ("input_shape", "output_shape")
"""Properties of a layer that are recorded as text."""


class Step(EndsOnExit):
    """A data transformation: a curation, a preparation, a filter, or any other step."""

    __slots__ = (
        "_began", "_began_time", "_closed", "_last_end_time", "_location", "_pid", "_refs", "_values",
        "kind", "name", "run",
    )  # fmt: skip

    def __init__(
        self,
        run: RunCore,
        kind: str,
        name: str,
        using: Using,
        values: Mapping[str, Any],
        *,
        by: str = "",
        ago: float = 0.0,
    ) -> None:
        self.run = run
        self.kind = kind
        self.name = to_text(name) or kind
        self._location = ""
        self._refs: list[str] = []
        self._values: Values = {}
        self._closed = False
        self._pid = os.getpid()
        self._began = run._ticks() - ago
        self._began_time = run._time() - ago
        self._last_end_time = 0.0
        """When the last of its sections ended."""
        if not run.disabled:
            self._begin(using, values, to_text(by), self._began_time)

    def _begin(self, using: Using, values: Mapping[str, Any], by: str, began: float) -> None:
        run = self.run
        run._on_begin()
        self._location = run._allocate_location(self.name)
        inputs = run._require_data(using)
        self._refs = [data.ref for data in inputs]
        self._values = run._encode_values(values)
        run._emit(Begin(self._location, self.kind, began, self.name, using=self._refs, values=self._values, by=by))
        run._register_open(self)
        if run._energy is not None and self.kind in LEARNING_KINDS:
            with report_errors(run):
                run._energy.begin(self._location)
        for data in inputs:
            if role := _default_role(self.kind, data):
                run._emit(Used(self._location, data.ref, role))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} {self.name!r} {self._state()}>"

    def _repr_html_(self) -> str:
        rows = {"kind": self.kind, "state": self._state(), "inputs": len(self._refs), **self._values}
        return html_table(f"{type(self).__name__} {self.name}", rows)

    def _state(self) -> str:
        return "disabled" if self.run.disabled else "ended" if self._closed else "running"

    def _end(self, error: BaseException | None) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None, ago: float = 0.0) -> None:
        """End the step, now or `ago` seconds ago: FINISHED, or FAILED with the error. A forked child cannot end it."""
        if self.run.disabled or self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self.run._unregister(self)
        run = self.run
        run._keep_long_error(error, self._location)
        elapsed = max(run._ticks() - ago - self._began, 0.0)
        if run._energy is not None:
            with report_errors(run):
                run._energy.end(self._location)
        ended = run._time() - ago
        if ago:  # computed from two clocks, which the process reads one after the other
            ended = max(ended, self._began_time, self._last_end_time)
        run._emit(Done(self._location, ended, elapsed, *status_of_exit(error)))

    def _on_cell_error(self, error: BaseException) -> None:
        """End the step if the exception of a notebook's cell left it; of a step without a loop that is not known."""

    @never_raise
    def used(self, data: Using, *, role: str = "") -> None:
        """Record more input data."""
        _record_used(self.run, self._location, self.kind, data, role)

    @never_raise
    def parameters(self, /, **values: Any) -> None:
        """Record more parameters. One that has this value already is not recorded again."""
        encoded = {name: value for name, value in self.run._encode_values(values).items() if not self._has(name, value)}
        if encoded:
            self.run._emit(Parameter(self._location, encoded))
            self._values |= encoded

    def _has(self, name: str, value: Any) -> bool:
        """Return whether a parameter was recorded with this value: 1 is not True."""
        recorded = self._values.get(name)
        return name in self._values and type(recorded) is type(value) and recorded == value

    @never_raise
    def _update(self, using: Using, values: Mapping[str, Any]) -> None:
        """Record inputs and parameters that changed since the last call."""
        new = [data for data in self.run._require_data(using) if data.ref not in self._refs]
        encoded = self.run._encode_values(values)
        changed = {name: value for name, value in encoded.items() if self._values.get(name) != value}
        for data in new:
            self.used(data)
        if changed:
            self.run._emit(Parameter(self._location, changed))
        self._refs += [data.ref for data in new]
        self._values |= changed

    def implemented_by(
        self, name: str, *, algorithm: str = "", software: str = "", version: str = "", **characteristics: Any
    ) -> None:
        """Record the implementation of the step, its algorithm, and its software with the version."""
        if not self.run.disabled:
            values = self.run._encode_values(characteristics)
            names = to_text(name), to_text(algorithm), to_text(software), to_text(version)
            self.run._emit(Implementation(self._location, *names, values))

    @never_raise
    def execution(
        self, *, name: str = "", directory: str = "", resource: str = "", output: str = "", errors: str = ""
    ) -> None:
        """Record name, directory, resource and output of the execution. Only the first output and errors count."""
        texts = [redact_text(to_text(text)) for text in (name, resource, output, errors)]
        for index, label in ((2, "output"), (3, "errors")):
            texts[index] = self.run._keep_long_text(texts[index], f"{self._location}-{label}")
        self.run._emit(ExecutionDetails(self._location, texts[0], to_text(directory), *texts[1:]))

    def produced(
        self,
        source: Any,
        *,
        name: str = "",
        role: str = "",
        kind: DataKind = "dataset",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        keep: bool = False,
        **values: Any,
    ) -> Data:
        """Record data that the step produced. `values` are characteristics, or hyperparameters of a model.

        `keep` stores its content as an artifact.
        """
        return _record_produced(
            self.run,
            self._location,
            kind,
            source=source,
            role=role,
            name=name,
            about=about,
            store=store,
            media_type=media_type,
            keep=keep,
            values=values,
        )

    def measured(self, /, **values: Any) -> None:
        """Record measures: numbers of any type, such as tensors, fractions and Decimals. None is left out."""
        _record_measures(self.run, self._location, values)


class Stage(Step):
    """A training, a validation or an evaluation, which has epochs and batches."""

    __slots__ = (
        "_indices",
        "_left_time",
        "_loops",
        "_open",
        "_pending_adaptations",
        "_planned_epochs",
        "_validation_stage",
        "current_epoch",
    )

    def __init__(
        self,
        run: RunCore,
        kind: str,
        name: str,
        using: Using,
        values: Mapping[str, Any],
        *,
        by: str = "",
        of: Data | None = None,
        ago: float = 0.0,
    ) -> None:
        self._indices: set[int] = set()
        self._open: dict[str, Epoch] = {}
        """Open epochs by their location, since epochs compare as their numbers."""
        self._loops: dict[Loop, Epoch] = {}  # with the epoch that each loop works on
        self._left_time = 0.0
        self._planned_epochs = 0
        self._pending_adaptations: list[Adapted] = []
        self._validation_stage: Stage | None = None
        self.current_epoch: Epoch | None = None
        super().__init__(run, kind, name, using, values, by=by, ago=ago)
        for model in run._require_data(of or ()):
            run._emit(Used(self._location, model.ref, "model"))

    def __repr__(self) -> str:
        epoch = f", epoch {self.current_epoch.index}" if self.current_epoch is not None else ""
        return f"<{type(self).__name__} {self.kind} {self.name!r} {self._state()}{epoch}>"

    def done(self, *, error: BaseException | None = None, ago: float = 0.0) -> None:
        """End the stage and its open epochs: FINISHED, or FAILED with the error.

        A stage whose last loop over epochs was left by an exception has failed with it, also if the program caught it.
        """
        if self._pid == os.getpid() and not self._closed:
            ended = self.run._ticks() - ago
            exit_error = self._end_loops([loop for loop in self._loops if not loop.is_running()], error)
            if error is None and exit_error is not None:
                error, ended = exit_error, self._left_time
            if self._validation_stage is not None:
                self._validation_stage.done(error=error)
            for epoch in reversed(list(self._open.values())):
                epoch.done(error=error)
            self._emit_pending_adaptations(location=self._location)
            if error is not None:
                self._record_planned_epochs()
            if self.kind == "training":
                self.run._on_training_end(error, ended)
        super().done(error=error, ago=ago)

    def _on_cell_error(self, error: BaseException) -> None:
        """End the stage if the exception of a notebook's cell left a loop over its epochs."""
        loops = [loop for loop in self._loops if loop.is_left and not loop.is_over]
        if any(loop.exit_error(error) is not None for loop in loops):
            self.done(error=error)

    def _end_loops(self, loops: Iterable[Loop], error: BaseException | None) -> BaseException | None:
        """End the epochs of loops that were left; return the exception that left the last of them, or None."""
        exit_error = None
        for loop in loops:
            epoch = self._loops.pop(loop)
            if not loop.is_over:
                exit_error = loop.exit_error(error)
                epoch._ended = self._left_time = loop.left_time or self.run._ticks()
                epoch.done(error=exit_error)
        return exit_error

    @never_raise
    def _record_planned_epochs(self) -> None:
        """Record how many epochs a stage was to have that failed before the last one, unless a parameter says so."""
        has_plan = any("epoch" in name.lower() for name in self._values)
        if len(self._indices) < self._planned_epochs and not has_plan:
            self.parameters(epochs=self._planned_epochs)

    def epochs(self, count: int | Iterable[Any], *, kind: str = "epoch", first: int | None = None) -> Iterator[Epoch]:
        """Iterate over epochs: `for epoch in training.epochs(20):`. A second loop continues the numbers of the first.

        `count` is a number, or items that become `epoch.data`. `kind` names other sections: `kind="episode"`.
        """
        return LoopIterable(self._iterate_epochs(count, kind, first), self._on_epoch, TracedLoop)

    def _iterate_epochs(self, count: int | Iterable[Any], kind: str, first: int | None) -> Generator[Epoch, None, None]:
        is_items = isinstance(count, Iterable) and not isinstance(count, str)  # the characters of "20" are not epochs
        items: Any = count if is_items else range(as_epoch_count(count))
        index = as_first(first, "epoch") if first is not None else max(self._indices, default=0) + 1
        if kind == "epoch" and isinstance(items, Sized):
            self._planned_epochs = len(self._indices) + len(items)
        for item in items:
            epoch = self.epoch(index, kind=kind)
            epoch.data = item
            yield epoch
            epoch.done()
            index = epoch.index + 1

    def _on_epoch(self, epoch: Epoch, loop: Loop) -> None:
        """Note the epoch that a loop works on."""
        self._loops[loop] = epoch

    def folds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """Iterate over the folds of a cross-validation."""
        return self.epochs(count, kind="fold")

    def rounds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """Iterate over boosting rounds."""
        return self.epochs(count, kind="round")

    def epoch(self, index: int, *, kind: str = "epoch", during: str = "", ago: float = 0.0, rule: str = "") -> Epoch:
        """Begin one epoch, now or `ago` seconds ago. End it with `done` or a `with` block.

        `rule` says how the epoch was recognized, if nobody announced it.

        An index that was used before is replaced by the next free one.
        """
        self._end_loops([loop for loop in self._loops if loop.is_left or loop.is_over], sys.exc_info()[1])
        self._emit_pending_adaptations()
        index = as_index(index, "The index of an epoch")
        if index in self._indices:
            index = max(self._indices) + 1
        self._indices.add(index)
        self.current_epoch = Epoch(self, index, to_text(kind) or "epoch", during=during, ago=ago, rule=rule)
        return self.current_epoch

    @never_raise
    def adapted(
        self,
        /,
        *,
        technique: str = "",
        reason: str = "",
        by: str = "",
        parameters: dict[str, Any] | None = None,
        during: Epoch | int | None = None,
        **values: Any,
    ) -> None:
        """Record new values of hyperparameters, the technique that changed them, its parameters, the reason and person.

        The change belongs to the current epoch. After the end of an epoch, it belongs to that epoch if another one
        follows, and otherwise only to the stage: nothing was learned with the new values. A number in `during` names
        the epoch that is about to begin, which has the new values from its start.
        """
        run = self.run
        section = self.current_epoch if during is None else during
        if section is None or isinstance(section, Epoch):
            location = self._location if section is None else section._location
        else:
            location = f"{self._location}/{as_index(section, 'The epoch of an adaptation')}"
        details = to_text(technique), to_text(reason), to_text(by), run._encode_values(parameters or {})
        event = Adapted(location, run._time(), run._encode_values(values), *details)
        if during is None and self.current_epoch is not None and self._has_ended(self.current_epoch):
            self._pending_adaptations.append(event)
        else:
            run._emit(event)

    def _has_ended(self, epoch: Epoch) -> bool:
        return epoch._closed or any(loop.is_left for loop, other in self._loops.items() if other is epoch)

    def _emit_pending_adaptations(self, *, location: str = "") -> None:
        """Emit the adaptations after the last epoch that ended, as made in that epoch, or at another location."""
        pending, self._pending_adaptations = self._pending_adaptations, []
        for event in pending:
            event.location = location or event.location
            self.run._emit(event)

    @never_raise
    def layers(self, layers: Iterable[dict[str, Any]]) -> None:
        """Record the layers of the network: dictionaries with name, type, and other properties."""
        encoded = []
        items: Any = layers
        for layer in items if isinstance(items, Iterable) and not isinstance(items, Mapping) else [items]:
            if not isinstance(layer, Mapping):
                raise TypeError(f"A layer is a dictionary such as {{'name': 'dense', 'type': 'Dense'}}, not {layer!r}.")
            properties = {**layer, **layer.get("parameters", {})}
            properties.pop("parameters", None)
            for key, value in properties.items():
                if isinstance(value, (tuple, list)) or (key in SHAPES and value is not None):
                    properties[key] = str(value)
            encoded.append(self.run._encode_values(properties))
        self.run._emit(Layers(self._location, encoded))

    def produced(
        self,
        source: Any,
        *,
        name: str = "",
        role: str = "",
        kind: DataKind = "model",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        keep: bool = False,
        **values: Any,
    ) -> Data:
        """Record the model (or other data, by `kind`) that the stage produced. `values` are its hyperparameters.

        `keep` stores its content as an artifact.
        """
        name = name or _model_name(self.run, kind)
        return _record_produced(
            self.run,
            self._location,
            kind,
            source=source,
            role=role,
            name=name,
            about=about,
            store=store,
            media_type=media_type,
            keep=keep,
            values=values,
        )


class Epoch(BatchedSection, EndsOnExit, ActsAsNumber):
    """A section of a stage: an epoch, a fold, a round. It is formatted as its number."""

    __slots__ = ("_began", "_began_time", "_closed", "_ended", "_pid", "data", "index", "stage")

    def __init__(
        self, stage: Stage, index: int, kind: str, *, during: str = "", ago: float = 0.0, rule: str = ""
    ) -> None:
        run = stage.run
        super().__init__(run, f"{stage._location}/{index}")
        self.stage = stage
        self.index = index
        self.data: Any = None
        self._closed = run.disabled
        self._pid = os.getpid()
        self._ended = 0.0
        self._began = run._ticks() - ago
        self._began_time = run._time() - ago
        if ago:  # computed from two clocks, as the begin of the stage may be
            self._began_time = max(self._began_time, stage._began_time)
        if not run.disabled:
            stage._open[self._location] = self
            run._emit(Begin(self._location, kind, self._began_time, index=index, parent=during, rule=rule))

    def __repr__(self) -> str:
        return f"<Epoch {self.index} of {self.stage.name!r} {self._state()}>"

    def _repr_html_(self) -> str:
        return html_table(f"Epoch {self.index} of {self.stage.name}", {"state": self._state()})

    def _state(self) -> str:
        return "disabled" if self.run.disabled else "ended" if self._closed else "running"

    @property
    def kind(self) -> str:
        """Kind of the stage."""
        return self.stage.kind

    def _end(self, error: BaseException | None) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End the epoch: FINISHED, or FAILED with the error. A forked child cannot end it."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self.stage._open.pop(self._location, None)
        self._end_interrupted_batch(error)
        self._release_buffer()
        run = self.run
        now = run._ticks()
        ended = max(self._ended or now, self._began)  # a begin that was computed from `ago` is late by microseconds
        time = run._time() - now + ended
        if self._ended:  # computed from two clocks, which the process reads one after the other
            time = max(time, self._began_time)
        self.stage._last_end_time = max(self.stage._last_end_time, time)
        run._emit(Done(self._location, time, ended - self._began, *status_of_exit(error)))

    def measured(self, /, **values: Any) -> None:
        """Record measures: numbers of any type, such as tensors, fractions and Decimals. None is left out."""
        _record_measures(self.run, self._location, values)

    @never_raise
    def used(self, data: Using, *, role: str = "") -> None:
        """Record input data of this epoch."""
        _record_used(self.run, self._location, self.kind, data, role)

    def validation(self, *, using: Using = (), by: str = "", **values: Any) -> Epoch:
        """Begin the validation epoch that is paired with this one, in a validation stage that all epochs share.

        `by` counts in the first call only.
        """
        return self._begin_validation(self.index, using, values, by=by)

    def _begin_validation(
        self, index: int, using: Using, values: Mapping[str, Any], *, by: str = "", kind: str = "epoch"
    ) -> Epoch:
        """Begin a validation after this epoch, or inside it, with an index of any kind."""
        stage = self.stage
        if stage._validation_stage is None:
            name = "validation" if stage.name == "training" else f"{stage.name}-validation"
            stage._validation_stage = Stage(self.run, "validation", name, using, values, by=by)
        else:
            stage._validation_stage._update(using, values)
        return stage._validation_stage.epoch(index, kind=kind, during=self._location)

    def produced(
        self,
        source: Any,
        *,
        name: str = "",
        role: str = "",
        kind: DataKind = "model",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        keep: bool = False,
        **values: Any,
    ) -> Data:
        """Record the model (or other data, by `kind`) that this epoch produced, such as a checkpoint.

        `keep` stores its content as an artifact.
        """
        name = name or _model_name(self.run, kind)
        return _record_produced(
            self.run,
            self._location,
            kind,
            source=source,
            role=role,
            name=name,
            about=about,
            store=store,
            media_type=media_type,
            keep=keep,
            values=values,
        )


def _default_role(kind: str, data: Data) -> str:
    """Role of input data: its own, or that of the kind of stage. A model to continue from has none."""
    return data.role or ("" if data.kind == "model" else DEFAULT_ROLES.get(kind, ""))


def _model_name(run: RunCore, kind: str) -> str:
    """Default name of produced data: the run's model name for a model. Other data is named after its file."""
    return run.model if kind == "model" else ""


def _record_used(run: RunCore, location: str, kind: str, using: Using, role: str) -> None:
    for data in run._require_data(using):
        run._emit(Used(location, data.ref, check_role(role) or _default_role(kind, data)))


def _record_produced(run: RunCore, location: str, kind: str, *, values: dict[str, Any], **options: Any) -> Data:
    """Register data and emit that it was produced; `options` are those of `RunCore._register_data`."""
    if kind == "model" and not run.disabled:
        return _record_produced_model(run, location, values, **options)
    data = run._register_data(kind, **options, characteristics=values)
    if data.ref:
        run._emit(Produced(location, data.ref))
    return data


def _record_produced_model(
    run: RunCore, location: str, values: dict[str, Any], *, source: Any, store: str, **options: Any
) -> Data:
    """Register a model and emit that it was produced; the same content again is the same model, in another file."""
    digest, encoded = run._digest(source, must_exist=not store), run._encode_values(values)
    key = location, digest[0], str(sorted(encoded.items()))
    saved = run._produced_models.get(key) if digest[0] else None
    saved_ref = saved.ref if saved is not None else ""
    data = run._register_data("model", source, store=store, digest=digest, saved_ref=saved_ref, **options)
    if data.ref and saved is None:
        run._produced_models[key] = data
        run._emit(Produced(location, data.ref, encoded))
    return data


def _record_measures(run: RunCore, location: str, values: dict[str, Any]) -> None:
    if run.disabled:
        return
    encoded, errors = encode_measures(values)
    if encoded := run._limit_measures(encoded):
        run._emit(Measured(location, encoded))
    for error in errors:
        run._report_error(error)
