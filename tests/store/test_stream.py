"""Streams: a large result is read or written row by row, and a stream that is closed early ends its query."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from provml.answers import Answer, RowStream
from provml.answers.stream import STREAM_FORMATS
from provml.errors import QueryError, QueryTimeout, WrongValue
from provml.model.values import IRI
from provml.store import Store
from provml.vocab.provml import Study

LABELS = "SELECT ?s ?label ?none { ?s rdfs:label ?label OPTIONAL { ?s rdfs:seeAlso ?none } } ORDER BY ?label"
CONSTRUCT = "CONSTRUCT { ?s rdfs:label ?label } WHERE { ?s rdfs:label ?label }"
PRODUCT = "SELECT ?a ?b ?c { GRAPH ?g { ?a ?p ?x } GRAPH ?g { ?b ?q ?y } GRAPH ?g { ?c ?r ?z } }"
"""Billions of rows: no test may wait for all of them."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home", create=True) as store:
        names = ["Spring", 'Ä <b>&"quoted"\nline', "=1+1, x\ty"]
        store.add([Study(IRI(f"http://example.org/{n}"), label=name) for n, name in enumerate(names)])
        yield store


def stream(store: Store, sparql: str, **options: float) -> RowStream:
    rows = store.stream(sparql, **options)
    assert isinstance(rows, RowStream)
    return rows


def expected(answer: Answer, fmt: str) -> str:
    if fmt.startswith("sparql-"):
        return answer.to_sparql(fmt.removeprefix("sparql-"))
    return {"csv": answer.to_csv, "tsv": answer.to_tsv, "json": lambda: answer.to_json() + "\n"}[fmt]()


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_stream_has_the_rows_of_the_answer(store: Store, timeout: float | None):
    answer = store.query(LABELS)
    with stream(store, LABELS, timeout=timeout) as rows:
        assert rows.columns == answer.columns
        assert not rows.is_graph
        assert list(rows) == answer.rows


@pytest.mark.parametrize("fmt", [fmt for fmt in STREAM_FORMATS if fmt not in ("ttl", "nt")])
@pytest.mark.parametrize("sparql", [LABELS, CONSTRUCT, "SELECT ?x { ?x a <urn:none:x> }"])
def test_a_written_stream_is_the_written_answer(store: Store, sparql: str, fmt: str):
    answer, file = store.query(sparql), io.BytesIO()
    assert stream(store, sparql).write(file, fmt) == len(answer)
    assert sorted(file.getvalue().decode().splitlines()) == sorted(expected(answer, fmt).splitlines())
    if sparql != CONSTRUCT:
        assert file.getvalue().decode() == expected(answer, fmt)


@pytest.mark.parametrize(("fmt", "rdf_format"), [("ttl", ox.RdfFormat.TURTLE), ("nt", ox.RdfFormat.N_TRIPLES)])
def test_triples_are_written_as_rdf(store: Store, fmt: str, rdf_format: ox.RdfFormat):
    file = io.BytesIO()
    assert stream(store, CONSTRUCT).write(file, fmt) == 3
    triples = {str(quad.triple) for quad in ox.parse(file.getvalue(), format=rdf_format)}
    assert triples == {str(ox.Triple(*row)) for row in store.query(CONSTRUCT).terms()}


def test_a_stream_can_be_read_row_by_row_and_continued_after_a_break(store: Store):
    answer = store.query(LABELS)
    assert isinstance(answer, Answer)
    with stream(store, LABELS) as rows:
        assert next(rows) == answer[0]
        for row in rows:
            assert row == answer[1]
            break
        (terms,) = rows.terms()
        assert terms[1].value == answer[2][1]
        assert next(rows, None) is None
    with pytest.raises(ValueError, match=r"^This stream is closed\. Execute the query again\.$"):
        next(rows)


def test_another_thread_can_neither_read_nor_close_a_stream(store: Store):
    rows = stream(store, LABELS)
    errors: list[str] = []

    def use() -> None:
        for call in (lambda: next(rows), lambda: list(rows.terms()), rows.close):
            try:
                call()
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert errors == ["This stream was opened in another thread. Read and close it there."] * 3
    assert len(list(rows)) == 3


def test_a_stream_is_written_to_a_socket(store: Store):
    reader, writer = socket.socketpair()
    received = []
    thread = threading.Thread(target=lambda: received.append(reader.makefile("rb").read()))
    thread.start()
    with writer, writer.makefile("wb") as file:
        stream(store, LABELS).write(file, "csv")
    thread.join()
    reader.close()
    assert received == [store.query(LABELS).to_csv().encode()]


def test_the_result_of_ask_is_a_boolean(store: Store):
    assert store.stream("ASK { ?s rdfs:label 'Spring' }") is True


def test_a_format_that_does_not_fit_is_an_error(store: Store):
    with pytest.raises(WrongValue, match="one of csv, tsv, json, sparql-json"):
        stream(store, LABELS).write(io.BytesIO(), "table")
    with pytest.raises(WrongValue, match="Use CONSTRUCT or DESCRIBE"):
        stream(store, LABELS).write(io.BytesIO(), "ttl")


def test_errors_are_those_of_a_query(store: Store):
    with pytest.raises(QueryError, match="Invalid query"):
        store.stream("SELECT")
    with pytest.raises(QueryTimeout):
        store.stream(PRODUCT + " ORDER BY ?a", timeout=0.5)


def test_the_first_rows_come_before_the_last_are_computed_and_closing_ends_the_query(store: Store):
    start = time.monotonic()
    with stream(store, PRODUCT) as rows:
        iterator = iter(rows)
        assert len([next(iterator) for _ in range(100)]) == 100
    assert time.monotonic() - start < 30
    with pytest.raises(ValueError, match="closed"):
        next(iter(rows))
    assert repr(rows) == "<RowStream a, b, c closed>"
    rows.close()


def test_an_open_stream_keeps_its_rows_while_the_store_changes(store: Store):
    rows = iter(stream(store, LABELS))
    first = next(rows)
    store.add(Study(IRI("http://example.org/new"), label="Autumn"))
    assert len([first, *rows]) == 3
    assert len(store.query(LABELS)) == 4


def test_closing_the_store_closes_its_streams_so_that_another_process_can_write(store: Store):
    rows = stream(store, PRODUCT)
    next(iter(rows))
    store.close()
    with pytest.raises(ValueError, match="closed"):
        next(iter(rows))
    with Store(store.home) as again:
        assert not again.is_private


@pytest.mark.slow
@pytest.mark.parametrize(("fmt", "limit"), [("csv", 300_000), ("sparql-json", 100_000), ("rows", 100_000)])
def test_memory_does_not_grow_with_the_number_of_rows(store: Store, fmt: str, limit: int):
    """Write rows in a process of its own: as an answer, 300,000 of them take more than a hundred megabytes."""
    store.close()
    program = """
        import resource, sys
        from provml.store import Store

        class Sink:
            size = 0
            def write(self, data):
                self.size += len(data)

        home, sparql, fmt, most = sys.argv[1:]
        with Store(home) as store:
            peaks, counts = [], []
            for limit in (1_000, int(most)):
                with store.stream(f"{sparql} LIMIT {limit}") as rows:
                    counts.append(sum(1 for _ in rows) if fmt == "rows" else rows.write(Sink(), fmt))
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        print(*counts, peaks[1] - peaks[0])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(store.home), PRODUCT, fmt, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    few, many, growth = map(int, done.stdout.split())
    assert (few, many) == (1_000, limit)
    assert growth < 30, f"{growth} MiB more for {limit} rows"
