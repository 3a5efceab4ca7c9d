"""Questions of the catalog, the users' own included: their description, and their answers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.answers import Answer
from provml.answers.formats import plain
from provml.catalog import UNLIMITED, Catalog, Parameter, Query, user_folders
from provml.web.api.tables import respond_table
from provml.web.api.types import Question, QuestionParameter, Questions
from provml.web.problems import Problem
from provml.web.routing import json_response, route, service_of
from provml.web.service import Service

PREFIX = "/api/v1"
ASK = f"{PREFIX}/ask/{{name}}"
CONTROLS = frozenset(("format", "limit", "offset", "safe"))
"""Parameters of the answer, unless the question has a parameter of that name."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route(f"{PREFIX}/questions", questions, operation={"returns": Questions}),
        route(f"{PREFIX}/questions/{{name}}", question, operation={"returns": Question}),
        route(ASK, ask),
    ]


def catalog_of(service: Service) -> Catalog:
    """Return the questions as they are now: users add files while the service runs."""
    stamp = tuple(
        (str(path), path.stat().st_mtime_ns)
        for folder in user_folders(service.home)
        if folder.is_dir()
        for path in sorted(folder.glob("*.rq"))
    )
    if service.catalog_stamp != stamp:
        service.catalog_stamp = stamp
        service.store.reload_catalog()
    return service.store.catalog


async def questions(request: Request) -> Response:
    """List the questions."""
    catalog = catalog_of(service_of(request))
    errors = [f"{path.name}: {error}" for path, error in catalog.errors.items()]
    return json_response(Questions([describe(query) for query in catalog.values()], errors))


async def question(request: Request) -> Response:
    """Describe a question."""
    return json_response(describe(catalog_of(service_of(request))[request.path_params["name"]]))


def describe(query: Query) -> Question:
    """Return the description of a question."""
    return Question(
        name=query.name,
        aliases=list(query.aliases),
        summary=query.summary,
        intent=query.intent,
        source=query.source,
        needs=query.needs,
        is_packaged=query.is_packaged,
        columns=dict(query.columns),
        parameters=[describe_parameter(parameter) for parameter in query.params.values()],
        plot=dict(query.plot) if query.plot is not None else None,
        sparql=query.text,
        url=f"{PREFIX}/ask/{query.name}",
    )


def describe_parameter(parameter: Parameter) -> QuestionParameter:
    """Return the description of a parameter."""
    return QuestionParameter(
        name=parameter.name,
        type=parameter.type,
        help=parameter.help,
        required=parameter.required,
        multiple=parameter.multiple,
        default=None if parameter.default == UNLIMITED else plain(parameter.default),
        example=plain(parameter.example),
        node_kind=parameter.node_kind,
        name_kind=parameter.name_kind,
    )


async def ask(request: Request) -> Response:
    """Answer a question: `/api/v1/ask/q6?model=alexnet`. A parameter that takes several values may be repeated."""
    service = service_of(request)
    query = catalog_of(service)[request.path_params["name"]]
    values = parse_values(request, query)
    timeout = None if query.is_packaged else service.limits.query_seconds

    def make() -> Answer:
        return service.store.ask(query, timeout=timeout, **values)

    return await respond_table(request, make, variant=query.text)


def parse_values(request: Request, query: Query) -> dict[str, Any]:
    """Return the values of a question's parameters from the address."""
    values: dict[str, Any] = {}
    for name in request.query_params:
        parameter = query.params.get(name)
        texts = request.query_params.getlist(name)
        if parameter is None:
            if name not in CONTROLS:
                values[name] = texts[-1]  # the question knows what it takes, and says so
        elif parameter.multiple:
            values[name] = [parameter.from_text(text) for text in texts]
        elif len(texts) > 1:
            raise Problem(400, "InvalidParameter", f"{query.name}: {name} takes one value, not {len(texts)}.")
        else:
            values[name] = parameter.from_text(texts[0])
    return values
