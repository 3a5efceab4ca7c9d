"""A provenance graph as an SVG picture in the shapes and colours of W3C's PROV diagrams."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from provml.drawing.compound import Box, Frame, arrange_groups
from provml.drawing.graph import Edge, Graph, Group, Node
from provml.drawing.layout import Link, Point, Route, Size
from provml.drawing.palette import ACTIVITY, AGENT, DARK, ENTITY, INK, LIGHT, Theme
from provml.drawing.svg import HEADING_SIZE, LINE_SIZE, TITLE_SIZE, document, rules
from provml.drawing.text import escape, number, shorten, text_width

LABEL_SIZE = 10.5
"""Font size in pixels of the labels of edges."""
LEADING = 1.35
"""Distance of two lines of text, in parts of the font size."""
MAX_TEXT_WIDTH = 230.0
"""Pixels: the longest line in a node."""
MAX_LABELLED_EDGES = 60
"""With more edges than this, edges have no labels."""
PADDING = 24.0
ARROW_LENGTH, ARROW_WIDTH = 8.0, 6.5
MAX_SPREAD = 14.0
"""Pixels between the ends of two edges at the same side of a node."""
CSS_CLASS = "lineage"
FILLS = {"entity": ENTITY, "activity": ACTIVITY, "agent": AGENT}


@dataclass(frozen=True)
class TextLine:
    """A line of text in a node, with its height above the centre of the node."""

    text: str
    size: float
    dy: float
    css: str = ""

    @property
    def width(self) -> float:
        """The width in pixels."""
        return text_width(self.text, self.size, bold=self.css in ("t", "k"))


@dataclass(frozen=True)
class Shape:
    """A node with its text and its size."""

    node: Node
    lines: tuple[TextLine, ...]
    size: Size


def draw(graph: Graph, link: Callable[[Node], str] | None = None) -> str:
    """Return the SVG document of a graph. With `link`, nodes are links, and a script can follow the edges."""
    shapes = {node.id: _shape(node) for node in graph.nodes}
    has_labels = len(graph.edges) <= MAX_LABELLED_EDGES
    links = [_link(edge, has_labels=has_labels) for edge in graph.edges]
    groups = {group.id: group for group in graph.groups}
    group_of = {node.id: node.group for node in graph.nodes if node.group}
    has_ports = any(group_of.get(edge.later) != group_of.get(edge.earlier) for edge in graph.edges)
    style = SidebarStyle() if has_ports else HeaderStyle()
    placement = arrange_groups(
        {name: shape.size for name, shape in shapes.items()},
        links,
        group_of,
        {name: style.frame(group) for name, group in groups.items()},
    )
    head = _heading(graph)
    legend, legend_width = _legend(graph)
    width = max(placement.size.width, head.width, legend_width) + 2 * PADDING
    top = PADDING + head.height
    left_edge = (width - placement.size.width) / 2
    body = [f'<g transform="translate({number(left_edge)} {number(top)})">']
    body += [_box(groups[name], box) for name, box in placement.boxes.items()]
    ends = _Ends(shapes, placement.centres, graph.edges, placement.routes)
    drawn = list(zip(graph.edges, placement.routes, strict=True))
    numbers = {name: number for number, name in enumerate(shapes)} if link is not None else {}
    body += [_edge(edge, route, ends.of(index), numbers) for index, (edge, route) in enumerate(drawn)]
    if has_labels:
        body += [_label(edge, route) for edge, route in drawn]
    order = sorted(shapes, key=lambda name: (placement.centres[name][1], placement.centres[name][0]))
    body += [_node(shapes[name], placement.centres[name], link, numbers.get(name, 0)) for name in order]
    body += [_group_title(style, groups[name], box) for name, box in placement.boxes.items()]
    body.append("</g>")
    bottom = top + placement.size.height + 22
    body.append(f'<g transform="translate({number(PADDING)} {number(bottom)})">{legend}</g>')
    height = bottom + 22 + PADDING - 6
    return document(
        graph.title, graph.subtitle, Size(width, height), [head.text, *body], style=STYLE, css_class=CSS_CLASS
    )


# ---- style


def _theme_rules(theme: Theme) -> str:
    return rules(
        {
            ".l": f"fill:{theme.muted};stroke:{theme.panel}",
            ".e": f"stroke:{theme.line}",
            ".g": f"fill:{theme.panel};stroke:{theme.line}",
            ".n.s>.q": f"stroke:{theme.accent}",
        },
        CSS_CLASS,
    )


STYLE = (
    rules(
        {
            ".t": f"font-size:{TITLE_SIZE:g}px;font-weight:600",
            ".n text": f"fill:{INK}",
            ".n .k": f"fill:{LIGHT.bad};font-weight:600",
            ".l": f"font-size:{LABEL_SIZE:g}px;paint-order:stroke;stroke-width:4px;stroke-linejoin:round",
            ".e": "fill:none;stroke-width:1.3",
            ".e.r": "stroke-dasharray:5 4",
            ".g": "stroke-width:1;stroke-opacity:.55",
            ".n.s>.q": "stroke-width:3",
            **{f".{kind}>.q": f"fill:{paint.fill};stroke:{paint.line}" for kind, paint in FILLS.items()},
        },
        CSS_CLASS,
    )
    + _theme_rules(LIGHT)
    + f"@media screen and (prefers-color-scheme:dark){{{_theme_rules(DARK)}}}"
)
"""The classes: n node (s: the start) with q its outline, t title in a node, l label, e edge (r: reversed), g group."""


@dataclass(frozen=True)
class Heading:
    """The title of the picture and the lines below it."""

    text: str
    width: float
    height: float


def _heading(graph: Graph) -> Heading:
    if not (graph.title or graph.subtitle or graph.notes):
        return Heading("", 0.0, 0.0)
    title = shorten(graph.title, 760.0, HEADING_SIZE, bold=True, middle=True)
    width = text_width(title, HEADING_SIZE, bold=True)
    parts = [f'<text class="h" x="{PADDING:g}" y="{PADDING + 14:g}">{escape(title)}</text>']
    y = PADDING + 14
    for line in (graph.subtitle, *graph.notes):
        y += 18
        width = max(width, text_width(line, LINE_SIZE))
        parts.append(f'<text class="m w" x="{PADDING:g}" y="{y:g}">{escape(line)}</text>')
    return Heading("\n".join(parts), width, y - PADDING + 22)


def _legend(graph: Graph) -> tuple[str, float]:
    """Return the legend of the kinds of nodes that occur, and its width."""
    meanings = {"entity": "data or model", "activity": "step or stage", "agent": "person"}
    kinds = {node.kind for node in graph.nodes if not node.role}  # the page explains roles
    kinds |= {"agent"} if any(group.agents for group in graph.groups) else set()
    parts, x = [], 0.0
    for kind, meaning in meanings.items():
        if kind not in kinds:
            continue
        parts.append(f'<g class="n {kind}">{_outline(kind, Size(26, 15), (x + 13, 0.0))}</g>')
        parts.append(f'<text class="m w" x="{number(x + 32)}" y="4">{meaning}</text>')
        x += 32 + text_width(meaning, LINE_SIZE) + 20
    if graph.edges:
        text = "points to what a node came from"
        parts.append(f'<path class="e" d="M{number(x)} 0H{number(x + 20)}"/>{_arrow((x + 26, 0.0), (1.0, 0.0))}')
        parts.append(f'<text class="m w" x="{number(x + 33)}" y="4">{text}</text>')
        x += 33 + text_width(text, LINE_SIZE)
    return "".join(parts), x


# ---- nodes


def _shape(node: Node) -> Shape:
    """Return the text and the size of a node."""
    texts = [(shorten(node.title, MAX_TEXT_WIDTH, TITLE_SIZE, bold=True, middle=True), TITLE_SIZE, "t")]
    texts += [(shorten(line, MAX_TEXT_WIDTH, LINE_SIZE, middle=True), LINE_SIZE, "") for line in node.lines]
    if node.alert:
        texts.append((shorten(node.alert, MAX_TEXT_WIDTH, LINE_SIZE, bold=True), LINE_SIZE, "k"))
    height = sum(size * LEADING for _, size, _ in texts)
    y, lines = -height / 2, []
    for text, size, css in texts:
        y += size * LEADING
        lines.append(TextLine(text, size, y - size * 0.36, css))
    width = max(line.width for line in lines)
    if node.kind == "entity":
        return Shape(node, tuple(lines), _ellipse_size(lines, height))
    if node.kind == "agent":
        return Shape(node, tuple(lines), Size(max(width + 24, 60.0), height + 26))
    return Shape(node, tuple(lines), Size(max(width + 28, 96.0), height + 16))


def _ellipse_size(lines: Sequence[TextLine], height: float) -> Size:
    """Return the smallest good ellipse around lines of text."""
    ry = height / 2 * 1.28 + 6
    rx = 48.0
    for line in lines:
        for y in (line.dy - line.size * 0.75, line.dy + line.size * 0.2):
            rx = max(rx, (line.width / 2 + 7) / math.sqrt(max(1 - (y / ry) ** 2, 0.16)))
    return Size(2 * rx, 2 * ry)


def _outline(kind: str, size: Size, centre: Point) -> str:
    (width, height), (x, y) = size, centre
    if kind == "entity":
        return (
            f'<ellipse class="q" cx="{number(x)}" cy="{number(y)}" rx="{number(width / 2)}" ry="{number(height / 2)}"/>'
        )
    x0, x1, y0, y1 = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    if kind == "agent":  # a house
        roof = y0 + min(14.0, height * 0.4)
        path = f"M{number(x)} {number(y0)}L{number(x1)} {number(roof)}V{number(y1)}H{number(x0)}V{number(roof)}Z"
        return f'<path class="q" d="{path}"/>'
    return f'<rect class="q" x="{number(x0)}" y="{number(y0)}" width="{number(width)}" height="{number(height)}"/>'


def _node(shape: Shape, centre: Point, link: Callable[[Node], str] | None, index: int) -> str:
    node, (x, y) = shape.node, centre
    shift = 5.0 if node.kind == "agent" else 0.0
    details = f"<title>{escape(node.details)}</title>" if node.details else ""
    texts = "".join(
        f'<text{_css(line.css)} x="{number(x)}" y="{number(y + line.dy + shift)}">{escape(line.text)}</text>'
        for line in shape.lines
    )
    start = " s" if node.is_start else ""
    shown = f"{details}{_outline(node.kind, shape.size, centre)}{texts}"
    if link is None:
        return f'<g class="n {node.kind}{start}">{shown}</g>'
    role = f" role-{escape(node.role)}" if node.role else ""
    group = f'<g class="n {node.kind}{start}{role}" data-node="{index}">{shown}</g>'
    address = link(node)
    return f'<a href="{escape(address)}">{group}</a>' if address else group


def _css(name: str) -> str:
    return f' class="{name}"' if name else ""


# ---- groups

GROUP_TITLE_WIDTH, SIDEBAR_WIDTH, AGENT_HEIGHT = 290.0, 150.0, 28.0


def _box(group: Group, box: Box) -> str:
    rect = (
        f'<rect class="g" x="{number(box.x)}" y="{number(box.y)}" width="{number(box.width)}" '
        f'height="{number(box.height)}" rx="8"/>'
    )
    return f"<g><title>{escape(group.title)}</title>{rect}</g>"


def _group_title(style: HeaderStyle | SidebarStyle, group: Group, box: Box) -> str:
    title = style.draw(group, box)
    return f'<a href="{escape(group.address)}">{title}</a>' if group.address else title


def _agent(name: str, x: float, y: float) -> str:
    """Return a person of a group as a house whose upper left corner is at x, y."""
    width = _agent_width(name)
    text = escape(shorten(name, 110.0, LINE_SIZE))
    centre = (x + width / 2, y + AGENT_HEIGHT / 2)
    return (
        f'<g class="n agent"><title>{escape(f"{name}: person")}</title>'
        f"{_outline('agent', Size(width, AGENT_HEIGHT), centre)}"
        f'<text x="{number(centre[0])}" y="{number(centre[1] + 10)}">{text}</text></g>'
    )


def _agent_width(name: str) -> float:
    return text_width(shorten(name, 110.0, LINE_SIZE), LINE_SIZE) + 16


class HeaderStyle:
    """The title of a group above its nodes, with its people at the right: for boxes that no edge enters."""

    def _title(self, group: Group) -> str:
        return shorten(group.title, GROUP_TITLE_WIDTH, TITLE_SIZE, bold=True, middle=True)

    def _line(self, group: Group) -> str:
        return shorten(" · ".join(group.lines), GROUP_TITLE_WIDTH, LINE_SIZE)

    def frame(self, group: Group) -> Frame:
        """Return the space that the title needs."""
        title = text_width(f"{self._title(group)} {group.alert}", TITLE_SIZE, bold=True)
        agents = sum(_agent_width(name) + 8 for name in group.agents)
        width = max(title, text_width(self._line(group), LINE_SIZE)) + agents + 44
        return Frame(42.0, 18.0, 16.0, 18.0, Size(width, 0.0))

    def draw(self, group: Group, box: Box) -> str:
        """Return the title of a box."""
        x, y = box.x + 14, box.y + 19
        alert = f' <tspan class="k">{escape(group.alert)}</tspan>' if group.alert else ""
        parts = [
            f'<text class="b" x="{number(x)}" y="{number(y)}">{escape(self._title(group))}{alert}</text>',
            f'<text class="m w" x="{number(x)}" y="{number(y + 15)}">{escape(self._line(group))}</text>',
        ]
        end = box.x + box.width - 10
        for name in reversed(group.agents):
            end -= _agent_width(name)
            parts.append(_agent(name, end, box.y + 8))
            end -= 8
        return "".join(parts)


class SidebarStyle:
    """The title of a group to the left of its nodes: edges enter and leave a box above and below."""

    def _texts(self, group: Group) -> list[tuple[str, str, float]]:
        """Return the lines with their CSS class and font size."""
        texts = [
            (shorten(group.kind, SIDEBAR_WIDTH, LINE_SIZE), "m w", LINE_SIZE),
            (shorten(group.name, SIDEBAR_WIDTH, TITLE_SIZE, bold=True, middle=True), "b", TITLE_SIZE),
        ]
        texts += [(shorten(line, SIDEBAR_WIDTH, LINE_SIZE, middle=True), "m w", LINE_SIZE) for line in group.lines]
        return texts + ([(group.alert, "k w", LINE_SIZE)] if group.alert else [])

    def frame(self, group: Group) -> Frame:
        """Return the space that the title needs."""
        texts = self._texts(group)
        width = max(text_width(text, size, bold=css == "b") for text, css, size in texts)
        width = max(width, *(_agent_width(name) for name in group.agents), 0.0)
        height = 16 * len(texts) + (AGENT_HEIGHT + 6) * len(group.agents) + 28
        return Frame(16.0, 18.0, 16.0, width + 40, Size(0.0, height))

    def draw(self, group: Group, box: Box) -> str:
        """Return the title of a box."""
        x, y = box.x + 14, box.y + 6
        parts = []
        for text, css, _ in self._texts(group):
            y += 16
            parts.append(f'<text class="{css}" x="{number(x)}" y="{number(y)}">{escape(text)}</text>')
        y += 8
        for name in group.agents:
            parts.append(_agent(name, x, y))
            y += AGENT_HEIGHT + 6
        return "".join(parts)


# ---- edges


def _link(edge: Edge, *, has_labels: bool) -> Link:
    label = None
    if has_labels and edge.label:
        label = Size(text_width(_label_text(edge), LABEL_SIZE) + 8, LABEL_SIZE + 5)
    return Link(edge.earlier, edge.later, label)


def _label_text(edge: Edge) -> str:
    return shorten(edge.label, 130.0, LABEL_SIZE, middle=True)


class _Ends:
    """Where edges begin and end: beside each other along the sides of a node, in the order of their other ends."""

    def __init__(
        self,
        shapes: dict[str, Shape],
        centres: dict[str, Point],
        edges: Sequence[Edge],
        routes: Sequence[Route],
    ) -> None:
        self._points: dict[tuple[int, bool], Point] = {}
        sides: dict[tuple[str, bool], list[tuple[float, int]]] = {}
        for index, (edge, route) in enumerate(zip(edges, routes, strict=True)):
            upper, lower = (edge.later, edge.earlier) if route.reversed else (edge.earlier, edge.later)
            first = route.points[0][0][0] if route.points else centres[lower][0]
            last = route.points[-1][1][0] if route.points else centres[upper][0]
            sides.setdefault((upper, True), []).append((first, index))
            sides.setdefault((lower, False), []).append((last, index))
        for (name, is_bottom), ends in sides.items():
            shape, (x, y) = shapes[name], centres[name]
            spread = min(MAX_SPREAD, shape.size.width * 0.6 / len(ends))
            for position, (_, index) in enumerate(sorted(ends)):
                dx = (position - (len(ends) - 1) / 2) * spread
                dy = _border(shape, dx, is_bottom=is_bottom)
                self._points[index, is_bottom] = (x + dx, y + (dy if is_bottom else -dy))

    def of(self, index: int) -> tuple[Point, Point]:
        """Return the upper and the lower end of an edge."""
        return self._points[index, True], self._points[index, False]


def _border(shape: Shape, dx: float, *, is_bottom: bool) -> float:
    """Return the distance from the centre of a node to its upper or lower border, `dx` beside the centre."""
    half_width, half_height = shape.size.width / 2, shape.size.height / 2
    if shape.node.kind == "entity":
        return half_height * math.sqrt(max(1 - (dx / half_width) ** 2, 0.0))
    if shape.node.kind == "agent" and not is_bottom:
        return half_height - min(14.0, shape.size.height * 0.4) * abs(dx) / half_width
    return half_height


def _edge(edge: Edge, route: Route, ends: tuple[Point, Point], numbers: Mapping[str, int]) -> str:
    """Return the curve of an edge with its arrow, which points to the earlier node; `numbers` are those of nodes."""
    if edge.later == edge.earlier:
        return ""
    tip_up = not route.reversed
    tip = ends[0] if tip_up else ends[1]
    base = (tip[0], tip[1] + ARROW_LENGTH if tip_up else tip[1] - ARROW_LENGTH)
    first, last = (base, ends[1]) if tip_up else (ends[0], base)
    css = "e r" if route.reversed else "e"
    role = f" ({edge.label})" if edge.label and edge.label != edge.relation else ""
    title = f"<title>{escape(f'prov:{edge.relation}{role}')}</title>"
    leave = (first[0], max(route.leaves, first[1]))
    enter = (last[0], min(route.enters, last[1]))
    path = _curve([(first, leave), *route.points, (enter, last)])
    nodes = ""
    if numbers:
        nodes = f' class="edge" data-later="{numbers[edge.later]}" data-earlier="{numbers[edge.earlier]}"'
    return f'<g{nodes}>{title}<path class="{css}" d="{path}"/>{_arrow(tip, (0.0, -1.0 if tip_up else 1.0))}</g>'


def _curve(pairs: Sequence[tuple[Point, Point]]) -> str:
    """Return a smooth path through pairs of points: vertical at its ends and between the two points of a pair.

    At a pair of equal points, a label, the path has the direction from the point before to the point after it.
    """
    path = [f"M{number(pairs[0][0][0])} {number(pairs[0][0][1])}"]
    if pairs[0][1] != pairs[0][0]:
        path.append(f"V{number(pairs[0][1][1])}")
    slopes = [0.0, *(_slope(*pairs[index - 1 : index + 2]) for index in range(1, len(pairs) - 1)), 0.0]
    for index in range(1, len(pairs)):
        (x0, y0), (x1, y1) = pairs[index - 1][1], pairs[index][0]
        if abs(x0 - x1) < 0.05 and not slopes[index - 1] and not slopes[index]:
            path.append(f"V{number(pairs[index][1][1])}")
            continue
        reach = (y1 - y0) / 2
        c0 = f"{number(x0 + slopes[index - 1] * reach)} {number(y0 + reach)}"
        c1 = f"{number(x1 - slopes[index] * reach)} {number(y1 - reach)}"
        path.append(f"C{c0} {c1} {number(x1)} {number(y1)}")
        if pairs[index][1] != pairs[index][0]:
            path.append(f"V{number(pairs[index][1][1])}")
    return "".join(path)


def _slope(before: tuple[Point, Point], pair: tuple[Point, Point], after: tuple[Point, Point]) -> float:
    """Return the change of x by y of a curve at a label, so that the curve bends only one way; 0 elsewhere."""
    (x0, y0), (x1, y1), (x2, y2) = before[1], pair[0], after[0]
    if pair[0] != pair[1] or not y0 < y1 < y2 or (x1 - x0) * (x2 - x1) <= 0:
        return 0.0
    slope, limit = (x2 - x0) / (y2 - y0), 2 * min(abs((x1 - x0) / (y1 - y0)), abs((x2 - x1) / (y2 - y1)))
    return max(-limit, min(limit, slope))


def _arrow(tip: Point, direction: Point) -> str:
    (x, y), (dx, dy) = tip, direction
    bx, by = x - dx * ARROW_LENGTH, y - dy * ARROW_LENGTH
    wx, wy = -dy * ARROW_WIDTH / 2, dx * ARROW_WIDTH / 2
    corners = ((x, y), (bx + wx, by + wy), (bx - wx, by - wy))
    return f'<path class="a" d="M{"L".join(f"{number(px)} {number(py)}" for px, py in corners)}Z"/>'


def _label(edge: Edge, route: Route) -> str:
    if route.label is None:
        return ""
    x, y = route.label
    return f'<text class="l" x="{number(x)}" y="{number(y + LABEL_SIZE * 0.36)}">{escape(_label_text(edge))}</text>'
