"""What a run is made of while it is recorded: steps, stages, and the epochs and batches inside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from operator import index as as_index
from time import perf_counter, time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from provml import content
from provml.batch import Batched
from provml.content import Data, text
from provml.event import Adapted, Begin, Done, Implementation, Layers, Measured, Parameter, Produced, Ran, Used, Values
from provml.process import ending, instructions, raised_at

if TYPE_CHECKING:
    from provml.recorder import Recorder

ROLES = {"training": "training", "validation": "validation", "evaluation": "test"}
SHAPES = ("input_shape", "output_shape")
P = ParamSpec("P")
S = TypeVar("S", "Step", "Stage", "Epoch")
Using = Iterable[Data] | Data
Said = dict[str, Any]


def verb(say: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """A verb that says nothing where recording is off, and whose own faults do not reach the training."""

    @wraps(say)
    def safely(self: S, /, *given: P.args, **named: P.kwargs) -> None:
        if not self.run.off:
            try:
                say(self, *given, **named)
            except Exception as error:
                self.run.fault(error)

    return safely


def role_in(kind: str, data: Data) -> str:
    """The role that data has in a step where none is said: its own, or the stage's; a model to go on from has none."""
    return data.role or ("" if data.kind == "model" else ROLES.get(kind, ""))


class Step:
    """A data transformation: a curation, a preparation, a filter, a stage of learning."""

    __slots__ = ("_began", "_closed", "_pid", "_refs", "_values", "at", "kind", "name", "run")

    def __init__(
        self, run: Recorder, kind: str, name: str, using: Using, values: Said, by: str = "", *, ago: float = 0.0
    ) -> None:
        self.run = run
        self.kind = kind
        self.name = text(name)
        self.at = ""
        self._refs: list[str] = []
        self._values: Values = {}
        self._closed = False
        self._pid = os.getpid()
        self._began = perf_counter() - ago
        self._begin(using, values, by, time() - ago)

    def _begin(self, using: Using, values: dict[str, Any], by: str, began: float) -> None:
        run = self.run
        if run.off:
            return
        self.at = run.place(self.name)
        data = run.data_in(using)
        self._refs = [one.ref for one in data]
        self._values = run.values(values)
        run.tell(Begin(self.at, self.kind, began, self.name, using=self._refs, values=self._values, by=text(by)))
        run.is_open(self)
        for one in data:
            if role := role_in(self.kind, one):
                run.tell(Used(self.at, one.ref, role))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None, ago: float = 0.0) -> None:
        """End it, now or some seconds ago: FINISHED, or FAILED with the error. In a forked child the parent ends it."""
        if self.run.off or self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self.run.is_done(self)
        self.run.tell(Done(self.at, time() - ago, perf_counter() - ago - self._began, *ending(error)))

    @verb
    def used(self, data: Data, *, role: str = "") -> None:
        """It used this data too."""
        for one in self.run.data_in(data):
            self.run.tell(Used(self.at, one.ref, content.role(role) or role_in(self.kind, one)))

    @verb
    def parameters(self, /, **values: Any) -> None:
        """It has these parameters too."""
        if kept := self.run.values(values):
            self.run.tell(Parameter(self.at, kept))

    @verb
    def says_more(self, using: Using, values: dict[str, Any]) -> None:
        """Tell of data and parameters those that are not as they were told last."""
        new = [one for one in self.run.data_in(using) if one.ref not in self._refs]
        changed = {key: value for key, value in self.run.values(values).items() if self._values.get(key) != value}
        for one in new:
            self.used(one)
        if changed:
            self.run.tell(Parameter(self.at, changed))
        self._refs += [one.ref for one in new]
        self._values |= changed

    def implemented_by(
        self, name: str, *, algorithm: str = "", software: str = "", version: str = "", **characteristics: Any
    ) -> None:
        """What carries it out: an implementation, of which algorithm, in which software and version."""
        if not self.run.off:
            said = self.run.values(characteristics)
            self.run.tell(Implementation(self.at, text(name), text(algorithm), text(software), text(version), said))

    @verb
    def ran(self, *, name: str = "", where: str = "", on: str = "", output: str = "", errors: str = "") -> None:
        """What it is called, in which folder and on which resource it ran, and what it wrote, which is said once."""
        self.run.tell(Ran(self.at, text(name), text(where), text(on), text(output), text(errors)))

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "dataset", **said: Any) -> Data:
        """It produced this data: with what it is `about`, its `store` and `media_type`, and what else is said of it."""
        return produced(self.run, self.at, source, name, role, kind, said)

    def measured(self, /, **values: Any) -> None:
        """Measures of it: numbers, of any kind that has an exact value; one that is None is left out."""
        run = self.run
        if run.off:
            return
        kept, wrong = content.measures(values)
        if kept:
            run.tell(Measured(self.at, kept))
        for error in wrong:
            run.fault(error)


def produced(run: Recorder, at: str, source: Any, name: str, role: str, kind: str, said: dict[str, Any]) -> Data:
    """Say that something was produced at a place; what is said of a model are its hyperparameters."""
    about, store, media = said.pop("about", ()), said.pop("store", ""), said.pop("media_type", "")
    is_model = kind == "model"
    made = run.refer(kind, source, role, name, about, store, media, {} if is_model else said)
    if made.ref:
        run.tell(Produced(at, made.ref, run.values(said) if is_model else {}))
    return made


class Stage(Step):
    """A training, a validation or an evaluation, with epochs and batches inside."""

    __slots__ = ("_indices", "_left", "_open", "_twin", "epoch_now")

    def __init__(
        self,
        run: Recorder,
        kind: str,
        name: str,
        using: Using,
        values: Said,
        by: str = "",
        *,
        of: Data | None = None,
        ago: float = 0.0,
    ) -> None:
        self._indices: set[int] = set()
        self._open: dict[Epoch, None] = {}
        self._left: Epoch | None = None
        self._twin: Stage | None = None
        self.epoch_now: Epoch | None = None
        super().__init__(run, kind, name, using, values, by, ago=ago)
        for one in run.data_in(of or ()):
            run.tell(Used(self.at, one.ref, "model"))

    def done(self, *, error: BaseException | None = None, ago: float = 0.0) -> None:
        """End it, and the sections that were open with it."""
        if self._pid == os.getpid():
            if self._twin is not None:
                self._twin.done(error=error)
            self._settle(error)
            for epoch in reversed(list(self._open)):
                epoch.done(error=error)
        super().done(error=error, ago=ago)

    def _settle(self, error: BaseException | None = None) -> None:
        """End an epoch whose loop was left in the middle: by `break`, or by an error that came from within."""
        left, self._left = self._left, None
        if left is not None:
            left.settle(error)

    def epochs(self, count: int | Iterable[Any], *, kind: str = "epoch", first: int | None = None) -> Iterator[Epoch]:
        """The epochs of this stage: `for epoch in training.epochs(20):`. A second loop counts on from the first.

        Sections of another kind are named by it: `training.epochs(20, kind="episode")`.
        """
        number: Any = count  # a text is neither a number nor items, and refused
        items = count if isinstance(count, Iterable) and not isinstance(count, str) else range(as_index(number))
        index = first if first is not None else max(self._indices, default=0) + 1
        for item in items:
            epoch = self.epoch(index, kind=kind)
            epoch.data = item
            try:
                yield epoch
            except GeneratorExit:
                epoch.leave(sys._getframe().f_back)
                self._left = epoch
                raise
            epoch.done()
            index = epoch.index + 1

    def folds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """The folds of a cross-validation."""
        return self.epochs(count, kind="fold")

    def rounds(self, count: int | Iterable[Any]) -> Iterator[Epoch]:
        """The rounds of boosting."""
        return self.epochs(count, kind="round")

    def epoch(self, index: int, *, kind: str = "epoch", during: str = "", ago: float = 0.0) -> Epoch:
        """One epoch, begun now or some seconds ago, as a context manager or with `done`.

        Where there was one of that index, it gets the next.
        """
        self._settle(sys.exc_info()[1])
        index = as_index(index)
        if index in self._indices:
            index = max(self._indices) + 1
        self._indices.add(index)
        self.epoch_now = Epoch(self, index, text(kind) or "epoch", during, ago)
        return self.epoch_now

    @verb
    def adapted(
        self,
        /,
        *,
        technique: str = "",
        why: str = "",
        by: str = "",
        parameters: dict[str, Any] | None = None,
        during: Epoch | int | None = None,
        **values: Any,
    ) -> None:
        """Hyperparameters changed: to what, by which technique, why and by whom.

        A number names the epoch that is about to begin, in which the new values are in force from its start on.
        """
        run = self.run
        section = self.epoch_now if during is None else during
        at = f"{self.at}/{section}" if isinstance(section, int) else section.at if section is not None else self.at
        said = text(technique), text(why), text(by), run.values(parameters or {})
        run.tell(Adapted(at, time(), run.values(values), *said))

    @verb
    def layers(self, layers: Iterable[dict[str, Any]]) -> None:
        """The layers of the network: dictionaries with name, type, and what matters of each."""
        run = self.run
        told = []
        for layer in layers:
            said = {**layer, **layer.get("parameters", {})}
            said.pop("parameters", None)
            for key, value in said.items():
                if isinstance(value, (tuple, list)) or (key in SHAPES and value is not None):
                    said[key] = str(value)
            told.append(run.values(said))
        run.tell(Layers(self.at, told))

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "model", **said: Any) -> Data:
        """The model that came of it (or other data, with `kind`)."""
        return produced(self.run, self.at, source, name or model_name(self.run, kind), role, kind, said)


def model_name(run: Recorder, kind: str) -> str:
    """A model that is given no name has that of the run's model; other data that of its file."""
    return run.model if kind == "model" else ""


class Epoch(Batched):
    """A section of a stage: an epoch, a fold, a round."""

    __slots__ = ("_began", "_closed", "_ended", "_left_from", "_pid", "data", "index", "stage")

    def __init__(self, stage: Stage, index: int, kind: str, during: str = "", ago: float = 0.0) -> None:
        run = stage.run
        super().__init__(run, f"{stage.at}/{index}")
        self.stage = stage
        self.index = index
        self.data: Any = None
        self._closed = run.off
        self._pid = os.getpid()
        self._ended = 0.0
        self._left_from: dict[int, int] = {}
        self._began = perf_counter() - ago
        if not run.off:
            stage._open[self] = None
            run.tell(Begin(self.at, kind, time() - ago, index=index, during=during))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End it: FINISHED, or FAILED with the error. In a forked child this does nothing: the parent ends it."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self.stage._open.pop(self, None)
        self._settle(error)
        self.free()
        now = perf_counter()
        ended = self._ended or now
        self.run.tell(Done(self.at, time() - now + ended, ended - self._began, *ending(error)))

    def leave(self, frame: Any) -> None:
        """Its loop was left: remember when, and from which instruction of each frame, for `settle` to tell why."""
        self._ended = perf_counter()
        self._left_from = instructions(frame)

    def settle(self, error: BaseException | None) -> None:
        """End it after its loop was left: FAILED if the error came from the very instruction that left the loop."""
        raised = raised_at(error)
        for frame, instruction in self._left_from.items():  # the innermost of the frames that it came through decides
            if frame in raised:
                self.done(error=error if raised[frame] == instruction else None)
                return
        self.done()

    measured: Callable[..., None] = Step.measured
    used: Callable[..., None] = Step.used

    @property
    def kind(self) -> str:
        """The kind of its stage, which gives data its role."""
        return self.stage.kind

    def validation(self, *, using: Using = (), by: str = "", **values: Any) -> Epoch:
        """The validation twin of this epoch: a section of a validation stage of its own, which all epochs share.

        Who does it is said with the first.
        """
        stage = self.stage
        if stage._twin is None:
            name = "validation" if stage.name == "training" else f"{stage.name}-validation"
            stage._twin = Stage(self.run, "validation", name, using, values, by)
        else:
            stage._twin.says_more(using, values)
        return stage._twin.epoch(self.index, during=self.at)

    def produced(self, source: Any, *, name: str = "", role: str = "", kind: str = "model", **said: Any) -> Data:
        """The model (or other data) that this epoch left."""
        return produced(self.run, self.at, source, name or model_name(self.run, kind), role, kind, said)
