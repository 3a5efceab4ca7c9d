"""Circles in a graph, found in linear time: Tarjan's strongly connected components, and the way round in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Edges: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""For each node, where its edges lead to and by which constraint."""


def circles(edges: Edges, through: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int]]]:
    """One circle for each component in which one of some edges (from, to, by) lies: the shortest with that edge.

    A circle is its nodes in order, each with the constraint by which it leads to the next.
    """
    component = components(edges, (end for _, end, _ in through))
    told = set()
    for start, end, by in through:
        knot = component[start]
        if knot >= 0 and knot == component[end] and knot not in told:
            told.add(knot)
            yield [(start, by), *_way(edges, end, start, component)]


def _way(edges: Edges, start: int, end: int, component: list[int]) -> list[tuple[int, int]]:
    """The shortest way inside a component, as nodes with what leads on; the end is not in it."""
    came = {start: (start, 0)}
    waiting = deque([start])
    while end not in came:
        node = waiting.popleft()
        for after, by in edges[node]:
            if after not in came and component[after] == component[end]:
                came[after] = node, by
                waiting.append(after)
    way: list[tuple[int, int]] = []
    node = end
    while node != start:
        before, by = came[node]
        way.append((before, by))
        node = before
    return way[::-1]


def components(edges: Edges, starts: Iterable[int]) -> list[int]:
    """The number of the strongly connected component of each node that can be reached; -1 for the others."""
    size = len(edges)
    order, low, component = [-1] * size, [0] * size, [-1] * size
    stack: list[int] = []
    count = found = 0
    for start in starts:
        if order[start] >= 0:
            continue
        order[start] = low[start] = count
        count += 1
        stack.append(start)
        path = [(start, iter(edges[start]))]
        while path:
            node, rest = path[-1]
            for after, _ in rest:
                if order[after] < 0:
                    order[after] = low[after] = count
                    count += 1
                    stack.append(after)
                    path.append((after, iter(edges[after])))
                    break
                if component[after] < 0 and order[after] < low[node]:
                    low[node] = order[after]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == order[node]:
                    while True:
                        member = stack.pop()
                        component[member] = found
                        if member == node:
                            break
                    found += 1
    return component
