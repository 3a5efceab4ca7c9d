"""Class expressions that OWL writes with blank nodes: unions, intersections and restrictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyoxigraph as ox

from provml.compiler.sources import Node
from provml.rdf.namespaces import OWL, RDF, RDFS

Statements = Mapping[Node, Mapping[str, list[Node]]]
"""Objects by subject and predicate."""

ANYTHING = frozenset({OWL + "Thing", RDFS + "Resource"})


@dataclass(frozen=True)
class Restriction:
    """An `owl:Restriction` on a property: its kind (some, only, value, self, exactly, min, max), filler or count."""

    property: str
    kind: str
    filler: Node | None = None
    count: int = 0
    qualifier: Node | None = None


def members(statements: Statements, node: Node) -> Iterator[Node]:
    """Return the members of an RDF list."""
    visited: set[Node] = set()
    while node != ox.NamedNode(RDF + "nil") and node not in visited:
        visited.add(node)
        cell = statements.get(node, {})
        yield from cell.get(RDF + "first", [])
        node = next(iter(cell.get(RDF + "rest", [])), ox.NamedNode(RDF + "nil"))


def list_members(statements: Statements, node: Node, predicate: str) -> list[Node]:
    """Return the members of the lists that a node has for a predicate."""
    return [member for head in statements.get(node, {}).get(predicate, []) for member in members(statements, head)]


def union(statements: Statements, node: Node) -> frozenset[str] | None:
    """Return the named classes whose union an expression is; None if it is anything else."""
    if isinstance(node, ox.NamedNode):
        return frozenset({node.value})
    parts = [union(statements, member) for member in list_members(statements, node, OWL + "unionOf")]
    return frozenset().union(*(part for part in parts if part)) if parts and all(parts) else None


def conjuncts(statements: Statements, node: Node) -> Iterator[Node]:
    """Return the parts of an intersection, recursively, or the expression itself."""
    parts = list_members(statements, node, OWL + "intersectionOf") if isinstance(node, ox.BlankNode) else []
    for part in parts:
        yield from conjuncts(statements, part)
    if not parts:
        yield node


_KINDS = {
    "someValuesFrom": "some",
    "allValuesFrom": "only",
    "hasValue": "value",
    "hasSelf": "self",
    "cardinality": "exactly",
    "minCardinality": "min",
    "maxCardinality": "max",
    "qualifiedCardinality": "exactly",
    "minQualifiedCardinality": "min",
    "maxQualifiedCardinality": "max",
}


def restriction(statements: Statements, node: Node) -> Restriction | None:
    """Read a blank node as a restriction on a named property; None if it is not one."""
    cell = statements.get(node, {})
    properties = [prop.value for prop in cell.get(OWL + "onProperty", []) if isinstance(prop, ox.NamedNode)]
    if not properties:
        return None
    qualifier = next(iter(cell.get(OWL + "onClass", []) + cell.get(OWL + "onDataRange", [])), None)
    for key, kind in _KINDS.items():
        for filler in cell.get(OWL + key, []):
            if kind not in ("exactly", "min", "max"):
                return Restriction(properties[0], kind, filler)
            if isinstance(filler, ox.Literal) and filler.value.isdecimal():
                return Restriction(properties[0], kind, None, int(filler.value), qualifier)
    return None
