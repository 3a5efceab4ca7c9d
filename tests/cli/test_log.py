"""`provml log`: the events of a run as lines, also while it is running."""

from __future__ import annotations

import csv
import io
import json
import signal
import typing
from pathlib import Path

import pytest
from journal_events import read_events

from provml.cli.event_lines import EventFormatter
from provml.journal import events as event

from .helpers import TrainingProcess, damage_line, follow_log, invoke, output_of, read_until, start_python


def test_log_prints_one_line_per_epoch_and_the_end_of_the_run(recorded_home: Path):
    lines = [line.split("  ", 1)[1] for line in output_of(recorded_home, "log", "flowers-1").splitlines()]
    assert lines[0].startswith("flowers began, model alexnet, process")
    assert "gray-scale (preparation) began  tile=224" in lines
    assert "training began  learning_rate=0.001 optimizer=Adam epochs=12" in lines
    assert "training epoch 2 adapted  learning_rate=0.0005  (step decay, plateau, by bob)" in lines
    assert sum(line.startswith("training epoch ") and "2 batches" in line for line in lines) == 12
    assert any(line.endswith("loss=0.25 accuracy=NaN") for line in lines)
    assert not any("batch 1" in line for line in lines)
    assert lines[-1].startswith("FINISHED after ")


def test_log_of_a_failed_run_ends_with_the_exception(recorded_home: Path):
    assert output_of(recorded_home, "log", "broken-1").splitlines()[-1].endswith(": ValueError: bad batch")


def test_log_prints_batches_with_an_option_and_can_be_limited_to_the_last_lines(recorded_home: Path):
    assert "training epoch 1 batch 2" in output_of(recorded_home, "log", "flowers-1", "--batches")
    all_lines = output_of(recorded_home, "log", "flowers-1").splitlines()
    assert output_of(recorded_home, "log", "flowers-1", "-n", "3").splitlines() == all_lines[-3:]
    assert output_of(recorded_home, "log", "flowers-1", "-n", "0") == ""


def test_log_as_json_and_csv_has_every_event(recorded_home: Path):
    journal = next((recorded_home / "runs" / "flowers-1").glob("*.jsonl"))
    written = [json.loads(event.encode(item)) for item in read_events(journal)]
    logged = [
        json.loads(line) for line in output_of(recorded_home, "log", "flowers-1", "--format", "json").splitlines()
    ]
    assert [line["e"] for line in logged] == [item["e"] for item in written]
    assert all(item.items() <= line.items() for item, line in zip(written, logged, strict=True))
    assert {line["writer"] for line in logged} == {journal.stem}
    rows = list(csv.DictReader(io.StringIO(output_of(recorded_home, "log", "flowers-1", "--format", "csv"))))
    assert [row["event"] for row in rows] == [item["e"] for item in written]


def test_log_reports_a_damaged_line_and_prints_the_others(home: Path):
    journal = damage_line(home, 5)
    result = invoke(home, "log", "flowers-1")
    assert result.exit_code == 0
    assert f"{journal}:5: skipped a corrupted line" in result.stderr
    assert "FINISHED" in result.stdout
    assert "corrupted  1" in output_of(home, "status", "flowers-1")


def test_log_follow_prints_new_epochs_and_ends_with_the_training(home: Path, training: TrainingProcess):
    log = follow_log(home, "watched")
    assert f"watched began, model tiny, process {training.process.pid} on" in read_until(log, "training began")[0]
    training.run_epoch()
    assert "2 batches" in read_until(log, "training epoch 1")[-1]
    training.run_epoch()
    read_until(log, "training epoch 2")
    training.send("fail")
    output, error = log.communicate()
    assert output.splitlines()[-1].endswith("ValueError: no more memory")
    assert (log.returncode, error) == (0, "")


def test_log_follow_ends_when_the_training_is_killed(home: Path, training: TrainingProcess):
    log = follow_log(home, "watched", "-n", "1")
    read_until(log, "training began")
    training.run_half_an_epoch()
    training.kill()
    output, error = log.communicate()
    lines = [line.split("  ", 1)[1] for line in output.splitlines()]
    assert lines == [
        "training epoch 1  2 batches  loss=0.5  not ended",
        "KILLED: the process no longer exists and recorded no end",
    ]
    assert (log.returncode, error) == (0, "")


def test_ctrl_c_ends_log_follow_without_output(home: Path, training: TrainingProcess):
    log = follow_log(home, "watched")
    read_until(log, "training began")
    log.send_signal(signal.SIGINT)
    output, error = log.communicate()
    assert (output, error, log.returncode) == ("", "", 0)


def test_log_without_follow_ends_at_once_while_the_training_is_running(home: Path, training: TrainingProcess):
    training.run_half_an_epoch()
    assert output_of(home, "log", "watched").splitlines()[-1].endswith("training epoch 1  2 batches  loss=0.5  running")


def test_log_ends_silently_when_its_output_is_closed(recorded_home: Path):
    log = start_python("-m", "provml.cli", "log", "flowers-1", "--batches", "--home", str(recorded_home), stdin=None)
    assert log.stdout is not None
    assert log.stderr is not None
    log.stdout.close()
    assert log.stderr.read() == ""
    log.wait()
    log.stderr.close()


# Text that would break a line or control the terminal.
UNSAFE = "a\nb\x1b[2J\t花"
VALUES: event.Values = {UNSAFE: 1.0, "n": ["double", "NaN"], "t": ["@de", UNSAFE], "b": True, "s": UNSAFE}


@pytest.mark.parametrize("batches", [True, False])
def test_every_event_is_formatted_as_at_most_one_printable_line(batches: bool):
    events = [
        event.Header(version=1, run="r", writer="w", name=UNSAFE, time=1.0, model="m", host=UNSAFE, rank=3),
        event.Environment({"hostname": UNSAFE}, {}, {}),
        event.Workflow({UNSAFE: UNSAFE}),
        event.Data(UNSAFE, "dataset", UNSAFE, UNSAFE),
        event.Artifact(1.0, UNSAFE, UNSAFE, UNSAFE, 3, UNSAFE, UNSAFE),
        event.Produced("", UNSAFE),
        event.Begin("training", "training", 1.0, UNSAFE, values=VALUES),
        event.Begin("training/1", "epoch", 1.0, index=1),
        event.Measured("training/1/1", VALUES),
        event.BatchEnd("training/1/1", 2.0, 1.0),
        event.Measured("training/1", VALUES),
        event.Adapted("training/1", 2.0, VALUES, UNSAFE, UNSAFE, UNSAFE),
        event.Done("training/1", 2.0, 1.0, "FAILED", [UNSAFE, ""]),
        event.BatchEnd("unknown/1/1", 2.0, 1.0),
        event.Measured("unknown/7/9", VALUES),
        event.Measured("unknown/7", VALUES),
        event.Done("unknown/7", 2.0, -1.0),
        event.Parameter("training", VALUES),
        event.Used("training", "unknown", UNSAFE),
        event.Produced("training/1", UNSAFE, VALUES),
        event.Layers("training", [{"name": UNSAFE}]),
        event.Implementation("training", UNSAFE, UNSAFE, UNSAFE, UNSAFE, VALUES, UNSAFE),
        event.ExecutionDetails("training", UNSAFE, UNSAFE, UNSAFE, UNSAFE, UNSAFE),
        event.CaptureErrors(1, UNSAFE),
        event.Consumed("training", UNSAFE, 1.0, UNSAFE, UNSAFE, False, UNSAFE),
        event.Imported(1.0, UNSAFE, UNSAFE, UNSAFE, UNSAFE, UNSAFE, {UNSAFE: UNSAFE}, {UNSAFE: UNSAFE}),
        event.End(1e10, "FAILED", [UNSAFE, UNSAFE]),
    ]
    assert {type(item) for item in events} == set(typing.get_args(event.AnyEvent)) - {event.Batches}
    formatter = EventFormatter(batches=batches)
    for item in events:
        line = formatter.format(event.decode(event.encode(item).rstrip(b"\n")))
        assert line == "" or line.isprintable()
