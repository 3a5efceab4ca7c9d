"""Energy: measure what recording energy adds to a training.

    python tests/bench/energy.py [--seconds 20] [--epochs 20] [--mode codecarbon]

Two runs of the same loop, which computes in Python for a number of seconds, take turns epoch by epoch: one records
energy, the other does not. Printed are the time of `record` with and without energy (the first start imports
CodeCarbon), the time of a stage's begin and end, and the CPU time of the whole process per epoch, with the threads of
the meter. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import provml


def compute(loops: int) -> None:
    """Keep the processor busy."""
    total = 0
    for number in range(loops):
        total += number * number


def calibrate(seconds: float) -> int:
    """Return the number of loops that take a time."""
    started = time.process_time()
    compute(200_000)
    return max(1, int(200_000 * seconds / (time.process_time() - started)))


def measure_epochs(home: Path, epochs: int, loops: int, mode: str) -> tuple[list[float], float, float]:
    """Return the CPU seconds of each epoch, the seconds of `record`, and those of a stage's begin and end."""
    started = time.perf_counter()
    run = provml.record("energy", home=home, energy=mode or False, strict=True)
    start_seconds = time.perf_counter() - started
    started = time.perf_counter()
    run.validation().done()
    stage_seconds = time.perf_counter() - started
    times = []
    with run, run.training() as training:
        for epoch in training.epochs(epochs):
            before = time.process_time()
            compute(loops)
            epoch.measured(loss=1.0)
            times.append(time.process_time() - before)
    return times, start_seconds, stage_seconds


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of all epochs together")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--mode", default="codecarbon")
    options = parser.parse_args()
    epochs = max(1, options.epochs // options.rounds)
    loops = calibrate(options.seconds / (2 * options.rounds * epochs))
    times: dict[str, list[float]] = {"": [], options.mode: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for mode, total in times.items():
                seconds, start, stage = measure_epochs(Path(folder), epochs, loops, mode)
                total += seconds
                label = f"energy by {mode}" if mode else "without energy"
                print(f"{label:22} record {start * 1000:8.1f} ms   begin and end of a stage {stage * 1000:6.2f} ms")
    plain, metered = (statistics.median(total) for total in times.values())
    print(f"CPU time of an epoch: {plain * 1000:.1f} ms without, {metered * 1000:.1f} ms with energy")
    print(f"added: {100 * (metered / plain - 1):+.2f} % of CPU time (medians)")


if __name__ == "__main__":
    main()
