"""The batch buffer: it loses, duplicates and reorders nothing, also after `kill -9`."""

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
from journal_events import read_events

import provml
from provml.journal import batch_buffer, events, reader
from provml.journal.events import BatchEnd, Batches, CaptureErrors, Measured
from provml.journal.file import MappedJournalFile
from provml.journal.reader import read_lines
from provml.recording.context import CONTEXT, Limits
from provml.recording.run import Run
from provml.store import Store

BATCHES = "SELECT (COUNT(?b) AS ?n) { ?b a provml:BatchExecution }"


pytestmark = pytest.mark.usefixtures("isolated_home")


@pytest.fixture
def flush_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush the rows of a batch that took 10 ms; use it before `run`."""
    monkeypatch.setattr(CONTEXT, "limits", Limits(flush_seconds=0.01))


@pytest.fixture
def run() -> Iterator[Run]:
    with provml.record("x", run="r", strict=True, capture_environment=False) as run:
        yield run


def journal(run: str = "r", home: str | Path = ".provml") -> Path:
    return Path(home, "runs", run, "main.jsonl")


def lines(kind: type[Any]) -> list[Any]:
    """Return the events of one kind that are lines of the journal."""
    return [event for _, _, line in read_lines(journal()) if isinstance(event := events.decode(line), kind)]


def events_of(kind: type[Any], path: Path | None = None) -> list[Any]:
    return [event for event in read_events(path or journal()) if isinstance(event, kind)]


# ---- the same as without

NUMBER = st.one_of(
    st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.floats(width=32).map(lambda x: np.float32(x))
)
CALL = st.dictionaries(st.sampled_from(["loss", "accuracy", "größe", *"abcdefgh"]), NUMBER, max_size=10)
ACT = st.one_of(CALL, st.sampled_from(["epoch measured", "adapted", "break", "left open", "validation"]))


def play(home: Path, epochs: list[list[list[Any]]], how: str, every: int) -> list[events.AnyEvent]:
    """Record a training with the given calls in each batch; return the events of its journal."""
    os.environ["PROVML_JOURNAL"] = how
    with (
        provml.record("x", run="r", home=home, every=every, strict=True, capture_environment=False) as run,
        run.training(rate=1.0) as training,
    ):
        for epoch, batches in zip(training.epochs(len(epochs)), epochs, strict=False):
            open_batch = None
            for batch, acts in zip(epoch.batches(range(len(batches))), batches, strict=False):
                for act in acts:
                    if isinstance(act, dict):
                        batch.measured(**act)
                    elif act == "epoch measured":
                        epoch.measured(score=batch.index)
                    elif act == "adapted":
                        training.adapted(rate=float(batch.index))
                    elif act == "left open":
                        open_batch = epoch.batch(1000 + batch.index)
                        open_batch.measured(loss=1.0)
                    elif act == "validation":
                        with epoch.validation() as twin:
                            for paired in twin.batches(range(2)):
                                paired.measured(loss=0.5)
                if "break" in acts:
                    break
            if open_batch is not None:
                open_batch.done()
    assert not batch_buffer.buffer_path(journal(home=home)).exists()
    return read_events(journal(home=home))


def _measured_location(event: events.AnyEvent) -> object:
    return event.location if isinstance(event, Measured) else object()


def timeless(journal_events: list[events.AnyEvent]) -> Iterator[Any]:
    """Yield events without times; measures of a batch may be one event or two, so each is compared by itself."""
    for location, group in groupby(journal_events, key=_measured_location):
        if isinstance(location, str):
            measures = [pair for event in group for pair in event.values.items()]  # type: ignore[union-attr]
            yield location, sorted(measures, key=itemgetter(0))
        else:
            fields = msgspec.to_builtins(next(group))
            yield {name: value for name, value in fields.items() if name not in ("t", "s", "pid", "born")}


@given(st.lists(st.lists(st.lists(ACT, max_size=3), max_size=5), max_size=3), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_journals_with_and_without_buffer_hold_the_same_events(epochs: list[list[list[Any]]], every: int):
    with tempfile.TemporaryDirectory() as folder:
        recorded = [[*timeless(play(Path(folder, how), epochs, how, every))] for how in ("map", "write")]
    del os.environ["PROVML_JOURNAL"]
    assert repr(recorded[0]) == repr(recorded[1])  # 1 and 1.0 and True are not the same


def test_many_batches_become_one_event(run: Run):
    with run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(200)):
                batch.measured(loss=batch.index / 7)
    together = lines(Batches)
    assert [len(event.index) for event in together] == [1, 153, 46, 153, 47]
    assert [event.total_rows for event in together][-1] == 400
    assert [event.location for event in events_of(BatchEnd)] == [
        f"training/{e}/{b}" for e in (1, 2) for b in range(1, 201)
    ]
    assert [event.values["loss"] for event in events_of(Measured)] == [b / 7 for _ in (1, 2) for b in range(1, 201)]


def test_times_and_durations_are_those_of_each_batch(run: Run):
    before = time.time()
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(4)):
            time.sleep(0.01 * batch.index)
    ended = [event.time for event in events_of(BatchEnd)]
    assert before < ended[0] < ended[1] < ended[2] < ended[3] < time.time()
    assert all(event.seconds >= 0.01 * number for number, event in enumerate(events_of(BatchEnd), 1))


def test_rows_are_flushed_within_about_a_second(run: Run):
    """The first batch is flushed at once, since its measure is new; the next flush is about a second later."""
    moments: list[float] = []
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(10**6)):
            moments.append(time.perf_counter())
            batch.measured(loss=1.0)
            time.sleep(0.05)
            if len(lines(Batches)) > 1:
                break
    flushed, last_before, began = moments[-1], moments[-3], moments[1]
    assert last_before - began < batch_buffer.FLUSH_SECONDS < flushed - began + 0.05, "also on a busy machine"


def test_a_query_in_the_middle_of_an_epoch_finds_the_batches_that_ended(run: Run):
    with Store(".provml") as store, run.training() as training:
        for epoch in training.epochs(2):
            for batch in epoch.batches(range(100)):
                batch.measured(loss=1.0)
                if batch.index in (1, 2, 3, 64, 65, 66, 67, 100):
                    ended = (epoch.index - 1) * 100 + batch.index - 1
                    assert store.query(f"{BATCHES[:-1]}; provml:elapsedSeconds ?s }}")[0] == (ended,)
                    assert store.run("r").events == len(visible_events())
        store.sync()
        live = set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())) == live


def visible_events() -> list[events.AnyEvent]:
    """Return the events that readers see now: all but the measures of the open batch in the buffer."""
    recorded = read_events(journal())
    return recorded if lines(Measured)[-1:] == recorded[-1:] else recorded[:-1]


@pytest.mark.usefixtures("flush_often")
def test_a_long_batch_is_flushed_when_it_ends(run: Run):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            assert sum(len(event.index) for event in lines(Batches)) == batch.index - 1
            time.sleep(0.02)


@pytest.mark.usefixtures("flush_often")
def test_a_batch_during_which_the_clock_was_set_has_the_new_time(run: Run, monkeypatch: pytest.MonkeyPatch):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            if batch.index == 2:
                time.sleep(0.02)
                monkeypatch.setattr(batch_buffer, "time", lambda: time.time() + 3600.0)
    first, second = events_of(BatchEnd)
    assert 3600.0 < second.time - first.time < 3660.0


def test_events_keep_their_order(run: Run):
    with run.training(rate=1.0) as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            training.adapted(rate=float(batch.index))
    order = [
        event.values["rate"] if isinstance(event, events.Adapted) else event.location
        for event in read_events(journal())[3:9]
    ]
    assert order == [1.0, "training/1/1", 2.0, "training/1/2", 3.0, "training/1/3"]


def test_threads_that_share_an_epoch_do_not_share_the_buffer(run: Run):
    with run.training() as training, training.epoch(1) as epoch:

        def work(first: int) -> None:
            for batch in epoch.batches(range(300), first=first):
                batch.measured(loss=float(batch.index))

        threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    losses = {event.location: event.values["loss"] for event in events_of(Measured)}
    assert len(events_of(BatchEnd)) == len(events_of(Measured)) == len(losses) == 1200
    assert all(float(at.rpartition("/")[2]) == loss for at, loss in losses.items())


@pytest.mark.parametrize("measures", [True, False])
def test_a_signal_handler_that_records_during_put_duplicates_nothing(run: Run, measures: bool):
    class Slow:
        """A number on a slow device; a signal arrives while it is read."""

        def tolist(self) -> float:
            batch.measured(other=2.0) if measures else epoch.measured(score=9.0)
            return 3.0

    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            if batch.index == 1:
                batch.measured(loss=0.0, other=0.0, slow=0.0)
                continue
            batch.measured(loss=1.0)
            assert batch._buffer is not None
            assert batch._buffer.put({"slow": Slow()}, Slow)
    values = [
        pair for event in events_of(Measured) if event.location == "training/1/2" for pair in event.values.items()
    ]
    assert sorted(values) == [("loss", 1.0), *[("other", 2.0)] * measures, ("slow", 3.0)]


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


def run_command(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "provml.cli", *command], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_reader_recovers_the_buffer_of_a_killed_writer():
    killed()
    written = sum(len(event.index) for event in lines(Batches))
    assert written < 180, "some were not written"
    assert len(events_of(BatchEnd)) == 189
    assert events_of(Measured)[-1] == Measured("training/2/90", {"loss": 22.5, "count": 90})
    with Store(".provml") as store:
        assert store.run("r").status == "KILLED"
        assert store.query(BATCHES)[0] == (190,)
        assert store.query("SELECT (COUNT(*) AS ?n) { ?m a provml:BatchEvaluation }")[0] == (380,)
        assert store.sync() == 0
        assert store.run("r").events == len(read_events(journal()))
        store.sync()
        live = set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())) == live
        store.backup("copy")
        assert store.validate()
    shown = run_command("log", "r", "--batches")
    assert "training epoch 2 batch 89  " in shown
    assert "loss=22.25" in shown
    assert len(run_command("log", "r", "--format", "json").splitlines()) == len(read_events(journal()))
    assert run_command("export", "r", "--format", "nt").count("#BatchEvaluation>") == 380


def test_an_open_batch_does_not_hide_later_batches():
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
    assert [event.location for event in events_of(BatchEnd)] == [
        "training/1/1",
        "training/1/2",
        *(f"training/2/{n}" for n in (1, 2, 3)),
    ]
    assert [event.values["loss"] for event in events_of(Measured)] == [1.0] * 3 + [2.0] * 4
    with Store(".provml") as store:
        assert store.query(BATCHES)[0] == (7,)


def test_the_backup_of_a_killed_run_includes_its_buffer():
    killed()
    with Store(".provml") as store:
        store.backup("copy")
    assert not batch_buffer.buffer_path(journal(home="copy")).exists()
    assert read_events(journal(home="copy")) == read_events(journal())


def test_a_run_that_ends_leaves_no_buffer():
    for end in ("break", "raise ValueError('no')", "sys.exit(3)"):
        shutil.rmtree(".provml", ignore_errors=True)
        killed(end)
        assert not batch_buffer.buffer_path(journal()).exists()
        assert len(events_of(Measured)) >= 190


def test_nothing_is_recovered_if_all_rows_were_flushed():
    killed("epoch.measured(score=1.0); batch.done(); epoch.measured(score=2.0); os.kill(os.getpid(), signal.SIGKILL)")
    assert batch_buffer.buffer_path(journal()).exists()
    assert (
        batch_buffer.recover_lines(batch_buffer.read_buffer(journal()), lines(Batches)[-1].total_rows, is_over=True)
        == []
    )
    assert len(events_of(BatchEnd)) == 190


def test_measures_for_a_batch_that_never_began_are_dropped():
    program = """
        import os, signal
        import provml
        from provml.recording.batches import record_batches
        class Observer:
            def __init__(self):
                self.run = provml.record("x", run="r", capture_environment=False)
                self.epoch, self.batch = None, None
            def on_first_batch(self, loader):
                self.epoch = self.run.training().epoch(1)
                return self.epoch
        observer = Observer()
        def loader():
            yield 1.0
            yield 2.0
            observer.batch.measured(loss=3.0)
            os.kill(os.getpid(), signal.SIGKILL)
        for loss in record_batches(loader(), observer):
            observer.batch.measured(loss=loss)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert [event.location for event in events_of(BatchEnd)] == ["training/1/1", "training/1/2"]
    assert [(event.location, event.values) for event in events_of(Measured)] == [
        ("training/1/1", {"loss": 1.0}),
        ("training/1/2", {"loss": 2.0}),
    ]


@given(st.binary(max_size=300), st.integers(0, batch_buffer.SIZE * 8))
@settings(max_examples=100, deadline=None)
def test_a_damaged_buffer_breaks_no_reader(damage: bytes, at: int):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "main.jsonl")
        os.environ["PROVML_JOURNAL"] = "map"
        with provml.record("x", run="r", home=Path(folder, "home"), strict=True, capture_environment=False) as run:
            epoch = run.training().epoch(1)
            for batch in epoch.batches(range(5)):
                batch.measured(loss=1.0)
                content = batch_buffer.buffer_path(journal(home=Path(folder, "home"))).read_bytes()
        del os.environ["PROVML_JOURNAL"]
        batch_buffer.buffer_path(path).write_bytes(content[:at] + damage + content[at + len(damage) :])
        path.write_bytes(b"")
        for line in batch_buffer.recover_lines(batch_buffer.read_buffer(path), 0, is_over=True):
            with contextlib.suppress(msgspec.MsgspecError):  # a damaged line, reported and left out
                assert all(events.expand(events.decode(line)))


def test_rows_of_version_2_are_read(tmp_path: Path):
    head = b'{"at":"training/1","names":["loss"]}'
    numbers = [0.0] * batch_buffer.SIZE
    numbers[:3] = 1.0, 0.0, float(len(head))
    for row in range(3):
        at = batch_buffer.HEADER + row * 12
        numbers[at : at + 5] = row + 1.0, 1.7e9 + row if row < 2 else 0.0, 0.25, 1.0, row / 4
    content = bytearray(struct.pack(f"{batch_buffer.SIZE}d", *numbers))
    content[batch_buffer.TEXT * 8 : batch_buffer.TEXT * 8 + len(head)] = head
    recovered = [events.decode(line) for line in batch_buffer.recover_lines(bytes(content), 0, is_over=True)]
    assert recovered == [
        Batches("training/1", [1, 2], [1.7e9, 1.7e9 + 1], [0.25, 0.25], {"loss": [0.0, 0.25]}, 2),
        Measured("training/1/3", {"loss": 0.5}),
    ]


@pytest.mark.parametrize("width", [-5, 0, 1, 4, 10**6, 2.5, None])
def test_an_impossible_row_width_gives_no_rows(width: Any):
    head = msgspec.json.encode({"at": "training/1", "names": ["loss"], "width": width})
    content = bytearray(struct.pack(f"{batch_buffer.SIZE}d", 1.0, 0.0, len(head), *[1.0] * (batch_buffer.SIZE - 3)))
    content[batch_buffer.TEXT * 8 : batch_buffer.TEXT * 8 + len(head)] = head
    assert batch_buffer.recover_lines(bytes(content), 0, is_over=True) == []


@pytest.mark.parametrize("measures", range(1, 9))
def test_the_buffer_is_used_up_to_its_capacity(run: Run, measures: int):
    with run.training() as training:
        for batch in training.epoch(1).batches(range(400)):
            batch.measured(**{f"m{number}": batch.index + number / 8 for number in range(measures)})
    rows = (batch_buffer.SIZE - batch_buffer.HEADER) // (batch_buffer.VALUES + measures)
    assert {len(event.index) for event in lines(Batches)[1:-1]} == {rows}
    values = [event.values for event in events_of(Measured)]
    assert values == [{f"m{number}": index + number / 8 for number in range(measures)} for index in range(1, 401)]


# ---- forks and faults


def test_a_forked_child_does_not_touch_the_buffer_of_its_parent(run: Run):
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
    assert [event.values for event in events_of(Measured)] == [{"loss": float(n)} for n in range(1, 7)]
    (own,) = (path for path in journal().parent.glob("*.jsonl") if path != journal())
    assert [event.values for event in events_of(Measured, own)] == [{"child": 1.0}, *[{"loss": 2.0}] * 3]


def test_an_interrupt_neither_duplicates_nor_loses_batches():
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
    places = [event.location for event in events_of(BatchEnd)]
    assert len(places) == len(set(places)) > 1000, done.stderr
    numbers: dict[str, list[int]] = {}
    for epoch, _, number in (place.rpartition("/") for place in places):
        numbers.setdefault(epoch, []).append(int(number))
    for epoch, content in numbers.items():
        assert content == list(range(1, len(content) + 1)), epoch


def test_a_run_that_has_ended_raises_nothing_in_the_training():
    run = provml.record("x", run="r", capture_environment=False)
    for epoch in run.training().epochs(3):
        for batch in epoch.batches(range(4)):
            batch.measured(loss=1.0)
            if (epoch.index, batch.index) == (1, 2):
                run.finish()
        epoch.batch(5).measured(loss=1.0)
    assert run.capture_errors > 10
    assert len(events_of(Measured)) == 2


def test_a_run_that_another_thread_ends_raises_nothing_in_the_training():
    for number in range(30):
        run = provml.record("x", run=f"r{number}", capture_environment=False)
        failed: list[BaseException] = []

        def train(run: Run = run, failed: list[BaseException] = failed) -> None:
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
        content = [event.location for event in events_of(BatchEnd, journal(f"r{number}"))]
        assert content == [f"training/1/{n}" for n in range(1, len(content) + 1)]


def test_owners_of_the_buffer_can_be_copied(run: Run):
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(2)):
            batch.measured(loss=1.0)
            for part in (training, epoch, batch):
                assert copy.deepcopy(part).run is run
                pickle.loads(pickle.dumps(part))


def test_rows_that_could_not_be_written_do_not_hide_later_rows(monkeypatch: pytest.MonkeyPatch):
    append = MappedJournalFile.append

    def full(self: MappedJournalFile, line: bytes, last: bool = False) -> None:
        if b'"told":154' in line:
            raise OSError(28, "No space left on device")
        append(self, line, last)

    monkeypatch.setattr(MappedJournalFile, "append", full)
    run = provml.record("x", run="r", capture_environment=False)
    for batch in run.training().epoch(1).batches(range(200)):
        batch.measured(loss=1.0)
        if batch.index == 190:
            break
    assert run.capture_errors == 1
    assert [event.location for event in events_of(BatchEnd)] == [f"training/1/{n}" for n in (1, *range(155, 190))]
    run.finish()


def test_an_interrupt_during_a_flush_duplicates_nothing(run: Run, monkeypatch: pytest.MonkeyPatch):
    with run.training() as training, training.epoch(1) as epoch:
        batches = epoch.batches(range(5))
        next(batches).measured(loss=1.0)
        next(batches).measured(loss=2.0)
        emit = epoch._buffer._emit  # type: ignore[union-attr]

        def interrupted(event: events.Event) -> bool:
            emit(event)
            epoch._buffer._emit = emit  # type: ignore[union-attr]
            raise KeyboardInterrupt

        epoch._buffer._emit = interrupted  # type: ignore[union-attr]
        for _ in range(2):
            with contextlib.suppress(KeyboardInterrupt):
                epoch.measured(score=1.0)
        next(batches).measured(loss=3.0)
    assert [event.values["loss"] for event in events_of(Measured) if "loss" in event.values] == [1.0, 2.0, 3.0]


def test_the_buffer_is_read_before_the_lines(run: Run, monkeypatch: pytest.MonkeyPatch):
    training = run.training()
    epochs = training.epochs(3)
    batches = next(epochs).batches(range(6))
    steps = iter(range(100))

    def step() -> None:
        """Go on to the next batch, or to the next epoch."""
        nonlocal batches
        if next(steps) % 5 == 4:
            batches = next(epochs).batches(range(6))
        next(batches).measured(loss=1.0, good=True)

    read = reader.read_lines

    def meanwhile(path: Path, offset: int = 0, number: int = 0, **options: Any) -> Iterator[Any]:
        yield from read(path, offset, number, **options)
        step()

    with Store(".provml") as store:
        with monkeypatch.context() as patched:
            patched.setattr(reader, "read_lines", meanwhile)
            for _ in range(10):
                store.sync()
        store.sync()
        live = set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph()))
        store.rebuild()
        assert set(store.backend.graph().quads_for_pattern(None, None, None, ox.DefaultGraph())) == live


def test_without_space_for_a_buffer_each_batch_is_an_event(run: Run, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batch_buffer.os, "posix_fallocate", full)
    with run.training() as training, training.epoch(1) as epoch:
        for batch in epoch.batches(range(3)):
            batch.measured(loss=1.0)
    assert lines(Batches) == []
    assert len(events_of(BatchEnd)) == len(events_of(Measured)) == 3
    assert events_of(CaptureErrors) == []


def test_a_value_that_is_no_measure_is_a_capture_error():
    with provml.record("x", run="r", capture_environment=False) as run, run.training() as training:
        for batch in training.epoch(1).batches(range(3)):
            batch.measured(loss="much" if batch.index == 2 else 1.0, accuracy=math.nan)
    assert run.capture_errors == 1
    assert [event.values for event in events_of(Measured)] == [
        {"loss": 1.0, "accuracy": ["double", "NaN"]},
        {"accuracy": ["double", "NaN"]},
        {"loss": 1.0, "accuracy": ["double", "NaN"]},
    ]


def test_columns_that_differ_in_length_are_a_damaged_line():
    line = events.encode(Batches("training/1", [1, 2], [1.0, 2.0], [1.0]))
    with pytest.raises(msgspec.ValidationError, match="differ in length"):
        events.decode(line)
