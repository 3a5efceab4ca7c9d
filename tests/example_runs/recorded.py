"""Example runs that are recorded by a real run, with a chosen clock and machine.

`recording` lets the examples of this package use `RecordedRun` instead of `JournalBuilder`, so that their events pass
through the run, the batch buffer and the journal. What a run cannot record is an error.
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

from example_runs import alexnet, seismic
from example_runs.journal import JournalBuilder
from provml.journal import batch_buffer, process
from provml.journal import events as event
from provml.recording import batches as batch
from provml.recording import environment
from provml.recording import run as recorder
from provml.recording.data import Data
from provml.recording.run import Epoch, Run, Stage, Step

Error = tuple[str, str] | None


class ExactTime(float):
    """A time without rounding: the difference of two is exactly the duration in the example."""

    exact: Fraction

    def __new__(cls, exact: Fraction) -> ExactTime:
        time = super().__new__(cls, exact)
        time.exact = exact
        return time

    def __sub__(self, other: float) -> float:
        return (
            float(self.exact - other.exact) if isinstance(other, ExactTime) else ExactTime(self.exact - Fraction(other))
        )

    def __rsub__(self, other: float) -> ExactTime:
        return ExactTime(Fraction(other) - self.exact)

    def __add__(self, other: float) -> float:
        return float(self.exact + (other.exact if isinstance(other, ExactTime) else Fraction(other)))


class Clock:
    """The clock of recorded runs: the time of the run that is being recorded."""

    def __init__(self) -> None:
        self.run: RecordedRun

    def time(self) -> float:
        """Return seconds since 1970, instead of `time.time`."""
        return self.run.now

    def perf_counter(self) -> float:
        """Return seconds since the start of the run, instead of `time.perf_counter`."""
        return ExactTime(self.run.passed)


class Source:
    """Data that is not recorded yet: a file and its description."""

    def __init__(self, path: str, name: str, kind: str, fields: dict[str, Any]) -> None:
        self.path = path
        self.name = name
        self.kind = kind
        self.fields = fields


class RecordedRun(JournalBuilder):
    """A builder that also records each event with a real run, and writes the journal of that run.

    The built events are for comparison.
    """

    def __init__(self, clock: Clock, folder: Path, run: str, name: str, started: float, **fields: Any) -> None:
        super().__init__(run, name, started, **fields)
        if {"writer", "main"} & fields.keys():
            raise ValueError("a run names its journal itself")
        self.passed = Fraction(0)
        self._clock, self._folder = clock, folder
        self._recorder: Run | None = None
        self._sources: dict[str, Source] = {}
        self._recorded: dict[str, Data] = {}
        self._parts: dict[str, Any] = {}
        self._since: dict[str, Fraction] = {}
        self._validations: dict[str, tuple[list[Data], dict[str, Any]]] = {}
        """Data and parameters of validations during a training."""
        self._loops: dict[str, Iterator[Epoch]] = {}
        self._batches: tuple[str, list[None], Iterator[Any]] | None = None
        """The section whose batches are being iterated, its next batches, and the iterator."""
        self._has_ended = False

    # ---- the recorder

    def _record(self, around: event.Environment | None = None) -> Run:
        """Return the run, started at the first event on the machine of the example."""
        self._clock.run = self
        if self._recorder is None:
            first = self.events[0]
            assert isinstance(first, event.Header)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(process, "host", lambda: first.host)
                if around is not None:
                    patch.setattr(environment, "machine", lambda system: around.machine)
                    patch.setattr(environment, "process_info", lambda git_status, system: around.process)
                    patch.setattr(environment, "software", lambda: around.software)
                self._recorder = Run(
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
        """Return the step, stage or section at a location, after ending the batch before it."""
        self._end_batches()
        return self._parts[at]

    def _end_batches(self) -> Run:
        """End a loop over batches: its last batch ended when the clock was last moved."""
        run = self._record()
        if self._batches is not None:
            _, _, loop = self._batches
            self._batches = None
            assert next(loop, None) is None
        return run

    def environment(self, machine: dict[str, Any], around: dict[str, Any], software: dict[str, str]) -> None:
        """Add the environment, which a run records at its start."""
        super().environment(machine, around, software)
        assert self._recorder is None, "a run records its environment at its start"
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
        """Add a file with some content; it is recorded when it is first used or produced."""
        ref = super().data(name, content, kind=kind, about=about, path=path, **characteristics)
        file = Path(path or f"data/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content or name)
        fields = {"about": about, **characteristics} if about else characteristics
        self._sources.setdefault(ref, Source(str(file), name, kind, fields))
        return ref

    def _data(self, refs: Iterable[str], role: str = "") -> list[Data]:
        """Return recorded data for references, recording new ones."""
        run = self._end_batches()
        for ref in refs:
            if ref not in self._recorded:
                source = self._sources[ref]
                assert source.kind == "dataset", "a model is recorded when it is produced"
                self._recorded[ref] = run.dataset(source.path, name=source.name, role=role, **source.fields)
                assert self._recorded[ref].ref == ref
            assert not role or self._recorded[ref].role == role
        return [self._recorded[ref] for ref in refs]

    def used(self, at: str, ref: str, role: str) -> None:
        """A stage or a step used data in a role."""
        super().used(at, ref, role)
        (data,) = self._data([ref])
        self._part(at).used(data, role=role)

    def produced(self, at: str, ref: str, **fields: Any) -> str:
        """A stage, a step or a section produced data."""
        super().produced(at, ref, **fields)
        source = self._sources[ref]
        assert source.kind == "model" or not fields, "values of a dataset belong to the dataset"
        output = self._part(at).produced(source.path, name=source.name, kind=source.kind, **source.fields, **fields)
        assert output.ref == ref
        self._recorded[ref] = output
        return ref

    # ---- steps, stages and sections

    def begin(
        self, kind: str, name: str = "", *, using: list[str] | None = None, role: str = "", by: str = "", **fields: Any
    ) -> str:
        """Begin a step or a stage; a validation during a training is started by its first epoch."""
        at = super().begin(kind, name, using=using, role=role, by=by, **fields)
        run, data = self._end_batches(), self._data(using or [], role)
        self._since[at] = self.passed
        if kind == "validation" and any(isinstance(part, Stage) and part.kind == "training" for part in self._open()):
            self._validations[at] = data, fields
            return at
        part: Step
        if by and kind in event.LEARNING_KINDS:  # run.training, validation and evaluation do not take who does it
            part = Stage(run, kind, name or kind, data, fields, by=by)
        elif kind in event.LEARNING_KINDS:
            part = getattr(run, kind)(name=name or kind, using=data, **fields)
        else:
            part = getattr(run, kind)(name or kind, using=data, by=by, **fields)
        assert part._location == at
        self._parts[at] = part
        return at

    def _open(self) -> list[Any]:
        """Return the sections that have not ended."""
        ended = {item.location for item in self.events if isinstance(item, event.Done)}
        return [part for at, part in self._parts.items() if at not in ended]

    def add_parameters(self, at: str, **fields: Any) -> None:
        """More parameters of a step or a stage."""
        super().add_parameters(at, **fields)
        self._part(at).parameters(**fields)

    def end(self, at: str, seconds: float | None = None, error: Error = None) -> None:
        """End a section, and the validation of a training; with an error, as an exception in a `with` block."""
        self._end_batches()
        super().end(at, seconds, error)
        if seconds is not None:
            self.passed = self._since[at] + Fraction(seconds)
        loop = self._loops.pop(at, None)
        if loop is not None and error is None:
            assert next(loop, None) is None
        elif at not in self._validations:
            leave(self._parts[at], error)

    def section(self, stage: str, index: int, *, during: str = "", kind: str = "epoch") -> str:
        """Begin an epoch by the loop over a stage's epochs, or a validation by its epoch."""
        self._end_batches()
        at = super().section(stage, index, during=during, kind=kind)
        self._since[at] = self.passed
        if stage in self._validations:
            using, fields = self._validations[stage]
            part = self._parts[during].validation(using=using, **fields)
        else:
            assert not during, "only the validation of a training has sections during its epochs"
            self._loops[at] = self._parts[stage].epochs([None], kind=kind, first=index)
            part = next(self._loops[at])
        assert part._location == at
        self._parts[at] = part
        return at

    def batch(self, at: str, index: int, seconds: float, **measures: Any) -> None:
        """Add a batch: it ends when the next starts, or with any other event."""
        if self._batches is None or self._batches[0] != at:
            self._end_batches()
            coming: list[None] = []
            self._batches = at, coming, self._parts[at].batches(iter_while(coming), first=index)
        _, coming, loop = self._batches
        self._clock.run = self
        coming.append(None)
        now = next(loop)
        assert now._location == f"{at}/{index}"
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
        """Change hyperparameters, in an epoch or in the next one."""
        super().adapted(at, technique=technique, why=why, by=by, parameters=parameters, **changed)
        stage, _, index = at.partition("/")
        during = self._parts.get(at) or int(index)
        fields = {"technique": technique, "reason": why, "by": by, "parameters": parameters}
        self._part(stage).adapted(during=during, **fields, **changed)

    def layers(self, stage: str, layers: list[dict[str, Any]]) -> None:
        """The layers of the network."""
        super().layers(stage, layers)
        self._part(stage).layers(layers)

    def finish(self, error: Error = None) -> None:
        """End the run, with an error as an exception in its `with` block."""
        super().finish(error)
        leave(self._end_batches(), error)
        self._has_ended = True

    # ---- the file

    def write(self, home: Path, *, silent_for: float = 0.0) -> Path:
        """Copy the journal so far to another home, as a backup of an active run does."""
        run = self._end_batches()
        assert run.capture_errors == 0
        unused = self._sources.keys() - self._recorded.keys()
        assert not unused, f"nothing used or produced {unused}"
        shutil.copytree(run.home / "runs" / self.run, home / "runs" / self.run, dirs_exist_ok=True)
        path = home / "runs" / self.run / f"{event.MAIN_WRITER}.jsonl"
        then = path.stat().st_mtime - silent_for
        os.utime(path, (then, then))
        return path

    def close(self) -> None:
        """Finish a run that does not end in the example, after its journal was copied."""
        if self._recorder is not None and not self._has_ended:
            self._end_batches().finish()
        self._loops.clear()


def leave(section: Any, error: Error) -> None:
    """Leave a step, a section or a run as a `with` block does: at its end, or with an exception."""
    with contextlib.ExitStack() as stack:
        raised = getattr(builtins, error[0])(error[1]) if error else None
        if raised is not None:
            stack.enter_context(contextlib.suppress(type(raised)))
        stack.enter_context(section)
        if raised is not None:
            raise raised


def iter_while(coming: list[None]) -> Iterator[None]:
    """Yield the items of a list that is filled meanwhile."""
    while coming:
        yield coming.pop()


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[list[RecordedRun]]:
    """Let the examples record real runs in a folder; yield the list of these runs."""
    clock, runs = Clock(), list[RecordedRun]()

    def build(*args: Any, **settings: Any) -> RecordedRun:
        runs.append(RecordedRun(clock, folder, *args, **settings))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(recorder, "time", clock)
        patch.setattr(Run, "_time", staticmethod(clock.time))
        patch.setattr(Run, "_ticks", staticmethod(clock.perf_counter))
        for module in (batch, batch_buffer):
            patch.setattr(module, "time", clock.time)
            patch.setattr(module, "perf_counter", clock.perf_counter)
        patch.setattr(recorder, "seeds", dict)  # the examples have none, and no changed files
        patch.setattr(environment, "code", dict)
        for example in (alexnet, seismic):
            patch.setattr(example, "JournalBuilder", build)
        try:
            yield runs
        finally:
            for run in runs:
                run.close()
