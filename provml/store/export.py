"""A run, or all runs, as RDF files: N-Triples, N-Quads, Turtle, TriG, RDF/XML, and JSON-LD with our context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml import rdf, resources
from provml.errors import BrokenFile
from provml.lift import name
from provml.store.index import STATUS, Index
from provml.values import IRI, Literal, Text

if TYPE_CHECKING:
    from provml.store.home import Store

FORMS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "ttl": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "rdf": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}


def write(store: Store, run_id: str | None, file: Any, form: str) -> int:
    """Write a run (its journals, lifted) or the whole store to a binary file; how many triples."""
    from provml.store.home import PREFIXES

    if form not in FORMS:
        raise BrokenFile(f"no format is called {form!r}", f"Use one of {', '.join(FORMS)}.", file="export")
    triples = list(of_run(store, run_id) if run_id is not None else of_all(store))
    triples.sort(key=lambda t: (str(t.subject), str(t.predicate), str(t.object)))
    if form == "jsonld":
        file.write(as_jsonld(triples).encode())
    else:
        quads = (ox.Quad(t.subject, t.predicate, t.object) for t in triples)
        ox.serialize(quads, file, format=FORMS[form], prefixes=PREFIXES)
    return len(triples)


def of_run(store: Store, run_id: str) -> Iterator[ox.Triple]:
    """The triples of one run: its journals, lifted, and its status."""
    info = store.run(run_id)
    index = Index(store.home, None)
    for key, path in index.journals():
        if path.parent.name == info.id:
            from provml.store.progress import Journal

            for _, text in index._lift(key, path, Journal()):
                index._load(text)
    index.store.add(ox.Quad(ox.NamedNode(name.run(info.id)), STATUS, ox.Literal(info.status)))
    for quad in index.store:
        yield quad.triple


def of_all(store: Store) -> Iterator[ox.Triple]:
    """The triples of the default graph."""
    store.sync()
    for quad in store._index.store.quads_for_pattern(None, None, None, ox.DefaultGraph()):
        yield quad.triple


def as_jsonld(triples: Iterable[Any]) -> str:
    """Triples as compact JSON-LD: a node an object, names by our context."""
    context = json.loads((resources.ontologies() / "context.jsonld").read_text(encoding="utf-8"))["@context"]
    short: dict[str, tuple[str, str | None]] = {}
    for term, meaning in context.items():
        iri = meaning if isinstance(meaning, str) else meaning.get("@id") if isinstance(meaning, dict) else None
        if iri and not term.startswith("@"):
            short[iri] = (term, meaning.get("@type") if isinstance(meaning, dict) else None)
    nodes: dict[str, dict[str, Any]] = {}
    for triple in triples:
        node = nodes.setdefault(str(triple.subject.value), {"id": triple.subject.value})
        predicate = triple.predicate.value
        if predicate == rdf.RDF + "type":
            node.setdefault("type", []).append(short.get(triple.object.value, (triple.object.value, None))[0])
            continue
        term, kind = short.get(predicate, (predicate, None))
        node.setdefault(term, []).append(_held(triple.object, kind))
    for node in nodes.values():
        for key, held in node.items():
            if isinstance(held, list) and len(held) == 1 and key != "type":
                node[key] = held[0]
    return json.dumps({"@context": context, "@graph": list(nodes.values())}, indent=1, ensure_ascii=False) + "\n"


def _held(node: Any, kind: str | None) -> Any:
    if isinstance(node, ox.NamedNode):
        return node.value if kind == "@id" else {"id": node.value}
    value = rdf.value(node)
    if isinstance(value, Text):
        return {"@value": str(value), "@language": value.language}
    if not isinstance(value, (IRI, Literal)) and (value.__class__ is str or value.__class__ is bool):
        return value
    datatype = node.datatype.value
    return node.value if kind == datatype else {"@value": node.value, "@type": datatype}
