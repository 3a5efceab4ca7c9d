"""Functions that SPARQL lacks: whether a literal is well-formed, and regular expressions that only Python supports."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import XSD
from provml.validation.datatypes import INTEGER_RANGES, is_well_formed, restore

WELL_FORMED = ox.NamedNode("urn:provml:shacl:well-formed")
MATCHES = ox.NamedNode("urn:provml:shacl:matches")
COMPARED = ox.NamedNode("urn:provml:shacl:compared")
COMPARABLE = ox.NamedNode("urn:provml:shacl:comparable")
REGEX_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def _well_formed(literal: Any) -> ox.Literal:
    return ox.Literal(is_well_formed(literal))


def _matches(text: Any, pattern: Any, flags: Any) -> ox.Literal:
    """Search a regular expression of Python in a text."""
    combined = 0
    for letter in flags.value:
        combined |= REGEX_FLAGS.get(letter, 0)
    return ox.Literal(re.search(pattern.value, text.value, combined) is not None)


def _comparable(term: Any) -> Any:
    """Return a stored term so that SPARQL can compare it; None, an error in SPARQL, if it is not well-formed.

    An integer becomes an xsd:decimal, since Oxigraph compares an xsd:integer only up to 64 bits.
    """
    original = restore(term)
    if original is term:
        return term
    name = original.datatype.value.removeprefix(XSD)
    if not is_well_formed(original):
        return None
    return ox.Literal(
        original.value, datatype=ox.NamedNode(XSD + ("decimal" if name in INTEGER_RANGES else "dateTime"))
    )


def _compared(value: Any, other: Any) -> Any:
    """Compare two integers or decimals that are too large for Oxigraph: -1, 0 or 1; None, an error, for other terms."""
    numbers = []
    for term in (restore(value), restore(other)):
        name = term.datatype.value.removeprefix(XSD) if isinstance(term, ox.Literal) else ""
        if name not in (*INTEGER_RANGES, "integer", "decimal") or not is_well_formed(term):
            return None
        numbers.append(Decimal(term.value))
    return ox.Literal((numbers[0] > numbers[1]) - (numbers[0] < numbers[1]))


FUNCTIONS: dict[ox.NamedNode, Callable[..., Any]] = {
    WELL_FORMED: _well_formed,
    MATCHES: _matches,
    COMPARABLE: _comparable,
    COMPARED: _compared,
}
"""The functions by the IRIs that queries call them by."""
