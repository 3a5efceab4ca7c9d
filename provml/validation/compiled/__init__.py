"""SHACL compiled into SPARQL that Oxigraph runs itself: the report of the reference engine, at the speed of the store.

reading      shape files in, shapes out            shape, path   shapes as they are read
prebinding   SHACL-SPARQL's queries as text        exists        EXISTS written so that Oxigraph walks it
condition    whether a node conforms, in SPARQL    check         the SELECTs that give what breaks a shape
survey       what a store holds, asked before      lexical       what SPARQL cannot ask of a literal
run          checks in, findings out               finding       one result, and what it says
handover     what is left to pySHACL
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provml.validation.compiled.shape import Shapes

if TYPE_CHECKING:
    import pyoxigraph

    from provml.validation.compiled.run import Counts
    from provml.validation.report import Progress, Report

__all__ = ["Shapes", "compile_shapes", "validate"]


def compile_shapes(paths: Path | str | Iterable[Path | str]) -> Shapes:
    """Shape files, read as one graph and checked, to validate any number of stores with."""
    from provml.validation.compiled.reading import read_shapes
    from provml.validation.compiled.run import not_covered

    given = [paths] if isinstance(paths, (str, Path)) else paths
    shapes = read_shapes(map(Path, given))
    return replace(shapes, handed_over=not_covered(shapes))


def validate(
    store: pyoxigraph.Store,
    shapes: Shapes | Path | str | Iterable[Path | str],
    *,
    progress: Progress | None = None,
    most: int | None = None,
    counts: Counts | None = None,
) -> Report:
    """The report of a store's default graph against shapes; `progress` is told (shapes done, of how many, the next).

    Memory grows with the results, not with the graph. Where there may be very many, `most` keeps so many of each shape
    and component, and `counts`, a dict that is filled, tells how many there are.
    """
    from provml.validation.compiled import handover
    from provml.validation.compiled.finding import report, too_many
    from provml.validation.compiled.run import find

    compiled = shapes if isinstance(shapes, Shapes) else compile_shapes(shapes)
    found = find(store, compiled, progress, most=most, counts=counts)
    results = [finding.result(too_many(store, finding)) for finding in found]
    if compiled.handed_over:
        results += handover.validate(store, compiled)
    return report(results)
