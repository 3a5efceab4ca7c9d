"""The values that nodes hold: `IRI`, `Text`, `Literal`, and the plain Python value of any scalar."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isinf
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias, TypeVar

from provml.errors import NotAnIRI, WrongType, WrongValue

_SIMPLE_IRI = re.compile(
    r"(?:https?://|urn:[a-z]+:)[A-Za-z0-9\-._~]+(?:/[A-Za-z0-9\-._~:@+,=]*)*(?:#[A-Za-z0-9\-._~/]*)?"
)
_LANG_STRINGS = tuple(f"http://www.w3.org/1999/02/22-rdf-syntax-ns#{name}" for name in ("langString", "dirLangString"))


class IRI(str):
    """The name of a node: an absolute IRI, checked when it is made."""

    __slots__ = ()

    def __new__(cls, text: str) -> IRI:
        if text.__class__ is cls:
            return text
        given: object = text
        if not isinstance(given, str) or not (_SIMPLE_IRI.fullmatch(text) or _is_iri(text)):
            raise NotAnIRI(text)
        return str.__new__(cls, text)

    @property
    def name(self) -> str:
        """The part after the last `#`, `/` or `:`, for people to read."""
        return re.split(r"[#/:]", self.rstrip("#/:"))[-1] or str(self)

    def __repr__(self) -> str:
        return f"IRI({str(self)!r})"


@cache
def _grammar() -> re.Pattern[str]:
    """RFC 3987, absolute, with an optional fragment; what this accepts, Oxigraph accepts (a test holds them together).

    Compiling it takes longer than importing all the rest, and most IRIs are simple: it is made when first needed.
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
    """The whole grammar, and the IPv6 literals that a regular expression alone would take too many of."""
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
    """Well-formed language tags of RFC 5646, the old irregular ones too, with RDF 1.2's direction; made when needed."""
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
    """Words in a language: `Text("couche", "fr")`. Equal only to the same words in the same language."""

    language: str

    def __new__(cls, words: str, language: str) -> Text:
        _refuse_other_than_text("Text", "words", words)
        _refuse_other_than_text("Text", "language", language)
        if not _languages().fullmatch(language.lower()):
            raise WrongValue("Text", "language", language, "a language tag", "Give one such as 'en' or 'pt-br'.")
        text = str.__new__(cls, words)
        object.__setattr__(text, "language", language.lower())
        return text

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Text does not change: make a new one to set {name}")

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
    """A value whose datatype Python has no type for, kept as written: `Literal("--11-16", IRI("…#gMonthDay"))`."""

    datatype: IRI

    def __new__(cls, written: str, datatype: str) -> Literal:
        _refuse_other_than_text("Literal", "written", written)
        if datatype in _LANG_STRINGS:
            advice = "Use Text for words in a language."
            raise WrongValue("Literal", "datatype", datatype, "a datatype that needs no language", advice)
        literal = str.__new__(cls, written)
        object.__setattr__(literal, "datatype", IRI(datatype))
        return literal

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Literal does not change: make a new one to set {name}")

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


def _refuse_other_than_text(class_name: str, part: str, given: object) -> None:
    if not isinstance(given, str):
        raise WrongType(class_name, part, given, "text (str)", "Convert it to text first.")


_Held = TypeVar("_Held", covariant=True)


class NumpyScalar(Protocol[_Held]):
    """A numpy scalar, for type checkers: it has no dimensions, and item() gives its Python value."""

    @property
    def shape(self) -> tuple[()]: ...

    def item(self) -> _Held: ...


FloatLike: TypeAlias = "float | NumpyScalar[float]"
"""What a field of floats takes."""

IntLike: TypeAlias = "int | NumpyScalar[int]"
"""What a field of whole numbers takes."""

BoolLike: TypeAlias = "bool | NumpyScalar[bool]"
"""What a field of truth values takes."""

Kept: TypeAlias = "str | int | float | bool | Decimal | datetime | date | time | timedelta | IRI | Text | Literal"
"""What a field without a narrower range reads as."""

Scalar: TypeAlias = "Kept | Enum | PurePath | NumpyScalar[Any]"
"""What a field without a narrower range takes."""

PLAIN = frozenset({str, int, float, bool, Decimal, datetime, date, time, timedelta, IRI, Text, Literal})
"""The types that a kept scalar has."""


def plain(value: object) -> object:
    """The plain Python value of a scalar: enums by value, paths as text, numpy scalars as what they hold.

    A numpy float narrower than a double becomes the double that prints the same (0.001 stays 0.001), which gives the
    same narrow float back; a wider one becomes the nearest double. Moments and lengths finer than a microsecond are
    rounded down to one. Anything that is no scalar, or that Python has no value for, is returned as it came.
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
    if isinstance(value, datetime):  # pandas' and pendulum's are subclasses of datetime
        if value != value:  # pandas' NaT
            return value
        moment = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
        return datetime(*moment, tzinfo=value.tzinfo, fold=value.fold)
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
        return value if isinf(double) and value != double else double  # what is finite stays so, or is refused
    if value.dtype.kind in "mM":
        return _from_numpy_time(value)
    return plain(value.item())


def _from_numpy_time(value: Any) -> object:
    """A datetime64 as a datetime, a timedelta64 as a timedelta; as it came where it is none or has no fixed length.

    Its item() is a bare int beyond what Python's types hold; that of a unit finer than a microsecond always is.
    """
    held = value.item()
    if held.__class__ is int and value.dtype.str.endswith(("ns]", "ps]", "fs]", "as]")):
        held = value.astype(f"{value.dtype.kind}8[us]").item()
    if held.__class__ is date:
        return datetime(held.year, held.month, held.day)
    return held if held.__class__ in (datetime, timedelta) else value
