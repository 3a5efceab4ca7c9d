"""Journal files: lines appended by memory map or write(2), concurrent readers, and full disks."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.journal import events, file
from provml.journal.file import (
    JournalFile,
    MappedJournalFile,
    UnreservedJournalFile,
    file_system,
    open_journal,
)
from provml.journal.reader import read_lines

KINDS = [MappedJournalFile, JournalFile, UnreservedJournalFile]


def lines(path: Path, offset: int = 0) -> list[bytes]:
    return [line for _, _, line in read_lines(path, offset)]


def line(number: int, length: int = 20) -> bytes:
    return b'{"n":%d,"x":"%s"}\n' % (number, b"x" * length)


@pytest.mark.parametrize("kind", KINDS)
def test_appended_lines_are_read_before_and_after_closing(kind: type[JournalFile], tmp_path: Path):
    journal = kind(tmp_path / "a.jsonl")
    expected = [line(n, n % 300) for n in range(9000)]  # more than a megabyte: it grows several times
    for row in expected:
        journal.append(row)
    assert lines(journal.path) == [row[:-1] for row in expected]
    journal.close()
    assert journal.path.read_bytes() == b"".join(expected)
    assert lines(journal.path) == [row[:-1] for row in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_longer_than_the_growth_limit_fits(kind: type[JournalFile], tmp_path: Path):
    journal = kind(tmp_path / "a.jsonl")
    journal.append(line(1, 3 * file.MAX_GROWTH_BYTES))
    journal.append(line(2))
    assert [len(row) for row in lines(journal.path)] == [len(line(1, 3 * file.MAX_GROWTH_BYTES)) - 1, len(line(2)) - 1]
    journal.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_existing_journal_is_not_overwritten(kind: type[JournalFile], tmp_path: Path):
    kind(tmp_path / "a.jsonl").close()
    with pytest.raises(FileExistsError):
        kind(tmp_path / "a.jsonl")
    with pytest.raises(FileExistsError):
        open_journal(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_in_the_middle_of_a_line_loses_nothing(
    kind: type[JournalFile], when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    journal = kind(tmp_path / "a.jsonl")
    journal.append(line(1))
    write = os.pwrite

    def interrupted(*given: Any) -> int:
        monkeypatch.setattr(os, "pwrite", write)
        if when == "after":
            write(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pwrite", interrupted)
    with contextlib.nullcontext() if kind is MappedJournalFile else pytest.raises(KeyboardInterrupt):
        journal.append(line(2, 50))
    assert lines(journal.path) == [line(1)[:-1], line(2, 50)[:-1]]
    journal.append(line(3))
    assert lines(journal.path, len(line(1) + line(2, 50))) == [line(3)[:-1]]
    journal.close()


# ---- programs that follow a journal


LIVE = """
    import os, sys, time, provml
    with provml.record("x", home=sys.argv[1], run="r", capture_environment=False) as run:
        with run.training() as training:
            for epoch in training.epochs(20):
                for batch in epoch.batches(range(20)):
                    batch.measured(loss=1.0 / batch.index)
                    time.sleep(0.001)
                epoch.measured(loss=0.5)
"""


def follow(path: Path, is_over: Callable[[], bool]) -> bytes:
    """Return all bytes of a file that grows, each read once, as a program does that forwards a log."""
    content, was_over = b"", False
    while not was_over:
        was_over = is_over()  # before reading, so that the last bytes are read, too
        with contextlib.suppress(FileNotFoundError), path.open("rb") as live:
            live.seek(len(content))
            content += live.read()
        time.sleep(0.002)
    return content


@pytest.mark.parametrize("mode", file.MODES)
def test_a_program_that_follows_a_journal_of_appended_lines_reads_them_all(mode: str, tmp_path: Path):
    command = [sys.executable, "-c", textwrap.dedent(LIVE), str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "PROVML_JOURNAL": mode}) as process:
        path = tmp_path / "runs" / "r" / "main.jsonl"
        content = follow(path, lambda: process.poll() is not None)
    assert process.returncode == 0
    if mode in ("append", "plain"):
        assert content == path.read_bytes()
        assert b"\0" not in content
        assert content.count(b'"e":"batch"') == 400
    else:
        assert b"\0" in content, "space is allocated in advance"


@pytest.mark.skipif(not shutil.which("rsyslogd"), reason="rsyslog is not installed: apt-get install rsyslog")
def test_rsyslog_forwards_all_lines_of_a_journal_of_appended_lines(tmp_path: Path):
    runs, out = tmp_path / "runs" / "r", tmp_path / "out"
    runs.mkdir(parents=True)
    (tmp_path / "rsyslog.conf").write_text(f"""
        module(load="imfile" mode="inotify")
        global(workDirectory="{tmp_path}" maxMessageSize="64k")
        input(type="imfile" File="{runs}/*.jsonl" Tag="provml" addMetadata="off" freshStartTail="off")
        template(name="raw" type="string" string="%msg:::drop-last-lf%\\n")
        if $syslogtag == "provml" then action(type="omfile" file="{out}" template="raw")
    """)
    settings = ["-n", "-f", str(tmp_path / "rsyslog.conf"), "-i", str(tmp_path / "pid")]
    with subprocess.Popen(["rsyslogd", *settings]) as process:
        time.sleep(2.0)
        command = [sys.executable, "-c", textwrap.dedent(LIVE), str(tmp_path)]
        subprocess.run(command, env={**os.environ, "PROVML_JOURNAL": "plain"}, check=True)
        lines = (runs / "main.jsonl").read_bytes().splitlines()
        for _ in range(600):  # it follows a file with some delay
            forwarded = [line.strip() for line in out.read_bytes().splitlines()] if out.exists() else []
            if len(forwarded) >= len(lines):
                break
            time.sleep(0.1)
        process.terminate()
    assert forwarded == lines


def test_an_unknown_mode_is_logged_and_the_default_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("PROVML_JOURNAL", "apend")
    file._warn_unknown_mode.cache_clear()
    for name in ("a", "b"):
        journal = open_journal(tmp_path / name)
        assert type(journal) is not UnreservedJournalFile
        journal.close()
    (record,) = caplog.records
    assert record.getMessage().startswith("provml: PROVML_JOURNAL is 'apend'. Use one of map, write, append, plain.")


def test_reading_continues_from_an_offset(tmp_path: Path):
    journal = MappedJournalFile(tmp_path / "a.jsonl")
    journal.append(line(1))
    (end, number, first), *_ = read_lines(journal.path)
    assert (number, first) == (1, line(1)[:-1])
    assert list(read_lines(journal.path, end, number)) == []
    journal.append(line(2))
    assert list(read_lines(journal.path, end, number)) == [(end + len(line(2)), 2, line(2)[:-1])]
    journal.close()


@given(cut=st.integers(0, len(line(3)) - 1), order=st.sampled_from(["forward", "backward", "ends first"]))
def test_a_torn_last_line_is_not_read(cut: int, order: str, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("torn") / "a.jsonl"
    whole = line(3)
    torn = {
        "forward": whole[:cut].ljust(len(whole), b"\0"),
        "backward": whole[len(whole) - cut :].rjust(len(whole), b"\0"),
        "ends first": whole[: cut // 2] + b"\0" * (len(whole) - cut) + whole[len(whole) - (cut - cut // 2) :],
    }[order]
    good = line(1) + line(2)
    for tail in (b"", b"\0" * 5000):
        path.write_bytes(good + torn + tail)
        assert lines(path) == [line(1)[:-1], line(2)[:-1]]
    path.write_bytes(good + whole + b"\0" * 5000)
    assert len(lines(path)) == 3


def test_a_line_without_line_break_is_not_read(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1) + line(2)[:-1])
    assert lines(path) == [line(1)[:-1]]


def test_zeros_in_the_middle_damage_only_their_lines(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    whole = b"".join(line(n) for n in range(1000))
    hurt = bytearray(whole)
    hurt[4096:8192] = bytes(4096)
    hurt[12288:16384] = bytes(4096)
    path.write_bytes(bytes(hurt) + bytes(70000))
    read = lines(path)
    bad = [row for row in read if b"\0" in row]
    assert len(bad) == 2
    assert [row for row in read if b"\0" not in row] == [
        row for row in whole.splitlines() if row in bytes(hurt).splitlines()
    ]
    assert read[-1] == line(999)[:-1]


def test_a_damaged_line_is_yielded(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1) + b"{oh no\n" + line(2))
    assert lines(path) == [line(1)[:-1], b"{oh no", line(2)[:-1]]
    with pytest.raises(ValueError):
        events.decode(b"{oh no")


@pytest.mark.parametrize("kind", KINDS)
def test_a_concurrent_reader_sees_complete_lines_only(kind: type[JournalFile], tmp_path: Path):
    journal = kind(tmp_path / "a.jsonl")
    expected = [line(n, n % 200) for n in range(20000)]
    writing = threading.Thread(target=lambda: [journal.append(row) for row in expected])
    writing.start()
    read: list[bytes] = []
    offset = 0
    while len(read) < len(expected):
        for end, _, row in read_lines(journal.path, offset):
            read.append(row + b"\n")
            offset = end
    writing.join()
    journal.close()
    assert read == expected


# ---- full disks


@pytest.fixture
def full_at():
    """Make every file of this process full at a size, as a disk or a quota would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", [MappedJournalFile, JournalFile])
def test_a_full_disk_is_an_error_and_the_last_events_still_fit(kind: type[JournalFile], tmp_path: Path, full_at):
    journal = kind(tmp_path / "a.jsonl")
    full_at(200_000)
    written = 0
    try:
        for written in range(100_000):  # the number of lines that fit
            journal.append(line(written))
    except OSError:
        pass
    assert written * len(line(0)) > 100_000
    with pytest.raises(OSError, match="too large"):
        journal.append(line(written))
    journal.append(b'{"e":"fault"}\n', True)
    journal.append(b'{"e":"end"}\n', True)
    journal.close()
    assert lines(journal.path) == [line(n)[:-1] for n in range(written)] + [b'{"e":"fault"}', b'{"e":"end"}']


def test_a_disk_that_is_free_again_is_used_again(tmp_path: Path, full_at):
    journal = MappedJournalFile(tmp_path / "a.jsonl", retry_seconds=0.0)
    full_at(file.FIRST_GROWTH_BYTES)
    with pytest.raises(OSError, match="too large"):
        journal.append(line(1, 100_000))
    full_at(resource.RLIM_INFINITY)
    journal.append(line(2, 100_000))
    journal.close()
    assert len(lines(journal.path)) == 1


def test_a_line_that_did_not_fit_does_not_damage_later_lines(tmp_path: Path, full_at):
    journal = UnreservedJournalFile(tmp_path / "a.jsonl")
    journal.append(line(1))
    full_at(len(line(1)) + 50)
    with pytest.raises(OSError, match="too large"):
        journal.append(line(2, 500))
    assert lines(journal.path) == [line(1)[:-1]]
    journal.append(line(3))
    assert lines(journal.path) == [line(1)[:-1], line(3)[:-1]]
    journal.close()
    assert journal.path.read_bytes() == line(1) + line(3)


def test_no_file_remains_if_nothing_can_be_allocated(tmp_path: Path, full_at):
    full_at(100)
    with pytest.raises(OSError, match="too large"):
        MappedJournalFile(tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


# ---- which kind


def test_the_file_system_of_a_folder_is_found(tmp_path: Path):
    assert file_system(Path("/proc")) == "proc"
    assert file_system(Path("/proc/self/fd")) == "proc"
    assert file_system(tmp_path) not in ("", "proc")


def test_a_mount_whose_name_is_not_plain_ascii_is_found(tmp_path: Path):
    mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /mnt/donn\\303\\251es\\040ici rw - nfs4 server:/ rw\n"
    mounts += "3 1 0:9 / /mnt/données rw shared:1 - cifs server:/ rw\n"
    table = tmp_path / "mountinfo"
    table.write_bytes(mounts.encode())
    assert file_system(Path("/mnt/données ici/x"), table) == "nfs4"
    assert file_system(Path("/mnt/données/x"), table) == "cifs"
    assert file_system(Path("/mnt/données icis"), table) == "ext4"


def test_a_file_is_mapped_if_safe_or_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number, (kind, wanted) in enumerate(
        [("ext4", MappedJournalFile), ("nfs4", JournalFile), ("btrfs", JournalFile)]
    ):
        monkeypatch.setattr(file, "file_system", lambda path, kind=kind: kind)
        journal = open_journal(tmp_path / f"{number}.jsonl")
        assert type(journal) is wanted
        journal.close()
    monkeypatch.setenv("PROVML_JOURNAL", "map")
    journal = open_journal(tmp_path / "map.jsonl")
    assert type(journal) is MappedJournalFile
    journal.close()
    monkeypatch.setenv("PROVML_JOURNAL", "write")
    journal = open_journal(tmp_path / "write.jsonl")
    assert type(journal) is JournalFile
    journal.close()


def test_readers_ignore_the_zeros_that_a_killed_writer_leaves(tmp_path: Path):
    program = (
        "import sys, os\nfrom pathlib import Path\nfrom provml.journal.file import MappedJournalFile\n"
        "journal = MappedJournalFile(Path(sys.argv[1]))\njournal.append(b'{\"a\":1}\\n')\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.jsonl")], check=False)
    assert done.returncode == -9
    assert (tmp_path / "a.jsonl").stat().st_size == file.FIRST_GROWTH_BYTES
    assert lines(tmp_path / "a.jsonl") == [b'{"a":1}']


def test_a_deleted_file_is_detected(tmp_path: Path):
    journal = MappedJournalFile(tmp_path / "a.jsonl")
    assert not journal.is_deleted()
    journal.path.unlink()
    assert journal.is_deleted()
    journal.close()
