"""The demo: its trainings are recorded, the runs are valid, and the questions have answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import provml
from provml.cli import main
from provml.demo import digits, report, settings
from provml.demo.network import Network

pytestmark = pytest.mark.xdist_group("torch")  # in the worker that loads PyTorch


def run_demo(home: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["demo", "--home", str(home), *options], catch_exceptions=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo once; return its home and its output."""
    home = tmp_path_factory.mktemp("demo")
    result = run_demo(home)
    assert result.exit_code == 0, result.output
    return home, result.output


def test_every_question_is_shown_with_its_summary_its_command_and_its_answer(demo):
    home, output = demo
    with provml.open(home) as store:
        for question in ("q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8"):
            assert f"{question}  {store.catalog[question].summary}" in output
            command = re.search(rf"\$ provml (ask {question} .*)", output)
            result = CliRunner().invoke(main, command[1].split(), catch_exceptions=False)
            assert result.exit_code == 0
            assert result.output.strip()
            assert all(line in output for line in result.output.splitlines())


def test_one_run_failed_and_all_others_finished(demo):
    with provml.open(demo[0]) as store:
        runs = store.runs()
    assert sorted(run.status for run in runs) == ["FAILED"] + ["FINISHED"] * 5
    (error,) = (run.error for run in runs if run.status == "FAILED")
    assert error == "TrainingDiverged: the loss is 18.2: the learning rate is too high"


def test_all_runs_are_valid(demo):
    assert "6 of 6 runs satisfy all constraints" in demo[1]


def test_the_network_learns_and_the_filter_matters(demo):
    with provml.open(demo[0]) as store:
        losses = store.ask("q3", model=settings.MODEL, run=store.runs()[1].id).column("value")
        best, worst = store.ask("q8", model=settings.MODEL)
    assert losses[-1] < losses[0] / 2 < 2.31 / 2  # ln 10 is the loss of random guessing
    assert best[1] in digits.FILTERS
    assert worst[1] == "none"
    assert best[2] > worst[2] + 0.2


def test_the_adaptations_are_recorded(demo):
    with provml.open(demo[0]) as store:
        rows = [row for run in store.runs() for row in store.ask("h6", model=settings.MODEL, run=run.id)]
    assert len(rows) == 2


def test_a_second_call_adds_runs(demo):
    home, _ = demo
    with provml.open(home) as store:
        before = {run.id for run in store.runs()}
    assert run_demo(home).exit_code == 0
    with provml.open(home) as store:
        after = {run.id for run in store.runs()}
    assert before < after
    assert len(after) == 2 * len(before)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")  # Keras
@pytest.mark.parametrize("framework", ["keras", "torch", "sklearn"])
def test_the_demo_works_with_a_framework(framework: str, tmp_path: Path):
    result = run_demo(tmp_path, "--framework", framework)
    assert result.exit_code == 0, result.output
    assert "6 of 6 runs satisfy all constraints" in result.output
    with provml.open(tmp_path) as store:
        assert sorted({run.status for run in store.runs()}) == ["FAILED", "FINISHED"]
        best, *_, worst = store.ask("q8", model=f"digits-{framework}")  # several may have the same rank
        assert best[2] > worst[2]
        rate = {"hyperparameter": "learning_rate_init"} if framework == "sklearn" else {}
        adapted = store.ask("q6", model=f"digits-{framework}", **rate)
        assert all(row[3] == pytest.approx(5 * row[4]) for row in adapted), (
            "the learning rate of the best run was lowered"
        )
        assert {"hidden_units", "units", "out_features"} & {
            part.split("=")[0] for row in store.ask("q2", model=f"digits-{framework}") for part in row[-1].split(", ")
        }


@pytest.mark.parametrize(
    ("framework", "package"), [("keras", "keras"), ("torch", "torch"), ("sklearn", "scikit-learn")]
)
def test_a_missing_framework_is_an_error_of_one_line(framework: str, package: str, tmp_path: Path):
    (tmp_path / f"{framework}.py").write_text(f"raise ModuleNotFoundError({framework!r})")
    paths = os.pathsep.join([str(tmp_path), *sys.path])  # found before the installed package
    result = subprocess.run(
        [sys.executable, "-m", "provml", "demo", "--home", "home", "--framework", framework],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    message = f"This needs {package}, which is not installed. Run `pip install 'provml[{framework}]'`."
    assert result.returncode == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.endswith(message)
    assert not (tmp_path / "home").exists()


def test_digits_are_reproducible_and_filters_return_one_value_per_point():
    image, digit = digits.draw(12, seed=1)[11]
    assert (image, digit) == digits.draw(12, seed=1)[11]
    assert digit == 1
    assert len(image) == 3 * len(digits.gray_scale(image)) == 3 * digits.WIDTH * digits.HEIGHT
    assert (min(digits.contrast(image)), max(digits.contrast(image))) == (0.0, 1.0)


def test_learning_raises_the_probability_of_the_digit():
    network = Network(4, 5, dropout=0.0, seed=1)
    image = [0.1, 0.9, 0.3, 0.7]
    before = network.predict(image)[1][3]
    for _ in range(20):
        network.learn(image, 3, 0.1)
    assert network.predict(image)[1][3] > max(before, 0.5)


def test_an_answer_fits_a_narrow_terminal(demo):
    with provml.open(demo[0]) as store:
        answer = store.ask("q3", model=settings.MODEL)
    table = report.format_answer(answer, None)
    assert report.format_answer(answer, 200) == table
    narrow = report.format_answer(answer, 40)
    assert max(map(len, narrow.splitlines())) <= 40 < max(map(len, table.splitlines()))
    assert narrow.count("epoch: ") == len(answer)


def test_the_progress_bar_and_the_answers_fit_a_narrow_terminal(tmp_path: Path):
    output = run_on_terminal(["demo", "--home", "h"], tmp_path, columns=40)
    lines = [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", output)) if line.strip()]
    assert any("100%" in line for line in lines)
    wide = [line.strip() for line in lines if len(line.rstrip()) > 40]
    assert not [line for line in wide if " " in line and not line.startswith("$ provml")], (
        "only paths and commands are longer"
    )


def run_on_terminal(command: list[str], folder: Path, columns: int) -> str:
    """Return the output of a command on a terminal with a number of columns."""
    import fcntl
    import os
    import pty
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-m", "provml", *command],
        cwd=folder,
        stdout=terminal,
        stderr=terminal,
        stdin=terminal,
        env=environment,
    )
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(controller, 65536):
            output += chunk
    except OSError:  # the terminal was closed
        pass
    assert child.wait(60) == 0, output.decode()
    os.close(controller)
    return output.decode()


def test_a_home_that_is_not_writable_is_an_error_of_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    result = run_demo(tmp_path / "file" / "home")
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert "the directory is not writable" in result.output
