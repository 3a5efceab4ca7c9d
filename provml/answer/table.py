"""Rows as a table that people read, in text and in HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
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

Row = tuple[Any, ...]


def as_text(columns: Sequence[str], rows: Sequence[Row], more: int = 0) -> str:
    """Rows below the names of their columns; `more` is how many are not shown."""
    shown = [[one_line(name) for name in columns], *([cell(value) for value in row] for row in rows)]
    widths = [max(width_of(row[index]) for row in shown) for index in range(len(columns))]
    right = [is_numeric([row[index] for row in rows]) for index in range(len(widths))]
    lines = [
        "  ".join(
            " " * (width - width_of(text)) + text if to_right else text + " " * (width - width_of(text))
            for text, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in shown
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([*lines, _more(more)] if more else lines)


def as_html(columns: Sequence[str], rows: Sequence[Row], more: int = 0) -> str:
    """The same for a notebook. A node shows its whole name when it is pointed at; nothing that a value holds is run."""
    from html import escape

    sides = ["right" if is_numeric([row[index] for row in rows]) else "left" for index in range(len(columns))]

    def put(tag: str, side: str, value: Any, text: str) -> str:
        title = f' title="{escape(value)}"' if isinstance(value, IRI) else ""
        return f'<{tag} style="text-align: {side}"{title}>{escape(text)}</{tag}>'

    head = "".join(put("th", side, None, one_line(name)) for name, side in zip(columns, sides, strict=True))
    body = (
        "".join(put("td", side, value, cell(value)) for value, side in zip(row, sides, strict=True)) for row in rows
    )
    lines = ["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *(f"<tr>{cells}</tr>" for cells in body)]
    return "\n".join([*lines, "</tbody>", "</table>", *([f"<p>{_more(more)}</p>"] if more else [])])


def _more(count: int) -> str:
    return f"… {count} more row{'s'[: count != 1]}"


def cell(value: Any) -> str:
    """A value as people read it in one cell of a table."""
    if value is None:
        return ""
    if isinstance(value, (float, Decimal)):
        value = float(value)
        return f"{value:.6g}" if value - value == 0.0 else special(value)
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


def special(value: float) -> str:
    """NaN and the infinities, as XSD writes them."""
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_numeric(column: list[Any]) -> bool:
    """Whether a column holds numbers and nothing else, so that they stand under each other."""
    held = [value for value in column if value is not None]
    return bool(held) and all(
        isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) for value in held
    )
