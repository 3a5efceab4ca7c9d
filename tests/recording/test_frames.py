"""Inspection of the calling code: arguments of callers, exceptions, exits, and the switch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture.contract import Boom

import provml
from provml.recording import frames
from provml.recording.frames import caller_arguments, callers, raised_in_method, raised_in_package


def framework_function(rounds: int, callback: Callable[[], Any]) -> Any:
    return callback()


def test_arguments_of_a_caller_are_found_by_module_and_name():
    def callback() -> dict[str, Any]:
        return caller_arguments(__name__, "framework_function")

    assert framework_function(7, callback)["rounds"] == 7
    assert callback() == {}


def test_the_frames_above_a_callback_are_yielded():
    def read() -> list[str]:
        return [caller.function for caller in callers()]

    def callback() -> list[str]:
        return read()

    assert framework_function(7, callback)[0] == "framework_function"


def test_the_switch_turns_inspection_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", "1")
    assert framework_function(7, lambda: caller_arguments(__name__, "framework_function")) == {}
    assert framework_function(7, lambda: list(callers())) == []
    assert not raised_in_method(Boom(), "step", [])


READS_FRAMES = {
    *("_getframe", "_current_frames", "currentframe", "f_back", "f_code", "f_globals", "f_lasti", "f_locals"),
    *("tb_frame", "tb_lasti", "tb_next", "co_code"),
}
"""Attributes by which code reads frames, tracebacks or bytecode."""


BYTECODE_MODULES = ("dis", "opcode")


def frame_reads(module: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in READS_FRAMES:
            names.append(f"{module.name}:{node.lineno} {node.attr}")
        elif isinstance(node, ast.Import):
            names += [
                f"{module.name}:{node.lineno} {alias.name}" for alias in node.names if alias.name in BYTECODE_MODULES
            ]
        elif isinstance(node, ast.ImportFrom) and node.module in BYTECODE_MODULES:
            names.append(f"{module.name}:{node.lineno} {node.module}")
    return names


def test_only_one_package_reads_frames_and_bytecode():
    inspecting = Path(frames.__file__).parent
    assert all(frame_reads(inspecting / name) for name in ("_callers.py", "_bytecode.py"))
    others = [module for module in Path(provml.__file__).parent.rglob("*.py") if inspecting not in module.parents]
    assert [read for module in others for read in frame_reads(module)] == []


def test_without_frames_the_inspection_is_off_and_recording_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delattr(sys, "_getframe")
    assert not frames.is_enabled()
    with provml.record("r", home=tmp_path) as run:
        training = run.training(epochs=3)
        for epoch in training.epochs(3):
            epoch.measured(loss=1.0)
            if epoch.index == 2:
                break
        training.done()
        with pytest.raises(SystemExit):
            sys.exit(3)
    with provml.open(tmp_path) as store:
        assert [info.status for info in store.runs()] == ["FINISHED"]
        assert store.runs()[0].capture_errors.count == 0


@pytest.mark.parametrize("package", ["recording", ""])
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


@pytest.mark.parametrize("is_inside", [True, False], ids=["in the loop", "after the loop"])
def test_an_exception_leaves_a_loop_whose_calls_reuse_one_address(is_inside: bool):
    """CPython places the frame of the next call where the last one was: the loop is in the caller all the same."""
    position = frames.LoopPosition()
    addresses = []

    def train_epoch() -> None:
        for batch in range(2):
            if batch == 1:
                position.note(loops=2)
                addresses.append(id(sys._getframe()))

    def train() -> None:
        for epoch in range(3):
            train_epoch()
            if is_inside and epoch == 2:
                raise Boom("bad validation")
        raise Boom("bad plot")

    with pytest.raises(Boom) as caught:
        train()
    assert len(set(addresses)) < 3, "this test needs an interpreter that reuses the memory of frames"
    assert position.is_left_by(caught.value) is is_inside
