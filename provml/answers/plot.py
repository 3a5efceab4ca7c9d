"""Curves of an answer: which columns make them, their points, and their drawing with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from provml.answers.table import Row, format_cell
from provml.errors import MissingDependency, PlotError, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MAX_MARKERS = 40
"""Points are marked in curves that have no more than this."""
MAX_LABELLED_MARKS = 6
MAX_INNER_LEGEND = 8
"""With more series than this, the legend is outside the axes if the layout of the figure makes room for it."""

Point = tuple[Any, float]


@dataclass(frozen=True)
class Curve:
    """The columns of an answer that make curves: `y` over `x`, one curve for each value of the columns `by`."""

    x: str
    y: tuple[str, ...]
    by: tuple[str, ...] = ()
    y_label: str = ""
    """What y is, if the name of its column does not say it: loss."""
    unit: str = ""


@dataclass(frozen=True)
class Series:
    """The points of one curve, sorted by x.

    Series of one `group`, such as a run, have one colour; `part` tells them apart, such as training and validation. A
    setting is drawn in steps: its value at x held since the x before.
    """

    name: str
    points: list[Point]
    group: str = ""
    part: str = ""
    is_dashed: bool = False
    is_step: bool = False

    def stairs(self) -> list[Point]:
        """Return the points, for steps with the corners between them."""
        if not self.is_step:
            return self.points
        corners = [[(x, next_y), (next_x, next_y)] for (x, _), (next_x, next_y) in pairwise(self.points)]
        return [*self.points[:1], *(corner for pair in corners for corner in pair)]


@dataclass(frozen=True)
class Mark:
    """Something that happened at an x to the series of a group, such as an adaptation."""

    x: float
    label: str
    group: str = ""


@dataclass(frozen=True)
class Curves:
    """Series with the labels of the axes, and marks."""

    x: str
    y: str
    series: list[Series]
    skipped: int
    """Number of points that are NaN or infinite."""
    marks: list[Mark] = field(default_factory=list)
    measure: str = ""
    """What all series show; empty if their names say it."""

    @property
    def note(self) -> str:
        """A note on points that are not drawn."""
        return note_on_skipped(self.skipped)


def note_on_skipped(count: int) -> str:
    """Return a note on points that are not drawn; empty if there are none."""
    return f"{plural(count, 'point')} left out: NaN or infinite" if count else ""


class Columns:
    """The rows of an answer, by columns."""

    def __init__(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        self.names = names
        self.rows = rows

    def values(self, name: str) -> list[Any]:
        """Return the values of a column that are not missing."""
        index = self.names.index(name)
        return [row[index] for row in self.rows if row[index] is not None]

    def has_only(self, name: str, types: type | tuple[type, ...]) -> bool:
        """True if a column has values, all of some types; booleans are not numbers."""
        values = self.values(name)
        return bool(values) and all(isinstance(value, types) and not isinstance(value, bool) for value in values)

    def plottable(self) -> list[str]:
        """Return the columns of numbers or times."""
        return [name for name in self.names if self.has_only(name, (int, float, Decimal, datetime))]

    def advice(self) -> str:
        """Return advice on which columns can be plotted."""
        names = self.plottable()
        if not names:
            return "No column has numbers or times."
        if len(names) == 1:
            return f"Only the column {names[0]} has numbers or times."
        return (
            f"Columns with numbers or times: {', '.join(names)}. Use plot(x={names[0]!r}, y={names[-1]!r}) or others."
        )


def curves(
    columns: Columns,
    curve: Curve | None,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
) -> Curves:
    """Return the curves of an answer: those of its question, unless columns are named."""
    curve = _choose(columns, curve, x, y, by)
    for name in (curve.x, *curve.y, *curve.by):
        if name not in columns.names:
            raise PlotError(f"No column {name!r}", columns.advice())
    points, skipped = _points(columns, curve)
    if not points:
        reason = "all points are NaN or infinite" if skipped else "there are no points"
        raise PlotError(f"Nothing to plot: {reason}", "Choose a training that has some.")
    try:
        series = [Series(name, sorted(group, key=lambda point: point[0])) for name, group in points.items()]
    except TypeError:
        raise PlotError(f"The column {curve.x} has both numbers and times", columns.advice()) from None
    label = curve.y_label or ", ".join(curve.y)
    measure = label if len(curve.y) == 1 else ""
    return Curves(curve.x, f"{label} ({curve.unit})" if curve.unit else label, series, skipped, measure=measure)


def section_positions(sections: Iterable[tuple[str, int, int | None]]) -> dict[tuple[str, int], float]:
    """Return where the sections of stages are drawn, in epochs: a validation at the end of the epoch that it validated.

    Several validations of an epoch, such as those of a Trainer at steps, are spread over the epoch. A section is a
    stage, an index, and the index of the epoch that it validated.
    """
    positions: dict[tuple[str, int], float] = {}
    by_epoch: dict[tuple[str, int], list[int]] = {}
    for stage, index, validated in sections:
        positions[stage, index] = index
        if validated is not None:
            by_epoch.setdefault((stage, validated), []).append(index)
    for (stage, epoch), indices in by_epoch.items():
        for number, index in enumerate(sorted(indices), 1):
            is_last = number == len(indices)
            positions[stage, index] = epoch if is_last else epoch - 1 + number / len(indices)
    return positions


def _points(columns: Columns, curve: Curve) -> tuple[dict[str, dict[Point, None]], int]:
    """Return the distinct finite points of each series by its name, and the number of other points."""
    points: dict[str, dict[Point, None]] = {}
    skipped = 0
    for name, x, y in _coordinates(columns, curve):
        if y - y != 0.0 or (isinstance(x, float) and x - x != 0.0):
            skipped += 1
        else:
            points.setdefault(name, {})[x, y] = None
    return points, skipped


def _coordinates(columns: Columns, curve: Curve) -> Iterator[tuple[str, Any, float]]:
    """Yield the name of the series, x and y of each point."""
    x_index = columns.names.index(curve.x)
    group_indexes = [columns.names.index(name) for name in curve.by]
    for column in curve.y:
        y_index = columns.names.index(column)
        for row in columns.rows:
            if row[x_index] is None or row[y_index] is None:
                continue
            words = [format_cell(row[index]) for index in group_indexes]
            if len(curve.y) > 1 or not words:
                words.append(column if len(curve.y) > 1 else curve.y_label or column)
            yield " ".join(words), _coordinate(curve.x, row[x_index]), _number(column, row[y_index])


def _choose(
    columns: Columns,
    curve: Curve | None,
    x: str | None,
    y: str | Sequence[str] | None,
    by: str | Sequence[str] | None,
) -> Curve:
    """Return the curve of the question, with the columns that are named instead of its own."""
    if x is None and y is None and by is None and curve is not None:
        return curve
    if curve is None:
        if x is None or y is None:
            raise PlotError("This answer has no curve of its own", columns.advice())
        curve = Curve(x, ())
    columns_y = curve.y if y is None else _as_tuple(y)
    is_same = columns_y == curve.y
    return Curve(
        curve.x if x is None else x,
        columns_y,
        curve.by if by is None else _as_tuple(by),
        curve.y_label if is_same else "",
        curve.unit if is_same else "",
    )


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def guess_curve(names: Sequence[str], rows: Sequence[Row]) -> Curve:
    """Return the likely curve of a query: the first column of numbers or times is x, the other numbers are y.

    Columns of nodes and text distinguish the series.
    """
    columns = Columns(names, rows)
    plottable = columns.plottable()
    y = tuple(name for name in plottable[1:] if not columns.has_only(name, datetime))
    if not y:
        advice = "Select a column of numbers or times, then one or more columns of numbers."
        raise PlotError("There are no two columns to plot", advice)
    by = tuple(name for name in names if name not in plottable and columns.has_only(name, str))
    return Curve(plottable[0], y, by)


def _coordinate(column: str, value: Any) -> Any:
    """Return a position on the x axis: a number, or a time with a time zone."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.astimezone()
    return value if value.__class__ is int else _number(column, value)


def _number(column: str, value: Any) -> float:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise PlotError(f"The column {column} has {format_cell(value)!r}, which is not a number", "Choose another column.")


@dataclass
class _Drawing:
    """What was drawn on axes by one call or several."""

    lines: list[tuple[Line2D, Series, Curves]]
    title: str = ""
    skipped: int = 0

    @classmethod
    def of(cls, axes: Axes) -> _Drawing:
        """Return the drawing on axes, without lines that were removed."""
        drawing: _Drawing = getattr(axes, "_provml_drawing", None) or cls([])
        drawing.lines = [item for item in drawing.lines if item[0].axes is axes]
        if not drawing.lines:
            drawing = cls([])
        axes._provml_drawing = drawing  # type: ignore[attr-defined]  # it has to live exactly as long as the axes
        return drawing

    def set_labels(self, axes: Axes) -> None:
        """Label the y axis and the lines; the name of a line includes its measure if there are several."""
        axes.set_ylabel(", ".join(dict.fromkeys(curves.y for _, _, curves in self.lines)))
        measures = {curves.measure for _, _, curves in self.lines}
        for line, series, curves in self.lines:
            is_named = len(measures) == 1 or curves.measure in ("", series.name)
            line.set_label(series.name if is_named else f"{series.name} {curves.measure}")


def draw(curves: Curves, axes: Axes | None = None, label: str = "") -> Axes:
    """Draw curves with matplotlib and return the axes. Curves that are already on the axes stay.

    `label` is the name of a single curve, and the start of the names of several.
    """
    try:
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingDependency("matplotlib", "plot") from None
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(layout="constrained")
    drawing = _Drawing.of(axes)
    styles = _line_styles(curves, len(drawing.lines))
    for series, style in zip(_renamed(curves.series, label), styles, strict=True):
        x, y = zip(*series.points, strict=True)
        marker = "o" if len(x) <= MAX_MARKERS and not series.is_step else ""
        [line] = axes.plot(x, y, marker=marker, markersize=3.5, **style)
        drawing.lines.append((line, series, curves))
    _draw_marks(curves, axes, [style["color"] for style in styles])
    drawing.skipped += curves.skipped
    drawing.set_labels(axes)
    axes.set_xlabel(curves.x)
    if all(x.__class__ is int for _, series, _ in drawing.lines for x, _ in series.points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif any(isinstance(x, datetime) for series in curves.series for x, _ in series.points):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]  # matplotlib.dates has no types
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # likewise
        axes.set_xlabel(f"{curves.x} (UTC)")
    _add_legend(drawing, axes)
    return axes


def _renamed(series: list[Series], label: str) -> list[Series]:
    if not label:
        return series
    return [replace(item, name=label if len(series) == 1 else f"{label} {item.name}") for item in series]


def draw_panels(panels: Sequence[Curves], axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Draw each of several curves on axes of its own, below each other unless axes are given."""
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise MissingDependency("matplotlib", "plot") from None
        _, grid = pyplot.subplots(len(panels), **_figure_options(len(panels)))
        axes = [row[0] for row in grid]
    if len(axes) != len(panels):
        reason = f"{plural(len(panels), 'measure')} cannot be drawn on {len(axes)} axes"
        raise PlotError(reason, "Pass as many axes as measures, or none.")
    drawn = [draw(curves, each) for curves, each in zip(panels, axes, strict=True)]
    for each in drawn[:-1]:
        if each.get_shared_x_axes().joined(each, drawn[-1]):  # the lowest panel names the common axis
            each.set_xlabel("")
    return drawn


def new_figure(count: int) -> Figure:
    """Return a figure with axes below each other that no window will show."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "plot") from None
    options = _figure_options(count)
    figure = Figure(figsize=options.pop("figsize"), layout=options.pop("layout"))
    figure.subplots(count, **options)
    return figure


def _figure_options(count: int) -> dict[str, Any]:
    """Return the options of a figure with panels that have a common x axis."""
    size = (6.4, 4.8 if count == 1 else 2.6 * count + 1)
    return {"sharex": True, "squeeze": False, "layout": "constrained", "figsize": size}


def _line_styles(curves: Curves, drawn: int) -> list[dict[str, Any]]:
    """Return the options of each line, after a number of lines that were drawn before.

    A group has a colour, a dashed series has dashes. Ten colours repeat.
    """
    styles = ("-", "--", ":", "-.")
    groups = list(dict.fromkeys(series.group or series.name for series in curves.series))
    options = []
    for series in curves.series:
        number = drawn + groups.index(series.group or series.name)
        style = "--" if series.is_dashed else "-" if series.group else styles[number // 10 % len(styles)]
        shape = "steps-pre" if series.is_step else "default"
        options.append({"color": f"C{number % 10}", "linestyle": style, "drawstyle": shape})
    return options


def _draw_marks(curves: Curves, axes: Axes, colors: Sequence[str]) -> None:
    """Draw marks: triangles on the curves of several groups, or lines, with labels if they are few."""
    groups = {series.group: number for number, series in reversed(list(enumerate(curves.series))) if series.group}
    for mark in curves.marks:
        if len(groups) > 1 and mark.group in groups:
            number = groups[mark.group]
            y = min(curves.series[number].points, key=lambda point: abs(point[0] - mark.x))[1]
            axes.plot([mark.x], [y], "v", color=colors[number], markersize=7, label="_mark")
            continue
        axes.axvline(mark.x, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        if len(curves.marks) <= MAX_LABELLED_MARKS:
            place = axes.get_xaxis_transform()
            style: dict[str, Any] = {"rotation": 90, "va": "top", "fontsize": "x-small", "color": "0.4"}
            axes.text(mark.x, 0.99, f" {mark.label}", transform=place, **style)


def _add_legend(drawing: _Drawing, axes: Axes) -> None:
    """Name the lines, also those of earlier calls: in a legend, or a single one in the title."""
    _, labels = axes.get_legend_handles_labels()
    count = len(labels)
    has_own_title = axes.get_title(loc="left") != drawing.title  # the title of the user stays
    if count > MAX_INNER_LEGEND and axes.figure.get_layout_engine() is None:  # outside, it would be cut off
        axes.legend(fontsize="x-small", ncols=2)
    elif count > MAX_INNER_LEGEND:
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=1 + count // 25)
    elif count > 1:
        axes.legend(fontsize="small")
    if not has_own_title:
        drawing.title = labels[0] if count == 1 else ""
        axes.set_title(drawing.title, loc="left", fontsize="medium")
    note = note_on_skipped(drawing.skipped)
    if note:
        axes.set_title(note, loc="right", fontsize="small", color="gray")
