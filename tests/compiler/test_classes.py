"""The class tree: multiple inheritance, equivalence, cycles, expressions, individuals."""

from __future__ import annotations

import itertools
import random
import tempfile
import warnings
from pathlib import Path

import pytest
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import provml.vocab
from provml.model.thing import CLASSES, Thing
from provml.model.values import IRI
from provml.validation import validate
from provml.vocab import prov

from .helpers import EX, OntologyCompiler, restore_classes, types


def names(classes: tuple[type, ...]) -> list[str]:
    return [cls.__name__ for cls in classes]


def test_diamond_inheritance(compile_turtle):
    vocab = compile_turtle("""
        ex:Top a owl:Class . ex:Left a owl:Class ; rdfs:subClassOf ex:Top . ex:Right a owl:Class ;
            rdfs:subClassOf ex:Top .
        ex:Bottom a owl:Class ; rdfs:subClassOf ex:Left , ex:Right , ex:Top .
    """)
    assert names(vocab.Bottom.__bases__) == ["Left", "Right"]
    assert types(vocab.Bottom("urn:b")) == {EX + x for x in ("Top", "Left", "Right", "Bottom")}


def test_orders_that_python_cannot_linearize_compile(compile_turtle):
    """X(A, B), Y(B, A) and Z(X, Y) break C3; so does a base that precedes its own subclass."""
    for i, (first, second) in enumerate(itertools.permutations("AB")):
        vocab = compile_turtle(f"""
            ex:A a owl:Class . ex:B a owl:Class .
            ex:X a owl:Class ; rdfs:subClassOf ex:{first} , ex:{second} .
            ex:Y a owl:Class ; rdfs:subClassOf ex:{second} , ex:{first} .
            ex:Z a owl:Class ; rdfs:subClassOf ex:A , ex:X , ex:Y .
            ex:W a owl:Class ; rdfs:subClassOf ex:Z , ex:B .
        """)
        assert names(vocab.W.__mro__)[:-2] == ["W", "Z", "X", "Y", "A", "B"], i


UNORDERED = """
ex:A a owl:Class . ex:B a owl:Class .
ex:SubA a owl:Class ; rdfs:subClassOf ex:A . ex:SubB a owl:Class ; rdfs:subClassOf ex:B .
ex:X a owl:Class ; rdfs:subClassOf ex:SubA , ex:B . ex:Y a owl:Class ; rdfs:subClassOf ex:SubB , ex:A .
ex:Z a owl:Class ; rdfs:subClassOf ex:X , ex:Y .
ex:a a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:string .
ex:b a owl:DatatypeProperty ; rdfs:domain ex:B ; rdfs:range xsd:integer .
ex:y a owl:ObjectProperty ; rdfs:domain ex:Y ; rdfs:range ex:A .
"""
"""With the parents as bases, Python would order X, SubA, A, B and Y, SubB, B, A: there would be no order for Z."""


def test_superclasses_that_the_parents_order_differently_have_one_order(compile_turtle):
    vocab = compile_turtle(UNORDERED)
    assert names(vocab.Z.__mro__)[:-2] == ["Z", "X", "Y", "SubA", "SubB", "A", "B"]
    assert names(vocab.X.__bases__) == ["SubA", "B"]
    assert names(vocab.Y.__bases__) == ["SubB", "A", "B"]
    z = vocab.Z("urn:z", a="text", b=4, y=vocab.SubA("urn:a"))
    for name in ("X", "Y", "SubA", "SubB", "A", "B"):
        assert isinstance(z, getattr(vocab, name))
    assert not isinstance(vocab.X("urn:x"), vocab.SubB)
    assert types(z) == {EX + name for name in ("Z", "X", "Y", "SubA", "SubB", "A", "B")}
    assert len(validate(z, only_shapes=vocab.folder / "shapes.ttl")) == 0


@settings(max_examples=examples(40))
@given(st.integers())
def test_any_class_tree_can_be_compiled(seed: int):
    """One of ten such trees has a class whose superclasses Python cannot order by the orders of the parents."""
    choose, numbers = random.Random(seed), range(20)
    parents = {number: choose.sample(numbers[:number], min(number, choose.randint(2, 3))) for number in numbers}
    lines = [f"ex:C{number} a owl:Class ." for number in numbers]
    lines += [f"ex:C{number} rdfs:subClassOf ex:C{parent} ." for number in numbers for parent in parents[number]]
    ancestors: dict[int, set[int]] = {}
    for number in numbers:
        ancestors[number] = {number}.union(*(ancestors[parent] for parent in parents[number]))
    classes = dict(CLASSES)
    try:
        with tempfile.TemporaryDirectory() as folder:
            vocab = OntologyCompiler(Path(folder))("\n".join(lines))
        for number, other in itertools.product(numbers, numbers):
            is_subclass = issubclass(getattr(vocab, f"C{number}"), getattr(vocab, f"C{other}"))
            assert is_subclass == (other in ancestors[number])
            assert (f"{EX}C{other}" in getattr(vocab, f"C{number}").TYPES) == is_subclass
    finally:
        restore_classes(classes)


def test_any_two_bundled_classes_can_be_combined(compile_turtle):
    vocab = compile_turtle("ex:Both a owl:Class ; rdfs:subClassOf provml:ModelEvaluation , provml:Model .")
    assert issubclass(vocab.Both, provml.vocab.Model)
    assert issubclass(vocab.Both, provml.vocab.ModelEvaluation)
    for cls in {*CLASSES.values()} - {vocab.Both}:
        order = [base.CLASS_IRI for base in cls.__mro__ if issubclass(base, Thing) and base is not Thing]
        assert order == [iri for iri in cls.TYPES if iri in order], "one order for all classes"


def test_bundled_classes_and_own_classes_can_be_combined(compile_turtle):
    vocab = compile_turtle("""
        ex:Robot a owl:Class ; rdfs:subClassOf prov:Entity , prov:SoftwareAgent , ex:Machine .
        ex:Machine a owl:Class ; rdfs:subClassOf prov:Agent .
        ex:Mixed a owl:Class ; rdfs:subClassOf prov:Agent , ex:Robot , prov:Plan .
    """)
    assert issubclass(vocab.Mixed, prov.Plan)
    assert {*prov.Plan.TYPES, *prov.SoftwareAgent.TYPES} < types(vocab.Mixed("urn:m"))


def test_classes_in_a_cycle_are_one_class(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf ex:B . ex:B a owl:Class ; rdfs:subClassOf ex:C .
        ex:C a owl:Class ; rdfs:subClassOf ex:A . ex:D a owl:Class ; rdfs:subClassOf ex:C .
    """)
    assert types(vocab.D("urn:d")) == {EX + x for x in "ABCD"}
    assert vocab.D.__bases__ == (vocab.A,)
    assert vocab.has_note("equivalent to B, C")


def test_equivalent_class_is_an_alias_that_warns(compile_turtle):
    vocab = compile_turtle("ex:Car a owl:Class . ex:Auto a owl:Class ; owl:equivalentClass ex:Car .")
    with pytest.warns(DeprecationWarning, match="Car is now called Auto"):
        assert vocab.Car is vocab.Auto
    assert types(vocab.Auto("urn:c")) == {EX + "Car", EX + "Auto"}


def test_deprecated_equivalent_is_an_alias_and_not_a_type(compile_turtle):
    vocab = compile_turtle("""
        ex:Auto a owl:Class ; owl:deprecated true ; owl:equivalentClass ex:Car . ex:Car a owl:Class ;
            rdfs:subClassOf ex:Thing .
        ex:Wagon a owl:Class , owl:DeprecatedClass ; owl:equivalentClass ex:Auto . ex:Thing a owl:Class .
        ex:Taxi a owl:Class ; rdfs:subClassOf ex:Auto .
    """)
    for old in ("Auto", "Wagon"):
        with pytest.warns(DeprecationWarning, match=f"{old} is now called Car"):
            assert getattr(vocab, old) is vocab.Car
    assert types(vocab.Taxi("urn:t")) == {EX + "Taxi", EX + "Car", EX + "Thing"}


def test_docstring_of_a_deprecated_class_says_so(compile_turtle):
    vocab = compile_turtle("ex:Old a owl:Class ; owl:deprecated true .")
    assert "Deprecated" in vocab.Old.__doc__
    assert "subclasses" not in vocab.Old.__doc__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vocab.Old("urn:o")


def test_equivalent_of_a_bundled_class_is_a_subclass_of_it(compile_turtle):
    vocab = compile_turtle("ex:Thingy a owl:Class ; owl:equivalentClass prov:Entity .")
    assert issubclass(vocab.Thingy, prov.Entity)


def test_members_of_a_union_are_subclasses(compile_turtle):
    vocab = compile_turtle("""
        ex:Pet a owl:Class ; owl:equivalentClass [ owl:unionOf ( ex:Cat ex:Dog ) ] . ex:Cat a owl:Class .
            ex:Dog a owl:Class .
        ex:owns a owl:ObjectProperty ; rdfs:domain ex:Pet ; rdfs:range ex:Pet .
    """)
    assert issubclass(vocab.Cat, vocab.Pet)
    vocab.Cat("urn:c", owns=vocab.Dog("urn:d"))


def test_members_of_a_disjoint_union_are_disjoint_subclasses(compile_turtle):
    vocab = compile_turtle("""
        ex:Pet a owl:Class ; owl:disjointUnionOf ( ex:Cat ex:Dog ) . ex:Cat a owl:Class . ex:Dog a owl:Class .
    """)
    assert issubclass(vocab.Dog, vocab.Pet)
    assert "sh:not [ sh:class ex:Dog ]" in vocab.shapes


def test_intersection_gives_superclasses_and_restrictions(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:n a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
        ex:B a owl:Class ; owl:equivalentClass [ owl:intersectionOf (
            ex:A [ a owl:Restriction ; owl:onProperty ex:n ; owl:cardinality 1 ] ) ] .
    """)
    assert vocab.B.__bases__ == (vocab.A,)
    assert vocab.B.REQUIRED == ("n",)
    assert vocab.A.REQUIRED == ()


@pytest.mark.parametrize(
    "expression",
    [
        "[ owl:complementOf ex:B ]",
        "[ owl:unionOf ( ex:B [ owl:complementOf ex:B ] ) ]",
        "[ owl:unionOf ( ex:B ex:C ) ]",
        "[ owl:oneOf ( ex:i ) ]",
        "[ a owl:Restriction ; owl:onProperty [ owl:inverseOf ex:p ] ; owl:someValuesFrom ex:B ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:minCardinality 'many' ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ]",
        "[ a owl:Class ]",
        "[ owl:intersectionOf ( ) ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:hasSelf true ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:hasValue ex:i ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:someValuesFrom ex:B ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:allValuesFrom [ owl:complementOf ex:B ] ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:allValuesFrom owl:Nothing ]",
        "[ a owl:Restriction ; owl:onProperty ex:p ; owl:maxQualifiedCardinality 1 ; owl:onClass ex:B ]",
        "[ a owl:Restriction ; owl:onProperty rdfs:label ; owl:minCardinality 1 ]",
    ],
)
def test_expression_that_classes_cannot_express_becomes_a_note(compile_turtle, expression):
    vocab = compile_turtle(f"""
        ex:A a owl:Class ; rdfs:subClassOf {expression} . ex:B a owl:Class . ex:C a owl:Class .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A . ex:i a owl:NamedIndividual , ex:B .
    """)
    assert vocab.has_note("my.ttl:14: A:")
    assert vocab.A("urn:a", p=[vocab.C("urn:c"), vocab.B("urn:b")]).p
    assert "## Axioms that Python classes do not express" in vocab.page


def test_expression_that_contains_itself_is_an_error(compile_turtle):
    with pytest.raises(ValueError, match=r"my\.ttl: an expression contains itself"):
        compile_turtle("ex:A a owl:Class ; rdfs:subClassOf _:x . _:x owl:intersectionOf ( _:x ) .")


def test_all_values_from_thing_is_no_restriction(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:allValuesFrom owl:Thing ] .
            ex:p a owl:ObjectProperty .
    """)
    assert vocab.notes == []
    assert vocab.A.FIELDS["p"].ranges == ()


def test_individuals_are_constants_with_their_label(compile_turtle):
    vocab = compile_turtle("""
        ex:Colour a owl:Class . ex:darkRed a owl:NamedIndividual , ex:Colour ; rdfs:label "dark red" ;
            rdfs:comment "Deep." .
        ex:pale a owl:NamedIndividual , ex:Colour . ex:holdout a owl:NamedIndividual , prov:Role .
    """)
    assert vocab.Colour(EX + "darkRed", label="dark red") == vocab.DARK_RED
    assert vocab.Colour(EX + "pale") == vocab.PALE
    assert isinstance(vocab.HOLDOUT, prov.Role)
    assert {"DARK_RED", "PALE", "HOLDOUT"} < set(vocab.module.__all__)


def test_individual_of_a_class_with_required_fields_is_an_iri(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:n ; owl:minCardinality 1 ] .
            ex:i a owl:NamedIndividual , ex:A .
        ex:n a owl:DatatypeProperty . ex:has a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:A .
    """)
    assert vocab.A("urn:a", n=1, has=vocab.I).has == (IRI(EX + "i"),)
    assert vocab.has_note("i: its class has required fields")


def test_individual_of_several_classes_has_the_narrowest(compile_turtle):
    vocab = compile_turtle(
        """
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A . ex:C a owl:Class .
        ex:i a owl:NamedIndividual , ex:A , ex:C , ex:B .
    """
    )
    assert type(vocab.I) is vocab.B
    assert vocab.has_note("i: has several classes")


def test_ontology_of_individuals_alone_compiles(compile_turtle):
    assert compile_turtle("ex:holdout a owl:NamedIndividual , prov:Role .").module.__all__ == ["HOLDOUT"]


def test_incomplete_disjointness_axiom_is_ignored(compile_turtle):
    assert compile_turtle("ex:A a owl:Class . [] a owl:AllDisjointClasses .").A


def test_rdfs_without_owl_compiles(compile_turtle):
    vocab = compile_turtle("""
        ex:A a rdfs:Class ; rdfs:label "an A" . ex:B a rdfs:Class ; rdfs:subClassOf ex:A .
        ex:knows a rdf:Property ; rdfs:domain ex:A ; rdfs:range ex:A .
        ex:knowsWell a rdf:Property ; rdfs:subPropertyOf ex:knows .
        ex:age a rdf:Property ; rdfs:domain ex:A ; rdfs:range xsd:integer .
        ex:likes a rdf:Property ; rdfs:domain ex:A ; rdfs:range [ owl:unionOf ( ex:A ex:B ) ] .
        ex:says a rdf:Property ; rdfs:domain ex:A .
        ex:anything a rdf:Property ; rdfs:domain ex:A ; rdfs:range rdfs:Resource .
    """)
    kinds = {name: field.kind for name, field in vocab.B.FIELDS.items()}
    assert kinds == {
        "label": "words",
        "comment": "words",
        "knows": "thing",
        "knows_well": "thing",
        "age": "integer",
        "likes": "thing",
        "says": "any",
        "anything": "thing",
    }
    assert vocab.has_note("says: a property without a range")


def test_subclass_of_disjoint_classes_is_noted_once(compile_turtle):
    vocab = compile_turtle("""
        ex:Cat a owl:Class ; owl:disjointWith ex:Dog . ex:Dog a owl:Class .
        ex:Puppy a owl:Class ; rdfs:subClassOf ex:Dog .
        ex:CatDog a owl:Class ; rdfs:subClassOf ex:Cat , ex:Puppy . ex:Below a owl:Class ; rdfs:subClassOf ex:CatDog .
        ex:Odd a owl:Class ; rdfs:subClassOf ex:Base ; owl:disjointWith ex:Base . ex:Base a owl:Class .
    """)
    contradictions = [note for note in vocab.notes if "which are disjoint" in note]
    assert len(contradictions) == 2
    assert vocab.has_note("CatDog: a subclass of Cat and Dog, which are disjoint; it can have no instances")
    assert vocab.has_note("Odd: a subclass of Base and Odd")
