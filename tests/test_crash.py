"""What befalls a training: kill -9, forks, ranks, and disks that are full, read-only or gone. All of it for real."""

from __future__ import annotations

import contextlib
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

import pytest
from journals import told_in

import provml
from provml import event, process
from provml.event import Batch, Begin, Done, End, Environment, Fault, Measured, Run

MODES = ["map", "write"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test records below a folder of its own, and no test sees the run of another."""
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED", "PROVML_JOURNAL", *process.RANKS):
        monkeypatch.delenv(name, raising=False)


def journals(run: str = "r", home: str | Path = ".provml") -> dict[str, list[event.AnyEvent]]:
    """The events of each journal of a run."""
    paths = sorted(Path(home, "runs", run).glob("*.jsonl"))
    return {path.stem: told_in(path) for path in paths}


def of(kind: type[Any], run: str = "r", home: str | Path = ".provml") -> list[Any]:
    return [what for events in journals(run, home).values() for what in events if isinstance(what, kind)]


def start(program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    Path("program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-u", "program.py", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **variables})


def finish(program: str, *arguments: str, code: int = 0, **variables: str) -> tuple[str, str]:
    """Run a program to its end: what it said."""
    started = start(program, *arguments, **variables)
    said = started.communicate(timeout=120)
    assert started.returncode == code, said
    return said


# ---- kill -9

ACKNOWLEDGED = """
    import os, sys, time, provml
    pace = float(sys.argv[1])
    with provml.record("x", run=sys.argv[2], strict=True, capture_environment=False) as run, run.training() as training:
        print("ready", flush=True)
        for epoch in training.epochs(10**9):
            for batch in epoch.batches(range(500)):
                batch.measured(loss=float(batch.index), epoch=float(epoch.index))
                os.write(1, b"%d/%d\\n" % (epoch.index, batch.index))
                if pace:
                    time.sleep(pace)
"""


@pytest.mark.parametrize("pace", ["0.001", "0"], ids=["paced", "burst"])
@pytest.mark.parametrize("mode", MODES)
def test_kill_9_at_a_random_moment_loses_nothing_whose_call_returned(mode: str, pace: str):
    chance = random.Random(f"{mode} {pace}")
    for number in range(20):
        trained = start(ACKNOWLEDGED, pace, f"r{number}", PROVML_JOURNAL=mode)
        assert trained.stdout is not None
        assert trained.stdout.readline() == "ready\n"
        acknowledged = [trained.stdout.readline() for _ in range(chance.randrange(1, 40))]
        time.sleep(chance.random() * 0.02)
        trained.send_signal(signal.SIGKILL)
        acknowledged += trained.stdout.read().splitlines(keepends=True)
        trained.communicate()
        whole = [f"training/{line.strip()}" for line in acknowledged if line.endswith("\n")]
        (events,) = journals(f"r{number}").values()
        measured = [what.at for what in events if isinstance(what, Measured)]
        assert measured[: len(whole)] == whole
        assert len(measured) <= len(whole) + 1  # killed between the call's return and our hearing of it
        assert [what.at for what in events if isinstance(what, Batch)][: len(whole) - 1] == whole[:-1]
        assert not any(isinstance(what, End) for what in events)


def test_a_process_that_was_killed_is_not_alive_and_one_that_goes_on_is():
    trained = start(ACKNOWLEDGED, "0.01", "r")
    assert trained.stdout is not None
    trained.stdout.readline()
    (first,) = of(Run)
    assert first.pid == trained.pid
    assert first.born > 0
    assert process.is_alive(first.pid, first.t, first.born)
    assert process.is_alive(first.pid, first.t)
    assert not process.is_alive(first.pid, first.t, first.born + 1), "another process of the same number"
    assert not process.is_alive(first.pid, first.t - 1000.0)
    trained.send_signal(signal.SIGKILL)
    trained.wait()
    trained.communicate()
    assert not process.is_alive(first.pid, first.t, first.born)


def test_a_termination_that_nobody_handles_leaves_no_end():
    trained = start(ACKNOWLEDGED, "0.01", "r")
    assert trained.stdout is not None
    trained.stdout.readline()
    trained.terminate()
    trained.communicate()
    assert of(End) == []


@pytest.mark.parametrize("mode", MODES)
def test_faults_are_told_before_the_end_and_survive_kill_9(mode: str):
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
    faults = of(Fault)
    assert [fault.count for fault in faults] == [1, 2, 4, 8]
    assert all("is no scalar" in fault.first for fault in faults)
    assert len(of(Measured)) == 15
    command = [sys.executable, "-m", "provml", "status", "r"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "KILLED" in shown
    assert "8, first with TypeError" in shown


def test_faults_since_the_last_doubling_are_told_by_and_by(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("provml.writer.SYNC_SECONDS", 0.01)
    monkeypatch.setattr("provml.writer.ALIVE_SECONDS", 0.02)
    with provml.record("x", run="r", capture_environment=False) as run:
        for _ in range(7):
            run.training().measured(loss=object())
        until = time.monotonic() + 30.0
        while of(Fault)[-1].count < 7 and time.monotonic() < until:
            time.sleep(0.01)
        assert of(Fault)[-1].count == 7
    assert of(Fault)[-1].count == 7


# ---- forks and children


def test_who_writes_is_told_with_what_its_process_id_means():
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
    firsts = {first.pid: first for first in of(Run)}
    main, child, grandchild = sorted(firsts.values(), key=lambda first: first.t)
    assert [main.writer, main.parent] == ["main", ""]
    assert [child.parent, grandchild.parent] == ["main", child.writer]
    assert {first.ns for first in firsts.values()} == {process.namespace()}


def test_a_forked_child_has_a_journal_of_its_own_and_the_parents_stays_whole():
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
    found = journals()
    assert len(found) == 4
    parent = found.pop("main")
    assert [what.at for what in parent if isinstance(what, Done)] == [
        *("training/1", "training/2", "training/3", "training", "validation"),
    ]
    assert isinstance(parent[-1], End)
    stages = {"validation"}
    for events in found.values():
        assert isinstance(events[0], Run)
        assert not events[0].main
        assert events[0].run == "r"
        assert events[0].pid != parent[0].pid  # type: ignore[union-attr]  # the first is a Run
        assert [list(what.values) for what in events if isinstance(what, Measured)] == [["from_child"], ["inside"]]
        (stage,) = [what.at for what in events if isinstance(what, Begin)]
        assert [what.at for what in events if isinstance(what, Done)] == [stage]
        stages.add(stage)
    assert len(stages) == 4, "places of different processes have different paths"
    assert sum(isinstance(events[-1], End) for events in found.values()) == 2


def test_a_forked_child_that_says_nothing_leaves_no_journal():
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


def test_forks_amid_busy_threads_neither_hang_nor_hurt():
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
                    told = [threading.Thread(target=epoch.measured, kwargs={"child": float(n)}) for n in range(4)]
                    for thread in told: thread.start()
                    for thread in told: thread.join()
                    os._exit(0)
                children.append(child)
            for child in children:
                assert os.waitpid(child, 0)[1] == 0
            stop.set()
            for thread in threads: thread.join()
        """
    )
    found = journals()
    assert len(found) == 16
    parent = found.pop("main")
    for number in range(3):
        told = [
            what.values[f"m{number}"] for what in parent if isinstance(what, Measured) and f"m{number}" in what.values
        ]
        assert told == [float(n) for n in range(1, len(told) + 1)]
    for events in found.values():
        assert isinstance(events[0], Run)
        assert sorted(what.values["child"] for what in events[1:] if isinstance(what, Measured)) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_workers_records_beside_the_training(method: str):
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
    found = journals()
    main = found.pop("main")
    assert len([what for what in main if isinstance(what, Batch)]) == 20
    assert isinstance(main[-1], End)
    loads = [what.at for events in found.values() for what in events if isinstance(what, Begin)]
    assert len(loads) == len(set(loads)) == 20
    assert all(isinstance(events[-1], End) for events in found.values())
    assert {first.main for events in found.values() for first in events if isinstance(first, Run)} == {False}


def test_a_worker_that_fails_says_so():
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
    found = journals()
    assert found.pop("main")[-1].status == "FINISHED"  # type: ignore[union-attr]  # an End
    ((*_, end),) = found.values()
    assert isinstance(end, End)
    assert (end.status, end.error) == ("FAILED", ["ValueError", "bad image"])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("fails", ["1 / 0", "sys.exit(3)", "pass"])
@pytest.mark.parametrize("first", ["import provml.recorder", ""], ids=["loaded", "not loaded"])
def test_a_run_that_a_worker_begins_ends_as_the_worker_does(method: str, fails: str, first: str):
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
    told = {"1 / 0": ["ZeroDivisionError", "division by zero"], "sys.exit(3)": ["SystemExit", "3"], "pass": []}[fails]
    if fails == "1 / 0" and sys.version_info >= (3, 13) and (method == "spawn" or not first):
        told = ["SystemExit", "1"]  # then only the code that it leaves with is known any more
    assert (end.status, end.error) == ("FAILED" if told else "FINISHED", told)


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
            os.mkdir("elsewhere")
            for _ in range(3):
                subprocess.run([sys.executable, "../child.py"], check=True, cwd="elsewhere")
        subprocess.run([sys.executable, "child.py"], check=True)
        """
    )
    assert len(journals()) == 4
    assert [first.main for first in of(Run)].count(True) == 1
    stages = [what.at for what in of(Begin)]
    assert len(set(stages)) == len(stages) == 4
    assert not Path("elsewhere", ".provml").exists()
    runs = [path.name for path in Path(".provml/runs").iterdir()]
    assert len(runs) == 2, "a child that was started after the run ended has a run of its own"


def test_a_child_process_that_names_another_home_has_a_run_of_its_own():
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
    assert [(first.name, first.main) for first in of(Run, other.name, "there")] == [("trial", True)]
    assert sorted((first.name, first.main) for first in of(Run, home="here")) == [
        *(("driver", True), ("trial", False), ("trial", False)),
    ]


def test_an_id_that_another_run_drew_is_drawn_again(monkeypatch: pytest.MonkeyPatch):
    drawn = iter(["same", "same", "same", "other"])
    monkeypatch.setattr("provml.writer.new_run_id", lambda: next(drawn))
    monkeypatch.setattr("provml.recorder.new_run_id", lambda: next(drawn))
    with provml.record("a", strict=True, capture_environment=False) as one:
        one.training().done()
    with provml.record("b", strict=True, capture_environment=False) as two:
        assert os.environ["PROVML_RUN"].startswith("other@")
    assert [one.id, two.id] == ["same", "other"]
    assert [(first.run, first.name) for first in of(Run, "same") + of(Run, "other")] == [("same", "a"), ("other", "b")]


RANK = """
    import sys, provml
    with provml.record("x", strict=True, capture_environment=False) as run:
        with run.training() as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(50)):
                    batch.measured(loss=1.0)
"""


@pytest.mark.parametrize("given", ["by the environment", "in the program"])
def test_ranks_share_one_run_and_clash_nowhere(given: str):
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
    assert sorted((first.rank, first.main) for first in of(Run)) == [(0, True), (1, False), (2, False), (3, False)]
    assert sorted(what.at for what in of(Begin) if "/" not in what.at) == [
        *("training", "training@1", "training@2", "training@3"),
    ]
    batches = [what.at for what in of(Batch)]
    assert len(batches) == len(set(batches)) == 400


def test_a_training_that_is_started_again_under_the_same_id_overwrites_nothing():
    for rank in ("0", "1", "0", "1"):
        finish(RANK, RANK=rank, PROVML_RUN="r")
    found = journals()
    assert len(found) == 4
    batches = [what.at for what in of(Batch)]
    assert len(batches) == len(set(batches)) == 400


@pytest.mark.parametrize("variables", [{"RANK": "first"}, {"PROVML_RUN": "../../x"}, {"PROVML_RUN": "@@"}])
def test_an_environment_that_makes_no_sense_is_left_aside(variables: dict[str, str]):
    finish(RANK, **variables)
    (run,) = Path(".provml/runs").iterdir()
    assert len(of(Batch, run.name)) == 100


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
    print(run.faults)
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
def test_a_disk_that_fills_up_does_not_change_a_bit_of_the_training(mode: str, how: str):
    wanted = untouched()
    with disk("300k") as home:
        limit = FULL if how == "quota" or not home.is_mount() else ""
        place = home if how == "disk" else Path("quota")
        said, log = finish(limit + TRAINING, str(place), PROVML_JOURNAL=mode)
        digest, faults = said.split()
        assert digest == wanted
        assert int(faults) > (1000 if mode == "write" else 20), "batches may be told together"
        assert log.count("provml cannot record") == 1
        assert len(log.strip().splitlines()) == 1
        events = journals(home=place)["main"]
        measured = [what for what in events if isinstance(what, Measured)]
        assert len(measured) > 500, "what fitted is there"
        *_, fault, end = events
        assert isinstance(fault, Fault)
        assert fault.count == int(faults)
        assert isinstance(end, End)
        assert end.status == "FINISHED"


@pytest.mark.parametrize("mode", MODES)
def test_a_disk_that_was_full_from_the_start_stops_nothing(mode: str):
    wanted = untouched()
    with disk("64k") as home:
        if home.is_mount():
            with contextlib.suppress(OSError), (home / "ballast").open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
        limit = "" if home.is_mount() else FULL.replace("300_000", "0")
        said, log = finish(limit + TRAINING, str(home), PROVML_JOURNAL=mode)
    assert said.split()[0] == wanted
    assert int(said.split()[1]) > 8000
    assert log.count("provml cannot record") == 1


def read_only(folder: Path) -> bool:
    """Make a folder that nobody can write to; whom permissions do not stop, a mount does."""
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False)
    return not os.access(folder, os.W_OK)


def test_a_home_that_cannot_be_written_to_stops_nothing():
    wanted = untouched()
    Path("file").write_text("")
    homes = ["file", "file/below", "/proc/provml", "x" * 5000]
    if read_only(Path("ro")):
        homes += ["ro", "ro/deep/er"]
    try:
        for home in homes:
            said, log = finish(TRAINING, home)
            assert said.split()[0] == wanted, home
            assert int(said.split()[1]) > 8000
            assert log.count("provml cannot record") == 1
        finish(TRAINING.replace("capture_environment", "strict=True, capture_environment"), home, code=1)
    finally:
        if Path("ro").is_mount():
            subprocess.run(["umount", "-l", "ro"], check=True)


def test_a_forked_child_whose_home_comes_late_writes_as_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("provml.writer.PATIENCE", 0.0)
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
    assert isinstance(events[0], Run)
    assert (events[0].pid, events[0].main, events[0].parent) == (child, False, "main")
    assert [what.values["loss"] for what in events if isinstance(what, Measured)] == [1.0, 2.0]
    run.finish()


@pytest.mark.parametrize("again", ["while it runs", "at its end"])
def test_a_home_that_comes_late_gets_the_run_from_its_beginning(again: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("provml.writer.PATIENCE", 0.0 if again == "while it runs" else 600.0)
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
    told = [what for what in events if not isinstance(what, Fault)]
    assert [type(what) for what in told] == [Run, Begin, *[Begin, Measured, Done] * 3, Done, End]
    assert of(Begin, home="disk/home")[0].values == {"lr": 0.1}
    assert of(Fault, home="disk/home")[-1].count == run.faults >= 2
    assert "Not a directory" in of(Fault, home="disk/home")[-1].first


def test_what_is_held_for_a_home_that_never_comes_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("provml.writer.MOST_HELD", 10)
    Path("disk").write_text("never mounted")
    with provml.record("x", home="disk/home", capture_environment=False) as run:
        for _ in range(100):
            run.training().done()
        assert run._writer is not None
        assert len(run._writer._held) == 10


def test_a_home_that_is_removed_while_recording_stops_nothing_and_is_noticed():
    program = """
        import shutil, sys, time, provml
        strict = sys.argv[2] == "strict"
        with provml.record("x", run="r", home=sys.argv[1], strict=strict, capture_environment=False) as run:
            with run.training() as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=1.0)
                    if epoch.index == 1:
                        shutil.rmtree(sys.argv[1])
                        while sys.argv[2] == "wait" and not run.faults:
                            time.sleep(0.05)
        print(run.faults)
    """
    said, log = finish(program, "home", "now")
    assert int(said) == 1
    assert "was removed" in log
    said, log = finish(program, "home", "wait")
    assert int(said) > 4, "every event since is counted"
    assert log.count("provml") == 1
    _, log = finish(program, "home", "strict", code=1)
    assert "FileNotFoundError" in log
    assert not Path("home").exists()


def test_a_home_stays_where_it_is_when_the_training_changes_its_directory():
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


def test_a_process_that_may_start_no_thread_records_all_the_same():
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
