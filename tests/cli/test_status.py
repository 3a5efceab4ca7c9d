"""`provml status`: finished, failed, running and killed runs, and runs of several processes."""

from __future__ import annotations

import os
from pathlib import Path

import provml
from provml.recording.run import record

from .helpers import TrainingProcess, error_of, json_of, output_of


def test_status_of_a_finished_run_has_its_last_measures(recorded_home: Path):
    status = json_of(recorded_home, "status", "flowers-1")
    assert (status["status"], status["capture_errors"], status["corrupted"], status["now"]) == ("FINISHED", 0, 0, [])
    latest = {(row["stage"], row["section"], row["measure"]): row["value"] for row in status["measures"]}
    assert latest[("training", 12, "loss")] == 0.5 / 12
    assert latest[("evaluation", None, "accuracy")] == 0.59
    assert len(status["writers"]) == 1


def test_status_of_a_failed_run_shows_the_exception(recorded_home: Path):
    assert "error     ValueError: bad batch" in output_of(recorded_home, "status", "broken-1").splitlines()


def test_status_is_running_during_a_training_and_killed_after_its_process_is_killed(
    home: Path, training: TrainingProcess
):
    training.run_epoch()
    training.run_half_an_epoch()
    status = json_of(home, "status", "watched")
    assert status["status"] == "RUNNING"
    assert status["now"] == [{"stage": "training", "section": 2, "of": 9, "batches": 2}]
    latest = {(row["section"], row["batch"]): row["value"] for row in status["measures"]}
    assert latest == {(1, None): 0.5, (2, 2): 0.5}
    assert "\nnow\n" in output_of(home, "status", "watched")
    assert json_of(home, "runs")[0]["status"] == "RUNNING"
    assert "the run is still running" in error_of(home, "remove", "watched", "--yes")
    training.kill()
    assert json_of(home, "status", "watched")["status"] == "KILLED"
    assert "\nnot ended\n" in output_of(home, "status", "watched")
    assert json_of(home, "runs")[0]["status"] == "KILLED"
    assert json_of(home, "show", "watched")["stages"][0]["status"] == "KILLED"


def test_status_and_log_count_the_capture_errors(home: Path):
    with record("odd", home=home, run="odd-1") as run, run.training() as stage:
        stage.measured(loss=object())
        stage.measured(loss=object())
    assert "errors    2" in output_of(home, "status", "odd-1")
    assert "2 capture errors: TypeError" in output_of(home, "log", "odd-1")


def test_all_capture_errors_are_listed_and_marked_in_the_list_of_runs(home: Path):
    with record("odd", home=home, run="odd-1") as run, run.training() as stage:
        for value in ("much", "much", object()):
            stage.measured(loss=value)
        stage.used("rows.csv")
    with record("even", home=home, run="even-1") as run:
        pass
    expected = [
        (2, "not the text 'much'"),
        (1, "must be a number, not a value of type object"),
        (1, "'rows.csv' (str) is not data of a run"),
    ]
    for command in ("status", "show"):
        report = json_of(home, command, "odd-1")
        assert (report["capture_errors"], report["lost_batches"]) == (4, 0)
        assert [row["count"] for row in report["errors"]] == [count for count, _ in expected]
        text = output_of(home, command, "odd-1")
        for row, (_, words) in zip(report["errors"], expected, strict=True):
            assert words in row["error"]
            assert words in text
    assert [row["capture_errors"] for row in json_of(home, "runs")[:2]] == [0, 4]
    listed = output_of(home, "runs").splitlines()
    assert ["4 capture errors" in line for line in listed if line.startswith(("odd-1", "even-1"))] == [False, True]
    with provml.open(home) as store:
        assert "FINISHED, 4 capture errors" in repr(store.run("odd-1"))
        assert store.run("odd-1").status == "FINISHED"


def test_the_errors_of_a_journal_without_messages_are_listed_by_the_first(home: Path):
    with record("old", home=home, run="old-1") as run, run.training() as stage:
        stage.measured(loss="much")
    (path,) = (home / "runs" / "old-1").glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    short = '{"e":"fault","count":7,"first":"TypeError: old"}\n'
    path.write_text("".join(short if '"fault"' in line else line for line in lines))
    for command in ("status", "show"):
        assert json_of(home, command, "old-1")["errors"] == [{"error": "TypeError: old", "count": None}]
    assert json_of(home, "runs")[0]["capture_errors"] == 7


def test_status_and_log_show_every_process_that_wrote(home: Path):
    with record("team", home=home, strict=True, run="team-1") as run, run.training() as stage:
        child = os.fork()
        if child == 0:
            stage.measured(hits=1.0)
            os._exit(0)
        os.waitpid(child, 0)
        stage.measured(loss=0.5)
    status = json_of(home, "status", "team-1")
    assert status["status"] == "FINISHED"
    assert {row["process"] for row in status["writers"]} == {os.getpid(), child}
    assert "writers" in output_of(home, "status", "team-1")
    logged = output_of(home, "log", "team-1")
    assert f"process {child} on" in logged
    assert "training  hits=1" in logged
