"""The parameters of SHACL Core constraints: which there are, and how their values are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyoxigraph as ox

from provml.rdf.namespaces import SH
from provml.validation.shapes_graph import ShapesGraph

REPEATABLE = ("class", "minExclusive", "minInclusive", "maxExclusive", "maxInclusive", "pattern", "node", "not",
              "equals", "disjoint", "lessThan", "lessThanOrEquals", "hasValue", "sparql")  # fmt: skip
"""Parameters of which each value is a constraint of its own."""
SHAPE_LISTS = ("and", "or", "xone")
"""Parameters whose values are lists of shapes."""
SINGLE = ("datatype", "nodeKind", "minLength", "maxLength", "languageIn", "in", "minCount", "maxCount", "uniqueLang",
          "closed")  # fmt: skip
"""Parameters with one value at most."""
CONSTRAINT_PARAMETERS = (*REPEATABLE, *SHAPE_LISTS, *SINGLE)
SHAPE_REFERENCES = ("node", "not", "property", "qualifiedValueShape")
"""Parameters whose values are shapes."""
PROPERTY_ONLY = ("minCount", "maxCount", "uniqueLang", "lessThan", "lessThanOrEquals")
"""Parameters that only property shapes may have."""
OTHER_PROPERTIES = {
    "path", "property", "targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "severity", "message",
    "deactivated", "flags", "ignoredProperties", "qualifiedValueShape", "qualifiedMinCount", "qualifiedMaxCount",
    "qualifiedValueShapesDisjoint", "name", "description", "order", "group", "defaultValue", "shapesGraph",
    "entailment", "declare", "suggestedShapesGraph", "labelTemplate", "resultMessage", "intent", "agentInstruction",
    "codeIdentifier", "prefixes", "select", "ask", "target", "rule",
}  # fmt: skip
"""Supported properties of a shape that are no constraints by themselves."""
DELEGATED = {"expression", "js", "values", "reifierShape", "reificationRequired", "memberShape", "minListLength",
             "maxListLength", "uniqueMembers", "rootClass", "singleLine", "someValue", "subsetOf"}  # fmt: skip
"""Properties of SHACL's advanced features and of SHACL 1.2 that this engine passes to pySHACL."""
SUPPORTED = {*CONSTRAINT_PARAMETERS, *OTHER_PROPERTIES}
NODE_KINDS = ("IRI", "BlankNode", "Literal", "BlankNodeOrIRI", "BlankNodeOrLiteral", "IRIOrLiteral")

ParameterReader: TypeAlias = Callable[[ShapesGraph, Any, str, Any], tuple[Any, Any]]
"""Takes the graph, the shape, the parameter and its value; returns the checked value and what belongs to it."""


def component_iri(parameter: str) -> str:
    """Return the constraint component of a parameter of SHACL Core."""
    return f"{SH}{parameter[0].upper()}{parameter[1:]}ConstraintComponent"


def read_parameter(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    """Check the value of a parameter; return it with the values of the parameters that belong to it."""
    reader = READERS.get(name)
    return (value, None) if reader is None else reader(graph, shape, name, value)


def _read_list(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    return tuple(graph.list_members(shape, value, name)), None


def _read_shapes(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    members = graph.list_members(shape, value, name)
    if not members:
        raise graph.error(shape, f"has an empty sh:{name}", "Add at least one shape.")
    return tuple(members), None


def _read_integer(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    return graph.integer(shape, name), None


def _read_boolean(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    return graph.boolean(shape, name), None


def _read_closed(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    allowed = [path for other in graph.values(shape, "property") for path in graph.values(other, "path")]
    for members in graph.values(shape, "ignoredProperties"):
        allowed += graph.list_members(shape, members, "ignoredProperties")
    return graph.boolean(shape, name), tuple(allowed)


def _read_pattern(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    flags = graph.value(shape, "flags")
    return value.value, "" if flags is None else flags.value


def _read_node_kind(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    if value.value.removeprefix(SH) not in NODE_KINDS:
        raise graph.error(shape, f"has {value} for sh:nodeKind", f"Use one of sh:{', sh:'.join(NODE_KINDS)}.")
    return value, None


def _read_iri(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    if isinstance(value, ox.Literal):
        raise graph.error(shape, f"has {value} for sh:{name}", "Use an IRI.")
    return value, None


def _read_node_shape(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    if graph.values(value, "path"):
        raise graph.error(shape, f"has the property shape {value} for sh:node", "Use sh:property.")
    return value, None


def _read_literal(graph: ShapesGraph, shape: Any, name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, ox.Literal):
        raise graph.error(shape, f"has {value} for sh:{name}", "Use a literal.")
    return value, None


READERS: dict[str, ParameterReader] = {
    **dict.fromkeys(("in", "languageIn"), _read_list),
    **dict.fromkeys(SHAPE_LISTS, _read_shapes),
    **dict.fromkeys(("minCount", "maxCount", "minLength", "maxLength"), _read_integer),
    **dict.fromkeys(("class", "datatype", "equals", "disjoint", "lessThan", "lessThanOrEquals"), _read_iri),
    **dict.fromkeys(("minExclusive", "minInclusive", "maxExclusive", "maxInclusive"), _read_literal),
    "uniqueLang": _read_boolean,
    "closed": _read_closed,
    "pattern": _read_pattern,
    "nodeKind": _read_node_kind,
    "node": _read_node_shape,
}
