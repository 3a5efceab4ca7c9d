"""Parse RDF files from anywhere, with limits: a file can make a parser crash, run for hours or fill the memory.

Turtle, TriG, N3, N-Triples and N-Quads are parsed here, in linear time. What can crash a parser of Oxigraph or grow
beyond all bounds is parsed in a child process that has limits of time, memory and output, and is read from its N-Quads:
JSON-LD (nesting, chains of terms in a context), RDF/XML (nesting, entities) and triple terms (nesting). Small files of
these formats are parsed here too: a child process takes longer than they do. No parser fetches anything.

The child runs this file as a script, so the file imports only what the child needs.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyoxigraph as ox

    from provml.errors import FileFormatError

SMALL_BYTES = 16 << 10
"""RDF/XML and JSON-LD files up to this size are parsed here: a context of 100 KB can overflow the stack."""
SMALL_DEPTH = 100
"""Levels of nesting in JSON-LD that is parsed here, and of triple terms in any file."""
MAX_DEPTH = 500
"""Levels of nesting in JSON-LD and RDF/XML: at 3,000 JSON-LD overflows the stack, and RDF/XML takes quadratic time."""
MAX_STATEMENT_BYTES = 16 << 20
"""Bytes of a statement or a comment: Oxigraph's parsers have a buffer of this size for one literal or IRI."""
STATEMENT_TOO_LONG = f"a statement or a comment is longer than {MAX_STATEMENT_BYTES >> 20} MiB"
NESTED_FORMATS = ("application/ld+json", "application/rdf+xml")

_BRACKETS = {
    "application/ld+json": re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|([\]}])', re.DOTALL),
    "application/rdf+xml": re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|(<(?=[^!?/]))|(</|/>)", re.DOTALL),
    "application/n-quads": re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|<[^<>]*>|(<<\()|(\)>>)', re.DOTALL),
}
"""Opening and closing brackets of a format, as groups 1 and 2, outside of strings and comments."""


class ParseLimits(NamedTuple):
    """Limits of the child process."""

    cpu_seconds: int
    memory_bytes: int
    output_bytes: int


def limits_for(size: int) -> ParseLimits:
    """Return the limits for a file of a size in bytes: many times what a file that is not hostile needs."""
    return ParseLimits(10 + 2 * math.ceil(size / 1e6), (512 << 20) + 100 * size, (1 << 30) + 300 * size)


class ParsedFile:
    """The quads of an RDF file, parsed while they are iterated. Raises FileFormatError for every kind of problem.

    `options` are those of `pyoxigraph.parse`. `data` is the content, if it was read before. `prefixes` are complete
    after the last quad.
    """

    def __init__(
        self,
        path: Path,
        rdf_format: ox.RdfFormat,
        *,
        data: bytes | None = None,
        small_bytes: int = SMALL_BYTES,
        **options: Any,
    ) -> None:
        self.path = path
        self.rdf_format = rdf_format
        self.data = data
        self.small_bytes = small_bytes
        self.options = options
        self.prefixes: dict[str, str] = {}

    def __iter__(self) -> Iterator[ox.Quad]:
        import pyoxigraph as ox

        try:
            if self._needs_child():
                yield from self._parse_in_child()
                return
            source = {"path": str(self.path)} if self.data is None else {"input": self.data}
            parser: Any = ox.parse(format=self.rdf_format, **source, **self.options)
            yield from parser
            self.prefixes = dict(parser.prefixes)
        except (SyntaxError, MemoryError, OSError, ValueError) as error:
            failure = self._translate(error)
            raise failure from (None if failure is error else error)

    def _needs_child(self) -> bool:
        size = self.path.stat().st_size if self.data is None else len(self.data)
        media_type = self.rdf_format.media_type
        if size > self.small_bytes:
            return media_type in NESTED_FORMATS or _contains(self.path, self.data, b"<<")
        content = self.path.read_bytes() if self.data is None else self.data
        if media_type not in NESTED_FORMATS:
            return content.count(b"<<") > SMALL_DEPTH
        return b"<!ENTITY" in content or is_deeper_than(SMALL_DEPTH, content, media_type)

    def _parse_in_child(self) -> Iterator[ox.Quad]:
        import pyoxigraph as ox

        with tempfile.TemporaryDirectory(prefix="provml-parse-") as name:
            folder = Path(name)
            source = self.path
            if self.data is not None:
                source = folder / "input"
                source.write_bytes(self.data)
            limits = limits_for(source.stat().st_size)
            self._run_child(folder, source, limits)
            output, self.prefixes = folder / "output.nq", pickle.loads((folder / "prefixes").read_bytes())
            reason = unreadable_line(output)
            if reason:
                raise self._error(reason, "Simplify it.")
            yield from ox.parse(path=str(output), format=ox.RdfFormat.N_QUADS, lenient=True)

    def _run_child(self, folder: Path, source: Path, limits: ParseLimits) -> None:
        request = (str(source.absolute()), self.rdf_format.media_type, self.options, tuple(limits))
        (folder / "request").write_bytes(pickle.dumps(request))
        process = subprocess.run(
            [sys.executable, "-P", __file__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
            check=False,
        )
        if process.returncode == 0:
            return
        error = folder / "error"
        if error.exists():
            message, line = pickle.loads(error.read_bytes())
            raise self._error(message, f"Correct the {self.rdf_format.name}.", line)
        is_simplest = self.rdf_format.name in ("N-Triples", "N-Quads")
        advice = "Split or simplify it" + ("." if is_simplest else ", or convert it to N-Triples.")
        raise self._error(_reason(process.returncode, limits), advice)

    def _error(self, reason: str, advice: str, line: int | None = None) -> FileFormatError:
        from provml.errors import FileFormatError

        reason = re.sub(r"^Parser error at .*?: ", "", reason).rstrip(".")
        if "LoadDocumentCallback" in reason:
            reason, advice = "it has a remote context, and nothing is fetched", "Put the context into the file."
        elif "<!ENTITY values should be" in reason:
            reason, advice = "it has an external entity, and nothing is fetched", "Put the text into the file."
        return FileFormatError(reason, advice, file=str(self.path), line=line)

    def _translate(self, error: Exception) -> Exception:
        """Return a FileFormatError for an error of the parser or of the system."""
        from provml.errors import ProvmlError

        if isinstance(error, ProvmlError):
            return error
        if isinstance(error, MemoryError):
            return self._error(STATEMENT_TOO_LONG, "Shorten it.")
        if isinstance(error, OSError):
            reason = re.sub(r" \(os error.*", "", str(error.strerror or error)).lower()
            return self._error(reason, "Check the path.")
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        return self._error(str(message), f"Correct the {self.rdf_format.name}.", getattr(error, "lineno", None))


def unreadable_line(path: Path) -> str:
    """Return why a file of N-Quads cannot be parsed safely; an empty text if it can."""
    with path.open("rb") as file:
        while line := file.readline(MAX_STATEMENT_BYTES + 1):
            if len(line) > MAX_STATEMENT_BYTES:
                return STATEMENT_TOO_LONG
            if line.count(b"<<(") > SMALL_DEPTH and is_deeper_than(SMALL_DEPTH, line, "application/n-quads"):
                return f"triple terms are nested in more than {SMALL_DEPTH} levels"
    return ""


def is_deeper_than(levels: int, content: bytes | mmap.mmap, media_type: str) -> bool:
    """Return whether brackets or elements are nested in more than a number of levels."""
    depth = 0
    for match in _BRACKETS[media_type].finditer(content):
        if match[1]:
            depth += 1
            if depth > levels:
                return True
        elif match[2]:
            depth -= 1
    return False


def _reason(returncode: int, limits: ParseLimits) -> str:
    """Return why a child process ended without a message."""
    if returncode in (-getattr(signal, "SIGXCPU", 0), -getattr(signal, "SIGKILL", 0)):
        return f"parsing takes more than {limits.cpu_seconds} seconds"
    if returncode == -signal.SIGABRT:
        return f"parsing takes more than {limits.memory_bytes / 1e6:,.0f} MB of memory"
    return "the parser crashed, which happens if values, or the terms of a context, are nested too deeply"


def _contains(path: Path, data: bytes | None, text: bytes) -> bool:
    """Return whether a text is in a file; the file may be larger than the memory."""
    if data is not None:
        return text in data
    with path.open("rb") as file:
        end = b""
        while block := file.read(1 << 20):
            if text in end + block:
                return True
            end = block[1 - len(text) :]
    return False


# ---- the child process


class LimitedFile:
    """A binary file for Oxigraph's serializer that accepts a limited number of bytes."""

    def __init__(self, file: Any, max_bytes: int) -> None:
        self._file = file
        self._remaining = max_bytes
        self.max_bytes = max_bytes

    def write(self, data: bytes) -> int:
        """Write all of the data, or raise OverflowError."""
        self._remaining -= len(data)
        if self._remaining < 0:
            raise OverflowError(f"its quads take more than {self.max_bytes / 1e9:,.1f} GB as N-Quads")
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Write buffered data."""
        self._file.flush()


def _child_main(folder: Path) -> None:
    """Execute the request in a folder, and write the error if there is one."""
    request = pickle.loads((folder / "request").read_bytes())
    line = None
    try:
        _set_resource_limits(ParseLimits(*request[-1]))
        _parse_to_nquads(folder, *request)
        os._exit(0)  # terms that are nested deeply are not released one by one, which could overflow the stack
    except MemoryError as error:
        if "buffer" not in str(error):
            os.abort()
        message = STATEMENT_TOO_LONG
    except (SyntaxError, ValueError, OverflowError, OSError) as error:
        message, line = str(getattr(error, "msg", None) or error), getattr(error, "lineno", None)
    (folder / "error").write_bytes(pickle.dumps((message, line)))
    os._exit(1)


def _parse_to_nquads(folder: Path, source: str, media_type: str, options: dict[str, Any], limits: Any) -> None:
    """Parse a file and write its quads and prefixes into a folder."""
    import pyoxigraph as ox

    if media_type in NESTED_FORMATS:
        with Path(source).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if is_deeper_than(MAX_DEPTH, content, media_type):
                raise ValueError(f"it is nested in more than {MAX_DEPTH} levels")
    parser = ox.parse(path=source, format=ox.RdfFormat.from_media_type(media_type), **options)
    with (folder / "output.nq").open("wb") as output:
        limited: Any = LimitedFile(output, ParseLimits(*limits).output_bytes)
        ox.serialize(parser, limited, format=ox.RdfFormat.N_QUADS)
    (folder / "prefixes").write_bytes(pickle.dumps(dict(parser.prefixes)))


def _set_resource_limits(limits: ParseLimits) -> None:
    """Set limits that the system enforces; lower ones that are set already stay."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, hard))


if __name__ == "__main__":
    _child_main(Path(sys.argv[1]))
