"""Stores of MLflow: what the real client wrote comes in value by value, from SQL and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

import provml
from provml.exchange import read
from provml.journal import events

from .truth import SUITES, check_adaptations, check_params, check_points, check_report, import_suite, load_truth

STORES = sorted(path.parent.name for path in SUITES.glob("mlflow-*/expected.json"))


@pytest.mark.parametrize("folder", STORES)
def test_a_store_of_the_real_client_comes_in_value_by_value(folder: str, tmp_path: Path):
    truth = load_truth(folder)
    report, runs = import_suite(folder, tmp_path / "home")
    check_report(report)
    by_name = {run["name"]: run for run in truth["runs"]}
    assert {run["id"] for run in truth["runs"]} == runs.keys()
    points = sum(len(points) for run in truth["runs"] for points in run["metrics"].values())
    assert report.totals.tallies["metric points"].source == points
    for expected in truth["runs"]:
        run = runs[expected["id"]]
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.header.run_name == expected["name"]
        assert run.header.parent_run == (by_name[expected["parent"]]["id"] if expected["parent"] else "")
        assert run.status == ("LOST" if expected["status"] in (None, "RUNNING") else expected["status"])
        assert abs(run.header.time - expected["start"]) < 5
        assert {name: run.params[f"tag.{name}"] for name in expected["tags"]} == expected["tags"]
        for data in expected["datasets"]:
            assert run.roles[data["name"]] == data["role"]
            assert run.datasets[data["name"]].values["digest"] == data["digest_of_tool"]
            assert run.datasets[data["name"]].sha256 == ""  # the digest of the tool is not that of the content
        for file in expected["artifacts"]:
            assert run.files[file["path"]] == (file["sha256"], file["size"])


def test_an_imported_store_answers_and_is_valid(tmp_path: Path):
    report = read(SUITES / "mlflow-sqlite" / "mlflow.db", tmp_path / "home")
    with provml.open(tmp_path / "home") as store:
        assert len(store.runs()) == len(report.runs)
        for run in report.runs:
            violations = [result for result in store.validate(run.id).results if result.severity == "Violation"]
            assert violations == []
        assert store.verify() == []
        table = store.table()
        assert len(table) == len(report.runs)
    assert {run.result for run in read(SUITES / "mlflow-sqlite", tmp_path / "home").runs} == {"unchanged"}
    [journal] = (tmp_path / "home" / "runs" / report.runs[0].id).glob("*.jsonl")
    lines = [events.decode(line) for line in journal.read_bytes().splitlines()]
    [imported] = [line for line in lines if isinstance(line, events.Imported)]
    assert imported.source == "mlflow.db"
    assert len(imported.sha256) == 64
    assert imported.version.startswith("schema ")
