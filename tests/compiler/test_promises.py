"""The generated shapes hold what the ontology says: for each sort of constraint a graph passes and one fails."""

from __future__ import annotations

import pyshacl
import pytest
import rdflib

from provml.rdf import ntriples

from .workshop import EX, PREFIXES, Workshop

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
    return rdflib.Graph().parse(data=Workshop(tmp_path_factory.mktemp("zoo"))(ZOO).shapes, format="turtle")


def conforms(shapes: rdflib.Graph, data: str) -> tuple[bool, str]:
    graph = rdflib.Graph().parse(data=PREFIXES + data, format="turtle")
    held, _, report = pyshacl.validate(graph, shacl_graph=shapes)
    return held, report


@pytest.mark.parametrize(
    "data",
    [
        f"{CAT} .",
        f"{CAT} ; ex:friend ex:d . ex:d a ex:Cat , ex:Animal ; ex:name 'Dot' .",
        f"{CAT} ; ex:eats ex:g . ex:g a ex:Plant .",
        f"{CAT} ; ex:age '3'^^xsd:nonNegativeInteger .",
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
def test_what_the_ontology_allows_passes(shapes, data):
    held, report = conforms(shapes, data)
    assert held, report


@pytest.mark.parametrize(
    ("data", "constraint", "words"),
    [
        ("ex:c a ex:Animal .", "MinCount", "An animal has at least one 'name'"),
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
        (f"{CAT} ; ex:name 7 .", "Datatype", "which is a string"),
        (f"{CAT} ; ex:age '3'^^xsd:integer .", "Datatype", "nonNegativeInteger"),
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
        (f"{CAT} . ex:c a ex:Dog .", "Not", "Nothing is both a cat and a dog."),
        ("ex:s a ex:Stone , ex:Plant .", "Not", "Nothing is both"),
        ("ex:s a ex:Soul , prov:Agent .", "Not", "Nothing is both a soul and an agent."),
        ("ex:s a ex:Stone ; ex:age '3'^^xsd:nonNegativeInteger .", "Class", "Only an animal has 'age'."),
        ("ex:s a ex:Stone ; ex:tended ex:s .", "Or", "Only an animal or plant has 'tended'."),
    ],
)
def test_what_the_ontology_refuses_fails(shapes, data, constraint, words):
    held, report = conforms(shapes, data)
    assert not held
    assert f"{constraint}ConstraintComponent" in report
    assert words in report


def test_disjointness_with_a_class_of_ours_is_held_whichever_iri_comes_first(make):
    for namespace in ("http://aaa.org/", "http://zzz.org/"):
        made = make(f"<{namespace}Soul> a owl:Class ; owl:disjointWith prov:Agent .")
        assert "sh:not [ sh:class prov:Agent ]" in made.shapes


def test_a_thing_that_its_class_takes_passes_its_own_shapes(make):
    made = make(ZOO)
    tom = made.Cat(
        "urn:tom", name="Tom", age=3, mass=4.5, coat="striped", chip="1.a", code="abc", call="meow", note=[1, "x"]
    )
    dot = made.Cat("urn:dot", name="Dot", friend=tom, eats=[tom, made.Plant("urn:grass")])
    graph = rdflib.Graph().parse(data=ntriples([dot], follow=True), format="nt")
    held, _, report = pyshacl.validate(graph, shacl_graph=rdflib.Graph().parse(data=made.shapes, format="turtle"))
    assert held, report


def test_names_that_turtle_cannot_shorten_are_written_in_full(make):
    made = make(
        f"<{EX}größe> a owl:DatatypeProperty ; rdfs:domain <{EX}1ª> ; rdfs:range xsd:string . <{EX}1ª> a owl:Class ."
    )
    assert f"sh:path <{EX}größe>" in made.shapes
