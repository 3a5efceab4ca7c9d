"""Try to break recording and reading: kills, faults, damage, changed inputs, clocks, and much of everything.

    python tests/reliability/soak.py [--scale 1.0 | --short] [--only kills,faults] [--seed 0] [--json]

Scale 1 is the long form: 1,000 kills of recorders, 200 of indexers, 200 faults, 2,000 damaged files and so on.
`--short` is the form of CI. The kills of the service are those of `tests/remote/test_shipping.py`, a hundred at a time.
The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from reliability import faults, fuzzing, homes, kills, mutations, trainings, volume  # noqa: E402
from reliability.sandbox import attempt  # noqa: E402

MIN_FRAMEWORK_KILLS = 17
"""Fewer kills are of recorders without frameworks, which take seconds to import."""
Results = Iterator[str]
"""What is wrong with each case; empty if nothing is."""


def run_mutations(folder: Path, count: int, seed: int) -> Results:
    """Damage files of a home."""
    for mutation, wrong in mutations.sweep(folder, count, seed):
        yield wrong and f"{mutation}: {wrong}"


def run_recorder_kills(folder: Path, count: int, seed: int) -> Results:
    """Kill recorders of all kinds."""
    kinds = tuple(kills.PLAIN)
    if count >= MIN_FRAMEWORK_KILLS:
        kinds = kills.KINDS
        trainings.import_frameworks()  # once, and not in each child
    yield from kills.kill_recorders(folder / "home", count, kinds, seed)


def run_indexer_kills(folder: Path, count: int, seed: int) -> Results:
    """Kill processes that index, snapshot and pack."""
    yield from kills.kill_indexers(folder, count, seed)


def run_service_kills(folder: Path, count: int, seed: int) -> Results:
    """Kill the service while runs are shipped to it; the test does so a hundred times."""
    test = f"{TESTS}/remote/test_shipping.py::test_a_service_that_is_killed_a_hundred_times_gets_everything_once"
    for _ in range(count // 100):
        process = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test],
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
        )
        yield from [""] * 99
        yield "" if process.returncode == 0 else process.stdout[-2000:]


def run_recording_faults(folder: Path, count: int, seed: int) -> Results:
    """Record while system calls fail."""
    for number, fault in enumerate(faults.choose(count, seed)):
        wrong = faults.check_recording(fault, folder, kills.MODES[number % len(kills.MODES)])
        yield wrong and f"{fault}: {wrong}"


def run_reading_faults(folder: Path, count: int, seed: int) -> Results:
    """Index while system calls fail."""
    intact = folder / "intact"
    attempt(lambda: homes.build(intact) and None)
    expected = attempt(lambda: faults._answers(intact)).value
    for fault in faults.choose(count, seed):
        wrong = faults.check_reading(fault, folder, intact, expected)
        yield wrong and f"{fault}: {wrong}"


def run_clocks(folder: Path, count: int, seed: int) -> Results:
    """Record while the clock jumps."""
    for number in range(count):
        shifts = faults.shifts()
        shift, after = shifts[number % len(shifts)], 7 * (number // len(shifts))
        wrong = faults.check_clock(shift, after, folder)
        yield wrong and f"{shift} s after {after} readings: {wrong}"


def run_fuzzing(folder: Path, count: int, seed: int) -> Results:
    """Pass changed files, texts, arguments and requests."""
    kinds = len(fuzzing.FILES) + 6
    for kind, wrong in fuzzing.sweep(folder, count // kinds, seed):
        yield from [""] * (count // kinds - 1)
        yield wrong and f"{kind}: {wrong}"


def run_many_runs(folder: Path, count: int, seed: int) -> Results:
    """Record many runs."""
    yield volume.record_runs(folder / "home", count)


def run_many_batches(folder: Path, count: int, seed: int) -> Results:
    """Record one run of many batches."""
    yield volume.record_batches(folder / "home", count)


def run_follow(folder: Path, count: int, seed: int) -> Results:
    """Follow a run of many epochs."""
    yield volume.follow(folder / "home", count)


class Check(NamedTuple):
    """A check, with the number of cases of the long form and of the short one."""

    function: Callable[[Path, int, int], Results]
    full: int
    short: int


CHECKS = {
    "kills of recorders": Check(run_recorder_kills, 1000, 16),
    "kills of indexers": Check(run_indexer_kills, 200, 4),
    "kills of the service": Check(run_service_kills, 200, 0),
    "faults while recording": Check(run_recording_faults, 100, 7),
    "faults while indexing": Check(run_reading_faults, 100, 2),
    "clock jumps": Check(run_clocks, 50, 2),
    "damaged files": Check(run_mutations, 2000, 8),
    "changed inputs": Check(run_fuzzing, 12_000, 24),
    "runs": Check(run_many_runs, 10_000, 30),
    "batches": Check(run_many_batches, 10_000_000, 20_000),
    "epochs followed": Check(run_follow, 20_000, 200),
}
"""Checks by what they count."""


def run(check: Check, count: int, seed: int = 0) -> list[str]:
    """Run a check in a folder of its own; return what is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="provml-soak-"))
    try:
        return [wrong for wrong in check.function(folder, count, seed) if wrong]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_all(scale: float | None, seed: int, words: list[str]) -> Iterator[tuple[str, int, list[str], str]]:
    """Yield each check that has one of some words in its name: its cases, what is wrong, and the time it took.

    Without a scale, the checks run in their short form.
    """
    for name, check in CHECKS.items():
        count = check.short if scale is None else max(int(check.full * scale), 1)
        if check.function is run_service_kills:
            count = count // 100 * 100
        if not count or (words and not any(word in name for word in words)):
            continue
        start, before = time.monotonic(), os.times()
        wrong = run(check, count, seed)
        cpu = sum(os.times()[:4]) - sum(before[:4])
        yield name, count, wrong, f"{cpu:.0f} | {time.monotonic() - start:.0f}"


def main() -> None:
    """Run the checks and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the numbers of the long form")
    parser.add_argument("--short", action="store_true", help="the short form, as in CI")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="words of the checks to run, separated by commas")
    parser.add_argument("--json", action="store_true", help="print what is wrong, by check, as JSON")
    options = parser.parse_args()
    words = [word for word in options.only.split(",") if word]
    results: dict[str, list[str]] = {}
    if not options.json:
        print("| check | cases | wrong | CPU s | wall s |\n|---|---:|---:|---:|---:|")
    for name, count, wrong, times in run_all(None if options.short else options.scale, options.seed, words):
        results[name] = wrong
        if not options.json:
            print(f"| {name} | {count:,} | {len(wrong)} | {times} |", flush=True)
            for text in wrong[:20]:
                print(f"    {text}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(results))
    sys.exit(any(results.values()))


if __name__ == "__main__":
    main()
