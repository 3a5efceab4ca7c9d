"""Mapping in another process gives the same index, also if that process dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from provml.recording.run import Run
from provml.store import Store, mapping_process
from provml.store.index import IndexLimits

IN_CHILD = IndexLimits(worker_min_bytes=1, events_per_chunk=10, seal_runs=2)
HERE = IndexLimits(worker_min_bytes=1 << 60, events_per_chunk=10, seal_runs=2)


def train(home: Path, run_id: str, epochs: int = 30) -> None:
    with Run("sweep", home=home, model="net", strict=True, run=run_id, capture_environment=False) as run:
        data = run.dataset(b"pixels", name="digits")
        with run.training(using=data, learning_rate=0.1) as training:
            for epoch in training.epochs(epochs):
                epoch.measured(loss=1 / epoch.index, accuracy=epoch.index / 100)
            model = training.produced(f"weights {run_id}".encode())
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.9)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("recorded") / "home"
    for number in range(3):
        train(home, f"r{number}")
    return home


@pytest.fixture(autouse=True)
def second_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_process, "is_useful", lambda: True)


def triples(store: Store) -> set[str]:
    return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


@pytest.fixture(scope="module")
def expected(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    home = Path(shutil.copytree(recorded, tmp_path_factory.mktemp("expected") / "home"))
    with Store(home, limits=HERE) as store:
        return triples(store)


def count_children(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    children: list[Any] = []
    start = subprocess.Popen

    def popen(*args: Any, **options: Any) -> Any:
        children.append(start(*args, **options))
        return children[-1]

    monkeypatch.setattr(mapping_process.subprocess, "Popen", popen)
    return children


def test_a_home_whose_path_is_no_text_is_mapped_in_a_child(
    recorded: Path, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = shutil.copytree(recorded, tmp_path / os.fsdecode(b"h\xffme"))
    children = count_children(monkeypatch)
    with Store(home, limits=IN_CHILD) as store:
        assert triples(store) == expected
    assert len(children) == 1


def test_the_index_is_the_same_and_what_is_new_is_added(
    recorded: Path, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = Path(shutil.copytree(recorded, tmp_path / "home"))
    children = count_children(monkeypatch)
    reports: list[int] = []
    with Store(home, limits=IN_CHILD) as store:
        events = store.sync(reports.append)
        assert triples(store) == expected
        assert sum(reports) == events > 100
        assert [child.returncode for child in children] == [0]
        assert store.ask("q5", model="net").rows
        assert len(children) == 1  # nothing new: no child
        train(home, "later")
        assert [info.status for info in store.runs()] == ["FINISHED"] * 4
        assert len(children) == 2
        assert not store.verify()
    other = Path(shutil.copytree(home, tmp_path / "other", ignore=shutil.ignore_patterns("index")))
    with Store(home, limits=HERE) as store, Store(other, limits=HERE) as rebuilt:
        assert triples(store) == triples(rebuilt)


def test_a_child_that_is_killed_loses_nothing(
    recorded: Path, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = Path(shutil.copytree(recorded, tmp_path / "home"))
    children = count_children(monkeypatch)
    received: list[bytes] = []
    read = mapping_process._read

    def killing(file: Any) -> bytes | None:
        if len(received) == 5:
            os.kill(children[0].pid, signal.SIGKILL)
            return None
        received.append(b"")
        return read(file)

    monkeypatch.setattr(mapping_process, "_read", killing)
    with Store(home, limits=IN_CHILD) as store:
        assert triples(store) == expected
    assert len(received) == 5


def test_an_unfinished_sync_ends_the_child(recorded: Path, expected: set[str], tmp_path: Path, monkeypatch: Any):
    home = Path(shutil.copytree(recorded, tmp_path / "home"))
    children = count_children(monkeypatch)

    def interrupt(events: int) -> None:
        raise KeyboardInterrupt

    with Store(home, limits=IN_CHILD) as store:
        with pytest.raises(KeyboardInterrupt):
            store.sync(interrupt)
        assert children[0].returncode is not None
        assert triples(store) == expected


def test_without_a_child_this_process_maps(recorded: Path, expected: set[str], tmp_path: Path, monkeypatch: Any):
    home = Path(shutil.copytree(recorded, tmp_path / "home"))

    def fail(*args: Any, **options: Any) -> None:
        raise OSError("no process")

    monkeypatch.setattr(mapping_process.subprocess, "Popen", fail)
    with Store(home, limits=IN_CHILD) as store:
        assert triples(store) == expected
