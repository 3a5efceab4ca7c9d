"""Rows as curves: which columns make them, their points, and how matplotlib draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from provml.answer.table import Row, cell
from provml.errors import MissingPart, NotACurve

if TYPE_CHECKING:
    import matplotlib.axes

BESIDE = 8
"""With more series than this, their names stand beside the picture and not in it."""


@dataclass(frozen=True)
class Curve:
    """Which columns of an answer make curves: `y` over `x`, one for each value of the columns `by`."""

    x: str
    y: tuple[str, ...]
    by: tuple[str, ...] = ()
    called: str = ""
    """What y is, where the name of its column does not say it: loss."""
    unit: str = ""


@dataclass(frozen=True)
class Series:
    """The points of one curve, from left to right."""

    name: str
    points: list[tuple[Any, float]]


@dataclass(frozen=True)
class Curves:
    """What is drawn: some series, and the names of the axes."""

    x: str
    y: str
    series: list[Series]
    left_out: int
    """How many points were NaN or infinite."""

    @property
    def note(self) -> str:
        """What people should know of points that are not drawn."""
        if not self.left_out:
            return ""
        return f"{self.left_out} point{'s'[: self.left_out != 1]} left out: NaN or infinite"


def curves(
    columns: Sequence[str],
    rows: Sequence[Row],
    curve: Curve | None,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
) -> Curves:
    """The curves of an answer: those of its question, or of the columns that are named."""
    curve = _named(columns, rows, curve, x, y, by)
    for name in (curve.x, *curve.y, *curve.by):
        if name not in columns:
            raise NotACurve(f"There is no column {name!r} to plot", _advice(columns, rows))
    across = columns.index(curve.x)
    told_apart = [columns.index(name) for name in curve.by]
    found: dict[str, dict[tuple[Any, float], None]] = {}  # a point that is told twice is one point
    left_out = 0
    for name in curve.y:
        index = columns.index(name)
        for row in rows:
            if row[across] is None or row[index] is None:
                continue
            right, up = _coordinate(curve.x, row[across]), _number(name, row[index])
            if up - up != 0.0 or (isinstance(right, float) and right - right != 0.0):
                left_out += 1
                continue
            words = [cell(row[place]) for place in told_apart]
            title = " ".join([*words, *([name] if len(curve.y) > 1 or not words else [])])
            found.setdefault(title, {})[right, up] = None
    if not found and left_out:
        what = f"All {left_out} points are" if left_out > 1 else "The only point is"
        raise NotACurve(f"{what} NaN or infinite", "There is nothing to draw: ask without a plot.")
    if not found:
        raise NotACurve("There is no point to plot", "Ask for a training that has some.")
    try:
        series = [Series(title, sorted(points, key=lambda point: point[0])) for title, points in found.items()]
    except TypeError:
        raise NotACurve(f"{curve.x} mixes numbers and times", _advice(columns, rows)) from None
    label = curve.called or ", ".join(curve.y)
    return Curves(curve.x, f"{label} ({curve.unit})" if curve.unit else label, series, left_out)


def _named(
    columns: Sequence[str],
    rows: Sequence[Row],
    curve: Curve | None,
    x: str | None,
    y: str | Sequence[str] | None,
    by: str | Sequence[str] | None,
) -> Curve:
    """The curve to draw: as the question has it, but for what was named."""
    if x is None and y is None and by is None and curve is not None:
        return curve
    if curve is None and (x is None or y is None):
        raise NotACurve("This answer is no curve by itself", _advice(columns, rows))
    over = x if x is not None else curve.x if curve is not None else ""
    return Curve(
        over,
        _several(y) if y is not None else curve.y if curve is not None else (),
        _several(by) if by is not None else curve.by if curve is not None else (),
        curve.called if curve is not None and y is None else "",
        curve.unit if curve is not None and y is None else "",
    )


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def guessed(columns: Sequence[str], rows: Sequence[Row]) -> Curve:
    """The curve that a query of one's own most likely means: the first column of numbers or times, and the others of
    numbers over it, told apart by the columns of nodes and text."""
    can = _plottable(columns, rows)
    ups = tuple(name for name in can[1:] if not _holds(columns, rows, name, datetime))
    if not ups:
        advice = "Select a column of numbers or times, and after it one or more of numbers."
        raise NotACurve("There are no two columns to plot over each other", advice)
    by = tuple(name for name in columns if name not in can and _holds(columns, rows, name, str))
    return Curve(can[0], ups, by)


def _plottable(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns of numbers or times."""
    return [name for name in columns if _holds(columns, rows, name, (int, float, Decimal, datetime))]


def _holds(columns: Sequence[str], rows: Sequence[Row], name: str, kinds: type | tuple[type, ...]) -> bool:
    index = columns.index(name)
    held = [row[index] for row in rows if row[index] is not None]
    return bool(held) and all(isinstance(value, kinds) and not isinstance(value, bool) for value in held)


def _advice(columns: Sequence[str], rows: Sequence[Row]) -> str:
    can = _plottable(columns, rows)
    if not can:
        return "It has no column of numbers or times."
    if len(can) == 1:
        return f"Its only column of numbers or times is {can[0]}."
    return f"Its columns of numbers and times are {', '.join(can)}: say plot(x={can[0]!r}, y={can[-1]!r}), or others."


def _coordinate(column: str, value: Any) -> Any:
    """A place on the x axis: a number or a moment."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.astimezone()
    return value if value.__class__ is int else _number(column, value)


def _number(column: str, value: Any) -> float:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise NotACurve(f"{column} has {cell(value)!r}, which is no number", "Name a column of numbers.")


def draw(curves: Curves, axes: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """The curves drawn by matplotlib."""
    try:
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingPart("matplotlib", "plot") from None
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(layout="constrained")
    styles = ("-", "--", ":", "-.")
    for number, series in enumerate(curves.series):
        across, up = zip(*series.points, strict=True)
        style = styles[number // 10 % len(styles)]  # after ten, the colours begin again
        axes.plot(across, up, style, marker="o" if len(across) <= 40 else "", markersize=3.5, label=series.name)
    axes.set_xlabel(curves.x)
    axes.set_ylabel(curves.y)
    if all(x.__class__ is int for series in curves.series for x, _ in series.points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif any(isinstance(x, datetime) for series in curves.series for x, _ in series.points):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]  # matplotlib's dates have no types
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # nor these
        axes.set_xlabel(f"{curves.x} (UTC)")
    if len(curves.series) > BESIDE:
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=1 + len(curves.series) // 25)
    elif len(curves.series) > 1:
        axes.legend(fontsize="small")
    else:
        axes.set_title(curves.series[0].name, loc="left", fontsize="medium")
    if curves.note:
        axes.set_title(curves.note, loc="right", fontsize="small", color="gray")
    return axes
