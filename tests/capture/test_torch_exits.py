"""PyTorch loops left by `break`, by an exception that is caught, or inside a progress bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recording.test_loops import Bar, bar

import provml
from capture.contract import Boom, adaptations, ask, evaluated_models, models_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough


def new_capture(home: Path, **settings: Any) -> Capture:
    return Capture("digits", torch.nn.Linear(4, 2), home=home, strict=True, capture_environment=False, **settings)


def statuses(store: Any) -> list[str]:
    rows = ask(
        store, "SELECT ?s { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s } ORDER BY ?b"
    )
    return [status for (status,) in rows]


# ---- loops left without an error


def breaks(capture: Capture) -> None:
    for epoch in capture.epochs(5):
        if epoch.index == 2:
            break


def returns(capture: Capture) -> None:
    for epoch in capture.epochs(5):
        with contextlib.nullcontext():
            if epoch.index == 2:
                return


def under_a_bar(capture: Capture) -> None:
    for epoch in bar(capture.epochs(5)):
        if epoch.index == 2:
            break


def handles_an_error(capture: Capture) -> None:
    for epoch in enumerate(capture.epochs(5), 1):
        try:
            if epoch[0] == 2:
                raise Boom
        except Boom:
            break


def breaks_with_a_named_bar(capture: Capture) -> None:
    steps = Bar(capture.epochs(5))
    for epoch in steps:
        if epoch.index == 2:
            break


EXITS = [breaks, returns, under_a_bar, handles_an_error, breaks_with_a_named_bar]


@pytest.mark.parametrize("loop", EXITS)
def test_a_loop_that_was_left_stopped_early_and_its_model_is_saved(tmp_path: Path, loop: Callable[[Capture], None]):
    with new_capture(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
        loop(capture)
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
    assert (tmp_path / "net.pt").exists()
    with provml.open(tmp_path / "home") as store:
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert statuses(store) == ["FINISHED"]
        assert evaluated_models(store) == models_of(store)[0]


@pytest.mark.parametrize("loop", EXITS)
def test_an_error_after_the_loop_does_not_fail_the_training(tmp_path: Path, loop: Callable[[Capture], None]):
    def train() -> None:
        with new_capture(tmp_path) as capture:
            loop(capture)
            raise Boom

    with pytest.raises(Boom):
        train()
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert statuses(store) == ["FINISHED"]


def test_an_evaluation_in_the_loop_is_of_the_current_model(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        steps = Bar(capture.epochs(3))
        for _ in steps:
            try:
                raise Boom
            except Boom:
                with capture.evaluation() as test:
                    test.measured(accuracy=0.5)
            str(steps)
    with provml.open(tmp_path) as store:
        assert adaptations(store) == []
        assert statuses(store) == ["FINISHED"]
        assert len(set(evaluated_models(store))) == 3


def test_a_loop_held_by_a_named_bar_ends_with_the_next_call(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        steps = Bar(capture.epochs(5))
        for epoch in steps:
            if epoch.index == 2:
                break
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
        again = Bar(capture.epochs(5))
        for _ in again:
            break
        for _ in capture.epochs(1):
            pass
        del steps, again
    with provml.open(tmp_path) as store:
        assert [row[3] for row in adaptations(store)] == [2, 1]
        assert statuses(store) == ["FINISHED"] * 3
        produced, before = models_of(store)
        assert before == [None, *produced[:2]]
        assert evaluated_models(store) == produced[:1]


# ---- loops left by an exception


def caught(capture: Capture) -> None:
    with contextlib.suppress(Boom):
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                raise Boom


def caught_under_a_bar(capture: Capture) -> None:
    try:
        for epoch in bar(capture.epochs(5)):
            if epoch.index == 2:
                raise Boom
    except Boom:
        pass


def caught_outside(capture: Capture) -> None:
    def train() -> None:
        for epoch in capture.epochs(5):
            if epoch.index == 2:
                raise Boom

    with contextlib.suppress(Boom):
        train()


@pytest.mark.parametrize("loop", [caught, caught_under_a_bar, caught_outside])
@pytest.mark.parametrize("after", ["nothing", "evaluation", "epochs"])
def test_a_loop_that_raised_fails_the_training_although_the_exception_is_caught(
    tmp_path: Path, loop: Callable[[Capture], None], after: str
):
    with new_capture(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
        loop(capture)
        if after == "evaluation":
            with capture.evaluation() as test:
                test.measured(accuracy=0.5)
        if after == "epochs":
            for _ in capture.epochs(1):
                pass
    with provml.open(tmp_path / "home") as store:
        assert statuses(store) == ["FAILED", "FINISHED"][: 2 if after == "epochs" else 1]
        assert adaptations(store) == []
        assert store.run("latest").status == ("FAILED" if after == "nothing" else "FINISHED")
        if after == "evaluation":
            assert evaluated_models(store) == models_of(store)[0], "the model as it was when the training failed"


def test_a_call_in_the_except_clause_records_the_exception(tmp_path: Path):
    with new_capture(tmp_path) as capture:
        try:
            for epoch in capture.epochs(5):
                if epoch.index == 2:
                    raise Boom
        except Boom:
            with capture.evaluation() as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert ask(store, "SELECT ?x { ?t a provml:TrainingExecution ; provlake:exceptionType ?x }") == [("Boom",)]
