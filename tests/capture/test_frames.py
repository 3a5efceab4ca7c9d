"""Inspection of frames: the arguments of callers, and exceptions that passed through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from capture.contract import Boom
from provml.capture._frames import caller_arguments, caller_frames, raised_in_method, raised_in_package


def framework_function(rounds: int, callback: Callable[[], Any]) -> Any:
    return callback()


def test_arguments_of_a_caller_are_found_by_module_and_name():
    def callback() -> dict[str, Any]:
        return caller_arguments(__name__, "framework_function")

    assert framework_function(7, callback)["rounds"] == 7
    assert callback() == {}


def test_the_frames_above_a_callback_are_yielded():
    def read() -> list[str]:
        return [frame.f_code.co_name for frame in caller_frames()]

    def callback() -> list[str]:
        return read()

    assert framework_function(7, callback)[0] == "framework_function"


def test_the_switch_turns_inspection_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", "1")
    assert framework_function(7, lambda: caller_arguments(__name__, "framework_function")) == {}
    assert framework_function(7, lambda: list(caller_frames())) == []
    assert not raised_in_method(Boom(), "step", [])


@pytest.mark.parametrize("package", ["capture", ""])
def test_an_exception_that_is_being_handled_is_returned_if_it_passed_through_the_package(package: str):
    errors: list[BaseException | None] = []
    try:
        framework_function(7, lambda: [][0])
    except IndexError as error:
        errors += [error, raised_in_package(package, set())]
        errors += [raised_in_package(package, {id(error)}), raised_in_package("keras", set())]
    errors.append(raised_in_package(package, set()))
    assert errors[0] is errors[1]
    assert errors[2:] == [None, None, None]


def test_an_exception_is_attributed_to_the_method_that_it_passed_through():
    class Optimizer:
        def step(self) -> None:
            raise Boom

    optimizer = Optimizer()

    def train() -> None:
        try:
            optimizer.step()
        except Boom as error:
            raise RuntimeError from error

    with pytest.raises(RuntimeError) as caught:
        train()
    assert raised_in_method(caught.value, "step", [optimizer])
    assert not raised_in_method(caught.value, "step", [Optimizer()])
    assert not raised_in_method(caught.value, "other", [optimizer])
