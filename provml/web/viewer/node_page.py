"""Any node as a page: its types, what is said about it, what refers to it, and the ways on from it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyoxigraph as ox
from starlette.datastructures import QueryParams

from provml import rdf
from provml.answers import format_cell
from provml.errors import InvalidIRI, NodeNotFound
from provml.mapping.iris import run_iri
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, PROV, PROVLAKE, PROVML, RDF_TYPE, RUNS
from provml.store.lineage_walk import rows_about
from provml.store.run_table import natural_key
from provml.web.problems import Problem
from provml.web.viewer.links import with_query
from provml.web.viewer.viewer import Page, Viewer

MAX_STATEMENTS = 300
"""Statements that a page lists in each direction."""
TERM_SPACES = (PROVML, PROVLAKE, PROV, MLS)
SECTION_OF = f"{PROVML}wasSectionOf"
FORMATS = ("ttl", "jsonld", "nt", "rdf")
VALUES = "SELECT ?node ?value { ?node prov:value ?value }"
IS_RUN = "SELECT ?run { BIND($run AS ?run) ?run a provlake:WorkflowExecution } LIMIT 1"
NAME = "SELECT ?name { $node provlake:wasDerivedFromAttribute/rdfs:label|rdfs:label ?name } LIMIT 1"


def node(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of a node."""
    try:
        iri = IRI(params.get("iri", ""))
    except InvalidIRI as error:
        raise Problem(400, "InvalidIRI", str(error)) from None
    graph = viewer.store.backend.graph()
    name = ox.NamedNode(iri)
    own = _shown(viewer, (quad.triple for quad in graph.quads_for_pattern(name, None, None, None)))
    others = _shown(viewer, (quad.triple for quad in graph.quads_for_pattern(None, None, name, None)))
    if not own and not others:
        raise NodeNotFound(iri)
    total = len(own) + len(others)
    types = [
        triple.object.value
        for triple in own
        if triple.predicate.value == RDF_TYPE and isinstance(triple.object, ox.NamedNode)
    ]
    names = viewer.select(NAME, node=iri)
    run = _run(viewer, iri)
    own, others = own[:MAX_STATEMENTS], others[:MAX_STATEMENTS]
    statements = [(t.predicate.value, t.object) for t in own if t.predicate.value != RDF_TYPE]
    is_cut = len(own) + len(others) < total
    context = {
        "iri": str(iri),
        "name": str(names[0][0]) if names else _short_name(iri, run) or format_cell(iri),
        "types": sorted((_term(viewer, kind) for kind in types), key=lambda pair: pair[0]),
        "run": run,
        "own": _grouped(viewer, statements, run),
        "others": _grouped(viewer, [(t.predicate.value, t.subject) for t in others], run),
        "is_cut": is_cut,
        "has_sections": any(t.predicate.value == SECTION_OF for t in others) and bool(run),
        "formats": [(fmt, viewer.links.node(iri, fmt)) for fmt in FORMATS],
        "has_lineage": any(kind in (f"{PROV}Entity", f"{PROV}Activity") for kind in types),
        "sparql": with_query("/query", {"query": f"SELECT ?property ?value {{\n  <{iri}> ?property ?value\n}}"}),
    }
    return Page("node.html", context["name"], context)  # type: ignore[arg-type]


def _shown(viewer: Viewer, triples: Iterable[ox.Triple]) -> list[ox.Triple]:
    """Return the first triples whose nodes the pages show, and one more if there are more."""
    visible = (triple for triple in triples if all(_is_shown(viewer, term) for term in (triple.subject, triple.object)))
    return list(islice(visible, MAX_STATEMENTS + 1))


def _is_shown(viewer: Viewer, term: object) -> bool:
    return not isinstance(term, ox.NamedNode) or viewer.shows_node(IRI(term.value))


def _run(viewer: Viewer, iri: str) -> str:
    """Return the run that a node belongs to; empty if it belongs to none."""
    run_id = unquote(iri.removeprefix(RUNS).split("/")[0]) if iri.startswith(RUNS) else ""
    return run_id if run_id and viewer.select(IS_RUN, run=run_iri(run_id)) else ""


def _term(viewer: Viewer, iri: str) -> tuple[str, str]:
    """Return a class or property as text, and the address of its page if the ontology defines it."""
    text = format_cell(IRI(iri))
    return text, viewer.links.term(text) if iri.startswith(TERM_SPACES) else ""


class Property(NamedTuple):
    """A property with its values: nodes have a short name, and the value that they stand for, if they have one."""

    name: str
    address: str
    values: list[tuple[Any, str, Any]]


def _grouped(viewer: Viewer, statements: list[tuple[str, Any]], run: str) -> list[Property]:
    """Return the values by property."""
    values: dict[str, list[Any]] = {}
    for predicate, term in statements:
        values.setdefault(predicate, []).append(rdf.value(term))
    nodes = [item for items in values.values() for item in items if isinstance(item, IRI)]
    meanings = {str(node): value for node, value in rows_about(viewer.store, VALUES, nodes)}
    return [
        Property(
            *_term(viewer, predicate),
            [(item, _short_name(item, run), meanings.get(str(item))) for item in sorted(items, key=_sort_key)],
        )
        for predicate, items in sorted(values.items())
    ]


def _short_name(item: Any, run: str) -> str:
    """Return the name of a node without the run that the page is about; empty for other values."""
    if not isinstance(item, IRI):
        return ""
    prefix = f"{run_iri(run)}/" if run else ""
    return unquote(item.removeprefix(prefix)) if prefix and item.startswith(prefix) else ""


def _sort_key(item: Any) -> Any:
    return natural_key(str(item))
