"""What SPARQL cannot ask of a literal: whether its text is one of its datatype, and patterns that only Python knows."""

from __future__ import annotations

import re
from calendar import isleap
from math import inf
from typing import Any

import pyoxigraph as ox

from provml.rdf.literal import XSD

_INTEGER = r"[+-]?[0-9]+"
_ZONE = r"(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?"
_DATE = r"-?(?:[1-9][0-9]{3,}|0[0-9]{3})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?|24:00:00(?:\.0+)?)"
_FLOAT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"
FORMS = {
    "integer": _INTEGER,
    "decimal": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)",
    "double": _FLOAT,
    "float": _FLOAT,
    "boolean": "true|false|0|1",
    "dateTime": f"{_DATE}T{_TIME}{_ZONE}",
    "date": f"{_DATE}{_ZONE}",
    "time": f"{_TIME}{_ZONE}",
}
"""The texts of the datatypes that SPARQL knows."""

RANGES: dict[str, tuple[float, float]] = {
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
"""The integers of the datatypes that are derived from xsd:integer. Oxigraph keeps those below 2^63 as xsd:integer."""

CHECKED = {f"{XSD}{name}" for name in (*FORMS, *RANGES)}

WELL_FORMED = ox.NamedNode("urn:provml:shacl:well-formed")
MATCHES = ox.NamedNode("urn:provml:shacl:matches")


def well_formed(literal: Any) -> ox.Literal:
    """Whether the text of a literal is one of its datatype; of a datatype that is not known, any text is."""
    name = literal.datatype.value.removeprefix(XSD)
    if name in RANGES:
        least, most = RANGES[name]
        return ox.Literal(re.fullmatch(_INTEGER, literal.value) is not None and least <= int(literal.value) <= most)
    if name not in FORMS:
        return ox.Literal(True)
    formed = re.fullmatch(FORMS[name], literal.value) is not None
    return ox.Literal(formed and (name not in ("date", "dateTime") or _is_day(literal.value)))


def _is_day(text: str) -> bool:
    """Whether the month with which a date begins has that day."""
    year, month, day = (int(part) for part in re.findall(r"\d+", text)[:3])
    return day <= (30 if month in (4, 6, 9, 11) else 28 + isleap(year) if month == 2 else 31)


def matches(text: Any, pattern: Any, flags: Any) -> ox.Literal:
    """Whether a pattern is found in a text, as Python's expressions have it."""
    found = 0
    for letter in flags.value:
        found |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}.get(letter, 0)
    return ox.Literal(re.search(pattern.value, text.value, found) is not None)


FUNCTIONS = {WELL_FORMED: well_formed, MATCHES: matches}
