"""Homes with symbolic links, with a path that is no text, and those that people share."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import provml
from provml.errors import FileFormatError
from provml.store import Store


def record(home: Path, run: str = "r") -> None:
    with provml.record("x", home=home, run=run, capture_environment=False) as recorded:
        with recorded.training(learning_rate=0.1) as training:
            for batch in training.epoch(1).batches(range(3)):
                batch.measured(loss=1.0)
        recorded.tag("good")


LINKS = ("index/lock", "index/statements", "index/progress", "segments/lock", "runs/r/main.slate", "seals/ledger.jsonl")


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link_in_a_home(tmp_path: Path, name: str):
    home, outside = tmp_path / "home", tmp_path / "outside"
    outside.write_text("precious")
    link = home / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)

    record(home)
    with Store(home) as store:
        assert [run.status for run in store.runs()] == ["FINISHED"]
        store.snapshot()
        with contextlib.suppress(FileFormatError, OSError):  # a link in place of a lock: nothing can be packed
            store.pack()

    assert outside.read_text() == "precious"


def test_a_home_whose_path_is_no_text_works(tmp_path: Path):
    home = tmp_path / os.fsdecode(b"h\xff\xe9me")
    data = tmp_path / os.fsdecode(b"da\xffta.csv")
    data.write_text("a,b\n1,2\n")
    with provml.record("x", home=home, run="r", capture_environment=False) as run:
        run.training(using=run.dataset(data, role="training")).measured(loss=1.0)
        run.keep(data)
    assert run.capture_errors == 0
    with Store(home) as store:
        assert [info.status for info in store.runs()] == ["FINISHED"]
        assert store.verify() == []
        with pytest.raises(FileFormatError, match="the path is not valid UTF-8"):
            store.rebuild()
        with pytest.raises(FileFormatError, match="Rename the folder, then pack"):
            store.pack()
    command = [sys.executable, "-m", "provml", "show", "r", "--home", str(home)]
    process = subprocess.run(command, capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")


def test_members_of_a_group_can_seal_in_a_shared_home(tmp_path: Path):
    before = os.umask(0o002)
    try:
        record(tmp_path / "home")
    finally:
        os.umask(before)
    mode = (tmp_path / "home" / "seals" / "ledger.jsonl").stat().st_mode
    assert stat.S_IMODE(mode) == 0o664
    assert stat.S_IMODE((tmp_path / "home" / "seals" / "open").stat().st_mode) == 0o775
