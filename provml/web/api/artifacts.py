"""Artifacts by their SHA-256, with ranges, and lineage. A path that a client names is never a file name here."""

from __future__ import annotations

import base64
import stat
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute

from provml.answers import Answer
from provml.errors import ArtifactNotFound
from provml.journal.artifacts import DIGEST, ArtifactFiles
from provml.web.answers import Version
from provml.web.api.tables import TABLE, boolean, check_parameters, respond, respond_table, to_json
from provml.web.api.types import LineageGraph
from provml.web.problems import Problem
from provml.web.provenance import link_header
from provml.web.routing import JSON, route, service_of
from provml.web.service import Service

PREFIX = "/api/v1"
PAGING = ("limit", "offset", "safe")
LINEAGES = {
    "json": JSON,
    "svg": "image/svg+xml",
    "dot": "text/vnd.graphviz",
    "mermaid": "text/vnd.mermaid",
    "text": "text/plain",
}
CONTENT = {"formats": {"": "application/octet-stream"}}
LINEAGE: dict[str, Any] = {"returns": LineageGraph, "formats": LINEAGES}
FORWARD = {"type": "boolean", "description": "what came of it, in place of what it came from"}
SUBJECT = {
    "type": "string",
    "minLength": 1,
    "required": True,
    "description": "a run, a model, a dataset, a digest or an IRI",
}
FOREVER = "private, max-age=31536000, immutable"
SANDBOX = "sandbox; default-src 'none'"


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of this module."""
    run = f"{PREFIX}/runs/{{run}}"
    return [
        route(f"{PREFIX}/artifacts", artifacts, operation=TABLE),
        route(f"{PREFIX}/artifacts/{{sha256}}", content, methods=("GET", "HEAD"), operation=CONTENT),
        route(f"{run}/artifacts", artifacts, operation=TABLE),
        route(f"{run}/artifacts/{{name:path}}", artifact_of_run, methods=("GET", "HEAD"), operation=CONTENT),
        route(f"{run}/lineage", lineage, operation={**LINEAGE, "query": {"forward": FORWARD}}),
        route(f"{PREFIX}/lineage", lineage, operation={**LINEAGE, "query": {"forward": FORWARD, "subject": SUBJECT}}),
    ]


async def artifacts(request: Request) -> Response:
    """List what a run, or all runs, stored in the home."""
    check_parameters(request, *PAGING)
    store = service_of(request).store
    run = request.path_params.get("run")

    def table() -> Answer:
        rows = [
            (item.run, item.name, item.data, item.sha256, item.size, item.media_type, item.time, item.is_stored)
            for item in store.artifacts(run)
        ]
        return Answer(["run", "name", "data", "sha256", "size", "media_type", "time", "is_stored"], rows)

    return await respond_table(request, table)


async def content(request: Request) -> Response:
    """Return a stored content by its SHA-256, or a range of it; always as a download."""
    return _file(request, request.path_params["sha256"].lower(), "")


async def artifact_of_run(request: Request) -> Response:
    """Return what a run stored under a name."""
    store = service_of(request).store

    def find() -> Any:
        info = store.run(request.path_params["run"])
        return store.artifact(info, request.path_params["name"])

    artifact = await run_in_threadpool(find)
    return _file(request, artifact.sha256, artifact.name)


def _file(request: Request, sha256: str, name: str) -> Response:
    files = ArtifactFiles(service_of(request).home)
    if not DIGEST.fullmatch(sha256):
        raise Problem(404, "ArtifactNotFound", "An artifact is named by the 64 digits of its SHA-256.")
    path = files.path(sha256)
    try:
        details = path.lstat()
    except OSError:
        details = None
    if details is None or not stat.S_ISREG(details.st_mode):
        raise ArtifactNotFound(sha256, f"No content {sha256[:12]}… is stored here", "List them with /api/v1/artifacts.")
    version = Version(f'"{sha256}"', details.st_mtime)
    if version.is_current(request):
        return version.not_modified(FOREVER)
    headers = {
        **version.headers(FOREVER),
        "Content-Security-Policy": SANDBOX,
        "Repr-Digest": f"sha-256=:{_base64(sha256)}:",
        "Link": link_header(request, f"urn:sha256:{sha256}"),
    }
    return FileResponse(
        path,
        headers=headers,
        media_type="application/octet-stream",
        filename=name.rpartition("/")[2] or sha256,
        content_disposition_type="attachment",
        stat_result=details,
    )


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()


async def lineage(request: Request) -> Response:
    """Return what a run, model, dataset or step came from, or with `forward` what came of it."""
    check_parameters(request, "subject", "forward")
    store = service_of(request).store
    subject = request.path_params.get("run") or request.query_params.get("subject", "")
    is_forward = boolean(request, "forward")
    if not subject:
        raise Problem(400, "InvalidParameter", "subject takes a run, a model, a dataset, a digest or an IRI.")

    def build(media: str) -> bytes:
        name_of_subject = store.run(subject).id if "run" in request.path_params else subject
        picture = store.lineage(name_of_subject, forward=is_forward)
        if media != JSON:
            name = next(name for name, kind in LINEAGES.items() if kind == media)
            return picture.to_format(name).encode()
        records = picture.records
        return to_json(
            LineageGraph(
                subject=records.subject,
                forward=records.is_forward,
                items=[asdict(item) for item in records.items.values()],
                steps=[{**asdict(step), "people": list(step.people)} for step in records.steps.values()],
                runs=[asdict(run) for run in records.runs.values()],
                used=[asdict(use) for use in records.uses],
                generated=[asdict(generation) for generation in records.generations],
                informed=[asdict(information) for information in records.informations],
                omitted_steps=records.omitted_steps,
                omitted_runs=records.omitted_runs,
            )
        )

    return await respond(request, LINEAGES, build)
