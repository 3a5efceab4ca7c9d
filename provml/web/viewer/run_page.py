"""The page of a run: curves, settings, data; epochs and batches, layers, environment, lineage, validation, RDF."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import FileResponse, Response

from provml.answers.humanize import format_duration, format_size
from provml.answers.plot import Columns as CurveColumns
from provml.answers.plot import Curve, Curves, curves
from provml.errors import ArtifactNotFound, PlotError, ProvmlError
from provml.journal.artifacts import ArtifactFiles
from provml.journal.run_files import journals_of_run
from provml.journal.segments import file_stat
from provml.model.values import IRI
from provml.rdf.namespaces import PREFIXES
from provml.store import RunInfo
from provml.store.curves import RunCurves
from provml.store.export import FORMATS
from provml.store.run_facts import PEOPLE, SEEDS, join_names
from provml.store.run_report import extremes
from provml.store.run_tables import RunTables
from provml.web.problems import Problem
from provml.web.viewer.lineage_page import Opened, lineage_context
from provml.web.viewer.render import charts
from provml.web.viewer.validation_page import validation_context
from provml.web.viewer.viewer import Page, Viewer

MAX_PANELS = 8
"""Measures that have a chart."""
EPOCH_ROWS = 100
MAX_BATCHES = 2000
MAX_MODELS = 50
MAX_RDF_LINES = 400

COUNTS = """SELECT (COUNT(DISTINCT ?section) AS ?sections) (COUNT(DISTINCT ?network) AS ?networks) {
  ?stage provlake:wasMemberOfWorkflowExecution $run .
  { ?section provml:wasSectionOf ?stage } UNION { ?stage prov:used ?network . ?network a provml:ModelSchemaValue }
}"""
SECTIONS = """SELECT ?stage ?section ?index ?seconds ?batches ?mean ?status ?validated {
  ?stage provlake:wasMemberOfWorkflowExecution $run . ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index .
  OPTIONAL { ?section provml:elapsedSeconds ?seconds }
  OPTIONAL { ?section provml:batchCount ?batches }
  OPTIONAL { ?section provml:meanBatchSeconds ?mean }
  OPTIONAL { ?section provlake:status ?status }
  OPTIONAL { ?section provml:validatedSection/provml:sectionIndex ?validated }
} ORDER BY ?stage ?index"""
SECTION_MEASURES = (
    """SELECT ?section ?name ?value {
  ?stage provlake:wasMemberOfWorkflowExecution $run . ?section provml:wasSectionOf ?stage .
  ?node prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
    """SELECT ?section ?name ?value {
  ?stage provlake:wasMemberOfWorkflowExecution $run . ?section provml:wasSectionOf ?stage .
  ?section provml:hasBatchSummary ?node .
  ?node provml:meanValue ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
)
"""Two queries: the engine would join a union with the nodes of all runs."""
BATCHES = """SELECT ?index ?name ?value {
  ?batch provml:wasSectionOf $section ; provml:sectionIndex ?index .
  ?node prov:wasGeneratedBy ?batch ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
} ORDER BY ?index ?name LIMIT 40000"""
LAYERS = """SELECT ?stage ?layer ?index ?name ?type ?block ?input ?output ?parameters ?key ?setting {
  ?stage provlake:wasMemberOfWorkflowExecution $run ; prov:used ?network . ?network a provml:ModelSchemaValue .
  ?network provml:hasLayer+ ?layer . ?layer provml:layerIndex ?index ; rdfs:label ?name .
  OPTIONAL { ?layer provml:layerType ?type }
  OPTIONAL { ?outer provml:hasLayer ?layer . ?outer a provml:Block ; rdfs:label ?block }
  OPTIONAL { ?layer provml:inputShape ?input }
  OPTIONAL { ?layer provml:outputShape ?output }
  OPTIONAL { ?layer provml:parameterCount ?parameters }
  OPTIONAL { ?layer provml:hasParameter ?node . ?node prov:value ?setting ;
             provlake:wasDerivedFromAttribute/rdfs:label ?key }
} ORDER BY ?stage ?index ?name ?key"""
LAYER_COLUMNS = dict(enumerate(("layer", "name", "type", "block", "input", "output", "parameters")))
OWN_TRIPLES = """CONSTRUCT { ?node ?p ?o } WHERE {
  { BIND($run AS ?node) } UNION { ?node provlake:wasMemberOfWorkflowExecution $run }
  ?node ?p ?o
} LIMIT 3000"""


def run(viewer: Viewer, params: QueryParams, run: str) -> Page:
    """Return the page of a run."""
    info = viewer.run(run)
    tables = RunTables(viewer.store, info)
    panels = _panels(viewer, info)
    hyperparameters = tables.hyperparameters().rows
    context = {
        "charts": charts(panels, "run"),
        "results": [row for curve in panels for row in extremes(curve)],
        "stages": [(*row[:4], format_duration(row[4]), row[5]) for row in tables.stages().rows],
        "evaluations": _evaluations(tables),
        "hyperparameters": hyperparameters,
        "stage_names": list(dict.fromkeys(row[0] for row in hyperparameters)),
        "adaptations": tables.adaptations().rows,
        "datasets": _datasets(tables),
        "models": _models(tables),
        "children": [child for child in viewer.runs() if child.parent == info.id],
        "reruns": [other for other in viewer.runs() if other.rerun_of == info.id],
        "notes": [note for note in info.notes if note.kind == "note"],
    }
    return _page(viewer, info, "run.html", "", context)


def run_part(viewer: Viewer, params: QueryParams, run: str, tab: str) -> Page | Response:
    """Return a part of the page of a run."""
    if tab not in PARTS:
        raise Problem(404, "NotFound", f"The page of a run has no part {tab[:50]!r}.")
    return PARTS[tab](viewer, params, viewer.run(run))


def _page(viewer: Viewer, info: RunInfo, template: str, tab: str, context: dict[str, Any]) -> Page:
    """Return a part of the page with what all parts show: the summary, and which parts there are."""
    sections, networks = viewer.select(COUNTS, run=info.iri)[0]
    shared = {
        "info": info,
        "tab": tab,
        "tabs": [
            ("", "Overview"),
            *([("epochs", f"Epochs {sections:,}")] if sections else []),
            *([("layers", "Layers")] if networks else []),
            ("environment", "Environment"),
            ("lineage", "Lineage"),
            ("validation", "Validation"),
            ("artifacts", "Artifacts"),
            ("rdf", "RDF"),
        ],
    }
    is_live = info.status == "RUNNING" or bool(context.get("is_checking"))
    return Page(template, f"{info.name} {info.id}", {**shared, **context}, is_live=is_live)


# ---- overview


def _panels(viewer: Viewer, info: RunInfo) -> list[Curves]:
    """Return the curves of the measures, and of the settings that were adapted."""
    source = RunCurves(viewer.store, [info])
    panels: list[Curves] = []
    for name in [*source.measures[:MAX_PANELS], *source.adapted_settings[:MAX_PANELS]]:
        try:
            panels += source.panels([name])
        except PlotError:  # all values are NaN, or text
            continue
    return panels


def _evaluations(tables: RunTables) -> list[tuple[str, str, Any]]:
    """Return stage, measure and value of evaluations."""
    kinds = {row[0]: row[1] for row in tables.stages().rows}
    rows = tables.select(
        """SELECT ?at ?name ?value { ?at provlake:wasMemberOfWorkflowExecution $run ; a provml:EvaluationExecution .
        ?node prov:wasGeneratedBy ?at ; a provml:ModelEvaluation ; prov:value ?value ;
              provlake:wasDerivedFromAttribute/rdfs:label ?name } ORDER BY ?at ?name"""
    )
    return [(tables.place(at), name, value) for at, name, value in rows if kinds]


def _datasets(tables: RunTables) -> list[dict[str, Any]]:
    """Return a row for each content, with the stages that made and used it and their roles."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, where, role, size, digest, path in tables.datasets().rows:
        row = rows.setdefault(
            (name, digest or path or ""),
            {
                "name": name,
                "size": format_size(size),
                "sha256": digest or "",
                "path": path or "",
                "roles": {},
                "where": {},
            },
        )
        row["where"][where] = None
        if role:
            row["roles"][role] = None
    return [{**row, "roles": join_names(row["roles"]), "where": join_names(row["where"])} for row in rows.values()]


def _models(tables: RunTables) -> list[tuple[Any, ...]]:
    return [
        (name, by, layers, parameters, format_size(size), digest or "", path or "")
        for name, by, layers, parameters, size, digest, path in tables.models().rows[-MAX_MODELS:]
    ]


# ---- parts


def _epochs(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    tables = RunTables(viewer.store, info)
    sections = viewer.select(SECTIONS, run=info.iri)
    measures: dict[str, dict[str, Any]] = {}
    for section, name, value in (row for sparql in SECTION_MEASURES for row in viewer.select(sparql, run=info.iri)):
        measures.setdefault(str(section), {}).setdefault(str(name), value)
    names = sorted({name for values in measures.values() for name in values})
    text = params.get("page", "1")
    page = max(1, min(int(text) if text.isdecimal() and len(text) < 9 else 1, -(-len(sections) // EPOCH_ROWS)))
    part = sections if viewer.links.is_static else sections[(page - 1) * EPOCH_ROWS : page * EPOCH_ROWS]
    context = {
        "names": names,
        "rows": [
            {
                "stage": tables.place(stage),
                "iri": section,
                "index": index if validated in (None, index) else f"{index} (epoch {validated})",
                "seconds": seconds,
                "batches": batches,
                "batch_seconds": mean,
                "status": status,
                "values": [measures.get(str(section), {}).get(name) for name in names],
            }
            for stage, section, index, seconds, batches, mean, status, validated in part
        ],
        "count": len(sections),
        "page": page,
        "page_count": 1 if viewer.links.is_static else max(-(-len(sections) // EPOCH_ROWS), 1),
        "batches": _batches(viewer, params.get("of", ""), tables),
    }
    return _page(viewer, info, "run_epochs.html", "epochs", context)


def _batches(viewer: Viewer, section: str, tables: RunTables) -> dict[str, Any] | None:
    """Return the measures of the batches of a section, as charts."""
    if not section.startswith(f"{tables.info.iri}/"):
        return None
    rows = [(index, str(name), value) for index, name, value in viewer.select(BATCHES, section=IRI(section))]
    panels = []
    for name in dict.fromkeys(name for _, name, _ in rows):
        points = [(index, value) for index, each, value in rows if each == name]
        try:
            panels.append(curves(CurveColumns(["batch", name], points), Curve("batch", (name,)), None, None, None))
        except PlotError:
            continue
    return {
        "place": tables.place(section),
        "count": len({index for index, *_ in rows}),
        "charts": charts(panels, "batches"),
    }


def _layers(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    tables = RunTables(viewer.store, info)
    layers: dict[str, dict[str, Any]] = {}
    for stage, layer, index, name, kind, block, inputs, outputs, parameters, key, setting in viewer.select(
        LAYERS, run=info.iri
    ):
        entry = layers.setdefault(
            f"{stage} {layer}",
            {
                "stage": tables.place(stage),
                "cells": (index, name, kind, block, inputs, outputs, parameters),
                "parameters": parameters,
                "settings": {},
            },
        )
        if key is not None:
            entry["settings"][str(key)] = setting
    total = sum(entry["parameters"] or 0 for entry in layers.values())
    columns = [
        number for number in LAYER_COLUMNS if any(entry["cells"][number] is not None for entry in layers.values())
    ]
    context = {
        "layers": list(layers.values()),
        "total": total,
        "columns": [(number, LAYER_COLUMNS[number]) for number in columns],
        "has_stages": len({entry["stage"] for entry in layers.values()}) > 1,
    }
    return _page(viewer, info, "run_layers.html", "layers", context)


def _environment(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    tables = RunTables(viewer.store, info)
    values: dict[str, Any] = {str(name): value for name, value in tables.environment().rows}
    software = str(values.pop("software", "") or "")
    if isinstance(values.get("memory bytes"), int):
        values["memory"] = format_size(values.pop("memory bytes"))
    people: dict[str, dict[str, None]] = {}
    for name, kind, node in tables.select(PEOPLE):
        place = {"step": tables.place(node), "adaptation": "adaptations"}.get(str(kind), str(kind))
        people.setdefault(str(name), {})[place] = None
    context = {
        "code": [
            (name, values.pop(name))
            for name in ("git commit", "git dirty", "git repository", "command line", "working directory")
            if name in values
        ],
        "values": list(values.items()),
        "software": sorted(filter(None, software.split(", ")), key=str.lower),
        "people": [(name, join_names(places)) for name, places in people.items()],
        "seeds": [(name, value) for name, value in tables.select(SEEDS) if str(name).startswith("seed of")],
        "journals": [
            (path.name, format_size(file_stat(path).st_size))
            for path in journals_of_run(viewer.store.home / "runs" / info.id)
        ],
    }
    return _page(viewer, info, "run_environment.html", "environment", context)


def _lineage(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    direction = "forward" if params.get("dir") == "forward" else ""
    opened = Opened.of(params, lambda ids: viewer.links.run(info.id, "lineage", dir=direction, open=list(ids)))
    context = lineage_context(viewer, info.iri, direction == "forward", opened)
    return _page(viewer, info, "run_lineage.html", "lineage", context)


def _validation(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    context = validation_context(viewer, info.id, f"{info.events} {info.status}")
    return _page(viewer, info, "run_validation.html", "validation", context)


def _artifacts(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page:
    return _page(viewer, info, "run_artifacts.html", "artifacts", {"artifacts": viewer.store.artifacts(info)})


def _rdf(viewer: Viewer, params: QueryParams, info: RunInfo) -> Page | Response:
    fmt = params.get("format", "")
    if fmt:
        if fmt not in FORMATS:
            raise Problem(400, "UnknownFormat", f"No format {fmt[:50]!r} here. Use one of {', '.join(FORMATS)}.")
        buffer = io.BytesIO()
        viewer.store.export(info.id, buffer, fmt)
        headers = {"Content-Disposition": f'attachment; filename="run.{fmt}"'}
        return Response(buffer.getvalue(), 200, headers, FORMATS[fmt].media_type)
    answer = viewer.store._answer(OWN_TRIPLES.replace("$run", f"<{info.iri}>"), sync=False)
    text = "" if isinstance(answer, bool) else answer.to_rdf("ttl")
    lines = text.splitlines()
    context = {
        "formats": list(FORMATS),
        "turtle": "\n".join(lines[:MAX_RDF_LINES]),
        "is_cut": len(lines) > MAX_RDF_LINES,
        "prefixes": PREFIXES,
    }
    return _page(viewer, info, "run_rdf.html", "rdf", context)


PARTS: dict[str, Callable[[Viewer, QueryParams, RunInfo], Page | Response]] = {
    "epochs": _epochs,
    "layers": _layers,
    "environment": _environment,
    "lineage": _lineage,
    "validation": _validation,
    "artifacts": _artifacts,
    "rdf": _rdf,
}


# ---- files and forms


def artifact(viewer: Viewer, params: QueryParams, sha256: str) -> Response:
    """Return a stored content for download: never as a page of this origin."""
    stored = viewer.store.artifact(sha256)
    files = ArtifactFiles(viewer.store.home)
    if stored.is_folder or not files.has(stored.sha256):
        raise ArtifactNotFound(stored.name, f"The content of {stored.name!r} cannot be sent", "Use `provml get`.")
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    return FileResponse(files.path(stored.sha256), 200, headers, "application/octet-stream", filename=stored.file_name)


def annotate(viewer: Viewer, fields: QueryParams, run: str) -> str:
    """Carry out the forms for tags, notes and the name of a run."""
    info = viewer.run(run)
    text = fields.get("text", "").strip()
    actions: dict[str, Callable[[], object]] = {
        "tag": lambda: viewer.store.tag(info.id, *filter(None, (tag.strip() for tag in text.split(",")))),
        "untag": lambda: viewer.store.untag(info.id, text),
        "note": lambda: viewer.store.note(info.id, text),
        "remove-note": lambda: viewer.store.remove_note(info.id, fields.get("text", "")),
        "rename": lambda: viewer.store.rename(info.id, text),
    }
    action = actions.get(fields.get("action", ""))
    if action is None:
        raise Problem(400, "InvalidForm", f"Unknown action. Use one of {', '.join(actions)}.")
    if not text:
        raise Problem(400, "InvalidForm", "The text is empty. Write something, or leave it.")
    try:
        action()
    except ValueError as error:
        if isinstance(error, ProvmlError):
            raise
        raise Problem(400, "InvalidForm", str(error)) from None
    return viewer.links.run(info.id)
