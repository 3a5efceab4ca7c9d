"""A provenance graph as text: DOT for Graphviz, a Mermaid flowchart, and a tree for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from provml.drawing.graph import Edge, Graph, Node
from provml.drawing.palette import ACTIVITY, AGENT, ENTITY, INK
from provml.drawing.text import ELLIPSIS, INVALID_XML, escape, single_line

SHAPES = {"entity": "ellipse", "activity": "box", "agent": "house"}
PAINTS = {"entity": ENTITY, "activity": ACTIVITY, "agent": AGENT}
MERMAID_SHAPES = {"entity": ('(["', '"])'), "activity": ('["', '"]'), "agent": ('[/"', '"\\]')}


# ---- DOT


def to_dot(graph: Graph) -> str:
    """Return a graph in the language DOT. Arrows point to the past, which is at the top."""
    numbers = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = [
        "digraph lineage {",
        f"  label={_dot_text(graph.title)}; labelloc=t; rankdir=BT;",
        '  node [style=filled, fontname="Helvetica", fontsize=11]; edge [fontname="Helvetica", fontsize=9];',
    ]
    for index, group in enumerate(graph.groups):
        members = [node for node in graph.nodes if node.group == group.id]
        if not members:
            continue
        lines.append(f"  subgraph cluster_{index} {{")
        label = "\n".join(filter(None, (group.title, " · ".join(filter(None, (*group.lines, group.alert))))))
        lines.append(f'    label={_dot_text(label)}; style="rounded,filled"; fillcolor="#f6f8fa"; color="#8c959f";')
        lines += [f"    {_dot_node(node, numbers[node.id])}" for node in members]
        lines += [f"    {line}" for line in _dot_agents(index, group.agents, members, numbers)]
        lines.append("  }")
    lines += [f"  {_dot_node(node, numbers[node.id])}" for node in graph.nodes if not node.group]
    lines += [f"  {_dot_edge(edge, numbers)}" for edge in graph.edges]
    return "\n".join([*lines, "}", ""])


def _dot_node(node: Node, name: str) -> str:
    paint = PAINTS[node.kind]
    label = "\n".join(filter(None, (node.title, *node.lines, node.alert)))
    width = ", penwidth=3" if node.is_start else ""
    return (
        f'{name} [label={_dot_text(label)}, shape={SHAPES[node.kind]}, fillcolor="{paint.fill}", color="{paint.line}", '
        f"tooltip={_dot_text(node.details)}{width}];"
    )


def _dot_agents(index: int, agents: tuple[str, ...], members: list[Node], numbers: dict[str, str]) -> Iterator[str]:
    """Yield the people of a group, each associated with all steps of the group."""
    for number, agent in enumerate(agents):
        node = Node(f"agent {index} {number}", "agent", agent, details="person")
        yield _dot_node(node, f"a{index}_{number}")
        for member in members:
            if member.kind == "activity":
                yield f'{numbers[member.id]} -> a{index}_{number} [color="#8c959f", style=dotted];'


def _dot_edge(edge: Edge, numbers: dict[str, str]) -> str:
    label = f", label={_dot_text(edge.label)}" if edge.label else ""
    return f'{numbers[edge.later]} -> {numbers[edge.earlier]} [tooltip="prov:{edge.relation}"{label}];'


def _dot_text(text: str) -> str:
    text = INVALID_XML.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\r", "").replace("\n", "\\n") + '"'


# ---- Mermaid


def to_mermaid(graph: Graph) -> str:
    """Return a graph as a Mermaid flowchart. Arrows point to the past, which is at the top."""
    numbers = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["---", f"title: {_yaml_text(graph.title)}", "---", "flowchart BT"]
    for index, group in enumerate(graph.groups):
        members = [node for node in graph.nodes if node.group == group.id]
        if not members:
            continue
        lines.append(f'  subgraph g{index}["{_mermaid_text(group.title)}"]')
        lines += [f"    {_mermaid_node(node, numbers[node.id])}" for node in members]
        for number, agent in enumerate(group.agents):
            lines.append(f"    {_mermaid_node(Node('', 'agent', agent), f'a{index}_{number}')}")
            lines += [f"    {numbers[node.id]} -.-> a{index}_{number}" for node in members if node.kind == "activity"]
        lines.append("  end")
    lines += [f"  {_mermaid_node(node, numbers[node.id])}" for node in graph.nodes if not node.group]
    for edge in graph.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        lines.append(f"  {numbers[edge.later]} -->{label} {numbers[edge.earlier]}")
    for kind, paint in PAINTS.items():
        lines.append(f"  classDef {kind} fill:{paint.fill},stroke:{paint.line},color:{INK}")
    starts = [numbers[node.id] for node in graph.nodes if node.is_start]
    if starts:
        lines.append(f"  style {','.join(starts)} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _mermaid_node(node: Node, name: str) -> str:
    start, end = MERMAID_SHAPES[node.kind]
    texts = [f"<b>{_mermaid_text(node.title)}</b>", *map(_mermaid_text, filter(None, (*node.lines, node.alert)))]
    return f"{name}{start}{'<br>'.join(texts)}{end}:::{node.kind}"


def _mermaid_text(text: str) -> str:
    """Return a text inside quotes; Mermaid has its own entities for the characters of its syntax and of Markdown."""
    text = escape(single_line(text)).replace("&#39;", "'")
    for character, entity in (("#", "#35;"), ("&quot;", "#quot;"), ("`", "#96;"), ("&lt;", "#lt;"), ("&gt;", "#gt;")):
        text = text.replace(character, entity)
    return text.replace("&amp;", "#amp;")


def _yaml_text(text: str) -> str:
    text = single_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# ---- tree


def to_tree(graph: Graph, width: int = 80, *, is_forward: bool = False, plain: bool = False) -> str:
    """Return a graph as a tree from the latest nodes to the earliest, or with `is_forward` the other way round.

    A node that occurs twice is described where it is first, and named where it is again.
    """
    tree = _Tree(graph, width, is_forward=is_forward)
    text = "\n".join([_cut(graph.title, width), _cut(graph.subtitle, width), *graph.notes, "", *tree.lines()])
    if not plain:
        return text
    for character, ascii_text in (("├─", "+-"), ("└─", "`-"), ("│", "|"), ("·", "-"), (ELLIPSIS, "..."), ("–", "-")):
        text = text.replace(character, ascii_text)
    return text.encode("ascii", "replace").decode()


class _Tree:
    def __init__(self, graph: Graph, width: int, *, is_forward: bool) -> None:
        self.nodes = {node.id: node for node in graph.nodes}
        self.width = width
        self.groups = {group.id: group for group in graph.groups}
        self.next: dict[str, list[tuple[Edge, str]]] = {}
        self.is_forward = is_forward
        targets = set()
        for edge in graph.edges:
            start, end = (edge.earlier, edge.later) if is_forward else (edge.later, edge.earlier)
            if start != end:
                self.next.setdefault(start, []).append((edge, end))
                targets.add(end)
        starts = [node.id for node in graph.nodes if node.is_start and node.id not in targets]
        others = [node for node in graph.nodes if node.id not in targets and node.id not in starts]
        if not is_forward:
            others.sort(key=lambda node: node.kind != "activity")
            steps = [node for node in others if node.kind == "activity"]
            others = [*reversed(steps), *others[len(steps) :]]  # the latest step first
        self.starts = [*starts, *(node.id for node in others)] or [node.id for node in graph.nodes[:1]]
        self.described: set[str] = set()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the tree. A stack instead of recursion: a chain of runs may be long."""
        for start in self.starts:
            yield from self._subtree(start)

    def _subtree(self, start: str) -> Iterator[str]:
        stack: list[tuple[str, str, str, str]] = [(start, "", "", "")]  # node, relation, own prefix, prefix of children
        while stack:
            name, relation, prefix, below = stack.pop()
            is_again = name in self.described
            yield _cut(prefix + self._describe(name, relation, is_again=is_again), self.width)
            if is_again:
                continue
            self.described.add(name)
            children = self.next.get(name, [])
            for position, (edge, child) in reversed(list(enumerate(children))):
                is_last = position == len(children) - 1
                branch, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
                stack.append((child, self._relation(edge), below + branch, below + rest))

    def _relation(self, edge: Edge) -> str:
        if not self.is_forward:
            return f"{edge.label} "
        return {"used": f"{edge.label} by ", "wasGeneratedBy": "generated ", "wasInformedBy": "informed "}.get(
            edge.relation, f"{edge.label} "
        )

    def _describe(self, name: str, relation: str, *, is_again: bool) -> str:
        node = self.nodes[name]
        if is_again:
            return f"{relation}{node.title} (see above)"
        group = self.groups.get(node.group)
        words = [node.alert, *node.lines]
        if node.kind == "activity" and group is not None and len(self.groups) > 1:
            words.insert(0, group.title)
        return f"{relation}{node.title}" + "".join(f" · {word}" for word in words if word)


def _cut(text: str, width: int) -> str:
    """Return the start of a text that fits into `width` columns of a terminal."""
    columns = 0
    for index, character in enumerate(text):
        wide = unicodedata.east_asian_width(character) in "WF"
        columns += 0 if unicodedata.combining(character) else 2 if wide else 1
        if columns > width:
            return text[: index - 1].rstrip() + ELLIPSIS
    return text
