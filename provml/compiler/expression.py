"""What OWL says with blank nodes, as small values: unions, restrictions, datatypes with facets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyoxigraph as ox

from provml.compiler.source import OWL, RDF, RDFS, XSD, Node
from provml.rdf import KINDS

Said = Mapping[Node, Mapping[str, list[Node]]]

ANYTHING = frozenset({OWL + "Thing", RDFS + "Resource"})


@dataclass(frozen=True)
class Restriction:
    """One `owl:Restriction`: on which property, of which sort, with which filler or count."""

    property: str
    sort: str
    filler: Node | None = None
    count: int = 0
    qualifier: str | None = None


@dataclass(frozen=True)
class DataRange:
    """What a data property takes: the kind of value, the datatype it is written with, and its facets."""

    kind: str = "any"
    datatype: str | None = None
    limits: tuple[tuple[str, int | float], ...] = ()
    pattern: str | None = None
    choices: tuple[str, ...] = ()


def members(said: Said, node: Node) -> Iterator[Node]:
    """The members of an RDF list."""
    seen: set[Node] = set()
    while node != ox.NamedNode(RDF + "nil") and node not in seen:
        seen.add(node)
        cell = said.get(node, {})
        yield from cell.get(RDF + "first", [])
        node = next(iter(cell.get(RDF + "rest", [])), ox.NamedNode(RDF + "nil"))


def union(said: Said, node: Node) -> frozenset[str] | None:
    """A class expression as the named classes that it is the union of; None where it is something else."""
    if isinstance(node, ox.NamedNode):
        return frozenset({node.value})
    listed = said.get(node, {}).get(OWL + "unionOf", [])
    if not listed:
        return None
    parts = [union(said, member) for member in members(said, listed[0])]
    return frozenset().union(*(part for part in parts if part)) if parts and all(parts) else None


def conjuncts(said: Said, node: Node) -> Iterator[Node]:
    """A class expression taken apart at its intersections."""
    listed = said.get(node, {}).get(OWL + "intersectionOf", [])
    if isinstance(node, ox.BlankNode) and listed:
        for member in members(said, listed[0]):
            yield from conjuncts(said, member)
    else:
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
    """A blank node read as a restriction; None where it is none."""
    cell = said.get(node, {})
    on = [prop.value for prop in cell.get(OWL + "onProperty", []) if isinstance(prop, ox.NamedNode)]
    if not on:
        return None
    qualifiers = cell.get(OWL + "onClass", []) + cell.get(OWL + "onDataRange", [])
    qualifier = qualifiers[0].value if qualifiers and isinstance(qualifiers[0], ox.NamedNode) else None
    for key, sort in _SORTS.items():
        for filler in cell.get(OWL + key, []):
            if isinstance(filler, ox.Literal) and sort in ("exactly", "least", "most"):
                return Restriction(on[0], sort, None, int(filler.value), qualifier)
            return Restriction(on[0], sort, filler)
    return None


def data_range(said: Said, node: Node) -> DataRange | None:
    """A data range: a datatype, one with facets, or an enumeration of values; None where it is something else."""
    if isinstance(node, ox.NamedNode):
        defined = [x for x in said.get(node, {}).get(OWL + "equivalentClass", []) if isinstance(x, ox.BlankNode)]
        if defined and not node.value.startswith(XSD):
            return data_range(said, defined[0])
        kind = KINDS.get(node.value, "other")
        return DataRange(kind, None if kind == "any" else node.value)
    cell = said.get(node, {})
    if OWL + "oneOf" in cell:
        values = [member for member in members(said, cell[OWL + "oneOf"][0]) if isinstance(member, ox.Literal)]
        if values and all(value.datatype.value == XSD + "string" for value in values):
            return DataRange("text", XSD + "string", choices=tuple(value.value for value in values))
        return None
    base = cell.get(OWL + "onDatatype", [])
    if not base:
        return None
    inner = data_range(said, base[0])
    if inner is None:
        return None
    limits: list[tuple[str, int | float]] = list(inner.limits)
    pattern = inner.pattern
    for listed in cell.get(OWL + "withRestrictions", []):
        for facet in members(said, listed):
            for name, bounds in said.get(facet, {}).items():
                for bound in bounds:
                    short = name.removeprefix(XSD)
                    if not isinstance(bound, ox.Literal):
                        continue
                    if short == "pattern":
                        pattern = bound.value
                    elif inner.kind in ("integer", "float", "text"):
                        limits.append((short, _number(bound.value)))
    return DataRange(inner.kind, inner.datatype, tuple(sorted(limits)), pattern, inner.choices)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
