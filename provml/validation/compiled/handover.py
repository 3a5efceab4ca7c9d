"""What is left to pySHACL: shapes that this engine does not cover, validated by the reference engine on their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provml.errors import BrokenFile, MissingPart
from provml.validation.compiled.shape import OWL, RDF, RDFS, SH, Shapes

if TYPE_CHECKING:
    import pyoxigraph
    import rdflib

    from provml.validation.report import Result

TARGETS = ("targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "target", "rule")


def validate(store: pyoxigraph.Store, shapes: Shapes) -> tuple[Result, ...]:
    """The results of the shapes that were handed over, each with the reference engine's message."""
    from provml.validation import reference

    report, reason = reference.judge(store, _left(shapes))
    if report is None:
        names = ", ".join(f"{node} ({reason})" for node, reason in shapes.handed_over.items())
        reason = f"pySHACL, which {names} was left to, cannot validate it: {reason}"
        raise BrokenFile(reason, "Write it in SHACL Core or SHACL-SPARQL.", file=shapes.files[0])
    return report.results


def _left(shapes: Shapes) -> rdflib.Graph:
    """The shapes graph without the targets of all shapes that were not handed over."""
    try:
        import rdflib
    except ImportError as error:
        raise MissingPart("pyshacl", "shacl") from error
    from provml.validation.reference import node

    targets = {SH + name for name in TARGETS}
    aimed = {shape.node for shape in shapes.targeted}
    graph = rdflib.Graph()
    for subject, said in shapes.graph.items():
        for predicate, values in said.items():
            for value in values:
                is_class = predicate == f"{RDF}type" and value.value in (f"{RDFS}Class", f"{OWL}Class")
                is_target = predicate in targets or (is_class and subject in aimed)
                if subject in shapes.handed_over or not is_target:
                    graph.add((node(subject), rdflib.URIRef(predicate), node(value)))
    return graph
