"""Curves drawn with characters: one curve with braille dots, several with a character each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from provml.answers.plot import Curves
from provml.answers.table import display_width, format_special, single_line

FEW_MARKS, MANY_MARKS = "*+xo#@%&", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Characters of the series, for up to eight series and for more."""

MAX_MARK_LINES = 8
"""Marks that are described below the chart."""
MIN_WIDTH = 4
"""Least width of the plot area in characters, on any terminal."""

BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the eight dots of a braille character, by row and column."""

Dot = tuple[int, int]
Line = list[tuple[float, float]]


class Area(NamedTuple):
    """The ranges of x and y."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float

    def contains(self, x: float) -> bool:
        """True if an x is in the range of x."""
        return self.x_min <= x <= self.x_max


def draw(curves: Curves, width: int = 80, height: int = 17, *, plain: bool = False) -> str:
    """Return the curves as text of `width` columns and about `height` lines; `plain` uses ASCII only."""
    height = max(height, 2)
    lines = [[(_number(x), y) for x, y in series.stairs()] for series in curves.series]
    area = Area(*_bounds([x for line in lines for x, _ in line]), *_bounds([y for line in lines for _, y in line]))
    rows = range(0, height, max((height - 1) // 4, 1))
    ticks = [_interpolate(area.y_max, area.y_min, row / (height - 1)) for row in rows]
    labels = dict(zip(rows, _labels(ticks), strict=True))
    margin = max(map(len, labels.values()))
    plot_width = max(width - margin - 2, MIN_WIDTH)
    is_dotted = len(lines) == 1 and not plain
    plot = _draw_dots(lines[0], area, plot_width, height) if is_dotted else _draw_marks(lines, area, plot_width, height)
    columns = {_position(mark.x, area.x_min, area.x_max, plot_width) for mark in curves.marks if area.contains(mark.x)}
    bar_mark = ":" if plain else "┊"
    plot = ["".join(bar_mark if i in columns and c == " " else c for i, c in enumerate(row)) for row in plot]
    tick, bar, corner, axis = ("+", "|", "+", "-") if plain else ("┤", "│", "└", "─")
    output = [_title(curves)]
    for row, text in enumerate(plot):
        output.append(f"{labels.get(row, '').rjust(margin)} {tick if row in labels else bar}{text}".rstrip())
    output.append(f"{' ' * margin} {corner}{axis * plot_width}")
    output.append(f"{' ' * margin}  {_x_axis(curves, area, plot_width)}".rstrip())
    if len(lines) > 1:
        names = [f"{_mark(number, len(lines))} {single_line(s.name)}" for number, s in enumerate(curves.series)]
        output += [_cut(name, width) for name in names]
    output += [_cut(line, width) for line in _describe_marks(curves, bar_mark)]
    if curves.note:
        output.append(curves.note)
    text = "\n".join(output)
    return text.encode("ascii", "replace").decode() if plain else text


def _describe_marks(curves: Curves, bar_mark: str) -> list[str]:
    """Return a line for each of the first marks, and the number of the others."""
    has_groups = len({series.group for series in curves.series}) > 1
    lines = []
    for mark in curves.marks[:MAX_MARK_LINES]:
        group = f", {single_line(mark.group)}" if has_groups and mark.group else ""
        lines.append(f"{bar_mark} {curves.x} {mark.x:g}{group}: {single_line(mark.label)}")
    more = len(curves.marks) - MAX_MARK_LINES
    return [*lines, f"{bar_mark} and {more:,} more"] if more > 0 else lines


def _cut(text: str, width: int) -> str:
    """Return the start of a text that fits into `width` columns."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _title(curves: Curves) -> str:
    title = f"{curves.y} by {curves.x}"
    if len(curves.series) == 1 and curves.series[0].name != curves.y:
        title += f", {curves.series[0].name}"
    return single_line(title)


def _number(x: Any) -> float:
    return x.timestamp() if isinstance(x, datetime) else float(x)


def _bounds(values: list[float]) -> tuple[float, float]:
    """Return the minimum and the maximum, made different if they are equal."""
    low, high = min(values), max(values)
    if low == high:
        padding = 1.0 if low.is_integer() and abs(low) < 1e6 else abs(low) / 10
        low, high = max(low - padding, -sys.float_info.max), min(high + padding, sys.float_info.max)
    return low, high


def _interpolate(start: float, end: float, fraction: float) -> float:
    return start * (1 - fraction) + end * fraction


def _labels(values: list[float]) -> list[str]:
    """Return numbers with as few digits as distinguish them."""
    for digits in range(3, 18):
        labels = [f"{value:.{digits}g}" if value - value == 0.0 else format_special(value) for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels


def _position(value: float, low: float, high: float, steps: int) -> int:
    """Return the step of a value. Halves avoid an overflow for the widest range."""
    return round((value / 2 - low / 2) / (high / 2 - low / 2) * (steps - 1))


def _dots(line: Line, area: Area, width: int, height: int) -> Iterator[Dot]:
    """Yield the dots (column, row from the top) of a curve, with straight lines between its points."""
    positions = [
        (_position(x, area.x_min, area.x_max, width), height - 1 - _position(y, area.y_min, area.y_max, height))
        for x, y in line
    ]
    yield positions[0]
    for (x0, y0), (x1, y1) in pairwise(positions):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        yield from ((round(x0 + (x1 - x0) * n / steps), round(y0 + (y1 - y0) * n / steps)) for n in range(1, steps + 1))


def _draw_dots(line: Line, area: Area, width: int, height: int) -> list[str]:
    cells = [[0] * width for _ in range(height)]
    for x, y in _dots(line, area, width * 2, height * 4):
        cells[y // 4][x // 2] |= BRAILLE_DOTS[y % 4][x % 2]
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in row) for row in cells]


def _draw_marks(lines: list[Line], area: Area, width: int, height: int) -> list[str]:
    cells = [[" "] * width for _ in range(height)]
    for number, line in enumerate(lines):
        for x, y in _dots(line, area, width, height):
            cells[y][x] = _mark(number, len(lines))
    return ["".join(row) for row in cells]


def _mark(number: int, count: int) -> str:
    marks = FEW_MARKS if count <= len(FEW_MARKS) else MANY_MARKS
    return marks[number % len(marks)]


def _x_axis(curves: Curves, area: Area, width: int) -> str:
    """Return the labels of the x axis: its ends, and its name if there is space."""
    if any(isinstance(x, datetime) for series in curves.series for x, _ in series.points):
        ends = [f"{datetime.fromtimestamp(end).astimezone():%Y-%m-%d %H:%M:%S %Z}" for end in area[:2]]
    else:
        ends = _labels(list(area[:2]))
    gap = max(width - sum(map(display_width, ends)), 1)
    name = curves.x if gap > display_width(curves.x) + 2 else ""
    return ends[0] + single_line(name).center(gap) + ends[1]
