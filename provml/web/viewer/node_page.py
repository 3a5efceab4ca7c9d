"""Any node as a page: its types, what is said about it, what refers to it, and the ways on from it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pyoxigraph as ox
from starlette.datastructures import QueryParams

from provml import rdf
from provml.answers import format_cell
from provml.errors import InvalidIRI, NodeNotFound
from provml.model.values import IRI
from provml.rdf.namespaces import MLS, PROV, PROVLAKE, PROVML, RDF_TYPE, RDFS, RUNS
from provml.web.problems import Problem
from provml.web.viewer.links import with_query
from provml.web.viewer.viewer import Page, Viewer

MAX_STATEMENTS = 300
"""Statements that a page lists in each direction."""
TERM_SPACES = (PROVML, PROVLAKE, PROV, MLS)
LABELS = (f"{RDFS}label", f"{PROVLAKE}wasDerivedFromAttribute")
FORMATS = ("ttl", "jsonld", "nt", "rdf")
NAME = "SELECT ?name { $node provlake:wasDerivedFromAttribute/rdfs:label|rdfs:label ?name } LIMIT 1"


def node(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of a node."""
    try:
        iri = IRI(params.get("iri", ""))
    except InvalidIRI as error:
        raise Problem(400, "InvalidIRI", str(error)) from None
    viewer.runs()
    graph = viewer.store.backend.graph()
    name = ox.NamedNode(iri)
    own = [
        quad.triple
        for _, quad in zip(range(MAX_STATEMENTS + 1), graph.quads_for_pattern(name, None, None, None), strict=False)
    ]
    others = [
        quad.triple
        for _, quad in zip(range(MAX_STATEMENTS + 1), graph.quads_for_pattern(None, None, name, None), strict=False)
    ]
    if not own and not others:
        raise NodeNotFound(iri)
    types = [
        triple.object.value
        for triple in own
        if triple.predicate.value == RDF_TYPE and isinstance(triple.object, ox.NamedNode)
    ]
    names = viewer.select(NAME, node=iri)
    context = {
        "iri": str(iri),
        "name": str(names[0][0]) if names else format_cell(iri),
        "types": sorted((_term(viewer, kind) for kind in types), key=lambda pair: pair[0]),
        "run": _run(viewer, iri),
        "own": _grouped(
            viewer, [(t.predicate.value, t.object) for t in own[:MAX_STATEMENTS] if t.predicate.value != RDF_TYPE]
        ),
        "others": _grouped(viewer, [(t.predicate.value, t.subject) for t in others[:MAX_STATEMENTS]]),
        "is_cut": len(own) > MAX_STATEMENTS or len(others) > MAX_STATEMENTS,
        "formats": [(fmt, viewer.links.node(iri, fmt)) for fmt in FORMATS],
        "has_lineage": any(kind in (f"{PROV}Entity", f"{PROV}Activity") for kind in types),
        "sparql": with_query("/query", {"query": f"SELECT ?property ?value {{\n  <{iri}> ?property ?value\n}}"}),
    }
    return Page("node.html", context["name"], context)  # type: ignore[arg-type]


def _run(viewer: Viewer, iri: str) -> str:
    """Return the run that a node belongs to; empty if it belongs to none."""
    run_id = unquote(iri.removeprefix(RUNS).split("/")[0]) if iri.startswith(RUNS) else ""
    return run_id if any(info.id == run_id for info in viewer.runs()) else ""


def _term(viewer: Viewer, iri: str) -> tuple[str, str]:
    """Return a class or property as text, and the address of its page if the ontology defines it."""
    text = format_cell(IRI(iri))
    return text, viewer.links.term(text) if iri.startswith(TERM_SPACES) else ""


def _grouped(viewer: Viewer, statements: list[tuple[str, Any]]) -> list[tuple[str, str, list[Any]]]:
    """Return the values by property: the property, its page, and Python values."""
    values: dict[str, list[Any]] = {}
    for predicate, term in statements:
        values.setdefault(predicate, []).append(rdf.value(term))
    return [(*_term(viewer, predicate), sorted(items, key=str)) for predicate, items in sorted(values.items())]
