"""Labels, and the code in definitions and examples, are correct; `test_owl.py` reasons over the examples."""

from __future__ import annotations

import re

import pyoxigraph as ox
import pytest

from .helpers import EXAMPLE, FILES, FOLDER, LABEL, PREFIXES, TYPE, parse_snippet, read, snippets

TEXTS = {EXAMPLE.value, "http://www.w3.org/2004/02/skos/core#definition", "http://purl.org/dc/terms/description"}
PROPERTIES = {f"http://www.w3.org/2002/07/owl#{kind}" for kind in ("ObjectProperty", "DatatypeProperty")}
DEFINED_HERE = [prefix for prefix in PREFIXES if prefix not in {"rdfs", "xsd"}]


@pytest.fixture(scope="module")
def triples() -> list[ox.Triple]:
    return [triple for file in FILES for triple in read(file)]


@pytest.mark.parametrize("module", ["prov-o", "mls"])
def test_terms_of_w3c_keep_their_labels(module: str) -> None:
    """In PROV-O, and wherever MLS has a label, the label is the local name."""
    labels = {t.subject.value: t.object.value for t in read(FOLDER / f"{module}.ttl") if t.predicate == LABEL}
    assert labels
    assert {term: label for term, label in labels.items() if term.partition("#")[2] != label} == {}


def test_every_term_in_a_text_exists(triples: list[ox.Triple]) -> None:
    """Check the literals and the comments of the files."""
    texts = {triple.subject.value: triple.object.value for triple in triples if triple.predicate.value in TEXTS}
    comments = {file.name: "\n".join(re.findall("^ *#.*", file.read_text("utf-8"), re.MULTILINE)) for file in FILES}
    terms = {
        triple.subject.value
        for triple in triples
        if triple.predicate == TYPE and isinstance(triple.subject, ox.NamedNode)
    }
    unknown = {
        (place, f"{prefix}:{name}")
        for place, text in {**texts, **comments}.items()
        for prefix, name in re.findall(rf"\b({'|'.join(DEFINED_HERE)}):(\w+)", text)
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


def test_snippet_of_a_property_uses_the_property(triples: list[ox.Triple]) -> None:
    turtle = snippets(*FILES)
    properties = {t.subject for t in triples if t.predicate == TYPE and t.object.value in PROPERTIES}
    used = {
        term: {t.predicate for t in parse_snippet(turtle[term], "https://example.org/")}
        for term in properties & turtle.keys()
    }
    assert {term.value for term, predicates in used.items() if term not in predicates} == set()
