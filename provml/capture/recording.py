"""What all captures share: the run, data by its role, the stage and epoch that are open, and hooks without faults."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from provml.batch import BatchNow
from provml.capture import facts
from provml.capture.memory import Files, Subject
from provml.capture.watch import Selection, Watch
from provml.content import Data
from provml.errors import WrongType
from provml.known import Memory
from provml.process import ending
from provml.recorder import Recorder, record
from provml.sections import Epoch, Stage

BY_HAND = "by hand"
"""The technique of an adaptation that no scheduler known to the capture made."""
NOTHING = "None"
"""The value of a hyperparameter that is switched off, where it was on before or is later."""
ROLES = ("training", "validation", "test", "model")
"""The roles of the data that a capture takes."""
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="Recording")
Technique = tuple[str, dict[str, Any]]


def hook(on: Callable[Concatenate[R, P], None]) -> Callable[Concatenate[R, P], None]:
    """What a framework calls: nothing where recording is off, and faults are counted and do not reach the training."""

    @wraps(on)
    def safely(self: R, /, *given: P.args, **named: P.kwargs) -> None:
        if not self.run.off:
            try:
                on(self, *given, **named)
            except Exception as error:
                self.run.fault(error)

    return safely


class Recording:
    """A run of the capture's own, or one that it is given, and what is open in it."""

    usual_watch = "epoch"
    """How often it looks for adaptations, unless `watch` says."""
    rounds_name = "epochs"
    """What the hyperparameter is called that says how many sections are planned."""
    is_told_inside = True
    """Whether a section that is open is one that goes on; a round of boosting is told when it has been done."""

    def __init__(
        self,
        name: str = "",
        *,
        run: Recorder | str | None = None,
        data: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, bool] | None = None,
        watch: str = "",
        **settings: Any,
    ) -> None:
        if watch not in ("", "epoch", "batch"):
            raise ValueError(f"watch is 'epoch' or 'batch', not {watch!r}")
        self.selection = Selection(hyperparameters)
        self._data = _by_role(data)
        if isinstance(run, str):  # an id, as `provml.record` takes it
            settings["run"], run = run, None
        elif run is not None and not isinstance(run, Recorder):
            raise WrongType("Capture", "run", run, "a run", "Give what provml.record(…) gave, or a run's id.")
        if run is not None and settings:
            raise TypeError(f"a run that is given has its settings: leave {', '.join(settings)} out, or leave run= out")
        self.run = run if run is not None else record(name or Path(sys.argv[0]).stem or "training", **settings)
        self.watches_batches = (watch or self.usual_watch) == "batch"
        self.stage: Stage | None = None
        self.trained: Stage | None = None
        self.epoch: Epoch | None = None
        self.batch: BatchNow | None = None
        self.test: Stage | None = None
        self.made: Data | None = None
        self.epochs_done = 0
        self._is_own = run is None
        self._told: dict[str, tuple[Any, list[Data]]] = {}
        self._seen: Memory[dict[str, list[Data]]] = Memory()
        self._models: Memory[Subject | Data] = Memory()
        self._subject: Subject | None = None
        self._by_file = Files()
        self._watch = Watch({})
        self._coming: tuple[int, float] | None = None
        self.run.is_open(self)

    # ---- life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(error=error)

    def finish(self, *, error: BaseException | None = None) -> None:
        """End what is open, and the run if it is the capture's own: FINISHED, or FAILED with the error."""
        try:
            self.done(error=error)
        finally:
            if self._is_own:
                self.run.finish(error=error)

    def done(self, *, error: BaseException | None = None) -> None:
        """End and save what waits for an end. The end of the run does it too, where nothing did before."""
        self.run.is_done(self)
        try:
            self.end_training(error=error)
            self.end_evaluation(error=error)
        except Exception as fault:
            self.run.fault(fault)

    def tried(self, ask: Callable[[], T], instead: T) -> T:
        """What is found, or this instead: one part that cannot be known leaves the rest of a training told."""
        try:
            return ask()
        except Exception as error:
            self.run.fault(error)
            return instead

    # ---- data

    def data(self, role: str, seen: Callable[[], list[Data]] = list, *, of: Any = None) -> list[Data]:
        """The data of a role: what the user handed over with `data=`, else what the capture has seen.

        It is told once, until it is to be taken `anew`, or is `of` another object than before.
        """
        was: Any = None
        told: list[Data] | None = None
        if role in self._told:
            was, told = self._told[role]
        if told is None or (of is not None and was is not of and role not in self._data):
            if role in self._data:
                given = self._data[role]
                several = given if isinstance(given, (list, tuple)) else [given]
                told = [data for one in several for data in self._handed(one, role)]
            else:
                told = (self._seen.get(of) or {}).get(role)
                told = self.tried(seen, list[Data]()) if told is None else told
            if role == "training" and not told:  # a model comes from data, known or not
                told = [self.run.dataset(None, role=role, name="training data")]
            if all(not data.sha256 for data in told):  # without its content, only the object says that it is the same
                self._seen.set(of, {**(self._seen.get(of) or {}), role: told})
            self._told[role] = of, told
        return told

    def anew(self, *roles: str) -> None:
        """What these roles are is seen again at the next use, unless it was handed over."""
        for role in roles:
            if role not in self._data:
                self._told.pop(role, None)

    def _handed(self, given: Any, role: str) -> Iterable[Data]:
        if isinstance(given, Data):
            return [given]
        if isinstance(given, (str, bytes, Path)) or hasattr(given, "tobytes"):
            return [self.run.dataset(given, role=role, name="" if isinstance(given, (str, Path)) else f"{role} data")]
        return facts.tell(self.run, given, role, f"{role} data")

    # ---- a training

    def begin_training(
        self, values: Mapping[str, Any], *, using: Iterable[Data] = (), model: Any = None, after: Data | None = None
    ) -> Stage:
        """Begin a training stage of a model object; one that was left open was left by an exception.

        It goes on `after` a model, or else from what was told of this very object.
        """
        self.end_training(error=sys.exc_info()[1] or RuntimeError("the training was left before its end"))
        self.selection.doubt(values)
        known = self.selection.of(values)
        kept = {name: value for name, value in known.items() if value is not None}
        before = after or self.known(model)
        self.stage = self.trained = Stage(self.run, "training", "training", using, kept)
        if before is not None:
            self.stage.used(before, role="model")
        self._subject = Subject(self.stage, before)
        self._models.set(model, self._subject)
        self.run.is_done(self)
        self.run.is_open(self)  # after the stage, and so ended before it
        self._watch = Watch(known)
        self.epochs_done = 0
        return self.stage

    def expect_epoch(self, index: int) -> None:
        """An epoch begins. It is told with its first batch: until then its hyperparameters may still be set."""
        self._coming = index, perf_counter()

    def open_epoch(self) -> Epoch | None:
        """The epoch that is open; one that was expected begins now, after what was adapted for it."""
        if self._coming is not None and self.stage is not None:
            (index, began), self._coming = self._coming, None
            self.look(during=index)
            self.epoch = self.stage.epoch(index, ago=perf_counter() - began)
        return self.epoch

    def close_epoch(self, measures: Mapping[str, Any] | None = None) -> None:
        """The epoch has ended, with these measures."""
        epoch = self.open_epoch()
        if epoch is not None:
            if measures:
                epoch.measured(**measures)
            epoch.done()
            self.epoch = None
            self.epochs_done += 1

    def begin_batch(self, index: int) -> None:
        """A batch begins, counted from 1."""
        if self._coming is not None:
            self.open_epoch()
        elif self.stage is not None and self.moved():
            self.look()
        if self.epoch is not None:
            self.batch = self.epoch.batch(index)

    def end_batch(self, measures: Mapping[str, Any]) -> None:
        """It ended, with these measures."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.measured(**measures)
            batch.done()

    def end_training(self, *, error: BaseException | None = None) -> None:
        """End the training stage, and what was adapted too late for any epoch."""
        stage = self.stage
        if stage is None:
            return
        try:
            if error is None:
                self.look()
            elif ending(error)[0] == "FINISHED":
                self._left_on_purpose(stage)
        finally:
            self.stage = self.epoch = self.batch = self._coming = None
            stage.done(error=error)
            self.selection.doubt((), is_over=True)

    def stopped(self, epochs: int, technique: str, why: str, parameters: Mapping[str, Any]) -> None:
        """The training stopped after so many epochs, before those that were planned: their number was adapted."""
        if self.stage is not None and self.selection.keeps(self.rounds_name):
            said: dict[str, Any] = {self.rounds_name: epochs}
            self.stage.adapted(technique=technique, why=why, parameters=dict(parameters), **said)

    def _left_on_purpose(self, stage: Stage) -> None:
        """The program was ended by `sys.exit()` in a training: that stopped it, and its last epoch may be a part."""
        planned, last = self._watch.values.get(self.rounds_name), stage.epoch_now
        if last is None or planned is None:
            return
        is_inside = self.epoch is last
        if last.index < planned:
            where = "inside" if is_inside else "after"
            self.stopped(last.index, BY_HAND, f"the program was ended {where} the last of them", {})
        elif is_inside and self.is_told_inside:
            self.stopped(planned - 1, BY_HAND, f"the program was ended inside epoch {last.index}, a part of one", {})

    # ---- hyperparameters

    def now(self) -> dict[str, Any]:
        """The hyperparameters that may change, as they are now. Each framework has its own way to know."""
        return {}

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter, and the parameters of that."""
        return BY_HAND, {}

    def reason(self, names: list[str]) -> str:
        """What else is to be said of a change of these."""
        return ""

    def moved(self) -> bool:
        """Whether to look before this batch, which is not the first of its epoch."""
        return self.watches_batches

    def look(self, *, during: int | None = None) -> None:
        """Tell what has changed since the last look; of the epoch to come, or of the one that is open."""
        if self.stage is None:
            return
        now = self.selection.of(self.now())
        if appeared := self._watch.appeared(now):
            self.stage.parameters(**appeared)
        by_hand: Technique = BY_HAND, {}
        groups: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        changes = self._watch.changes(now)
        if came := {name: NOTHING for name, (old, _) in changes.items() if old is None}:
            self.stage.parameters(**came)  # what is adapted had a value before, which was none
        for name, (old, new) in changes.items():
            technique, parameters = self.tried(partial(self.technique, name, old, new), by_hand)
            groups.setdefault(technique, ({}, parameters))[0][name] = NOTHING if new is None else new
        for technique, (values, parameters) in groups.items():
            why = self.tried(partial(self.reason, list(values)), "")
            self.stage.adapted(technique=technique, why=why, parameters=parameters, during=during, **values)

    # ---- models and their evaluation

    def saved(self, path: Any, **said: Any) -> Data | None:
        """The model of the last training is in this file or folder; None: it is in memory only."""
        if self.trained is not None:
            try:
                self.left(self.kept(self.epoch or self.trained, path, **said))
            except Exception as error:
                self.run.fault(error)
        return self.made

    def kept(self, section: Stage | Epoch, path: Any, **said: Any) -> Data:
        """A section left a model in this file or folder; None: in memory."""
        made = section.produced(path, **said)
        if path is not None:
            self._by_file.set(path, made)
        return made

    def left(self, made: Data) -> None:
        """This is what the last training has made of its model."""
        self.made = made
        if self._subject is not None:
            self._subject.left(made)

    def is_also(self, model: Any) -> None:
        """This object too is the model of the last training."""
        if self._subject is not None:
            self._models.set(model, self._subject)

    def is_now(self, model: Any, told: Data | None) -> None:
        """This object is no longer what it was told as, but this; None: it begins anew."""
        self._models.pop(model)
        if told is not None:
            self._models.set(model, told)

    def known(self, model: Any) -> Data | None:
        """What a model object is told as, or the file of one; None where no training of this capture made it."""
        if isinstance(model, (str, os.PathLike)):
            return self._by_file.get(model)
        held = model if isinstance(model, Data) else self._models.get(model)
        return held.told() if isinstance(held, Subject) else held

    def found(self, model: Any = None) -> Data:
        """What a model is told as; one that no training of this capture made is what `data={"model": …}` says."""
        told = self.known(model) if model is not None else self.made
        if told is None:
            held = model if isinstance(model, (str, os.PathLike)) else self._data.get("model")
            told = self.known(held)
            if told is None:
                told = self.run.refer("model", held, "", self.run.model, (), "", "", {})
                if isinstance(held, (str, os.PathLike)):
                    self._by_file.set(held, told)
            self._models.set(model, told)
            self.made = self.made or told
        return told

    def begin_evaluation(
        self, *, using: Iterable[Data] = (), name: str = "evaluation", model: Any = None, **values: Any
    ) -> Stage:
        """Begin an evaluation of a model object, or of the model that was made last."""
        self.end_evaluation(error=sys.exc_info()[1] or RuntimeError("the evaluation was left before its end"))
        self.test = self.run.evaluation(of=self.found(model), using=using, name=name, **values)
        return self.test

    def end_evaluation(self, measures: Mapping[str, Any] | None = None, *, error: BaseException | None = None) -> None:
        """It ended, with these measures."""
        test, self.test = self.test, None
        if test is not None:
            test.measured(**(measures or {}))
            test.done(error=error)


def save_to(path: Any) -> Path | None:
    """Where a model is to be saved, if it is."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise WrongType("Capture", "save_model", path, "a path", "Say save_model='model.pt', or leave it out.")
    return Path(path) if path is not None else None


def _by_role(data: Any) -> dict[str, Any]:
    """The data that was handed over, by role; a role that no capture asks for is logged."""
    if data is not None and not isinstance(data, Mapping):
        raise WrongType("Capture", "data", data, "data by role", "Say data={'training': …}.")
    for role in data or ():
        if role not in ROLES:
            said = "provml: data with the role %r is not recorded; the roles of a capture are %s"
            logging.getLogger("provml").warning(said, role, ", ".join(ROLES))
    return dict(data or {})
