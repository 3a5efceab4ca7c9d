"""Several processes at one home: some record, one indexes, others ask; some are killed, and nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from journal_events import read_events

from provml.journal.events import Measured
from provml.recording.run import Run
from provml.store import Store, checkpoint
from provml.store.index import Index
from provml.store.sync import sync

ROOT = Path(__file__).parents[2]
BATCHES = "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    (tmp_path / "home" / "runs").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end with the test, however it ends."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(code: str, *given: object) -> subprocess.Popen[str]:
    """A real process that runs some code; processes differ only by their arguments."""
    around = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    around.pop("PROVML_RUN", None)
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, given)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=around, **streams)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise AssertionError(f"{line!r} instead of {word!r}: {process.communicate()[1]}")


def train(home: Path, epochs: int, batches: int, name: str = "flowers") -> str:
    with Run(name, home=home, strict=True, capture_environment=False) as run, run.training(lr=0.1) as training:
        for epoch in training.epochs(epochs):
            for batch in epoch.batches(range(batches)):
                batch.measured(loss=float(batch.index))
            epoch.measured(loss=1.0)
    return run.id


def quads(store: Store) -> set[str]:
    return {str(q.triple) for q in store.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


def in_memory(home: Path) -> set[str]:
    """What the journals tell, by nobody's index."""
    index = Index(home)
    sync(index)
    return {str(q.triple) for q in index.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())}


TRAIN = """
    import sys, time
    from provml.recording.run import Run
    run = Run("flowers", home=sys.argv[1], strict=True, capture_environment=False)
    training = run.training(lr=0.1)
    epoch = training.epoch(1)
    for batch in epoch.batches(range(10**9)):
        batch.measured(loss=1.0)
        if batch.index == 5:
            print("begun", flush=True)
        time.sleep(0.001)
"""


def test_a_killed_writer_has_status_killed_and_all_its_events(home: Path, started: list[Any]):
    writer = start(TRAIN, home)
    started.append(writer)
    wait_for(writer, "begun")
    status = "SELECT ?s { ?r a provml:LearningProcessExecution ; provlake:status ?s }"
    with Store(home) as store:
        assert store.run("latest").status == "RUNNING"
        assert store.query(status).rows == [("RUNNING",)]
        assert store.query(BATCHES)[0][0] >= 4
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert store.run("latest").status == "KILLED"
        assert store.query(status).rows == [("KILLED",)]
        (path,) = home.glob("runs/*/*.jsonl")
        measured = sum(isinstance(event, Measured) for event in read_events(path))
        assert store.query("SELECT (COUNT(?v) AS ?n) { ?v a provml:BatchEvaluation }")[0] == (measured,)
        assert store.query(BATCHES)[0] == (measured,)
        assert store.sync() == 0
        before = quads(store)
        store.rebuild()
        assert quads(store) == before == in_memory(home)
        assert store.remove("latest").status == "KILLED"
        assert store.runs() == []


def taken_in(home: Path) -> int:
    """How many events the index on the disk has for sure."""
    return sum(journal.line_number for journal in checkpoint.read(home / "index" / "progress").journals.values())


def test_an_index_survives_a_killed_indexer(home: Path, started: list[Any]):
    for name in ("a", "b", "c"):
        train(home, 10, 150, name)
    wanted = in_memory(home)
    code = """
        import sys
        from provml.store import Store
        from provml.store.index import IndexLimits
        limits = IndexLimits(
            transaction_bytes=50_000, chunk_bytes=300_000, snapshot_events=2000, events_per_chunk=100
        )
        Store(sys.argv[1], limits=limits).sync()
        print("done", flush=True)
        sys.stdin.read()
    """
    chance = random.Random(3)
    reached = set()
    total = sum(path.read_bytes().count(b"\n") for path in home.glob("runs/*/*.jsonl"))
    for number in range(12):
        if taken_in(home) == total:
            shutil.rmtree(home / "index")
        before = taken_in(home)
        indexer = start(code, home)
        started.append(indexer)
        deadline = time.monotonic() + 5  # a few last events are not saved before the indexer ends
        while number % 4 and taken_in(home) == before and time.monotonic() < deadline and indexer.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.05 if number % 4 else 1.0))
        indexer.send_signal(signal.SIGKILL)
        indexer.wait()
        reached.add(taken_in(home))
        with Store(home) as store:
            assert not store.is_private
    assert len(reached) > 3, f"the kills came at few moments only: {reached}"
    with Store(home) as store:
        assert quads(store) == wanted


def test_an_index_survives_a_kill_after_small_syncs(home: Path, started: list[Any]):
    gone = train(home, 1, 2, "gone")
    train(home, 1, 2, "kept")
    indexer = start(
        """
        import sys
        from provml.store import Store
        store = Store(sys.argv[1])
        store.sync()
        print("done", flush=True)
        sys.stdin.read()
        """,
        home,
    )
    started.append(indexer)
    wait_for(indexer, "done")
    indexer.send_signal(signal.SIGKILL)
    indexer.wait()
    for path in (home / "runs" / gone).iterdir():
        path.unlink()
    (home / "runs" / gone).rmdir()
    with Store(home) as store:
        assert [info.name for info in store.runs()] == ["kept"]
        assert quads(store) == in_memory(home)


RECORD = """
    import sys
    from provml.recording.run import Run
    for number in range(int(sys.argv[3])):
        with Run(f"{sys.argv[2]} {number}", home=sys.argv[1], strict=True, capture_environment=False) as run:
            with run.training(lr=0.1) as training:
                for epoch in training.epochs(5):
                    for batch in epoch.batches(range(100)):
                        batch.measured(loss=1.0)
                    epoch.measured(loss=1.0)
"""
INDEX = """
    import sys
    from provml.store import Store
    rounds = 0
    with Store(sys.argv[1]) as store:
        print("begun", flush=True)
        while not (store.home / "stop").exists():
            store.sync()
            rounds += 1
            if rounds % 40 == 0:
                store.snapshot()
            if rounds % 200 == 0 and not store.is_private:
                store.rebuild()
"""
ASK = """
    import sys
    from provml.recording.run import Run
    from provml.store import Store
    last = 0
    for number in range(int(sys.argv[3])):
        name = f"asker {sys.argv[2]} {number}"
        with Store(sys.argv[1]) as store:
            run = Run(name, home=sys.argv[1], strict=True, capture_environment=False)
            with run, run.training() as training:
                training.measured(own=float(number))
                seen = store.query("SELECT ?v ?s { ?e prov:value ?v ; prov:wasGeneratedBy ?t ; "
                    "prov:wasDerivedFrom/rdfs:label 'own' . ?t provlake:wasMemberOfWorkflowExecution ?r . "
                    f"?r provlake:status ?s . FILTER(?r = <https://w3id.org/provml/run/{run.id}>) }}")
                assert seen.rows == [(float(number), "RUNNING")], seen.rows
            now = store.query("SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }")[0][0]
            assert now >= last, (now, last)
            last = now
        with Store(sys.argv[1]) as store:
            assert store.run(run.id).status == "FINISHED"
            twice = "SELECT ?r { ?r a provml:LearningProcessExecution ; provlake:status ?a, ?b FILTER(?a < ?b) }"
            assert store.query(twice).rows == []
"""


def test_recording_indexing_and_querying_run_concurrently(home: Path, started: list[Any]):
    indexer = start(INDEX, home)
    started.append(indexer)
    wait_for(indexer, "begun")
    recorders = [start(RECORD, home, name, 3) for name in ("x", "y", "z")]
    askers = [start(ASK, home, name, 3) for name in ("p", "q", "r")]
    started += recorders + askers
    for process in recorders + askers:
        finish(process)
    (home / "stop").touch()
    finish(indexer)
    with Store(home) as store:
        runs = store.runs()
        assert len(runs) == 3 * 3 + 3 * 3
        assert {info.status for info in runs} == {"FINISHED"}
        assert store.query(BATCHES)[0] == (3 * 3 * 5 * 100,)
        assert store.problems == store.verify() == []
        assert quads(store) == in_memory(home)
    assert not list((home / "index").glob("reader-*"))


def test_a_process_that_finds_the_index_locked_reads_a_copy_and_newer_events(home: Path, started: list[Any]):
    train(home, 3, 1200)
    holder = start(
        """
        import sys
        from provml.store import Store
        with Store(sys.argv[1]) as store:
            store.sync()
            print("locked", flush=True)
            sys.stdin.readline()
            store.rebuild()
            print("rebuilt", flush=True)
            sys.stdin.readline()
            assert len(store.runs()) == 1
        """,
        home,
    )
    started.append(holder)
    wait_for(holder, "locked")
    assert holder.stdin is not None
    later = train(home, 1, 10, "later")
    with Store(home) as store:
        assert store.is_private
        assert store.index_folder is not None
        assert store.query(BATCHES)[0] == (3610,)
        holder.stdin.write("\n")
        holder.stdin.flush()
        wait_for(holder, "rebuilt")
        assert quads(store) == in_memory(home)
        store.remove(later)
        assert store.query(BATCHES)[0] == (3600,)
        holder.stdin.write("\n")
        finish(holder)
    with Store(home) as store:
        assert not store.is_private
        assert quads(store) == in_memory(home)


def test_a_killed_reader_affects_no_other_process(home: Path, started: list[Any]):
    train(home, 3, 1200)
    with Store(home) as store:
        store.sync()
        reader = start(
            """
            import sys
            from provml.store import Store
            store = Store(sys.argv[1])
            assert store.is_private
            assert store.index_folder is not None
            print("open", flush=True)
            while True:
                store.query("SELECT ?s { ?s ?p ?o }")
            """,
            home,
        )
        started.append(reader)
        wait_for(reader, "open")
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        assert list((home / "index").glob("reader-*"))
        train(home, 1, 10, "later")
        assert quads(store) == in_memory(home)


WITHOUT_POWERS = """
    import ctypes, os, struct
    if os.geteuid() == 0:  # root may write anywhere, unless it gives that up
        assert ctypes.CDLL(None).capset(struct.pack("II", 0x20080522, 0), bytes(24)) == 0
"""


@pytest.mark.parametrize("has_index", [True, False])
def test_a_read_only_home_can_be_queried(home: Path, has_index: bool):
    train(home, 3, 1200)
    if has_index:
        with Store(home) as store:
            store.sync()
    train(home, 1, 5, "later")
    everything = [home, *home.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        reader = start(
            textwrap.dedent(WITHOUT_POWERS)
            + textwrap.dedent("""
            import sys
            from provml.store import Store
            with Store(sys.argv[1]) as store:
                assert store.is_private
                assert (store.index_folder is not None) == (sys.argv[2] == "True"), store.index_folder
                print(store.query("SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }")[0][0])
                print(len(store.runs()))
                try:
                    store.rebuild()
                except ValueError as error:
                    print(type(error).__name__)
            """),
            home,
            has_index,
        )
        assert finish(reader).split() == ["3605", "2", "FileFormatError"]
    finally:
        for path in everything:
            path.chmod(0o755)


@pytest.mark.parametrize("code", [0, 7])
def test_a_forked_child_keeps_its_exit_code_with_an_open_store(home: Path, code: int):
    train(home, 1, 5)
    parent = start(
        """
        import os, sys
        from provml.store import Store
        store = Store(sys.argv[1])
        store.sync()
        child = os.fork()
        if child == 0:
            print("child", flush=True)
            sys.exit(int(sys.argv[2]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        print(len(store.runs()))
        store.close()
        """,
        home,
        code,
    )
    assert finish(parent).split() == ["child", str(code), "1"]


def test_forked_workers_each_open_a_store_of_their_own(home: Path):
    train(home, 1, 5)
    parent = start(
        """
        import multiprocessing, sys
        from provml.store import Store
        def count(home):
            with Store(home) as own:
                return own.query("SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }")[0][0]
        with Store(sys.argv[1]) as store:
            store.sync()
            with multiprocessing.get_context("fork").Pool(3) as pool:
                print(*pool.map(count, [sys.argv[1]] * 6))
            print(len(store.runs()))
        """,
        home,
    )
    assert finish(parent).split() == ["5"] * 6 + ["1"]
