"""Things: what they refuse and how they say so, and that they neither change nor differ for no reason."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EX, KINDS, VOCABULARY, XSD, Sample, scalars, things

from provml.errors import MissingField, NotAnIRI, ProvmlError, RefusedValue, WrongType, WrongValue
from provml.field import Field
from provml.things import RDF_TYPE, Thing
from provml.values import IRI, Literal, Text
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


# ---- refusals

REFUSALS = [
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
    ("two values where one is allowed", lambda: epoch(was_section_of=[NODE, NODE]), WrongType, "was_section_of"),
    ("two numbers where one is allowed", lambda: epoch(elapsed_seconds=[1.0, 2.0]), WrongType, "elapsed_seconds"),
    ("three values where two are allowed", lambda: Sample(f"{EX}s", two=[1, 2, 3]), WrongType, "two"),
    (
        "a required field left out",
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
    ("a language where there is none", lambda: epoch(exception_type=Text("x", "en")), WrongType, "exception_type"),
    ("text for a moment", lambda: epoch(started_at_time="2024-01-01"), WrongType, "started_at_time"),
    ("a date for a moment", lambda: epoch(started_at_time=date(2024, 1, 1)), WrongType, "started_at_time"),
    ("a moment for a date", lambda: Sample(f"{EX}s", one_date=datetime(2024, 1, 1)), WrongType, "one_date"),
    ("a number too large for a float", lambda: epoch(elapsed_seconds=10**400), WrongType, "elapsed_seconds"),
    ("a number that no float holds", lambda: Sample(f"{EX}s", one_float=2**53 + 1), WrongType, "one_float"),
    ("a float for a Decimal", lambda: Sample(f"{EX}s", one_decimal=0.1), WrongType, "one_decimal"),
    ("a number below the limit", lambda: epoch(section_index=-1), WrongValue, "section_index"),
    ("NaN where there is a limit", lambda: epoch(elapsed_seconds=math.nan), WrongValue, "elapsed_seconds"),
    ("an unknown enumerated value", lambda: epoch(status="DONE"), WrongValue, "status"),
    (
        "text of another form",
        lambda: Model(f"{EX}m", was_derived_from_attribute=NODE, sha256="abc"),
        WrongValue,
        "sha256",
    ),
    ("a number of another form", lambda: Sample(f"{EX}s", digits=12), WrongValue, "digits"),
    ("text that is no IRI", lambda: Sample(f"{EX}s", one_iri="a b"), WrongValue, "one_iri"),
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
        "also, what a field covers",
        lambda: Entity(f"{EX}e", also={"http://www.w3.org/ns/prov#value": []}),
        WrongValue,
        "also",
    ),
    ("also, what is no mapping", lambda: Thing(f"{EX}e", also=[(f"{EX}p", 1)]), WrongType, "also"),
    ("also, a type that is text", lambda: Thing(f"{EX}e", also={RDF_TYPE: "Model"}), WrongType, "also"),
    ("also, what is no scalar", lambda: Thing(f"{EX}e", also={f"{EX}p": object}), WrongType, "also"),
]


@pytest.mark.parametrize(("make", "error", "field"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_thing_refuses_and_says_what_where_and_what_to_do(make: Any, error: type[RefusedValue], field: str):
    with pytest.raises(error) as caught:
        make()
    refusal = caught.value
    message = str(refusal)
    assert isinstance(refusal, ProvmlError)
    assert isinstance(refusal, ValueError if error is WrongValue else TypeError)
    assert refusal.field.startswith(field)
    assert message.startswith(f"{refusal.class_name}.{refusal.field} takes {refusal.expected}, not ")
    assert re.search(r"\. (Give|Convert|Wrap|Use|Say|Call) [^.].*\.$", message)


def test_a_refusal_survives_a_pickle():
    with pytest.raises(WrongType) as caught:
        epoch(section_index="1")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.value) == (WrongType, str(caught.value), "1")


def test_an_iri_that_is_none_is_refused_as_the_name_of_a_thing_and_of_a_property():
    for make in (lambda: Entity("a b"), lambda: Entity(""), lambda: Entity(3), lambda: Entity(f"{EX}e", also={"p": 1})):
        with pytest.raises(NotAnIRI):
            make()


def test_an_unknown_field_is_an_error_of_python():
    with pytest.raises(TypeError, match="losss"):
        Entity(f"{EX}e", losss=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Entity(f"{EX}e", "value")  # type: ignore[misc]


@pytest.mark.parametrize("cls", VOCABULARY, ids=lambda cls: cls.__name__)
def test_every_class_takes_its_fields_as_keywords_and_asks_for_those_required(cls: type[Thing]):
    keywords = [p for p in inspect.signature(cls).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert {p.name for p in keywords} == {*cls.FIELDS, "also"}
    given = {name: NODE if cls.FIELDS[name].kind == "thing" else 1 for name in cls.REQUIRED}
    for name in cls.REQUIRED:
        with pytest.raises(MissingField) as caught:
            cls(f"{EX}it", **{key: value for key, value in given.items() if key != name})
        assert (caught.value.class_name, caught.value.field) == (cls.__name__, name)


@pytest.mark.parametrize("kind", [*KINDS, "any", "thing"])
def test_a_field_refuses_every_value_of_another_kind(kind: str):
    taken_too = {
        "float": (int,), "decimal": (int,), "words": (str, Text), "iri": (str,), "any": (object,), "tagged": (Text,),
        "thing": (IRI,), "text": (str,), "integer": (int,), "boolean": (bool,), "datetime": (datetime,),
        "time": (time,), "date": (date,), "duration": (timedelta,), "other": (Literal,),
    }[kind]  # fmt: skip
    own = {"float": float, "decimal": Decimal, "iri": IRI}.get(kind, taken_too[0])
    values = [
        "text", Text("text", "en"), 1.5, 1, True, Decimal(1), datetime(2024, 1, 1), date(2024, 1, 1), time(1),
        timedelta(1), NODE, Literal("x", f"{EX}t"),
    ]  # fmt: skip
    for value in values:
        if type(value) in (own, *taken_too) or object in taken_too:
            if kind != "iri" or type(value) is IRI:
                assert Sample(f"{EX}s", **{f"one_{kind}": value})
        else:
            with pytest.raises(WrongType):
                Sample(f"{EX}s", **{f"one_{kind}": value})


def test_a_number_is_widened_where_nothing_is_lost():
    sample = Sample(f"{EX}s", one_float=2, one_decimal=3)
    assert (sample.one_float, type(sample.one_float)) == (2.0, float)
    assert (sample.one_decimal, type(sample.one_decimal)) == (Decimal(3), Decimal)


class Counted(Thing):
    """A class whose fields have a minimum or a maximum other than none and one."""

    __slots__ = ()
    CLASS_IRI = f"{EX}ns#Counted"
    TYPES = (CLASS_IRI,)
    OWN_FIELDS = (
        Field("pair", f"{EX}ns#pair", "thing", least=2, most=2, ranges=((str(Entity.CLASS_IRI),),)),
        Field("three", f"{EX}ns#three", "float", least=3),
        Field("some", f"{EX}ns#some", "integer", least=2, most=4, limits=(("minInclusive", 0),)),
        Field("signs", f"{EX}ns#signs", "text", least=2, choices=("A", "B", "C")),
        Field("single", f"{EX}ns#single", "integer", least=1, most=1),
        Field("sign", f"{EX}ns#sign", "text", least=1, most=1, choices=("A", "B")),
        Field("never", f"{EX}ns#never", "thing", most=0),
        Field("any_moments", f"{EX}ns#moments", "any", least=2),
    )
    FULL: ClassVar[dict[str, Any]] = {
        "pair": [NODE, Entity(f"{EX}e")], "three": [1.0, 2.0, math.nan], "some": [1, 2], "signs": ["A", "B"],
        "single": 1, "sign": "A", "any_moments": [1, 1.0],
    }  # fmt: skip

    def __init__(self, iri: str, *, also: Any = None, **values: Any) -> None:
        self._keep(iri, values, also)


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
    ("any_moments", 0.5, "at least 2 of: a scalar (number, text, bool, datetime, …)"),
    (
        "any_moments",
        [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))],
        "at least 2 of: a scalar (number, text, bool, datetime, …)",
    ),
]


@pytest.mark.parametrize(("field", "value", "expected"), COUNTS)
def test_too_few_or_too_many_different_values_are_refused_and_the_text_says_how_many(
    field: str, value: object, expected: str
):
    assert Counted(f"{EX}c", **Counted.FULL)
    with pytest.raises(WrongType, match=re.escape(f"Counted.{field} takes {expected}, not ")) as caught:
        Counted(f"{EX}c", **{**Counted.FULL, field: value})
    assert re.search(r"\. (Give (at least|no more than) |Leave it out)", str(caught.value))


def test_a_value_given_twice_counts_once():
    kept = Counted(f"{EX}c", **{**Counted.FULL, "some": [1, 2, 3, 4, 4, 4], "single": [1, 1]})
    assert set(kept.some) == {1, 2, 3, 4}
    assert kept == Counted(f"{EX}c", **{**Counted.FULL, "some": [1, 2, 3, 4]})


def test_a_field_left_out_is_missed_in_the_same_words():
    with pytest.raises(
        MissingField, match=r"Counted\.pair takes exactly 2 of: Entity or an IRI, not nothing\. Give pair="
    ):
        Counted(f"{EX}c", **{name: value for name, value in Counted.FULL.items() if name != "pair"})
    with pytest.raises(
        MissingField, match=r"takes exactly one EvaluationMeasure or an IRI, not nothing\. Give was_der"
    ):
        ModelEvaluation(f"{EX}v")  # type: ignore[call-arg]
    with pytest.raises(WrongType, match=r"takes exactly one EvaluationMeasure or an IRI, not "):
        ModelEvaluation(f"{EX}v", was_derived_from_attribute=[NODE, IRI(f"{EX}other")])


def test_a_subclass_and_an_iri_stand_for_a_class():
    measure = EvaluationMeasure(f"{EX}loss")
    assert ModelEvaluation(f"{EX}v", was_derived_from_attribute=measure).was_derived_from_attribute == (measure,)
    assert ModelEvaluation(f"{EX}v", was_derived_from_attribute=NODE).was_derived_from_attribute == (NODE,)
    assert Entity(f"{EX}e", was_generated_by=epoch()).was_generated_by == (epoch(),)


def test_a_range_of_two_classes_asks_for_both():
    class Both(Sample):
        __slots__ = ()
        OWN_FIELDS = (
            Field("of", f"{EX}ns#of", "thing", one=True, ranges=((str(Entity.CLASS_IRI),), (str(Agent.CLASS_IRI),))),
        )

    class EntityAgent(Entity):
        __slots__ = ()
        CLASS_IRI = f"{EX}ns#EntityAgent"
        TYPES = (CLASS_IRI, str(Entity.CLASS_IRI), str(Agent.CLASS_IRI))

    assert Both(f"{EX}b", of=EntityAgent(f"{EX}e")).of == EntityAgent(f"{EX}e")
    for wrong in (Entity(f"{EX}e"), Agent(f"{EX}a")):
        with pytest.raises(WrongType, match=r"Agent and Entity|Entity and Agent"):
            Both(f"{EX}b", of=wrong)


def test_several_values_come_from_anything_that_iterates():
    used = [Entity(f"{EX}{n}") for n in range(3)]
    for given_ in (used, tuple(used), iter(used), (one for one in used), dict.fromkeys(used).keys()):
        assert Activity(f"{EX}a", used=given_).used == tuple(used)
    assert Activity(f"{EX}a", used=used[0]).used == (used[0],)
    assert Activity(f"{EX}a", used=[]).used == ()
    assert Activity(f"{EX}a", used=[]) == Activity(f"{EX}a")


# ---- reading, changing, comparing


def test_a_field_that_was_not_given_reads_as_nothing():
    entity = Entity(f"{EX}e")
    assert entity.value is None
    assert entity.was_generated_by == ()
    assert entity.also == {}
    with pytest.raises(AttributeError, match=r"has no field 'loss'; it has .*value"):
        entity.loss  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean 'value'\?"):
        entity.valeu  # type: ignore[attr-defined]  # noqa: B018


def test_a_thing_does_not_change():
    entity = Entity(f"{EX}e", value=1, also={f"{EX}p": [1]})
    for name in ("value", "iri", "also", "_values", "other"):
        with pytest.raises(AttributeError, match=r"use \.replace"):
            setattr(entity, name, 2)
        with pytest.raises(AttributeError, match=r"use \.replace"):
            delattr(entity, name)
    with pytest.raises(TypeError):
        entity.also[IRI(f"{EX}p")] = ()  # type: ignore[index]
    assert entity == Entity(f"{EX}e", value=1, also={f"{EX}p": [1]})


def test_a_thing_keeps_no_hold_on_what_it_was_given():
    used, also = [Entity(f"{EX}e")], {f"{EX}p": [1]}
    activity = Activity(f"{EX}a", used=used, also=also)
    used.clear()
    also[f"{EX}p"].append(2)
    also[f"{EX}q"] = [3]
    assert activity.used == (Entity(f"{EX}e"),)
    assert activity.also == {IRI(f"{EX}p"): (1,)}


def test_replacing_makes_a_new_thing_that_is_checked_like_any():
    first = epoch(status="RUNNING", also={f"{EX}p": 1})
    second = first.replace(status="FINISHED")
    assert (first.status, second.status, type(second)) == ("RUNNING", "FINISHED", TrainingEpochExecution)
    assert second.replace(status="RUNNING") == first
    assert first.replace(status=None) == epoch(also={f"{EX}p": 1})
    assert first.replace(also=None) == epoch(status="RUNNING")
    assert first.replace(iri=f"{EX}epoch/2").iri == f"{EX}epoch/2"
    with pytest.raises(WrongValue):
        first.replace(status="DONE")
    with pytest.raises(MissingField):
        first.replace(section_index=None)
    with pytest.raises(TypeError, match="no field 'nothing'; it has"):
        first.replace(nothing=1)
    with pytest.raises(TypeError, match=r"no field 'statu'; did you mean 'status'\?$"):
        first.replace(statu="FINISHED")


@settings(max_examples=200)
@given(things())
def test_a_copy_is_the_same_thing(thing: Thing):
    for again in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing)), thing.replace()):
        assert type(again) is type(thing)
        assert again == thing
        assert hash(again) == hash(thing)
        assert repr(again) == repr(thing)
    assert thing.replace(iri=f"{EX}another") != thing


def test_equality_is_that_of_graphs():
    a, b = Entity(f"{EX}a"), Entity(f"{EX}b")
    same = [
        (Activity(f"{EX}x", used=[a, b]), Activity(f"{EX}x", used=[b, a])),
        (Activity(f"{EX}x", used=[a, a]), Activity(f"{EX}x", used=[a])),
        (Activity(f"{EX}x", used=[a]), Activity(f"{EX}x", used=[a.iri])),
        (Activity(f"{EX}x", used=[a]), Activity(f"{EX}x", used=[a.replace(value=3)])),
        (Entity(f"{EX}x", value=math.nan), Entity(f"{EX}x", value=float("nan"))),
        (Entity(f"{EX}x", value=Decimal("1.50")), Entity(f"{EX}x", value=Decimal("1.5"))),
        (Thing(f"{EX}x", also={f"{EX}p": a}), Thing(f"{EX}x", also={f"{EX}p": a.iri})),
        (Thing(f"{EX}x", also={f"{EX}p": []}), Thing(f"{EX}x")),
        (
            Entity(f"{EX}x", value=datetime(2024, 1, 1, 12, tzinfo=UTC)),
            Entity(f"{EX}x", value=datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
        ),
    ]
    for one, other in same:
        assert one == other
        assert hash(one) == hash(other)
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
    values = [
        1, 1.0, True, Decimal(1), "1", Text("1", "en"), Text("1", "fr"), Literal("1", f"{EX}t"), -0.0, 0.0, math.nan,
        datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), time(1), time(1, tzinfo=UTC), early,
        IRI("urn:a"), "urn:a", timedelta(1),
    ]  # fmt: skip
    held = [Entity(f"{EX}x", value=value) for value in values]
    for n, one in enumerate(held):
        for m, other in enumerate(held):
            assert (one == other) == (n == m), (values[n], values[m])
    assert len(set(held)) == len(held)


def test_a_thing_is_not_equal_to_one_of_another_class_or_to_its_name():
    assert Entity(f"{EX}x") != Thing(f"{EX}x")
    assert Entity(f"{EX}x") != Entity(f"{EX}y")
    assert Entity(f"{EX}x") != f"{EX}x"


@given(scalars, scalars)
def test_what_is_equal_has_the_same_hash_and_what_is_equal_is_so_both_ways(one: object, other: object):
    a, b = Entity(f"{EX}x", value=one), Entity(f"{EX}x", value=other)
    assert a == Entity(f"{EX}x", value=one)
    assert (a == b) == (b == a)
    assert hash(a) == hash(b)


def test_a_repr_shows_other_things_by_name_only():
    thing = Thing(f"{EX}0")
    for n in range(1, 3000):
        thing = Thing(f"{EX}{n}", also={f"{EX}p": [thing, thing]})
    assert repr(thing) == f"Thing('{EX}2999', also={{'{EX}p': (<{EX}2998>, <{EX}2998>)}})"
    entity = Entity(f"{EX}e", value="v", was_generated_by=Activity(f"{EX}a", used=Entity(f"{EX}f")))
    assert repr(entity) == f"Entity('{EX}e', value='v', was_generated_by=(<{EX}a>,))"


def test_a_thing_that_was_refused_half_way_can_be_looked_at():
    half = Entity.__new__(Entity)
    for name in ("iri", "value", "_values"):
        with pytest.raises(AttributeError):
            getattr(half, name)


def test_references_are_the_things_that_fields_and_also_hold():
    used, other = Entity(f"{EX}used"), Entity(f"{EX}other")
    activity = Activity(f"{EX}a", used=[used, IRI(f"{EX}iri")], label="text", also={f"{EX}p": [other, 3, NODE]})
    assert list(activity.references()) == [used, other]
    assert list(epoch().references()) == []
    plan = TrainingEpoch(f"{EX}plan")
    assert list(epoch(was_derived_from_data_transformation=plan).references()) == [plan]


def test_also_takes_one_value_or_several():
    thing = Thing(f"{EX}a", also={f"{EX}p": 1, f"{EX}q": [1, NODE], f"{EX}r": Agent(f"{EX}b")})
    assert thing.also == {IRI(f"{EX}p"): (1,), IRI(f"{EX}q"): (1, NODE), IRI(f"{EX}r"): (Agent(f"{EX}b"),)}
    assert {type(key) for key in thing.also} == {IRI}


@given(st.sampled_from(VOCABULARY), st.data())
def test_a_kept_value_is_taken_again_as_it_is(cls: type[Thing], data: st.DataObject):
    thing = data.draw(things([cls]))
    for name, field in cls.FIELDS.items():
        held = getattr(thing, name)
        if held not in (None, ()):
            assert field.accept(cls.__name__, held) == held or held != held


def test_a_retired_name_still_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="BaseLearningExecution is now called BaseLearningStageExecution"):
        assert provml.BaseLearningExecution is provml.BaseLearningStageExecution
    with pytest.raises(AttributeError, match="no attribute 'NoSuchClass'"):
        provml.NoSuchClass  # type: ignore[attr-defined]  # noqa: B018


# ---- what type checkers see

CHECKED = """
import numpy as np
from provml.values import IRI, BoolLike, FloatLike, IntLike
from provml.vocab import Activity, Entity, TrainingExecution

class Own(Entity, init=False):
    __slots__ = ()

run = TrainingExecution("urn:run", was_derived_from_data_transformation=IRI("urn:plan"), elapsed_seconds=3)
run.elapsed_seconds = 3.0  # wrong
run.used = ()  # wrong
run.iri = IRI("urn:b")  # wrong
run.label = ("a",)  # wrong
run.also = {}  # wrong
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


@pytest.mark.xdist_group("mypy")  # one after the other, they share what it has cached
def test_type_checkers_see_fields_that_are_read_only_and_take_numpy_scalars(tmp_path: Path):
    (tmp_path / "checked.py").write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", "checked.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = {int(line) for line in re.findall(r"^checked\.py:(\d+): error", done.stdout, re.M)}
    wrong = {n for n, line in enumerate(CHECKED.split("\n"), 1) if "# wrong" in line}
    assert said == wrong, done.stdout + done.stderr
    for n, line in enumerate(CHECKED.split("\n"), 1):
        if n in wrong and " = " in line and "nothing" not in line:
            assert re.search(rf"^checked\.py:{n}: error: Property .* is read-only", done.stdout, re.M)
