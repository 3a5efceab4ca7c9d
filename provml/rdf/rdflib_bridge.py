"""rdflib graphs and datasets as quads of pyoxigraph, and the other way round; rdflib is imported when it is needed."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pyoxigraph as ox

from provml.errors import InvalidIRI, MissingDependency, ProtectedGraph, WrongType
from provml.rdf.namespaces import PREFIXES, XSD

if TYPE_CHECKING:
    import rdflib

    Graph = rdflib.Graph
    Dataset = rdflib.Dataset

Statement = ox.Quad | ox.Triple
_STRING = XSD + "string"


def is_rdflib_graph(value: object) -> TypeGuard[Graph]:
    """Return whether a value is a graph or a dataset of rdflib, without importing rdflib."""
    module = sys.modules.get("rdflib")
    return module is not None and isinstance(value, module.Graph)


# ---- from rdflib


def from_rdflib(graph: Graph, subject: str | None = None) -> Iterator[ox.Quad]:
    """Yield the quads of an rdflib graph, or of a dataset with its named graphs. Literals keep their text.

    With `subject`, only those of one IRI.
    """
    node = None if subject is None else _rdflib().URIRef(subject)
    terms: dict[Any, Any] = {}

    def convert(node: Any) -> Any:
        term = terms.get(node)
        if term is None:
            term = terms[node] = _to_oxigraph(node)
        return term

    quads: Any = getattr(graph, "quads", None)
    if quads is not None:
        for start, predicate, value, name in quads((node, None, None, None)):
            yield ox.Quad(convert(start), convert(predicate), convert(value), _graph_name(name))
        return
    for start, predicate, value in graph.triples((node, None, None)):
        yield ox.Quad(convert(start), convert(predicate), convert(value))


def _graph_name(name: Any) -> Any:
    """Return the name of a graph of a dataset: a node, a graph, or None for the default graph."""
    name = getattr(name, "identifier", name)
    if name is None or str(name) == "urn:x-rdflib:default":
        return ox.DefaultGraph()
    return _to_oxigraph(name)


def _to_oxigraph(node: Any) -> Any:
    """Return a term of rdflib as one of pyoxigraph."""
    import rdflib

    if isinstance(node, rdflib.URIRef):
        try:
            return ox.NamedNode(str(node))
        except ValueError:
            raise InvalidIRI(str(node)) from None
    if isinstance(node, rdflib.BNode):
        try:
            return ox.BlankNode(str(node))
        except ValueError:  # rdflib accepts any text as the name of a blank node
            return ox.BlankNode(hashlib.sha256(str(node).encode()).hexdigest()[:32])
    if isinstance(node, rdflib.Literal):
        if node.language:
            return ox.Literal(str(node), language=node.language)
        return ox.Literal(str(node), datatype=ox.NamedNode(str(node.datatype or _STRING)))
    advice = "Formulas and variables of N3 have no place in RDF: remove these statements."
    raise WrongType("rdf", "from_rdflib", node, "IRIs, blank nodes and literals", advice)


# ---- to rdflib


def to_rdflib(statements: Iterable[Statement]) -> Graph:
    """Return triples, or quads without regard to their graphs, as an rdflib graph with the usual prefixes."""
    graph: Graph = _rdflib().Graph()
    _bind(graph)
    convert = _converter()
    for item in statements:
        graph.add((convert(item.subject), convert(item.predicate), convert(item.object)))
    return graph


def to_rdflib_dataset(quads: Iterable[ox.Quad]) -> Dataset:
    """Return quads as an rdflib dataset with the usual prefixes."""
    dataset: Dataset = _rdflib().Dataset()
    _bind(dataset)
    convert = _converter()
    for quad in quads:
        is_default = isinstance(quad.graph_name, ox.DefaultGraph)
        graph = dataset.default_graph if is_default else dataset.graph(convert(quad.graph_name))
        graph.add((convert(quad.subject), convert(quad.predicate), convert(quad.object)))
    return dataset


def _rdflib() -> Any:
    try:
        import rdflib
    except ImportError as error:
        raise MissingDependency("rdflib", "rdflib") from error
    return rdflib


def _bind(graph: Graph) -> None:
    for prefix, namespace in PREFIXES.items():
        graph.bind(prefix, namespace)


def _converter() -> Any:
    """Return a function from terms of pyoxigraph to terms of rdflib, which converts each term once."""
    import rdflib

    def literal(node: ox.Literal) -> rdflib.Literal:
        if node.language is not None:
            return rdflib.Literal(node.value, lang=node.language)
        datatype = None if node.datatype.value == _STRING else rdflib.URIRef(node.datatype.value)
        return rdflib.Literal(node.value, datatype=datatype, normalize=False)

    @cache
    def convert(node: Any) -> Any:
        if isinstance(node, ox.NamedNode):
            return rdflib.URIRef(node.value)
        if isinstance(node, ox.BlankNode):
            return rdflib.BNode(node.value)
        if isinstance(node, ox.Literal):
            return literal(node)
        raise WrongType("rdf", "to_rdflib", str(node), "no triple terms", "rdflib cannot hold them: export as nt.")

    return convert


# ---- a graph in place of a file


def as_file(graph: Graph) -> Path:
    """Write an rdflib graph to a temporary Turtle file, with its prefixes, and return its path.

    Where a path is expected, an rdflib graph can be passed through this. The same content has the same path. The file
    is removed when the process ends.
    """
    quads = sorted(from_rdflib(graph), key=str)
    prefixes = {prefix: str(namespace) for prefix, namespace in graph.namespaces()}
    data = ox.serialize((quad.triple for quad in quads), format=ox.RdfFormat.TURTLE, prefixes=prefixes) or b""
    folder = Path(_folder().name) / hashlib.sha256(data).hexdigest()[:16]
    path = folder / "graph.ttl"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        path.write_bytes(data)
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="provml-rdflib-")


# ---- rdflib over the engine


def live_dataset(store: ox.Store) -> Dataset:
    """Return an rdflib dataset that reads an Oxigraph store in place, by oxrdflib. It cannot be written to."""
    try:
        from oxrdflib import OxigraphStore
    except ImportError as error:
        raise MissingDependency("oxrdflib", "rdflib") from error

    class ReadOnlyStore(OxigraphStore):  # type: ignore[misc, unused-ignore]
        """A store that refuses to be changed."""

        def _refuse(self, *args: object, **options: object) -> None:
            raise ProtectedGraph("rdflib reads the graph of a home in place")

        add = addN = remove = update = remove_graph = destroy = _refuse  # noqa: N815  # the name is rdflib's

        def add_graph(self, graph: object) -> None:
            """Do nothing: rdflib announces each graph that it reads."""

    class LiveDataset(_rdflib().Dataset):  # type: ignore[misc]
        """A dataset whose queries warn of nothing: rdflib itself uses a name that it has deprecated."""

        default_context = property(lambda self: self.default_graph, lambda self, graph: None)

    dataset: Dataset = LiveDataset(store=ReadOnlyStore(store=store))
    _bind(dataset)
    return dataset
