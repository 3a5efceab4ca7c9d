"""Nodes of a graph back as things."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provml.errors import NoSuchNode, WrongType
from provml.field import Field
from provml.rdf.literal import value
from provml.things import CLASSES, RDF_TYPE, Thing
from provml.values import IRI, Literal


def _said_of(graph: Any, iri: IRI) -> dict[str, list[Any]]:
    import pyoxigraph as ox

    node = ox.NamedNode(iri)
    if isinstance(graph, (ox.Store, ox.Dataset)):
        graph = (
            graph.quads_for_pattern(node, None, None) if isinstance(graph, ox.Store) else graph.quads_for_subject(node)
        )
    said: dict[str, list[Any]] = {}
    for triple in graph:
        if triple.subject == node:
            said.setdefault(triple.predicate.value, []).append(triple.object)
    return said


def class_of(types: Iterable[str]) -> type[Thing]:
    """The class that says most about a node with these types; a bare `Thing` where none is known."""
    import provml.vocab  # noqa: F401  # its import makes our classes known

    known = [CLASSES[name] for name in types if name in CLASSES]
    return min(known, key=lambda cls: (-len(cls.TYPES), str(cls.CLASS_IRI)), default=Thing)


def read(graph: Any, iri: str, *, as_: type[Thing] | None = None) -> Any:
    """The thing that a graph (a Store, a Dataset, or triples) describes under an IRI.

    Its class is the one that says most about the node, or `as_`. What follows from other statements of the same thing
    (a super-property, the types of the class) is left out, so a thing that was written comes back the same.
    """
    iri = IRI(iri)
    said = _said_of(graph, iri)
    if not said:
        raise NoSuchNode(iri)
    types = {node.value: node for node in said.pop(RDF_TYPE, [])}
    cls = as_ or class_of(types)
    by_iri = {field.iri: field for field in cls.FIELDS.values()}
    implied = _implied(said, by_iri)
    values: dict[str, Any] = {}
    also: dict[str, list[Any]] = {}
    for name, nodes in said.items():
        field = by_iri.get(name)
        held = [_held(cls, name, field, node) for node in dict.fromkeys(nodes) if node not in implied.get(name, ())]
        if field is None and held:
            also[name] = held
        elif field is not None and held:
            values[field.name] = held[0] if len(held) == 1 else held
    extra = [_held(cls, RDF_TYPE, None, node) for name, node in types.items() if name not in cls.TYPE_SET]
    if extra:
        also[RDF_TYPE] = extra
    return cls(iri, **values, also=also)


def _implied(said: dict[str, list[Any]], by_iri: dict[str, Field]) -> dict[str, set[object]]:
    """Per property, the objects that need not be said because a narrower property, which is kept, says so."""
    above = {name: [x for x in by_iri[name].supers if x in said] for name in said if name in by_iri}
    below = {name: sum(name in supers for supers in above.values()) for name in said}
    implied: dict[str, set[object]] = {}
    for name in sorted(above, key=lambda name: (below[name], name)):  # the narrowest first
        kept = set(said[name]) - implied.get(name, set())
        for wider in above[name]:
            implied.setdefault(wider, set()).update(kept)
    return implied


def _held(cls: type[Thing], name: str, field: Field | None, node: Any) -> Any:
    """The value that a field (or, without one, `also`) is given for an object in the graph; nodes stay nodes."""
    import pyoxigraph as ox

    takes_nodes = field is None or field.kind == "thing"
    if isinstance(node, ox.Literal):
        scalar = value(node)
        return Literal(scalar, node.datatype.value) if takes_nodes and scalar.__class__ is IRI else scalar
    if isinstance(node, ox.NamedNode) and takes_nodes:
        return IRI(node.value)
    expected = "an IRI or a literal" if field is None else field.expected
    advice = "Give the node an IRI first." if takes_nodes else "Say it with a literal in the graph."
    raise WrongType(cls.__name__, f"also[{name}]" if field is None else field.name, str(node), expected, advice)
