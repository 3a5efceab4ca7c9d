"""Journals: lines appended through memory or by write(2), what a reader may see of them, and disks that are full."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml import event, journal
from provml.journal import BareFile, MappedFile, WrittenFile, file_system, open_sink, read_lines

KINDS = [MappedFile, WrittenFile, BareFile]


def lines(path: Path, offset: int = 0) -> list[bytes]:
    return [line for _, _, line in read_lines(path, offset)]


def line(number: int, length: int = 20) -> bytes:
    return b'{"n":%d,"x":"%s"}\n' % (number, b"x" * length)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_appended_is_read_before_and_after_closing(kind: type[WrittenFile], tmp_path: Path):
    sink = kind(tmp_path / "a.jsonl")
    told = [line(n, n % 300) for n in range(9000)]  # more than a megabyte: it grows several times
    for one in told:
        sink.append(one)
    assert lines(sink.path) == [one[:-1] for one in told]
    sink.close()
    assert sink.path.read_bytes() == b"".join(told)
    assert lines(sink.path) == [one[:-1] for one in told]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_longer_than_a_chunk_fits(kind: type[WrittenFile], tmp_path: Path):
    sink = kind(tmp_path / "a.jsonl")
    sink.append(line(1, 3 * journal.CHUNK))
    sink.append(line(2))
    assert [len(one) for one in lines(sink.path)] == [len(line(1, 3 * journal.CHUNK)) - 1, len(line(2)) - 1]
    sink.close()


@pytest.mark.parametrize("kind", KINDS)
def test_no_journal_is_written_over(kind: type[WrittenFile], tmp_path: Path):
    kind(tmp_path / "a.jsonl").close()
    with pytest.raises(FileExistsError):
        kind(tmp_path / "a.jsonl")
    with pytest.raises(FileExistsError):
        open_sink(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_in_the_middle_of_a_line_costs_a_reader_nothing(
    kind: type[WrittenFile], when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sink = kind(tmp_path / "a.jsonl")
    sink.append(line(1))
    write = os.pwrite

    def interrupted(*given: Any) -> int:
        monkeypatch.setattr(os, "pwrite", write)
        if when == "after":
            write(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pwrite", interrupted)
    with contextlib.nullcontext() if kind is MappedFile else pytest.raises(KeyboardInterrupt):
        sink.append(line(2, 50))
    assert lines(sink.path) == [line(1)[:-1], line(2, 50)[:-1]]
    sink.append(line(3))
    assert lines(sink.path, len(line(1) + line(2, 50))) == [line(3)[:-1]]
    sink.close()


def test_reading_goes_on_where_it_stopped(tmp_path: Path):
    sink = MappedFile(tmp_path / "a.jsonl")
    sink.append(line(1))
    (end, number, first), *_ = read_lines(sink.path)
    assert (number, first) == (1, line(1)[:-1])
    assert list(read_lines(sink.path, end, number)) == []
    sink.append(line(2))
    assert list(read_lines(sink.path, end, number)) == [(end + len(line(2)), 2, line(2)[:-1])]
    sink.close()


@given(cut=st.integers(0, len(line(3)) - 1), order=st.sampled_from(["forward", "backward", "ends first"]))
def test_a_torn_last_line_waits_however_it_was_torn(cut: int, order: str, tmp_path_factory: pytest.TempPathFactory):
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


def test_a_line_without_its_break_waits(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1) + line(2)[:-1])
    assert lines(path) == [line(1)[:-1]]


def test_zeros_in_the_middle_cost_the_lines_they_hit_and_no_other(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    whole = b"".join(line(n) for n in range(1000))
    hurt = bytearray(whole)
    hurt[4096:8192] = bytes(4096)
    hurt[12288:16384] = bytes(4096)
    path.write_bytes(bytes(hurt) + bytes(70000))
    read = lines(path)
    bad = [one for one in read if b"\0" in one]
    assert len(bad) == 2
    assert [one for one in read if b"\0" not in one] == [
        one for one in whole.splitlines() if one in bytes(hurt).splitlines()
    ]
    assert read[-1] == line(999)[:-1]


def test_a_damaged_line_is_given_for_the_caller_to_find_it(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1) + b"{oh no\n" + line(2))
    assert lines(path) == [line(1)[:-1], b"{oh no", line(2)[:-1]]
    with pytest.raises(ValueError):
        event.decode(b"{oh no")


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_beside_the_writer_only_ever_sees_whole_lines(kind: type[WrittenFile], tmp_path: Path):
    sink = kind(tmp_path / "a.jsonl")
    told = [line(n, n % 200) for n in range(20000)]
    writing = threading.Thread(target=lambda: [sink.append(one) for one in told])
    writing.start()
    seen: list[bytes] = []
    offset = 0
    while len(seen) < len(told):
        for end, _, one in read_lines(sink.path, offset):
            seen.append(one + b"\n")
            offset = end
    writing.join()
    sink.close()
    assert seen == told


# ---- full disks


@pytest.fixture
def full_at():
    """Make every file of this process full at a size, as a disk or a quota would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", [MappedFile, WrittenFile])
def test_a_full_disk_is_an_error_and_the_last_words_still_fit(kind: type[WrittenFile], tmp_path: Path, full_at):
    sink = kind(tmp_path / "a.jsonl")
    full_at(200_000)
    told = 0
    try:
        for told in range(100_000):  # how many went in is what is asked
            sink.append(line(told))
    except OSError:
        pass
    assert told * len(line(0)) > 100_000
    with pytest.raises(OSError, match="too large"):
        sink.append(line(told))
    sink.append(b'{"e":"fault"}\n', True)
    sink.append(b'{"e":"end"}\n', True)
    sink.close()
    assert lines(sink.path) == [line(n)[:-1] for n in range(told)] + [b'{"e":"fault"}', b'{"e":"end"}']


def test_a_disk_that_is_free_again_is_used_again(tmp_path: Path, full_at, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(journal, "PATIENCE", 0.0)
    sink = MappedFile(tmp_path / "a.jsonl")
    full_at(journal.FIRST_CHUNK)
    with pytest.raises(OSError, match="too large"):
        sink.append(line(1, 100_000))
    full_at(resource.RLIM_INFINITY)
    sink.append(line(2, 100_000))
    sink.close()
    assert len(lines(sink.path)) == 1


def test_half_a_line_that_did_not_fit_hurts_no_later_one(tmp_path: Path, full_at):
    sink = BareFile(tmp_path / "a.jsonl")
    sink.append(line(1))
    full_at(len(line(1)) + 50)
    with pytest.raises(OSError, match="too large"):
        sink.append(line(2, 500))
    assert lines(sink.path) == [line(1)[:-1]]
    sink.append(line(3))
    assert lines(sink.path) == [line(1)[:-1], line(3)[:-1]]
    sink.close()
    assert sink.path.read_bytes() == line(1) + line(3)


def test_where_nothing_can_be_allocated_no_file_is_left(tmp_path: Path, full_at):
    full_at(100)
    with pytest.raises(OSError, match="too large"):
        MappedFile(tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


# ---- which kind


def test_the_file_system_of_a_folder_is_known(tmp_path: Path):
    assert file_system(Path("/proc")) == "proc"
    assert file_system(Path("/proc/self/fd")) == "proc"
    assert file_system(tmp_path) not in ("", "proc")


def test_a_mount_whose_name_is_not_plain_ascii_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /mnt/donn\\303\\251es\\040ici rw - nfs4 server:/ rw\n"
    mounts += "3 1 0:9 / /mnt/données rw shared:1 - cifs server:/ rw\n"
    monkeypatch.setattr(Path, "read_bytes", lambda self: mounts.encode())
    assert file_system(Path("/mnt/données ici/x")) == "nfs4"
    assert file_system(Path("/mnt/données/x")) == "cifs"
    assert file_system(Path("/mnt/données icis")) == "ext4"


def test_a_mapped_file_is_taken_where_it_is_safe_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROVML_JOURNAL", raising=False)
    for number, (kind, wanted) in enumerate([("ext4", MappedFile), ("nfs4", WrittenFile), ("btrfs", WrittenFile)]):
        monkeypatch.setattr(journal, "file_system", lambda path, kind=kind: kind)
        sink = open_sink(tmp_path / f"{number}.jsonl")
        assert type(sink) is wanted
        sink.close()
    monkeypatch.setenv("PROVML_JOURNAL", "map")
    sink = open_sink(tmp_path / "map.jsonl")
    assert type(sink) is MappedFile
    sink.close()
    monkeypatch.setenv("PROVML_JOURNAL", "write")
    sink = open_sink(tmp_path / "write.jsonl")
    assert type(sink) is WrittenFile
    sink.close()


def test_a_killed_writer_leaves_zeros_that_no_reader_minds(tmp_path: Path):
    program = (
        "import sys, os\nfrom pathlib import Path\nfrom provml.journal import MappedFile\n"
        "sink = MappedFile(Path(sys.argv[1]))\nsink.append(b'{\"a\":1}\\n')\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.jsonl")], check=False)
    assert done.returncode == -9
    assert (tmp_path / "a.jsonl").stat().st_size == journal.FIRST_CHUNK
    assert lines(tmp_path / "a.jsonl") == [b'{"a":1}']


def test_a_removed_file_is_noticed(tmp_path: Path):
    sink = MappedFile(tmp_path / "a.jsonl")
    assert not sink.is_gone()
    sink.path.unlink()
    assert sink.is_gone()
    sink.close()
