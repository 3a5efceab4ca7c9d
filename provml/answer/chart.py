"""Curves drawn with characters, for a terminal: braille dots for one curve, a mark of its own for each of several."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from provml.answer.curve import Curves
from provml.answer.table import one_line, special, width_of

FEW, MANY = "*+xo#@%&", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The marks of a few series, and of many."""

LEAST = 4
"""How many characters wide the picture is at least, however narrow the terminal."""

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of the eight dots of a braille character, by row and column."""

Dot = tuple[int, int]


def draw(curves: Curves, width: int = 80, height: int = 17, *, plain: bool = False) -> str:
    """The curves within so many columns and lines; `plain` keeps to ASCII."""
    height = max(height, 2)
    points = [[(_number(x), y) for x, y in series.points] for series in curves.series]
    left, right = _bounds([x for line in points for x, _ in line])
    low, high = _bounds([y for line in points for _, y in line])
    rows = range(0, height, max((height - 1) // 4, 1))
    marks = dict(zip(rows, _labels([_between(high, low, row / (height - 1)) for row in rows]), strict=True))
    margin = max(map(len, marks.values()))
    across = max(width - margin - 2, LEAST)
    area = (left, right, low, high)
    lines = (
        _dotted(points[0], area, across, height)
        if len(points) == 1 and not plain
        else _marked(points, area, across, height)
    )
    tick, bar, corner, floor = ("+", "|", "+", "-") if plain else ("┤", "│", "└", "─")
    title = f"{curves.y} by {curves.x}"
    if len(points) == 1 and curves.series[0].name != curves.y:
        title += f", {curves.series[0].name}"
    shown = [one_line(title)]
    for row, line in enumerate(lines):
        shown.append(f"{marks.get(row, '').rjust(margin)} {tick if row in marks else bar}{line}".rstrip())
    shown.append(f"{' ' * margin} {corner}{floor * across}")
    shown.append(f"{' ' * margin}  {_below(curves, left, right, across)}".rstrip())
    if len(points) > 1:
        shown += [f"{_mark(number, len(points))} {one_line(each.name)}" for number, each in enumerate(curves.series)]
    if curves.note:
        shown.append(curves.note)
    text = "\n".join(shown)
    return text.encode("ascii", "replace").decode() if plain else text


def _number(x: Any) -> float:
    return x.timestamp() if isinstance(x, datetime) else float(x)


def _bounds(values: list[float]) -> tuple[float, float]:
    """The least and the greatest, made different where they are not."""
    low, high = min(values), max(values)
    if low == high:
        room = 1.0 if low.is_integer() and abs(low) < 1e6 else abs(low) / 10
        low, high = max(low - room, -sys.float_info.max), min(high + room, sys.float_info.max)
    return low, high


def _between(one: float, other: float, share: float) -> float:
    return one * (1 - share) + other * share


def _labels(values: list[float]) -> list[str]:
    """Numbers with as few digits as tell them apart."""
    for digits in range(3, 18):
        said = [f"{value:.{digits}g}" if value - value == 0.0 else special(value) for value in values]
        if len(set(said)) == len(said):
            break
    return said


def _place(value: float, low: float, high: float, steps: int) -> int:
    """Which of so many steps a value is at; halves, so that even the widest range has a length."""
    return round((value / 2 - low / 2) / (high / 2 - low / 2) * (steps - 1))


def _dots(
    line: list[tuple[float, float]], area: tuple[float, float, float, float], wide: int, tall: int
) -> Iterator[Dot]:
    """The dots of a curve, column and row from the top left, with straight lines between its points."""
    left, right, low, high = area
    places = [(_place(x, left, right, wide), tall - 1 - _place(y, low, high, tall)) for x, y in line]
    yield places[0]
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        yield from ((round(x0 + (x1 - x0) * n / steps), round(y0 + (y1 - y0) * n / steps)) for n in range(1, steps + 1))


def _dotted(
    line: list[tuple[float, float]], area: tuple[float, float, float, float], wide: int, tall: int
) -> list[str]:
    cells = [[0] * wide for _ in range(tall)]
    for x, y in _dots(line, area, wide * 2, tall * 4):
        cells[y // 4][x // 2] |= DOTS[y % 4][x % 2]
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in row) for row in cells]


def _marked(
    lines: list[list[tuple[float, float]]], area: tuple[float, float, float, float], wide: int, tall: int
) -> list[str]:
    cells = [[" "] * wide for _ in range(tall)]
    for number, line in enumerate(lines):
        for x, y in _dots(line, area, wide, tall):
            cells[y][x] = _mark(number, len(lines))
    return ["".join(row) for row in cells]


def _mark(number: int, count: int) -> str:
    marks = FEW if count <= len(FEW) else MANY
    return marks[number % len(marks)]


def _below(curves: Curves, left: float, right: float, across: int) -> str:
    """The ends of the x axis."""
    if any(isinstance(x, datetime) for series in curves.series for x, _ in series.points):
        ends = [f"{datetime.fromtimestamp(end).astimezone():%Y-%m-%d %H:%M:%S %Z}" for end in (left, right)]
    else:
        ends = _labels([left, right])
    gap = max(across - sum(map(width_of, ends)), 1)
    name = curves.x if gap > width_of(curves.x) + 2 else ""
    return ends[0] + one_line(name).center(gap) + ends[1]
