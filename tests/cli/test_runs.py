"""`provml runs` and `provml show`: the runs of a home, and all parts of one run."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

from provml.recording.run import record

from .helpers import json_of, output_of


def test_runs_lists_the_latest_run_first(recorded_home: Path):
    lines = output_of(recorded_home, "runs").splitlines()
    assert lines[0].split() == [
        *("run", "name", "model", "status", "started", "duration"),
        *("epochs", "learning_rate", "optimizer", "test_accuracy", "train_accuracy", "train_loss", "error"),
    ]
    assert lines[2].startswith("broken-1   broken   broken   FAILED")
    assert lines[2].endswith("ValueError: bad batch")
    assert lines[3].startswith("flowers-1  flowers  alexnet  FINISHED")


def test_runs_as_json_and_csv_have_exact_values(recorded_home: Path):
    listed = json_of(recorded_home, "runs")
    assert [run["run"] for run in listed] == ["broken-1", "flowers-1"]
    assert listed[0]["error"] == "ValueError: bad\nbatch"
    assert isinstance(listed[1]["seconds"], float)
    rows = list(csv.DictReader(io.StringIO(output_of(recorded_home, "runs", "--format", "csv"))))
    assert [(row["run"], row["status"]) for row in rows] == [("broken-1", "FAILED"), ("flowers-1", "FINISHED")]


def test_runs_of_an_empty_home_says_that_there_are_none(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    assert output_of(tmp_path, "runs") == "No runs yet.\n"
    assert json_of(tmp_path, "runs") == []


def test_show_prints_all_parts_of_a_run(recorded_home: Path):
    shown = output_of(recorded_home, "show", "flowers-1")
    parts = shown.split("\n\n")
    titles = [part.splitlines()[0] for part in parts[1:]]
    assert titles == [
        *("stages", "hyperparameters", "measures (2 earlier: --all)"),
        *("adaptations", "datasets", "models", "environment"),
    ]
    assert "gray-scale  preparation  FINISHED" in parts[1]
    assert "training    learning_rate  0.001" in parts[2]
    assert "filters" not in parts[2]
    assert "training 2  learning_rate   0.001  0.0005  step decay  plateau  bob" in parts[4]
    assert "used by gray-scale  raw" in parts[5]
    assert "alexnet  training" in parts[6]


def test_show_has_the_last_value_of_a_measure_that_was_recorded_twice(recorded_home: Path):
    report = json_of(recorded_home, "show", "flowers-1")
    epochs = [row for row in report["measures"] if row["stage"] == "training"]
    assert [row["section"] for row in epochs] == list(range(1, 13))
    assert [row["loss"] for row in epochs] == [0.5 / number for number in range(1, 13)]
    assert epochs[0]["accuracy"] == "NaN"
    assert {row["accuracy"] for row in report["measures"] if row["stage"] == "evaluation"} == {0.59}
    assert report["datasets"][0]["bytes"] == 300
    assert len(report["models"][0]["sha256"]) == 64


def test_show_omits_early_epochs_without_all(recorded_home: Path):
    def count_epochs(*options: str) -> int:
        lines = output_of(recorded_home, "show", "flowers-1", *options).splitlines()
        return sum(line.startswith("training  ") for line in lines)

    assert count_epochs("--all") == count_epochs() + 2


def test_show_and_status_print_a_measure_that_is_always_zero_but_no_empty_column(home: Path):
    with record("zero", home=home, strict=True, run="zero-1") as run, run.training() as stage:
        for epoch in stage.epochs(2):
            epoch.measured(hits=0.0)
    assert "stage     section  hits" in output_of(home, "show", "zero-1")
    assert "stage     section  measure  value" in output_of(home, "status", "zero-1")


def test_show_prints_the_error_of_a_failed_stage(recorded_home: Path):
    assert "training  training  FAILED" in output_of(recorded_home, "show", "broken-1")
    stages = json_of(recorded_home, "show", "broken")["stages"]
    assert stages[0]["error"] == "ValueError: bad\nbatch"


def test_show_as_csv_has_one_value_per_line(recorded_home: Path):
    rows = list(csv.DictReader(io.StringIO(output_of(recorded_home, "show", "flowers-1", "--format", "csv"))))
    assert {"part": "run", "row": "", "name": "status", "value": "FINISHED"} in rows
    assert {"part": "adaptations", "row": "1", "name": "to", "value": "0.0005"} in rows


def test_a_run_can_be_named_by_the_start_or_end_of_its_id_by_its_iri_or_as_latest(recorded_home: Path):
    for command in ("status", "show"):
        for name in ("flow", "rs-1", "https://w3id.org/provml/run/flowers-1"):
            assert json_of(recorded_home, command, name)["run"] == "flowers-1"
        for arguments in (["latest"], []):
            assert json_of(recorded_home, command, *arguments)["run"] == "broken-1"


def test_show_lists_a_step_once_with_its_most_specific_kind(tmp_path: Path):
    with record("steps", home=tmp_path / "home", strict=True) as run:
        raw = run.dataset(b"raw", role="raw")
        for step in (run.split, run.preparation, run.extraction, run.curation):
            step(using=raw).done()
        run.filter("gray", using=raw).done()
        run.step("other", using=raw).done()
    stages = json_of(tmp_path / "home", "show")["stages"]
    assert [(stage["stage"], stage["kind"]) for stage in stages] == [
        ("split", "split"),
        ("preparation", "preparation"),
        ("extraction", "extraction"),
        ("curation", "curation"),
        ("gray", "filter"),
        ("other", "step"),
    ]


def test_show_lists_each_file_of_a_model_with_its_own_digest(tmp_path: Path):
    files = [tmp_path / "checkpoint.pt", tmp_path / "weights.pt"]
    for file in files:
        file.write_text(f"weights in {file.name}")
    with record("m", home=tmp_path, capture_environment=False) as run, run.training() as training:
        run.saved(training.produced(files[0]), files[1])
    rows = {(row["path"], row["sha256"], row["bytes"]) for row in json_of(tmp_path, "show")["models"]}
    assert rows == {(str(file), hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size) for file in files}


def test_show_lists_data_with_all_its_names(tmp_path: Path):
    """Two data of one content are one; the journal does not say under which name a stage used it."""
    with record("m", run="r1", home=tmp_path, capture_environment=False) as run:
        with run.split() as split:
            names = ("training", "validation")
            parts = [split.produced(b"same", name=name, role=name, kind="dataset") for name in names]
        with run.training(using=parts) as training, training.epoch(1) as epoch:
            epoch.used(run.dataset(b"more", name="more"), role="training")
    rows = [(row["dataset"], row["where"], row["role"]) for row in json_of(tmp_path, "show")["datasets"]]
    assert rows == [
        ("training", "made by split", None),
        ("validation", "made by split", None),
        ("more", "used by training", "training"),
        ("training, validation", "used by training", "training"),
        ("training, validation", "used by training", "validation"),
    ]
