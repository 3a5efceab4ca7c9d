"""What is left to pySHACL: shapes that this engine does not cover, validated by the reference engine on their own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.errors import BrokenFile, MissingPart
from provml.validation.compiled.shape import OWL, RDF, RDFS, SH, Shapes

if TYPE_CHECKING:
    import pyoxigraph

    from provml.validation.report import Result

TARGETS = ("targetNode", "targetClass", "targetSubjectsOf", "targetObjectsOf", "target", "rule")


def validate(store: pyoxigraph.Store, shapes: Shapes) -> tuple[Result, ...]:
    """The results of the shapes that were handed over, each with the reference engine's message.

    pySHACL gets a copy of the graph, since SHACL's rules add to it, and the shapes graph without all other targets.
    """
    import pyoxigraph as ox

    try:
        import pyshacl
        import rdflib
    except ImportError as error:
        raise MissingPart("pyshacl", "shacl") from error
    from provml.validation import reference

    said = io.BytesIO()
    store.dump(said, format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    data = rdflib.Graph().parse(data=said.getvalue(), format="nt")
    graph = reference.load_shapes(map(Path, shapes.files))
    _leave(graph, shapes)
    try:
        _, found, text = pyshacl.validate(data, shacl_graph=graph, advanced=True)
    except Exception as error:  # it has errors of many kinds
        found, text = None, str(error) or type(error).__name__
    if not hasattr(found, "subjects"):
        names = ", ".join(f"{node} ({reason})" for node, reason in shapes.handed_over.items())
        reason = f"pySHACL, which {names} was left to, cannot validate it: {str(text).strip()}"
        raise BrokenFile(reason, "Write it in SHACL Core or SHACL-SPARQL.", file=shapes.files[0])
    return tuple(reference._report(found, store))


def _leave(graph: Any, shapes: Shapes) -> None:
    """Take away the targets of all shapes that were not handed over; those without a name go by whether one was."""
    import rdflib

    named = {str(node).strip("<>") for node in shapes.handed_over}
    has_nameless = any(str(node).startswith("_:") for node in shapes.handed_over)
    for target in TARGETS:
        for node in list(graph.subjects(rdflib.URIRef(SH + target))):
            if not (has_nameless if isinstance(node, rdflib.BNode) else str(node) in named):
                graph.remove((node, rdflib.URIRef(SH + target), None))
    for shape in shapes.targeted:
        iri = str(shape.node).strip("<>")
        for kind in (f"{RDFS}Class", f"{OWL}Class"):
            if iri not in named:
                graph.remove((rdflib.URIRef(iri), rdflib.URIRef(f"{RDF}type"), rdflib.URIRef(kind)))
