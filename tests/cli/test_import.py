"""`provml import`: runs of other tools become runs of a home, and the command says what was imported."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import pytest
from exchange.test_dnnprov import EPOCHS, HEAD, SETTINGS, dump, table

from provml.cli import importing
from provml.exchange import importing as importing_module

from .helpers import error_of, invoke, json_of, output_of


def test_the_imported_runs_are_listed_and_can_be_used(tmp_path: Path):
    home = tmp_path / "home"
    output = output_of(home, "import", str(dump(tmp_path)), "--model", "alexnet")
    lines = output.splitlines()
    assert lines[0].split() == ["run", "name", "model", "epochs", "measures", "result"]
    run = lines[2].split()[0]
    assert lines[2].split()[1:] == ["net", "alexnet", "3", "5", "new"]
    assert "dump.sql (dfanalyzer): imported 2 runs with 4 epochs" in lines
    assert {row["run"] for row in json_of(home, "runs")} == {run, lines[3].split()[0]}
    assert "learning_rate" in output_of(home, "show", run)
    assert "imported by dnnprov" in output_of(home, "log", run)
    assert json_of(home, "ask", "q1", "--model", "alexnet", "--run", run, "--epoch", "2")[0]["value"] == 0.5
    assert "conforms" in output_of(home, "validate", run)
    assert "prov:" in output_of(home, "export", run)
    assert "no problems" in output_of(home, "verify")


def test_importing_twice_adds_nothing(tmp_path: Path):
    path = str(dump(tmp_path))
    output_of(tmp_path / "home", "import", path)
    output = output_of(tmp_path / "home", "import", path, "--as", "dfanalyzer")
    assert "dump.sql (dfanalyzer): imported 0 runs with 0 epochs; 2 runs already here" in output.splitlines()
    assert len(json_of(tmp_path / "home", "runs")) == 2


def test_skipped_parts_and_notes_are_listed(tmp_path: Path):
    text = SETTINGS + EPOCHS.replace("|0.25|1", "|0.25|112") + table("isolver", "id", "1", schema="flow")
    path = str(dump(tmp_path, text))
    lines = output_of(tmp_path / "home", "import", path).splitlines()
    assert "dump.sql (dfanalyzer): imported 1 run with 2 epochs; 2 parts skipped" in lines
    assert any("the dump has an epoch 112 after 0" in line for line in lines)
    assert "skipped flow.ds_isolver: 1 row of a table that is no part of a training" in lines
    assert "skipped flow: the dataflow has no training" in lines
    rows = json.loads(invoke(tmp_path / "other", "import", path, "--format", "json").stdout)
    assert [(row["name"], row["result"]) for row in rows] == [
        ("net", "new"),
        ("flow.ds_isolver", "skipped"),
        ("flow", "skipped"),
    ]
    assert rows[2]["note"] == "the dataflow has no training"
    listed = csv.DictReader(io.StringIO(output_of(tmp_path / "third", "import", path, "--format", "csv")))
    assert [row["epochs"] for row in listed] == ["2", "", ""]


def test_wrong_input_is_an_error_in_one_sentence(tmp_path: Path):
    home = tmp_path / "home"
    (tmp_path / "notes.txt").write_text("no dump")
    damaged = dump(tmp_path, HEAD.replace("\t0.5\t0.75\t1", "\thalf\t0.75\t1"))
    for source, arguments, message in (
        (tmp_path / "none.sql", (), "none.sql: no such file or directory. Check the path."),
        (
            tmp_path / "notes.txt",
            (),
            "notes.txt: the format is not recognised. Name it with --as. Formats: bundle, home, dfanalyzer, ",
        ),
        (tmp_path, (), "the format is not recognised"),
        (damaged, ("--as", "excel"), "dump.sql: unknown format 'excel'. Formats: bundle, home, dfanalyzer, "),
        (damaged, (), "dump.sql:47: loss is not a number ('half'). Create the dump again, or fix the row."),
    ):
        error = error_of(home, "import", str(source), *arguments)
        assert message in error
        assert error.count("\n") == 1
    assert not home.exists()


def test_the_exit_code_is_1_if_no_run_could_be_imported(tmp_path: Path):
    path = dump(tmp_path, SETTINGS + EPOCHS.replace("|0.25|1", "|0.25|0"))
    result = invoke(tmp_path / "home", "import", str(path))
    assert result.exit_code == 1
    assert "imported 0 runs" in result.stdout
    assert "so two ran at the same time" in result.stdout


def test_a_large_file_has_a_progress_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with importing.progress(dump(tmp_path), min_bytes=100) as report:
        assert report is not None
        report(dump(tmp_path).stat().st_size)
    assert "reading" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    with importing.progress(tmp_path / "none.sql") as report:
        assert report is None


def test_the_report_is_written_as_json(tmp_path: Path):
    folder = tmp_path / "live" / "plots" / "metrics"
    folder.mkdir(parents=True)
    (folder / "loss.tsv").write_text("step\tloss\n0\t2.0\n1\t1.0\n")
    output = output_of(tmp_path / "home", "import", str(tmp_path / "live"), "--report", str(tmp_path / "report.json"))
    assert "metric points: 2 in the source; 2 kept" in output
    assert "not in the source: times" in output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["totals"]["metric points"] == {"source": 2, "kept": 2, "guessed": 0, "not_representable": 0}


def test_the_time_of_an_import_is_no_time_of_the_run(tmp_path: Path):
    folder = tmp_path / "live" / "plots" / "metrics"
    folder.mkdir(parents=True)
    (folder / "loss.tsv").write_text("step\tloss\n0\t2.0\n")
    os.utime(folder / "loss.tsv", (1_700_000_000, 1_700_000_000))
    output_of(tmp_path / "home", "import", str(tmp_path / "live"))
    lines = output_of(tmp_path / "home", "log", "latest").splitlines()
    [number] = [number for number, line in enumerate(lines) if "imported from live" in line]
    assert lines[number].split()[0] == lines[0].split()[0]


def test_a_source_is_followed_until_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importing_module.time, "sleep", interrupt)
    output = output_of(tmp_path / "home", "import", str(dump(tmp_path)), "--follow")
    assert output.splitlines() == ["dump.sql (dfanalyzer): imported 2 runs with 4 epochs"]
