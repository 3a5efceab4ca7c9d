"""Triples as compact JSON-LD with the context of the PROV-ML ontology."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from provml import paths
from provml.errors import FileFormatError
from provml.model.values import Literal, Text
from provml.rdf.literals import value
from provml.rdf.namespaces import RDF_TYPE

if TYPE_CHECKING:
    import pyoxigraph

    Node = pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple


class _Context:
    """The terms of `ontologies/context.jsonld` by the IRI that they stand for."""

    def __init__(self) -> None:
        text = (paths.ontologies() / "context.jsonld").read_text(encoding="utf-8")
        self.definitions: dict[str, Any] = json.loads(text)["@context"]
        self.classes: dict[str, str] = {}
        self.properties: dict[str, tuple[str, str | None]] = {}
        for term, definition in self.definitions.items():
            if isinstance(definition, dict):
                self.properties[definition["@id"]] = (term, definition.get("@type"))
            elif isinstance(definition, str) and ":" in definition:
                self.classes.setdefault(definition, term)
                self.properties.setdefault(definition, (term, None))


def to_jsonld(triples: Iterable[Any]) -> str:
    """Return triples (or quads) of pyoxigraph as JSON-LD text, with one object per subject."""
    import pyoxigraph as ox

    context = _Context()
    nodes: dict[str, dict[str, Any]] = {}
    for triple in triples:
        subject = _node_id(triple.subject)
        node = nodes.setdefault(subject, {"id": subject})
        predicate = triple.predicate.value
        if predicate == RDF_TYPE and isinstance(triple.object, ox.NamedNode):
            node.setdefault("type", []).append(context.classes.get(triple.object.value, triple.object.value))
            continue
        term, value_type = context.properties.get(predicate, (predicate, None))
        node.setdefault(term, []).append(_to_json(triple.object, value_type))
    for node in nodes.values():
        for key, values in node.items():
            if isinstance(values, list) and len(values) == 1 and key != "type":
                node[key] = values[0]
    document = {"@context": context.definitions, "@graph": list(nodes.values())}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _node_id(node: Node) -> str:
    import pyoxigraph as ox

    if isinstance(node, ox.BlankNode):
        return f"_:{node.value}"
    if isinstance(node, ox.NamedNode):
        return node.value
    raise FileFormatError("JSON-LD has no triple terms", "Use nt, ttl or trig.", file="export")


def _to_json(node: Node, value_type: str | None) -> Any:
    """Return an object of a triple as JSON; `value_type` is what the context says of the property's values."""
    import pyoxigraph as ox

    if not isinstance(node, ox.Literal):
        iri = _node_id(node)
        return iri if value_type == "@id" else {"id": iri}
    if node.language is not None:
        tagged = {"@value": node.value, "@language": node.language}
        return tagged if node.direction is None else {**tagged, "@direction": node.direction.value}
    datatype = node.datatype.value
    if value_type == datatype:
        return node.value
    scalar = value(node)
    if value_type is None and scalar.__class__ in (str, bool) and not isinstance(scalar, (Literal, Text)):
        return scalar
    return {"@value": node.value, "@type": datatype}
