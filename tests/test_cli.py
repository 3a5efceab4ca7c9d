"""The commands on real homes: what they print, how they end, and a training watched while it goes on."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from click.testing import CliRunner, Result
from journals import told_in

from provml import event
from provml.cli import main
from provml.cli.narration import Narrator
from provml.cli.run import FORMS
from provml.recorder import record

COMMANDS = ["runs", "status", "show", "log", "export", "remove", "rebuild", "verify", "gc", "query"]

TRAINING = """
import sys
from provml.recorder import record

with record("watched", model="tiny", home=sys.argv[1], strict=True, run=sys.argv[2]) as run:
    with run.training(learning_rate=0.1, epochs=9) as training:
        print("ready", flush=True)
        for epoch, line in zip(training.epochs(9), sys.stdin):
            if line == "fail\\n":
                raise ValueError("no more memory")
            if line == "end\\n":
                break
            for batch in epoch.batches(range(2)):
                batch.measured(loss=1.0 / batch.index)
            if line == "half\\n":
                print("half", flush=True)
                sys.stdin.readline()
            epoch.measured(loss=0.5 / epoch.index)
            print("epoch", flush=True)
"""


def ask(home: Path | None, *arguments: str, text: str | None = None) -> Result:
    at = ["--home", str(home)] if home is not None else []
    return CliRunner().invoke(main, [*arguments, *at], input=text)


def good(home: Path, *arguments: str, text: str | None = None) -> str:
    done = ask(home, *arguments, text=text)
    assert done.exit_code == 0, done.output
    assert done.exception is None
    return done.stdout


def refused(home: Path | None, *arguments: str, code: int = 2) -> str:
    """What a command says that ends with a code, and not with a traceback."""
    done = ask(home, *arguments)
    assert done.exit_code == code, done.output
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    return done.stderr


def tell_flowers(home: Path, data: Path) -> None:
    """A small run with everything that the commands show."""
    raw_file, train_file, weights = data / "flowers.h5", data / "train.h5", data / "m.pt"
    raw_file.write_bytes(b"raw" * 100)
    train_file.write_bytes(b"train" * 100)
    weights.write_bytes(b"weights")
    with record("flowers", model="alexnet", home=home, strict=True, run="flowers-1") as run:
        raw = run.dataset(raw_file, role="raw")
        train = run.prepared(train_file, by="gray-scale", using=[raw], tile=224)
        with run.training(using=[train], learning_rate=0.001, optimizer="Adam", epochs=12) as training:
            training.layers([{"name": "conv1", "type": "Conv2D", "filters": 96, "parameter_count": 100}])
            for epoch in training.epochs(12):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=1.0 / (batch.index + epoch.index))
                epoch.measured(loss=9.0)
                epoch.measured(loss=0.5 / epoch.index, accuracy=float("nan"))
                if epoch.index == 2:
                    training.adapted(learning_rate=0.0005, technique="step decay", why="plateau", by="bob")
            model = training.produced(weights)
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.59)


def tell_failed(home: Path) -> None:
    with pytest.raises(ValueError), record("broken", home=home, strict=True, run="broken-1") as run, run.training():
        raise ValueError("bad\nbatch")


def test_a_step_is_shown_once_with_the_most_specific_of_its_kinds(tmp_path: Path):
    with record("steps", home=tmp_path / "home", strict=True) as run:
        raw = run.dataset(b"raw", role="raw")
        for step in (run.split, run.preparation, run.extraction, run.curation):
            step(using=raw).done()
        run.filter("gray", using=raw).done()
        run.step("other", using=raw).done()
    stages = json.loads(good(tmp_path / "home", "show", "--format", "json"))["stages"]
    assert [(stage["stage"], stage["kind"]) for stage in stages] == [
        ("split", "split"),
        ("preparation", "preparation"),
        ("extraction", "extraction"),
        ("curation", "curation"),
        ("gray", "filter"),
        ("other", "step"),
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished and a failed run, for commands that change nothing."""
    folder = tmp_path_factory.mktemp("kept")
    tell_flowers(folder / "home", folder)
    tell_failed(folder / "home")
    return folder / "home"


@pytest.fixture
def home(kept: Path, tmp_path: Path) -> Path:
    """A copy of that home, for commands that change it."""
    shutil.copytree(kept / "runs", tmp_path / "home" / "runs")
    return tmp_path / "home"


class Training:
    """A real training in the background that does one epoch for each line it gets."""

    def __init__(self, home: Path, run: str = "watched-1") -> None:
        self.process = start("-c", TRAINING, str(home), run)
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def epoch(self) -> None:
        self.say("go")
        assert self.read() == "epoch"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    given = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **more}
    return subprocess.Popen([sys.executable, *arguments], text=True, **given)


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def training(home: Path) -> Iterator[Training]:
    made = Training(home)
    yield made
    stop(made.process)


def follow(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return start("-m", "provml.cli", "log", "--follow", "--home", str(home), *arguments)


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines of a process up to the one with these words; the test hangs where it never comes."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came after {lines}")


# ---- runs


def test_runs_are_listed_the_latest_first(kept: Path):
    lines = good(kept, "runs").splitlines()
    assert lines[0].split() == ["run", "name", "model", "status", "started", "lasted", "events", "error"]
    assert lines[2].startswith("broken-1   broken   broken   FAILED")
    assert lines[2].endswith("ValueError: bad batch")
    assert lines[3].startswith("flowers-1  flowers  alexnet  FINISHED")


def test_runs_for_programs_have_exact_values(kept: Path):
    listed = json.loads(good(kept, "runs", "--format", "json"))
    assert [run["run"] for run in listed] == ["broken-1", "flowers-1"]
    assert listed[0]["error"] == "ValueError: bad\nbatch"
    assert isinstance(listed[1]["seconds"], float)
    rows = list(csv.DictReader(io.StringIO(good(kept, "runs", "--format", "csv"))))
    assert [(row["run"], row["status"]) for row in rows] == [("broken-1", "FAILED"), ("flowers-1", "FINISHED")]


def test_a_home_without_runs_says_so(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    assert good(tmp_path, "runs") == "No runs yet.\n"
    assert json.loads(good(tmp_path, "runs", "--format", "json")) == []


# ---- show


def test_show_tells_all_parts_of_a_run(kept: Path):
    shown = good(kept, "show", "flowers-1")
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


def test_show_has_the_last_value_of_a_measure_that_was_taken_twice(kept: Path):
    told = json.loads(good(kept, "show", "flowers-1", "--format", "json"))
    epochs = [row for row in told["measures"] if row["stage"] == "training"]
    assert [row["section"] for row in epochs] == list(range(1, 13))
    assert [row["loss"] for row in epochs] == [0.5 / number for number in range(1, 13)]
    assert epochs[0]["accuracy"] == "NaN"
    assert {row["accuracy"] for row in told["measures"] if row["stage"] == "evaluation"} == {0.59}
    assert told["datasets"][0]["bytes"] == 300
    assert len(told["models"][0]["sha256"]) == 64


def test_show_leaves_out_early_epochs_unless_asked(kept: Path):
    def epochs(*more: str) -> int:
        return sum(line.startswith("training  ") for line in good(kept, "show", "flowers-1", *more).splitlines())

    assert epochs("--all") == epochs() + 2


def test_a_measure_that_is_always_zero_is_shown_and_a_column_without_values_is_not(home: Path):
    with record("zero", home=home, strict=True, run="zero-1") as run, run.training() as stage:
        for epoch in stage.epochs(2):
            epoch.measured(hits=0.0)
    assert "stage     section  hits" in good(home, "show", "zero-1")
    assert "stage     section  measure  value" in good(home, "status", "zero-1")


def test_show_says_how_a_stage_failed(kept: Path):
    assert "training  training  FAILED" in good(kept, "show", "broken-1")
    stages = json.loads(good(kept, "show", "broken", "--format", "json"))["stages"]
    assert stages[0]["error"] == "ValueError: bad\nbatch"


def test_show_as_csv_has_a_value_a_line(kept: Path):
    rows = list(csv.DictReader(io.StringIO(good(kept, "show", "flowers-1", "--format", "csv"))))
    assert {"part": "run", "row": "", "name": "status", "value": "FINISHED"} in rows
    assert {"part": "adaptations", "row": "1", "name": "to", "value": "0.0005"} in rows


def test_a_run_is_found_by_the_beginning_or_end_of_its_id_by_its_iri_and_as_the_latest(kept: Path):
    for command in ("status", "show"):
        for given in ("flow", "rs-1", "https://w3id.org/provml/run/flowers-1"):
            assert json.loads(good(kept, command, given, "--format", "json"))["run"] == "flowers-1"
        for given in (["latest"], []):
            assert json.loads(good(kept, command, *given, "--format", "json"))["run"] == "broken-1"


# ---- status


def test_status_of_a_finished_run_has_its_last_measures(kept: Path):
    told = json.loads(good(kept, "status", "flowers-1", "--format", "json"))
    assert (told["status"], told["faults"], told["damaged"], told["now"]) == ("FINISHED", 0, 0, [])
    latest = {(row["stage"], row["section"], row["measure"]): row["value"] for row in told["measures"]}
    assert latest[("training", 12, "loss")] == 0.5 / 12
    assert latest[("evaluation", None, "accuracy")] == 0.59
    assert len(told["writers"]) == 1


def test_status_of_a_failed_run_has_the_exception(kept: Path):
    assert "error    ValueError: bad batch" in good(kept, "status", "broken-1").splitlines()


def test_status_of_a_training_is_true_while_it_goes_on_and_after_it_is_killed(home: Path, training: Training):
    training.epoch()
    training.say("half")
    assert training.read() == "half"
    told = json.loads(good(home, "status", "watched", "--format", "json"))
    assert told["status"] == "RUNNING"
    assert told["now"] == [{"stage": "training", "section": 2, "of": 9, "batches": 2}]
    latest = {(row["section"], row["batch"]): row["value"] for row in told["measures"]}
    assert latest == {(1, None): 0.5, (2, 2): 0.5}
    assert "\nnow\n" in good(home, "status", "watched")
    assert json.loads(good(home, "runs", "--format", "json"))[0]["status"] == "RUNNING"
    assert "goes on" in refused(home, "remove", "watched", "--yes")
    training.kill()
    assert json.loads(good(home, "status", "watched", "--format", "json"))["status"] == "KILLED"
    assert "\nnot ended\n" in good(home, "status", "watched")
    assert json.loads(good(home, "runs", "--format", "json"))[0]["status"] == "KILLED"
    assert json.loads(good(home, "show", "watched", "--format", "json"))["stages"][0]["status"] == "KILLED"


def test_status_counts_what_went_wrong_in_capture(home: Path):
    with record("odd", home=home, run="odd-1") as run, run.training() as stage:
        stage.measured(loss=object())
        stage.measured(loss=object())
    assert "faults   2, first with TypeError" in good(home, "status", "odd-1")
    assert "capture failed 2 times, first with TypeError" in good(home, "log", "odd-1")


def test_status_and_log_tell_every_process_that_wrote(home: Path):
    with record("team", home=home, strict=True, run="team-1") as run, run.training() as stage:
        child = os.fork()
        if child == 0:
            stage.measured(seen=1.0)
            os._exit(0)
        os.waitpid(child, 0)
        stage.measured(loss=0.5)
    told = json.loads(good(home, "status", "team-1", "--format", "json"))
    assert told["status"] == "FINISHED"
    assert {row["process"] for row in told["writers"]} == {os.getpid(), child}
    assert "writers" in good(home, "status", "team-1")
    logged = good(home, "log", "team-1")
    assert f"process {child} on" in logged
    assert "training  seen=1" in logged


# ---- log


def test_log_tells_an_epoch_a_line_and_how_it_ended(kept: Path):
    lines = [line.split("  ", 1)[1] for line in good(kept, "log", "flowers-1").splitlines()]
    assert lines[0].startswith("flowers began, model alexnet, process")
    assert "gray-scale (preparation) began  tile=224" in lines
    assert "training began  learning_rate=0.001 optimizer=Adam epochs=12" in lines
    assert "training epoch 2 adapted  learning_rate=0.0005  (step decay, plateau, by bob)" in lines
    assert sum(line.startswith("training epoch ") and "2 batches" in line for line in lines) == 12
    assert any(line.endswith("loss=0.25 accuracy=NaN") for line in lines)
    assert not any("batch 1" in line for line in lines)
    assert lines[-1].startswith("FINISHED after ")


def test_log_of_a_failed_run_ends_with_the_exception(kept: Path):
    assert good(kept, "log", "broken-1").splitlines()[-1].endswith(": ValueError: bad batch")


def test_log_tells_batches_where_asked_and_the_last_lines_only(kept: Path):
    assert "training epoch 1 batch 2" in good(kept, "log", "flowers-1", "--batches")
    whole = good(kept, "log", "flowers-1").splitlines()
    assert good(kept, "log", "flowers-1", "-n", "3").splitlines() == whole[-3:]
    assert good(kept, "log", "flowers-1", "-n", "0") == ""


def test_log_for_programs_has_every_event(kept: Path):
    journal = next((kept / "runs" / "flowers-1").glob("*.jsonl"))
    written = [json.loads(event.encode(what)) for what in told_in(journal)]
    told = [json.loads(line) for line in good(kept, "log", "flowers-1", "--format", "json").splitlines()]
    assert [line["e"] for line in told] == [one["e"] for one in written]
    assert all(one.items() <= line.items() for one, line in zip(written, told, strict=True))
    assert {line["writer"] for line in told} == {journal.stem}
    rows = list(csv.DictReader(io.StringIO(good(kept, "log", "flowers-1", "--format", "csv"))))
    assert [row["event"] for row in rows] == [one["e"] for one in written]


def test_log_names_a_damaged_line_and_tells_the_rest(home: Path):
    journal = damage(home, 5)
    done = ask(home, "log", "flowers-1")
    assert done.exit_code == 0
    assert f"{journal}:5: damaged line left out" in done.stderr
    assert "FINISHED" in done.stdout
    assert "damaged  1" in good(home, "status", "flowers-1")


def test_log_follows_a_training_and_ends_with_it(home: Path, training: Training):
    log = follow(home, "watched")
    assert f"watched began, model tiny, process {training.process.pid} on" in read_until(log, "training began")[0]
    training.epoch()
    assert "2 batches" in read_until(log, "training epoch 1")[-1]
    training.epoch()
    read_until(log, "training epoch 2")
    training.say("fail")
    said, wrong = log.communicate()
    assert said.splitlines()[-1].endswith("ValueError: no more memory")
    assert (log.returncode, wrong) == (0, "")


def test_log_ends_when_the_training_is_killed(home: Path, training: Training):
    log = follow(home, "watched", "-n", "1")
    read_until(log, "training began")
    training.say("half")
    assert training.read() == "half"
    training.kill()
    said, wrong = log.communicate()
    lines = [line.split("  ", 1)[1] for line in said.splitlines()]
    assert lines == ["training epoch 1  2 batches  loss=0.5  not ended", "KILLED: its process is gone and told no end"]
    assert (log.returncode, wrong) == (0, "")


def test_ctrl_c_ends_a_log_quietly(home: Path, training: Training):
    log = follow(home, "watched")
    read_until(log, "training began")
    log.send_signal(signal.SIGINT)
    said, wrong = log.communicate()
    assert (said, wrong, log.returncode) == ("", "", 0)


def test_log_of_a_training_that_goes_on_ends_at_once_without_follow(home: Path, training: Training):
    training.say("half")
    assert training.read() == "half"
    assert good(home, "log", "watched").splitlines()[-1].endswith("training epoch 1  2 batches  loss=0.5  under way")


def test_a_log_may_be_cut_off_by_its_reader(kept: Path):
    log = start("-m", "provml.cli", "log", "flowers-1", "--batches", "--home", str(kept), stdin=None)
    assert log.stdout is not None
    assert log.stderr is not None
    log.stdout.close()
    assert log.stderr.read() == ""
    log.wait()
    log.stderr.close()


NASTY = "a\nb\x1b[2J\t花"
NUMBERS: event.Values = {NASTY: 1.0, "n": ["double", "NaN"], "t": ["@de", NASTY], "b": True, "s": NASTY}


@pytest.mark.parametrize("batches", [True, False])
def test_every_event_is_told_in_at_most_one_harmless_line(batches: bool):
    known = [
        event.Run(v=1, run="r", writer="w", name=NASTY, t=1.0, model="m", host=NASTY, rank=3),
        event.Environment({"hostname": NASTY}, {}, {}),
        event.Workflow({NASTY: NASTY}),
        event.Data(NASTY, "dataset", NASTY, NASTY),
        event.Begin("training", "training", 1.0, NASTY, values=NUMBERS),
        event.Begin("training/1", "epoch", 1.0, index=1),
        event.Measured("training/1/1", NUMBERS),
        event.Batch("training/1/1", 2.0, 1.0),
        event.Measured("training/1", NUMBERS),
        event.Adapted("training/1", 2.0, NUMBERS, NASTY, NASTY, NASTY),
        event.Done("training/1", 2.0, 1.0, "FAILED", [NASTY, ""]),
        event.Batch("lost/1/1", 2.0, 1.0),
        event.Measured("lost/7/9", NUMBERS),
        event.Measured("lost/7", NUMBERS),
        event.Done("lost/7", 2.0, -1.0),
        event.Parameter("training", NUMBERS),
        event.Used("training", "unknown", NASTY),
        event.Produced("training/1", NASTY, NUMBERS),
        event.Layers("training", [{"name": NASTY}]),
        event.Implementation("training", NASTY, NASTY, NASTY, NASTY, NUMBERS, NASTY),
        event.Ran("training", NASTY, NASTY, NASTY, NASTY, NASTY),
        event.Fault(1, NASTY),
        event.End(1e10, "FAILED", [NASTY, NASTY]),
    ]
    assert {type(one) for one in known} == set(typing.get_args(event.AnyEvent)) - {event.Batches}, "each by itself"
    narrator = Narrator(batches=batches)
    for one in known:
        line = narrator.tell(event.decode(event.encode(one).rstrip(b"\n")))
        assert line == "" or line.isprintable()


# ---- export


@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_exported_as_rdf(kept: Path, tmp_path: Path, form: str):
    file = tmp_path / f"run.{form}"
    done = ask(kept, "export", "flowers-1", "-o", str(file))
    assert done.exit_code == 0, done.output
    quads = {
        quad.triple for quad in ox.parse(file.read_bytes(), format=ox.RdfFormat.from_extension(form) or JSON_LD)
    }  # fmt: skip
    assert f"{len(quads)} triples" in done.stderr
    shown = CliRunner().invoke(main, ["export", "flowers-1", "--format", form, "--home", str(kept)])
    assert shown.stdout_bytes == file.read_bytes()


JSON_LD = ox.RdfFormat.JSON_LD


def test_the_forms_of_the_command_are_those_of_the_store():
    from provml.store import export

    assert tuple(export.FORMS) == FORMS


def test_a_file_whose_ending_names_no_rdf_is_refused_unless_the_format_is_given(kept: Path, tmp_path: Path):
    said = refused(kept, "export", "flowers-1", "-o", str(tmp_path / "out.json"))
    assert "No RDF ends in .json. Let it end in one of nt, nq, ttl, trig, rdf, jsonld, or give --format." in said
    assert not list(tmp_path.iterdir())
    good(kept, "export", "flowers-1", "-o", str(tmp_path / "out.json"), "--format", "jsonld")
    assert "@context" in json.loads((tmp_path / "out.json").read_text())
    good(kept, "export", "flowers-1", "-o", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text().startswith("@prefix")


def test_all_runs_are_exported_together(kept: Path):
    whole = good(kept, "export", "--all", "--format", "nt")
    assert "<https://w3id.org/provml/run/broken-1>" in whole
    assert "<https://w3id.org/provml/run/flowers-1>" in whole
    assert "run/flowers-1>" not in good(kept, "export", "broken-1", "--format", "nt")


def test_an_export_that_fails_leaves_what_was_there(kept: Path, tmp_path: Path):
    file = tmp_path / "run.ttl"
    file.write_text("before")
    refused(kept, "export", "nobody", "-o", str(file))
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["run.ttl"]
    assert "no folder" in refused(kept, "export", "flowers-1", "-o", str(tmp_path / "nowhere" / "x.ttl"))


def test_an_export_keeps_the_mode_of_a_file_and_leaves_devices_where_they_are(kept: Path, tmp_path: Path):
    file, pipe = tmp_path / "run.ttl", tmp_path / "pipe"
    file.write_text("before")
    file.chmod(0o640)
    good(kept, "export", "broken-1", "-o", str(file))
    assert file.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reading = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    good(kept, "export", "broken-1", "-o", str(pipe), "--format", "ttl")
    assert reading.communicate()[0] == file.read_bytes()
    assert pipe.is_fifo()
    assert good(kept, "export", "broken-1", "-o", "-") == file.read_text()


def test_an_export_needs_a_run_or_all_and_not_both(kept: Path):
    assert "Name a run, or give --all" in refused(kept, "export")
    assert "Name a run, or give --all" in refused(kept, "export", "flowers-1", "--all")


# ---- remove, rebuild, verify


def test_remove_asks_first(home: Path):
    asked = ask(home, "remove", "flowers-1", text="n\n")
    assert asked.exit_code == 1
    assert "Remove run flowers-1 (flowers, FINISHED," in asked.stderr
    assert ask(home, "remove", "flowers-1", text="").exit_code == 1
    assert (home / "runs" / "flowers-1").is_dir()
    assert good(home, "remove", "flowers-1", text="y\n").endswith("removed flowers-1\n")
    assert not (home / "runs" / "flowers-1").exists()
    assert "flowers-1" not in good(home, "export", "--all", "--format", "nt")
    assert good(home, "remove", "broken-1", "--yes") == "removed broken-1\n"
    assert good(home, "runs") == "No runs yet.\n"


def test_several_runs_are_removed_at_once_or_none_of_them(home: Path):
    assert "There is no run 'nope'" in refused(home, "remove", "flowers-1", "nope", "-y")
    assert ask(home, "remove", "flowers-1", "broken-1", text="y\nn\n").exit_code == 1
    assert len(json.loads(good(home, "runs", "--format", "json"))) == 2
    assert good(home, "remove", "broken-1", "flo", "-y") == "removed broken-1\nremoved flowers-1\n"
    assert good(home, "runs") == "No runs yet.\n"


def test_an_index_that_is_gone_is_made_again(home: Path):
    before = good(home, "export", "--all", "--format", "nt")
    events = sum(run["events"] for run in json.loads(good(home, "runs", "--format", "json")))
    shutil.rmtree(home / "index")
    assert good(home, "rebuild") == f"index made anew from {events} events\n"
    assert good(home, "export", "--all", "--format", "nt") == before


def damage(home: Path, line: int) -> Path:
    """Spoil one line of the journal of flowers."""
    journal = next((home / "runs" / "flowers-1").glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[line - 1] = b'{"e":"done","at":\n'
    journal.write_bytes(b"".join(lines))
    return journal


def test_verify_is_content_with_whole_journals(kept: Path):
    assert good(kept, "verify") == "2 journals read: nothing is damaged\n"
    assert json.loads(good(kept, "verify", "--format", "json")) == []


def test_verify_points_at_the_damaged_line_and_ends_with_one(home: Path):
    journal = damage(home, 7)
    done = ask(home, "verify")
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{journal}:7: ")
    assert "1 damaged line" in done.stderr
    as_json = ask(home, "verify", "--format", "json")
    assert as_json.exit_code == 1
    assert [(row["file"], row["line"]) for row in json.loads(as_json.stdout)] == [(str(journal), 7)]


# ---- several processes, and what they leave

READER = """
import sys
from provml.store import Store

store = Store(sys.argv[1])
store.sync()
store._index.leave_snapshot()
print(store._index.folder, flush=True)
sys.stdin.readline()
"""


Readers = Callable[[Path], tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def reader() -> Iterator[Readers]:
    """Starts processes that have the index open, or a copy of it, and tells where."""
    started = []

    def begin(home: Path) -> tuple[subprocess.Popen[str], Path]:
        process = start("-c", READER, str(home))
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield begin
    for process in started:
        stop(process)


def test_commands_answer_while_another_process_holds_the_index(home: Path, reader: Readers):
    indexer, _ = reader(home)
    with record("late", home=home, strict=True, run="late-1"):
        pass
    assert json.loads(good(home, "runs", "--format", "json"))[0]["run"] == "late-1"
    assert json.loads(good(home, "show", "flowers-1", "--format", "json"))["status"] == "FINISHED"
    assert "late-1" in good(home, "query", LOSSES)
    assert "another process" in refused(home, "rebuild")
    assert good(home, "remove", "flowers-1", "--yes") == "removed flowers-1\n"
    assert "flowers-1" not in good(home, "query", LOSSES)
    stop(indexer)
    assert "flowers-1" not in good(home, "query", LOSSES)


def test_gc_removes_old_logs_of_the_index(home: Path):
    good(home, "runs")
    log = home / "index" / "store" / "LOG.old.1700000000000000"
    log.write_bytes(b"x" * 2000)
    found = json.loads(good(home, "gc", "--dry-run", "--format", "json"))
    assert found == [{"path": str(log), "bytes": 2000}]
    assert log.exists()
    good(home, "gc")
    assert not log.exists()
    assert (home / "index" / "store" / "LOG").exists()


def test_gc_removes_what_the_dead_left_and_nothing_that_is_used(
    home: Path, reader: Readers, monkeypatch: pytest.MonkeyPatch
):
    good(home, "rebuild")
    indexer, _ = reader(home)
    dead, leftover = reader(home)
    alive, copy = reader(home)
    assert leftover.name.startswith("reader-")
    stop(dead)
    half = _folder(home / "index" / "snapshot" / "99.part")
    assert "nothing is left over" in good(home, "gc")
    monkeypatch.setattr("provml.store.gc.FRESH", 0.0)
    assert str(leftover) in good(home, "gc", "--dry-run")
    assert leftover.is_dir()
    assert [row["path"] for row in json.loads(good(home, "gc", "--format", "json"))] == [str(leftover)]
    assert not leftover.exists()
    assert copy.is_dir()
    assert half.is_dir()
    stop(indexer)
    stop(alive)
    part = _folder(home / "added") / "x.part"
    part.write_bytes(b"half")
    writing = home / "index" / f"progress.{dead.pid}"
    writing.write_bytes(b"half")
    going = _folder(home / "removed-1234")
    said = good(home, "gc")
    assert all(str(path) in said for path in (copy, half, part, writing, going))
    assert not any(path.exists() for path in (copy, half, part, writing, going))
    assert len(list((home / "index" / "snapshot").iterdir())) == 1
    shutil.rmtree(home / "index" / "store")
    good(home, "gc")
    assert list((home / "index" / "snapshot").iterdir()) == []
    assert json.loads(good(home, "runs", "--format", "json"))[1]["run"] == "flowers-1"


# ---- query

LOSSES = "SELECT ?run ?status { ?run a provml:LearningProcessExecution ; provlake:status ?status } ORDER BY ?run"


def test_a_query_is_given_as_text_as_a_file_or_on_the_input(kept: Path, tmp_path: Path):
    file = tmp_path / "status.rq"
    file.write_text(LOSSES)
    plain = tmp_path / "query.txt"
    plain.write_text(LOSSES)
    table = good(kept, "query", LOSSES)
    assert table.splitlines()[2:] == ["run/broken-1   FAILED", "run/flowers-1  FINISHED"]
    assert good(kept, "query", str(file)) == table
    assert good(kept, "query", str(plain)) == table
    assert good(kept, "query", "-", text=LOSSES) == table
    held = json.loads(good(kept, "query", LOSSES, "--format", "json"))
    assert held[0] == {"run": "https://w3id.org/provml/run/broken-1", "status": "FAILED"}
    assert good(kept, "query", LOSSES, "--format", "csv").startswith("run,status\n")


def test_yes_or_no_and_triples_are_answers_too(kept: Path):
    assert good(kept, "query", "ASK { ?x a provml:Model }") == "true\n"
    assert good(kept, "query", "ASK { ?x a provml:Nothing }") == "false\n"
    assert good(kept, "query", "SELECT ?x { ?x a provml:Nothing }") == "No rows.\n"
    built = good(kept, "query", "CONSTRUCT { ?x a prov:Plan } WHERE { ?x a provml:Training }", "--format", "json")
    assert json.loads(built)[0]["predicate"].endswith("#type")


def test_wrong_queries_are_refused_with_the_reason(kept: Path, tmp_path: Path):
    assert "The query cannot be run" in refused(kept, "query", "SELECT nonsense {")
    assert "The query cannot be run" in refused(kept, "query", "INSERT DATA { <a:b> <a:c> <a:d> }")
    assert "nowhere.rq: no such file" in refused(kept, "query", "nowhere.rq")
    assert "queries/nowhere: no such file" in refused(kept, "query", "queries/nowhere")
    (tmp_path / "nothing.rq").write_text("# a note\n")
    for nothing in ("", "  ", "# a note", "PREFIX ex: <http://example.org/#>\n# no more", str(tmp_path / "nothing.rq")):
        assert "There is no query. Give one, such as 'SELECT" in refused(kept, "query", nothing)
    binary = tmp_path / "x.rq"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not text in UTF-8" in refused(kept, "query", str(binary))
    assert "it is a folder" in refused(kept, "query", str(_folder(tmp_path / "y.rq")))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


# ---- wrong input everywhere

NEEDED = {"export": ["--all"], "remove": ["x", "--yes"], "query": [LOSSES]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_is_not_there_is_refused_and_not_made(command: str, tmp_path: Path):
    missing, file, other = tmp_path / "missing", tmp_path / "file", _folder(tmp_path / "other")
    file.write_text("")
    arguments = [command, *NEEDED.get(command, [])]
    assert f"{missing}: there is no such home" in refused(missing, *arguments)
    assert not missing.exists()
    assert f"{file}: it is a file" in refused(file, *arguments)
    assert "no run was ever kept in it" in refused(other, *arguments)
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
@pytest.mark.parametrize("given", ["nobody", "../flowers-1", "*"])
def test_a_run_that_is_not_there_is_refused_with_those_that_are(command: str, given: str, kept: Path):
    said = refused(kept, command, given)
    assert "flowers-1" in said
    assert (kept / "runs" / "flowers-1").is_dir()


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
def test_a_run_without_a_name_is_refused_even_where_there_is_only_one(command: str, tmp_path: Path):
    tell_failed(tmp_path)
    assert "Name a run" in refused(tmp_path, command, "")
    assert (tmp_path / "runs" / "broken-1").is_dir()


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
def test_a_run_named_by_too_little_is_refused(command: str, kept: Path):
    assert "fits more than one run" in refused(kept, command, "1")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_or_format_is_refused(command: str, kept: Path):
    assert "No such option" in refused(kept, command, *NEEDED.get(command, []), "--nonsense")
    if command not in ("remove", "rebuild"):
        assert "is not one of" in refused(kept, command, *NEEDED.get(command, []), "--format", "xlsx")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "remove"])
def test_too_many_arguments_are_refused(command: str, kept: Path):
    refused(kept, command, "flowers-1", "flowers-1")


def test_wrong_numbers_and_missing_arguments_are_refused(kept: Path):
    assert "-1" in refused(kept, "log", "flowers-1", "-n", "-1")
    assert "Missing argument" in refused(kept, "remove")
    assert "Missing argument" in refused(kept, "query")


def test_a_journal_of_a_newer_provml_is_refused_with_what_to_do(home: Path):
    journal = next((home / "runs" / "flowers-1").glob("*.jsonl"))
    journal.write_bytes(journal.read_bytes().replace(b'"v":%d' % event.VERSION, b'"v":999', 1))
    for command in ("log", "status"):
        said = refused(home, command, "flowers-1")
        assert f"{journal}:1: " in said
        assert "Upgrade provml" in said
    assert json.loads(good(home, "status", "latest", "--format", "json"))["run"] == "broken-1"
    verified = ask(home, "verify")
    assert f"{journal}: it is of version 999" in verified.stdout
    assert "upgrade provml" in verified.stdout
    assert verified.stderr == "2 journals read: 1 file left out\n"


def test_verify_counts_damaged_lines_apart_from_files_that_are_left_out(home: Path):
    for name in ("newer", "newest"):
        path = home / "runs" / name / "main.jsonl"
        path.parent.mkdir()
        path.write_bytes(event.encode(event.Run(event.VERSION + 1, name, "main", name, 1.7e9)))
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    assert ask(home, "verify").stderr == "4 journals read: 1 damaged line, 2 files left out\n"


def test_whoever_lists_runs_is_told_that_something_was_not_taken_in(home: Path):
    path = home / "runs" / "newer" / "main.jsonl"
    path.parent.mkdir()
    path.write_bytes(event.encode(event.Run(event.VERSION + 1, "newer", "main", "newer", 1.7e9)))
    assert ask(home, "runs").stderr == "provml: not all could be taken in (1 place); provml verify tells what\n"
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    told = ask(home, "show", "flowers-1")
    assert told.stderr == "provml: not all could be taken in (2 places); provml verify tells what\n"
    assert told.exit_code == 0
    assert len(ask(home, "verify").stdout.splitlines()) == 2


def test_times_and_endings_that_cannot_be_are_damaged_lines_of_a_log(home: Path):
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b'{"e":"end","t":1e300}\n{"e":"end","t":1.0,"status":"FINISHEX"}\n')
    done = ask(home, "log", "flowers-1")
    assert done.exit_code == 0
    assert done.stderr.count("damaged line left out") == 2
    assert json.loads(good(home, "status", "flowers-1", "--format", "json"))["status"] == "FINISHED"


def test_a_journal_that_cannot_be_read_is_named_by_status_and_log(home: Path):
    (home / "runs" / "flowers-1" / "other.jsonl").symlink_to("/proc/self/mem")
    told = json.loads(good(home, "status", "flowers-1", "--format", "json"))
    assert (told["status"], told["damaged"]) == ("FINISHED", 1)
    assert json.loads(good(home, "status", "--format", "json"))["run"] == "broken-1"
    assert "other.jsonl: left out: input/output error" in ask(home, "log", "flowers-1").stderr


def test_what_the_system_refuses_is_a_message(home: Path):
    assert "file name too long. Check it and try again." in refused(home / ("x" * 300), "runs")


def test_what_is_called_like_a_journal_and_is_none_is_passed_over(home: Path):
    (home / "runs" / "flowers-1" / "folder.jsonl").mkdir()
    (home / "runs" / "flowers-1" / "dangling.jsonl").symlink_to(home / "nowhere")
    assert "FINISHED" in good(home, "log", "flowers-1")
    assert "FINISHED" in good(home, "runs")
    assert "nothing is damaged" in good(home, "verify")


# ---- the terminal


def test_help_loads_no_store():
    program = "import sys\nfrom provml.cli import main\nmain(['--help'], standalone_mode=False)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "provml.cli" in loaded
    assert not loaded & {"pyoxigraph", "provml.vocab", "provml.store", "msgspec", "numpy", "rdflib"}


def test_status_and_log_of_a_training_that_goes_on_load_no_store(home: Path, training: Training):
    program = "import sys\nfrom provml.cli import main\nmain(sys.argv[1:], standalone_mode=False)\nprint(*sys.modules)"
    for command in ("status", "log"):
        done = subprocess.run(
            [sys.executable, "-c", program, command, "--home", str(home)], capture_output=True, text=True, check=True
        )
        assert "watched" in done.stdout
        assert not set(done.stdout.splitlines()[-1].split()) & {"pyoxigraph", "provml.vocab", "provml.store"}


def test_the_home_of_the_environment_is_used(kept: Path):
    done = CliRunner().invoke(main, ["runs", "--format", "json"], env={"PROVML_HOME": str(kept)})
    assert len(json.loads(done.stdout)) == 2


def test_the_shell_completes_commands_and_runs(kept: Path):
    def completed(words: str, index: int) -> str:
        told = {"_PROVML_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
        program = "from provml.cli import main; main(prog_name='provml')"
        environment = {**os.environ, **told, "PROVML_HOME": str(kept)}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout

    assert completed("provml re", 1).split() == ["plain,rebuild", "plain,remove"]
    assert completed("provml show flo", 2).split() == ["plain,flowers-1"]
    assert completed("provml log ", 2).split() == ["plain,flowers-1", "plain,broken-1", "plain,latest"]


BAR = "import sys\nfrom provml.cli import door, main\ndoor.LONG = 10\nmain(sys.argv[1:], prog_name='provml')"


@pytest.mark.parametrize("command", ["runs", "rebuild"])
def test_a_bar_is_shown_on_a_terminal_only(command: str, home: Path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    arguments = ["-c", BAR, command, "--home", str(home)]
    shown = start(*arguments, stderr=theirs, env=environment)
    said, _ = shown.communicate()
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert shown.returncode == 0
    assert "100%" in drawn or "/" in drawn
    assert "#" in drawn
    assert "#" not in said
    shutil.rmtree(home / "index")
    silent = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert silent.stderr == ""


def test_a_text_that_the_terminal_lacks_is_no_error(home: Path):
    with record("blüte 花", home=home, strict=True, run="odd-1"):
        pass
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    arguments = [sys.executable, "-m", "provml.cli", "log", "odd", "--home", str(home)]
    done = subprocess.run(arguments, env=environment, capture_output=True, check=True)
    assert "blüte ? began" in done.stdout.decode("latin-1")
