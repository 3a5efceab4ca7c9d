"""Graphs that were loaded: which there are, and the replacement of their content. Recorded runs are never changed.

The files in `home/added` are their source. A replacement writes new files, removes the old ones, and changes the index
in the same way; after a crash in between, the index notices missing files and is rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyoxigraph as ox

from provml.errors import GraphNotFound
from provml.store import imports
from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.imports import Origin, RdfSource
from provml.store.index import Index
from provml.store.removal import recorded_quads

GraphName = ox.NamedNode | ox.BlankNode | ox.DefaultGraph
DEFAULT = "default"
"""How people name the loaded part of the default graph."""
UPDATE = "update"
"""The name of what SPARQL updates and the Graph Store Protocol wrote."""


@dataclass(frozen=True)
class LoadedGraph:
    """What one source has in one graph: the IRI of the graph (None for the default graph), the source and its size.

    The source is the path of a file, or a word: `things`, `update`, `rdflib`. Blank in a home of an earlier version.
    """

    graph: str | None
    source: str
    triples: int
    loaded: datetime


def loaded_files(home: Path) -> list[Path]:
    """List the files of loaded data."""
    return imports.ImportedFiles(home).intact()


def graph_names(index: Index) -> list[ox.NamedNode]:
    """List the named graphs that were loaded."""
    names = index.backend.graph().named_graphs()
    return [name for name in names if isinstance(name, ox.NamedNode) and name not in PROVIDED_GRAPHS]


def describe(home: Path) -> list[LoadedGraph]:
    """List the loaded graphs with their sources: the default graph first, then by IRI."""
    sizes: dict[tuple[str, str], int] = {}
    times: dict[tuple[str, str], datetime] = {}
    for path in loaded_files(home):
        origin = imports.origin_of(path)
        counts = {name.value: 0 for name in imports.named_empty_graphs(path)}
        for quad in imports.parse_added(path):
            graph = "" if isinstance(quad.graph_name, ox.DefaultGraph) else quad.graph_name.value
            counts[graph] = counts.get(graph, 0) + 1
        for graph, count in (counts or {origin.graph: 0}).items():
            key = graph, origin.label
            sizes[key] = sizes.get(key, 0) + count
            time = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            times[key] = max(time, times.get(key, time))
    return [
        LoadedGraph(graph or None, source, sizes[graph, source], times[graph, source])
        for graph, source in sorted(sizes)
    ]


# ---- loading


def load(index: Index, source: RdfSource, graph: str | None) -> tuple[int, bool]:
    """Load a source into a graph, in place of what it had there; return the number of quads, and see `drop`.

    The index must be in sync, and its lock held. A source with the same content is not loaded again.
    """
    target = graph or ""
    origins = {path: imports.origin_of(path) for path in loaded_files(index.home)}
    for path, origin in origins.items():
        if origin.graph == target and origin.sha256 == source.sha256:
            return sum(1 for _ in imports.parse_added(path)), False
    _, count = imports.store_source(index.home, source, graph)
    old = [path for path, origin in origins.items() if origin.name == source.name and origin.graph == target]
    return count, drop(index, old)


def replace(index: Index, graphs: Collection[GraphName] | None, content: Path | None) -> bool:
    """Replace what was loaded into some graphs, or into all (None), by the N-Quads of a file, or by nothing.

    The index must be in sync, and its lock held. The result is that of `drop`.
    """
    targets: set[GraphName] = {*graph_names(index), ox.DefaultGraph()} if graphs is None else set(graphs)
    dropped = _split(index, lambda quad: quad.graph_name in targets, targets)
    if content is not None and content.stat().st_size:
        _store(index.home, content.read_bytes(), Origin(UPDATE), content.name)
    return drop(index, dropped)


def remove(index: Index, names: Iterable[str]) -> tuple[list[LoadedGraph], bool]:
    """Remove loaded graphs by their IRIs, by the paths of their files, or by `default`; return what was removed.

    The index must be in sync, and its lock held. The second result is that of `drop`.
    """
    graphs = describe(index.home)
    wanted = [_find(graphs, name) for name in names]
    keys = {((item.graph or ""), item.source) for items in wanted for item in items}
    dropped = []
    for source in {source for _, source in keys}:
        targets = {graph for graph, name in keys if name == source}
        names_of: set[GraphName] = {ox.NamedNode(graph) if graph else ox.DefaultGraph() for graph in targets}

        def is_removed(quad: ox.Quad, names_of: set[GraphName] = names_of) -> bool:
            return quad.graph_name in names_of

        dropped += _split(index, is_removed, names_of, source)
    return [item for item in graphs if (item.graph or "", item.source) in keys], drop(index, dropped)


def _find(graphs: list[LoadedGraph], name: str) -> list[LoadedGraph]:
    """Return the graphs that a name stands for: an IRI, a path, the name of a file, or `default`."""
    path = str(Path(name).resolve())
    choices = (
        [item for item in graphs if item.graph == name or (name == DEFAULT and item.graph is None)],
        [item for item in graphs if item.source in (name, path)],
        [item for item in graphs if Path(item.source).name == name],
    )
    matches = next(filter(None, choices), [])
    if not matches:
        listed = dict.fromkeys(item.graph or item.source or DEFAULT for item in graphs)
        raise GraphNotFound(name, tuple(listed))
    return matches


def apply(index: Index, removed: Path, added: Path) -> bool:
    """Remove the quads of one file of N-Quads from the loaded graphs, and add those of another.

    The index must be in sync, and its lock held. The result is that of `drop`.
    """
    gone = ox.Store()  # it compares literals as the index does
    gone.bulk_extend(imports.parse_added(removed))
    graphs = set(imports.named_empty_graphs(removed))
    dropped = _split(index, lambda quad: quad in gone, graphs) if len(gone) or graphs else []
    if added.stat().st_size:
        _store(index.home, added.read_bytes(), Origin(UPDATE), UPDATE)
    return drop(index, dropped)


# ---- files


def _split(
    index: Index, is_removed: imports.QuadTest, graphs: Collection[GraphName], source: str | None = None
) -> list[Path]:
    """Store the rest of each file that has quads, or empty graphs, to remove; return the files to drop."""
    dropped = []
    for path in loaded_files(index.home):
        origin = imports.origin_of(path)
        if source is not None and origin.label != source:
            continue
        empty = imports.named_empty_graphs(path)
        quads = list(imports.parse_added(path))
        rest = [quad for quad in quads if not is_removed(quad)]
        if len(rest) == len(quads) and not set(graphs).intersection(empty):
            continue
        remaining_graphs = [name for name in empty if name not in graphs]
        if rest or remaining_graphs:
            data = b"".join(f"# graph {name}\n".encode() for name in remaining_graphs)
            data += ox.serialize(rest, format=ox.RdfFormat.N_QUADS) or b""
            changed = Origin(origin.name, "", origin.graph)  # it is no longer what the source has
            index.checkpoint.imported_files.append(_store(index.home, data, changed, path.name).name)
        dropped.append(path)
    return dropped


def drop(index: Index, files: Collection[Path]) -> bool:
    """Remove files of loaded data, and from the index what only they state.

    Return whether the index has to be rebuilt: sometimes only that shows which triples of the default graph runs state.
    """
    if not files:
        return False
    gone = ox.Store()
    for path in files:
        gone.bulk_extend(imports.parse_added(path))
    graphs = {name for path in files for name in imports.named_empty_graphs(path)}
    graphs.update(name for name in gone.named_graphs() if isinstance(name, ox.NamedNode))
    for path in loaded_files(index.home):
        if path not in files:
            graphs.difference_update(imports.named_empty_graphs(path))
            for quad in imports.parse_added(path):
                gone.remove(quad)
    recorded = recorded_quads(index, list(gone.quads_for_pattern(None, None, None, ox.DefaultGraph())))
    for path in files:
        path.unlink(missing_ok=True)
    names = {path.name for path in files}
    index.checkpoint.imported_files[:] = [name for name in index.checkpoint.imported_files if name not in names]
    if recorded is None:
        return True
    store = index.backend.graph()
    for quad in gone:
        if quad not in recorded:
            store.remove(quad)
    for name in graphs:
        if next(store.quads_for_pattern(None, None, None, name), None) is None:
            store.remove_graph(name)
    index.save_checkpoint()
    return False


def _store(home: Path, data: bytes, origin: Origin, source: str) -> Path:
    graphs = b"".join(line + b"\n" for line in data.split(b"\n", 100)[:-1] if line.startswith(imports.GRAPH_COMMENT))
    content = graphs + origin.comment() + data[len(graphs) :]
    return imports.store_file(home, lambda part: part.write_bytes(content), source)
