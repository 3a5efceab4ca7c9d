"""What a run is made of while it is recorded: steps, stages, and the epochs and batches inside them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from provml import event
from provml.event import Adapted, Batch, Begin, Done, Layers, Measured, Parameter, Produced, Used
from provml.values import plain

if TYPE_CHECKING:
    from provml.recorder import Data, Recorder

ROLES = {"training": "training", "validation": "validation", "evaluation": "test"}
INTEGERS = range(-(2**63), 2**63)


def jsonable(value: Any) -> event.Value:
    """A scalar as a journal holds it: as JSON where that is exact, else its kind and text."""
    if value.__class__ is float:
        if value - value == 0.0:
            return value
        return ["double", "NaN" if value != value else "INF" if value > 0 else "-INF"]
    scalar = plain(value)
    if scalar.__class__ is bool or scalar.__class__ is str or (scalar.__class__ is int and scalar in INTEGERS):
        return scalar
    if scalar.__class__ is float:
        return jsonable(scalar)
    from provml.rdf.exact import encode_value

    return encode_value(scalar)


class Step:
    """A data transformation: a curation, a preparation, a filter, a stage of learning."""

    __slots__ = ("_began", "_closed", "at", "kind", "run")

    def __init__(
        self, run: Recorder, kind: str, name: str, using: Iterable[Data] | Data, values: dict[str, Any], by: str = ""
    ) -> None:
        self.run = run
        self.kind = kind
        self.at = ""
        self._closed = False
        self._began = time.perf_counter()
        if run.off:
            return
        self.at = run.place(name)
        data: list[Data] = [using] if hasattr(using, "ref") else list(using)  # type: ignore[list-item]
        refs = [one.ref for one in data]
        run.tell(Begin(self.at, kind, time.time(), name, using=refs, values=run.values(values), by=by))
        for one in data:
            role = one.role or ROLES.get(kind, "")
            if role:
                run.tell(Used(self.at, one.ref, role))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End it: FINISHED, or FAILED with the error."""
        if self.run.off or self._closed:
            return
        self._closed = True
        tell_done(self.run, self.at, time.perf_counter() - self._began, error)

    def used(self, data: Data, *, role: str = "") -> None:
        """It used this data too."""
        if not self.run.off:
            self.run.tell(Used(self.at, data.ref, role or data.role or ROLES.get(self.kind, "")))

    def parameters(self, **values: Any) -> None:
        """It has these parameters too."""
        if not self.run.off:
            self.run.tell(Parameter(self.at, self.run.values(values)))

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "dataset", **values: Any) -> Data:
        """It produced this data."""
        return produced(self.run, self.at, source, name, role, kind, values)

    def measured(self, **values: float) -> None:
        """Measures of it."""
        run = self.run
        if run.off:
            return
        try:
            for name, value in values.items():
                if value.__class__ is not float or value - value != 0.0:
                    values[name] = jsonable(value)  # type: ignore[assignment]  # what the journal holds
            run.tell(Measured(self.at, values))  # type: ignore[arg-type]  # floats are values
        except Exception as error:
            run.fault(error)


def produced(run: Recorder, at: str, source: Any, name: str, role: str, kind: str, values: dict[str, Any]) -> Data:
    """Say that something was produced at a place; what is said of a model are its hyperparameters."""
    is_model = kind == "model"
    made = run.refer(kind, source, role, name, (), "", "", {} if is_model else values)
    if not run.off:
        run.tell(Produced(at, made.ref, run.values(values) if is_model else {}))
    return made


def tell_done(run: Recorder, at: str, seconds: float, error: BaseException | None) -> None:
    """Say that a step, a stage or a section ended."""
    status = "FINISHED" if error is None else "FAILED"
    said = [] if error is None else [type(error).__name__, str(error)[:2000]]
    run.tell(Done(at, time.time(), seconds, status, said))


class Stage(Step):
    """A training, a validation or an evaluation, with epochs and batches inside."""

    __slots__ = ("_adapted", "_left", "_twin", "epoch_now", "of")

    def __init__(
        self,
        run: Recorder,
        kind: str,
        name: str,
        using: Iterable[Data] | Data,
        values: dict[str, Any],
        by: str = "",
        *,
        of: Data | None = None,
    ) -> None:
        super().__init__(run, kind, name, using, values, by)
        self._adapted = 0
        self._left: Epoch | None = None
        self._twin: Stage | None = None
        self.epoch_now: Epoch | None = None
        if of is not None and not run.off:
            run.tell(Used(self.at, of.ref, "model"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End it, and the section that was open with it."""
        if self._twin is not None:
            self._twin.done(error=None)
        self.settle(error)
        super().done(error=error)

    def settle(self, error: BaseException | None = None) -> None:
        """A loop over epochs was left in the middle: only what comes next tells whether by `break` or by an error."""
        left, self._left = self._left, None
        if left is not None:
            left.done(error=error)

    def epochs(self, count: int | Iterable[Any], *, kind: str = "epoch", first: int = 1) -> Iterator[Epoch]:
        """The epochs of this stage: `for epoch in training.epochs(20):`."""
        items = range(count) if isinstance(count, int) else count
        for index, item in enumerate(items, first):
            epoch = self.epoch(index, kind=kind)
            epoch.data = item
            try:
                yield epoch
            except GeneratorExit:
                self._left = epoch
                raise
            epoch.done()

    def folds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """The folds of a cross-validation."""
        return self.epochs(count, kind="fold")

    def rounds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """The rounds of boosting."""
        return self.epochs(count, kind="round")

    def epoch(self, index: int, *, kind: str = "epoch") -> Epoch:
        """One epoch, as a context manager or with `done`."""
        self.settle()
        self.epoch_now = Epoch(self, index, kind)
        return self.epoch_now

    def adapted(
        self,
        *,
        technique: str = "",
        why: str = "",
        by: str = "",
        parameters: dict[str, Any] | None = None,
        during: Epoch | None = None,
        **values: Any,
    ) -> None:
        """Hyperparameters changed: to what, by which technique, why and by whom."""
        run = self.run
        if run.off:
            return
        self._adapted += 1
        section = during or self.epoch_now
        at = section.at if section is not None else self.at
        changed = run.values(values)
        run.tell(Adapted(at, self._adapted, time.time(), changed, technique, why, by, run.values(parameters or {})))

    def layers(self, layers: Iterable[dict[str, Any]]) -> None:
        """The layers of the network: dictionaries with name, type, and what matters of each."""
        if self.run.off:
            return
        told = [{key: value for key, value in layer.items() if value is not None} for layer in layers]
        self.run.tell(Layers(self.at, told))

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "model", **values: Any) -> Data:
        """The model that came of it (or other data, with `kind`)."""
        return super().produced(source, name=name or self.run.model, role=role, kind=kind, **values)


class Epoch:
    """A section of a stage: an epoch, a fold, a round."""

    __slots__ = ("_began", "_closed", "at", "data", "index", "run", "stage")

    def __init__(self, stage: Stage, index: int, kind: str, during: str = "") -> None:
        self.stage = stage
        self.run = run = stage.run
        self.index = index
        self.data: Any = None
        self.at = f"{stage.at}/{index}"
        self._closed = False
        self._began = time.perf_counter()
        if not run.off:
            run.tell(Begin(self.at, kind, time.time(), index=index, during=during))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End it: FINISHED, or FAILED with the error."""
        if self._closed or self.run.off:
            return
        self._closed = True
        tell_done(self.run, self.at, time.perf_counter() - self._began, error)

    measured = Step.measured
    used = Step.used

    @property
    def kind(self) -> str:
        """The kind of its stage, which gives data its role."""
        return self.stage.kind

    def batches(self, loader: Iterable[Any], *, first: int = 1) -> Iterator[BatchNow]:
        """The batches of a loader: `for batch in epoch.batches(loader):`, each with its `data`."""
        run = self.run
        told = not run.off and run.detail == "batch"
        for index, data in enumerate(loader, first):
            batch = BatchNow(self, index, data, told and (index - first) % run.every == 0)
            yield batch
            batch.done()

    def validation(self, *, using: Iterable[Data] | Data = (), **values: Any) -> Epoch:
        """The validation twin of this epoch: a section of a validation stage of its own."""
        stage = self.stage
        if stage._twin is None:
            name = "validation" if stage.at.partition("@")[0] == "training" else f"{stage.at}-validation"
            stage._twin = Stage(self.run, "validation", name, using, values)
        return Epoch(stage._twin, self.index, "epoch", during=self.at)

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "model", **values: Any) -> Data:
        """The model (or other data) that this epoch left."""
        return produced(self.run, self.at, source, name or self.run.model, role, kind, values)


class BatchNow:
    """A batch while it is worked on."""

    __slots__ = ("_began", "_closed", "at", "data", "index", "run")

    def __init__(self, epoch: Epoch, index: int, data: Any, told: bool) -> None:
        self.run = epoch.run
        self.index = index
        self.data = data
        self._closed = not told
        self.at = f"{epoch.at}/{index}"
        self._began = time.perf_counter()

    def measured(self, **values: float) -> None:
        """Measures of this batch."""
        if self._closed:
            return
        run = self.run
        try:
            for name, value in values.items():
                if value.__class__ is not float or value - value != 0.0:
                    values[name] = jsonable(value)  # type: ignore[assignment]  # what the journal holds
            run.tell(Measured(self.at, values))  # type: ignore[arg-type]  # floats are values
        except Exception as error:
            run.fault(error)

    def done(self) -> None:
        """The batch ended."""
        if not self._closed:
            self._closed = True
            self.run.tell(Batch(self.at, time.time(), time.perf_counter() - self._began))
