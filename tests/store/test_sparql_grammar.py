"""The grammar of SPARQL: what the engine accepts is accepted, and variables and names are classified by their use."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from provml import paths
from provml.catalog import Catalog
from provml.rdf.namespaces import PREFIXES, PROVML
from provml.store.query_guard import MAX_DEPTH
from provml.store.sparql_grammar import SyntaxFailure, parse
from provml.store.sparql_tokens import END, tokenize

HAND_WRITTEN = [
    "SELECT * { ?s ?p [] , [ a ?x ] ; a (1 2 (3)) . [] ?q 'x'@en . [ ?a ?b ] . () ?r -1.5e3, .5, +2, 1. }",
    "CONSTRUCT WHERE { ?s ?p ?o } LIMIT 3 OFFSET 2",
    "CONSTRUCT { ?s ?p ?o . } FROM <urn:g:h> WHERE { ?s ?p ?o } ORDER BY ?s",
    "DESCRIBE ?x <urn:a:b> WHERE { ?x a ?y } ORDER BY DESC(?x)",
    "DESCRIBE <urn:a:b>",
    "ASK FROM <urn:g:h> FROM NAMED <urn:g:i> { GRAPH ?g { ?s ?p ?o } }",
    """SELECT (GROUP_CONCAT(DISTINCT ?x ; SEPARATOR=', ') AS ?y) (COUNT(DISTINCT *) AS ?c) {
         ?x ^a/!(rdf:type|^rdfs:label)|(a)? ?z MINUS { ?x a ?q }
       } GROUP BY (?z+1 AS ?k) STR(?q) HAVING(COUNT(*)>1) (1=1) ORDER BY ASC(?k) ?z
       VALUES (?k ?z) { (1 UNDEF) (<urn:a:b> 'c'^^xsd:string) }""",
    """SELECT ?x { ?x a ?y FILTER(?x IN () || ?y NOT IN (1, 2) && !BOUND(?x) || -?x*+3/2 >= xsd:integer('3'))
         BIND(IF(?x, 1, COALESCE(1)) AS ?z) FILTER EXISTS { ?x a ?y } FILTER NOT EXISTS {} FILTER REGEX(?x, 'a') }""",
    """PREFIX : <urn:e:> BASE <http://e/> SELECT DISTINCT ?x {
         ?x :a.b <rel> ; . {} UNION {} OPTIONAL { ?x :p 'a','b' , '''c'd''' }
         LATERAL { SELECT * { ?x ?y ?z } VALUES ?u { 1 } } } # the end""",
    "SELECT * { <<( ?s ?p ?o )>> ?q ?r . << ?s ?p ?o >> ?a ?b . ?s ?p ?o ~ ?r {| ?x ?y |} }",
    "select ?x { ?x a ?y } orderby ?x",
    "SELECT ?x { ?x a ?y FILTER NOTEXISTS { ?x a ?z } } GROUPBY ?x",
    "SELECT ?x { VALUES ?x { 1 'a' <urn:a:b> rdf:type UNDEF true } }",
]
ENGINE = ox.Store()


def required_values(query: Any) -> dict[str, Any]:
    examples = {"integer": 1, "double": 1, "iri": "http://example.org/x", "string": "x"}
    return {
        name: examples[param.type] if param.example is None else param.example
        for name, param in query.params.items()
        if param.required
    }


@cache
def queries() -> list[str]:
    """Return all queries of the catalog and of the shapes, and some that use the rest of the grammar."""
    catalog = Catalog()
    texts = [catalog[name].bind(required_values(catalog[name])) for name in catalog]
    for path in paths.shapes().rglob("*.ttl"):
        texts += re.findall(r'sh:(?:select|ask) """(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    return texts + HAND_WRITTEN


def is_accepted_by_engine(sparql: str) -> bool:
    try:
        ENGINE.query(sparql, prefixes=PREFIXES)
    except SyntaxError:
        return False
    except (RuntimeError, OSError, ValueError):  # it was parsed, and failed later
        return True
    return True


def is_accepted(sparql: str) -> bool:
    try:
        parse(sparql, PREFIXES)
    except SyntaxFailure:
        return False
    return True


def test_all_queries_of_the_catalog_and_the_shapes_are_accepted():
    assert len(queries()) > 60
    assert [sparql for sparql in queries() if not is_accepted(sparql)] == []


@pytest.mark.parametrize("sparql", HAND_WRITTEN)
def test_the_hand_written_queries_are_accepted_by_the_engine(sparql: str):
    assert is_accepted_by_engine(sparql)


@given(data=st.data())
@settings(max_examples=examples(400), deadline=None)
def test_a_changed_query_is_accepted_wherever_the_engine_accepts_it(data: st.DataObject):
    short = [sparql for sparql in queries() if len(sparql) < 2000]
    sparql = data.draw(st.sampled_from(short))
    tokens = tokenize(sparql)[:-1]
    token = data.draw(st.sampled_from(tokens))
    other = data.draw(st.sampled_from(tokenize(data.draw(st.sampled_from(short)))[:-1]))
    middle = {"remove": "", "replace": other.text, "insert": f"{other.text} {token.text}"}
    text = middle[data.draw(st.sampled_from(sorted(middle)))]
    changed = f"{sparql[: token.start]} {text} {sparql[token.end :]}"
    if is_accepted_by_engine(changed):
        assert is_accepted(changed), changed


@given(st.text(max_size=60) | st.text("?$x:<>{}()[]'\"\\.;,#@^_-1 \n", max_size=60))
def test_tokens_cover_the_text(sparql: str):
    tokens = tokenize(sparql)
    assert tokens[-1].kind == END
    end = 0
    for token in tokens:
        between = sparql[end : token.start]
        assert re.fullmatch(r"(?:\s|#[^\n\r]*)*", between), between
        assert sparql[token.start : token.end] == token.text
        end = token.end


def test_each_use_of_a_variable_has_its_role():
    sparql = """SELECT ?a (1 AS ?b) {
                  ?c ?d ?e . GRAPH ?f { VALUES ?g { 1 } } FILTER(?h > 1 && BOUND(?i)) BIND(2 AS ?j)
                } GROUP BY ?k ORDER BY ?l"""
    uses = {use.name: use for use in parse(sparql, PREFIXES).variables}
    assert {name: use.role for name, use in uses.items()} == {
        "a": "projection",
        "b": "assigned",
        "c": "subject",
        "d": "property",
        "e": "object",
        "f": "graph",
        "g": "assigned",
        "h": "expression",
        "i": "bound",
        "j": "assigned",
        "k": "condition",
        "l": "condition",
    }
    assert sparql[uses["i"].start : uses["i"].end] == "BOUND(?i)"


def test_names_and_iris_are_terms_with_their_iri_and_texts_are_not():
    sparql = "PREFIX p: <https://w3id.org/provml#> ASK { ?x a p:Model ; p:a\\.b 'p:c' ; <urn:a:b> 'x'^^p:d } # p:e"
    terms = {token.text: iri for token, iri in parse(sparql, PREFIXES).terms}
    assert terms == {
        "p:Model": f"{PROVML}Model",
        "p:a\\.b": f"{PROVML}a.b",
        "<urn:a:b>": "urn:a:b",
        "p:d": f"{PROVML}d",
    }


def test_a_variable_after_limit_is_accepted_only_where_a_value_will_replace_it():
    sparql = "SELECT ?x { ?x a ?y } LIMIT ?n"
    assert [use.role for use in parse(sparql, PREFIXES, count_variables=True).variables][-1] == "count"
    with pytest.raises(SyntaxFailure):
        parse(sparql, PREFIXES)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("STR(", ")"), ("EXISTS { FILTER(", ") }")],
    ids=["parentheses", "calls", "EXISTS"],
)
def test_nesting_as_deep_as_the_guard_allows_is_read(opening: str, closing: str):
    depth = MAX_DEPTH // (opening.count("(") + opening.count("{")) - 2
    sparql = f"ASK {{ FILTER({opening * depth}1{closing * depth}) }}"
    assert is_accepted_by_engine(sparql)
    assert is_accepted(sparql)


def test_deeper_nesting_is_a_failure_and_no_crash():
    with pytest.raises(SyntaxFailure) as caught:
        parse(f"ASK {{ FILTER({'(' * 5000}1{')' * 5000}) }}", PREFIXES)
    assert caught.value.context == "nesting"


def test_comparisons_are_not_chained():
    assert not is_accepted_by_engine("ASK { FILTER(1 < 2 < 3) }")
    assert not is_accepted("ASK { FILTER(1 < 2 < 3) }")
    assert is_accepted("ASK { FILTER(1 < 2 && 2 < 3 || (1 < 2) = (2 < 3)) }")
