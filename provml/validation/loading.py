"""What is to be validated, as quads or in a store: things, N-Triples as bytes, an RDF file, or RDF held by Oxigraph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from provml import rdf
from provml.errors import BrokenFile, WrongType
from provml.things import Thing

if TYPE_CHECKING:
    import pyoxigraph

Given: TypeAlias = "Thing | Iterable[Any] | bytes | str | PathLike[str]"
"""Things (taken with all that they refer to), N-Triples as bytes, the path of an RDF file, or quads of pyoxigraph."""

EXPECTED = "things, N-Triples as bytes, the path of an RDF file, or a pyoxigraph Store"


def load(given: Given) -> pyoxigraph.Store:
    """A store that holds the data and nothing else.

    Named graphs are taken as one with the default graph, but not those of a store, one of which is our ontology.
    """
    import pyoxigraph as ox

    store = ox.Store()
    if isinstance(given, ox.Store):
        given = given.quads_for_pattern(None, None, None, ox.DefaultGraph())
    given = _written(given)
    if isinstance(given, bytes):  # twice as fast as through quads
        with _told("N-Triples", ox.RdfFormat.N_TRIPLES.name):
            store.bulk_load(given, format=ox.RdfFormat.N_TRIPLES)
    else:
        store.bulk_extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in quads(given))
    return store


def quads(given: Given) -> Iterator[Any]:
    """The quads (or triples, where that is what was given) one by one; a literal stays as it was written."""
    import pyoxigraph as ox

    given = _written(given)
    if isinstance(given, bytes):
        with _told("N-Triples", ox.RdfFormat.N_TRIPLES.name):
            yield from ox.parse(given, format=ox.RdfFormat.N_TRIPLES)
    elif isinstance(given, (str, PathLike)):
        path = Path(given)
        form = ox.RdfFormat.from_extension(path.suffix[1:])
        if form is None:
            reason = f"has an ending that names no RDF format ({path.suffix!r})"
            raise BrokenFile(reason, "Give a file such as data.ttl or data.nt, or N-Triples as bytes.", file=str(path))
        with _told(str(path), form.name):
            yield from ox.parse(path=path, format=form, base_iri=path.absolute().as_uri())
    else:
        for quad in given:
            if not isinstance(quad, (ox.Quad, ox.Triple)):
                raise WrongType("validation", "given", quad, EXPECTED, "Give one of these.")
            yield quad


def _written(given: Given) -> Iterable[Any] | bytes | str | PathLike[str]:
    """Things as N-Triples; all else as it is."""
    if isinstance(given, (bytes, str, PathLike)):
        return given
    if isinstance(given, Thing):
        return rdf.ntriples(given, follow=True)
    if not isinstance(given, Iterable):
        raise WrongType("validation", "validate", given, EXPECTED, "Give one of these.")
    rest: Iterator[Any] = iter(given)
    first = next(rest, None)
    if first is None:
        return b""
    both = chain([first], rest)
    return rdf.ntriples(both, follow=True) if isinstance(first, Thing) else both


@contextmanager
def _told(file: str, form: str) -> Iterator[None]:
    """What the parser finds broken, as an error that names the place."""
    try:
        yield
    except SyntaxError as error:
        reason = re.sub(r"^Parser error at .*?: ", "", str(error.msg)).rstrip(".")
        raise BrokenFile(reason, f"Mend the {form} there.", file=file, line=error.lineno) from error
    except OSError as error:
        reason = re.sub(r" \(os error.*", "", str(error)).lower()
        raise BrokenFile(reason, "Check the path, or give N-Triples as bytes.", file=file) from error
