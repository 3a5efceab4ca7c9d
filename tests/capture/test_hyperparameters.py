"""Hyperparameters: equality up to rounding, selection, changes, and shortest floats."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_events import read_events

import provml
from provml.capture._hyperparameters import (
    MANUAL,
    ChangeTracker,
    Hyperparameters,
    HyperparameterSource,
    Selection,
    Technique,
    is_same,
    shortest_float,
)
from provml.journal.events import Adapted


def as_32_bits(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


@given(st.integers(1, 99999), st.integers(-9, 9))
def test_a_rate_with_few_digits_survives_32_bits(digits: int, power: int):
    written = float(f"{digits}e{power}")
    assert shortest_float(as_32_bits(written)) == written


@given(st.floats(allow_nan=False))
def test_the_shortest_float_is_equal_up_to_rounding(value: float):
    assert shortest_float(value) == pytest.approx(value, rel=1.2e-7, abs=0)


@pytest.mark.parametrize("value", [True, 3, "adam", None, float("inf")])
def test_other_values_are_unchanged(value: object):
    assert shortest_float(value) is value


@given(st.floats(1e-9, 1e9))
def test_a_value_equals_its_32_bits_but_not_its_half(value: float):
    assert is_same(value, as_32_bits(value))
    assert not is_same(value, value / 2)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ((0.9, 0.999), [0.9, 0.999], True), ((0.9, 0.999), (0.9, 0.99), False), (0.0, 1e-30, False),
        (float("nan"), float("nan"), True), (float("nan"), 1.0, False), ("linear", "cosine", False), (True, 1, True),
    ],
)  # fmt: skip
def test_lists_text_and_nan_are_compared(old: object, new: object, same: bool):
    assert is_same(old, new) is same


def test_a_change_is_returned_once():
    tracker = ChangeTracker({"rate": 0.1, "momentum": 0.9})
    assert tracker.changes({"rate": 0.1 + 1e-9, "momentum": 0.5, "new": 1}) == {"momentum": (0.9, 0.5)}
    assert tracker.changes({"rate": 0.1, "momentum": 0.5}) == {}


def test_a_new_name_is_returned_once_and_tracked_from_then_on():
    tracker = ChangeTracker({"rate": 0.1})
    assert tracker.added({"rate": 0.2, "group_2.rate": 0.01, "other": None}) == {"group_2.rate": 0.01}
    assert tracker.added({"rate": 0.2, "group_2.rate": 0.02}) == {}
    assert tracker.changes({"rate": 0.1, "group_2.rate": 0.02}) == {"group_2.rate": (0.01, 0.02)}


def test_small_steps_add_up_to_a_change():
    tracker, rate = ChangeTracker({"rate": 1.0}), 1.0
    count = 0
    for _ in range(100):
        rate *= 1 + 5e-7
        count += len(tracker.changes({"rate": rate}))
    assert count > 10


def test_a_selection_accepts_names_of_keras_prov_and_of_groups():
    all_of_them, some = Selection(), Selection({"LEARNING_RATE": True, "NUM_EPOCHS": True, "MOMENTUM": False})
    assert all_of_them.select({"a": 1}) == {"a": 1}
    values = {"learning_rate": 0.1, "group_2.learning_rate": 0.2, "epochs": 3, "momentum": 0.9}
    assert list(some.select(values)) == ["learning_rate", "group_2.learning_rate", "epochs"]


FRAMEWORKS = ["keras", "torch", "lightning", "transformers"]


def test_captures_load_only_their_own_framework_and_name_what_to_install():
    code = f"""
import sys
import provml.capture, provml.capture.base, provml.capture._data, provml.capture._layers
import provml.capture._hyperparameters
assert not set({FRAMEWORKS}) & set(sys.modules)
from provml.errors import MissingDependency
for name in [*{FRAMEWORKS}, "pytorch_lightning"]:
    sys.modules[name] = None  # as if it were not installed
for name in {FRAMEWORKS}:
    try:
        __import__(f"provml.capture.{{name}}")
    except MissingDependency as error:
        assert f"provml[{{name}}]" in str(error)
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- recorded changes


class Source(HyperparameterSource):
    """Hyperparameters in a dictionary, changed by a scheduler."""

    def __init__(self, **values: Any) -> None:
        self.values = values
        self.calls: list[str] = []

    def current_hyperparameters(self) -> dict[str, Any]:
        self.calls.append("current")
        return self.values

    def technique_of_change(self, name: str, old: Any, new: Any) -> Technique:
        if name == "momentum":
            raise LookupError(name)
        return "Halving", {"factor": 0.5}

    def may_have_changed(self) -> bool:
        return "frozen" not in self.values

    def on_training_begin(self) -> None:
        self.calls.append("begin")

    def on_compared(self) -> None:
        self.calls.append("compared")

    def on_checked(self) -> None:
        self.calls.append("checked")


def adapted(home: Path) -> list[tuple[dict[str, Any], str]]:
    """Return the values and the technique of each adaptation."""
    (journal,) = home.glob("runs/*/main.jsonl")
    return [(event.values, event.technique) for event in read_events(journal) if isinstance(event, Adapted)]


def test_changes_are_recorded_by_their_technique(tmp_path: Path):
    source = Source(rate=0.1, decay=1.0, momentum=0.9)
    with provml.record("digits", home=tmp_path, capture_environment=False) as run, run.training() as stage:
        hyperparameters = Hyperparameters(run, Selection(), source, watches_batches=False)
        assert hyperparameters.begin(source.values | {"loss": None}) == source.values
        hyperparameters.record_changes(stage)
        source.values = {"rate": 0.05, "decay": None, "momentum": 0.5, "added": 1}
        hyperparameters.record_changes(stage)
        hyperparameters.record_changes(stage)
        assert run.capture_errors == 1, "the technique of the momentum is unknown"
        assert hyperparameters.recorded_value("rate") == 0.05
    assert adapted(tmp_path) == [({"rate": 0.05, "decay": "None"}, "Halving"), ({"momentum": 0.5}, MANUAL)]
    assert source.calls == ["begin", *["current", "compared", "checked"] * 3]


def test_values_are_not_read_if_a_cheap_check_shows_no_change(tmp_path: Path):
    source = Source(rate=0.1, frozen=True)
    with provml.record("digits", home=tmp_path, capture_environment=False) as run, run.training() as stage:
        hyperparameters = Hyperparameters(run, Selection(), source, watches_batches=True)
        hyperparameters.begin(source.values)
        hyperparameters.record_changes(stage)
        assert hyperparameters.is_check_due()
    assert source.calls == ["begin", "checked"]
