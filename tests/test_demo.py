"""The demo: real trainings, recorded, valid, and answering what they are asked."""

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
from provml.demo import digit, tour, trial
from provml.demo.network import Network

pytestmark = pytest.mark.xdist_group("torch")  # one demo for all, where PyTorch is loaded


def demo(home: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["demo", "--home", str(home), *more], catch_exceptions=False)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home = tmp_path_factory.mktemp("demo")
    done = demo(home)
    assert done.exit_code == 0, done.output
    return home, done.output


def test_every_question_comes_with_its_sentence_its_table_and_its_command(told):
    home, said = told
    with provml.open(home) as store:
        for question in ("q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8"):
            assert f"{question}  {store.catalog[question].summary}" in said
            command = re.search(rf"\$ provml (ask {question} .*)", said)
            again = CliRunner().invoke(main, command[1].split(), catch_exceptions=False)
            assert again.exit_code == 0
            assert again.output.strip()
            assert all(line in said for line in again.output.splitlines())


def test_one_run_failed_with_its_reason_and_all_others_finished(told):
    with provml.open(told[0]) as store:
        runs = store.runs()
    assert sorted(run.status for run in runs) == ["FAILED"] + ["FINISHED"] * 5
    (error,) = (run.error for run in runs if run.status == "FAILED")
    assert error == "Hopeless: the loss is 18.2: the learning rate is too high"


def test_all_runs_hold_to_every_promise(told):
    assert "6 of 6 hold to every promise" in told[1]


def test_it_really_learns_and_the_filter_matters(told):
    with provml.open(told[0]) as store:
        losses = store.ask("q3", model=trial.MODEL, run=store.runs()[1].id).column("value")
        best, worst = store.ask("q8", model=trial.MODEL)
    assert losses[-1] < losses[0] / 2 < 2.31 / 2  # ln 10 is the loss of a guess by chance
    assert best[1] in digit.FILTERS
    assert worst[1] == "none"
    assert best[2] > worst[2] + 0.2


def test_the_adaptations_are_those_that_were_made(told):
    with provml.open(told[0]) as store:
        rows = [row for run in store.runs() for row in store.ask("h6", model=trial.MODEL, run=run.id)]
    assert len(rows) == 2


def test_run_again_it_adds(told):
    home, _ = told
    with provml.open(home) as store:
        before = {run.id for run in store.runs()}
    assert demo(home).exit_code == 0
    with provml.open(home) as store:
        after = {run.id for run in store.runs()}
    assert before < after
    assert len(after) == 2 * len(before)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")  # Keras
@pytest.mark.parametrize("framework", ["keras", "torch", "sklearn"])
def test_the_same_is_told_of_a_framework(framework: str, tmp_path: Path):
    done = demo(tmp_path, "--framework", framework)
    assert done.exit_code == 0, done.output
    assert "6 of 6 hold to every promise" in done.output
    with provml.open(tmp_path) as store:
        assert sorted({run.status for run in store.runs()}) == ["FAILED", "FINISHED"]
        best, *_, worst = store.ask("q8", model=f"digits-{framework}")  # several may share a place
        assert best[2] > worst[2]
        rate = {"hyperparameter": "learning_rate_init"} if framework == "sklearn" else {}
        adapted = store.ask("q6", model=f"digits-{framework}", **rate)
        assert all(row[3] == pytest.approx(5 * row[4]) for row in adapted), "the best had its rate lowered"
        assert {"hidden_units", "units", "out_features"} & {
            part.split("=")[0] for row in store.ask("q2", model=f"digits-{framework}") for part in row[-1].split(", ")
        }


@pytest.mark.parametrize(
    ("framework", "package"), [("keras", "keras"), ("torch", "torch"), ("sklearn", "scikit-learn")]
)
def test_a_framework_that_is_not_installed_is_told_in_a_line(framework: str, package: str, tmp_path: Path):
    (tmp_path / f"{framework}.py").write_text(f"raise ModuleNotFoundError({framework!r})")
    paths = os.pathsep.join([str(tmp_path), *sys.path])  # where it is found before the one that is installed
    done = subprocess.run(
        [sys.executable, "-m", "provml", "demo", "--home", "home", "--framework", framework],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    told = f"This needs {package}, which is not installed. Run `pip install 'provml[{framework}]'`."
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.endswith(told)
    assert not (tmp_path / "home").exists()


def test_a_digit_is_drawn_the_same_each_time_and_filtered_to_one_value_a_point():
    image, number = digit.draw(12, seed=1)[11]
    assert (image, number) == digit.draw(12, seed=1)[11]
    assert number == 1
    assert len(image) == 3 * len(digit.gray_scale(image)) == 3 * digit.WIDTH * digit.HEIGHT
    assert (min(digit.contrast(image)), max(digit.contrast(image))) == (0.0, 1.0)


def test_a_step_moves_the_guess_towards_the_digit():
    network = Network(4, 5, dropout=0.0, seed=1)
    image = [0.1, 0.9, 0.3, 0.7]
    before = network.guess(image)[1][3]
    for _ in range(20):
        network.learn(image, 3, 0.1)
    assert network.guess(image)[1][3] > max(before, 0.5)


def test_an_answer_fits_a_narrow_terminal(told):
    with provml.open(told[0]) as store:
        answer = store.ask("q3", model=trial.MODEL)
    whole = tour.fitting(answer, None)
    assert tour.fitting(answer, 200) == whole
    narrow = tour.fitting(answer, 40)
    assert max(map(len, narrow.splitlines())) <= 40 < max(map(len, whole.splitlines()))
    assert narrow.count("epoch: ") == len(answer)


def test_the_bar_and_the_answers_are_no_wider_than_a_narrow_terminal(tmp_path: Path):
    shown = on_a_terminal(["demo", "--home", "h"], tmp_path, columns=40)
    lines = [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown)) if line.strip()]
    assert any("100%" in line for line in lines)
    wide = [line.strip() for line in lines if len(line.rstrip()) > 40]
    assert not [line for line in wide if " " in line and not line.startswith("$ provml")], (
        "no more than a path, or a command"
    )


def on_a_terminal(command: list[str], folder: Path, columns: int) -> str:
    """What a command says on a terminal of so many columns."""
    import fcntl
    import os
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-m", "provml", *command], cwd=folder, stdout=theirs, stderr=theirs, stdin=theirs, env=kept
    )
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:  # the other end was closed
        pass
    assert child.wait(60) == 0, said.decode()
    os.close(ours)
    return said.decode()


def test_a_home_that_cannot_be_written_to_is_told_once_and_at_once(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    done = demo(tmp_path / "file" / "home")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1
    assert "nothing can be written there" in done.output
