"""Recording under `kill -9`, forks, ranks, and homes that are full, read-only or deleted; nothing is simulated."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_events import read_events

import provml
from provml.journal import process
from provml.journal.events import AnyEvent, BatchEnd, Begin, CaptureErrors, Done, End, Environment, Header, Measured
from provml.recording import ids
from provml.recording.context import CONTEXT, Limits

MODES = ["map", "write"]


pytestmark = pytest.mark.usefixtures("isolated_home")


def journals(run: str = "r", home: str | Path = ".provml") -> dict[str, list[AnyEvent]]:
    """The events of each journal of a run."""
    paths = sorted(Path(home, "runs", run).glob("*.jsonl"))
    return {path.stem: read_events(path) for path in paths}


def of(kind: type[Any], run: str = "r", home: str | Path = ".provml") -> list[Any]:
    return [event for events in journals(run, home).values() for event in events if isinstance(event, kind)]


def start(program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    Path("program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-u", "program.py", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **variables})


def finish(program: str, *arguments: str, code: int = 0, **variables: str) -> tuple[str, str]:
    """Run a program to its end; return its output and its error stream."""
    started = start(program, *arguments, **variables)
    streams = started.communicate(timeout=120)
    assert started.returncode == code, streams
    return streams


# ---- kill -9

ACKNOWLEDGED = """
    import os, sys, time, provml
    pace = float(sys.argv[1])
    with provml.record("x", run=sys.argv[2], strict=True, capture_environment=False) as run, run.training() as training:
        print("ready", flush=True)
        for epoch in training.epochs(10**9):
            for batch in epoch.batches(range(500)):
                batch.measured(loss=float(batch.index), section=float(epoch.index))
                os.write(1, b"%d/%d\\n" % (epoch.index, batch.index))
                if pace:
                    time.sleep(pace)
"""


def test_is_alive_tells_killed_from_running_processes():
    trained = start(ACKNOWLEDGED, "0.01", "r")
    assert trained.stdout is not None
    trained.stdout.readline()
    (first,) = of(Header)
    assert first.pid == trained.pid
    assert first.start_ticks > 0
    assert process.is_alive(first.pid, first.time, first.start_ticks)
    assert process.is_alive(first.pid, first.time)
    assert not process.is_alive(first.pid, first.time, first.start_ticks + 1), "another process of the same number"
    assert not process.is_alive(first.pid, first.time - 1000.0)
    trained.send_signal(signal.SIGKILL)
    trained.wait()
    trained.communicate()
    assert not process.is_alive(first.pid, first.time, first.start_ticks)


def test_an_unhandled_sigterm_leaves_no_end():
    trained = start(ACKNOWLEDGED, "0.01", "r")
    assert trained.stdout is not None
    trained.stdout.readline()
    trained.terminate()
    trained.communicate()
    assert of(End) == []


@pytest.mark.parametrize("mode", [*MODES, "append"])
def test_the_count_of_capture_errors_survives_kill_9(mode: str):
    program = """
        import os, signal, provml
        run = provml.record("x", run="r", capture_environment=False)
        with run.training() as training:
            for epoch in training.epochs(15):
                epoch.measured(loss=object())
                epoch.measured(loss=1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    finish(program, code=-signal.SIGKILL, PROVML_JOURNAL=mode)
    faults = of(CaptureErrors)
    assert [fault.count for fault in faults] == [1, 2, 4, 8]
    assert all("must be a number" in fault.first for fault in faults)
    assert len(of(Measured)) == 15
    command = [sys.executable, "-m", "provml", "status", "r"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "KILLED" in shown
    assert "errors    8" in shown
    assert "must be a number" in shown


def test_the_heartbeat_writes_the_count_of_capture_errors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CONTEXT, "limits", Limits(sync_seconds=0.01, heartbeat_seconds=0.02))
    with provml.record("x", run="r", capture_environment=False) as run:
        for _ in range(7):
            run.training().measured(loss=object())
        until = time.monotonic() + 30.0
        while of(CaptureErrors)[-1].count < 7 and time.monotonic() < until:
            time.sleep(0.01)
        assert of(CaptureErrors)[-1].count == 7
    assert of(CaptureErrors)[-1].count == 7


# ---- forks and children


def test_the_header_identifies_the_process():
    finish(
        """
        import os, provml
        with provml.record("x", run="r", strict=True, capture_environment=False) as run, run.training() as training:
            if os.fork() == 0:
                training.measured(loss=1.0)
                if os.fork() == 0:
                    training.measured(loss=2.0)
                    os._exit(0)
                os.wait()
                os._exit(0)
            os.wait()
        """
    )
    firsts = {first.pid: first for first in of(Header)}
    main, child, grandchild = sorted(firsts.values(), key=lambda first: first.time)
    assert [main.writer, main.parent] == ["main", ""]
    assert [child.parent, grandchild.parent] == ["main", child.writer]
    assert {first.pid_namespace for first in firsts.values()} == {process.namespace()}


def test_a_forked_child_writes_a_journal_of_its_own():
    finish(
        """
        import os, sys, provml
        with provml.record("x", run="r", strict=True, capture_environment=False) as run:
            with run.training() as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=1.0)
                    child = os.fork()
                    if child == 0:
                        epoch.measured(from_child=float(epoch.index))
                        with run.validation() as stage:
                            stage.measured(inside=1.0)
                        if epoch.index == 1:
                            os._exit(0)
                        sys.exit(0)  # leaves the with blocks that the parent began
                    os.waitpid(child, 0)
                    epoch.measured(after=1.0)
            with run.validation():
                pass
        """
    )
    by_name = journals()
    assert len(by_name) == 4
    parent = by_name.pop("main")
    assert [event.location for event in parent if isinstance(event, Done)] == [
        *("training/1", "training/2", "training/3", "training", "validation"),
    ]
    assert isinstance(parent[-1], End)
    stages = {"validation"}
    for events in by_name.values():
        assert isinstance(events[0], Header)
        assert not events[0].main
        assert events[0].run == "r"
        assert events[0].pid != parent[0].pid  # type: ignore[union-attr]  # the first is a Run
        assert [list(event.values) for event in events if isinstance(event, Measured)] == [["from_child"], ["inside"]]
        (stage,) = [event.location for event in events if isinstance(event, Begin)]
        assert [event.location for event in events if isinstance(event, Done)] == [stage]
        stages.add(stage)
    assert len(stages) == 4, "places of different processes have different paths"
    assert sum(isinstance(events[-1], End) for events in by_name.values()) == 2


def test_a_forked_child_without_events_leaves_no_journal():
    finish(
        """
        import os, sys, provml
        run = provml.record("x", run="r", strict=True, capture_environment=False)
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        """
    )
    assert list(journals()) == ["main"]
    assert len(of(End)) == 1


def test_forks_while_threads_record_neither_hang_nor_lose_events():
    finish(
        """
        import os, threading, provml
        with provml.record("x", run="r", strict=True, capture_environment=False) as run, run.training() as training:
            epoch = training.epoch(1)
            stop = threading.Event()
            def work(number):
                index = 0
                while not stop.is_set():
                    index += 1
                    epoch.measured(**{f"m{number}": float(index)})
            threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
            for thread in threads: thread.start()
            children = []
            for number in range(15):
                child = os.fork()
                if child == 0:
                    writers = [threading.Thread(target=epoch.measured, kwargs={"child": float(n)}) for n in range(4)]
                    for thread in writers: thread.start()
                    for thread in writers: thread.join()
                    os._exit(0)
                children.append(child)
            for child in children:
                assert os.waitpid(child, 0)[1] == 0
            stop.set()
            for thread in threads: thread.join()
        """
    )
    by_name = journals()
    assert len(by_name) == 16
    parent = by_name.pop("main")
    for number in range(3):
        values = [
            event.values[f"m{number}"]
            for event in parent
            if isinstance(event, Measured) and f"m{number}" in event.values
        ]
        assert values == [float(n) for n in range(1, len(values) + 1)]
    for events in by_name.values():
        assert isinstance(events[0], Header)
        assert sorted(event.values["child"] for event in events[1:] if isinstance(event, Measured)) == [
            0.0,
            1.0,
            2.0,
            3.0,
        ]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_workers_records_in_parallel(method: str):
    finish(
        """
        import multiprocessing, sys, provml

        class Dataset:
            def __init__(self, run):
                self.run = run
            def __getitem__(self, index):
                with self.run.step("load", index=index) as step:
                    step.measured(size=1.0)
                return index

        def work(dataset, inbox, outbox):
            for index in iter(inbox.get, None):
                outbox.put(dataset[index])

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            with provml.record("x", run="r", strict=True, capture_environment=False) as run:
                inbox, outbox = context.Queue(), context.Queue()
                workers = [context.Process(target=work, args=(Dataset(run), inbox, outbox)) for _ in range(2)]
                for worker in workers: worker.start()
                for index in range(20): inbox.put(index)
                with run.training() as training:
                    for epoch in training.epochs(2):
                        for batch in epoch.batches(range(10)):
                            outbox.get()
                            batch.measured(loss=1.0)
                for _ in workers: inbox.put(None)
                for worker in workers:
                    worker.join()
                    assert worker.exitcode == 0
        """,
        method,
    )
    by_name = journals()
    main = by_name.pop("main")
    assert len([event for event in main if isinstance(event, BatchEnd)]) == 20
    assert isinstance(main[-1], End)
    loads = [event.location for events in by_name.values() for event in events if isinstance(event, Begin)]
    assert len(loads) == len(set(loads)) == 20
    assert all(isinstance(events[-1], End) for events in by_name.values())
    assert {first.main for events in by_name.values() for first in events if isinstance(first, Header)} == {False}


def test_a_failed_worker_is_recorded_as_failed():
    finish(
        """
        import multiprocessing, provml
        def work(run):
            run.step("load")
            raise ValueError("bad image")
        if __name__ == "__main__":
            with provml.record("x", run="r", strict=True, capture_environment=False) as run:
                worker = multiprocessing.get_context("fork").Process(target=work, args=(run,))
                worker.start()
                worker.join()
        """
    )
    by_name = journals()
    assert by_name.pop("main")[-1].status == "FINISHED"  # type: ignore[union-attr]  # an End
    ((*_, end),) = by_name.values()
    assert isinstance(end, End)
    assert (end.status, end.error) == ("FAILED", ["ValueError", "bad image"])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("fails", ["1 / 0", "sys.exit(3)", "pass"])
@pytest.mark.parametrize("first", ["import provml.recording.run", ""], ids=["loaded", "not loaded"])
def test_a_run_begun_in_a_worker_ends_with_the_status_of_the_worker(method: str, fails: str, first: str):
    finish(
        f"""
        import multiprocessing, sys, provml
        {first}
        def work():
            run = provml.record("x", run="r", strict=True, capture_environment=False)
            run.step("load")
            {fails}
        if __name__ == "__main__":
            worker = multiprocessing.get_context(sys.argv[1]).Process(target=work)
            worker.start()
            worker.join()
            assert worker.exitcode == {{"1 / 0": 1, "sys.exit(3)": 3, "pass": 0}}[{fails!r}]
        """,
        method,
    )
    ((*_, end),) = journals().values()
    assert isinstance(end, End)
    error = {"1 / 0": ["ZeroDivisionError", "division by zero"], "sys.exit(3)": ["SystemExit", "3"], "pass": []}[fails]
    if fails == "1 / 0" and sys.version_info >= (3, 13) and (method == "spawn" or not first):
        error = ["SystemExit", "1"]  # only the exit code is known then
    assert (end.status, end.error) == ("FAILED" if error else "FINISHED", error)


def test_child_processes_join_the_run_through_the_environment():
    Path("child.py").write_text(
        "import provml\n"
        "with provml.record('other', strict=True, capture_environment=False) as run, run.training() as training:\n"
        "    training.measured(loss=1.0)\n"
    )
    finish(
        """
        import os, subprocess, sys, provml
        with provml.record("x", run="r", strict=True, capture_environment=False) as run, run.training():
            os.mkdir("other")
            for _ in range(3):
                subprocess.run([sys.executable, "../child.py"], check=True, cwd="other")
        subprocess.run([sys.executable, "child.py"], check=True)
        """
    )
    assert len(journals()) == 4
    assert [first.main for first in of(Header)].count(True) == 1
    stages = [event.location for event in of(Begin)]
    assert len(set(stages)) == len(stages) == 4
    assert not Path("other", ".provml").exists()
    runs = [path.name for path in Path(".provml/runs").iterdir()]
    assert len(runs) == 2, "a child that was started after the run ended has a run of its own"


def test_a_child_process_with_another_home_records_a_run_of_its_own():
    Path("child.py").write_text(
        "import sys, provml\n"
        "with provml.record('trial', home=sys.argv[1], strict=True, capture_environment=False) as run:\n"
        "    run.training().measured(loss=1.0)\n"
    )
    finish(
        """
        import os, subprocess, sys, provml
        os.symlink("here", "link")
        with provml.record("driver", run="r", home="here", strict=True, capture_environment=False):
            for home in ("there", "here", "link"):
                subprocess.run([sys.executable, "child.py", home], check=True)
        """
    )
    (other,) = Path("there/runs").iterdir()
    assert other.name != "r"
    assert [(first.name, first.main) for first in of(Header, other.name, "there")] == [("trial", True)]
    assert sorted((first.name, first.main) for first in of(Header, home="here")) == [
        *(("driver", True), ("trial", False), ("trial", False)),
    ]


def test_a_run_id_that_is_taken_is_drawn_again(monkeypatch: pytest.MonkeyPatch):
    drawn = iter(["same", "same", "same", "other"])
    monkeypatch.setattr(ids, "new_run_id", lambda: next(drawn))
    with provml.record("a", strict=True, capture_environment=False) as first:
        first.training().done()
    with provml.record("b", strict=True, capture_environment=False) as second:
        assert os.environ["PROVML_RUN"].startswith("other@")
    assert [first.id, second.id] == ["same", "other"]
    assert [(first.run, first.name) for first in of(Header, "same") + of(Header, "other")] == [
        ("same", "a"),
        ("other", "b"),
    ]


RANK = """
    import sys, provml
    with provml.record("x", strict=True, capture_environment=False) as run:
        with run.training() as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(50)):
                    batch.measured(loss=1.0)
"""


@pytest.mark.parametrize("given", ["by the environment", "in the program"])
def test_ranks_share_one_run_without_name_clashes(given: str):
    own = RANK.replace('"x",', '"x", run="r",')
    Path("program.py").write_text(textwrap.dedent(own if given == "in the program" else RANK))
    ranks = [
        subprocess.Popen(
            [sys.executable, "program.py"],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "4"}
            | ({"PROVML_RUN": "r"} if given == "by the environment" else {}),
        )
        for rank in range(4)
    ]
    assert [rank.wait(120) for rank in ranks] == [0, 0, 0, 0]
    assert sorted(journals()) == ["main", "rank-1", "rank-2", "rank-3"]
    assert sorted((first.rank, first.main) for first in of(Header)) == [(0, True), (1, False), (2, False), (3, False)]
    assert sorted(event.location for event in of(Begin) if "/" not in event.location) == [
        *("training", "training@1", "training@2", "training@3"),
    ]
    batches = [event.location for event in of(BatchEnd)]
    assert len(batches) == len(set(batches)) == 400


HINT = "records a run of its own. To join all processes of a training in one run, begin the run in their parent process"


@pytest.mark.parametrize(
    ("variables", "process"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "rank 1 of 2"),
        ({"RANK": "8", "WORLD_SIZE": "16", "LOCAL_RANK": "0"}, "rank 8 of 16"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "rank 1"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ""),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"}, ""),
        ({"RANK": "1", "WORLD_SIZE": "2", "PROVML_RUN": "r"}, ""),
        ({"RANK": "1", "WORLD_SIZE": "2", "PROVML_DISABLED": "1"}, ""),
        ({}, ""),
    ],
)
def test_one_of_several_ranks_without_a_common_run_logs_how_to_join_them(variables: dict[str, str], process: str):
    _, log = finish(RANK, **variables)
    assert log.count("\n") == bool(process), log
    if process:
        assert f"provml: {process} {HINT}, or set PROVML_RUN to one id for all of them: PROVML_RUN=$(date +%s)" in log


@pytest.mark.parametrize("parent", ["records nothing", "records a run"])
def test_spawned_processes_without_a_common_run_log_how_to_join_them(parent: str):
    program = f"""
        import multiprocessing, sys, provml

        def train(rank):
            with provml.record("x", strict=True, capture_environment=False) as run:
                run.training().measured(loss=float(rank))

        if __name__ == "__main__":
            run = provml.record("x", capture_environment=False) if {parent == "records a run"} else None
            context = multiprocessing.get_context("spawn")
            ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
    """
    Path("program.py").write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, check=True)
    runs = list(Path(".provml/runs").iterdir())
    is_common = parent == "records a run"
    assert len(runs) == (1 if is_common else 2)
    assert done.stderr.count(f"provml: a child process of multiprocessing {HINT}") == (0 if is_common else 1)


def test_restarting_a_run_under_the_same_id_overwrites_nothing():
    for rank in ("0", "1", "0", "1"):
        finish(RANK, RANK=rank, PROVML_RUN="r")
    by_name = journals()
    assert len(by_name) == 4
    batches = [event.location for event in of(BatchEnd)]
    assert len(batches) == len(set(batches)) == 400


@pytest.mark.parametrize("variables", [{"RANK": "first"}, {"PROVML_RUN": "../../x"}, {"PROVML_RUN": "@@"}])
def test_invalid_environment_variables_are_ignored(variables: dict[str, str]):
    finish(RANK, **variables)
    (run,) = Path(".provml/runs").iterdir()
    assert len(of(BatchEnd, run.name)) == 100


# ---- disks

TRAINING = """
    import hashlib, logging, sys
    import numpy as np
    import provml

    def train(run):
        random = np.random.default_rng(7)
        x, y, w = random.normal(size=(64, 8)), random.normal(size=64), np.zeros(8)
        with run.training(learning_rate=0.01) as training:
            for epoch in training.epochs(40):
                for batch in epoch.batches(range(100)):
                    error = x @ w - y
                    w -= 0.01 * x.T @ error / 64
                    batch.measured(loss=float(error @ error), norm=float(w @ w), pad0=1.0, pad1=2.0, pad2=3.0)
                epoch.measured(loss=float(error @ error))
            training.produced(w.tobytes(), name="w")
        return hashlib.sha256(w.tobytes()).hexdigest()

    with provml.record("x", run="r", home=sys.argv[1], capture_environment=False) as run:
        print(train(run))
    print(run.capture_errors)
"""


def untouched() -> str:
    """What the training gives where nothing is recorded."""
    return finish(TRAINING, "nowhere", PROVML_DISABLED="1")[0].split()[0]


@contextlib.contextmanager
def disk(size: str) -> Iterator[Path]:
    """A small disk of our own; where none may be mounted, none is there."""
    folder = Path("disk").resolve()
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield folder
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


FULL = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # where no disk may be mounted, a quota does
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["disk", "quota"])
def test_a_full_disk_does_not_change_the_training(mode: str, how: str):
    wanted = untouched()
    with disk("300k") as home:
        limit = FULL if how == "quota" or not home.is_mount() else ""
        place = home if how == "disk" else Path("quota")
        output, log = finish(limit + TRAINING, str(place), PROVML_JOURNAL=mode)
        digest, faults = output.split()
        assert digest == wanted
        assert int(faults) > (1000 if mode == "write" else 20), "batches may be written together"
        assert log.count("provml: recording failed") == 1
        assert len(log.strip().splitlines()) == 1
        events = journals(home=place)["main"]
        measured = [event for event in events if isinstance(event, Measured)]
        assert len(measured) > 500, "events that fitted are there"
        *_, fault, end = events
        assert isinstance(fault, CaptureErrors)
        assert fault.count == int(faults)
        recorded = sum(isinstance(event, BatchEnd) for event in events)
        assert fault.lost_batches == 4000 - recorded > 0
        assert isinstance(end, End)
        assert end.status == "FINISHED"


ENDS = """
    import resource, sys
    sys.dont_write_bytecode = True  # the limit would cut it
    import provml
    for size in range(3_000, 3_300, 20):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with provml.record("x", home=sys.argv[1], run=f"r{size}", capture_environment=False) as run:
            if sys.argv[2]:
                run.tag(sys.argv[2])  # an error that the journal has from the beginning
            with run.training() as training:
                for epoch in training.epochs(50):
                    epoch.measured(loss=1.0)
        print(run.id, run.capture_errors)
"""


@pytest.mark.parametrize("tag", ["", "x" * 101], ids=["late", "early"])
def test_a_journal_that_cannot_say_that_events_were_lost_has_no_end(isolated_home: Path, tag: str):
    """Lines that are appended have no reserve: a short end may fit where the longer line about the errors did not."""
    output, _ = finish(ENDS, str(isolated_home), tag, PROVML_JOURNAL="append")
    counts = dict(line.split() for line in output.splitlines())
    assert len(counts) == 15
    for run, count in counts.items():
        events = read_events(isolated_home / "runs" / run / "main.jsonl")
        written = [event.count for event in events if isinstance(event, CaptureErrors)]
        assert int(count) > bool(tag)
        if isinstance(events[-1], End):
            assert written[-1] == int(count), run


@pytest.mark.parametrize("mode", MODES)
def test_a_disk_that_is_full_from_the_start_does_not_stop_the_training(mode: str):
    wanted = untouched()
    with disk("64k") as home:
        if home.is_mount():
            with contextlib.suppress(OSError), (home / "ballast").open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
        limit = "" if home.is_mount() else FULL.replace("300_000", "0")
        output, log = finish(limit + TRAINING, str(home), PROVML_JOURNAL=mode)
    assert output.split()[0] == wanted
    assert int(output.split()[1]) > 8000
    assert log.count("provml: recording failed") == 1


@pytest.mark.parametrize("mode", [*MODES, "append"])
def test_a_failed_last_sync_is_in_the_status(mode: str, monkeypatch: pytest.MonkeyPatch):
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setenv("PROVML_JOURNAL", mode)
    monkeypatch.setattr(CONTEXT, "limits", Limits(sync_seconds=600.0))
    monkeypatch.setattr(os, "fsync", fail)
    with provml.record("x", run="r", capture_environment=False) as run:
        run.training().measured(loss=1.0)
    assert run.capture_errors == 1
    (end,), (fault,) = of(End), of(CaptureErrors)
    assert (end.status, fault.messages) == ("FINISHED", {"OSError: [Errno 5] Input/output error": 1})
    command = [sys.executable, "-m", "provml", "status", "r"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "status    FINISHED" in shown
    assert "Input/output error" in shown


def read_only(folder: Path) -> bool:
    """Make a folder that nobody can write to; whom permissions do not stop, a mount does."""
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False)
    return not os.access(folder, os.W_OK)


def test_a_read_only_home_does_not_stop_the_training():
    wanted = untouched()
    Path("file").write_text("")
    homes = ["file", "file/below", "/proc/provml", "x" * 5000]
    if read_only(Path("ro")):
        homes += ["ro", "ro/deep/er"]
    try:
        for home in homes:
            output, log = finish(TRAINING, home)
            assert output.split()[0] == wanted, home
            assert int(output.split()[1]) > 8000
            assert log.count("provml: recording failed") == 1
        finish(TRAINING.replace("capture_environment", "strict=True, capture_environment"), home, code=1)
    finally:
        if Path("ro").is_mount():
            subprocess.run(["umount", "-l", "ro"], check=True)


def test_a_forked_child_whose_home_appears_later_writes_its_own_journal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CONTEXT, "limits", Limits(retry_seconds=0.0))
    Path("disk").write_text("not mounted yet")
    run = provml.record("x", run="r", home="disk/home", capture_environment=False)
    training = run.training()
    child = os.fork()
    if child == 0:
        training.measured(loss=1.0)
        Path("disk").unlink()
        Path("disk").mkdir()
        training.measured(loss=2.0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    (events,) = journals(home="disk/home").values()
    assert isinstance(events[0], Header)
    assert (events[0].pid, events[0].main, events[0].parent) == (child, False, "main")
    assert [event.values["loss"] for event in events if isinstance(event, Measured)] == [1.0, 2.0]
    run.finish()


@pytest.mark.parametrize("again", ["while it runs", "at its end"])
def test_a_home_that_appears_later_gets_the_run_from_its_start(again: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CONTEXT, "limits", Limits(retry_seconds=0.0 if again == "while it runs" else 600.0))
    Path("disk").write_text("not mounted yet")
    run = provml.record("x", run="r", home="disk/home", capture_environment=False)
    training = run.training(lr=0.1)
    Path("disk").unlink()
    Path("disk").mkdir()
    for epoch in training.epochs(3):
        epoch.measured(loss=1.0)
    training.done()
    run.finish()
    (events,) = journals(home="disk/home").values()
    recorded = [event for event in events if not isinstance(event, CaptureErrors)]
    assert [type(event) for event in recorded] == [Header, Begin, *[Begin, Measured, Done] * 3, Done, End]
    assert of(Begin, home="disk/home")[0].values == {"lr": 0.1}
    assert of(CaptureErrors, home="disk/home")[-1].count == run.capture_errors >= 2
    assert "Not a directory" in of(CaptureErrors, home="disk/home")[-1].first


def test_the_backlog_for_a_missing_home_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CONTEXT, "limits", Limits(max_backlog=10))
    Path("disk").write_text("never mounted")
    with provml.record("x", home="disk/home", capture_environment=False) as run:
        for _ in range(100):
            run.training().done()
        assert run._writer is not None
        assert len(run._writer._target.backlog) == 10


def test_a_home_that_is_deleted_while_recording_is_a_capture_error():
    program = """
        import shutil, sys, time, provml
        strict = sys.argv[2] == "strict"
        with provml.record("x", run="r", home=sys.argv[1], strict=strict, capture_environment=False) as run:
            with run.training() as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=1.0)
                    if epoch.index == 1:
                        shutil.rmtree(sys.argv[1])
                        while sys.argv[2] == "wait" and not run.capture_errors:
                            time.sleep(0.05)
        print(run.capture_errors)
    """
    output, log = finish(program, "home", "now")
    assert int(output) == 1
    assert "was deleted" in log
    output, log = finish(program, "home", "wait")
    assert int(output) > 4, "every event since is counted"
    assert log.count("provml: recording failed") == 1
    _, log = finish(program, "home", "strict", code=1)
    assert "FileNotFoundError" in log
    assert not Path("home").exists()


def test_a_home_stays_the_same_after_chdir():
    Path("sub").mkdir()
    finish(
        """
        import os, provml
        with provml.record("x", run="r", strict=True) as run:
            os.chdir("sub")
            run.training().done()
        """
    )
    assert len(of(Begin)) == 1
    assert len(of(Environment)) >= 1


def test_a_process_that_cannot_start_threads_records():
    finish(
        """
        import threading, provml
        def refuse(self): raise RuntimeError("can't start new thread")
        threading.Thread.start = refuse
        with provml.record("x", run="r", strict=True, capture_environment=False) as run:
            run.training().done()
        """
    )
    assert len(of(End)) == 1
    shutil.rmtree(".provml")
