"""PyTorch loops combined with other iterables, iterators by variables, or continued in another epoch."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_events import read_events
from recording.test_loops import Bar, bar

import provml
from capture.contract import Boom, adaptations, ask, evaluated_models, measures_by_epoch, models_of
from provml.journal import batch_buffer
from provml.journal.events import Adapted, BatchEnd, Done, Measured
from provml.validation import validate

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough
EPOCH = "provml:TrainingEpochExecution"


class Trained:
    """A small network with its optimizer and capture."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.network = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
        settings = {"home": home, "strict": True, "capture_environment": False, **settings}
        self.capture = Capture("digits", self.network, self.optimizer, **settings)

    def step(self, loss: float) -> None:
        self.optimizer.zero_grad()
        self.network(torch.ones(4)).sum().backward()
        self.optimizer.step()
        self.capture.measured(loss=loss)

    def epoch(self) -> None:
        for loss in self.capture.batches([1.0, 3.0]):
            self.step(loss)


def training(store: Any) -> list[tuple[str, str | None]]:
    """Return the status of each training, and the type of its exception."""
    rows = ask(
        store,
        "SELECT ?s ?x { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s"
        " OPTIONAL { ?t provlake:exceptionType ?x } } ORDER BY ?b",
    )
    return [(status, error) for status, error in rows]


def batches(home: Path) -> list[str]:
    """Return the locations of batches and epochs in the order of their ends."""
    (journal,) = home.glob("runs/*/main.jsonl")
    return [
        event.location for event in read_events(journal) if isinstance(event, BatchEnd | Done) and "/" in event.location
    ]


def measures(home: Path, name: str) -> dict[str, float]:
    """Return a measure by the location of its batch or epoch."""
    (journal,) = home.glob("runs/*/main.jsonl")
    events = [event for event in read_events(journal) if isinstance(event, Measured) and name in event.values]
    assert len(events) == len({event.location for event in events}), "each is recorded once"
    return {event.location: event.values[name] for event in events}


def conforms(home: Path) -> None:
    with provml.open(home) as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)


# ---- epochs together with other iterables


def zipped_after(trained: Trained) -> None:
    for _rate, _ in zip([0.1, 0.1], trained.capture.epochs(2), strict=False):
        trained.epoch()


def zipped_before(trained: Trained) -> None:
    for _, _rate in zip(trained.capture.epochs(2), [0.1, 0.1], strict=False):
        trained.epoch()


def left_in_the_last_epoch(trained: Trained) -> None:
    for epoch in trained.capture.epochs(2):
        trained.epoch()
        if epoch.index == 2:
            break


@pytest.mark.parametrize("loop", [zipped_after, zipped_before, left_in_the_last_epoch])
def test_a_loop_with_all_planned_epochs_is_finished_without_an_adaptation(
    tmp_path: Path, loop: Callable[[Trained], None]
):
    trained = Trained(tmp_path)
    with trained.capture:
        loop(trained)
    with provml.open(tmp_path) as store:
        assert training(store) == [("FINISHED", None)]
        assert adaptations(store) == []
        assert measures_by_epoch(store, EPOCH) == {"loss": [2.0, 2.0]}
        assert len(models_of(store)[0]) == 1


def test_two_captures_in_one_loop_both_finish(tmp_path: Path):
    first, second = Trained(tmp_path / "first"), Trained(tmp_path / "second")
    with first.capture, second.capture:
        for _ in zip(first.capture.epochs(2), second.capture.epochs(2), strict=False):
            first.epoch()
            second.epoch()
    for home in (tmp_path / "first", tmp_path / "second"):
        with provml.open(home) as store:
            assert (training(store), adaptations(store)) == ([("FINISHED", None)], [])


def sliced(trained: Trained) -> None:
    for _ in itertools.islice(trained.capture.epochs(5), 2):
        trained.epoch()


def zipped_after_shorter(trained: Trained) -> None:
    for _rate, _ in zip([0.1, 0.1], trained.capture.epochs(5), strict=False):
        trained.epoch()


def zipped_before_shorter(trained: Trained) -> None:
    for _, _rate in zip(trained.capture.epochs(5), [0.1, 0.1], strict=False):
        trained.epoch()


def under_a_bar(trained: Trained) -> None:
    for _ in bar(itertools.islice(trained.capture.epochs(5), 2)):
        trained.epoch()


def around_a_bar(trained: Trained) -> None:
    for _ in itertools.islice(bar(trained.capture.epochs(5)), 2):
        trained.epoch()


def delegated(trained: Trained) -> None:
    def steps() -> Iterator[Any]:
        yield from itertools.islice(trained.capture.epochs(5), 2)

    for _ in steps():
        trained.epoch()


def in_a_list(trained: Trained) -> None:
    assert [trained.epoch() for _ in itertools.islice(trained.capture.epochs(5), 2)]


SHORT = [sliced, zipped_after_shorter, zipped_before_shorter, under_a_bar, around_a_bar, delegated, in_a_list]


@pytest.mark.parametrize("loop", SHORT)
def test_a_loop_ended_by_another_iterable_stopped_early(tmp_path: Path, loop: Callable[[Trained], None]):
    trained = Trained(tmp_path)
    with trained.capture:
        loop(trained)
        with trained.capture.evaluation() as test:
            test.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert training(store) == [("FINISHED", None)]
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert measures_by_epoch(store, EPOCH) == {"loss": [2.0, 2.0]}
        assert evaluated_models(store) == models_of(store)[0]


def failing() -> Iterator[float]:
    yield 0.1
    raise Boom


class Failing:
    """An iterator that raises at its second item."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Failing:
        return self

    def __next__(self) -> int:
        self.count += 1
        if self.count == 2:
            raise Boom
        return self.count


def zipped_with_failing(trained: Trained) -> None:
    for _rate, _ in zip(failing(), trained.capture.epochs(5), strict=False):
        trained.epoch()


def zipped_before_failing(trained: Trained) -> None:
    for _, _rate in zip(trained.capture.epochs(5), Failing(), strict=False):
        trained.epoch()


def zipped_with_failing_under_a_bar(trained: Trained) -> None:
    for _rate, _ in bar(zip(Failing(), trained.capture.epochs(5), strict=False)):
        trained.epoch()


def raising_between_batches(trained: Trained) -> None:
    for _ in itertools.islice(trained.capture.epochs(5), 2):
        for _ in failing():
            trained.epoch()


def raising_in_a_loader(trained: Trained) -> None:
    for _ in itertools.islice(trained.capture.epochs(5), 2):
        for loss in trained.capture.batches(Failing()):
            trained.step(loss)


RAISED = [
    *itertools.product(
        [zipped_with_failing, zipped_before_failing, raising_between_batches, raising_in_a_loader], [True, False]
    )
]


@pytest.mark.parametrize(("loop", "caught"), [*RAISED, (zipped_with_failing_under_a_bar, False)])
def test_a_training_fails_if_another_iterable_of_its_loop_raises(
    tmp_path: Path, loop: Callable[[Trained], None], caught: bool
):
    def train() -> None:
        trained = Trained(tmp_path)
        with trained.capture, contextlib.suppress(*[Boom] * caught):
            loop(trained)

    with contextlib.suppress(Boom):
        train()
    with provml.open(tmp_path) as store:
        assert training(store) == [("FAILED", "Boom")]
        assert adaptations(store) == []


# ---- batches iterators by a variable


def test_a_batch_held_by_a_bar_ends_once_with_its_epoch(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(3):
            steps = Bar(capture.batches([1.0, 2.0, 9.0]))
            for number, loss in enumerate(steps):
                trained.step(loss)
                if number == 1:
                    break
            capture.measured(accuracy=0.5)
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2, 3) for b in ("/1", "/2", "")]
    conforms(tmp_path)
    with provml.open(tmp_path) as store:
        assert measures_by_epoch(store, EPOCH) == {"accuracy": [0.5] * 3, "loss": [1.5] * 3}


def test_a_batch_held_by_a_bar_ends_when_another_loop_begins(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            steps = Bar(capture.batches([1.0, 2.0]))
            for loss in steps:
                trained.step(loss)
                break
            for number, _ in enumerate(capture.batches([3.0, 4.0])):
                if number:
                    trained.step(4.0)
            del steps
    assert batches(tmp_path) == ["training/1/1", "training/1/1", "training/1/2", "training/1"]
    assert measures(tmp_path, "loss") == {"training/1/1": 1.0, "training/1/2": 4.0, "training/1": 2.5}


def test_batches_of_one_iterator_belong_to_the_open_epoch(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        endless = iter(capture.batches(itertools.count()))
        next(endless)  # a look before the training
        for _ in capture.epochs(3):
            for _ in range(4):
                trained.step(float(next(endless)))
        next(endless)  # and trained after it
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2, 3) for b in ("/1", "/2", "/3", "/4", "")]
    assert measures(tmp_path, "loss") == {
        **{f"training/{e}/{b}": 4.0 * (e - 1) + b for e in (1, 2, 3) for b in (1, 2, 3, 4)},
        **{f"training/{e}": 4.0 * (e - 1) + 2.5 for e in (1, 2, 3)},
    }
    conforms(tmp_path)


def test_a_batch_of_a_failed_training_is_not_recorded_after_it(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        endless = iter(capture.batches(itertools.count()))
        with contextlib.suppress(Boom):
            for _ in capture.epochs(2):
                trained.step(float(next(endless)))
                raise Boom
        for _ in capture.epochs(1):
            trained.step(float(next(endless)))
    assert batches(tmp_path) == ["training/1", "training-2/1/1", "training-2/1"]
    conforms(tmp_path)


@pytest.mark.parametrize("ends", [True, False])
def test_batches_of_an_earlier_epoch_that_end_late_do_not_affect_open_ones(tmp_path: Path, ends: bool):
    trained = Trained(tmp_path)
    iterators = []
    with trained.capture as capture:
        for epoch in capture.epochs(2):
            if epoch.index == 1:
                iterators.append(capture.batches([9.0]))
                trained.step(next(iterators[0]))
                continue
            for number, loss in enumerate(capture.batches([1.0, 2.0, 3.0])):
                if number == 1 and ends:
                    assert next(iterators[0], None) is None
                iterators = iterators if number == 0 else []
                trained.step(loss)
    assert measures(tmp_path, "loss") == {
        "training/1/1": 9.0, "training/1": 9.0,
        "training/2/1": 1.0, "training/2/2": 2.0, "training/2/3": 3.0, "training/2": 2.0,
    }  # fmt: skip
    conforms(tmp_path)


# ---- several loops over batches, and loaders that call the capture


def test_a_measure_belongs_to_the_loop_that_took_the_last_batch(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            some, others = capture.batches([1.0, 2.0, 3.0]), capture.batches([11.0, 12.0, 13.0, 14.0])
            for steps in (some, others, some, others, others, others):
                trained.step(next(steps))
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    losses = [(event.location, event.values["loss"]) for event in read_events(journal) if isinstance(event, Measured)]
    assert losses[-1] == ("training/1", pytest.approx(53 / 6))
    assert [loss for location, loss in losses if location == "training/1/3"] == [13.0]
    assert [loss for location, loss in losses if location == "training/1/4"] == [14.0]


def test_a_loop_that_continues_after_another_was_left_keeps_its_measures(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            steps = capture.batches([1.0, 2.0, 3.0, 4.0])
            for number, _ in enumerate(capture.batches([9.0, 9.0])):
                if number == 1:
                    break
                next(steps)
            for loss in steps:
                trained.step(loss)
    assert measures(tmp_path, "loss") == {
        **{f"training/1/{b}": float(b) for b in (2, 3, 4)},
        "training/1": 3.0,
    }


@pytest.mark.parametrize("again", [True, False])
def test_a_loader_that_raised_leaves_no_open_batch(tmp_path: Path, again: bool):
    def damaged() -> Iterator[float]:
        yield from (1.0, 3.0)
        raise Boom

    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(2):
            with contextlib.suppress(Boom):
                for loss in capture.batches(damaged()):
                    trained.step(loss)
            capture.measured(accuracy=0.5)
            for _ in capture.batches([5.0]) if again else ():
                pass
    more = ["/1"] if again else []
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2) for b in ("/1", "/2", *more, "")]
    assert measures(tmp_path, "accuracy") == {"training/1": 0.5, "training/2": 0.5}
    conforms(tmp_path)


def test_a_loader_may_record_its_own_batches(tmp_path: Path):
    trained = Trained(tmp_path)

    def chosen() -> Iterator[float]:
        for number in (1.0, 2.0, 3.0):
            for _ in trained.capture.batches([number]):
                pass
            yield number

    with trained.capture as capture:
        for _ in capture.epochs(1):
            for loss in capture.batches(chosen()):
                trained.step(loss)
    suffixes = ["/1", "/1", "/1", "/2", "/1", "/3", ""]
    assert batches(tmp_path) == [f"training/1{suffix}" for suffix in suffixes]
    assert measures(tmp_path, "loss") == {f"training/1{b}": float(b[1:] or 2) for b in ("/1", "/2", "/3", "")}


@pytest.mark.parametrize("emits", [True, False])
def test_a_measure_by_a_loader_belongs_to_an_existing_batch(tmp_path: Path, emits: bool):
    trained = Trained(tmp_path)

    def measuring() -> Iterator[float]:
        for number in (1.0, 2.0, 3.0):
            yield number
            trained.capture.measured(loss=10 * number)
            if emits:
                trained.capture.parameters(item=number)

    with trained.capture as capture:
        for _ in capture.epochs(2):
            for _ in capture.batches(measuring()):
                pass
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    events = [event for event in read_events(journal) if isinstance(event, Measured)]
    locations = [f"training/{e}/{b}" for e in (1, 2) for b in (1, 2, 3)]
    assert {event.location for event in events} <= {"training/1", "training/2", *locations}
    assert sorted(event.values["loss"] for event in events) == [10.0, 10.0, 20.0, 20.0, 20.0, 20.0, 30.0, 30.0]
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2) for b in ("/1", "/2", "/3", "")]
    conforms(tmp_path)


def test_a_forked_child_records_the_batch_in_which_it_was_forked(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches(range(1, 6)):
                trained.step(float(number))
                if number == 4:
                    child = os.fork()
                    if not child:
                        capture.measured(child=1.0)
                        capture.batch.done()  # type: ignore[union-attr]
                        os._exit(0)
                    os.waitpid(child, 0)
    own, main = sorted(tmp_path.glob("runs/*/*.jsonl"), key=lambda path: path.stem == "main")
    assert [event.values for event in read_events(own) if isinstance(event, Measured)] == [{"child": 1.0}]
    (ended,) = (event for event in read_events(own) if isinstance(event, BatchEnd))
    assert ended.location == "training/1/4"
    assert (
        0
        < ended.seconds
        < next(event for event in read_events(main) if isinstance(event, Done) and "/" in event.location).seconds
    )
    assert [event.location for event in read_events(main) if isinstance(event, BatchEnd)] == [
        f"training/1/{n}" for n in range(1, 6)
    ]


def test_a_copy_of_a_capture_records_the_batch_in_which_it_was_copied(tmp_path: Path):
    trained = Trained(tmp_path)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches([1, 2, 3]):
                trained.step(float(number))
                if number == 2:
                    copy.deepcopy(capture).measured(copied=5.0)
    assert measures(tmp_path, "copied") == {"training/1/2": 5.0}


ROWS = (batch_buffer.SIZE - batch_buffer.HEADER) // (batch_buffer.VALUES + 1)
"""Number of batches with trained measure that fit into the buffer."""


def test_an_interrupt_while_the_buffer_is_flushed_fails_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    original, trained = batch_buffer._batches_event, Trained(tmp_path)

    def interrupted(*args: Any) -> Any:
        if args[-1] == 1 + ROWS:
            monkeypatch.setattr(batch_buffer, "_batches_event", original)
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(batch_buffer, "_batches_event", interrupted)
    with contextlib.suppress(KeyboardInterrupt), trained.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches(range(2 * ROWS)):
                trained.step(float(number))
    assert batches(tmp_path) == [*(f"training/1/{b}" for b in range(1, ROWS + 2)), "training/1"]
    with provml.open(tmp_path) as store:
        assert training(store) == [("INTERRUPTED", "KeyboardInterrupt")]


def test_a_measure_by_a_signal_handler_while_the_buffer_is_flushed_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    original, trained = batch_buffer._batches_event, Trained(tmp_path)

    def meanwhile(*args: Any) -> Any:
        if args[-1] == 1 + ROWS:
            trained.capture.measured(loss=7.0)
        return original(*args)

    monkeypatch.setattr(batch_buffer, "_batches_event", meanwhile)
    with trained.capture as capture:
        for _ in capture.epochs(1):
            for _ in capture.batches(range(ROWS + 36)):
                trained.step(1.0)
    assert trained.capture.run.capture_errors == 0
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    values = [event.values["loss"] for event in read_events(journal) if isinstance(event, Measured)]
    assert sorted(values) == [*[1.0] * (ROWS + 36), (ROWS + 43) / (ROWS + 37), 7.0]


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_an_epoch_whose_step_fails_is_recorded_with_the_rate_of_that_step(tmp_path: Path, fails_at: int):
    trained, steps = Trained(tmp_path), 0

    def forward() -> Any:
        assert steps < fails_at, "no"
        return None

    with contextlib.suppress(AssertionError), trained.capture as capture:
        for _ in capture.epochs(2):
            for _ in range(2):
                steps += 1
                if steps == fails_at:
                    trained.optimizer.param_groups[0]["lr"] = 0.05
                trained.optimizer.step(forward)
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    events = read_events(journal)
    last = (fails_at + 1) // 2
    ended = [(event.location, event.status) for event in events if isinstance(event, Done) and "/" in event.location]
    assert ended == [*[("training/1", "FINISHED")] * (last - 1), (f"training/{last}", "FAILED")]
    (adapted,) = (event for event in events if isinstance(event, Adapted))
    assert (adapted.location, adapted.values) == (f"training/{last}", {"learning_rate": 0.05})


def test_the_rate_of_a_failed_step_is_recorded_if_its_error_was_replaced(tmp_path: Path):
    trained = Trained(tmp_path)

    def forward() -> Any:
        raise Boom

    with contextlib.suppress(ValueError), trained.capture as capture:
        for _ in capture.epochs(2):
            trained.optimizer.param_groups[0]["lr"] = 0.05
            try:
                trained.optimizer.step(forward)
            except Boom as error:
                raise ValueError("no") from error
    assert rates(tmp_path) == [("training/1", {"learning_rate": 0.05})]
    assert batches(tmp_path) == ["training/1"]


def test_errors_that_are_the_context_of_each_other_fail_the_training(tmp_path: Path):
    trained, first, second = Trained(tmp_path), ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    with contextlib.suppress(ValueError), trained.capture as capture:
        for _ in capture.epochs(2):
            trained.epoch()
            raise first
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    assert [
        event.status for event in read_events(journal) if isinstance(event, Done) and event.location == "training"
    ] == ["FAILED"]


def test_a_rate_without_a_step_is_not_recorded_if_another_method_of_the_optimizer_fails(tmp_path: Path):
    trained = Trained(tmp_path)
    with contextlib.suppress(ValueError), trained.capture as capture:
        for _ in capture.epochs(2):
            trained.epoch()
            trained.optimizer.param_groups[0]["lr"] = 0.05
            trained.optimizer.load_state_dict({"state": {}, "param_groups": []})
    assert rates(tmp_path) == []


def rates(home: Path) -> list[tuple[str, Any]]:
    """Return the location and the values of each adaptation."""
    (journal,) = home.glob("runs/*/main.jsonl")
    return [(event.location, event.values) for event in read_events(journal) if isinstance(event, Adapted)]


# ---- values of measures


@pytest.mark.parametrize("settings", [{}, {"every": 3}, {"detail": "epoch"}], ids=str)
def test_a_tensor_with_one_element_is_recorded_as_its_number(tmp_path: Path, settings: dict[str, Any]):
    trained = Trained(tmp_path, **settings)
    with trained.capture as capture:
        for epoch in capture.epochs(1):
            for number in capture.batches(range(1, 6)):
                capture.measured(a=1.0, t=torch.tensor([float(number)]), u=torch.tensor([[number]]), b=2.0)
            capture.measured(v=torch.tensor([0.5], requires_grad=True))
            epoch.measured(w=torch.tensor([0.25]))
    with provml.open(tmp_path) as store:
        expected = {"a": [1.0], "b": [2.0], "t": [3.0], "u": [3.0], "v": [0.5], "w": [0.25]}
        assert measures_by_epoch(store, EPOCH) == expected


@pytest.mark.parametrize("strict", [True, False])
def test_an_invalid_measure_does_not_lose_the_others(tmp_path: Path, strict: bool):
    trained = Trained(tmp_path, strict=strict)
    raised = pytest.raises(TypeError) if strict else contextlib.nullcontext()
    with trained.capture as capture:
        for epoch in capture.epochs(1):
            for number in capture.batches([1.0, 3.0]):
                with raised:
                    capture.measured(a=number, wrong=torch.ones(2), b=2.0)
            with raised:
                epoch.measured(c=4.0, wrong="text", d=5.0)
        assert capture.run.capture_errors == 3
    assert measures(tmp_path, "a") == {"training/1/1": 1.0, "training/1/2": 3.0, "training/1": 2.0}
    assert measures(tmp_path, "b") == {"training/1/1": 2.0, "training/1/2": 2.0, "training/1": 2.0}
    assert measures(tmp_path, "d") == {"training/1": 5.0}
