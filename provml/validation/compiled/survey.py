"""What a store holds, as far as it shapes the queries: its class hierarchy, and which classes and properties occur."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyoxigraph as ox

from provml.validation.compiled.shape import RDF, RDFS

TYPE = ox.NamedNode(f"{RDF}type")


class Survey:
    """A look at a store before it is asked; without a store, everything may occur."""

    def __init__(self, store: ox.Store | None = None) -> None:
        self.store = store
        self._occurs: dict[tuple[str, str], bool] = {}

    @cached_property
    def below(self) -> dict[Any, list[Any]]:
        """The classes directly below each class."""
        found: dict[Any, list[Any]] = {}
        if self.store is not None:
            rows: Any = self.store.query(f"SELECT ?below ?above {{ ?below <{RDFS}subClassOf> ?above }}")
            for row in rows:
                found.setdefault(row["above"], []).append(row["below"])
        return found

    def family(self, name: Any) -> list[Any]:
        """A class and all below it."""
        found = [name]
        for one in found:
            found += [other for other in self.below.get(one, ()) if other not in found]
        return found

    def members(self, name: Any) -> list[Any]:
        """Of a class and all below it, the named ones that have instances."""
        return [one for one in self.family(name) if isinstance(one, ox.NamedNode) and self.occurs(TYPE, one)]

    def repeats(self, predicate: Any) -> bool:
        """Whether any node has two values of that property; of most, none does, which spares looking at each class."""
        if self.store is None:
            return True
        key = (str(predicate), "twice")
        if key not in self._occurs:
            pair = f"?s {predicate} ?a . ?s {predicate} ?b FILTER(!sameTerm(?a, ?b))"
            self._occurs[key] = self.occurs(predicate) and bool(self.store.query(f"ASK {{ {pair} }}"))
        return self._occurs[key]

    def occurs(self, predicate: Any, value: Any = None) -> bool:
        """Whether any triple has that predicate, and that object where one is given."""
        if self.store is None:
            return True
        key = (str(predicate), "?o" if value is None else str(value))
        if key not in self._occurs:
            self._occurs[key] = bool(self.store.query(f"ASK {{ ?s {key[0]} {key[1]} }}"))
        return self._occurs[key]
