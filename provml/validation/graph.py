"""The graph to validate: its data with the datatypes that Oxigraph would change, and with what its classes imply."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyoxigraph as ox

from provml.validation import datatypes
from provml.validation.inference import InferenceName, inferred_triples
from provml.validation.inputs import ValidationInput, load, quads, serialize_things


class ValidationGraph:
    """The default graph of a store, ready to be validated.

    `triples` is the number of triples of the data. With `has_preserved_datatypes`, literals whose datatype Oxigraph
    would change are stored under a preserved one (see `datatypes`).
    """

    def __init__(self, store: ox.Store, *, triples: int | None = None, has_preserved_datatypes: bool = False) -> None:
        self.store = store
        self.triples = count_triples(store) if triples is None else triples
        self.has_preserved_datatypes = has_preserved_datatypes

    @cached_property
    def queryable(self) -> ox.Store:
        """The graph with the terms that Oxigraph has for it, for queries that compare or calculate."""
        if not self.has_preserved_datatypes:
            return self.store
        store = ox.Store()
        store.bulk_extend(
            ox.Quad(quad.subject, quad.predicate, datatypes.restore(quad.object))
            for quad in self.store.quads_for_pattern(None, None, None, ox.DefaultGraph())
        )
        return store


def load_graph(data: ValidationInput | ValidationGraph, inference: InferenceName = "types") -> ValidationGraph:
    """Load data to validate it, with what it implies. A store is copied only if it lacks some of that.

    A pyoxigraph Store has already lost the datatypes that Oxigraph does not store; all other data keeps them.
    """
    if isinstance(data, ValidationGraph):  # it has its types
        return data if inference in ("none", "types") else with_inference(data, inference, in_place=False)
    if isinstance(data, ox.Store):
        return with_inference(ValidationGraph(data), inference, in_place=False)
    return with_inference(_load(data), inference, in_place=True)


def with_inference(graph: ValidationGraph, inference: InferenceName, *, in_place: bool) -> ValidationGraph:
    """Return a graph with the triples that it implies; unless `in_place`, its store is not changed."""
    implied = inferred_triples(graph.store, inference)
    if not implied:
        return graph
    store = graph.store if in_place else load(graph.store)
    store.extend(ox.Quad(*triple) for triple in implied)
    return ValidationGraph(store, triples=graph.triples, has_preserved_datatypes=graph.has_preserved_datatypes)


def _load(data: ValidationInput) -> ValidationGraph:
    data = serialize_things(data)
    if isinstance(data, bytes) and not datatypes.may_have_changed_datatypes(data):
        return ValidationGraph(load(data))  # twice as fast as by quads
    store, has_preserved_datatypes = ox.Store(), False

    def converted() -> Iterator[ox.Quad]:
        nonlocal has_preserved_datatypes
        for quad in quads(data):
            value = quad.object
            stored = datatypes.preserve(value)
            has_preserved_datatypes |= stored is not value
            yield ox.Quad(quad.subject, quad.predicate, stored)

    store.bulk_extend(converted())
    return ValidationGraph(store, has_preserved_datatypes=has_preserved_datatypes)


def count_triples(store: ox.Store) -> int:
    """Count the triples of the default graph by a query, since there may be millions."""
    (row,) = store.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")  # type: ignore[misc]
    return int(row[0].value)
