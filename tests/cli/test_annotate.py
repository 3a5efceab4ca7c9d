"""`provml tag`, `note` and `rename`, and what `runs`, `show` and `status` print of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from provml.journal.process import user_name

from .helpers import TrainingProcess, error_of, invoke, json_of, output_of


def test_tags_are_added_and_removed(home: Path):
    assert output_of(home, "tag", "flowers-1", "baseline", "v1") == "Tags of flowers-1: baseline, v1\n"
    assert output_of(home, "tag", "flowers-1", "baseline") == "Tags of flowers-1: baseline, v1\n"
    assert output_of(home, "tag", "flowers-1", "--remove", "v1") == "Tags of flowers-1: baseline\n"
    assert output_of(home, "tag", "latest", "bad", "--by", "ada") == "Tags of broken-1: bad\n"
    lines = output_of(home, "runs").splitlines()
    assert lines[0].split()[-2:] == ["tags", "error"]
    assert " bad  " in lines[2]
    assert lines[3].endswith("  baseline")
    assert [run["tags"] for run in json_of(home, "runs")] == ["bad", "baseline"]
    assert ["tags", "baseline"] in [line.split() for line in output_of(home, "show", "flowers-1").splitlines()]
    assert json_of(home, "status", "flowers-1")["tags"] == "baseline"
    assert output_of(home, "tag", "flowers-1", "-r", "baseline") == "Tags of flowers-1: none\n"


def test_runs_without_tags_have_no_column_for_them(recorded_home: Path):
    assert "tags" not in output_of(recorded_home, "runs")
    assert "tags" not in output_of(recorded_home, "show", "flowers-1")


def test_notes_are_shown_in_full_with_who_and_when(home: Path):
    long = "word " * 60
    assert output_of(home, "note", "flowers-1", f"The loss\n{long}", "--by", "ada") == "Added a note to flowers-1\n"
    assert output_of(home, "note", "flowers-1", "-", text="from a pipe\n") == "Added a note to flowers-1\n"
    shown = output_of(home, "show", "flowers-1")
    notes = shown.split("\n\n")[1].splitlines()
    assert notes[0] == "notes"
    assert notes[1].startswith("1. ada, 20")
    assert notes[2:4] == ["   The loss", f"   {long.strip()}"]
    assert notes[4].startswith(f"2. {user_name()}, 20")
    assert notes[5] == "   from a pipe"
    assert [note["by"] for note in json_of(home, "show", "flowers-1")["notes"]] == ["ada", user_name()]
    assert output_of(home, "note", "flowers-1", "--remove", "1") == "Removed note 1 of flowers-1\n"
    assert [note["note"] for note in json_of(home, "show", "flowers-1")["notes"]] == ["from a pipe"]


def test_a_run_can_be_named_by_its_new_name_in_every_command(home: Path):
    assert output_of(home, "rename", "flowers-1", "fold 3") == "Run flowers-1 is now named fold 3\n"
    assert output_of(home, "rename", "fold 3", "fold 4") == "Run flowers-1 is now named fold 4\n"
    for command in ("show", "status"):
        report = json_of(home, command, "fold 4")
        assert (report["run"], report["name"]) == ("flowers-1", "fold 4")
    assert json_of(home, "show", "fold 4")["experiment"] == "flowers"
    assert "flowers began" in output_of(home, "log", "fold 4")
    assert "/run/flowers-1" in output_of(home, "export", "fold 4", "--format", "nt")
    assert output_of(home, "tag", "fold 4", "a") == "Tags of flowers-1: a\n"
    assert "No run 'fold 3'. Did you mean fold 4?" in error_of(home, "show", "fold 3")
    assert output_of(home, "remove", "fold 4", "-y") == "Deleted flowers-1\n"


def test_rename_warns_about_a_name_that_another_run_has(home: Path):
    result = invoke(home, "rename", "flowers-1", "broken")
    assert result.exit_code == 0
    assert "broken-1 has the same name" in result.stderr
    for command in ("show", "status"):
        assert "'broken' is the name of 2 runs" in error_of(home, command, "broken")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tag", "flowers-1", ""], "The tag is empty"),
        (["tag", "flowers-1", "a,b"], "Pass several tags as separate arguments"),
        (["tag", "flowers-1", "x" * 200], "has 200 characters"),
        (["tag", "flowers-1", "a\nb"], "on one line"),
        (["tag", "flowers-1", "--remove", "nope"], "'nope' is no tag of run flowers-1. It has no tags."),
        (["tag", "flowers-1"], "Missing argument 'TAG...'"),
        (["tag", "nope", "a"], "No run 'nope'"),
        (["tag", "", "a"], "The name is empty"),
        (["note", "flowers-1"], "Pass a text or --remove N"),
        (["note", "flowers-1", "text", "--remove", "1"], "Pass a text or --remove N"),
        (["note", "flowers-1", "--remove", "3"], "The note 3 does not exist: run flowers-1 has 0"),
        (["note", "flowers-1", " "], "The note is empty"),
        (["rename", "flowers-1", "latest"], "Choose another name"),
        (["rename", "flowers-1"], "Missing argument 'NAME'"),
    ],
)
def test_wrong_input_is_an_error_that_says_what_to_do(home: Path, arguments: list[str], words: str):
    assert words in error_of(home, *arguments)
    assert not (home / "runs" / "flowers-1" / "annotations").exists()


def test_a_note_cannot_change_the_terminal(home: Path):
    assert "contains the character '\\x1b'. Remove it." in error_of(home, "note", "flowers-1", "red \x1b[31m")


def test_a_run_of_another_process_is_annotated_while_it_is_running(home: Path, training: TrainingProcess):
    training.run_epoch()
    assert output_of(home, "tag", "watched", "live") == "Tags of watched-1: live\n"
    assert json_of(home, "status", "watched-1")["status"] == "RUNNING"
    training.run_epoch()
    training.kill()
    listed = {run["run"]: run for run in json_of(home, "runs")}
    assert (listed["watched-1"]["status"], listed["watched-1"]["tags"]) == ("KILLED", "live")
