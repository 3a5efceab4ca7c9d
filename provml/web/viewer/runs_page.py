"""The table of runs: what differs first, filtered in plain words, sorted, grouped, in pages, with live progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import Response

from provml.answers.table import is_numeric
from provml.errors import ProvmlError
from provml.journal.statuses import STATUSES
from provml.store import RunInfo
from provml.store.lineage_walk import rows_about
from provml.store.run_table import Row, RunTable
from provml.web.viewer.render import sparkline
from provml.web.viewer.viewer import Page, Viewer

PAGE_ROWS = 50
MAX_COLUMNS = 12
"""Hyperparameters and measures that the table shows, unless all columns are wanted."""
GROUPS = {"model": "model", "study": "study", "parent": "parent run", "name": "name", "status": "status"}
MAX_SHARED = 24
LOSSES = """SELECT ?node ?stage ?index ?value {
  ?stage provlake:wasMemberOfWorkflowExecution ?node ; a provml:TrainingExecution .
  ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index .
  ?measure prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
           provlake:wasDerivedFromAttribute/rdfs:label "loss"
}"""
SECTIONS = """SELECT ?node (MAX(?index) AS ?last) {
  ?stage provlake:wasMemberOfWorkflowExecution ?node ; a provml:TrainingExecution .
  ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index .
} GROUP BY ?node"""


def runs(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of the runs."""
    table = viewer.table()
    where, error = params.get("where", "").strip(), ""
    shown = table
    try:
        shown = _selected(table, params)
    except ProvmlError as problem:
        error = str(problem)
    group = params.get("group", "") if params.get("group", "") in GROUPS else ""
    rows = _grouped(viewer, shown.rows, group)
    page = _page_number(params, len(rows))
    part = rows if viewer.links.is_static else rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    infos = {info.id: info for info in viewer.runs()}
    listed = [infos[row["run"]] for _, row in part if row["run"] in infos]
    columns, hidden = _columns(shown, show_all=params.get("columns") == "all")
    context = {
        "groups": GROUPS,
        "columns": columns,
        "hidden": hidden,
        "shared": _shared(shown),
        "has_one_name": len({row["name"] for row in shown.rows}) < 2,
        "rows": [_row(row, title, infos.get(row["run"])) for title, row in part],
        "has_tags": any(info.tags for info in listed),
        "curves": viewer.cached_by_run(listed, lambda new: _sparklines(viewer, new)),
        "progress": _progress(viewer, [info for info in listed if info.status == "RUNNING"], part),
        "total": len(table.rows),
        "matching": len(rows),
        "page": page,
        "page_count": max(-(-len(rows) // PAGE_ROWS), 1),
        "where": where,
        "status": params.get("status", ""),
        "statuses": STATUSES,
        "group": group,
        "sort": shown.sort_column,
        "descending": params.get("desc") == "1",
        "show_all": params.get("columns") == "all",
        "error": error,
        "keep": lambda **changes: viewer.links.page("", **{**_state(params), **changes}),
        "compare_all": viewer.links.compare([info.id for info in viewer.runs()]) if viewer.links.is_static else "",
        "csv": "" if viewer.links.is_static else viewer.links.page("runs.csv", **_state(params)),
    }
    is_live = any(info.status == "RUNNING" for info in listed)
    return Page("runs.html", "Runs", context, is_live=is_live)


def runs_csv(viewer: Viewer, params: QueryParams) -> Response:
    """Return the table as CSV, with the filter and the order of the page."""
    text = _selected(viewer.table(), params).answer().to_csv()
    headers = {"Content-Disposition": 'attachment; filename="runs.csv"'}
    return Response(text, 200, headers, "text/csv; charset=utf-8")


def _state(params: QueryParams) -> dict[str, str]:
    """Return what the address says about the table, without the page."""
    names = ("where", "status", "sort", "desc", "group", "columns")
    return {name: params[name] for name in names if params.get(name)}


def _selected(table: RunTable, params: QueryParams) -> RunTable:
    where, status, sort = (params.get(name, "").strip() for name in ("where", "status", "sort"))
    table = table.filtered(where or None, status or None)
    return table.sorted(sort, descending=params.get("desc") == "1") if sort else table


def _page_number(params: QueryParams, rows: int) -> int:
    text = params.get("page", "1")
    number = int(text) if text.isdecimal() and len(text) < 9 else 1
    return max(1, min(number, -(-rows // PAGE_ROWS)))


def _grouped(viewer: Viewer, rows: Sequence[Row], group: str) -> list[tuple[str | None, Row]]:
    """Return the rows with the title of their group, sorted by group; without a group the title is None."""
    if not group:
        return [(None, row) for row in rows]
    studies = viewer.studies() if group == "study" else {}
    titles = [str(studies.get(row["run"], "") if group == "study" else row.get(group) or "") for row in rows]
    order = {title: number for number, title in enumerate(dict.fromkeys(titles))}
    pairs: list[tuple[str | None, Row]] = list(zip(titles, rows, strict=True))
    return sorted(pairs, key=lambda pair: order[str(pair[0])])


def _columns(table: RunTable, *, show_all: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the columns of hyperparameters and measures, and how many are not shown."""
    is_single = len(table.rows) < 2
    names = [*table.hyperparameters, *table.measures] if is_single or show_all else table.varying
    ordered = [name for name in table.hyperparameters if name in names] + [n for n in table.measures if n in names]
    partial = [] if show_all or is_single else [name for name in ordered if table.is_partial(name)]
    if len(ordered) > MAX_COLUMNS:
        ordered = [name for name in ordered if name not in partial]
    chosen = ordered if show_all else ordered[:MAX_COLUMNS]
    if not show_all and len(ordered) > MAX_COLUMNS:  # some of both kinds
        measures = [name for name in ordered if name in table.measures][: MAX_COLUMNS // 2]
        others = [name for name in ordered if name not in table.measures][: MAX_COLUMNS - len(measures)]
        chosen = [*others, *measures]
    columns = [
        {
            "name": name,
            "is_measure": name in table.measures,
            "is_number": is_numeric([row.get(name) for row in table.rows]),
        }
        for name in chosen
    ]
    return columns, len(names) - len(chosen)


def _shared(table: RunTable) -> list[tuple[str, Any]]:
    """Return what all rows have in common."""
    if len(table.rows) < 2:
        return []
    first = table.rows[0]
    names = [name for name in ("name", "model") if first[name] and len({row[name] for row in table.rows}) == 1]
    return [(name, first[name]) for name in (*names, *table.constants)][:MAX_SHARED]


def _row(row: Row, title: str | None, info: RunInfo | None) -> dict[str, Any]:
    return {"cells": row, "group": title, "info": info}


def _sparklines(viewer: Viewer, infos: Iterable[RunInfo]) -> Mapping[str, Any]:
    """Return the loss by epoch of runs as small pictures, of several trainings that of the first."""
    by_iri = {info.iri: info.id for info in infos}
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for run, stage, index, value in rows_about(viewer.store, LOSSES, by_iri):
        if isinstance(value, (int, float)) and index is not None:
            curves.setdefault(by_iri[run], {}).setdefault(str(stage), {})[index] = float(value)
    pictures = {}
    for run, stages in curves.items():
        points = stages[min(stages)]
        pictures[run] = sparkline([points[index] for index in sorted(points)])
    return pictures


def _progress(viewer: Viewer, infos: Sequence[RunInfo], part: Sequence[tuple[str | None, Row]]) -> dict[str, str]:
    """Return how far running trainings are: 34/80."""
    if not infos:
        return {}
    planned = {row["run"]: row.get("epochs") for _, row in part}
    by_iri = {info.iri: info.id for info in infos}
    texts = {}
    for run, last in rows_about(viewer.store, SECTIONS, by_iri):
        total = planned.get(by_iri[run])
        texts[by_iri[run]] = f"{last}/{total}" if isinstance(total, int) else f"epoch {last}"
    return texts
