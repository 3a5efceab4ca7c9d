"""Runs as crates: rocrate-validator finds no violation of a requirement, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from web.viewer.homes import record_flowers, record_hostile

import provml
from provml.errors import FileFormatError
from provml.exchange import read

ROOT = Path(__file__).parents[2]
VALIDATOR = Path(os.environ.get("PROVML_ROCRATE_VALIDATOR", ROOT / "build" / "rocrate-validator"))
"""A virtual environment of its own, which `.ci/programs` creates: the validator needs an older version of `rich`."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("crates") / "home"
    record_flowers(home)
    record_hostile(home)
    return home


def crate(home: Path, folder: Path, run: str, **options: str) -> dict[str, dict[str, Any]]:
    """Write a crate, and return its items."""
    with provml.open(home) as store:
        store.export(run, folder, "ro-crate", **options)
    graph = json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]
    return {item["@id"]: item for item in graph}


@pytest.mark.parametrize("profile", ["process", "workflow", "provenance"])
def test_the_validator_finds_no_violation_of_a_requirement(home: Path, tmp_path: Path, profile: str):
    if not VALIDATOR.is_dir():
        pytest.skip("rocrate-validator is not installed: run .ci/programs")
    crate(home, tmp_path / "crate", "tuesday", profile=profile, license="CC-BY-4.0", files="yes")
    script = ROOT / "tests" / "exchange" / "validate_crate.py"
    command = [VALIDATOR / "bin" / "python", script, tmp_path / "crate", f"{profile}-run-crate-0.5"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    issues = json.loads(done.stdout.strip().splitlines()[-1])
    assert [issue for issue in issues if issue[0] == "REQUIRED"] == []
    assert len(issues) <= 6, issues  # recommendations about what a run does not know: affiliation, publisher


def test_the_full_graph_is_inside(home: Path, tmp_path: Path):
    crate(home, tmp_path / "crate", "h1")
    with provml.open(home) as store:
        expected = {quad.triple for quad in store.graph("h1")}
    data = (tmp_path / "crate" / "provenance.nt").read_bytes()
    graph = ox.Store()
    graph.load(data, format=ox.RdfFormat.N_TRIPLES)
    assert {quad.triple for quad in graph} == expected


def test_files_are_optional_and_checked(home: Path, tmp_path: Path):
    items = crate(home, tmp_path / "bare", "tuesday")
    assert sorted(path.name for path in (tmp_path / "bare").iterdir()) == [
        "README.md", "provenance.nt", "ro-crate-metadata.json", "workflow.json",
    ]  # fmt: skip
    assert items["#training"]["actionStatus"].endswith("CompletedActionStatus")
    items = crate(home, tmp_path / "full", "tuesday", files="yes")
    models = [item for item in items.values() if item["@type"] == "File" and item["@id"].startswith("models/")]
    content = (tmp_path / "full" / models[0]["@id"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == models[0]["sha256"]
    with provml.open(home) as store, pytest.raises(FileFormatError, match="the folder is not empty"):
        store.export("tuesday", tmp_path / "full", "ro-crate")
    with provml.open(home) as store, pytest.raises(FileFormatError, match="Use one of process, workflow, provenance"):
        store.export("tuesday", tmp_path / "new", "ro-crate", profile="all")
    assert not (tmp_path / "new").exists()


def test_a_failed_run_has_its_error_and_a_crate_is_imported_again(home: Path, tmp_path: Path):
    items = crate(home, tmp_path / "failed", "wednesday")
    assert items["#run"]["actionStatus"].endswith("FailedActionStatus")
    assert "diverged" in items["#run"]["error"]
    crate(home, tmp_path / "crate", "tuesday", profile="process")
    report = read(tmp_path / "crate", tmp_path / "back")
    assert len(report.runs) == 1
    with provml.open(tmp_path / "back") as store:
        table = store.table()
        row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["learning_rate"] == 0.2
