"""What all captures share: the run, data by its role, the stage and epoch that are open, and hooks without faults."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from provml.batch import BatchNow
from provml.capture import facts
from provml.capture.watch import Selection, Watch
from provml.content import Data
from provml.errors import WrongType
from provml.recorder import Recorder, record
from provml.sections import Epoch, Stage

BY_HAND = "by hand"
"""The technique of an adaptation that no scheduler known to the capture made."""
NOTHING = "None"
"""The value of a hyperparameter that is switched off, where it was on before or is later."""
ROLES = ("training", "validation", "test", "model")
"""The roles of the data that a capture takes."""
RESERVED = ("name", "using")
"""What a hyperparameter of the user's may be called, and a parameter of the verb is."""
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

    def __init__(
        self,
        name: str = "",
        *,
        run: Recorder | str | None = None,
        data: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, bool] | None = None,
        watch: str = "epoch",
        **settings: Any,
    ) -> None:
        if watch not in ("epoch", "batch"):
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
        self.watches_batches = watch == "batch"
        self.stage: Stage | None = None
        self.trained: Stage | None = None
        self.epoch: Epoch | None = None
        self.batch: BatchNow | None = None
        self.test: Stage | None = None
        self.made: Data | None = None
        self.epochs_done = 0
        self._is_own = run is None
        self._told: dict[str, list[Data]] = {}
        self._watch = Watch({})
        self._coming: tuple[int, float] | None = None

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
            self.end_training(error=error)
            self.end_evaluation(error=error)
        except Exception as fault:
            self.run.fault(fault)
        finally:
            if self._is_own:
                self.run.finish(error=error)

    def tried(self, ask: Callable[[], T], instead: T) -> T:
        """What is found, or this instead: one part that cannot be known leaves the rest of a training told."""
        try:
            return ask()
        except Exception as error:
            self.run.fault(error)
            return instead

    # ---- data

    def data(self, role: str, seen: Callable[[], list[Data]] = list) -> list[Data]:
        """The data of a role: what the user handed over with `data=`, else what the capture has seen."""
        if role not in self._told:
            if role in self._data:
                given = self._data[role]
                several = given if isinstance(given, (list, tuple)) else [given]
                self._told[role] = [data for one in several for data in self._handed(one, role)]
            else:
                self._told[role] = self.tried(seen, [])
            if role == "training" and not self._told[role]:  # a model comes from data, known or not
                self._told[role] = [self.run.dataset(None, role=role, name="training data")]
        return self._told[role]

    def _handed(self, given: Any, role: str) -> Iterable[Data]:
        if isinstance(given, Data):
            return [given]
        if isinstance(given, (str, bytes, Path)) or hasattr(given, "tobytes"):
            return [self.run.dataset(given, role=role, name="" if isinstance(given, (str, Path)) else f"{role} data")]
        return facts.tell(self.run, given, role, f"{role} data")

    # ---- a training

    def begin_training(self, values: Mapping[str, Any], *, using: Iterable[Data] = ()) -> Stage:
        """Begin a training stage; one that was left open was left by an exception."""
        self.end_training(error=sys.exc_info()[1] or RuntimeError("the training was left before its end"))
        self.selection.doubt(values)
        known = self.selection.of(values)
        kept = {name: value for name, value in known.items() if value is not None}
        before = self.made
        spoken = {name: value for name, value in kept.items() if name not in RESERVED}
        self.stage = self.trained = self.run.training(using=using, **spoken)
        self.stage.parameters(**{name: value for name, value in kept.items() if name in RESERVED})
        if before is not None:  # it goes on from what the training before it made
            self.stage.used(before, role="model")
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
            epoch.measured(**(measures or {}))
            epoch.done()
            self.epoch = None
            self.epochs_done += 1

    def begin_batch(self, index: int) -> None:
        """A batch begins, counted from 1."""
        if self._coming is not None:
            self.open_epoch()
        elif self.watches_batches and self.stage is not None:
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
        finally:
            self.stage = self.epoch = self.batch = self._coming = None
            stage.done(error=error)
            self.selection.doubt((), is_over=True)

    def stopped(self, epochs: int, technique: str, why: str, parameters: Mapping[str, Any]) -> None:
        """The training stopped after so many epochs, before those that were planned: their number was adapted."""
        if self.stage is not None and self.selection.keeps("epochs"):
            self.stage.adapted(epochs=epochs, technique=technique, why=why, parameters=dict(parameters))

    # ---- hyperparameters

    def now(self) -> dict[str, Any]:
        """The hyperparameters that may change, as they are now. Each framework has its own way to know."""
        return {}

    def technique(self, name: str, old: Any, new: Any) -> Technique:
        """What changed a hyperparameter, and the parameters of that."""
        return BY_HAND, {}

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
            self.stage.adapted(technique=technique, parameters=parameters, during=during, **values)

    # ---- models and their evaluation

    def saved(self, path: Any, **said: Any) -> Data | None:
        """The model of the last training is in this file or folder; None: it is in memory only."""
        if self.trained is not None:
            try:
                section = self.epoch or self.trained
                self.made = section.produced(path, **said)
            except Exception as error:
                self.run.fault(error)
        return self.made

    def _foreign(self, source: Any) -> Data:
        """A model that no training of this capture made."""
        return self.run.refer("model", source, "", self.run.model, (), "", "", {})

    def begin_evaluation(self, *, using: Iterable[Data] = (), name: str = "evaluation", **values: Any) -> Stage:
        """Begin an evaluation of the model that was made last, or that `data={"model": …}` gives."""
        self.end_evaluation(error=sys.exc_info()[1] or RuntimeError("the evaluation was left before its end"))
        if self.made is None:
            held = self._data.get("model")
            self.made = held if isinstance(held, Data) else self._foreign(held)
        self.test = self.run.evaluation(of=self.made, using=using, name=name, **values)
        return self.test

    def end_evaluation(self, measures: Mapping[str, Any] | None = None, *, error: BaseException | None = None) -> None:
        """It ended, with these measures."""
        test, self.test = self.test, None
        if test is not None:
            test.measured(**(measures or {}))
            test.done(error=error)


def _by_role(data: Any) -> dict[str, Any]:
    """The data that was handed over, by role; a role that no capture asks for is logged."""
    if data is not None and not isinstance(data, Mapping):
        raise WrongType("Capture", "data", data, "data by role", "Say data={'training': …}.")
    for role in data or ():
        if role not in ROLES:
            said = "provml: data with the role %r is not recorded; the roles of a capture are %s"
            logging.getLogger("provml").warning(said, role, ", ".join(ROLES))
    return dict(data or {})


class Section:
    """A stage or an epoch for what users say themselves: its verbs, whose faults do not reach the training."""

    def __init__(
        self,
        run: Recorder,
        find: Callable[[], Stage | Epoch | None],
        index: int = 0,
        using: Callable[[], list[Data]] = list,
    ) -> None:
        self.run = run
        self.index = index
        self._find = find
        self._using = using
        self.told: set[str] = set()

    def measured(self, /, **values: Any) -> None:
        """Measures of it."""
        self.told.update(values)
        self._say("measured", **values)

    def parameters(self, /, **values: Any) -> None:
        """It has these parameters too."""
        self._say("parameters", **values)

    def used(self, data: Data, *, role: str = "") -> None:
        """It used this data too."""
        self._say("used", data, role=role)

    def produced(self, source: Any, **said: Any) -> Data | None:
        """The model (or other data, with `kind`) that it left."""
        made: Data | None = self._say("produced", source, **said)
        return made

    def validation(self, **said: Any) -> Section:
        """The validation twin of this epoch, for a `with`, on the data that was handed over for it."""
        twin = self._say("validation", **said)
        return Section(self.run, lambda: twin, self.index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say("done", error=error)

    def _say(self, verb: str, /, *given: Any, **said: Any) -> Any:
        if not self.run.off:
            try:
                section = self._find()
                if verb == "validation":
                    said.setdefault("using", self._using())
                return getattr(section, verb)(*given, **said) if section is not None else None
            except Exception as error:
                self.run.fault(error)
        return None
