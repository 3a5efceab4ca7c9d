"""Scalars that JSON cannot represent exactly, as `[datatype, text]`, and back."""

from __future__ import annotations

from typing import Any

from provml.model.values import Literal, Text
from provml.rdf import literals
from provml.rdf.namespaces import XSD


def encode_value(scalar: Any) -> list[str]:
    """Return a scalar as its datatype (a local name of XSD, `@language` or an IRI) and its text."""
    if isinstance(scalar, Text):
        return [f"@{scalar.language}", str(scalar)]
    if isinstance(scalar, Literal):
        return [scalar.datatype.removeprefix(XSD), str(scalar)]
    lexical = literals.LEXICAL.get(type(scalar))
    if lexical is None:
        raise TypeError(f"{scalar!r} ({type(scalar).__name__}) is not a scalar. Pass a number, text, bool, datetime, …")
    return [literals.DATATYPES[type(scalar)].removeprefix(XSD), lexical(scalar)]


def decode_value(value: Any) -> Any:
    """Return a value of a journal as a Python value."""
    if value.__class__ is not list:
        return value
    datatype, text = value
    if datatype.startswith("@"):
        return Text(text, datatype[1:])
    return literals.parse_literal(text, datatype if ":" in datatype else XSD + datatype)
