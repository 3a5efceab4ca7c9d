"""The house is in order: style, types, floors, and generated files as their sources give them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CHECKS = {
    "ruff finds nothing": ["-m", "ruff", "check", "."],
    "ruff would format nothing": ["-m", "ruff", "format", "--check", "."],
    "mypy is strict and content": ["-m", "mypy"],
    "imports go down only": ["-c", "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"],
    "nothing that the ontologies give is stale": ["-m", "provml.cli", "compile", "--check"],
    "nothing that the code documents is stale": ["docs/make.py", "--check"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_house_is_in_order(name: str):
    done = subprocess.run([sys.executable, *CHECKS[name]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"not so: {name}\n{done.stdout}{done.stderr}"


def rooms() -> list[Path]:
    return [path for path in sorted((ROOT / "provml").rglob("*.py")) if path.parent.name != "vocab"]


def test_every_room_says_its_job_in_the_first_line():
    for path in rooms():
        first = path.read_text().split("\n", 1)[0]
        assert re.match(r'"""\S.*[.:,]?"*$', first), f"{path.relative_to(ROOT)} does not begin with its job"


def test_no_room_has_grown_into_two():
    for path in rooms():
        assert len(path.read_text().splitlines()) <= 400, f"{path.relative_to(ROOT)} is over 400 lines"


def test_the_floors_in_the_docs_are_those_that_are_linted():
    linted = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S)
    assert linted is not None
    drawn = (ROOT / "docs" / "house.md").read_text().split("```text")[1].split("```")[0]
    for room in re.findall(r"\w+", linted[1]):
        assert re.search(rf"(^|\s{{2,}}){room}\s{{2,}}", drawn, re.M), f"docs/house.md does not draw {room}"


def test_the_readme_has_the_two_commands_that_ci_and_newcomers_run():
    commands = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert "provml demo" in commands[0]
    assert "pytest" in commands[1]
    assert all("pip install" in command for command in commands[:2])
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
