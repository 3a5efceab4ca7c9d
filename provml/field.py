"""What a field takes: one row of a class's table, and the check of a value against it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

from provml.errors import NotAnIRI, WrongType, WrongValue
from provml.values import IRI, PLAIN, Literal, Text, plain


class Field:
    """One row of a class's table: which property a field stands for and what it takes."""

    __slots__ = (
        "_take",
        "_tests",
        "choices",
        "datatype",
        "exact",
        "inverse",
        "iri",
        "kind",
        "least",
        "limits",
        "most",
        "name",
        "one",
        "pattern",
        "quick",
        "ranges",
        "supers",
    )

    def __init__(
        self,
        name: str,
        iri: str,
        kind: str,
        *,
        one: bool = False,
        least: int = 0,
        most: int | None = None,
        ranges: tuple[tuple[str, ...], ...] = (),
        datatype: str | None = None,
        supers: tuple[str, ...] = (),
        inverse: str | None = None,
        limits: tuple[tuple[str, int | float], ...] = (),
        pattern: str | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.iri = iri
        self.kind = kind
        self.one = one
        self.least = least
        self.most = 1 if one else most
        self.ranges = tuple(frozenset(members) for members in ranges)
        self.datatype = datatype
        self.supers = supers
        self.inverse = inverse
        self.limits = limits
        self.pattern = pattern
        self.choices = choices
        counted = not one and (least > 1 or most == 0)  # then a single value is not enough, or too much
        self.exact, self.quick = (None, None) if counted else _fast_way(kind, limits, pattern, choices)
        self._take = TAKES[kind] if kind != "other" or datatype is None else _take_literal_of(datatype)
        self._tests = tuple((LIMITS[limit][1], bound) for limit, bound in limits)

    @property
    def expected(self) -> str:
        """What the field takes, in words."""
        if self.kind == "thing":
            sorts = " and ".join(" or ".join(sorted(IRI(x).name for x in members)) for members in self.ranges)
            what = f"{sorts or 'a thing'} or an IRI"
        elif self.choices:
            what = ", ".join(repr(choice) for choice in self.choices)
        else:
            what = EXPECTED[self.kind]
            if self.kind == "other" and self.datatype is not None:
                what = f"Literal(…, {self.datatype!r})"
            for limit, bound in self.limits:
                what += f" {LIMITS[limit][0]} {bound}"
            if self.pattern:
                what += f" of the form {self.pattern}"
        if self.one:
            return f"one of {what}" if self.choices else what
        if self.most == 0:
            return "no value"
        if self.most == self.least == 1:
            return f"exactly one {'' if self.kind == 'thing' else 'of ' if self.choices else 'value: '}{what}"
        return f"{self._count} of: {what}"

    @property
    def _count(self) -> str:
        """How many values the field takes, in words."""
        if self.most is None:
            return f"at least {self.least}" if self.least else "any number"
        if self.most == self.least:
            return f"exactly {self.least}"
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"

    def accept(self, class_name: str, value: object) -> object:
        """The value as it is kept: one plain value, or a tuple of them where several are allowed."""
        if self.one:
            return self._accept_one(class_name, value)
        cls = value.__class__
        if cls is IRI or hasattr(cls, "TYPE_SET") or not isinstance(value, Iterable) or _is_scalar(value):
            held: tuple[object, ...] = (self._accept_one(class_name, value),)
        else:
            held = tuple([self._accept_one(class_name, one) for one in value])
        if self.least > 1 or len(held) < self.least or (self.most is not None and len(held) > self.most):
            self._hold_to_count(class_name, value, held)
        return held

    def _hold_to_count(self, class_name: str, value: object, held: tuple[object, ...]) -> None:
        """As a graph counts: a value given twice is one value."""
        count = len(set(map(identity, held)))
        if self.most is not None and count > self.most:
            advice = f"Give no more than {self.most}." if self.most else self._advice(value)
            raise WrongType(class_name, self.name, value, self.expected, advice)
        if count < self.least:
            different = f"{self.least} different values" if self.least > 1 else "one"
            raise WrongType(class_name, self.name, value, self.expected, f"Give at least {different}.")

    def _accept_one(self, class_name: str, value: object) -> object:
        try:
            taken: Any = self._take(value)
        except NotAnIRI:
            advice = "Give one with a scheme and no spaces, such as 'http://example.org/run/1'."
            raise WrongValue(class_name, self.name, value, self.expected, advice) from None
        if taken is None:
            raise WrongType(class_name, self.name, value, self.expected, self._advice(value))
        if self.ranges and taken.__class__ is not IRI:
            for members in self.ranges:
                if members.isdisjoint(taken.TYPE_SET):
                    raise WrongType(class_name, self.name, value, self.expected, self._advice(value))
        elif self.choices or self.limits or self.pattern:
            self._hold_to_facets(class_name, value, taken)
        elif isinstance(taken, str) and not taken.isascii():
            self._hold_to_unicode(class_name, taken)
        return taken

    def _hold_to_facets(self, class_name: str, value: object, taken: Any) -> None:
        if self.choices and taken not in self.choices:
            raise WrongValue(class_name, self.name, value, self.expected, "Use one of the listed values.")
        for holds, bound in self._tests:
            if not holds(taken, bound):
                raise WrongValue(class_name, self.name, value, self.expected, "Give a value within the limits.")
        if self.pattern and not re.fullmatch(self.pattern, str(taken)):
            raise WrongValue(class_name, self.name, value, self.expected, "Give text of that form.")
        if isinstance(taken, str):
            self._hold_to_unicode(class_name, taken)

    def _hold_to_unicode(self, class_name: str, text: Any) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            advice = "Decode the bytes that it came from: it holds half of a surrogate pair."
            raise WrongValue(class_name, self.name, ascii(text), self.expected, advice) from None

    def _advice(self, value: object) -> str:
        """What to do next about a value of the wrong kind."""
        if self.most == 0:
            return "Leave it out: the ontology allows none."
        if self.one and isinstance(value, (list, tuple, set, frozenset)):
            return "Give a single value: the ontology allows one."
        if self.kind == "thing" and isinstance(value, str):
            return "Wrap the name of an existing node in IRI(…)."
        if self.kind == "thing":
            return "Give a thing of that class, or its IRI if it is described elsewhere."
        if self.kind in ("float", "integer", "decimal") and isinstance(value, str):
            return "Convert the text to a number first."
        if self.kind in ("time", "any") and isinstance(value, time):
            return "Give it in UTC: only offsets of whole minutes up to 14 hours can be written."
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            return "Call .item() on it to get the number."
        if self.kind == "other":
            return "Say with which datatype it is to be written."
        return f"Convert it to {EXPECTED[self.kind]} first."

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.iri!r}, {self.kind!r})"


def _fast_way(
    kind: str, limits: tuple[tuple[str, int | float], ...], pattern: str | None, choices: tuple[str, ...]
) -> tuple[type | None, Callable[[Any], bool] | None]:
    """The type of value that needs no conversion, and the one test it has to pass; what fails goes the long way."""
    if choices and not limits and not pattern:
        return str, frozenset(choices).__contains__
    exact = EXACT.get(kind)
    if exact is None or pattern or choices or len(limits) > 1:
        return None, None
    if not limits:
        return exact, None
    limit, bound = limits[0]
    if limit != "minInclusive" or kind not in ("float", "integer"):
        return None, None
    return exact, (float(bound) if kind == "float" else int(bound)).__le__


def identity(value: object) -> object:
    """What makes a kept value the same term in a graph: things count by their IRI, 1 is not 1.0, NaN is NaN."""
    if isinstance(value, IRI) or hasattr(value.__class__, "TYPE_SET"):
        return (IRI, str(getattr(value, "iri", value)))
    if isinstance(value, datetime):
        offset = value.utcoffset()  # not by astimezone: in UTC it may lie outside the years that Python knows
        moment = value.replace(tzinfo=None, fold=0)
        return (datetime, moment) if offset is None else (datetime, moment - datetime.min - offset)
    if isinstance(value, (Decimal, time)):
        return (type(value), value)
    return (type(value), repr(value))


def _is_scalar(value: object) -> bool:
    """True for what counts as one value though it may iterate: text, an enum's member, a numpy scalar."""
    return isinstance(value, (str, bytes, Mapping, Enum, PurePath)) or getattr(value, "shape", None) == ()


def _take_thing(value: object) -> object:
    cls = value.__class__
    return value if cls is IRI or hasattr(cls, "TYPE_SET") else None  # only the class of a thing has that


def _take_float(value: object) -> object:
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


def _take_decimal(value: object) -> object:
    number = plain(value)
    if number.__class__ is int:
        return Decimal(number)
    return number if isinstance(number, Decimal) and _can_be_spelled_out(number) else None


def _can_be_spelled_out(number: Decimal) -> bool:
    """Whether a Decimal is finite and short enough when written without an exponent, as XSD asks."""
    if not number.is_finite():
        return False
    exponent = number.as_tuple().exponent
    return abs(number.adjusted()) <= MOST_DIGITS and isinstance(exponent, int) and abs(exponent) <= MOST_DIGITS


def _take_iri_text(value: object) -> object:
    text = plain(value)
    return IRI(text) if isinstance(text, str) and not isinstance(text, (Text, Literal)) else None


def _take_words(value: object) -> object:
    words = plain(value)
    return words if words.__class__ in (str, Text) else None


def _take_any(value: object) -> object:
    scalar = plain(value)
    if scalar.__class__ is Decimal:
        return _take_decimal(scalar)
    if scalar.__class__ is time:
        return _take_time(scalar)
    return scalar if scalar.__class__ in PLAIN else None


def _take_exactly(cls: type) -> Callable[[object], object]:
    def take(value: object) -> object:
        if value.__class__ is cls:
            return value
        scalar = plain(value)
        return scalar if scalar.__class__ is cls else None

    return take


def _take_time(value: object) -> object:
    """A time whose offset can be written; in another zone it may be a time of another day, so none is moved."""
    moment = plain(value)
    return moment if isinstance(moment, time) and has_whole_offset(moment) else None


def has_whole_offset(moment: datetime | time) -> bool:
    """Whether a moment has no zone, or an offset of whole minutes up to 14 hours, which is all that can be written."""
    offset = moment.utcoffset()
    return offset is None or not (offset % timedelta(minutes=1) or abs(offset) > timedelta(hours=14))


def _take_literal_of(datatype: str) -> Callable[[object], object]:
    return lambda value: value if isinstance(value, Literal) and value.datatype == datatype else None


MOST_DIGITS = 4300
"""How far from its point a Decimal may reach; Python allows an int in text as many digits."""

TAKES: dict[str, Callable[[object], object]] = {
    "thing": _take_thing,
    "float": _take_float,
    "integer": _take_exactly(int),
    "boolean": _take_exactly(bool),
    "decimal": _take_decimal,
    "text": _take_exactly(str),
    "words": _take_words,
    "tagged": _take_exactly(Text),
    "datetime": _take_exactly(datetime),
    "date": _take_exactly(date),
    "time": _take_time,
    "duration": _take_exactly(timedelta),
    "iri": _take_iri_text,
    "other": _take_exactly(Literal),
    "any": _take_any,
}
"""For each kind of field, what makes its plain value of a given one, or None where there is none."""

EXACT: dict[str, type] = {
    "thing": IRI,
    "float": float,
    "integer": int,
    "boolean": bool,
    "datetime": datetime,
    "any": float,
}
"""For a kind of field, the type of value that needs no further look where there are no facets; the fast way in."""

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
