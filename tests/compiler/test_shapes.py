"""Generated shapes check the axioms: for each kind of constraint a graph conforms and another one fails."""

from __future__ import annotations

import pyshacl
import pytest
import rdflib

from provml.rdf import ntriples

from .helpers import EX, PREFIXES, OntologyCompiler

ZOO = """
ex:Animal a owl:Class ; rdfs:label "animal" ;
    rdfs:subClassOf [ owl:onProperty ex:name ; owl:minCardinality 1 ] , [ owl:onProperty ex:friend ;
        owl:maxCardinality 2 ] .
ex:Cat a owl:Class ; rdfs:subClassOf ex:Animal , [ owl:onProperty ex:friend ; owl:allValuesFrom ex:Cat ] .
ex:Dog a owl:Class ; rdfs:subClassOf ex:Animal ; owl:disjointWith ex:Cat .
ex:Plant a owl:Class .
ex:Stone a owl:Class . [] a owl:AllDisjointClasses ; owl:members ( ex:Stone ex:Plant ex:Animal ) .
ex:Soul a owl:Class ; owl:disjointWith prov:Agent .
ex:name a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range xsd:string .
ex:friend a owl:ObjectProperty ; rdfs:domain ex:Animal ; rdfs:range ex:Animal .
ex:eats a owl:ObjectProperty ; rdfs:domain ex:Animal ; rdfs:range [ owl:unionOf ( ex:Animal ex:Plant ) ] .
ex:age a owl:DatatypeProperty , owl:FunctionalProperty ; rdfs:domain ex:Animal ; rdfs:range xsd:nonNegativeInteger .
ex:mass a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range [ a rdfs:Datatype ; owl:onDatatype xsd:double ;
    owl:withRestrictions ( [ xsd:minExclusive 0 ] [ xsd:maxExclusive "INF"^^xsd:double ] ) ] .
ex:coat a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range [ a rdfs:Datatype ;
    owl:oneOf ( "striped" "it's \\"odd\\"" ) ] .
ex:chip a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range [ a rdfs:Datatype ; owl:onDatatype xsd:string ;
    owl:withRestrictions ( [ xsd:pattern "[0-9]+\\\\.[a-z]|none" ] ) ] .
ex:code a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range [ a rdfs:Datatype ; owl:onDatatype xsd:string ;
    owl:withRestrictions ( [ xsd:length 3 ] ) ] .
ex:call a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range rdf:PlainLiteral .
ex:mark a owl:DatatypeProperty ; rdfs:domain ex:Animal ; rdfs:range ex:Mark . ex:Mark a rdfs:Datatype .
ex:note a owl:DatatypeProperty ; rdfs:domain ex:Animal .
ex:tended a owl:ObjectProperty ; rdfs:domain [ owl:unionOf ( ex:Animal ex:Plant ) ] .
"""

CAT = "ex:c a ex:Cat , ex:Animal ; ex:name 'Tom'"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> rdflib.Graph:
    return rdflib.Graph().parse(data=OntologyCompiler(tmp_path_factory.mktemp("zoo"))(ZOO).shapes, format="turtle")


def conforms(shapes: rdflib.Graph, data: str) -> tuple[bool, str]:
    graph = rdflib.Graph().parse(data=PREFIXES + data, format="turtle")
    conformant, _, report = pyshacl.validate(graph, shacl_graph=shapes)
    return conformant, report


@pytest.mark.parametrize(
    "data",
    [
        f"{CAT} .",
        f"{CAT} ; ex:friend ex:d . ex:d a ex:Cat , ex:Animal ; ex:name 'Dot' .",
        f"{CAT} ; ex:eats ex:g . ex:g a ex:Plant .",
        f"{CAT} ; ex:age '3'^^xsd:nonNegativeInteger .",
        f"{CAT} ; ex:age '3'^^xsd:unsignedByte .",
        f"{CAT} ; ex:mass 3.5e0 .",
        f'{CAT} ; ex:coat \'striped\' , "it\'s \\"odd\\"" .',
        f"{CAT} ; ex:chip '12.x' , 'none' .",
        f"{CAT} ; ex:code 'abc' .",
        f"{CAT} ; ex:call 'meow' , 'miaou'@fr .",
        f"{CAT} ; ex:mark 'x'^^ex:Mark .",
        f"{CAT} ; ex:note 1 , 'one' , 'un'@fr .",
        "ex:s a ex:Stone . ex:p a ex:Plant ; ex:tended ex:s . ex:soul a ex:Soul .",
    ],
)
def test_data_that_the_ontology_allows_conforms(shapes, data):
    conformant, report = conforms(shapes, data)
    assert conformant, report


@pytest.mark.parametrize(
    ("data", "constraint", "words"),
    [
        ("ex:c a ex:Animal .", "MinCount", "An animal must have at least one ex:name"),
        (f"{CAT} ; ex:age '3'^^xsd:nonNegativeInteger , '4'^^xsd:nonNegativeInteger .", "MaxCount", "at most one"),
        (
            "ex:c a ex:Animal ; ex:name 'x' ; ex:friend ex:c , ex:d , ex:e . ex:d a ex:Animal . ex:e a ex:Animal .",
            "MaxCount",
            "at most 2",
        ),
        (f"{CAT} ; ex:friend ex:g . ex:g a ex:Plant .", "Class", "friend"),
        (f"{CAT} ; ex:friend ex:d . ex:d a ex:Dog , ex:Animal ; ex:name 'Rex' .", "Class", "cat"),
        (f"{CAT} ; ex:friend 'Rex' .", "NodeKind", "friend"),
        (f"{CAT} ; ex:eats ex:s . ex:s a ex:Stone .", "Or", "an animal or a plant"),
        (f"{CAT} ; ex:name 7 .", "Datatype", "which must be a string"),
        (f"{CAT} ; ex:age '3'^^xsd:integer .", "Or", "nonNegativeInteger"),
        (f"{CAT} ; ex:mass 0e0 .", "MinExclusive", "above 0"),
        (f"{CAT} ; ex:mass 'INF'^^xsd:double .", "MaxExclusive", "mass"),
        (f"{CAT} ; ex:coat 'plain' .", "In", "one of striped"),
        (f"{CAT} ; ex:chip '12' .", "Pattern", "chip"),
        (f"{CAT} ; ex:chip 'none at all' .", "Pattern", "chip"),
        (f"{CAT} ; ex:code 'ab' .", "MinLength", "code"),
        (f"{CAT} ; ex:code 'abcd' .", "MaxLength", "code"),
        (f"{CAT} ; ex:call 7 .", "Or", "call"),
        (f"{CAT} ; ex:mark 'x' .", "Datatype", "mark"),
        (f"{CAT} ; ex:note ex:c .", "NodeKind", "note"),
        (f"{CAT} . ex:c a ex:Dog .", "Not", "A cat cannot also be a dog."),
        ("ex:s a ex:Stone , ex:Plant .", "Not", "cannot also be"),
        ("ex:s a ex:Soul , prov:Agent .", "Not", "A soul cannot also be an agent."),
        ("ex:s a ex:Stone ; ex:age '3'^^xsd:nonNegativeInteger .", "Class", "Only an animal can have ex:age."),
        ("ex:s a ex:Stone ; ex:tended ex:s .", "Or", "Only an animal or a plant can have ex:tended."),
    ],
)
def test_data_that_the_ontology_forbids_fails(shapes, data, constraint, words):
    conformant, report = conforms(shapes, data)
    assert not conformant
    assert f"{constraint}ConstraintComponent" in report
    assert words in report


def test_disjointness_with_a_bundled_class_does_not_depend_on_the_order_of_iris(compile_turtle):
    for namespace in ("http://aaa.org/", "http://zzz.org/"):
        vocab = compile_turtle(f"<{namespace}Soul> a owl:Class ; owl:disjointWith prov:Agent .")
        assert "sh:not [ sh:class prov:Agent ]" in vocab.shapes


def test_valid_thing_conforms_to_the_shapes_of_its_class(compile_turtle):
    vocab = compile_turtle(ZOO)
    tom = vocab.Cat(
        "urn:tom", name="Tom", age=3, mass=4.5, coat="striped", chip="1.a", code="abc", call="meow", note=[1, "x"]
    )
    dot = vocab.Cat("urn:dot", name="Dot", friend=tom, eats=[tom, vocab.Plant("urn:grass")])
    graph = rdflib.Graph().parse(data=ntriples([dot], follow=True), format="nt")
    conformant, _, report = pyshacl.validate(
        graph, shacl_graph=rdflib.Graph().parse(data=vocab.shapes, format="turtle")
    )
    assert conformant, report


def test_names_without_a_turtle_short_form_are_written_in_full(compile_turtle):
    vocab = compile_turtle(
        f"<{EX}größe> a owl:DatatypeProperty ; rdfs:domain <{EX}1ª> ; rdfs:range xsd:string . <{EX}1ª> a owl:Class ."
    )
    assert f"sh:path <{EX}größe>" in vocab.shapes
