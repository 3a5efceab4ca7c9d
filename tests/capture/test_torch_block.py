"""`with capture.training():` around the loop of PyTorch, and loops without inspection of frames."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from recording.test_loops import Bar, bar

import provml
from capture.contract import Boom, adaptations, ask, models_of
from provml.recording import frames
from provml.recording.frames import _loops

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough
FINISHED = ("FINISHED", None)


def new_capture(home: Path, **settings: Any) -> Capture:
    return Capture("digits", torch.nn.Linear(4, 2), home=home, strict=True, capture_environment=False, **settings)


def trainings(home: Path) -> list[tuple[str, str | None]]:
    """The status of each training, and the type of its exception."""
    with provml.open(home) as store:
        rows = ask(
            store,
            "SELECT ?s ?x { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s"
            " OPTIONAL { ?t provlake:exceptionType ?x } } ORDER BY ?b",
        )
        return [(status, error) for status, error in rows]


def stops(home: Path) -> list[tuple[Any, ...]]:
    """Each early stop: planned epochs, and epochs that were done."""
    with provml.open(home) as store:
        return [(old, new) for _, name, old, new, _ in adaptations(store) if name == "epochs"]


@pytest.fixture
def no_inspection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch inspection off, and make every inspection of a loop an error."""

    def fail(*_: Any) -> None:
        raise AssertionError("a frame was inspected")

    monkeypatch.setenv(frames.SWITCH, "1")
    monkeypatch.setattr(frames, "InspectedLoop", fail)


@pytest.fixture(params=["inspection on", "inspection off"])
def inspection(request: pytest.FixtureRequest) -> bool:
    if request.param == "inspection off":
        request.getfixturevalue("no_inspection")
    return bool(request.param == "inspection on")


# ---- `with capture.training():`


def completes(capture: Capture) -> None:
    with capture.training():
        for _ in capture.epochs(2):
            pass


def breaks(capture: Capture) -> None:
    with capture.training():
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                break


def returns(capture: Capture) -> None:
    with capture.training():
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                return


def breaks_under_a_named_bar(capture: Capture) -> None:
    with capture.training():
        epochs = Bar(capture.epochs(5))
        for epoch in epochs:
            if epoch.index == 2:
                break


def handles_an_error(capture: Capture) -> None:
    with capture.training():
        for epoch in bar(capture.epochs(5)):
            try:
                raise Boom
            except Boom:
                if epoch.index == 2:
                    break


def is_sliced(capture: Capture) -> None:
    with capture.training():
        for _ in itertools.islice(capture.epochs(5), 2):
            pass


@pytest.mark.usefixtures("inspection")
@pytest.mark.parametrize("loop", [breaks, returns, breaks_under_a_named_bar, handles_an_error, is_sliced])
def test_a_loop_left_without_an_error_stops_early_and_its_model_is_saved(
    tmp_path: Path, loop: Callable[[Capture], None]
):
    with new_capture(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
        loop(capture)
        assert (tmp_path / "net.pt").exists()
    assert trainings(tmp_path / "home") == [FINISHED]
    assert stops(tmp_path / "home") == [(5, 2)]


@pytest.mark.usefixtures("inspection")
def test_a_training_that_completes_is_finished(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        completes(capture)
    assert trainings(tmp_path) == [FINISHED]
    assert stops(tmp_path) == []


def raises(capture: Capture) -> None:
    with capture.training():
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                raise Boom


def raises_under_a_named_bar(capture: Capture) -> None:
    with capture.training():
        epochs = Bar(capture.epochs(5))
        for epoch in epochs:
            if epoch.index == 2:
                raise Boom


@pytest.mark.usefixtures("inspection")
@pytest.mark.parametrize("loop", [raises, raises_under_a_named_bar])
def test_an_exception_that_leaves_the_block_fails_the_training(tmp_path: Path, loop: Callable[[Capture], None]):
    with new_capture(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
        with contextlib.suppress(Boom):
            loop(capture)
        assert not (tmp_path / "net.pt").exists()
        completes(capture)
    assert trainings(tmp_path / "home") == [("FAILED", "Boom"), FINISHED]
    assert stops(tmp_path / "home") == []


@pytest.mark.usefixtures("inspection")
@pytest.mark.parametrize("loop", [completes, breaks])
def test_an_exception_after_the_block_does_not_fail_the_training(tmp_path: Path, loop: Callable[[Capture], None]):
    with contextlib.suppress(Boom), new_capture(tmp_path) as capture:
        loop(capture)
        raise Boom
    assert trainings(tmp_path) == [FINISHED]


@pytest.mark.usefixtures("inspection")
def test_each_block_is_a_training_that_continues_from_the_one_before(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        breaks(capture)
        completes(capture)
    assert trainings(tmp_path) == [FINISHED] * 2
    with provml.open(tmp_path) as store:
        produced, before = models_of(store)
        assert before == [None, produced[0]]


@pytest.mark.usefixtures("inspection")
def test_a_training_that_is_repeated_while_an_exception_is_handled_does_not_fail(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        try:
            raises(capture)
        except Boom:
            with capture.training():
                for _ in capture.epochs(5):
                    break
                with capture.evaluation() as test:
                    test.measured(accuracy=0.5)
    assert trainings(tmp_path) == [("FAILED", "Boom"), FINISHED]
    assert stops(tmp_path) == [(5, 1)]


def test_an_exception_that_is_caught_inside_the_block_fails_the_training_if_it_is_seen(
    tmp_path: Path, inspection: bool
):
    with new_capture(tmp_path) as capture, capture.training(), contextlib.suppress(Boom):
        for _ in capture.epochs(5):
            raise Boom
    assert trainings(tmp_path) == [("FAILED", "Boom") if inspection else FINISHED]
    assert stops(tmp_path) == ([] if inspection else [(5, 1)])


def test_an_exception_is_found_if_garbage_was_collected_after_it_was_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    raised_exception = _loops.raised_exception

    def collect_first(frame: FrameType) -> BaseException | None:
        gc.collect()
        return raised_exception(frame)

    monkeypatch.setattr(_loops, "raised_exception", collect_first)
    with new_capture(tmp_path) as capture, capture.training(), contextlib.suppress(Boom):
        for _ in capture.epochs(5):
            raise Boom
    assert trainings(tmp_path) == [("FAILED", "Boom")]


# ---- without a block and without inspection


@pytest.mark.usefixtures("no_inspection")
def test_without_inspection_a_loop_that_was_left_stopped_early(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                break
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
    assert trainings(tmp_path) == [FINISHED]
    assert stops(tmp_path) == [(5, 2)]


@pytest.mark.usefixtures("no_inspection")
def test_without_inspection_an_exception_that_ends_the_capture_fails_the_training(tmp_path: Path):
    with contextlib.suppress(Boom), new_capture(tmp_path) as capture:
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                raise Boom
    assert trainings(tmp_path) == [("FAILED", "Boom")]


@pytest.mark.usefixtures("no_inspection")
def test_without_inspection_an_exception_that_is_being_handled_fails_the_training(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        try:
            for _ in capture.epochs(5):
                raise Boom
        except Boom:
            with capture.evaluation() as test:
                test.measured(accuracy=0.5)
    assert trainings(tmp_path) == [("FAILED", "Boom")]


@pytest.mark.usefixtures("no_inspection")
def test_without_inspection_an_exception_that_was_caught_counts_as_an_early_stop(tmp_path: Path):
    with new_capture(tmp_path) as capture, contextlib.suppress(Boom):
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                raise Boom
    assert trainings(tmp_path) == [FINISHED]
    assert stops(tmp_path) == [(5, 2)]


@pytest.mark.usefixtures("no_inspection")
def test_without_inspection_an_evaluation_inside_the_loop_does_not_end_the_training(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        for _ in capture.epochs(3):
            with capture.evaluation() as test:
                test.measured(accuracy=0.5)
    assert trainings(tmp_path) == [FINISHED]
    assert stops(tmp_path) == []
