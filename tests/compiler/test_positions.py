"""Messages name the line of a term, not that of a comment, a string or an earlier mention."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

from provml import paths
from provml.compiler.sources import BUNDLED, Source, bundled
from provml.errors import OntologyError
from provml.rdf.namespaces import OWL, RDF, RDFS

from .helpers import EX, PREFIXES

TURTLE = f"""{PREFIXES.strip()}
# ex:Gone is a comment, and so is <{EX}Gone>
ex:A a owl:Class ; rdfs:comment "ex:Gone \\" ex:Gone # no comment" ;
    rdfs:comment '''
    ex:Gone <{EX}Gone>
    ''' , 'ex:Gone' , .5 , 1.5 , 1.e3 , true ;
    rdfs:seeAlso ex:Gone ;   # ex:Gone
    rdfs:subClassOf ex:Gone .
ex:B a owl:Class ; rdfs:seeAlso ex:A.b , ex:A\\.c ;
    rdfs:subClassOf [ a owl:Class ;
        owl:unionOf ( ex:A
                      ex:Gone ) ] ,
        ex:Gone .
"""
FAR = "http://example.org/far#"
FIRST = PREFIXES.strip().count("\n") + 2  # the line of the comment


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "my.ttl").write_text(TURTLE, encoding="utf-8")
    return Source(tmp_path / "my.ttl")


@pytest.mark.parametrize(
    ("term", "predicate", "subject", "line"),
    [
        ("Gone", RDFS + "subClassOf", None, 6),
        ("Gone", RDFS + "subClassOf", EX + "B", 11),
        ("Gone", OWL + "unionOf", None, 10),
        ("Gone", RDFS + "seeAlso", None, 5),
        ("Gone", RDFS + "range", None, 5),  # no such statement: the first mention
        ("Gone", None, None, 5),
        ("A", None, None, 1),
        ("A", OWL + "unionOf", None, 9),
        ("A.b", None, None, 7),
        ("A.c", None, None, 7),
        ("B", None, None, 7),
        ("Nowhere", None, None, None),
    ],
)
def test_term_is_found_where_it_is_used(source, term, predicate, subject, line):
    assert source.line_of(EX + term, predicate, subject) == (None if line is None else FIRST + line)


def test_prefix_declaration_is_not_a_mention(tmp_path):
    path = tmp_path / "my.ttl"
    path.write_text("PREFIX p: <urn:p>\n@prefix q: <urn:p> .\n@base <urn:p> .\n<urn:p> a <urn:x> .\n")
    assert Source(path).line_of("urn:p") == 4


def test_relative_iris_are_resolved_against_the_base(tmp_path):
    path = tmp_path / "my.ttl"
    path.write_text("@base <http://example.org/a/> .\n@prefix : <#> .\n<b>\n a :c .\n")
    assert Source(path).line_of("http://example.org/a/b") == 3
    assert Source(path).line_of("http://example.org/a/#c", RDF + "type") == 4


XML = f"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY ex "{EX}"> ]>
<rdf:RDF xmlns:rdf="{RDF}" xmlns:rdfs="{RDFS}" xmlns:owl="{OWL}" xmlns:ex="{EX}" xml:base="http://example.org/zoo">
  <!-- rdf:resource="&ex;Gone" ex:Gone -->
  <owl:Class rdf:about="&ex;A">
    <rdfs:comment>ex:Gone "{EX}Gone" is only spoken of</rdfs:comment>
    <rdfs:seeAlso rdf:resource="#Gone"/>
    <rdfs:subClassOf rdf:resource="&ex;Gone"/>
    <rdfs:subClassOf>
      <owl:Restriction ex:note="x">
        <owl:onProperty rdf:resource="#p"/>
        <owl:someValuesFrom><owl:Class rdf:ID="Inner"/></owl:someValuesFrom>
      </owl:Restriction>
    </rdfs:subClassOf>
    <owl:equivalentClass rdf:parseType="Resource">
      <owl:unionOf rdf:parseType="Collection">
        <rdf:Description rdf:about="#Last"/>
      </owl:unionOf>
    </owl:equivalentClass>
  </owl:Class>
</rdf:RDF>
"""


@pytest.mark.parametrize(
    ("iri", "predicate", "line"),
    [
        (EX + "Gone", RDFS + "subClassOf", 8),
        (EX + "Gone", RDFS + "seeAlso", 7),
        (EX + "Gone", None, 7),
        (EX + "A", None, 5),
        (EX + "p", OWL + "onProperty", 11),
        (EX + "note", None, 10),
        (EX + "Inner", OWL + "someValuesFrom", 12),
        (EX + "Inner", None, 12),
        (EX + "Last", OWL + "unionOf", 17),
        (OWL + "Restriction", RDF + "type", 10),
        (EX + "Nowhere", None, None),
    ],
)
def test_terms_are_found_in_xml(tmp_path, iri, predicate, line):
    (tmp_path / "my.rdf").write_text(XML, encoding="utf-8")
    assert Source(tmp_path / "my.rdf").line_of(iri, predicate) == line


def test_terms_are_found_in_json(tmp_path):
    path = tmp_path / "my.jsonld"
    path.write_text(
        f'{{"@context": {{"ex": "{EX}", "rdfs": "{RDFS}"}},\n "@id": "ex:A",\n "rdfs:comment": "of ex:Gone",\n'
        f' "rdfs:subClassOf":\n  {{"@id": "ex:Gone"}}, "rdfs:seeAlso":\n {{"@id": "{EX}Full"}} }}'
    )
    source = Source(path)
    assert [source.line_of(EX + name) for name in ("A", "Gone", "Full", "Nowhere")] == [2, 5, 6, None]


@pytest.mark.parametrize("iri", BUNDLED)
def test_every_statement_of_the_bundled_files_is_found(iri):
    """The scanner agrees with the parser: it finds each statement between two IRIs."""
    source = bundled(iri)
    scanned = {
        (mention.subject, mention.predicate, mention.iri) for mention in source.mentions if mention.role == "object"
    }
    named = [
        (s.value, p, o.value)
        for s, p, o in source.triples
        if isinstance(s, ox.NamedNode) and isinstance(o, ox.NamedNode)
    ]
    assert len(named) > 100
    assert [statement for statement in named if statement not in scanned] == []
    text = (paths.ontologies() / BUNDLED[iri]).read_text("utf-8").splitlines()
    for subject in {s for s, _, _ in named}:
        line = source.line_of(subject)
        assert line is not None
        assert text[line - 1][0] not in " #@\t"  # in these files a subject begins its line


def test_errors_and_notes_ignore_comments_and_strings(compile_turtle):
    with pytest.raises(OntologyError, match=r"my\.ttl:16: <.*Gone> is used as a class"):
        compile_turtle(
            '# ex:Gone\nex:A a owl:Class ; rdfs:comment "ex:Gone" ; rdfs:seeAlso ex:Gone ;\n rdfs:subClassOf\nex:Gone.',
            strict=True,
        )
    vocab = compile_turtle(
        "# ex:B\nex:A a owl:Class ; rdfs:seeAlso ex:B .\nex:B a owl:Class ; rdfs:subClassOf [ owl:complementOf ex:A ] ."
    )
    assert vocab.has_note("my.ttl:15: B: ")


def test_import_is_found_if_a_prefix_has_the_same_iri(compile_turtle):
    turtle = f"@prefix far: <{FAR}> .\n<urn:my> a owl:Ontology ; rdfs:seeAlso <{FAR}> ;\n owl:imports <{FAR}> ."
    with pytest.raises(OntologyError, match=r"my\.ttl:15: imports"):
        compile_turtle(turtle)
