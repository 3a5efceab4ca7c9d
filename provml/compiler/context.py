"""A schema as a JSON-LD context, so that a run exported as JSON reads with short names."""

from __future__ import annotations

import json
from collections.abc import Iterable

from provml.compiler.schema import Schema
from provml.compiler.source import RDF, RDFS, XSD, Source, split

PLAIN = (None, XSD + "string", RDF + "langString", RDF + "PlainLiteral")
"""Datatypes that a JSON value needs no word about."""


def context(schema: Schema, sources: Iterable[Source], origin: str) -> str:
    """The context of some sources; of two terms with the same local name, the later source's has it.

    A term called like a prefix or like one of the context's own words has no short name: its prefix names it.
    """
    sources = list(sources)
    own: dict[str, object] = {
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
    listed = {**short, **dict(sorted(prefixes.items())), **own}
    ordered = {name: listed[name] for name in (*own, *sorted(prefixes.keys() - own), *short)}
    key = "_generated_by"  # beside the context, and no term of it: processors that read the file leave it alone
    while key in ordered:
        key = f"_{key}"
    return json.dumps({key: origin, "@context": ordered}, indent=2, ensure_ascii=False) + "\n"


def _prefix(iri: str) -> object:
    """A prefix as JSON-LD takes it: one that does not end like a namespace has to be called one."""
    return iri if iri.endswith(tuple(":/?#[]@")) else {"@id": iri, "@prefix": True}


def _property(iri: str, is_object: bool, datatype: str | None) -> object:
    if is_object:
        return {"@id": iri, "@type": "@id"}
    return iri if datatype in PLAIN else {"@id": iri, "@type": datatype}
