"""The data to validate, as quads or in a store: things, N-Triples as bytes, an RDF file, or quads of a library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from provml import rdf
from provml.errors import FileFormatError, WrongType
from provml.model.thing import Thing
from provml.rdf.graph_files import read_quads
from provml.rdf.parse_file import ParsedFile
from provml.rdf.rdflib_bridge import from_rdflib, is_rdflib_graph

if TYPE_CHECKING:
    import pyoxigraph

ValidationInput: TypeAlias = "Thing | Iterable[Any] | bytes | str | PathLike[str]"
"""Things (with all that they refer to), N-Triples as bytes, the path of an RDF file, quads of pyoxigraph or rdflib."""

EXPECTED = "things, N-Triples as bytes, the path of an RDF file, a pyoxigraph Store, or an rdflib graph"
ADVICE = "Pass one of these."
BYTES = Path("N-Triples")
"""The name of bytes in messages."""


def load(data: ValidationInput) -> pyoxigraph.Store:
    """Load the data into a new store.

    Named graphs are merged into the default graph, except those of a store, one of which is the ontology.
    """
    import pyoxigraph as ox

    store = ox.Store()
    if isinstance(data, ox.Store):
        data = data.quads_for_pattern(None, None, None, ox.DefaultGraph())
    data = serialize_things(data)
    if isinstance(data, bytes) and b"<<" not in data:  # twice as fast as parsing to quads
        try:
            store.bulk_load(data, format=ox.RdfFormat.N_TRIPLES)
        except SyntaxError as error:
            reason = re.sub(r"^Parser error at .*?: ", "", str(error.msg)).rstrip(".")
            raise FileFormatError(reason, "Correct the N-Triples.", file=str(BYTES), line=error.lineno) from error
    else:
        store.bulk_extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in quads(data))
    return store


def quads(data: ValidationInput) -> Iterator[Any]:
    """Iterate over the quads of the data (or its triples, if it is an iterable of triples)."""
    import pyoxigraph as ox

    data = serialize_things(data)
    if isinstance(data, bytes):
        yield from ParsedFile(BYTES, ox.RdfFormat.N_TRIPLES, data=data)
    elif isinstance(data, (str, PathLike)):
        path = Path(data)
        yield from read_quads(path, base_iri=path.absolute().as_uri())
    else:
        for quad in data:
            if not isinstance(quad, (ox.Quad, ox.Triple)):
                raise WrongType("validation", "data", quad, EXPECTED, ADVICE)
            yield quad


def serialize_things(data: ValidationInput) -> Iterable[Any] | bytes | str | PathLike[str]:
    """Return things as N-Triples, and any other data unchanged."""
    if isinstance(data, (bytes, str, PathLike)):
        return data
    if is_rdflib_graph(data):
        return from_rdflib(data)
    if isinstance(data, Thing):
        return rdf.ntriples(data, follow=True)
    if not isinstance(data, Iterable):
        raise WrongType("validation", "data", data, EXPECTED, ADVICE)
    items: Iterator[Any] = iter(data)
    first = next(items, None)
    if first is None:
        return b""
    everything = chain([first], items)
    return rdf.ntriples(everything, follow=True) if isinstance(first, Thing) else everything
