"""Homes that several users of the system share: people of a group, guests who may only read, and closed folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.xdist_group("other users"),  # one process does everything, once
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("other_users.py")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:  # a folder of pytest is closed to other users
        code = Path(folder, "code")  # a checkout may be closed to them, too
        for name in ("provml", "ontologies", "shapes", "queries"):
            shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, str(SCRIPT), folder]
        environment = {**os.environ, "PYTHONPATH": str(code)}
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(process.stdout)  # type: ignore[no-any-return]


def test_people_of_a_group_record_ask_and_write_in_one_home(results: dict[str, Any]):
    share = results["share"]
    assert (share["Ada records"], share["Eva records"]) == (0, 0)
    runs = {"one": "FINISHED", "two": "FINISHED", "three": "KILLED"}
    assert share["Eva asks"]["runs"] == runs
    assert share["Eva asks"]["verify"] == [0, "Checked 3 journals: no problems\n"], "she sealed what was killed"
    for person, uid in (("Eva", 61002), ("Ada", 61001)):  # Eva's process made the index
        written = share[f"{person} writes"]
        assert written["tag"][0] == 0
        assert written["tag"][1].endswith(f"by-{uid}\n")
        assert written["pack"][0] == 0, written["pack"]
        assert "Packed" in written["pack"][1]
        assert (written["record"], written["seal"][0]) == (0, 0)
    assert share["Ada asks again"]["runs"] == runs | {"by-61001": "FINISHED", "by-61002": "FINISHED"}
    assert share["Ada asks again"]["verify"][0] == 0


def test_a_guest_reads_everything_and_changes_nothing(results: dict[str, Any]):
    share = results["share"]
    assert share["guest asks"] == share["Ada asks again"]
    written = share["guest writes"]
    assert (written["tag"][0], written["pack"][0]) == (2, 2)
    assert "permission denied" in written["tag"][1]
    assert "not writable" in written["pack"][1]
    assert written["record"] > 0, "errors are counted, and the training goes on"
    assert "Traceback" not in json.dumps(results)


def test_what_is_closed_is_said_to_be_closed(results: dict[str, Any]):
    private = results["private"]
    assert private["closed"][0] == private["closed runs"][0] == 2
    assert "not readable" in private["closed"][1]
    assert "runs: permission denied" in private["closed runs"][1], "not that there are no runs"
    assert private["guest records"] > 0


def test_a_closed_run_is_a_problem_of_that_run_alone(results: dict[str, Any]):
    private = results["private"]
    assert private["closed run"][0] == 0
    assert "could not be indexed" in private["closed run"][1]
    assert "two " in private["closed run"][1]
    assert private["closed run, verified"][0] == 1
    assert "runs/one/main.jsonl: permission denied" in private["closed run, verified"][1]
    assert "removed" not in private["closed run, verified"][1], "nobody removed it"
    assert private["closed and indexed run, verified"][0] == 1
    assert "runs/one/main.jsonl: permission denied" in private["closed and indexed run, verified"][1]


def test_artifacts_that_may_not_be_read_are_not_said_to_be_right(results: dict[str, Any]):
    code, text = results["private"]["closed artifacts, verified"]
    assert code == 1
    assert "cannot be read (permission denied)" in text
