"""Rewriting for Oxigraph: the rewritten text has the answer of the plain text, or the text is left as it is."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from provml.catalog import rewrite

NODES = [ox.NamedNode(f"http://example.org/{name}") for name in "abcd"]
PREDICATES = [ox.NamedNode(f"http://example.org/{name}") for name in "pqr"]
VARIABLES = ("?x", "?y", "?z", "?w")
PREFIX = "PREFIX : <http://example.org/>\n"


def rows(store: ox.Store, sparql: str) -> list[str]:
    solutions = store.query(sparql)
    assert isinstance(solutions, ox.QuerySolutions)
    return sorted(str([str(term) for term in row]) for row in solutions)


@st.composite
def triples(draw: st.DrawFn) -> str:
    paths = (":p", ":q", ":r", ":p/:q", ":p|:q", "^:p", ":p?", ":p+", "(:p/:q)*", "^:q/:r")
    subject = draw(st.sampled_from([*VARIABLES, ":a"]))
    objects = draw(st.lists(st.sampled_from([*VARIABLES, ":b", "1"]), min_size=1, max_size=2))
    lists = [f"{draw(st.sampled_from(paths))} {' , '.join(objects)}"]
    if draw(st.booleans()):
        lists.append(f"{draw(st.sampled_from(paths))} {draw(st.sampled_from(VARIABLES))}")
    return f"{subject} {' ; '.join(lists)} ."


@st.composite
def groups(draw: st.DrawFn, depth: int = 0) -> str:
    parts = [draw(triples())]
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["triples", "filter", "exists", "values"] if depth > 1 else ALL_KINDS))
        parts.append(draw(ELEMENTS[kind](depth)))
    return " ".join(parts)


def nested(depth: int) -> st.SearchStrategy[str]:
    return groups(depth + 1)


ELEMENTS = {
    "triples": lambda depth: triples(),
    "filter": lambda depth: st.sampled_from(
        ["FILTER(?x != ?y)", "FILTER(BOUND(?z))", "FILTER(!BOUND(?w) || ?w != :a)", "FILTER(?z = 1)"]
    ),
    "exists": lambda depth: triples().map(lambda text: f"FILTER NOT EXISTS {{ {text} }}"),
    "values": lambda depth: st.sampled_from(
        ["VALUES ?x { :a :b }", "VALUES ?y { UNDEF }", "VALUES (?x ?z) { (:a UNDEF) (:b 1) }"]
    ),
    "bind": lambda depth: st.integers(0, 99).map(lambda number: f"BIND(COALESCE(?x, :d) AS ?b{number})"),
    "optional": lambda depth: nested(depth).map(lambda text: f"OPTIONAL {{ {text} }}"),
    "union": lambda depth: st.tuples(nested(depth), nested(depth)).map(
        lambda pair: f"{{ {pair[0]} }} UNION {{ {pair[1]} }}"
    ),
    "minus": lambda depth: nested(depth).map(lambda text: f"MINUS {{ {text} }}"),
    "select": lambda depth: nested(depth).map(
        lambda text: f"{{ SELECT ?x (COUNT(?y) AS ?n{depth}) WHERE {{ {text} }} GROUP BY ?x }}"
    ),
    "limited": lambda depth: nested(depth).map(
        lambda text: f"{{ SELECT ?x ?y WHERE {{ {text} }} ORDER BY ?x ?y ?z ?w LIMIT 1 }}"
    ),
}
ALL_KINDS = list(ELEMENTS)


@settings(max_examples=examples(300), deadline=None)
@given(
    data=st.lists(
        st.tuples(
            st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from([*NODES, ox.Literal(1), ox.Literal(2)])
        ),
        max_size=12,
    ),
    group=groups(),
)
def test_the_answer_does_not_change(data: list[tuple[ox.NamedNode, ox.NamedNode, ox.NamedNode]], group: str):
    store = ox.Store()
    store.extend(ox.Quad(*triple) for triple in data)
    plain = f"{PREFIX}SELECT ?x ?y ?z ?w WHERE {{ {group} }}"
    try:
        expected = rows(store, plain)
    except SyntaxError:  # a variable that BIND would bind twice
        return
    assert rows(store, rewrite(plain)) == expected


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("?a :p ?b . ?b :q ?c .", "?a :p ?b . ?b :q ?c ."),  # the engine orders what is connected to nothing
        (
            "?a :p ?b OPTIONAL { ?b :q ?c . ?c :r ?d }",
            "?a :p ?b . LATERAL { OPTIONAL { ?b :q ?c . LATERAL { ?c :r ?d . } } }",
        ),
        ("?a :p+ ?b . ?b :q ?c", "?a :p+ ?b . LATERAL { ?b :q ?c . }"),
        ("OPTIONAL { ?a :p ?b } ?b :q ?c", "OPTIONAL { ?a :p ?b . } ?b :q ?c ."),  # ?b may be unbound
        ("?a :p ?b . FILTER(?b > 1) ?b :q ?c", "{ ?a :p ?b . FILTER(?b > 1) } LATERAL { ?b :q ?c . }"),
        (
            "?a :p ?b . { SELECT ?b WHERE { ?b :q ?c } LIMIT 1 }",
            "?a :p ?b . { SELECT ?b WHERE { ?b :q ?c . } LIMIT 1 }",
        ),
        ("VALUES ?a { UNDEF } ?a :p ?b", "?a :p ?b ."),
    ],
)
def test_statements_are_evaluated_in_the_order_of_the_text(plain: str, expected: str):
    assert rewrite(f"SELECT ?a WHERE {{ {plain} }}") == f"SELECT ?a WHERE {{ {expected} }}"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * WHERE { ?a :p ?b OPTIONAL { ?b :q ?c } }",  # would show the variables of paths
        "SELECT ?a WHERE { ?a :p [ :q ?c ] }",
        "SELECT ?a WHERE { GRAPH ?g { ?a :p ?b } }",
        "SELECT ?a WHERE { SERVICE <http://example.org/> { ?a :p ?b } }",
        "SELECT ?a WHERE { ?a :p ?b LATERAL { ?b :q ?c } }",
        "SELECT ?a WHERE { ?a :p ?b ",
        "not SPARQL",
        "",
    ],
)
def test_what_is_not_understood_is_left_as_it_is(text: str):
    assert rewrite(text) == text
