"""The comparison of the results of two runs."""

from __future__ import annotations

from typing import Any

import pytest

from provml.repeat.comparison import Results, Verdict, compare_results

RUN = {
    "status": "FINISHED",
    "settings": {"training rate": 0.1},
    "data": {"training train.csv": "a" * 64},
    "measures": {"training/1 loss": 0.5, "training/2 loss": 0.25, "training/2 train_runtime": 3.0},
    "models": {"training net": "b" * 64},
}


def results(**changes: Any) -> Results:
    return Results(**{**RUN, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({}, "REPRODUCED", "2 values of measures and 1 digest of models are equal"),
        ({"models": {"training net": "c" * 64}}, "CLOSE", "1 model with another digest"),
        ({"models": {}}, "DIFFERS", "1 model with another digest"),
        ({"status": "FAILED"}, "DIFFERS", "the status was FINISHED and is FAILED"),
        ({"settings": {"training rate": 0.2}}, "DIFFERS", "settings differ: training rate"),
        ({"data": {"training train.csv": "d" * 64}}, "DIFFERS", "data differ: training train.csv"),
        ({"measures": {"training/1 loss": 0.5}}, "DIFFERS", "1 value of measures in only one of the runs"),
    ],
)
def test_the_verdict_has_a_reason(changes: dict[str, Any], verdict: str, reason: str):
    comparison = compare_results(results(), results(**changes))
    assert comparison.verdict == verdict
    assert reason in comparison.reasons


@pytest.mark.parametrize(
    ("value", "rtol", "atol", "verdict"),
    [
        (0.25, 0.0, 0.0, "REPRODUCED"),
        (0.2501, 1e-3, 0.0, "CLOSE"),
        (0.2501, 1e-5, 0.0, "DIFFERS"),
        (0.2501, 0.0, 1e-3, "CLOSE"),
        (["double", "NaN"], 1.0, 1.0, "DIFFERS"),
        (["double", "INF"], 1.0, 1.0, "DIFFERS"),
    ],
)
def test_measures_are_compared_with_tolerances(value: Any, rtol: float, atol: float, verdict: str):
    measures = RUN["measures"] | {"training/2 loss": value}  # type: ignore[operator]
    comparison = compare_results(results(), results(measures=measures), rtol=rtol, atol=atol)
    assert comparison.verdict == verdict
    if verdict != "REPRODUCED":
        assert str(comparison.first_difference).startswith("measures: training/2 loss was 0.25")


def test_two_missing_numbers_are_equal():
    measures = {"training/1 loss": ["double", "NaN"]}
    assert compare_results(results(measures=measures), results(measures=measures)).verdict is Verdict.REPRODUCED


def test_times_and_ignored_measures_are_not_compared():
    other = results(measures={**RUN["measures"], "training/2 train_runtime": 9.0, "training/2 loss": 9.0})  # type: ignore[dict-item]
    comparison = compare_results(results(), other, ignore=("lo*",))
    assert comparison.verdict is Verdict.REPRODUCED
    assert set(comparison.skipped) == {"train_runtime", "loss"}


def test_without_anything_to_compare_there_is_no_verdict():
    empty = Results("FINISHED")
    assert compare_results(empty, empty).verdict is Verdict.UNDECIDED
