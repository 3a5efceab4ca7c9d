"""The redirect rules for w3id.org: the IRIs of ontologies, modules, shapes and versions lead to files that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "ontologies" / "w3id"
PAGES = "reference/vocabulary/index.html"
MERGED = {"ontologies/provml.owl", "ontologies/provml.jsonld", "ontologies/provml-merged.ttl"}
"""Files that `provml ontology` writes, see the page about the rules."""
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PROTEGE = "application/rdf+xml, application/xml; q=0.7, text/xml; q=0.6, text/plain; q=0.1, */*; q=0.09"


def redirect(iri: str, accept: str) -> str:
    """Return the path below the site that Apache's mod_rewrite redirects an IRI to."""
    folder, _, rest = iri.partition("#")[0].removeprefix("https://w3id.org/").partition("/")
    conditions: list[tuple[bool, bool]] = []
    for line in (RULES / folder / ".htaccess").read_text().splitlines():
        if condition := re.match(r"RewriteCond %\{HTTP_ACCEPT\} (!?)(\S+)( \[OR\])?$", line):
            negated, pattern, is_or = condition.groups()
            conditions.append(((re.search(pattern, accept) is not None) != bool(negated), bool(is_or)))
        elif rule := re.match(r"RewriteRule (\S+) https://SITE/(\S+) \[R=303,L\]$", line):
            is_met = _combine(conditions)
            conditions = []
            if (match := re.search(rule[1], rest)) and is_met:
                return re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", rule[2])
        else:
            assert not line or line.startswith(("#", "Options ", "RewriteEngine ")), line
    raise AssertionError(f"no rule for {iri}")


def _combine(conditions: list[tuple[bool, bool]]) -> bool:
    """Combine conditions as Apache does: all must hold, those before an [OR] together with the next."""
    groups: list[list[bool]] = [[]]
    for is_met, is_or in conditions:
        groups[-1].append(is_met)
        if not is_or:
            groups.append([])
    return all(any(group) for group in groups if group)


def ontology_iris() -> Iterator[str]:
    """Yield the IRI and the version IRI of each ontology file."""
    for path in sorted((ROOT / "ontologies").rglob("*.ttl")):
        for quad in ox.parse(path=path, format=ox.RdfFormat.TURTLE):
            if quad.predicate.value.endswith("#versionIRI"):
                yield quad.subject.value
                yield quad.object.value


def test_every_ontology_has_a_version_iri():
    assert len(list(ontology_iris())) == 2 * len(list((ROOT / "ontologies").rglob("*.ttl")))


@pytest.mark.parametrize("accept", ["text/turtle", PROTEGE, "*/*", ""])
def test_programs_get_the_file_of_an_ontology(accept: str):
    for iri in ontology_iris():
        target = redirect(iri, accept)
        declared = {quad.subject.value for quad in ox.parse(path=ROOT / target, format=ox.RdfFormat.TURTLE)}
        assert re.sub(r"/[0-9.]+$", "", iri) in declared, f"{iri} leads to {target}"


@pytest.mark.parametrize("name", ["provml", "provml-dl", "provlake"])
def test_browsers_get_the_page_of_the_vocabulary(name: str):
    assert redirect(f"https://w3id.org/{name}#Model", BROWSER) == PAGES
    assert (ROOT / "docs" / PAGES).with_suffix(".md").is_file()


def test_shapes_context_and_merged_file_have_a_place():
    assert redirect("https://w3id.org/provml/context", "application/ld+json") == "ontologies/context.jsonld"
    page = redirect("https://w3id.org/provml/shape/stage-without-end", BROWSER)
    assert (ROOT / "docs" / page).with_suffix(".md").is_file()
    kinds = {
        accept: redirect("https://w3id.org/provml/merged", accept) for accept in (PROTEGE, "application/ld+json", "*/*")
    }
    assert set(kinds.values()) == MERGED
