"""Facts about a store that simplify queries: its class hierarchy, and which classes and properties occur."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import RDF, RDFS

MAX_LOOKUPS = 100
"""Lookups of single classes and properties; after that, all classes of the graph are listed once."""
TYPE = ox.NamedNode(f"{RDF}type")


class GraphStatistics:
    """Facts about the default graph of a store; without a store, everything may occur."""

    def __init__(self, store: ox.Store | None = None, *, has_preserved_datatypes: bool = False) -> None:
        self.store = store
        self.has_preserved_datatypes = has_preserved_datatypes
        self._cache: dict[tuple[str, str], bool] = {}

    @cached_property
    def subclasses(self) -> dict[Any, list[Any]]:
        """The direct subclasses of each class."""
        subclasses: dict[Any, list[Any]] = {}
        if self.store is not None:
            rows: Any = self.store.query(f"SELECT ?sub ?super {{ ?sub <{RDFS}subClassOf> ?super }}")
            for row in rows:
                subclasses.setdefault(row["super"], []).append(row["sub"])
        return subclasses

    @cached_property
    def _classes(self) -> set[Any]:
        """All classes with instances."""
        rows: Any = [] if self.store is None else self.store.query("SELECT DISTINCT ?class { ?s a ?class }")
        return {row[0] for row in rows}

    def with_subclasses(self, cls: Any) -> list[Any]:
        """Return a class and all its subclasses."""
        classes = [cls]
        for current in classes:  # grows while it is iterated
            classes += [other for other in self.subclasses.get(current, ()) if other not in classes]
        return classes

    def instantiated_classes(self, cls: Any) -> list[Any]:
        """Return those of a class and its subclasses that are named and have direct instances."""
        return [
            other for other in self.with_subclasses(cls) if isinstance(other, ox.NamedNode) and self.occurs(TYPE, other)
        ]

    def has_multiple_values(self, predicate: Any) -> bool:
        """Return whether any node has two values of a property; for most properties none has."""
        if self.store is None:
            return True
        key = (str(predicate), "multiple")
        if key not in self._cache:
            pair = f"?s {predicate} ?a . ?s {predicate} ?b FILTER(!sameTerm(?a, ?b))"
            self._cache[key] = self.occurs(predicate) and bool(self.store.query(f"ASK {{ {pair} }}"))
        return self._cache[key]

    def occurs(self, predicate: Any, value: Any = None) -> bool:
        """Return whether any triple has a predicate (and an object, if given)."""
        if self.store is None:
            return True
        if value is not None and predicate == TYPE and len(self._cache) > MAX_LOOKUPS:
            return value in self._classes
        key = (str(predicate), "?o" if value is None else str(value))
        if key not in self._cache:
            self._cache[key] = bool(self.store.query(f"ASK {{ ?s {key[0]} {key[1]} }}"))
        return self._cache[key]
