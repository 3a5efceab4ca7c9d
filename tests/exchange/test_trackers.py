"""Files of other trackers: what the real tools wrote comes in value by value, and nothing is claimed beyond it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from .truth import check_adaptations, check_params, check_points, check_report, import_suite, load_truth, same


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


@pytest.mark.parametrize("folder", ["wandb", "tensorboard"])
def test_a_second_import_is_unchanged(folder: str, tmp_path: Path):
    import_suite(folder, tmp_path / "home")
    report, _ = import_suite(folder, tmp_path / "home")
    assert {run.result for run in report.runs} == {"unchanged"}
