"""Scalars as RDF literals and back: which datatype, how it is written, how it is read. The one place that knows XSD."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from provml.errors import NotAnIRI, WrongValue
from provml.field import Field, has_whole_offset
from provml.things import Thing
from provml.values import IRI, Literal, Text

if TYPE_CHECKING:
    import pyoxigraph

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS_LITERAL = "http://www.w3.org/2000/01/rdf-schema#Literal"

_INTEGERS = (
    "integer", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger", "long", "int", "short",
    "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
)  # fmt: skip
KINDS: dict[str, str] = {
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
"""The kind of field that a datatype makes; a datatype that is not here is kept as a `Literal` ("other")."""

WRITTEN_AS: dict[str, str] = {
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
"""The datatype that a kind of value is written with unless its field names another."""

# ---- writing

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


def _zoned(value: datetime) -> str:
    """XSD knows offsets of whole minutes up to 14 hours; any other is written as the same instant in UTC."""
    if not has_whole_offset(value):
        try:
            value = value.astimezone(UTC)
        except OverflowError:
            expected = "a moment that lies in the years 1 to 9999 in UTC too"
            raise WrongValue("datetime", "offset", value, expected, "Give a later or earlier one.") from None
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
    datetime: _zoned,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _duration,
    IRI: str,
}
DATATYPES: dict[type, str] = {
    float: WRITTEN_AS["float"],
    int: WRITTEN_AS["integer"],
    bool: WRITTEN_AS["boolean"],
    Decimal: WRITTEN_AS["decimal"],
    datetime: WRITTEN_AS["datetime"],
    date: WRITTEN_AS["date"],
    time: WRITTEN_AS["time"],
    timedelta: WRITTEN_AS["duration"],
    IRI: WRITTEN_AS["iri"],
}


def _object_of_text(value: Any) -> str:
    if value.__class__ is Text:
        return f"{_quoted(value)}@{value.language}"
    if value.__class__ is Literal:
        return f"{_quoted(value)}^^<{value.datatype}>"
    return _quoted(value)


def _object_with(lexical: Callable[[Any], str], datatype: str) -> Callable[[Any], str]:
    tail = f'"^^<{datatype}>'
    return lambda value: f'"{lexical(value)}{tail}'


_OBJECTS: dict[type, Callable[[Any], str]] = {
    **{cls: _object_with(LEXICAL[cls], datatype) for cls, datatype in DATATYPES.items()},
    str: _object_of_text,
    Text: _object_of_text,
    Literal: _object_of_text,
}


def object_of(value: Any) -> str:
    """A kept scalar as the object of a line of N-Triples."""
    return _OBJECTS[value.__class__](value)


# ---- terms

_ANY = Field("value", "urn:provml:value", "any", one=True)


def term(value: object) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """The pyoxigraph term of a value: a node for an `IRI` or a thing, a typed literal for a scalar."""
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


# ---- reading

_FRACTION = r"(?:\.[0-9]{1,6}0*)?"  # Python keeps microseconds; what is finer stays a Literal
_ZONE = r"(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?"
_FORMS: dict[str, re.Pattern[str]] = {
    "float": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"),
    "integer": re.compile(r"[+-]?[0-9]+"),
    "decimal": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"),
    "datetime": re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION}{_ZONE}"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "time": re.compile(rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION}{_ZONE}"),
}
"""How XSD writes a kind of value, where Python's own reading takes more than that."""

_DURATION = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,6})0*)?S)?)?"
)


def _read_duration(written: str) -> timedelta:
    match = _DURATION.fullmatch(written)
    if match is None:
        raise ValueError(written)
    sign, days, hours, minutes, seconds, fraction = match.groups()
    length = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    return -length if sign else length


def _read_boolean(written: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[written]


def _read_float(written: str) -> float:
    special = {"NaN": float("nan"), "INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf")}
    return special[written] if written in special else float(written)


_READERS: dict[str, Callable[[str], object]] = {
    "text": str,
    "float": _read_float,
    "integer": int,
    "boolean": _read_boolean,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _read_duration,
    "iri": IRI,
}


def value(node: pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple) -> Any:
    """The Python value of a pyoxigraph term; what Python has no type for comes as a `Literal`, so nothing is lost."""
    import pyoxigraph as ox

    if isinstance(node, ox.NamedNode):
        return IRI(node.value)
    if not isinstance(node, ox.Literal):
        return str(node)
    if node.language is not None:
        direction = f"--{node.direction.value}" if node.direction is not None else ""
        return Text(node.value, node.language + direction)
    return read_literal(node.value, node.datatype.value)


def read_literal(written: str, datatype: str) -> Any:
    """The Python value of a literal's text and datatype."""
    kind = KINDS.get(datatype, "")
    reader, form = _READERS.get(kind), _FORMS.get(kind)
    if reader is not None and (form is None or form.fullmatch(written)):
        try:
            return reader(written)
        except (ValueError, KeyError, OverflowError, InvalidOperation, NotAnIRI):
            pass
    return Literal(written, datatype)
