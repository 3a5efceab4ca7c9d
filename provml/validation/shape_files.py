"""Shape files: the built-in ones, the user's, and those that a path names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pyoxigraph as ox

from provml import paths
from provml.errors import FileFormatError
from provml.rdf.namespaces import SH
from provml.rdf.rdflib_bridge import as_file, is_rdflib_graph
from provml.validation.shapes_graph import ShapesGraph, triples_of

SUFFIX = ".ttl"
SUFFIXES = (".ttl", ".shacl")
"""The extensions of shape files in a folder; both are Turtle."""
HAS_SHAPES = f"""
PREFIX sh: <{SH}>
ASK {{
  {{ ?shape a sh:NodeShape }} UNION {{ ?shape a sh:PropertyShape }}
  UNION {{ ?shape sh:targetClass|sh:targetNode|sh:targetSubjectsOf|sh:targetObjectsOf|sh:path ?value }}
}}"""


ShapePaths: TypeAlias = Path | str | Iterable[Path | str]
"""Paths of shape files and of folders with such files."""


def selected_shapes(shapes: ShapePaths, only_shapes: ShapePaths | None, home: Path | None = None) -> list[Path]:
    """Return the files of a validation: those of provml, of the user's `home` and `shapes`, or `only_shapes` alone."""
    further = find_shape_files(shapes)
    if only_shapes is not None:
        return list(dict.fromkeys([*find_shape_files(only_shapes), *further]))
    own = user_shapes(home) if home is not None else []
    return list(dict.fromkeys([*builtin_shapes(), *find_shape_files(own), *further]))


def builtin_shapes() -> list[Path]:
    """Return the shape files that come with provml."""
    return sorted(paths.shapes().rglob(f"*{SUFFIX}"))


def user_shapes(home: Path | None = None) -> list[Path]:
    """Return the user's shape files: those of PROVML_SHAPES and of the folder `shapes` of a home.

    Turtle files without shapes in these folders are skipped, since the user did not name them one by one.
    """
    places = [Path(part) for part in os.environ.get("PROVML_SHAPES", "").split(os.pathsep) if part]
    if home is not None and (home / "shapes").is_dir():
        places.append(home / "shapes")
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            files += [path for path in _shape_files(place) if _has_shapes(path)]
        else:
            files.append(place)
    return files


def find_shape_files(shapes: Path | str | Iterable[Path | str]) -> list[Path]:
    """Return the shape files of some paths of files and folders; raise if a path has no shapes.

    An rdflib graph of shapes counts as a file.
    """
    files: list[Path] = []
    builtin = paths.shapes()
    items: Iterable[Any] = [shapes] if isinstance(shapes, (str, Path)) or is_rdflib_graph(shapes) else shapes
    for path in (as_file(item) if is_rdflib_graph(item) else Path(item) for item in items):
        if path.is_dir():
            files += _files_in(path)
            continue
        if not path.exists():
            raise FileFormatError("no such file or directory", "Check the path.", file=str(path))
        if builtin not in path.parents and not _has_shapes(path):
            advice = "Give a file with a sh:NodeShape or a sh:PropertyShape."
            raise FileFormatError("the file has no SHACL shape", advice, file=str(path))
        files.append(path)
    return list(dict.fromkeys(files))


def _files_in(folder: Path) -> list[Path]:
    files = _shape_files(folder)
    if not any(map(_has_shapes, files)):  # the others may declare prefixes or classes
        raise FileFormatError("the folder has no shape file", f"Add shapes as *{SUFFIX} files.", file=str(folder))
    return files


def _shape_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def _has_shapes(path: Path) -> bool:
    graph = ShapesGraph()
    graph.load(path)
    store = ox.Store()
    store.extend(ox.Quad(*triple) for triple in triples_of(graph.statements))
    return bool(store.query(HAS_SHAPES))
