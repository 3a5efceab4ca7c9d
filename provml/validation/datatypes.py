"""Datatypes of literals: which texts are well-formed, and how to preserve the datatypes that Oxigraph does not store.

A pyoxigraph Store converts the types derived from xsd:integer to xsd:integer, and xsd:dateTimeStamp to xsd:dateTime.
To validate them, such a literal is stored under a datatype of its own, which Oxigraph leaves alone, and is restored
when it is read. Its text stays as it was written.
"""

from __future__ import annotations

import re
from calendar import isleap
from decimal import Decimal
from math import inf
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import XSD

INTEGER_RANGES: dict[str, tuple[float, float]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "unsignedByte": (0, 2**8 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedLong": (0, 2**64 - 1),
    "nonNegativeInteger": (0, inf),
    "positiveInteger": (1, inf),
    "nonPositiveInteger": (-inf, 0),
    "negativeInteger": (-inf, -1),
}
"""The ranges of the datatypes derived from xsd:integer."""

_INTEGER = r"[+-]?[0-9]+"
_ZONE = r"(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
_DATE = r"-?(?:[1-9][0-9]{3,}|0[0-9]{3})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?|24:00:00(?:\.0+)?)"
_FLOAT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"
LEXICAL_FORMS = {
    "integer": _INTEGER,
    "decimal": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)",
    "double": _FLOAT,
    "float": _FLOAT,
    "boolean": "true|false|0|1",
    "dateTime": f"{_DATE}T{_TIME}{_ZONE}?",
    "dateTimeStamp": f"{_DATE}T{_TIME}{_ZONE}",
    "date": f"{_DATE}{_ZONE}?",
    "time": f"{_TIME}{_ZONE}?",
}
"""The lexical forms of the datatypes of SPARQL, and of xsd:dateTimeStamp."""

CHECKED_DATATYPES = {f"{XSD}{name}" for name in (*LEXICAL_FORMS, *INTEGER_RANGES)}

PRESERVED_PREFIX = "urn:provml:datatype:"
"""Replaces the namespace of XML Schema in a preserved datatype."""
_PRESERVED = {f"{XSD}{name}": ox.NamedNode(PRESERVED_PREFIX + name) for name in (*INTEGER_RANGES, "dateTimeStamp")}
_ORIGINAL = {preserved.value: ox.NamedNode(datatype) for datatype, preserved in _PRESERVED.items()}
_NTRIPLES = re.compile(rf"\^\^[ \t]*<{XSD}(?:{'|'.join(name.removeprefix(XSD) for name in _PRESERVED)})>".encode())


def preserved_datatype(datatype: ox.NamedNode) -> ox.NamedNode:
    """Return the datatype under which literals of a datatype are stored; most are stored under their own."""
    return _PRESERVED.get(datatype.value, datatype)


def original_datatype(datatype: ox.NamedNode) -> ox.NamedNode:
    """Return the datatype that a stored datatype stands for."""
    return _ORIGINAL.get(datatype.value, datatype)


def preserve(term: Any) -> Any:
    """Return a term as it is to be stored: a literal whose datatype Oxigraph would change gets a preserved one."""
    if isinstance(term, ox.Literal):
        datatype = _PRESERVED.get(term.datatype.value)
        if datatype is not None:
            return ox.Literal(term.value, datatype=datatype)
    return term


def restore(term: Any) -> Any:
    """Return a stored term with its original datatype."""
    if isinstance(term, ox.Literal):
        datatype = _ORIGINAL.get(term.datatype.value)
        if datatype is not None:
            return ox.Literal(term.value, datatype=datatype)
    return term


def may_have_changed_datatypes(ntriples: bytes) -> bool:
    """Return whether N-Triples may have literals whose datatype Oxigraph would change."""
    return _NTRIPLES.search(ntriples) is not None


# ---- well-formed literals


def is_well_formed(literal: Any) -> bool:
    """Return whether the text of a literal is valid for its datatype; any text is valid for an unknown datatype."""
    name = original_datatype(literal.datatype).value.removeprefix(XSD)
    if name in INTEGER_RANGES:
        lower, upper = INTEGER_RANGES[name]
        return re.fullmatch(_INTEGER, literal.value) is not None and lower <= Decimal(literal.value) <= upper
    if name not in LEXICAL_FORMS:
        return True
    if re.fullmatch(LEXICAL_FORMS[name], literal.value) is None:
        return False
    return name not in ("date", "dateTime", "dateTimeStamp") or _is_existing_day(literal.value)


def _is_existing_day(text: str) -> bool:
    """Return whether the month of a date has that day."""
    year, month, day = (int(part[-4:]) for part in re.findall(r"\d+", text)[:3])  # leap years repeat after 400 years
    return day <= (30 if month in (4, 6, 9, 11) else 28 + isleap(year) if month == 2 else 31)
