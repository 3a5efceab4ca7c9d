"""A run told by the verbs of a `Tale` and recorded by the real recorder, with a clock and a machine of our choosing.

`recording` has the worlds of this package told this way instead of by tales. What is then asked has passed through the
recorder: its verbs, the slate, the journal. What a recorder cannot tell is refused, never written in another way.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from provml import batch, environment, event, process, recorder, sections, slate
from provml.content import Data
from provml.recorder import Epoch, Recorder, Stage, Step
from world import alexnet, seismic
from world.journal import Tale

Error = tuple[str, str] | None


class Moment(float):
    """A reading of a clock that loses no digits: what lies between two of them is just what the tale says."""

    exact: Fraction

    def __new__(cls, exact: Fraction) -> Moment:
        made = super().__new__(cls, exact)
        made.exact = exact
        return made

    def __sub__(self, other: float) -> float:
        return float(self.exact - other.exact) if isinstance(other, Moment) else Moment(self.exact - Fraction(other))

    def __rsub__(self, other: float) -> Moment:
        return Moment(Fraction(other) - self.exact)

    def __add__(self, other: float) -> float:
        return float(self.exact + (other.exact if isinstance(other, Moment) else Fraction(other)))


class Clock:
    """What the recorder takes for the time: that of the run whose verb is said."""

    def __init__(self) -> None:
        self.run: Recorded

    def time(self) -> float:
        """Seconds since 1970, in the place of `time.time`."""
        return self.run.now

    def perf_counter(self) -> float:
        """Seconds since the run began, in the place of `time.perf_counter`."""
        return Moment(self.run.passed)


class Source:
    """Data before the recorder knows of it: a file, and what is said of it."""

    def __init__(self, path: str, name: str, kind: str, said: dict[str, Any]) -> None:
        self.path = path
        self.name = name
        self.kind = kind
        self.said = said


class Recorded(Tale):
    """One run: each verb is said to a recorder too, and it is the recorder's journal that is written.

    The events of the tale are kept beside it, to be compared.
    """

    def __init__(self, clock: Clock, folder: Path, run: str, name: str, began: float, **said: Any) -> None:
        super().__init__(run, name, began, **said)
        if {"writer", "main"} & said.keys():
            raise ValueError("a recorder gives its journal a name of its own")
        self.passed = Fraction(0)
        self._clock, self._folder = clock, folder
        self._recorder: Recorder | None = None
        self._sources: dict[str, Source] = {}
        self._known: dict[str, Data] = {}
        self._parts: dict[str, Any] = {}
        self._since: dict[str, Fraction] = {}
        self._twins: dict[str, tuple[list[Data], dict[str, Any]]] = {}
        """Of validations during a training, what each epoch is to say of them."""
        self._loops: dict[str, Iterator[Epoch]] = {}
        self._batches: tuple[str, list[None], Iterator[Any]] | None = None
        """The section whose batches are gone through now, which come next, and the loop over them."""
        self._has_ended = False

    # ---- the recorder

    def _record(self, around: event.Environment | None = None) -> Recorder:
        """The recorder, begun at the first verb, on the machine of the tale."""
        self._clock.run = self
        if self._recorder is None:
            first = self.events[0]
            assert isinstance(first, event.Run)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(process, "host", lambda: first.host)
                if around is not None:
                    patch.setattr(environment, "machine", lambda: around.machine)
                    patch.setattr(environment, "around", lambda git_status: around.around)
                    patch.setattr(environment, "software", lambda: around.software)
                self._recorder = Recorder(
                    first.name,
                    model=first.model,
                    run=first.run,
                    by=first.by,
                    task=first.task,
                    home=self._folder / "home",
                    strict=True,
                    capture_environment=around is not None,
                )
        return self._recorder

    def _part(self, at: str) -> Any:
        """The step, the stage or the section at a place, when the batch before it has ended."""
        self._settle()
        return self._parts[at]

    def _settle(self) -> Recorder:
        """End a loop over batches: its last batch ended when the clock was last moved."""
        run = self._record()
        if self._batches is not None:
            _, _, loop = self._batches
            self._batches = None
            assert next(loop, None) is None
        return run

    def environment(self, machine: dict[str, Any], around: dict[str, Any], software: dict[str, str]) -> None:
        """Where it ran: what the recorder finds out when it begins."""
        super().environment(machine, around, software)
        assert self._recorder is None, "a recorder tells of its environment when it begins"
        self._record(event.Environment(machine, around, software))

    # ---- data

    def data(
        self,
        name: str,
        content: str = "",
        *,
        kind: str = "dataset",
        about: str = "",
        path: str = "",
        **characteristics: Any,
    ) -> str:
        """A file with this content; it is made known to the recorder by who first uses or produces it."""
        ref = super().data(name, content, kind=kind, about=about, path=path, **characteristics)
        file = Path(path or f"data/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content or name)
        said = {"about": about, **characteristics} if about else characteristics
        self._sources.setdefault(ref, Source(str(file), name, kind, said))
        return ref

    def _data(self, refs: Iterable[str], role: str = "") -> list[Data]:
        """Data that is used; as a user would, what is known already is given again as it was."""
        run = self._settle()
        for ref in refs:
            if ref not in self._known:
                source = self._sources[ref]
                assert source.kind == "dataset", "a model is known by who produced it"
                self._known[ref] = run.dataset(source.path, name=source.name, role=role, **source.said)
                assert self._known[ref].ref == ref
            assert not role or self._known[ref].role == role
        return [self._known[ref] for ref in refs]

    def used(self, at: str, ref: str, role: str) -> None:
        """A stage or a step used data in a role."""
        super().used(at, ref, role)
        (data,) = self._data([ref])
        self._part(at).used(data, role=role)

    def produced(self, at: str, ref: str, **said: Any) -> str:
        """A stage, a step or a section produced data."""
        super().produced(at, ref, **said)
        source = self._sources[ref]
        assert source.kind == "model" or not said, "what is said of data is said where it is made known"
        made = self._part(at).produced(source.path, name=source.name, kind=source.kind, **source.said, **said)
        assert made.ref == ref
        self._known[ref] = made
        return ref

    # ---- steps, stages and sections

    def begin(
        self, kind: str, name: str = "", *, using: list[str] | None = None, role: str = "", by: str = "", **said: Any
    ) -> str:
        """Begin a step or a stage; a validation during a training is the twin of it, which its first epoch begins."""
        at = super().begin(kind, name, using=using, role=role, by=by, **said)
        run, data = self._settle(), self._data(using or [], role)
        self._since[at] = self.passed
        if kind == "validation" and any(isinstance(one, Stage) and one.kind == "training" for one in self._open()):
            self._twins[at] = data, said
            return at
        part: Step
        if by and kind in event.LEARNING:  # run.training, validation and evaluation do not take who does it
            part = Stage(run, kind, name or kind, data, said, by)
        elif kind in event.LEARNING:
            part = getattr(run, kind)(name=name or kind, using=data, **said)
        else:
            part = getattr(run, kind)(name or kind, using=data, by=by, **said)
        assert part.at == at
        self._parts[at] = part
        return at

    def _open(self) -> list[Any]:
        """What was begun and has not ended."""
        ended = {what.at for what in self.events if isinstance(what, event.Done)}
        return [part for at, part in self._parts.items() if at not in ended]

    def tell_parameters(self, at: str, **said: Any) -> None:
        """More parameters of a step or a stage."""
        super().tell_parameters(at, **said)
        self._part(at).parameters(**said)

    def end(self, at: str, seconds: float | None = None, error: Error = None) -> None:
        """End it, and the twin of a training with it; by an error as a `with` is left by an exception."""
        self._settle()
        super().end(at, seconds, error)
        if seconds is not None:
            self.passed = self._since[at] + Fraction(seconds)
        loop = self._loops.pop(at, None)
        if loop is not None and error is None:
            assert next(loop, None) is None
        elif at not in self._twins:
            leave(self._parts[at], error)

    def section(self, stage: str, index: int, *, during: str = "", kind: str = "epoch") -> str:
        """Begin an epoch by the loop over a stage's epochs, or a validation by its epoch."""
        self._settle()
        at = super().section(stage, index, during=during, kind=kind)
        self._since[at] = self.passed
        if stage in self._twins:
            using, said = self._twins[stage]
            part = self._parts[during].validation(using=using, **said)
        else:
            assert not during, "it is the twin of a training that has sections during its epochs"
            self._loops[at] = self._parts[stage].epochs([None], kind=kind, first=index)
            part = next(self._loops[at])
        assert part.at == at
        self._parts[at] = part
        return at

    def batch(self, at: str, index: int, seconds: float, **measures: Any) -> None:
        """A batch of the loop over the batches of a section: it ends when the next begins, or anything else is said."""
        if self._batches is None or self._batches[0] != at:
            self._settle()
            coming: list[None] = []
            self._batches = at, coming, self._parts[at].batches(iter_while(coming), first=index)
        _, coming, loop = self._batches
        self._clock.run = self
        coming.append(None)
        now = next(loop)
        assert now.at == f"{at}/{index}"
        if measures:
            now.measured(**measures)
        super().batch(at, index, seconds, **measures)
        self.passed += Fraction(seconds)

    def measured(self, at: str, **measures: Any) -> None:
        """Measures of a stage or a section."""
        super().measured(at, **measures)
        self._part(at).measured(**measures)

    def adapted(
        self, at: str, *, technique: str = "", why: str = "", by: str = "", parameters: Any = None, **changed: Any
    ) -> None:
        """Hyperparameters changed, in an epoch or in one that is about to begin."""
        super().adapted(at, technique=technique, why=why, by=by, parameters=parameters, **changed)
        stage, _, index = at.partition("/")
        during = self._parts.get(at) or int(index)
        said = {"technique": technique, "why": why, "by": by, "parameters": parameters}
        self._part(stage).adapted(during=during, **said, **changed)

    def layers(self, stage: str, layers: list[dict[str, Any]]) -> None:
        """The layers of the network."""
        super().layers(stage, layers)
        self._part(stage).layers(layers)

    def finish(self, error: Error = None) -> None:
        """The end of the run, or of the `with` around it by an exception."""
        super().finish(error)
        leave(self._settle(), error)
        self._has_ended = True

    # ---- the file

    def write(self, home: Path, *, silent_for: float = 0.0) -> Path:
        """Copy what the recorder wrote so far to another home, as a backup does while the run may still go on."""
        run = self._settle()
        assert run.faults == 0
        untold = self._sources.keys() - self._known.keys()
        assert not untold, f"nothing used or produced {untold}"
        shutil.copytree(run.home / "runs" / self.run, home / "runs" / self.run, dirs_exist_ok=True)
        path = home / "runs" / self.run / f"{event.MAIN}.jsonl"
        then = path.stat().st_mtime - silent_for
        os.utime(path, (then, then))
        return path

    def close(self) -> None:
        """Let go of a run that is never to end: what ends it here was copied to nowhere."""
        if self._recorder is not None and not self._has_ended:
            self._settle().finish()
        self._loops.clear()


def leave(one: Any, error: Error) -> None:
    """Leave a step, a section or a run as a `with` does: at its end, or by an exception."""
    with contextlib.ExitStack() as left:
        raised = getattr(builtins, error[0])(error[1]) if error else None
        if raised is not None:
            left.enter_context(contextlib.suppress(type(raised)))
        left.enter_context(one)
        if raised is not None:
            raise raised


def iter_while(coming: list[None]) -> Iterator[None]:
    """What a loader gives, as long as something comes."""
    while coming:
        yield coming.pop()


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[list[Recorded]]:
    """Have the worlds told to recorders while they work in a folder; the runs that were."""
    clock, runs = Clock(), list[Recorded]()

    def tale(*said: Any, **more: Any) -> Recorded:
        runs.append(Recorded(clock, folder, *said, **more))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(recorder, "time", clock)
        for module in (sections, batch, slate):
            patch.setattr(module, "time", clock.time)
            patch.setattr(module, "perf_counter", clock.perf_counter)
        patch.setattr(recorder, "seeds", dict)  # the tales tell of none, and of no changed files
        patch.setattr(environment, "code", dict)
        for world in (alexnet, seismic):
            patch.setattr(world, "Tale", tale)
        try:
            yield runs
        finally:
            for run in runs:
                run.close()
