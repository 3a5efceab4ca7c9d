"""Missing homes and runs, bad options and damaged journals: commands end with a message and no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provml.journal import events as event

from .helpers import COMMANDS, STATUS_QUERY, error_of, invoke, json_of, make_folder, output_of, record_failed_run

REQUIRED_ARGUMENTS = {"export": ["--all"], "remove": ["x", "--yes"], "query": [STATUS_QUERY]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_home_is_an_error_and_is_not_created(command: str, tmp_path: Path):
    missing, file, other = tmp_path / "missing", tmp_path / "file", make_folder(tmp_path / "other")
    file.write_text("")
    arguments = [command, *REQUIRED_ARGUMENTS.get(command, [])]
    assert f"No provml home at {missing}" in error_of(missing, *arguments)
    assert not missing.exists()
    assert f"{file}: it is a file" in error_of(file, *arguments)
    assert "the directory holds no runs" in error_of(other, *arguments)
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
@pytest.mark.parametrize("name", ["nobody", "../flowers-1", "*"])
def test_the_error_for_an_unknown_run_lists_the_runs(command: str, name: str, recorded_home: Path):
    message = error_of(recorded_home, command, name)
    assert "flowers-1" in message
    assert (recorded_home / "runs" / "flowers-1").is_dir()


@pytest.mark.parametrize("command", ["status", "show", "log", "lineage", "compare", "ask"])
def test_bytes_that_are_no_text_are_the_name_of_nothing(command: str, recorded_home: Path):
    assert "'\\udcff'" in error_of(recorded_home, command, os.fsdecode(b"\xff"))


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
def test_an_empty_run_name_is_an_error_even_in_a_home_with_a_single_run(command: str, tmp_path: Path):
    record_failed_run(tmp_path)
    assert "The name is empty" in error_of(tmp_path, command, "")
    assert (tmp_path / "runs" / "broken-1").is_dir()


@pytest.mark.parametrize("command", ["status", "show", "log", "export", "remove"])
def test_an_ambiguous_run_name_is_an_error(command: str, recorded_home: Path):
    assert "matches several runs" in error_of(recorded_home, command, "1")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_or_format_is_an_error(command: str, recorded_home: Path):
    arguments = [command, *REQUIRED_ARGUMENTS.get(command, [])]
    assert "No such option" in error_of(recorded_home, *arguments, "--nonsense")
    if command not in ("remove", "rebuild"):
        expected = "unknown format" if command == "export" else "is not one of"
        assert expected in error_of(recorded_home, *arguments, "--format", "nonsense")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "remove"])
def test_too_many_arguments_are_an_error(command: str, recorded_home: Path):
    error_of(recorded_home, command, "flowers-1", "flowers-1")


def test_a_negative_number_or_a_missing_argument_is_an_error(recorded_home: Path):
    assert "-1" in error_of(recorded_home, "log", "flowers-1", "-n", "-1")
    assert "Missing argument" in error_of(recorded_home, "remove")
    assert "Missing argument" in error_of(recorded_home, "query")


def test_a_journal_of_a_newer_version_is_an_error_that_asks_for_an_upgrade(home: Path):
    journal = next((home / "runs" / "flowers-1").glob("*.jsonl"))
    journal.write_bytes(journal.read_bytes().replace(b'"v":%d' % event.VERSION, b'"v":999', 1))
    for command in ("log", "status"):
        message = error_of(home, command, "flowers-1")
        assert f"{journal}:1: " in message
        assert "Upgrade provml" in message
    assert json_of(home, "status", "latest")["run"] == "broken-1"
    verified = invoke(home, "verify")
    assert f"{journal}: journal version 999 is newer" in verified.stdout
    assert "upgrade provml" in verified.stdout
    assert verified.stderr.endswith("Checked 2 journals: 1 file with a problem\n")


def test_runs_and_show_warn_about_journal_lines_that_could_not_be_indexed(home: Path):
    path = home / "runs" / "newer" / "main.jsonl"
    path.parent.mkdir()
    path.write_bytes(event.encode(event.Header(event.VERSION + 1, "newer", "main", "newer", 1.7e9)))
    listed = invoke(home, "runs")
    assert listed.stderr == "provml: 1 journal line could not be indexed. Run `provml verify` for details.\n"
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    shown = invoke(home, "show", "flowers-1")
    assert shown.stderr == "provml: 2 journal lines could not be indexed. Run `provml verify` for details.\n"
    assert shown.exit_code == 0
    assert len(invoke(home, "verify").stdout.splitlines()) == 2


def test_an_invalid_time_or_status_is_a_damaged_line_for_log(home: Path):
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b'{"e":"end","t":1e300}\n{"e":"end","t":1.0,"status":"FINISHEX"}\n')
    result = invoke(home, "log", "flowers-1")
    assert result.exit_code == 0
    assert result.stderr.count("skipped a corrupted line") == 2
    assert json_of(home, "status", "flowers-1")["status"] == "FINISHED"


@pytest.mark.parametrize("depth", [500, 5000])
def test_a_line_that_is_nested_deeply_is_a_damaged_line_for_every_command(home: Path, depth: int):
    journal = home / "runs" / "flowers-1" / "main.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines.insert(3, b'{"e":"layers","at":"training","layers":[{"a":%s}]}\n' % (b"[" * depth + b"]" * depth))
    journal.write_bytes(b"".join(lines))
    status = json_of(home, "status", "flowers-1")
    assert (status["status"], status["corrupted"]) == ("FINISHED", 1)
    for arguments in (("log", "flowers-1"), ("log", "flowers-1", "--format", "json")):
        result = invoke(home, *arguments)
        assert result.exit_code == 0
        assert f"{journal}:4: skipped a corrupted line: {event.TOO_DEEP}" in result.stderr
    for arguments in (("runs",), ("show", "flowers-1"), ("query", STATUS_QUERY)):
        assert "FINISHED" in output_of(home, *arguments)
    verified = invoke(home, "verify")
    assert verified.exit_code == 1
    assert f"{journal}:4: ValidationError: {event.TOO_DEEP}" in verified.stdout


def test_status_and_log_report_a_journal_that_cannot_be_read(home: Path):
    (home / "runs" / "flowers-1" / "other.jsonl").symlink_to("/proc/self/mem")
    status = json_of(home, "status", "flowers-1")
    assert (status["status"], status["corrupted"]) == ("FINISHED", 1)
    assert json_of(home, "status")["run"] == "broken-1"
    assert "other.jsonl: skipped: input/output error" in invoke(home, "log", "flowers-1").stderr


def test_an_error_of_the_operating_system_is_a_message(home: Path):
    assert "file name too long. Check the path and its permissions." in error_of(home / ("x" * 300), "runs")


def test_folders_and_dangling_links_named_like_journals_are_ignored(home: Path):
    (home / "runs" / "flowers-1" / "folder.jsonl").mkdir()
    (home / "runs" / "flowers-1" / "dangling.jsonl").symlink_to(home / "nowhere")
    assert "FINISHED" in output_of(home, "log", "flowers-1")
    assert "FINISHED" in output_of(home, "runs")
    assert "no problems" in output_of(home, "verify")
