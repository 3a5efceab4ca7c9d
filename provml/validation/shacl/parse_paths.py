"""Parse the property paths of shapes and rules."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import RDF
from provml.validation.results import PATH_SUFFIXES
from provml.validation.shacl.path import Path
from provml.validation.shapes_graph import ShapesGraph


def parse_path(graph: ShapesGraph, shape: Any, node: Any, ancestors: tuple[Any, ...] = ()) -> Path:
    """Parse a property path of a shape."""
    if isinstance(node, ox.NamedNode) and node.value != f"{RDF}nil":
        return Path("predicate", (), node)
    if node in ancestors:
        raise graph.error(shape, "has a sh:path that contains itself", "Write it with sh:zeroOrMorePath.")
    kind, parts = _path_parts(graph, shape, node)
    return Path(kind, tuple(parse_path(graph, shape, part, (*ancestors, node)) for part in parts), node)


def _path_parts(graph: ShapesGraph, shape: Any, node: Any) -> tuple[str, list[Any]]:
    """Return the kind and the parts of a path that is not a predicate."""
    unary = [(kind, part) for kind in ("inversePath", *PATH_SUFFIXES) for part in graph.values(node, kind)]
    if graph.values(node, f"{RDF}first"):
        kind, parts = "sequence", graph.list_members(shape, node, "path")
    elif unary:
        return unary[0][0], [unary[0][1]]
    elif members := graph.values(node, "alternativePath"):
        kind, parts = "alternative", graph.list_members(shape, members[0], "alternativePath")
    else:
        advice = "Use an IRI or a SHACL path."
        raise graph.error(shape, f"has {node} for sh:path, which is not a property path", advice)
    if len(parts) < 2:
        raise graph.error(shape, f"has a {kind} path of fewer than two parts", "Add a part.")
    return kind, parts
