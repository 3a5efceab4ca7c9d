"""Let system calls fail while a training is recorded or a home is read, and the clock jump; see faults.c.

Recording must not change the training, and nothing may be lost in silence: an event that is not in the journal is
counted. Reading must answer as without the fault, or end with a message; afterwards the home answers as before.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from journal_events import read_events

from provml.journal.events import BatchEnd, CaptureErrors, Measured
from provml.store import Store
from reliability import homes
from reliability.sandbox import attempt

SOURCE = Path(__file__).with_name("faults.c")
EPOCHS, BATCHES = 3, 400
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
CALLS = ("write", "fallocate", "truncate", "sync", "map", "open", "rename")
SHIFTS = (-3_600, 86_400 * 400, -86_400 * 400, -1, 3_600)
ZONE = "Europe/Berlin"
SUMMER_TIME = (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC))
"""When summer time begins and ends there."""

TRAINING = f"""
import sys, provml
value = 0.0
with provml.record("x", home=sys.argv[1], run="r", capture_environment=False) as run:
    with run.training(lr=0.1) as training:
        for epoch in training.epochs({EPOCHS}):
            for batch in epoch.batches(range({BATCHES})):
                value = value * 0.99 + batch.index
                batch.measured(loss=value)
            epoch.measured(loss=value)
    run.text("notes", "notes.txt")
print(repr(value), run.capture_errors)
"""


class Fault(NamedTuple):
    """A call that fails: its kind, the error, how many succeed before, and how many fail."""

    call: str
    number: int
    after: int
    count: int

    def variables(self, folder: Path) -> dict[str, str]:
        """Return the environment variables for faults.c."""
        numbers = {"ERRNO": self.number, "AFTER": self.after, "COUNT": self.count}
        return {"FAULT_FOLDER": str(folder), "FAULT_CALL": self.call} | {
            f"FAULT_{name}": str(value) for name, value in numbers.items()
        }


@cache
def library(folder: Path) -> Path:
    """Compile faults.c, once."""
    target = folder / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(target), str(SOURCE), "-ldl"], check=True)
    return target


def choose(count: int, seed: int = 0) -> list[Fault]:
    """Return faults of all calls and errors."""
    chance = random.Random(seed)
    return [
        Fault(
            CALLS[number % len(CALLS)],
            chance.choice(ERRORS),
            int(chance.random() ** 3 * 20),
            chance.choice([1, 3, 1_000_000]),
        )
        for number in range(count)
    ]


def _run(arguments: list[str], folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables, "LD_PRELOAD": str(library(folder))}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False
    )


def check_recording(fault: Fault, folder: Path, mode: str = "map") -> str:
    """Record a training under a fault; return what is wrong, or an empty text."""
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    process = _run(["-c", TRAINING, str(home)], folder, {**fault.variables(home), "PROVML_JOURNAL": mode})
    if process.returncode:
        return f"the training ended with {process.returncode}: {process.stderr[-2000:]}"
    value, errors = process.stdout.split()
    if value != _expected_value():
        return f"the training computed {value}"
    can_count = not (fault.call == "write" and fault.count > EPOCHS * BATCHES)  # else the journal takes nothing more
    return _account(home, int(errors), can_count=can_count)


def _expected_value() -> str:
    value = 0.0
    for _ in range(EPOCHS):
        for index in range(1, BATCHES + 1):
            value = value * 0.99 + index
    return repr(value)


def _account(home: Path, errors: int, *, can_count: bool = True) -> str:
    """Return what is wrong with the counts of a journal: an event that is missing has to be counted."""
    path = home / "runs" / "r" / "main.jsonl"
    events = read_events(path) if path.is_file() else []
    batches = sum(isinstance(event, BatchEnd) for event in events)
    epochs = sum(isinstance(event, Measured) for event in events) - batches
    counted = [event for event in events if isinstance(event, CaptureErrors)]
    lost = counted[-1].lost_batches if counted else 0
    missing = EPOCHS * BATCHES - batches
    if (missing or epochs < EPOCHS) and not errors:
        return f"{missing} batches are missing, and no error was counted"
    if can_count and events and missing and lost != missing:
        return f"{missing} batches are missing, and the journal counts {lost}"
    if not events or not can_count:
        return ""
    outcome = attempt(lambda: _statuses(home))
    return outcome.detail or outcome.error or ("" if outcome.value == ["FINISHED"] else f"status {outcome.value}")


def _statuses(home: Path) -> list[str]:
    with Store(home) as store:
        return [run.status for run in store.runs()]


def check_reading(fault: Fault, folder: Path, intact: Path, expected: dict[str, Any]) -> str:
    """Read a home under a fault; return what is wrong, or an empty text."""
    home = folder / "read"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(intact, home)
    shutil.rmtree(home / "index")
    process = _run(["-m", "provml", "runs", "--home", str(home)], folder, fault.variables(home / "index"))
    if "Traceback" in process.stderr or process.returncode < 0:
        return f"exit code {process.returncode}: {process.stderr[-2000:]}"
    if process.returncode == 0 and homes.GOOD not in process.stdout:
        return f"no answer: {process.stdout}"
    outcome = attempt(lambda: _answers(home))
    if outcome.error:
        return f"afterwards: {outcome.detail or outcome.error}"
    return "" if outcome.value == expected else "answers differ afterwards"


def _answers(home: Path) -> dict[str, Any]:
    with Store(home) as store:
        return homes.answers(store)


def shifts() -> list[int]:
    """Return jumps of the clock in seconds; the last two lead to the second before summer time begins and ends."""
    return [*SHIFTS, *(int(moment.timestamp() - time.time()) - 1 for moment in SUMMER_TIME)]


def check_clock(shift: int, after: int, folder: Path) -> str:
    """Record a training while the clock jumps; return what is wrong, or an empty text."""
    home = folder / "clock"
    shutil.rmtree(home, ignore_errors=True)
    variables = {"FAULT_SHIFT": str(shift), "FAULT_AFTER": str(after), "TZ": ZONE}
    process = _run(["-c", TRAINING, str(home)], folder, variables)
    if process.returncode or process.stdout.split() != [_expected_value(), "0"]:
        return f"exit code {process.returncode}: {process.stdout} {process.stderr[-2000:]}"
    return _account(home, 0) or attempt(lambda: _durations(home)).value


def _durations(home: Path) -> str:
    with Store(home) as store:
        (run,) = store.runs()
        problems = store.verify()
    if run.seconds is None or run.seconds < 0:
        return f"the run took {run.seconds} s"
    return "; ".join(problem.reason for problem in problems)
