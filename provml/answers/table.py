"""Rows as a table for people, in text and in HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from provml.errors import plural
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, NODES, OWL, PROV, PROVLAKE, PROVML, RDF, RDFS, XSD

MAX_CELL_WIDTH = 100
"""Characters that a cell of a table shows; JSON and CSV have all."""

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
    ".provml-table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".provml-table th,.provml-table td{padding:.25em .7em;border:0;border-bottom:1px solid #d8dee4;"
    "vertical-align:baseline}"
    ".provml-table th{color:#57606a;font-weight:600}.provml-table td{color:#1c2128}"
    "@media screen and (prefers-color-scheme:dark){.provml-table th,.provml-table td{border-color:#2a323b}"
    ".provml-table th{color:#9aa7b5}.provml-table td{color:#e6edf3}}"
)
"""The look of the viewer for tables in notebooks, in the colours of `provml.drawing.palette`."""

Row = tuple[Any, ...]


def text_table(columns: Sequence[str], rows: Sequence[Row], more: int = 0) -> str:
    """Return rows as a text table; `more` is the number of rows that are not in it."""
    cells = [[single_line(name) for name in columns], *([format_cell(value) for value in row] for row in rows)]
    widths = [max(display_width(row[index]) for row in cells) for index in range(len(columns))]
    numeric = [is_numeric([row[index] for row in rows]) for index in range(len(widths))]
    lines = [
        "  ".join(
            " " * (width - display_width(text)) + text if is_number else text + " " * (width - display_width(text))
            for text, width, is_number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([*lines, _more(more)] if more else lines)


def html_table(columns: Sequence[str], rows: Sequence[Row], more: int = 0) -> str:
    """Return rows as an HTML table for notebooks. All text is escaped; the tooltip of a node is its IRI."""
    from html import escape

    sides = ["right" if is_numeric([row[index] for row in rows]) else "left" for index in range(len(columns))]

    def element(tag: str, side: str, value: Any, text: str) -> str:
        title = f' title="{escape(value)}"' if isinstance(value, IRI) else ""
        return f'<{tag} style="text-align: {side}"{title}>{escape(text)}</{tag}>'

    head = "".join(element("th", side, None, single_line(name)) for name, side in zip(columns, sides, strict=True))
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


def format_cell(value: Any) -> str:
    """Return a value as the text of a cell."""
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
    return text if len(text) <= MAX_CELL_WIDTH else text[: MAX_CELL_WIDTH - 1] + "…"


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
