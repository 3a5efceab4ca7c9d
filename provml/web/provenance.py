"""PROV-AQ: links from resources to their provenance, and IRIs of recorded nodes that can be looked up at `/id/…`."""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.errors import InvalidIRI, NodeNotFound
from provml.model.values import IRI
from provml.rdf.jsonld_writer import to_jsonld
from provml.rdf.namespaces import NODES, PREFIXES, PROV, RDF_TYPE
from provml.web import negotiation
from provml.web.answers import etag, is_current, not_modified
from provml.web.problems import Problem
from provml.web.routing import route, service_of
from provml.web.service import Service
from provml.web.service_description import service_url

PAGES = {**negotiation.GRAPHS, "html": "text/html"}
MAX_TRIPLES = 10_000
"""Triples of a node that are shown; a hub such as the ontology may have more."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route("/id/{path:path}", identifier),
        route("/nodes", node),
        route("/provenance", provenance),
    ]


def link_header(request: Request, iri: str) -> str:
    """Return the Link header of PROV-AQ for a resource: where its provenance is, and where to ask for more."""
    base = service_url(request)
    target = f"{base}/provenance?{urlencode({'target': iri})}"
    return (
        f'<{target}>; rel="{PROV}has_provenance"; anchor="{iri}", '
        f'<{base}/provenance>; rel="{PROV}has_query_service"; anchor="{iri}"'
    )


async def identifier(request: Request) -> Response:
    """Redirect from the name of a node to its description: an IRI names a thing, which cannot be sent."""
    raw = (request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    iri = NODES + raw.removeprefix("/id/")
    location = f"/nodes?{urlencode({'iri': iri})}"
    return Response(status_code=303, headers={"Location": location, "Vary": "Accept"})


async def node(request: Request) -> Response:
    """Describe a node: the triples that have it as subject or object, as RDF or as a page."""
    return await _describe(request, _iri(request, "iri"))


async def provenance(request: Request) -> Response:
    """Return the provenance of a target, or the description of this query service without one."""
    if "target" in request.query_params:
        return await _describe(request, _iri(request, "target"))
    base = service_url(request)
    service = f"<{base}/provenance>"
    text = (
        f"@prefix prov: <{PROV}> .\n@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .\n"
        f"<> a prov:ServiceDescription ; prov:describesService {service}, <{base}/sparql> .\n"
        f'{service} a prov:DirectQueryService ; prov:provenanceUriTemplate "{base}/provenance?target={{uri}}" .\n'
        f"<{base}/sparql> a sd:Service ; sd:endpoint <{base}/sparql> ; sd:supportedLanguage sd:SPARQL11Query .\n"
    )
    media = negotiation.negotiate(request.headers.get("accept", ""), request.query_params.get("format", ""), PAGES)
    if media == "text/html":
        media = "text/turtle"
    triples = [quad.triple for quad in ox.parse(text, format=ox.RdfFormat.TURTLE, base_iri=f"{base}/provenance")]
    return Response(_serialize(triples, media), headers={"Vary": "Accept"}, media_type=negotiation.content_type(media))


def _iri(request: Request, name: str) -> str:
    try:
        return str(IRI(request.query_params.get(name, "")))
    except InvalidIRI as error:
        raise Problem(400, "InvalidIRI", str(error)) from None


async def _describe(request: Request, iri: str) -> Response:
    service = service_of(request)
    media = negotiation.negotiate(request.headers.get("accept", ""), request.query_params.get("format", ""), PAGES)
    position = await service.fresh(0.25)
    tag = etag(position, f"{iri} {media}")
    headers = {"Vary": "Accept", "ETag": tag, "Cache-Control": "no-cache", "Link": link_header(request, iri)}
    if is_current(request, tag):
        return not_modified(tag)

    def body() -> bytes:
        triples = triples_about(service.store.backend.graph(), iri)
        if not triples:
            raise NodeNotFound(iri)
        return _page(iri, triples).encode() if media == "text/html" else _serialize(triples, media)

    return Response(await run_in_threadpool(body), 200, headers, negotiation.content_type(media))


def triples_about(graph: ox.Store, iri: str) -> list[ox.Triple]:
    """Return the triples with a node as subject or object, in any graph, up to MAX_TRIPLES."""
    name = ox.NamedNode(iri)
    triples: dict[ox.Triple, None] = {}
    for quads in (graph.quads_for_pattern(name, None, None), graph.quads_for_pattern(None, None, name)):
        for quad in quads:
            if len(triples) >= MAX_TRIPLES:
                break
            triples[quad.triple] = None
    return list(triples)


def _serialize(triples: list[ox.Triple], media: str) -> bytes:
    if media == "application/ld+json":
        return to_jsonld(triples).encode()
    rdf_format = ox.RdfFormat.from_media_type(media)
    assert rdf_format is not None
    return ox.serialize(triples, format=rdf_format, prefixes=PREFIXES) or b""


# ---- a page


def _page(iri: str, triples: list[ox.Triple]) -> str:
    """Return a page about a node; every text in it is escaped."""
    types = [_short(triple.object) for triple in triples if triple.predicate.value == RDF_TYPE]
    rows = [
        f"<tr><td>{_shown(t.subject, iri)}</td><td>{_shown(t.predicate, iri)}</td><td>{_shown(t.object, iri)}</td></tr>"
        for t in sorted(triples, key=lambda t: (str(t.subject) != f"<{iri}>", str(t.predicate), str(t.object)))
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(iri)}</title></head><body>'
        f"<h1>{escape(_short(ox.NamedNode(iri)))}</h1><p>{escape(iri)}</p>"
        f"<p>{escape(', '.join(sorted(set(types))))}</p>"
        f"<table><thead><tr><th>subject</th><th>predicate</th><th>object</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></body></html>"
    )


def _short(term: object) -> str:
    if not isinstance(term, ox.NamedNode):
        return str(term)
    for prefix, namespace in PREFIXES.items():
        if term.value.startswith(namespace):
            return f"{prefix}:{term.value.removeprefix(namespace)}"
    return term.value.removeprefix(NODES) or term.value


def _shown(term: object, iri: str) -> str:
    if isinstance(term, ox.NamedNode) and term.value != iri:
        return f'<a href="/nodes?iri={escape(quote(term.value, safe=""))}">{escape(_short(term))}</a>'
    return escape(_short(term))
