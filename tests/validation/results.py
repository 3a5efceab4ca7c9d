"""Comparable validation results of several engines: blank nodes are described by their properties."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pyshacl
import rdflib

from provml.validation.datatypes import restore
from provml.validation.graph import ValidationGraph, load_graph
from provml.validation.shacl import Shapes
from provml.validation.shacl.execute import find_results
from provml.validation.shacl.path import Path as PropertyPath

SH = "http://www.w3.org/ns/shacl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PROPERTIES = ("focusNode", "resultPath", "value", "sourceConstraintComponent", "sourceShape", "resultSeverity")

Row = tuple[str | None, ...]
Properties = Callable[[Any], Iterable[tuple[str, Any]]]


def load(path: Path) -> ox.Store:
    """Load a file into a store."""
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE, base_iri=path.absolute().as_uri())
    return store


def properties_in(store: ox.Store) -> Properties:
    return lambda node: [
        (quad.predicate.value, restore(quad.object)) for quad in store.quads_for_pattern(node, None, None, None)
    ]


def describe(properties: Properties, node: Any, depth: int = 0) -> str:
    """Return the text of a term; a blank node is described by its properties, a list by its members only.

    The depth is four, since the reports of pySHACL describe blank nodes up to some depth only.
    """
    if not isinstance(node, ox.BlankNode):
        return str(node)
    pairs = list(properties(node))
    if any(predicate == f"{RDF}first" for predicate, _ in pairs):
        pairs = [pair for pair in pairs if pair[0] in (f"{RDF}first", f"{RDF}rest")]
    if depth > 3:
        return "[…]"
    texts = sorted(f"{predicate} {describe(properties, value, depth + 1)}" for predicate, value in pairs)
    return f"[{'; '.join(texts)}]"


def in_report(store: ox.Store) -> Counter[Row]:
    """Return the results of a sh:ValidationReport, without those of sh:detail."""
    properties = properties_in(store)
    rows: Counter[Row] = Counter()
    for report in store.quads_for_pattern(
        None, ox.NamedNode(f"{RDF}type"), ox.NamedNode(f"{SH}ValidationReport"), None
    ):
        for result in store.quads_for_pattern(report.subject, ox.NamedNode(f"{SH}result"), None, None):
            values = {predicate.removeprefix(SH): value for predicate, value in properties(result.object)}
            rows[tuple(describe(properties, values[name]) if name in values else None for name in PROPERTIES)] += 1
    return rows


def by_sparql(graph: ValidationGraph, shapes: Shapes) -> Counter[Row]:
    """Return the results of the SPARQL engine."""
    data = properties_in(graph.store)

    def describe_shape(node: Any) -> str:
        def properties(shape: Any) -> Iterable[tuple[str, Any]]:
            return [(name, value) for name, values in shapes.graph.get(shape, {}).items() for value in values]

        return describe(properties, node)

    rows: Counter[Row] = Counter()
    for result in find_results(graph, shapes):
        path = result.path.node if isinstance(result.path, PropertyPath) else result.path
        row = (
            describe(data, result.focus),
            None if path is None else describe_shape(path),
            None if result.value is None else describe(data, result.value),
            f"<{result.component}>",
            describe_shape(result.shape.node),
            f"<{result.shape.severity}>",
        )
        rows[row] += 1
    return rows


def by_pyshacl(data: Path, shapes: Path) -> Counter[Row]:
    """Return the results of pySHACL for files, with terms normalized by Oxigraph."""
    rdflib.NORMALIZE_LITERALS = False  # rdflib would change "none"^^xsd:boolean to "false"
    rdflib.term._reset_bindings()  # owlrl, which other tests run, binds datatypes for the whole process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations in its dependencies, and ill-formed literals
            _, report, text = pyshacl.validate(str(data), shacl_graph=str(shapes))
    finally:
        rdflib.NORMALIZE_LITERALS = True
    if not hasattr(report, "serialize"):
        raise RuntimeError(text)
    return in_report(load_graph(report.serialize(format="nt", encoding="utf-8")).store)
