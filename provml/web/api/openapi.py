"""The OpenAPI 3.1 document of the service, generated from its routes, types and questions, and a page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml import __version__
from provml.answers.formats import plain
from provml.catalog import UNLIMITED, Catalog, Parameter, Query
from provml.web.api import types
from provml.web.api.questions import ASK, catalog_of
from provml.web.api.tables import PAGE_QUERY, TABLES
from provml.web.problems import MEDIA_TYPE
from provml.web.routing import JSON, ServiceRoute, json_response, route, service_of
from provml.web.service import Service

TYPES = (
    *(types.Table, types.Run, types.Annotation, types.Question, types.Questions, types.Term, types.Terms),
    *(types.Events, types.LineageGraph, types.Status),
)
PARAMETER_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "dateTime": {"type": "string", "format": "date-time"},
    "iri": {"type": "string"},
}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "suggestions": {"type": "array", "items": {"type": "string"}},
    },
}
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>provml: HTTP interface</title>
<link rel="stylesheet" href="/api/docs.css"></head><body><h1>provml: HTTP interface</h1>
<p>The same as a document: <a href="/api/v1/openapi.json">OpenAPI 3.1</a>. SPARQL is at <code>/sparql</code>, graphs are
at <code>/graphs</code>, counters at <code>/metrics</code>.</p>
"""
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
code { background: #f0f0f0; padding: 0 .2em; } table { border-collapse: collapse; margin: .5em 0; }
td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top; }
summary { cursor: pointer; } .method { display: inline-block; width: 4em; font-weight: bold; }
@media (prefers-color-scheme: dark) {
  body { background: #111; color: #ddd; } code { background: #333; } a { color: #8bf; }
}
"""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route("/api/v1/openapi.json", openapi),
        route("/api/docs", page),
        route("/api/docs.css", style, access="none"),
    ]


async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return json_response(document(request.app.routes, catalog_of(service_of(request))))


def document(routes_of_app: Iterable[BaseRoute], catalog: Catalog) -> dict[str, Any]:
    """Return the OpenAPI document of some routes and questions."""
    schemas, components = msgspec.json.schema_components(TYPES, ref_template="#/components/schemas/{name}")
    references = dict(zip(TYPES, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for item in routes_of_app:
        if isinstance(item, ServiceRoute) and item.operation is not None:
            path = _PATH_PARAMETER.sub(r"{\1}", item.path)
            for method in sorted((item.methods or set()) - {"HEAD"}):
                paths.setdefault(path, {})[method.lower()] = _operation(item, method, references)
    for query in catalog.values():
        paths[ASK.replace("{name}", query.name)] = {"get": _question(query, references)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "provml",
            "version": __version__,
            "summary": "Provenance of model trainings: runs, questions, artifacts, lineage and live events.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, "Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _operation(item: ServiceRoute, method: str, references: Mapping[Any, Any]) -> dict[str, Any]:
    description = item.operation or {}
    summary = (item.function.__doc__ or "").strip().split("\n")[0]
    names = _PATH_PARAMETER.findall(item.path)
    query = dict(description.get("query", {}))
    formats = description.get("formats", {"json": JSON})
    if len(formats) > 1:
        query["format"] = {"type": "string", "enum": list(formats)}
    result = {
        "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', item.path).rstrip('_')}",
        "summary": summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names),
            *(_query_parameter(name, schema) for name, schema in query.items()),
        ],
        "responses": _responses(description, formats, references),
        "x-access": item.access,
    }
    if "body" in description:
        schema = references[description["body"]]
        result["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return result


def _query_parameter(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter; its schema may say that it is required."""
    plain_schema = {key: value for key, value in schema.items() if key != "required"}
    return {"name": name, "in": "query", "required": bool(schema.get("required")), "schema": plain_schema}


def _responses(description: Mapping[str, Any], formats: Mapping[str, str], references: Mapping[Any, Any]) -> Any:
    status = description.get("status", "200")
    success: dict[str, Any] = {"description": "The answer."}
    if status != "307":
        schema = references.get(description.get("returns", object), {})
        success["content"] = {
            media: {"schema": schema} if media in (JSON, "application/ld+json") else {} for media in formats.values()
        }
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: success,
        "304": {"description": "The client has the present answer already."},
        "default": {"description": "A problem (RFC 9457).", "content": {MEDIA_TYPE: problem}},
    }


def _question(query: Query, references: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the operation of a question."""
    controls = {**PAGE_QUERY, "format": {"type": "string", "enum": list(TABLES)}}
    return {
        "operationId": f"ask_{re.sub(r'[^A-Za-z0-9]+', '_', query.name)}",
        "summary": query.summary,
        "tags": [query.intent],
        "parameters": [
            *(_parameter(parameter) for parameter in query.params.values()),
            *(
                {"name": name, "in": "query", "schema": schema}
                for name, schema in controls.items()
                if name not in query.params
            ),
        ],
        "responses": _responses({"returns": types.Table}, TABLES, references),
        "x-access": "read",
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = dict(PARAMETER_TYPES[parameter.type])
    if isinstance(parameter.min, (int, float)):
        schema["minimum"] = parameter.min
    if parameter.multiple:
        schema = {"type": "array", "items": schema}
    elif parameter.default not in (None, UNLIMITED):
        schema["default"] = plain(parameter.default)
    result = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required and parameter.name_kind != "model" and parameter.node_kind != "model",
        "description": parameter.help,
        "schema": schema,
    }
    if parameter.example is not None:
        result["example"] = plain(parameter.example)
    return result


# ---- a page


async def style(request: Request) -> Response:
    """Return the style of the page."""
    return Response(STYLE, media_type="text/css")


async def page(request: Request) -> Response:
    """Show the OpenAPI document as a page, without scripts and without anything from elsewhere."""
    description = document(request.app.routes, catalog_of(service_of(request)))
    parts = [HEAD]
    for path, methods in description["paths"].items():
        parts += [_shown(path, method, operation) for method, operation in methods.items()]
    return Response("".join([*parts, "</body></html>"]), media_type="text/html")


def _shown(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{escape(_type_name(parameter['schema']))}</td><td>{'yes' if parameter.get('required') else ''}</td>"
        f"<td>{escape(str(parameter.get('description') or parameter['schema'].get('description', '')))}</td></tr>"
        for parameter in operation["parameters"]
    ]
    head = "<tr><th>parameter</th><th>in</th><th>type</th><th>required</th><th></th></tr>"
    formats = ", ".join(
        media for response in operation["responses"].values() for media in response.get("content", ()) if media
    )
    return (
        f'<details><summary><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary>"
        f"<p>Token: {escape(operation['x-access'])}. Answers: {escape(formats)}.</p>"
        f"<table>{head}{''.join(rows)}</table></details>"
    )


def _type_name(schema: Mapping[str, Any]) -> str:
    name = str(schema.get("type", "any"))
    if name == "array":
        return f"{_type_name(schema['items'])}, repeated"
    return " | ".join(map(str, schema["enum"])) if "enum" in schema else name
