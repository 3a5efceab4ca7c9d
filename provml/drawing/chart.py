"""Curves as an SVG picture: one panel below the other over a common x axis, with a legend, in light and dark."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from provml.drawing.layout import Point, Size
from provml.drawing.palette import DARK, LIGHT, Theme
from provml.drawing.svg import document, rules
from provml.drawing.text import escape, number, shorten, text_width

PLOT_WIDTH, PLOT_HEIGHT, STEP_HEIGHT = 640.0, 210.0, 110.0
"""Pixels: the area of the curves of a panel; a panel of settings is lower."""
AXIS_WIDTH, PANEL_HEAD, PANEL_FOOT, PADDING = 58.0, 30.0, 22.0, 20.0
FONT_SIZE = 11.0
MAX_ROW_LEGEND = 6
"""With more groups than this, the legend is a column at the right."""
MAX_LEGEND_WIDTH, LEGEND_ROW = 330.0, 17.0
MAX_LABELLED_MARKS, MAX_MARK_LINES = 6, 40
"""Marks of a single group: with a label, as a line without one; more are small ticks on the x axis."""
MARK_SIZE, MARK_ROW = 10.0, 13.0
"""Pixels: font size and height of the labels of marks."""
MAX_FLOAT = sys.float_info.max
MAX_POINTS = 1200
"""Points of a curve that are drawn; of more, the extremes in each column of pixels."""


class SeriesLike(Protocol):
    """What a chart needs of a series."""

    @property
    def name(self) -> str: ...
    @property
    def points(self) -> Sequence[tuple[Any, float]]: ...
    @property
    def group(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def is_dashed(self) -> bool: ...
    @property
    def is_step(self) -> bool: ...
    def stairs(self) -> Sequence[tuple[Any, float]]: ...


class MarkLike(Protocol):
    """What a chart needs of a mark."""

    @property
    def x(self) -> float: ...
    @property
    def label(self) -> str: ...
    @property
    def group(self) -> str: ...


class CurvesLike(Protocol):
    """What a chart needs of curves: labels of the axes, series, marks, and a note on points that are not drawn."""

    @property
    def x(self) -> str: ...
    @property
    def y(self) -> str: ...
    @property
    def series(self) -> Sequence[SeriesLike]: ...
    @property
    def marks(self) -> Sequence[MarkLike]: ...
    @property
    def note(self) -> str: ...


class Range(NamedTuple):
    """The least and the greatest value of an axis."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return the position of a value between 0 and 1. Halves avoid an overflow for the widest range."""
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)


@dataclass(frozen=True)
class Panel:
    """A panel with its place in the picture."""

    curves: CurvesLike
    x: Range
    y: Range
    ticks: tuple[float, ...]
    top: float
    height: float

    def point(self, x: float, y: float) -> Point:
        """Return the place of a point in the picture."""
        return (
            PADDING + AXIS_WIDTH + self.x.share(x) * PLOT_WIDTH,
            self.top + (1 - self.y.share(y)) * self.height,
        )


def draw(panels: Sequence[CurvesLike], title: str = "", subtitle: str = "") -> str:
    """Return the SVG document of curves, one panel for each."""
    groups = _groups(panels)
    has_column = len(groups) > MAX_ROW_LEGEND
    parts: list[str] = []
    top = PADDING
    if title:
        top += 16
        text = shorten(title, PLOT_WIDTH + AXIS_WIDTH, 16.0, bold=True, middle=True)
        parts.append(f'<text class="h" x="{PADDING:g}" y="{top:g}">{escape(text)}</text>')
    if subtitle:
        top += 18
        text = shorten(subtitle, PLOT_WIDTH + AXIS_WIDTH, FONT_SIZE)
        parts.append(f'<text class="m w" x="{PADDING:g}" y="{top:g}">{escape(text)}</text>')
    if not has_column:
        legend, height = _row_legend(panels, groups, top + 18)
        parts.append(legend)
        top += height
    top += 8
    legend_top = top + PANEL_HEAD
    x_range = _x_range(panels)
    labelled = next((position for position, curves in enumerate(panels) if curves.marks), -1)
    for position, curves in enumerate(panels):
        labels = _mark_labels(curves.marks, x_range) if position == labelled and len(groups) == 1 else []
        rows = 1 + max((label.row for label in labels), default=-1)
        panel = _panel(curves, x_range, top + PANEL_HEAD + MARK_ROW * rows)
        parts.append(_draw_panel(panel, groups, labels, is_last=position == len(panels) - 1))
        top = panel.top + panel.height + PANEL_FOOT
    width = PADDING * 2 + AXIS_WIDTH + PLOT_WIDTH
    height = top + 18 + PADDING
    if has_column:
        legend, size = _column_legend(panels, groups, (width, legend_top))
        parts.append(legend)
        width += size.width
        height = max(height, legend_top + size.height + PADDING)
    description = f"{', '.join(curves.y for curves in panels)} by {panels[0].x}" if panels else ""
    return document(
        title or description,
        description,
        Size(width, height),
        parts,
        style=chart_style(len(groups)),
        css_class=_css_class(len(groups)),
    )


def _theme_rules(theme: Theme, count: int, css_class: str) -> str:
    colors = theme.series_colors(count)
    return rules(
        {
            **{f".s{index}": f"stroke:{color}" for index, color in enumerate(colors)},
            **{f".f{index}": f"fill:{color}" for index, color in enumerate(colors)},
            ".grid": f"stroke:{theme.line}",
            ".axis,.mark": f"stroke:{theme.muted}",
            ".d": f"fill:{theme.muted};stroke:{theme.page}",
        },
        css_class,
    )


def chart_style(count: int) -> str:
    """Return the rules of a chart with some groups of series: they have a colour each.

    The classes: c curve (v: dashed), s0 and f0 line and fill of the first group, grid, axis, mark, y number of the y
    axis, d label of a mark.
    """
    css_class, is_crowded = _css_class(count), count > MAX_ROW_LEGEND
    shared = rules(
        {
            ".c": f"fill:none;stroke-width:{1.4 if is_crowded else 1.9};stroke-linejoin:round",
            ".c.v": f"stroke-dasharray:6 3;stroke-opacity:{0.55 if is_crowded else 1}",
            ".grid": "stroke-width:1;stroke-opacity:.25",
            ".axis": "stroke-width:1;fill:none",
            ".mark": "stroke-width:1;stroke-dasharray:2 3;fill:none",
            ".y": "text-anchor:end",
            ".d": f"font-size:{MARK_SIZE:g}px;text-anchor:start;paint-order:stroke;stroke-width:3px",
        },
        css_class,
    )
    dark = _theme_rules(DARK, count, css_class)
    return f"{shared}{_theme_rules(LIGHT, count, css_class)}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def _css_class(count: int) -> str:
    """Return the class of charts with some groups: on a page with several charts, each has its own colours."""
    return f"chart-{count}"


# ---- ranges and ticks


def _groups(panels: Sequence[CurvesLike]) -> list[str]:
    """Return the groups in the order of their last values, the greatest first, as the curves end at the right."""
    last = _last_values(panels)
    names = dict.fromkeys(series.group or series.name for curves in panels for series in curves.series)
    return sorted(names, key=lambda name: -last.get(name, -math.inf)) if len(names) > MAX_ROW_LEGEND else list(names)


def _x_range(panels: Sequence[CurvesLike]) -> Range:
    values = [float(x) for curves in panels for series in curves.series for x, _ in series.points]
    return _widened(min(values, default=0.0), max(values, default=1.0))


def _widened(low: float, high: float) -> Range:
    """Return a range that is not empty."""
    if low == high:
        padding = abs(low) / 10 or 1.0
        return Range(low - padding, high + padding)
    return Range(low, high)


def ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return about `count` round numbers that cover a range."""
    span = high / count - low / count
    if not 0 < span < math.inf:
        return (low, high)
    power = 10.0 ** math.floor(math.log10(span))
    step = next((factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= span * 0.8), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(index * step for index in range(first, last + 1))


def _panel(curves: CurvesLike, x_range: Range, top: float) -> Panel:
    values = [y for series in curves.series for _, y in series.points]
    low, high = _widened(min(values, default=0.0), max(values, default=1.0))
    height = STEP_HEIGHT if all(series.is_step for series in curves.series) else PLOT_HEIGHT
    padding = min(high / 20 - low / 20, MAX_FLOAT / 4)
    y_range = Range(max(low - padding, -MAX_FLOAT), min(high + padding, MAX_FLOAT))
    return Panel(curves, x_range, y_range, _inside(y_range, 3 if height < PLOT_HEIGHT else 5), top, height)


def _inside(values: Range, count: int) -> tuple[float, ...]:
    """Return round numbers inside a range, or its ends if there are none."""
    inside = tuple(value for value in ticks(*values, count) if values.low <= value <= values.high)
    return inside if len(inside) > 1 else tuple(values)


def _x_ticks(values: Range) -> list[float]:
    """Return the numbers of the x axis: round ones, and the first x unless it is close to one of them."""
    chosen = list(_inside(values, 8))
    if values.low.is_integer() and values.high.is_integer():
        chosen = [value for value in chosen if value.is_integer()] or list(values)
    if len(chosen) > 1 and values.low < chosen[0] and chosen[0] - values.low > (chosen[1] - chosen[0]) * 0.35:
        chosen.insert(0, values.low)
    return chosen


def tick_labels(values: Sequence[float]) -> list[str]:
    """Return numbers with as few digits as distinguish them."""
    labels: list[str] = []
    for digits in range(3, 18):
        labels = [f"{value:.{digits}g}" for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels


# ---- panels


def _draw_panel(panel: Panel, groups: list[str], labels: Sequence[MarkLabel], *, is_last: bool) -> str:
    start, end = PADDING + AXIS_WIDTH, PADDING + AXIS_WIDTH + PLOT_WIDTH
    bottom = panel.top + panel.height
    curves = panel.curves
    note = f" ({curves.note})" if curves.note else ""
    rows = 1 + max((label.row for label in labels), default=-1)
    title = escape(shorten(curves.y, 300, 13.0, bold=True))
    heading = f'{title}<tspan class="m" font-weight="400">{escape(note)}</tspan>'
    parts = [f'<text class="b" x="{number(start)}" y="{number(panel.top - 12 - MARK_ROW * rows)}">{heading}</text>']
    for value, label in zip(panel.ticks, tick_labels(panel.ticks), strict=True):
        y = number(panel.point(panel.x.low, value)[1])
        parts.append(f'<path class="grid" d="M{number(start)} {y}H{number(end)}"/>')
        parts.append(f'<text class="m y" x="{number(start - 7)}" y="{number(float(y) + 4)}">{label}</text>')
    x_ticks = _x_ticks(panel.x)
    for value, label in zip(x_ticks, tick_labels(x_ticks), strict=True):
        x = number(panel.point(value, panel.y.low)[0])
        parts.append(f'<path class="axis" d="M{x} {number(bottom)}v4"/>')
        parts.append(f'<text class="m" x="{x}" y="{number(bottom + 16)}">{label}</text>')
    parts.append(f'<path class="axis" d="M{number(start)} {number(bottom)}H{number(end)}"/>')
    if is_last:
        middle = number((start + end) / 2)
        parts.append(f'<text class="m" x="{middle}" y="{number(bottom + 33)}">{escape(curves.x)}</text>')
    parts.append(_marks(panel, groups, labels))
    parts += [_curve(panel, series, groups.index(series.group or series.name)) for series in curves.series]
    return "\n".join(filter(None, parts))


def _curve(panel: Panel, series: SeriesLike, color: int) -> str:
    """Return the line of a series; a point that has no neighbour is a dot."""
    css = f"c s{color}" + (" v" if series.is_dashed else "")
    title = f"<title>{escape(series.name)}</title>"
    points = [panel.point(float(x), y) for x, y in series.stairs()]
    if len(points) == 1:
        (x, y), fill = points[0], f"f{color}"
        return f'<circle class="{fill}" cx="{number(x)}" cy="{number(y)}" r="3">{title}</circle>'
    path = "L".join(f"{number(x)} {number(y)}" for x, y in thinned(points))
    return f'<path class="{css}" d="M{path}">{title}</path>'


def thinned(points: Sequence[Point]) -> list[Point]:
    """Return the points, or of very many the first, the extremes and the last in each column of pixels."""
    if len(points) <= MAX_POINTS:
        return list(points)
    columns: dict[int, list[Point]] = {}
    for point in points:
        columns.setdefault(round(point[0]), []).append(point)
    chosen: list[Point] = []
    for column in columns.values():
        low, high = min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1])
        extremes = {column[0], low, high, column[-1]}
        chosen += [point for point in dict.fromkeys(column) if point in extremes]
    return chosen


class MarkLabel(NamedTuple):
    """The label of a mark: where it begins, in which row above the curves, and its text."""

    mark: MarkLike
    x: float
    row: int
    text: str


def _mark_labels(marks: Sequence[MarkLike], x_range: Range) -> list[MarkLabel]:
    """Return the labels of a few marks, in as many rows as they need."""
    shown = sorted((mark for mark in marks if x_range.low <= mark.x <= x_range.high), key=lambda mark: mark.x)
    if len(shown) > MAX_LABELLED_MARKS:
        return []
    labels: list[MarkLabel] = []
    ends: list[float] = []  # right end of the last label in each row
    start, end = PADDING + AXIS_WIDTH, PADDING + AXIS_WIDTH + PLOT_WIDTH
    for mark in shown:
        text = shorten(mark.label, 220.0, MARK_SIZE)
        width = text_width(text, MARK_SIZE)
        x = min(start + x_range.share(mark.x) * PLOT_WIDTH - 3, end - width)
        row = next((index for index, last in enumerate(ends) if last < x - 8), len(ends))
        ends[row : row + 1] = [x + width]
        labels.append(MarkLabel(mark, x, row, text))
    return labels


def _marks(panel: Panel, groups: list[str], labels: Sequence[MarkLabel]) -> str:
    """Return the marks: vertical lines with labels above for one group, triangles on the curves of several."""
    marks = [mark for mark in panel.curves.marks if panel.x.low <= mark.x <= panel.x.high]
    if len(groups) > 1:
        return "".join(_triangle(panel, mark, groups) for mark in marks)
    bottom = panel.top + panel.height
    if len(marks) > MAX_MARK_LINES:
        path = "".join(f"M{number(panel.point(mark.x, panel.y.low)[0])} {number(bottom)}v-6" for mark in marks)
        return f'<path class="axis" d="{path}"><title>{len(marks):,} adaptations</title></path>'
    rows = {id(label.mark): label.row + 1 for label in labels}
    parts = []
    for mark in marks:
        x = number(panel.point(mark.x, panel.y.low)[0])
        top = number(panel.top - MARK_ROW * rows.get(id(mark), 0) + (4 if id(mark) in rows else 0))
        title = f"<title>{escape(mark.label)}</title>"
        parts.append(f'<path class="mark" d="M{x} {top}V{number(bottom)}">{title}</path>')
    for label in labels:
        y = number(panel.top - MARK_ROW * label.row - 3)
        parts.append(f'<text class="d" x="{number(label.x)}" y="{y}">{escape(label.text)}</text>')
    return "".join(parts)


def _triangle(panel: Panel, mark: MarkLike, groups: list[str]) -> str:
    """Return a triangle on the first curve of the mark's group."""
    series = next((series for series in panel.curves.series if series.group == mark.group and series.points), None)
    if series is None:
        return ""
    y = min(series.points, key=lambda point: abs(float(point[0]) - mark.x))[1]
    x, top = panel.point(mark.x, y)
    fill = f"f{groups.index(mark.group)}"
    corners = f"M{number(x)} {number(top - 2)}l-4.5 -8h9z"
    return f'<path class="{fill}" d="{corners}"><title>{escape(f"{mark.group}: {mark.label}")}</title></path>'


# ---- legend


def _parts(panels: Sequence[CurvesLike]) -> list[tuple[str, bool]]:
    """Return the parts that lines show, if there are several: training solid, validation dashed."""
    parts = dict.fromkeys(
        (series.part, series.is_dashed) for curves in panels for series in curves.series if series.part
    )
    return list(parts) if len({is_dashed for _, is_dashed in parts}) > 1 else []


def _entries(panels: Sequence[CurvesLike], groups: list[str]) -> list[tuple[str, str]]:
    """Return the entries of a legend: a symbol at (0, 0), 24 pixels wide, and its text."""
    entries = []
    if len(groups) > 1:
        for index, name in enumerate(groups):
            entries.append((f'<path class="c s{index}" d="M0 0h22"/>', name))
    for part, is_dashed in _parts(panels):
        entries.append((f'<path class="c axis{" v" if is_dashed else ""}" d="M0 0h22"/>', part))
    if any(curves.marks for curves in panels):
        symbol = '<path class="a" d="M11 4l-4.5 -8h9z"/>' if len(groups) > 1 else '<path class="mark" d="M11 -6v12"/>'
        entries.append((symbol, "adaptation"))
    return entries


def _row_legend(panels: Sequence[CurvesLike], groups: list[str], top: float) -> tuple[str, float]:
    """Return the legend in rows above the panels, and its height."""
    parts, x, y = [], PADDING + AXIS_WIDTH, top
    entries = _entries(panels, groups)
    for symbol, name in entries:
        text = shorten(name, PLOT_WIDTH * 0.7, FONT_SIZE, middle=True)
        width = 30 + text_width(text, FONT_SIZE) + 18
        if x + width > PADDING + AXIS_WIDTH + PLOT_WIDTH and x > PADDING + AXIS_WIDTH:
            x, y = PADDING + AXIS_WIDTH, y + LEGEND_ROW
        parts.append(_entry(symbol, text, name, (x, y)))
        x += width
    return "".join(parts), (y - top + LEGEND_ROW + 6) if entries else 0.0


def _column_legend(panels: Sequence[CurvesLike], groups: list[str], origin: Point) -> tuple[str, Size]:
    """Return the legend as a column with the last values of the first panel, and its size."""
    x, top = origin
    parts = []
    entries = _entries(panels, groups)
    last = _last_values(panels)
    texts = [shorten(name, MAX_LEGEND_WIDTH, FONT_SIZE, middle=True) for _, name in entries]
    width = 28 + max(text_width(text, FONT_SIZE) for text in texts)
    for row, ((symbol, name), text) in enumerate(zip(entries, texts, strict=True)):
        y = top + 4 + row * LEGEND_ROW
        parts.append(_entry(symbol, text, name, (x, y)))
        if name in last:
            parts.append(f'<text class="m y" x="{number(x + width + 56)}" y="{number(y + 4)}">{last[name]:.4g}</text>')
    return "".join(parts), Size(width + 56 + PADDING, len(entries) * LEGEND_ROW)


def _last_values(panels: Sequence[CurvesLike]) -> dict[str, float]:
    """Return the last value of the first series of each group, in the first panel."""
    first = panels[0].series if panels else ()
    return {(series.group or series.name): series.points[-1][1] for series in reversed(first) if series.points}


def _entry(symbol: str, text: str, name: str, place: Point) -> str:
    return (
        f'<g transform="translate({number(place[0])} {number(place[1])})">{symbol}'
        f'<text class="m w" x="28" y="4">{escape(text)}<title>{escape(name)}</title></text></g>'
    )
