"""The slate: batches that are told together say the same as batches that are told one by one, also after kill -9."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import told_in

import provml
from provml import event, slate
from provml.event import Batch, Batches, Fault, Measured
from provml.journal import MappedFile, read_lines
from provml.recorder import Recorder
from provml.store import Store, reading

BATCHES = "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED", "PROVML_JOURNAL", "RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Iterator[Recorder]:
    with provml.record("x", run="r", strict=True, capture_environment=False) as made:
        yield made


def journal(run: str = "r", home: str | Path = ".provml") -> Path:
    return Path(home, "runs", run, "main.jsonl")


def lines(kind: type[Any]) -> list[Any]:
    """The lines of one kind, as they are in the journal."""
    return [what for _, _, line in read_lines(journal()) if isinstance(what := event.decode(line), kind)]


def said(kind: type[Any], path: Path | None = None) -> list[Any]:
    return [what for what in told_in(path or journal()) if isinstance(what, kind)]


# ---- the same as without

NUMBER = st.one_of(
    st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.floats(width=32).map(lambda x: np.float32(x))
)
CALL = st.dictionaries(st.sampled_from(["loss", "accuracy", "größe", *"abcdefgh"]), NUMBER, max_size=10)
ACT = st.one_of(CALL, st.sampled_from(["epoch measured", "adapted", "break", "left open", "validation"]))


def play(home: Path, epochs: list[list[list[Any]]], how: str, every: int) -> list[event.AnyEvent]:
    """A training of so many epochs with batches in which such calls are made; what its journal tells, without times."""
    os.environ["PROVML_JOURNAL"] = how
    with (
        provml.record("x", run="r", home=home, every=every, strict=True, capture_environment=False) as run,
        run.training(rate=1.0) as training,
    ):
        for epoch, batches in zip(training.epochs(len(epochs)), epochs, strict=False):
            left = None
            for batch, acts in zip(epoch.batches(range(len(batches))), batches, strict=False):
                for act in acts:
                    if isinstance(act, dict):
                        batch.measured(**act)
                    elif act == "epoch measured":
                        epoch.measured(score=batch.index)
                    elif act == "adapted":
                        training.adapted(rate=float(batch.index))
                    elif act == "left open":
                        left = epoch.batch(1000 + batch.index)
                        left.measured(loss=1.0)
                    elif act == "validation":
                        with epoch.validation() as twin:
                            for one in twin.batches(range(2)):
                                one.measured(loss=0.5)
                if "break" in acts:
                    break
            if left is not None:
                left.done()
    assert not slate.beside(journal(home=home)).exists()
    return told_in(journal(home=home))


def timeless(events: list[event.AnyEvent]) -> Iterator[Any]:
    """Events without their times, and measures each by itself: those of a batch may be told by one call or by two."""
    for at, several in groupby(events, key=lambda one: one.at if isinstance(one, Measured) else object()):
        if isinstance(at, str):
            told = [pair for one in several for pair in one.values.items()]  # type: ignore[union-attr]
            yield at, sorted(told, key=itemgetter(0))
        else:
            held = msgspec.to_builtins(next(several))
            yield {name: value for name, value in held.items() if name not in ("t", "s", "pid", "born")}


@given(st.lists(st.lists(st.lists(ACT, max_size=3), max_size=5), max_size=3), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_a_mapped_journal_with_a_slate_tells_what_one_without_tells(epochs: list[list[list[Any]]], every: int):
    with tempfile.TemporaryDirectory() as folder:
        told = [[*timeless(play(Path(folder, how), epochs, how, every))] for how in ("map", "write")]
    del os.environ["PROVML_JOURNAL"]
    assert repr(told[0]) == repr(told[1])  # 1 and 1.0 and True are not the same


def test_batches_are_told_together(run: Recorder):
    with run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(200)):
                batch.measured(loss=batch.index / 7)
    together = lines(Batches)
    assert [len(what.index) for what in together] == [1, 153, 46, 153, 47]
    assert [what.told for what in together][-1] == 400
    assert [what.at for what in said(Batch)] == [f"training/{e}/{b}" for e in (1, 2) for b in range(1, 201)]
    assert [what.values["loss"] for what in said(Measured)] == [b / 7 for _ in (1, 2) for b in range(1, 201)]


def test_times_and_durations_are_those_of_each_batch(run: Recorder):
    before = time.time()
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(4)):
            time.sleep(0.01 * batch.index)
    ended = [what.t for what in said(Batch)]
    assert before < ended[0] < ended[1] < ended[2] < ended[3] < time.time()
    assert all(what.s >= 0.01 * number for number, what in enumerate(said(Batch), 1))


def test_what_is_on_the_slate_is_told_within_a_second_or_so(run: Recorder):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(10**6)):
            batch.measured(loss=1.0)
            time.sleep(0.05)
            if len(lines(Batches)) > 1:
                break
        assert 10 < batch.index < 60


def test_a_query_in_the_middle_of_an_epoch_finds_the_batches_that_ended(run: Recorder):
    with Store(".provml") as store, run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(100)):
                batch.measured(loss=1.0)
                if batch.index in (1, 2, 3, 64, 65, 66, 67, 100):
                    ended = (epoch.index - 1) * 100 + batch.index - 1
                    assert store.query(f"{BATCHES[:-1]}; provml:elapsedSeconds ?s }}")[0] == (ended,)
                    assert store.run("r").events == len(said_so_far())
        store.sync()
        live = set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph())) == live


def said_so_far() -> list[event.AnyEvent]:
    """What is told by now: all but the measures of a batch that goes on, where they stand on the slate."""
    told = told_in(journal())
    return told if lines(Measured)[-1:] == told[-1:] else told[:-1]


def test_a_batch_that_takes_long_is_told_when_it_ends(run: Recorder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slate, "FOLD_SECONDS", 0.01)
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            assert sum(len(what.index) for what in lines(Batches)) == batch.index - 1
            time.sleep(0.02)


def test_a_batch_in_which_the_clock_was_set_ended_by_the_new_time(run: Recorder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slate, "FOLD_SECONDS", 0.01)
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            if batch.index == 2:
                time.sleep(0.02)
                monkeypatch.setattr(slate, "time", lambda: time.time() + 3600.0)
    first, second = said(Batch)
    assert 3600.0 < second.t - first.t < 3660.0


def test_the_order_of_what_is_told_is_that_of_what_happened(run: Recorder):
    with run.training(rate=1.0) as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            training.adapted(rate=float(batch.index))
    order = [what.values["rate"] if isinstance(what, event.Adapted) else what.at for what in told_in(journal())[3:9]]
    assert order == [1.0, "training/1/1", 2.0, "training/1/2", 3.0, "training/1/3"]


def test_threads_that_share_an_epoch_do_not_share_the_slate(run: Recorder):
    with run.training() as training, training.epoch(1) as epoch:

        def work(first: int) -> None:
            for batch in epoch.batches(range(300), first=first):
                batch.measured(loss=float(batch.index))

        threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(1, 5)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    told = {what.at: what.values["loss"] for what in said(Measured)}
    assert len(said(Batch)) == len(said(Measured)) == len(told) == 1200
    assert all(float(at.rpartition("/")[2]) == loss for at, loss in told.items())


@pytest.mark.parametrize("measures", [True, False])
def test_what_a_signals_handler_tells_as_measures_are_taken_down_leaves_each_told_once(run: Recorder, measures: bool):
    class Slow:
        """A number that a device is waited for, and meanwhile a signal comes."""

        def tolist(self) -> float:
            batch.measured(other=2.0) if measures else epoch.measured(score=9.0)
            return 3.0

    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            if batch.index == 1:
                batch.measured(loss=0.0, other=0.0, slow=0.0)
                continue
            batch.measured(loss=1.0)
            assert batch.slate is not None
            assert batch.slate.measured({"slow": Slow()}, Slow)
    told = [pair for one in said(Measured) if one.at == "training/1/2" for pair in one.values.items()]
    assert sorted(told) == [("loss", 1.0), *[("other", 2.0)] * measures, ("slow", 3.0)]


# ---- killed

PROGRAM = """
    import os, signal, sys, provml
    run = provml.record("x", run="r", capture_environment=False)
    with run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(100)):
                batch.measured(loss=batch.index / 4, count=batch.index)
                if (epoch.index, batch.index) == (2, 90):
                    {end}
"""


def killed(end: str = "os.kill(os.getpid(), signal.SIGKILL)") -> None:
    program = textwrap.dedent(PROGRAM).format(end=end)
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)


def said_by(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "provml.cli", *command], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_stands_on_the_slate_of_a_killed_writer_is_in_every_reading():
    killed()
    written = sum(len(what.index) for what in lines(Batches))
    assert written < 180, "some were not written"
    assert len(said(Batch)) == 189
    assert said(Measured)[-1] == Measured("training/2/90", {"loss": 22.5, "count": 90})
    with Store(".provml") as store:
        assert store.run("r").status == "KILLED"
        assert store.query(BATCHES)[0] == (190,)
        assert store.query("SELECT (COUNT(*) AS ?n) { ?m a provml:BatchEvaluation }")[0] == (380,)
        assert store.sync() == 0
        assert store.run("r").events == len(told_in(journal()))
        store.sync()
        live = set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph())) == live
        store.backup("copy")
        assert store.validate()
    shown = said_by("log", "r", "--batches")
    assert "training epoch 2 batch 89  " in shown
    assert "loss=22.25" in shown
    assert len(said_by("log", "r", "--format", "json").splitlines()) == len(told_in(journal()))
    assert said_by("export", "r", "--format", "nt").count("#BatchEvaluation>") == 380


def test_a_batch_that_was_left_open_hides_none_of_those_after_it():
    program = """
        import os, signal, provml
        run = provml.record("x", run="r", capture_environment=False)
        with run.training() as training:
            try:
                for batch in training.epoch(1).batches(range(5)):
                    batch.measured(loss=1.0)
                    if batch.index == 3:
                        raise ValueError
            except ValueError:
                pass
            for batch in training.epoch(2).batches(range(5)):
                batch.measured(loss=2.0)
                if batch.index == 4:
                    os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False, timeout=60)
    assert [what.at for what in said(Batch)] == [
        "training/1/1",
        "training/1/2",
        *(f"training/2/{n}" for n in (1, 2, 3)),
    ]
    assert [what.values["loss"] for what in said(Measured)] == [1.0] * 3 + [2.0] * 4
    with Store(".provml") as store:
        assert store.query(BATCHES)[0] == (7,)


def test_a_copy_of_a_killed_run_holds_what_stood_on_its_slate():
    killed()
    with Store(".provml") as store:
        store.backup("copy")
    assert not slate.beside(journal(home="copy")).exists()
    assert told_in(journal(home="copy")) == told_in(journal())


def test_a_run_that_ends_by_itself_leaves_no_slate():
    for end in ("break", "raise ValueError('no')", "sys.exit(3)"):
        shutil.rmtree(".provml", ignore_errors=True)
        killed(end)
        assert not slate.beside(journal()).exists()
        assert len(said(Measured)) >= 190


def test_a_killed_writer_that_had_told_all_leaves_nothing_to_tell():
    killed("epoch.measured(score=1.0); batch.done(); epoch.measured(score=2.0); os.kill(os.getpid(), signal.SIGKILL)")
    assert slate.beside(journal()).exists()
    assert slate.unwritten(slate.snapshot(journal()), lines(Batches)[-1].told, is_over=True) == []
    assert len(said(Batch)) == 190


def test_what_a_loader_measures_for_a_batch_that_never_began_is_of_no_batch():
    program = """
        import os, signal
        import provml
        from provml.batch import handed
        class Told:
            def __init__(self):
                self.run = provml.record("x", run="r", capture_environment=False)
                self.epoch, self.batch = None, None
            def begun(self, loader):
                self.epoch = self.run.training().epoch(1)
                return self.epoch
        told = Told()
        def loader():
            yield 1.0
            yield 2.0
            told.batch.measured(loss=3.0)
            os.kill(os.getpid(), signal.SIGKILL)
        for loss in handed(loader(), told):
            told.batch.measured(loss=loss)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert [what.at for what in said(Batch)] == ["training/1/1", "training/1/2"]
    assert [(what.at, what.values) for what in said(Measured)] == [
        ("training/1/1", {"loss": 1.0}),
        ("training/1/2", {"loss": 2.0}),
    ]


@given(st.binary(max_size=300), st.integers(0, slate.END * 8))
@settings(max_examples=100, deadline=None)
def test_a_slate_that_is_damaged_breaks_no_reading(damage: bytes, at: int):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "main.jsonl")
        os.environ["PROVML_JOURNAL"] = "map"
        with provml.record("x", run="r", home=Path(folder, "home"), strict=True, capture_environment=False) as run:
            epoch = run.training().epoch(1)
            for batch in epoch.batches(range(5)):
                batch.measured(loss=1.0)
                held = slate.beside(journal(home=Path(folder, "home"))).read_bytes()
        del os.environ["PROVML_JOURNAL"]
        slate.beside(path).write_bytes(held[:at] + damage + held[at + len(damage) :])
        path.write_bytes(b"")
        for line in slate.unwritten(slate.snapshot(path), 0, is_over=True):
            with contextlib.suppress(msgspec.MsgspecError):  # a damaged line, reported and left out
                assert all(event.each(event.decode(line)))


def test_rows_of_one_width_for_all_as_slates_had_them_before_are_read(tmp_path: Path):
    head = b'{"at":"training/1","names":["loss"]}'
    numbers = [0.0] * slate.END
    numbers[:3] = 1.0, 0.0, float(len(head))
    for row in range(3):
        at = slate.HEAD + row * 12
        numbers[at : at + 5] = row + 1.0, 1.7e9 + row if row < 2 else 0.0, 0.25, 1.0, row / 4
    held = bytearray(struct.pack(f"{slate.END}d", *numbers))
    held[slate.TEXT * 8 : slate.TEXT * 8 + len(head)] = head
    told = [event.decode(line) for line in slate.unwritten(bytes(held), 0, is_over=True)]
    assert told == [
        Batches("training/1", [1, 2], [1.7e9, 1.7e9 + 1], [0.25, 0.25], {"loss": [0.0, 0.25]}, 2),
        Measured("training/1/3", {"loss": 0.5}),
    ]


@pytest.mark.parametrize("width", [-5, 0, 1, 4, 10**6, 2.5, None])
def test_rows_of_a_width_that_cannot_be_are_none(width: Any):
    head = msgspec.json.encode({"at": "training/1", "names": ["loss"], "width": width})
    held = bytearray(struct.pack(f"{slate.END}d", 1.0, 0.0, len(head), *[1.0] * (slate.END - 3)))
    held[slate.TEXT * 8 : slate.TEXT * 8 + len(head)] = head
    assert slate.unwritten(bytes(held), 0, is_over=True) == []


@pytest.mark.parametrize("measures", range(1, 9))
def test_as_many_batches_stand_on_a_slate_as_there_is_room_for(run: Recorder, measures: int):
    with run.training() as training:
        for batch in training.epoch(1).batches(range(400)):
            batch.measured(**{f"m{number}": batch.index + number / 8 for number in range(measures)})
    rows = (slate.END - slate.HEAD) // (slate.VALUES + measures)
    assert {len(what.index) for what in lines(Batches)[1:-1]} == {rows}
    told = [what.values for what in said(Measured)]
    assert told == [{f"m{number}": index + number / 8 for number in range(measures)} for index in range(1, 401)]


# ---- forks and faults


def test_a_forked_child_leaves_the_slate_of_its_parent_alone(run: Recorder):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(6)):
            if batch.index == 3:
                child = os.fork()
                if not child:
                    batch.measured(child=1.0)
                    batch.done()
                    for more in epoch.batches(range(3), first=100):
                        more.measured(loss=2.0)
                    os._exit(0)
                os.waitpid(child, 0)
            batch.measured(loss=float(batch.index))
    assert [what.values for what in said(Measured)] == [{"loss": float(n)} for n in range(1, 7)]
    (own,) = (path for path in journal().parent.glob("*.jsonl") if path != journal())
    assert [what.values for what in said(Measured, own)] == [{"child": 1.0}, *[{"loss": 2.0}] * 3]


def test_an_interrupt_tells_no_batch_twice_and_loses_none():
    program = """
        import os, signal, sys, threading, time, provml
        with provml.record("x", run="r", capture_environment=False) as run, run.training() as training:
            def interrupt():
                for _ in range(300):
                    time.sleep(0.002)
                    os.kill(os.getpid(), signal.SIGINT)
            inside = False
            def interrupted(*_):
                global inside
                if inside:
                    inside = False
                    raise KeyboardInterrupt
            signal.signal(signal.SIGINT, interrupted)
            asking = threading.Thread(target=interrupt)
            asking.start()
            while asking.is_alive():
                try:
                    inside = True
                    epoch = training.epoch(1)
                    for batch in epoch.batches(range(10**9)):
                        batch.measured(loss=1.0)
                except KeyboardInterrupt:
                    continue
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    places = [what.at for what in said(Batch)]
    assert len(places) == len(set(places)) > 1000, done.stderr
    for epoch in {place.rpartition("/")[0] for place in places}:
        held = [int(place.rpartition("/")[2]) for place in places if place.startswith(f"{epoch}/")]
        assert held == list(range(1, len(held) + 1)), epoch


def test_a_run_that_has_ended_raises_nothing_into_the_training():
    run = provml.record("x", run="r", capture_environment=False)
    for epoch in run.training().epochs(3):
        for batch in epoch.batches(range(4)):
            batch.measured(loss=1.0)
            if (epoch.index, batch.index) == (1, 2):
                run.finish()
        epoch.batch(5).measured(loss=1.0)
    assert run.faults > 10
    assert len(said(Measured)) == 2


def test_a_run_that_another_thread_ends_raises_nothing_into_the_training():
    for number in range(30):
        run = provml.record("x", run=f"r{number}", capture_environment=False)
        failed: list[BaseException] = []

        def train(run: Recorder = run, failed: list[BaseException] = failed) -> None:
            try:
                for batch in run.training().epoch(1).batches(range(3000)):
                    batch.measured(loss=1.0)
            except BaseException as error:
                failed.append(error)

        training = threading.Thread(target=train)
        training.start()
        time.sleep(0.001)
        run.finish()
        training.join()
        assert failed == []
        held = [what.at for what in said(Batch, journal(f"r{number}"))]
        assert held == [f"training/1/{n}" for n in range(1, len(held) + 1)]


def test_what_has_the_slate_can_be_copied(run: Recorder):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            batch.measured(loss=1.0)
            for one in (training, epoch, batch):
                assert copy.deepcopy(one).run is run
                pickle.loads(pickle.dumps(one))


def test_rows_that_could_not_be_told_hide_none_of_those_after_them(monkeypatch: pytest.MonkeyPatch):
    append = MappedFile.append

    def full(self: MappedFile, line: bytes, last: bool = False) -> None:
        if b'"told":154' in line:
            raise OSError(28, "No space left on device")
        append(self, line, last)

    monkeypatch.setattr(MappedFile, "append", full)
    run = provml.record("x", run="r", capture_environment=False)
    for batch in run.training().epoch(1).batches(range(200)):
        batch.measured(loss=1.0)
        if batch.index == 190:
            break
    assert run.faults == 1
    assert [what.at for what in said(Batch)] == [f"training/1/{n}" for n in (1, *range(155, 190))]
    run.finish()


def test_an_interrupt_while_measures_are_told_tells_them_once(run: Recorder, monkeypatch: pytest.MonkeyPatch):
    with run.training() as training, training.epoch(1) as epoch:
        batches = epoch.batches(range(5))
        next(batches).measured(loss=1.0)
        next(batches).measured(loss=2.0)
        tell = epoch._slate._tell  # type: ignore[union-attr]

        def interrupted(what: event.Event) -> bool:
            tell(what)
            epoch._slate._tell = tell  # type: ignore[union-attr]
            raise KeyboardInterrupt

        epoch._slate._tell = interrupted  # type: ignore[union-attr]
        for _ in range(2):
            with contextlib.suppress(KeyboardInterrupt):
                epoch.measured(score=1.0)
        next(batches).measured(loss=3.0)
    assert [what.values["loss"] for what in said(Measured) if "loss" in what.values] == [1.0, 2.0, 3.0]


def test_a_slate_is_read_before_the_lines_so_that_nothing_is_taken_before_what_precedes_it(
    run: Recorder, monkeypatch: pytest.MonkeyPatch
):
    training = run.training()
    epochs = training.epochs(3)
    batches = next(epochs).batches(range(6))
    steps = iter(range(100))

    def step() -> None:
        """The training goes on by a batch, or into its next epoch."""
        nonlocal batches
        if next(steps) % 5 == 4:
            batches = next(epochs).batches(range(6))
        next(batches).measured(loss=1.0, good=True)

    read = reading.read_lines

    def meanwhile(path: Path, offset: int = 0, number: int = 0) -> Iterator[Any]:
        yield from read(path, offset, number)
        step()

    with Store(".provml") as store:
        with monkeypatch.context() as patched:
            patched.setattr(reading, "read_lines", meanwhile)
            for _ in range(10):
                store.sync()
        store.sync()
        live = set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.index.store.quads_for_pattern(None, None, None, ox.DefaultGraph())) == live


def test_where_no_slate_can_be_made_each_batch_is_told_by_itself(run: Recorder, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(slate.os, "posix_fallocate", full)
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            batch.measured(loss=1.0)
    assert lines(Batches) == []
    assert len(said(Batch)) == len(said(Measured)) == 3
    assert said(Fault) == []


def test_a_measure_that_is_none_is_a_fault_and_the_batch_goes_on():
    with provml.record("x", run="r", capture_environment=False) as run, run.training() as training:
        for batch in training.epoch(1).batches(range(3)):
            batch.measured(loss="much" if batch.index == 2 else 1.0, accuracy=math.nan)
    assert run.faults == 1
    assert [what.values for what in said(Measured)] == [
        {"loss": 1.0, "accuracy": ["double", "NaN"]},
        {"accuracy": ["double", "NaN"]},
        {"loss": 1.0, "accuracy": ["double", "NaN"]},
    ]


def test_columns_that_are_not_of_one_length_are_a_damaged_line():
    line = event.encode(Batches("training/1", [1, 2], [1.0, 2.0], [1.0]))
    with pytest.raises(msgspec.ValidationError, match="one length"):
        event.decode(line)
