"""A SPARQL endpoint as the engine of a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import pyoxigraph as ox

from provml.errors import ServiceError
from provml.rdf.namespaces import NODES
from provml.store.backend import QueryResult, Readable
from provml.store.dialects import Dialect
from provml.store.endpoint.client import Endpoint
from provml.store.query_process import QueryLimits
from provml.store.query_view import View

CHUNK_TRIPLES = 50_000
"""Triples that are sent in one request."""
BLANK_NODES = f"{NODES}.well-known/genid/"
"""Start of the IRIs that stand for blank nodes: a blank node has no identity across requests."""


class EndpointBackend:
    """A dataset of a SPARQL endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @property
    def dialect(self) -> Dialect:
        """What the engine can do."""
        return self.endpoint.dialect

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self.endpoint.is_open

    def query(self, sparql: str, limits: QueryLimits | None = None, view: View = "") -> QueryResult:
        """Have a query executed; after the time limit, the answer is no longer waited for."""
        if view == "inference":
            advice = "Ask an endpoint that reasons itself, or the home."
            raise ServiceError(self.endpoint.address.url, "provml infers nothing at a SPARQL endpoint", advice)
        result: QueryResult = self.endpoint.query(sparql, seconds=limits.timeout_seconds if limits is not None else 0.0)
        return result

    def load(
        self,
        data: bytes | Readable,
        fmt: ox.RdfFormat = ox.RdfFormat.N_TRIPLES,
        *,
        graph: ox.NamedNode | None = None,
        bulk: bool = False,
    ) -> None:
        """Load RDF into the graph of the runs, or into another graph, in chunks."""
        content = data if isinstance(data, bytes) else data.read()
        quads = ox.parse(content, format=fmt, lenient=True)
        target = graph if graph is not None else ox.DefaultGraph()
        self.add(ox.Quad(quad.subject, quad.predicate, quad.object, target) for quad in quads)

    def add(self, quads: Iterable[ox.Quad], *, bulk: bool = False) -> None:
        """Add quads in chunks. Blank nodes become IRIs."""
        for graph, chunk in _chunks(quads):
            self.endpoint.load(b"".join(chunk), graph or self.endpoint.data_graph, is_large=len(chunk) == CHUNK_TRIPLES)

    def update(self, sparql: str) -> None:
        """Execute an update, as it is written."""
        self.endpoint.update(sparql)

    def snapshot(self, folder: Path) -> NoReturn:
        """Raise an error: the graph is on another machine."""
        raise not_here(self.endpoint, "snapshot")

    def graph(self) -> ox.Store:
        """Return all triples of the runs in memory: they are sent over the network."""
        store = ox.Store()
        store.bulk_extend(ox.Quad(*triple) for triple in self.endpoint.triples())
        return store

    def close(self) -> None:
        """Close the connection."""
        self.endpoint.close()


def _chunks(quads: Iterable[ox.Quad]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield lines of N-Triples by graph, at most CHUNK_TRIPLES at a time."""
    buffers: dict[str, list[bytes]] = {}
    for quad in quads:
        name = quad.graph_name.value if isinstance(quad.graph_name, ox.NamedNode) else ""
        lines = buffers.setdefault(name, [])
        lines.append(f"{name_blank_nodes(quad).triple} .\n".encode())
        if len(lines) == CHUNK_TRIPLES:
            yield name, buffers.pop(name)
    yield from buffers.items()


def name_blank_nodes(quad: ox.Quad, scope: str = "") -> ox.Quad:
    """Return a quad with IRIs in place of blank nodes; `scope` makes the names of several files differ."""

    def named(term: object) -> object:
        if not isinstance(term, ox.BlankNode):
            return term
        digest = hashlib.sha256(f"{scope}\n{term.value}".encode()).hexdigest()[:32]
        return ox.NamedNode(f"{BLANK_NODES}{digest}")

    if isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode):
        return ox.Quad(named(quad.subject), quad.predicate, named(quad.object), quad.graph_name)  # type: ignore[arg-type]
    return quad


def not_here(endpoint: Endpoint, method: str) -> ServiceError:
    """Return the error of a method that needs the journals."""
    advice = "Do it where the journals are, then send them with `provml sync --to URL`."
    return ServiceError(endpoint.address.url, f"{method} works on a home, not on a SPARQL endpoint", advice)
