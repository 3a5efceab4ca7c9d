"""A provenance graph to draw: nodes of the three kinds of PROV, edges to the past, and groups of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeKind = Literal["entity", "activity", "agent"]


@dataclass(frozen=True)
class Node:
    """A node with a title and further lines of text.

    `details` is the text that a pointer shows. `iris` are the things that the node stands for; `role` is
    a further CSS class of it. `alert` is a line about a failure. `is_start` marks the node that the
    picture is about.
    """

    id: str
    kind: NodeKind
    title: str
    lines: tuple[str, ...] = ()
    details: str = ""
    alert: str = ""
    group: str = ""
    is_start: bool = False
    iris: tuple[str, ...] = ()
    role: str = ""


@dataclass(frozen=True)
class Edge:
    """An edge from a later node to an earlier one. `relation` is the term of PROV: used, wasGeneratedBy."""

    later: str
    earlier: str
    relation: str
    label: str = ""


@dataclass(frozen=True)
class Group:
    """Nodes in a box, such as those of a run; `agents` are the people that the whole box is associated with.

    `iris` are the things that the box stands for, and `address` is where its title leads to.
    """

    id: str
    kind: str
    name: str
    lines: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    alert: str = ""
    iris: tuple[str, ...] = ()
    address: str = ""

    @property
    def title(self) -> str:
        """Kind and name: run monday."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Graph:
    """Nodes, edges and groups with a title; `notes` say what the picture leaves out."""

    title: str
    subtitle: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
