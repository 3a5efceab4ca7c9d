"""Files of other trackers: what the real tools wrote comes in value by value, and nothing is claimed beyond it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import provml
from provml.exchange.losses import OTHERS

from .truth import SUITES, check_adaptations, check_params, check_points, check_report, import_suite, load_truth, same


def test_offline_runs_of_wandb(tmp_path: Path):
    truth = load_truth("wandb")
    report, runs = import_suite("wandb", tmp_path / "home")
    check_report(report)
    by_id = {run_id.rpartition("-")[2]: run for run_id, run in runs.items()}
    assert by_id.keys() == {run["id"] for run in truth["runs"]}  # a link to the latest run is not another run
    for expected in truth["runs"]:
        run = by_id[expected["id"]]
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.status == expected["status"]
        assert (run.header.run_name, run.header.study) == (expected["name"], truth["project"])
        assert abs(run.header.time - expected["start"]) < 30  # W&B starts its service first
        assert run.imported.version.partition("+")[0] == truth["version"]
        assert run.params["tag.job_type"] == expected["tags"]["job_type"]
        for name, value in expected.get("summary", {}).items():
            assert run.points[name] == [(None, value)]
        names = {name for data in run.datasets.values() for name in json.loads(data.values.get("md5", "{}"))}
        assert {data["name"] for data in expected["datasets"]} <= names
        for file in expected["artifacts"]:
            assert run.files[file["path"]] == ("", file["size"])  # the digest is an MD5: the SHA-256 is not known


def same_float32(one: float, other: float) -> bool:
    try:
        return same(struct.unpack("<f", struct.pack("<f", one))[0], struct.unpack("<f", struct.pack("<f", other))[0])
    except OverflowError:
        return one == other


def test_event_files_of_tensorboard(tmp_path: Path):
    truth = load_truth("tensorboard")
    report, runs = import_suite("tensorboard", tmp_path / "home", "logs")
    check_report(report)
    by_name = {run.header.name: run for run in runs.values()}
    assert by_name.keys() == {run["name"] for run in truth["runs"]}
    for expected in truth["runs"]:
        run = by_name[expected["name"]]
        check_points(run, expected, is_same=same_float32)
        check_params(run, expected)
        check_adaptations(run, expected, is_same=same_float32)
        assert run.status == "LOST"  # event files do not say how a run ended
        for name, text in expected.get("texts", {}).items():
            assert run.params[f"text.{name}"] == text
        for name, value in expected.get("hparam_metrics", {}).items():
            assert same_float32(run.points[name][0][1], value)
        assert repr(run.points["lr"][0][1]) in ("0.1", "3.0")  # the shortest decimal


def test_folders_of_sacred(tmp_path: Path):
    truth = load_truth("sacred")
    report, runs = import_suite("sacred", tmp_path / "home", "runs")
    check_report(report)
    by_id = {run_id.split("-")[-2]: run for run_id, run in runs.items()}
    statuses = {
        "COMPLETED": "FINISHED",
        "FAILED": "FAILED",
        "INTERRUPTED": "INTERRUPTED",
        "RUNNING": "LOST",
        None: "LOST",
    }
    assert by_id.keys() == {run["id"] for run in truth["runs"]}
    for expected in truth["runs"]:
        run = by_id[expected["id"]]
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.status == statuses[expected["status"]]
        assert abs(run.header.time - expected["start"]) < 30  # UTC, although the file names no zone
        if expected["error"]:
            assert run.end is not None
            assert expected["error"] in run.end.error[1]
        if expected.get("result") is not None:
            assert run.points["result"] == [(None, expected["result"])]
        for data in expected["datasets"]:  # sacred stores a copy of a resource, so its digest is known
            assert (run.datasets[data["name"]].sha256, run.datasets[data["name"]].size) == (
                data["sha256"],
                data["size"],
            )
        for file in expected["artifacts"]:
            assert run.files[file["path"]] == (file["sha256"], file["size"])


def test_folders_of_dvclive(tmp_path: Path):
    truth = load_truth("dvclive")
    report, runs = import_suite("dvclive", tmp_path / "home")
    check_report(report)
    by_name = {run.header.name: run for run in runs.values()}
    assert by_name.keys() == {Path(run["dir"]).name for run in truth["runs"]}
    for expected in truth["runs"]:
        run = by_name[Path(expected["dir"]).name]
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.status == "LOST"
    assert "times" in [remark.subject for remark in report.runs[0].losses.absent]


def test_tables_of_codecarbon(tmp_path: Path):
    truth = load_truth("codecarbon")
    report, runs = import_suite("codecarbon", tmp_path / "home")
    check_report(report)
    for expected in truth["runs"]:
        run = runs[expected["id"]]
        assert run.header.run_name == expected["name"]
        assert run.points["emissions"] == [(None, expected["emissions_kg"])]
        assert run.imported.version == truth["version"]
        assert run.status == "LOST"  # a row does not say how the run ended
        assert abs(run.header.time - expected["start"]) < 60


def test_buffers_of_flowcept(tmp_path: Path):
    truth = load_truth("flowcept")
    report, runs = import_suite("flowcept", tmp_path / "home")
    check_report(report)
    for expected in truth["runs"]:
        run = runs[expected["id"]]
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.kind == "epoch"
        assert run.status == expected["status_by_user"]  # not what the workflow says of itself
        assert {data["name"] for data in expected["datasets"]} <= run.datasets.keys()


def test_logs_of_provlake(tmp_path: Path):
    truth = load_truth("provlake")
    report, runs = import_suite("provlake", tmp_path / "home")
    check_report(report)
    by_name = {run.header.name: run for run in runs.values()}
    for expected in truth["runs"]:
        run = by_name[expected["name"]]
        run.points = {name: [(i, v) for i, v in points if i is not None] for name, points in run.points.items()}
        check_points(run, expected)
        check_params(run, expected)
        check_adaptations(run, expected)
        assert run.kind == "epoch"
        assert run.status == expected["status_by_user"]
    values = 0
    for file in (SUITES / "provlake").glob("*.log"):
        for line in file.read_text().splitlines():
            values += sum(len(message["prov_obj"].get("values") or {}) for message in json.loads(line))
    tallies = [tally for kind, tally in report.totals.tallies.items() if kind != OTHERS]
    assert sum(tally.source for tally in tallies) == values > 100, "each value is accounted for, not each message"


def test_events_of_openlineage(tmp_path: Path):
    truth = load_truth("openlineage")
    report, runs = import_suite("openlineage", tmp_path / "home")
    check_report(report)
    statuses = {"COMPLETE": "FINISHED", "FAIL": "FAILED", "ABORT": "KILLED", None: "LOST"}
    ids = {run["name"]: run["id"] for run in truth["runs"]}
    for expected in truth["runs"]:
        run = runs[expected["id"]]
        assert run.status == statuses.get(expected["status"], "LOST")
        assert run.header.parent_run == ids.get(expected["parent"], "")
        assert {data["name"] for data in expected["datasets"]} <= {data.name for data in run.datasets.values()}


SOURCES = ["wandb", "tensorboard", "sacred", "dvclive", "codecarbon", "flowcept", "provlake", "openlineage"]


@pytest.mark.parametrize("folder", SOURCES)
def test_every_source_is_recognised_valid_and_the_same_again(folder: str, tmp_path: Path):
    report, _ = import_suite(folder, tmp_path / "home")
    assert report.format == folder
    again, _ = import_suite(folder, tmp_path / "home")
    assert {run.result for run in again.runs} == {"unchanged"}
    with provml.open(tmp_path / "home") as store:
        assert store.verify() == []
        for run in report.runs[:1]:
            results = store.validate(run.id).results
            assert [result.message for result in results if result.severity == "Violation"] == []
