"""Models with their origin, score and uses; data by content, with the runs that used it, in which role, and leakage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import QueryParams

from provml.answers.humanize import format_size
from provml.model.values import IRI
from provml.rdf.namespaces import RUNS
from provml.store.lineage_walk import rows_about
from provml.store.run_table import natural_key
from provml.web.viewer.viewer import Page, Viewer

PAGE_ROWS = 100
MODELS = """SELECT ?model ?activity { ?model a provml:Model ; prov:wasGeneratedBy ?activity }"""
MODEL_FACTS = """SELECT ?node ?name ?size ?digest ?parameters {
  ?node provlake:wasDerivedFromAttribute ?attribute . ?attribute rdfs:label ?name .
  OPTIONAL { ?node provlake:sizeBytes ?size }
  OPTIONAL { ?node provlake:sha256 ?digest }
  OPTIONAL { ?node provml:hasModelSchema/provml:parameterCount ?parameters }
}"""
SECTIONS = """SELECT ?node ?stage ?index { ?node provml:wasSectionOf ?stage ; provml:sectionIndex ?index }"""
TRAINED_ON = """SELECT DISTINCT ?node ?name ?data {
  ?node prov:used ?data . ?data a provml:LearningDataset ; provlake:wasDerivedFromAttribute ?attribute .
  ?attribute rdfs:label ?name .
}"""
SCORES = """SELECT DISTINCT ?node ?run ?name ?value {
  ?evaluation provml:evaluatedTraining ?node ; provlake:wasMemberOfWorkflowExecution ?run .
  ?measure prov:wasGeneratedBy ?evaluation ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute ?attribute . ?attribute rdfs:label ?name .
} ORDER BY ?name"""
DATA = """SELECT DISTINCT ?data ?content ?digest ?name ?size ?path {
  ?data a provml:LearningDataset ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?data prov:specializationOf|prov:alternateOf ?content }
  OPTIONAL { ?data provlake:sha256 ?digest }
  OPTIONAL { ?data provlake:sizeBytes ?size }
  OPTIONAL { ?data provlake:path ?path }
}"""
DATA_USES = (
    """SELECT ?data ?step ?role {
  ?usage prov:hadRole ?kind ; prov:entity ?data . ?step prov:qualifiedUsage ?usage .
  ?kind rdfs:label ?role
}""",
    """SELECT ?data ?step ("" AS ?role) { ?data a provml:LearningDataset . ?step prov:used ?data }""",
    """SELECT ?data ?step ("made" AS ?role) { ?data a provml:LearningDataset ; prov:wasGeneratedBy ?step }""",
)
"""Uses with a role, all uses, and what steps made. A step is in the run whose IRI its own starts with."""


def models(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of all models; only those of this page are described."""
    context = _paged(viewer, params, viewer.cached("models", lambda: _all_models(viewer)))
    context["rows"] = _described(viewer, context["rows"])
    return Page("models.html", "Models", context)


def _all_models(viewer: Viewer) -> list[tuple[str, str, str]]:
    """Return all models with what made them and its run, those of the latest run first."""
    order = {info.id: number for number, info in enumerate(viewer.runs())}
    rows = [(str(model), str(maker)) for model, maker in viewer.select(MODELS)]
    listed = [(model, maker, run) for model, maker in rows if viewer.shows(run := _run_id(maker))]
    listed.sort(key=lambda row: natural_key(row[0]), reverse=True)
    listed.sort(key=lambda row: order.get(row[2], len(order)))
    return listed


def _described(viewer: Viewer, models: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return models with their facts, the data they were trained on, and their scores."""
    facts = {str(node): row for node, *row in _about(viewer, MODEL_FACTS, [model for model, *_ in models])}
    sections = {
        str(node): (str(stage), index)
        for node, stage, index in _about(viewer, SECTIONS, [maker for _, maker, _ in models])
    }
    stages = [sections.get(maker, (maker, None))[0] for _, maker, _ in models]
    data: dict[str, dict[str, Any]] = {}
    for stage, name, node in _about(viewer, TRAINED_ON, stages):
        data.setdefault(str(stage), {})[str(name)] = node
    scores: dict[str, dict[str, Any]] = {}
    evaluated_in: dict[str, dict[str, None]] = {}
    for stage, run, name, value in _about(viewer, SCORES, stages):
        scores.setdefault(str(stage), {})[str(name)] = value
        evaluated_in.setdefault(str(stage), {})[_run_id(run)] = None
    rows = []
    for (model, maker, run), stage in zip(models, stages, strict=True):
        name, size, digest, parameters = facts.get(model, (model, None, None, None))
        rows.append(
            {
                "iri": model,
                "name": str(name),
                "run": run,
                "section": sections.get(maker, ("", None))[1],
                "size": format_size(size),
                "sha256": str(digest or ""),
                "parameters": parameters,
                "data": data.get(stage, {}),
                "scores": scores.get(stage, {}),
                "used_in": [other for other in evaluated_in.get(stage, {}) if other != run],
            }
        )
    return rows


def _about(viewer: Viewer, sparql: str, nodes: Iterable[str]) -> list[tuple[Any, ...]]:
    return list(rows_about(viewer.store, sparql, [IRI(node) for node in dict.fromkeys(nodes)]))


def data(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of all data, by content."""
    return Page("data.html", "Data", _paged(viewer, params, viewer.cached("data", lambda: _contents(viewer))))


def _contents(viewer: Viewer) -> list[dict[str, Any]]:
    """Return all contents with their names, and the runs by role; those that leak first."""
    table = viewer.table()
    leaking = {row["run"] for row in table.rows if row.get("leakage")}
    uses: dict[str, dict[str, dict[str, None]]] = {}
    for node, step, role in (row for sparql in DATA_USES for row in viewer.select(sparql)):
        run_id = _run_id(step)
        if not str(step).startswith(RUNS) or not viewer.shows(run_id):
            continue
        roles = uses.setdefault(str(node), {}).setdefault(run_id, {})
        if role or not roles:
            roles[str(role).removesuffix(" role") or "used"] = None
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
    return rows


def _run_id(iri: Any) -> str:
    """Return the id of the run of a node."""
    return unquote(str(iri).removeprefix(RUNS).partition("/")[0])


def _roles(runs: dict[str, dict[str, None]]) -> dict[str, list[str]]:
    """Return the runs by role."""
    roles: dict[str, list[str]] = {}
    for run_id, names in runs.items():
        for name in names:
            roles.setdefault(name, []).append(run_id)
    return dict(sorted(roles.items()))


def _paged(viewer: Viewer, params: QueryParams, rows: list[Any]) -> dict[str, Any]:
    text = params.get("page", "1")
    count = max(-(-len(rows) // PAGE_ROWS), 1)
    page = max(1, min(int(text) if text.isdecimal() and len(text) < 9 else 1, count))
    part = rows if viewer.links.is_static else rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return {"rows": part, "total": len(rows), "page": page, "page_count": 1 if viewer.links.is_static else count}
