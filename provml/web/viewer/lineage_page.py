"""Lineage: where a thing came from, or what came of it, as a graph and as a list that says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyoxigraph as ox
from starlette.datastructures import QueryParams
from starlette.responses import Response

from provml.drawing import lineage_svg
from provml.drawing.graph import Graph, Group, Node
from provml.drawing.lineage import Lineage
from provml.drawing.records import LineageRecords
from provml.exchange.prov_export import FORMATS as PROV_FORMATS
from provml.exchange.prov_export import prov_document, write_document
from provml.model.values import IRI
from provml.rdf.namespaces import PREFIXES, PROV, RUNS
from provml.store import name_lookup
from provml.store.lineage import lineage as lineage_of
from provml.store.lineage import resolve
from provml.web.problems import Problem
from provml.web.viewer.viewer import Page, Viewer

MAX_NODES = 300
MAX_OPENED = 20
MAX_CHOICES = 300
"""Names that the form offers."""
TEXT_TYPES = {"svg": "image/svg+xml", "dot": "text/vnd.graphviz", "mermaid": "text/plain", "text": "text/plain"}
PROV_FILES = {"provn": "provn", "provjson": "json"}
"""PROV documents by the names of their formats here."""
QUALIFIED = f"{PROV}qualified"
EXPAND = "+ show each"
"""The last line of a folded node, which leads to its parts."""


class Opened(NamedTuple):
    """The folded nodes whose parts a page shows; `address` returns that of the page with others."""

    ids: tuple[str, ...]
    address: Callable[[Sequence[str]], str]

    @classmethod
    def of(cls, params: QueryParams, address: Callable[[Sequence[str]], str]) -> Opened:
        """Return what the address of a page says."""
        return cls(tuple(dict.fromkeys(params.getlist("open")))[:MAX_OPENED], address)


def lineage(viewer: Viewer, params: QueryParams) -> Page | Response:
    """Return the page of a lineage, or the picture in a format."""
    subject, forward = params.get("of", "").strip(), params.get("dir") == "forward"
    names = viewer.cached("node names", lambda: name_lookup.node_names(viewer.store))
    choices = [*viewer.latest_ids(100), *names][:MAX_CHOICES]
    context: dict[str, Any] = {"subject": subject, "is_forward": forward, "choices": choices, "graph": None}
    if not subject and not viewer.latest_ids(1):
        return Page("lineage.html", "Lineage", context)
    context["subject"] = subject = subject or viewer.latest_ids(1)[0]
    iri = resolve(viewer.store, subject)
    opened = Opened.of(params, lambda ids: viewer.links.lineage(subject, forward=forward, opened=ids))
    fmt = params.get("format", "")
    if fmt:
        records = lineage_of(viewer.store, iri, forward=forward).records
        return _file(viewer, Lineage(records, opened.ids), fmt)
    context |= lineage_context(viewer, iri, forward, opened)
    return Page("lineage.html", context["graph"].title, context)


def lineage_context(viewer: Viewer, iri: IRI, forward: bool, opened: Opened) -> dict[str, Any]:
    """Return what a page shows of a lineage."""
    records = lineage_of(viewer.store, iri, forward=forward).records
    return graph_context(viewer, records, opened) | {"iri": str(iri), "is_forward": forward}


def graph_context(viewer: Viewer, records: LineageRecords, opened: Opened) -> dict[str, Any]:
    """Return a lineage as a picture with links, and as a list of nodes with their relations."""
    graph = Lineage(records, opened.ids).graph
    is_too_large = len(graph.nodes) > MAX_NODES
    graph = _first_nodes(graph) if is_too_large else graph
    folded_groups = {group.id for group in graph.groups if len(group.iris) > 1}
    addresses = {node.id: _address(viewer, node, folded_groups, opened) for node in graph.nodes}
    graph = replace(
        graph,
        nodes=tuple(
            node if node.group in folded_groups else _with_hint(node, addresses[node.id]) for node in graph.nodes
        ),
        groups=tuple(_with_address(viewer, group, opened) for group in graph.groups),
    )
    return {
        "graph": graph,
        "picture": lineage_svg.draw(graph, lambda node: addresses[node.id]),
        "items": _items(graph, addresses),
        "is_cut": is_too_large,
        "opened": opened.ids,
        "folded_address": opened.address(()) if opened.ids else "",
    }


def _address(viewer: Viewer, node: Node, folded_groups: set[str], opened: Opened) -> str:
    """Return the page of a node; a folded node leads to its parts, and one in a folded box to the parts of the box."""
    if len(node.iris) > 1:
        return opened.address((*opened.ids, node.group if node.group in folded_groups else node.id))
    return viewer.links.node(node.iris[0]) if node.iris else ""


def _with_hint(node: Node, address: str) -> Node:
    is_folded = len(node.iris) > 1 and address
    return replace(node, lines=(*node.lines, EXPAND)) if is_folded else node


def _with_address(viewer: Viewer, group: Group, opened: Opened) -> Group:
    """Return a box whose title leads to the run, or to each run of a folded box."""
    if len(group.iris) > 1:
        address = opened.address((*opened.ids, group.id))
        return replace(group, address=address, lines=(*group.lines, EXPAND) if address else group.lines)
    run_id = unquote(group.iris[0].removeprefix(RUNS)) if group.iris else ""
    return replace(group, address=viewer.links.run(run_id) if run_id else "")


def merged(lineages: Iterable[Lineage], subject: str) -> LineageRecords:
    """Return several lineages as one."""
    parts = [result.records for result in lineages]
    return LineageRecords(
        subject,
        False,
        {name: item for records in parts for name, item in records.items.items()},
        {name: step for records in parts for name, step in records.steps.items()},
        {name: run for records in parts for name, run in records.runs.items()},
        tuple(dict.fromkeys(use for records in parts for use in records.uses)),
        tuple(dict.fromkeys(generation for records in parts for generation in records.generations)),
        tuple(dict.fromkeys(information for records in parts for information in records.informations)),
        frozenset(start for records in parts for start in records.starts),
    )


def _first_nodes(graph: Graph) -> Graph:
    """Return the nodes that are nearest to the start, as many as can be drawn."""
    neighbours: dict[str, set[str]] = {}
    for edge in graph.edges:
        neighbours.setdefault(edge.later, set()).add(edge.earlier)
        neighbours.setdefault(edge.earlier, set()).add(edge.later)
    order = dict.fromkeys(node.id for node in graph.nodes if node.is_start)
    pending = list(order) or [graph.nodes[0].id]
    while pending and len(order) < MAX_NODES:
        node = pending.pop(0)
        new = sorted(neighbours.get(node, set()) - order.keys())[: MAX_NODES - len(order)]
        order |= dict.fromkeys(new)
        pending += new
    drawn = set(order)
    nodes = tuple(node for node in graph.nodes if node.id in drawn)
    groups = {node.group for node in nodes}
    note = f"Not shown: {len(graph.nodes) - len(nodes):,} more nodes. Open a node to go on from it."
    return replace(
        graph,
        nodes=nodes,
        edges=tuple(edge for edge in graph.edges if edge.later in drawn and edge.earlier in drawn),
        groups=tuple(group for group in graph.groups if group.id in groups),
        notes=(*graph.notes, note),
    )


def _items(graph: Graph, addresses: dict[str, str]) -> list[dict[str, Any]]:
    """Return the nodes as a list, each with what it used, what generated it and who did it."""
    by_id = {node.id: node for node in graph.nodes}
    groups = {group.id: group.title for group in graph.groups}
    return [
        {
            "node": node,
            "address": addresses[node.id],
            "group": groups.get(node.group, ""),
            "relations": [
                (edge.relation, by_id[edge.earlier].title, addresses[edge.earlier])
                for edge in graph.edges
                if edge.later == node.id
            ],
        }
        for node in graph.nodes
    ]


def _file(viewer: Viewer, result: Lineage, fmt: str) -> Response:
    """Return a lineage as a file: a picture, a graph language, or PROV."""
    if fmt == "ttl" or fmt in PROV_FILES:
        triples = list(_triples(viewer, [*result.records.items, *result.records.steps, *result.records.runs]))
        if fmt == "ttl":
            content, media_type = ox.serialize(triples, format=ox.RdfFormat.TURTLE, prefixes=PREFIXES), "text/turtle"
        else:
            name = PROV_FILES[fmt]
            content, media_type = write_document(prov_document(triples), name), PROV_FORMATS[name]
        extension = "prov.json" if fmt == "provjson" else fmt
        headers = {"Content-Disposition": f'attachment; filename="lineage.{extension}"'}
        return Response(content, 200, headers, media_type)
    if fmt not in TEXT_TYPES:
        names = ", ".join([*TEXT_TYPES, *PROV_FILES, "ttl"])
        raise Problem(400, "UnknownFormat", f"No format {fmt[:50]!r} here. Use one of {names}.")
    headers = {"Content-Disposition": f'attachment; filename="lineage.{fmt}"'} if fmt != "text" else {}
    return Response(result.to_format(fmt), 200, headers, f"{TEXT_TYPES[fmt]}; charset=utf-8")


def _triples(viewer: Viewer, nodes: Iterable[str]) -> Iterator[ox.Triple]:
    """Yield what the graph says about nodes, and about the qualified forms of their relations."""
    graph = viewer.store.backend.graph()
    for node in nodes:
        for quad in graph.quads_for_pattern(ox.NamedNode(node), None, None, ox.DefaultGraph()):
            yield quad.triple
            if quad.predicate.value.startswith(QUALIFIED) and isinstance(quad.object, ox.NamedNode):
                yield from (detail.triple for detail in graph.quads_for_pattern(quad.object, None, None, None))
