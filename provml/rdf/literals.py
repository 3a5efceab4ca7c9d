"""Scalars as RDF literals and back: their datatypes of XML Schema, how they are written and parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from provml.errors import InvalidIRI, WrongValue
from provml.model.field import Field, has_valid_offset
from provml.model.thing import Thing
from provml.model.values import IRI, Literal, Text
from provml.rdf.namespaces import RDF, RDFS_LITERAL, XSD

if TYPE_CHECKING:
    import pyoxigraph

_INTEGERS = (
    "integer", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger", "long", "int", "short",
    "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
)  # fmt: skip
KIND_OF_DATATYPE: dict[str, str] = {
    XSD + "string": "text",
    XSD + "double": "float",
    XSD + "float": "float",
    XSD + "decimal": "decimal",
    XSD + "boolean": "boolean",
    XSD + "dateTime": "datetime",
    XSD + "dateTimeStamp": "datetime",
    XSD + "date": "date",
    XSD + "time": "time",
    XSD + "dayTimeDuration": "duration",
    XSD + "duration": "duration",
    XSD + "anyURI": "iri",
    RDF + "langString": "tagged",
    RDF + "PlainLiteral": "words",
    RDFS_LITERAL: "any",
    **{XSD + name: "integer" for name in _INTEGERS},
}
"""The kind of field for each datatype; values of other datatypes are `Literal`s (kind "other")."""

DATATYPE_OF_KIND: dict[str, str] = {
    "text": XSD + "string",
    "float": XSD + "double",
    "integer": XSD + "integer",
    "boolean": XSD + "boolean",
    "decimal": XSD + "decimal",
    "datetime": XSD + "dateTime",
    "date": XSD + "date",
    "time": XSD + "time",
    "duration": XSD + "dayTimeDuration",
    "iri": XSD + "anyURI",
}
"""The default datatype of each kind of field."""

# ---- format

_SPECIAL = re.compile(r'["\\\n\r]')
_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"' if _SPECIAL.search(text) else f'"{text}"'


def _float(value: float) -> str:
    if value - value == 0.0:  # finite
        return repr(value)
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _datetime(value: datetime) -> str:
    """Return a datetime in ISO format; an offset that XSD cannot express is converted to UTC."""
    if not has_valid_offset(value):
        try:
            value = value.astimezone(UTC)
        except OverflowError:
            expected = "a time that is in the years 1 to 9999 in UTC too"
            raise WrongValue("datetime", "offset", value, expected, "Pass a later or earlier time.") from None
    return value.isoformat()


def _duration(value: timedelta) -> str:
    sign = "-" if value < timedelta() else ""
    value = abs(value)
    seconds = f"{value.seconds}.{value.microseconds:06d}" if value.microseconds else str(value.seconds)
    return f"{sign}P{value.days}DT{seconds}S"


LEXICAL: dict[type, Callable[[Any], str]] = {
    str: str,
    float: _float,
    int: str,
    bool: lambda value: "true" if value else "false",
    Decimal: _decimal,
    datetime: _datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _duration,
    IRI: str,
}
DATATYPES: dict[type, str] = {
    float: DATATYPE_OF_KIND["float"],
    int: DATATYPE_OF_KIND["integer"],
    bool: DATATYPE_OF_KIND["boolean"],
    Decimal: DATATYPE_OF_KIND["decimal"],
    datetime: DATATYPE_OF_KIND["datetime"],
    date: DATATYPE_OF_KIND["date"],
    time: DATATYPE_OF_KIND["time"],
    timedelta: DATATYPE_OF_KIND["duration"],
    IRI: DATATYPE_OF_KIND["iri"],
}


def _format_text(value: Any) -> str:
    if value.__class__ is Text:
        return f"{_quoted(value)}@{value.language}"
    if value.__class__ is Literal:
        return f"{_quoted(value)}^^<{value.datatype}>"
    return _quoted(value)


def _typed_formatter(lexical: Callable[[Any], str], datatype: str) -> Callable[[Any], str]:
    suffix = f'"^^<{datatype}>'
    return lambda value: f'"{lexical(value)}{suffix}'


_FORMATTERS: dict[type, Callable[[Any], str]] = {
    **{cls: _typed_formatter(LEXICAL[cls], datatype) for cls, datatype in DATATYPES.items()},
    str: _format_text,
    Text: _format_text,
    Literal: _format_text,
}


def format_literal(value: Any) -> str:
    """Return a plain scalar as a literal of N-Triples."""
    return _FORMATTERS[value.__class__](value)


# ---- terms

_ANY = Field("value", "urn:provml:value", "any", single=True)


def term(value: object) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """Return the pyoxigraph term of a value: a node for an `IRI` or a thing, a typed literal for a scalar."""
    import pyoxigraph as ox

    if isinstance(value, (Thing, IRI)):
        return ox.NamedNode(value if isinstance(value, IRI) else value.iri)
    scalar: Any = _ANY.accept("term", value)
    if isinstance(scalar, Text):
        language, _, direction = scalar.language.partition("--")
        return ox.Literal(str(scalar), language=language, direction=ox.BaseDirection(direction) if direction else None)
    if isinstance(scalar, Literal):
        return ox.Literal(str(scalar), datatype=ox.NamedNode(scalar.datatype))
    if scalar.__class__ is str:
        return ox.Literal(scalar)
    return ox.Literal(LEXICAL[type(scalar)](scalar), datatype=ox.NamedNode(DATATYPES[type(scalar)]))


# ---- parse

_FRACTION = r"(?:\.[0-9]{1,6}0*)?"  # Python has microseconds; finer values stay a Literal
_ZONE = r"(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?"
_LEXICAL_FORMS: dict[str, re.Pattern[str]] = {
    "float": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"),
    "integer": re.compile(r"[+-]?[0-9]+"),
    "decimal": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"),
    "datetime": re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION}{_ZONE}"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "time": re.compile(rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION}{_ZONE}"),
}
"""Lexical forms of XSD for the kinds of values whose Python parser accepts more."""

_DURATION = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,6})0*)?S)?)?"
)


def _parse_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, days, hours, minutes, seconds, fraction = match.groups()
    duration = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    return -duration if sign else duration


def _parse_boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text]


def _parse_float(text: str) -> float:
    special = {"NaN": float("nan"), "INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf")}
    return special[text] if text in special else float(text)


_PARSERS: dict[str, Callable[[str], object]] = {
    "text": str,
    "float": _parse_float,
    "integer": int,
    "boolean": _parse_boolean,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _parse_duration,
    "iri": IRI,
}


def value(node: pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple) -> Any:
    """Return the Python value of a pyoxigraph term; a `Literal` if Python has no type for it, so nothing is lost."""
    import pyoxigraph as ox

    if isinstance(node, ox.NamedNode):
        return IRI(node.value)
    if not isinstance(node, ox.Literal):
        return str(node)
    if node.language is not None:
        direction = f"--{node.direction.value}" if node.direction is not None else ""
        return Text(node.value, node.language + direction)
    return parse_literal(node.value, node.datatype.value)


def parse_literal(text: str, datatype: str) -> Any:
    """Return the Python value of a literal, given its text and datatype."""
    kind = KIND_OF_DATATYPE.get(datatype, "")
    parser, form = _PARSERS.get(kind), _LEXICAL_FORMS.get(kind)
    if parser is not None and (form is None or form.fullmatch(text)):
        try:
            return parser(text)
        except (ValueError, KeyError, OverflowError, InvalidOperation, InvalidIRI):
            pass
    return Literal(text, datatype)
