"""What terms are called in Python: every name can be written, and no two things share one."""

from __future__ import annotations

import builtins
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.compiler import naming
from provml.values import IRI
from provml.vocab import prov

from .workshop import EX, said


@pytest.mark.parametrize(
    ("local", "class_", "field", "constant"),
    [
        ("wasGeneratedBy", "wasGeneratedBy", "was_generated_by", "WAS_GENERATED_BY"),
        ("HTTPServer2Go", "HTTPServer2Go", "http_server2_go", "HTTP_SERVER2_GO"),
        ("class", "class_", "class_", "CLASS"),
        ("None", "None_", "none", "NONE"),
        ("match", "match_", "match_", "MATCH"),
        ("list", "list_", "list_", "LIST"),
        ("prov", "prov_", "prov_", "PROV"),
        ("IRI", "IRI_", "iri_", "IRI_"),
        ("TYPE_CHECKING", "TYPE_CHECKING_", "type_checking", "TYPE_CHECKING_"),
        ("renamed", "renamed_", "renamed_", "RENAMED"),
        ("label", "label", "label_", "LABEL"),
        ("replace", "replace", "replace_", "REPLACE"),
        ("date", "date_", "date_", "DATE"),
        ("FIELDS", "FIELDS", "fields", "FIELDS"),
        ("3d-shape", "_3d_shape", "_3d_shape", "_3D_SHAPE"),
        ("a.b-c", "a_b_c", "a_b_c", "A_B_C"),
        ("größe", "größe", "größe", "GRÖSSE"),
        ("ﬁeld", "field", "field", "FIELD"),
        ("x²", "x2", "x2", "X2"),
        ("__init__", "_init__", "_init__", "_INIT__"),
        ("__secret", "_secret", "_secret", "_SECRET"),
        ("_keep", "_keep", "_keep_", "_KEEP"),
        ("", "_", "_", "_"),
        ("日本", "日本", "日本", "日本"),
    ],
)
def test_local_names_become_python_names(local, class_, field, constant):
    # `_` is a soft keyword, so a term without any name gets one more
    add = "_" if local == "" else ""
    assert naming.class_name(local) == class_ + add
    assert naming.field_name(local) == field + add
    assert naming.constant_name(local) == constant + add


@given(st.text(max_size=12))
def test_any_text_becomes_a_name_that_python_keeps_as_it_is(text):
    for name in (naming.class_name(text), naming.field_name(text), naming.constant_name(text)):
        scope: dict[str, object] = {}
        exec(f"class Holder:\n    {name} = 1\nheld = vars(Holder)", scope)
        assert name in scope["held"]  # neither mangled nor normalized
        assert not keyword.iskeyword(name)


def test_pythons_own_names_are_all_reserved():
    assert {name for name in dir(builtins) if not name.startswith("_")} - naming.RESERVED <= {"PythonFinalizationError"}


def test_awkward_names_compile_and_can_be_used(make):
    text = """
    class import lambda match list str tuple dict object int prov values self iri label comment also replace references
    fields required date datetime float time timedelta _values __init__ 3d a-b a.b größe 日本 IRI Scalar name type id
    """
    local = text.split()
    made = make(
        "ex:A a owl:Class .\n"
        + "\n".join(f"<{EX}{x}> a owl:DatatypeProperty ; rdfs:range xsd:string ; rdfs:domain ex:A ." for x in local)
        + "\n".join(f"<{EX}T/{x}> a owl:Class ." for x in local)
    )
    by_iri = {field.iri: name for name, field in made.A.FIELDS.items()}
    thing = made.A("urn:a", **{by_iri[EX + x]: x for x in local})
    assert said(thing) >= {(EX + x, f'"{x}"') for x in local}
    for word in local:
        assert getattr(thing, by_iri[EX + word]) == (word,)
    assert len(set(made.module.__all__)) == len(local) + 1


def test_two_properties_of_one_name_are_told_apart_by_their_prefix(make):
    made = make("""
        ex:A a owl:Class . ex:size a owl:DatatypeProperty ; rdfs:domain ex:A . ey:size a owl:DatatypeProperty ;
            rdfs:domain ex:A .
        ex:fooBar a owl:DatatypeProperty . ex:foo_bar a owl:DatatypeProperty . ex:FooBar a owl:DatatypeProperty .
    """)
    names = {field.iri: name for name, field in made.A.FIELDS.items() if "size" in name or "foo" in name}
    assert names == {
        "http://example.org/other/size": "size",
        EX + "size": "ex_size",
        EX + "FooBar": "foo_bar",
        EX + "fooBar": "ex_foo_bar",
        EX + "foo_bar": "ex_foo_bar_",
    }
    assert made.noted("size: called ex_size in Python, because size is taken")


def test_a_property_called_like_one_of_ours_gets_its_prefix(make):
    made = make("ex:A a owl:Class ; rdfs:subClassOf prov:Entity . ex:value a owl:DatatypeProperty ; rdfs:domain ex:A .")
    thing = made.A("urn:a", value=1, ex_value=2)
    assert {(prov.Entity.FIELDS["value"].iri), EX + "value"} <= {predicate for predicate, _ in said(thing)}


def test_two_classes_of_one_name_are_told_apart(make):
    made = make("ex:Cat a owl:Class . ey:Cat a owl:Class ; rdfs:subClassOf ex:Cat .")
    assert {made.Cat.CLASS_IRI, made.Cat_.CLASS_IRI} == {EX + "Cat", "http://example.org/other/Cat"}
    assert made.noted("Cat: called Cat_ in Python, because Cat is taken")


def test_two_classes_of_one_name_in_two_files_are_told_apart(make):
    made = make("ex:Cat a owl:Class .", make.write("ey:Cat a owl:Class .", "two.ttl"))
    assert made.module.__all__ == ["Cat", "Cat_"]


def test_a_class_called_like_one_of_ours_does_not_hide_it(make):
    made = make("ex:Entity a owl:Class ; rdfs:subClassOf prov:Entity .")
    assert issubclass(made.Entity, prov.Entity)
    assert made.Entity is not prov.Entity


def test_classes_fields_and_individuals_of_one_name_live_together(make):
    made = make("""
        ex:GPU a owl:Class . ex:gpu a owl:NamedIndividual , ex:GPU . ey:Gpu a owl:NamedIndividual , ex:GPU .
        ex:person a owl:Class . ey:person a owl:ObjectProperty ; rdfs:domain ex:GPU ; rdfs:range ex:person .
        ex:value a owl:Class ; rdfs:subClassOf prov:Entity .
    """)
    assert {made.GPU_.iri, made.GPU__.iri} == {EX + "gpu", "http://example.org/other/Gpu"}
    assert made.GPU("urn:g", person_=made.person("urn:p")).person_
    assert made.value_("urn:v", value=IRI("urn:x")).value == IRI("urn:x")
