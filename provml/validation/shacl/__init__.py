"""SHACL translated to SPARQL that Oxigraph runs: the results of pySHACL at the speed of the store.

parse, parse_queries, parameters   shape files to shapes     functions       functions that SPARQL lacks
model, path                        shapes as data            statistics      facts about a store
prebinding                         SPARQL text               exists_rewrite  EXISTS for the planner of Oxigraph
expressions                        conformance of a node     queries         SELECT queries of violations
execute                            queries to results        result          one violation
fallback                           pySHACL for the rest
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provml.validation.shacl.model import Shapes

if TYPE_CHECKING:
    import pyoxigraph

    from provml.validation.graph import ValidationGraph
    from provml.validation.report import ProgressCallback, Report

__all__ = ["Shapes", "compile_shapes", "validate"]


def compile_shapes(files: Path | str | Iterable[Path | str], *, has_preserved_datatypes: bool = False) -> Shapes:
    """Parse and check shape files as one graph, to validate any number of stores.

    For data with preserved datatypes more shapes are delegated to pySHACL: Oxigraph evaluates queries on other terms.
    """
    from provml.validation.shacl.execute import find_unsupported
    from provml.validation.shacl.parse import parse_shapes

    shapes = parse_shapes(map(Path, [files] if isinstance(files, (str, Path)) else files))
    return replace(shapes, delegated=find_unsupported(shapes, has_preserved_datatypes=has_preserved_datatypes))


def validate(
    data: pyoxigraph.Store | ValidationGraph,
    shapes: Shapes | Path | str | Iterable[Path | str],
    *,
    progress: ProgressCallback | None = None,
    max_results: int | None = None,
    counts: dict[tuple[str, str], int] | None = None,
) -> Report:
    """Validate the default graph of a store, as it is.

    Memory grows with the number of results, not with the graph. `max_results` limits the results per shape and
    component; `counts` is filled with the number of all results by shape and component.
    """
    from provml.validation.graph import ValidationGraph
    from provml.validation.report import sorted_report
    from provml.validation.shacl import fallback
    from provml.validation.shacl.execute import find_results
    from provml.validation.shacl.result import excess_values

    graph = data if isinstance(data, ValidationGraph) else ValidationGraph(data)
    if not isinstance(shapes, Shapes):
        shapes = compile_shapes(shapes, has_preserved_datatypes=graph.has_preserved_datatypes)
    violations = find_results(graph, shapes, progress, max_results=max_results, counts=counts)
    results = [violation.to_result(excess_values(graph.store, violation)) for violation in violations]
    if shapes.delegated:
        results += fallback.validate(graph, shapes)
    return sorted_report(results)
