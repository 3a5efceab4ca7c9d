"""Compare runs: differences first, curves over each other, and where their lineages part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from provml.answers.plot import Curves
from provml.answers.table import is_numeric
from provml.errors import PlotError
from provml.mapping.direction import direction_of
from provml.store import RunInfo
from provml.store.compare import LINEAGE, compare_runs
from provml.store.curves import RunCurves
from provml.store.lineage import lineage as lineage_of
from provml.store.run_table import PREFIXES
from provml.web.problems import Problem
from provml.web.viewer.lineage_page import Opened, graph_context, merged
from provml.web.viewer.links import MAX_COMPARED
from provml.web.viewer.render import charts
from provml.web.viewer.viewer import Page, Viewer

MAX_PANELS = 6
MAX_GRAPH_RUNS = 4
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")


def compare(viewer: Viewer, params: QueryParams) -> Page:
    """Return the page of a comparison."""
    ids = list(dict.fromkeys(params.getlist("r")))
    if len(ids) < 2:
        context = {"runs": viewer.runs()[:100], "chosen": ids}
        return Page("compare_choose.html", "Compare", context)
    if len(ids) > MAX_COMPARED:
        raise Problem(
            400, "TooManyRuns", f"{len(ids)} runs are ticked. Compare at most {MAX_COMPARED}; filter the runs first."
        )
    infos = [viewer.run(run_id) for run_id in ids]
    comparison = compare_runs(viewer.store.backend, infos)
    rows = [row for row in comparison.differences.rows if row[0] != LINEAGE]
    panels, labels = _panels(viewer, infos)
    context = {
        "infos": infos,
        "rows": [_row(row) for row in rows],
        "equal": [_row(row) for row in comparison.equal.rows],
        "lineage": [_divergence(infos, row) for row in comparison.differences.rows if row[0] == LINEAGE],
        "charts": charts(panels, "compare"),
        "labels": labels,
        "has_graph": len(infos) <= MAX_GRAPH_RUNS,
        "show_graph": params.get("graph") == "1" or viewer.links.is_static,
        "graph_address": _graph_address(viewer, ids),
        "command": f"provml compare {' '.join(ids)}",
        "python": f"store.compare({', '.join(map(repr, ids))})",
    }
    if context["show_graph"] and context["has_graph"]:
        records = merged([lineage_of(viewer.store, info.iri) for info in infos], f"{len(infos)} runs")
        context |= graph_context(viewer, records, Opened.of(params, lambda opened: _graph_address(viewer, ids, opened)))
    is_live = any(info.status == "RUNNING" for info in infos)
    return Page("compare.html", f"Compare {len(infos)} runs", context, is_live=is_live)


def _graph_address(viewer: Viewer, ids: Sequence[str], opened: Sequence[str] = ()) -> str:
    """Return the address of the comparison with its graph; a static page has the graph without it."""
    if viewer.links.is_static:
        return ""
    parts = urlencode([("graph", "1"), *(("open", name) for name in opened)])
    return f"{viewer.links.compare(ids)}&{parts}#graph"


def _row(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return a row of the comparison; the best of numeric measures has a star."""
    kind, name, *values = row
    return {"kind": kind, "name": name, "cells": [_short(value) for value in values], "best": _best(kind, name, values)}


def _best(kind: str, name: str, values: Sequence[Any]) -> int | None:
    measure = next((name.removeprefix(prefix) for prefix in PREFIXES.values() if name.startswith(prefix)), name)
    direction = direction_of(measure)
    if kind != "measure" or direction is None or not is_numeric(list(values)):
        return None
    numbers = {index: float(value) for index, value in enumerate(values) if value is not None and value == value}
    if len(set(numbers.values())) < 2:
        return None
    return (min if direction == "minimize" else max)(numbers, key=lambda index: numbers[index])


def _short(value: Any) -> Any:
    """Return a value with shortened digests."""
    return DIGEST.sub(r"\1…", value) if isinstance(value, str) else value


def _divergence(infos: Sequence[RunInfo], row: tuple[Any, ...]) -> dict[str, Any]:
    """Return where the lineage of a run parts from that of the first."""
    _, path, *values = row
    return {
        "path": path.split(" ← "),
        "values": [(info, _short(value)) for info, value in zip(infos, values, strict=True) if value is not None],
    }


def _panels(viewer: Viewer, infos: Sequence[RunInfo]) -> tuple[list[Curves], dict[str, str]]:
    source = RunCurves(viewer.store, infos)
    panels: list[Curves] = []
    for name in [*source.measures[:MAX_PANELS], *source.adapted_settings[:2]]:
        try:
            panels += source.panels([name])
        except PlotError:
            continue
    return panels, {str(iri): label for iri, label in source.labels.items()}
