"""Much of everything: runs, batches, and a long `provml log --follow`; each must be counted in full."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import provml
from provml.store import Store
from reliability.sandbox import attempt

BATCHES_PER_EPOCH = 10_000


def record_runs(home: Path, count: int) -> str:
    """Record short runs, index them, and return what is wrong, or an empty text."""
    for number in range(count):
        with provml.record("sweep", home=home, run=f"r{number:06}", capture_environment=False) as run:
            run.training(learning_rate=number / count).measured(loss=1.0)
    outcome = attempt(lambda: _count_runs(home), seconds=3600)
    expected = (count, 0, 0)
    return outcome.detail or ("" if outcome.value == expected else f"runs, problems, unsealed: {outcome.value}")


def _count_runs(home: Path) -> tuple[int, int, int]:
    with Store(home) as store:
        return len(store.runs()), len(store.verify()), len(store.check_seals().unsealed)


def record_batches(home: Path, count: int) -> str:
    """Record one run with many batches, index it, and return what is wrong, or an empty text."""
    size = min(count, BATCHES_PER_EPOCH)
    with provml.record("long", home=home, run="long", capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(count // size):
            for batch in epoch.batches(range(size)):
                batch.measured(loss=1.0)
    if run.capture_errors:
        return f"{run.capture_errors} capture errors"
    outcome = attempt(lambda: _count_batches(home), seconds=3600, memory_bytes=64 << 30)
    return outcome.detail or ("" if outcome.value == count // size * size else f"{outcome.value} batches")


def _count_batches(home: Path) -> int:
    from provml.journal.events import BatchEnd
    from provml.journal.reader import JournalReader

    reader = JournalReader(home / "runs" / "long" / "main.jsonl")
    return sum(isinstance(event, BatchEnd) for record in reader.read(is_over=True) for event in record.events)


def follow(home: Path, count: int) -> str:
    """Follow a run with `provml log --follow` while epochs are recorded; return what is wrong, or an empty text."""
    command = [sys.executable, "-m", "provml", "log", "long", "--follow", "--home", str(home)]
    home.parent.mkdir(parents=True, exist_ok=True)
    output = home.parent / "followed.txt"
    with (
        output.open("w", encoding="utf-8") as file,
        provml.record("long", home=home, run="long", capture_environment=False) as run,
    ):
        process = subprocess.Popen(command, stdout=file, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        with run.training() as training:
            for epoch in training.epochs(count):
                epoch.measured(loss=float(epoch.index))
                if epoch.index % 100 == 0:
                    time.sleep(0.01)
    try:
        code = process.wait(timeout=60 + count / 100)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "it did not end with the run"
    text = output.read_text(encoding="utf-8")
    missing = [index for index in range(1, count + 1) if f"training epoch {index} " not in text]
    return f"exit code {code}" if code else f"{len(missing)} epochs are missing" if missing else ""
