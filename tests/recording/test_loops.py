"""Inspection of loops: whether a loop is running, and how it was left.

Each loop runs often, because Python replaces the instructions of a loop after some iterations.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from capture.contract import Boom

from provml.recording import frames
from provml.recording.frames import Loop, LoopIterable

REPETITIONS = range(20)


class ObservedNumbers:
    """Numbers that observe the loop over them, as a capture does with epochs."""

    def __init__(self) -> None:
        self.loop: Loop | None = None

    def __call__(self, count: int = 5) -> Iterator[int]:
        return LoopIterable(self._count(count), self._on_item)

    def _count(self, count: int) -> Generator[int, None, None]:
        yield from range(1, count + 1)
        self.loop = None

    def _on_item(self, item: int, loop: Loop) -> None:
        self.loop = loop

    @property
    def is_running(self) -> bool:
        return self.loop is not None and self.loop.is_running()


def bar(items: Any) -> Iterator[Any]:
    """Yield the items of an iterable, as a progress bar does."""
    try:
        for item in items:  # noqa: UP028  # as tqdm has it
            yield item
    finally:
        str(items)


class Bar:
    """A progress bar for a variable, so that it still exists after its loop."""

    def __init__(self, items: Any) -> None:
        self.items = iter(items)

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:  # noqa: UP028  # as tqdm has it
            yield item


def delegating(items: Any) -> Iterator[Any]:
    yield from items


# ---- loops that were left


def breaks(numbers: ObservedNumbers) -> None:
    for number in numbers():
        if number == 3:
            break


def renumbers(numbers: ObservedNumbers) -> Any:
    for number in numbers():
        with contextlib.nullcontext():
            if number == 3:
                return number
    return None


def under_a_bar(numbers: ObservedNumbers) -> None:
    for number in bar(numbers()):
        if number == 3:
            break


def delegated(numbers: ObservedNumbers) -> None:
    for number in delegating(bar(numbers())):
        if number == 3:
            break


def counted(numbers: ObservedNumbers) -> None:
    for count, _ in enumerate(zip(numbers(), itertools.count(), strict=False), 1):
        if count == 3:
            break


def handles_an_error(numbers: ObservedNumbers) -> None:
    for number in numbers():
        try:
            if number == 3:
                raise Boom
        except Boom:
            break


def breaks_with_a_named_bar(numbers: ObservedNumbers) -> None:
    items = Bar(numbers())
    for number in items:
        if number == 3:
            break


def releases(numbers: ObservedNumbers) -> None:
    items = numbers()
    for number in items:
        if number == 3:
            break
    del items


BREAKS = [breaks, renumbers, under_a_bar, delegated, counted, handles_an_error, breaks_with_a_named_bar, releases]


@pytest.mark.parametrize("loop", BREAKS)
def test_a_loop_left_by_break_neither_failed_nor_was_exhausted(loop: Callable[[ObservedNumbers], None]):
    for _ in REPETITIONS:
        numbers = ObservedNumbers()
        loop(numbers)
        assert numbers.loop is not None
        assert not numbers.is_running
        assert numbers.loop.exit_error(None) is None
        assert numbers.loop.exit_error(Boom()) is None
        assert not numbers.loop.exhausted


# ---- loops that another iterable ended


def sliced(numbers: ObservedNumbers) -> None:
    for _ in itertools.islice(numbers(), 3):
        pass


def zipped_after(numbers: ObservedNumbers) -> None:
    for _ in zip(range(3), numbers(), strict=False):
        pass


def zipped_before(numbers: ObservedNumbers) -> None:
    for _ in zip(numbers(), range(2), strict=False):
        pass


def zipped_before_under_a_bar(numbers: ObservedNumbers) -> None:
    for _ in bar(zip(numbers(), range(2), strict=False)):
        pass


def zipped_before_around_a_bar(numbers: ObservedNumbers) -> None:
    for _ in zip(bar(numbers()), range(2), strict=False):
        pass


def zipped_before_and_delegated(numbers: ObservedNumbers) -> None:
    for _ in delegating(zip(numbers(), range(2), strict=False)):
        pass


def in_a_list(numbers: ObservedNumbers) -> None:
    assert [number for number in itertools.islice(numbers(), 3)] == [1, 2, 3]  # noqa: C416  # a loop of its own


def zipped_before_with_else(numbers: ObservedNumbers) -> None:
    for _ in zip(numbers(), range(2), strict=False):
        pass
    else:
        str(numbers)


EXHAUSTED = [
    sliced, zipped_after, zipped_before, zipped_before_under_a_bar, zipped_before_around_a_bar,
    zipped_before_and_delegated, in_a_list, zipped_before_with_else,
]  # fmt: skip


@pytest.mark.parametrize("loop", EXHAUSTED)
def test_a_loop_that_another_iterable_ended_was_exhausted(loop: Callable[[ObservedNumbers], None]):
    for _ in REPETITIONS:
        numbers = ObservedNumbers()
        loop(numbers)
        assert numbers.loop is not None
        assert not numbers.is_running
        assert numbers.loop.exit_error(None) is None
        assert numbers.loop.exhausted


# ---- loops that raised


def fails(number: int) -> None:
    if number == 3:
        raise Boom


def raises(numbers: ObservedNumbers) -> None:
    for number in numbers():
        if number == 3:
            raise Boom


def raises_in_a_call(numbers: ObservedNumbers) -> None:
    for number in numbers():
        with contextlib.nullcontext():
            fails(number)


def raises_under_a_bar(numbers: ObservedNumbers) -> None:
    for number in bar(numbers()):
        fails(number)


def raises_when_delegated(numbers: ObservedNumbers) -> None:
    for number in delegating(numbers()):
        fails(number)


def raises_in_zip_before(numbers: ObservedNumbers) -> None:
    for _ in zip(map(fails, itertools.count()), numbers(), strict=False):
        pass


def raises_in_zip_after(numbers: ObservedNumbers) -> None:
    for _ in zip(numbers(), map(fails, itertools.count()), strict=False):
        pass


def raises_in_zip_under_a_bar(numbers: ObservedNumbers) -> None:
    for _ in bar(zip(map(fails, itertools.count()), numbers(), strict=False)):
        pass


RAISES = [
    raises, raises_in_a_call, raises_under_a_bar, raises_when_delegated, raises_in_zip_before, raises_in_zip_after,
    raises_in_zip_under_a_bar,
]  # fmt: skip


@pytest.mark.parametrize("loop", RAISES)
def test_a_loop_that_raised_has_an_exit_error(loop: Callable[[ObservedNumbers], None]):
    for _ in REPETITIONS:
        numbers, caught = ObservedNumbers(), None
        try:
            loop(numbers)
        except Boom as error:
            caught = error
            assert not numbers.is_running
        assert numbers.loop is not None
        assert numbers.loop.exit_error(caught) is caught
        if loop is not raises_in_zip_under_a_bar:  # the bar does not know any more that an exception left it
            assert getattr(numbers.loop.exit_error(None), "type_name", "") == "Boom"
            assert not numbers.loop.exhausted


# ---- running loops


def everywhere(numbers: ObservedNumbers, answers: list[bool]) -> None:
    for number in numbers():
        answers.append(numbers.is_running)
        try:
            with contextlib.nullcontext():
                answers += [numbers.is_running for _ in range(2)]
            raise Boom
        except Boom:
            for _ in range(2):
                answers.append(numbers.is_running)
            if number == 2:
                continue
        finally:
            answers.append(numbers.is_running)
        if number == 3:
            answers.append(numbers.is_running)
            break


def always_raising(numbers: ObservedNumbers, answers: list[bool]) -> None:
    items = Bar(numbers())
    for _ in items:
        try:
            raise Boom
        except Boom:
            answers.append(numbers.is_running)
        answers.append(numbers.is_running)


def inside_a_call(numbers: ObservedNumbers, answers: list[bool]) -> None:
    def check() -> None:
        answers.append(numbers.is_running)

    for _ in zip(bar(numbers()), range(3), strict=False):
        check()
        answers.extend(numbers.is_running for _ in range(2))


def before_a_return(numbers: ObservedNumbers, answers: list[bool]) -> None:
    for number in Bar(numbers()):
        try:
            fails(number)
        except Boom:
            answers.append(numbers.is_running)
            return


@pytest.mark.parametrize("loop", [everywhere, always_raising, inside_a_call, before_a_return])
def test_a_loop_is_running_everywhere_inside_it(loop: Callable[[ObservedNumbers, list[bool]], None]):
    for _ in REPETITIONS:
        answers: list[bool] = []
        loop(ObservedNumbers(), answers)
        assert answers
        assert all(answers)


def test_a_long_loop_is_running_inside_it():
    lines = [f"    value = {number}.5" for number in range(600)]
    end = ["    answers.append(numbers.is_running)", "    if number == 3:", "        break"]
    code = ["for number in numbers():", *lines, *end]
    scope: dict[str, Any] = {"numbers": ObservedNumbers(), "answers": []}
    exec("\n".join(code), scope)
    assert scope["answers"] == [True] * 3


def after_a_break(numbers: ObservedNumbers, answers: list[bool]) -> None:
    items = Bar(numbers())
    for number in items:
        if number == 3:
            break
    answers.append(numbers.is_running)
    for _ in range(2):
        answers.append(numbers.is_running)
    del items


def after_an_error(numbers: ObservedNumbers, answers: list[bool]) -> None:
    items = Bar(numbers())
    try:
        for number in items:
            fails(number)
    except Boom:
        answers.append(numbers.is_running)
    finally:
        answers.append(numbers.is_running)
    del items


def after_zip(numbers: ObservedNumbers, answers: list[bool]) -> None:
    items = Bar(numbers())
    for _ in zip(range(3), items, strict=False):
        pass
    else:
        answers.append(numbers.is_running)
    del items


def after_a_return(numbers: ObservedNumbers, answers: list[bool]) -> Any:
    items = Bar(numbers())
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: answers.append(numbers.is_running))
        for number in items:
            if number == 3:
                return items
    return None


@pytest.mark.parametrize("loop", [after_a_break, after_an_error, after_zip, after_a_return])
def test_a_loop_that_was_left_is_not_running_while_its_generator_exists(
    loop: Callable[[ObservedNumbers, list[bool]], None],
):
    for _ in REPETITIONS:
        answers: list[bool] = []
        loop(ObservedNumbers(), answers)
        assert answers
        assert not any(answers)


# ---- the switch
@pytest.mark.parametrize("value", ["1", "true"])
def test_the_switch_turns_all_inspection_off(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", value)
    numbers = ObservedNumbers()
    breaks(numbers)
    assert type(numbers.loop) is Loop
    assert not numbers.is_running


@pytest.mark.parametrize("value", ["", "0", "no"])
def test_the_switch_may_be_set_to_no(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", value)
    assert frames.knows_bytecode()


def test_bytecode_of_an_unknown_version_is_not_inspected():
    first, last = frames.BYTECODE_VERSIONS
    assert first <= sys.version_info[:2] <= last, "add this version to BYTECODE_VERSIONS if these tests pass"
    assert frames.knows_bytecode()
    assert not frames.knows_bytecode((3, 10))
    assert not frames.knows_bytecode((last[0], last[1] + 1))
