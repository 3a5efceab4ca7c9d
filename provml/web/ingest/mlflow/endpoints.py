"""The routes of MLflow's tracking server, client 2.x and 3.x, at the root and below `/mlflow`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.exchange.mlflow import WRITER, Fields
from provml.web.ingest.endpoint import add_ingest, received
from provml.web.ingest.mlflow import artifacts
from provml.web.ingest.mlflow.tracking import (
    Tracking,
    experiment_answer,
    model_answer,
    run_answer,
    run_info,
)
from provml.web.ingest.received import Received
from provml.web.problems import Problem
from provml.web.routing import JSON, Endpoint, json_response, read_json, route, service_of
from provml.web.service import Service
from provml.web.settings import Access

PREFIXES = ("", "/mlflow")
API = "/api/2.0/mlflow"
PROXY = "/api/2.0/mlflow-artifacts"
ERROR_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    500: "INTERNAL_ERROR",
    507: "RESOURCE_EXHAUSTED",
}
RUN_ACTIONS = (
    "log-metric", "log-parameter", "log-batch", "set-tag", "delete-tag", "log-inputs", "outputs", "log-model",
    "delete", "restore",
)  # fmt: skip
EXPERIMENT_ACTIONS = ("update", "delete", "restore", "set-experiment-tag", "delete-experiment-tag")
LIST_FIELDS = ("experiment_ids", "order_by")
Answer = Callable[[Fields, Received], Fields]


def error_response(problem: Problem) -> Response:
    """Return a problem as MLflow's client expects errors.

    The client sends a request again for minutes if the status is 500, and the training waits: so it gets 400.
    """
    code = problem.code if problem.code.isupper() else ERROR_CODES.get(problem.status, "INVALID_PARAMETER_VALUE")
    status = 400 if problem.status == 500 else problem.status
    return json_response({"error_code": code, "message": problem.detail}, status, problem.headers)


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of the tracking server."""
    tracking = Tracking(service.home)
    add_ingest(service, tracking.ingest)
    return [
        item
        for prefix in PREFIXES
        for item in [*_api_routes(tracking, prefix), *_proxy_routes(tracking, prefix, service), _other_route(prefix)]
    ]


def _other_route(prefix: str) -> BaseRoute:
    """Return the route of what is not supported, with the code by which a client tries another address."""

    async def refuse(request: Request) -> Response:
        """Refuse a call of MLflow's interface that the service does not have."""
        name = request.path_params["path"][:100]
        detail = f"There is no {name!r} here: provml has experiments, runs, logged models and artifacts."
        raise Problem(404, "ENDPOINT_NOT_FOUND", detail)

    methods = ["GET", "POST", "PATCH"]
    path = f"{prefix}/api/{{version}}/mlflow/{{path:path}}"
    return route(path, refuse, methods=methods, content_types=[JSON], error_format=error_response)


def _endpoint(action: str, answer: Answer) -> Endpoint:
    """Return an endpoint that reads the fields of a body or a query, and answers in a thread."""

    async def call(request: Request) -> Response:
        fields = await _fields(request)
        message = received(request, action)
        answered = await run_in_threadpool(answer, fields, message)
        if request.method != "GET":
            service_of(request).note_recorded()
        return json_response(answered)

    call.__doc__ = f"Answer MLflow's `{action}`."
    return call


async def _fields(request: Request) -> Fields:
    if request.method in ("GET", "HEAD"):
        names = dict.fromkeys(request.query_params)
        fields: Fields = {
            name: request.query_params.getlist(name) if name in LIST_FIELDS else request.query_params[name]
            for name in names
        }
    else:
        body = await read_json(request)
        if not isinstance(body, dict):
            raise Problem(400, "INVALID_PARAMETER_VALUE", "The body is not a JSON object.")
        fields = body
    return {**fields, **request.path_params}


def _api_routes(tracking: Tracking, prefix: str) -> list[BaseRoute]:
    items: list[BaseRoute] = []

    def add(method: str, path: str, answer: Answer, access: Access = "write") -> None:
        endpoint = _endpoint(path, answer)
        types = [] if method == "GET" else [JSON]
        items.append(
            route(
                f"{prefix}{API}/{path}",
                endpoint,
                methods=[method],
                access=access,
                content_types=types,
                error_format=error_response,
                protocol=WRITER,
            )
        )

    def change_run(action: str) -> Answer:
        def answer(fields: Fields, message: Received) -> Fields:
            tracking.change_run(action, fields, message)
            return {}

        return answer

    def update_run(fields: Fields, message: Received) -> Fields:
        return {"run_info": run_info(tracking.change_run("runs/update", fields, message))}

    def get_run(fields: Fields, message: Received) -> Fields:
        return {"run": run_answer(tracking.run(str(fields.get("run_id") or fields.get("run_uuid") or "")))}

    def get_experiment(fields: Fields, message: Received) -> Fields:
        return {"experiment": experiment_answer(tracking.experiment(str(fields.get("experiment_id"))))}

    def get_by_name(fields: Fields, message: Received) -> Fields:
        return {"experiment": experiment_answer(tracking.experiment_by_name(str(fields.get("experiment_name"))))}

    def change_experiment(action: str) -> Answer:
        return lambda fields, message: tracking.change_experiment(action, fields, message)

    add("POST", "experiments/create", tracking.create_experiment)
    add("GET", "experiments/get", get_experiment, "read")
    add("GET", "experiments/get-by-name", get_by_name, "read")
    for method in ("GET", "POST"):
        add(method, "experiments/search", lambda fields, message: tracking.search_experiments(fields), "read")
    for action in EXPERIMENT_ACTIONS:
        add("POST", f"experiments/{action}", change_experiment(f"experiments/{action}"))
    add("POST", "runs/create", lambda fields, message: {"run": run_answer(tracking.create_run(fields, message))})
    add("GET", "runs/get", get_run, "read")
    add("POST", "runs/update", update_run)
    add("POST", "runs/search", lambda fields, message: tracking.search_runs(fields), "read")
    for action in RUN_ACTIONS:
        add("POST", f"runs/{action}", change_run(f"runs/{action}"))
    add("GET", "metrics/get-history", lambda fields, message: tracking.history(fields), "read")
    _add_models(tracking, add)
    items.append(
        route(f"{prefix}/api/3.0/mlflow/server-info", _server_info, error_format=error_response, protocol=WRITER)
    )
    return items


def _add_models(tracking: Tracking, add: Callable[..., None]) -> None:
    def answer(model: Fields) -> Fields:
        return {"model": model_answer(model)}

    def update(fields: Fields, message: Received) -> Fields:
        return answer(tracking.update_model(str(fields["model_id"]), fields, message))

    add("POST", "logged-models", lambda fields, message: answer(tracking.create_model(fields, message)))
    add("POST", "logged-models/search", lambda fields, message: tracking.search_models(fields), "read")
    add("GET", "logged-models/{model_id}", lambda fields, message: answer(tracking.model(fields["model_id"])), "read")
    add("PATCH", "logged-models/{model_id}", update)
    add("PATCH", "logged-models/{model_id}/tags", update)
    add("POST", "logged-models/{model_id}/params", update)


async def _server_info(request: Request) -> Response:
    """Return what the service supports of MLflow."""
    info: dict[str, Any] = {
        "store_type": "provml",
        "workspaces_enabled": False,
        "trace_archival_enabled": False,
        "multipart_uploads_enabled": False,
        "multipart_downloads_enabled": False,
    }
    return json_response(info)


def _proxy_routes(tracking: Tracking, prefix: str, service: Service) -> list[BaseRoute]:
    async def list_files(request: Request) -> Response:
        """List uploaded files."""
        path = request.query_params.get("path", "")
        return json_response(await run_in_threadpool(artifacts.list_files, tracking, path))

    async def upload(request: Request) -> Response:
        """Store a file by its content."""
        return json_response(await artifacts.upload(tracking, request))

    async def download(request: Request) -> Response:
        """Return an uploaded file."""
        return await artifacts.download(tracking, request)

    async def refuse_multipart(request: Request) -> Response:
        """Refuse an upload in parts."""
        raise Problem(501, "NOT_IMPLEMENTED", "Uploads in parts are not supported. Upload the file whole.")

    files = f"{prefix}{PROXY}/artifacts/{{path:path}}"
    limit = service.limits.artifact_bytes
    return [
        route(f"{prefix}{PROXY}/artifacts", list_files, error_format=error_response, protocol=WRITER),
        route(files, download, error_format=error_response, protocol=WRITER),
        route(
            files, upload, methods=["PUT"], access="write", max_body=limit, error_format=error_response, protocol=WRITER
        ),
        route(
            f"{prefix}{PROXY}/mpu/{{path:path}}",
            refuse_multipart,
            methods=["POST"],
            access="write",
            content_types=[JSON],
            error_format=error_response,
            protocol=WRITER,
        ),
    ]
