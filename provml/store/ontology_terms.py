"""The terms of the ontologies, and similar ones for a misspelt name."""

from __future__ import annotations

import difflib
from functools import cache

import pyoxigraph as ox

from provml import paths
from provml.rdf.namespaces import MLS, PREFIXES, PROV, PROVLAKE, PROVML, RDF, RDF_TYPE, RDFS

NAMESPACES = {
    PROVML: "the ontology",
    PROVLAKE: "the ontology",
    PROV: "PROV-O",
    MLS: "ML Schema",
    RDF: "RDF",
    RDFS: "RDF Schema",
}
"""Namespaces whose terms are defined here, with the name of what defines them; users mint terms in others."""
RDF_TERMS = (
    *("type", "Property", "Statement", "subject", "predicate", "object", "reifies", "Bag", "Seq", "Alt", "value"),
    *("List", "first", "rest", "nil", "langString", "dirLangString", "PlainLiteral", "HTML", "XMLLiteral", "JSON"),
    *("CompoundLiteral", "language", "direction"),
)
RDFS_TERMS = (
    *("Resource", "Class", "Literal", "Datatype", "Container", "ContainerMembershipProperty", "domain", "range"),
    *("subClassOf", "subPropertyOf", "label", "comment", "member", "seeAlso", "isDefinedBy"),
)
MAX_SUGGESTIONS = 2
MIN_SIMILARITY = 0.75


@cache
def ontology_terms() -> frozenset[str]:
    """Return the IRIs of all classes, properties and individuals in the namespaces."""
    terms = {RDF + name for name in RDF_TERMS} | {RDFS + name for name in RDFS_TERMS}
    for path in sorted(paths.ontologies().glob("*.ttl")):
        for quad in ox.parse(path=str(path), format=ox.RdfFormat.TURTLE):
            if isinstance(quad.subject, ox.NamedNode) and quad.predicate.value == RDF_TYPE:
                terms.add(quad.subject.value)
    return frozenset(term for term in terms if namespace_of(term))


def namespace_of(iri: str) -> str:
    """Return which of the namespaces an IRI is in, or an empty text."""
    return next((namespace for namespace in NAMESPACES if iri.startswith(namespace) and iri != namespace), "")


def abbreviate(iri: str) -> str:
    """Return the prefixed name of an IRI, if one of the usual prefixes fits."""
    for prefix, namespace in PREFIXES.items():
        if iri.startswith(namespace) and iri != namespace:
            return f"{prefix}:{iri[len(namespace) :]}"
    return f"<{iri}>"


def similar(name: str, namespace: str = "") -> list[str]:
    """Return the prefixed names of terms with the same local name, or else of similar ones; the namespace's first."""
    by_name: dict[str, list[str]] = {}
    for term in sorted(ontology_terms(), key=lambda iri: (not iri.startswith(namespace), iri)):
        by_name.setdefault(_local(term).casefold(), []).append(term)
    keys = [key for key, iris in by_name.items() if iris[0].startswith(namespace)]
    exact = by_name.get(name.casefold(), [])
    close = (
        difflib.get_close_matches(name.casefold(), candidates, MAX_SUGGESTIONS, MIN_SIMILARITY)
        for candidates in (keys, list(by_name))
    )
    iris = exact or [by_name[key][0] for key in next(filter(None, close), [])]
    return [abbreviate(iri) for iri in iris[:MAX_SUGGESTIONS]]


def _local(iri: str) -> str:
    return iri.rpartition("#")[2]
