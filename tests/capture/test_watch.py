"""Hyperparameters under watch: what is the same, what is kept, and how a float is written."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.capture.watch import Selection, Watch, as_written, is_same


def as_32_bits(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


@given(st.integers(1, 99999), st.integers(-9, 9))
def test_a_rate_of_few_digits_comes_back_from_32_bits_as_it_was_written(digits: int, power: int):
    written = float(f"{digits}e{power}")
    assert as_written(as_32_bits(written)) == written


@given(st.floats(allow_nan=False))
def test_a_float_is_written_as_the_same_up_to_rounding(value: float):
    assert as_written(value) == pytest.approx(value, rel=1.2e-7, abs=0)


@pytest.mark.parametrize("value", [True, 3, "adam", None, float("inf")])
def test_what_is_no_finite_float_stays(value: object):
    assert as_written(value) is value


@given(st.floats(1e-9, 1e9))
def test_a_value_and_its_32_bits_are_the_same_and_its_half_is_not(value: float):
    assert is_same(value, as_32_bits(value))
    assert not is_same(value, value / 2)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ((0.9, 0.999), [0.9, 0.999], True), ((0.9, 0.999), (0.9, 0.99), False), (0.0, 1e-30, False),
        (float("nan"), float("nan"), True), (float("nan"), 1.0, False), ("linear", "cosine", False), (True, 1, True),
    ],
)  # fmt: skip
def test_lists_text_and_no_number_are_compared_too(old: object, new: object, same: bool):
    assert is_same(old, new) is same


def test_a_watch_tells_a_change_once():
    watch = Watch({"rate": 0.1, "momentum": 0.9})
    assert watch.changes({"rate": 0.1 + 1e-9, "momentum": 0.5, "new": 1}) == {"momentum": (0.9, 0.5)}
    assert watch.changes({"rate": 0.1, "momentum": 0.5}) == {}


def test_what_appears_later_is_told_once_and_watched_from_then_on():
    watch = Watch({"rate": 0.1})
    assert watch.appeared({"rate": 0.2, "group_2.rate": 0.01, "other": None}) == {"group_2.rate": 0.01}
    assert watch.appeared({"rate": 0.2, "group_2.rate": 0.02}) == {}
    assert watch.changes({"rate": 0.1, "group_2.rate": 0.02}) == {"group_2.rate": (0.01, 0.02)}


def test_small_steps_add_up_to_a_change():
    watch, rate = Watch({"rate": 1.0}), 1.0
    told = 0
    for _ in range(100):
        rate *= 1 + 5e-7
        told += len(watch.changes({"rate": rate}))
    assert told > 10


def test_a_selection_knows_the_names_of_keras_prov_and_of_groups():
    all_of_them, some = Selection(), Selection({"LEARNING_RATE": True, "NUM_EPOCHS": True, "MOMENTUM": False})
    assert all_of_them.of({"a": 1}) == {"a": 1}
    given = {"learning_rate": 0.1, "group_2.learning_rate": 0.2, "epochs": 3, "momentum": 0.9}
    assert list(some.of(given)) == ["learning_rate", "group_2.learning_rate", "epochs"]


FRAMEWORKS = ["keras", "torch", "lightning", "transformers"]


def test_captures_load_no_framework_but_their_own_and_say_what_to_install():
    code = f"""
import sys
import provml.capture, provml.capture.recording, provml.capture.facts, provml.capture.layer
import provml.capture.optimizing, provml.capture.watch
assert not set({FRAMEWORKS}) & set(sys.modules)
from provml.errors import MissingPart
for name in [*{FRAMEWORKS}, "pytorch_lightning"]:
    sys.modules[name] = None  # as if it were not installed
for name in {FRAMEWORKS}:
    try:
        __import__(f"provml.capture.{{name}}")
    except MissingPart as error:
        assert f"provml[{{name}}]" in str(error)
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
