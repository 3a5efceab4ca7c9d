"""Cycles in a graph strongly connected components in linear time (Tarjan), and the shortest cycle in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

MAX_VISITS = 100_000
"""Visited nodes of the search for the shortest cycle of a component; a search that has begun is completed."""

Edges: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""For each node its outgoing edges: the node that an edge leads to, and its constraint."""


def find_cycles(edges: Edges, through: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Iterate over one cycle per component that contains one of the edges `through` (start, end, constraint).

    The cycle is the shortest one with such an edge: its nodes in order, each with the constraint of its outgoing edge.
    In a component with more than MAX_VISITS steps of search it is the shortest one found until then.
    """
    component = components(edges, (end for _, end, _ in through))
    by_component: dict[int, list[tuple[int, int, int]]] = {}
    for start, end, constraint in through:
        if component[start] >= 0 and component[start] == component[end]:
            by_component.setdefault(component[start], []).append((start, end, constraint))
    for candidates in by_component.values():
        yield _shortest_cycle(edges, candidates, component)


def _shortest_cycle(
    edges: Edges, candidates: list[tuple[int, int, int]], component: list[int]
) -> list[tuple[int, int]]:
    shortest: list[tuple[int, int]] = []
    visits = 0
    for start, end, constraint in candidates:
        limit = len(shortest) - 2 if shortest else None
        path, visited = _shortest_path(edges, (end, start), component, limit)
        if path is not None:
            shortest = [(start, constraint), *path]
        visits += visited
        if len(shortest) == 1 or visits > MAX_VISITS:
            break
    return shortest


def _shortest_path(
    edges: Edges, ends: tuple[int, int], component: list[int], limit: int | None
) -> tuple[list[tuple[int, int]] | None, int]:
    """Return the shortest path inside a component with at most `limit` edges, or None, and the number of visited nodes.

    The path has the nodes with the constraint of the next edge, without its end.
    """
    start, end = ends
    previous = {start: (start, 0)}
    queue = deque([(start, 0)])
    while end not in previous:
        if not queue:
            return None, len(previous)
        node, length = queue.popleft()
        if length == limit:
            continue
        for successor, constraint in edges[node]:
            if successor not in previous and component[successor] == component[end]:
                previous[successor] = node, constraint
                queue.append((successor, length + 1))
    path: list[tuple[int, int]] = []
    node = end
    while node != start:
        node, constraint = previous[node]
        path.append((node, constraint))
    return path[::-1], len(previous)


def components(edges: Edges, starts: Iterable[int]) -> list[int]:
    """Return the number of the strongly connected component of each node; -1 if it cannot be reached from `starts`."""
    search = _ComponentSearch(edges)
    for start in starts:
        if search.order[start] < 0:
            search.visit_from(start)
    return search.component


class _ComponentSearch:
    """Tarjan's algorithm without recursion, since cycles may have thousands of nodes."""

    def __init__(self, edges: Edges) -> None:
        size = len(edges)
        self.edges = edges
        self.order = [-1] * size
        """When a node was visited first; -1 for an unvisited one."""
        self.low = [0] * size
        """The earliest visited node that is reachable within the component."""
        self.component = [-1] * size
        self._stack: list[int] = []
        self._visited = self._components = 0

    def _enter(self, node: int) -> tuple[int, Iterator[tuple[int, int]]]:
        self.order[node] = self.low[node] = self._visited
        self._visited += 1
        self._stack.append(node)
        return node, iter(self.edges[node])

    def visit_from(self, start: int) -> None:
        order, low, component = self.order, self.low, self.component
        path = [self._enter(start)]
        while path:
            node, successors = path[-1]
            for successor, _ in successors:
                if order[successor] < 0:
                    path.append(self._enter(successor))
                    break
                if component[successor] < 0 and order[successor] < low[node]:
                    low[node] = order[successor]
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    self._close_component(node)

    def _close_component(self, root: int) -> None:
        member = -1
        while member != root:
            member = self._stack.pop()
            self.component[member] = self._components
        self._components += 1
