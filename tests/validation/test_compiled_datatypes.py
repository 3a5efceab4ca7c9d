"""A thing that a compiled class accepts conforms to the shape that the same compiler made, for all types of XSD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compiler.helpers import OntologyCompiler, restore_classes
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from provml.errors import ProvmlError
from provml.model.thing import CLASSES
from provml.model.values import IRI, Literal
from provml.rdf.namespaces import XSD
from provml.validation import validate

INTEGERS = (
    "integer", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger", "long", "int", "short",
    "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
)  # fmt: skip
TEXTS = ("string", "normalizedString", "token", "language", "Name", "NCName", "NMTOKEN")
TIMES = ("dateTime", "dateTimeStamp", "date", "time", "duration", "dayTimeDuration", "yearMonthDuration")
PARTS = ("gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay")
OTHERS = ("boolean", "decimal", "double", "float", "anyURI", "hexBinary", "base64Binary")
TYPES = (*INTEGERS, *TEXTS, *TIMES, *PARTS, *OTHERS)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
offsets = st.integers(-840, 840).map(lambda minutes: timezone(timedelta(minutes=minutes)))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(INTEGERS, st.integers(-200, 200) | st.integers() | st.integers(-(2**70), 2**70)),
    **dict.fromkeys(
        TEXTS, texts | st.sampled_from(["a", "en", "en-GB", " a  b ", "a\nb", "a:b", "", "\u00e9t\u00e9", "1a"])
    ),
    **dict.fromkeys(PARTS, st.sampled_from(["2024", "2024-02", "--02", "--02-29", "---29", "x", "-0044"])),
    "dateTime": st.datetimes(timezones=st.none() | offsets),
    "dateTimeStamp": st.datetimes(timezones=st.none() | offsets),
    "date": st.dates() | st.datetimes(),
    "time": st.times(timezones=st.none() | st.just(UTC)),
    "duration": st.timedeltas(),
    "dayTimeDuration": st.timedeltas(),
    "yearMonthDuration": st.sampled_from(["P1Y", "P2M", "-P1Y2M", "P1D", "x"]),
    "boolean": st.booleans(),
    "decimal": st.decimals(allow_nan=True)
    | st.integers()
    | st.decimals(places=3, allow_nan=False, allow_infinity=False),
    "double": st.floats(),
    "float": st.floats() | st.floats(width=32),
    "anyURI": texts | st.sampled_from([IRI("http://example.org/x"), "http://example.org/y", "a b"]),
    "hexBinary": st.binary(max_size=4) | st.sampled_from(["0A", "0a", "0", "x"]),
    "base64Binary": st.binary(max_size=4) | st.sampled_from(["AQ==", "x"]),
}
ANY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.just(date(2024, 2, 29)), st.just(time(1, 2)),
    st.just(datetime(2024, 1, 1, tzinfo=UTC)), st.just(Decimal("1.50")), st.just(timedelta(1)),
)  # fmt: skip


def as_literal(name: str, value: object) -> object:
    """Return a text as a literal of a type, as a value of a type that Python does not have is written."""
    return Literal(value, XSD + name) if isinstance(value, str) and not isinstance(value, IRI) else value


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """A class with a property of each type, and the file of its shape."""
    folder = tmp_path_factory.mktemp("compiled")
    properties = "\n".join(
        f"ex:p{name} a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:{name} ." for name in TYPES
    )
    classes = dict(CLASSES)
    yield OntologyCompiler(folder)(f"ex:Box a owl:Class .\n{properties}"), folder / "shapes.ttl"
    restore_classes(classes)


def test_what_a_class_accepts_its_shape_accepts(vocab: tuple[Any, Path]):
    module, shapes = vocab
    fields = {field.iri.rpartition("#")[2].rpartition("/")[2]: name for name, field in module.Box.FIELDS.items()}
    accepted: Counter[str] = Counter()

    @settings(max_examples=examples(150), deadline=None)
    @given(st.data())
    def make_and_validate(data: st.DataObject) -> None:
        thing = module.Box("http://example.org/box")
        for name in data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=8, unique=True)):
            value = data.draw(VALUES[name] | VALUES[name].map(partial(as_literal, name)) | ANY)
            try:
                thing = thing.replace(**{fields[f"p{name}"]: value})
            except ProvmlError:
                continue
            accepted[name] += value is not None
        report = validate(thing, only_shapes=shapes)
        assert len(report) == 0, str(report)

    make_and_validate()
    assert len([name for name in TYPES if accepted[name]]) > 25, accepted
