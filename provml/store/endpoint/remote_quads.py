"""Single patterns of triples of an endpoint, fetched together.

A function that reads a graph pattern by pattern would send a request for each. `settle` calls it again and again: a
pattern that is not known yet has no matches, and all unknown patterns of one call are fetched together before the next.
The last call knows all its patterns, so its result is that of the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyoxigraph as ox

from provml.store.endpoint.client import Endpoint
from provml.store.endpoint.run_nodes import batches

Result = TypeVar("Result")
Key = tuple[str | None, str | None, str | None]
"""A pattern: a subject, a predicate, an object; None matches any."""
_GRAPH = ox.DefaultGraph()


class RemoteQuads:
    """The default graph of an endpoint: patterns with a subject, or with a predicate and an object."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._quads: dict[Key, list[ox.Quad]] = {}
        self._unknown: dict[Key, None] = {}

    def quads_for_pattern(
        self,
        subject: Any,
        predicate: Any,
        object: Any,  # noqa: A002  # as pyoxigraph has it
        graph_name: Any = None,
    ) -> Iterator[ox.Quad]:
        """Return the quads that match, as far as they are known."""
        if any(term is not None and not isinstance(term, ox.NamedNode) for term in (subject, predicate, object)):
            return iter(())  # what provml writes has no blank nodes
        names = [term.value if term is not None else None for term in (subject, predicate, object)]
        key: Key = (names[0], names[1], None if subject is not None else names[2])
        quads = self._find(key)
        return (quad for quad in quads if object is None or quad.object == object)

    def __contains__(self, quad: ox.Quad) -> bool:
        return any(True for _ in self.quads_for_pattern(quad.subject, quad.predicate, quad.object))

    def _find(self, key: Key) -> list[ox.Quad]:
        quads = self._quads.get(key)
        if quads is None:
            self._unknown[key] = None
            return []
        return quads

    def settle(self, function: Callable[[], Result]) -> Result:
        """Return what a function of this graph returns when it knows all that it reads."""
        while True:
            result = function()
            if not self._unknown:
                return result
            self._fetch()

    def _fetch(self) -> None:
        """Fetch the unknown patterns: those that differ in one node only by one query."""
        groups: dict[tuple[str | None, bool], list[str]] = {}
        for subject, predicate, node in self._unknown:
            self._quads[subject, predicate, node] = []
            groups.setdefault((predicate, subject is not None), []).append(
                str(subject if subject is not None else node)
            )
        self._unknown.clear()
        for (predicate, is_forward), nodes in groups.items():
            middle = f"<{predicate}>" if predicate is not None else "?p"
            pattern = f"?node {middle} ?x" if is_forward else f"?x {middle} ?node"
            columns = "?node ?x" if predicate is not None else "?node ?x ?p"
            for values in batches(nodes):
                rows = self.endpoint.query(f"SELECT {columns} WHERE {{ VALUES ?node {{ {values} }} {pattern} }}")
                for row in rows:
                    self._add(predicate, row, is_forward=is_forward)

    def _add(self, predicate: str | None, row: Any, *, is_forward: bool) -> None:
        node, other = row["node"], row["x"]
        middle = ox.NamedNode(predicate) if predicate is not None else row["p"]
        if is_forward:
            self._quads[node.value, predicate, None].append(ox.Quad(node, middle, other, _GRAPH))
        else:
            self._quads[None, predicate, node.value].append(ox.Quad(other, middle, node, _GRAPH))
