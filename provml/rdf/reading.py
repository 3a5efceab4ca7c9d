"""Nodes of a graph back as things."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provml.errors import NoSuchNode, RefusedValue, WrongType
from provml.field import Field
from provml.rdf.literal import value
from provml.things import CLASSES, RDF_TYPE, Thing, restore
from provml.values import IRI, Literal


def _said_of(graph: Any, iri: IRI) -> dict[str, list[Any]]:
    import pyoxigraph as ox

    node = ox.NamedNode(iri)
    if isinstance(graph, (ox.Store, ox.Dataset)):
        graph = (
            graph.quads_for_pattern(node, None, None) if isinstance(graph, ox.Store) else graph.quads_for_subject(node)
        )
    said: dict[str, list[Any]] = {}
    for triple in graph if isinstance(graph, Iterable) else [graph]:
        if not isinstance(triple, (ox.Triple, ox.Quad)):
            expected, advice = "a Store, a Dataset, or triples of pyoxigraph", "Load the data into a pyoxigraph.Store."
            raise WrongType("rdf", "read", graph, expected, advice)
        if triple.subject == node:
            said.setdefault(triple.predicate.value, []).append(triple.object)
    return said


def class_of(types: Iterable[str]) -> type[Thing]:
    """The class that says most about a node with these types; a bare `Thing` where none is known."""
    import provml.vocab  # noqa: F401  # its import makes our classes known

    known = [CLASSES[name] for name in types if name in CLASSES]
    return min(known, key=lambda cls: (-len(cls.TYPES), str(cls.CLASS_IRI)), default=Thing)


def read(graph: Any, iri: str, *, as_: type[Thing] | None = None, strict: bool = True) -> Any:
    """The thing that a graph (a Store, a Dataset, or triples) describes under an IRI.

    Its class is the one that says most about the node, or `as_`. What follows from other statements of the same thing
    (a super-property, the types of the class) is left out, so a thing that was written comes back the same. A node that
    breaks its ontology is refused like a thing that does; with `strict=False` it is read all the same: a field whose
    values do not fit, or are too many or too few, is left empty, and its values are in `also`.
    """
    iri = IRI(iri)
    said = _said_of(graph, iri)
    if not said:
        raise NoSuchNode(iri)
    types = {node.value: node for node in said.pop(RDF_TYPE, [])}
    cls = as_ or class_of(types)
    fields = {field.iri: field for field in cls.FIELDS.values()}
    if not strict:
        _leave_out_what_does_not_fit(cls, said, fields)
    implied = _implied(said, fields)
    values: dict[str, Any] = {}
    also: dict[str, list[Any]] = {}
    for name, nodes in said.items():
        field = fields.get(name)
        held = [_held(cls, name, field, node) for node in dict.fromkeys(nodes) if node not in implied.get(name, ())]
        if field is None and held:
            also[name] = held
        elif field is not None and held:
            values[field.name] = held[0] if len(held) == 1 else held
    extra = [_held(cls, RDF_TYPE, None, node) for name, node in types.items() if name not in cls.TYPE_SET]
    if extra:
        also[RDF_TYPE] = extra
    if strict:
        return cls(iri, **values, also=also)
    kept: dict[str, object] = {name: cls.FIELDS[name].accept(cls.__name__, held) for name, held in values.items()}
    if also:
        kept["also"] = {IRI(name): tuple(held) for name, held in also.items()}
    return restore(cls, iri, kept)


def _leave_out_what_does_not_fit(cls: type[Thing], said: dict[str, list[Any]], fields: dict[str, Field]) -> None:
    """Take away the fields that refuse what is said with their property; then nothing counts as implied by it."""
    unfit = [""]
    while unfit:
        implied = _implied(said, fields)
        unfit = [
            name
            for name in said.keys() & fields.keys()
            if not _fits(cls, fields[name], [node for node in said[name] if node not in implied.get(name, ())])
        ]
        for name in unfit:
            del fields[name]


def _fits(cls: type[Thing], field: Field, nodes: list[Any]) -> bool:
    try:
        held = [_held(cls, field.iri, field, node) for node in dict.fromkeys(nodes)]
        if held:
            field.accept(cls.__name__, held[0] if len(held) == 1 else held)
    except RefusedValue:
        return False
    return True


def _implied(said: dict[str, list[Any]], fields: dict[str, Field]) -> dict[str, set[object]]:
    """Per property, the objects that need not be said because a narrower property, which is kept, says so."""
    above = {name: [x for x in fields[name].supers if x in said] for name in said if name in fields}
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
