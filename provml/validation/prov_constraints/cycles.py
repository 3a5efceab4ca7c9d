"""Cycles in a graph in linear time: strongly connected components (Tarjan), and a shortest cycle in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Edges: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""For each node its outgoing edges: the node that an edge leads to, and its constraint."""


def find_cycles(edges: Edges, through: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Iterate over one cycle per component that contains one of the edges `through` (start, end, constraint).

    The cycle is the shortest one with that edge: its nodes in order, each with the constraint of its outgoing edge.
    """
    component = components(edges, (end for _, end, _ in through))
    reported = set()
    for start, end, constraint in through:
        number = component[start]
        if number >= 0 and number == component[end] and number not in reported:
            reported.add(number)
            yield [(start, constraint), *_shortest_path(edges, end, start, component)]


def _shortest_path(edges: Edges, start: int, end: int, component: list[int]) -> list[tuple[int, int]]:
    """Return the shortest path inside a component, without its end: nodes with the constraint of the next edge."""
    previous = {start: (start, 0)}
    queue = deque([start])
    while end not in previous:
        node = queue.popleft()
        for successor, constraint in edges[node]:
            if successor not in previous and component[successor] == component[end]:
                previous[successor] = node, constraint
                queue.append(successor)
    path: list[tuple[int, int]] = []
    node = end
    while node != start:
        node, constraint = previous[node]
        path.append((node, constraint))
    return path[::-1]


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
