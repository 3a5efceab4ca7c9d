"""Segments: packed runs are read, exported, annotated, resumed, removed and restored like others."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from provml.cli import main
from provml.errors import FileFormatError
from provml.journal import segments
from provml.journal.status import is_being_written
from provml.recording.run import Run
from provml.remote.shipment import RunShipment
from provml.store import Store, background_rebuild, lock
from provml.store.index import IndexLimits

RUNS = [f"r{number}" for number in range(6)]


def train(home: Path, run_id: str) -> None:
    with (
        Run("sweep", home=home, model="net", strict=True, run=run_id, capture_environment=False) as run,
        run.training(learning_rate=0.1) as training,
    ):
        run.keep(f"notes of {run_id}".encode(), name="notes")
        for epoch in training.epochs(2):
            epoch.measured(loss=1 / epoch.index)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("recorded") / "home"
    for run_id in RUNS:
        train(home, run_id)
    return home


@pytest.fixture
def home(recorded: Path, tmp_path: Path) -> Path:
    """A home with six runs, which are not packed yet."""
    return Path(shutil.copytree(recorded, tmp_path / "home"))


def digests(home: Path) -> dict[str, tuple[str, int]]:
    paths = sorted(home.glob("runs/*/*.jsonl"))
    return {str(p.relative_to(home)): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in paths}


def triples(store: Store) -> set[str]:
    store.sync()
    return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def exported(store: Store, run: str) -> list[bytes]:
    file = io.BytesIO()
    store.export(run, file, "nt")
    return sorted(file.getvalue().splitlines())


def test_packed_journals_are_restored_byte_for_byte(home: Path):
    before = digests(home)
    with Store(home) as store:
        graph = triples(store)
        assert sorted(store.pack()) == RUNS
        assert not list((home / "runs").iterdir())
        assert len(list((home / "segments").glob("*.seg"))) == 1
        assert store.pack() == []
        assert sorted(store.unpack()) == RUNS
        assert digests(home) == before
        assert not list((home / "segments").glob("*.seg"))
        assert triples(store) == graph


def test_everything_works_on_packed_runs(home: Path, tmp_path: Path):
    with Store(home) as store:
        graph, runs, export = triples(store), store.runs(), exported(store, "r3")
        store.pack()
        assert exported(store, "r3") == export
        assert store.verify() == []
        assert store.artifact("r3", "notes").is_stored
        assert store.validate("r3").conforms
        assert "r3" in store.report("r3", validate=False).to_markdown()
        store.rebuild()
        assert (triples(store), store.runs()) == (graph, runs)
        store.backup(tmp_path / "copy")
    with Store(tmp_path / "copy") as copy:
        assert triples(copy) == graph
    for command in (["runs"], ["show", "r2"], ["status", "r2"], ["verify"], ["gc", "--artifacts", "--min-age", "0"]):
        result = CliRunner().invoke(main, [*command, "--home", str(home)])
        assert result.exit_code == 0, result.output
    assert "Nothing to remove" in result.output


def test_a_packed_run_is_annotated_resumed_and_packed_again(home: Path):
    with Store(home, limits=IndexLimits(sealed_check_seconds=0)) as store:
        store.pack()
        assert store.tag("r2", "best").tags == ("best",)
        train(home, "r4")
        assert store.run("r4").writers == 2
        assert "r4" in store.pack()
        assert sorted(path.name for path in (home / "runs").iterdir()) == ["r2"]
        graph = triples(store)
        store.rebuild()
        assert triples(store) == graph
        assert store.run("r2").tags == ("best",)


def test_a_removed_run_is_gone_from_its_segment(home: Path):
    with Store(home) as store:
        store.pack()
        packed = segments.manifest(home).run("r3")
        assert packed is not None
        block = (home / "segments" / packed.segment).read_bytes()[packed.files[0].offset :][: packed.files[0].length]
        store.remove("r3")
        assert [info.id for info in store.runs()] == ["r5", "r4", "r2", "r1", "r0"]
        graph = triples(store)
        assert all(block not in path.read_bytes() for path in (home / "segments").iterdir())
        store.rebuild()
        assert triples(store) == graph
        assert sorted(store.unpack()) == ["r0", "r1", "r2", "r4", "r5"]


def test_a_packed_run_that_is_to_be_shipped_is_restored_first(home: Path):
    before = digests(home)
    with Store(home) as store:
        store.pack()
    RunShipment(home, home / "runs" / "r3", "http://127.0.0.1:1")
    assert digests(home) == {key: value for key, value in before.items() if "/r3/" in key}
    assert len(segments.manifest(home)) == 5


def test_a_running_or_killed_run_is_not_packed(home: Path):
    journal = next((home / "runs" / "r1").glob("*.jsonl"))
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    with Run("live", home=home, run="live", capture_environment=False), Store(home) as store:
        assert sorted(store.pack()) == ["r0", "r2", "r3", "r4", "r5"]


def test_runs_that_ended_long_ago_are_packed_by_a_sync(home: Path, monkeypatch: pytest.MonkeyPatch):
    limits = IndexLimits(seal_runs=1, pack_runs=4, pack_age_seconds=3600, sealed_check_seconds=0)
    before = digests(home)
    with Store(home, limits=limits) as store:
        answer = triples(store)
        assert digests(home) == before  # they have just ended
        make_old(home, RUNS[:4])
        monkeypatch.setenv("PROVML_PACK", "0")
        store.sync()
        assert not segments.manifest(home)
        monkeypatch.delenv("PROVML_PACK")
        store.sync()
        assert set(segments.manifest(home)) == set(RUNS[:4])
        assert triples(store) == answer
        store.unpack()
        store.sync()
        assert not segments.manifest(home)  # their folders are new
    assert digests(home).keys() == before.keys()


def test_runs_that_cannot_be_packed_are_not_tried_at_each_sync(home: Path, monkeypatch: pytest.MonkeyPatch):
    limits = IndexLimits(seal_runs=1, pack_runs=4, sealed_check_seconds=0)
    for run in RUNS:
        (home / "runs" / run / "other.part").touch()
    make_old(home, RUNS)
    with Store(home, limits=limits) as store:
        store.sync()
    monkeypatch.setattr("provml.store.index.Index._pack", None)
    with Store(home, limits=limits) as store:
        store.sync()
        assert len(store.runs()) == len(RUNS)


def make_old(home: Path, runs: list[str]) -> None:
    for run in runs:
        for path in (*(home / "runs" / run).glob("*.jsonl"), home / "runs" / run):
            os.utime(path, (1e9, 1e9))


def test_damage_to_a_segment_is_reported_by_verify(home: Path):
    with Store(home) as store:
        store.pack()
        path = next((home / "segments").glob("*.seg"))
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
        problems = store.verify()
        assert len({problem.file for problem in problems}) == 1
        assert "damaged in segments/" in problems[0].reason
        assert len(store.runs()) == 6


def test_runs_beside_a_damaged_one_are_unpacked_and_it_can_be_removed(home: Path):
    with Store(home) as store:
        before = digests(home)
        store.pack()
        path = next((home / "segments").glob("*.seg"))
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
        (damaged,) = {Path(problem.file).parent.name for problem in store.verify()}
        journal = home / "runs" / damaged / "main.jsonl"
        assert not is_being_written(journal)
        with pytest.raises(FileFormatError, match=rf"{damaged}: .*1 damaged run stayed packed, all others"):
            store.unpack()
        others = {name: content for name, content in before.items() if damaged not in name}
        assert digests(home) == others
        assert len(store.runs()) == 6
        store.remove(damaged)
        assert len(store.runs()) == 5
        assert store.unpack() == []
        assert digests(home) == others


@pytest.mark.parametrize("damage", ["flip", "missing", "folder"])
def test_a_damaged_manifest_is_rebuilt_from_the_segments(home: Path, damage: str, caplog: pytest.LogCaptureFixture):
    with Store(home) as store:
        store.pack()
        train(home, "r0-later")
        expected = triples(store)
    manifest = home / "segments" / "manifest"
    data = bytearray(manifest.read_bytes())
    manifest.unlink()
    if damage == "folder":
        manifest.mkdir()
    elif damage == "flip":
        data[60] ^= 1
        manifest.write_bytes(data)

    with Store(home) as store:
        assert triples(store) == expected
        problems = [problem for problem in store.verify() if problem.file == "segments/manifest"]
        assert len(problems) == 1
        assert "and is rebuilt" in problems[0].reason
        assert store.rebuild() > 0
        assert triples(store) == expected
    assert [message for message in caplog.messages if "rebuilt from the segments" in message] != []
    assert segments.restore(home, RUNS) == RUNS


def test_the_manifest_is_rebuilt_with_the_latest_state_of_resumed_runs_and_without_removed_ones(home: Path):
    with Store(home) as store:
        store.pack()
        with Run("sweep", home=home, run="r1", capture_environment=False) as run:
            run.training().measured(loss=0.25)
        store.pack()
        store.remove("r2")
        expected = triples(store)
    (home / "segments" / "manifest").unlink()

    with Store(home) as store:
        store.rebuild()
        assert triples(store) == expected
        assert {info.id for info in store.runs()} == set(RUNS) - {"r2"}


def test_a_store_notices_that_another_process_removed_a_packed_run(home: Path):
    with Store(home, limits=IndexLimits(seal_runs=1, sealed_check_seconds=0)) as store:
        store.pack()
        store.sync()
        with Store(home) as other:
            assert other.is_private
            other.remove("r2")
        assert {info.id for info in store.runs()} == set(RUNS) - {"r2"}
        other_runs = triples(store)
        store.rebuild()
        assert triples(store) == other_runs


def test_segments_are_read_again_only_if_they_have_changed(home: Path, monkeypatch: pytest.MonkeyPatch):
    with Store(home) as store:
        store.pack()
        store.sync()
    monkeypatch.setattr(segments, "manifest", lambda home: pytest.fail("the manifest was read"))
    with Store(home) as store:
        assert [info.id for info in store.runs(2)] == sorted(RUNS, reverse=True)[:2]
        assert store.run("r1").id == "r1"


def test_a_segment_with_further_bytes_is_named_by_verify(home: Path):
    with Store(home) as store:
        store.pack()
        path = next((home / "segments").glob("*.seg"))
        path.write_bytes(path.read_bytes() + b"more")
        assert [problem.file for problem in store.verify()] == [f"segments/{path.name}"]


def test_a_reader_beside_the_holder_of_the_index_cannot_pack(home: Path):
    with Store(home) as store, Store(home) as other:
        store.sync()
        with pytest.raises(FileFormatError, match="another store of this process"):
            other.pack()


PACK = """
import sys
from provml.store import Store
from provml.store.index import IndexLimits
with Store(sys.argv[1]) as store:
    print("ready", flush=True)
    store.pack()
    store.unpack()
    store.pack()
"""


@pytest.mark.parametrize("delay", [0.0, 0.006, 0.012, 0.03])
def test_a_killed_packing_loses_nothing(home: Path, delay: float):
    with Store(home) as store:
        graph = triples(store)
    before = {key: digest for key, (digest, _) in digests(home).items()}
    command = [sys.executable, "-c", PACK, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
    with Store(home) as store:
        assert triples(store) == graph
        store.rebuild()
        assert triples(store) == graph
        store.pack()
        store.unpack()
    assert {key: digest for key, (digest, _) in digests(home).items()} == before


# ---- a change of the mapping


def test_a_large_index_of_another_version_answers_until_a_new_one_is_built(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    limits = IndexLimits(seal_runs=3, background_runs=3)
    with Store(home, limits=limits) as store:
        graph = triples(store)
        store.pack()
        store._index.checkpoint.fingerprint = "of another version"
        store._index.save_checkpoint()
    train(home, "r6")
    with Store(home, limits=limits) as store:
        assert store.is_outdated
        assert triples(store) == graph
        assert [info.id for info in store.runs()] == RUNS[::-1]
        assert "answers are those of" in caplog.text
        for _ in range(600):
            if not store.is_outdated:
                break
            time.sleep(0.1)
            store.sync()
        assert [info.id for info in store.runs()] == ["r6", *RUNS[::-1]]
        graph = triples(store)
        store.rebuild()
        assert triples(store) == graph


def test_one_process_builds_the_new_index(home: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[list[str]] = []

    class Started:
        pid = 4711

        def __init__(self, command: list[str], **_: object) -> None:
            started.append(command)

    monkeypatch.setattr(subprocess, "Popen", Started)
    assert background_rebuild.start(home) == 4711
    release = lock.acquire(home / "index" / background_rebuild.LOCK)
    assert background_rebuild.start(home) is None
    (home / "index" / background_rebuild.PID).write_text("815")
    assert background_rebuild.start(home) == 815
    assert len(started) == 1
    release()
    background_rebuild.rebuild(home)
    assert not (home / "index" / background_rebuild.PID).exists()
    assert background_rebuild.start(home) == 4711
