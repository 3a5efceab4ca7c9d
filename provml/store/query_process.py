"""Execute a query in a process of its own, which can be killed: Oxigraph cannot stop a running query.

The child reads a copy of the index (hard links if it is on the disk), uses no more time and memory than its limits, and
writes the result to a file of limited size. If the parent ends, however it ends, the child ends too and removes the
copy. The child runs this file as a script, so the file imports only what the child needs.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyoxigraph as ox

ENGINE_ERROR = 3
"""Exit code of the child if the engine refused the query; the reason is on its error stream."""
DAMAGED = 4
"""Exit code of the child if the files of the index are damaged."""
DAMAGE = ("Corruption", "IO error: No such file")
"""How messages of the engine about damaged files begin. Files that are missing it may notice when it reads them."""
FAILED = 1
"""Exit code of the child after any other error; its traceback is on its error stream."""
TRIPLES_SUFFIX = ".nt"
"""Suffix of the result file if the result is triples; other results are written as JSON."""
MAX_TIMEOUT = 1_000_000
"""Longest time limit, in seconds: more than eleven days are no limit."""
RESULT_FRACTION = 4
"""The result file may have 1/4 of the memory limit: 72 MB took 261 MB as rows of Python values."""


class QueryLimits(NamedTuple):
    """Limits of a query; 0 bytes mean no limit."""

    timeout_seconds: float
    memory_bytes: int = 0
    result_bytes: int = 0


class QueryRequest(NamedTuple):
    """A query, its prefixes, and the named graphs that are part of its default graph."""

    sparql: str
    prefixes: dict[str, str]
    graphs: list[str]


def dataset_options(graphs: list[str]) -> dict[str, Any]:
    """Return the options of a query whose default graph has some named graphs as well."""
    import pyoxigraph as ox

    return {"default_graph": [ox.DefaultGraph(), *map(ox.NamedNode, graphs)]} if graphs else {}


def run_query(
    store: ox.Store, folder: Path | None, request: QueryRequest, limits: QueryLimits
) -> ox.QuerySolutions | ox.QueryBoolean | Any:
    """Execute a query on a copy of a store. `folder` is the index folder if the store is on the disk.

    Raises TimeoutError or MemoryError at a limit, RuntimeError for damaged files, and ValueError with the message of
    the engine.
    """
    import tempfile  # not at the top, as in other functions here: most commands run their queries themselves

    temporary = Path(tempfile.mkdtemp(prefix="reader-", dir=folder))
    try:
        copy = _copy(store, temporary, on_disk=folder is not None)
        return _run_in_child(temporary, copy, request, limits)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_valid_timeout(seconds: object) -> bool:
    """True if a value can be a time limit in seconds."""
    return isinstance(seconds, (int, float)) and 0 <= seconds <= MAX_TIMEOUT


def half_of_memory() -> int:
    """Return half of this machine's memory in bytes; 0 (no limit) if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return 0


def _copy(store: ox.Store, temporary: Path, *, on_disk: bool) -> Path:
    """Copy the present contents of a store into a folder."""
    import pyoxigraph as ox

    if on_disk:
        store.backup(str(temporary / "store"))
        return temporary / "store"
    store.dump(str(temporary / "all.nq"), format=ox.RdfFormat.N_QUADS)
    return temporary / "all.nq"


def _run_in_child(temporary: Path, copy: Path, request: QueryRequest, limits: QueryLimits) -> Any:
    import pickle
    import subprocess

    import pyoxigraph as ox

    result = temporary / "result"
    (temporary / "request").write_bytes(pickle.dumps((str(copy), str(result), tuple(request), tuple(limits))))
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(temporary)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    )
    lifeline, process.stdin = process.stdin, None  # stays open until this process ends or the query is done
    try:
        _, stderr = process.communicate(timeout=limits.timeout_seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:  # also after a KeyboardInterrupt
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):
            process.communicate()
        if lifeline is not None:
            lifeline.close()
    if process.returncode in (-signal.SIGABRT, -signal.SIGSEGV) or b"MemoryError" in stderr:
        raise MemoryError
    if process.returncode == DAMAGED:
        raise RuntimeError(stderr.decode(errors="replace"))
    if process.returncode:  # the last line of a traceback is its message
        text = stderr.decode(errors="replace")
        raise ValueError(text if process.returncode == ENGINE_ERROR else text.strip().rpartition("\n")[2])
    triples = result.with_suffix(TRIPLES_SUFFIX)  # the open file outlives its folder, and is read row by row
    if triples.exists():
        return (quad.triple for quad in ox.parse(path=str(triples), format=ox.RdfFormat.N_TRIPLES))
    return ox.parse_query_results(path=str(result), format=ox.QueryResultsFormat.JSON)


def _child_main(folder: str) -> None:
    """Execute the request in a folder and write its result there."""
    threading.Thread(target=_exit_with_parent, args=(folder,), daemon=True).start()  # the engine releases the GIL
    try:
        _execute(folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(FAILED)  # the interpreter itself would wait a second for the thread, and abort
    os._exit(0)  # nothing has to be saved, so nothing has to be closed


def _execute(folder: str) -> None:
    import pickle

    copy, result, request, values = pickle.loads((Path(folder) / "request").read_bytes())
    sparql, prefixes, graphs = request
    limits = QueryLimits(*values)
    _set_resource_limits(limits)
    import pyoxigraph as ox

    try:
        if copy.endswith(".nq"):
            store = ox.Store()
            store.bulk_load(path=copy, format=ox.RdfFormat.N_QUADS, lenient=True)
        else:
            store = ox.Store(copy)
        answer = store.query(sparql, prefixes=prefixes, **dataset_options(graphs))
        if isinstance(answer, ox.QueryTriples):
            with LimitedFile(str(Path(result).with_suffix(TRIPLES_SUFFIX)), limits.result_bytes) as out:
                answer.serialize(out, format=ox.RdfFormat.N_TRIPLES)
        else:
            with LimitedFile(result, limits.result_bytes) as out:
                answer.serialize(out, format=ox.QueryResultsFormat.JSON)
    except (SyntaxError, RuntimeError, OSError, ValueError) as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        is_damaged = isinstance(error, (RuntimeError, OSError)) and str(error).startswith(DAMAGE)
        os._exit(DAMAGED if is_damaged else ENGINE_ERROR)


def _exit_with_parent(folder: str) -> None:
    """Remove the folder and exit when standard input ends, which happens when the parent ends."""
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(ENGINE_ERROR)


class LimitedFile(io.FileIO):
    """A file of at most `max_bytes`; 0 means no limit."""

    def __init__(self, path: str, max_bytes: int) -> None:
        super().__init__(path, "w")
        self.max_bytes = max_bytes
        self._size = 0

    def write(self, data: Any) -> int:
        """Write all of the data, or raise MemoryError."""
        if self.max_bytes and self._size + len(data) > self.max_bytes:
            raise MemoryError
        count = super().write(data)
        self._size += count
        return count


def _set_resource_limits(limits: QueryLimits) -> None:
    """Set limits that the system enforces, also after the parent has ended; lower ones that are set already stay."""
    try:
        import resource
    except ImportError:  # on Windows only the parent limits the time
        return
    values = {resource.RLIMIT_CPU: math.ceil(2 * limits.timeout_seconds) + 5, resource.RLIMIT_CORE: 0}
    if limits.memory_bytes:
        values[resource.RLIMIT_AS] = limits.memory_bytes
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lower, lower))


if __name__ == "__main__":
    _child_main(sys.argv[1])
