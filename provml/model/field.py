"""Fields: one row of the field table of a class, and the check of values against it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

from provml.errors import InvalidIRI, WrongType, WrongValue
from provml.model.values import IRI, PLAIN, Literal, Text, plain


class Field:
    """One row of the field table of a class: the property of a field and the values that it accepts.

    A value of type `fast_type` that passes `fast_check` (if there is one) needs no further check or conversion.
    """

    __slots__ = (
        "_convert",
        "_limit_checks",
        "choices",
        "datatype",
        "fast_check",
        "fast_type",
        "inverse",
        "iri",
        "kind",
        "limits",
        "max_count",
        "min_count",
        "name",
        "pattern",
        "ranges",
        "single",
        "super_properties",
    )

    def __init__(
        self,
        name: str,
        iri: str,
        kind: str,
        *,
        single: bool = False,
        min_count: int = 0,
        max_count: int | None = None,
        ranges: tuple[tuple[str, ...], ...] = (),
        datatype: str | None = None,
        super_properties: tuple[str, ...] = (),
        inverse: str | None = None,
        limits: tuple[tuple[str, int | float], ...] = (),
        pattern: str | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.iri = iri
        self.kind = kind
        self.single = single
        self.min_count = min_count
        self.max_count = 1 if single else max_count
        self.ranges = tuple(frozenset(members) for members in ranges)
        self.datatype = datatype
        self.super_properties = super_properties
        self.inverse = inverse
        self.limits = limits
        self.pattern = pattern
        self.choices = choices
        # without a fast path if one value alone is too few or too many
        has_fast_path = single or (min_count <= 1 and max_count != 0)
        self.fast_type, self.fast_check = _fast_path(kind, limits, pattern, choices) if has_fast_path else (None, None)
        self._convert = CONVERTERS[kind] if kind != "other" or datatype is None else _literal_converter(datatype)
        if self._needs_zone:
            self.fast_type, self.fast_check, self._convert = None, None, _to_stamp
        self._limit_checks = tuple((LIMITS[limit][1], bound) for limit, bound in limits)

    @property
    def _needs_zone(self) -> bool:
        """Whether the datatype is xsd:dateTimeStamp, whose times have a time zone."""
        return self.kind == "datetime" and self.datatype is not None and self.datatype.endswith("#dateTimeStamp")

    @property
    def expected(self) -> str:
        """Description of the accepted values, for error messages."""
        values = self._expected_value
        if self.single:
            return f"one of {values}" if self.choices else values
        if self.max_count == 0:
            return "no value"
        if self.max_count == self.min_count == 1:
            return f"exactly one {'' if self.kind == 'thing' else 'of ' if self.choices else 'value: '}{values}"
        return f"{self._expected_count} of: {values}"

    @property
    def _expected_value(self) -> str:
        """Description of one accepted value."""
        if self.kind == "thing":
            classes = " and ".join(" or ".join(sorted(IRI(x).name for x in members)) for members in self.ranges)
            return f"{classes or 'a thing'} or an IRI"
        if self.choices:
            return ", ".join(repr(choice) for choice in self.choices)
        is_datatype_fixed = self.kind == "other" and self.datatype is not None
        text = f"Literal(…, {self.datatype!r})" if is_datatype_fixed else EXPECTED[self.kind]
        text += " with a time zone" if self._needs_zone else ""
        for limit, bound in self.limits:
            text += f" {LIMITS[limit][0]} {bound}"
        return f"{text} of the form {self.pattern}" if self.pattern else text

    @property
    def _expected_count(self) -> str:
        """Description of the accepted number of values."""
        if self.max_count is None:
            return f"at least {self.min_count}" if self.min_count else "any number"
        if self.max_count == self.min_count:
            return f"exactly {self.min_count}"
        return f"{self.min_count} to {self.max_count}" if self.min_count else f"at most {self.max_count}"

    def accept(self, class_name: str, value: object) -> object:
        """Return a value as it is stored: one plain value, or a tuple of them if the field is not single-valued."""
        if self.single:
            return self._accept_one(class_name, value)
        cls = value.__class__
        if cls is IRI or hasattr(cls, "TYPE_SET") or not isinstance(value, Iterable) or _is_scalar(value):
            values: tuple[object, ...] = (self._accept_one(class_name, value),)
        else:
            values = tuple([self._accept_one(class_name, item) for item in value])
        if (
            self.min_count > 1
            or len(values) < self.min_count
            or (self.max_count is not None and len(values) > self.max_count)
        ):
            self._check_count(class_name, value, values)
        return values

    def _check_count(self, class_name: str, value: object, values: tuple[object, ...]) -> None:
        """Check the number of distinct values; as in a graph, equal values count once."""
        count = len(set(map(identity, values)))
        if self.max_count is not None and count > self.max_count:
            advice = f"Pass no more than {self.max_count}." if self.max_count else self._advice(value)
            raise WrongType(class_name, self.name, value, self.expected, advice)
        if count < self.min_count:
            minimum = f"{self.min_count} different values" if self.min_count > 1 else "one"
            raise WrongType(class_name, self.name, value, self.expected, f"Pass at least {minimum}.")

    def _accept_one(self, class_name: str, value: object) -> object:
        try:
            plain_value: Any = self._convert(value)
        except InvalidIRI:
            advice = "Pass one with a scheme and no spaces, such as 'http://example.org/run/1'."
            raise WrongValue(class_name, self.name, value, self.expected, advice) from None
        if plain_value is None:
            raise WrongType(class_name, self.name, value, self.expected, self._advice(value))
        if self.ranges and plain_value.__class__ is not IRI:
            for members in self.ranges:
                if members.isdisjoint(plain_value.TYPE_SET):
                    raise WrongType(class_name, self.name, value, self.expected, self._advice(value))
        elif self.choices or self.limits or self.pattern:
            self._check_facets(class_name, value, plain_value)
        elif isinstance(plain_value, str) and not plain_value.isascii():
            self._check_unicode(class_name, plain_value)
        return plain_value

    def _check_facets(self, class_name: str, value: object, plain_value: Any) -> None:
        if self.choices and plain_value not in self.choices:
            raise WrongValue(class_name, self.name, value, self.expected, "Use one of the listed values.")
        for check, bound in self._limit_checks:
            if not check(plain_value, bound):
                raise WrongValue(class_name, self.name, value, self.expected, "Pass a value within the limits.")
        if self.pattern and not re.fullmatch(self.pattern, str(plain_value)):
            raise WrongValue(class_name, self.name, value, self.expected, "Pass text of that form.")
        if isinstance(plain_value, str):
            self._check_unicode(class_name, plain_value)

    def _check_unicode(self, class_name: str, text: Any) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            advice = "It contains half of a surrogate pair: decode the original bytes correctly."
            raise WrongValue(class_name, self.name, ascii(text), self.expected, advice) from None

    def _advice(self, value: object) -> str:
        """Return what to do about a value of the wrong type."""
        if self.max_count == 0:
            return "Leave it out: the ontology allows none."
        if self.single and isinstance(value, (list, tuple, set, frozenset)):
            return "Pass a single value: the ontology allows one."
        if self.kind == "thing":
            if isinstance(value, str):
                return "Wrap the name of an existing node in IRI(…)."
            return "Pass a thing of that class, or its IRI if the node is described in another graph."
        if self.kind in ("float", "integer", "decimal") and isinstance(value, str):
            return "Convert the text to a number first."
        if self._needs_zone and isinstance(value, datetime):
            return "Give it a zone: datetime(…, tzinfo=UTC) or .astimezone()."
        if self.kind in ("time", "any") and isinstance(value, time):
            return "Pass it in UTC: only offsets of whole minutes up to 14 hours can be written."
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            return "Call .item() on it to get the number."
        if self.kind == "other":
            return "Wrap it in Literal(…) with its datatype."
        return f"Convert it to {EXPECTED[self.kind]} first."

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.iri!r}, {self.kind!r})"


def _fast_path(
    kind: str, limits: tuple[tuple[str, int | float], ...], pattern: str | None, choices: tuple[str, ...]
) -> tuple[type | None, Callable[[Any], bool] | None]:
    """Return the type of values that need no conversion, and the check that they have to pass, or None for each."""
    if choices and not limits and not pattern:
        return str, frozenset(choices).__contains__
    fast_type = FAST_TYPES.get(kind)
    if fast_type is None or pattern or choices or len(limits) > 1:
        return None, None
    if not limits:
        return fast_type, str.isascii if fast_type is str else None
    limit, bound = limits[0]
    if limit != "minInclusive" or kind not in ("float", "integer"):
        return None, None
    return fast_type, (float(bound) if kind == "float" else int(bound)).__le__


def identity(value: object) -> object:
    """Return a key that is equal for values that are the same RDF term: 1 differs from 1.0, and NaN equals NaN.

    A thing and its IRI are the same term.
    """
    if isinstance(value, IRI) or hasattr(value.__class__, "TYPE_SET"):
        return (IRI, str(getattr(value, "iri", value)))
    if isinstance(value, datetime):
        offset = value.utcoffset()  # not astimezone: the time in UTC may be outside of Python's range of years
        local = value.replace(tzinfo=None, fold=0)
        return (datetime, local) if offset is None else (datetime, local - datetime.min - offset)
    if isinstance(value, (Decimal, time)):
        return (type(value), value)
    return (type(value), repr(value))


def _is_scalar(value: object) -> bool:
    """Return True for values that count as one although they may be iterable: text, an enum member, a numpy scalar."""
    return isinstance(value, (str, bytes, Mapping, Enum, PurePath)) or getattr(value, "shape", None) == ()


# ---- converters: each returns the plain value, or None if the value is of another kind


def _to_thing(value: object) -> object:
    cls = value.__class__
    return value if cls is IRI or hasattr(cls, "TYPE_SET") else None  # only subclasses of Thing have TYPE_SET


def _to_float(value: object) -> object:
    if value.__class__ is float:
        return value
    number = plain(value)
    if number.__class__ is int:
        try:
            widened = float(number)
        except OverflowError:
            return None
        return widened if widened == number else None
    return number if number.__class__ is float else None


def _to_decimal(value: object) -> object:
    number = plain(value)
    if number.__class__ is int:
        return Decimal(number)
    return number if isinstance(number, Decimal) and has_short_text(number) else None


def has_short_text(number: Decimal) -> bool:
    """Return True if a Decimal is finite and short when it is written without an exponent, as XSD requires."""
    if not number.is_finite():
        return False
    exponent = number.as_tuple().exponent
    return abs(number.adjusted()) <= MAX_DIGITS and isinstance(exponent, int) and abs(exponent) <= MAX_DIGITS


def _to_iri(value: object) -> object:
    text = plain(value)
    return IRI(text) if isinstance(text, str) and not isinstance(text, (Text, Literal)) else None


def _to_str_or_text(value: object) -> object:
    text = plain(value)
    return text if text.__class__ in (str, Text) else None


def _to_scalar(value: object) -> object:
    scalar = plain(value)
    if scalar.__class__ is Decimal:
        return _to_decimal(scalar)
    if scalar.__class__ is time:
        return _to_time(scalar)
    return scalar if scalar.__class__ in PLAIN else None


def _exact_converter(cls: type) -> Callable[[object], object]:
    def convert(value: object) -> object:
        if value.__class__ is cls:
            return value
        scalar = plain(value)
        return scalar if scalar.__class__ is cls else None

    return convert


def _to_time(value: object) -> object:
    """Return a time whose offset can be written; it is not converted to UTC, where it may be on another day."""
    scalar = plain(value)
    return scalar if isinstance(scalar, time) and has_valid_offset(scalar) else None


def _to_stamp(value: object) -> object:
    """Return a datetime with a time zone."""
    scalar = plain(value)
    return scalar if isinstance(scalar, datetime) and scalar.utcoffset() is not None else None


def has_valid_offset(value: datetime | time) -> bool:
    """Return True if a time has no offset, or one that XSD can express: whole minutes, at most 14 hours."""
    offset = value.utcoffset()
    return offset is None or not (offset % timedelta(minutes=1) or abs(offset) > timedelta(hours=14))


def _literal_converter(datatype: str) -> Callable[[object], object]:
    return lambda value: value if isinstance(value, Literal) and value.datatype == datatype else None


MAX_DIGITS = 4300
"""Maximum number of digits before and after the point of a Decimal; Python limits the text of an int likewise."""

CONVERTERS: dict[str, Callable[[object], object]] = {
    "thing": _to_thing,
    "float": _to_float,
    "integer": _exact_converter(int),
    "boolean": _exact_converter(bool),
    "decimal": _to_decimal,
    "text": _exact_converter(str),
    "words": _to_str_or_text,
    "tagged": _exact_converter(Text),
    "datetime": _exact_converter(datetime),
    "date": _exact_converter(date),
    "time": _to_time,
    "duration": _exact_converter(timedelta),
    "iri": _to_iri,
    "other": _exact_converter(Literal),
    "any": _to_scalar,
}
"""The converter of each kind of field."""

FAST_TYPES: dict[str, type] = {
    "thing": IRI,
    "float": float,
    "integer": int,
    "boolean": bool,
    "datetime": datetime,
    "any": float,
    "text": str,
    "words": str,
}
"""For a kind of field without facets, the type of values that need no conversion; text has to be ASCII for that."""

EXPECTED: dict[str, str] = {
    "float": "a number (float)",
    "integer": "a whole number (int)",
    "boolean": "True or False",
    "decimal": "a finite Decimal",
    "text": "text (str)",
    "words": "text (str, or Text with a language)",
    "tagged": "Text with a language",
    "datetime": "a datetime",
    "date": "a date",
    "time": "a time",
    "duration": "a timedelta",
    "iri": "an absolute IRI",
    "other": "a Literal with its datatype",
    "any": "a scalar (number, text, bool, datetime, …)",
}

LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minInclusive": ("of at least", operator.ge),
    "maxInclusive": ("of at most", operator.le),
    "minExclusive": ("above", operator.gt),
    "maxExclusive": ("below", operator.lt),
    "length": ("of length", lambda value, bound: len(value) == bound),
    "minLength": ("of length at least", lambda value, bound: len(value) >= bound),
    "maxLength": ("of length at most", lambda value, bound: len(value) <= bound),
}
