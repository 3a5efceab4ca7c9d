"""Errors of SPARQL point at the mistake and name its likely cause."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provml
from provml.errors import QueryError
from provml.rdf.namespaces import PREFIXES
from provml.store.query_diagnosis import MAX_EXCERPT, diagnose

ENGINE = ox.Store()


def error_of(sparql: str) -> QueryError:
    """Return the error for a query, which the engine has to refuse."""
    with pytest.raises(SyntaxError) as caught:
        ENGINE.query(sparql, prefixes=PREFIXES)
    return diagnose(sparql, str(caught.value))


MISTAKES = {
    "misspelt SELECT": (
        "⟦SELEC⟧ ?x WHERE { ?x a provml:Model }",
        "SELEC is not a keyword. Did you mean SELECT?",
    ),
    "misspelt WHERE": (
        "SELECT ?x ⟦WHER⟧ { ?x a provml:Model }",
        "WHER is not a keyword. Did you mean WHERE?",
    ),
    "misspelt FILTER": (
        "SELECT ?x WHERE { ?x a ?y ⟦FITLER⟧(?y > 3) }",
        "FITLER is not a keyword. Did you mean FILTER?",
    ),
    "misspelt OPTIONAL": (
        "SELECT ?x WHERE { ?x a ?y . ⟦OPTONAL⟧ { ?x a ?z } }",
        "OPTONAL is not a keyword. Did you mean OPTIONAL?",
    ),
    "misspelt UNION": (
        "SELECT ?x { { ?x a ?y } ⟦UNIN⟧ { ?x a ?z } }",
        "UNIN is not a keyword. Did you mean UNION?",
    ),
    "misspelt ORDER": (
        "SELECT ?x { ?x a ?y } ⟦ODER⟧ BY ?x",
        "ODER is not a keyword. Did you mean ORDER?",
    ),
    "misspelt LIMIT": (
        "ASK { ?x a ?y } ⟦LIMITT⟧ 10",
        "LIMITT is not a keyword. Did you mean LIMIT?",
    ),
    "misspelt DISTINCT": (
        "SELECT ⟦DISTNCT⟧ ?x { ?x a ?y }",
        "DISTNCT is not a keyword. Did you mean DISTINCT?",
    ),
    "misspelt EXISTS": (
        "ASK { ?x a ?y FILTER NOT ⟦EXIST⟧ { ?x a ?z } }",
        "EXIST is not a keyword. Did you mean EXISTS?",
    ),
    "misspelt function": (
        "ASK { ?x a ?y FILTER(⟦CONTAIN⟧(?y, 'a')) }",
        "CONTAIN is not a function. Did you mean CONTAINS?",
    ),
    "comma in SELECT": (
        "SELECT ?x⟦,⟧ ?y WHERE { ?x a ?y }",
        'unexpected "," between the variables of SELECT. Separate them with spaces: SELECT ?x ?y.',
    ),
    "COUNT without parentheses": (
        "SELECT ⟦COUNT⟧(?x) WHERE { ?x a ?y }",
        "COUNT is not in parentheses with a name. Write (COUNT(?x) AS ?count).",
    ),
    "MAX with AS, without parentheses": (
        "SELECT ?x ⟦MAX⟧(?y) AS ?m { ?x a ?y } GROUP BY ?x",
        "MAX is not in parentheses with a name. Write (MAX(?y) AS ?max).",
    ),
    "COUNT without AS": (
        "SELECT (COUNT(?x)⟦)⟧ { ?x a ?y }",
        "the expression has no name. Write (… AS ?name).",
    ),
    "AS without a variable": (
        "SELECT (1 AS ⟦n⟧) { ?x a ?y }",
        "n is not a variable. Write ?n.",
    ),
    "name instead of a variable": (
        "SELECT ⟦x⟧ { ?x a ?y }",
        "x is not a variable. Write ?x.",
    ),
    "no variable": (
        "SELECT ⟦WHERE⟧ { ?x a ?y }",
        "SELECT names no variable. Write SELECT * for all variables.",
    ),
    "missing closing brace": (
        "SELECT ?x WHERE ⟦{⟧ ?x a ?y",
        'this "{" is not closed. Add "}".',
    ),
    "missing opening brace": (
        "SELECT ?x WHERE ⟦?x⟧ a ?y }",
        '"{" is missing. Put the patterns in braces: WHERE { … }.',
    ),
    "extra brace": (
        "SELECT ?x { ?x a ?y }⟦}⟧",
        'this "}" closes nothing. Remove it, or add the opening bracket.',
    ),
    "missing closing parenthesis": (
        "ASK { ?x a ?y FILTER(?y > 3 ⟦}⟧",
        '")" is missing before "}". Close the "(" of line 1, column 21.',
    ),
    "condition without parentheses": (
        "ASK { ?x a ?y FILTER ⟦?y⟧ > 3 }",
        "the condition of FILTER is not in parentheses. Write FILTER( … ).",
    ),
    "undeclared prefix": (
        "ASK { ?x ⟦nope:⟧y ?y }",
        "the prefix nope: is not declared. Declare it: begin the query with PREFIX nope: <…>",
    ),
    "undeclared prefix of a common vocabulary": (
        "ASK { ?x ⟦foaf:⟧name ?y }",
        "the prefix foaf: is not declared. Begin the query with PREFIX foaf: <http://xmlns.com/foaf/0.1/>",
    ),
    "misspelt prefix": (
        "ASK { ?x ⟦prv:⟧used ?y }",
        "the prefix prv: is not declared. Did you mean prov:?",
    ),
    "IRI without brackets": (
        "ASK { ?x a ⟦http:⟧//example.org/y }",
        "an IRI without angle brackets. Write it as <http://…>.",
    ),
    "relative IRI": (
        "ASK { ?x a ⟦<Model>⟧ }",
        "<Model> is not an absolute IRI.",
    ),
    "IRI with a space": (
        "ASK { ?x a ⟦<urn:no iri>⟧ }",
        "<urn:no iri> is not an IRI.",
    ),
    "missing dot": (
        "ASK { ?x a provml:Model ⟦?y⟧ a provml:Model }",
        '"." is missing before ?y. End a pattern with ".", or continue it with ";" (same subject)',
    ),
    "subject after a semicolon": (
        "ASK { ?x a provml:Model ; ⟦?x⟧ rdfs:label ?l }",
        '?x is repeated after ";". Leave out ?x: after ";" comes another property of the same subject.',
    ),
    "missing object": (
        "ASK { ?x rdfs:label ⟦}⟧",
        "the triple has no object.",
    ),
    "name without a prefix": (
        "ASK { ?x a ⟦Model⟧ }",
        "Model is neither a variable nor a name with a prefix. Write ?Model, or mls:Model or provml:Model.",
    ),
    "double equals": (
        "ASK { ?x a ?y FILTER(?y =⟦=⟧ 3) }",
        '"==" is not an operator',
    ),
    "and": (
        "ASK { ?x a ?y FILTER(?y = 3 ⟦and⟧ ?x = 2) }",
        'Write "&&".',
    ),
    "angle brackets for unequal": (
        "ASK { ?x a ?y FILTER(?y ⟦<>⟧ 3) }",
        'Write "!=".',
    ),
    "LIKE": (
        "ASK { ?x a ?y FILTER(?y ⟦LIKE⟧ 'a') }",
        "Write CONTAINS(",
    ),
    "not": (
        "ASK { ?x a ?y FILTER(not ⟦?y⟧) }",
        "Write !( … )",
    ),
    "missing comma": (
        "ASK { FILTER(REGEX(?y ⟦'a'⟧)) }",
        "\",\" is missing before 'a'.",
    ),
    "too few arguments": (
        "ASK { FILTER(CONTAINS(?y⟦)⟧) }",
        "CONTAINS takes 2 arguments, not 1.",
    ),
    "comma in VALUES": (
        "ASK { VALUES ?x { 1⟦,⟧ 2 } }",
        "Separate the values with spaces.",
    ),
    "short row of VALUES": (
        "ASK { VALUES (?x ?y) { (1⟦)⟧ } }",
        "has 1 of 2 values.",
    ),
    "BIND without AS": (
        "ASK { BIND(3 ⟦?z⟧) }",
        "BIND has no name for the value. Write BIND(… AS ?name).",
    ),
    "ORDER without BY": (
        "SELECT ?x { ?x a ?y } ORDER ⟦?x⟧",
        "BY is missing after ORDER.",
    ),
    "DESC after the variable": (
        "SELECT ?x { ?x a ?y } ORDER BY ?x ⟦DESC⟧",
        "DESC has no expression in parentheses. Write ORDER BY DESC(?x).",
    ),
    "ORDER after LIMIT": (
        "SELECT ?x { ?x a ?y } LIMIT 10 ⟦ORDER⟧ BY ?x",
        "ORDER is at the wrong place. The order is GROUP BY, HAVING, ORDER BY, then LIMIT",
    ),
    "LIMIT without a number": (
        "SELECT ?x { ?x a ?y } LIMIT ⟦ten⟧",
        "LIMIT takes a whole number, not ten.",
    ),
    "open text": (
        "ASK { ?x rdfs:label ⟦'⟧abc }",
        "the text that begins here has no closing quote.",
    ),
    "quote inside a text": (
        "ASK { ?x rdfs:label 'it'⟦s⟧' }",
        "Write \\' for a quote inside",
    ),
    "typographic quotes": (
        "ASK { ?x rdfs:label ⟦“⟧abc” }",
        '“ is not a quote of SPARQL. Write " instead.',
    ),
    "hyphen in a variable": (
        "ASK { ?x a ?my⟦-⟧var }",
        "Write ?my_var.",
    ),
    "FROM of SQL": (
        "SELECT * FROM ⟦runs⟧",
        "FROM takes the IRI of a graph.",
    ),
    "Turtle prefix": (
        "⟦@prefix⟧ e: <urn:e:> . ASK { ?x a e:a }",
        "@prefix is Turtle. Write PREFIX without @",
    ),
    "dot after a prefix": (
        "PREFIX e: <urn:e:>⟦.⟧ ASK { ?x a e:a }",
        'unexpected "." after a prefix.',
    ),
    "prefix without a colon": (
        "PREFIX ⟦e⟧ <urn:e:> ASK { ?x a e:a }",
        "Write a colon after it: PREFIX e: <…>.",
    ),
    "variable that is not grouped": (
        "SELECT ⟦?y⟧ (MAX(?x) AS ?m) { ?x a ?y }",
        "?y is neither in GROUP BY nor in an aggregate. Add GROUP BY ?y",
    ),
    "variable twice": (
        "SELECT ?x ⟦?x⟧ { ?x a ?y }",
        "SELECT has ?x twice.",
    ),
    "aggregate in FILTER": (
        "SELECT ?x { ?x a ?y FILTER(⟦COUNT⟧(?x) > 1) }",
        "HAVING",
    ),
    "BIND of a used variable": (
        "ASK { ?x a ?y BIND(1 AS ⟦?y⟧) }",
        "BIND assigns ?y, which",
    ),
    "invalid IRI": (
        "ASK { ?x a ⟦<http://[a>⟧ }",
        "<http://[a> is not a valid IRI.",
    ),
    "unknown escape": (
        "ASK { ?x a ⟦'a\\q'⟧ }",
        "the text has an unknown escape.",
    ),
    "variable in a path": (
        "ASK { ?x a/⟦?p⟧ ?y }",
        "a path of properties cannot have a variable.",
    ),
}
"""Queries with the part that has to be marked in brackets, and a part of the message."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_marked_and_explained(name: str):
    marked, message = MISTAKES[name]
    start, end = marked.index("⟦"), marked.index("⟧") - 1
    sparql = marked.replace("⟦", "").replace("⟧", "")
    error = error_of(sparql)
    assert error.excerpt == f"  {sparql}\n  {' ' * start}{'^' * (end - start)}"
    assert message in str(error)
    assert str(error).startswith(f"Invalid query at line 1, column {start + 1}: ")


def test_the_line_of_the_mistake_is_shown():
    error = error_of("SELECT ?x {\n  ?x a provml:Model ;\n     rdfs:label ?l\n\t?y a provml:Model\n}\n")
    assert (error.line, error.column) == (4, 2)
    assert error.excerpt == "   ?y a provml:Model\n   ^^"


def test_an_open_brace_of_several_is_the_inner_one():
    error = error_of("SELECT ?x {\n  ?x a ?y\n  OPTIONAL { ?x a ?z\n}\n")
    assert (error.line, error.column) == (1, 11)
    assert "is not closed" in error.reason


def test_a_long_line_is_cut_around_the_mistake():
    error = error_of("ASK { " + "?x a ?y . " * 40 + "FITLER(?x) " + "?x a ?y . " * 40 + "}")
    text, mark = error.excerpt.split("\n")
    assert len(text) <= MAX_EXCERPT + 4
    assert text[mark.index("^") :].startswith("FITLER(")
    assert text.strip().startswith("…")
    assert text.endswith("…")


def test_the_mark_is_below_the_mistake_after_wide_characters():
    error = error_of("ASK { ?x rdfs:label '学習' FITLER(1) }")
    text, mark = error.excerpt.split("\n")
    before = text[: text.index("FITLER")]
    assert mark.index("^") == sum(2 if unicodedata.east_asian_width(char) == "W" else 1 for char in before)


@given(st.text("SELECT?x{}()<>'\". ;,#\nWHERE:a1=&|\t\r-学", max_size=40))
def test_every_text_has_a_message(sparql: str):
    error = diagnose(sparql, "error at 1:1: expected SELECT")
    assert error.reason
    assert "\r" not in error.excerpt
    assert error.line is None or 1 <= error.line <= sparql.count("\n") + 1


def test_an_update_is_refused_with_advice():
    for sparql in ("INSERT DATA { <urn:a:b> <urn:a:b> 1 }", "# x\nPREFIX e: <urn:e:>\nDELETE WHERE { ?s ?p ?o }"):
        assert "a query cannot change the data" in str(error_of(sparql))


@pytest.mark.parametrize("timeout", [None, 60.0], ids=["here", "in a process of its own"])
def test_the_store_raises_the_error_with_its_place(tmp_path: Path, timeout: float | None):
    with provml.open(tmp_path, create=True) as store, pytest.raises(QueryError) as caught:
        store.query("SELECT ?x\nWHER { ?x a provml:Model }", timeout=timeout)
    assert (caught.value.line, caught.value.column) == (2, 1)
    assert str(caught.value).endswith("Did you mean WHERE?\n  WHER { ?x a provml:Model }\n  ^^^^")


def test_the_error_of_a_question_names_its_file(tmp_path: Path):
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "u1.rq").write_text("#+ id: u1\n#+ summary: A question?\nSELECT ?x, ?y { ?x a ?y }\n")
    with provml.open(tmp_path, create=True) as store, pytest.raises(QueryError) as caught:
        store.ask("u1")
    assert f"{tmp_path / 'queries' / 'u1.rq'}: invalid query at line 3, column 10: " in str(caught.value)
    assert caught.value.excerpt == "  SELECT ?x, ?y { ?x a ?y }\n           ^"
