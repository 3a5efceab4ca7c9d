"""Generate a JSON-LD context, so that a run exported as JSON has short names."""

from __future__ import annotations

import json
from collections.abc import Iterable

from provml.compiler.schema import Schema
from provml.compiler.sources import Source, split
from provml.rdf.namespaces import RDF, RDFS, XSD

PLAIN = (None, XSD + "string", RDF + "langString", RDF + "PlainLiteral")
"""Datatypes of JSON strings without a type in the context."""


def context(schema: Schema, sources: Iterable[Source], origin: str) -> str:
    """Return the context of some sources; of two terms with the same local name, that of the later source wins.

    A term with the name of a prefix or of a keyword of the context has no short name, only one with its prefix.
    """
    sources = list(sources)
    keywords: dict[str, object] = {
        "@version": 1.1,
        "id": "@id",
        "type": "@type",
        "label": RDFS + "label",
        "comment": RDFS + "comment",
    }
    prefixes = {name: _prefix(iri) for source in sources for name, iri in source.prefixes.items() if name}
    terms: dict[str, object] = {}
    for source in sources:
        for cls in schema.classes.values():
            if cls.source is source and not cls.deprecated:
                terms[split(cls.iri)[1]] = cls.iri
        for prop in schema.properties.values():
            if prop.source is source and not prop.deprecated:
                terms[split(prop.iri)[1]] = _property(prop.iri, prop.is_object, prop.data.datatype)
    short = {name: term for name, term in sorted(terms.items()) if name and name[0] != "@"}
    entries = {**short, **dict(sorted(prefixes.items())), **keywords}
    ordered = {name: entries[name] for name in (*keywords, *sorted(prefixes.keys() - keywords), *short)}
    key = "_generated_by"  # outside the context, where JSON-LD processors ignore it
    while key in ordered:
        key = f"_{key}"
    return json.dumps({key: origin, "@context": ordered}, indent=2, ensure_ascii=False) + "\n"


def _prefix(iri: str) -> object:
    """Return a prefix for JSON-LD, which needs `@prefix` if the IRI does not end with a delimiter."""
    return iri if iri.endswith(tuple(":/?#[]@")) else {"@id": iri, "@prefix": True}


def _property(iri: str, is_object: bool, datatype: str | None) -> object:
    if is_object:
        return {"@id": iri, "@type": "@id"}
    return iri if datatype in PLAIN else {"@id": iri, "@type": datatype}
