"""Words in an ontology reach docstrings, shapes, contexts and pages whole, whatever characters they hold."""

from __future__ import annotations

import ast
import json

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provml.compiler.python import doc, quote

from .workshop import EX, Workshop

NASTY = [
    'She said "yes"',
    '"',
    '""" + 1 #',
    "back\\slash\\",
    "\\u0041 \\N{DASH} {braces}",
    "'''three'''",
    "line one\nline two\n\n\nlast\n",
    "windows\r\nand old mac\rlines",
    "end */ --> ]]> <b>&amp;</b> | pipe | `code` ```fence```",
    "größe 日本 🦓 \u2028 \x85",
    "nul \x00 bell \x07 escape \x1b delete \x7f form \x0c",
    "   ",
    "a; b: c ```x``` .",
]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_words_give_valid_files(make, text):
    written = str(ox.Literal(text))
    made = make(f"""
        <http://example.org/zoo> a owl:Ontology ; dcterms:title {written} ; dcterms:description {written} .
        ex:A a owl:Class ; rdfs:label {written} ; skos:definition {written} ; skos:example {written} .
        ex:p a owl:DatatypeProperty ; rdfs:label {written} ; rdfs:comment {written} ; skos:example {written} ;
            rdfs:domain ex:A ; rdfs:range [ a rdfs:Datatype ; owl:oneOf ( {written} "other" ) ] .
        ex:q a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:range ex:A ; rdfs:comment {written} .
        ex:i a owl:NamedIndividual , ex:A ; rdfs:label {written} ; skos:definition {written} .
    """)
    assert made.A("urn:a", p=text).p == (text,)
    assert json.loads(made.context)["@context"]["p"]
    rows = [line for line in made.page.splitlines() if line.startswith("| `")]
    assert len(rows) == 2
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)


def test_definitions_become_docstrings(make):
    made = make("""
        ex:A a owl:Class ; skos:definition "A thing of\\nsome sort." ; skos:example "This one." , "And that one." .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; skos:definition "How big it is." .
    """)
    assert made.A.__doc__.split() == [
        "A",
        "thing",
        "of",
        "some",
        "sort.",
        "Example:",
        "And",
        "that",
        "one.",
        "Example:",
        "This",
        "one.",
    ]
    assert '    p: tuple[Scalar, ...]\n    """How big it is."""' in made.code


def test_terms_without_words_get_their_name_in_words(make):
    made = make(
        "ex:BigCat a owl:Class . ex:hasTail a owl:DatatypeProperty ; rdfs:domain ex:BigCat ; rdfs:range xsd:string ."
    )
    assert made.BigCat.__doc__ == "Big cat."
    assert '"""has tail"""' in made.code
    assert "A big cat has for 'has tail'" in made.shapes


def test_a_definition_comes_before_a_comment_and_english_before_all(make):
    made = make("""
        ex:A a owl:Class ; skos:definition "The definition."@en ; rdfs:comment "A comment." .
        ex:B a owl:Class ; skos:definition "Die Definition."@de ; rdfs:comment "A comment."@en .
        ex:C a owl:Class ; rdfs:comment "Nur deutsch."@de .
    """)
    assert [cls.__doc__ for cls in (made.A, made.B, made.C)] == ["The definition.", "A comment.", "Nur deutsch."]


def test_labels_keep_their_capitals_in_messages(make):
    made = make("""
        ex:GPU a owl:Class ; rdfs:label "GPU" .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:GPU ; rdfs:range xsd:integer .
    """)
    assert "A GPU has for 'n'" in made.shapes


@given(st.text())
@example('"""')
@example('\\"""')
@example('"')
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_a_docstring_and_a_literal(text):
    cleaned = "".join(c for c in text if c.isprintable() or c == "\n")
    assert isinstance(ast.literal_eval(doc(cleaned, indent=0)), str)
    assert ast.literal_eval(quote(text)) == text


def test_the_page_says_how_to_import_and_what_each_field_takes(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf
            [ owl:onProperty ex:two ; owl:cardinality 2 ] , [ owl:onProperty ex:few ; owl:maxCardinality 3 ] ,
            [ owl:onProperty ex:none ; owl:maxCardinality 0 ] , [ owl:onProperty ex:must ; owl:minCardinality 1 ] .
        ex:two a owl:DatatypeProperty . ex:few a owl:DatatypeProperty .
        ex:none a owl:DatatypeProperty . ex:must a owl:DatatypeProperty .
        ex:free a owl:DatatypeProperty . ex:single a owl:DatatypeProperty , owl:FunctionalProperty .
    """)
    assert f"`from {made.module.__name__} import …`" in made.page
    counts = {
        line.split("`")[1]: line.split(", ")[1].split(" |")[0]
        for line in made.page.splitlines()
        if line.startswith("| `")
    }
    assert counts == {
        "two": "exactly 2",
        "few": "at most 3",
        "none": "none",
        "must": "at least 1",
        "free": "any number",
        "single": "at most one",
    }
    assert "![The classes of my](my.svg)" in made.page


# ---- the context


def read(context: str, document: dict[str, object]) -> set[tuple[str, str, str]]:
    body = {"@context": json.loads(context)["@context"], **document}
    quads = ox.parse(json.dumps(body), ox.RdfFormat.JSON_LD)
    return {(quad.subject.value, quad.predicate.value, str(quad.object)) for quad in quads}


def test_the_context_gives_terms_short_names(make: Workshop):
    made = make("""
        ex:Zebra a owl:Class . ex:eats a owl:ObjectProperty . ex:weight a owl:DatatypeProperty ; rdfs:range xsd:double .
        ex:says a owl:DatatypeProperty ; rdfs:range rdf:PlainLiteral .
    """)
    document = {"id": "urn:z", "type": "Zebra", "eats": "urn:grass", "weight": 300, "says": "hi", "label": "Zed"}
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert read(made.context, document) == {
        ("urn:z", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"<{EX}Zebra>"),
        ("urn:z", EX + "eats", "<urn:grass>"),
        ("urn:z", EX + "weight", f'"3.0E2"^^<{xsd}double>'),
        ("urn:z", EX + "says", '"hi"'),
        ("urn:z", "http://www.w3.org/2000/01/rdf-schema#label", '"Zed"'),
    }


def test_terms_do_not_take_the_words_of_the_context_itself(make: Workshop):
    made = make("""
        ex:A a owl:Class . ex:id a owl:DatatypeProperty . ex:type a owl:DatatypeProperty .
        ex:label a owl:DatatypeProperty .
        ex:prov a owl:DatatypeProperty . ex:ex a owl:Class .
    """)
    document = {"id": "urn:z", "type": "A", "ex:type": "striped", "label": "Zed"}
    assert {(predicate, node) for _, predicate, node in read(made.context, document)} == {
        ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"<{EX}A>"),
        (EX + "type", '"striped"'),
        ("http://www.w3.org/2000/01/rdf-schema#label", '"Zed"'),
    }


def test_a_prefix_that_does_not_look_like_one_still_works(make: Workshop):
    made = make("@prefix odd: <http://example.org/odd_> . ex:A a owl:Class .")
    assert {p for _, p, _ in read(made.context, {"id": "urn:z", "odd:thing": "x"})} == {"http://example.org/odd_thing"}
