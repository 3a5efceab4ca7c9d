"""Alignments with other vocabularies: files of axioms, by which recorded data also has the terms of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyoxigraph as ox

from provml import paths
from provml.errors import InvalidParameter
from provml.rdf.namespaces import RDF_TYPE, VANN
from provml.store.inference import infer

NAMESPACE_URI = ox.NamedNode(f"{VANN}preferredNamespaceUri")
NOT_EXPORTED = frozenset({"mls-prov"})
"""Alignments between vocabularies of recorded data."""


@dataclass(frozen=True)
class Alignment:
    """An alignment: its name, its file, and the prefixes and namespaces of the other vocabulary."""

    name: str
    path: Path
    prefixes: dict[str, str]


@cache
def alignments() -> dict[str, Alignment]:
    """Return the alignments by name."""
    result = {}
    for path in sorted((paths.ontologies() / "alignment").glob("*.ttl")):
        parser = ox.parse(path=str(path), format=ox.RdfFormat.TURTLE)
        namespaces = {quad.object.value for quad in parser if quad.predicate == NAMESPACE_URI}
        prefixes = {prefix: iri for prefix, iri in parser.prefixes.items() if iri in namespaces}
        result[path.stem] = Alignment(path.stem, path, prefixes)
    return result


def find(names: str | Iterable[str]) -> list[Alignment]:
    """Return alignments by name: a list, or a text with commas. Raise an error for an unknown name."""
    wanted = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    choices = {name: item for name, item in alignments().items() if name not in NOT_EXPORTED}
    for name in wanted:
        if name not in choices:
            advice = "The page on alignments says what each has."
            raise InvalidParameter("export", "vocabularies", name, ", ".join(choices), advice)
    return [choices[name] for name in wanted]


def aligned_triples(graph: ox.Store, chosen: Iterable[Alignment]) -> list[ox.Triple]:
    """Return what follows from the default graph of a store in the terms of other vocabularies."""
    chosen = list(chosen)
    merged = ox.Store()
    for path in (*sorted(paths.ontologies().glob("*.ttl")), *(item.path for item in chosen)):
        merged.bulk_load(path=str(path), format=ox.RdfFormat.TURTLE)
    merged.bulk_extend(graph.quads_for_pattern(None, None, None, ox.DefaultGraph()))
    subjects = {quad.subject for quad in graph.quads_for_pattern(None, None, None, ox.DefaultGraph())}
    namespaces = tuple(namespace for item in chosen for namespace in item.prefixes.values())

    def is_theirs(triple: ox.Triple) -> bool:
        term = triple.object if triple.predicate.value == RDF_TYPE else triple.predicate
        return isinstance(term, ox.NamedNode) and term.value.startswith(namespaces) and triple.subject in subjects

    return [triple for triple in infer(merged) if is_theirs(triple)]
