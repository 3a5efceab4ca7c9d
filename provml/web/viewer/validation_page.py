"""Validation: violated constraints with counts, examples and how to fix them; checked in the background."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from provml.errors import plural
from provml.model.values import IRI
from provml.rdf.namespaces import NODES, RUNS
from provml.store.ontology_terms import abbreviate
from provml.validation import Report
from provml.validation.report import ProgressCallback
from provml.validation.results import ResultGroup
from provml.web.viewer.viewer import Page, Viewer

MAX_EXAMPLES = 5
MAX_AUTOMATIC_RUNS = 50
"""With more runs than this, all are checked only on demand."""
SIGNS = {"Violation": "✗", "Warning": "⚠", "Info": "·"}
LEVELS = {"Violation": "bad", "Warning": "warning", "Info": "muted"}


def validation(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of the validation of all runs."""
    runs = viewer.runs()
    position = str(hash(tuple((info.id, info.events, info.status) for info in runs)))
    is_wanted = len(runs) <= MAX_AUTOMATIC_RUNS or params.get("check") == "1"
    context = validation_context(viewer, None, position, start=is_wanted and bool(runs))
    context["run_count"] = len(runs)
    return Page("validation.html", "Validation", context, is_live=context["is_checking"])


def validation_context(viewer: Viewer, run_id: str | None, position: str, *, start: bool = True) -> dict[str, Any]:
    """Return the report about a run, or about all; it is made in the background, unless it is there already."""
    name = run_id or ""

    def work(progress: ProgressCallback) -> Report:
        return viewer.store.validate(run_id, progress=progress)

    job = viewer.jobs.start(name, position, work) if start else viewer.jobs.get(name)
    if job is not None and viewer.links.is_static:
        job.wait()
    report: Report | None = job.result if job is not None else None
    groups = list(report.groups().values()) if report is not None else []
    return {
        "report": report,
        "error": job.error if job is not None else "",
        "is_checking": job is not None and job.is_running,
        "share": job.share if job is not None else 0.0,
        "finished": job.finished if job is not None else None,
        "seconds": job.seconds if job is not None else 0.0,
        "groups": [_group(viewer, group) for group in groups],
    }


def _group(viewer: Viewer, group: ResultGroup) -> dict[str, Any]:
    nodes = [(node, ", ".join(values)) for node, values in list(group.nodes.items())[:MAX_EXAMPLES]]
    paths = list(dict.fromkeys(_term(result.path) for result in group.results if result.path))
    runs = {result.focus.removeprefix(RUNS).split("/")[0] for result in group.results if result.focus.startswith(RUNS)}
    return {
        "severity": group.severity,
        "sign": SIGNS.get(group.severity, "·"),
        "level": LEVELS.get(group.severity, "muted"),
        "message": group.description,
        "extent": group.extent.removeprefix("at ").removeprefix("in "),
        "runs": plural(len(runs), "run") if runs else "",
        "paths": paths[:3],
        "shape": group.results[0].shape.removeprefix(NODES) if group.results else "",
        "component": group.results[0].component if group.results else "",
        "examples": [(_iri(node), values) for node, values in nodes],
        "remainder": group.remainder(MAX_EXAMPLES),
    }


def _term(path: str) -> str:
    """Return a property with its prefix; other paths as they are."""
    return abbreviate(path) if path.startswith("http") else path


def _iri(node: str) -> Any:
    """Return the node of an example as an IRI, or as it is."""
    return IRI(node[1:-1]) if node.startswith("<") else node
