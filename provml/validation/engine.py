"""One door to both engines: data and shape files in, a report out that says what was checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from provml import resources
from provml.errors import BrokenFile
from provml.validation import reference
from provml.validation.loading import Given, load
from provml.validation.report import Checked, Progress, Report

if TYPE_CHECKING:
    import pyoxigraph

    from provml.validation.compiled import Shapes

ENGINES = ("compiled", "reference")
MOST = 1000
"""So many results of each shape and component are kept; more are counted only."""
SUFFIX = ".ttl"
HIERARCHY = """
PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
CONSTRUCT { ?a ?is ?b } WHERE {
  { ?a rdfs:subClassOf ?b BIND (rdfs:subClassOf AS ?is) }
  UNION { ?a a owl:NamedIndividual , ?b FILTER (?b != owl:NamedIndividual) BIND (rdf:type AS ?is) }
  FILTER (isIRI(?a) && isIRI(?b))
}"""
SHAPES = """
PREFIX sh: <http://www.w3.org/ns/shacl#>
ASK {
  { ?shape a sh:NodeShape } UNION { ?shape a sh:PropertyShape }
  UNION { ?shape sh:targetClass|sh:targetNode|sh:targetSubjectsOf|sh:targetObjectsOf|sh:path ?what }
}"""


def validate(
    given: Given,
    shapes: Path | str | Iterable[Path | str] | None = None,
    *,
    engine: str = "compiled",
    what: str = "",
    progress: Progress | None = None,
) -> Report:
    """The report of some data against shape files, provml's own unless others are given.

    The data is a thing or several (taken with every thing that they refer to), N-Triples as bytes, a pyoxigraph Store
    (its default graph), or the path of an RDF file, whose ending names its format. A file may leave to the ontology
    which classes are below which; all else carries it. `engine` is "compiled", or "reference" for pySHACL.
    """
    import pyoxigraph as ox

    if engine not in ENGINES:
        raise ValueError(f"engine is one of {', '.join(ENGINES)}, not {engine!r}")
    files = shape_files(reference.own_shapes() if shapes is None else shapes)
    store = given if isinstance(given, ox.Store) else load(given)
    triples = len(store) if not isinstance(given, ox.Store) else _size(store)
    if isinstance(given, (str, PathLike)):
        store.extend(ox.Quad(*triple) for triple in hierarchy())
    if engine == "reference":
        report = reference.validate(store, files)
        checked = Checked(what, triples, _count(files), engine)
    else:
        report, checked = _compiled(store, files, what, triples, progress)
    return replace(report, checked=checked)


def _compiled(
    store: pyoxigraph.Store, files: list[Path], what: str, triples: int, progress: Progress | None
) -> tuple[Report, Checked]:
    from provml.validation import compiled

    shapes = _shapes(tuple((path, path.stat().st_mtime_ns) for path in files))
    counts: dict[tuple[str, str], int] = {}
    report = compiled.validate(store, shapes, progress=progress, most=MOST, counts=counts)
    sh = reference.SH
    named = {
        (_bare(shape), component.removeprefix(sh).removesuffix("ConstraintComponent")): count
        for (shape, component), count in counts.items()
        if count > MOST
    }
    over = tuple(f"{_bare(str(shape))}: {reason}" for shape, reason in shapes.handed_over.items())
    checked = Checked(what, triples, len(shapes.targeted), "compiled", over)
    return replace(report, counts=named), checked


def _bare(node: str) -> str:
    return node[1:-1] if node.startswith("<") else node


@lru_cache(4)
def _shapes(files: tuple[tuple[Path, int], ...]) -> Shapes:
    """Shape files, compiled; those that did not change are compiled once."""
    from provml.validation.compiled import compile_shapes

    return compile_shapes([path for path, _ in files])


def _size(store: pyoxigraph.Store) -> int:
    """How many triples the default graph of a store has; counted by it, since there may be millions."""
    (row,) = store.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")  # type: ignore[misc]
    return int(row[0].value)


@lru_cache(1)
def hierarchy() -> list[pyoxigraph.Triple]:
    """Which class is below which, and what the roles are, by our ontologies."""
    import pyoxigraph as ox

    store = ox.Store()
    for path in sorted(resources.ontologies().glob("*.ttl")):
        store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    return list(store.query(HIERARCHY))  # type: ignore[arg-type]


# ---- shape files


def shape_files(given: Path | str | Iterable[Path | str]) -> list[Path]:
    """The shape files among paths of files and folders; each has a shape in it."""
    files: list[Path] = []
    for one in [given] if isinstance(given, (str, Path)) else given:
        path = Path(one)
        if path.is_dir():
            inside = sorted(path.rglob(f"*{SUFFIX}"))
            if not inside:
                raise BrokenFile("no shape file is in it", f"Put shapes there, as *{SUFFIX}.", file=str(path))
            files += inside
        elif not path.exists():
            raise BrokenFile("no such file or directory", "Check the path.", file=str(path))
        else:
            files.append(path)
    own = resources.shapes()
    for path in files:
        if own not in path.parents and not _has_shapes(path):
            advice = "Give a file with a sh:NodeShape or a sh:PropertyShape."
            raise BrokenFile("no SHACL shape is in it", advice, file=str(path))
    return list(dict.fromkeys(files))


def _has_shapes(path: Path) -> bool:
    return bool(load(path).query(SHAPES))


def _count(files: list[Path]) -> int:
    """How many shapes with targets some files have."""
    import pyoxigraph as ox

    store = ox.Store()
    for path in files:
        store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    targets = " UNION ".join(
        f"{{ ?s <{reference.SH}target{kind}> ?t }}" for kind in ("Class", "Node", "SubjectsOf", "ObjectsOf")
    )
    (row,) = store.query(f"SELECT (COUNT(DISTINCT ?s) AS ?n) WHERE {{ {targets} }}")  # type: ignore[misc]
    return int(row[0].value)


def user_shapes(home: Path | None = None) -> list[Path]:
    """The shape files of the user: those of PROVML_SHAPES, and of the folder `shapes` of a home."""
    places = [Path(part) for part in os.environ.get("PROVML_SHAPES", "").split(os.pathsep) if part]
    if home is not None and (home / "shapes").is_dir():
        places.append(home / "shapes")
    return [file for place in places for file in (_shapes_in(place) if place.is_dir() else [place])]


def _shapes_in(folder: Path) -> list[Path]:
    """The files of a folder that have shapes; nobody named the others."""
    return [path for path in sorted(folder.rglob(f"*{SUFFIX}")) if _has_shapes(path)]
