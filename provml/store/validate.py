"""Validate a run, or all runs of a home, against shapes: those of provml and those of the user."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyoxigraph as ox

from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.imports import ImportedFiles, parse_added
from provml.store.run_info import RunInfo
from provml.validation import Report
from provml.validation.datatypes import may_have_changed_datatypes, preserve
from provml.validation.engine import EngineName, validate_files
from provml.validation.graph import ValidationGraph, with_inference
from provml.validation.inference import InferenceName
from provml.validation.report import ProgressCallback
from provml.validation.shape_files import ShapePaths, selected_shapes


class RunGraphs(Protocol):
    """What validation needs of a store."""

    home: Path

    @property
    def location(self) -> str:
        """The folder of the home, or the URL of a store elsewhere."""

    def runs(self) -> list[RunInfo]:
        """List the runs."""

    def run(self, run_id: str) -> RunInfo:
        """Find a run."""

    def graph(self, run_id: str | None = None) -> ox.Store:
        """Return the graph of a run, or of all."""

    def lineage_context(self, graph: ox.Store) -> list[ox.Quad]:
        """Return what other runs say about the lineage of a run, given the graph of the run."""


@dataclass(frozen=True)
class ValidationOptions:
    """How to validate: further `shapes` beside those of provml and of the home, or `only_shapes`; engine, inference.

    `files` are the shape files that these select.
    """

    shapes: ShapePaths = ()
    only_shapes: ShapePaths | None = None
    engine: EngineName = "sparql"
    inference: InferenceName = "types"
    files: tuple[Path, ...] = ()

    def validate(self, graph: ValidationGraph, *, label: str, progress: ProgressCallback | None) -> Report:
        """Validate a graph against the shape files."""
        return validate_files(
            graph,
            self.files,
            engine=self.engine,
            inference=self.inference,
            label=label,
            progress=progress,
        )


def validate_runs(
    store: RunGraphs,
    run_id: str | None,
    options: ValidationOptions,
    *,
    progress: ProgressCallback | None = None,
) -> Report:
    """Validate a run, or all runs (None).

    All runs are validated one after the other in memory: seven times faster than on the disk, and memory does not grow
    with the number of runs. Files that were added by hand may describe any run, so with them all is one graph.
    """
    options = replace(options, files=tuple(selected_shapes(options.shapes, options.only_shapes, store.home)))
    runs = [] if run_id is not None or any((store.home / "added").glob("*.nq")) else store.runs()
    if not runs:
        if run_id is not None:
            info = store.run(run_id)
            return _validate_run(store, info.id, options, label=f"run {info.id}", progress=progress)
        label, data = labelled_graph(store, None)
        graph = _graph_of_all(store.home, data, options.inference)
        return options.validate(graph, label=label, progress=progress)
    reports = []
    for number, info in enumerate(reversed(runs)):
        callback = None if progress is None else _shift(progress, number, len(runs))
        reports.append(_validate_run(store, info.id, options, progress=callback))
    return _merge(reports, f"all of {store.location}")


def _validate_run(
    store: RunGraphs,
    run_id: str,
    options: ValidationOptions,
    *,
    label: str = "",
    progress: ProgressCallback | None = None,
) -> Report:
    """Validate a run with what other runs say about its lineage; results about nodes of other runs are left out."""
    graph = store.graph(run_id)
    context = store.lineage_context(graph)
    others = {quad.subject.value for quad in context if isinstance(quad.subject, ox.NamedNode)}
    graph.extend(context)
    report = options.validate(ValidationGraph(graph), label=label, progress=progress)
    return replace(report, results=tuple(result for result in report if result.focus not in others))


def _graph_of_all(home: Path, index: ox.Store, inference: InferenceName) -> ValidationGraph:
    """Return the graph of all runs and all added files, in which an added file is valid if it is valid by itself.

    This is the index, unless added files have named graphs, datatypes that Oxigraph changes, or nodes without all
    types that the ontologies imply. Then it is a copy of the index in memory.
    """
    names = [name for name in index.named_graphs() if name not in PROVIDED_GRAPHS]
    has_changed_datatypes = any(map(_has_changed_datatypes, (home / "added").glob("*.nq")))
    if not names and not has_changed_datatypes:
        return with_inference(ValidationGraph(index), inference, in_place=False)
    store = ox.Store()
    for name in (ox.DefaultGraph(), *names):
        store.bulk_extend(ox.Quad(*quad.triple) for quad in index.quads_for_pattern(None, None, None, name))
    if has_changed_datatypes:
        _restore_datatypes(store, ImportedFiles(home).intact())
    graph = ValidationGraph(store, has_preserved_datatypes=has_changed_datatypes)
    return with_inference(graph, inference, in_place=True)


def _has_changed_datatypes(path: Path) -> bool:
    """Return whether an added file has datatypes that Oxigraph has changed in the index."""
    with path.open("rb") as file:
        return any(map(may_have_changed_datatypes, file))


def _restore_datatypes(store: ox.Store, files: list[Path]) -> None:
    """Replace the triples of added files that Oxigraph has changed by those of the files."""
    for path in files:
        for quad in parse_added(path):
            if preserve(quad.object) != quad.object:
                store.remove(ox.Quad(*quad.triple))
    for path in files:  # another file may state a removed triple as it is
        store.bulk_extend(ox.Quad(q.subject, q.predicate, preserve(q.object)) for q in parse_added(path))


def _shift(progress: ProgressCallback, number: int, runs: int) -> ProgressCallback:
    """Report the progress within one of several runs as progress of all."""
    return lambda done, total, name: progress(number * total + done, runs * total, name)


def _merge(reports: list[Report], label: str) -> Report:
    """Merge the reports of several runs; a result that runs share is reported once."""
    results = dict.fromkeys(result for report in reports for result in report)
    truncated = {key for report in reports for key in report.counts}
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports:
        listed = Counter((result.shape, result.component) for result in report)
        counts.update({key: report.counts.get(key, listed[key]) for key in truncated})
    triples = sum(report.scope.triples for report in reports if report.scope is not None)
    scope = reports[0].scope and replace(reports[0].scope, label=label, triples=triples)
    return Report(tuple(results), scope, dict(counts))


def labelled_graph(store: RunGraphs, run_id: str | None) -> tuple[str, ox.Store]:
    """Return the graph of a run, or of all, and its label for a report."""
    if run_id is None:
        return f"all of {store.location}", store.graph()
    info = store.run(run_id)
    return f"run {info.id}", store.graph(info.id)
