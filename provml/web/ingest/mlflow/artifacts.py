"""Files that MLflow's client uploads and downloads. They are stored by their content; a path is only a name."""

from __future__ import annotations

import shutil
from typing import NamedTuple
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from provml.exchange.mlflow import Fields, StoredArtifact
from provml.journal.artifacts import ArtifactFiles, Content, ContentWriter
from provml.recording.artifacts import media_type_of
from provml.web.ingest.endpoint import received
from provml.web.ingest.mlflow.search import invalid
from provml.web.ingest.mlflow.tracking import Tracking, unknown
from provml.web.problems import Problem
from provml.web.routing import service_of, stream_body
from provml.web.service import Service

REQUIREMENTS = "requirements.txt"
MAX_REQUIREMENTS_BYTES = 1 << 16
MAX_PATH_CHARS = 4096
SPACE_CHECK_BYTES = 64 << 20
"""The free space is looked at again after each such piece."""


class ArtifactPath(NamedTuple):
    """A path of the proxy: the source that has the file, the model that it belongs to, and the path below that."""

    source: str
    model: str
    path: str


def parse_path(tracking: Tracking, text: str) -> ArtifactPath:
    """Parse `<experiment>/<run>/artifacts/<path>` or `<experiment>/models/<model>/artifacts/<path>`.

    A path that would lead elsewhere if it were one of a file system is refused, also if it was encoded twice.
    """
    check_path(text)
    parts = text.strip("/").split("/")
    if len(parts) >= 4 and parts[1] == "models" and parts[3] == "artifacts":
        return ArtifactPath(tracking.source_of_model(parts[2]), parts[2], "/".join(parts[4:]))
    if len(parts) >= 3 and parts[2] == "artifacts":
        return ArtifactPath(tracking.run(parts[1]).run_id, "", "/".join(parts[3:]))
    raise unknown(f"There is no artifact {text!r}.")


def check_path(text: str) -> None:
    """Refuse a path that is not a plain relative one."""
    decoded, previous = text, ""
    while decoded != previous:
        segments = decoded.strip("/").split("/")
        is_plain = not decoded.startswith("/") and "\\" not in decoded and decoded.isprintable()
        if not is_plain or any(segment in ("", ".", "..") for segment in segments) or len(decoded) > MAX_PATH_CHARS:
            raise invalid(f"Invalid path: {text[:200]!r}. Pass a relative path without '.' and '..'.")
        decoded, previous = unquote(decoded), decoded


def files_of(tracking: Tracking, place: ArtifactPath) -> dict[str, StoredArtifact]:
    """Return the files of a run or a model by their paths; a path keeps its last content."""
    run = tracking.runs.get(place.source) or tracking.ingest.source(place.source).state.run
    return {artifact.path: artifact for artifact in run.artifacts if artifact.model == place.model}


def list_files(tracking: Tracking, path: str) -> Fields:
    """Return the files and folders below a path; nothing if the path is a file."""
    place = parse_path(tracking, path)
    prefix = f"{place.path}/" if place.path else ""
    entries: dict[str, Fields] = {}
    for name, artifact in files_of(tracking, place).items():
        if name.startswith(prefix) and name != place.path:
            head, slash, _ = name[len(prefix) :].partition("/")
            entries[head] = {"path": head, "is_dir": True} if slash else _file_entry(head, artifact)
    files = [entries[name] for name in sorted(entries)]
    return {"files": files} if files else {}


def _file_entry(name: str, artifact: StoredArtifact) -> Fields:
    return {"path": name, "is_dir": False, "file_size": artifact.size}


async def upload(tracking: Tracking, request: Request) -> Fields:
    """Store the content of a file, and keep that it was uploaded."""
    service = service_of(request)
    place = await run_in_threadpool(parse_path, tracking, request.path_params["path"])
    if not place.path:
        raise invalid("The path has no file name.")
    message = received(request, "artifact")
    content, head = await _store(service, request)
    body: Fields = {"path": place.path, "sha256": content.sha256, "size": content.size, "model": place.model}
    if place.path.rpartition("/")[2] == REQUIREMENTS and content.size <= MAX_REQUIREMENTS_BYTES:
        body["requirements"] = head.decode(errors="replace")
    await run_in_threadpool(tracking.write, place.source, "artifact", body, message)
    return {}


async def _store(service: Service, request: Request) -> tuple[Content, bytes]:
    """Write a body to the artifacts of the home as it comes; return its content, and the beginning of it."""
    files = ArtifactFiles(service.home)
    head, checked = b"", 0
    _check_space(service)
    writer: ContentWriter = await run_in_threadpool(files.writer)
    with writer:
        async for piece in stream_body(request):
            await run_in_threadpool(writer.write, piece)
            if len(head) < MAX_REQUIREMENTS_BYTES:
                head += piece[: MAX_REQUIREMENTS_BYTES - len(head)]
            if writer.size - checked > SPACE_CHECK_BYTES:
                checked = writer.size
                _check_space(service)
        return await run_in_threadpool(writer.commit), head


def _check_space(service: Service) -> None:
    free = shutil.disk_usage(service.home).free
    if free < service.limits.disk_floor_bytes:
        raise Problem(507, "INSUFFICIENT_STORAGE", f"Only {free:,} bytes are free. Free some space, then try again.")


async def download(tracking: Tracking, request: Request) -> Response:
    """Return the content of a file, as a download that no browser shows."""
    place = await run_in_threadpool(parse_path, tracking, request.path_params["path"])
    artifact = (await run_in_threadpool(files_of, tracking, place)).get(place.path)
    files = ArtifactFiles(service_of(request).home)
    if artifact is None or not files.has(artifact.sha256):
        raise unknown(f"There is no artifact {place.path!r}.")
    name = place.path.rpartition("/")[2]
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'", "ETag": f'"{artifact.sha256}"'}
    media_type = "text/plain; charset=utf-8" if media_type_of(name).startswith("text/") else "application/octet-stream"
    return FileResponse(files.path(artifact.sha256), filename=name, media_type=media_type, headers=headers)
