"""Charts as SVG: panels, legend, marks, steps, and any numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.answers.plot import Curves, Mark, Series
from provml.drawing import chart
from provml.drawing.chart import tick_labels, ticks

SVG = "{http://www.w3.org/2000/svg}"


def curves(count: int = 1, *, points: int = 10, marks: list[Mark] | None = None, y: str = "loss") -> Curves:
    """Return the curves of some runs, in training and validation."""
    series = []
    for number in range(count):
        values = [(epoch, 1.0 / epoch + number) for epoch in range(1, points + 1)]
        series.append(Series(f"run {number} training", values, f"run {number}", "training"))
        series.append(Series(f"run {number} validation", values, f"run {number}", "validation", is_dashed=True))
    return Curves("epoch", y, series, 0, marks or [])


def steps() -> Curves:
    return Curves(
        "epoch", "rate", [Series("rate", [(1, 0.1), (2, 0.1), (3, 0.05)], "run 0", "training", is_step=True)], 0
    )


def elements(svg: str, tag: str, css: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(svg).iter(f"{SVG}{tag}") if css in e.get("class", "").split()]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_training_and_validation_are_solid_and_dashed_lines_of_one_colour():
    svg = chart.draw([curves()], "loss of run 0")
    lines = [e for e in elements(svg, "path", "c") if "axis" not in e.get("class", "")]
    assert [e.get("class") for e in lines] == ["c s0", "c s0 v"]
    assert {"loss of run 0", "loss", "epoch", "training", "validation"} <= set(texts(svg))


def test_a_legend_shows_names_with_their_settings_in_full():
    names = [f"alexnet-sgd-{number} learning_rate=0.0005 batch_size=128" for number in range(3)]
    series = [Series(f"{name} training", [(1, 1.0), (2, 0.5)], name, "training") for name in names]
    svg = chart.draw([Curves("epoch", "loss", series, 0)])
    assert [text for text in texts(svg) if text.startswith("alexnet")] == names


def test_several_runs_have_a_legend_in_a_row_and_many_a_column_by_their_last_value():
    few = chart.draw([curves(3)])
    assert [text for text in texts(few) if text.startswith("run")] == ["run 0", "run 1", "run 2"]
    many = chart.draw([curves(20)])
    legend = [text for text in texts(many) if text.startswith("run")]
    assert legend == [f"run {number}" for number in reversed(range(20))]
    assert "19.1" in texts(many)  # the last value
    assert len(set(re.findall(r"\.s\d+\{stroke:(hsl[^}]*)\}", many))) == 40  # twenty colours in light, others in dark


def test_steps_are_horizontal_and_vertical_lines():
    svg = chart.draw([steps()])
    (path,) = elements(svg, "path", "s0")
    points = [tuple(map(float, point.split())) for point in (path.get("d") or "")[1:].split("L")]
    assert len(points) == 5
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(points))


def test_a_value_holds_since_the_epoch_before():
    assert steps().series[0].stairs() == [(1, 0.1), (1, 0.1), (2, 0.1), (2, 0.05), (3, 0.05)]


def test_adaptations_of_one_run_are_lines_with_labels_in_the_first_panel():
    marks = [Mark(3, "rate 0.1 → 0.05", "run 0"), Mark(4, "rate 0.05 → 0.01", "run 0")]
    svg = chart.draw([curves(marks=marks), curves(marks=marks, y="accuracy")])
    assert len(elements(svg, "path", "mark")) == 5  # two in each panel, one in the legend
    labels = elements(svg, "text", "d")
    assert [label.text for label in labels] == ["rate 0.1 → 0.05", "rate 0.05 → 0.01"]
    assert labels[0].get("y") != labels[1].get("y")  # they would overlap in one row


def test_adaptations_of_several_runs_are_triangles_of_their_colour():
    svg = chart.draw([curves(2, marks=[Mark(3, "rate 0.05", "run 1")])])
    assert len(elements(svg, "path", "f1")) == 1
    assert "adaptation" in texts(svg)
    assert not elements(svg, "text", "d")


def test_very_many_adaptations_are_ticks():
    marks = [Mark(epoch, "rate", "run 0") for epoch in range(1, 301)]
    svg = chart.draw([curves(points=300, marks=marks)])
    assert "300 adaptations" in svg
    assert not elements(svg, "text", "d")


def test_very_many_points_are_thinned_without_losing_the_extremes():
    points = [(float(x), -1.0 if x == 77_777 else 1.0) for x in range(100_000)]
    svg = chart.draw([Curves("step", "loss", [Series("a", points)], 0)])
    assert len(svg) < 100_000
    (path,) = elements(svg, "path", "s0")
    heights = {point.split()[1] for point in (path.get("d") or "")[1:].split("L")}
    assert len(heights) == 2


def test_a_single_point_is_a_dot():
    svg = chart.draw([Curves("epoch", "loss", [Series("a", [(1, 0.5)])], 0)])
    assert len(elements(svg, "circle", "f0")) == 1


def test_points_that_are_left_out_are_mentioned():
    svg = chart.draw([Curves("epoch", "loss", [Series("a", [(1, 0.5), (2, 0.4)])], 3)])
    assert "3 points left out: NaN or infinite" in svg


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(st.integers(0, 10**6), numbers), min_size=1, max_size=30), st.text(max_size=20))
def test_any_points_and_names_give_a_valid_picture(points: list[tuple[int, float]], name: str):
    series = [Series(name, sorted(dict(points).items()), name), Series("other", [(1, 0.0)], "other", is_step=True)]
    svg = chart.draw([Curves(name, name, series, 0, [Mark(1, name, name)])], name)
    root = ElementTree.fromstring(svg)
    assert "nan" not in svg
    for path in root.iter(f"{SVG}path"):
        assert "inf" not in (path.get("d") or "")


@given(numbers, numbers, st.integers(2, 9))
def test_ticks_cover_their_range(a: float, b: float, count: int):
    low, high = min(a, b), max(a, b)
    values = ticks(low, high, count)
    assert len(values) <= 1.25 * count + 2
    assert list(values) == sorted(values)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 10.0, ["0", "2", "4", "6", "8", "10"]), (0.001, 0.0049, ["0.001", "0.002", "0.003", "0.004", "0.005"])],
)
def test_ticks_are_round_numbers(low: float, high: float, expected: list[str]):
    assert tick_labels(ticks(low, high, 5)) == expected


def test_the_same_curves_give_the_same_picture():
    assert chart.draw([curves(9)], "x") == chart.draw([curves(9)], "x")
