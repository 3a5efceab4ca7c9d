"""Rows as a table for people, in text and in HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from provml.errors import plural
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, NODES, OWL, PROV, PROVLAKE, PROVML, RDF, RDFS, XSD

MAX_CELL_WIDTH = 100
"""Characters that a cell of a table shows; JSON and CSV have all."""
MAX_WRAPPED_LENGTH = 400
"""Characters that a cell shows in several lines."""
GENERATED_TIME = re.compile(r"(?<=^run/)\d{8}-\d{6}-(?=[0-9a-f]{6}(/|$))")
"""The time in the id of a run, which a narrow table leaves out. Commands find a run by the rest of its id, too."""
MIN_CELL_WIDTH = 12
"""The least width to which a column of texts is narrowed."""

SHORT_NAMESPACES = {
    NODES: "",
    PROVML: "provml:",
    PROVLAKE: "provlake:",
    PROV: "prov:",
    MLS: "mls:",
    RDF: "rdf:",
    RDFS: "rdfs:",
    OWL: "owl:",
    XSD: "xsd:",
}
"""How a table abbreviates IRIs: nodes of provml without their namespace, terms of known vocabularies by prefix."""

NOTEBOOK_STYLE = (
    ".provml-table{border-collapse:collapse;font-variant-numeric:tabular-nums;background:#ffffff}"
    ".provml-table th,.provml-table td{padding:.25em .7em;border:0;border-bottom:1px solid #d8dee4;"
    "vertical-align:baseline}"
    ".provml-table th{color:#57606a;font-weight:600}.provml-table td{color:#1c2128}"
    "@media screen and (prefers-color-scheme:dark){.provml-table{background:#0f1419}"
    ".provml-table th,.provml-table td{border-color:#2a323b}"
    ".provml-table th{color:#9aa7b5}.provml-table td{color:#e6edf3}}"
)
"""The look of the viewer for tables in notebooks, in the colours of `provml.drawing.palette`.

It has a background, because a notebook can be light where the system is dark.
"""

Row = tuple[Any, ...]


def text_table(columns: Sequence[str], rows: Sequence[Row], more: int = 0, width: int | None = None) -> str:
    """Return rows as a text table; `more` is the number of rows that are not in it.

    A table that is wider than `width` has its texts wrapped. If that is not enough, each row is a list of its values.
    """
    limit = MAX_CELL_WIDTH if width is None else MAX_WRAPPED_LENGTH
    head, *body = [
        [format_cell(name) for name in columns],
        *([format_cell(value, limit) for value in row] for row in rows),
    ]
    natural = _widths(head, body)
    if width is not None and _total(natural) > width:
        body = [[GENERATED_TIME.sub("", text) if text.startswith("run/") else text for text in row] for row in body]
        natural = _widths(head, body)
    numeric = [is_numeric([row[index] for row in rows]) for index in range(len(natural))]
    widths = natural if width is None else _fit(natural, numeric, width)
    if widths is None:
        lines = _records(head, body, width or 0)
    else:
        lines = [*_table_lines(head, widths, numeric), "  ".join("─" * size for size in widths)]
        lines += [line for row in body for line in _table_lines(row, widths, numeric)]
    return "\n".join([*lines, _more(more)] if more else lines)


def _widths(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    return [max(display_width(row[index]) for row in (head, *body)) for index in range(len(head))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _fit(natural: Sequence[int], numeric: Sequence[bool], width: int) -> list[int] | None:
    """Return widths of columns that fit, where only texts are narrowed; None if they would be too narrow to read."""
    cap = max(natural, default=0)
    while True:
        widths = [size if is_number else min(size, cap) for size, is_number in zip(natural, numeric, strict=True)]
        if _total(widths) <= width:
            return widths
        cap -= 1
        if cap < MIN_CELL_WIDTH:
            return None


def _table_lines(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    """Return the lines of one row; a text that is wider than its column goes on in the next line."""
    cells = [wrap_text(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        padding = [" " * (width - display_width(text)) for text, width in zip(parts, widths, strict=True)]
        padded = (
            space + text if is_number else text + space
            for text, space, is_number in zip(parts, padding, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def _records(head: Sequence[str], body: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return each row as lines of names and values, without empty values, with an empty line between the rows."""
    indent = max(map(display_width, head))
    room = max(width - indent - 2, MIN_CELL_WIDTH)
    lines: list[str] = []
    for row in body:
        lines += [""] if lines else []
        for name, text in zip(head, row, strict=True):
            label = name + " " * (indent - display_width(name))
            for part in wrap_text(text, room) if text else ():
                lines.append(f"{label}  {part}".rstrip())
                label = " " * indent
    return lines


def wrap_text(text: str, width: int) -> list[str]:
    """Return a text as lines, broken after spaces, commas, slashes and underscores, else anywhere."""
    if display_width(text) <= width:
        return [text]
    lines = [""]
    for word in re.split(r"(?<=[\s,/_])", text):
        if display_width(lines[-1] + word.rstrip()) > width and lines[-1]:
            lines.append("")
        for character in word:
            if display_width(lines[-1] + character) > width and not character.isspace():
                lines.append("")
            lines[-1] += character
    return [line.rstrip() for line in lines]


def html_table(columns: Sequence[str], rows: Sequence[Row], more: int = 0) -> str:
    """Return rows as an HTML table for notebooks. All text is escaped; the tooltip of a node is its IRI."""
    from html import escape

    sides = ["right" if is_numeric([row[index] for row in rows]) else "left" for index in range(len(columns))]

    def element(tag: str, side: str, value: Any, text: str) -> str:
        title = f' title="{escape(value)}"' if isinstance(value, IRI) else ""
        return f'<{tag} style="text-align: {side}"{title}>{escape(text)}</{tag}>'

    head = "".join(element("th", side, None, format_cell(name)) for name, side in zip(columns, sides, strict=True))
    body = (
        "".join(element("td", side, value, format_cell(value)) for value, side in zip(row, sides, strict=True))
        for row in rows
    )
    lines = [
        f"<div><style>{NOTEBOOK_STYLE}</style>",
        '<table class="provml-table">',
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
        *(f"<tr>{cells}</tr>" for cells in body),
    ]
    return "\n".join([*lines, "</tbody>", "</table>", *([f"<p>{_more(more)}</p>"] if more else []), "</div>"])


def _more(count: int) -> str:
    return f"… {plural(count, 'more row')}"


def format_cell(value: Any, limit: int = MAX_CELL_WIDTH) -> str:
    """Return a value as the text of a cell, of at most `limit` characters."""
    if value is None:
        return ""
    if isinstance(value, (float, Decimal)):
        value = float(value)
        return f"{value:.6g}" if value - value == 0.0 else format_special(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    text = single_line(_abbreviate(value) if isinstance(value, IRI) else str(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _abbreviate(iri: IRI) -> str:
    for namespace, prefix in SHORT_NAMESPACES.items():
        if iri.startswith(namespace) and iri != namespace:
            return prefix + iri[len(namespace) :]
    return str(iri)


def single_line(text: str) -> str:
    """Return text without line breaks and control characters, which would change a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)


def format_special(value: float) -> str:
    """Return NaN or an infinity as XSD writes it."""
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_numeric(column: list[Any]) -> bool:
    """True if a column has only numbers, which are aligned to the right."""
    values = [value for value in column if value is not None]
    return bool(values) and all(
        isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) for value in values
    )
