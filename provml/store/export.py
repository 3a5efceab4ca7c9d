"""A run, or all runs, as RDF files: N-Triples, N-Quads, Turtle, TriG, RDF/XML, and JSON-LD with our context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml import rdf, resources
from provml.errors import BrokenFile
from provml.run import is_written, journals_of
from provml.store.index import ONTOLOGY
from provml.store.kin import Eldest
from provml.store.progress import Journal
from provml.store.reading import lifted
from provml.store.standing import as_ntriples, runs_of, standing
from provml.values import Literal, Text

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
WITH_GRAPHS = frozenset({"nq", "trig"})
SORTED = 500_000
"""Up to so many triples come in order, so that two exports can be compared; more would not fit in memory."""


def write(store: Store, run_id: str | None, file: Any, form: str) -> int:
    """Write a run (its journals, lifted) or the whole store to a binary file; how many triples."""
    from provml.store.home import PREFIXES

    if form not in FORMS:
        raise BrokenFile(f"no format is called {form!r}", f"Use one of {', '.join(FORMS)}.", file="export")
    held = of_run(store, run_id) if run_id is not None else store.engine
    count = len(held)
    quads: Iterable[ox.Quad] = _of(held, form)
    if count <= SORTED:
        quads = sorted(quads, key=lambda q: (str(q.graph_name), str(q.subject), str(q.predicate), str(q.object)))
    counted = _Counted(quads)
    if form == "jsonld":
        file.write(as_jsonld(counted).encode())
    else:
        ox.serialize(counted, file, format=FORMS[form], prefixes=PREFIXES)
    return counted.count


class _Counted:
    """Quads, counted as they pass."""

    def __init__(self, quads: Iterable[ox.Quad]) -> None:
        self.quads = quads
        self.count = 0

    def __iter__(self) -> Iterator[ox.Quad]:
        for quad in self.quads:
            self.count += 1
            yield quad


def _of(held: ox.Store, form: str) -> Iterator[ox.Quad]:
    """What a store holds, as far as a format can tell it; the ontology, which is ours, is left out."""
    yield from held.quads_for_pattern(None, None, None, ox.DefaultGraph())
    if form in WITH_GRAPHS:
        for graph in held.named_graphs():
            if graph != ONTOLOGY:
                yield from held.quads_for_pattern(None, None, None, graph)


def of_run(store: Store, run_id: str) -> ox.Store:
    """The triples of one run, in memory: its journals, lifted, and how it stands."""
    info = store.run(run_id)
    held, eldest = ox.Store(), Eldest()
    for path in journals_of(store.home / "runs" / info.id):
        for _, text in lifted(path.name, path, Journal(), eldest, is_over=not is_written(path)):
            held.bulk_load(text, format=ox.RdfFormat.N_TRIPLES, lenient=True)
    journals = runs_of(store.index.progress)[info.id]
    held.load(as_ntriples(journals, *standing(store.home, journals)), format=ox.RdfFormat.N_TRIPLES)
    return held


def as_jsonld(triples: Iterable[Any]) -> str:
    """Triples as compact JSON-LD: a node an object, names by our context."""
    context = json.loads((resources.ontologies() / "context.jsonld").read_text(encoding="utf-8"))["@context"]
    classes: dict[str, str] = {}
    properties: dict[str, tuple[str, str | None]] = {}
    for term, meaning in context.items():
        if isinstance(meaning, dict):
            properties[meaning["@id"]] = (term, meaning.get("@type"))
        elif isinstance(meaning, str) and ":" in meaning:
            classes.setdefault(meaning, term)
            properties.setdefault(meaning, (term, None))
    nodes: dict[str, dict[str, Any]] = {}
    for triple in triples:
        subject = _name(triple.subject)
        node = nodes.setdefault(subject, {"id": subject})
        predicate = triple.predicate.value
        if predicate == rdf.RDF + "type" and isinstance(triple.object, ox.NamedNode):
            node.setdefault("type", []).append(classes.get(triple.object.value, triple.object.value))
            continue
        term, kind = properties.get(predicate, (predicate, None))
        node.setdefault(term, []).append(_held(triple.object, kind))
    for node in nodes.values():
        for key, held in node.items():
            if isinstance(held, list) and len(held) == 1 and key != "type":
                node[key] = held[0]
    return json.dumps({"@context": context, "@graph": list(nodes.values())}, indent=1, ensure_ascii=False) + "\n"


def _name(node: Any) -> str:
    if isinstance(node, ox.BlankNode):
        return f"_:{node.value}"
    if isinstance(node, ox.NamedNode):
        return node.value
    raise BrokenFile("JSON-LD has no triple terms", "Use nt, ttl or trig.", file="export")


def _held(node: Any, kind: str | None) -> Any:
    if not isinstance(node, ox.Literal):
        iri = _name(node)
        return iri if kind == "@id" else {"id": iri}
    if node.language is not None:
        tagged = {"@value": node.value, "@language": node.language}
        return tagged if node.direction is None else {**tagged, "@direction": node.direction.value}
    datatype = node.datatype.value
    if kind == datatype:
        return node.value
    value = rdf.value(node)
    if kind is None and value.__class__ in (str, bool) and not isinstance(value, (Literal, Text)):
        return value
    return {"@value": node.value, "@type": datatype}
