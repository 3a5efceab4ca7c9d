"""The class tree: several inheritance, equivalence, cycles, expressions, individuals."""

from __future__ import annotations

import itertools
import warnings

import pytest

from provml.vocab import prov

from .workshop import EX, types


def names(classes: tuple[type, ...]) -> list[str]:
    return [cls.__name__ for cls in classes]


def test_a_diamond_has_one_top(make):
    made = make("""
        ex:Top a owl:Class . ex:Left a owl:Class ; rdfs:subClassOf ex:Top . ex:Right a owl:Class ;
            rdfs:subClassOf ex:Top .
        ex:Bottom a owl:Class ; rdfs:subClassOf ex:Left , ex:Right , ex:Top .
    """)
    assert names(made.Bottom.__bases__) == ["Left", "Right"]
    assert types(made.Bottom("urn:b")) == {EX + x for x in ("Top", "Left", "Right", "Bottom")}


def test_orders_that_python_could_not_linearize_as_written_compile(make):
    """X(A, B), Y(B, A) and Z(X, Y) break C3; so does a base that is listed before its own subclass."""
    for i, (first, second) in enumerate(itertools.permutations("AB")):
        made = make(f"""
            ex:A a owl:Class . ex:B a owl:Class .
            ex:X a owl:Class ; rdfs:subClassOf ex:{first} , ex:{second} .
            ex:Y a owl:Class ; rdfs:subClassOf ex:{second} , ex:{first} .
            ex:Z a owl:Class ; rdfs:subClassOf ex:A , ex:X , ex:Y .
            ex:W a owl:Class ; rdfs:subClassOf ex:Z , ex:B .
        """)
        assert names(made.W.__mro__)[:-2] == ["W", "Z", "X", "Y", "A", "B"], i


def test_the_classes_of_two_of_ours_mix_with_a_users_own(make):
    made = make("""
        ex:Robot a owl:Class ; rdfs:subClassOf prov:Entity , prov:SoftwareAgent , ex:Machine .
        ex:Machine a owl:Class ; rdfs:subClassOf prov:Agent .
        ex:Mixed a owl:Class ; rdfs:subClassOf prov:Agent , ex:Robot , prov:Plan .
    """)
    assert issubclass(made.Mixed, prov.Plan)
    assert {*prov.Plan.TYPES, *prov.SoftwareAgent.TYPES} < types(made.Mixed("urn:m"))


def test_classes_in_a_circle_are_one_class(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf ex:B . ex:B a owl:Class ; rdfs:subClassOf ex:C .
        ex:C a owl:Class ; rdfs:subClassOf ex:A . ex:D a owl:Class ; rdfs:subClassOf ex:C .
    """)
    assert types(made.D("urn:d")) == {EX + x for x in "ABCD"}
    assert made.D.__bases__ == (made.A,)
    assert made.noted("equivalent to B, C")


def test_an_equivalent_class_is_an_alias_that_warns(make):
    made = make("ex:Car a owl:Class . ex:Auto a owl:Class ; owl:equivalentClass ex:Car .")
    with pytest.warns(DeprecationWarning, match="Car is now called Auto"):
        assert made.Car is made.Auto
    assert types(made.Auto("urn:c")) == {EX + "Car", EX + "Auto"}


def test_a_deprecated_equivalent_is_an_alias_and_no_type(make):
    made = make("""
        ex:Auto a owl:Class ; owl:deprecated true ; owl:equivalentClass ex:Car . ex:Car a owl:Class ;
            rdfs:subClassOf ex:Thing .
        ex:Wagon a owl:Class , owl:DeprecatedClass ; owl:equivalentClass ex:Auto . ex:Thing a owl:Class .
        ex:Taxi a owl:Class ; rdfs:subClassOf ex:Auto .
    """)
    for old in ("Auto", "Wagon"):
        with pytest.warns(DeprecationWarning, match=f"{old} is now called Car"):
            assert getattr(made, old) is made.Car
    assert types(made.Taxi("urn:t")) == {EX + "Taxi", EX + "Car", EX + "Thing"}


def test_a_class_without_a_replacement_says_in_its_docstring_that_it_is_deprecated(make):
    made = make("ex:Old a owl:Class ; owl:deprecated true .")
    assert "Deprecated" in made.Old.__doc__
    assert "subclasses" not in made.Old.__doc__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.Old("urn:o")


def test_an_equivalent_of_one_of_ours_is_a_subclass_of_it(make):
    made = make("ex:Thingy a owl:Class ; owl:equivalentClass prov:Entity .")
    assert issubclass(made.Thingy, prov.Entity)


def test_the_members_of_a_union_are_subclasses_of_the_class_defined_by_it(make):
    made = make("""
        ex:Pet a owl:Class ; owl:equivalentClass [ owl:unionOf ( ex:Cat ex:Dog ) ] . ex:Cat a owl:Class .
            ex:Dog a owl:Class .
        ex:owns a owl:ObjectProperty ; rdfs:domain ex:Pet ; rdfs:range ex:Pet .
    """)
    assert issubclass(made.Cat, made.Pet)
    made.Cat("urn:c", owns=made.Dog("urn:d"))


def test_a_disjoint_union_puts_its_members_below_and_apart(make):
    made = make("""
        ex:Pet a owl:Class ; owl:disjointUnionOf ( ex:Cat ex:Dog ) . ex:Cat a owl:Class . ex:Dog a owl:Class .
    """)
    assert issubclass(made.Dog, made.Pet)
    assert "sh:not [ sh:class ex:Dog ]" in made.shapes


def test_a_defined_intersection_gives_superclasses_and_restrictions(make):
    made = make("""
        ex:A a owl:Class . ex:n a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
        ex:B a owl:Class ; owl:equivalentClass [ owl:intersectionOf (
            ex:A [ a owl:Restriction ; owl:onProperty ex:n ; owl:cardinality 1 ] ) ] .
    """)
    assert made.B.__bases__ == (made.A,)
    assert made.B.REQUIRED == ("n",)
    assert made.A.REQUIRED == ()


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
def test_what_classes_cannot_hold_becomes_a_note(make, expression):
    made = make(f"""
        ex:A a owl:Class ; rdfs:subClassOf {expression} . ex:B a owl:Class . ex:C a owl:Class .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A . ex:i a owl:NamedIndividual , ex:B .
    """)
    assert made.noted("my.ttl:14: A:")
    assert made.A("urn:a", p=[made.C("urn:c"), made.B("urn:b")]).p
    assert "## What the classes leave to a reasoner" in made.page


def test_an_expression_that_contains_itself_is_an_error(make):
    with pytest.raises(ValueError, match=r"my\.ttl: an expression that contains itself"):
        make("ex:A a owl:Class ; rdfs:subClassOf _:x . _:x owl:intersectionOf ( _:x ) .")


def test_only_anything_is_no_restriction(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:allValuesFrom owl:Thing ] .
            ex:p a owl:ObjectProperty .
    """)
    assert made.notes == []
    assert made.A.FIELDS["p"].ranges == ()


def test_individuals_are_constants_with_their_label(make):
    made = make("""
        ex:Colour a owl:Class . ex:darkRed a owl:NamedIndividual , ex:Colour ; rdfs:label "dark red" ;
            rdfs:comment "Deep." .
        ex:pale a owl:NamedIndividual , ex:Colour . ex:holdout a owl:NamedIndividual , prov:Role .
    """)
    assert made.Colour(EX + "darkRed", label="dark red") == made.DARK_RED
    assert made.Colour(EX + "pale") == made.PALE
    assert isinstance(made.HOLDOUT, prov.Role)
    assert {"DARK_RED", "PALE", "HOLDOUT"} < set(made.module.__all__)


def test_an_individual_of_a_class_that_asks_for_fields_is_an_iri(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:n ; owl:minCardinality 1 ] .
            ex:i a owl:NamedIndividual , ex:A .
        ex:n a owl:DatatypeProperty . ex:has a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:A .
    """)
    assert made.A("urn:a", n=1, has=made.I).has == (made.module.IRI(EX + "i"),)
    assert made.noted("i: its class asks for fields")


def test_an_individual_of_several_classes_is_made_of_the_narrowest(make):
    made = make(
        """
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A . ex:C a owl:Class .
        ex:i a owl:NamedIndividual , ex:A , ex:C , ex:B .
    """
    )
    assert type(made.I) is made.B
    assert made.noted("i: belongs to several classes")


def test_a_module_of_individuals_alone_is_worth_compiling(make):
    assert make("ex:holdout a owl:NamedIndividual , prov:Role .").module.__all__ == ["HOLDOUT"]


def test_disjoint_classes_of_an_unfinished_axiom_do_no_harm(make):
    assert make("ex:A a owl:Class . [] a owl:AllDisjointClasses .").A


def test_rdfs_alone_is_enough(make):
    made = make("""
        ex:A a rdfs:Class ; rdfs:label "an A" . ex:B a rdfs:Class ; rdfs:subClassOf ex:A .
        ex:knows a rdf:Property ; rdfs:domain ex:A ; rdfs:range ex:A .
        ex:knowsWell a rdf:Property ; rdfs:subPropertyOf ex:knows .
        ex:age a rdf:Property ; rdfs:domain ex:A ; rdfs:range xsd:integer .
        ex:likes a rdf:Property ; rdfs:domain ex:A ; rdfs:range [ owl:unionOf ( ex:A ex:B ) ] .
        ex:says a rdf:Property ; rdfs:domain ex:A .
        ex:anything a rdf:Property ; rdfs:domain ex:A ; rdfs:range rdfs:Resource .
    """)
    kinds = {name: field.kind for name, field in made.B.FIELDS.items()}
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
    assert made.noted("says: a property without a range")


def test_a_class_below_two_that_exclude_each_other_is_noted_once(make):
    made = make("""
        ex:Cat a owl:Class ; owl:disjointWith ex:Dog . ex:Dog a owl:Class .
        ex:Puppy a owl:Class ; rdfs:subClassOf ex:Dog .
        ex:CatDog a owl:Class ; rdfs:subClassOf ex:Cat , ex:Puppy . ex:Below a owl:Class ; rdfs:subClassOf ex:CatDog .
        ex:Odd a owl:Class ; rdfs:subClassOf ex:Base ; owl:disjointWith ex:Base . ex:Base a owl:Class .
    """)
    contradictions = [note for note in made.notes if "exclude each other" in note]
    assert len(contradictions) == 2
    assert made.noted("CatDog: lies in Cat and in Dog, which exclude each other; nothing can be one")
    assert made.noted("Odd: lies in Base and in Odd")
