"""Kill processes that record or index at random moments: no acknowledged event is lost, and the home answers.

This process must not have opened a store on the disk: the engine's threads do not survive a fork.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from journal_events import read_events

import provml
from provml.journal.events import Measured
from provml.recording.context import CONTEXT, Limits
from provml.store import Store
from reliability import homes
from reliability.sandbox import attempt

Acknowledge = Callable[[str], None]
"""Called with the location of an event after the call that recorded it has returned."""


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


def record_torch(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Train a PyTorch model with its capture."""
    import torch

    provml.autolog()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        acknowledge("")


def record_sklearn(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Fit scikit-learn models with autolog."""
    from sklearn.linear_model import SGDClassifier

    provml.autolog()
    while True:
        SGDClassifier(max_iter=5, tol=None).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        acknowledge("")


def import_frameworks() -> None:
    """Import what the children need, before they are forked."""
    import sklearn.linear_model  # noqa: F401
    import torch

    torch.set_num_threads(1)


PLAIN = ("batches", "epochs", "annotations")
"""Kinds that need no framework."""
KINDS = {
    "batches": record_batches,
    "epochs": record_epochs,
    "annotations": record_annotations,
    "torch": record_torch,
    "sklearn": record_sklearn,
}
MODES = ("", "map", "write", "append")


def kill_recorder(home: Path, run: str, kind: str, mode: str, chance: random.Random) -> list[str]:
    """Record in a child, kill it after some acknowledgements, and return all of them."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.environ["PROVML_JOURNAL"] = mode
        CONTEXT.limits = Limits(sync_seconds=0.005)  # so that kills meet the thread that syncs and seals
        try:
            recorded = provml.record("x", home=home, run=run, strict=True, capture_environment=False)
            KINDS[kind](recorded, lambda location: _write_line(write_end, location))
        finally:
            os._exit(9)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        lines = [pipe.readline() for _ in range(chance.randrange(1, 60))]
        time.sleep(chance.random() * 0.01)
        os.kill(pid, signal.SIGKILL)
        lines += pipe.readlines()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == -signal.SIGKILL, f"the {kind} recorder ended by itself with {status}"
    return [line.decode().strip() for line in lines if line.endswith(b"\n")]


def _write_line(file: int, text: str) -> None:
    os.write(file, text.encode() + b"\n")


def kill_recorders(home: Path, count: int, kinds: tuple[str, ...] = tuple(KINDS), seed: int = 0) -> Iterator[str]:
    """Kill recorders in turns of kinds and modes; yield what is wrong with each, mostly nothing."""
    chance = random.Random(seed)
    homes.record(home.with_name("first"), "first")  # imports here, once, what each child would import
    for number in range(count):
        kind, mode, run = kinds[number % len(kinds)], MODES[number // len(kinds) % len(MODES)], f"r{number}"
        acknowledged = kill_recorder(home, run, kind, mode, chance)
        locations = [event.location for event in _events(home, run) if isinstance(event, Measured)]
        whole = [location for location in acknowledged if location]
        if locations[: len(whole)] != whole or (whole and len(locations) > len(whole) + 1):
            yield f"{kind} {mode}: {len(whole)} events were acknowledged, and {len(locations)} are there"
        else:
            yield ""
    outcome = attempt(lambda: _judge(home), seconds=600)
    yield (outcome.error and f"{outcome.error} {outcome.detail}") or outcome.value


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
