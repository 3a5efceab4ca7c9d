"""Damage to one byte of an index, a snapshot or a checkpoint: it is noticed, and the index is rebuilt with a word."""

from __future__ import annotations

import io
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from provml.errors import IndexDamaged
from provml.recording.run import record
from provml.store import Store, checkpoint
from provml.store.compaction import MARKER
from provml.store.index import IndexLimits

EVERYTHING = "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o"
UNSORTED = "SELECT ?s ?p ?o { ?s ?p ?o }"
BLOCK_OFFSET = 40
"""A byte of the first data block of an SST file: the store can be opened, and reading the block fails."""


def export(store: Store) -> bytes:
    file = io.BytesIO()
    store.export(None, file, "nq")
    return file.getvalue()


READS: dict[str, Callable[[Store], Any]] = {
    "query": lambda store: store.query(EVERYTHING).rows,
    "unsorted": lambda store: sorted(map(str, store.query(UNSORTED).rows)),
    "unsorted-in-process": lambda store: sorted(map(str, store.query(UNSORTED, timeout=60).rows)),
    "stream": lambda store: sorted(map(str, store.stream(UNSORTED))),
    "ask": lambda store: store.ask("epochs-by-loss", model="first", run="latest").rows,
    "sparql": lambda store: store.sparql("epochs-by-loss", model="first", run="latest"),
    "table": lambda store: store.table().rows,
    "export": export,
    "validate": lambda store: store.validate(None).conforms,
    "compare": lambda store: store.compare("first", "second").rows,
    "lineage": lambda store: str(store.lineage("latest")),
    "curves": lambda store: store.curves(iter(["first", "second"]), "loss"),
    "artifacts": lambda store: [artifact.name for artifact in store.artifacts()],
    "report": lambda store: len(store.report("first", validate=False).to_markdown()),
    "read": lambda store: store.read(store.run("first").iri).iri,
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with an index and a snapshot."""
    home = tmp_path_factory.mktemp("intact") / "home"
    for name in ("first", "second"):
        with record(name, home=home, strict=True, run=name, capture_environment=False) as run:
            data = run.dataset(name.encode(), name="train.csv", role="training")
            with run.training(using=data, learning_rate=0.1) as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=1 / epoch.index)
                training.produced(b"weights" + name.encode())
            run.text("text", "notes.txt")
    with Store(home) as store:
        store.sync()
        store.snapshot()
    return home


@pytest.fixture
def home(intact: Path, tmp_path: Path) -> Path:
    """A copy of the home, whose index can be damaged."""
    return Path(shutil.copytree(intact, tmp_path / "home"))


def flip(path: Path, offset: int) -> None:
    """Flip one bit of a file, which is no longer a hard link to another one."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.unlink()
    path.write_bytes(data)


def damage_blocks(folder: Path) -> str:
    """Damage the first block of each large file, so that every query comes across one; return the first file's name.

    The engine reads small files when it opens an index.
    """
    paths = [path for path in sorted(folder.glob("*.sst")) if path.stat().st_size > 5000]
    for path in paths:
        flip(path, BLOCK_OFFSET)
    return paths[0].name


@pytest.mark.parametrize("read", READS)
def test_an_index_that_was_damaged_is_rebuilt_when_it_is_opened(
    intact: Path, home: Path, read: str, caplog: pytest.LogCaptureFixture
):
    with Store(intact) as store:
        expected = READS[read](store)
    name = damage_blocks(home / "index" / "store")
    with Store(home) as store:
        assert READS[read](store) == expected
        assert not store.is_private
    (message,) = caplog.messages
    assert message == (
        f"provml: the index of {home} is damaged (checksum mismatch in {name}). Nothing is lost: it is rebuilt from "
        "the journals."
    )
    caplog.clear()
    with Store(home) as store:
        assert READS[read](store) == expected
    assert caplog.messages == []


@pytest.mark.parametrize("read", ["unsorted", "unsorted-in-process", "stream", "export", "ask"])
def test_damage_that_only_the_engine_notices_is_healed_while_the_store_is_open(
    intact: Path, home: Path, read: str, caplog: pytest.LogCaptureFixture
):
    with Store(intact) as store:
        expected = READS[read](store)
    damage_blocks(home / "index" / "store")
    (home / "index" / "checksums").unlink()
    with Store(home) as store:
        assert caplog.messages == []
        assert READS[read](store) == expected
        assert READS[read](store) == expected
    (message,) = caplog.messages
    assert "is damaged (block checksum mismatch)" in message
    assert "it is rebuilt from the journals" in message


@pytest.fixture
def uncompacted(home: Path) -> Path:
    """A home whose index is due for compaction, and has damage that only the engine notices."""
    shutil.rmtree(home / "index")
    run = record("third", home=home, strict=True, run="third", capture_environment=False)
    with run, run.training() as training:
        for epoch in training.epochs(200):
            epoch.measured(loss=1 / epoch.index)
    with Store(home, limits=IndexLimits(transaction_bytes=1000, compact_min_bytes=1 << 30)) as store:
        store.sync()
    damage_blocks(home / "index" / "store")
    (home / "index" / "checksums").unlink()
    (home / "index" / MARKER).touch()
    return home


def test_damage_that_a_compaction_finds_is_healed(uncompacted: Path, caplog: pytest.LogCaptureFixture):
    with Store(uncompacted) as store:
        store.sync()
        while store.is_compacting:
            time.sleep(0.01)
        store.sync()
        assert not store.is_private
        (message,) = caplog.messages
        assert "is damaged (block checksum mismatch)" in message
        assert "it is rebuilt from the journals" in message
        assert len(store.runs()) == 3


def test_damage_that_a_compaction_finds_while_the_store_is_closed_is_healed_by_the_next_process(
    uncompacted: Path, caplog: pytest.LogCaptureFixture
):
    with Store(uncompacted) as store:
        store.sync()
    (message,) = caplog.messages
    assert "is damaged (block checksum mismatch)" in message
    caplog.clear()
    with Store(uncompacted) as store:
        assert not store.is_private
        assert len(store.runs()) == 3
        assert len(store.query(UNSORTED).rows) > 1000
    assert caplog.messages == []
    assert not (uncompacted / "index" / MARKER).exists()


@pytest.mark.parametrize("read", ["graphs", "graphs-in-process", "export"])
def test_a_missing_file_that_the_engine_notices_when_it_reads_is_healed(
    intact: Path, tmp_path: Path, read: str, caplog: pytest.LogCaptureFixture
):
    names = "SELECT ?g { GRAPH ?g {} }"
    reads: dict[str, Callable[[Store], Any]] = {
        "graphs": lambda store: sorted(map(str, store.query(names).rows)),
        "graphs-in-process": lambda store: sorted(map(str, store.query(names, timeout=60).rows)),
        "export": export,
    }
    original = Path(shutil.copytree(intact, tmp_path / "original"))
    (tmp_path / "graph.ttl").write_text("<urn:s> <urn:p> 'o' .")
    for number in range(2):
        with Store(original) as store:
            store.load(tmp_path / "graph.ttl", graph=f"urn:example:{number}")
            expected = reads[read](store)
    late = 0
    for path in sorted((original / "index" / "store").glob("*.sst")):
        home = Path(shutil.copytree(original, tmp_path / path.stem))
        (home / "index" / "store" / path.name).unlink()
        caplog.clear()
        with Store(home) as store:
            was_noticed = bool(caplog.messages)
            assert reads[read](store) == expected
        late += bool(caplog.messages) and not was_noticed
        assert all("Nothing is lost: it is rebuilt from the journals" in text for text in caplog.messages)
    assert late


UNREADABLE = [
    ("../checksums", 200),
    ("../progress", 200),
    ("MANIFEST-*", 100),
    ("CURRENT", 3),
    ("CURRENT", 15),
    ("*.sst", -3),
]


@pytest.mark.parametrize(("pattern", "offset"), UNREADABLE)
def test_an_index_that_cannot_be_opened_is_rebuilt_with_a_warning(
    intact: Path, home: Path, pattern: str, offset: int, caplog: pytest.LogCaptureFixture
):
    with Store(intact) as store:
        expected = export(store)
    flip(sorted((home / "index" / "store").glob(pattern))[0], offset)
    with Store(home) as store:
        assert export(store) == expected
    (message,) = caplog.messages
    assert "is damaged" in message
    assert "it is rebuilt from the journals" in message


def test_each_flipped_byte_of_a_checkpoint_is_noticed(home: Path):
    path = home / "index" / "progress"
    for offset in range(path.stat().st_size):
        flip(path, offset)
        with pytest.raises(IndexDamaged):
            checkpoint.read(path)
        flip(path, offset)
    assert set(checkpoint.read(path).journals) == {"runs/first/main.jsonl", "runs/second/main.jsonl"}


@pytest.mark.parametrize("damage", ["blocks", "MANIFEST-*", "../progress"])
def test_a_reader_with_a_damaged_snapshot_indexes_the_journals_itself(
    intact: Path, home: Path, damage: str, caplog: pytest.LogCaptureFixture
):
    with Store(intact) as store:
        expected = export(store)
    (snapshot,) = (home / "index" / "snapshot").glob("*/store")
    if damage == "blocks":
        damage_blocks(snapshot)
    else:
        flip(next(iter(snapshot.glob(damage))), 100)
    with Store(home) as holder, Store(home) as reader:
        assert reader.is_private
        assert export(reader) == expected
        assert export(holder) == expected
    (message,) = caplog.messages
    assert "Nothing is lost: this process indexes the journals itself." in message


def test_a_stream_that_has_delivered_rows_ends_with_an_error_and_the_next_one_is_whole(tmp_path: Path):
    home = tmp_path / "home"
    with record("long", home=home, strict=True, capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(200):
            epoch.measured(loss=1 / epoch.index)
    with Store(home) as store:
        expected = sorted(map(str, store.stream(UNSORTED)))
    damage_late_block(home / "index" / "store", UNSORTED, tmp_path / "trial")
    (home / "index" / "checksums").unlink()
    with Store(home) as store:
        rows = []
        with pytest.raises(IndexDamaged, match=r"rebuilt from the journals\. Run this again"):
            rows.extend(store.stream(UNSORTED))
        assert sorted(map(str, store.stream(UNSORTED))) == expected


def damage_late_block(folder: Path, sparql: str, trial: Path) -> None:
    """Damage a byte that is read only after some rows."""
    for path in sorted(folder.glob("*.sst"), key=lambda path: path.stat().st_size, reverse=True):
        for share in (0.4, 0.6):
            offset = int(path.stat().st_size * share)
            shutil.copytree(folder, trial)
            flip(trial / path.name, offset)
            rows = 0
            try:
                for _ in ox.Store(str(trial)).query(sparql):
                    rows += 1
            except RuntimeError:
                if rows:
                    flip(path, offset)
                    return
            finally:
                shutil.rmtree(trial)
    raise AssertionError("every block is read before the first row")


def test_verify_reports_an_index_that_it_had_to_rebuild(home: Path):
    name = damage_blocks(home / "index" / "store")
    with Store(home) as store:
        (problem,) = store.verify()
        assert (problem.file, problem.in_index) == ("index", True)
        assert problem.reason == f"was damaged (checksum mismatch in {name}) and is rebuilt"
    with Store(home) as store:
        assert store.verify() == []


@pytest.mark.parametrize("missing", ["CURRENT", "MANIFEST"])
def test_an_index_whose_making_was_interrupted_is_made_again_in_silence(
    home: Path, caplog: pytest.LogCaptureFixture, missing: str
):
    (home / "index" / "progress").unlink()  # the last file that is written
    for path in (home / "index" / "store").glob(f"{missing}*"):
        path.unlink()
    with Store(home) as store:
        assert store.verify() == []
        assert len(store.runs()) == 2
    assert caplog.messages == []


def test_an_error_that_is_no_damage_is_raised_as_it_is(home: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    with Store(home) as store, pytest.raises(ValueError, match="Corruption"):
        store.query("SELECT ?x { ?x Corruption }")
    assert caplog.messages == []


def test_the_index_of_a_new_home_is_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened = []
    engine = ox.Store

    def opening(*folder: str) -> ox.Store:
        opened.append(folder)
        return engine(*folder)

    monkeypatch.setattr(ox, "Store", opening)
    with Store(tmp_path / "home", create=True) as store:
        assert store.query("SELECT ?class { GRAPH ?g { ?class a owl:Class } } LIMIT 1").rows
    assert len(opened) == 1
