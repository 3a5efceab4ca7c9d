"""Values of measures and settings as three columns (number, text, type), and back.

The text is that of the graph: Oxigraph writes doubles without an exponent, and without a fraction that is zero.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from provml.model.values import Literal, Text
from provml.rdf import literals
from provml.rdf.namespaces import XSD

ValueColumns = tuple[float | None, str | None, str]
INFINITY = float("inf")


def to_columns(value: Any) -> ValueColumns:
    """Return the number (None if it is none, or NaN), the text and the type of a value."""
    cls = value.__class__
    if cls is float:
        return (None, "NaN", "double") if value != value else (value, double_text(value), "double")
    if cls is bool:
        return None, "true" if value else "false", "boolean"
    if cls is int:
        return _to_float(value), str(value), "integer"
    if cls is Decimal:
        text = format(value, "f")
        return _to_float(value), text.rstrip("0").rstrip(".") if "." in text else text, "decimal"
    if isinstance(value, Text):
        return None, str(value), f"@{value.language}"
    if isinstance(value, Literal):
        return None, str(value), value.datatype.removeprefix(XSD)
    if cls is datetime:
        text = literals.LEXICAL[cls](value).replace("+00:00", "Z")
        return None, text, "dateTime"
    lexical = literals.LEXICAL.get(cls)
    if lexical is None:
        return None, str(value), "string"
    return None, lexical(value), literals.DATATYPES.get(cls, f"{XSD}string").removeprefix(XSD)


def double_text(value: float) -> str:
    """Return a double as the graph has it: the shortest digits that give it back, without an exponent."""
    if value in (INFINITY, -INFINITY):
        return "INF" if value > 0 else "-INF"
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def _to_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return INFINITY if number > 0 else -INFINITY


def from_columns(number: float | None, text: str | None, kind: str | None) -> Any:
    """Return the value that `to_columns` wrote; None if there is none."""
    if kind is None:
        return None
    if kind == "double" and number is not None:
        return number
    if text is None or kind == "string":
        return text
    if kind.startswith("@"):
        return Text(text, kind[1:])
    return literals.parse_literal(text, kind if ":" in kind else XSD + kind)
