"""`provml rebuild`, `verify` and `gc`, also while other processes use the index."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provml.journal import events as event
from provml.recording.run import record

from .helpers import STATUS_QUERY, damage_line, error_of, invoke, json_of, make_folder, output_of, start_python, stop


def test_rebuild_restores_a_deleted_index(home: Path):
    before = output_of(home, "export", "--all", "--format", "nt")
    events = sum(run["events"] for run in json_of(home, "runs"))
    shutil.rmtree(home / "index")
    assert output_of(home, "rebuild") == f"Rebuilt the index from {events} events\n"
    assert output_of(home, "export", "--all", "--format", "nt") == before


def test_verify_finds_no_problems_in_intact_journals(recorded_home: Path):
    assert output_of(recorded_home, "verify") == "Checked 2 journals: no problems\n"
    assert json_of(recorded_home, "verify") == []


def test_verify_prints_the_position_of_a_damaged_line_and_exits_with_1(home: Path):
    journal = damage_line(home, 7)
    result = invoke(home, "verify")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{journal}:7: ")
    assert "1 corrupted line" in result.stderr
    as_json = invoke(home, "verify", "--format", "json")
    assert as_json.exit_code == 1
    assert [(row["file"], row["line"]) for row in json.loads(as_json.stdout)] == [(str(journal), 7)]


def test_verify_counts_damaged_lines_and_unreadable_files_separately(home: Path):
    for name in ("newer", "newest"):
        path = home / "runs" / name / "main.jsonl"
        path.parent.mkdir()
        path.write_bytes(event.encode(event.Header(event.VERSION + 1, name, "main", name, 1.7e9)))
    with (home / "runs" / "flowers-1" / "main.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    assert "Checked 4 journals: 1 corrupted line, 2 files with a problem\n" in invoke(home, "verify").stderr


def test_verify_prints_where_the_index_and_an_edited_journal_disagree(home: Path):
    assert output_of(home, "verify") == "Checked 2 journals: no problems\n"
    journal = home / "runs" / "flowers-1" / "main.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    (number,) = [number for number, line in enumerate(lines, start=1) if b'"accuracy":0.59' in line]
    journal.write_bytes(journal.read_bytes().replace(b'"accuracy":0.59', b'"accuracy":0.95'))
    result = invoke(home, "verify")
    assert result.exit_code == 1
    assert f"{journal}:{number}: says https://w3id.org/provml/run/flowers-1/evaluation/" in result.stdout
    assert "prov:value 0.95, but the index has 0.59 instead" in result.stdout
    assert result.stderr.endswith("of the index. If the journals are right, run `provml rebuild`.\n")
    (row, *_) = json.loads(invoke(home, "verify", "--format", "json").stdout)
    assert (row["file"], row["line"]) == (str(journal), number)
    output_of(home, "rebuild")
    assert output_of(home, "verify") == "Checked 2 journals: no problems\n"


COMMANDS_ON_A_DAMAGED_INDEX = [
    ("runs",),
    ("show",),
    ("status",),
    ("log",),
    ("compare", "flowers-1", "broken-1"),
    ("plot", "flowers-1"),
    ("lineage", "flowers-1"),
    ("report", "flowers-1", "-o", "report.md"),
    ("artifacts",),
    ("ask", "origin-of-model"),
    ("ask", "origin-of-model", "--show"),
    ("query", STATUS_QUERY),
    ("query", "ASK { ?s ?p ?o }"),
    ("query", STATUS_QUERY, "--format", "csv", "-o", "rows.csv"),
    ("export", "--all", "--format", "nt"),
    ("export", "flowers-1", "--format", "nt"),
    ("validate", "--all"),
    ("rebuild",),
    ("gc",),
]


def test_every_command_works_after_one_byte_of_the_index_was_damaged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.chdir(tmp_path)
    output_of(home, "rebuild")
    for arguments, expected in [(arguments, invoke(home, *arguments)) for arguments in COMMANDS_ON_A_DAMAGED_INDEX]:
        assert expected.exit_code in (0, 1), expected.output
        caplog.clear()
        path = max(home.glob("index/store/*.sst"), key=lambda path: path.stat().st_size)
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        path.write_bytes(damaged)
        result = invoke(home, *arguments)
        assert (result.exit_code, result.stdout) == (expected.exit_code, expected.stdout), arguments
        assert "Traceback" not in result.output
        reads_index = arguments[0] not in ("status", "log", "gc")
        assert ["is damaged" in message for message in caplog.messages] == [True] * reads_index, arguments


def test_a_command_says_on_the_terminal_that_it_rebuilds_a_damaged_index(home: Path):
    expected = output_of(home, "runs")
    (home / "index" / "progress").write_bytes(b"damaged")
    process = start_python("-m", "provml.cli", "runs", "--home", str(home))
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, expected)
    assert stderr == (
        f"provml: the index of {home} is damaged (digest mismatch in progress). Nothing is lost: it is rebuilt from "
        "the journals.\n"
    )


READER = """
import sys
from provml.store import Store

store = Store(sys.argv[1])
store.sync()
store.snapshot()
print(store.index_folder, flush=True)
sys.stdin.readline()
"""


StartReader = Callable[[Path], tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def start_reader() -> Iterator[StartReader]:
    """Start processes that have the index or a copy of it open; return each with the folder of its index."""
    processes = []

    def start(home: Path) -> tuple[subprocess.Popen[str], Path]:
        process = start_python("-c", READER, str(home))
        processes.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in processes:
        stop(process)


def test_commands_work_while_another_process_has_the_index_open(home: Path, start_reader: StartReader):
    indexer, _ = start_reader(home)
    with record("late", home=home, strict=True, run="late-1"):
        pass
    assert json_of(home, "runs")[0]["run"] == "late-1"
    assert json_of(home, "show", "flowers-1")["status"] == "FINISHED"
    assert "late-1" in output_of(home, "query", STATUS_QUERY)
    assert "another process" in error_of(home, "rebuild")
    assert output_of(home, "remove", "flowers-1", "--yes") == "Deleted flowers-1\n"
    assert "flowers-1" not in output_of(home, "query", STATUS_QUERY)
    stop(indexer)
    assert "flowers-1" not in output_of(home, "query", STATUS_QUERY)


def test_gc_removes_old_logs_of_the_index(home: Path):
    output_of(home, "runs")
    log = home / "index" / "store" / "LOG.old.1700000000000000"
    log.write_bytes(b"x" * 2000)
    listed = json_of(home, "gc", "--dry-run")
    assert listed == [{"path": str(log), "bytes": 2000}]
    assert log.exists()
    output_of(home, "gc")
    assert not log.exists()
    assert (home / "index" / "store" / "LOG").exists()


def test_gc_removes_the_files_of_dead_processes_and_none_in_use(home: Path, start_reader: StartReader):
    output_of(home, "rebuild")
    indexer, _ = start_reader(home)
    dead, leftover = start_reader(home)
    alive, copy = start_reader(home)
    assert leftover.name.startswith("reader-")
    stop(dead)
    partial_snapshot = make_folder(home / "index" / "snapshot" / "99.part")
    assert "Nothing to remove" in output_of(home, "gc")
    assert str(leftover) in [row["path"] for row in json_of(home, "gc", "--min-age", "0", "--dry-run")]
    assert leftover.is_dir()
    assert [row["path"] for row in json_of(home, "gc", "--min-age", "0")] == [str(leftover)]
    assert not leftover.exists()
    assert copy.is_dir()
    assert partial_snapshot.is_dir()
    stop(indexer)
    stop(alive)
    partial_file = make_folder(home / "added") / "x.part"
    partial_file.write_bytes(b"half")
    progress = home / "index" / f"progress.{dead.pid}"
    progress.write_bytes(b"half")
    removed_run = make_folder(home / "removed-1234")
    removed = {row["path"] for row in json_of(home, "gc", "--min-age", "0")}
    unused = (copy, partial_snapshot, partial_file, progress, removed_run)
    assert {str(path) for path in unused} <= removed
    assert not any(path.exists() for path in unused)
    assert len(list((home / "index" / "snapshot").iterdir())) == 1
    shutil.rmtree(home / "index" / "store")
    output_of(home, "gc")
    assert list((home / "index" / "snapshot").iterdir()) == []
    assert json_of(home, "runs")[1]["run"] == "flowers-1"
