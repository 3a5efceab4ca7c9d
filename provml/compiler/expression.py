"""What OWL says with blank nodes, as small values: unions, restrictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyoxigraph as ox

from provml.compiler.source import OWL, RDF, RDFS, Node

Said = Mapping[Node, Mapping[str, list[Node]]]

ANYTHING = frozenset({OWL + "Thing", RDFS + "Resource"})


@dataclass(frozen=True)
class Restriction:
    """One `owl:Restriction`: on which property, of which sort, with which filler or count."""

    property: str
    sort: str
    filler: Node | None = None
    count: int = 0
    qualifier: Node | None = None


def members(said: Said, node: Node) -> Iterator[Node]:
    """The members of an RDF list."""
    seen: set[Node] = set()
    while node != ox.NamedNode(RDF + "nil") and node not in seen:
        seen.add(node)
        cell = said.get(node, {})
        yield from cell.get(RDF + "first", [])
        node = next(iter(cell.get(RDF + "rest", [])), ox.NamedNode(RDF + "nil"))


def listed(said: Said, node: Node, predicate: str) -> list[Node]:
    """The members of the lists that a node has for a predicate."""
    return [member for head in said.get(node, {}).get(predicate, []) for member in members(said, head)]


def union(said: Said, node: Node) -> frozenset[str] | None:
    """A class expression as the named classes that it is the union of; None where it is something else."""
    if isinstance(node, ox.NamedNode):
        return frozenset({node.value})
    parts = [union(said, member) for member in listed(said, node, OWL + "unionOf")]
    return frozenset().union(*(part for part in parts if part)) if parts and all(parts) else None


def conjuncts(said: Said, node: Node) -> Iterator[Node]:
    """A class expression taken apart at its intersections."""
    parts = listed(said, node, OWL + "intersectionOf") if isinstance(node, ox.BlankNode) else []
    for part in parts:
        yield from conjuncts(said, part)
    if not parts:
        yield node


_SORTS = {
    "someValuesFrom": "some",
    "allValuesFrom": "only",
    "hasValue": "value",
    "hasSelf": "self",
    "cardinality": "exactly",
    "minCardinality": "least",
    "maxCardinality": "most",
    "qualifiedCardinality": "exactly",
    "minQualifiedCardinality": "least",
    "maxQualifiedCardinality": "most",
}


def restriction(said: Said, node: Node) -> Restriction | None:
    """A blank node read as a restriction on a named property; None where it is none."""
    cell = said.get(node, {})
    on = [prop.value for prop in cell.get(OWL + "onProperty", []) if isinstance(prop, ox.NamedNode)]
    if not on:
        return None
    qualifier = next(iter(cell.get(OWL + "onClass", []) + cell.get(OWL + "onDataRange", [])), None)
    for key, sort in _SORTS.items():
        for filler in cell.get(OWL + key, []):
            if sort not in ("exactly", "least", "most"):
                return Restriction(on[0], sort, filler)
            if isinstance(filler, ox.Literal) and filler.value.isdecimal():
                return Restriction(on[0], sort, None, int(filler.value), qualifier)
    return None
