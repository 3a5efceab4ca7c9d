"""`provml artifacts`, `provml get`, and what `show`, `remove` and `gc` say about artifacts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provml.recording.run import record
from provml.store import artifacts

from .helpers import error_of, invoke, json_of, output_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two runs that stored files; the present directory is empty."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "weights").write_bytes(b"w")
    for number in (1, 2):
        with record("flowers", home=tmp_path / "home", run=f"run-{number}", strict=True, model="net") as run:
            run.text(f"report {number}", "report.txt")
            with run.training() as training:
                training.produced(b"\x00\x01weights", name="net", keep=True)
            if number == 1:
                run.keep(tmp_path / "saved")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def test_artifacts_are_listed(home: Path):
    lines = output_of(home, "artifacts").splitlines()
    assert lines[0].split() == ["artifact", "run", "size", "type", "sha256", "time"]
    assert len(lines) == 7
    assert [line.split()[:2] for line in output_of(home, "artifacts", "run-2").splitlines()[2:]] == [
        ["report.txt", "run-2"],
        ["net", "run-2"],
    ]
    listed = json_of(home, "artifacts", "run-1")
    assert [(row["artifact"], row["data"], row["bytes"], row["stored"]) for row in listed] == [
        ("report.txt", "report.txt", 8, True),
        ("net", "net", 9, True),
        ("saved", "saved", 1, True),
    ]
    assert "saved       1 B   folder" in output_of(home, "show", "run-1")
    assert json_of(home, "show", "run-2")["artifacts"][0]["artifact"] == "report.txt"
    assert "stored report.txt" in output_of(home, "log", "run-1")


def test_an_empty_home_has_no_artifacts(recorded_home: Path):
    assert output_of(recorded_home, "artifacts") == "No artifacts yet.\n"
    assert "\nartifacts\n" not in output_of(recorded_home, "show", "flowers-1")
    assert "Run flowers-1 has no artifacts" in error_of(recorded_home, "get", "flowers-1")
    assert "No artifact is stored yet" in error_of(recorded_home, "get", "nope")


def test_get_writes_an_artifact_to_a_file(home: Path):
    result = invoke(home, "get", "run-1", "report.txt")
    assert (result.exit_code, result.stderr) == (0, "Wrote 8 B to report.txt\n")
    assert Path("report.txt").read_text() == "report 1"
    assert "the file exists already" in error_of(home, "get", "run-2", "report.txt")
    assert invoke(home, "get", "run-2", "report.txt", "-o", "report.txt").exit_code == 0, "a file that was named"
    assert Path("report.txt").read_text() == "report 2"
    digest = json_of(home, "artifacts", "run-1")[1]["sha256"]
    for target in (digest, digest[:10], "net"):  # the same content in both runs
        assert invoke(home, "get", target, "-o", f"{target}.bin").exit_code == 0
        assert Path(f"{target}.bin").read_bytes() == b"\x00\x01weights"


def test_get_writes_all_artifacts_of_a_run_into_a_directory(home: Path):
    assert "Run run-1 has 3 artifacts. Pass the name of one of them: report.txt, net, saved." in error_of(
        home, "get", "run-1"
    )
    assert invoke(home, "get", "run-1", "-o", "all/").exit_code == 0
    assert {path.name for path in Path("all").iterdir()} == {"report.txt", "net", "saved"}
    assert Path("all", "saved", "weights").read_bytes() == b"w"
    assert invoke(home, "get", "saved", "-o", "copy").exit_code == 0
    assert Path("copy", "weights").read_bytes() == b"w"


def test_get_writes_to_standard_output(home: Path):
    command = [sys.executable, "-m", "provml.cli", "get", "run-1", "net", "-o", "-", "--home", str(home)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\x00\x01weights"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get", "report.txt"], "2 runs have an artifact 'report.txt': run-2, run-1. Pass the run too"),
        (["get", "run-1", "nope"], "No artifact 'nope' in run run-1. Available: report.txt, net, saved."),
        (["get", "nope", "report.txt"], "No run 'nope'"),
        (["get", "repotr.txt"], "No artifact 'repotr.txt' in this home. Available: report.txt."),
        (["get", "saved", "-o", "-"], "is a folder. Write it to a new directory instead."),
        (["get", "net", "-o", "missing/net"], "no such file or directory"),
        (["get"], "Missing argument 'ARTIFACT'"),
        (["artifacts", "nope"], "No run 'nope'"),
    ],
)
def test_wrong_input_is_an_error_that_says_what_to_do(home: Path, arguments: list[str], words: str):
    assert words in error_of(home, *arguments)
    assert list(Path().iterdir()) == []


def test_get_refuses_a_damaged_artifact(home: Path):
    digest = json_of(home, "artifacts", "run-1")[1]["sha256"]
    path = home / "artifacts" / digest[:2] / digest
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    assert "It is damaged: restore it from a backup" in error_of(home, "get", "run-1", "net")
    assert list(Path().iterdir()) == []
    result = invoke(home, "verify")
    assert result.exit_code == 1
    assert "the content does not have this SHA-256" in result.stdout
    path.unlink()
    assert "missing" in output_of(home, "artifacts")


def test_artifacts_of_removed_runs_are_offered_and_removed_on_request_only(home: Path):
    count = len(list((home / "artifacts").glob("*/*")))
    removed = invoke(home, "remove", "run-1", "-y")
    offer = "3 artifacts (82 B) belong to no run any more. Remove with `provml gc --artifacts`."
    assert offer in removed.stderr
    assert invoke(home, "gc").stderr == f"provml: {offer}\n"
    assert "Would free" in output_of(home, "gc", "--artifacts", "--dry-run")
    assert len(list((home / "artifacts").glob("*/*"))) == count
    assert "Freed" in output_of(home, "gc", "--artifacts")
    assert len(list((home / "artifacts").glob("*/*"))) == count - 3
    assert invoke(home, "gc", "--artifacts").stdout == "Nothing to remove\n"
    assert invoke(home, "verify").exit_code == 0
    assert invoke(home, "get", "run-2", "net").exit_code == 0, "what another run refers to is still there"


def test_a_removal_reads_the_journals_of_the_removed_run_only(home: Path, monkeypatch: pytest.MonkeyPatch):
    read, references = [], artifacts._references_of_journal

    def note(path: Path, key: str) -> Iterator[artifacts.Reference]:
        read.append(key)
        return references(path, key)

    monkeypatch.setattr(artifacts, "_references_of_journal", note)
    assert "belong to no run" in invoke(home, "remove", "run-1", "-y").stderr
    assert read == ["runs/run-1/main.jsonl"]
