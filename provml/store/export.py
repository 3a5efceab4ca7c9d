"""Write a graph as RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML, and JSON-LD with the context of the ontology."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import IO, Any

import pyoxigraph as ox

from provml.rdf.jsonld_writer import to_jsonld
from provml.rdf.namespaces import PREFIXES
from provml.store.alignments import Alignment, aligned_triples
from provml.store.graph_names import PROVIDED_GRAPHS
from provml.store.loaded_literals import as_written

FORMATS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "ttl": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "rdf": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}
WITH_NAMED_GRAPHS = frozenset({"nq", "trig"})
MAX_SORTED = 500_000
"""Up to this number triples are sorted, so that two exports can be compared; more would not fit in memory."""

_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Output(io.RawIOBase):
    """A binary file that knows whether something has been written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.has_begun = False

    def write(self, data: Any) -> int:
        """Write bytes."""
        self.has_begun = True
        self.file.write(bytes(data))
        return len(data)


def write(
    graph: ox.Store,
    file: Output,
    fmt: str,
    vocabularies: Sequence[Alignment] = (),
    *,
    written: Mapping[ox.Quad, list[ox.Quad]] | None = None,
) -> int:
    """Write a graph to a binary file and return the number of triples. The ontologies are left out.

    `vocabularies` are alignments with other vocabularies: what they imply is written too. `written` are the
    quads that were loaded in other words than the store has them.
    RDF/XML cannot hold control characters: each becomes U+FFFD, and a warning is logged. Other formats are exact.
    """
    quads: Iterable[ox.Quad] = as_written(_quads(graph, fmt), written or {})
    prefixes = dict(PREFIXES)
    if vocabularies:
        triples = aligned_triples(graph, vocabularies)
        quads = chain(quads, (ox.Quad(triple.subject, triple.predicate, triple.object) for triple in triples))
        prefixes |= {prefix: iri for item in vocabularies for prefix, iri in item.prefixes.items()}
    if len(graph) <= MAX_SORTED:
        quads = sorted(quads, key=lambda q: (str(q.graph_name), str(q.subject), str(q.predicate), str(q.object)))
    xml_quads = _XmlQuads(quads) if fmt == "rdf" else None
    counter = _Counter(xml_quads or quads)
    if fmt == "jsonld":
        file.write(to_jsonld(counter).encode())
    else:
        output: Any = file if xml_quads is None else _XmlFile(file)
        ox.serialize(counter, output, format=FORMATS[fmt], prefixes=prefixes)
    if xml_quads is not None and xml_quads.replaced:
        message = "provml: %d texts have characters that RDF/XML cannot hold; each is written as U+FFFD. %s"
        logging.getLogger("provml").warning(message, xml_quads.replaced, "Other formats, such as ttl, are exact.")
    return counter.count


class _XmlFile(io.RawIOBase):
    """A file that escapes carriage returns, which the engine writes bare and which XML parsers read as newlines."""

    def __init__(self, file: Output) -> None:
        self.file = file

    def write(self, data: Any) -> int:
        """Write bytes of XML."""
        self.file.write(bytes(data).replace(b"\r", b"&#13;"))
        return len(data)


class _XmlQuads:
    """Iterate over quads with texts that XML can hold, and count the texts that were changed."""

    def __init__(self, quads: Iterable[ox.Quad]) -> None:
        self.quads = quads
        self.replaced = 0

    def __iter__(self) -> Iterator[ox.Quad]:
        for quad in self.quads:
            term = quad.object
            if isinstance(term, ox.Literal) and _NOT_XML.search(term.value):
                self.replaced += 1
                yield ox.Quad(quad.subject, quad.predicate, _xml_literal(term), quad.graph_name)
            else:
                yield quad


def _xml_literal(literal: ox.Literal) -> ox.Literal:
    text = _NOT_XML.sub(REPLACEMENT, literal.value)
    if literal.language is not None:
        return ox.Literal(text, language=literal.language, direction=literal.direction)
    return ox.Literal(text, datatype=literal.datatype)


class _Counter:
    """Count quads while they are iterated."""

    def __init__(self, quads: Iterable[ox.Quad]) -> None:
        self.quads = quads
        self.count = 0

    def __iter__(self) -> Iterator[ox.Quad]:
        for quad in self.quads:
            self.count += 1
            yield quad


def _quads(graph: ox.Store, fmt: str) -> Iterator[ox.Quad]:
    """Yield the default graph, and the named graphs if the format has them."""
    yield from graph.quads_for_pattern(None, None, None, ox.DefaultGraph())
    if fmt in WITH_NAMED_GRAPHS:
        for name in graph.named_graphs():
            if name not in PROVIDED_GRAPHS:
                yield from graph.quads_for_pattern(None, None, None, name)
