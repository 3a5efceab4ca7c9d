"""Fields of classes: domains, ranges, cardinalities, datatypes with facets, and the triples written for them."""

from __future__ import annotations

import inspect
from decimal import Decimal

import pytest

from provml.errors import InvalidValue, MissingField, WrongType, WrongValue
from provml.model.values import IRI, Literal, Text
from provml.rdf.namespaces import XSD

from .helpers import EX, statements


def test_domain_that_is_a_union_gives_the_field_to_each_member(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:B a owl:Class . ex:C a owl:Class .
        ex:p a owl:ObjectProperty ; rdfs:domain [ owl:unionOf ( ex:A ex:B ) ] ;
            rdfs:range [ owl:unionOf ( ex:A ex:B ) ] .
    """)
    assert [("p" in cls.FIELDS) for cls in (vocab.A, vocab.B, vocab.C)] == [True, True, False]
    vocab.A("urn:a", p=[vocab.A("urn:x"), vocab.B("urn:y"), IRI("urn:z")])
    with pytest.raises(WrongType, match="A or B or an IRI"):
        vocab.A("urn:a", p=vocab.C("urn:c"))


@pytest.mark.parametrize("both", ["ex:A , ex:B", "[ owl:intersectionOf ( ex:A ex:B ) ]"])
def test_several_domains_or_ranges_are_an_intersection(compile_turtle, both):
    vocab = compile_turtle(f"""
        ex:A a owl:Class . ex:B a owl:Class . ex:C a owl:Class ; rdfs:subClassOf ex:A , ex:B .
        ex:p a owl:ObjectProperty ; rdfs:domain {both} ; rdfs:range {both} .
    """)
    assert [("p" in cls.FIELDS) for cls in (vocab.A, vocab.B, vocab.C)] == [False, False, True]
    vocab.C("urn:c", p=vocab.C("urn:d"))
    with pytest.raises(WrongType, match="A and B"):
        vocab.C("urn:c", p=vocab.A("urn:a"))


def test_property_without_domain_is_a_field_of_every_class_of_its_ontology(compile_turtle):
    vocab = compile_turtle("ex:A a owl:Class . ex:B a owl:Class . ex:p a owl:ObjectProperty .")
    assert "p" in vocab.A.FIELDS
    assert "p" in vocab.B.FIELDS
    vocab.A("urn:a", p=vocab.B("urn:b"))


def test_property_of_bundled_classes_only_is_noted(compile_turtle):
    vocab = compile_turtle("ex:A a owl:Class . ex:speed a owl:DatatypeProperty ; rdfs:domain prov:Activity .")
    assert vocab.has_note("speed", "extra={…}")


@pytest.mark.parametrize(
    ("axiom", "minimum", "maximum", "single"),
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
def test_cardinalities_are_counted(compile_turtle, axiom, minimum, maximum, single):
    vocab = compile_turtle(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ a owl:Restriction ; owl:onProperty ex:p ; {axiom} ] .
        ex:B a owl:Class . ex:Narrow a owl:Class ; rdfs:subClassOf ex:B .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:B .
    """)
    field = vocab.A.FIELDS["p"]
    assert (field.min_count, field.max_count, field.single) == (minimum, maximum, single)


@pytest.mark.parametrize("range_", ["xsd:string", "rdfs:Literal"])
def test_qualified_cardinality_over_all_data_counts(compile_turtle, range_):
    vocab = compile_turtle(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxQualifiedCardinality 1 ;
            owl:onDataRange {range_} ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:string .
    """)
    assert vocab.A.FIELDS["p"].single


def test_field_that_is_single_only_in_a_subclass_is_a_tuple_everywhere(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:maxCardinality 1 ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
    """)
    assert vocab.B("urn:b", p=1).p == (1,)
    assert vocab.A("urn:a", p=[1, 2]).p == (1, 2)
    with pytest.raises(WrongType, match="at most 1"):
        vocab.B("urn:b", p=[1, 2])


def test_functional_property_and_its_sub_properties_have_one_value(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:domain ex:A .
        ex:q a owl:ObjectProperty ; rdfs:subPropertyOf ex:p .
    """)
    assert vocab.A("urn:a", q=IRI("urn:b")).q == IRI("urn:b")
    with pytest.raises(WrongType, match="single value"):
        vocab.A("urn:a", q=[IRI("urn:b"), IRI("urn:c")])


def test_required_fields_come_first_and_must_be_passed(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:zeal ; owl:cardinality 1 ] ,
            [ owl:onProperty ex:mass ; owl:minCardinality 1 ] .
        ex:zeal a owl:DatatypeProperty ; rdfs:range xsd:integer . ex:mass a owl:DatatypeProperty ;
            rdfs:range xsd:double .
        ex:age a owl:DatatypeProperty ; rdfs:range xsd:integer .
    """)
    assert list(inspect.signature(vocab.A).parameters)[:4] == ["iri", "mass", "zeal", "age"]
    with pytest.raises(MissingField, match=r"A\.zeal"):
        vocab.A("urn:a", mass=1.0)


def test_field_with_a_sub_property_is_not_required(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:minCardinality 1 ] .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A . ex:q a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p .
    """)
    assert (EX + "p", '"x"') in statements(vocab.A("urn:a", q="x"))
    assert "sh:minCount 1" in vocab.shapes


def test_all_values_from_narrows_the_range_of_a_subclass(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:allValuesFrom ex:B ] .
        ex:p a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:A . ex:q a owl:ObjectProperty ;
            rdfs:subPropertyOf ex:p .
    """)
    vocab.A("urn:a", p=vocab.A("urn:b"))
    for field in ("p", "q"):
        with pytest.raises(WrongType, match="takes any number of: B"):
            vocab.B("urn:b", **{field: vocab.A("urn:a")})


def test_super_properties_are_written_also_in_a_cycle(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:subPropertyOf ex:q . ex:q a owl:DatatypeProperty ;
            rdfs:subPropertyOf ex:r .
        ex:r a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p . ex:s a owl:DatatypeProperty ; rdfs:subPropertyOf ex:r .
    """)
    assert {predicate for predicate, node in statements(vocab.A("urn:a", s=1)) if node == f'"1"^^<{XSD}integer>'} == {
        EX + name for name in "pqrs"
    }


def test_equivalent_properties_are_written_except_deprecated_ones(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; owl:equivalentProperty ex:q . ex:q a owl:DatatypeProperty .
        ex:old a owl:DatatypeProperty ; owl:deprecated true ; owl:equivalentProperty ex:p .
    """)
    supers = {name: set(vocab.A.FIELDS[name].super_properties) for name in ("p", "q", "old")}
    assert supers == {"p": {EX + "q"}, "q": {EX + "p"}, "old": {EX + "p", EX + "q"}}


def test_inverse_is_written_too(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:B a owl:Class . ex:has a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range ex:B .
        ex:partOf a owl:ObjectProperty ; owl:inverseOf ex:has .
    """)
    assert vocab.B.FIELDS["part_of"].inverse == EX + "has"
    assert vocab.B.FIELDS["part_of"].ranges == (frozenset({EX + "A"}),)


def test_property_chain_is_noted(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:ObjectProperty . ex:q a owl:ObjectProperty ;
            owl:propertyChainAxiom ( ex:p ex:p ) .
    """)
    assert vocab.has_note("q: also follows from the chain p / p")


def test_annotation_properties_are_not_fields(compile_turtle):
    vocab = compile_turtle(
        """
        ex:A a owl:Class . ex:note a owl:AnnotationProperty ; rdfs:domain ex:A .
        ex:sub a owl:AnnotationProperty ; rdfs:subPropertyOf ex:note .
    """
    )
    assert set(vocab.A.FIELDS) == {"label", "comment"}


def test_property_typed_only_by_a_characteristic_counts(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:partOf a owl:TransitiveProperty ; rdfs:range ex:A .
        ex:age a owl:FunctionalProperty ; rdfs:range xsd:integer .
    """)
    assert (vocab.A.FIELDS["part_of"].kind, vocab.A.FIELDS["age"].kind, vocab.A.FIELDS["age"].single) == (
        "thing",
        "integer",
        True,
    )


def test_object_property_precedes_data_property_of_the_same_name(compile_turtle):
    vocab = compile_turtle("ex:A a owl:Class . ex:p a owl:ObjectProperty , owl:DatatypeProperty .")
    assert vocab.A.FIELDS["p"].kind == "thing"
    assert vocab.has_note("p: declared as an object and a data property")


# ---- data


def field_of(compile_turtle, range_, more=""):
    """Compile a class A with one field p of that range."""
    return compile_turtle(
        f"ex:A a owl:Class . ex:p a owl:DatatypeProperty , owl:FunctionalProperty ; rdfs:range {range_} . {more}"
    )


def facets(base: str, *facet_list: str) -> str:
    restrictions = " ".join(f"[ {facet} ]" for facet in facet_list)
    return f"[ a rdfs:Datatype ; owl:onDatatype {base} ; owl:withRestrictions ( {restrictions} ) ]"


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
def test_facets_are_checked(compile_turtle, range_, good, bad):
    vocab = field_of(compile_turtle, range_)
    for value in good:
        thing = vocab.A("urn:a", p=value)
        assert thing.p == value
        assert len(statements(thing)) == 2
    for value in bad:
        with pytest.raises(WrongValue):
            vocab.A("urn:a", p=value)


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
def test_facets_that_fields_cannot_check_are_noted_and_the_datatype_is_checked(compile_turtle, range_):
    vocab = field_of(compile_turtle, range_)
    assert vocab.has_note("p: this part of its range is unchecked")
    with pytest.raises(InvalidValue):
        vocab.A("urn:a", p=object())
    assert vocab.A.FIELDS["p"].datatype is not None


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
def test_data_ranges_that_fields_cannot_check_take_any_scalar(compile_turtle, range_):
    vocab = field_of(compile_turtle, range_)
    assert vocab.has_note("p: its range is an expression")
    assert [vocab.A("urn:a", p=value).p for value in (1, "one", 1.5)] == [1, "one", 1.5]


def test_named_datatypes_have_their_definition(compile_turtle):
    whole = facets("xsd:double", "xsd:minInclusive 0", "xsd:maxInclusive 100")
    percent = f"ex:Percent a rdfs:Datatype ; owl:equivalentClass {whole} ."
    vocab = field_of(
        compile_turtle,
        "ex:Small",
        f"{percent} ex:Small a rdfs:Datatype ; owl:equivalentClass {facets('ex:Percent', 'xsd:maxInclusive 10')} . "
        "ex:Word a rdfs:Datatype ; owl:equivalentClass xsd:string . ex:w a owl:DatatypeProperty ; rdfs:range ex:Word .",
    )
    assert statements(vocab.A("urn:a", p=5.0, w="x")) >= {(EX + "p", f'"5.0"^^<{XSD}double>'), (EX + "w", '"x"')}
    for value in (-1.0, 11.0):
        with pytest.raises(WrongValue):
            vocab.A("urn:a", p=value)


@pytest.mark.parametrize("datatype", ["ex:Unheard", "xsd:gYear", "xsd:hexBinary", "rdf:HTML"])
def test_unknown_datatypes_take_literals(compile_turtle, datatype):
    vocab = field_of(compile_turtle, datatype)
    iri = vocab.A.FIELDS["p"].datatype
    assert statements(vocab.A("urn:a", p=Literal("x", iri))) >= {(EX + "p", f'"x"^^<{iri}>')}
    with pytest.raises(WrongType, match="Literal"):
        vocab.A("urn:a", p="x")


def test_texts_with_and_without_a_language(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:plain a owl:DatatypeProperty ; rdfs:range rdf:PlainLiteral .
        ex:tagged a owl:DatatypeProperty ; rdfs:range rdf:langString .
    """)
    thing = vocab.A("urn:a", plain=["x", Text("y", "en")], tagged=Text("z", "fr"))
    assert {node for _, node in statements(thing)} >= {'"x"', '"y"@en', '"z"@fr'}


def test_several_ranges_are_an_intersection(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:any a owl:DatatypeProperty ; rdfs:range rdfs:Literal .
        ex:p a owl:DatatypeProperty ; rdfs:subPropertyOf ex:any ; rdfs:range xsd:string , [ a rdfs:Datatype ;
            owl:oneOf ( "a" "b" ) ] .
        ex:q a owl:DatatypeProperty ; rdfs:subPropertyOf ex:p ; rdfs:range [ a rdfs:Datatype ; owl:oneOf ( "b" "c" ) ] .
        ex:never a owl:DatatypeProperty ; rdfs:range xsd:string , xsd:integer .
    """)
    assert (vocab.A.FIELDS["p"].choices, vocab.A.FIELDS["q"].choices) == (("a", "b"), ("b",))
    assert vocab.has_note("never: no value is in all of its ranges")


def test_subclass_keeps_its_narrower_range(compile_turtle):
    vocab = compile_turtle(f"""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:n ;
            owl:allValuesFrom {facets("xsd:integer", "xsd:minInclusive 0")} ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:n ;
            owl:allValuesFrom {facets("xsd:integer", "xsd:minInclusive 5")} ] .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer .
    """)
    vocab.A("urn:a", n=0)
    with pytest.raises(WrongValue):
        vocab.B("urn:b", n=4)


def test_bundled_field_keeps_its_type_in_subclasses(compile_turtle):
    """A class outside the domain of a bundled single-valued property does not change the field."""
    vocab = compile_turtle("""
        ex:Odd a owl:Class ; rdfs:subClassOf [ owl:onProperty provml:wasSectionOf ; owl:someValuesFrom prov:Entity ] .
        ex:Part a owl:Class ; rdfs:subClassOf provml:LearningStageSectionExecution .
    """)
    assert vocab.Part.FIELDS["was_section_of"].single
    assert vocab.Odd.FIELDS["was_section_of"].single


def test_impossible_cardinality_is_noted_where_it_is_stated(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxCardinality 2 ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A , [ owl:onProperty ex:p ; owl:minCardinality 3 ] .
        ex:C a owl:Class ; rdfs:subClassOf ex:B .
        ex:D a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:q ; owl:cardinality 2 ] .
        ex:p a owl:DatatypeProperty . ex:q a owl:DatatypeProperty , owl:FunctionalProperty .
    """)
    assert vocab.has_note("B: p: at least 3 and at most 2", "no B can exist")
    assert vocab.has_note("D: q: at least 2 and at most 1")
    assert not any(note.split(": ")[1] in ("A", "C") for note in vocab.notes)


def test_constructor_has_own_parameters_before_inherited_ones(compile_turtle):
    vocab = compile_turtle("""
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
    names = list(inspect.signature(vocab.Low).parameters)[1:]
    assert names == ["must", "zz", "b", "x", "y", "m", "n", "a", "label", "comment", "extra"]


def test_properties_in_a_cycle_are_written_together(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:q .
        ex:q a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:r .
        ex:r a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:subPropertyOf ex:p .
    """)
    for name in "pqr":
        written = {predicate for predicate, _ in statements(vocab.A("urn:a", **{name: 1}))}
        assert {EX + "p", EX + "q", EX + "r"} <= written
