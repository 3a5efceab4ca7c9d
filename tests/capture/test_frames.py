"""A user's loop by its frames, on the Python that runs this and without a framework: whether it goes on, and how it was
left. Python changes its instructions with each version, and those of a loop that it has seen a few times."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from capture.contract import Boom
from provml.capture.loop import Loop

OFTEN = range(20)


class Turns:
    """What a capture does with a loop over its epochs."""

    def __init__(self) -> None:
        self.loop: Loop | None = None

    def __call__(self, count: int = 5) -> Iterator[int]:
        for number in range(1, count + 1):
            self.loop = loop = Loop(sys._getframe(1))
            try:
                yield number
            except GeneratorExit:
                loop.leave(sys._getframe().f_back)
                raise
        self.loop = None

    @property
    def go_on(self) -> bool:
        return self.loop is not None and self.loop.goes_on()


def bar(steps: Any) -> Iterator[Any]:
    """What a progress bar does."""
    try:
        for step in steps:  # noqa: UP028  # as tqdm has it
            yield step
    finally:
        str(steps)


class Bar:
    """One that has a name, and so is still there when its loop was left."""

    def __init__(self, steps: Any) -> None:
        self.steps = iter(steps)

    def __iter__(self) -> Iterator[Any]:
        for step in self.steps:  # noqa: UP028  # as tqdm has it
            yield step


def passing_on(steps: Any) -> Iterator[Any]:
    yield from steps


# ---- left


def plain(turns: Turns) -> None:
    for number in turns():
        if number == 3:
            break


def returns(turns: Turns) -> Any:
    for number in turns():
        with contextlib.nullcontext():
            if number == 3:
                return number
    return None


def under_a_bar(turns: Turns) -> None:
    for number in bar(turns()):
        if number == 3:
            break


def passed_on(turns: Turns) -> None:
    for number in passing_on(bar(turns())):
        if number == 3:
            break


def counted(turns: Turns) -> None:
    for count, _ in enumerate(zip(turns(), itertools.count(), strict=False), 1):
        if count == 3:
            break


def handled(turns: Turns) -> None:
    for number in turns():
        try:
            if number == 3:
                raise Boom
        except Boom:
            break


def named(turns: Turns) -> None:
    steps = Bar(turns())
    for number in steps:
        if number == 3:
            break


def let_go(turns: Turns) -> None:
    steps = turns()
    for number in steps:
        if number == 3:
            break
    del steps


LEFT = [plain, returns, under_a_bar, passed_on, counted, handled, named, let_go]


@pytest.mark.parametrize("loop", LEFT)
def test_a_loop_that_was_left_neither_failed_nor_ran_out(loop: Callable[[Turns], None]):
    for _ in OFTEN:
        turns = Turns()
        loop(turns)
        assert turns.loop is not None
        assert not turns.go_on
        assert turns.loop.failed(None) is None
        assert turns.loop.failed(Boom()) is None
        assert not turns.loop.ran_out


# ---- ended by something else


def sliced(turns: Turns) -> None:
    for _ in itertools.islice(turns(), 3):
        pass


def beside(turns: Turns) -> None:
    for _ in zip(range(3), turns(), strict=False):
        pass


def before(turns: Turns) -> None:
    for _ in zip(turns(), range(2), strict=False):
        pass


def before_under_a_bar(turns: Turns) -> None:
    for _ in bar(zip(turns(), range(2), strict=False)):
        pass


def before_around_a_bar(turns: Turns) -> None:
    for _ in zip(bar(turns()), range(2), strict=False):
        pass


def before_and_passed_on(turns: Turns) -> None:
    for _ in passing_on(zip(turns(), range(2), strict=False)):
        pass


def in_a_list(turns: Turns) -> None:
    assert [number for number in itertools.islice(turns(), 3)] == [1, 2, 3]  # noqa: C416  # a loop of its own


def before_something_else(turns: Turns) -> None:
    for _ in zip(turns(), range(2), strict=False):
        pass
    else:
        str(turns)


SHORT = [
    sliced, beside, before, before_under_a_bar, before_around_a_bar, before_and_passed_on, in_a_list,
    before_something_else,
]  # fmt: skip


@pytest.mark.parametrize("loop", SHORT)
def test_a_loop_that_something_beside_it_ended_ran_out(loop: Callable[[Turns], None]):
    for _ in OFTEN:
        turns = Turns()
        loop(turns)
        assert turns.loop is not None
        assert not turns.go_on
        assert turns.loop.failed(None) is None
        assert turns.loop.ran_out


# ---- raised


def fails(number: int) -> None:
    if number == 3:
        raise Boom


def raises(turns: Turns) -> None:
    for number in turns():
        if number == 3:
            raise Boom


def raises_in_a_call(turns: Turns) -> None:
    for number in turns():
        with contextlib.nullcontext():
            fails(number)


def raises_under_a_bar(turns: Turns) -> None:
    for number in bar(turns()):
        fails(number)


def raises_when_passed_on(turns: Turns) -> None:
    for number in passing_on(turns()):
        fails(number)


def raises_beside(turns: Turns) -> None:
    for _ in zip(map(fails, itertools.count()), turns(), strict=False):
        pass


def raises_behind(turns: Turns) -> None:
    for _ in zip(turns(), map(fails, itertools.count()), strict=False):
        pass


def raises_beside_under_a_bar(turns: Turns) -> None:
    for _ in bar(zip(map(fails, itertools.count()), turns(), strict=False)):
        pass


RAISES = [
    raises, raises_in_a_call, raises_under_a_bar, raises_when_passed_on, raises_beside, raises_behind,
    raises_beside_under_a_bar,
]  # fmt: skip


@pytest.mark.parametrize("loop", RAISES)
def test_a_loop_that_raised_failed(loop: Callable[[Turns], None]):
    for _ in OFTEN:
        turns, caught = Turns(), None
        try:
            loop(turns)
        except Boom as error:
            caught = error
            assert not turns.go_on
        assert turns.loop is not None
        assert turns.loop.failed(caught) is caught
        if loop is not raises_beside_under_a_bar:  # where it is not known any more that the bar was left by it
            assert isinstance(turns.loop.failed(None), RuntimeError)
            assert not turns.loop.ran_out


# ---- going on


def everywhere(turns: Turns, asked: list[bool]) -> None:
    for number in turns():
        asked.append(turns.go_on)
        try:
            with contextlib.nullcontext():
                asked += [turns.go_on for _ in range(2)]
            raise Boom
        except Boom:
            for _ in range(2):
                asked.append(turns.go_on)
            if number == 2:
                continue
        finally:
            asked.append(turns.go_on)
        if number == 3:
            asked.append(turns.go_on)
            break


def always_raising(turns: Turns, asked: list[bool]) -> None:
    steps = Bar(turns())
    for _ in steps:
        try:
            raise Boom
        except Boom:
            asked.append(turns.go_on)
        asked.append(turns.go_on)


def called(turns: Turns, asked: list[bool]) -> None:
    def ask() -> None:
        asked.append(turns.go_on)

    for _ in zip(bar(turns()), range(3), strict=False):
        ask()
        asked.extend(turns.go_on for _ in range(2))


def last_words(turns: Turns, asked: list[bool]) -> None:
    for number in Bar(turns()):
        try:
            fails(number)
        except Boom:
            asked.append(turns.go_on)
            return


@pytest.mark.parametrize("loop", [everywhere, always_raising, called, last_words])
def test_a_loop_goes_on_wherever_one_asks_inside_it(loop: Callable[[Turns, list[bool]], None]):
    for _ in OFTEN:
        asked: list[bool] = []
        loop(Turns(), asked)
        assert asked
        assert all(asked)


def test_a_loop_goes_on_inside_it_however_long_it_is():
    lines = [f"    kept = {number}.5" for number in range(600)]
    code = ["for number in turns():", *lines, "    asked.append(turns.go_on)", "    if number == 3:", "        break"]
    said: dict[str, Any] = {"turns": Turns(), "asked": []}
    exec("\n".join(code), said)
    assert said["asked"] == [True] * 3


def after_a_break(turns: Turns, asked: list[bool]) -> None:
    steps = Bar(turns())
    for number in steps:
        if number == 3:
            break
    asked.append(turns.go_on)
    for _ in range(2):
        asked.append(turns.go_on)
    del steps


def after_an_error(turns: Turns, asked: list[bool]) -> None:
    steps = Bar(turns())
    try:
        for number in steps:
            fails(number)
    except Boom:
        asked.append(turns.go_on)
    finally:
        asked.append(turns.go_on)
    del steps


def after_a_partner(turns: Turns, asked: list[bool]) -> None:
    steps = Bar(turns())
    for _ in zip(range(3), steps, strict=False):
        pass
    else:
        asked.append(turns.go_on)
    del steps


def after_a_return(turns: Turns, asked: list[bool]) -> Any:
    steps = Bar(turns())
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: asked.append(turns.go_on))
        for number in steps:
            if number == 3:
                return steps
    return None


@pytest.mark.parametrize("loop", [after_a_break, after_an_error, after_a_partner, after_a_return])
def test_a_loop_that_was_left_does_not_go_on_though_something_holds_it(loop: Callable[[Turns, list[bool]], None]):
    for _ in OFTEN:
        asked: list[bool] = []
        loop(Turns(), asked)
        assert asked
        assert not any(asked)
