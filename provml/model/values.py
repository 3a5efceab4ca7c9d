"""Values of fields: `IRI`, `Text`, `Literal`, and the plain Python value of any scalar."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isinf
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias, TypeVar

from provml.errors import InvalidIRI, WrongType, WrongValue

_SIMPLE_IRI = re.compile(
    r"(?:https?://|urn:[a-z]+:)[A-Za-z0-9\-._~]+(?:/[A-Za-z0-9\-._~:@+,=]*)*(?:#[A-Za-z0-9\-._~/]*)?"
)
_LANG_STRINGS = tuple(f"http://www.w3.org/1999/02/22-rdf-syntax-ns#{name}" for name in ("langString", "dirLangString"))


class IRI(str):
    """Identifier of a node: an absolute IRI, checked on construction."""

    __slots__ = ()

    def __new__(cls, text: str) -> IRI:
        if text.__class__ is cls:
            return text
        value: object = text
        if not isinstance(value, str) or not (_SIMPLE_IRI.fullmatch(text) or _is_iri(text)):
            raise InvalidIRI(text)
        return str.__new__(cls, text)

    @property
    def name(self) -> str:
        """The part after the last `#`, `/` or `:`, for display."""
        return re.split(r"[#/:]", self.rstrip("#/:"))[-1] or str(self)

    def __repr__(self) -> str:
        return f"IRI({str(self)!r})"


@cache
def _grammar() -> re.Pattern[str]:
    """Return the grammar of absolute IRIs (RFC 3987); Oxigraph accepts every IRI that matches (checked by a test).

    The pattern is compiled on first use, since that takes longer than all imports and most IRIs are simple.
    """
    planes = "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    ucs = f"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{planes}\U000e1000-\U000efffd"
    private = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
    char = rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={ucs}]|%[0-9A-Fa-f]{{2}})"
    pchar = rf"(?:[:@]|{char})"
    future = r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+"
    return re.compile(
        rf"[A-Za-z][A-Za-z0-9+.\-]*:"
        rf"(?://(?:(?:{char}|:)*@)?(?:\[(?:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*|{future})\]|{char}*)(?::[0-9]*)?(?:/{pchar}*)*"
        rf"|/(?:{pchar}+(?:/{pchar}*)*)?|{pchar}+(?:/{pchar}*)*|)"
        rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    )


def _is_iri(text: str) -> bool:
    """Check the whole grammar, and IPv6 addresses, of which the pattern alone accepts too many."""
    if not _grammar().fullmatch(text):
        return False
    host = re.match(r"[^/?#]*//(?:[^/?#@]*@)?\[([^\]]*)\]", text)
    if host is None or host[1][0] in "vV":
        return True
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(host[1])
    except AddressValueError:
        return False
    return True


@cache
def _languages() -> re.Pattern[str]:
    """Return the pattern of language tags (RFC 5646, including the irregular ones) with the direction of RDF 1.2."""
    irregular = (
        "en-gb-oed|sgn-be-fr|sgn-be-nl|sgn-ch-de"
        "|i-(?:ami|bnn|default|enochian|hak|klingon|lux|mingo|navajo|pwn|tao|tay|tsu)"
        "|art-lojban|cel-gaulish|no-bok|no-nyn|zh-guoyu|zh-hakka|zh-min|zh-min-nan|zh-xiang"
    )
    private = r"x(?:-[a-z0-9]{1,8})+"
    tag = (
        r"(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4,8})(?:-[a-z]{4})?(?:-(?:[a-z]{2}|[0-9]{3}))?"
        r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[0-9a-wy-z](?:-[a-z0-9]{2,8})+)*"
    )
    return re.compile(rf"(?:{tag}(?:-{private})?|{private}|{irregular})(?:--(?:ltr|rtl))?")


class Text(str):
    """Text in a language: `Text("couche", "fr")`. Equal only to the same text in the same language."""

    language: str

    def __new__(cls, words: str, language: str) -> Text:
        _require_str("Text", "words", words)
        _require_str("Text", "language", language)
        if not _languages().fullmatch(language.lower()):
            raise WrongValue("Text", "language", language, "a language tag", "Use a tag such as 'en' or 'pt-br'.")
        text = str.__new__(cls, words)
        object.__setattr__(text, "language", language.lower())
        return text

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a Text is immutable. Create a new one.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and str.__eq__(self, other) and self.language == other.language

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), self.language))

    def __repr__(self) -> str:
        return f"Text({str(self)!r}, {self.language!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Text, (str(self), self.language))


class Literal(str):
    """A value of a datatype without a Python type, as it is written: `Literal("--11-16", IRI("…#gMonthDay"))`."""

    datatype: IRI

    def __new__(cls, written: str, datatype: str) -> Literal:
        _require_str("Literal", "written", written)
        if datatype in _LANG_STRINGS:
            advice = "Use Text for text in a language."
            raise WrongValue("Literal", "datatype", datatype, "a datatype without a language", advice)
        literal = str.__new__(cls, written)
        object.__setattr__(literal, "datatype", IRI(datatype))
        return literal

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a Literal is immutable. Create a new one.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and str.__eq__(self, other) and self.datatype == other.datatype

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), self.datatype))

    def __repr__(self) -> str:
        return f"Literal({str(self)!r}, {str(self.datatype)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Literal, (str(self), str(self.datatype)))


def _require_str(class_name: str, argument: str, value: object) -> None:
    if not isinstance(value, str):
        raise WrongType(class_name, argument, value, "text (str)", "Convert it to text first.")


_Value = TypeVar("_Value", covariant=True)


class NumpyScalar(Protocol[_Value]):
    """A numpy scalar, for type checkers: it has no dimensions, and item() returns its Python value."""

    @property
    def shape(self) -> tuple[()]: ...

    def item(self) -> _Value: ...


FloatLike: TypeAlias = "float | NumpyScalar[float]"
"""Type that a field of floats accepts."""

IntLike: TypeAlias = "int | NumpyScalar[int]"
"""Type that a field of integers accepts."""

BoolLike: TypeAlias = "bool | NumpyScalar[bool]"
"""Type that a field of booleans accepts."""

Scalar: TypeAlias = "str | int | float | bool | Decimal | datetime | date | time | timedelta | IRI | Text | Literal"
"""Type of the values of a field without a narrower range."""

ScalarLike: TypeAlias = "Scalar | Enum | PurePath | NumpyScalar[Any]"
"""Type that a field without a narrower range accepts."""

PLAIN = frozenset({str, int, float, bool, Decimal, datetime, date, time, timedelta, IRI, Text, Literal})
"""The types of plain scalars, as fields store them."""


def plain(value: object) -> object:
    """Return the plain Python value of a scalar: the value of an enum, the text of a path, the item of a numpy scalar.

    A numpy float narrower than a double becomes the double that prints the same (0.001 stays 0.001) and that converts
    back to the same narrow float; a wider one becomes the nearest double. Times and durations are rounded down to
    microseconds. A value that is no scalar, or that has no Python equivalent, is returned unchanged.
    """
    if value.__class__ in PLAIN:
        return value
    if isinstance(value, Enum):
        inner = plain(value.value)
        return inner if inner.__class__ in PLAIN else value.name
    if isinstance(value, PurePath):
        return value.as_posix()
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _from_numpy(value)
    if isinstance(value, datetime):  # a subclass such as those of pandas and pendulum
        if value != value:  # pandas' NaT
            return value
        parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
        return datetime(*parts, tzinfo=value.tzinfo, fold=value.fold)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, time):
        return time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)
    if isinstance(value, timedelta):
        return timedelta(value.days, value.seconds, value.microseconds)
    for base in (int, float, str, Decimal):
        if isinstance(value, base):
            return base(value)
    return value


def _from_numpy(value: Any) -> object:
    if value.dtype.kind == "f":
        if value.dtype.itemsize < 8:
            return float(str(value[()]))
        double = float(value)
        return value if isinf(double) and value != double else double  # a finite value must not become infinite
    if value.dtype.kind in "mM":
        return _from_numpy_time(value)
    return plain(value.item())


def _from_numpy_time(value: Any) -> object:
    """Return a datetime64 as a datetime and a timedelta64 as a timedelta; unchanged if Python cannot represent it.

    `item()` returns a bare int for units finer than a microsecond, and for values outside the range of Python's types.
    """
    item = value.item()
    if item.__class__ is int and value.dtype.str.endswith(("ns]", "ps]", "fs]", "as]")):
        item = value.astype(f"{value.dtype.kind}8[us]").item()
    if item.__class__ is date:
        return datetime(item.year, item.month, item.day)
    return item if item.__class__ in (datetime, timedelta) else value
