"""A comparison of runs as text that fits the terminal, for `compare`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from provml.answers import format_cell, single_line
from provml.cli.run_table import GAP, Column, cut, lines_of, wrap
from provml.cli.terminal import GENERATED_ID
from provml.store.compare import LINEAGE, RunComparison

MIN_CELL_WIDTH = 8
DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")


def format_comparison(comparison: RunComparison, width: int | None) -> str:
    """Return the differences as a table that fits the terminal, and below it what is the same."""
    lines = _differences(comparison, width) or ["The runs do not differ in what was recorded."]
    lineage = [row for row in comparison.differences.rows if row[0] == LINEAGE]
    if lineage:
        lines += ["", click.style("first difference in the lineage", bold=True)]
        lines += [line for row in lineage for line in _lineage_lines(comparison, row, width)]
    same = [f"{name} = {short_text(value)}" for _, name, value, *_ in comparison.equal.rows]
    return "\n".join([*lines, *(["", *wrap("same in all runs: ", same, width)] if same else [])])


def _differences(comparison: RunComparison, width: int | None) -> list[str]:
    rows = [row for row in comparison.differences.rows if row[0] != LINEAGE]
    if not rows:
        return []
    columns = [
        Column("what", "what", _without_repetition([row[0] for row in rows])),
        Column("name", "name", [row[1] for row in rows]),
    ]
    columns += [
        Column(info.id, label, [short_text(row[2 + index]) for row in rows])
        for index, (info, label) in enumerate(zip(comparison.runs, _labels(comparison), strict=True))
    ]
    return [cut(line, width) for line in lines_of(_narrowed(columns, width))]


def _labels(comparison: RunComparison) -> list[str]:
    """Return the labels of the runs: ids that somebody chose, else names if no other run here has the same."""
    names = [info.name for info in comparison.runs]
    return [
        single_line(info.name) if GENERATED_ID.match(info.id) and names.count(info.name) == 1 else info.id
        for info in comparison.runs
    ]


def _lineage_lines(comparison: RunComparison, row: tuple[Any, ...], width: int | None) -> list[str]:
    """Return the path to the first step or dataset that differs, and below it what the two runs have there."""
    first, *others = zip(_labels(comparison), row[2:], strict=True)
    present = [first, *((label, value) for label, value in others if value is not None)]
    lines = [row[1], *(f"  {label}: {short_text(value)}" for label, value in present)]
    return [cut(line, width) for line in lines]


def _without_repetition(texts: Sequence[str]) -> list[str]:
    return [text if index == 0 or texts[index - 1] != text else "" for index, text in enumerate(texts)]


def short_text(value: Any) -> str:
    """Return a value as a cell, with digests of 12 digits."""
    return format_cell(DIGEST.sub(lambda match: match[0][:12], value) if isinstance(value, str) else value)


def _narrowed(columns: list[Column], width: int | None) -> list[Column]:
    """Cut the cells of the widest columns until the table fits the width."""
    while width is not None and sum(column.width for column in columns) + len(GAP) * (len(columns) - 1) > width:
        widest = max(columns, key=lambda column: column.width)
        limit = widest.width - 1
        if limit < MIN_CELL_WIDTH:
            break
        widest.header = cut(widest.header, limit)
        widest.cells = [cut(cell, limit) for cell in widest.cells]
    return columns
