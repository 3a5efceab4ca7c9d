"""The table of runs, and one run with its parts: stages, epochs, measures, adaptations, layers, validation, graph."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml import __version__
from provml.answers import Answer
from provml.errors import InvalidAnnotation
from provml.journal.run_files import RUN_ID, has_run
from provml.journal.statuses import STATUSES
from provml.mapping.iris import run_iri
from provml.store import Store
from provml.store.run_tables import RunTables
from provml.web.api.tables import PAGE_QUERY, TABLE, check_parameters, integer, invalid, respond, respond_table, to_json
from provml.web.api.types import Annotation, Run, Status, run_of
from provml.web.problems import Problem
from provml.web.provenance import link_header
from provml.web.routing import JSON, Endpoint, json_response, read_json, route, service_of
from provml.web.service import Service
from provml.web.service_description import service_url

PREFIX = "/api/v1"
RUN = f"{PREFIX}/runs/{{run}}"
PAGING = ("limit", "offset", "safe")
REPORTS = {"json": JSON, "ttl": "text/turtle", "html": "text/html", "md": "text/markdown"}
JSON_ONLY = {"json": JSON}
RUN_FORMATS = {"json": JSON, "jsonld": "application/ld+json"}

STRING, STRINGS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
COMPARED = {**STRINGS, "minItems": 2, "required": True}
RUN_QUERY = {
    "where": {"type": "string", "description": "a condition, such as `learning_rate > 0.01 and status = FINISHED`"},
    "sort": STRING,
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "status": {"type": "array", "items": {"type": "string", "enum": list(STATUSES)}},
    "name": {"type": "string", "description": "a pattern, such as `flowers*`"},
}
SECTION = {"type": "integer", "minimum": 0}
MEASURE_QUERY = {"name": STRINGS, "stage": STRINGS, "from": SECTION, "to": SECTION}

MEASURES = """SELECT ?at ?index ?name ?value WHERE {
  ?at provlake:wasMemberOfWorkflowExecution $run .
  { ?node prov:wasGeneratedBy ?at }
  UNION
  { ?section provml:wasSectionOf ?at ; provml:sectionIndex ?index . ?node prov:wasGeneratedBy ?section }
  ?node a provml:ModelEvaluation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?at prov:startedAtTime ?started }
} ORDER BY ?started ?at ?index ?name"""
LAYERS = """SELECT ?training ?index ?name ?type ?block ?parameters ?key ?setting WHERE {
  ?training provlake:wasMemberOfWorkflowExecution $run ; a provml:TrainingExecution ; prov:used ?network .
  ?network a provml:ModelSchemaValue ; provml:hasLayer+ ?layer .
  ?layer provml:layerIndex ?index ; rdfs:label ?name .
  OPTIONAL { ?layer provml:layerType ?type }
  OPTIONAL { ?outer provml:hasLayer ?layer . ?outer a provml:Block ; rdfs:label ?block }
  OPTIONAL { ?layer provml:parameterCount ?parameters }
  OPTIONAL {
    ?layer provml:hasParameter ?value .
    ?value prov:value ?setting ; provlake:wasDerivedFromAttribute/rdfs:label ?key
  }
} ORDER BY ?training ?index ?name ?layer ?key"""

PARTS: dict[str, Callable[[RunTables], Answer]] = {
    "stages": RunTables.stages,
    "hyperparameters": RunTables.hyperparameters,
    "epochs": RunTables.measures,
    "adaptations": RunTables.adaptations,
    "datasets": RunTables.datasets,
    "models": RunTables.models,
    "environment": RunTables.environment,
}
"""Tables of a run by the last part of their address."""


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    return [
        route(f"{PREFIX}/status", status, operation={"returns": Status}),
        route(f"{PREFIX}/runs", runs, operation={**TABLE, "query": {**RUN_QUERY, **PAGE_QUERY}}),
        route(f"{PREFIX}/compare", compare, operation={**TABLE, "query": {"run": COMPARED, **PAGE_QUERY}}),
        route(RUN, run, operation={"returns": Run, "formats": RUN_FORMATS}),
        route(f"{RUN}/measures", measures, operation={**TABLE, "query": {**MEASURE_QUERY, **PAGE_QUERY}}),
        route(f"{RUN}/layers", layers, operation=TABLE),
        route(f"{RUN}/validation", validation, operation={"formats": REPORTS}),
        route(f"{RUN}/graph", graph, operation={"status": "307"}),
        route(
            f"{RUN}/annotations",
            annotate,
            methods=("POST",),
            access="write",
            content_types=(JSON,),
            operation={"body": Annotation, "returns": Run, "status": "201"},
        ),
        *(route(f"{RUN}/{name}", _part(name, make), operation=TABLE) for name, make in PARTS.items()),
    ]


def find_run_id(store: Store, name: str) -> str:
    """Return the id of a run; the index is asked only for names that are no ids."""
    if name != "latest" and RUN_ID.fullmatch(name) and has_run(store.home, name):
        return name
    return store.run(name).id


async def status(request: Request) -> Response:
    """Describe the service and its home."""
    service = service_of(request)
    state = await service.fresh(1.0)

    def describe() -> Status:
        return Status(
            version=__version__,
            runs=len(service.store.runs()),
            triples=len(service.store.backend.graph()),
            position=state.position,
            read_only=service.settings.read_only,
            access=request.state.access,
            refused=service.refusals.latest(),
        )

    return json_response(await run_in_threadpool(describe), headers={"Cache-Control": "no-store"})


async def runs(request: Request) -> Response:
    """Return the table of runs with hyperparameters and measures as columns."""
    check_parameters(request, "where", "sort", "order", "status", "name", *PAGING)
    parameters = request.query_params
    order = parameters.get("order", "asc")
    if order not in ("asc", "desc"):
        raise invalid("order", order, "asc or desc")

    def make() -> Answer:
        return service_of(request).store.table(
            parameters.get("where"),
            sort=parameters.get("sort"),
            descending=order == "desc",
            status=parameters.getlist("status") or None,
            name=parameters.get("name"),
        )

    return await respond_table(request, make)


async def compare(request: Request) -> Response:
    """Compare runs: what differs comes first."""
    check_parameters(request, "run", *PAGING)
    names = request.query_params.getlist("run")
    return await respond_table(request, lambda: service_of(request).store.compare(*names))


async def run(request: Request) -> Response:
    """Describe a run."""
    check_parameters(request)
    store = service_of(request).store
    run_id = await run_in_threadpool(find_run_id, store, request.path_params["run"])
    base = service_url(request)

    def build(media: str) -> bytes:
        info = store.run(run_id)
        children = [child.id for child in store.children(info.id)]
        return to_json(run_of(info, children, base))

    return await respond(request, RUN_FORMATS, build, link=link_header(request, run_iri(run_id)))


def _part(name: str, make: Callable[[RunTables], Answer]) -> Endpoint:
    async def part(request: Request) -> Response:
        check_parameters(request, *PAGING)
        store = service_of(request).store

        def table() -> Answer:
            return make(RunTables(store, store.run(request.path_params["run"])))

        return await respond_table(request, table)

    part.__name__ = name
    part.__doc__ = f"Return the {name} of a run as a table."
    return part


async def measures(request: Request) -> Response:
    """Return the measures of a run, one a row, of some sections: `?name=loss&from=10&to=20`."""
    check_parameters(request, "name", "stage", "from", "to", *PAGING)
    names, stages = (set(request.query_params.getlist(key)) for key in ("name", "stage"))
    first, final = integer(request, "from", 0, 0, 2**62), integer(request, "to", 2**62, 0, 2**62)
    has_range = "from" in request.query_params or "to" in request.query_params
    store = service_of(request).store

    def table() -> Answer:
        tables = RunTables(store, store.run(request.path_params["run"]))
        rows = []
        for at, index, name, value in tables.select(MEASURES):
            stage = tables.place(at)
            is_inside = first <= index <= final if index is not None else not has_range
            if is_inside and (not names or str(name) in names) and (not stages or stage in stages):
                rows.append((stage, index, str(name), value))
        return Answer(["stage", "section", "name", "value"], rows)

    return await respond_table(request, table)


async def layers(request: Request) -> Response:
    """Return the layers of the models that a run trained."""
    check_parameters(request, *PAGING)
    store = service_of(request).store

    def table() -> Answer:
        tables = RunTables(store, store.run(request.path_params["run"]))
        settings: dict[tuple[object, ...], list[str]] = {}
        for training, *layer, key, setting in tables.select(LAYERS):
            texts = settings.setdefault((tables.place(training), *layer), [])
            if key is not None:
                texts.append(f"{key}={setting}")
        rows = [(*layer, ", ".join(texts) or None) for layer, texts in settings.items()]
        return Answer(["training", "index", "name", "type", "block", "parameters", "settings"], rows)

    return await respond_table(request, table)


async def validation(request: Request) -> Response:
    """Validate a run against the shapes, and return the report."""
    check_parameters(request)
    store = service_of(request).store

    def build(media: str) -> bytes:
        info = store.run(request.path_params["run"])
        report = store.validate(info.id)
        writers = {
            JSON: report.to_json,
            "text/turtle": report.to_rdf,
            "text/html": report.to_html,
            "text/markdown": report.to_markdown,
        }
        return writers[media]().encode()

    return await respond(request, REPORTS, build)


async def graph(request: Request) -> Response:
    """Redirect to the graph of a run in the graph store."""
    run_id = await run_in_threadpool(find_run_id, service_of(request).store, request.path_params["run"])
    iri = run_iri(run_id)
    query = {"graph": str(iri), **dict(request.query_params)}
    headers = {"Location": f"/graphs?{urlencode(query)}", "Link": link_header(request, iri)}
    return Response(status_code=307, headers=headers)


async def annotate(request: Request) -> Response:
    """Add a tag, a note or a name to a run."""
    body = await read_json(request, Annotation)
    store = service_of(request).store
    if body.kind == "name" and body.removed:
        raise Problem(422, "InvalidAnnotation", "A name cannot be removed. Give the run another one.")

    def change() -> object:
        info = store._annotate(request.path_params["run"], body.kind, [body.text], by=body.by, removed=body.removed)
        return run_of(info, [child.id for child in store.children(info.id)], service_url(request))

    try:
        result = await run_in_threadpool(change)
    except InvalidAnnotation as error:
        raise Problem(422, "InvalidAnnotation", str(error)) from None
    service_of(request).announce_change()
    return json_response(result, 201)
