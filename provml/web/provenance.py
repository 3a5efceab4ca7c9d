"""PROV-AQ: links from resources to their provenance, and IRIs of recorded nodes that can be looked up at `/id/…`."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pyoxigraph as ox
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.errors import InvalidIRI, NodeNotFound
from provml.model.values import IRI
from provml.rdf.jsonld_writer import to_jsonld
from provml.rdf.namespaces import NODES, PREFIXES, PROV
from provml.web import negotiation
from provml.web.answers import Version
from provml.web.problems import Problem
from provml.web.routing import route, service_of
from provml.web.service import Service
from provml.web.service_description import service_url

PAGES = {**negotiation.GRAPHS, "html": "text/html"}
URI_CHARACTERS = "%:/?#[]@!$&'()*+,;=~"
"""What a URI may have besides letters and digits."""
MAX_TRIPLES = 10_000
"""Triples of a node that are shown; a hub such as the ontology may have more."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route("/id/{path:path}", identifier),
        route("/provenance", provenance),
    ]


def link_header(request: Request, iri: str) -> str:
    """Return the Link header of PROV-AQ for a resource: where its provenance is, and where to ask for more."""
    base = service_url(request)
    target = f"{base}/provenance?{urlencode({'target': iri})}"
    anchor = quote(iri, safe=URI_CHARACTERS)  # a header is ASCII
    return (
        f'<{target}>; rel="{PROV}has_provenance"; anchor="{anchor}", '
        f'<{base}/provenance>; rel="{PROV}has_query_service"; anchor="{anchor}"'
    )


async def identifier(request: Request) -> Response:
    """Redirect from the name of a node to its description: an IRI names a thing, which cannot be sent."""
    raw = (request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    return _see_description(NODES + raw.removeprefix("/id/"))


def _see_description(iri: str) -> Response:
    """Return a redirection to the description of a node."""
    location = f"/nodes?{urlencode({'iri': iri})}"
    return Response(status_code=303, headers={"Location": location, "Vary": "Accept"})


async def node(request: Request) -> Response:
    """Describe a node as RDF: the triples that have it as subject or object. The viewer has the page for browsers."""
    return await _describe(request, _iri(request, "iri"))


async def provenance(request: Request) -> Response:
    """Return the provenance of a target, or the description of this query service without one."""
    accept, fmt = request.headers.get("accept", ""), request.query_params.get("format", "")
    media = negotiation.negotiate(accept, fmt, PAGES)
    if "target" in request.query_params:
        iri = _iri(request, "target")
        if media == "text/html":
            return _see_description(iri)
        return await _describe(request, iri)
    base = service_url(request)
    service = f"<{base}/provenance>"
    text = (
        f"@prefix prov: <{PROV}> .\n@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .\n"
        f"<> a prov:ServiceDescription ; prov:describesService {service}, <{base}/sparql> .\n"
        f'{service} a prov:DirectQueryService ; prov:provenanceUriTemplate "{base}/provenance?target={{uri}}" .\n'
        f"<{base}/sparql> a sd:Service ; sd:endpoint <{base}/sparql> ; sd:supportedLanguage sd:SPARQL11Query .\n"
    )
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
    accept, fmt = request.headers.get("accept", ""), request.query_params.get("format", "")
    media = negotiation.negotiate(accept, fmt, negotiation.GRAPHS)
    version = Version.of(await service.fresh(0.25), f"{iri} {media}")
    headers = {**version.headers(), "Link": link_header(request, iri)}
    if version.is_current(request):
        return version.not_modified()

    def body() -> bytes:
        triples = triples_about(service.store.backend.graph(), iri)
        if not triples:
            raise NodeNotFound(iri)
        return _serialize(triples, media)

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
