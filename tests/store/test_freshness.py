"""An event is visible to a question in another process within two seconds, in a home of many runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from provml.recording.run import Run
from provml.store import Store
from provml.store.index import IndexLimits

RUNS = 300
MAX_SECONDS = 2.0
ASKS = """
import sys, time
import provml

with provml.open_store(sys.argv[1]) as store:
    for epoch in map(int, sys.stdin):
        while [row[1] for row in store.ask("accuracy-so-far", model="live")] != list(range(1, epoch + 1)):
            pass
        print(time.time(), flush=True)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of many runs that have ended, most of them packed."""
    home = tmp_path_factory.mktemp("many") / "home"
    for number in range(RUNS):
        with (
            Run("sweep", home=home, model=f"net {number % 5}", run=f"r{number:03}", capture_environment=False) as run,
            run.training(learning_rate=0.1) as training,
            training.epoch(1) as epoch,
        ):
            epoch.measured(accuracy=0.5)
    with Store(home, limits=IndexLimits(seal_runs=100, pack_runs=100, pack_age_seconds=0)) as store:
        assert len(store.runs()) == RUNS
    assert len(list((home / "runs").iterdir())) < RUNS
    return home


@pytest.mark.parametrize("is_locked", [False, True], ids=["index free", "index of another process"])
def test_an_event_is_visible_to_another_process_within_two_seconds(home: Path, is_locked: bool):
    holder = Store(home) if is_locked else None
    command = [sys.executable, "-c", ASKS, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with Run("live", home=home, model="live", capture_environment=False) as run, run.training() as training:
            delays = []
            for epoch in training.epochs(4):
                epoch.measured(accuracy=0.1 * epoch.index)
                recorded = time.time()
                process.stdin.write(f"{epoch.index}\n")
                delays.append(float(process.stdout.readline()) - recorded)
        process.stdin.close()
    if holder is not None:
        holder.close()
    assert min(delays[1:]) < MAX_SECONDS, delays  # the first waits for the start of the process
