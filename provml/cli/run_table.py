"""The table of runs as text that fits the terminal, for `runs`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from provml.answers.humanize import format_duration
from provml.answers.table import display_width, format_cell, is_numeric
from provml.cli.terminal import GENERATED_ID
from provml.errors import plural

if TYPE_CHECKING:
    from provml.store.run_table import RunTable

GAP = "  "
MIN_VALUES = 4
"""Hyperparameters and measures that take precedence over what is known of a run besides its id and status."""
MAX_LINES = 3
"""Lines of equal values, and of columns that do not fit."""
MAX_TEXT_WIDTH = 28
"""Width of a text cell on a terminal, where a long text would hide other columns."""
MIN_ERROR_WIDTH = 20
STATUS_COLORS = {
    "FAILED": "red",
    "INTERRUPTED": "yellow",
    "PRUNED": "yellow",
    "KILLED": "red",
    "LOST": "yellow",
    "RUNNING": "cyan",
    "FINISHED": "green",
}
SUMMARIZED = ("name", "model")
"""Columns of a run that are in the line of equal values if all rows have the same."""


@dataclass
class Column:
    """A column as text: the header, the cells, and a function that colours a padded cell."""

    name: str
    header: str
    cells: list[str]
    is_number: bool = False
    style: Callable[[str], str] | None = None

    @property
    def width(self) -> int:
        return max(map(display_width, [self.header, *self.cells]))

    def padded(self, text: str) -> str:
        padding = " " * (self.width - display_width(text))
        return padding + text if self.is_number else text + padding


def format_runs(table: RunTable, width: int | None) -> str:
    """Return the table, above it the values that all rows share, and below it the columns that do not fit."""
    columns = _columns(table, width)
    shown = _fitting(columns, _priority(columns, table), width)
    if len(shown) < len(columns):
        columns = _columns(table, width)
        columns[0].cells = [GENERATED_ID.sub("", run) for run in columns[0].cells]
        shown = _fitting(columns, _priority(columns, table), width)
    visible = set(map(id, shown))  # comparing columns takes seconds if there are 10,000
    hidden = [column.header for column in columns if id(column) not in visible]
    lines = []
    if shared := _shared(table):
        lines += [*wrap("same for all runs: ", shared, width), ""]
    lines += lines_of(shown)
    if hidden:
        lines += ["", *wrap("not shown: ", hidden, width, end=" (all: --format csv)")]
    return "\n".join(lines)


def lines_of(columns: Sequence[Column]) -> list[str]:
    """Return the lines of a table: the header, a rule, and the rows."""
    head = GAP.join(column.padded(column.header) for column in columns).rstrip()
    rule = GAP.join("─" * column.width for column in columns)
    rows = []
    for index in range(len(columns[0].cells)):
        cells = []
        for column in columns:
            text = column.padded(column.cells[index])
            bare = text.strip()
            cells.append(text.replace(bare, column.style(bare)) if column.style and bare else text)
        rows.append(GAP.join(cells).rstrip())
    return [click.style(head, bold=True), rule, *rows]


def wrap(label: str, items: Sequence[str], width: int | None, end: str = "") -> list[str]:
    """Return items in at most MAX_LINES lines of a width, separated by commas, after a label."""
    lines: list[str] = []
    line = label
    for number, item in enumerate(items):
        rest = f"{len(items) - number} more{end}"
        is_last = number == len(items) - 1
        text = item + (end if is_last else ", ")
        room = 0 if is_last or len(lines) < MAX_LINES - 1 else len(rest)
        if width and display_width(line + text.rstrip()) + room > width and line != label:
            if len(lines) == MAX_LINES - 1:
                line += rest
                break
            lines.append(line.rstrip())
            line = "  "
        line += text
    return [cut(text, width) for text in (*lines, line)]


def cut(text: str, width: int | None) -> str:
    """Return a text that fits a width."""
    if width is None or display_width(text) <= width:
        return text.rstrip()
    while text and display_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


# ---- columns


def _shared(table: RunTable) -> list[str]:
    """Return what all rows share; of a single row everything is shown in the table."""
    if len(table.rows) < 2:
        return []
    names = [*(name for name in SUMMARIZED if _is_summarized(table, name)), *table.constants]
    return [f"{name} = {format_cell(table.rows[0][name])}" for name in names]


def _is_summarized(table: RunTable, name: str) -> bool:
    return len(table.rows) > 1 and len({row[name] for row in table.rows}) == 1 and bool(table.rows[0][name])


def _columns(table: RunTable, width: int | None) -> list[Column]:
    rows, texts = table.rows, _Texts(width)
    columns = [Column("run", "run", [row["run"] for row in rows])]
    for name in ("name", "model"):
        if not _is_summarized(table, name):
            columns.append(Column(name, name, [texts.cell(row[name]) for row in rows]))
    columns += [
        Column("status", "status", [row["status"] for row in rows], style=_style_status),
        Column("started", "started", [texts.time(row["started"]) for row in rows]),
        Column("seconds", "duration", [_duration(row) for row in rows]),
    ]
    if "training" in table.run_columns:
        columns.append(Column("training", "training", [texts.cell(row.get("training")) for row in rows]))
    for name in table.varying if len(rows) > 1 else [*table.hyperparameters, *table.measures]:
        values = [row.get(name) for row in rows]
        is_measure = name in table.measures
        cells = [texts.cell(value, digits=4 if is_measure else 6) for value in values]
        columns.append(Column(name, format_cell(name), cells, is_numeric(values)))
    for name in ("parent", "tags"):
        columns.append(Column(name, name, [texts.cell(row[name]) for row in rows]))
    for name, cells in (("warning", [_warning(row) for row in rows]), ("error", [row["error"] for row in rows])):
        if any(cells):
            style = _style_warning if name == "warning" else None
            columns.append(Column(name, name, [format_cell(cell or None) for cell in cells], style=style))
    return [column for column in columns if column.name in ("run", "status") or any(column.cells)]


class _Texts:
    """Values as text; shorter on a terminal than in a file."""

    def __init__(self, width: int | None) -> None:
        self.is_short = width is not None
        self.year = datetime.now().astimezone().year

    def cell(self, value: Any, digits: int = 6) -> str:
        if self.is_short and isinstance(value, float) and value - value == 0.0:
            return f"{value:.{digits}g}"
        text = format_cell(value)
        return cut(text, MAX_TEXT_WIDTH) if self.is_short else text

    def time(self, value: datetime) -> str:
        local = value.astimezone()
        if not self.is_short:
            return format_cell(value)
        return f"{local:%m-%d %H:%M}" if local.year == self.year else f"{local:%Y-%m-%d}"


def _duration(row: dict[str, Any]) -> str:
    """Return the duration of a run; of a running one, the time since its start."""
    if row["seconds"] is None and row["status"] == "RUNNING":
        return format_duration(max(time.time() - row["started"].timestamp(), 0.0))
    return format_duration(row["seconds"])


def _warning(row: dict[str, Any]) -> str:
    """Return signs: evaluation data in the training, and errors inside provml while the run was recorded."""
    errors = row.get("capture_errors") or 0
    lost = row.get("lost_batches") or 0
    signs = {"leakage": row.get("leakage"), plural(errors, "capture error"): errors}
    signs[f"{lost:,} lost {'batch' if lost == 1 else 'batches'}"] = lost
    return ", ".join(sign for sign, value in signs.items() if value)


def _style_status(text: str) -> str:
    return click.style(text, fg=STATUS_COLORS.get(text))


def _style_warning(text: str) -> str:
    return click.style(text, fg="yellow")


# ---- fit


def _priority(columns: Sequence[Column], table: RunTable) -> list[Column]:
    """Return the columns, the most important first."""
    by_name = {column.name: column for column in columns}
    measures = [by_name[name] for name in table.varying if name in by_name and name in table.measures]
    settings = [by_name[name] for name in table.varying if name in by_name and name in table.hyperparameters]
    values = [column for pair in zip_longest(measures, settings) for column in pair if column is not None]
    values += [by_name[name] for name in table.constants if name in by_name]
    values.sort(key=lambda column: (column.name != table.sort_column, table.is_partial(column.name)))
    names = ("run", "name") if all(GENERATED_ID.match(row["run"]) for row in table.rows) else ("run",)
    first = [by_name[name] for name in (*names, "status", "training", "warning") if name in by_name]
    others = [
        by_name[name]
        for name in ("tags", "seconds", "started", "model", "name", "parent", "error")
        if name in by_name and by_name[name] not in first
    ]
    return [*first, *values[:MIN_VALUES], *others, *values[MIN_VALUES:]]


def _fitting(columns: Sequence[Column], priority: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that fit the width, in their order. A long error is cut, other columns are left out."""
    if width is None:
        return list(columns)
    shown: list[Column] = []
    used = -len(GAP)
    for column in priority:
        room = width - used - len(GAP)
        if column.name == "error" and MIN_ERROR_WIDTH <= room < column.width:
            column.cells = [cut(cell, max(room, MIN_ERROR_WIDTH)) for cell in column.cells]
        if column.width <= room or not shown:
            shown.append(column)
            used += len(GAP) + column.width
    return [column for column in columns if column in shown]
