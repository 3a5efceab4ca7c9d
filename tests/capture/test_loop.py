"""PyTorch's loops, left in every way: by `break`, by an exception that somebody catches, from inside a progress bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import Boom, adaptations, ask, judged, models_of
from capture.test_frames import Bar, bar

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough


def captured(home: Path, **settings: Any) -> Capture:
    return Capture("digits", torch.nn.Linear(4, 2), home=home, strict=True, capture_environment=False, **settings)


def statuses(store: Any) -> list[str]:
    rows = ask(
        store, "SELECT ?s { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s } ORDER BY ?b"
    )
    return [status for (status,) in rows]


# ---- left


def plain(capture: Capture) -> None:
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


def handled(capture: Capture) -> None:
    for epoch in enumerate(capture.epochs(5), 1):
        try:
            if epoch[0] == 2:
                raise Boom
        except Boom:
            break


def named(capture: Capture) -> None:
    steps = Bar(capture.epochs(5))
    for epoch in steps:
        if epoch.index == 2:
            break


LEFT = [plain, returns, under_a_bar, handled, named]


@pytest.mark.parametrize("loop", LEFT)
def test_a_loop_that_was_left_stopped_and_its_model_is_saved(tmp_path: Path, loop: Callable[[Capture], None]):
    with captured(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
        loop(capture)
        with capture.evaluation() as test:
            test.measured(accuracy=0.5)
    assert (tmp_path / "net.pt").exists()
    with provml.open(tmp_path / "home") as store:
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert statuses(store) == ["FINISHED"]
        assert judged(store) == models_of(store)[0]


@pytest.mark.parametrize("loop", LEFT)
def test_a_loop_that_was_left_before_something_else_failed_stopped_all_the_same(
    tmp_path: Path, loop: Callable[[Capture], None]
):
    def train() -> None:
        with captured(tmp_path) as capture:
            loop(capture)
            raise Boom

    with pytest.raises(Boom):
        train()
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(2, "epochs", 5, 2, "by hand")]
        assert statuses(store) == ["FINISHED"]


def test_an_evaluation_in_the_loop_is_of_the_model_as_it_is_then(tmp_path: Path):
    with captured(tmp_path) as capture:
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
        assert len(set(judged(store))) == 3


def test_a_named_bar_that_was_left_ended_its_training_when_the_next_thing_is_said(tmp_path: Path):
    with captured(tmp_path) as capture:
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
        made, before = models_of(store)
        assert before == [None, *made[:2]]
        assert judged(store) == made[:1]


# ---- raised


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
def test_a_loop_that_raised_failed_although_somebody_caught_it(
    tmp_path: Path, loop: Callable[[Capture], None], after: str
):
    with captured(tmp_path / "home", save_model=tmp_path / "net.pt") as capture:
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
        assert store.run("latest").status == "FINISHED"
        if after == "evaluation":
            assert judged(store) == models_of(store)[0], "it judged what the training had come to"


def test_what_is_said_where_it_is_caught_knows_the_exception(tmp_path: Path):
    with captured(tmp_path) as capture:
        try:
            for epoch in capture.epochs(5):
                if epoch.index == 2:
                    raise Boom
        except Boom:
            with capture.evaluation() as test:
                test.measured(accuracy=0.5)
    with provml.open(tmp_path) as store:
        assert ask(store, "SELECT ?x { ?t a provml:TrainingExecution ; provlake:exceptionType ?x }") == [("Boom",)]
