"""A schema as a JSON-LD context, so that a run exported as JSON reads with short names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from provml.compiler.schema import Schema
from provml.compiler.shapes import prefixes_of
from provml.compiler.source import Source, split


def context(schema: Schema, sources: Iterable[Source], origin: Mapping[str, str]) -> str:
    """The context of some sources; of two terms with the same local name, the later source's has it."""
    sources = list(sources)
    prefixes = {name: iri for source in sources for name, iri in prefixes_of(source)}
    terms: dict[str, object] = {}
    for source in sources:
        for cls in schema.classes.values():
            if cls.source is source and not cls.deprecated:
                terms[split(cls.iri)[1]] = cls.iri
        for prop in schema.properties.values():
            if prop.source is source and not prop.deprecated:
                terms[split(prop.iri)[1]] = _property(prop.iri, prop.is_object, prop.data.datatype)
    listed: dict[str, object] = {
        "@version": 1.1,
        "id": "@id",
        "type": "@type",
        "label": "http://www.w3.org/2000/01/rdf-schema#label",
        "comment": "http://www.w3.org/2000/01/rdf-schema#comment",
    }
    listed |= dict(sorted(prefixes.items()))
    listed |= dict(sorted(terms.items()))
    return json.dumps({**origin, "@context": listed}, indent=2, ensure_ascii=False) + "\n"


def _property(iri: str, is_object: bool, datatype: str | None) -> object:
    if is_object:
        return {"@id": iri, "@type": "@id"}
    plain = ("http://www.w3.org/2001/XMLSchema#string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString")
    return iri if datatype is None or datatype in plain else {"@id": iri, "@type": datatype}
