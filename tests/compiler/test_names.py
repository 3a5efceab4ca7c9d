"""Python names of terms are valid and unique."""

from __future__ import annotations

import builtins
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.compiler import naming
from provml.model.values import IRI
from provml.vocab import prov

from .helpers import EX, statements


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
        ("resolve_renamed", "resolve_renamed_", "resolve_renamed_", "RESOLVE_RENAMED"),
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
        ("_assign", "_assign", "_assign_", "_ASSIGN"),
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
def test_any_text_becomes_a_name_that_python_does_not_change(text):
    for name in (naming.class_name(text), naming.field_name(text), naming.constant_name(text)):
        scope: dict[str, object] = {}
        exec(f"class Holder:\n    {name} = 1\nnames = vars(Holder)", scope)
        assert name in scope["names"]  # neither mangled nor normalized
        assert not keyword.iskeyword(name)


def test_builtins_of_python_are_reserved():
    names = {name for name in dir(builtins) if not name.startswith("_")}
    assert names - naming.RESERVED <= {"PythonFinalizationError", "display", "get_ipython"}  # the last are IPython's


def test_difficult_names_compile_and_work(compile_turtle):
    text = """
    class import lambda match list str tuple dict object int prov values self iri label comment extra replace references
    fields required date datetime float time timedelta _values __init__ 3d a-b a.b größe 日本 IRI Scalar name type id
    """
    local = text.split()
    vocab = compile_turtle(
        "ex:A a owl:Class .\n"
        + "\n".join(f"<{EX}{x}> a owl:DatatypeProperty ; rdfs:range xsd:string ; rdfs:domain ex:A ." for x in local)
        + "\n".join(f"<{EX}T/{x}> a owl:Class ." for x in local)
    )
    by_iri = {field.iri: name for name, field in vocab.A.FIELDS.items()}
    thing = vocab.A("urn:a", **{by_iri[EX + x]: x for x in local})
    assert statements(thing) >= {(EX + x, f'"{x}"') for x in local}
    for word in local:
        assert getattr(thing, by_iri[EX + word]) == (word,)
    assert len(set(vocab.module.__all__)) == len(local) + 1


def test_properties_with_one_name_get_their_prefix(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:size a owl:DatatypeProperty ; rdfs:domain ex:A . ey:size a owl:DatatypeProperty ;
            rdfs:domain ex:A .
        ex:fooBar a owl:DatatypeProperty . ex:foo_bar a owl:DatatypeProperty . ex:FooBar a owl:DatatypeProperty .
    """)
    names = {field.iri: name for name, field in vocab.A.FIELDS.items() if "size" in name or "foo" in name}
    assert names == {
        "http://example.org/other/size": "size",
        EX + "size": "ex_size",
        EX + "FooBar": "foo_bar",
        EX + "fooBar": "ex_foo_bar",
        EX + "foo_bar": "ex_foo_bar_",
    }
    assert vocab.has_note("size: named ex_size in Python, because size is taken")


def test_property_with_the_name_of_a_bundled_one_gets_its_prefix(compile_turtle):
    vocab = compile_turtle(
        "ex:A a owl:Class ; rdfs:subClassOf prov:Entity . ex:value a owl:DatatypeProperty ; rdfs:domain ex:A ."
    )
    thing = vocab.A("urn:a", value=1, ex_value=2)
    assert {(prov.Entity.FIELDS["value"].iri), EX + "value"} <= {predicate for predicate, _ in statements(thing)}


def test_classes_with_one_name_get_different_names(compile_turtle):
    vocab = compile_turtle("ex:Cat a owl:Class . ey:Cat a owl:Class ; rdfs:subClassOf ex:Cat .")
    assert {vocab.Cat.CLASS_IRI, vocab.Cat_.CLASS_IRI} == {EX + "Cat", "http://example.org/other/Cat"}
    assert vocab.has_note("Cat: named Cat_ in Python, because Cat is taken")


def test_classes_with_one_name_in_two_files_get_different_names(compile_turtle):
    vocab = compile_turtle("ex:Cat a owl:Class .", compile_turtle.write("ey:Cat a owl:Class .", "two.ttl"))
    assert vocab.module.__all__ == ["Cat", "Cat_"]


def test_class_with_the_name_of_a_bundled_one_does_not_replace_it(compile_turtle):
    vocab = compile_turtle("ex:Entity a owl:Class ; rdfs:subClassOf prov:Entity .")
    assert issubclass(vocab.Entity, prov.Entity)
    assert vocab.Entity is not prov.Entity


def test_class_field_and_individual_with_one_name_coexist(compile_turtle):
    vocab = compile_turtle("""
        ex:GPU a owl:Class . ex:gpu a owl:NamedIndividual , ex:GPU . ey:Gpu a owl:NamedIndividual , ex:GPU .
        ex:person a owl:Class . ey:person a owl:ObjectProperty ; rdfs:domain ex:GPU ; rdfs:range ex:person .
        ex:value a owl:Class ; rdfs:subClassOf prov:Entity .
    """)
    assert {vocab.GPU_.iri, vocab.GPU__.iri} == {EX + "gpu", "http://example.org/other/Gpu"}
    assert vocab.GPU("urn:g", person_=vocab.person("urn:p")).person_
    assert vocab.value_("urn:v", value=IRI("urn:x")).value == IRI("urn:x")
