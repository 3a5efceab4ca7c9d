"""Ontology files: one or several, with imports, in any format; nothing is fetched."""

from __future__ import annotations

import socket

import pyoxigraph as ox
import pytest

from provml.errors import OntologyError, WrongType
from provml.model.values import IRI
from provml.rdf import ntriples, read
from provml.vocab import prov, provml

from .helpers import EX, PROV, statements, types

RUN = """
<http://example.org/zoo> a owl:Ontology ; owl:imports <https://w3id.org/provml> .
ex:GpuTraining a owl:Class ; rdfs:subClassOf provml:TrainingExecution .
ex:hasGpu a owl:ObjectProperty ; rdfs:domain ex:GpuTraining ; rdfs:range ex:Gpu ; rdfs:subPropertyOf prov:used .
ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .
"""


def test_ontology_that_imports_a_bundled_one_extends_its_classes(compile_turtle):
    vocab = compile_turtle(RUN)
    gpu = vocab.Gpu("urn:gpu:0")
    fields = {name: IRI("urn:some:" + name) for name in vocab.GpuTraining.REQUIRED}
    run = vocab.GpuTraining("urn:run:1", has_gpu=gpu, **fields)
    assert isinstance(run, provml.TrainingExecution)
    assert types(run) == {EX + "GpuTraining", *provml.TrainingExecution.TYPES}
    assert {(EX + "hasGpu", "urn:gpu:0"), (PROV + "used", "urn:gpu:0")} <= statements(run)
    with pytest.raises(WrongType):
        vocab.GpuTraining("urn:run:1", has_gpu=prov.Agent("urn:me"), **fields)


def test_bundled_terms_need_no_import(compile_turtle):
    vocab = compile_turtle("ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .")
    assert issubclass(vocab.Gpu, prov.Entity)


def test_unrelated_ontology_does_not_import_the_bundled_ones(compile_turtle):
    vocab = compile_turtle("ex:Zoo a owl:Class .")
    assert types(vocab.Zoo("urn:z")) == {EX + "Zoo"}
    assert "provml.vocab" not in vocab.stub


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
def test_every_format_gives_the_same_classes(compile_turtle, ending, form):
    turtle = compile_turtle.write(RUN)
    other = turtle.with_name(f"other{ending}")
    triples = [quad.triple for quad in ox.parse(path=turtle)]
    other.write_bytes(ox.serialize(triples, format=form))
    expected = compile_turtle.compile(turtle).stub.split("__all__")[1]
    assert compile_turtle.compile(other).stub.split("__all__")[1] == expected


def test_byte_order_mark_is_not_a_syntax_error(compile_turtle):
    path = compile_turtle.write("ex:A a owl:Class .")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert compile_turtle.compile(path).A.CLASS_IRI == EX + "A"


def test_several_files_make_one_module(compile_turtle):
    first = compile_turtle.write("<urn:one> a owl:Ontology . ex:Animal a owl:Class .", "one.ttl")
    second = compile_turtle.write(
        "<urn:two> a owl:Ontology ; owl:imports <urn:one> . ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", "two.ttl"
    )
    vocab = compile_turtle.compile(second, first)
    assert issubclass(vocab.Cat, vocab.Animal)
    assert "[Animal](one.md#animal)" in vocab.page


def test_equivalent_classes_of_two_files_are_one_class(compile_turtle):
    first = compile_turtle.write("<urn:one> a owl:Ontology . ex:Animal a owl:Class .", "one.ttl")
    second = compile_turtle.write("ey:Beast a owl:Class ; owl:equivalentClass ex:Animal .", "two.ttl")
    vocab = compile_turtle.compile(first, second)
    assert types(vocab.Animal("urn:a")) == {EX + "Animal", "http://example.org/other/Beast"}


def test_same_file_twice_counts_once(compile_turtle):
    path = compile_turtle.write("ex:A a owl:Class .")
    assert compile_turtle.compile(path, path).module.__all__ == ["A"]


def test_imports_are_read_from_the_import_files(compile_turtle):
    base = compile_turtle.write(
        "<urn:base> a owl:Ontology ; owl:versionIRI <urn:base:1> . ex:Animal a owl:Class .", "base.ttl"
    )
    for name in ("urn:base", "urn:base:1"):
        vocab = compile_turtle(
            f"<urn:my> a owl:Ontology ; owl:imports <{name}> . ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .",
            imports=(base,),
        )
        assert issubclass(vocab.Cat, vocab.Animal)


def test_import_file_counts_without_an_owl_imports(compile_turtle):
    base = compile_turtle.write("ex:Animal a owl:Class .", "base.ttl")
    vocab = compile_turtle("ey:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", imports=(base,))
    assert issubclass(vocab.Cat, vocab.Animal)


def test_files_that_import_each_other_compile(compile_turtle):
    first = compile_turtle.write("<urn:one> a owl:Ontology ; owl:imports <urn:two> . ex:A a owl:Class .", "one.ttl")
    second = compile_turtle.write(
        "<urn:two> a owl:Ontology ; owl:imports <urn:one> . ey:B a owl:Class ; rdfs:subClassOf ex:A .", "two.ttl"
    )
    vocab = compile_turtle(
        "<urn:my> a owl:Ontology ; owl:imports <urn:one> . ex:C a owl:Class ; rdfs:subClassOf ey:B .",
        imports=(first, second),
    )
    assert issubclass(vocab.C, vocab.A)


def test_missing_import_of_an_import_is_reported_with_its_file(compile_turtle):
    base = compile_turtle.write(
        "<urn:base> a owl:Ontology ;\n  owl:imports <urn:gone> . ex:Animal a owl:Class .", "base.ttl"
    )
    with pytest.raises(OntologyError, match=r"base\.ttl:14: imports <urn:gone>.*--import FILE"):
        compile_turtle("<urn:my> a owl:Ontology ; owl:imports <urn:base> .", imports=(base,), strict=True)


def test_anonymous_header_imports_too(compile_turtle):
    with pytest.raises(OntologyError, match="imports <urn:gone>"):
        compile_turtle("[] a owl:Ontology ; owl:imports <urn:gone> . ex:A a owl:Class .", strict=True)


def test_nothing_is_ever_fetched(compile_turtle, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    far = "<urn:my> a owl:Ontology ; owl:imports <http://example.org/far> . ex:A a owl:Class ; rdfs:subClassOf ey:Far ."
    with pytest.raises(OntologyError, match="Nothing is fetched"):
        compile_turtle(far, strict=True)
    vocab = compile_turtle(far)
    assert vocab.has_note("my.ttl:13: imports <http://example.org/far>, which is missing")
    assert types(vocab.A("urn:a")) == {f"{EX}A", "http://example.org/other/Far"}
    compile_turtle(RUN)


def test_bundled_prov_replaces_a_copy_of_prov_among_the_imports(compile_turtle):
    copy = compile_turtle.write(
        "<http://www.w3.org/ns/prov-o#> a owl:Ontology . prov:Entity a owl:Class .", "their-prov.ttl"
    )
    vocab = compile_turtle(
        "<urn:my> a owl:Ontology ; owl:imports <http://www.w3.org/ns/prov-o#> ."
        " ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity .",
        imports=(copy,),
    )
    assert issubclass(vocab.Gpu, prov.Entity)


@pytest.mark.parametrize("iri", ["https://w3id.org/provml/module/prov-o", "http://www.w3.org/ns/prov-o#"])
def test_prov_can_be_imported_by_the_iri_of_w3c_or_of_the_module(compile_turtle, iri):
    vocab = compile_turtle(
        f"<urn:my> a owl:Ontology ; owl:imports <{iri}> . ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity ."
    )
    assert issubclass(vocab.Gpu, prov.Entity)


@pytest.mark.parametrize("iri", ["http://www.w3.org/ns/prov-o#", "https://w3id.org/provml/module/mls"])
def test_copy_of_an_original_or_of_a_module_is_refused(compile_turtle, iri):
    with pytest.raises(OntologyError, match="which provml includes"):
        compile_turtle(f"<{iri}> a owl:Ontology . ex:A a owl:Class .", strict=True)


def test_copy_of_a_bundled_ontology_is_refused(compile_turtle):
    with pytest.raises(OntologyError, match="which provml includes"):
        compile_turtle("<https://w3id.org/provml> a owl:Ontology . ex:A a owl:Class ; rdfs:subClassOf prov:Entity .")


def test_term_belongs_to_the_file_that_declares_it_whatever_its_is_defined_by(compile_turtle):
    vocab = compile_turtle(
        "ex:Gpu a owl:Class ; rdfs:subClassOf prov:Entity ; rdfs:isDefinedBy <https://w3id.org/provml> ."
    )
    assert vocab.module.__all__ == ["Gpu"]


def test_statements_about_bundled_classes_are_noted_and_change_nothing(compile_turtle):
    vocab = compile_turtle("ex:Root a owl:Class . prov:Entity rdfs:subClassOf ex:Root .")
    assert vocab.has_note("Entity", "compiled in another module")
    assert not issubclass(prov.Entity, vocab.Root)


def test_repeated_axioms_of_bundled_classes_give_no_note(compile_turtle):
    assert (
        compile_turtle(
            "ex:A a owl:Class . prov:Agent a owl:Class . prov:Person a owl:Class ; rdfs:subClassOf prov:Agent ."
        ).notes
        == []
    )


def test_standard_classes_need_no_import(compile_turtle):
    vocab = compile_turtle("""
        ex:Topic a owl:Class ; rdfs:subClassOf skos:Concept .
        ex:about a owl:ObjectProperty ; rdfs:domain ex:Topic ; rdfs:range foaf:Person .
    """)
    assert types(vocab.Topic("urn:t")) == {EX + "Topic", "http://www.w3.org/2004/02/skos/core#Concept"}
    vocab.Topic("urn:t", about=vocab.Person("urn:me"))
    with pytest.raises(WrongType):
        vocab.Topic("urn:t", about=vocab.Topic("urn:u"))


def test_standard_super_properties_are_written(compile_turtle):
    vocab = compile_turtle("""
        ex:Book a owl:Class .
        ex:writer a owl:ObjectProperty ; rdfs:domain ex:Book ; rdfs:subPropertyOf dcterms:creator .
        ex:firstWriter a owl:ObjectProperty ; rdfs:subPropertyOf ex:writer .
    """)
    book = vocab.Book("urn:b", first_writer=IRI("urn:me"))
    assert {("http://purl.org/dc/terms/creator", "urn:me"), (EX + "writer", "urn:me")} <= statements(book)


def test_copies_of_an_imported_class_are_compatible(compile_turtle):
    base = compile_turtle.write(
        "ex:Cage a owl:Class . ex:livesIn a owl:ObjectProperty ; rdfs:domain ex:Animal ; rdfs:range ex:Cage ."
        " ex:Animal a owl:Class .",
        "base.ttl",
    )
    first = compile_turtle("ex:Cat a owl:Class ; rdfs:subClassOf ex:Animal .", imports=(base,))
    second = compile_turtle("ey:Den a owl:Class ; rdfs:subClassOf ex:Cage .", imports=(base,))
    assert first.Cage is not second.Cage
    cat = first.Cat("urn:tom", lives_in=second.Den("urn:den"))
    assert statements(cat) >= {(EX + "livesIn", "urn:den")}
    assert not isinstance(cat, second.Animal)
    store = ox.Store()
    store.load(ntriples(first.Cage("urn:cage")), ox.RdfFormat.N_TRIPLES)
    assert type(read(store, "urn:cage")) is second.Cage
