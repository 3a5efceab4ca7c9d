"""Runs of real scripts that are executed again: deterministic, seeded, unseeded, with other data, code and packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import provml
from provml.cli import main
from provml.errors import CannotRepeat
from provml.repeat import Rerun, Verdict, check_repeatable, rerun

SCRIPT = """
import random, sys
from pathlib import Path
import provml

if sys.argv[1] != "unseeded":
    random.seed(7)
with provml.record("flowers", model="net", home="own-home", run=sys.argv[2] if len(sys.argv) > 2 else None) as run:
    data = run.dataset("data/train.csv", role="training")
    with run.training(using=data, rate=RATE) as training:
        weight = sum(map(float, Path("data/train.csv").read_text().split()))
        for epoch in training.epochs(3):
            weight += RATE * (random.random() if sys.argv[1] != "deterministic" else 1)
            epoch.measured(loss=1 / (1 + weight), epoch_seconds=random.SystemRandom().random())
        Path("model.txt").write_text(str(weight))
        training.produced("model.txt")
"""


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        cwd=where, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip
    return done.stdout.strip()


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process in which provml is this one and code is captured."""
    source = str(Path(provml.__file__).parents[1])
    paths = os.pathsep.join(dict.fromkeys([source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")}
    return own | {"PYTHONPATH": paths} | variables


class Project:
    """A checkout with a script and data that git does not have."""

    def __init__(self, folder: Path) -> None:
        self.top, self.home = folder / "flowers", folder / "flowers" / "own-home"
        (self.top / "data").mkdir(parents=True)
        git(self.top, "init", "-q", "-b", "main")
        (self.top / ".gitignore").write_text("data/\nown-home/\nmodel.txt\n")
        self.write(rate=0.5)
        self.write_data(1, 2, 3)
        self.commit()

    def write(self, *, rate: float) -> None:
        (self.top / "train.py").write_text(SCRIPT.replace("RATE", str(rate)))

    def write_data(self, *values: int) -> None:
        (self.top / "data" / "train.csv").write_text("\n".join(map(str, values)))

    def commit(self) -> None:
        git(self.top, "add", ".")
        git(self.top, "commit", "-q", "-m", "a change")

    def train(self, *arguments: str) -> str:
        """Record a run and return its id."""
        before = set(self.runs())
        subprocess.run([sys.executable, "train.py", *arguments], cwd=self.top, env=environment(), check=True)
        (run,) = set(self.runs()) - before
        return run

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.home / "runs").glob("*"))

    def rerun(self, run: str, **options: object) -> Rerun:
        return rerun(run, home=self.home, **options)  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PROVML_CAPTURE_CODE", raising=False)
    return Project(tmp_path)


@pytest.mark.parametrize("script", ["deterministic", "seeded"])
def test_a_run_with_the_same_code_data_and_seed_is_reproduced(project: Project, script: str):
    first = project.train(script)
    (project.top / "model.txt").unlink()
    result = project.rerun(first)
    assert result.verdict is Verdict.REPRODUCED
    assert result.exit_code == 0
    assert result.comparison is not None
    assert (result.comparison.measures, result.comparison.models) == (3, 1)
    assert result.comparison.skipped == ("epoch_seconds",)  # a time differs each time, and is no result
    assert not (project.top / "model.txt").exists()  # the checkout of the user is not touched
    assert git(project.top, "status", "--porcelain") == ""
    assert len(git(project.top, "worktree", "list").splitlines()) == 1
    with provml.open_store(project.home) as store:
        info = store.run(str(result.run))
        assert info.rerun_of == first
        assert "REPRODUCED" in info.notes[0].text
        link = store.query("SELECT ?first WHERE { ?run provml:wasRerunOf ?first }")
        assert not isinstance(link, bool)
        assert [str(row[0]) for row in link] == [str(store.run(first).iri)]


def test_an_unseeded_run_differs_and_the_tolerance_decides(project: Project):
    first = project.train("unseeded")
    differing = project.rerun(first)
    assert differing.verdict is Verdict.DIFFERS
    assert differing.comparison is not None
    assert str(differing.comparison.first_difference).startswith("measures: training/1 loss was")
    # values of two runs may be close by chance
    assert any(
        re.fullmatch(r"3 of 3 values of measures differ, [1-3] by .*tolerance", text) for text in differing.reasons
    )
    close = project.rerun(str(differing.run), rtol=1.0)  # to repeat a rerun is to repeat the first run
    assert (close.first, close.verdict) == (first, Verdict.CLOSE)
    assert any("another digest" in reason for reason in close.reasons)


def test_changed_data_stops_a_rerun_unless_it_is_forced(project: Project):
    first = project.train("deterministic")
    project.write_data(1, 2, 4)
    with pytest.raises(CannotRepeat, match=r"data/train.csv has another content now"):
        project.rerun(first)
    assert len(project.runs()) == 1
    forced = project.rerun(first, force=True)
    assert forced.verdict is Verdict.DIFFERS
    assert any(reason.startswith("data differ: training train.csv") for reason in forced.reasons)
    (project.top / "data" / "train.csv").unlink()
    assert "obstacle" in {check.level for check in check_repeatable(first, home=project.home)}


def test_data_that_is_stored_in_the_home_is_restored(project: Project):
    script = project.top / "train.py"
    script.write_text(script.read_text().replace('role="training"', 'role="training", keep=True'))
    project.commit()
    first = project.train("deterministic")
    (project.top / "data" / "train.csv").unlink()
    assert project.rerun(first).verdict is Verdict.REPRODUCED


def test_the_commit_of_the_run_counts_not_the_one_that_is_checked_out(project: Project):
    first = project.train("deterministic")
    project.write(rate=0.25)
    project.commit()
    assert project.rerun(first).verdict is Verdict.REPRODUCED
    with pytest.raises(CannotRepeat, match="The checkout is at the commit"):
        project.rerun(first, in_place=True)
    forced = project.rerun(first, in_place=True, force=True)
    assert forced.verdict is Verdict.DIFFERS
    assert any(reason.startswith("settings differ: training rate") for reason in forced.reasons)


def test_uncommitted_changes_are_repeated(project: Project):
    project.write(rate=0.125)
    first = project.train("deterministic")
    git(project.top, "checkout", "-q", "train.py")
    assert project.rerun(first).verdict is Verdict.REPRODUCED


def test_an_id_that_the_script_chooses_is_not_written_again(project: Project):
    first = project.train("deterministic", "monday")
    before = (project.home / "runs" / "monday" / "main.jsonl").read_bytes()
    result = project.rerun(first)
    assert result.verdict is Verdict.REPRODUCED
    assert str(result.run).startswith("monday-rerun-")
    assert (project.home / "runs" / "monday" / "main.jsonl").read_bytes() == before


def test_what_cannot_be_repeated_is_named(project: Project, tmp_path: Path):
    first = project.train("deterministic")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    with pytest.raises(CannotRepeat, match="has no commit"):
        project.rerun(first, repository=other)
    with provml.record("bare", home=project.home, run="bare", capture_environment=False) as run:
        run.training().done()
    with pytest.raises(CannotRepeat, match="No command is recorded"):
        project.rerun("bare")


def test_a_command_that_records_nothing_now_is_an_error(project: Project):
    first = project.train("deterministic")
    broken = project.home / "runs" / first / "main.jsonl"
    text = broken.read_text().replace("train.py deterministic", "train.py deterministic a/b")  # an id that is refused
    broken.write_text(text)
    with pytest.raises(CannotRepeat, match="ended with the exit code 1 and recorded no run"):
        project.rerun(first)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_command_line_prints_the_verdict_and_exits_with_it(project: Project):
    first = project.train("unseeded")
    arguments = ["rerun", first, "--home", str(project.home)]
    assert "nan is no tolerance" in invoke(*arguments, "--rtol", "nan").stderr
    dry = invoke(*arguments, "--dry-run")
    assert (dry.exit_code, len(project.runs())) == (0, 1)
    assert "Nothing stands in the way." in dry.stdout
    done = invoke(*arguments, "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (1, "DIFFERS")
    close = invoke(*arguments, "--rtol", "1", "--exact")
    assert close.exit_code == 1
    assert close.stdout.startswith("CLOSE  ")
    project.write_data(9)
    checked = invoke("verify", "--reproducible", first, "--home", str(project.home))
    assert checked.exit_code == 1
    assert "OBSTACLE  data      data/train.csv has another content now." in checked.stdout
    refused = invoke(*arguments)
    assert refused.exit_code == 3
    assert "cannot be repeated" in refused.stderr


def make_wheel(folder: Path, version: str) -> None:
    """Write a package with one module that has a number."""
    folder.mkdir(exist_ok=True)
    info = f"tinynumber-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tinynumber-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinynumber.py", f"NUMBER = {version}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinynumber\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_an_environment_with_the_packages_of_the_run_is_made(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The run is recorded in an environment with one package, and repeated where another version is installed."""
    import msgspec

    modules, wheels, old = tmp_path / "modules", tmp_path / "wheels", tmp_path / "old"
    modules.mkdir()
    (modules / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    (modules / "provml").symlink_to(Path(provml.__file__).parent)
    make_wheel(wheels, "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(old)], check=True)
    python = str(old / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "tinynumber==1.5"]
    subprocess.run(pip, check=True, capture_output=True)
    script = project.top / "train.py"
    script.write_text(script.read_text().replace("import provml\n", "import provml, tinynumber\n", 1))
    script.write_text(script.read_text().replace("weight = sum", "weight = tinynumber.NUMBER + sum"))
    project.commit()
    variables = environment(PYTHONPATH=str(modules))
    subprocess.run([python, "train.py", "deterministic"], cwd=project.top, env=variables, check=True)
    (first,) = project.runs()
    assert any("tinynumber 1.5 (here missing)" in check.text for check in check_repeatable(first, home=project.home))
    assert project.rerun(first, venv=True).verdict is Verdict.REPRODUCED
