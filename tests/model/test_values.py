"""IRIs, text, literals, and the plain values of scalars: which are accepted or rejected, and how they are stored."""

from __future__ import annotations

import copy
import enum
import math
import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath, PureWindowsPath
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from strategies import EX, XSD, Sample, alike, directed, iris, literals, scalars, tagged, texts

from provml import rdf
from provml.errors import InvalidIRI, InvalidValue, ProvmlError, WrongType, WrongValue
from provml.model.thing import Thing
from provml.model.values import IRI, PLAIN, Literal, Text, plain

# ---- IRIs

PIECES = st.sampled_from(
    ["http:", "https://", "urn:", "a:", "//", "/", "?", "#", "@", ":", "%", "%20", "%zz", "[", "]", "[::1]", "[v1.a]",
     "[vF.é]", "[Vg.a]", "[v.a]", "[v1.]", "[v1.:~!]",
     "[1::2::3]", "[::1.2.3.4]", "[::ffff:1.2.3]", "[fe80::1%25en0]", "::", "ffff", "1.2.3.4", "host", ":80", ":x",
     ".", "..", "é", "日本", "\u200e", "\xa0", "\ue000", "\ufdd0", "\ufffe", "\U0001f600", "\U000e0001", "\U000e1000",
     "\U000f0000", "\U0010ffff", "\ud800", " ", "\t", "\n", "\0", "<", ">", '"', "{", "}", "|", "^", "`", "\\", "'",
     "(", "+", "~", "-", "_", "!", "$", "&", "*", ",", ";", "="]
)  # fmt: skip
ALMOST_IRIS = st.builds(
    lambda start, rest: start + "".join(rest),
    st.sampled_from(["", "http://", "http://a/", "urn:a:", "a:", "http://a?", "http://a#", "http://["]),
    st.lists(PIECES | st.characters(), max_size=8),
)


def oxigraph_accepts(text: str) -> bool:
    try:
        ox.NamedNode(text)
    except ValueError:
        return False
    return True


@settings(max_examples=examples(1000))
@given(ALMOST_IRIS)
@example("")
@example("a:")
@example("a://")
@example("http://a:b@c:80/d?e#f")
@example("http://[v1.a]/")
def test_an_iri_is_valid_if_oxigraph_accepts_it(text: str):
    try:
        iri = IRI(text)
    except InvalidIRI:
        assert not oxigraph_accepts(text)
    else:
        assert oxigraph_accepts(text)
        assert iri == text


@pytest.mark.parametrize("value", [None, 3, b"http://a", object()])
def test_only_text_can_be_an_iri(value: object):
    with pytest.raises(InvalidIRI):
        IRI(value)  # type: ignore[arg-type]


def test_a_long_invalid_iri_is_rejected_quickly():
    for text in ("http://" + "a" * 50_000 + " ", "http://a/" + "%20" * 20_000 + "%", "a:" + "/b" * 20_000 + "|"):
        with pytest.raises(InvalidIRI):
            IRI(text)


@pytest.mark.parametrize(
    ("iri", "name"),
    [("http://a/b#c", "c"), ("http://a/b/", "b"), ("urn:x:y", "y"), ("http://a#", "a"), ("a:", "a")],
)
def test_the_name_of_an_iri_is_its_last_part(iri: str, name: str):
    assert IRI(iri).name == name


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [IRI(f"{EX}a"), Text("a", "en"), Literal("a", f"{XSD}token")])
def test_values_can_be_pickled_and_copied(value: str, protocol: int):
    for copied in (pickle.loads(pickle.dumps(value, protocol)), copy.copy(value), copy.deepcopy(value)):
        assert type(copied) is type(value)
        assert copied == value
        assert repr(copied) == repr(value)


# ---- text and literals

SUBTAGS = st.sampled_from(
    ["en", "EN", "abc", "abcd", "abcde", "abcdefgh", "abcdefghi", "a", "x", "i", "u", "1", "12", "123", "1994", "1abc",
     "us", "Latn", "klingon", "default", "oed", "gb", "zh", "min", "nan", "sgn", "be", "fr", "", "é", "_", "\u212a"]
)  # fmt: skip


@settings(max_examples=examples(1000))
@given(st.lists(SUBTAGS, min_size=1, max_size=5).map("-".join))
def test_a_language_is_valid_if_oxigraph_accepts_it(tag: str):
    try:
        ox.Literal("words", language=tag.lower())
    except ValueError:
        with pytest.raises(WrongValue, match=r"Text\.language .*Use a tag such as"):
            Text("words", tag)
    else:
        assert Text("words", tag).language == tag.lower()


@pytest.mark.parametrize(("words", "language"), [(3, "en"), (None, "en"), ("words", None), ("words", 3)])
def test_text_and_language_must_be_str(words: object, language: object):
    with pytest.raises(WrongType):
        Text(words, language)  # type: ignore[arg-type]


def test_texts_are_equal_only_in_the_same_language():
    assert Text("a", "en") == Text("a", "EN")
    assert hash(Text("a", "en")) == hash(Text("a", "EN"))
    assert Text("a", "en") != Text("a", "fr")
    assert Text("a", "en") != "a"
    assert "a" != Text("a", "en")  # noqa: SIM300  # the order matters here


def test_literals_are_equal_only_with_the_same_datatype():
    assert Literal("a", f"{XSD}token") == Literal("a", f"{XSD}token")
    assert Literal("a", f"{XSD}token") != Literal("a", f"{XSD}name")
    assert Literal("a", f"{XSD}token") != "a"


@pytest.mark.parametrize("value", [Text("a", "en"), Literal("a", f"{XSD}token")])
def test_text_and_literals_are_immutable(value: str):
    for name in ("language", "datatype", "other"):
        with pytest.raises(AttributeError, match="is immutable"):
            setattr(value, name, "x")


def test_a_literal_rejects_what_cannot_be_written():
    with pytest.raises(InvalidIRI):
        Literal("a", "no datatype")
    with pytest.raises(WrongType):
        Literal(3, f"{XSD}integer")  # type: ignore[arg-type]
    for name in ("langString", "dirLangString"):
        with pytest.raises(WrongValue, match="Use Text"):
            Literal("a", f"http://www.w3.org/1999/02/22-rdf-syntax-ns#{name}")


# ---- round trips


def through_a_store(thing: Thing) -> Thing:
    """Write a thing, load it into Oxigraph, which normalizes literals, and read it."""
    store = ox.Store()
    store.load(rdf.ntriples(thing), ox.RdfFormat.N_TRIPLES)
    back: Thing = rdf.read(store, thing.iri)
    return back


def check_round_trip(value: object) -> object:
    """Check that a value in a field, in `extra` and as a term is read as its plain value, and return that."""
    expected = plain(value)
    assert type(expected) in PLAIN
    assert alike(rdf.value(rdf.term(value)), expected)
    thing = Sample(f"{EX}it", one_any=value, many_any=[value], extra={f"{EX}p": value})
    assert alike(thing.one_any, expected)
    back = through_a_store(thing)
    assert back == thing
    assert alike(back.one_any, expected)
    assert alike(back.many_any[0], expected)
    assert alike(back.extra[IRI(f"{EX}p")][0], expected)
    parsed = {quad.triple for quad in ox.parse(rdf.ntriples(thing), ox.RdfFormat.N_TRIPLES)}
    assert parsed == set(rdf.triples(thing))
    return expected


@settings(max_examples=examples(600))
@given(scalars | directed)
def test_every_scalar_survives_a_round_trip(value: object):
    check_round_trip(value)


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1e308, 1e16, 1e22),
        *(2**1000, -(2**1000), 0, True, False),
        *(datetime.min, datetime.max, datetime(2024, 1, 1, microsecond=1)),
        *(datetime.min.replace(tzinfo=timezone(timedelta(hours=h))) for h in (14, -14)),
        *(datetime.max.replace(tzinfo=timezone(timedelta(hours=h))) for h in (14, -14)),
        *(datetime(2024, 1, 1, tzinfo=timezone(timedelta(**offset))) for offset in ({"seconds": 1}, {"hours": -23})),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 10, 27, 2, 30, fold=1),
        *(date.min, date.max, time.min, time.max, time(1, tzinfo=timezone(timedelta(minutes=-841 + 1)))),
        *(timedelta.min, timedelta.max, timedelta(microseconds=-1), timedelta()),
        *map(Decimal, ("1E+50", "1E-50", "1.500", "-0", "0E+5", "123456789012345678901234567890.5")),
        *("", "\0", '"', "\\", "\n\r\t", "a .\n", "\u2028", "\U0010ffff", "\ufffe"),
        Text("", "en"),
        IRI("urn:a:b"),
    ],
    ids=repr,
)  # fmt: skip
def test_extreme_values_survive_a_round_trip(value: object):
    assert alike(check_round_trip(value), value)


def test_a_datetime_with_an_offset_that_xsd_lacks_is_written_in_utc():
    value = datetime(1890, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
    assert value.utcoffset() % timedelta(minutes=1)
    assert rdf.term(value).value == value.astimezone(timezone.utc).isoformat()  # noqa: UP017


def test_a_datetime_that_cannot_be_written_with_its_offset_or_in_utc_is_rejected():
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=23)))
    with pytest.raises(WrongValue, match="years 1 to 9999"):
        rdf.ntriples(Sample(f"{EX}a", one_datetime=early))


@pytest.mark.parametrize("offset", [timedelta(seconds=30), timedelta(hours=14, minutes=1), timedelta(hours=-20)])
def test_a_time_with_an_offset_that_xsd_lacks_is_rejected(offset: timedelta):
    for field in ("one_time", "one_any"):
        with pytest.raises(WrongType, match="Pass it in UTC"):
            Sample(f"{EX}a", **{field: time(12, tzinfo=timezone(offset))})


# ---- rejected values


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", Text("\ud800", "en"), Literal("\udc00", f"{EX}t")], ids=ascii)
def test_half_a_surrogate_pair_is_rejected(value: str):
    fields = {str: ("text", "words", "any"), Text: ("words", "tagged", "any"), Literal: ("other", "any")}[type(value)]
    for field in fields:
        for name in (f"one_{field}", f"many_{field}"):
            with pytest.raises(WrongValue, match="surrogate") as caught:
                Sample(f"{EX}a", **{name: value})
            assert str(caught.value).isprintable()
    with pytest.raises(WrongValue, match="surrogate"):
        Sample(f"{EX}a", extra={f"{EX}p": value})
    if type(value) is str:
        with pytest.raises(WrongValue):
            Sample(f"{EX}a", code=(value * 3)[:3])


class NotAScalar:
    """A class without an RDF equivalent."""


NO_TIME = np.int64(-(2**63))  # NaT; as a view without a unit, since numpy 2.5 warns about NaT without a unit
REJECTED = [
    *map(Decimal, ("NaN", "sNaN", "Infinity", "-Infinity", "1E+5000", "1E-5000", "1E+999999999")),
    *(1j, b"bytes", bytearray(b"x"), NotAScalar(), NotAScalar, len, {"a": 1}, range(3), ...),
    *(np.complex64(1), np.bytes_(b"x"), np.void(b"x"), np.array([1.0]), np.array([[1]]), np.array(1j)),
    *(NO_TIME.view("M8"), NO_TIME.view("m8"), np.datetime64("NaT", "s"), np.timedelta64("NaT", "ns")),
    *(np.datetime64(2**62, "s"), np.datetime64("20000-01-01"), np.datetime64("-0044-03-15"), np.datetime64("9999999")),
    *(np.int64(5).view("m8"), np.timedelta64(1, "Y"), np.timedelta64(1, "M"), np.timedelta64(2**62, "D")),
    *(pd.NA, pd.NaT, pd.Series([1]), pd.DataFrame()),
]  # fmt: skip
if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
    REJECTED.append(np.longdouble("1e4000"))


@pytest.mark.parametrize("value", REJECTED, ids=lambda value: f"{type(value).__name__} {str(value)[:20]}")
def test_missing_values_and_values_that_are_no_scalars_are_rejected(value: object):
    for make in (
        lambda: Sample(f"{EX}a", one_any=value),
        lambda: Sample(f"{EX}a", extra={f"{EX}p": value}),
        lambda: Sample(f"{EX}a", extra={f"{EX}p": [value]}),
        lambda: Sample(f"{EX}a", many_any=[value]),
        lambda: rdf.term(value),
    ):
        with pytest.raises(WrongType) as caught:
            make()
        assert caught.value.value is value


@pytest.mark.parametrize("value", [None, [], [1], [1, 2], (), {1}])
def test_a_term_needs_exactly_one_value(value: object):
    with pytest.raises(InvalidValue):
        rdf.term(value)


# ---- paths, enums, numpy, pandas


def test_paths_are_text_with_forward_slashes():
    assert check_round_trip(PurePosixPath("a b/ü.h5")) == "a b/ü.h5"
    assert check_round_trip(PurePosixPath("a\\b")) == "a\\b"
    assert check_round_trip(PureWindowsPath(r"C:\data\train.h5")) == "C:/data/train.h5"
    assert Sample(f"{EX}a", many_text=PurePosixPath("a/b")).many_text == ("a/b",)


class Word(enum.StrEnum):
    RED = "red"


class OldWord(str, enum.Enum):  # noqa: UP042  # the older style is still in use
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Plain(enum.Enum):
    TEXT = "text"
    NUMBER = 2.5
    NESTED = Word.RED
    PATH = PurePosixPath("a/b")
    MOMENT = datetime(2024, 1, 1)
    IRI = IRI(f"{EX}a")
    STRUCTURE = (1, 2)
    NOTHING = None
    OBJECT = object()


class NumpyEnum(enum.Enum):  # separate: from 3.13 on, Python compares the values of an enum, here with a tuple
    NUMPY = np.float32(0.1)


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Word.RED, "red"),
        (OldWord.RED, "red"),
        (Level.HIGH, 3),
        (Flags.A | Flags.B, 3),
        (Plain.TEXT, "text"),
        (Plain.NUMBER, 2.5),
        (Plain.NESTED, "red"),
        (Plain.PATH, "a/b"),
        (Plain.MOMENT, datetime(2024, 1, 1)),
        (NumpyEnum.NUMPY, 0.1),
        (Plain.IRI, IRI(f"{EX}a")),
        (Plain.STRUCTURE, "STRUCTURE"),
        (Plain.NOTHING, "NOTHING"),
        (Plain.OBJECT, "OBJECT"),
    ],
)
def test_an_enum_member_is_stored_as_its_value_or_its_name(member: enum.Enum, expected: object):
    assert alike(plain(member), expected)
    assert alike(Sample(f"{EX}a", one_any=member).one_any, expected)
    assert alike(Sample(f"{EX}a", many_any=member).many_any[0], expected)
    assert alike(through_a_store(Sample(f"{EX}a", one_any=member)).one_any, expected)


def test_instances_of_subclasses_are_stored_as_the_base_type():
    class Number(int): ...

    class Real(float): ...

    class Words(str): ...

    class Exact(Decimal): ...

    class Day(date): ...

    class Moment(datetime): ...

    class Clock(time): ...

    class Length(timedelta): ...

    for value, expected in [
        (Number(3), 3),
        (Real(0.5), 0.5),
        (Words("a"), "a"),
        (Exact("1.5"), Decimal("1.5")),
        (Day(2024, 1, 2), date(2024, 1, 2)),
        (Moment(2024, 1, 2, 3, 4, 5, 6), datetime(2024, 1, 2, 3, 4, 5, 6)),
        (Clock(1, 2, 3, 4), time(1, 2, 3, 4)),
        (Length(1, 2, 3), timedelta(1, 2, 3)),
    ]:
        assert alike(check_round_trip(value), expected)


@settings(max_examples=examples(600))
@given(st.data())
def test_numpy_numbers_and_text_are_stored_as_python_values(data: st.DataObject):
    kinds = (
        numpy_strategies.integer_dtypes()
        | numpy_strategies.unsigned_integer_dtypes()
        | numpy_strategies.boolean_dtypes()
    )
    dtype = data.draw(kinds | numpy_strategies.floating_dtypes(sizes=(64,)) | numpy_strategies.unicode_string_dtypes())
    scalar = data.draw(numpy_strategies.from_dtype(dtype).filter(lambda x: not isinstance(x, str) or x.isprintable()))
    assert alike(check_round_trip(dtype.type(scalar)), dtype.type(scalar).item())
    assert alike(check_round_trip(np.array(scalar, dtype)), np.array(scalar, dtype).item())


def test_a_half_float_is_stored_as_the_double_that_prints_the_same():
    half_floats = np.arange(2**16, dtype=np.uint16).view(np.float16)
    for narrow in half_floats[::7]:
        value = plain(narrow)
        assert repr(value) in (str(narrow), repr(float(str(narrow))))
        assert np.float16(value) == narrow or np.isnan(narrow)
        assert alike(value, plain(np.array(narrow)))


@settings(max_examples=examples(1000))
@given(st.floats(width=32))
def test_a_single_float_survives_a_round_trip(number: float):
    narrow = np.float32(number)
    value = plain(narrow)
    assert isinstance(value, float)
    assert np.float32(value).tobytes() == narrow.tobytes() or np.isnan(narrow)
    assert float(str(narrow)) == value or math.isnan(value)


@given(st.floats())
def test_a_long_double_is_stored_as_the_nearest_double(number: float):
    assert alike(check_round_trip(np.longdouble(number)), number)
    assert plain(np.longdouble(1) / 3) == 1 / 3


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "7D"])
def test_a_datetime64_of_any_unit_is_a_datetime(unit: str):
    epoch = np.datetime64("1970-01-01", unit)
    later = epoch + np.timedelta64(1, unit)
    assert alike(check_round_trip(epoch), datetime(1970, 1, 1))
    assert alike(plain(np.array(epoch)), datetime(1970, 1, 1))
    value = plain(later)
    assert isinstance(value, datetime)
    assert np.datetime64(value, "us") <= later


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "25s"])
def test_a_timedelta64_of_any_unit_is_a_timedelta(unit: str):
    value = check_round_trip(np.timedelta64(-3, unit))
    assert isinstance(value, timedelta)
    assert np.timedelta64(value) == np.timedelta64(-3, unit)


def test_numpy_times_finer_than_a_microsecond_are_rounded_down():
    assert plain(np.datetime64(1_999, "ns")) == datetime(1970, 1, 1, microsecond=1)
    assert plain(np.timedelta64(1_999, "ns")) == timedelta(microseconds=1)
    assert plain(np.timedelta64(-1, "ns")) == timedelta(microseconds=-1)


def test_a_pandas_timestamp_keeps_its_zone_and_fold():
    for stamp in (
        pd.Timestamp("2024-01-02 03:04:05.678901"),
        pd.Timestamp("2024-01-02 03:04:05", tz="Asia/Kolkata"),
        pd.Timestamp("2024-10-27 02:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert("Europe/Berlin"),
    ):
        value = check_round_trip(stamp)
        assert type(value) is datetime
        assert value.utcoffset() == stamp.utcoffset()
        assert alike(value, stamp.to_pydatetime())
        assert alike(Sample(f"{EX}a", one_datetime=stamp).one_datetime, value)
    assert alike(plain(pd.Timedelta("-1s 5us")), timedelta(seconds=-1, microseconds=-5))


# ---- literals of other tools

LEXICAL_FORMS = st.sampled_from(
    ["", "1", "+1", "-0", "007", "1_0", "٣", " 1", "1 ", "1.", ".5", "1.50", "1e5", "1E+5", "nan", "NaN", "INF", "+INF",
     "-INF", "inf", "Infinity", "0x1", "true", "1", "0", "True", "2024-01-01", "20240101", "2024-W01-1", "2024-02-30",
     "2024-01-01T00:00:00", "2024-01-01 00:00:00", "2024-01-01T00:00", "2024-01-01T24:00:00", "2024-01-01T00:00:60",
     "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+14:00", "2024-01-01T00:00:00+14:01", "2024-01-01T00:00:00-00:00",
     "2024-01-01T00:00:00+0100", "2024-01-01T00:00:00+01:00:30", "2024-01-01T00:00:00.1234567",
     "2024-01-01T00:00:00.1234560000", "2024-01-01T00:00:00,5", "10000-01-01T00:00:00", "0000-01-01T00:00:00",
     "-0001-01-01T00:00:00", "2024-01-01Z", "2024-01-01+01:00", "12:00:00", "12:00", "120000", "T12:00:00", "24:00:00",
     "12:00:00Z", "12:00:00.5", "12:00:00.1234567", "12:00:00+01:00:30", "P", "PT", "P1D", "P1DT", "PT1H", "-PT0.5S",
     "PT1.1234567S", "PT1.12345600S", "P1Y", "P1M", "P1DT1M", "P9999999999999D", "PT٣S", "P-1D", "http://a", "a b"]
)  # fmt: skip
DATATYPES = st.sampled_from(
    [
        "string",
        "double",
        "decimal",
        "integer",
        "boolean",
        "dateTime",
        "date",
        "time",
        "dayTimeDuration",
        "anyURI",
        "token",
    ]
)


def canonical(node: ox.Literal) -> ox.Literal:
    """Return a literal as Oxigraph stores it."""
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode(EX), ox.NamedNode(EX), node))
    (quad,) = store
    assert isinstance(quad.object, ox.Literal)
    return quad.object


@settings(max_examples=examples(800))
@given(LEXICAL_FORMS, DATATYPES)
def test_a_literal_is_parsed_as_in_oxigraph_or_stays_a_literal(written: str, datatype: str):
    node = ox.Literal(written, datatype=ox.NamedNode(XSD + datatype))
    value = rdf.value(node)
    if datatype == "anyURI" and isinstance(value, IRI):
        assert value == written
    elif isinstance(value, Literal):
        assert (str(value), value.datatype) == (written, XSD + datatype)
    else:
        assert canonical(rdf.term(value)) == canonical(node)


@pytest.mark.parametrize(
    ("written", "datatype", "value"),
    [
        ("1", "boolean", True),
        ("0", "boolean", False),
        ("+INF", "double", math.inf),
        ("2024-01-01T00:00:00.1234560000Z", "dateTime", datetime(2024, 1, 1, 0, 0, 0, 123456, timezone.utc)),  # noqa: UP017
        ("P1DT2H3M4.5S", "duration", timedelta(1, 2 * 3600 + 3 * 60 + 4, 500000)),
        ("5", "unsignedByte", 5),
        ("1.5", "float", 1.5),
    ],
)
def test_other_lexical_forms_are_parsed(written: str, datatype: str, value: object):
    assert alike(rdf.value(ox.Literal(written, datatype=ox.NamedNode(XSD + datatype))), value)


@given(texts, tagged | directed, iris, literals)
def test_values_have_the_expected_terms(words: str, text: Text, iri: str, literal: Literal):
    assert rdf.term(words) == ox.Literal(words)
    assert rdf.term(IRI(iri)) == rdf.term(Thing(iri)) == ox.NamedNode(iri)
    assert rdf.term(literal) == ox.Literal(str(literal), datatype=ox.NamedNode(literal.datatype))
    tag, _, direction = text.language.partition("--")
    term = rdf.term(text)
    assert isinstance(term, ox.Literal)
    assert (term.value, term.language, str(term.direction or "")) == (str(text), tag, direction)
    assert rdf.value(term) == text


def test_every_error_is_a_provml_error():
    for make in (lambda: IRI("x"), lambda: Text("a", "?"), lambda: Literal("a", "?"), lambda: rdf.term(1j)):
        with pytest.raises(ProvmlError):
            make()
