"""The runs of a SPARQL endpoint, with the methods of a store.

Questions, tables, comparisons and lineage are computed from queries that the endpoint executes. Validation maps nothing
and sends nothing: the graph of each run is fetched and validated in memory by the compiled shapes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml import rdf
from provml.errors import GraphNotFound, ProtectedGraph, RunNotFound, ServiceError
from provml.journal.annotations import Annotation, Kind
from provml.journal.run_files import HasId
from provml.mapping import iris
from provml.model.values import IRI
from provml.rdf.namespaces import ONTOLOGY
from provml.store.elsewhere import StoreElsewhere
from provml.store.endpoint import run_nodes
from provml.store.endpoint.address import parse_endpoint
from provml.store.endpoint.backend import EndpointBackend, name_blank_nodes, not_here
from provml.store.endpoint.client import Endpoint, Limits
from provml.store.endpoint.progress import Names
from provml.store.endpoint.remote_quads import RemoteQuads
from provml.store.lineage_context import lineage_context
from provml.store.loaded_graphs import DEFAULT, LoadedGraph
from provml.store.run_info import RunInfo, runs_html
from provml.store.store import MAX_HTML_RUNS
from provml.store.updates import GraphChange

if TYPE_CHECKING:
    from provml.model.thing import Thing


class EndpointStore(StoreElsewhere):
    """The runs of a SPARQL endpoint. What needs journals raises ServiceError."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
    ) -> None:
        address = parse_endpoint(url, token=token, user=user, password=password)
        super().__init__(address.text, address.url)
        self.endpoint = Endpoint(address, limits)
        self._backend = EndpointBackend(self.endpoint)

    def __repr__(self) -> str:
        engine = self.endpoint.dialect.name
        return f"<EndpointStore {self.url!r} {engine}{'' if self._backend.is_open else ' closed'}>"

    @property
    def is_open(self) -> bool:
        """True until the connection is closed."""
        return self._backend.is_open

    def _not_here(self, method: str) -> ServiceError:
        return not_here(self.endpoint, method)

    def _repr_html_(self) -> str:
        if not self._backend.is_open:
            return f"<p>{self!r}</p>"
        runs = self.runs(MAX_HTML_RUNS)
        return runs_html(runs, run_nodes.count_runs(self.endpoint) - len(runs))

    def close(self) -> None:
        """Close the connection."""
        self._backend.close()

    @property
    def backend(self) -> EndpointBackend:
        """The endpoint as an engine."""
        return self._backend

    @property
    def position(self) -> str:
        """A short text that changes whenever `provml sync` has sent something."""
        rows = self.endpoint.query(run_nodes.COUNTS, graph=Names(self.endpoint.data_graph).progress)
        text = "\n".join(sorted(f"{run.value} {events.value}" for run, events, _ in rows))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    # ---- loading

    def add(self, things: Thing | Iterable[Thing], *, follow: bool = True) -> None:
        """Add things, with the things that they refer to unless `follow` is False."""
        self._backend.load(rdf.ntriples(things, follow=follow))

    def load(self, path: Any, *, graph: str | None = None, replace: bool = False) -> int:
        """Add an RDF file, in chunks, and return the number of quads. Blank nodes become IRIs.

        The suffix gives the format, as for a home. Loading a file again changes nothing. `replace` first removes the
        graph, which must be a named one.
        """
        from provml.store.imports import parse_added, source_of, store_source

        if replace:
            self._drop(graph or DEFAULT)

        source = source_of(path)
        with tempfile.TemporaryDirectory(prefix="provml-") as folder:  # checked and parsed as for a home here
            _, count = store_source(Path(folder), source, graph)
            scope = source.sha256
            for file in (Path(folder) / "added").glob("*.nq"):
                labels: dict[str, str] = {}
                self._backend.add(name_blank_nodes(_numbered(quad, labels), scope) for quad in parse_added(file))
        return count

    def loaded_graphs(self) -> list[str]:
        """Return the IRIs of the named graphs, but for those of provml."""
        names = self._graph_names()
        return sorted(names - self._graphs_of_provml(names))

    def _graph_names(self) -> set[str]:
        rows = self.endpoint.query("SELECT DISTINCT ?g WHERE { GRAPH ?g { ?s ?p ?o } }", graph="")
        return {row[0].value for row in rows}

    def _graphs_of_provml(self, names: set[str]) -> set[str]:
        """Return the graphs of the ontologies, of the runs of this and other collections, and of their progress."""
        suffix = Names("").progress.removeprefix(Names("").base)
        bases = {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
        bases.add(Names(self.endpoint.data_graph).base)
        starts = tuple(f"{base}#" for base in bases)
        return {name for name in names if name in bases or name == ONTOLOGY or name.startswith(starts)}

    def update(self, sparql: str) -> GraphChange:
        """Raise an error: the endpoint cannot tell what runs recorded from what was loaded."""
        raise ProtectedGraph("at a SPARQL endpoint, recorded runs cannot be told from loaded triples")

    def unload(self, *names: str) -> list[LoadedGraph]:
        """Remove named graphs by IRI; return what was removed."""
        graphs = {item.graph or "": item for item in self.graphs()}
        for name in names:
            if name not in graphs and name != DEFAULT:
                raise GraphNotFound(name, tuple(graphs))
            self._drop(name)
        return [graphs[name] for name in names]

    def _drop(self, graph: str) -> None:
        """Remove a named graph that is not one of provml."""
        if graph == DEFAULT:
            raise ProtectedGraph("at a SPARQL endpoint, recorded runs and loaded triples share a graph")
        if graph in self._graphs_of_provml(self._graph_names()):
            raise ProtectedGraph("provml has written it")
        self.endpoint.update(f"DROP SILENT GRAPH <{IRI(graph)}>")

    def graphs(self) -> list[LoadedGraph]:
        """List the named graphs, but for those of provml, with the number of triples of each."""
        text = "SELECT ?g (COUNT(*) AS ?n) WHERE { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g ORDER BY ?g"
        rows = [(row[0].value, int(row[1].value)) for row in self.endpoint.query(text, graph="") if row[0] is not None]
        own, now = self._graphs_of_provml({graph for graph, _ in rows}), datetime.now(UTC)
        return [LoadedGraph(graph, "", count, now) for graph, count in rows if graph not in own]

    def replace_loaded(self, graphs: Iterable[str | None] | None, content: Path | None) -> None:
        """Raise an error: use SPARQL Update, or the Graph Store Protocol."""
        raise self._not_here("replace_loaded")

    # ---- runs

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """List the runs, the latest first; with `limit` at most that number. The status is that of the last sync."""
        self._check_open()
        return run_nodes.list_runs(self.endpoint, limit)

    def _finder(self) -> tuple[dict[str, str], Callable[[str], RunInfo]]:
        self._check_open()
        names = run_nodes.name_runs(self.endpoint)
        return names, lambda run: run_nodes.describe_runs(self.endpoint, [iris.run_iri(run)])[0]

    def graph(self, run_id: str | None = None) -> ox.Store:
        """Return the graph of a run, or without a run the graph of all, in memory: it is sent over the network."""
        if run_id is None:
            return self._backend.graph()
        return run_nodes.graph_of_run(self.endpoint, self.run(run_id).id)

    def read(self, iri: str) -> Any:
        """Return the thing that the graph describes under an IRI."""
        return rdf.read(list(self.endpoint.triples(f"VALUES ?s {{ <{IRI(iri)}> }} ?s ?p ?o")), iri)

    def lineage_context(self, graph: ox.Store) -> list[ox.Quad]:
        """Return what other runs say about the data and models that a run used, given the graph of the run."""
        quads = RemoteQuads(self.endpoint)
        return quads.settle(lambda: list(lineage_context(quads, graph)))

    def annotations(self, run_id: str | HasId) -> list[Annotation]:
        """Return all annotations of a run, also those that no longer hold, in the order in which they were added."""
        run = self.run(run_id).iri
        return [annotation for _, annotation in run_nodes.read_annotations(self.endpoint, [run])]

    def _annotate(
        self, run_id: str | HasId, kind: Kind, texts: Iterable[str], *, by: str, removed: bool = False
    ) -> RunInfo:
        raise self._not_here({"tag": "tag", "note": "note", "name": "rename"}[kind])

    def remove_all(self, run_ids: Iterable[str]) -> list[RunInfo]:
        """Remove runs from the endpoint. A home that still has a run sends it again with its next sync."""
        from provml.store.endpoint.removal import remove_run

        infos = list({info.id: info for info in map(self.run, run_ids)}.values())
        if not infos:
            raise RunNotFound("", ())
        for info in infos:
            remove_run(self.endpoint, info.iri)
        return infos


def _numbered(quad: ox.Quad, labels: dict[str, str]) -> ox.Quad:
    """Return a quad with blank nodes that are numbered by their order, so that a file has the same names each time."""

    def label(term: Any) -> Any:
        return (
            ox.BlankNode(labels.setdefault(term.value, f"b{len(labels)}")) if isinstance(term, ox.BlankNode) else term
        )

    return ox.Quad(label(quad.subject), quad.predicate, label(quad.object), quad.graph_name)
