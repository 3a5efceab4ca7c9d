"""A process that executes queries on a read-only copy of an index, one at a time, until it is killed.

It reads requests as lines of JSON and writes frames: a letter, a length of four bytes, and that many bytes. `H` is the
head (the kind of the result and its media type), `D` data, `E` the end, `X` an error. It ends with its parent, and it
uses no more memory than its limit. The process runs this file as a script, so the file imports only what it needs.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

PIECE_BYTES = 64 << 10
WITH_PREFIXES = ("text/turtle", "application/trig", "application/rdf+xml")
ERRORS = ("SyntaxError", "ValueError", "RuntimeError", "OSError", "MemoryError", "OverflowError")


class FrameFile:
    """A file that writes data in frames, after a head; `max_bytes` limits the data."""

    def __init__(self, head: dict[str, Any], max_bytes: int) -> None:
        self.head: dict[str, Any] | None = head
        self.remaining = max_bytes
        self.max_bytes = max_bytes
        self.pieces: list[bytes] = []
        self.size = 0

    def write(self, data: Any) -> int:
        """Collect data, and write a frame when there is enough."""
        piece = bytes(data)
        self.remaining -= len(piece)
        if self.max_bytes and self.remaining < 0:
            raise OverflowError(f"the result has more than {self.max_bytes:,} bytes")
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size >= PIECE_BYTES:
            self.flush()
        return len(piece)

    def flush(self) -> None:
        """Write what was collected. The serializer calls it too often, so that it counts only for large pieces."""
        if self.size >= PIECE_BYTES:
            self.write_frame()

    def write_frame(self) -> None:
        """Write the head, if it was not yet written, and what was collected."""
        if self.head is not None:
            write_frame(b"H", json.dumps(self.head).encode())
            self.head = None
        if self.size:
            write_frame(b"D", b"".join(self.pieces))
            self.pieces.clear()
            self.size = 0


def write_frame(letter: bytes, data: bytes = b"") -> None:
    """Write a frame to standard output."""
    view = memoryview(letter + len(data).to_bytes(4, "big") + data)
    while view:
        view = view[os.write(1, view) :]


class Worker:
    """Executes requests on the store that they name."""

    def __init__(self) -> None:
        self.path = ""
        self.store: Any = None

    def execute(self, request: dict[str, Any]) -> None:
        """Execute a request and write its frames."""
        try:
            {"query": self.query, "dump": self.dump, "update": self.update, "open": self.open}[request["kind"]](request)
        except Exception as error:
            name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS), "Exception")
            write_frame(b"X", json.dumps({"error": name, "message": str(error)}).encode())
        else:
            write_frame(b"E")

    def open(self, request: dict[str, Any]) -> None:
        """Open the store of a request, unless it is open already."""
        import pyoxigraph as ox

        path = request["store"]
        if path == self.path:
            return
        self.store, self.path = None, ""
        gc.collect()
        if path.endswith(".nq"):
            self.store = ox.Store()
            self.store.bulk_load(path=path, format=ox.RdfFormat.N_QUADS, lenient=True)
        else:
            self.store = ox.Store.read_only(path)
        self.path = path

    def query(self, request: dict[str, Any]) -> None:
        """Execute a query; the request has a media type for each kind of result."""
        import pyoxigraph as ox

        self.open(request)
        options: dict[str, Any] = {"prefixes": request["prefixes"]}
        if request.get("base"):
            options["base_iri"] = request["base"]
        if request.get("default_graphs") is not None or request.get("named_graphs") is not None:
            options["default_graph"] = list(map(ox.NamedNode, request["default_graphs"] or []))
            options["named_graphs"] = list(map(ox.NamedNode, request["named_graphs"] or []))
        if request.get("view_graphs"):
            options["default_graph"] = [ox.DefaultGraph(), *map(ox.NamedNode, request["view_graphs"])]
        result = self.store.query(request["text"], **options)
        kind = {ox.QuerySolutions: "solutions", ox.QueryBoolean: "boolean"}.get(type(result), "graph")
        media_type = request["media_types"][kind]
        file: Any = FrameFile({"kind": kind, "media_type": media_type}, request["max_bytes"])
        if not media_type:  # the client takes no format of this kind: the head alone says so
            pass
        elif kind == "graph":
            rdf_format = ox.RdfFormat.from_media_type(media_type)
            prefixes = _prefixes(rdf_format, request)
            if prefixes is None:
                result.serialize(file, format=rdf_format)
            else:
                ox.serialize(result, file, format=rdf_format, prefixes=prefixes)
        else:
            result.serialize(file, format=ox.QueryResultsFormat.from_media_type(media_type))
        file.write_frame()

    def dump(self, request: dict[str, Any]) -> None:
        """Write a graph: the default graph, or the named graph of the request."""
        import pyoxigraph as ox

        self.open(request)
        name = request["graph"]
        graph = ox.NamedNode(name) if name else ox.DefaultGraph()
        rdf_format = ox.RdfFormat.from_media_type(request["media_type"])
        file: Any = FrameFile({"kind": "graph", "media_type": request["media_type"]}, request["max_bytes"])
        self.store.dump(file, format=rdf_format, from_graph=graph, prefixes=_prefixes(rdf_format, request))
        file.write_frame()

    def update(self, request: dict[str, Any]) -> None:
        """Execute an update on a private copy, and write what it removes from loaded graphs, and adds, to two files."""
        self.open(request)
        after = self._private_copy(request["copy"])
        after.update(request["text"], base_iri=request["base"] or None, prefixes=request["prefixes"])
        write_changes(self.store, after, request)
        del after
        gc.collect()

    def _private_copy(self, folder: str) -> Any:
        """Return a copy of the open store that can be changed. Data files never change, so they are hard-linked."""
        import pyoxigraph as ox

        if self.path.endswith(".nq"):
            store = ox.Store()
            store.bulk_load(path=self.path, format=ox.RdfFormat.N_QUADS, lenient=True)
            return store
        target = Path(folder)
        target.mkdir()
        for path in Path(self.path).iterdir():
            if path.suffix == ".sst":
                os.link(path, target / path.name)
            else:
                shutil.copyfile(path, target / path.name)
        return ox.Store(folder)


def write_changes(before: Any, after: Any, request: dict[str, Any]) -> tuple[int, int]:
    """Write the quads that an update added to loaded graphs, and those that it removed; return their numbers.

    `graphs` of the request lists the named graphs that can differ, or is None for all graphs. Raises PermissionError
    if the update added to `provided` graphs, or, where `is_strict`, removed something that was not loaded.
    """
    import pyoxigraph as ox

    provided = [ox.NamedNode(name) for name in request["provided"]]
    for name in provided:
        if _differs(after, before, name) or (request["is_strict"] and _differs(before, after, name)):
            raise PermissionError(f"the update would change the graph {name}")
    old, new = (set(store.named_graphs()).difference(provided) for store in (before, after))
    names = old | new
    if request["graphs"] is not None:
        names &= {ox.NamedNode(name) for name in request["graphs"]}
    graphs = [*names, *([ox.DefaultGraph()] if request["graphs"] is None else ())]
    dropped = _write_quads(request["removed"], names & (old - new), _removed(before, after, graphs, request))
    added = (quad for name in graphs for quad in _missing(after, before, name))
    return _write_quads(request["added"], names & (new - old), added), dropped


def _missing(store: Any, other: Any, name: Any) -> Any:
    """Yield the quads of a graph that another store does not have."""
    return (quad for quad in store.quads_for_pattern(None, None, None, name) if quad not in other)


def _differs(store: Any, other: Any, name: Any) -> bool:
    return next(_missing(store, other, name), None) is not None


def _removed(before: Any, after: Any, graphs: list[Any], request: dict[str, Any]) -> Any:
    """Yield the loaded quads that an update removed."""
    import pyoxigraph as ox

    default = ox.DefaultGraph()
    loaded = ox.Store()  # it has literals as the other stores have them
    for path in request["loaded_files"] if default in graphs else ():
        loaded.bulk_extend(ox.parse(path=path, format=ox.RdfFormat.N_QUADS, lenient=True))
    for name in graphs:
        for quad in _missing(before, after, name):
            if name != default or quad in loaded:
                yield quad
            elif request["is_strict"]:
                raise PermissionError(f"the update would change what a run recorded: {quad.triple}")


def _write_quads(file_name: str, graphs: Any, quads: Any) -> int:
    """Write graphs as comments, and quads; return the number of quads."""
    import pyoxigraph as ox

    count = 0

    def counted() -> Any:
        nonlocal count
        for quad in quads:
            count += 1
            yield quad

    with Path(file_name).open("wb") as file:
        file.writelines(f"# graph {name}\n".encode() for name in graphs)
        ox.serialize(counted(), file, format=ox.RdfFormat.N_QUADS)
    return count


def _prefixes(rdf_format: Any, request: dict[str, Any]) -> dict[str, str] | None:
    return request["prefixes"] if rdf_format.media_type in WITH_PREFIXES else None


def main(memory_bytes: int) -> NoReturn:
    """Execute requests from standard input until it ends."""
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:  # in a thread of its own: the process ends with its parent, also in the middle of a query
        for line in sys.stdin.buffer:
            requests.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    _set_resource_limits(memory_bytes)
    worker = Worker()
    while True:
        worker.execute(json.loads(requests.get()))


def _set_resource_limits(memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # on Windows only the parent limits a query
        return
    if memory_bytes:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # a lower limit that is set already stays
        value = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
