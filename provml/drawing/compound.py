"""Layout of a graph whose nodes are in groups: each group is laid out by itself, then the groups as nodes of a graph.

A link that leaves its group passes through a port on the upper or lower edge of the group's box, so it is routed around
the nodes of the group like any other link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provml.drawing.layout import Gaps, Link, Pins, Placement, Point, Route, Size, arrange, find_back_links, snap_up

BOX_GAPS = Gaps(nodes=32.0, links=14.0, layers=34.0)
"""Distances between boxes of groups."""


EMPTY_ROUTE = Route((), 0.0, 0.0)
"""Route of a link from a node to itself, which is not drawn."""


@dataclass(frozen=True)
class Frame:
    """The space around the nodes of a group in its box, and the least size of the box, in pixels."""

    top: float
    right: float
    bottom: float
    start: float
    least: Size


@dataclass(frozen=True)
class Box:
    """The rectangle of a group."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class CompoundPlacement:
    """Centres of the nodes, routes of the links in their order, boxes of the groups, and the size of the whole."""

    centres: dict[str, Point]
    routes: tuple[Route, ...]
    boxes: dict[str, Box]
    size: Size


def arrange_groups(
    sizes: Mapping[str, Size],
    links: Sequence[Link],
    group_of: Mapping[str, str],
    frames: Mapping[str, Frame],
) -> CompoundPlacement:
    """Return the places of nodes, links and groups. A node without a group stands among the boxes."""
    return _Compound(sizes, links, group_of, frames).arrange()


class _Compound:
    def __init__(
        self,
        sizes: Mapping[str, Size],
        links: Sequence[Link],
        group_of: Mapping[str, str],
        frames: Mapping[str, Frame],
    ) -> None:
        self.sizes = sizes
        self.links = links
        self.frames = frames
        self.owner = {name: group_of.get(name) or name for name in sizes}
        """The group of each node, or the node itself if it has none."""
        self.groups = {owner for name, owner in self.owner.items() if owner != name}
        self.outer = [number for number, link in enumerate(links) if self._owners(link)[0] != self._owners(link)[1]]
        names = dict.fromkeys(self.owner.values())
        owners = [Link(*self._owners(links[number])) for number in self.outer]
        backward = find_back_links(names, owners)
        self.backward = {self.outer[number] for number in backward}

    def _owners(self, link: Link) -> tuple[str, str]:
        return self.owner[link.upper], self.owner[link.lower]

    def arrange(self) -> CompoundPlacement:
        """Return the places of everything."""
        owners = dict.fromkeys(self.owner.values())
        inner = {owner: self._arrange_inside(owner) for owner in owners if owner in self.groups}
        outer_sizes: dict[str, Size] = {}
        for name, owner in self.owner.items():
            outer_sizes[owner] = self._box_size(owner, inner[owner][0]) if owner in inner else self.sizes[name]
        outer_links = [self._outer_link(number, inner, outer_sizes) for number in self.outer]
        outer = arrange(outer_sizes, outer_links, gaps=BOX_GAPS, is_centred=False)
        boxes = {
            group: Box(x - outer_sizes[group].width / 2, y - outer_sizes[group].height / 2, *outer_sizes[group])
            for group, (x, y) in outer.centres.items()
            if group in self.groups
        }
        origins = {group: self._origin(group, box, inner[group][0]) for group, box in boxes.items()}
        centres = dict(outer.centres)
        for group, (placement, _) in inner.items():
            ox, oy = origins[group]
            del centres[group]
            centres.update({name: (x + ox, y + oy) for name, (x, y) in placement.centres.items() if name in self.sizes})
        return CompoundPlacement(centres, tuple(self._routes(inner, origins, outer)), boxes, outer.size)

    # ---- inside a group

    def _arrange_inside(self, group: str) -> tuple[Placement, dict[int, int]]:
        """Return the places in a group, and which of its links belongs to each link of the graph."""
        sizes = {name: self.sizes[name] for name, owner in self.owner.items() if owner == group}
        links: list[Link] = []
        numbers: dict[int, int] = {}
        tops: list[str] = []
        bottoms: list[str] = []
        for number, link in enumerate(self.links):
            owners = self._owners(link)
            if group not in owners:
                continue
            numbers[number] = len(links)
            if owners[0] == owners[1]:
                links.append(link)
                continue
            port = f"port {number}"
            sizes[port] = Size(0.0, 0.0)
            is_upper = (owners[0] == group) != (number in self.backward)
            node = link.upper if owners[0] == group else link.lower
            label = link.label if owners[1] == group else None  # the label is beside the lower, later end
            (bottoms if is_upper else tops).append(port)
            links.append(Link(node, port, label) if is_upper else Link(port, node, label))
        pins = Pins(frozenset(tops), frozenset(bottoms))
        return arrange(sizes, links, pins=pins), numbers

    def _box_size(self, group: str, placement: Placement) -> Size:
        frame = self.frames[group]
        return Size(
            snap_up(max(placement.size.width + frame.start + frame.right, frame.least.width)),
            snap_up(max(placement.size.height + frame.top + frame.bottom, frame.least.height)),
        )

    def _origin(self, group: str, box: Box, placement: Placement) -> Point:
        frame = self.frames[group]
        space = box.width - frame.start - frame.right - placement.size.width
        return box.x + frame.start + space / 2, box.y + frame.top

    # ---- between the groups

    def _outer_link(
        self, number: int, inner: Mapping[str, tuple[Placement, dict[int, int]]], sizes: Mapping[str, Size]
    ) -> Link:
        link = self.links[number]
        upper, lower = self._owners(link)
        offsets = []
        for owner in (upper, lower):
            if owner not in inner:
                offsets.append(0.0)
                continue
            placement, size = inner[owner][0], sizes[owner]
            origin = self._origin(owner, Box(-size.width / 2, 0.0, *size), placement)
            offsets.append(origin[0] + placement.centres[f"port {number}"][0])
        return Link(upper, lower, link.label if lower not in inner else None, *offsets)

    def _routes(
        self,
        inner: Mapping[str, tuple[Placement, dict[int, int]]],
        origins: Mapping[str, Point],
        outer: Placement,
    ) -> list[Route]:
        """Return the whole way of each link, from its upper to its lower end in the picture."""
        routes = []
        positions = {number: index for index, number in enumerate(self.outer)}
        for number, link in enumerate(self.links):
            owners = self._owners(link)
            parts = {owner: self._inner_route(owner, number, inner, origins) for owner in owners if owner in inner}
            if number not in positions:
                routes.append(parts[owners[0]] if parts else EMPTY_ROUTE)
                continue
            middle = outer.routes[positions[number]]
            first, last = reversed(owners) if number in self.backward else owners
            points, label, leaves, enters = list(middle.points), middle.label, middle.leaves, middle.enters
            if first in parts:
                x, y = self._port(first, number, inner, origins)
                points = [*parts[first].points, ((x, y), (x, leaves)), *points]
                label, leaves = parts[first].label or label, parts[first].leaves
            if last in parts:
                x, y = self._port(last, number, inner, origins)
                points = [*points, ((x, enters), (x, y)), *parts[last].points]
                label, enters = parts[last].label or label, parts[last].enters
            routes.append(Route(tuple(points), leaves, enters, label, number in self.backward))
        return routes

    def _inner_route(
        self,
        owner: str,
        number: int,
        inner: Mapping[str, tuple[Placement, dict[int, int]]],
        origins: Mapping[str, Point],
    ) -> Route:
        placement, numbers = inner[owner]
        route = placement.routes[numbers[number]]
        ox, oy = origins[owner]
        label = route.label and (route.label[0] + ox, route.label[1] + oy)
        points = tuple(((x0 + ox, y0 + oy), (x1 + ox, y1 + oy)) for (x0, y0), (x1, y1) in route.points)
        return Route(points, route.leaves + oy, route.enters + oy, label, route.reversed)

    def _port(
        self,
        owner: str,
        number: int,
        inner: Mapping[str, tuple[Placement, dict[int, int]]],
        origins: Mapping[str, Point],
    ) -> Point:
        x, y = inner[owner][0].centres[f"port {number}"]
        return x + origins[owner][0], y + origins[owner][1]
