"""pySHACL, the reference engine: any shapes graph, over data held by Oxigraph."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml import resources
from provml.errors import BrokenFile, MissingPart
from provml.validation.report import Report, Result

if TYPE_CHECKING:
    import rdflib

SH = "http://www.w3.org/ns/shacl#"


def own_shapes() -> list[Path]:
    """The shape files that come with provml."""
    return sorted(resources.shapes().rglob("*.ttl"))


def validate(ntriples: bytes, shapes: Iterable[Path] | None = None) -> Report:
    """The report of some N-Triples against shape files, provml's own unless others are given."""
    try:
        import pyoxigraph as ox
        import pyshacl
        from pyshacl.graph_abstraction import OxigraphDataGraph
    except ImportError as error:
        raise MissingPart("pyshacl", "shacl") from error

    class DataGraph(OxigraphDataGraph):
        def __bool__(
            self,
        ) -> bool:  # pyshacl asks whether there is a graph; counting all triples each time is 45 x slower
            return True

    store = ox.Store()
    store.bulk_load(ntriples, format=ox.RdfFormat.N_TRIPLES)
    graph = load_shapes(own_shapes() if shapes is None else shapes)
    _, said, text = pyshacl.validate(DataGraph(store), shacl_graph=graph, inplace=True)
    if not hasattr(said, "subjects"):
        raise BrokenFile(str(text), "Mend the shapes.", file="shapes")
    return _report(said)


def load_shapes(paths: Iterable[Path]) -> rdflib.Graph:
    """Shape files as one graph; a broken one is named with the line.

    Text without a datatype gets xsd:string, which is what Oxigraph gives the data's text: rdflib holds the two apart.
    """
    import rdflib
    from rdflib.plugins.parsers.notation3 import BadSyntax

    graph = rdflib.Graph()
    for path in paths:
        try:
            graph.parse(path)
        except BadSyntax as error:
            raise BrokenFile(error.message, "Mend the Turtle there.", file=str(path), line=error.lines + 1) from error
        except OSError as error:
            raise BrokenFile(str(error.strerror).lower(), "Check the path.", file=str(path)) from error
    for subject, predicate, node in list(graph):
        if isinstance(node, rdflib.Literal) and node.datatype is None and node.language is None:
            graph.remove((subject, predicate, node))
            graph.add((subject, predicate, rdflib.Literal(str(node), datatype=rdflib.XSD.string)))
    return graph


def _report(graph: Any) -> Report:
    import rdflib

    def one(node: Any, name: str) -> str | None:
        found = sorted(graph.objects(node, rdflib.URIRef(SH + name)), key=str)
        return str(found[0]) if found else None

    results = [
        Result(
            focus=one(node, "focusNode") or "",
            path=one(node, "resultPath"),
            value=one(node, "value"),
            message=one(node, "resultMessage") or "",
            shape=one(node, "sourceShape") or "",
            severity=(one(node, "resultSeverity") or "").removeprefix(SH),
        )
        for node in graph.subjects(rdflib.RDF.type, rdflib.URIRef(SH + "ValidationResult"))
        if next(graph.subjects(rdflib.URIRef(SH + "detail"), node), None) is None
    ]
    return Report(tuple(sorted(results, key=lambda r: (r.severity, r.message, r.focus, r.path or "", r.value or ""))))
