"""Rows of a query, computed while they are read: for results that do not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from provml.answers import formats
from provml.answers.table import Row
from provml.errors import WrongValue

if TYPE_CHECKING:
    from provml.answers.formats import Terms

STREAM_FORMATS = ("csv", "tsv", "json", *(f"sparql-{fmt}" for fmt in formats.SPARQL_FORMATS), "ttl", "nt")
"""Formats of `RowStream.write`; ttl and nt are for the triples of CONSTRUCT and DESCRIBE."""
CHUNK_CHARS = 1 << 16
"""Characters that are collected before they are written."""


class RowStream:
    """An iterator over rows of Python values, which can be read once.

    `columns` are the names of the columns. `is_graph` is True if the rows are the triples of CONSTRUCT or DESCRIBE.
    Read and close a stream in the thread that opened it (`thread`): the engine demands it, and any other thread gets a
    RuntimeError. Closing it, also by `with`, ends the query. `note` names terms of the query that the ontology does not
    define.
    """

    note = ""

    def __init__(self, columns: list[str], rows: Iterator[Terms], *, is_graph: bool = False) -> None:
        self.columns = columns
        self.is_graph = is_graph
        self.thread = threading.get_ident()
        self._rows: Iterator[Terms] | None = rows
        from provml.rdf import value  # here, since an answer of Python values needs no RDF

        self._value = value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        value = self._value
        return tuple([None if term is None else value(term) for term in self._next_terms()])

    def _next_terms(self) -> Terms:
        self._check_thread()
        if self._rows is None:
            raise ValueError("This stream is closed. Execute the query again.")
        return next(self._rows)

    def _check_thread(self) -> None:
        """Raise an error in another thread, where the engine would abort the process."""
        if threading.get_ident() != self.thread:
            raise RuntimeError("This stream was opened in another thread. Read and close it there.")

    def __repr__(self) -> str:
        state = " closed" if self._rows is None else ""
        return f"<RowStream {', '.join(self.columns)}{state}>"

    def terms(self) -> Iterator[Terms]:
        """Iterate over the rest of the rows as RDF terms of pyoxigraph."""
        while True:  # not `yield from`, which would end the query with a loop that is left early
            try:
                terms = self._next_terms()
            except StopIteration:
                return
            yield terms

    def close(self) -> None:
        """End the query and release its rows."""
        self._check_thread()
        rows, self._rows = self._rows, None
        close: Callable[[], None] | None = getattr(rows, "close", None)
        if close is not None:
            close()

    def write(self, file: IO[bytes], fmt: str = "csv") -> int:
        """Write the rows to a binary file (also `socket.makefile("wb")`) and return their number.

        `fmt` is csv, tsv or json, one of W3C's result formats (sparql-json, sparql-xml, sparql-csv, sparql-tsv), or for
        triples also ttl or nt.
        """
        formats.check_name("RowStream", "write", fmt, STREAM_FORMATS)
        if fmt in ("ttl", "nt") and not self.is_graph:
            advice = "Use CONSTRUCT or DESCRIBE, or another format."
            raise WrongValue("RowStream", "write", fmt, "a format for rows", advice)
        counter = _Counter(self.terms() if fmt in ("ttl", "nt") or fmt.startswith("sparql-") else self)
        if fmt in ("ttl", "nt"):
            formats.write_rdf(counter, file, fmt)
        else:
            for chunk in _chunks(_text(self.columns, counter, fmt)):
                file.write(chunk)
        return counter.count


class _Counter:
    """Count rows while they are iterated."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            self.count += 1
            yield row


def _text(columns: list[str], rows: Iterable[Any], fmt: str) -> Iterator[str]:
    """Yield the rows as text, piece by piece."""
    if fmt == "json":
        yield from formats.iter_json(columns, rows)
        yield "\n"
    elif fmt in ("csv", "tsv"):
        yield from formats.iter_csv(columns, rows, "," if fmt == "csv" else "\t")
    else:
        yield from formats.iter_sparql(columns, rows, fmt.removeprefix("sparql-"))


def _chunks(pieces: Iterable[str]) -> Iterator[bytes]:
    """Join short pieces of text into larger ones, encoded as UTF-8."""
    buffer: list[str] = []
    size = 0
    for piece in pieces:
        buffer.append(piece)
        size += len(piece)
        if size >= CHUNK_CHARS:
            yield "".join(buffer).encode()
            buffer.clear()
            size = 0
    yield "".join(buffer).encode()
