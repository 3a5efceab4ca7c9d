"""An answer: rows of Python values that print as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from provml.values import IRI, Literal, Text


class Answer:
    """The rows of a question, in order, with the names of their columns."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.rows[index]

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        return [row[self.columns.index(name)] for row in self.rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_csv(self) -> str:
        """The rows as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_plain(value) for value in row] for row in self.rows)
        return out.getvalue()

    def to_json(self) -> str:
        """The rows as a JSON list of objects."""
        rows = [{key: _plain(value) for key, value in row.items()} for row in self.to_dicts()]
        return json.dumps(rows, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        shown = [self.columns, *([_cell(value) for value in row] for row in self.rows)]
        widths = [max(len(row[index]) for row in shown) for index in range(len(self.columns))]
        numeric = [
            all(isinstance(row[i], (int, float)) or row[i] is None for row in self.rows) for i in range(len(widths))
        ]
        lines = [
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
            for row in shown
        ]
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, IRI):
        return value.name
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (IRI, Text, Literal)):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0.0 else str(value)
    return str(value)
