"""SPARQL-based constraints: sh:sparql, and constraint components that the shapes graph defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urljoin

import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.rdf.namespaces import OWL, RDF, RDFS, SH
from provml.validation.shacl import prebinding
from provml.validation.shacl.model import Constraint, Query
from provml.validation.shapes_graph import ShapesGraph

BUILTIN_PREFIXES = {"rdf": RDF, "rdfs": RDFS, "owl": OWL}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a custom constraint component."""

    predicate: str
    is_optional: bool

    @property
    def name(self) -> str:
        """The variable of the parameter: the local name of its predicate."""
        return re.split(r"[/#:]", self.predicate)[-1]


@dataclass(frozen=True)
class Component:
    """A custom constraint component: its node and its parameters."""

    node: Any
    parameters: tuple[Parameter, ...]


def parse_components(graph: ShapesGraph) -> list[Component]:
    """Parse the constraint components that the shapes graph defines."""
    root = ox.NamedNode(f"{SH}ConstraintComponent")
    classes = [root, *graph.subjects(f"{RDFS}subClassOf", root)]
    nodes = {node for cls in classes for node in graph.subjects(f"{RDF}type", cls)}
    return [
        Component(node, tuple(_parse_parameters(graph, node)))
        for node in sorted(nodes, key=str)
        if not str(node).startswith(f"<{SH}")
    ]


def _parse_parameters(graph: ShapesGraph, component: Any) -> Iterator[Parameter]:
    for node in graph.values(component, "parameter"):
        predicate = graph.value(node, "path")
        if not isinstance(predicate, ox.NamedNode):
            raise graph.error(component, "has a sh:parameter whose sh:path is not an IRI", "Use an IRI.")
        yield Parameter(predicate.value, graph.boolean(node, "optional"))


def parse_custom_constraint(
    graph: ShapesGraph, component: Component, shape: Any, *, is_property: bool
) -> Constraint | None:
    """Parse the constraint of a custom component, or return None if it has no validator in SPARQL."""
    specific = graph.values(component.node, "propertyValidator" if is_property else "nodeValidator")
    validator = next(iter([*specific, *graph.values(component.node, "validator")]), None)
    text = None if validator is None else graph.value(validator, "select" if specific else "ask")
    if text is None:
        return None
    bindings = {
        parameter.name: values[0]
        for parameter in component.parameters
        if (values := graph.values(shape, parameter.predicate))
    }
    names = [parameter.name for parameter in component.parameters]
    query = _parse_query(graph, shape, validator, text.value, bindings=bindings, variables=names)
    messages = tuple(graph.values(validator, "message")) or tuple(graph.values(component.node, "message"))
    return Constraint("component", component.node.value, component.node, None, query, messages)


def uses_component(graph: ShapesGraph, component: Component, shape: Any) -> bool:
    """Return whether a shape has values for all mandatory parameters of a component."""
    return all(parameter.is_optional or graph.values(shape, parameter.predicate) for parameter in component.parameters)


def parse_sparql_constraint(graph: ShapesGraph, shape: Any, source: Any) -> Constraint | None:
    """Parse a value of sh:sparql, or return None if it is deactivated."""
    if graph.boolean(source, "deactivated"):
        return None
    select = graph.value(source, "select")
    if not isinstance(select, ox.Literal):
        raise graph.error(shape, "has a sh:sparql without a sh:select", "Add the text of a SELECT query.")
    query = _parse_query(graph, shape, source, select.value)
    messages = tuple(graph.values(source, "message"))
    return Constraint("sparql", f"{SH}SPARQLConstraintComponent", source, None, query, messages)


def parse_target_query(graph: ShapesGraph, shape: Any, target: Any) -> str | None:
    """Return the SELECT query of a sh:SPARQLTarget without prefixes, or None for another kind of target."""
    types = graph.values(target, f"{RDF}type")
    select = graph.values(target, "select")
    if types != [ox.NamedNode(f"{SH}SPARQLTarget")] or len(select) != 1:
        return None
    text = _with_prologue(graph, shape, target, select[0].value)
    try:
        ox.Store().query(text)
    except SyntaxError as error:
        raise graph.error(shape, f"has a target with an invalid query: {error.msg}", "Correct the SPARQL.") from error
    except RuntimeError:  # it calls a function of the shapes
        return None
    parts = prebinding.split(text)
    return " ".join(
        prebinding.expand(parts.prologue, part) for part in (parts.head, "{", parts.body, "}", parts.modifiers)
    )


def parse_construct(graph: ShapesGraph, shape: Any, rule: Any) -> Query | None:
    """Return the query of a sh:SPARQLRule, or None if it has none."""
    texts = graph.values(rule, "construct")
    if len(texts) != 1:
        return None
    return Query(_with_prologue(graph, shape, rule, texts[0].value), False, {"currentShape": shape})


def parse_functions(graph: ShapesGraph) -> frozenset[Any]:
    """Return the functions that the shapes graph defines, after a check of their queries."""
    functions = graph.subjects(f"{RDF}type", ox.NamedNode(f"{SH}SPARQLFunction"))
    for function in functions:
        queries = [*graph.values(function, "select"), *graph.values(function, "ask")]
        file = graph.file_of(function)
        if len(queries) != 1 or not isinstance(queries[0], ox.Literal):
            reason = f"the function {function} does not have exactly one sh:select or sh:ask"
            raise FileFormatError(reason, "Give it one query.", file=file)
        try:
            ox.Store().query(_with_prologue(graph, function, function, queries[0].value))
        except SyntaxError as error:
            reason = f"the function {function} has an invalid query: {error.msg}"
            raise FileFormatError(reason, "Correct the SPARQL.", file=file, line=graph.line_of(function)) from error
        except RuntimeError:  # it calls another function
            continue
    return frozenset([*functions, *graph.subjects(f"{RDF}type", ox.NamedNode(f"{SH}JSFunction"))])


def _parse_query(
    graph: ShapesGraph,
    shape: Any,
    source: Any,
    text: str,
    *,
    bindings: Mapping[str, Any] | None = None,
    variables: Iterable[str] = (),
) -> Query:
    """Add prefixes to a query and check that its variables can be bound beforehand."""
    try:
        prebinding.check(text, {"this", *variables})
    except ValueError as error:
        advice = "SHACL cannot bind values in such a query: write it differently."
        raise graph.error(shape, f"has a query that {error}", advice) from error
    text = _with_prologue(graph, shape, source, text)
    return Query(text, prebinding.is_ask(text), {"currentShape": shape, **(bindings or {})})


def _with_prologue(graph: ShapesGraph, shape: Any, source: Any, text: str) -> str:
    """Return a query with its prefixes: those that sh:prefixes declares, else those of the files (@prefix)."""
    declared = {**BUILTIN_PREFIXES, **_declared_prefixes(graph, source)}
    used = prebinding.prefixes(text) - set(re.findall(r"(?i:prefix)\s+([\w.-]*):\s*<", text))
    prologue = "".join(f"PREFIX {prefix}: <{declared[prefix]}>\n" for prefix in sorted(used & declared.keys()))
    for prefix in sorted(used - declared.keys()):
        namespace = graph.prefixes.get(prefix)
        if namespace is None:
            advice = f"Declare it by sh:prefixes, or by PREFIX {prefix}: <…> in the query."
            raise graph.error(shape, f"has an invalid query: the prefix {prefix}: is not declared", advice)
        prologue += f"PREFIX {prefix}: <{namespace}>\n"
        name = graph.name_of(shape)
        graph.note(
            f"{name[0].upper()}{name[1:]} has a query with the prefix {prefix}:, which only @prefix declares:"
            f" <{namespace}> is taken."
        )
    return prologue + text


def _declared_prefixes(graph: ShapesGraph, source: Any) -> dict[str, str]:
    """Return the prefixes that sh:prefixes refers to, including those of imported ontologies."""
    ontologies = set(graph.subjects(f"{RDF}type", ox.NamedNode(f"{OWL}Ontology")))
    owners = graph.values(source, "prefixes")
    if owners and not any(graph.values(owner, "declare") and owner in ontologies for owner in owners):
        owners = [*sorted(ontologies, key=str), *owners]  # like pySHACL: the prefixes of any ontology count
    prefixes = {}
    for owner in owners:  # grows while it is iterated
        owners += [imported for imported in graph.values(owner, f"{OWL}imports") if imported not in owners]
        for declaration in graph.values(owner, "declare"):
            prefix, namespace = graph.value(declaration, "prefix"), graph.value(declaration, "namespace")
            if prefix is None or namespace is None:
                raise graph.error(owner, "has a sh:declare without sh:prefix or sh:namespace", "Add both.")
            base = FilePath(graph.file_of(owner)).absolute().as_uri()  # a namespace may be relative, like any IRI
            prefixes[prefix.value] = namespace.value if ":" in namespace.value else urljoin(base, namespace.value)
    return prefixes
