"""`provml runs` as a table: it fits the terminal, shows what differs, and selects and sorts rows."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provml.cli import runs
from provml.cli.run_table import Column, wrap
from provml.recording.run import Run
from provml.store.run_table import STATUSES

from .helpers import error_of, json_of, output_of


@pytest.fixture(scope="module")
def sweep_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with five runs of one model that differ in two hyperparameters, one of them failed, one with a leak."""
    home = tmp_path_factory.mktemp("sweep") / "home"
    constants = {f"constant_{number}": number for number in range(30)}
    for number in range(4):
        settings = {"capture_environment": False, "run": f"20261118-02124{number}-c0ffe{number}", "model": "alexnet"}
        with Run("flowers", home=home, strict=True, **settings) as run:  # type: ignore[arg-type]
            data = run.dataset(b"seen", name="seen")
            values: dict[str, Any] = {"learning_rate": 0.1**number, "optimizer": "Adam" if number % 2 else "SGD"}
            with run.training(using=data, **values, **constants) as training:
                for epoch in training.epochs(2):
                    epoch.measured(loss=1 / (epoch.index + number), accuracy=0.123456789)
                    with epoch.validation() as validation:
                        validation.measured(loss=2 / (epoch.index + number))
                model = training.produced(f"weights {number}".encode())
            with run.evaluation(of=model, using=data if number == 2 else run.dataset(b"new", name="new")) as test:
                test.measured(accuracy=0.5 + number / 7)
    with (
        pytest.raises(ValueError),
        Run("flowers", home=home, run="20261118-021249-badbad", model="alexnet", capture_environment=False) as run,
        run.training(learning_rate=7.0),
    ):
        raise ValueError("a long message " * 9)
    return home


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("arguments", [(), ("--status", "finished"), ("-n", "1"), ("--sort", "train_loss")])
def test_the_table_fits_the_terminal(
    sweep_home: Path, columns: int, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = output_of(sweep_home, "runs", *arguments).splitlines()
    assert max(map(len, lines)) <= columns
    head = next(line for line in lines if line.startswith("run ")).split()
    assert "status" in head
    if columns == 80 and arguments == ("--sort", "train_loss"):
        assert "train_loss" in head
    if columns == 80 and arguments == ("--status", "finished"):
        assert {"learning_rate", "optimizer", "test_accuracy", "val_loss"} <= {*head}


def test_columns_that_do_not_fit_are_named_and_ids_are_short_enough_to_find_a_run(
    sweep_home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    lines = output_of(sweep_home, "runs", "--status", "finished").splitlines()
    assert lines[-1] == "not shown: started, duration, train_loss (all: --format csv)"
    run = lines[-3].split()[0]
    assert json_of(sweep_home, "show", run)["run"] == "20261118-021240-c0ffe0"


def test_what_all_runs_share_is_in_a_line_above_the_table(sweep_home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    first, *rest = output_of(sweep_home, "runs", "--status", "FINISHED").splitlines()
    assert first.startswith("same for all runs: name = flowers, model = alexnet, constant_0 = 0, constant_1 = 1,")
    assert rest[1].endswith("more")
    assert rest[2] == ""
    assert "constant_0" not in rest[3]
    assert "same for all runs" not in output_of(sweep_home, "runs", "-n", "1")


def test_output_to_a_pipe_has_all_columns_that_differ(sweep_home: Path):
    head = next(line for line in output_of(sweep_home, "runs").splitlines() if line.startswith("run "))
    expected = {"started", "duration", "learning_rate", "optimizer", "test_accuracy", "val_loss", "warning", "error"}
    assert expected <= set(head.split())


def test_warnings_are_shown_as_words(sweep_home: Path):
    leaking = output_of(sweep_home, "runs", "--where", "leakage")
    assert "20261118-021242-c0ffe2" in leaking
    assert leaking.rstrip().endswith("leakage")


def test_lost_batches_are_shown(tmp_path: Path):
    home = tmp_path / "home"
    with Run("x", home=home, run="r", capture_environment=False) as run:
        assert run._writer is not None
        run._writer._on_lost_batches(12)
    assert "12 lost batches" in output_of(home, "runs")


def test_rows_are_selected_and_sorted(sweep_home: Path):
    condition = 'learning_rate > 0.005 and optimizer == "Adam"'
    (row,) = json_of(sweep_home, "runs", "--where", condition)
    assert (row["run"], row["learning_rate"]) == ("20261118-021241-c0ffe1", 0.1)
    rates = [
        row["learning_rate"] for row in json_of(sweep_home, "runs", "--sort", "learning_rate", "--desc", "-n", "2")
    ]
    assert rates == [7.0, 1.0]
    assert [row["status"] for row in json_of(sweep_home, "runs", "--status", "failed")] == ["FAILED"]
    assert len(json_of(sweep_home, "runs", "--name", "flow*")) == 5
    assert output_of(sweep_home, "runs", "--name", "x") == "None of 5 runs matches.\n"
    assert output_of(sweep_home, "runs", "--name", "x", "--format", "csv").startswith("run,name,model,status,started")


def test_wrong_options_are_explained(sweep_home: Path):
    message = error_of(sweep_home, "runs", "--where", "learning_rat > 1")
    assert "  learning_rat > 1\n  ^^^^^^^^^^^^\nDid you mean learning_rate?" in message
    assert "Did you mean learning_rate?" in error_of(sweep_home, "runs", "--sort", "learningrate")
    assert "--desc needs --sort COLUMN." in error_of(sweep_home, "runs", "--desc")
    assert "'done' is not one of" in error_of(sweep_home, "runs", "--status", "done")
    assert "-1" in error_of(sweep_home, "runs", "-n", "-1")


def test_the_option_for_a_status_knows_all_statuses():
    assert runs.STATUSES == STATUSES


@pytest.mark.parametrize(("no_color", "has_color"), [("", True), ("1", False)])
def test_colours_are_used_on_a_terminal_unless_no_color_is_set(sweep_home: Path, no_color: str, has_color: bool):
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color, "COLUMNS": "80"}
    arguments = [sys.executable, "-m", "provml.cli", "runs", "--home", str(sweep_home)]
    subprocess.run(arguments, stdout=terminal, env=environment, check=True)
    os.close(terminal)
    output = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert ("\x1b[31mFAILED\x1b[0m" in output) is has_color
    assert ("\x1b[" in output) is has_color


def test_many_columns_are_not_compared_and_long_names_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        with (
            Run(name, home=tmp_path, run=name, strict=True, capture_environment=False) as run,
            run.training() as training,
            training.epoch(1) as epoch,
        ):
            epoch.measured(**{f"measure_{number}": number for number in range(3000)}, **{"x" * 5000: 1.0 + ord(name)})
    comparisons: list[object] = []
    monkeypatch.setattr(Column, "__eq__", lambda self, other: bool(comparisons.append(other)) or self is other)
    for command in (["runs"], ["show", "a"], ["status", "a"]):
        text = output_of(tmp_path, *command)
        assert "measure_2999" in text
        assert "x" * 90 in text
        assert "x" * 101 not in text
    assert len(comparisons) < 100  # each column with each other one: seconds


def test_long_lists_are_cut_to_a_few_lines():
    lines = wrap("same: ", [f"name_{number} = {number}" for number in range(100)], 40)
    assert len(lines) == 3
    assert all(len(line) <= 40 for line in lines)
    assert lines[-1].endswith("more")
    assert wrap("same: ", ["a = 1", "b = 2"], 40) == ["same: a = 1, b = 2"]
    assert wrap("same: ", ["x" * 100], 20) == ["same: " + "x" * 13 + "…"]
