"""Things: which values they reject with which message, immutability, copies and equality."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from compiler.helpers import run_mypy
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EX, KINDS, VOCABULARY, XSD, Sample, scalars, things

from provml.errors import InvalidIRI, InvalidValue, MissingField, ProvmlError, WrongType, WrongValue
from provml.model.field import Field
from provml.model.thing import RDF_TYPE, Thing
from provml.model.values import IRI, Literal, Text
from provml.vocab import (
    Activity,
    AdaptationExecution,
    Agent,
    Entity,
    EvaluationMeasure,
    Model,
    ModelEvaluation,
    TrainingEpoch,
    TrainingEpochExecution,
    provml,
)

NODE = IRI(f"{EX}node")


def epoch(**fields: Any) -> TrainingEpochExecution:
    return TrainingEpochExecution(
        f"{EX}epoch/1",
        **{"was_derived_from_data_transformation": NODE, "was_section_of": NODE, "section_index": 1, **fields},
    )


# ---- rejected values

REJECTED = [
    ("a thing of the wrong class", lambda: epoch(was_section_of=Entity(f"{EX}e")), WrongType, "was_section_of"),
    (
        "an agent for an activity",
        lambda: Entity(f"{EX}e", was_generated_by=Agent(f"{EX}a")),
        WrongType,
        "was_generated_by",
    ),
    ("one of several of the wrong class", lambda: Activity(f"{EX}a", used=[NODE, Agent(f"{EX}b")]), WrongType, "used"),
    ("a class for a thing", lambda: Entity(f"{EX}e", was_generated_by=Activity), WrongType, "was_generated_by"),
    ("text for a thing", lambda: Entity(f"{EX}e", was_generated_by="run"), WrongType, "was_generated_by"),
    (
        "an IRI in plain text for a thing",
        lambda: Entity(f"{EX}e", was_generated_by=f"{EX}a"),
        WrongType,
        "was_generated_by",
    ),
    ("a number for a thing", lambda: Entity(f"{EX}e", was_generated_by=3), WrongType, "was_generated_by"),
    ("two values for a single-valued field", lambda: epoch(was_section_of=[NODE, NODE]), WrongType, "was_section_of"),
    ("two numbers for a single-valued field", lambda: epoch(elapsed_seconds=[1.0, 2.0]), WrongType, "elapsed_seconds"),
    ("three values for a field of at most two", lambda: Sample(f"{EX}s", two=[1, 2, 3]), WrongType, "two"),
    (
        "a missing required field",
        lambda: AdaptationExecution(f"{EX}a"),
        MissingField,
        "was_derived_from_data_transformation",
    ),
    ("a required field that is None", lambda: epoch(section_index=None), MissingField, "section_index"),
    ("text for a number", lambda: epoch(elapsed_seconds="42"), WrongType, "elapsed_seconds"),
    ("text for a whole number", lambda: epoch(section_index="1"), WrongType, "section_index"),
    ("a bool for a number", lambda: epoch(elapsed_seconds=True), WrongType, "elapsed_seconds"),
    ("a bool for a whole number", lambda: epoch(section_index=True), WrongType, "section_index"),
    ("a float for a whole number", lambda: epoch(section_index=1.0), WrongType, "section_index"),
    ("a number for text", lambda: epoch(exception_type=3), WrongType, "exception_type"),
    ("text in a language for plain text", lambda: epoch(exception_type=Text("x", "en")), WrongType, "exception_type"),
    ("text for a datetime", lambda: epoch(started_at_time="2024-01-01"), WrongType, "started_at_time"),
    ("a date for a datetime", lambda: epoch(started_at_time=date(2024, 1, 1)), WrongType, "started_at_time"),
    ("a datetime for a date", lambda: Sample(f"{EX}s", one_date=datetime(2024, 1, 1)), WrongType, "one_date"),
    ("a number too large for a float", lambda: epoch(elapsed_seconds=10**400), WrongType, "elapsed_seconds"),
    ("a number that a float cannot represent", lambda: Sample(f"{EX}s", one_float=2**53 + 1), WrongType, "one_float"),
    ("a float for a Decimal", lambda: Sample(f"{EX}s", one_decimal=0.1), WrongType, "one_decimal"),
    ("a number below the limit", lambda: epoch(section_index=-1), WrongValue, "section_index"),
    ("NaN for a field with a limit", lambda: epoch(elapsed_seconds=math.nan), WrongValue, "elapsed_seconds"),
    ("an unknown enumerated value", lambda: epoch(status="DONE"), WrongValue, "status"),
    (
        "text of another form",
        lambda: Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="abc"),
        WrongValue,
        "sha256",
    ),
    ("a number of another form", lambda: Sample(f"{EX}s", digits=12), WrongValue, "digits"),
    ("text that is not an IRI", lambda: Sample(f"{EX}s", one_iri="a b"), WrongValue, "one_iri"),
    ("plain text for text in a language", lambda: Sample(f"{EX}s", one_tagged="x"), WrongType, "one_tagged"),
    (
        "a literal of another datatype",
        lambda: Sample(f"{EX}s", month_day=Literal("x", f"{XSD}gDay")),
        WrongType,
        "month_day",
    ),
    ("plain text for a literal", lambda: Sample(f"{EX}s", month_day="--11-16"), WrongType, "month_day"),
    ("a thing for a scalar", lambda: Entity(f"{EX}e", value=Entity(f"{EX}f")), WrongType, "value"),
    ("a list for a scalar", lambda: Entity(f"{EX}e", value=[1]), WrongType, "value"),
    ("a mapping for several values", lambda: Sample(f"{EX}s", many_text={"a": "b"}), WrongType, "many_text"),
    ("bytes for several values", lambda: Sample(f"{EX}s", many_integer=b"abc"), WrongType, "many_integer"),
    (
        "extra: a property with a field",
        lambda: Entity(f"{EX}e", extra={"http://www.w3.org/ns/prov#value": []}),
        WrongValue,
        "extra",
    ),
    ("extra: not a mapping", lambda: Thing(f"{EX}e", extra=[(f"{EX}p", 1)]), WrongType, "extra"),
    ("extra: a type as text", lambda: Thing(f"{EX}e", extra={RDF_TYPE: "Model"}), WrongType, "extra"),
    ("extra: not a scalar", lambda: Thing(f"{EX}e", extra={f"{EX}p": object}), WrongType, "extra"),
]


@pytest.mark.parametrize(("make", "error", "field"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_a_rejected_value_is_named_with_its_field_and_advice(make: Any, error: type[InvalidValue], field: str):
    with pytest.raises(error) as caught:
        make()
    exception = caught.value
    message = str(exception)
    assert isinstance(exception, ProvmlError)
    assert isinstance(exception, ValueError if error is WrongValue else TypeError)
    assert exception.field.startswith(field)
    assert message.startswith(f"{exception.class_name}.{exception.field} takes {exception.expected}, not ")
    assert re.search(r"\. (Pass|Convert|Wrap|Use|Call|It contains) [^.].*\.$", message)


def test_an_error_can_be_pickled():
    with pytest.raises(WrongType) as caught:
        epoch(section_index="1")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), str(copied), copied.value) == (WrongType, str(caught.value), "1")


def test_an_invalid_iri_is_rejected_for_a_thing_and_for_a_property():
    for make in (
        lambda: Entity("a b"),
        lambda: Entity(""),
        lambda: Entity(3),
        lambda: Entity(f"{EX}e", extra={"p": 1}),
    ):
        with pytest.raises(InvalidIRI):
            make()


def test_an_unknown_field_is_a_type_error():
    with pytest.raises(TypeError, match="losss"):
        Entity(f"{EX}e", losss=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Entity(f"{EX}e", "value")  # type: ignore[misc]


@pytest.mark.parametrize("cls", VOCABULARY, ids=lambda cls: cls.__name__)
def test_every_class_takes_its_fields_as_keywords_and_checks_the_required_ones(cls: type[Thing]):
    keywords = [p for p in inspect.signature(cls).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert {p.name for p in keywords} == {*cls.FIELDS, "extra"}
    required = {name: NODE if cls.FIELDS[name].kind == "thing" else 1 for name in cls.REQUIRED}
    for name in cls.REQUIRED:
        with pytest.raises(MissingField) as caught:
            cls(f"{EX}it", **{key: value for key, value in required.items() if key != name})
        assert (caught.value.class_name, caught.value.field) == (cls.__name__, name)


@pytest.mark.parametrize("kind", [*KINDS, "any", "thing"])
def test_a_field_rejects_every_value_of_another_kind(kind: str):
    accepted = {
        "float": (int,), "decimal": (int,), "words": (str, Text), "iri": (str,), "any": (object,), "tagged": (Text,),
        "thing": (IRI,), "text": (str,), "integer": (int,), "boolean": (bool,), "datetime": (datetime,),
        "time": (time,), "date": (date,), "duration": (timedelta,), "other": (Literal,),
    }[kind]  # fmt: skip
    own = {"float": float, "decimal": Decimal, "iri": IRI}.get(kind, accepted[0])
    values = [
        "text", Text("text", "en"), 1.5, 1, True, Decimal(1), datetime(2024, 1, 1), date(2024, 1, 1), time(1),
        timedelta(1), NODE, Literal("x", f"{EX}t"),
    ]  # fmt: skip
    for value in values:
        if type(value) in (own, *accepted) or object in accepted:
            if kind != "iri" or type(value) is IRI:
                assert Sample(f"{EX}s", **{f"one_{kind}": value})
        else:
            with pytest.raises(WrongType):
                Sample(f"{EX}s", **{f"one_{kind}": value})


def test_a_number_is_converted_if_nothing_is_lost():
    sample = Sample(f"{EX}s", one_float=2, one_decimal=3)
    assert (sample.one_float, type(sample.one_float)) == (2.0, float)
    assert (sample.one_decimal, type(sample.one_decimal)) == (Decimal(3), Decimal)


class Counted(Thing):
    """A class with fields of various minimum and maximum numbers of values."""

    __slots__ = ()
    CLASS_IRI = f"{EX}ns#Counted"
    TYPES = (CLASS_IRI,)
    OWN_FIELDS = (
        Field("pair", f"{EX}ns#pair", "thing", min_count=2, max_count=2, ranges=((str(Entity.CLASS_IRI),),)),
        Field("three", f"{EX}ns#three", "float", min_count=3),
        Field("some", f"{EX}ns#some", "integer", min_count=2, max_count=4, limits=(("minInclusive", 0),)),
        Field("signs", f"{EX}ns#signs", "text", min_count=2, choices=("A", "B", "C")),
        Field("single", f"{EX}ns#single", "integer", min_count=1, max_count=1),
        Field("sign", f"{EX}ns#sign", "text", min_count=1, max_count=1, choices=("A", "B")),
        Field("never", f"{EX}ns#never", "thing", max_count=0),
        Field("datetimes", f"{EX}ns#datetimes", "any", min_count=2),
    )
    FULL: ClassVar[dict[str, Any]] = {
        "pair": [NODE, Entity(f"{EX}e")], "three": [1.0, 2.0, math.nan], "some": [1, 2], "signs": ["A", "B"],
        "single": 1, "sign": "A", "datetimes": [1, 1.0],
    }  # fmt: skip

    def __init__(self, iri: str, *, extra: Any = None, **values: Any) -> None:
        self._assign(iri, values, extra)


COUNTS = [
    ("pair", NODE, "exactly 2 of: Entity or an IRI"),
    ("pair", Entity(f"{EX}e"), "exactly 2 of: Entity or an IRI"),
    ("pair", [NODE, NODE], "exactly 2 of: Entity or an IRI"),
    ("pair", [NODE, Entity(NODE, value=3)], "exactly 2 of: Entity or an IRI"),
    ("pair", [NODE, Entity(f"{EX}e"), Entity(f"{EX}f")], "exactly 2 of: Entity or an IRI"),
    ("three", 1.5, "at least 3 of: a number (float)"),
    ("three", [1, 1.0, 2.0, 2.0], "at least 3 of: a number (float)"),
    ("three", [math.nan, math.nan, math.nan], "at least 3 of: a number (float)"),
    ("some", 3, "2 to 4 of: a whole number (int) of at least 0"),
    ("some", range(5), "2 to 4 of: a whole number (int) of at least 0"),
    ("signs", "A", "at least 2 of: 'A', 'B', 'C'"),
    ("signs", ["A", "A"], "at least 2 of: 'A', 'B', 'C'"),
    ("single", [1, 2], "exactly one value: a whole number (int)"),
    ("single", [], "exactly one value: a whole number (int)"),
    ("sign", ["A", "B"], "exactly one of 'A', 'B'"),
    ("never", NODE, "no value"),
    ("never", [NODE], "no value"),
    ("never", 3, "no value"),
    ("datetimes", 0.5, "at least 2 of: a scalar (number, text, bool, datetime, …)"),
    (
        "datetimes",
        [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))],
        "at least 2 of: a scalar (number, text, bool, datetime, …)",
    ),
]


@pytest.mark.parametrize(("field", "value", "expected"), COUNTS)
def test_too_few_or_too_many_distinct_values_are_rejected(field: str, value: object, expected: str):
    assert Counted(f"{EX}c", **Counted.FULL)
    with pytest.raises(WrongType, match=re.escape(f"Counted.{field} takes {expected}, not ")) as caught:
        Counted(f"{EX}c", **{**Counted.FULL, field: value})
    assert re.search(r"\. (Pass (at least|no more than) |Leave it out)", str(caught.value))


def test_equal_values_count_once():
    counted = Counted(f"{EX}c", **{**Counted.FULL, "some": [1, 2, 3, 4, 4, 4], "single": [1, 1]})
    assert set(counted.some) == {1, 2, 3, 4}
    assert counted == Counted(f"{EX}c", **{**Counted.FULL, "some": [1, 2, 3, 4]})


def test_a_missing_field_is_reported_like_a_wrong_value():
    with pytest.raises(
        MissingField, match=r"Counted\.pair takes exactly 2 of: Entity or an IRI, not None\. Pass pair="
    ):
        Counted(f"{EX}c", **{name: value for name, value in Counted.FULL.items() if name != "pair"})
    with pytest.raises(MissingField, match=r"takes exactly one EvaluationMeasure or an IRI, not None\. Pass was_der"):
        ModelEvaluation(f"{EX}v")  # type: ignore[call-arg]
    with pytest.raises(WrongType, match=r"takes exactly one EvaluationMeasure or an IRI, not "):
        ModelEvaluation(f"{EX}v", was_derived_from_attribute=[NODE, IRI(f"{EX}other")])


def test_a_field_of_a_class_accepts_subclasses_and_iris():
    measure = EvaluationMeasure(f"{EX}loss")
    assert ModelEvaluation(f"{EX}v", was_derived_from_attribute=measure).was_derived_from_attribute == (measure,)
    assert ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE).was_derived_from_attribute == (NODE,)
    assert Entity(f"{EX}e", was_generated_by=epoch()).was_generated_by == (epoch(),)


def test_a_range_of_two_classes_requires_both():
    class Both(Sample):
        __slots__ = ()
        OWN_FIELDS = (
            Field(
                "part", f"{EX}ns#part", "thing", single=True, ranges=((str(Entity.CLASS_IRI),), (str(Agent.CLASS_IRI),))
            ),
        )

    class EntityAgent(Entity):
        __slots__ = ()
        CLASS_IRI = f"{EX}ns#EntityAgent"
        TYPES = (CLASS_IRI, str(Entity.CLASS_IRI), str(Agent.CLASS_IRI))

    assert Both(f"{EX}b", part=EntityAgent(f"{EX}e")).part == EntityAgent(f"{EX}e")
    for wrong in (Entity(f"{EX}e"), Agent(f"{EX}a")):
        with pytest.raises(WrongType, match=r"Agent and Entity|Entity and Agent"):
            Both(f"{EX}b", part=wrong)


def test_any_iterable_of_values_is_accepted():
    used = [Entity(f"{EX}{n}") for n in range(3)]
    for iterable in (used, tuple(used), iter(used), (entity for entity in used), dict.fromkeys(used).keys()):
        assert Activity(f"{EX}a", used=iterable).used == tuple(used)
    assert Activity(f"{EX}a", used=used[0]).used == (used[0],)
    assert Activity(f"{EX}a", used=[]).used == ()
    assert Activity(f"{EX}a", used=[]) == Activity(f"{EX}a")


# ---- attributes, copies, equality


def test_a_field_without_a_value_is_none_or_empty():
    entity = Entity(f"{EX}e")
    assert entity.value is None
    assert entity.was_generated_by == ()
    assert entity.extra == {}
    with pytest.raises(AttributeError, match=r"has no field 'loss'; it has alternate_of, .* and 13 more"):
        entity.loss  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean 'value'\?"):
        entity.valeu  # type: ignore[attr-defined]  # noqa: B018


def test_a_thing_is_immutable():
    entity = Entity(f"{EX}e", value=1, extra={f"{EX}p": [1]})
    for name in ("value", "iri", "extra", "_values", "other"):
        with pytest.raises(AttributeError, match=r"use \.replace"):
            setattr(entity, name, 2)
        with pytest.raises(AttributeError, match=r"use \.replace"):
            delattr(entity, name)
    with pytest.raises(TypeError):
        entity.extra[IRI(f"{EX}p")] = ()  # type: ignore[index]
    assert entity == Entity(f"{EX}e", value=1, extra={f"{EX}p": [1]})


def test_a_thing_does_not_share_the_containers_of_its_arguments():
    used, extra = [Entity(f"{EX}e")], {f"{EX}p": [1]}
    activity = Activity(f"{EX}a", used=used, extra=extra)
    used.clear()
    extra[f"{EX}p"].append(2)
    extra[f"{EX}q"] = [3]
    assert activity.used == (Entity(f"{EX}e"),)
    assert activity.extra == {IRI(f"{EX}p"): (1,)}


def test_replace_returns_a_new_checked_thing():
    first = epoch(status="RUNNING", extra={f"{EX}p": 1})
    second = first.replace(status="FINISHED")
    assert (first.status, second.status, type(second)) == ("RUNNING", "FINISHED", TrainingEpochExecution)
    assert second.replace(status="RUNNING") == first
    assert first.replace(status=None) == epoch(extra={f"{EX}p": 1})
    assert first.replace(extra=None) == epoch(status="RUNNING")
    assert first.replace(iri=f"{EX}epoch/2").iri == f"{EX}epoch/2"
    with pytest.raises(WrongValue):
        first.replace(status="DONE")
    with pytest.raises(MissingField):
        first.replace(section_index=None)
    with pytest.raises(TypeError, match="no field 'nothing'; it has"):
        first.replace(nothing=1)
    with pytest.raises(TypeError, match=r"no field 'statu'; did you mean 'status'\?$"):
        first.replace(statu="FINISHED")


@settings(max_examples=examples(200))
@given(things())
def test_a_copy_is_equal(thing: Thing):
    for copied in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing)), thing.replace()):
        assert type(copied) is type(thing)
        assert copied == thing
        assert hash(copied) == hash(thing)
        assert repr(copied) == repr(thing)
    assert thing.replace(iri=f"{EX}another") != thing


def test_things_are_equal_if_their_graphs_are():
    a, b = Entity(f"{EX}a"), Entity(f"{EX}b")
    equal_pairs = [
        (Activity(f"{EX}x", used=[a, b]), Activity(f"{EX}x", used=[b, a])),
        (Activity(f"{EX}x", used=[a, a]), Activity(f"{EX}x", used=[a])),
        (Activity(f"{EX}x", used=[a]), Activity(f"{EX}x", used=[a.iri])),
        (Activity(f"{EX}x", used=[a]), Activity(f"{EX}x", used=[a.replace(value=3)])),
        (Entity(f"{EX}x", value=math.nan), Entity(f"{EX}x", value=float("nan"))),
        (Entity(f"{EX}x", value=Decimal("1.50")), Entity(f"{EX}x", value=Decimal("1.5"))),
        (Thing(f"{EX}x", extra={f"{EX}p": a}), Thing(f"{EX}x", extra={f"{EX}p": a.iri})),
        (Thing(f"{EX}x", extra={f"{EX}p": []}), Thing(f"{EX}x")),
        (
            Entity(f"{EX}x", value=datetime(2024, 1, 1, 12, tzinfo=UTC)),
            Entity(f"{EX}x", value=datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
        ),
    ]
    for first, second in equal_pairs:
        assert first == second
        assert hash(first) == hash(second)
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
    values = [
        1, 1.0, True, Decimal(1), "1", Text("1", "en"), Text("1", "fr"), Literal("1", f"{EX}t"), -0.0, 0.0, math.nan,
        datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), time(1), time(1, tzinfo=UTC), early,
        IRI("urn:a"), "urn:a", timedelta(1),
    ]  # fmt: skip
    entities = [Entity(f"{EX}x", value=value) for value in values]
    for n, first in enumerate(entities):
        for m, second in enumerate(entities):
            assert (first == second) == (n == m), (values[n], values[m])
    assert len(set(entities)) == len(entities)


def test_a_thing_differs_from_its_iri_and_from_things_of_other_classes():
    assert Entity(f"{EX}x") != Thing(f"{EX}x")
    assert Entity(f"{EX}x") != Entity(f"{EX}y")
    assert Entity(f"{EX}x") != f"{EX}x"


@given(scalars, scalars)
def test_equality_is_symmetric_and_consistent_with_the_hash(first: object, second: object):
    a, b = Entity(f"{EX}x", value=first), Entity(f"{EX}x", value=second)
    assert a == Entity(f"{EX}x", value=first)
    assert (a == b) == (b == a)
    assert hash(a) == hash(b)


def test_a_repr_shows_other_things_by_their_iri():
    thing = Thing(f"{EX}0")
    for n in range(1, 3000):
        thing = Thing(f"{EX}{n}", extra={f"{EX}p": [thing, thing]})
    assert repr(thing) == f"Thing('{EX}2999', extra={{'{EX}p': (<{EX}2998>, <{EX}2998>)}})"
    entity = Entity(f"{EX}e", value="v", was_generated_by=Activity(f"{EX}a", used=Entity(f"{EX}f")))
    assert repr(entity) == f"Entity('{EX}e', value='v', was_generated_by=(<{EX}a>,))"


def test_a_thing_whose_constructor_failed_can_be_inspected():
    incomplete = Entity.__new__(Entity)
    for name in ("iri", "value", "_values"):
        with pytest.raises(AttributeError):
            getattr(incomplete, name)


def test_references_are_the_things_in_fields_and_extra():
    used, other = Entity(f"{EX}used"), Entity(f"{EX}other")
    activity = Activity(f"{EX}a", used=[used, IRI(f"{EX}iri")], label="text", extra={f"{EX}p": [other, 3, NODE]})
    assert list(activity.references()) == [used, other]
    assert list(epoch().references()) == []
    plan = TrainingEpoch(f"{EX}plan")
    assert list(epoch(was_derived_from_data_transformation=plan).references()) == [plan]


def test_extra_takes_one_value_or_several():
    thing = Thing(f"{EX}a", extra={f"{EX}p": 1, f"{EX}q": [1, NODE], f"{EX}r": Agent(f"{EX}b")})
    assert thing.extra == {IRI(f"{EX}p"): (1,), IRI(f"{EX}q"): (1, NODE), IRI(f"{EX}r"): (Agent(f"{EX}b"),)}
    assert {type(key) for key in thing.extra} == {IRI}


@given(st.sampled_from(VOCABULARY), st.data())
def test_a_stored_value_is_accepted_unchanged(cls: type[Thing], data: st.DataObject):
    thing = data.draw(things([cls]))
    for name, field in cls.FIELDS.items():
        value = getattr(thing, name)
        if value not in (None, ()):
            assert field.accept(cls.__name__, value) == value or value != value


def test_a_former_class_name_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="BaseLearningExecution is now called BaseLearningStageExecution"):
        assert provml.BaseLearningExecution is provml.BaseLearningStageExecution
    with pytest.raises(AttributeError, match="no attribute 'NoSuchClass'"):
        provml.NoSuchClass  # type: ignore[attr-defined]  # noqa: B018


# ---- type checkers

CHECKED = """
import numpy as np
from provml.model.values import IRI, BoolLike, FloatLike, IntLike
from provml.vocab import Activity, Entity, TrainingExecution

class Own(Entity, init=False):
    __slots__ = ()

run = TrainingExecution("urn:run", was_derived_from_data_transformation=IRI("urn:plan"), elapsed_seconds=3)
run.elapsed_seconds = 3.0  # wrong
run.used = ()  # wrong
run.iri = IRI("urn:b")  # wrong
run.label = ("a",)  # wrong
run.extra = {}  # wrong
Own("urn:own", value=3).value = 4  # wrong
run.nothing = 3  # wrong
del run.nothing  # wrong
run.replace(elapsed_seconds=4.0).elapsed_second  # wrong
seconds: float | None = run.replace(elapsed_seconds=4.0).elapsed_seconds

def take(number: FloatLike, count: IntLike, truth: BoolLike) -> None: ...

zeros = np.zeros(3)
take(np.float32(0.1), np.int64(3), np.bool_(True))
take(np.mean(zeros), np.argmax(zeros), zeros[0] == 0)
take(0.1, 3, True)
take(3, True, np.bool_(False))
take(zeros, 3, True)  # wrong
take("0.1", 3, True)  # wrong
take(0.1, np.float32(3), True)  # wrong
take(0.1, 3, np.int64(1))  # wrong
Entity("urn:e", value=np.float32(0.1))
Entity("urn:e", value=np.int64(3))
Entity("urn:e", value=np.bool_(True))
Entity("urn:e", value=np.datetime64("2026-01-01"))
Entity("urn:e", value=zeros)  # wrong
Entity("urn:e", value=object())  # wrong
"""


@pytest.mark.xdist_group("mypy")  # one after the other, since they share a cache
@pytest.mark.slow
def test_type_checkers_know_read_only_fields_and_numpy_scalars(tmp_path: Path):
    (tmp_path / "checked.py").write_text(CHECKED)
    output = run_mypy(tmp_path, tmp_path / "checked.py")
    reported = {int(line) for line in re.findall(r"^checked\.py:(\d+): error", output, re.M)}
    wrong = {n for n, line in enumerate(CHECKED.split("\n"), 1) if "# wrong" in line}
    assert reported == wrong, output
    for n, line in enumerate(CHECKED.split("\n"), 1):
        if n in wrong and " = " in line and "nothing" not in line:
            assert re.search(rf"^checked\.py:{n}: error: .*ReadOnly", output, re.M)
