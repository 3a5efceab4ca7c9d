"""Layered layout of directed graphs: ranks, an order in each layer, and coordinates, in time linear in the edges.

Links point down: from an upper node to a lower one. Ranks are longest paths; long links pass through virtual nodes;
barycentre sweeps reduce crossings; the coordinates of a layer are the least-squares solution that keeps the order and
the gaps (pool adjacent violators). Labels of links are virtual nodes with a size, so nothing overlaps.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

SWEEPS = 8
"""Number of passes that order the layers."""
MIN_ALIGNMENTS, MAX_ALIGNMENTS, ALIGNMENT_WORK = 8, 80, 12_000
"""Number of passes that move nodes below or above their neighbours: as many as this number of moves allows."""
FREE_WEIGHT = 0.1
"""Weight of a node that has no neighbours."""
STRAIGHTNESS = (1.0, 2.0, 8.0)
"""Weight of the part of a link between two nodes, a node and a virtual node, and two virtual nodes."""

SMALL_BEND = 10.0
"""Pixels: a bend that is smaller is removed."""
GRID = 1024
"""Coordinates are whole numbers of 1/GRID of a pixel. Sums of these are exact: a box whose edges are computed in two
ways has the same edges, and no node is outside of its group by a rounding error."""
INFINITY = float("inf")
FLAT_LAYER = 20.0
"""Pixels: a layer that is not higher holds labels only, so a link may cross it on a slant."""

Point = tuple[float, float]


class Size(NamedTuple):
    """Width and height in pixels."""

    width: float
    height: float


def snap_up(length: float) -> float:
    """Return a length in pixels, rounded up to the grid."""
    return ceil(length * GRID) / GRID


class Gaps(NamedTuple):
    """The least distances in pixels: between nodes of a layer, between links, between layers."""

    nodes: float = 26.0
    links: float = 10.0
    layers: float = 20.0


@dataclass(frozen=True)
class Link:
    """A connection from an upper to a lower node. Offsets say where it is attached, from the centre of each node."""

    upper: str
    lower: str
    label: Size | None = None
    upper_offset: float = 0.0
    lower_offset: float = 0.0


@dataclass(frozen=True)
class Route:
    """The way of a link from its upper to its lower end, without the ends themselves.

    The link is vertical between the two points of a pair, which pass a layer of nodes; it is also vertical down to
    `leaves`, the lower edge of the layer of its upper end, and from `enters`, the upper edge of the layer of its lower
    end. `label` is the centre of its label, and `reversed` is True if the link closes a cycle: then it goes up.
    """

    points: tuple[tuple[Point, Point], ...]
    leaves: float
    enters: float
    label: Point | None = None
    reversed: bool = False


@dataclass(frozen=True)
class Placement:
    """Centres of the nodes, routes of the links in their order, and the size of the whole."""

    centres: dict[str, Point]
    routes: tuple[Route, ...]
    size: Size


class _Slot:
    """A node, or the part of a link in one layer."""

    __slots__ = ("downs", "height", "index", "is_virtual", "ups", "width", "x")

    def __init__(self, width: float, height: float, *, is_virtual: bool = False) -> None:
        self.width = snap_up(width)
        self.height = snap_up(height)
        self.is_virtual = is_virtual
        self.index = 0
        self.x = 0.0
        self.ups: list[tuple[_Slot, float, float]] = []
        """Upper neighbours, each with the distance by which this slot should be right of it, and a weight."""
        self.downs: list[tuple[_Slot, float, float]] = []


@dataclass(frozen=True)
class Pins:
    """Nodes that have to be in the first or in the last layer."""

    top: frozenset[str] = frozenset()
    bottom: frozenset[str] = frozenset()


NO_PINS, DEFAULT_GAPS = Pins(), Gaps()


@dataclass
class _Chain:
    """The virtual slots of a link, from top to bottom."""

    slots: list[tuple[int, _Slot]] = field(default_factory=list)
    label: _Slot | None = None
    reversed: bool = False


def arrange(
    sizes: Mapping[str, Size],
    links: Sequence[Link],
    *,
    gaps: Gaps = DEFAULT_GAPS,
    pins: Pins = NO_PINS,
    is_centred: bool = True,
) -> Placement:
    """Return the places of nodes and links. The same input gives the same output.

    Nodes are in the vertical middle of their layer. If their heights differ much, pass `is_centred=False`: then they
    are at its top, and sources at its bottom, beside what is below them.
    """
    if not sizes:
        return Placement({}, (), Size(0.0, 0.0))
    backward = find_back_links(sizes, links)
    ends = [(b, a) if number in backward else (a, b) for number, (a, b) in enumerate((k.upper, k.lower) for k in links)]
    span = 2 if any(link.label is not None for link in links) else 1
    ranks = _ranks(list(sizes), ends, span, pins)
    slots = {name: _Slot(*size) for name, size in sizes.items()}
    layers: list[list[_Slot]] = [[] for _ in range(max(ranks.values()) + 1)]
    for name, slot in slots.items():
        layers[ranks[name]].append(slot)
    chains = [
        _connect(link, is_back=number in backward, slots=slots, ranks=ranks, layers=layers)
        for number, link in enumerate(links)
    ]
    _order(layers)
    _align(layers, gaps)
    _straighten(layers, chains, gaps)
    tops, height = _layer_tops(layers, gaps)
    width = _shift(layers)
    heights = [max((slot.height for slot in layer), default=0.0) for layer in layers]
    middles = [top + high / 2 for top, high in zip(tops, heights, strict=True)]
    centres = {name: (slot.x, middles[ranks[name]]) for name, slot in slots.items()}
    if not is_centred:
        for name, slot in slots.items():
            top, room = tops[ranks[name]], heights[ranks[name]] - slot.height
            centres[name] = (slot.x, top + slot.height / 2 + (room if slot.downs and not slot.ups else 0.0))
    routes = []
    for (upper, lower), chain in zip(ends, chains, strict=True):
        leaves, enters = tops[ranks[upper]] + heights[ranks[upper]], tops[ranks[lower]]
        routes.append(Route(_points(chain, tops, heights), leaves, enters, _label(chain, middles), chain.reversed))
    return Placement(centres, tuple(routes), Size(width, height))


# ---- cycles and ranks


def find_back_links(names: Iterable[str], links: Sequence[Link]) -> set[int]:
    """Return the numbers of the links that close a cycle, by a depth-first search from the first nodes."""
    downs: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    has_upper = set()
    for number, link in enumerate(links):
        downs[link.upper].append((number, link.lower))
        if link.upper != link.lower:
            has_upper.add(link.lower)
    backward: set[int] = set()
    state: dict[str, int] = {}  # 1 while on the path, 2 when finished
    starts = [name for name in downs if name not in has_upper] + [name for name in downs if name in has_upper]
    for start in starts:
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(downs[start]))]
        while stack:
            name, rest = stack[-1]
            for number, lower in rest:
                if state.get(lower) == 1:
                    backward.add(number)
                elif lower not in state:
                    state[lower] = 1
                    stack.append((lower, iter(downs[lower])))
                    break
            else:
                state[name] = 2
                stack.pop()
    return backward


def _ranks(names: list[str], ends: list[tuple[str, str]], span: int, pins: Pins) -> dict[str, int]:
    """Return the layer of each node: the longest path from the top, then sources moved down to their neighbours."""
    downs: dict[str, list[str]] = {name: [] for name in names}
    upper_count = dict.fromkeys(names, 0)
    for upper, lower in ends:
        if upper != lower:
            downs[upper].append(lower)
            upper_count[lower] += 1
    first = span if pins.top else 0  # ports have a layer of their own
    ranks = {name: 0 if name in pins.top else first for name in names}
    waiting = dict(upper_count)
    queue = [name for name in names if not waiting[name]]
    for name in queue:  # grows while it is read: the topological order
        for lower in downs[name]:
            ranks[lower] = max(ranks[lower], ranks[name] + span)
            waiting[lower] -= 1
            if not waiting[lower]:
                queue.append(lower)
    for name in reversed(queue):
        if not upper_count[name] and downs[name] and name not in pins.top:
            ranks[name] = min(ranks[lower] for lower in downs[name]) - span
    last = max((ranks[name] for name in names if name not in pins.bottom), default=0) + 1
    ranks.update(dict.fromkeys(pins.bottom, last))
    return ranks


def _connect(
    link: Link, *, is_back: bool, slots: dict[str, _Slot], ranks: dict[str, int], layers: list[list[_Slot]]
) -> _Chain:
    """Add the virtual slots of a link to the layers between its ends."""
    chain = _Chain(reversed=is_back)
    upper, lower = (link.lower, link.upper) if is_back else (link.upper, link.lower)
    first_offset, last_offset = (
        (link.lower_offset, link.upper_offset) if is_back else (link.upper_offset, link.lower_offset)
    )
    previous, previous_offset = slots[upper], first_offset
    for rank in range(ranks[upper] + 1, ranks[lower]):
        is_label = link.label is not None and rank == ranks[lower] - 1
        slot = _Slot(*(link.label if is_label and link.label else (0.0, 0.0)), is_virtual=True)
        if is_label:
            chain.label = slot
        chain.slots.append((rank, slot))
        layers[rank].append(slot)
        _join(previous, slot, previous_offset, 0.0)
        previous, previous_offset = slot, 0.0
    if upper != lower:
        _join(previous, slots[lower], previous_offset, last_offset)
    return chain


def _join(upper: _Slot, lower: _Slot, upper_offset: float, lower_offset: float) -> None:
    shift = upper_offset - lower_offset
    weight = STRAIGHTNESS[upper.is_virtual + lower.is_virtual]
    upper.downs.append((lower, -shift, weight))
    lower.ups.append((upper, shift, weight))


# ---- order


def _order(layers: list[list[_Slot]]) -> None:
    """Order each layer by the mean position of its neighbours, and keep the order with the fewest crossings."""
    _number(layers)
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        is_down = sweep % 2 == 0
        for layer in layers[1:] if is_down else reversed(layers[:-1]):
            layer.sort(key=_barycentre_up if is_down else _barycentre_down)
            for index, slot in enumerate(layer):
                slot.index = index
        count = _crossings(layers)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    layers[:] = best
    _number(layers)


def _number(layers: list[list[_Slot]]) -> None:
    for layer in layers:
        for index, slot in enumerate(layer):
            slot.index = index


def _barycentre_up(slot: _Slot) -> float:
    return sum(other.index for other, _, _ in slot.ups) / len(slot.ups) if slot.ups else slot.index


def _barycentre_down(slot: _Slot) -> float:
    return sum(other.index for other, _, _ in slot.downs) / len(slot.downs) if slot.downs else slot.index


def _crossings(layers: list[list[_Slot]]) -> int:
    """Count the pairs of links that cross between neighbouring layers."""
    count = 0
    for layer in layers:
        passed: list[int] = []
        for slot in layer:
            targets = sorted(other.index for other, _, _ in slot.downs)
            for target in targets:
                count += len(passed) - bisect_right(passed, target)
            for target in targets:
                insort(passed, target)
    return count


# ---- coordinates


def _align(layers: list[list[_Slot]], gaps: Gaps) -> None:
    """Set the x of each slot: near its neighbours, in order, and without overlap."""
    for layer in layers:
        _place(layer, [0.0] * len(layer), [1.0] * len(layer), gaps)
    passes = min(max(ALIGNMENT_WORK // sum(map(len, layers)), MIN_ALIGNMENTS), MAX_ALIGNMENTS)
    for number in range(passes):
        is_down = number % 2 == 0
        is_last = number >= MIN_ALIGNMENTS // 2
        for layer in layers if is_down else reversed(layers):
            goals, weights = [], []
            for slot in layer:
                neighbours = slot.ups + slot.downs if is_last else slot.ups if is_down else slot.downs
                weight = sum(weight for _, _, weight in neighbours)
                total = sum((other.x + shift) * share for other, shift, share in neighbours)
                goals.append(total / weight if weight else slot.x)
                weights.append(weight or FREE_WEIGHT)
            _place(layer, goals, weights, gaps)


def _straighten(layers: list[list[_Slot]], chains: list[_Chain], gaps: Gaps) -> None:
    """Make long links vertical where there is space, and remove small bends between neighbours."""
    for chain in chains:
        if len(chain.slots) > 1:
            _straighten_chain([(layers[rank], slot) for rank, slot in chain.slots], gaps)
    for layer in layers[1:]:
        for slot in layer:
            if len(slot.ups) == 1:
                upper, shift, _ = slot.ups[0]
                low, high = _bounds(layer, slot, gaps)
                goal = upper.x + shift
                if abs(goal - slot.x) < SMALL_BEND and low <= goal <= high:
                    slot.x = goal


def _straighten_chain(slots: list[tuple[list[_Slot], _Slot]], gaps: Gaps) -> None:
    """Move the slots of a link to a common x, in as few parts as the other nodes allow."""
    part: list[_Slot] = []
    low, high = -INFINITY, INFINITY
    for layer, slot in slots:
        slot_low, slot_high = _bounds(layer, slot, gaps)
        if part and max(low, slot_low) > min(high, slot_high):
            _move(part, low, high)
            part, low, high = [], -INFINITY, INFINITY
        part.append(slot)
        low, high = max(low, slot_low), min(high, slot_high)
    _move(part, low, high)


def _move(part: list[_Slot], low: float, high: float) -> None:
    x = min(max(sum(slot.x for slot in part) / len(part), low), high)
    for slot in part:
        slot.x = x


def _bounds(layer: list[_Slot], slot: _Slot, gaps: Gaps) -> tuple[float, float]:
    """Return the least and the greatest x of a slot between its neighbours in the layer."""
    low, high = -INFINITY, INFINITY
    if slot.index:
        before = layer[slot.index - 1]
        low = before.x + _distance(before, slot, gaps)
    if slot.index + 1 < len(layer):
        after = layer[slot.index + 1]
        high = after.x - _distance(slot, after, gaps)
    return low, high


def _distance(before: _Slot, after: _Slot, gaps: Gaps) -> float:
    """Return the least distance of the centres of two neighbours in a layer."""
    gap = gaps.links if before.is_virtual or after.is_virtual else gaps.nodes
    return (before.width + after.width) / 2 + gap


def _place(layer: list[_Slot], goals: list[float], weights: list[float], gaps: Gaps) -> None:
    """Set the x of the slots of a layer as close to their goals as their order and the gaps allow."""
    starts, start = [], 0.0
    for index, slot in enumerate(layer):
        if index:
            start += _distance(layer[index - 1], slot, gaps)
        starts.append(start)
    blocks: list[list[float]] = []  # mean, weight, number of slots
    for goal, weight, start in zip(goals, weights, starts, strict=True):
        blocks.append([goal - start, weight, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, total, size = blocks.pop()
            other = blocks[-1]
            other[0] = (other[0] * other[1] + mean * total) / (other[1] + total)
            other[1] += total
            other[2] += size
    means = [mean for mean, _, size in blocks for _ in range(round(size))]
    for slot, mean, start in zip(layer, means, starts, strict=True):
        slot.x = mean + start


def _layer_tops(layers: list[list[_Slot]], gaps: Gaps) -> tuple[list[float], float]:
    """Return the upper edge of each layer, and the height of all."""
    tops, top = [], 0.0
    for layer in layers:
        tops.append(top)
        top = snap_up(top + max((slot.height for slot in layer), default=0.0) + gaps.layers)
    return tops, top - gaps.layers


def _shift(layers: list[list[_Slot]]) -> float:
    """Move all slots so that the leftmost edge is at 0, and return the width."""
    for layer in layers:
        for slot in layer:
            slot.x = round(slot.x * GRID) / GRID
    start = min(slot.x - slot.width / 2 for layer in layers for slot in layer)
    end = max(slot.x + slot.width / 2 for layer in layers for slot in layer)
    for layer in layers:
        for slot in layer:
            slot.x -= start
    return end - start


def _points(chain: _Chain, tops: list[float], heights: list[float]) -> tuple[tuple[Point, Point], ...]:
    """Return the way of a link: straight down through each layer of nodes, and across between them."""
    pairs = []
    for rank, slot in chain.slots:
        middle = tops[rank] + heights[rank] / 2
        if slot is chain.label:
            pairs.append(((slot.x, middle), (slot.x, middle)))
        elif heights[rank] > FLAT_LAYER:
            pairs.append(((slot.x, tops[rank]), (slot.x, tops[rank] + heights[rank])))
    return tuple(pairs)


def _label(chain: _Chain, middles: list[float]) -> Point | None:
    """Return the centre of the label of a link."""
    return next(((slot.x, middles[rank]) for rank, slot in chain.slots if slot is chain.label), None)
