"""Refuse ontologies that would take hours: hierarchies and expressions far deeper than any that people write."""

from __future__ import annotations

from collections.abc import Iterable

import pyoxigraph as ox

from provml.errors import OntologyError
from provml.rdf.namespaces import OWL, RDF, RDFS

MAX_ANCESTORS = 1000
"""Terms above a class or a property, directly or not; the largest published ontologies have about a hundred."""
MAX_NESTING = 100
"""Levels of class expressions inside each other. Naming 400 nested blank nodes by their content takes minutes."""
HIERARCHY = (f"{RDFS}subClassOf", f"{RDFS}subPropertyOf", f"{OWL}equivalentClass", f"{OWL}equivalentProperty")

Edges = dict[object, list[object]]


def check_hierarchy(triples: Iterable[tuple[object, str, object]], file: str) -> None:
    """Raise OntologyError if a class or a property has too many terms above it, as in a very long chain or cycle."""
    parents: Edges = {}
    for low, predicate, high in triples:
        if predicate in HIERARCHY and isinstance(high, ox.NamedNode):
            parents.setdefault(low, []).append(high)
    for start in parents:
        reached, stack = {start}, [start]
        while stack:
            for high in parents.get(stack.pop(), ()):
                if high not in reached:
                    reached.add(high)
                    stack.append(high)
            if len(reached) > MAX_ANCESTORS:
                reason = f"{start} has more than {MAX_ANCESTORS:,} terms above it, in a chain or a cycle"
                raise OntologyError(reason, "Shorten the hierarchy, or remove the cycle.", file=file)


def check_nesting(graph: ox.Dataset, file: str) -> None:
    """Raise OntologyError if blank nodes, apart from the cells of lists, are nested too deeply or in a long cycle."""
    children: Edges = {}
    for quad in graph:
        is_nested = isinstance(quad.subject, ox.BlankNode) and isinstance(quad.object, ox.BlankNode)
        if is_nested and quad.predicate.value != f"{RDF}rest":
            children.setdefault(quad.subject, []).append(quad.object)
    if _is_nested_deeper(children, MAX_NESTING):
        reason = f"an expression contains itself, or is nested in more than {MAX_NESTING} levels"
        raise OntologyError(reason, "Remove the cycle, or give the inner expressions names.", file=file)


def _is_nested_deeper(children: Edges, levels: int) -> bool:
    """Return whether a path is longer than a number of levels, or a cycle, in linear time.

    The innermost nodes are removed level by level. A single node that contains itself is allowed in a small graph.
    """
    loops = [node for node, inner in children.items() if node in inner]
    if len(loops) > 1 or (loops and len(children) > levels):
        return True
    waiting = {node: sum(child in children and child != node for child in inner) for node, inner in children.items()}
    parents: Edges = {}
    for node, inner in children.items():
        for child in inner:
            if child != node:
                parents.setdefault(child, []).append(node)
    level = [node for node, count in waiting.items() if not count]
    for _ in range(levels):
        above = []
        for node in level:
            del waiting[node]
            for parent in parents.get(node, ()):
                waiting[parent] -= 1
                if not waiting[parent]:
                    above.append(parent)
        level = above
    return bool(waiting)
