"""Validation by pySHACL of the shapes that the SPARQL engine does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml.errors import FileFormatError, MissingDependency
from provml.rdf.namespaces import OWL, RDF, RDFS, SH
from provml.validation.shacl.model import Shapes
from provml.validation.shapes_graph import triples_of

if TYPE_CHECKING:
    from provml.validation.graph import ValidationGraph
    from provml.validation.results import Result

TARGETS = {f"{SH}{name}" for name in ("targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "target",
                                      "rule")}  # fmt: skip
CLASSES = {f"{RDFS}Class", f"{OWL}Class"}


def validate(graph: ValidationGraph, shapes: Shapes) -> tuple[Result, ...]:
    """Validate the delegated shapes with pySHACL."""
    from provml.validation import pyshacl_engine

    names = ", ".join(f"{node} ({cause})" for node, cause in shapes.delegated.items())
    try:
        report, reason = pyshacl_engine.run_pyshacl(graph, _delegated_triples(shapes), shapes.prefixes)
    except MissingDependency as error:
        advice = f"Only it can validate {names}. Run `pip install 'provml[{error.extra}]'`, or omit the shape."
        raise MissingDependency(error.package, error.extra, advice) from error
    if report is None:
        message = f"only pySHACL can validate {names}, and it fails: {reason}"
        file = min(shapes.shapes[node].file for node in shapes.delegated)
        raise FileFormatError(message, "Rewrite the shape in SHACL Core or SHACL-SPARQL.", file=file)
    return report.results


def _delegated_triples(shapes: Shapes) -> list[ox.Triple]:
    """Return the shapes graph with the targets of the delegated shapes only."""
    targeted = {shape.node for shape in shapes.targeted}

    def is_target(subject: Any, predicate: str, value: Any) -> bool:
        is_class = predicate == f"{RDF}type" and value.value in CLASSES
        return predicate in TARGETS or (is_class and subject in targeted)

    # pySHACL refuses a reference to a shape without statements, which accepts every node
    undefined = [node for node in shapes.shapes if node not in shapes.graph]
    declared = [ox.Triple(node, ox.NamedNode(f"{RDF}type"), ox.NamedNode(f"{SH}NodeShape")) for node in undefined]
    return declared + [
        triple
        for triple in triples_of(shapes.graph)
        if triple.subject in shapes.delegated or not is_target(triple.subject, triple.predicate.value, triple.object)
    ]
