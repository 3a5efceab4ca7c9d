"""What fields a class gets: domains, ranges, cardinalities, datatypes with facets, and what is written for them."""

from __future__ import annotations

import inspect
from decimal import Decimal

import pytest

from provml.errors import MissingField, RefusedValue, WrongType, WrongValue
from provml.values import IRI, Literal, Text

from .workshop import EX, said

XSD = "http://www.w3.org/2001/XMLSchema#"


def test_a_union_as_domain_gives_the_field_to_each_member(make):
    made = make("""
        ex:A a owl:Class . ex:B a owl:Class . ex:C a owl:Class .
        ex:p a owl:ObjectProperty ; rdfs:domain [ owl:unionOf ( ex:A ex:B ) ] ;
            rdfs:range [ owl:unionOf ( ex:A ex:B ) ] .
    """)
    assert [("p" in cls.FIELDS) for cls in (made.A, made.B, made.C)] == [True, True, False]
    made.A("urn:a", p=[made.A("urn:x"), made.B("urn:y"), IRI("urn:z")])
    with pytest.raises(WrongType, match="A or B or an IRI"):
        made.A("urn:a", p=made.C("urn:c"))


@pytest.mark.parametrize("both", ["ex:A , ex:B", "[ owl:intersectionOf ( ex:A ex:B ) ]"])
def test_several_domains_or_ranges_mean_all_of_them(make, both):
    made = make(f"""
        ex:A a owl:Class . ex:B a owl:Class . ex:C a owl:Class ; rdfs:subClassOf ex:A , ex:B .
        ex:p a owl:ObjectProperty ; rdfs:domain {both} ; rdfs:range {both} .
    """)
    assert [("p" in cls.FIELDS) for cls in (made.A, made.B, made.C)] == [False, False, True]
    made.C("urn:c", p=made.C("urn:d"))
    with pytest.raises(WrongType, match="A and B"):
        made.C("urn:c", p=made.A("urn:a"))


def test_a_property_without_domain_belongs_to_every_class_of_its_ontology(make):
    made = make("ex:A a owl:Class . ex:B a owl:Class . ex:p a owl:ObjectProperty .")
    assert "p" in made.A.FIELDS
    assert "p" in made.B.FIELDS
    made.A("urn:a", p=made.B("urn:b"))


def test_a_property_of_classes_compiled_elsewhere_alone_is_noted(make):
    made = make("ex:A a owl:Class . ex:speed a owl:DatatypeProperty ; rdfs:domain prov:Activity .")
    assert made.noted("speed", "also={…}")


@pytest.mark.parametrize(
    ("axiom", "least", "most", "one"),
    [
        ("owl:minCardinality 1", 1, None, False),
        ("owl:minCardinality 2", 2, None, False),
        ("owl:maxCardinality 1", 0, 1, True),
        ("owl:maxCardinality 3", 0, 3, False),
        ("owl:cardinality 1", 1, 1, True),
        ("owl:cardinality 2", 2, 2, False),
        ("owl:maxCardinality 0", 0, 0, False),
        ("owl:minQualifiedCardinality 1 ; owl:onClass ex:B", 1, None, False),
        ("owl:maxQualifiedCardinality 1 ; owl:onClass ex:B", 0, 1, True),
        ("owl:maxQualifiedCardinality 1 ; owl:onClass ex:Narrow", 0, None, False),
        ("owl:maxQualifiedCardinality 1 ; owl:onClass [ owl:complementOf ex:Narrow ]", 0, None, False),
        ("owl:maxQualifiedCardinality 1 ; owl:onClass owl:Thing", 0, 1, True),
        ("owl:qualifiedCardinality 1 ; owl:onClass ex:Narrow", 1, None, False),
        ("owl:someValuesFrom ex:B", 0, None, False),
    ],
)
def test_cardinalities_are_counted(make, axiom, least, most, one):
    made = make(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ a owl:Restriction ; owl:onProperty ex:p ; {axiom} ] .
        ex:B a owl:Class . ex:Narrow a owl:Class ; rdfs:subClassOf ex:B .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:B .
    """)
    field = made.A.FIELDS["p"]
    assert (field.least, field.most, field.one) == (least, most, one)


@pytest.mark.parametrize("range_", ["xsd:string", "rdfs:Literal"])
def test_a_qualified_cardinality_over_all_data_counts(make, range_):
    made = make(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxQualifiedCardinality 1 ;
            owl:onDataRange {range_} ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:string .
    """)
    assert made.A.FIELDS["p"].one


def test_a_field_that_is_single_below_only_reads_as_a_tuple_everywhere(make):
    made = make("""
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:maxCardinality 1 ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
    """)
    assert made.B("urn:b", p=1).p == (1,)
    assert made.A("urn:a", p=[1, 2]).p == (1, 2)
    with pytest.raises(WrongType, match="at most 1"):
        made.B("urn:b", p=[1, 2])


def test_functional_means_one_value_and_holds_for_sub_properties(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:domain ex:A .
        ex:q a owl:ObjectProperty ; rdfs:subPropertyOf ex:p .
    """)
    assert made.A("urn:a", q=IRI("urn:b")).q == IRI("urn:b")
    with pytest.raises(WrongType, match="single value"):
        made.A("urn:a", q=[IRI("urn:b"), IRI("urn:c")])


def test_a_required_field_comes_first_and_is_asked_for(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:zeal ; owl:cardinality 1 ] ,
            [ owl:onProperty ex:mass ; owl:minCardinality 1 ] .
        ex:zeal a owl:DatatypeProperty ; rdfs:range xsd:integer . ex:mass a owl:DatatypeProperty ;
            rdfs:range xsd:double .
        ex:age a owl:DatatypeProperty ; rdfs:range xsd:integer .
    """)
    assert list(inspect.signature(made.A.__init__).parameters)[:5] == ["self", "iri", "mass", "zeal", "age"]
    with pytest.raises(MissingField, match=r"A\.zeal"):
        made.A("urn:a", mass=1.0)


def test_a_property_that_a_sub_property_can_state_is_not_insisted_on(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:minCardinality 1 ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A . ex:q a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p .
    """)
    assert (EX + "p", '"x"') in said(made.A("urn:a", q="x"))
    assert "sh:minCount 1" in made.shapes


def test_only_narrows_the_range_of_a_subclass(make):
    made = make("""
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:allValuesFrom ex:B ] .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:A . ex:q a owl:ObjectProperty ;
            rdfs:subPropertyOf ex:p .
    """)
    made.A("urn:a", p=made.A("urn:b"))
    for field in ("p", "q"):
        with pytest.raises(WrongType, match="takes any number of: B"):
            made.B("urn:b", **{field: made.A("urn:a")})


def test_sub_properties_write_what_is_above_them_and_circles_end(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:subPropertyOf ex:q . ex:q a owl:DatatypeProperty ;
            rdfs:subPropertyOf ex:r .
        ex:r a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p . ex:s a owl:DatatypeProperty ; rdfs:subPropertyOf ex:r .
    """)
    assert {predicate for predicate, node in said(made.A("urn:a", s=1)) if node == f'"1"^^<{XSD}integer>'} == {
        EX + name for name in "pqrs"
    }


def test_equivalent_properties_write_each_other_and_never_a_retired_one(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; owl:equivalentProperty ex:q . ex:q a owl:DatatypeProperty .
        ex:old a owl:DatatypeProperty ; owl:deprecated true ; owl:equivalentProperty ex:p .
    """)
    supers = {name: set(made.A.FIELDS[name].supers) for name in ("p", "q", "old")}
    assert supers == {"p": {EX + "q"}, "q": {EX + "p"}, "old": {EX + "p", EX + "q"}}


def test_a_stated_inverse_is_written_too(make):
    made = make("""
        ex:A a owl:Class . ex:B a owl:Class . ex:has a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:B .
        ex:partOf a owl:ObjectProperty ; owl:inverseOf ex:has .
    """)
    assert made.B.FIELDS["part_of"].inverse == EX + "has"
    assert made.B.FIELDS["part_of"].ranges == (frozenset({EX + "A"}),)


def test_a_chain_is_noted(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:ObjectProperty . ex:q a owl:ObjectProperty ;
            owl:propertyChainAxiom ( ex:p ex:p ) .
    """)
    assert made.noted("q: also follows from the chain p / p")


def test_annotation_properties_are_no_fields(make):
    made = make(
        """
        ex:A a owl:Class . ex:note a owl:AnnotationProperty ; rdfs:domain ex:A .
        ex:sub a owl:AnnotationProperty ; rdfs:subPropertyOf ex:note .
    """
    )
    assert set(made.A.FIELDS) == {"label", "comment"}


def test_a_property_typed_only_by_its_characteristic_counts(make):
    made = make("""
        ex:A a owl:Class . ex:partOf a owl:TransitiveProperty ; rdfs:range ex:A .
        ex:age a owl:FunctionalProperty ; rdfs:range xsd:integer .
    """)
    assert (made.A.FIELDS["part_of"].kind, made.A.FIELDS["age"].kind, made.A.FIELDS["age"].one) == (
        "thing",
        "integer",
        True,
    )


def test_an_object_property_beats_a_data_property_of_the_same_name(make):
    made = make("ex:A a owl:Class . ex:p a owl:ObjectProperty , owl:DatatypeProperty .")
    assert made.A.FIELDS["p"].kind == "thing"
    assert made.noted("p: declared as an object and a data property")


# ---- data


def field_of(make, range_, more=""):
    """A class A with one field p of that range."""
    return make(
        f"ex:A a owl:Class . ex:p a owl:DatatypeProperty , owl:FunctionalProperty ; rdfs:range {range_} . {more}"
    )


def facets(base: str, *held: str) -> str:
    return (
        f"[ a rdfs:Datatype ; owl:onDatatype {base} ; owl:withRestrictions ( {' '.join(f'[ {x} ]' for x in held)} ) ]"
    )


@pytest.mark.parametrize(
    ("range_", "good", "bad"),
    [
        ("xsd:nonNegativeInteger", [0, 5], [-1]),
        ("xsd:positiveInteger", [1], [0]),
        ("xsd:negativeInteger", [-1], [0]),
        ("xsd:byte", [-128, 127], [128, -129]),
        ("xsd:unsignedShort", [0, 65535], [-1, 65536]),
        ("xsd:int", [2**31 - 1], [2**31]),
        (facets("xsd:integer", "xsd:minInclusive 1", "xsd:maxExclusive 10"), [1, 9], [0, 10]),
        (facets("xsd:nonNegativeInteger", "xsd:maxInclusive 3"), [0, 3], [-1, 4]),
        (facets("xsd:double", "xsd:minExclusive 0.5", "xsd:maxInclusive 1e0"), [0.6, 1.0], [0.5, 1.1]),
        (facets("xsd:double", 'xsd:maxExclusive "INF"^^xsd:double'), [1e308], [float("inf")]),
        (facets("xsd:decimal", "xsd:minInclusive 0"), [Decimal("0.1")], [Decimal("-0.1")]),
        (facets("xsd:string", "xsd:minLength 2", "xsd:maxLength 3"), ["ab", "abc"], ["a", "abcd"]),
        (facets("xsd:string", "xsd:length 2"), ["ab"], ["a", "abc"]),
        (facets("xsd:string", 'xsd:pattern "[a-c]+|it\'s \\"x\\""'), ["abc", 'it\'s "x"'], ["abd", ""]),
        (
            '[ a rdfs:Datatype ; owl:oneOf ( "red" "it\'s" "a \\"b\\" \\\\ c" ) ]',
            ["red", "it's", 'a "b" \\ c'],
            ["blue"],
        ),
    ],
)
def test_facets_are_held(make, range_, good, bad):
    made = field_of(make, range_)
    for value in good:
        thing = made.A("urn:a", p=value)
        assert thing.p == value
        assert len(said(thing)) == 2
    for value in bad:
        with pytest.raises(WrongValue):
            made.A("urn:a", p=value)


@pytest.mark.parametrize(
    "range_",
    [
        facets("xsd:decimal", "xsd:minInclusive 0.1"),
        facets("xsd:decimal", "xsd:totalDigits 3"),
        facets("xsd:decimal", "xsd:fractionDigits 2"),
        facets("xsd:integer", 'xsd:pattern "[0-9]"'),
        facets("xsd:integer", 'xsd:minInclusive "one"'),
        facets("xsd:integer", "xsd:minLength 3"),
        facets("xsd:string", 'xsd:pattern "\\\\p{L}+"'),
        facets("xsd:string", 'xsd:pattern "("'),
        facets("xsd:dateTime", 'xsd:minInclusive "2020-01-01T00:00:00"^^xsd:dateTime'),
        "[ a rdfs:Datatype ; owl:oneOf ( 1 2 ) ]",
    ],
)
def test_facets_that_fields_cannot_hold_are_noted_and_the_datatype_stays(make, range_):
    made = field_of(make, range_)
    assert made.noted("p: of its range, this is not checked")
    with pytest.raises(RefusedValue):
        made.A("urn:a", p=object())
    assert made.A.FIELDS["p"].datatype is not None


@pytest.mark.parametrize(
    "range_",
    [
        "[ a rdfs:Datatype ; owl:unionOf ( xsd:integer xsd:string ) ]",
        "[ a rdfs:Datatype ; owl:datatypeComplementOf xsd:string ]",
        '[ a rdfs:Datatype ; owl:oneOf ( 1 "one" ) ]',
        "[ a rdfs:Datatype ; owl:oneOf ( ) ]",
        "[ a rdfs:Datatype ]",
    ],
)
def test_data_ranges_that_fields_cannot_hold_take_any_scalar(make, range_):
    made = field_of(make, range_)
    assert made.noted("p: its range is an expression")
    assert [made.A("urn:a", p=value).p for value in (1, "one", 1.5)] == [1, "one", 1.5]


def test_named_datatypes_are_what_they_are_defined_as(make):
    whole = facets("xsd:double", "xsd:minInclusive 0", "xsd:maxInclusive 100")
    percent = f"ex:Percent a rdfs:Datatype ; owl:equivalentClass {whole} ."
    made = field_of(
        make,
        "ex:Small",
        f"{percent} ex:Small a rdfs:Datatype ; owl:equivalentClass {facets('ex:Percent', 'xsd:maxInclusive 10')} . "
        "ex:Word a rdfs:Datatype ; owl:equivalentClass xsd:string . ex:w a owl:DatatypeProperty ; rdfs:range ex:Word .",
    )
    assert said(made.A("urn:a", p=5.0, w="x")) >= {(EX + "p", f'"5.0"^^<{XSD}double>'), (EX + "w", '"x"')}
    for value in (-1.0, 11.0):
        with pytest.raises(WrongValue):
            made.A("urn:a", p=value)


@pytest.mark.parametrize("datatype", ["ex:Unheard", "xsd:gYear", "xsd:hexBinary", "rdf:HTML"])
def test_unknown_datatypes_take_literals(make, datatype):
    made = field_of(make, datatype)
    iri = made.A.FIELDS["p"].datatype
    assert said(made.A("urn:a", p=Literal("x", iri))) >= {(EX + "p", f'"x"^^<{iri}>')}
    with pytest.raises(WrongType, match="Literal"):
        made.A("urn:a", p="x")


def test_words_with_and_without_a_language(make):
    made = make("""
        ex:A a owl:Class . ex:plain a owl:DatatypeProperty ; rdfs:range rdf:PlainLiteral .
        ex:tagged a owl:DatatypeProperty ; rdfs:range rdf:langString .
    """)
    thing = made.A("urn:a", plain=["x", Text("y", "en")], tagged=Text("z", "fr"))
    assert {node for _, node in said(thing)} >= {'"x"', '"y"@en', '"z"@fr'}


def test_several_ranges_narrow_each_other(make):
    made = make("""
        ex:A a owl:Class . ex:any a owl:DatatypeProperty ; rdfs:range rdfs:Literal .
        ex:p a owl:DatatypeProperty ; rdfs:subPropertyOf ex:any ; rdfs:range xsd:string , [ a rdfs:Datatype ;
            owl:oneOf ( "a" "b" ) ] .
        ex:q a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p ; rdfs:range [ a rdfs:Datatype ; owl:oneOf ( "b" "c" ) ] .
        ex:never a owl:DatatypeProperty ; rdfs:range xsd:string , xsd:integer .
    """)
    assert (made.A.FIELDS["p"].choices, made.A.FIELDS["q"].choices) == (("a", "b"), ("b",))
    assert made.noted("never: nothing is in all of its ranges")


def test_the_narrowing_of_a_subclass_is_not_undone_by_the_class_above(make):
    made = make(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:n ;
            owl:allValuesFrom {facets("xsd:integer", "xsd:minInclusive 0")} ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:n ;
            owl:allValuesFrom {facets("xsd:integer", "xsd:minInclusive 5")} ] .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
    """)
    made.A("urn:a", n=0)
    with pytest.raises(WrongValue):
        made.B("urn:b", n=4)


def test_a_field_of_an_imported_property_keeps_its_shape_below(make):
    """A class elsewhere that takes a single-valued property of ours without being in its domain changes nothing."""
    made = make("""
        ex:Odd a owl:Class ; rdfs:subClassOf [ owl:onProperty provml:wasSectionOf ; owl:someValuesFrom prov:Entity ] .
        ex:Part a owl:Class ; rdfs:subClassOf provml:LearningStageSectionExecution .
    """)
    assert made.Part.FIELDS["was_section_of"].one
    assert made.Odd.FIELDS["was_section_of"].one


def test_more_asked_for_than_allowed_is_noted_where_it_is_said(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxCardinality 2 ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:minCardinality 3 ] .
        ex:C a owl:Class ; rdfs:subClassOf ex:B .
        ex:D a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:q ; owl:cardinality 2 ] .
        ex:p a owl:DatatypeProperty . ex:q a owl:DatatypeProperty , owl:FunctionalProperty .
    """)
    assert made.noted("B: p: at least 3 and at most 2", "nothing can be such a B")
    assert made.noted("D: q: at least 2 and at most 1")
    assert not any(note.split(": ")[1] in ("A", "C") for note in made.notes)


def test_the_constructor_asks_for_the_nearest_first(make):
    made = make("""
        ex:Top a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:zz ; owl:minCardinality 1 ] .
        ex:Mid a owl:Class ; rdfs:subClassOf ex:Top .
        ex:Low a owl:Class ; rdfs:subClassOf ex:Mid , [ owl:onProperty ex:must ; owl:minCardinality 1 ] ,
            [ owl:onProperty ex:b ; owl:maxCardinality 2 ] .
        ex:zz a owl:DatatypeProperty ; rdfs:domain ex:Top . ex:a a owl:DatatypeProperty ; rdfs:domain ex:Top .
        ex:b a owl:DatatypeProperty ; rdfs:domain ex:Top .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:Mid . ex:m a owl:DatatypeProperty ; rdfs:domain ex:Mid .
        ex:y a owl:DatatypeProperty ; rdfs:domain ex:Low . ex:x a owl:DatatypeProperty ; rdfs:domain ex:Low .
        ex:must a owl:DatatypeProperty ; rdfs:domain ex:Low .
    """)
    names = list(inspect.signature(made.Low.__init__).parameters)[2:]
    assert names == ["must", "zz", "b", "x", "y", "m", "n", "a", "label", "comment", "also"]


def test_properties_above_each_other_are_written_with_each_other(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:q .
        ex:q a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:r .
        ex:r a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:p .
    """)
    for name in "pqr":
        written = {predicate for predicate, _ in said(made.A("urn:a", **{name: 1}))}
        assert {EX + "p", EX + "q", EX + "r"} <= written
