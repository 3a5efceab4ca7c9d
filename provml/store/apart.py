"""A query in a process of its own, which can be ended: Oxigraph itself cannot stop a query once it runs.

The process reads a copy of the index (hard links where it is on the disk), takes no more time and memory than it is
given, and writes what it found to a file, no more of it than the asking process has room for. Where the asking process
is gone, however it ended, this one ends too and takes the copy with it. This file is also what that process runs, so it
imports only what that needs.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyoxigraph as ox

FAILED = 3
"""How the process ends where the engine refused the query; what it said is on its error stream."""
TRIPLES = ".nt"
"""How the file ends that it writes, where these are triples; else it has results, as JSON."""
LONGEST = 1_000_000
"""How many seconds a query may be given: more than eleven days are no limit."""
SHARE = 4
"""What it writes may take this part of the memory: as rows of Python values, 72 MB of it were seen to take 261."""


def ask(
    store: ox.Store, folder: Path | None, sparql: str, prefixes: dict[str, str], timeout: float, memory: int
) -> Any:
    """What a store answers within so many seconds and bytes; `folder` is where its index is, if it is on the disk.

    TimeoutError, MemoryError, or ValueError with what the engine said.
    """
    place = Path(tempfile.mkdtemp(prefix="reader-", dir=folder))
    try:
        copy = _copy(store, place, on_disk=folder is not None)
        return _asked(place, copy, sparql, prefixes, timeout, memory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def is_limit(seconds: object) -> bool:
    """Whether this can be the limit of a query."""
    return isinstance(seconds, (int, float)) and 0 <= seconds <= LONGEST


def half() -> int:
    """Half of the memory of this machine, in bytes; 0, which is no bound, where that is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return 0


def _copy(store: ox.Store, place: Path, *, on_disk: bool) -> Path:
    """A copy of what a store holds now."""
    import pyoxigraph as ox

    if on_disk:
        store.backup(str(place / "store"))
        return place / "store"
    store.dump(str(place / "all.nq"), format=ox.RdfFormat.N_QUADS)
    return place / "all.nq"


def _asked(place: Path, copy: Path, sparql: str, prefixes: dict[str, str], timeout: float, memory: int) -> Any:
    import pyoxigraph as ox

    found = place / "found"
    (place / "asked").write_bytes(pickle.dumps((str(copy), str(found), sparql, prefixes, timeout, memory)))
    path = os.pathsep.join(part for part in sys.path if part)
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    sign_of_life, process.stdin = process.stdin, None  # it stays open until this process ends, or is done here
    try:
        _, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:  # also where the user lost patience
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):
            process.communicate()
        if sign_of_life is not None:
            sign_of_life.close()
    if process.returncode in (-signal.SIGABRT, -signal.SIGSEGV) or b"MemoryError" in said:
        raise MemoryError
    if process.returncode:  # the last line is what a process that fails otherwise has to say
        text = said.decode(errors="replace")
        raise ValueError(text if process.returncode == FAILED else text.strip().rpartition("\n")[2])
    triples = found.with_suffix(TRIPLES)  # either is open from here on, and read row by row when its folder is gone
    if triples.exists():
        quads = ox.parse(path=str(triples), format=ox.RdfFormat.N_TRIPLES)
        return (quad.triple for quad in quads)
    return ox.parse_query_results(path=str(found), format=ox.QueryResultsFormat.JSON)


def _serve(place: str) -> None:
    """What the process does."""
    threading.Thread(target=_watch, args=(place,), daemon=True).start()  # the engine lets other threads run
    copy, found, sparql, prefixes, timeout, memory = pickle.loads((Path(place) / "asked").read_bytes())
    _bound(timeout, memory)
    import pyoxigraph as ox

    most = memory // SHARE
    try:
        if copy.endswith(".nq"):
            store = ox.Store()
            store.bulk_load(path=copy, format=ox.RdfFormat.N_QUADS, lenient=True)
        else:
            store = ox.Store(copy)
        answer = store.query(sparql, prefixes=prefixes)
        if isinstance(answer, ox.QueryTriples):
            with Bounded(str(Path(found).with_suffix(TRIPLES)), most) as out:
                answer.serialize(out, format=ox.RdfFormat.N_TRIPLES)
        else:
            with Bounded(found, most) as out:
                answer.serialize(out, format=ox.QueryResultsFormat.JSON)
    except (SyntaxError, RuntimeError, OSError, ValueError) as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        os._exit(FAILED)
    os._exit(0)  # nothing is kept, so nothing has to be closed


def _watch(place: str) -> None:
    """End this process, and take its folder away, when the one that asks is gone: nothing else ends its input."""
    sys.stdin.buffer.read()
    shutil.rmtree(place, ignore_errors=True)
    os._exit(FAILED)


class Bounded(io.FileIO):
    """A file that takes no more than so many bytes, if any number is said."""

    def __init__(self, path: str, most: int) -> None:
        super().__init__(path, "w")
        self.most = most

    def write(self, data: Any) -> int:
        """Write all of it, or nothing."""
        if self.most and self.tell() + len(data) > self.most:
            raise MemoryError
        return super().write(data)


def _bound(timeout: float, memory: int) -> None:
    """Bounds that the system keeps, also where the asking process is gone."""
    try:
        import resource
    except ImportError:  # Windows has none: there only the time is bounded, by the asking process
        return
    seconds = math.ceil(2 * timeout) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _serve(sys.argv[1])
