"""An answer: rows of Python values that print as a table."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

from provml.values import IRI

WIDEST = 100
"""How many characters a cell of a table shows; JSON and CSV have them all."""

SHORT = {
    "https://w3id.org/provml/": "",
    "https://w3id.org/provml#": "provml:",
    "https://w3id.org/provlake#": "provlake:",
    "http://www.w3.org/ns/prov#": "prov:",
    "http://www.w3.org/ns/mls#": "mls:",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs:",
    "http://www.w3.org/2002/07/owl#": "owl:",
    "http://www.w3.org/2001/XMLSchema#": "xsd:",
}
"""How a table shows the names of nodes: our own without their common beginning, known ones by their prefix."""


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
        if name not in self.columns:
            raise KeyError(f"There is no column {name!r}. There is {', '.join(self.columns)}.")
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_csv(self) -> str:
        """The rows as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([str(value).lower() if value.__class__ is bool else _plain(value) for value in row])
        return out.getvalue()

    def to_json(self) -> str:
        """The rows as a JSON list of objects."""
        return as_json(self.to_dicts())

    def __str__(self) -> str:
        shown = [[one_line(name) for name in self.columns], *([cell(value) for value in row] for row in self.rows)]
        widths = [max(_width(row[index]) for row in shown) for index in range(len(self.columns))]
        right = [_is_numeric([row[index] for row in self.rows]) for index in range(len(widths))]
        lines = [
            "  ".join(
                " " * (width - _width(text)) + text if to_right else text + " " * (width - _width(text))
                for text, width, to_right in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in shown
        ]
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join(lines)


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """Anything made of dictionaries, lists and values as JSON; what JSON has no word for is text."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False)


def cell(value: Any) -> str:
    """A value as people read it in one cell of a table."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}" if value - value == 0.0 else _special(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    text = str(value)
    if isinstance(value, IRI):
        for beginning, prefix in SHORT.items():
            if text.startswith(beginning) and text != beginning:
                text = prefix + text[len(beginning) :]
                break
    text = one_line(text)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def one_line(text: str) -> str:
    """Text without line breaks and without characters that would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _is_numeric(column: list[Any]) -> bool:
    """Whether a column holds numbers and nothing else, so that they stand under each other."""
    held = [value for value in column if value is not None]
    return bool(held) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in held)


def _special(value: float) -> str:
    """NaN and the infinities, as XSD writes them."""
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


def _plain(value: Any) -> Any:
    """A value as JSON or CSV has it: numbers exact, times in ISO 8601, all else as text."""
    if value is None or value.__class__ in (bool, int, str):
        return value
    if isinstance(value, float):
        return value if value - value == 0.0 else _special(value)
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value)
