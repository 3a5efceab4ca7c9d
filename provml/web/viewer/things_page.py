"""Models with their origin, score and uses; data by content, with the runs that used it, in which role, and leakage."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from starlette.datastructures import QueryParams

from provml.answers.humanize import format_size
from provml.rdf.namespaces import RUNS
from provml.web.viewer.viewer import Page, Viewer

PAGE_ROWS = 100
MODELS = """SELECT ?model ?name ?run ?stage ?index ?size ?digest ?parameters {
  ?model a provml:Model ; prov:wasGeneratedBy ?activity ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  { ?activity provlake:wasMemberOfWorkflowExecution ?run BIND(?activity AS ?stage) }
  UNION { ?activity provml:wasSectionOf ?stage ; provml:sectionIndex ?index .
          ?stage provlake:wasMemberOfWorkflowExecution ?run }
  OPTIONAL { ?model provlake:sizeBytes ?size }
  OPTIONAL { ?model provlake:sha256 ?digest }
  OPTIONAL { ?model provml:hasModelSchema/provml:parameterCount ?parameters }
  OPTIONAL { ?run prov:startedAtTime ?started }
} ORDER BY DESC(?started) ?run ?name DESC(?index)"""
TRAINED_ON = """SELECT DISTINCT ?stage ?name ?data {
  ?stage a provml:TrainingExecution ; prov:used ?data . ?data a provml:LearningDataset ;
         provlake:wasDerivedFromAttribute/rdfs:label ?name .
}"""
SCORES = """SELECT DISTINCT ?training ?evaluation ?run ?name ?value {
  ?evaluation provml:evaluatedTraining ?training ; provlake:wasMemberOfWorkflowExecution ?run .
  ?node prov:wasGeneratedBy ?evaluation ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
} ORDER BY ?name"""
DATA = """SELECT DISTINCT ?data ?content ?digest ?name ?size ?path {
  ?data a provml:LearningDataset ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?data prov:specializationOf|prov:alternateOf ?content }
  OPTIONAL { ?data provlake:sha256 ?digest }
  OPTIONAL { ?data provlake:sizeBytes ?size }
  OPTIONAL { ?data provlake:path ?path }
}"""
DATA_USES = """SELECT DISTINCT ?data ?run ?role {
  ?data a provml:LearningDataset .
  { ?step prov:used ?data ; provlake:wasMemberOfWorkflowExecution ?run
    OPTIONAL { ?step prov:qualifiedUsage [ prov:entity ?data ; prov:hadRole/rdfs:label ?role ] } }
  UNION { ?section provml:wasSectionOf ?step ; prov:used ?data . ?step provlake:wasMemberOfWorkflowExecution ?run
    OPTIONAL { ?section prov:qualifiedUsage [ prov:entity ?data ; prov:hadRole/rdfs:label ?role ] } }
  UNION { ?data prov:wasGeneratedBy ?step . ?step provlake:wasMemberOfWorkflowExecution ?run BIND("made" AS ?role) }
}"""


def models(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of all models."""
    viewer.runs()
    data: dict[str, dict[str, Any]] = {}
    for stage, name, node in viewer.select(TRAINED_ON):
        data.setdefault(str(stage), {})[str(name)] = node
    scores: dict[str, dict[str, Any]] = {}
    evaluated_in: dict[str, dict[str, None]] = {}
    for training, _, run, name, value in viewer.select(SCORES):
        scores.setdefault(str(training), {})[str(name)] = value
        evaluated_in.setdefault(str(training), {})[_run_id(run)] = None
    rows = [
        {
            "iri": str(model),
            "name": str(name),
            "run": _run_id(run),
            "section": index,
            "size": format_size(size),
            "sha256": str(digest or ""),
            "parameters": parameters,
            "data": data.get(str(stage), {}),
            "scores": scores.get(str(stage), {}),
            "used_in": [other for other in evaluated_in.get(str(stage), {}) if other != _run_id(run)],
        }
        for model, name, run, stage, index, size, digest, parameters in _distinct(viewer.select(MODELS))
        if viewer.shows(_run_id(run))
    ]
    return Page("models.html", "Models", _paged(viewer, params, rows))


def data(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of all data, by content."""
    table = viewer.table()
    leaking = {row["run"] for row in table.rows if row.get("leakage")}
    uses: dict[str, dict[str, dict[str, None]]] = {}
    for node, run, role in viewer.select(DATA_USES):
        if not viewer.shows(_run_id(run)):
            continue
        text = str(role).removesuffix(" role") if role is not None else "used"
        uses.setdefault(str(node), {}).setdefault(_run_id(run), {})[text] = None
    contents: dict[str, dict[str, Any]] = {}
    for node, content, digest, name, size, path in viewer.select(DATA):
        key = str(digest or content or node)
        row = contents.setdefault(
            key,
            {
                "iri": str(content or node),
                "names": {},
                "sha256": str(digest or ""),
                "size": "",
                "paths": {},
                "runs": {},
            },
        )
        row["names"][str(name)] = None
        row["size"] = row["size"] or format_size(size)
        if path:
            row["paths"][str(path)] = None
        for run_id, roles in uses.get(str(node), {}).items():
            row["runs"].setdefault(run_id, {}).update(roles)
    rows = [
        {
            **row,
            "roles": _roles(row["runs"]),
            "leaks": [
                run_id
                for run_id, roles in row["runs"].items()
                if run_id in leaking and {"test", "training"} & roles.keys()
            ],
        }
        for row in contents.values()
        if row["runs"] or not viewer.links.is_static
    ]
    rows.sort(key=lambda row: (not row["leaks"], -len(row["runs"]), next(iter(row["names"]))))
    return Page("data.html", "Data", _paged(viewer, params, rows))


def _distinct(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the first row of each node."""
    return list({str(row[0]): row for row in reversed(rows)}.values())[::-1]


def _run_id(iri: Any) -> str:
    return unquote(str(iri).removeprefix(RUNS))


def _roles(runs: dict[str, dict[str, None]]) -> dict[str, list[str]]:
    """Return the runs by role."""
    roles: dict[str, list[str]] = {}
    for run_id, names in runs.items():
        for name in names:
            roles.setdefault(name, []).append(run_id)
    return dict(sorted(roles.items()))


def _paged(viewer: Viewer, params: QueryParams, rows: list[dict[str, Any]]) -> dict[str, Any]:
    text = params.get("page", "1")
    count = max(-(-len(rows) // PAGE_ROWS), 1)
    page = max(1, min(int(text) if text.isdecimal() and len(text) < 9 else 1, count))
    part = rows if viewer.links.is_static else rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return {"rows": part, "total": len(rows), "page": page, "page_count": 1 if viewer.links.is_static else count}
