"""Helpers for the tests of the commands: invoke them, record sample runs, and control a training in a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from provml.cli import main
from provml.recording.run import record

COMMANDS = ["runs", "status", "show", "log", "export", "remove", "rebuild", "verify", "gc", "query"]
STATUS_QUERY = "SELECT ?run ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status } ORDER BY ?run"

TRAINING = """
import sys
from provml.recording.run import record

with record("watched", model="tiny", home=sys.argv[1], strict=True, run=sys.argv[2]) as run:
    with run.training(learning_rate=0.1, epochs=9) as training:
        print("ready", flush=True)
        for epoch, line in zip(training.epochs(9), sys.stdin):
            if line == "fail\\n":
                raise ValueError("no more memory")
            if line == "end\\n":
                break
            for batch in epoch.batches(range(2)):
                batch.measured(loss=1.0 / batch.index)
            if line == "half\\n":
                print("half", flush=True)
                sys.stdin.readline()
            epoch.measured(loss=0.5 / epoch.index)
            print("epoch", flush=True)
"""


def invoke(home: Path | None, *arguments: str, text: str | None = None) -> Result:
    """Run a command in this process, with `text` on its standard input."""
    home_option = ["--home", str(home)] if home is not None else []
    return CliRunner().invoke(main, [*arguments, *home_option], input=text)


def output_of(home: Path, *arguments: str, text: str | None = None) -> str:
    """Return the standard output of a command that must succeed."""
    result = invoke(home, *arguments, text=text)
    assert result.exit_code == 0, result.output
    assert result.exception is None
    return result.stdout


def json_of(home: Path, *arguments: str) -> Any:
    """Return the parsed output of a command that must succeed, in the format JSON."""
    return json.loads(output_of(home, *arguments, "--format", "json"))


def error_of(home: Path | None, *arguments: str, code: int = 2) -> str:
    """Return the standard error of a command that must exit with a code and without a traceback."""
    result = invoke(home, *arguments)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result.stderr


def record_flowers(home: Path, folder: Path) -> None:
    """Record a small run with everything that the commands show; its data files are in `folder`."""
    raw_file, train_file, weights = folder / "flowers.h5", folder / "train.h5", folder / "m.pt"
    raw_file.write_bytes(b"raw" * 100)
    train_file.write_bytes(b"train" * 100)
    weights.write_bytes(b"weights")
    with record("flowers", model="alexnet", home=home, strict=True, run="flowers-1") as run:
        raw = run.dataset(raw_file, role="raw")
        train = run.prepared(train_file, step="gray-scale", using=[raw], tile=224)
        with run.training(using=[train], learning_rate=0.001, optimizer="Adam", epochs=12) as training:
            training.layers([{"name": "conv1", "type": "Conv2D", "filters": 96, "parameter_count": 100}])
            for epoch in training.epochs(12):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=1.0 / (batch.index + epoch.index))
                epoch.measured(loss=9.0)
                epoch.measured(loss=0.5 / epoch.index, accuracy=float("nan"))
                if epoch.index == 2:
                    training.adapted(learning_rate=0.0005, technique="step decay", reason="plateau", by="bob")
            model = training.produced(weights)
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.59)


def record_failed_run(home: Path) -> None:
    """Record a run whose training raises."""
    with pytest.raises(ValueError), record("broken", home=home, strict=True, run="broken-1") as run, run.training():
        raise ValueError("bad\nbatch")


def damage_line(home: Path, line: int) -> Path:
    """Overwrite one line of the journal of run flowers-1; return the path of the journal."""
    journal = next((home / "runs" / "flowers-1").glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[line - 1] = b'{"e":"done","at":\n'
    journal.write_bytes(b"".join(lines))
    return journal


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start Python with these arguments, with pipes unless `options` of Popen say otherwise."""
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
    return subprocess.Popen([sys.executable, *arguments], text=True, **streams)


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


class TrainingProcess:
    """A real training in another process, which runs one epoch for each line that it reads."""

    def __init__(self, home: Path, run: str = "watched-1") -> None:
        self.process = start_python("-c", TRAINING, str(home), run)
        assert self.read_line() == "ready"

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def run_epoch(self) -> None:
        self.send("go")
        assert self.read_line() == "epoch"

    def run_half_an_epoch(self) -> None:
        """Let the training record the batches of its next epoch, and wait before the end of the epoch."""
        self.send("half")
        assert self.read_line() == "half"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def follow_log(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return start_python("-m", "provml.cli", "log", "--follow", "--home", str(home), *arguments)


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Return the lines of a process up to the first with these words; block while the process writes nothing."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came after {lines}")
