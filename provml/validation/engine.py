"""Validation of data against shape files, with either SHACL engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from provml.rdf.namespaces import SH
from provml.validation import pyshacl_engine
from provml.validation.graph import ValidationGraph, load_graph
from provml.validation.inference import InferenceName, check_inference
from provml.validation.inputs import ValidationInput
from provml.validation.report import ProgressCallback, Report
from provml.validation.results import ValidationScope
from provml.validation.shape_files import ShapePaths, selected_shapes

if TYPE_CHECKING:
    from provml.validation.shacl import Shapes

EngineName: TypeAlias = Literal["sparql", "pyshacl"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
MAX_RESULTS = 1000
"""Results kept per shape and component; further ones are only counted."""


def validate(
    data: ValidationInput | ValidationGraph,
    shapes: ShapePaths = (),
    *,
    only_shapes: ShapePaths | None = None,
    engine: EngineName = "sparql",
    inference: InferenceName = "types",
    label: str = "",
    progress: ProgressCallback | None = None,
) -> Report:
    """Validate data against the built-in shapes and further `shapes`, or against `only_shapes`: files or folders.

    The data is one or several things (with all things that they refer to), N-Triples as bytes, a pyoxigraph Store (its
    default graph), or the path of an RDF file or a PROV document. `inference` is none, types (the superclasses of each
    type by the ontologies of provml), rdfs or owlrl. `label` names the data in the report.
    """
    check_inference(inference)
    if engine not in ENGINES:
        raise ValueError(f"Unknown engine {engine!r}. Use one of: {', '.join(ENGINES)}.")
    files = selected_shapes(shapes, only_shapes)
    return validate_files(data, files, engine=engine, inference=inference, label=label, progress=progress)


def validate_files(
    data: ValidationInput | ValidationGraph,
    files: Sequence[Path],
    *,
    engine: EngineName = "sparql",
    inference: InferenceName = "types",
    label: str = "",
    progress: ProgressCallback | None = None,
) -> Report:
    """Validate data against certain shape files."""
    graph = load_graph(data, inference)
    if engine == "pyshacl":
        report = pyshacl_engine.validate(graph, files)
        scope = ValidationScope(label, graph.triples, _count_shapes(files), engine, inference=inference)
        return replace(report, scope=scope)
    compiled = _compiled(tuple((path, path.stat().st_mtime_ns) for path in files), graph.has_preserved_datatypes)
    report = _validate_by_sparql(graph, compiled, progress)
    delegated = tuple(f"{_without_brackets(str(shape))}: {reason}" for shape, reason in compiled.delegated.items())
    scope = ValidationScope(label, graph.triples, len(compiled.targeted), engine, delegated, notes=compiled.notes)
    scope = replace(scope, inference=inference)
    return replace(report, scope=scope)


def _validate_by_sparql(graph: ValidationGraph, shapes: Shapes, progress: ProgressCallback | None) -> Report:
    from provml.validation import shacl

    counts: dict[tuple[str, str], int] = {}
    report = shacl.validate(graph, shapes, progress=progress, max_results=MAX_RESULTS, counts=counts)
    exceeded = {
        (_without_brackets(shape), component.removeprefix(SH).removesuffix("ConstraintComponent")): count
        for (shape, component), count in counts.items()
        if count > MAX_RESULTS
    }
    return replace(report, counts=exceeded)


def _without_brackets(node: str) -> str:
    return node[1:-1] if node.startswith("<") else node


@lru_cache(4)
def _compiled(files: tuple[tuple[Path, int], ...], has_preserved_datatypes: bool) -> Shapes:
    """Compile shape files; the modification times in the key make the cache notice changes."""
    from provml.validation.shacl import compile_shapes

    return compile_shapes([path for path, _ in files], has_preserved_datatypes=has_preserved_datatypes)


def _count_shapes(files: Sequence[Path]) -> int:
    """Count the shapes with targets."""
    import pyoxigraph as ox

    store = ox.Store()
    store.extend(ox.Quad(*triple) for triple in pyshacl_engine.load_shapes(files))
    targets = " UNION ".join(f"{{ ?s <{SH}target{kind}> ?t }}" for kind in ("Class", "Node", "SubjectsOf", "ObjectsOf"))
    (row,) = store.query(f"SELECT (COUNT(DISTINCT ?s) AS ?n) WHERE {{ {targets} }}")  # type: ignore[misc]
    return int(row[0].value)
