"""RDF files that were added by hand: stored in the home as N-Quads, and loaded into the index from there.

The first lines of a stored file are comments: the named graphs that it has, and where it comes from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import msgspec
import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.model.values import IRI
from provml.store.backend import Backend
from provml.store.checkpoint import Problem

if TYPE_CHECKING:
    from provml.rdf import rdflib_bridge

QuadTest = Callable[[ox.Quad], bool]
GRAPH_COMMENT = b"# graph "
ORIGIN_COMMENT = b"# origin "
TRANSACTION_BYTES = 2 << 20
"""A file with fewer bytes is loaded in one transaction."""


def store_file(home: Path, write: Callable[[Path], object], source: str) -> Path:
    """Store new N-Quads of a source in the home atomically, or leave the home as it was; return their file.

    The file is the only copy, so it is on the disk when this returns.
    """
    from provml.rdf.parse_file import unreadable_line  # not at the top, as all parsers here: few commands need them

    folder = home / "added"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{uuid.uuid4().hex[:6]}.nq"
    part = path.with_suffix(".part")
    try:
        write(part)
        reason = unreadable_line(part)
        if reason:
            raise FileFormatError(reason, "Nothing was added. Shorten or simplify it.", file=source)
        _fsync(part)
        part.replace(path)
        _fsync(folder)
    finally:
        part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty
    return path


def _fsync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:  # some systems cannot open a folder
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


class Origin(msgspec.Struct, frozen=True):
    """Where the content of a stored file comes from: its name, its SHA-256, and the graph it was loaded into.

    The name of a file is its absolute path as an IRI; other content has a word such as `things`. An empty graph is the
    default graph.
    """

    name: str = ""
    sha256: str = ""
    graph: str = ""

    @property
    def label(self) -> str:
        """The name as people write it: the path of a file."""
        return unquote(self.name.removeprefix("file://")) if self.name.startswith("file:///") else self.name

    def comment(self) -> bytes:
        """Return the comments at the start of a stored file."""
        graph = GRAPH_COMMENT + f"<{self.graph}>\n".encode() if self.graph else b""
        return graph + ORIGIN_COMMENT + msgspec.json.encode(self) + b"\n"


@dataclass(frozen=True)
class RdfSource:
    """RDF that can be loaded: a name, the SHA-256 and the size of the content in bytes, and its quads."""

    name: str
    label: str
    sha256: str
    size: int
    quads: Callable[[], Iterable[ox.Quad]]


def file_source(file: Path) -> RdfSource:
    """Return an RDF file or a PROV document as a source."""
    from provml.rdf.graph_files import check_extension, read_quads

    check_extension(file)
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        size = file.stat().st_size
    except OSError as error:
        raise FileFormatError((error.strerror or str(error)).lower(), "Check the path.", file=str(file)) from error
    quads = partial(read_quads, file, rename_blank_nodes=True)
    return RdfSource(file.resolve().as_uri(), str(file), digest, size, quads)


def source_of(source: str | os.PathLike[str] | rdflib_bridge.Graph) -> RdfSource:
    """Return a file, or an rdflib graph, as a source."""
    from provml.rdf import rdflib_bridge

    if rdflib_bridge.is_rdflib_graph(source):
        return rdflib_source(source)
    return file_source(Path(cast(str, source)))


def rdflib_source(graph: rdflib_bridge.Graph) -> RdfSource:
    """Return an rdflib graph as a source; its name is its identifier, or without one a digest of its content."""
    from provml.rdf import rdflib_bridge

    quads = list(rdflib_bridge.from_rdflib(graph))
    lines = sorted(f"{quad}\n" for quad in quads)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    name = str(graph.identifier)
    is_named = ":" in name and not name.startswith("urn:x-rdflib:")
    return RdfSource(
        name if is_named else f"rdflib-{digest[:12]}", "an rdflib graph", digest, sum(map(len, lines)), lambda: quads
    )


def store_source(home: Path, source: RdfSource, graph: str | None) -> tuple[Path, int]:
    """Store the quads of a source; return their file and their number."""
    from provml.rdf.parse_file import LimitedFile, limits_for

    target = ox.NamedNode(IRI(graph)) if graph else ox.DefaultGraph()
    count = 0

    def quads() -> Iterator[ox.Quad]:
        nonlocal count
        for quad in source.quads():
            count += 1
            graph_name = target if isinstance(quad.graph_name, ox.DefaultGraph) else quad.graph_name
            yield ox.Quad(quad.subject, quad.predicate, quad.object, graph_name)

    def write(part: Path) -> None:
        with part.open("wb") as out:
            out.write(Origin(source.name, source.sha256, graph or "").comment())
            limited: Any = LimitedFile(out, limits_for(source.size).output_bytes)
            ox.serialize(quads(), limited, format=ox.RdfFormat.N_QUADS)

    try:
        path = store_file(home, write, source.label)
    except OverflowError as error:
        raise FileFormatError(str(error), "Nothing was added. Split it.", file=source.label) from error
    return path, count


class ImportedFiles:
    """The files of a home that were added by hand, and which of them cannot be loaded."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "added"
        self._damaged: dict[str, tuple[int, Problem]] = {}

    @property
    def problems(self) -> list[Problem]:
        """The files that could not be loaded."""
        return [problem for _, problem in self._damaged.values()]

    def load_new(self, backend: Backend, loaded: list[str]) -> bool:
        """Load the files that are not in `loaded` and append their names; return whether there were any.

        A damaged file is skipped as a whole, until its size changes.
        """
        count = len(loaded)
        for name in sorted({path.name for path in self.folder.glob("*.nq")} - set(loaded)):
            path = self.folder / name
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                size = path.stat().st_size
                if name in self._damaged and self._damaged[name][0] == size:
                    continue
                problem = self.check(path)
                if problem is not None:
                    self._damaged[name] = (size, problem)
                    continue
                backend.add(parse_added(path), bulk=size >= TRANSACTION_BYTES)
                for graph in named_empty_graphs(path):
                    backend.graph().add_graph(graph)
                self._damaged.pop(name, None)
                loaded.append(name)
        return len(loaded) > count

    def intact(self) -> list[Path]:
        """List the files that can be loaded."""
        return [path for path in sorted(self.folder.glob("*.nq")) if self.check(path) is None]

    def check(self, path: Path) -> Problem | None:
        """Parse a file and return its first error, if any."""
        from provml.rdf.parse_file import unreadable_line

        file = f"added/{path.name}"
        try:
            reason = unreadable_line(path)
            if reason:
                return Problem(file, 0, reason)
            for _ in parse_added(path):
                pass
        except FileNotFoundError:
            raise
        except SyntaxError as error:
            return Problem(file, error.lineno or 0, str(error.msg)[:300])
        except (OSError, UnicodeDecodeError) as error:
            return Problem(file, 0, str(getattr(error, "strerror", None) or error).lower()[:300])
        return None


def named_empty_graphs(path: Path) -> list[ox.NamedNode]:
    """Return the graphs that the first lines of a file name in comments: N-Quads cannot hold an empty graph."""
    graphs = []
    with path.open("rb") as file:
        for line in file:
            if not line.startswith(GRAPH_COMMENT):
                break
            graphs.append(ox.NamedNode(line.removeprefix(GRAPH_COMMENT).decode().strip()[1:-1]))
    return graphs


def origin_of(path: Path) -> Origin:
    """Return where a stored file comes from; files of earlier versions do not say."""
    with path.open("rb") as file:
        for line in file:
            if line.startswith(ORIGIN_COMMENT):
                with contextlib.suppress(msgspec.MsgspecError):
                    return msgspec.json.decode(line.removeprefix(ORIGIN_COMMENT), type=Origin)
            if not line.startswith(b"# "):
                break
    return Origin()


def parse_added(path: Path) -> Iterator[ox.Quad]:
    """Parse a stored file. Blank nodes keep their names, so that loading it twice changes nothing."""
    return iter(ox.parse(path=str(path), format=ox.RdfFormat.N_QUADS, lenient=True))
