"""pySHACL, the reference engine: any shapes graph, over data held by Oxigraph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml import resources
from provml.errors import BrokenFile, MissingPart
from provml.validation.loading import Given, load
from provml.validation.report import Report, Result, shown

if TYPE_CHECKING:
    import pyoxigraph
    import rdflib

SH = "http://www.w3.org/ns/shacl#"


def own_shapes() -> list[Path]:
    """The shape files that come with provml."""
    return sorted(resources.shapes().rglob("*.ttl"))


def validate(given: Given, shapes: Path | Iterable[Path] | None = None) -> Report:
    """The report of some data against shape files, provml's own unless others are given.

    The data is a thing or several (taken with every thing that they refer to), N-Triples as bytes, a pyoxigraph Store
    (its default graph), or the path of an RDF file, whose ending names its format; of a file with named graphs, all
    graphs are taken as one.
    """
    import pyoxigraph as ox

    files = own_shapes() if shapes is None else [shapes] if isinstance(shapes, (str, Path)) else list(shapes)
    report, reason = judge(given if isinstance(given, ox.Store) else load(given), load_shapes(files))
    if report is None:
        raise BrokenFile(f"pySHACL cannot validate with it: {reason}", "Mend the shapes.", file=_named(files))
    return report


def judge(store: pyoxigraph.Store, shapes: rdflib.Graph) -> tuple[Report | None, str]:
    """The report of pySHACL on a store's default graph; if it has none, why.

    Over Oxigraph it is ten times faster than over rdflib, but cannot ask ASK queries there, nor of a literal what it
    has: then it is over rdflib. Each time it gets a copy, since SHACL's rules add to the data.
    """
    try:
        import pyshacl
        from pyshacl.graph_abstraction import OxigraphDataGraph
    except ImportError as error:
        raise MissingPart("pyshacl", "shacl") from error

    class DataGraph(OxigraphDataGraph):
        def __bool__(
            self,
        ) -> bool:  # pyshacl asks whether there is a graph; counting all triples each time is 45 x slower
            return True

    reason = ""
    ways: list[Callable[[], tuple[Any, rdflib.Graph]]] = [
        lambda: (DataGraph(load(store)), shapes),
        lambda: (_copied(store), _plain(shapes)),
    ]
    for way in ways:
        data, graph = way()
        try:
            _, said, text = pyshacl.validate(data, shacl_graph=graph, advanced=True, inplace=True)
        except Exception as error:  # it has errors of many kinds
            said, text = None, str(error) or type(error).__name__
        if hasattr(said, "subjects"):
            return _report(said, store), ""
        reason = str(text).strip()
    return None, reason


def _named(files: list[Path]) -> str:
    """The shape file, where it is one; pySHACL does not say which of several it means."""
    return str(files[0]) if len(files) == 1 else "shapes"


def _copied(store: pyoxigraph.Store) -> rdflib.Graph:
    """What a store's default graph holds, as rdflib has it, each literal as it is written."""
    import pyoxigraph as ox
    import rdflib

    graph = rdflib.Graph()
    for quad in store.quads_for_pattern(None, None, None, ox.DefaultGraph()):
        graph.add((node(quad.subject), node(quad.predicate), node(quad.object)))
    return _plain(graph)


def _plain(graph: rdflib.Graph) -> rdflib.Graph:
    """A copy whose text has no datatype, which is how rdflib reads that of queries."""
    import rdflib

    copy = rdflib.Graph()
    for subject, predicate, held in graph:
        is_text = isinstance(held, rdflib.Literal) and held.datatype == rdflib.XSD.string
        copy.add((subject, predicate, rdflib.Literal(str(held)) if is_text else held))
    return copy


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
        except Exception as error:  # each of rdflib's parsers has errors of its own
            reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
            raise BrokenFile(reason, "Give shapes in Turtle, or mend the file.", file=str(path)) from error
    for subject, predicate, node in list(graph):
        if isinstance(node, rdflib.Literal) and node.datatype is None and node.language is None:
            graph.remove((subject, predicate, node))
            graph.add((subject, predicate, rdflib.Literal(str(node), datatype=rdflib.XSD.string)))
    return graph


def _report(graph: Any, store: pyoxigraph.Store) -> Report:
    import pyoxigraph as ox
    import rdflib

    def one(node: Any, name: str) -> Any:
        return min(graph.objects(node, rdflib.URIRef(SH + name)), key=str, default=None)

    def text(node: Any, name: str) -> str:
        return str(one(node, name) or "").removeprefix(SH)

    def result(node: Any) -> Result:
        focus, path, shape = one(node, "focusNode"), one(node, "resultPath"), one(node, "sourceShape")
        component = text(node, "sourceConstraintComponent").removesuffix("ConstraintComponent")
        values = [_term(value) for value in graph.objects(node, rdflib.URIRef(SH + "value"))]
        if component == "MaxCount" and isinstance(path, rdflib.URIRef) and not isinstance(focus, rdflib.Literal):
            # which ones are too many, nobody can say: all
            values = [
                quad.object for quad in store.quads_for_pattern(_term(focus), _term(path), None, ox.DefaultGraph())
            ]
        return Result(
            focus=_told(focus),
            path=None if path is None else str(path) if isinstance(path, rdflib.URIRef) else _path(graph, path),
            values=tuple(sorted(map(shown, values))),
            message=text(node, "resultMessage"),
            shape="" if shape is None else _told(shape),
            severity=text(node, "resultSeverity"),
            component=component,
            value=str(_term(one(node, "value"))) if one(node, "value") is not None else "",
        )

    results = [
        result(node)
        for node in graph.subjects(rdflib.RDF.type, rdflib.URIRef(SH + "ValidationResult"))
        if next(graph.subjects(rdflib.URIRef(SH + "detail"), node), None) is None
    ]
    return Report(
        tuple(sorted(results, key=lambda r: (r.severity, r.message, r.focus, r.path or "", r.component, r.values)))
    )


SUFFIXES = {"zeroOrMorePath": "*", "oneOrMorePath": "+", "zeroOrOnePath": "?"}


def _path(graph: Any, node: Any) -> str:
    """A property path that is described by blank nodes, as SPARQL writes it."""
    import rdflib
    from rdflib.collection import Collection

    if isinstance(node, rdflib.URIRef):
        return f"<{node}>"
    said = {str(predicate).removeprefix(SH): held for predicate, held in graph.predicate_objects(node)}
    if "inversePath" in said:
        return f"^{_path(graph, said['inversePath'])}"
    for kind, suffix in SUFFIXES.items():
        if kind in said:
            return f"({_path(graph, said[kind])}){suffix}"
    between, head = ("|", said["alternativePath"]) if "alternativePath" in said else ("/", node)
    return f"({between.join(_path(graph, part) for part in Collection(graph, head))})"


def _term(node: Any) -> Any:
    """A term of rdflib as one of pyoxigraph."""
    import pyoxigraph as ox
    import rdflib

    if isinstance(node, rdflib.Literal):
        datatype = None if node.language or node.datatype is None else ox.NamedNode(node.datatype)
        return ox.Literal(str(node), language=node.language, datatype=datatype)
    return ox.BlankNode(node) if isinstance(node, rdflib.BNode) else ox.NamedNode(node)


def node(term: Any) -> Any:
    """A term of pyoxigraph as one of rdflib, as it is written."""
    import pyoxigraph as ox
    import rdflib

    if isinstance(term, ox.Literal):
        datatype = None if term.language else rdflib.URIRef(term.datatype.value)
        return rdflib.Literal(term.value, lang=term.language, datatype=datatype, normalize=False)
    return rdflib.BNode(term.value) if isinstance(term, ox.BlankNode) else rdflib.URIRef(term.value)


def _told(node: Any) -> str:
    """A node as a result has it: an IRI as it is, all else as N-Triples write it."""
    term = _term(node)
    return str(node) if str(term).startswith("<") else str(term)
