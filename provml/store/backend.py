"""The engine below a store: a small protocol, and its implementation by the embedded Oxigraph."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pyoxigraph as ox

from provml.errors import ForkedStore, IndexDamaged
from provml.rdf.namespaces import PREFIXES
from provml.store import dialects, fork, query_process, query_view
from provml.store.compaction import Compaction, has_space
from provml.store.dialects import Dialect
from provml.store.query_process import QueryLimits
from provml.store.query_view import View

QueryResult = ox.QuerySolutions | ox.QueryBoolean | Iterable[ox.Triple]


class Readable(Protocol):
    """A binary file, as far as a loader needs it."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; empty at the end."""


class Backend(Protocol):
    """A SPARQL engine that holds the graph of a home."""

    @property
    def dialect(self) -> Dialect:
        """What the engine can do, and how questions are rewritten for it."""

    def query(self, sparql: str, limits: QueryLimits | None = None, view: View = "") -> QueryResult:
        """Execute a query. Rows are computed while they are read, unless `limits` runs it in a process of its own.

        `view` adds the ontologies, or everything that can be inferred, to the default graph.
        """

    def load(
        self,
        data: bytes | Readable,
        fmt: ox.RdfFormat = ox.RdfFormat.N_TRIPLES,
        *,
        graph: ox.NamedNode | None = None,
        bulk: bool = False,
    ) -> None:
        """Load RDF. `bulk` is faster for large data, and not atomic."""

    def add(self, quads: Iterable[ox.Quad], *, bulk: bool = False) -> None:
        """Add quads. Blank nodes keep their names, unlike with `load`."""

    def update(self, sparql: str) -> None:
        """Execute a SPARQL update."""

    def snapshot(self, folder: Path) -> None:
        """Write a copy of the data into a new folder."""

    def graph(self) -> ox.Store:
        """Return all quads as an Oxigraph store."""

    def close(self) -> None:
        """Release the engine. Further calls raise ValueError."""


class OxigraphBackend:
    """Embedded Oxigraph, in `folder / "store"`, or in memory if there is no folder."""

    dialect = dialects.EMBEDDED

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._pid = os.getpid()
        if folder is not None:
            fork.use_disk()
            _create_for_group(folder / "store")
        self._store: ox.Store | None = ox.Store() if folder is None else ox.Store(str(folder / "store"))
        self._compaction: Compaction | None = None
        if folder is not None:
            remove_old_logs(folder / "store")
        fork.watch(self)

    @property
    def is_open(self) -> bool:
        """True in the process that opened the store, until it is closed."""
        return self._store is not None and self._pid == os.getpid()

    def graph(self) -> ox.Store:
        """Return the Oxigraph store itself."""
        if self._pid != os.getpid():
            raise ForkedStore()
        if self._store is None:
            raise ValueError("This store is closed. Open a new one with provml.open_store(home).")
        return self._store

    def query(self, sparql: str, limits: QueryLimits | None = None, view: View = "") -> QueryResult:
        """Execute a query here, or with limits in a process of its own: Oxigraph cannot stop a running query.

        Raises TimeoutError and MemoryError at a limit; SyntaxError, ValueError, RuntimeError and OSError for what the
        engine reports.
        """
        graphs = self.view_graphs(view) if view else []
        if limits is not None:
            request = query_process.QueryRequest(sparql, PREFIXES, graphs)
            return query_process.run_query(self.graph(), self.folder, request, limits)
        return self.graph().query(sparql, prefixes=PREFIXES, **query_process.dataset_options(graphs))

    def view_graphs(self, view: View) -> list[str]:
        """Return the named graphs that a view adds to the default graph."""
        return query_view.default_graphs(self.graph(), view)

    def load(
        self,
        data: bytes | Readable,
        fmt: ox.RdfFormat = ox.RdfFormat.N_TRIPLES,
        *,
        graph: ox.NamedNode | None = None,
        bulk: bool = False,
    ) -> None:
        """Load RDF into the default graph, or into `graph`; without `bulk` in one transaction."""
        load = self.graph().bulk_load if bulk else self.graph().load
        load(data, format=fmt, to_graph=graph, lenient=fmt == ox.RdfFormat.N_TRIPLES)  # type: ignore[arg-type]

    def add(self, quads: Iterable[ox.Quad], *, bulk: bool = False) -> None:
        """Add quads; without `bulk` in one transaction."""
        if bulk:
            self.graph().bulk_extend(quads)
        else:
            self.graph().extend(quads)

    def update(self, sparql: str) -> None:
        """Execute a SPARQL update."""
        self.graph().update(sparql)

    def snapshot(self, folder: Path) -> None:
        """Write a copy into a new folder; on the same disk by hard links, which takes no space."""
        self.graph().backup(str(folder))

    def flush(self) -> None:
        """Write everything to the disk."""
        self.graph().flush()

    def start_compaction(self) -> None:
        """Merge the files on the disk in a thread: queries are two to five times faster after large loads.

        Raises OSError if the disk has no space for it.
        """
        if self.folder is not None and not has_space(self.folder / "store", self.size_bytes()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._compaction is None:
            self._compaction = Compaction(self.graph(), None if self.folder is None else self.folder / "store")

    @property
    def is_compacting(self) -> bool:
        """True while the files on the disk are being merged."""
        return self._compaction is not None and self._compaction.is_running

    def end_compaction(self) -> bool:
        """Wait until the files are merged; return False if no compaction was started. Raise what the engine raised."""
        compaction = self._compaction
        if compaction is None:
            return False
        try:
            compaction.wait()
        finally:
            if not compaction.is_running:  # else the wait was interrupted
                self._compaction = None
        return True

    def size_bytes(self) -> int:
        """Return the size of the data files on the disk; files may be merged meanwhile."""
        size = 0
        for path in (self.folder / "store").glob("*.sst") if self.folder else ():
            with contextlib.suppress(OSError):
                size += path.stat().st_size
        return size

    def close(self) -> None:
        """Release the files. Oxigraph does so when the last reference is gone, so a compaction ends first.

        Rows of a query may be in a reference cycle. Garbage is collected only then: in a process that has imported a
        framework, that takes nine tenths of the time to open and close a store.
        """
        if self.is_open:
            with contextlib.suppress(Exception):  # whoever opens the files next finds the damage
                self.end_compaction()
            self._store = None
            if self.folder is not None and has_open_files(self.folder / "store"):
                gc.collect()


def has_open_files(folder: Path) -> bool:
    """Return whether this process has a file of a folder open; True where the system does not tell."""
    target = folder.resolve()
    try:
        descriptors = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return True
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # closed meanwhile
            if target in descriptor.readlink().parents:
                return True
    return False


def old_logs(store: Path) -> Iterator[Path]:
    """List the logs of earlier sessions: RocksDB starts one each time it is opened, and nobody reads them."""
    return store.glob("LOG.old.*")


def _create_for_group(store: Path) -> None:
    """Create the folder and the lock of an engine with the permissions of the umask; the engine gives none to groups.

    Whoever may write to the folder and the lock can open the data files, which never change.
    """
    store.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(store / "LOCK", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


def remove_old_logs(store: Path) -> None:
    """Remove the logs of earlier sessions, as far as permissions allow."""
    for path in old_logs(store):
        with contextlib.suppress(OSError):
            path.unlink()


def is_corrupt(error: BaseException) -> bool:
    """True if an error when a store is opened means that its files are not a complete store."""
    message = str(error).lower()
    return not isinstance(error, OSError) or "no such file" in message or "not a directory" in message


def is_damaged(error: BaseException) -> bool:
    """True if an error of an open store means that its files are damaged: a checksum does not match, one is missing."""
    is_of_engine = isinstance(error, (RuntimeError, OSError)) and str(error).startswith(query_process.DAMAGE)
    return isinstance(error, IndexDamaged) or is_of_engine


def damage_reason(error: BaseException) -> str:
    """Return the engine's words for the damage, without the paths and numbers that follow them."""
    if isinstance(error, IndexDamaged):
        return error.reason
    message = " ".join(str(error).split()).removeprefix("Corruption: ").removeprefix("IO error: ")
    return re.split(r": |:$| in /|  ?The file", message)[0][:100] or "unreadable"


def is_lock_error(error: BaseException) -> bool:
    """True if an error of Oxigraph means that the store is already open."""
    message = str(error).lower()
    return "lock file" in message or "lock hold by" in message
