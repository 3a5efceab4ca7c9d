"""PyTorch's loops beside others: ended by a partner, held by a name, gone on with in another epoch."""

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
from journals import told_in

import provml
from capture.contract import Boom, adaptations, ask, by_epoch, judged, models_of
from capture.test_frames import Bar, bar
from provml import slate
from provml.event import Adapted, Batch, Done, Measured
from provml.validation import validate

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough
EPOCH = "provml:TrainingEpochExecution"


class Trained:
    """A small network with a capture of its training."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.network = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
        said = {"home": home, "strict": True, "capture_environment": False, **settings}
        self.capture = Capture("digits", self.network, self.optimizer, **said)

    def step(self, loss: float) -> None:
        self.optimizer.zero_grad()
        self.network(torch.ones(4)).sum().backward()
        self.optimizer.step()
        self.capture.measured(loss=loss)

    def epoch(self) -> None:
        for loss in self.capture.batches([1.0, 3.0]):
            self.step(loss)


def training(store: Any) -> list[tuple[str, str | None]]:
    """How each training ended, and by which exception."""
    rows = ask(
        store,
        "SELECT ?s ?x { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s"
        " OPTIONAL { ?t provlake:exceptionType ?x } } ORDER BY ?b",
    )
    return [(status, error) for status, error in rows]


def batches(home: Path) -> list[str]:
    """The batches that ended and the epochs that did, in that order."""
    (journal,) = home.glob("runs/*/main.jsonl")
    return [what.at for what in told_in(journal) if isinstance(what, Batch | Done) and "/" in what.at]


def measures(home: Path, name: str) -> dict[str, float]:
    """What was told as a measure, by the batch or the epoch."""
    (journal,) = home.glob("runs/*/main.jsonl")
    told = [what for what in told_in(journal) if isinstance(what, Measured) and name in what.values]
    assert len(told) == len({what.at for what in told}), "each is told once"
    return {what.at: what.values[name] for what in told}


def conforms(home: Path) -> None:
    with provml.open(home) as store:
        file = io.BytesIO()
        store.export("latest", file, "nt")
        report = validate(file.getvalue())
        assert report, str(report)


# ---- epochs beside something else


def zipped(one: Trained) -> None:
    for _rate, _ in zip([0.1, 0.1], one.capture.epochs(2), strict=False):
        one.epoch()


def before_the_other(one: Trained) -> None:
    for _, _rate in zip(one.capture.epochs(2), [0.1, 0.1], strict=False):
        one.epoch()


def broken_off_at_the_last(one: Trained) -> None:
    for epoch in one.capture.epochs(2):
        one.epoch()
        if epoch.index == 2:
            break


@pytest.mark.parametrize("loop", [zipped, before_the_other, broken_off_at_the_last])
def test_a_loop_that_did_all_planned_epochs_finished_and_nothing_was_adapted(
    tmp_path: Path, loop: Callable[[Trained], None]
):
    one = Trained(tmp_path)
    with one.capture:
        loop(one)
    with provml.open(tmp_path) as store:
        assert training(store) == [("FINISHED", None)]
        assert adaptations(store) == []
        assert by_epoch(store, EPOCH) == {"loss": [2.0, 2.0]}
        assert len(models_of(store)[0]) == 1


def test_of_two_captures_that_go_on_together_both_finish(tmp_path: Path):
    one, two = Trained(tmp_path / "one"), Trained(tmp_path / "two")
    with one.capture, two.capture:
        for _ in zip(one.capture.epochs(2), two.capture.epochs(2), strict=False):
            one.epoch()
            two.epoch()
    for home in (tmp_path / "one", tmp_path / "two"):
        with provml.open(home) as store:
            assert (training(store), adaptations(store)) == ([("FINISHED", None)], [])


def sliced(one: Trained) -> None:
    for _ in itertools.islice(one.capture.epochs(5), 2):
        one.epoch()


def zipped_short(one: Trained) -> None:
    for _rate, _ in zip([0.1, 0.1], one.capture.epochs(5), strict=False):
        one.epoch()


def zipped_short_and_first(one: Trained) -> None:
    for _, _rate in zip(one.capture.epochs(5), [0.1, 0.1], strict=False):
        one.epoch()


def under_a_bar(one: Trained) -> None:
    for _ in bar(itertools.islice(one.capture.epochs(5), 2)):
        one.epoch()


def around_a_bar(one: Trained) -> None:
    for _ in itertools.islice(bar(one.capture.epochs(5)), 2):
        one.epoch()


def passed_on(one: Trained) -> None:
    def steps() -> Iterator[Any]:
        yield from itertools.islice(one.capture.epochs(5), 2)

    for _ in steps():
        one.epoch()


def in_a_list(one: Trained) -> None:
    assert [one.epoch() for _ in itertools.islice(one.capture.epochs(5), 2)]


SHORT = [sliced, zipped_short, zipped_short_and_first, under_a_bar, around_a_bar, passed_on, in_a_list]


@pytest.mark.parametrize("loop", SHORT)
def test_a_loop_that_something_beside_it_ended_stopped_early(tmp_path: Path, loop: Callable[[Trained], None]):
    one = Trained(tmp_path)
    with one.capture:
        loop(one)
        with one.capture.evaluation() as test:
            test.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert training(store) == [("FINISHED", None)]
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert by_epoch(store, EPOCH) == {"loss": [2.0, 2.0]}
        assert judged(store) == models_of(store)[0]


def failing() -> Iterator[float]:
    yield 0.1
    raise Boom


class Failing:
    """Items without a generator, the second of which cannot be had."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Failing:
        return self

    def __next__(self) -> int:
        self.count += 1
        if self.count == 2:
            raise Boom
        return self.count


def beside(one: Trained) -> None:
    for _rate, _ in zip(failing(), one.capture.epochs(5), strict=False):
        one.epoch()


def behind(one: Trained) -> None:
    for _, _rate in zip(one.capture.epochs(5), Failing(), strict=False):
        one.epoch()


def beside_under_a_bar(one: Trained) -> None:
    for _rate, _ in bar(zip(Failing(), one.capture.epochs(5), strict=False)):
        one.epoch()


def in_the_loader(one: Trained) -> None:
    for _ in itertools.islice(one.capture.epochs(5), 2):
        for _ in failing():
            one.epoch()


def in_the_batches(one: Trained) -> None:
    for _ in itertools.islice(one.capture.epochs(5), 2):
        for loss in one.capture.batches(Failing()):
            one.step(loss)


RAISED = [*itertools.product([beside, behind, in_the_loader, in_the_batches], [True, False])]


@pytest.mark.parametrize(("loop", "caught"), [*RAISED, (beside_under_a_bar, False)])
def test_a_loop_failed_where_what_is_beside_it_raised(tmp_path: Path, loop: Callable[[Trained], None], caught: bool):
    def train() -> None:
        one = Trained(tmp_path)
        with one.capture, contextlib.suppress(*[Boom] * caught):
            loop(one)

    with contextlib.suppress(Boom):
        train()
    with provml.open(tmp_path) as store:
        assert training(store) == [("FAILED", "RuntimeError" if caught else "Boom")]
        assert adaptations(store) == []


# ---- batches that something holds


def test_a_batch_that_a_bar_still_holds_ends_once_and_with_its_epoch(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(3):
            steps = Bar(capture.batches([1.0, 2.0, 9.0]))
            for number, loss in enumerate(steps):
                one.step(loss)
                if number == 1:
                    break
            capture.measured(accuracy=0.5)
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2, 3) for b in ("/1", "/2", "")]
    conforms(tmp_path)
    with provml.open(tmp_path) as store:
        assert by_epoch(store, EPOCH) == {"accuracy": [0.5] * 3, "loss": [1.5] * 3}


def test_a_batch_that_a_bar_still_holds_ends_when_another_loop_begins(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(1):
            steps = Bar(capture.batches([1.0, 2.0]))
            for loss in steps:
                one.step(loss)
                break
            for number, _ in enumerate(capture.batches([3.0, 4.0])):
                if number:
                    one.step(4.0)
            del steps
    assert batches(tmp_path) == ["training/1/1", "training/1/1", "training/1/2", "training/1"]
    assert measures(tmp_path, "loss") == {"training/1/1": 1.0, "training/1/2": 4.0, "training/1": 2.5}


def test_batches_of_one_iterator_belong_to_the_epoch_that_is_open(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        endless = iter(capture.batches(itertools.count()))
        next(endless)  # a look before the training
        for _ in capture.epochs(3):
            for _ in range(4):
                one.step(float(next(endless)))
        next(endless)  # and one after it
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2, 3) for b in ("/1", "/2", "/3", "/4", "")]
    assert measures(tmp_path, "loss") == {
        **{f"training/{e}/{b}": 4.0 * (e - 1) + b for e in (1, 2, 3) for b in (1, 2, 3, 4)},
        **{f"training/{e}": 4.0 * (e - 1) + 2.5 for e in (1, 2, 3)},
    }
    conforms(tmp_path)


def test_a_held_batch_of_a_training_that_failed_is_not_told_after_it(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        endless = iter(capture.batches(itertools.count()))
        with contextlib.suppress(Boom):
            for _ in capture.epochs(2):
                one.step(float(next(endless)))
                raise Boom
        for _ in capture.epochs(1):
            one.step(float(next(endless)))
    assert batches(tmp_path) == ["training/1", "training-2/1/1", "training-2/1"]
    conforms(tmp_path)


@pytest.mark.parametrize("ends", [True, False])
def test_batches_of_an_earlier_epoch_that_end_late_leave_those_that_go_on_alone(tmp_path: Path, ends: bool):
    one = Trained(tmp_path)
    kept = []
    with one.capture as capture:
        for epoch in capture.epochs(2):
            if epoch.index == 1:
                kept.append(capture.batches([9.0]))
                one.step(next(kept[0]))
                continue
            for number, loss in enumerate(capture.batches([1.0, 2.0, 3.0])):
                if number == 1 and ends:
                    assert next(kept[0], None) is None
                kept = kept if number == 0 else []
                one.step(loss)
    assert measures(tmp_path, "loss") == {
        "training/1/1": 9.0, "training/1": 9.0,
        "training/2/1": 1.0, "training/2/2": 2.0, "training/2/3": 3.0, "training/2": 2.0,
    }  # fmt: skip
    conforms(tmp_path)


# ---- batches beside others, and loaders that do more than load


def test_what_is_measured_is_of_the_loop_whose_turn_it_is(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(1):
            some, others = capture.batches([1.0, 2.0, 3.0]), capture.batches([11.0, 12.0, 13.0, 14.0])
            for steps in (some, others, some, others, others, others):
                one.step(next(steps))
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    told = [(what.at, what.values["loss"]) for what in told_in(journal) if isinstance(what, Measured)]
    assert told[-1] == ("training/1", pytest.approx(53 / 6))
    assert [loss for place, loss in told if place == "training/1/3"] == [13.0]
    assert [loss for place, loss in told if place == "training/1/4"] == [14.0]


def test_a_loop_that_goes_on_after_another_was_left_has_its_measures(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(1):
            steps = capture.batches([1.0, 2.0, 3.0, 4.0])
            for number, _ in enumerate(capture.batches([9.0, 9.0])):
                if number == 1:
                    break
                next(steps)
            for loss in steps:
                one.step(loss)
    assert measures(tmp_path, "loss") == {
        **{f"training/1/{b}": float(b) for b in (2, 3, 4)},
        "training/1": 3.0,
    }


@pytest.mark.parametrize("again", [True, False])
def test_a_loader_that_raised_leaves_no_batch_behind(tmp_path: Path, again: bool):
    def damaged() -> Iterator[float]:
        yield from (1.0, 3.0)
        raise Boom

    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(2):
            with contextlib.suppress(Boom):
                for loss in capture.batches(damaged()):
                    one.step(loss)
            capture.measured(accuracy=0.5)
            for _ in capture.batches([5.0]) if again else ():
                pass
    more = ["/1"] if again else []
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2) for b in ("/1", "/2", *more, "")]
    assert measures(tmp_path, "accuracy") == {"training/1": 0.5, "training/2": 0.5}
    conforms(tmp_path)


def test_a_loader_may_have_batches_of_its_own(tmp_path: Path):
    one = Trained(tmp_path)

    def chosen() -> Iterator[float]:
        for number in (1.0, 2.0, 3.0):
            for _ in one.capture.batches([number]):
                pass
            yield number

    with one.capture as capture:
        for _ in capture.epochs(1):
            for loss in capture.batches(chosen()):
                one.step(loss)
    told = ["/1", "/1", "/1", "/2", "/1", "/3", ""]
    assert batches(tmp_path) == [f"training/1{place}" for place in told]
    assert measures(tmp_path, "loss") == {f"training/1{b}": float(b[1:] or 2) for b in ("/1", "/2", "/3", "")}


@pytest.mark.parametrize("tells", [True, False])
def test_what_a_loader_measures_is_of_a_batch_that_there_is(tmp_path: Path, tells: bool):
    one = Trained(tmp_path)

    def measuring() -> Iterator[float]:
        for number in (1.0, 2.0, 3.0):
            yield number
            one.capture.measured(loss=10 * number)
            if tells:
                one.capture.parameters(seen=number)

    with one.capture as capture:
        for _ in capture.epochs(2):
            for _ in capture.batches(measuring()):
                pass
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    told = [what for what in told_in(journal) if isinstance(what, Measured)]
    places = [f"training/{e}/{b}" for e in (1, 2) for b in (1, 2, 3)]
    assert {what.at for what in told} <= {"training/1", "training/2", *places}
    assert sorted(what.values["loss"] for what in told) == [10.0, 10.0, 20.0, 20.0, 20.0, 20.0, 30.0, 30.0]
    assert batches(tmp_path) == [f"training/{e}{b}" for e in (1, 2) for b in ("/1", "/2", "/3", "")]
    conforms(tmp_path)


def test_a_forked_child_tells_of_the_batch_in_which_it_was_forked(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches(range(1, 6)):
                one.step(float(number))
                if number == 4:
                    child = os.fork()
                    if not child:
                        capture.measured(child=1.0)
                        capture.batch.done()  # type: ignore[union-attr]
                        os._exit(0)
                    os.waitpid(child, 0)
    own, main = sorted(tmp_path.glob("runs/*/*.jsonl"), key=lambda path: path.stem == "main")
    assert [what.values for what in told_in(own) if isinstance(what, Measured)] == [{"child": 1.0}]
    (ended,) = (what for what in told_in(own) if isinstance(what, Batch))
    assert ended.at == "training/1/4"
    assert 0 < ended.s < next(what for what in told_in(main) if isinstance(what, Done) and "/" in what.at).s
    assert [what.at for what in told_in(main) if isinstance(what, Batch)] == [f"training/1/{n}" for n in range(1, 6)]


def test_a_copy_of_a_capture_tells_of_the_batch_in_which_it_was_made(tmp_path: Path):
    one = Trained(tmp_path)
    with one.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches([1, 2, 3]):
                one.step(float(number))
                if number == 2:
                    copy.deepcopy(capture).measured(copied=5.0)
    assert measures(tmp_path, "copied") == {"training/1/2": 5.0}


ROWS = (slate.END - slate.HEAD) // (slate.VALUES + 1)
"""So many batches with one measure have room on a slate."""


def test_an_interrupt_when_the_slate_is_full_ends_the_run_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told, one = slate._batches, Trained(tmp_path)

    def interrupted(*given: Any) -> Any:
        if given[-1] == 1 + ROWS:
            monkeypatch.setattr(slate, "_batches", told)
            raise KeyboardInterrupt
        return told(*given)

    monkeypatch.setattr(slate, "_batches", interrupted)
    with contextlib.suppress(KeyboardInterrupt), one.capture as capture:
        for _ in capture.epochs(1):
            for number in capture.batches(range(2 * ROWS)):
                one.step(float(number))
    assert batches(tmp_path) == [*(f"training/1/{b}" for b in range(1, ROWS + 2)), "training/1"]
    with provml.open(tmp_path) as store:
        assert training(store) == [("FAILED", "KeyboardInterrupt")]


def test_what_a_signals_handler_measures_as_the_slate_is_full_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told, one = slate._batches, Trained(tmp_path)

    def meanwhile(*given: Any) -> Any:
        if given[-1] == 1 + ROWS:
            one.capture.measured(loss=7.0)
        return told(*given)

    monkeypatch.setattr(slate, "_batches", meanwhile)
    with one.capture as capture:
        for _ in capture.epochs(1):
            for _ in capture.batches(range(ROWS + 36)):
                one.step(1.0)
    assert one.capture.run.faults == 0
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    values = [what.values["loss"] for what in told_in(journal) if isinstance(what, Measured)]
    assert sorted(values) == [*[1.0] * (ROWS + 36), (ROWS + 43) / (ROWS + 37), 7.0]


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_an_epoch_whose_step_fails_is_told_with_the_rate_of_that_step(tmp_path: Path, fails_at: int):
    one, steps = Trained(tmp_path), 0

    def forward() -> Any:
        assert steps < fails_at, "no"
        return None

    with contextlib.suppress(AssertionError), one.capture as capture:
        for _ in capture.epochs(2):
            for _ in range(2):
                steps += 1
                if steps == fails_at:
                    one.optimizer.param_groups[0]["lr"] = 0.05
                one.optimizer.step(forward)
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    told = told_in(journal)
    last = (fails_at + 1) // 2
    ended = [(what.at, what.status) for what in told if isinstance(what, Done) and "/" in what.at]
    assert ended == [*[("training/1", "FINISHED")] * (last - 1), (f"training/{last}", "FAILED")]
    (adapted,) = (what for what in told if isinstance(what, Adapted))
    assert (adapted.at, adapted.values) == (f"training/{last}", {"learning_rate": 0.05})


def test_a_step_whose_error_is_told_as_another_was_made_with_its_rate(tmp_path: Path):
    one = Trained(tmp_path)

    def forward() -> Any:
        raise Boom

    with contextlib.suppress(ValueError), one.capture as capture:
        for _ in capture.epochs(2):
            one.optimizer.param_groups[0]["lr"] = 0.05
            try:
                one.optimizer.step(forward)
            except Boom as error:
                raise ValueError("no") from error
    assert rates(tmp_path) == [("training/1", {"learning_rate": 0.05})]
    assert batches(tmp_path) == ["training/1"]


def test_errors_that_tell_of_each_other_end_a_training_as_others_do(tmp_path: Path):
    one, first, second = Trained(tmp_path), ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    with contextlib.suppress(ValueError), one.capture as capture:
        for _ in capture.epochs(2):
            one.epoch()
            raise first
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    assert [what.status for what in told_in(journal) if isinstance(what, Done) and what.at == "training"] == ["FAILED"]


def test_a_rate_that_no_step_was_made_with_is_not_told_where_another_verb_of_the_optimizer_fails(tmp_path: Path):
    one = Trained(tmp_path)
    with contextlib.suppress(ValueError), one.capture as capture:
        for _ in capture.epochs(2):
            one.epoch()
            one.optimizer.param_groups[0]["lr"] = 0.05
            one.optimizer.load_state_dict({"state": {}, "param_groups": []})
    assert rates(tmp_path) == []


def rates(home: Path) -> list[tuple[str, Any]]:
    """What was adapted where."""
    (journal,) = home.glob("runs/*/main.jsonl")
    return [(what.at, what.values) for what in told_in(journal) if isinstance(what, Adapted)]


# ---- measures


@pytest.mark.parametrize("how", [{}, {"every": 3}, {"detail": "epoch"}], ids=str)
def test_a_tensor_of_one_element_is_its_number(tmp_path: Path, how: dict[str, Any]):
    one = Trained(tmp_path, **how)
    with one.capture as capture:
        for epoch in capture.epochs(1):
            for number in capture.batches(range(1, 6)):
                capture.measured(a=1.0, t=torch.tensor([float(number)]), u=torch.tensor([[number]]), b=2.0)
            capture.measured(v=torch.tensor([0.5], requires_grad=True))
            epoch.measured(w=torch.tensor([0.25]))
    with provml.open(tmp_path) as store:
        told = {"a": [1.0], "b": [2.0], "t": [3.0], "u": [3.0], "v": [0.5], "w": [0.25]}
        assert by_epoch(store, EPOCH) == told


@pytest.mark.parametrize("strict", [True, False])
def test_a_measure_that_cannot_be_taken_loses_none_of_the_others(tmp_path: Path, strict: bool):
    one = Trained(tmp_path, strict=strict)
    raised = pytest.raises(TypeError) if strict else contextlib.nullcontext()
    with one.capture as capture:
        for epoch in capture.epochs(1):
            for number in capture.batches([1.0, 3.0]):
                with raised:
                    capture.measured(a=number, wrong=torch.ones(2), b=2.0)
            with raised:
                epoch.measured(c=4.0, wrong="text", d=5.0)
        assert capture.run.faults == 3
    assert measures(tmp_path, "a") == {"training/1/1": 1.0, "training/1/2": 3.0, "training/1": 2.0}
    assert measures(tmp_path, "b") == {"training/1/1": 2.0, "training/1/2": 2.0, "training/1": 2.0}
    assert measures(tmp_path, "d") == {"training/1": 5.0}
