"""Seals: an edited, cut, lengthened, removed or swapped record is named by `verify`, whichever way it was done."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import provml
from provml.journal import segments
from provml.journal.seals import FIRST, Ledger, marked_journals, read_mark, reseal
from provml.recording.disk_sync import DiskSync
from provml.store import Store


def record(home: Path, name: str = "digits") -> Path:
    """Record a short training and return its journal."""
    with provml.record(name, home=home) as run, run.training(learning_rate=0.1, epochs=2) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=1.0 / (1 + epoch.index))
    return next((home / "runs" / run.id).glob("*.jsonl"))


@pytest.fixture
def journal(isolated_home: Path) -> Path:
    return record(isolated_home / "home")


def home_of(journal: Path) -> Path:
    return journal.parents[2]


def reasons(journal: Path) -> list[str]:
    with Store(home_of(journal)) as store:
        return [f"{problem.file}: {problem.reason}" for problem in store.check_seals().problems]


def test_a_recorded_run_is_sealed_by_its_process(journal: Path):
    entries = [line.entry for line in Ledger(home_of(journal)).lines()]

    assert [(entry["kind"], entry["by"], entry["journal"]) for entry in entries] == [
        ("sealed", "recorder", journal.name)
    ]
    assert entries[0]["size"] == journal.stat().st_size
    assert entries[0]["previous"] == FIRST
    assert marked_journals(home_of(journal)) == []
    with Store(home_of(journal)) as store:
        report = store.check_seals()
        assert (report.problems, report.unsealed, store.verify()) == ([], [], [])
        assert report.sealed == [f"{journal.parent.name}/{journal.name}"]


def edit_value(journal: Path) -> None:
    text = journal.read_text()
    assert "0.1" in text
    journal.write_text(text.replace("0.1", "0.2", 1))


def remove_line(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3] + lines[4:]))


def repeat_line(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4] + lines[3:]))


def cut_tail(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))


def add_line(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines, lines[-1]]))


def remove_journal(journal: Path) -> None:
    journal.unlink()
    journal.parent.rmdir()


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (edit_value, "was changed after it was sealed"),
        (remove_line, "was cut after it was sealed"),
        (repeat_line, "was changed after it was sealed"),
        (cut_tail, "was cut after it was sealed"),
        (add_line, "was lengthened after it was sealed"),
        (remove_journal, "the run was removed without `provml remove`"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_tampering_is_named(journal: Path, tamper: Callable[[Path], None], expected: str, packed: bool):
    record(home_of(journal), "another")
    if packed:  # a changed journal at its place comes before the packed one
        with Store(home_of(journal)) as store:
            store.pack()
            if tamper is not remove_journal:
                store.unpack()
            else:
                segments.remove(home_of(journal), [journal.parent.name])
                journal.parent.mkdir(parents=True, exist_ok=True)
                journal.touch()
    tamper(journal)

    messages = reasons(journal)
    key = f"{journal.parent.name}/{journal.name}"
    assert any(key in message and expected in message for message in messages), messages


def test_the_ledger_says_which_journals_were_rewritten(journal: Path):
    edit_value(journal)
    reseal(journal, by="import", reason="a later state was imported")
    with Store(home_of(journal)) as store:
        report = store.check_seals()
    assert report.problems == []
    assert report.rewritten == [f"{journal.parent.name}/{journal.name} (by import, line 2 of the ledger)"]


def test_every_removed_line_is_noticed(journal: Path):
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) > 5

    for number in range(len(lines)):
        journal.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        assert len(reasons(journal)) == 1, f"line {number + 1}"

    journal.write_bytes(b"".join(lines))
    assert reasons(journal) == []


def test_a_run_that_was_removed_with_provml_is_no_problem(journal: Path):
    other = record(home_of(journal), "another")
    with Store(home_of(journal)) as store:
        store.remove(journal.parent.name)
        assert store.check_seals().problems == []
    lines = [line.entry for line in Ledger(home_of(other)).lines()]
    assert lines[-1]["kind"] == "removed"
    assert lines[-1]["run"] == journal.parent.name


@pytest.mark.parametrize("change", ["edit", "remove", "insert", "cut"])
def test_a_changed_ledger_is_noticed(journal: Path, change: str):
    for number in range(3):
        record(home_of(journal), f"run {number}")
    ledger = Ledger(home_of(journal)).path
    lines = ledger.read_bytes().splitlines(keepends=True)
    if change == "edit":
        lines[1] = re.sub(rb'"size":\d+', b'"size":7', lines[1])
    elif change == "remove":
        del lines[1]
    elif change == "insert":
        lines.insert(1, lines[2])
    else:
        lines[-1] = lines[-1][:-20]
    ledger.write_bytes(b"".join(lines))

    messages = reasons(journal)
    assert any("seals/ledger.jsonl" in reason for reason in messages), messages


def test_a_ledger_that_cannot_be_read_is_noticed(journal: Path):
    ledger = Ledger(home_of(journal)).path
    ledger.unlink()
    ledger.mkdir()
    with Store(home_of(journal)) as store:
        problems = [f"{problem.file}: {problem.reason}" for problem in store.verify()]
    assert "seals/ledger.jsonl: the line cannot be read (is a directory)" in problems


@pytest.mark.parametrize("change", ["remove", "empty"])
def test_a_ledger_that_is_gone_is_noticed(journal: Path, change: str):
    ledger = Ledger(home_of(journal)).path
    ledger.unlink()
    if change == "empty":
        ledger.touch()

    (reason,) = reasons(journal)
    assert reason.startswith("seals/ledger.jsonl: is missing or empty")


def test_removing_the_end_of_the_ledger_leaves_a_run_without_a_seal(journal: Path):
    other = record(home_of(journal), "another")
    ledger = Ledger(home_of(journal)).path
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])

    with Store(home_of(journal)) as store:
        assert store.check_seals().unsealed == [f"{other.parent.name}/{other.name}"]


KILLED = """
import os, sys, time, provml
from pathlib import Path
from provml.journal.seals import read_mark
run = provml.record("killed", home=sys.argv[1]).__enter__()
training = run.training(learning_rate=0.1).__enter__()
print(run.id, flush=True)
(journal,) = Path(sys.argv[1]).glob("runs/*/main.jsonl")
while read_mark(journal) is None:
    time.sleep(0.01)
print("marked", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def killed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run whose process was killed after its sync thread wrote a mark."""
    home = tmp_path_factory.mktemp("killed") / "home"
    environment = {name: value for name, value in os.environ.items() if name != "PROVML_RUN"}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(home)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return home


def copy_home(home: Path, target: Path) -> Path:
    shutil.copytree(home, target)
    return target


def test_a_killed_run_is_sealed_by_the_first_reader(killed_home: Path, tmp_path: Path):
    home = copy_home(killed_home, tmp_path / "home")
    (journal,) = marked_journals(home)
    mark = read_mark(journal)
    assert mark is not None
    assert 0 < mark.size <= journal.stat().st_size

    with Store(home) as store:
        store.sync()

    (line,) = Ledger(home).lines()
    assert line.entry["by"] == "reader"
    assert line.entry["agrees"] is True
    assert line.entry["recorder_size"] == mark.size
    assert marked_journals(home) == []
    with Store(home) as store:
        report = store.check_seals()
    assert report.problems == []
    assert report.sealed_by_reader == [f"{journal.parent.name}/{journal.name}"]


def test_a_reader_leaves_the_seal_of_a_journal_to_the_process_that_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Between the end of a run and its seal, the file still has the space that was allocated in advance."""
    home, is_ending, goes_on, close = tmp_path / "home", threading.Event(), threading.Event(), DiskSync._close_file

    def wait(self: DiskSync) -> None:
        is_ending.set()
        assert goes_on.wait(60)
        close(self)

    monkeypatch.setattr(DiskSync, "_close_file", wait)
    run = provml.record("late", home=home, capture_environment=False)
    run.training().measured(loss=0.5)
    finishing = threading.Thread(target=run.finish)
    finishing.start()
    assert is_ending.wait(60)
    with Store(home) as store:
        store.sync()
        goes_on.set()
        finishing.join(60)
        assert store.verify() == []
        assert [line.entry["by"] for line in Ledger(home).lines()] == ["recorder"]


def test_a_change_before_the_first_reader_is_noticed(killed_home: Path, tmp_path: Path):
    home = copy_home(killed_home, tmp_path / "home")
    (journal,) = marked_journals(home)
    edit_value(journal)

    assert any("was changed before a reader sealed it" in reason for reason in reasons(journal))


def test_a_changed_journal_that_a_reader_was_made_to_seal_again_is_named(killed_home: Path, tmp_path: Path):
    """Somebody cuts a sealed journal, and writes the mark of a process that seems to have been killed."""
    home = copy_home(killed_home, tmp_path / "home")
    (journal,) = marked_journals(home)
    assert reasons(journal) == []
    cut_tail(journal)
    content = journal.read_bytes()
    mark = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (home / "seals" / "open" / f"{journal.parent.name}~{journal.stem}.json").write_text(json.dumps(mark))
    (message,) = reasons(journal)
    assert "was changed after line 1 of the ledger, and sealed again by reader (line 2)" in message


def test_journals_without_a_seal_can_be_sealed(journal: Path):
    Ledger(home_of(journal)).path.unlink()
    key = f"{journal.parent.name}/{journal.name}"
    with Store(home_of(journal)) as store:
        assert store.check_seals().unsealed == [key]
        assert store.seal() == [key]
        assert store.seal() == []
        assert store.check_seals().sealed_by_reader == [key]
    edit_value(journal)
    assert len(reasons(journal)) == 1


def test_a_backup_has_the_seals(journal: Path, tmp_path: Path):
    with Store(home_of(journal)) as store:
        store.backup(tmp_path / "copy")
    with Store(tmp_path / "copy") as store:
        report = store.check_seals()
    assert (report.problems, report.unsealed, len(report.sealed)) == ([], [], 1)


def test_a_home_whose_seals_cannot_be_written_records_all_the_same(isolated_home: Path):
    home = isolated_home / "home"
    home.mkdir()
    (home / "seals").write_text("a file where a folder is needed")
    journal = record(home)
    with Store(home) as store:
        assert store.check_seals().unsealed == [f"{journal.parent.name}/{journal.name}"]
        assert store.runs()[0].status == "FINISHED"


def test_a_link_in_place_of_the_ledger_is_not_followed(isolated_home: Path):
    home, outside = isolated_home / "home", isolated_home / "outside.txt"
    (home / "seals").mkdir(parents=True)
    outside.write_text("precious")
    (home / "seals" / "ledger.jsonl").symlink_to(outside)
    record(home)
    assert outside.read_text() == "precious"


def test_lines_of_the_ledger_are_json_that_others_can_check(journal: Path):
    line = Ledger(home_of(journal)).path.read_text().splitlines()[0]
    assert set(json.loads(line)) == {"kind", "time", "run", "journal", "size", "sha256", "by", "previous"}
