"""Literals of loaded files as they were written: Oxigraph stores numbers and times by value, with fewer datatypes.

The files of a home have the text. An export of everything puts it back in place of what the index returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyoxigraph as ox

from provml.rdf.namespaces import XSD
from provml.store.imports import ImportedFiles, parse_added

UNCHANGED = frozenset({f"{XSD}string", f"{XSD}anyURI"})
"""Datatypes of XML Schema whose literals Oxigraph stores as they are."""


def written_quads(home: Path) -> dict[ox.Quad, list[ox.Quad]]:
    """Return the quads of the index that differ from those of the loaded files, each with what the files state."""
    files = [path for path in ImportedFiles(home).intact() if _may_differ(path)]
    stored_literals = _StoredLiterals()
    written: dict[ox.Quad, list[ox.Quad]] = {}
    for path in files:
        for quad in parse_added(path):
            stored = stored_literals.find(quad.object) if isinstance(quad.object, ox.Literal) else quad.object
            if stored != quad.object:
                key = ox.Quad(quad.subject, quad.predicate, stored, quad.graph_name)
                quads = written.setdefault(key, [])
                quads += [] if quad in quads else [quad]
    for path in files if written else []:  # a file may also state what another one has in other words
        for quad in parse_added(path):
            if quad in written and quad not in written[quad]:
                written[quad].append(quad)
    return written


def as_written(quads: Iterable[ox.Quad], written: Mapping[ox.Quad, list[ox.Quad]]) -> Iterator[ox.Quad]:
    """Iterate over quads of the index with the literals that were loaded."""
    for quad in quads:
        yield from written.get(quad, (quad,))


def _may_differ(path: Path) -> bool:
    with path.open("rb") as file:
        return any(f"<{XSD}".encode() in line for line in file)


class _StoredLiterals:
    """Finds how Oxigraph stores a literal, by storing it."""

    def __init__(self) -> None:
        self._cache: dict[ox.Literal, ox.Literal] = {}

    def find(self, literal: ox.Literal) -> ox.Literal:
        if not literal.datatype.value.startswith(XSD) or literal.datatype.value in UNCHANGED:
            return literal
        if literal not in self._cache:
            if len(self._cache) > 100_000:
                self._cache.clear()
            store, node = ox.Store(), ox.NamedNode("urn:x")
            store.add(ox.Quad(node, node, literal))
            (quad,) = store
            assert isinstance(quad.object, ox.Literal)
            self._cache[literal] = quad.object
        return self._cache[literal]
