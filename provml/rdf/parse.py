"""Nodes of a graph as things."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provml.errors import InvalidValue, NodeNotFound, WrongType
from provml.model.field import Field
from provml.model.thing import RDF_TYPE, Thing, find_class, restore
from provml.model.values import IRI, Literal
from provml.rdf.literals import value

Objects = dict[str, list[Any]]
"""The objects of a node's triples, by the IRI of the predicate."""


def read(graph: Any, iri: str, *, cls: type[Thing] | None = None, strict: bool = True) -> Any:
    """Return the thing that a graph (a Store, a Dataset, triples, or an rdflib graph) describes under an IRI.

    Its class is the most specific one among the node's types, or `cls`. Triples that follow from other triples of the
    node (super-properties, the types of the class) are left out, so that a thing that was written is read as equal.
    A node that violates its ontology raises an error. With `strict=False` it is read nevertheless: a field whose
    values do not fit, or are too many or too few, is empty, and its values are in `extra`.
    """
    iri = IRI(iri)
    objects = _objects_of(graph, iri)
    if not objects:
        raise NodeNotFound(iri)
    types = {node.value: node for node in objects.pop(RDF_TYPE, [])}
    cls = cls or class_of(types)
    fields = {field.iri: field for field in cls.FIELDS.values()}
    if not strict:
        _drop_unfit_fields(cls, objects, fields)
    values, extra = _field_values(cls, objects, fields)
    extra_types = [_to_value(cls, RDF_TYPE, None, node) for name, node in types.items() if name not in cls.TYPE_SET]
    if extra_types:
        extra[RDF_TYPE] = extra_types
    if strict:
        return cls(iri, **values, extra=extra)
    stored: dict[str, object] = {name: cls.FIELDS[name].accept(cls.__name__, item) for name, item in values.items()}
    if extra:
        stored["extra"] = {IRI(name): tuple(items) for name, items in extra.items()}
    return restore(cls, iri, stored)


def read_all(graph: Any, cls: type[Thing] | None = None, *, strict: bool = True) -> list[Any]:
    """Return the things of a graph: of a class, or all nodes that have a class. Graphs and options are those of `read`.

    Things are sorted by IRI. Blank nodes, which have no IRI, are left out.
    """
    import pyoxigraph as ox

    from provml.rdf.rdflib_bridge import from_rdflib, is_rdflib_graph

    if is_rdflib_graph(graph):
        graph = from_rdflib(graph)
    if not isinstance(graph, (ox.Store, ox.Dataset)):
        graph = ox.Dataset(ox.Quad(item.subject, item.predicate, item.object) for item in graph)
    types: dict[str, list[str]] = {}
    for quad in graph:
        if quad.predicate.value == RDF_TYPE and all(
            isinstance(node, ox.NamedNode) for node in (quad.subject, quad.object)
        ):
            types.setdefault(quad.subject.value, []).append(quad.object.value)
    classes = {iri: class_of(names) for iri, names in types.items()}
    wanted = cls or Thing
    return [
        read(graph, iri, strict=strict)
        for iri, kind in sorted(classes.items())
        if kind is not Thing and issubclass(kind, wanted)
    ]


def class_of(types: Iterable[str]) -> type[Thing]:
    """Return the most specific class among the types of a node; `Thing` if there is no class for any of them."""
    import provml.vocab  # noqa: F401  # registers the generated classes

    classes = [cls for cls in map(find_class, types) if cls is not None]
    return min(classes, key=lambda cls: (-len(cls.TYPES), str(cls.CLASS_IRI)), default=Thing)


def _objects_of(graph: Any, iri: IRI) -> Objects:
    import pyoxigraph as ox

    from provml.rdf.rdflib_bridge import from_rdflib, is_rdflib_graph

    node = ox.NamedNode(iri)
    if is_rdflib_graph(graph):
        graph = from_rdflib(graph, iri)
    elif isinstance(graph, ox.Store):
        graph = graph.quads_for_pattern(node, None, None)
    elif isinstance(graph, ox.Dataset):
        graph = graph.quads_for_subject(node)
    objects: Objects = {}
    for triple in graph if isinstance(graph, Iterable) else [graph]:
        if not isinstance(triple, (ox.Triple, ox.Quad)):
            expected, advice = "a Store, a Dataset, or triples of pyoxigraph", "Load the data into a pyoxigraph.Store."
            raise WrongType("rdf", "read", graph, expected, advice)
        if triple.subject == node:
            objects.setdefault(triple.predicate.value, []).append(triple.object)
    return objects


def _field_values(
    cls: type[Thing], objects: Objects, fields: dict[str, Field]
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the values of the fields, by name, and the values of other properties, by IRI."""
    implied = _implied_objects(objects, fields)
    values: dict[str, Any] = {}
    extra: dict[str, list[Any]] = {}
    for name, nodes in objects.items():
        field = fields.get(name)
        stated = [node for node in dict.fromkeys(nodes) if node not in implied.get(name, ())]
        items = [_to_value(cls, name, field, node) for node in stated]
        if field is None and items:
            extra[name] = items
        elif field is not None and items:
            values[field.name] = items[0] if len(items) == 1 else items
    return values, extra


def _drop_unfit_fields(cls: type[Thing], objects: Objects, fields: dict[str, Field]) -> None:
    """Remove the fields that reject the objects of their property; such a field implies nothing."""
    unfit = [""]
    while unfit:
        implied = _implied_objects(objects, fields)
        unfit = [
            name
            for name in objects.keys() & fields.keys()
            if not _fits(cls, fields[name], [node for node in objects[name] if node not in implied.get(name, ())])
        ]
        for name in unfit:
            del fields[name]


def _fits(cls: type[Thing], field: Field, nodes: list[Any]) -> bool:
    try:
        values = [_to_value(cls, field.iri, field, node) for node in dict.fromkeys(nodes)]
        if values:
            field.accept(cls.__name__, values[0] if len(values) == 1 else values)
    except InvalidValue:
        return False
    return True


def _implied_objects(objects: Objects, fields: dict[str, Field]) -> dict[str, set[object]]:
    """Return, by property, the objects that follow from a narrower property of the same node."""
    supers = {name: [x for x in fields[name].super_properties if x in objects] for name in objects if name in fields}
    subs_count = {name: sum(name in wider for wider in supers.values()) for name in objects}
    implied: dict[str, set[object]] = {}
    for name in sorted(supers, key=lambda name: (subs_count[name], name)):  # the narrowest first
        stated = set(objects[name]) - implied.get(name, set())
        for wider in supers[name]:
            implied.setdefault(wider, set()).update(stated)
    return implied


def _to_value(cls: type[Thing], name: str, field: Field | None, node: Any) -> Any:
    """Return an object of the graph as a value of a field, or of `extra` without a field."""
    import pyoxigraph as ox

    accepts_nodes = field is None or field.kind == "thing"
    if isinstance(node, ox.Literal):
        scalar = value(node)
        return Literal(scalar, node.datatype.value) if accepts_nodes and scalar.__class__ is IRI else scalar
    if isinstance(node, ox.NamedNode) and accepts_nodes:
        return IRI(node.value)
    expected = "an IRI or a literal" if field is None else field.expected
    advice = "Give the node an IRI first." if accepts_nodes else "Use a literal in the graph."
    raise WrongType(cls.__name__, f"extra[{name}]" if field is None else field.name, str(node), expected, advice)
