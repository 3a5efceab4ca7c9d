"""Runs that travel between homes, in bundles and by merging: they come in once, whole, or not at all."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from cli.helpers import error_of, invoke, output_of
from web.viewer.homes import record_flowers

import provml
from provml.errors import FileFormatError
from provml.exchange import bundle, merge, read
from provml.exchange.bundles import LIST_NAME
from provml.journal import segments
from provml.journal.seals import Ledger

MONDAY_ARTIFACT = b"weights of monday"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three runs, tags, a note and stored contents; one of the runs is packed."""
    home = tmp_path_factory.mktemp("origin") / "home"
    record_flowers(home)
    folder = home.parent / "figures"
    folder.mkdir()
    (folder / "a.txt").write_text("first")
    (folder / "b.txt").write_text("second")
    with provml.record("figures", model="net", home=home, run="thursday", capture_environment=False) as run:
        run.keep(folder)
    with provml.open(home) as store:
        store.tag("monday", "baseline")
        store.note("monday", "keep this")
        store.pack(1)
    return home


@pytest.fixture(scope="module")
def packed(origin: Path) -> Path:
    path = origin.parent / "runs.provml.zip"
    bundle(origin, path)
    return path


def triples(home: Path) -> set[str]:
    with provml.open(home) as store:
        return {str(quad) for quad in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def state(home: Path) -> dict[str, bytes]:
    """Return the files of a home but for its index."""
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in files if "index" not in path.parts}


def results(report: Any) -> dict[str, str]:
    return {run.id: run.result for run in report.runs}


def test_a_bundle_gives_the_same_graph_artifacts_and_annotations(origin: Path, packed: Path, tmp_path: Path):
    home = tmp_path / "home"
    report = read(packed, home)
    assert results(report) == dict.fromkeys(("monday", "thursday", "tuesday", "wednesday"), "new")
    assert report.totals.is_complete
    assert triples(home) == triples(origin)
    with provml.open(home) as store:
        assert store.artifact("monday").read() == MONDAY_ARTIFACT
        assert store.run("monday").tags == ("baseline",)
        saved = store.artifact("thursday").save(tmp_path / "copy")
        assert {path.name: path.read_text() for path in saved.iterdir()} == {"a.txt": "first", "b.txt": "second"}
        assert not store.verify()
        assert store.check_seals().unsealed == [], "journals are sealed when they come in"


def test_runs_come_in_once_whichever_way_and_how_often(origin: Path, packed: Path, tmp_path: Path):
    home = tmp_path / "home"
    read(packed, home)
    before = state(home)
    for way in (lambda: read(packed, home), lambda: merge(origin, home), lambda: read(packed, home)):
        assert set(results(way()).values()) == {"unchanged"}
        assert state(home) == before
    # and back where they came from: packed runs stay packed
    before = state(origin)
    assert set(results(merge(home, origin)).values()) == {"unchanged"}
    assert set(results(read(packed, origin)).values()) == {"unchanged"}
    assert state(origin) == before
    assert len(segments.manifest(origin)) == 1


def test_a_merge_gives_what_a_bundle_gives(origin: Path, packed: Path, tmp_path: Path):
    merge(origin, tmp_path / "merged")
    read(packed, tmp_path / "imported")
    merged, imported = state(tmp_path / "merged"), state(tmp_path / "imported")
    ledger = "seals/ledger.jsonl"  # its lines have the time of the import
    assert merged.pop(ledger).count(b'"by":"import"') == imported.pop(ledger).count(b'"by":"import"') == 4
    assert merged == imported


TRAINING = """
import sys, provml
with provml.record("live", model="net", home=sys.argv[1], run="live", capture_environment=False) as run:
    with run.training(learning_rate=0.1) as training:
        for epoch in training.epochs(4):
            epoch.measured(loss=1.0 / epoch.index)
            print("epoch", flush=True)
            sys.stdin.readline()
"""


def test_a_run_that_grows_is_continued(tmp_path: Path):
    origin, home = tmp_path / "origin", tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(origin)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    bundle(origin, tmp_path / "early.zip")
    assert results(read(tmp_path / "early.zip", home)) == {"live": "new"}
    with provml.open(home) as store:
        early = store.run("live").events
        store.seal()
    process.communicate("\n" * 4, timeout=60)
    bundle(origin, tmp_path / "late.zip")
    assert results(read(tmp_path / "late.zip", home)) == {"live": "changed"}
    with provml.open(home) as store:
        assert store.run("live").status == "FINISHED"
        assert not store.verify(), "the ledger says that the journal was replaced"
        assert store.run("live").events > early
    assert triples(home) == triples(origin)
    after = state(home)
    assert results(read(tmp_path / "early.zip", home)) == {"live": "unchanged"}, "an earlier state changes nothing"
    assert state(home) == after


def test_another_run_of_the_same_id_is_left_out(packed: Path, tmp_path: Path):
    home = tmp_path / "home"
    with provml.record("other", model="net", home=home, run="monday", capture_environment=False):
        pass
    before = (home / "runs" / "monday" / "main.jsonl").read_bytes()
    report = read(packed, home)
    assert [part.name for part in report.skipped] == ["monday"]
    assert "another run with this id" in report.skipped[0].reason
    assert (home / "runs" / "monday" / "main.jsonl").read_bytes() == before
    assert "tuesday" in results(report)


def test_an_imported_run_travels_and_meets_a_second_import_of_its_source(tmp_path: Path):
    source = tmp_path / "dvclive"
    (source / "plots" / "metrics").mkdir(parents=True)
    (source / "plots" / "metrics" / "loss.tsv").write_text("step\tloss\n0\t2.0\n")
    first, second = tmp_path / "first", tmp_path / "second"
    (run,) = read(source, first).runs
    read(source, second)
    assert results(merge(first, second)) == {run.id: "unchanged"}
    (source / "plots" / "metrics" / "loss.tsv").write_text("step\tloss\n0\t2.0\n1\t1.0\n")
    read(source, second)
    assert results(merge(first, second)) == {run.id: "unchanged"}, "an import of an earlier state"
    with provml.open(first) as store:
        store.seal()
    assert results(merge(second, first)) == {run.id: "changed"}
    assert Ledger(second).exists(), "an import seals"
    assert len(list((first / "runs" / run.id).glob("*.jsonl"))) == 1
    assert triples(first) == triples(second)
    with provml.open(first) as store:
        assert not store.verify(), "the ledger says that the journal was replaced"


# ---- damaged and hostile bundles


def rewritten(path: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write a bundle again with other entries."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return target


def rename_run(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(entries: dict[str, bytes]) -> None:
        listed = json.loads(entries[LIST_NAME])
        listed["runs"][name] = listed["runs"].pop("monday")
        entries[LIST_NAME] = json.dumps(listed).encode()
        for key in [key for key in entries if key.startswith("runs/monday/")]:
            entries[key.replace("runs/monday/", f"runs/{name}/")] = entries.pop(key)

    return change


def rename_file(entries: dict[str, bytes]) -> None:
    listed = json.loads(entries[LIST_NAME])
    files = listed["runs"]["monday"]["files"]
    files["../../evil.jsonl"] = files.pop("main.jsonl")
    entries[LIST_NAME] = json.dumps(listed).encode()
    entries["runs/monday/../../evil.jsonl"] = entries.pop("runs/monday/main.jsonl")


def change_line(entries: dict[str, bytes]) -> None:
    entries["runs/monday/main.jsonl"] = entries["runs/monday/main.jsonl"].replace(b"alice", b"mallo")


def add_entry(entries: dict[str, bytes]) -> None:
    entries["../outside.txt"] = b"x"


def drop_journal(entries: dict[str, bytes]) -> None:
    del entries["runs/tuesday/main.jsonl"]


def newer_version(entries: dict[str, bytes]) -> None:
    entries[LIST_NAME] = json.dumps({**json.loads(entries[LIST_NAME]), "version": 99, "runs": 5}).encode()


HOSTILE = {
    "the id of a run is a path": (rename_run("../../escaped"), "is no id of a run"),
    "the id of another run": (rename_run("sunday"), "is that of the run 'monday'"),
    "the name of a file is a path": (rename_file, "is no file of a run"),
    "a changed line": (change_line, "does not have its SHA-256"),
    "an entry that is not listed": (add_entry, "does not name the entry '../outside.txt'"),
    "a missing journal": (drop_journal, "runs/tuesday/main.jsonl is missing"),
    "a newer version": (newer_version, "Upgrade provml"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_bundle_is_refused_and_nothing_is_written(packed: Path, tmp_path: Path, name: str):
    change, reason = HOSTILE[name]
    path = rewritten(packed, tmp_path / "x.provml.zip", change)
    with pytest.raises(FileFormatError) as error:
        read(path, tmp_path / "home")
    assert reason in str(error.value)
    assert [item.name for item in tmp_path.iterdir()] == ["x.provml.zip"]


def cut(data: bytes) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    yield data[:-10]
    yield b"PK\x03\x04"
    middle = len(data) // 2
    yield data[:middle] + bytes(reversed(data[middle : middle + 64])) + data[middle + 64 :]


def test_damaged_bundles_are_refused(packed: Path, tmp_path: Path):
    for data in cut(packed.read_bytes()):
        path = tmp_path / "damaged.provml.zip"
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match=r"damaged|refused"):
            read(path, tmp_path / "home")
        assert not (tmp_path / "home").exists()


def test_bombs_are_refused(packed: Path, tmp_path: Path):
    bomb = rewritten(packed, tmp_path / "bomb.provml.zip", lambda entries: entries.update({"zeros": bytes(300 << 20)}))
    data = bytearray(bomb.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"zeros"))
    data[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFF00)  # the directory says 4 GiB
    bomb.write_bytes(data)
    with pytest.raises(FileFormatError, match="more than 200 times its size"):
        read(bomb, tmp_path / "home")
    # two entries of the directory for the same bytes
    twice = bytearray(packed.read_bytes())
    directory = twice.index(b"PK\x01\x02")
    second = twice.index(b"PK\x01\x02", directory + 4)
    offset = twice[directory + 42 : directory + 46]
    twice[second + 42 : second + 46] = offset
    (tmp_path / "twice.provml.zip").write_bytes(twice)
    with pytest.raises(FileFormatError, match=r"overlap|damaged"):
        read(tmp_path / "twice.provml.zip", tmp_path / "home")
    assert not (tmp_path / "home").exists()


# ---- commands


def test_the_commands_bundle_import_and_merge(origin: Path, tmp_path: Path):
    file, home = tmp_path / "two.provml.zip", tmp_path / "home"
    result = invoke(origin, "bundle", "monday", "tuesday", "-o", str(file))
    assert result.exit_code == 0, result.output
    assert "Wrote 2 runs and 2 stored contents to" in result.stderr
    assert "imported 2 runs" in output_of(home, "import", str(file))
    assert "2 runs already here" in output_of(home, "merge", str(origin))
    assert {"thursday", "wednesday"} <= {path.name for path in (home / "runs").iterdir()}
    without = tmp_path / "bare.provml.zip"
    invoke(origin, "bundle", "monday", "--no-artifacts", "-o", str(without))
    with zipfile.ZipFile(without) as archive:
        assert not [name for name in archive.namelist() if name.startswith("artifacts/")]


def test_wrong_use_of_the_commands_says_what_to_do(origin: Path, tmp_path: Path):
    assert "Pass a file" in error_of(origin, "bundle", "monday")
    assert "Pass runs or --all" in error_of(origin, "bundle", "-o", str(tmp_path / "x.zip"))
    assert "No run 'nobody'" in error_of(origin, "bundle", "nobody", "-o", str(tmp_path / "x.zip"))
    assert "it is this home" in error_of(origin, "merge", str(origin))
    assert "no such file" in error_of(tmp_path / "new", "merge", str(tmp_path / "nowhere")).lower()
    assert not list(tmp_path.iterdir())
    shutil.copytree(origin / "runs" / "tuesday", tmp_path / "home" / "runs" / "tuesday")
    journal = tmp_path / "home" / "runs" / "tuesday" / "main.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"learning_rate":0.2', b'"learning_rate":0.3'))
    assert "another run with this id" in invoke(tmp_path / "home", "merge", str(origin)).output
