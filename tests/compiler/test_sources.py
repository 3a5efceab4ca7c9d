"""Where terms come from: one file or several, ours or not, in any format; nothing is fetched."""

from __future__ import annotations

import socket

import pyoxigraph as ox
import pytest

from provml.errors import OntologyError, WrongType
from provml.rdf import ntriples, read
from provml.vocab import prov, provml

from .workshop import EX, PROV, said, types

RUN = """
<http://example.org/zoo> a owl:Ontology ; owl:imports <https://w3id.org/provml> .
ex:GpuTraining a owl:Class ; rdfs:subClassOf provml:TrainingExecution .
ex:hasGpu a owl:ObjectProperty ; rdfs:domain ex:GpuTraining ; rdfs:range ex:Gpu ; rdfs:subPropertyOf prov:used .
ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .
"""


def test_an_ontology_that_imports_ours_builds_on_our_classes(make):
    made = make(RUN)
    gpu = made.Gpu("urn:gpu:0")
    fields = {name: prov.IRI("urn:some:" + name) for name in made.GpuTraining.REQUIRED}
    run = made.GpuTraining("urn:run:1", has_gpu=gpu, **fields)
    assert isinstance(run, provml.TrainingExecution)
    assert types(run) == {EX + "GpuTraining", *provml.TrainingExecution.TYPES}
    assert {(EX + "hasGpu", "urn:gpu:0"), (PROV + "used", "urn:gpu:0")} <= said(run)
    with pytest.raises(WrongType):
        made.GpuTraining("urn:run:1", has_gpu=prov.Agent("urn:me"), **fields)


def test_our_terms_are_known_without_an_import(make):
    made = make("ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .")
    assert issubclass(made.Gpu, prov.Entity)


def test_an_ontology_that_has_nothing_to_do_with_ours_stands_alone(make):
    made = make("ex:Zoo a owl:Class .")
    assert types(made.Zoo("urn:z")) == {EX + "Zoo"}
    assert "provml.vocab" not in made.code


@pytest.mark.parametrize(
    ("ending", "form"),
    [
        (".nt", ox.RdfFormat.N_TRIPLES),
        (".rdf", ox.RdfFormat.RDF_XML),
        (".owl", ox.RdfFormat.RDF_XML),
        (".jsonld", ox.RdfFormat.JSON_LD),
        (".n3", ox.RdfFormat.N3),
    ],
)
def test_every_format_gives_the_same_classes(make, ending, form):
    turtle = make.write(RUN)
    other = turtle.with_name(f"other{ending}")
    triples = [quad.triple for quad in ox.parse(path=turtle)]
    other.write_bytes(ox.serialize(triples, format=form))
    expected = make.compile(turtle).code.split("__all__")[1]
    assert make.compile(other).code.split("__all__")[1] == expected


def test_a_byte_order_mark_is_no_syntax_error(make):
    path = make.write("ex:A a owl:Class .")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert make.compile(path).A.CLASS_IRI == EX + "A"


def test_several_files_make_one_module(make):
    one = make.write("<urn:one> a owl:Ontology . ex:Animal a owl:Class .", "one.ttl")
    two = make.write(
        "<urn:two> a owl:Ontology ; owl:imports <urn:one> . ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", "two.ttl"
    )
    made = make.compile(two, one)
    assert issubclass(made.Cat, made.Animal)
    assert "[Animal](one.md#animal)" in made.page


def test_equivalent_classes_of_two_files_are_one_class(make):
    one = make.write("<urn:one> a owl:Ontology . ex:Animal a owl:Class .", "one.ttl")
    two = make.write("ey:Beast a owl:Class ; owl:equivalentClass ex:Animal .", "two.ttl")
    made = make.compile(one, two)
    assert types(made.Animal("urn:a")) == {EX + "Animal", "http://example.org/other/Beast"}


def test_the_same_file_twice_counts_once(make):
    path = make.write("ex:A a owl:Class .")
    assert make.compile(path, path).module.__all__ == ["A"]


def test_imports_come_from_the_given_files(make):
    base = make.write("<urn:base> a owl:Ontology ; owl:versionIRI <urn:base:1> . ex:Animal a owl:Class .", "base.ttl")
    for name in ("urn:base", "urn:base:1"):
        made = make(
            f"<urn:my> a owl:Ontology ; owl:imports <{name}> . ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .",
            imports=(base,),
        )
        assert issubclass(made.Cat, made.Animal)


def test_a_given_import_counts_though_no_header_names_it(make):
    base = make.write("ex:Animal a owl:Class .", "base.ttl")
    made = make("ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", imports=(base,))
    assert issubclass(made.Cat, made.Animal)


def test_files_that_import_each_other_compile(make):
    one = make.write("<urn:one> a owl:Ontology ; owl:imports <urn:two> . ex:A a owl:Class .", "one.ttl")
    two = make.write(
        "<urn:two> a owl:Ontology ; owl:imports <urn:one> . ey:B a owl:Class ; rdfs:subClassOf ex:A .", "two.ttl"
    )
    made = make(
        "<urn:my> a owl:Ontology ; owl:imports <urn:one> . ex:C a owl:Class ; rdfs:subClassOf ey:B .",
        imports=(one, two),
    )
    assert issubclass(made.C, made.A)


def test_an_import_of_an_import_that_is_not_here_is_named_with_its_file(make):
    base = make.write("<urn:base> a owl:Ontology ;\n  owl:imports <urn:gone> . ex:Animal a owl:Class .", "base.ttl")
    with pytest.raises(OntologyError, match=r"base\.ttl:14: imports <urn:gone>.*--import FILE"):
        make("<urn:my> a owl:Ontology ; owl:imports <urn:base> .", imports=(base,))


def test_a_header_without_a_name_imports_too(make):
    with pytest.raises(OntologyError, match="imports <urn:gone>"):
        make("[] a owl:Ontology ; owl:imports <urn:gone> . ex:A a owl:Class .")


def test_nothing_is_ever_fetched(make, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(OntologyError, match="Nothing is fetched"):
        make("<urn:my> a owl:Ontology ; owl:imports <http://example.org/far> . ex:A a owl:Class .")
    make(RUN)


def test_a_copy_of_prov_given_as_an_import_gives_way_to_ours(make):
    copy = make.write("<http://www.w3.org/ns/prov-o#> a owl:Ontology . prov:Entity a owl:Class .", "their-prov.ttl")
    made = make(
        "<urn:my> a owl:Ontology ; owl:imports <http://www.w3.org/ns/prov-o#> ."
        " ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .",
        imports=(copy,),
    )
    assert issubclass(made.Gpu, prov.Entity)


def test_a_copy_of_one_of_ours_is_not_compiled(make):
    with pytest.raises(OntologyError, match="comes with provml"):
        make("<https://w3id.org/provml> a owl:Ontology . ex:A a owl:Class .")


def test_a_term_said_to_be_defined_by_ours_stays_with_the_file_that_declares_it(make):
    made = make("ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity ; rdfs:isDefinedBy <https://w3id.org/provml> .")
    assert made.module.__all__ == ["Gpu"]


def test_what_is_said_of_our_classes_is_noted_and_changes_nothing(make):
    made = make("ex:Root a owl:Class . prov:Entity rdfs:subClassOf ex:Root .")
    assert made.noted("Entity", "compiled elsewhere")
    assert not issubclass(prov.Entity, made.Root)


def test_repeating_what_we_say_is_no_news(make):
    assert (
        make("ex:A a owl:Class . prov:Agent a owl:Class . prov:Person a owl:Class ; rdfs:subClassOf prov:Agent .").notes
        == []
    )


def test_standard_classes_need_no_import(make):
    made = make("""
        ex:Topic a owl:Class ; rdfs:subClassOf skos:Concept .
        ex:about a owl:ObjectProperty ; rdfs:domain ex:Topic ; rdfs:range foaf:Person .
    """)
    assert types(made.Topic("urn:t")) == {EX + "Topic", "http://www.w3.org/2004/02/skos/core#Concept"}
    made.Topic("urn:t", about=made.Person("urn:me"))
    with pytest.raises(WrongType):
        made.Topic("urn:t", about=made.Topic("urn:u"))


def test_standard_super_properties_are_written(make):
    made = make("""
        ex:Book a owl:Class .
        ex:writer a owl:ObjectProperty ; rdfs:domain ex:Book ; rdfs:subPropertyOf dcterms:creator .
        ex:firstWriter a owl:ObjectProperty ; rdfs:subPropertyOf ex:writer .
    """)
    book = made.Book("urn:b", first_writer=made.module.IRI("urn:me"))
    assert {("http://purl.org/dc/terms/creator", "urn:me"), (EX + "writer", "urn:me")} <= said(book)


def test_an_import_is_copied_and_the_copies_fit_each_other(make):
    base = make.write(
        "ex:Cage a owl:Class . ex:livesIn a owl:ObjectProperty ; rdfs:domain ex:Animal ; rdfs:range ex:Cage ."
        " ex:Animal a owl:Class .",
        "base.ttl",
    )
    one = make("ex:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", imports=(base,))
    two = make("ey:Den a owl:Class ; rdfs:subClassOf ex:Cage .", imports=(base,))
    assert one.Cage is not two.Cage
    cat = one.Cat("urn:tom", lives_in=two.Den("urn:den"))
    assert said(cat) >= {(EX + "livesIn", "urn:den")}
    assert not isinstance(cat, two.Animal)
    store = ox.Store()
    store.load(ntriples(one.Cage("urn:cage")), ox.RdfFormat.N_TRIPLES)
    assert type(read(store, "urn:cage")) is two.Cage
