"""The SPARQL service description, with VoID statistics of its dataset, and the description for PROV-AQ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from provml import __version__
from provml.rdf.namespaces import DCTERMS, ONTOLOGY, OTHER_PREFIXES, PREFIXES, PROV, RDF_TYPE, XSD
from provml.web import negotiation
from provml.web.routing import service_of
from provml.web.service import Service

SD = "http://www.w3.org/ns/sparql-service-description#"
VOID = OTHER_PREFIXES["void"]
FORMATS = "http://www.w3.org/ns/formats/"
RESULT_FORMATS = ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV")
GRAPH_FORMATS = ("Turtle", "N-Triples", "RDF_XML", "JSON-LD", "TriG", "N-Quads", "N3")


async def describe(request: Request) -> Response:
    """Return the description of the service in the format that the client likes best."""
    service = service_of(request)
    fmt = request.query_params.get("format", "")
    accept = request.headers.get("accept", "")
    if not fmt and negotiation.choose(negotiation.GRAPHS.values(), negotiation.parse_accept(accept)) is None:
        accept = "text/turtle"  # a browser
    media_type = negotiation.negotiate(accept, fmt, negotiation.GRAPHS)
    await service.fresh(5.0)
    base = service_url(request)
    body = await run_in_threadpool(_serialize, service, base, media_type)
    headers = {"Vary": "Accept", "Cache-Control": "no-cache"}
    return Response(body, 200, headers, negotiation.content_type(media_type))


def service_url(request: Request) -> str:
    """Return the address of the service as the client sees it, without a slash at the end."""
    configured = service_of(request).settings.base_url
    return configured.rstrip("/") if configured else str(request.base_url).rstrip("/")


def _serialize(service: Service, base: str, media_type: str) -> bytes:
    rdf_format = ox.RdfFormat.from_media_type(media_type)
    assert rdf_format is not None
    prefixes = {**PREFIXES, "sd": SD, "void": VOID}
    body = ox.serialize(_triples(service, base), format=rdf_format, prefixes=prefixes)
    return body or b""


def _triples(service: Service, base: str) -> Iterator[ox.Triple]:
    """Yield the triples of the description."""
    node, dataset = ox.NamedNode(f"{base}/sparql"), ox.NamedNode(f"{base}/sparql#dataset")
    default = ox.NamedNode(f"{base}/sparql#default-graph")

    def link(subject: ox.NamedNode, predicate: str, target: str) -> ox.Triple:
        return ox.Triple(subject, ox.NamedNode(predicate), ox.NamedNode(target))

    def value(subject: ox.NamedNode, predicate: str, literal: object, datatype: str = "string") -> ox.Triple:
        term = ox.Literal(str(literal), datatype=ox.NamedNode(XSD + datatype))
        return ox.Triple(subject, ox.NamedNode(predicate), term)

    yield link(node, RDF_TYPE, f"{SD}Service")
    yield link(node, f"{SD}endpoint", node.value)
    yield value(node, f"{DCTERMS}title", f"provml {__version__}")
    yield link(node, f"{SD}supportedLanguage", f"{SD}SPARQL11Query")
    if not service.settings.read_only:
        yield link(node, f"{SD}supportedLanguage", f"{SD}SPARQL11Update")
    for name in (*RESULT_FORMATS, *GRAPH_FORMATS):
        yield link(node, f"{SD}resultFormat", FORMATS + name)
    if not service.settings.read_only:
        for name in GRAPH_FORMATS:
            yield link(node, f"{SD}inputFormat", FORMATS + name)
    yield link(node, f"{SD}defaultDataset", dataset.value)
    yield link(node, f"{PROV}describesService", f"{base}/provenance")
    yield link(dataset, RDF_TYPE, f"{SD}Dataset")
    yield link(dataset, RDF_TYPE, f"{VOID}Dataset")
    yield link(dataset, f"{SD}defaultGraph", default.value)
    yield link(dataset, f"{VOID}sparqlEndpoint", node.value)
    yield value(dataset, f"{VOID}triples", len(service.store.backend.graph()), "integer")
    yield value(dataset, f"{VOID}uriSpace", ONTOLOGY + "/")
    for namespace in PREFIXES.values():
        yield link(dataset, f"{VOID}vocabulary", namespace)
    yield link(default, RDF_TYPE, f"{SD}Graph")
    for name in (ONTOLOGY, *service.store.loaded_graphs()):
        graph = ox.NamedNode(f"{base}/sparql#graph-{hashlib.sha256(name.encode()).hexdigest()[:12]}")
        yield link(dataset, f"{SD}namedGraph", graph.value)
        yield link(graph, RDF_TYPE, f"{SD}NamedGraph")
        yield link(graph, f"{SD}name", name)
