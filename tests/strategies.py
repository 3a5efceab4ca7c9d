"""Random values and things: every scalar that a field accepts, and every class of the vocabulary with valid fields."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

import provml.vocab
from provml.model.field import Field
from provml.model.thing import PENDING, Thing, find_class
from provml.model.values import IRI, Literal, Text

XSD = "http://www.w3.org/2001/XMLSchema#"
EX = "http://example.org/"

VOCABULARY: list[type[Thing]] = sorted(
    (
        cls
        for iri, (module, _) in PENDING.items()
        if module.startswith(provml.vocab.__name__) and (cls := find_class(iri))
    ),
    key=lambda cls: str(cls.CLASS_IRI),
)
"""Every generated class."""

# ---- scalars

texts = (
    st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("\"\\\n\r\t\0'<>{} .^@é\u2028\x85"))
).map(lambda text: text + "")  # without map, hypothesis 6.170 replays a Text or Literal as one of these and fails
languages = st.sampled_from(["en", "fr", "pt-br", "zh-hant-tw", "de-1996", "x-private", "i-klingon"])
tagged = st.builds(Text, texts, languages)
directed = st.builds(
    lambda words, tag, direction: Text(words, f"{tag}--{direction}"), texts, languages, st.sampled_from(["ltr", "rtl"])
)
floats = st.floats() | st.sampled_from([-0.0, 5e-324, 1e22, 1e16, 0.1, 1e-5, math.inf, -math.inf, math.nan])
integers = st.integers() | st.integers(-(2**1000), 2**1000)
decimals = st.decimals(allow_nan=False, allow_infinity=False) | st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-999, 999), st.integers(-60, 60)
)
zones = st.timezones() | st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
whole_zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@st.composite
def datetimes(draw: st.DrawFn) -> datetime:
    """Datetimes with and without a zone, the earliest and latest ones too, with any offset that Python allows."""
    extremes = st.sampled_from([datetime.min, datetime.max, datetime(2024, 10, 27, 2, 30)])
    value = draw(st.datetimes() | extremes).replace(
        tzinfo=draw(st.none() | st.just(UTC) | zones), fold=draw(st.integers(0, 1))
    )
    offset = value.utcoffset()
    if offset is not None and (offset.total_seconds() % 60 or abs(offset) > timedelta(hours=14)):
        since_start = value.replace(tzinfo=None) - datetime.min - offset
        assume(timedelta() <= since_start <= datetime.max - datetime.min)
    return value


dates = st.dates()
times = st.times(timezones=st.none() | whole_zones | st.timezones())
durations = st.timedeltas() | st.sampled_from([timedelta.min, timedelta.max, timedelta(microseconds=-1)])
iris = st.text("abcXYZ019-._~/:#?'()é%20", max_size=20).map(lambda tail: EX + tail).filter(lambda text: _is_iri(text))
literals = st.builds(
    Literal,
    st.sampled_from(["--11-16", "abc", '"a"\n', ""]),
    st.sampled_from([f"{XSD}gMonthDay", f"{XSD}token", f"{EX}datatype"]),
)
ill_typed = st.builds(
    Literal,
    st.sampled_from(["abc", "1_0", "٣", " 1", "1 ", "0x1", ""]),
    st.sampled_from([f"{XSD}{x}" for x in ("integer", "double", "decimal")]),
)


def _is_iri(text: str) -> bool:
    try:
        IRI(text)
    except ValueError:
        return False
    return True


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "words": texts | tagged,
    "tagged": tagged,
    "float": floats,
    "integer": integers,
    "boolean": st.booleans(),
    "decimal": decimals,
    "datetime": datetimes(),
    "date": dates,
    "time": times,
    "duration": durations,
    "iri": iris.map(IRI),
    "other": literals,
}
"""For each kind of data field, the values that it stores unchanged."""

scalars = st.one_of(
    texts, tagged, floats, integers, st.booleans(), decimals, datetimes(), dates, times, durations, iris.map(IRI),
    literals, ill_typed,
)  # fmt: skip


def alike(first: object, second: object) -> bool:
    """Return True for the same type and value; NaN equals NaN, -0.0 differs from 0.0, datetimes compare by instant."""
    if type(first) is not type(second):
        return False
    if isinstance(first, float) and isinstance(second, float):
        return (math.isnan(first) and math.isnan(second)) or struct.pack("d", first) == struct.pack("d", second)
    if isinstance(first, datetime) and isinstance(second, datetime):
        if (first.utcoffset() is None) != (second.utcoffset() is None):
            return False
        if first.utcoffset() is None:
            return first.replace(tzinfo=None, fold=0) == second.replace(tzinfo=None, fold=0)
        return first - second == timedelta()
    return first == second


# ---- things


class Sample(Thing):
    """A class with a single-valued and a multi-valued field of every kind."""

    __slots__ = ()

    CLASS_IRI = f"{EX}ns#Sample"
    TYPES = (f"{EX}ns#Sample",)
    OWN_FIELDS = (
        *(Field(f"one_{kind}", f"{EX}ns#one-{kind}", kind, single=True) for kind in (*KINDS, "any", "thing")),
        *(Field(f"many_{kind}", f"{EX}ns#many-{kind}", kind) for kind in (*KINDS, "any", "thing")),
        Field("two", f"{EX}ns#two", "integer", max_count=2),
        Field("month_day", f"{EX}ns#monthDay", "other", single=True, datatype=f"{XSD}gMonthDay"),
        Field("code", f"{EX}ns#code", "text", single=True, pattern=".{3}"),
        Field("digits", f"{EX}ns#digits", "integer", single=True, pattern="[1-9][0-9]{2}"),
    )

    def __init__(self, iri: str, *, extra: Any = None, **values: Any) -> None:
        self._assign(iri, values, extra)


def values_of(field: Field, fresh: Iterator[int]) -> st.SearchStrategy[Any]:
    """Values that a field accepts; for a field of things, the IRI of a new node."""
    if field.kind == "thing":
        return st.builds(lambda: IRI(f"{EX}node/{next(fresh)}"))
    if field.choices:
        return st.sampled_from(field.choices)
    if field.pattern is not None:
        matches = st.from_regex(field.pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))
        return matches.map(int) if field.kind == "integer" else matches
    if field.kind == "any":
        return scalars
    if field.kind == "other" and field.datatype is not None:
        return st.builds(Literal, texts, st.just(field.datatype))
    values = KINDS[field.kind]
    for limit, bound in field.limits:
        values = values.filter(LIMITS[limit](bound))
    return values


LIMITS: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "minInclusive": lambda bound: lambda value: value >= bound,
    "maxInclusive": lambda bound: lambda value: value <= bound,
    "minExclusive": lambda bound: lambda value: value > bound,
    "maxExclusive": lambda bound: lambda value: value < bound,
    "minLength": lambda bound: lambda value: len(value) >= bound,
}

extras = st.dictionaries(
    st.sampled_from([f"{EX}extra#{name}" for name in "abc"]),
    st.lists(scalars | iris.map(IRI), min_size=1, max_size=3),
    max_size=2,
)


@st.composite
def things(draw: st.DrawFn, classes: list[type[Thing]] = VOCABULARY) -> Thing:
    """A thing of one of the classes: its required fields, some of the others, and some extra properties."""
    cls = draw(st.sampled_from(classes))
    fresh = count()
    values: dict[str, Any] = {}
    usable = [field for field in cls.FIELDS.values() if field.max_count != 0]
    chosen = draw(st.lists(st.sampled_from(usable), max_size=6, unique_by=lambda field: field.name))
    for field in dict.fromkeys([*(cls.FIELDS[name] for name in cls.REQUIRED), *chosen]):
        value = values_of(field, fresh)
        max_size = 3 if field.max_count is None else field.max_count
        values[field.name] = draw(
            value if field.single else st.lists(value, min_size=max(1, field.min_count), max_size=max_size)
        )
    return cls(draw(iris), **values, extra=draw(extras))
