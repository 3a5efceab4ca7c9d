"""Parse shape files into shapes; invalid shapes are rejected with their name and file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import OWL, RDF, RDFS, SH
from provml.validation.results import PATH_SUFFIXES
from provml.validation.shacl.model import Constraint, Shape, Shapes, Targets
from provml.validation.shacl.parameters import (
    CONSTRAINT_PARAMETERS,
    PROPERTY_ONLY,
    SHAPE_LISTS,
    SHAPE_REFERENCES,
    SINGLE,
    SUPPORTED,
    component_iri,
    read_parameter,
)
from provml.validation.shacl.parse_queries import (
    parse_components,
    parse_custom_constraint,
    parse_functions,
    parse_sparql_constraint,
    uses_component,
)
from provml.validation.shacl.path import Path
from provml.validation.shapes_graph import ShapesGraph

NODE_SHAPE, PROPERTY_SHAPE = f"{SH}NodeShape", f"{SH}PropertyShape"
SHAPE_PROPERTIES = ("targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "target", "property", "node",
                    "rule")  # fmt: skip
"""Properties whose subjects are shapes, whatever their type."""


def parse_shapes(files: Iterable[FilePath]) -> Shapes:
    """Parse all shapes of some files as one graph."""
    graph = ShapesGraph()
    names = []
    for file in files:
        graph.load(file)
        names.append(str(file))
    parser = _ShapeParser(graph)
    parser.parse_all()
    return Shapes(parser.shapes, tuple(names), parser.unsupported, graph.statements, parse_functions(graph))


class _ShapeParser:
    """Parses the shapes of a graph; `unsupported` maps shapes that this engine cannot validate to the reason."""

    def __init__(self, graph: ShapesGraph) -> None:
        self.graph = graph
        self.shapes: dict[Any, Shape] = {}
        self.unsupported: dict[Any, str] = {}
        self.components = parse_components(graph)

    def parse_all(self) -> None:
        graph = self.graph
        nodes = {node for name in SHAPE_PROPERTIES for node in graph.subjects(name)}
        for cls in (NODE_SHAPE, PROPERTY_SHAPE):
            nodes.update(graph.subjects(f"{RDF}type", ox.NamedNode(cls)))
        for node in sorted(nodes, key=str):
            self._parse_with_references(node, ())

    def _parse_with_references(self, node: Any, ancestors: tuple[Any, ...]) -> None:
        """Parse the shapes that a shape refers to, then the shape; `ancestors` are the shapes that refer to it."""
        if node in ancestors:
            cycle = " > ".join(map(str, (*ancestors[ancestors.index(node) :], node)))
            advice = "SHACL does not define recursion: use a property path or sh:sparql instead."
            raise self.graph.error(node, f"refers to itself ({cycle})", advice)
        if node in self.shapes:
            return
        if isinstance(node, ox.Literal) or (node not in self.graph.statements and ancestors):
            reason = f"refers to the shape {node}, which is not defined"
            raise self.graph.error(ancestors[-1], reason, "Define it, or correct its name.")
        for other in self._references(node):
            self._parse_with_references(other, (*ancestors, node))
        self.shapes[node] = self._parse(node)

    def _references(self, node: Any) -> list[Any]:
        graph = self.graph
        shapes = [other for name in SHAPE_REFERENCES for other in graph.values(node, name)]
        for name in SHAPE_LISTS:
            shapes += [
                other for members in graph.values(node, name) for other in graph.list_members(node, members, name)
            ]
        if graph.boolean(node, "qualifiedValueShapesDisjoint"):
            shapes += self._sibling_shapes(node)
        return shapes

    def _sibling_shapes(self, node: Any) -> list[Any]:
        """Return the qualified value shapes of the other property shapes of the same parents."""
        graph = self.graph
        own = graph.values(node, "qualifiedValueShape")
        parents = graph.subjects("property", node)
        siblings = {other for parent in parents for other in graph.values(parent, "property")}
        shapes = [shape for other in sorted(siblings, key=str) for shape in graph.values(other, "qualifiedValueShape")]
        return [shape for shape in shapes if shape not in own]

    def _parse(self, node: Any) -> Shape:
        graph = self.graph
        types = {cls.value for cls in graph.values(node, f"{RDF}type") if isinstance(cls, ox.NamedNode)}
        path = self._parse_shape_path(node, types)
        for other in graph.values(node, "property"):
            if self.shapes[other].path is None:
                raise graph.error(node, f"has the sh:property {other}, which has no sh:path", "Add one.")
        self._note_unsupported(node)
        severity = graph.value(node, "severity")
        return Shape(
            node=node,
            path=path,
            targets=self._targets(node, types),
            constraints=tuple(self._constraints(node, is_property=path is not None)),
            properties=tuple(graph.values(node, "property")),
            severity=severity.value if severity is not None else f"{SH}Violation",
            messages=tuple(graph.values(node, "message")),
            is_deactivated=graph.boolean(node, "deactivated"),
            file=graph.file_of(node),
        )

    def _targets(self, node: Any, types: set[str]) -> Targets:
        graph = self.graph
        root: Any = ox.NamedNode(f"{RDFS}Class")
        metaclasses = [root, ox.NamedNode(f"{OWL}Class"), *graph.subjects(f"{RDFS}subClassOf", root)]
        is_class = any(str(cls).strip("<>") in types for cls in metaclasses)
        return Targets(
            nodes=tuple(graph.values(node, "targetNode")),
            classes=tuple(dict.fromkeys([*graph.values(node, "targetClass"), *([node] if is_class else [])])),
            subjects_of=tuple(graph.values(node, "targetSubjectsOf")),
            objects_of=tuple(graph.values(node, "targetObjectsOf")),
        )

    def _note_unsupported(self, node: Any) -> None:
        for predicate in sorted(self.graph.statements.get(node, {})):
            name = predicate.removeprefix(SH)
            if name != predicate and name not in SUPPORTED:
                self.unsupported.setdefault(node, f"it uses sh:{name}")

    # ---- paths

    def _parse_shape_path(self, node: Any, types: set[str]) -> Path | None:
        graph = self.graph
        path_node = graph.value(node, "path")
        is_property = PROPERTY_SHAPE in types or path_node is not None or bool(graph.subjects("property", node))
        if is_property and path_node is None:
            raise graph.error(node, "is a property shape and has no sh:path", "Add one.")
        if is_property and NODE_SHAPE in types:
            raise graph.error(node, "is a node shape and has a sh:path", "Make it a sh:PropertyShape.")
        return self._parse_path(node, path_node) if path_node is not None else None

    def _parse_path(self, shape: Any, node: Any, ancestors: tuple[Any, ...] = ()) -> Path:
        graph = self.graph
        if isinstance(node, ox.NamedNode) and node.value != f"{RDF}nil":
            return Path("predicate", (), node)
        if node in ancestors:
            raise graph.error(shape, "has a sh:path that contains itself", "Write it with sh:zeroOrMorePath.")
        kind, parts = self._path_parts(shape, node)
        return Path(kind, tuple(self._parse_path(shape, part, (*ancestors, node)) for part in parts), node)

    def _path_parts(self, shape: Any, node: Any) -> tuple[str, list[Any]]:
        """Return the kind and the parts of a path that is not a predicate."""
        graph = self.graph
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

    # ---- constraints

    def _constraints(self, node: Any, *, is_property: bool) -> Iterator[Constraint]:
        for name in CONSTRAINT_PARAMETERS:
            values = self.graph.values(node, name)
            if name in SINGLE and len(values) > 1:
                self.graph.value(node, name)  # raises
            if values and name in PROPERTY_ONLY and not is_property:
                raise self.graph.error(node, f"has sh:{name} and no sh:path", "Move it to a property shape.")
            for value in values:
                if name != "sparql":
                    yield Constraint(name, component_iri(name), *read_parameter(self.graph, node, name, value))
                elif (constraint := parse_sparql_constraint(self.graph, node, value)) is not None:
                    yield constraint
        if is_property:  # like pySHACL: on a node shape, qualified shapes have no effect
            yield from self._qualified_constraints(node)
        yield from self._custom_constraints(node, is_property=is_property)

    def _qualified_constraints(self, node: Any) -> Iterator[Constraint]:
        graph = self.graph
        for value in graph.values(node, "qualifiedValueShape"):
            counts = {name: graph.integer(node, name) for name in ("qualifiedMinCount", "qualifiedMaxCount")}
            if set(counts.values()) == {None}:
                advice = "Add sh:qualifiedMinCount or sh:qualifiedMaxCount."
                raise graph.error(node, "has sh:qualifiedValueShape and no count", advice)
            is_disjoint = graph.boolean(node, "qualifiedValueShapesDisjoint")
            excluded = tuple(self._sibling_shapes(node)) if is_disjoint else ()
            for name, count in counts.items():
                if count is not None:
                    yield Constraint(name, component_iri(name), count, (value, excluded))

    def _custom_constraints(self, node: Any, *, is_property: bool) -> Iterator[Constraint]:
        for component in self.components:
            if uses_component(self.graph, component, node):
                constraint = parse_custom_constraint(self.graph, component, node, is_property=is_property)
                if constraint is not None:
                    yield constraint
                else:
                    reason = f"its component {component.node} is written in JavaScript"
                    self.unsupported.setdefault(node, reason)
