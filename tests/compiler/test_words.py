"""Words in an ontology reach docstrings, shapes, contexts and pages whole, whatever characters they hold."""

from __future__ import annotations

import ast
import inspect
import json

import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provml import resources
from provml.compiler import user_files
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
        "Fields:",
        "p:",
        "How",
        "big",
        "it",
        "is.",
    ]
    assert '    p: tuple[Kept, ...]\n    """How big it is."""' in made.code


def test_terms_without_words_get_their_name_in_words(make):
    made = make(
        "ex:BigCat a owl:Class . ex:hasTail a owl:DatatypeProperty ; rdfs:domain ex:BigCat ; rdfs:range xsd:string ."
    )
    assert made.BigCat.__doc__.split("\n")[0] == "Big cat."
    assert "    has_tail: has tail\n" in made.BigCat.__doc__  # from 3.13 on, Python takes the indentation out
    assert '"""has tail"""' in made.code
    assert "A big cat has" in made.shapes


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
    assert "A GPU has" in made.shapes


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


def test_required_fields_stand_out_on_the_page(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:must ; owl:minCardinality 1 ] .
        ex:B a owl:Class ; rdfs:subClassOf ex:A .
        ex:must a owl:DatatypeProperty ; rdfs:domain ex:A . ex:may a owl:DatatypeProperty ; rdfs:domain ex:A .
    """)
    rows = {line.split("`")[1]: line for line in made.page.splitlines() if line.startswith("| `")}
    assert "**required**" in rows["must"]
    assert "required" not in rows["may"]
    assert "Also has, from [A](#a): `may`, `must` (**required**)." in made.page.split("### B")[1]


def test_inherited_fields_are_listed_by_the_class_that_states_them_nearest_first(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Activity . ex:B a owl:Class ; rdfs:subClassOf ex:A .
        ex:C a owl:Class ; rdfs:subClassOf ex:B , [ owl:onProperty ex:a ; owl:maxCardinality 3 ] .
        ex:a a owl:DatatypeProperty ; rdfs:domain ex:A . ex:b a owl:DatatypeProperty ; rdfs:domain ex:B .
    """)
    line = next(x for x in made.page.split("### C")[1].splitlines() if x.startswith("Also has"))
    assert line.startswith("Also has, from [B](#b): `b`; from `prov.Activity`: `at_location`, ")
    assert " `used`" in line
    assert "`a`" not in line  # C states it itself


def test_the_docstring_lists_the_fields_that_a_class_states(make):
    made = make("""
        ex:A a owl:Class ; skos:definition "Some thing." ; rdfs:subClassOf [ owl:onProperty ex:m ; owl:cardinality 1 ] .
        ex:B a owl:Class ; skos:definition "Some other." ; rdfs:subClassOf ex:A .
        ex:m a owl:DatatypeProperty ; rdfs:domain ex:A ; skos:definition "How heavy, i.e. its mass. Not its weight." .
        ex:n a owl:DatatypeProperty ; rdfs:domain ex:A .
    """)
    assert inspect.cleandoc(made.A.__doc__) == (
        "Some thing.\n\nFields:\n    m (required): How heavy, i.e. its mass.\n    n: n"
    )
    assert made.B.__doc__ == "Some other."


TURTLE = "ex:z a ex:Zebra ; prov:wasAttributedTo ex:me ."


@pytest.mark.parametrize("text", [TURTLE, "ex:z\n  a ex:Zebra .\n", "<urn:a> <urn:b> 1 ."])
def test_an_example_in_turtle_is_shown_as_turtle(make, text):
    made = make(f"ex:Zebra a owl:Class ; skos:example {ox.Literal(text)} .")
    assert f"```turtle\n{text.strip()}\n```\n" in made.page


@pytest.mark.parametrize(
    "text", ["Zed; a zebra: striped.", "no:z a no:Zebra .", "ex:z a ex:Zebra ", "# ex:z a ex:Zebra .", "Zed"]
)
def test_an_example_that_is_no_turtle_is_quoted(make, text):
    made = make(f"ex:Zebra a owl:Class ; skos:example {ox.Literal(text)} .")
    assert f"> Example: {text.strip()}\n" in made.page
    assert "```" not in made.page


def test_examples_may_speak_of_ex_without_declaring_it(tmp_path):
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
def test_a_page_is_called_what_its_ontology_is_called(make, header, title):
    made = make(f"{header} ex:A a owl:Class .")
    assert f"\n# {title}\n" in made.page
    assert f'"""{title}: what can be said' in made.code


def test_words_that_are_missing_leave_no_hole_in_the_page(make):
    made = make("""
        ex:A a owl:Class . ex:p a owl:DatatypeProperty ; rdfs:domain ex:A . ex:i a owl:NamedIndividual , ex:A .
    """)
    assert "\n\n\n" not in made.page
    assert "(<http://example.org/zoo#i>)\n" in made.page
    assert "## Properties" not in make("ex:A a owl:Class .").page


def test_what_comes_from_ours_is_named_with_its_prefix_and_links_nowhere(make):
    made = make("""
        ex:A a owl:Class ; rdfs:subClassOf prov:Entity ; skos:closeMatch foaf:Person .
        ex:made a owl:ObjectProperty ; rdfs:domain ex:A ; rdfs:range prov:Agent ;
            rdfs:subPropertyOf prov:wasAttributedTo .
    """)
    assert "a `prov.Entity`" in made.page
    assert "to `prov.Agent`" in made.page
    assert "written with `prov:wasAttributedTo`" in made.page
    assert "close to `foaf:Person`" in made.page
    assert "](prov" not in made.page


def test_a_property_does_not_take_the_anchor_of_a_class(make):
    made = make("ex:Entity a owl:Class . ey:entity a owl:ObjectProperty ; rdfs:range ex:Entity .")
    headings = [line for line in made.page.splitlines() if line.startswith("### ")]
    assert headings == ["### Entity", "### entity (property)"]


def test_the_page_speaks_of_sides_only_where_there_are_any(make):
    sided = make("""
        @prefix provlake: <https://w3id.org/provlake#> .
        ex:A a owl:Class ; provlake:side "prospective" .
    """)
    assert "Light: prospective" in sided.page
    assert "prospective" not in make("ex:A a owl:Class .").page


def test_old_names_are_said_to_be_importable_on_the_page(make):
    made = make("ex:Car a owl:Class . ex:Auto a owl:Class ; owl:deprecated true ; owl:equivalentClass ex:Car .")
    assert "also called `Auto`, which can be imported and warns" in made.page


# ---- the context


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # rdflib's own reader of JSON-LD uses it
def test_the_word_on_where_a_context_comes_from_is_no_statement(make: Workshop):
    made = make("ex:A a owl:Class . ex:generated a owl:DatatypeProperty . ex:_generated_by a owl:DatatypeProperty .")
    for text in (made.context, (resources.ontologies() / "context.jsonld").read_text("utf-8")):
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
