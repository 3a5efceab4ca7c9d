"""What the definitions and examples of the ontologies say in code is true; `test_owl.py` reasons over the examples."""

from __future__ import annotations

import re

import pyoxigraph as ox
import pytest

from .files import EXAMPLE, FILES, PREFIXES, TYPE, parse_snippet, read, snippets

WORDS = {EXAMPLE.value, "http://www.w3.org/2004/02/skos/core#definition", "http://purl.org/dc/terms/description"}
PROPERTIES = {f"http://www.w3.org/2002/07/owl#{kind}" for kind in ("ObjectProperty", "DatatypeProperty")}
OURS = [prefix for prefix in PREFIXES if prefix not in {"rdfs", "xsd"}]


@pytest.fixture(scope="module")
def triples() -> list[ox.Triple]:
    return [triple for file in FILES for triple in read(file)]


def test_every_term_that_is_named_exists(triples: list[ox.Triple]) -> None:
    """Both in the literals and in the comments of the files."""
    texts = {triple.subject.value: triple.object.value for triple in triples if triple.predicate.value in WORDS}
    comments = {file.name: "\n".join(re.findall("^ *#.*", file.read_text("utf-8"), re.MULTILINE)) for file in FILES}
    terms = {
        triple.subject.value
        for triple in triples
        if triple.predicate == TYPE and isinstance(triple.subject, ox.NamedNode)
    }
    unknown = {
        (place, f"{prefix}:{name}")
        for place, text in {**texts, **comments}.items()
        for prefix, name in re.findall(rf"\b({'|'.join(OURS)}):(\w+)", text)
        if PREFIXES[prefix] + name not in terms
    }
    assert unknown == set()


def test_every_snippet_parses() -> None:
    faults = {}
    for term, turtle in snippets(*FILES).items():
        try:
            parse_snippet(turtle, "https://example.org/")
        except SyntaxError as error:
            faults[term.value] = str(error)
    assert faults == {}


def test_a_snippet_about_a_property_uses_it(triples: list[ox.Triple]) -> None:
    found = snippets(*FILES)
    properties = {t.subject for t in triples if t.predicate == TYPE and t.object.value in PROPERTIES}
    used = {
        term: {t.predicate for t in parse_snippet(found[term], "https://example.org/")}
        for term in properties & found.keys()
    }
    assert {term.value for term, predicates in used.items() if term not in predicates} == set()
