"""Parse shape files into shapes; invalid shapes are rejected with their name and file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import OWL, RDF, RDFS, SH
from provml.validation.cycles import components
from provml.validation.shacl.model import Constraint, Shape, Shapes, Targets
from provml.validation.shacl.parameters import (
    CONSTRAINT_PARAMETERS,
    DELEGATED,
    PROPERTY_ONLY,
    SHAPE_LISTS,
    SHAPE_REFERENCES,
    SINGLE,
    SUPPORTED,
    component_iri,
    read_parameter,
)
from provml.validation.shacl.parse_paths import parse_path
from provml.validation.shacl.parse_queries import (
    parse_components,
    parse_custom_constraint,
    parse_functions,
    parse_sparql_constraint,
    parse_target_query,
    uses_component,
)
from provml.validation.shacl.path import Path
from provml.validation.shacl.rules import parse_rules
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
    rules = tuple(parse_rules(graph, parser.shapes, parser.unsupported))
    return Shapes(
        parser.shapes,
        tuple(names),
        parser.unsupported,
        graph.statements,
        parse_functions(graph),
        rules=rules,
        notes=tuple(graph.notes),
        prefixes=graph.prefixes,
        line_of=graph.line_of,
    )


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
        references: dict[Any, list[Any]] = {}
        queue = sorted(nodes, key=str)
        for node in queue:  # grows while it is iterated
            if node not in references:
                references[node] = self._references(node)
                for other in references[node]:
                    self._check_reference(node, other)
                queue += references[node]
        for node in references:
            self.shapes[node] = self._parse(node)
        self._note_recursion(references)

    def _check_reference(self, node: Any, other: Any) -> None:
        graph = self.graph
        if isinstance(other, ox.Literal):
            reason = f"refers to the shape {other}, which is a literal"
            raise graph.error(node, reason, "Use an IRI or a blank node.")
        if other not in graph.statements:
            graph.note(
                f"{_capitalize(graph.name_of(node))} refers to {other}, which has no statements: it accepts all."
            )

    def _note_recursion(self, references: dict[Any, list[Any]]) -> None:
        """Note the shapes that refer to themselves, directly or not: SHACL does not define what they mean."""
        numbers = {node: number for number, node in enumerate(references)}
        edges = [[(numbers[other], 0) for other in others] for others in references.values()]
        component = components(edges, range(len(edges)))
        sizes = Counter(component)
        for number, (node, others) in enumerate(references.items()):
            if sizes[component[number]] > 1 or node in others:
                self.unsupported.setdefault(node, "it refers to itself, which SHACL does not define")

    def _references(self, node: Any) -> list[Any]:
        graph = self.graph
        shapes = [other for name in SHAPE_REFERENCES for other in graph.values(node, name)]
        shapes = [other for other in shapes if other not in self._undefined_properties(node)]
        for name in SHAPE_LISTS:
            shapes += [
                other for members in graph.values(node, name) for other in graph.list_members(node, members, name)
            ]
        if graph.boolean(node, "qualifiedValueShapesDisjoint"):
            shapes += self._sibling_shapes(node)
        return shapes

    def _undefined_properties(self, node: Any) -> list[Any]:
        """Return the values of sh:property without any statement; they have no effect."""
        graph = self.graph
        undefined = [
            other
            for other in graph.values(node, "property")
            if other not in graph.statements and not isinstance(other, ox.Literal)
        ]
        for other in undefined:
            graph.note(
                f"{_capitalize(graph.name_of(node))} has the sh:property {other}, which has no statements: ignored."
            )
        return undefined

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
        undefined = self._undefined_properties(node)
        properties = [other for other in graph.values(node, "property") if other not in undefined]
        for other in properties:
            if not graph.values(other, "path"):
                raise graph.error(node, f"has the sh:property {other}, which has no sh:path", "Add one.")
        self._note_unsupported(node)
        severity = graph.value(node, "severity")
        return Shape(
            node=node,
            path=path,
            targets=self._targets(node, types),
            constraints=tuple(self._constraints(node, is_property=path is not None)),
            properties=tuple(properties),
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
            queries=tuple(self._target_queries(node)),
        )

    def _target_queries(self, node: Any) -> Iterator[str]:
        """Iterate over the queries of sh:target; only pySHACL supports other kinds of targets."""
        for target in self.graph.values(node, "target"):
            query = parse_target_query(self.graph, node, target)
            if query is None:
                self.unsupported.setdefault(node, "it has a target (sh:target) that is not a SELECT query")
            else:
                yield query

    def _note_unsupported(self, node: Any) -> None:
        for predicate in sorted(self.graph.statements.get(node, {})):
            name = predicate.removeprefix(SH)
            if name in DELEGATED:
                self.unsupported.setdefault(node, f"it uses sh:{name}")
            elif name != predicate and name not in SUPPORTED:
                name_of_shape = _capitalize(self.graph.name_of(node))
                self.graph.note(f"{name_of_shape} uses sh:{name}, which SHACL does not define for a shape: ignored.")

    # ---- paths

    def _parse_shape_path(self, node: Any, types: set[str]) -> Path | None:
        graph = self.graph
        path_node = graph.value(node, "path")
        is_property = PROPERTY_SHAPE in types or path_node is not None or bool(graph.subjects("property", node))
        if is_property and path_node is None:
            raise graph.error(node, "is a property shape and has no sh:path", "Add one.")
        if is_property and NODE_SHAPE in types:
            raise graph.error(node, "is a node shape and has a sh:path", "Make it a sh:PropertyShape.")
        return parse_path(graph, node, path_node) if path_node is not None else None

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
                graph.note(f"{_capitalize(graph.name_of(node))} has sh:qualifiedValueShape and no count: ignored.")
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
                    reason = f"its component {component.node} has no validator in SPARQL"
                    self.unsupported.setdefault(node, reason)


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]
