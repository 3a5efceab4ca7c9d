"""SHACL by pySHACL: supports any shapes graph, and reads the data from Oxigraph."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml.errors import FileFormatError, MissingDependency
from provml.rdf.namespaces import SH
from provml.validation.datatypes import restore
from provml.validation.graph import ValidationGraph, load_graph
from provml.validation.inputs import ValidationInput, load
from provml.validation.rdflib_terms import to_pyoxigraph, to_rdflib
from provml.validation.report import Report, sorted_report
from provml.validation.results import PATH_SUFFIXES, Result, show_term, sort_messages
from provml.validation.shape_files import builtin_shapes
from provml.validation.shapes_graph import ShapesGraph, triples_of

if TYPE_CHECKING:
    import rdflib


SPARQL_FUNCTION = ox.NamedNode(f"{SH}SPARQLFunction")


def validate(data: ValidationInput | ValidationGraph, shapes: Path | Iterable[Path] | None = None) -> Report:
    """Validate data against shape files (the built-in ones by default).

    The data is one or several things (with all things that they refer to), N-Triples as bytes, a pyoxigraph Store (its
    default graph), or the path of an RDF file, whose extension gives the format and whose named graphs are merged.
    """
    files = builtin_shapes() if shapes is None else [shapes] if isinstance(shapes, (str, Path)) else list(shapes)
    graph = ShapesGraph()
    for path in files:
        graph.load(Path(path))
    report, reason = run_pyshacl(load_graph(data), list(triples_of(graph.statements)), graph.prefixes)
    if report is None:
        # pySHACL does not say which of several files it means
        file = str(files[0]) if len(files) == 1 else "shapes"
        raise FileFormatError(f"pySHACL cannot use the shapes: {reason}", "Correct the shapes.", file=file)
    return report


def run_pyshacl(
    data: ValidationGraph, shapes: list[ox.Triple], prefixes: Mapping[str, str] | None = None
) -> tuple[Report | None, str]:
    """Return the report of pySHACL on a graph, or None and the reason for its failure.

    Each attempt works on a copy, since SHACL rules add triples. Queries may use `prefixes` that they do not declare.
    """
    try:
        import pyshacl
        import rdflib  # noqa: F401  # the functions below import it too
    except ImportError as error:
        raise MissingDependency("pyshacl", "shacl") from error

    reason = ""
    with _errors_only("rdflib.term"):  # it logs a traceback for each literal that is not well-formed
        for graph, shapes_graph in _attempts(data, shapes):
            for prefix, namespace in (prefixes or {}).items():
                if hasattr(graph, "bind"):
                    graph.bind(prefix, namespace)
                shapes_graph.bind(prefix, namespace)
            try:
                _, report, text = pyshacl.validate(graph, shacl_graph=shapes_graph, advanced=True, inplace=True)
            except Exception as error:  # pySHACL raises many kinds of errors
                report, text = None, str(error) or type(error).__name__
            if hasattr(report, "subjects"):
                return _read_report(report, data.store), ""
            reason = str(text).strip().partition("\n")[0].rstrip(".")  # further lines refer to the standard
    return None, reason


@contextmanager
def _errors_only(logger_name: str) -> Iterator[None]:
    """Let a logger log errors only."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _attempts(data: ValidationGraph, shapes: list[ox.Triple]) -> Iterator[tuple[Any, rdflib.Graph]]:
    """Iterate over data graphs to try one after the other, each with the shapes in the same form.

    On Oxigraph pySHACL is ten times faster than on rdflib, but there it supports neither ASK queries nor properties
    of literals. It is not tried if it would give a wrong result: preserved datatypes are not those of the data, and not
    every function of the shapes is evaluated.
    """
    from pyshacl.graph_abstraction import OxigraphDataGraph

    class DataGraph(OxigraphDataGraph):
        def __bool__(self) -> bool:  # pySHACL tests the graph often; counting all triples each time is 45 times slower
            return True

    has_functions = any(triple.object == SPARQL_FUNCTION for triple in shapes)
    if not data.has_preserved_datatypes and not has_functions:
        yield DataGraph(load(data.store)), _to_graph(shapes, normalize=True)
    triples = (quad.triple for quad in data.store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
    yield _with_plain_strings(_to_graph(triples)), _with_plain_strings(_to_graph(shapes))


def _to_graph(triples: Iterable[ox.Triple], *, normalize: bool = False) -> rdflib.Graph:
    """Copy triples to rdflib. With `normalize`, literals are those that pySHACL creates for data in Oxigraph."""
    import rdflib

    graph = rdflib.Graph()
    for triple in triples:
        value = to_rdflib(triple.object, normalize=normalize)
        graph.add((to_rdflib(triple.subject), to_rdflib(triple.predicate), value))
    return graph


def _with_plain_strings(graph: rdflib.Graph) -> rdflib.Graph:
    """Return a copy whose strings have no datatype, as rdflib parses the strings of queries."""
    import rdflib

    copy = rdflib.Graph()
    for subject, predicate, value in graph:
        is_string = isinstance(value, rdflib.Literal) and value.datatype == rdflib.XSD.string
        copy.add((subject, predicate, rdflib.Literal(str(value)) if is_string else value))
    return copy


def load_shapes(paths: Iterable[Path]) -> list[ox.Triple]:
    """Load shape files as one graph, with literals normalized as those of the data."""
    graph = ShapesGraph()
    for path in paths:
        graph.load(Path(path))
    return list(triples_of(graph.statements))


# ---- the report


def _read_report(graph: Any, store: ox.Store) -> Report:
    """Convert a sh:ValidationReport; results that only explain others (sh:detail) are left out."""
    import rdflib

    return sorted_report(
        _read_result(graph, node, store)
        for node in graph.subjects(rdflib.RDF.type, rdflib.URIRef(SH + "ValidationResult"))
        if next(graph.subjects(rdflib.URIRef(SH + "detail"), node), None) is None
    )


def _read_result(graph: Any, node: Any, store: ox.Store) -> Result:
    import rdflib

    def first(name: str) -> Any:
        return min(graph.objects(node, rdflib.URIRef(SH + name)), key=str, default=None)

    def text(name: str) -> str:
        return str(first(name) or "").removeprefix(SH)

    focus, path, shape, value = first("focusNode"), first("resultPath"), first("sourceShape"), first("value")
    component = text("sourceConstraintComponent").removesuffix("ConstraintComponent")
    values = [to_pyoxigraph(term) for term in graph.objects(node, rdflib.URIRef(SH + "value"))]
    is_predicate = isinstance(path, rdflib.URIRef)
    literals = graph.objects(node, rdflib.URIRef(SH + "resultMessage"))
    messages = sort_messages((str(literal), getattr(literal, "language", None) or "") for literal in literals)
    if component == "MaxCount" and is_predicate and not isinstance(focus, rdflib.Literal):
        # SHACL reports no value here; show all values, since any of them may be the wrong one
        matches = store.quads_for_pattern(to_pyoxigraph(focus), to_pyoxigraph(path), None, ox.DefaultGraph())
        values = [restore(quad.object) for quad in matches]
    return Result(
        focus=_node_text(focus),
        path=None if path is None else str(path) if is_predicate else _path_text(graph, path),
        values=tuple(sorted(map(show_term, values))),
        message=messages[0][0] if messages else "",
        shape="" if shape is None else _node_text(shape),
        severity=text("resultSeverity"),
        component=component,
        value="" if value is None else str(to_pyoxigraph(value)),
        messages=messages if len(messages) > 1 or (messages and messages[0][1]) else (),
    )


def _path_text(graph: Any, node: Any) -> str:
    """Return a property path in SPARQL syntax."""
    import rdflib
    from rdflib.collection import Collection

    if isinstance(node, rdflib.URIRef):
        return f"<{node}>"
    parts = {str(predicate).removeprefix(SH): value for predicate, value in graph.predicate_objects(node)}
    if "inversePath" in parts:
        return f"^{_path_text(graph, parts['inversePath'])}"
    for kind, suffix in PATH_SUFFIXES.items():
        if kind in parts:
            return f"({_path_text(graph, parts[kind])}){suffix}"
    separator, head = ("|", parts["alternativePath"]) if "alternativePath" in parts else ("/", node)
    return f"({separator.join(_path_text(graph, part) for part in Collection(graph, head))})"


def _node_text(node: Any) -> str:
    """Return an IRI as it is, and any other node in N-Triples syntax."""
    term = to_pyoxigraph(node)
    return str(node) if str(term).startswith("<") else str(term)
