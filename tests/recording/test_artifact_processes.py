"""Artifacts of a run that is being recorded: what is stored, full disks, several processes, and `kill -9`."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journal_events import read_events

import provml
from provml.journal.artifacts import ArtifactFiles
from provml.journal.events import Artifact, CaptureErrors, Data, Produced
from provml.recording import core
from provml.store import artifacts
from provml.store.artifacts import collect_unreferenced

pytestmark = pytest.mark.usefixtures("isolated_home")
FILES = ArtifactFiles(Path(".provml"))


def record(run: str = "r", **settings: Any) -> provml.Run:
    return provml.record("flowers", run=run, capture_environment=False, **{"strict": True, **settings})


def events_of(kind: type[Any], run: str = "r") -> list[Any]:
    return [event for event in read_events(Path(".provml", "runs", run, "main.jsonl")) if isinstance(event, kind)]


def stored(run: str = "r") -> list[tuple[str, str]]:
    return [(event.name, event.media_type) for event in events_of(Artifact, run)]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# ---- what is stored


def test_keep_stores_files_folders_and_bytes():
    Path("config.yaml").write_text("a: 1")
    Path("saved").mkdir()
    Path("saved", "weights").write_bytes(b"w")
    with record() as run:
        data = run.keep("config.yaml")
        assert (data.kind, data.name, data.sha256) == ("file", "config.yaml", digest(b"a: 1"))
        run.keep(Path("config.yaml"), name="first config.json")
        run.keep(b"bytes", name="x.bin", media_type="application/x")
        run.keep("saved")
        with run.training(using=data):  # an artifact can be used like any other data
            pass
    assert stored() == [
        ("config.yaml", ""),
        ("first config.json", "application/json"),
        ("x.bin", "application/x"),
        ("saved", "inode/directory"),
    ]
    assert {digest(b"a: 1"), digest(b"bytes"), digest(b"w")} < set(FILES.digests())
    with provml.open() as store:
        assert store.problems == store.verify() == []
        assert store.validate("r"), str(store.validate("r"))


def test_keep_on_datasets_features_and_results_stores_their_content():
    Path("train.csv").write_text("1,2")
    Path("model.pt").write_bytes(b"weights")
    with record(model="net") as run:
        data = run.dataset("train.csv", role="training", name="flowers", keep=True, instances=1)
        run.features(b"features", name="f.bin", keep=True)
        ready = run.prepared(b"tiles", step="tile", using=data, name="tiles.bin", keep=True)
        with run.training(using=ready) as training:
            for epoch in training.epochs(1):
                epoch.produced(b"checkpoint", name="checkpoint", keep=True)
            model = training.produced("model.pt", keep=True, hidden_layers=2)
            training.produced(b"not stored")
        with run.step("report") as step:
            step.produced(b"text", kind="file", name="report.txt", keep=True)
    assert [name for name, _ in stored()] == [
        *("train.csv", "f.bin", "tiles.bin", "checkpoint", "model.pt", "report.txt")
    ]
    assert not FILES.has(digest(b"not stored"))
    with provml.open() as store:
        assert store.artifact("r", "net").sha256 == model.sha256, "a model is found by its name, too"
        assert store.artifact("flowers").path == "train.csv"
        assert [a.data for a in store.artifacts("r")] == [
            *("flowers", "f.bin", "tiles.bin", "checkpoint", "net", "report.txt")
        ]
        assert store.validate("r"), str(store.validate("r"))


def test_keeping_data_that_the_run_knows_makes_no_second_description_of_it():
    Path("model.pt").write_bytes(b"weights")
    with record(model="net") as run:
        with run.training() as training:
            model = training.produced("model.pt")
        assert run.keep("model.pt") is model
        Path("model.pt").write_bytes(b"other weights")
        assert run.keep("model.pt").sha256 == digest(b"other weights")
    assert [event.kind for event in events_of(Data)] == ["model", "file"]
    assert [event.sha256 for event in events_of(Artifact)] == [digest(b"weights"), digest(b"other weights")]


def test_texts_and_figures_are_produced_by_the_run():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2])
    with record() as run:
        run.text("größe")
        run.text("<p>Report", "report.html")
        run.text("log", "train.log")
        run.text("plain", "notes")
        run.figure(figure)
        run.figure(axes, "loss.svg")
        run.figure(figure, "loss")
    assert stored() == [
        ("text.txt", "text/plain"),
        ("report.html", "text/html"),
        ("train.log", "text/plain"),
        ("notes.txt", "text/plain"),
        ("figure.png", "image/png"),
        ("loss.svg", "image/svg+xml"),
        ("loss.png", "image/png"),
    ]
    assert [event.location for event in events_of(Produced)] == [""] * 7
    with provml.open() as store:
        assert store.artifact("text.txt").read() == "größe".encode()
        assert store.artifact("loss.png").read().startswith(b"\x89PNG")
        assert b"<svg" in store.artifact("loss.svg").read()
        outputs = store.query("SELECT DISTINCT ?d { ?d prov:wasGeneratedBy ?run . ?run provlake:status 'FINISHED' }")
        assert len(outputs) >= 5
        assert store.validate("r"), str(store.validate("r"))


def test_the_same_content_of_several_runs_is_stored_once():
    Path("data.bin").write_bytes(b"x" * 100_000)
    for run_id in "abc":
        with record(run_id) as run:
            run.keep("data.bin")
            run.keep(b"x" * 100_000, name="again.bin")
    assert list(FILES.digests()) == [digest(b"x" * 100_000)]
    with provml.open() as store:
        assert len(store.artifacts()) == 6


def test_a_disabled_run_stores_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    Path("f").write_text("x")
    with record() as run:
        assert run.keep("f").ref == run.text("x").ref == run.dataset("f", keep=True).ref == ""
        run.figure(object())
    assert not Path(".provml").exists()


# ---- errors


def test_what_cannot_be_stored_is_a_capture_error_and_the_data_is_still_recorded():
    with record(strict=False) as run:
        run.keep("missing.txt")
        run.dataset(np.zeros(3), name="array", keep=True)
        run.keep(object())
        run.figure("no figure")
        run.keep(b"x", name="fine")
        with run.step("s") as step:
            step.produced(b"y", kind="file", size=3)
        assert run.capture_errors >= 5
    assert stored() == [("fine", "")]
    assert [event.name for event in events_of(Data) if event.name == "array"] == ["array"]
    (first, *_) = events_of(CaptureErrors)
    assert "'missing.txt' does not exist, so its content cannot be stored. Check the path." in first.first
    with (
        pytest.raises(TypeError, match="Only files, folders and bytes can be stored, not a object"),
        record("s") as run,
    ):
        run.keep(object())


FULL = """
    import resource, signal, sys, provml
    from pathlib import Path
    Path("small").write_bytes(b"s" * 1000)
    Path("large").write_bytes(b"l" * 900_000)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
    with provml.record("x", run="r", capture_environment=False) as run:
        run.keep("large")
        data = run.dataset("large", role="training", keep=True)
        run.keep("small")
        with run.training(using=data) as training:
            training.measured(loss=1.0)
        print(run.capture_errors)
"""


def test_a_full_disk_is_a_counted_capture_error_and_the_training_continues():
    process = start(FULL)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "2\n")
    assert stored() == [("small", "")]
    assert list(FILES.digests()) == [digest(b"s" * 1000)]
    assert not list(FILES.folder.glob("*.part")), "what was written before the error is removed"
    (errors,) = [event.first for event in events_of(CaptureErrors)][-1:]
    assert "File too large" in errors
    with provml.open() as store:
        assert store.run("r").status == "FINISHED"
        assert store.query("ASK { ?t prov:used/provlake:sha256 ?d }"), "the data is known by its digest"


# ---- processes


def test_many_processes_store_the_same_content_at_once():
    program = """
        import sys, provml
        from pathlib import Path
        sys.stdin.readline()
        with provml.record("x", run=sys.argv[1], strict=True, capture_environment=False) as run:
            for number in range(20):
                run.keep(b"%d" % number * 50_000, name=f"{number}")
    """
    processes = [start(program, f"r{number}") for number in range(4)]
    for process in processes:
        process.communicate("go\n", timeout=120)
        assert process.returncode == 0
    assert len(list(FILES.digests())) == 20
    with provml.open() as store:
        assert store.verify() == []
        assert len(store.artifacts()) == 80


KEEPING = """
    import os, sys, provml
    from pathlib import Path
    with provml.record("x", run=sys.argv[1], strict=True, capture_environment=False) as run:
        print("ready", flush=True)
        for number in range(10**9):
            run.keep(b"%d " % number * 400_000, name=f"{number}")
            os.write(1, b"%d\\n" % number)
"""


def test_kill_9_leaves_only_complete_contents_and_loses_none_whose_call_returned():
    chance = random.Random(5)
    for number in range(6):
        process = start(KEEPING, f"r{number}")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        acknowledged = [process.stdout.readline() for _ in range(chance.randrange(1, 5))]
        time.sleep(chance.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().splitlines(keepends=True)
        process.communicate()
        count = len([line for line in acknowledged if line.endswith("\n")])
        with provml.open() as store:
            assert store.verify() == [], "no content is incomplete or missing"
            listed = store.artifacts(f"r{number}")
            assert [int(a.name) for a in listed] == list(range(len(listed)))
            assert count <= len(listed) <= count + 1
            assert listed[-1].read() == b"%d " % (len(listed) - 1) * 400_000
    orphans = collect_unreferenced(Path(".provml"))
    assert len(orphans) <= 6, "stored, and killed before the event"
    with provml.open() as store:
        assert store.verify() == []


def orphan() -> str:
    """Store a content that belongs to no run; return its digest."""
    return FILES.add_bytes(b"content").sha256


def test_a_content_that_a_run_stores_while_it_is_being_removed_is_restored(monkeypatch: pytest.MonkeyPatch):
    sha256 = orphan()
    with record() as run:
        look, looks = artifacts.referenced_digests, []

        def look_and_store(home: Path) -> set[str]:
            referenced = look(home)
            if not looks:
                run.keep(b"content", name="x")  # the content is there, so it is not copied
            looks.append(referenced)
            return referenced

        monkeypatch.setattr(artifacts, "referenced_digests", look_and_store)
        assert collect_unreferenced(Path(".provml")) == []
    assert [sha256 in referenced for referenced in looks] == [False, True]
    assert FILES.has(sha256)


def test_a_run_stores_a_content_again_that_was_removed_before_its_event(monkeypatch: pytest.MonkeyPatch):
    sha256, store_content = orphan(), core.store_content
    removed = []

    def store_and_remove(home: Path, source: Any) -> Any:
        content = store_content(home, source)
        if not removed:
            removed.extend(collect_unreferenced(home))
        return content

    monkeypatch.setattr(core, "store_content", store_and_remove)
    with record() as run:
        run.keep(b"content", name="x")
    assert [path.name for path, _ in removed] == [sha256]
    assert FILES.has(sha256)


def test_a_remover_that_was_killed_hides_no_content_for_long():
    with record() as run:
        data = run.keep(b"content", name="x")
    path = FILES.path(data.sha256)
    path.rename(path.with_suffix(".removed"))
    assert collect_unreferenced(Path(".provml")) == []
    assert FILES.has(data.sha256)
