"""Scalars that JSON does not hold exactly, as `[datatype, text]`, and back."""

from __future__ import annotations

from typing import Any

from provml.rdf import literal
from provml.values import Literal, Text

XSD = literal.XSD


def encode_value(scalar: Any) -> list[str]:
    """A scalar as its datatype (an XSD name, `@language` or an IRI) and its text."""
    if isinstance(scalar, Text):
        return [f"@{scalar.language}", str(scalar)]
    if isinstance(scalar, Literal):
        return [scalar.datatype.removeprefix(XSD), str(scalar)]
    lexical = literal.LEXICAL.get(type(scalar))
    if lexical is None:
        raise TypeError(f"{scalar!r} ({type(scalar).__name__}) is no scalar. Give a number, text, bool, datetime, …")
    return [literal.DATATYPES[type(scalar)].removeprefix(XSD), lexical(scalar)]


def decode_value(value: Any) -> Any:
    """A value of a journal as a Python value."""
    if value.__class__ is not list:
        return value
    datatype, text = value
    if datatype.startswith("@"):
        return Text(text, datatype[1:])
    return literal.read_literal(text, datatype if ":" in datatype else XSD + datatype)
