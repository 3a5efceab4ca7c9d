"""Bindings of a query: a variable is replaced by an RDF term wherever SPARQL allows one, and text stays text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provml
from provml import IRI, Text
from provml.answers import Answer
from provml.errors import InvalidParameter, QueryError, ServiceNotAllowed
from provml.rdf.namespaces import PREFIXES
from provml.store import Store
from provml.store.query_bindings import bind
from provml.vocab import Study

EX = "http://example.org/"
GRAPH = """@prefix : <http://example.org/> .
:a :rank 1 ; :name "Ann" ; :knows :b . :b :rank 2 ; :name "Bob" . :c :rank 3 ; :name "Ann" ."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("bindings")
    (folder / "graph.ttl").write_text(GRAPH)
    with provml.open(folder / "home", create=True) as store:
        store.load(folder / "graph.ttl")
        yield store


def rows(store: Store, sparql: str, bindings: Mapping[str, Any], **options: Any) -> list[tuple[Any, ...]]:
    answer = store.query(f"PREFIX : <{EX}> {sparql}", bindings=bindings, **options)
    assert isinstance(answer, Answer)
    return [tuple(cell.removeprefix(EX) if isinstance(cell, IRI) else cell for cell in row) for row in answer]


A = IRI(f"{EX}a")


@pytest.mark.parametrize(
    ("sparql", "bindings", "expected"),
    [
        ("SELECT ?x { ?x :name $name } ORDER BY ?x", {"name": "Ann"}, [("a",), ("c",)]),
        ("SELECT ?x { ?x :name ?name } ORDER BY ?x", {"$name": "Ann"}, [("a",), ("c",)]),
        ("SELECT ?x ?name { ?x :name ?name } ORDER BY ?x", {"?name": "Ann"}, [("a", "Ann"), ("c", "Ann")]),
        ("SELECT ?n { $x :name ?n }", {"x": A}, [("Ann",)]),
        ("SELECT ?o { :a ?p ?o }", {"p": IRI(f"{EX}rank")}, [(1,)]),
        ("SELECT ?x { ?x :rank ?r FILTER(?r > ?min) } ORDER BY ?x", {"min": 1}, [("b",), ("c",)]),
        ("SELECT ?x { ?x :rank ?r FILTER(?r-?min>0) } ORDER BY ?x", {"min": -1.5}, [("a",), ("b",), ("c",)]),
        ("SELECT ?x { ?x :rank ?r FILTER NOT EXISTS { ?x :name ?n } } ORDER BY ?x", {"n": "Ann"}, [("b",)]),
        ("SELECT ?n ?c { { SELECT ?n (COUNT(*) AS ?c) { ?x :name ?n } GROUP BY ?n } }", {"n": "Ann"}, [("Ann", 2)]),
        ("SELECT ?c { { SELECT ?n (COUNT(*) AS ?c) { ?x :name ?n } GROUP BY ?n } }", {"n": "Ann"}, [(2,)]),
        ("SELECT * { { SELECT ?n { ?x :name ?n } } { SELECT ?n { ?y :name ?n } } }", {"n": "Bob"}, [("Bob",)]),
        ("SELECT ?n ?x { { SELECT ?n ?x { { SELECT ?n ?x { ?x :name ?n } } } } }", {"n": "Bob"}, [("Bob", "b")]),
        ("SELECT ?x { ?x :rank ?r } ORDER BY DESC(?r = ?v) ?v ?x", {"v": 2}, [("b",), ("a",), ("c",)]),
        ("SELECT ?x { ?x :rank ?r } ORDER BY ?x LIMIT $n OFFSET $m", {"n": 1, "m": 1}, [("b",)]),
        ("SELECT ?x { ?x :rank ?r FILTER(!BOUND(?v) || ?r = ?v) }", {"v": 2}, [("b",)]),
        ("SELECT ?x { ?x :rank ?r FILTER(?r IN (?v, ?w)) } ORDER BY ?x", {"v": 2, "w": 3}, [("b",), ("c",)]),
        ("SELECT ?x { VALUES ?r { $v 3 } ?x :rank ?r } ORDER BY ?x", {"v": 2}, [("b",), ("c",)]),
        ("SELECT ?x { ?x :rank ?r BIND(?v AS ?w) FILTER(?r = ?w) }", {"v": 2}, [("b",)]),
        ("SELECT ?x { { ?x :name ?n } UNION { ?x :knows ?y } }", {"n": "Bob", "y": IRI(f"{EX}b")}, [("b",), ("a",)]),
        ("SELECT ?x { ?x :knows*/:name ?n } ORDER BY ?x", {"n": "Bob"}, [("a",), ("b",)]),
        ("SELECT * { ?x :rank ?r }", {"x": A}, [(1,)]),
        ("SELECT ?x { ?x :name 'Ann', '$name' } # ?name $name\n", {"x": A}, []),
        ("SELECT ?x { ?x :name ?n }", {}, [("a",), ("b",), ("c",)]),
    ],
)
def test_a_variable_is_replaced_wherever_it_is_used(
    store: Store, sparql: str, bindings: Mapping[str, Any], expected: list[Any]
):
    assert sorted(rows(store, sparql, bindings)) == sorted(expected)


def test_values_are_typed_terms(store: Store):
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    values = [1, 1.5, True, "a", moment, A, Text("Hut", "de"), float("nan"), ox.Literal("x"), ox.NamedNode("urn:a:b")]
    expected = [1, 1.5, True, "a", moment, A, Text("Hut", "de"), float("nan"), "x", IRI("urn:a:b")]
    for value, cell in zip(values, expected, strict=True):
        [(result,)] = store.query("SELECT ?v {}", bindings={"v": value})  # type: ignore[misc]
        assert repr(result) == repr(cell)


def test_a_run_and_a_thing_stand_for_their_nodes(tmp_path: Path):
    with provml.record("flowers", home=tmp_path, strict=True, capture_environment=False):
        pass
    with provml.open(tmp_path) as store:
        run = store.run("latest")
        assert store.query("ASK { ?run provlake:status 'FINISHED' }", bindings={"run": run}) is True
        [(iri,)] = store.query("SELECT ?s {}", bindings={"s": Study(A)})  # type: ignore[misc]
        assert iri == A


def test_ask_construct_and_describe_take_bindings(store: Store):
    assert store.query("ASK { ?x ?p ?n }", bindings={"n": "Ann"}) is True
    assert store.query("ASK { ?x ?p ?n }", bindings={"n": "ann"}) is False
    answer = store.query("CONSTRUCT { ?x <urn:p:n> ?n } { ?x ?p ?n }", bindings={"n": "Bob"})
    assert isinstance(answer, Answer)
    assert answer.rows == [(IRI(f"{EX}b"), IRI("urn:p:n"), "Bob")]
    described = store.query("DESCRIBE ?x", bindings={"x": A})
    assert isinstance(described, Answer)
    assert len(described) == 3


def test_streams_and_queries_with_a_timeout_take_bindings(store: Store):
    stream = store.stream("SELECT ?x { ?x ?p ?n }", bindings={"n": "Bob"})
    assert not isinstance(stream, bool)
    with stream:
        assert [row[0] for row in stream] == [IRI(f"{EX}b")]
    assert rows(store, "SELECT ?x { ?x :name ?n }", {"n": "Bob"}, timeout=60) == [("b",)]


INJECTIONS = [
    'Ann" } UNION { ?x ?p ?o } #',
    "Ann' } ; DROP ALL #",
    'x"@en',
    'x"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"""',
    "'''",
    "\\",
    '\\"',
    "\\u0022 } SERVICE <http://evil/> { ?a ?b ?c }",
    "> } SERVICE <http://evil/> { ?a ?b ?c } #",
    "a\nb\r\tc\x00\x1b\x7f\u2028\ufeff😀",
    "?x",
    "$name",
    "<urn:a:b>",
    "",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_of_an_attacker_stays_text(store: Store, text: str):
    assert rows(store, "SELECT ?x { ?x :name ?name }", {"name": text}) == []
    assert rows(store, "SELECT ?t {}", {"t": text}) == [(text,)]
    assert rows(store, "SELECT ?x { ?x :rank ?r FILTER(STR(?r) = ?t) }", {"t": text}) == []


@given(st.text())
def test_every_text_is_one_literal(text: str):
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    sparql = bind("SELECT ?t { FILTER(?t = ?t) ?s ?p ?t }", {"t": text})
    [row] = ox.Store().query(bind("SELECT ?t {}", {"t": text}), prefixes=PREFIXES)  # type: ignore[misc]
    assert row[0].value == text
    assert bind(sparql, {"s": IRI("urn:a:b")}).count("urn:a:b") == text.count("urn:a:b") * 4 + 1


@pytest.mark.parametrize("iri", ["urn:a:b> } SERVICE <http://evil/> {", "a b", "http://e/{x}", "no scheme", ""])
def test_text_that_is_no_iri_cannot_become_one(iri: str):
    with pytest.raises(ValueError):
        IRI(iri)
    with pytest.raises(ValueError):
        ox.NamedNode(iri)


def test_service_stays_forbidden(store: Store):
    with pytest.raises(ServiceNotAllowed):
        store.query("SELECT * { SERVICE ?x { ?a ?b ?c } }", bindings={"x": IRI("http://evil/")})


@pytest.mark.parametrize(
    ("sparql", "bindings", "message"),
    [
        ("SELECT ?x { ?x ?p ?o }", {"nme": 1}, "bindings has 'nme', but the query has no variable ?nme"),
        ("SELECT ?x { ?x ?p ?name }", {"nam": 1}, "Did you mean ?name?"),
        ("SELECT ?x { ?x ?p ?o }", {"?o": 1, "$o": 2}, "bindings has 'o' twice"),
        (
            "SELECT ?x { ?x ?p ?o }",
            {"x": "a"},
            '?x is the subject of a triple, and "a" is not an IRI. Pass provml.IRI(…)',
        ),
        ("SELECT ?x { ?x ?p ?o }", {"p": 1}, "?p is a property, and"),
        ("SELECT ?x { GRAPH ?g { ?x ?p ?o } }", {"g": 1}, "?g is the name of a graph, and"),
        ("SELECT ?x { BIND(1 AS ?x) }", {"x": 1}, "the query assigns ?x itself"),
        ("SELECT (1 AS ?x) {}", {"x": 1}, "the query assigns ?x itself"),
        ("SELECT * { VALUES ?x { 1 } }", {"x": 1}, "the query assigns ?x itself"),
        ("SELECT * { ?s ?p ?o } LIMIT ?n", {"n": -1}, "LIMIT and OFFSET take a whole number, not"),
        ("SELECT * { ?s ?p ?o } LIMIT ?n", {"n": "1 } #"}, "LIMIT and OFFSET take a whole number, not"),
        ("SELECT ?x, ?y { ?x ?p ?y }", {"x": A}, "Separate them with spaces"),
        ("SELECT ?x { ?x ?p ?o }", [("x", 1)], "bindings is list. Pass a dictionary"),
    ],
)
def test_a_binding_that_does_not_fit_is_an_error(store: Store, sparql: str, bindings: Any, message: str):
    with pytest.raises(QueryError) as caught:
        store.query(sparql, bindings=bindings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "value", [["a", "b"], None, object(), {"a": 1}, "\ud800"], ids=["list", "None", "object", "dict", "surrogate"]
)
def test_a_value_that_rdf_does_not_have_is_an_error(store: Store, value: Any):
    with pytest.raises(InvalidParameter, match="o takes an IRI or a value that RDF has"):
        store.query("SELECT ?x { ?x ?p ?o }", bindings={"o": value})


def test_a_variable_without_a_binding_after_limit_is_an_error(store: Store):
    with pytest.raises(QueryError, match="LIMIT takes a whole number"):
        store.query("SELECT ?x { ?x ?p ?o } LIMIT ?n", bindings={"o": 1})
