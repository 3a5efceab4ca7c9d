"""Terms of the ontologies, with their definitions."""

from __future__ import annotations

from functools import cache

import msgspec
import pyoxigraph as ox
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute

from provml import paths
from provml.rdf.namespaces import PREFIXES, PROV, RDF_TYPE, RDFS, SKOS
from provml.store.ontology_terms import abbreviate, ontology_terms, similar
from provml.web.answers import Version
from provml.web.api.tables import PAGE_QUERY, check_parameters, paging
from provml.web.api.types import TERM_CONTEXT, Term, Terms
from provml.web.problems import Problem
from provml.web.routing import json_response, route
from provml.web.service import Service

PREFIX = "/api/v1"
TERM_QUERY = {"q": {"type": "string"}, "limit": PAGE_QUERY["limit"], "offset": PAGE_QUERY["offset"]}
DEFINITIONS = (f"{SKOS}definition", f"{RDFS}comment", f"{PROV}definition")
"""Properties that hold a definition, the best first."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route(f"{PREFIX}/ontology/terms", terms, operation={"query": TERM_QUERY, "returns": Terms}),
        route(f"{PREFIX}/ontology/terms/{{name}}", term, operation={"returns": Term}),
        route(f"{PREFIX}/context.jsonld", context, operation={"formats": {"jsonld": "application/ld+json"}}),
    ]


async def terms(request: Request) -> Response:
    """List terms; `q` is a part of a name, a label or a definition."""
    check_parameters(request, "q", "limit", "offset")
    limit, offset = paging(request)
    text = request.query_params.get("q", "").casefold()
    found_terms = [item for item in all_terms().values() if text in _searched(item)]
    context = {**TERM_CONTEXT, "terms": "@graph"}
    return json_response(Terms(context=context, terms=found_terms[offset : offset + limit], total=len(found_terms)))


async def term(request: Request) -> Response:
    """Describe a term by its prefixed name, such as `provml:Model`."""
    name = request.path_params["name"]
    item = all_terms().get(name)
    if item is None:
        prefix, _, local = name.rpartition(":")
        suggestions = similar(local, PREFIXES.get(prefix, ""))
        advice = f" Did you mean {', '.join(suggestions)}?" if suggestions else ""
        raise Problem(404, "TermNotFound", f"No term {name[:100]!r}.{advice}", extra={"suggestions": suggestions})
    is_class = any(kind.endswith("Class") for kind in item.kinds)
    parents = {"@id": "rdfs:subClassOf" if is_class else "rdfs:subPropertyOf", "@type": "@id"}
    return json_response(msgspec.structs.replace(item, context={**TERM_CONTEXT, "parents": parents}))


async def context(request: Request) -> Response:
    """Return the JSON-LD context of the ontology."""
    path = paths.ontologies() / "context.jsonld"
    details = path.stat()
    version = Version(f'"{details.st_mtime_ns:x}-{details.st_size:x}"', details.st_mtime)
    if version.is_current(request):
        return version.not_modified()
    return FileResponse(path, headers=version.headers(), media_type="application/ld+json", stat_result=details)


def _searched(item: Term) -> str:
    return f"{item.name} {item.label} {item.definition}".casefold()


@cache
def all_terms() -> dict[str, Term]:
    """Return the terms of the ontologies by their prefixed names."""
    graph = ox.Store()
    for path in sorted(paths.ontologies().glob("*.ttl")):
        graph.load(path=str(path), format=ox.RdfFormat.TURTLE)
    described = {}
    for iri in sorted(ontology_terms()):
        item = _term(graph, ox.NamedNode(iri))
        if item.kinds:
            described[item.name] = item
    return described


def _term(graph: ox.Store, node: ox.NamedNode) -> Term:
    def values(*properties: str) -> list[str]:
        quads = (quad for name in properties for quad in graph.quads_for_pattern(node, ox.NamedNode(name), None))
        return list(dict.fromkeys(_text(quad.object) for quad in quads if not isinstance(quad.object, ox.BlankNode)))

    return Term(
        iri=node.value,
        name=abbreviate(node.value),
        kinds=values(RDF_TYPE),
        label=next(iter(values(f"{RDFS}label")), ""),
        definition=next(iter(values(*DEFINITIONS)), ""),
        parents=[
            name for name in values(f"{RDFS}subClassOf", f"{RDFS}subPropertyOf") if name != abbreviate(node.value)
        ],
        domain=values(f"{RDFS}domain"),
        range=values(f"{RDFS}range"),
    )


def _text(node: object) -> str:
    if isinstance(node, ox.NamedNode):
        return abbreviate(node.value) if any(node.value.startswith(ns) for ns in PREFIXES.values()) else node.value
    return node.value if isinstance(node, ox.Literal) else str(node)
