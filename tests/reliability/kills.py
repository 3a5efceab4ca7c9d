"""Kill processes that record or index at random moments: no acknowledged event is lost, and the home answers.

This process must not have opened a store on the disk: the engine's threads do not survive a fork.
"""

from __future__ import annotations

import os
import random
import selectors
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from journal_events import read_events

import provml
from provml.journal.events import Measured
from provml.recording.context import CONTEXT, Limits
from provml.store import Store
from reliability import homes
from reliability.sandbox import attempt
from reliability.trainings import CAPTURES, Acknowledge, acknowledge_calls, describe, silence


def record_batches(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Record batches, which go through the buffer."""
    for epoch in run.training().epochs(10**9):
        for batch in epoch.batches(range(500)):
            batch.measured(loss=1.0)
            acknowledge(f"training/{epoch.index}/{batch.index}")


def record_epochs(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Record epochs, with a change of a hyperparameter and a text in each."""
    for epoch in run.training(learning_rate=0.1).epochs(10**9):
        epoch.measured(loss=1.0)
        acknowledge(f"training/{epoch.index}")
        run.text(f"text {epoch.index}", "notes.txt")


def record_annotations(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Record epochs and tags by turns."""
    for epoch in run.training().epochs(10**9):
        epoch.measured(loss=1.0)
        acknowledge(f"training/{epoch.index}")
        run.tag(f"tag {epoch.index % 5}")


PLAIN: dict[str, Callable[[provml.Run, Acknowledge], None]] = {
    "batches": record_batches,
    "epochs": record_epochs,
    "annotations": record_annotations,
}
"""Kinds that need no framework: the locations of their measures are acknowledged."""
KINDS = (*PLAIN, *CAPTURES)
MODES = ("", "map", "write", "append")


class Recorder:
    """A child that records until it is killed: after some acknowledgements, and a random moment more."""

    def __init__(self, home: Path, run: str, kind: str, mode: str, chance: random.Random) -> None:
        self.run, self.kind, self.mode = run, kind, mode
        self._wanted, self._delay = chance.randrange(1, 60), chance.random() * 0.01
        self._output = b""
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            _record(home, run, kind, mode, lambda text: _write_line(write_end, text))
        os.close(write_end)
        self.pipe = os.fdopen(read_end, "rb", buffering=0)

    def fileno(self) -> int:
        """Return the pipe of the acknowledgements, for a selector."""
        return self.pipe.fileno()

    def read(self) -> bool:
        """Read acknowledgements; return whether it is time for the kill, or the child has ended."""
        data = self.pipe.read(1 << 16)
        self._output += data or b""
        return not data or self._output.count(b"\n") >= self._wanted

    def kill(self) -> list[str]:
        """Kill the child, and return all acknowledgements."""
        time.sleep(self._delay)
        os.kill(self.pid, signal.SIGKILL)
        with self.pipe:
            self._output += self.pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert status == -signal.SIGKILL, f"the recorder of {self.kind} ended by itself with {status}"
        return [line.decode() for line in self._output.split(b"\n")[:-1]]


def _record(home: Path, run: str, kind: str, mode: str, acknowledge: Acknowledge) -> None:
    os.environ["PROVML_JOURNAL"] = mode
    CONTEXT.limits = Limits(sync_seconds=0.005)  # so that kills meet the thread that syncs and seals
    try:
        recorded = provml.record("x", home=home, run=run, strict=True, capture_environment=False)
        if kind in PLAIN:
            PLAIN[kind](recorded, acknowledge)
        else:
            silence()
            acknowledge_calls(recorded, acknowledge)
            CAPTURES[kind](recorded)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(9)


def _write_line(file: int, text: str) -> None:
    os.write(file, text.encode() + b"\n")


def kill_recorders(
    home: Path, count: int, kinds: tuple[str, ...] = KINDS, seed: int = 0, *, parallel: int = 3
) -> Iterator[str]:
    """Kill recorders in turns of kinds and modes, some at a time; yield what is wrong with each, mostly nothing."""
    chance = random.Random(seed)
    homes.record(home.with_name("first"), "first")  # imports here, once, what each child would import
    numbers = iter(range(count))
    with selectors.DefaultSelector() as selector:
        while True:
            for number in islice(numbers, parallel - len(selector.get_map())):
                kind, mode = kinds[number % len(kinds)], MODES[number // len(kinds) % len(MODES)]
                recorder = Recorder(home, f"r{number}", kind, mode, chance)
                selector.register(recorder, selectors.EVENT_READ)
            if not selector.get_map():
                break
            for key, _ in selector.select():
                recorder = key.fileobj  # type: ignore[assignment]
                if recorder.read():
                    selector.unregister(recorder)
                    yield _check(home, recorder, recorder.kill())
    outcome = attempt(lambda: _judge(home), seconds=3600)  # minutes of CPU time after 1,000 kills
    yield (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value


def _check(home: Path, recorder: Recorder, acknowledged: list[str]) -> str:
    """Return what is wrong with the journals of a killed recorder, or an empty text."""
    recorded = _events(home, recorder.run)
    name = f"{recorder.run}, {recorder.kind} {recorder.mode}"
    if recorder.kind in PLAIN:
        locations = [event.location for event in recorded if isinstance(event, Measured)]
        if locations[: len(acknowledged)] != acknowledged or len(locations) > len(acknowledged) + 1:
            return f"{name}: {len(acknowledged)} events were acknowledged, and {len(locations)} are there"
        return ""
    described = Counter(filter(None, map(describe, recorded)))
    if missing := Counter(acknowledged) - described:
        return f"{name}: {missing.total()} of {len(acknowledged)} acknowledged events are missing: {missing}"
    twice = [text for text, number in described.items() if text.startswith("batch ") and number > 1]
    return f"{name}: twice in the journal: {twice}" if twice else ""


def _events(home: Path, run: str) -> list[Any]:
    return [event for path in sorted((home / "runs" / run).glob("*.jsonl")) for event in read_events(path)]


def _judge(home: Path) -> str:
    """Return what is wrong with a home of killed runs."""
    with Store(home) as store:
        statuses = {run.status for run in store.runs()}
        problems = [f"{problem.file}: {problem.reason}" for problem in store.verify()]
        unsealed = store.check_seals().unsealed
    if statuses != {"KILLED"}:
        return f"statuses {statuses}"
    return "; ".join(problems) or (f"{len(unsealed)} journals without a seal" if unsealed else "")


def kill_indexers(folder: Path, count: int, seed: int = 0) -> Iterator[str]:
    """Kill processes that index, snapshot and pack a home; yield what is wrong with each, mostly nothing."""
    chance, home = random.Random(seed), folder / "home"
    built = attempt(lambda: homes.build(home) and None)
    assert not built.error, built.detail
    expected = attempt(lambda: _read(home)).value
    for number in range(count):
        if number % 3 == 0:
            shutil.rmtree(home / "index", ignore_errors=True)
        pid = os.fork()
        if pid == 0:
            try:
                with Store(home) as store:
                    store.sync()
                    store.snapshot()
                    store.unpack()
                    store.pack()
                    store.rebuild()
            finally:
                os._exit(0)
        time.sleep(chance.random() ** 2 * 0.25)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        outcome = attempt(lambda: _read(home))
        if outcome.error:
            yield f"{outcome.error} {outcome.detail}"
        else:
            yield homes.difference(outcome.value, expected)


def _read(home: Path) -> dict[str, Any]:
    with Store(home) as store:
        return {**homes.answers(store), "problems": [problem.reason for problem in store.verify()]}
