"""Graphs that were loaded: which there are, and the replacement of their content. Recorded runs are never changed.

The files in `home/added` are their source. A replacement writes new files, removes the old ones, and changes the index
in the same way; after a crash in between, the index notices missing files and is rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyoxigraph as ox

from provml.store import imports
from provml.store.index import ONTOLOGY_GRAPH, Index

GraphName = ox.NamedNode | ox.BlankNode | ox.DefaultGraph


def loaded_files(home: Path) -> list[Path]:
    """List the files of loaded data."""
    return imports.ImportedFiles(home).intact()


def graph_names(index: Index) -> list[ox.NamedNode]:
    """List the named graphs that were loaded."""
    names = index.backend.graph().named_graphs()
    return [name for name in names if isinstance(name, ox.NamedNode) and name != ONTOLOGY_GRAPH]


def replace(index: Index, graphs: Collection[GraphName] | None, content: Path | None) -> bool:
    """Replace what was loaded into some graphs, or into all (None), by the N-Quads of a file, or by nothing.

    The index must be in sync, and its lock held. Return whether the index has to be rebuilt: only that can remove a
    triple of the default graph that a run may have stated as well.
    """
    targets: set[GraphName] = {*graph_names(index), ox.DefaultGraph()} if graphs is None else set(graphs)
    removed = _rewrite_files(index, targets)
    if content is not None:
        removed -= _add_file(index.home, content)
    store = index.backend.graph()
    for name in targets:
        if isinstance(name, ox.NamedNode):
            store.remove_graph(name)
    if removed and (index.checkpoint.journals or index.sealed):
        return True
    for quad in removed:
        store.remove(quad)
    index.save_checkpoint()
    return False


def _rewrite_files(index: Index, targets: set[GraphName]) -> set[ox.Quad]:
    """Remove graphs from the files of loaded data; return what was removed from the default graph."""
    removed: set[ox.Quad] = set()
    loaded = index.checkpoint.imported_files
    for path in loaded_files(index.home):
        quads = list(imports.parse_added(path))
        rest = [quad for quad in quads if quad.graph_name not in targets]
        if len(rest) == len(quads) and not targets.intersection(imports.named_empty_graphs(path)):
            continue
        removed.update(quad for quad in quads if quad.graph_name in targets and quad.graph_name == ox.DefaultGraph())
        if rest:
            data = ox.serialize(rest, format=ox.RdfFormat.N_QUADS)
            loaded.append(_store(index.home, data or b"", path.name).name)
        path.unlink(missing_ok=True)
        if path.name in loaded:
            loaded.remove(path.name)
    return removed


def _add_file(home: Path, content: Path) -> set[ox.Quad]:
    """Store a file of N-Quads, which the next sync loads; return its triples of the default graph."""
    data = content.read_bytes()
    if not data:
        return set()
    quads = ox.parse(data, format=ox.RdfFormat.N_QUADS, lenient=True)
    in_default = {quad for quad in quads if quad.graph_name == ox.DefaultGraph()}
    _store(home, data, content.name)
    return in_default


def _store(home: Path, data: bytes, source: str) -> Path:
    return imports.store_file(home, lambda part: part.write_bytes(data), source)
