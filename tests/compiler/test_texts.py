"""Texts of an ontology reach docstrings, shapes, contexts and pages unchanged, whatever characters they contain."""

from __future__ import annotations

import ast
import inspect
import json

import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provml import paths
from provml.compiler import user_files
from provml.compiler.emit.python import doc, quote

from .helpers import EX, OntologyCompiler

DIFFICULT_TEXTS = [
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


@pytest.mark.parametrize("text", DIFFICULT_TEXTS)
def test_difficult_texts_give_valid_files(compile_turtle, text):
    written = str(ox.Literal(text))
    vocab = compile_turtle(f"""
        <http://example.org/zoo> a owl:Ontology ; dcterms:title {written} ; dcterms:description {written} .
        ex:A a owl:Class ; rdfs:label {written} ; skos:definition {written} ; skos:example {written} .
        ex:p a owl:DatatypeProperty ; rdfs:label {written} ; rdfs:comment {written} ; skos:example {written} ;
            rdfs:domain ex:A ; rdfs:range [ a rdfs:Datatype ; owl:oneOf ( {written} "other" ) ] .
        ex:q a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:range ex:A ; rdfs:comment {written} .
        ex:i a owl:NamedIndividual , ex:A ; rdfs:label {written} ; skos:definition {written} .
    """)
    assert vocab.A("urn:a", p=text).p == (text,)
    assert json.loads(vocab.context)["@context"]["p"]
    rows = [line for line in vocab.page.splitlines() if line.startswith("| `")]
    assert len(rows) == 2
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)


def test_definitions_become_docstrings(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; skos:definition "A thing of\\nsome sort." ; skos:example "This one." , "And that one." .
        ex:p a owl:DatatypeProperty ; rdfs:domain ex:A ; skos:definition "How big it is." .
    """)
    assert vocab.A.__doc__.split() == [
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
        "Fields:",
        "p:",
        "How",
        "big",
        "it",
        "is.",
    ]
    assert (
        '    p: _Value[tuple[Scalar, ...], ScalarLike | Iterable[ScalarLike] | None] = ...\n    """How big it is."""'
        in vocab.stub
    )


def test_terms_without_a_label_get_their_name_in_words(compile_turtle):
    vocab = compile_turtle(
        "ex:BigCat a owl:Class . ex:hasTail a owl:DatatypeProperty ; rdfs:domain ex:BigCat ; rdfs:range xsd:string ."
    )
    assert vocab.BigCat.__doc__.split("\n")[0] == "Big cat."
    assert "    has_tail: has tail" in vocab.BigCat.__doc__
    assert '"""has tail"""' in vocab.stub
    assert "Each ex:hasTail of a big cat must be a string." in vocab.shapes


def test_definition_precedes_comment_and_english_precedes_all(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; skos:definition "The definition."@en ; rdfs:comment "A comment." .
        ex:B a owl:Class ; skos:definition "Die Definition."@de ; rdfs:comment "A comment."@en .
        ex:C a owl:Class ; rdfs:comment "Nur deutsch."@de .
    """)
    assert [cls.__doc__ for cls in (vocab.A, vocab.B, vocab.C)] == ["The definition.", "A comment.", "Nur deutsch."]


def test_labels_keep_their_capitals_in_messages(compile_turtle):
    vocab = compile_turtle("""
        ex:GPU a owl:Class ; rdfs:label "GPU" .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:GPU ; rdfs:range xsd:integer .
    """)
    assert "of a GPU must be" in vocab.shapes


@given(st.text())
@example('"""')
@example('\\"""')
@example('"')
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_becomes_a_docstring_and_a_literal(text):
    cleaned = "".join(c for c in text if c.isprintable() or c == "\n")
    assert isinstance(ast.literal_eval(doc(cleaned, indent=0)), str)
    assert ast.literal_eval(quote(text)) == text


def test_page_shows_import_and_field_types(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf
            [ owl:onProperty ex:two ; owl:cardinality 2 ] , [ owl:onProperty ex:few ; owl:maxCardinality 3 ] ,
            [ owl:onProperty ex:none ; owl:maxCardinality 0 ] , [ owl:onProperty ex:must ; owl:minCardinality 1 ] .
        ex:two a owl:DatatypeProperty . ex:few a owl:DatatypeProperty .
        ex:none a owl:DatatypeProperty . ex:must a owl:DatatypeProperty .
        ex:free a owl:DatatypeProperty . ex:single a owl:DatatypeProperty , owl:FunctionalProperty .
    """)
    assert f"`from {vocab.module.__name__} import …`" in vocab.page
    counts = {
        line.split("`")[1]: line.split(", ")[1].split(" |")[0]
        for line in vocab.page.splitlines()
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
    assert "![The classes of my](my.svg)" in vocab.page


def test_page_marks_required_fields(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:must ; owl:minCardinality 1 ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A .
        ex:must a owl:DatatypeProperty ; rdfs:domain ex:A . ex:may a owl:DatatypeProperty ; rdfs:domain ex:A .
    """)
    rows = {line.split("`")[1]: line for line in vocab.page.splitlines() if line.startswith("| `")}
    assert "**required**" in rows["must"]
    assert "required" not in rows["may"]
    assert "- from [A](#a): `may`, `must` (**required**)\n" in vocab.page.split("### B")[1]


def test_page_lists_inherited_fields_by_superclass_nearest_first(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Activity . ex:B a owl:Class ; rdfs:subClassOf ex:A .
        ex:C a owl:Class ; rdfs:subClassOf ex:B , [ owl:onProperty ex:a ; owl:maxCardinality 3 ] .
        ex:a a owl:DatatypeProperty ; rdfs:domain ex:A . ex:b a owl:DatatypeProperty ; rdfs:domain ex:B .
    """)
    lines = [line for line in vocab.page.split("### C")[1].splitlines() if line.startswith("- from ")]
    assert lines[0] == "- from [B](#b): `b`"
    assert lines[1].startswith("- from `prov.Activity`: `at_location`, ")
    assert " `used`" in lines[1]
    assert "`a`" not in "".join(lines)  # C states it itself


def test_docstring_lists_the_own_fields_of_a_class(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; skos:definition "Some thing." ; rdfs:subClassOf [ owl:onProperty ex:m ; owl:cardinality 1 ] .
        ex:B a owl:Class ; skos:definition "Some other." ; rdfs:subClassOf ex:A .
        ex:m a owl:DatatypeProperty ; rdfs:domain ex:A ; skos:definition "How heavy, i.e. its mass. Not its weight." .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:A .
    """)
    assert inspect.cleandoc(vocab.A.__doc__) == (
        "Some thing.\n\nFields:\n    m (required): How heavy, i.e. its mass.\n    n: n"
    )
    assert vocab.B.__doc__ == "Some other.\n\nInherits 2 fields from A."


TURTLE = "ex:z a ex:Zebra ; prov:wasAttributedTo ex:me ."


@pytest.mark.parametrize("text", [TURTLE, "ex:z\n  a ex:Zebra .\n", "<urn:a> <urn:b> 1 ."])
def test_turtle_example_is_a_turtle_code_block(compile_turtle, text):
    vocab = compile_turtle(f"ex:Zebra a owl:Class ; skos:example {ox.Literal(text)} .")
    assert f"```turtle\n{text.strip()}\n```\n" in vocab.page


@pytest.mark.parametrize(
    "text", ["Zed; a zebra: striped.", "no:z a no:Zebra .", "ex:z a ex:Zebra ", "# ex:z a ex:Zebra .", "Zed"]
)
def test_other_example_is_a_quote(compile_turtle, text):
    vocab = compile_turtle(f"ex:Zebra a owl:Class ; skos:example {ox.Literal(text)} .")
    assert f"> Example: {text.strip()}\n" in vocab.page
    assert "```" not in vocab.page


def test_examples_may_use_the_prefix_ex_without_a_declaration(tmp_path):
    path = tmp_path / "my.ttl"
    path.write_text(
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<urn:x:A> a <http://www.w3.org/2002/07/owl#Class> ; skos:example "ex:a a <urn:x:A> ." .'
    )
    files, _ = user_files([path], tmp_path / "vocab.py", docs=tmp_path)
    assert "```turtle\nex:a a <urn:x:A> .\n```" in files[tmp_path / "my.md"]


@pytest.mark.parametrize(
    ("header", "title"),
    [
        ('<http://e.org/zoo#> a owl:Ontology ; rdfs:label "The zoo" .', "The zoo"),
        ('<http://e.org/zoo> a owl:Ontology ; dcterms:title "The zoo" .', "The zoo"),
        ("<http://e.org/zoo#> a owl:Ontology .", "zoo"),
        ("<http://e.org/zoo/> a owl:Ontology .", "zoo"),
        ("<urn:zoo> a owl:Ontology .", "zoo"),
        ("", "my"),
    ],
)
def test_page_has_the_title_of_its_ontology(compile_turtle, header, title):
    vocab = compile_turtle(f"{header} ex:A a owl:Class .")
    assert f"\n# {title}\n" in vocab.page
    assert f'"""{title}: typed classes' in vocab.stub


def test_missing_texts_leave_no_empty_lines_in_the_page(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:domain ex:A . ex:i a owl:NamedIndividual , ex:A .
    """)
    assert "\n\n\n" not in vocab.page
    assert "(`http://example.org/zoo#i`)\n" in vocab.page
    assert "## Properties" not in compile_turtle("ex:A a owl:Class .").page


def test_bundled_terms_have_a_prefix_and_no_link(compile_turtle):
    vocab = compile_turtle("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Entity ; skos:closeMatch foaf:Person .
        ex:vocab a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range prov:Agent ;
            rdfs:subPropertyOf prov:wasAttributedTo .
    """)
    assert "subclass of `prov.Entity`" in vocab.page
    assert "to `prov.Agent`" in vocab.page
    assert "written together with `prov:wasAttributedTo`" in vocab.page
    assert "similar to `foaf:Person`" in vocab.page
    assert "](prov" not in vocab.page


def test_property_does_not_have_the_anchor_of_a_class(compile_turtle):
    vocab = compile_turtle("ex:Entity a owl:Class . ey:entity a owl:ObjectProperty ; rdfs:range ex:Entity .")
    headings = [line for line in vocab.page.splitlines() if line.startswith("### ")]
    assert headings == ["### Entity", "### entity (property)"]


def test_page_explains_sides_only_if_there_are_any(compile_turtle):
    sided = compile_turtle("""
        @prefix provlake: <https://w3id.org/provlake#> .
        ex:A a owl:Class ; provlake:side "prospective" .
    """)
    assert "Light boxes are prospective" in sided.page
    assert "prospective" not in compile_turtle("ex:A a owl:Class .").page


def test_page_lists_deprecated_names(compile_turtle):
    vocab = compile_turtle(
        "ex:Car a owl:Class . ex:Auto a owl:Class ; owl:deprecated true ; owl:equivalentClass ex:Car ."
    )
    assert "deprecated names: `Auto`" in vocab.page


# ---- the context


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # rdflib's own reader of JSON-LD uses it
def test_origin_of_a_context_is_not_a_statement(compile_turtle: OntologyCompiler):
    vocab = compile_turtle(
        "ex:A a owl:Class . ex:generated a owl:DatatypeProperty . ex:_generated_by a owl:DatatypeProperty ."
    )
    for text in (vocab.context, (paths.ontologies() / "context.jsonld").read_text("utf-8")):
        document = json.loads(text)
        (key,) = document.keys() - {"@context"}
        assert key not in document["@context"]
        assert "Generated by" in document[key]
        assert list(ox.parse(text, ox.RdfFormat.JSON_LD)) == []
        with_node = json.dumps({**document, "@id": "urn:x", "rdfs:label": "x"})  # a node that says it
        assert len(list(ox.parse(with_node, ox.RdfFormat.JSON_LD))) == 1
        assert len(rdflib.Graph().parse(data=text, format="json-ld")) == 0
        assert len(rdflib.Graph().parse(data=with_node, format="json-ld")) == 1


def read(context: str, document: dict[str, object]) -> set[tuple[str, str, str]]:
    body = {"@context": json.loads(context)["@context"], **document}
    quads = ox.parse(json.dumps(body), ox.RdfFormat.JSON_LD)
    return {(quad.subject.value, quad.predicate.value, str(quad.object)) for quad in quads}


def test_context_defines_short_names(compile_turtle: OntologyCompiler):
    vocab = compile_turtle("""
        ex:Zebra a owl:Class . ex:eats a owl:ObjectProperty . ex:weight a owl:DatatypeProperty ; rdfs:range xsd:double .
        ex:says a owl:DatatypeProperty ; rdfs:range rdf:PlainLiteral .
    """)
    document = {"id": "urn:z", "type": "Zebra", "eats": "urn:grass", "weight": 300, "says": "hi", "label": "Zed"}
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert read(vocab.context, document) == {
        ("urn:z", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"<{EX}Zebra>"),
        ("urn:z", EX + "eats", "<urn:grass>"),
        ("urn:z", EX + "weight", f'"3.0E2"^^<{xsd}double>'),
        ("urn:z", EX + "says", '"hi"'),
        ("urn:z", "http://www.w3.org/2000/01/rdf-schema#label", '"Zed"'),
    }


def test_terms_do_not_replace_the_keywords_of_the_context(compile_turtle: OntologyCompiler):
    vocab = compile_turtle("""
        ex:A a owl:Class . ex:id a owl:DatatypeProperty . ex:type a owl:DatatypeProperty .
        ex:label a owl:DatatypeProperty .
        ex:prov a owl:DatatypeProperty . ex:ex a owl:Class .
    """)
    document = {"id": "urn:z", "type": "A", "ex:type": "striped", "label": "Zed"}
    assert {(predicate, node) for _, predicate, node in read(vocab.context, document)} == {
        ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"<{EX}A>"),
        (EX + "type", '"striped"'),
        ("http://www.w3.org/2000/01/rdf-schema#label", '"Zed"'),
    }


def test_prefix_without_a_delimiter_at_its_end_works(compile_turtle: OntologyCompiler):
    vocab = compile_turtle("@prefix odd: <http://example.org/odd_> . ex:A a owl:Class .")
    assert {p for _, p, _ in read(vocab.context, {"id": "urn:z", "odd:thing": "x"})} == {"http://example.org/odd_thing"}
