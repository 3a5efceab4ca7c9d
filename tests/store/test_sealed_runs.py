"""Runs that have ended are in a table that is read lazily: the answers are the same, and every change is noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from example_runs import seismic

from provml.errors import RunNotFound
from provml.recording.run import Run
from provml.store import Store, sealed_runs
from provml.store.index import IndexLimits
from provml.store.sealed_runs import FolderState, SealedRun, SealedRuns, make_entry, replace_folder

SEALING = IndexLimits(seal_runs=3, sealed_check_seconds=0, snapshot_events=1)


def train(home: Path, number: int) -> None:
    with (
        Run("sweep", home=home, model="net", strict=True, run=f"r{number}", capture_environment=False) as run,
        run.training(learning_rate=number / 10) as training,
    ):
        for epoch in training.epochs(2):
            epoch.measured(loss=1 / (epoch.index + number))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with five runs that have ended, all sealed."""
    for number in range(5):
        train(tmp_path / "home", number)
    with Store(tmp_path / "home", limits=SEALING) as store:
        store.sync()
        assert len(store._index.sealed) == 5
    return tmp_path / "home"


def triples(store: Store) -> set[str]:
    store.sync()
    return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def rebuilt(home: Path, tmp_path: Path) -> set[str]:
    """The triples of an index that is built from a copy of the journals."""
    copy = tmp_path / f"copy {len(os.listdir(tmp_path))}"  # noqa: PTH208
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("index"))
    with Store(copy) as store:
        return triples(store)


def test_sealed_runs_are_listed_and_found_as_others(home: Path):
    with Store(home, limits=SEALING) as sealed:
        listed, latest = sealed.runs(), sealed.run("latest")
        assert [info.id for info in sealed.runs(2)] == ["r4", "r3"]
        assert sealed.run("r1") == listed[3]
        with pytest.raises(RunNotFound, match="r9"):
            sealed.run("r9")
        part = sealed.table(limit=2)
        rows = sealed.table(sort="started", descending=True)
    with Store(home) as store:
        store.rebuild()
        assert listed == store.runs()
        assert latest.id == "r4"
        assert [row[0] for row in part] == [row[0] for row in rows][:2] == ["r4", "r3"]
        columns = [rows.columns.index(name) for name in part.columns]
        first = next(iter(rows))
        assert next(iter(part)) == tuple(first[column] for column in columns)


def test_an_annotation_of_a_sealed_run_is_noticed(home: Path, tmp_path: Path):
    with Store(home, limits=SEALING) as store, Store(home) as other:
        other.rename("r2", "the good one")
        assert store.run("the good one").id == "r2"
        other.tag("r2", "best")
        assert store.run("r2").tags == ("best",)
        assert triples(store) == rebuilt(home, tmp_path)


def test_a_sealed_run_that_is_resumed_is_read_again(home: Path, tmp_path: Path):
    with Store(home, limits=SEALING) as store:
        store.sync()
        train(home, 2)
        assert store.run("r2").writers == 2
        for number in range(5, 9):
            train(home, number)
        store.sync()
        assert len(store._index.sealed) == 9
        assert triples(store) == rebuilt(home, tmp_path)


@pytest.mark.parametrize("change", ["remove", "cut", "lengthen"])
def test_a_sealed_run_that_somebody_changes_is_noticed(home: Path, tmp_path: Path, change: str):
    with Store(home, limits=SEALING) as store:
        store.sync()
        folder = home / "runs" / "r3"
        journal = next(folder.glob("*.jsonl"))
        lines = journal.read_bytes().splitlines(keepends=True)
        if change == "remove":
            shutil.rmtree(folder)
        else:
            journal.write_bytes(b"".join(lines[:-4] if change == "cut" else [*lines, lines[-2]]))
        assert triples(store) == rebuilt(home, tmp_path)
    with Store(home, limits=SEALING) as store:
        assert triples(store) == rebuilt(home, tmp_path)


def test_a_reader_beside_the_writer_has_the_sealed_runs(home: Path):
    with Store(home, limits=SEALING) as writer:
        writer.sync()
        train(home, 5)
        writer.sync()  # writes a snapshot
        with Store(home, limits=SEALING) as reader:
            assert reader.is_private
            assert len(reader._index.sealed) == 5
            assert [info.id for info in reader.runs()] == [f"r{number}" for number in range(5, -1, -1)]


def test_a_lost_table_of_sealed_runs_is_rebuilt(home: Path):
    next((home / "index").glob("sealed-*")).unlink()
    with Store(home, limits=SEALING) as store:
        assert len(store.runs()) == 5
        assert "missing" in store._index.damage


@pytest.mark.parametrize("place", [12, -12], ids=["head", "entry"])
def test_damage_to_the_table_of_sealed_runs_is_noticed(home: Path, place: int):
    path = next((home / "index").glob("sealed-*"))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with Store(home, limits=SEALING) as store:
        assert [info.id for info in store.runs()] == [f"r{number}" for number in range(4, -1, -1)]
        assert "finished runs" in store._index.damage or path.name in store._index.damage


def test_a_cut_table_of_sealed_runs_is_rebuilt(home: Path):
    path = next((home / "index").glob("sealed-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with Store(home, limits=SEALING) as store:
        assert store.run("r1").id == "r1"
        assert "size" in store._index.damage


def test_a_table_has_entries_by_start_and_reads_only_what_is_asked_for(tmp_path: Path):
    entries = {f"r{n}": make_entry(SealedRun([], f"FINISHED {n}"), 10.0 - n, f"name {n}", None) for n in range(5)}
    table = sealed_runs.write(tmp_path, SealedRuns().replaced((), entries))
    assert [*table] == ["r4", "r3", "r2", "r1", "r0"]
    assert table.latest(2) == [(10.0, "r0"), (9.0, "r1")]
    assert table["r3"].status == "FINISHED 3"
    state = FolderState(7, (("main.jsonl", 3, 9),))
    changed = table.replaced(["r1", "r2"], {"r3": replace_folder(table.entry("r3"), state)})
    read = sealed_runs.read(tmp_path, sealed_runs.write(tmp_path, changed).digest)
    assert [*read.named()] == [(6.0, "r4", "name 4"), (7.0, "r3", "name 3"), (10.0, "r0", "name 0")]
    assert read.folders == {"r3": state}
    assert [*read.packed()] == ["r4", "r0"]
    assert read["r3"].status == "FINISHED 3"
    assert "r1" not in read


# ---- removal


def record_shared(home: Path, number: int) -> None:
    """Record a run that shares its plan, its data and a person with others, and has some of its own."""
    with Run("sweep", home=home, model=f"net {number % 2}", strict=True, run=f"s{number}", by="ada") as run:
        data = run.dataset(f"data {number % 2}".encode(), name=f"flowers {number % 3}", role="raw", seen_by=number)
        run.dataset(f"never used {number % 2}".encode(), name="spare")
        with run.filter("gray", using=data, threshold=number) as step:
            clean = step.produced(b"the same for all", name="clean")
        with run.training(using=clean, learning_rate=0.1, **{f"only_{number}": number}) as training:
            for epoch in training.epochs(2):
                epoch.measured(loss=1 / epoch.index)
            model = training.produced(f"weights {number % 2}".encode())
        with run.evaluation(of=model) as test:
            test.measured(accuracy=number / 10)
        run.tag("shared")
        if number == 4:
            with run.child("part") as child, child.training(using=data) as training, training.epoch(1) as epoch:
                epoch.measured(loss=1.0)


@pytest.mark.parametrize(("seal_runs", "block_lines"), [(3, 100_000), (1000, 100_000), (3, 40), (1000, 200)])
def test_an_index_after_a_removal_is_that_of_the_other_journals(
    tmp_path: Path, seal_runs: int, block_lines: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("provml.store.removal.BLOCK_LINES", block_lines)
    home = tmp_path / "home"
    for number in range(6):
        record_shared(home, number)
    limits = IndexLimits(seal_runs=seal_runs, sealed_check_seconds=0)
    with Store(home, limits=limits) as store:
        store.sync()
        inode = (home / "index" / "store" / "IDENTITY").stat().st_ino
        for runs in (["s4"], ["s0"], ["s1", "s3"]):
            store.remove_all(runs)
            assert triples(store) == rebuilt(home, tmp_path), runs
            assert not {*runs} & {info.id for info in store.runs()}
        assert (home / "index" / "store" / "IDENTITY").stat().st_ino == inode, "the index was rebuilt"
    with Store(home, limits=limits) as store:
        assert triples(store) == rebuilt(home, tmp_path)


REMOVAL = """
import resource, sys
from provml.store import Store

with Store(sys.argv[1]) as store:
    store.sync()
    size, before = len(store.backend.graph()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store.remove("large")
    print(size - len(store.backend.graph()), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_the_removal_of_a_large_run_takes_little_memory(tmp_path: Path):
    """The statements of a run are compared in blocks; all of them took 1 kB each."""
    home = tmp_path / "home"
    record_shared(home, 0)
    with Run("large", home=home, model="net", run="large", detail="batch") as run, run.training() as training:
        for epoch in training.epochs(4):
            for batch in epoch.batches(range(8_000)):
                batch.measured(loss=1 / batch.index)
    with Store(home) as store:
        store.sync()
        loaded = tmp_path / "own.nt"
        part = "<https://w3id.org/provml/run/large/training/1> <http://www.w3.org/2000/01/rdf-schema#comment>"
        loaded.write_text(f'{part} "kept" .')
        store.load(loaded)
    done = subprocess.run(
        [sys.executable, "-c", REMOVAL, str(home)], capture_output=True, text=True, check=True, timeout=300
    )
    triples_removed, megabytes = map(int, done.stdout.split())
    assert triples_removed > 600_000
    assert megabytes < 400
    assert not list((home / "index").glob("reader-*"))
    with Store(home) as store:
        assert store.query(f"SELECT ?text {{ {part} ?text }}").rows == [("kept",)]
        assert triples(store) == rebuilt(home, tmp_path)


def test_a_removal_that_is_killed_is_completed_by_the_next_sync(home: Path, tmp_path: Path, monkeypatch: Any):
    import provml.store.removal as removal

    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(removal, "apply_removal", die)
    with Store(home, limits=SEALING) as store, pytest.raises(KeyboardInterrupt):
        store.remove("r2")
    with Store(home, limits=SEALING) as store:
        assert triples(store) == rebuilt(home, tmp_path)
        assert [info.id for info in store.runs()] == ["r4", "r3", "r1", "r0"]


@pytest.mark.parametrize("seal_runs", [1, 1000])
def test_journals_that_are_indexed_in_parts_give_the_same_index(tmp_path: Path, seal_runs: int):
    seismic.life_cycle().write(tmp_path / "home")
    shutil.copytree(tmp_path / "home", tmp_path / "parts")
    parts = IndexLimits(journals_per_load=3, seal_runs=seal_runs)
    with Store(tmp_path / "home") as store, Store(tmp_path / "parts", limits=parts) as in_parts:
        assert in_parts.sync() == store.sync() > 0
        assert triples(in_parts) == triples(store)
        assert [info.status for info in in_parts.runs()] == [info.status for info in store.runs()]
        assert not in_parts.verify()


def test_an_interrupted_part_leaves_the_parts_before_it(tmp_path: Path):
    seismic.life_cycle().write(tmp_path / "home")
    shutil.copytree(tmp_path / "home", tmp_path / "parts")
    events: list[int] = []

    def interrupt(count: int) -> None:
        events.append(count)
        if len(events) == 5:
            raise KeyboardInterrupt

    with Store(tmp_path / "parts", limits=IndexLimits(journals_per_load=2, seal_runs=1)) as store:
        with pytest.raises(KeyboardInterrupt):
            store.sync(interrupt)
        rest = store.sync()
        assert triples(store) == rebuilt(tmp_path / "home", tmp_path)
    assert 0 < rest < sum(journal.count(b"\n") for journal in read_journals(tmp_path / "home"))


def read_journals(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in home.glob("runs/*/*.jsonl")]


def test_a_look_at_many_folders_is_not_repeated_by_each_sync(home: Path, monkeypatch: pytest.MonkeyPatch):
    looks, look = [], SealedRuns.changed

    def slow(*arguments: Any) -> list[str]:
        looks.append(time.sleep(0.2))
        return look(*arguments)

    with Store(home, limits=replace(SEALING, sealed_check_seconds=0.01)) as store:
        store.sync()
        monkeypatch.setattr(SealedRuns, "changed", slow)
        for _ in range(2):
            time.sleep(0.05)
            store.runs()
        assert len(looks) == 1
        store.tag("r1", "good")
        assert len(looks) == 2, "what this process has changed is seen at once"
        assert store.run("r1").tags == ("good",)
