"""Many small runs in one home: what commands cost, and what the index takes.

    python tests/bench/many_runs.py [--runs 1000 2000] [--keep FOLDER]

The runs are those of `queries.py`: ten epochs each, recorded by provml. Each command runs in a process of its own; the
figure is its CPU time (all threads, imports included) and its peak memory. Commands run three times, and the least CPU
time counts. They run again after the runs were packed. The freshness is the wall time from an event in this process
until a question in another process gives it. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from index import size

from queries import record_many

OPEN = "import sys, provml; provml.open_store(sys.argv[1]).close()"
SYNC = "import sys, provml; store = provml.open_store(sys.argv[1]); store.sync(); store.close()"
REPEAT = 3


def measure(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return its CPU seconds, wall seconds and peak memory in MB."""
    began = time.perf_counter()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024


def show(title: str, command: list[str], repeat: int = REPEAT) -> None:
    """Print the least figures of a command."""
    cpu, wall, memory = (min(figures) for figures in zip(*(measure(command) for _ in range(repeat)), strict=True))
    print(f"  {title:34} {cpu:8.3f} CPU s {wall:8.3f} s {memory:7.0f} MB", flush=True)


def provml(home: Path, *args: str) -> list[str]:
    """Return a command of provml about a home."""
    return [sys.executable, "-m", "provml", *args, "--home", str(home)]


def freshness(home: Path) -> float:
    """Return the seconds from an event until a question of another process gives it."""
    from provml.recording.run import Run

    with Run("fresh", home=home, model="fresh", capture_environment=False) as run, run.training() as training:
        with training.epoch(1) as epoch:
            epoch.measured(loss=0.5)
        began = time.perf_counter()
        query = f"ASK {{ <https://w3id.org/provml/run/{run.id}/training/1> ?p ?o }}"
        while b"true" not in subprocess.run(provml(home, "query", query), capture_output=True, check=True).stdout:
            pass
        return time.perf_counter() - began


def show_commands(home: Path, runs: int) -> None:
    """Print the figures of the commands."""
    for title, command in {
        "python -c 'import provml'": [sys.executable, "-c", "import provml"],
        "open": [sys.executable, "-c", OPEN, str(home)],
        "open and sync, nothing new": [sys.executable, "-c", SYNC, str(home)],
        "provml runs -n 20": provml(home, "runs", "-n", "20"),
        "provml ask q5": provml(home, "ask", "q5", "--model", "net 3"),
        "provml show": provml(home, "show", f"small-{runs // 2:05}"),
    }.items():
        show(title, command)


def bench(folder: Path, runs: int) -> None:
    """Print the figures for a number of runs."""
    home = folder / f"{runs} runs" / "home"
    print(f"{runs} runs", flush=True)
    if not (home / "runs").is_dir():
        began = time.process_time()
        record_many(home, runs)
        print(f"  {'recording':34} {time.process_time() - began:8.3f} CPU s")
    print(f"  {'journals':34} {size(home / 'runs') / 1e6:8.1f} MB")
    if not (home / "index").is_dir():
        show("first index", [sys.executable, "-c", SYNC, str(home)], 1)
    print(f"  {'index':34} {size(home / 'index') / 1e6:8.1f} MB")
    show_commands(home, runs)
    show("provml remove", provml(home, "remove", f"small-{runs // 3:05}", "--yes"), 1)
    print(f"  {'an event is visible after':34} {freshness(home):8.3f} s")
    show("provml pack", provml(home, "pack"), 1)
    print(f"  {'segments':34} {size(home / 'segments') / 1e6:8.1f} MB")
    show_commands(home, runs)
    show("provml remove", provml(home, "remove", f"small-{runs // 4:05}", "--yes"), 1)
    show("provml unpack", provml(home, "unpack"), 1)


def main() -> None:
    """Print the figures for each number of runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--keep", type=Path, help="the folder of the homes, which are used again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for runs in options.runs:
            bench(options.keep or Path(temporary), runs)


if __name__ == "__main__":
    main()
