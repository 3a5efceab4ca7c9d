"""SPARQL updates of loaded graphs. Their patterns see everything; what runs recorded cannot be changed.

An update is executed on a copy of the index (hard links if it is on the disk). What it changed there is then done to
the files of loaded data and to the index, or the update is refused and nothing has happened.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox

from provml.errors import ProtectedGraph, ProvmlError, QueryError
from provml.rdf.namespaces import PREFIXES
from provml.store import loaded_graphs, update_text
from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.index import Index
from provml.store.query_diagnosis import diagnose_update
from provml.store.query_worker import write_changes

REMOVED, ADDED = "removed.nq", "added.nq"
"""Files with the quads that an update removed and added."""


class GraphChange(NamedTuple):
    """How many triples an update added to loaded graphs, and removed from them."""

    added: int
    removed: int


def update_request(text: str, folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """Return what `write_changes` needs to know about an update; it writes its files into a folder."""
    graphs = update_text.written_graphs(text)
    return {
        "graphs": None if graphs is None else sorted(graphs),
        "provided": sorted(name.value for name in PROVIDED_GRAPHS),
        "is_strict": update_text.deletes_by_pattern(text),
        "loaded_files": [str(path) for path in files],
        "removed": str(folder / REMOVED),
        "added": str(folder / ADDED),
    }


def execute(index: Index, sparql: str) -> tuple[GraphChange, bool]:
    """Execute an update; the second result is that of `loaded_graphs.drop`. The index must be in sync."""
    if not isinstance(sparql, str):
        raise QueryError(f"an update is text, not {type(sparql).__name__}", "Pass SPARQL as a str.")
    text = update_text.prepare(sparql)
    folder = Path(tempfile.mkdtemp(prefix="reader-", dir=index.folder))
    try:
        before = index.backend.graph()
        after = _copy(index, folder / "store")
        try:
            after.update(text, prefixes=PREFIXES)
            files = loaded_graphs.loaded_files(index.home)
            added, removed = write_changes(before, after, update_request(text, folder, files))
        finally:
            del after
            gc.collect()
        return GraphChange(added, removed), loaded_graphs.apply(index, folder / REMOVED, folder / ADDED)
    except PermissionError as error:
        if isinstance(error, ProvmlError):
            raise
        raise ProtectedGraph(str(error)) from None
    except (SyntaxError, ValueError) as error:
        if isinstance(error, ProvmlError):
            raise
        failure = diagnose_update(sparql, str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise failure


def _copy(index: Index, folder: Path) -> ox.Store:
    """Return a copy of the store that can be changed."""
    if index.folder is not None:
        index.backend.snapshot(folder)
        return ox.Store(str(folder))
    store = ox.Store()
    store.bulk_extend(index.backend.graph())
    return store
