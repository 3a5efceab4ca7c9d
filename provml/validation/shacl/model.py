"""Shapes as data: their targets, their constraints and their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from provml.validation.datatypes import preserve
from provml.validation.shacl.path import Path


@dataclass(frozen=True)
class Targets:
    """The declarations that select the focus nodes of a shape; `queries` are SELECT queries without prefixes."""

    nodes: tuple[Any, ...] = ()
    classes: tuple[Any, ...] = ()
    subjects_of: tuple[Any, ...] = ()
    objects_of: tuple[Any, ...] = ()
    queries: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.classes or self.subjects_of or self.objects_of or self.queries)


@dataclass(frozen=True)
class Query:
    """A SPARQL query of the shapes graph: its text with prefixes, and the values of its pre-bound variables."""

    text: str
    is_ask: bool
    bindings: Mapping[str, Any]


@dataclass(frozen=True)
class Constraint:
    """A constraint of a shape: the SHACL parameter `name` with its `value`, and further parameters in `extra`."""

    name: str
    component: str
    value: Any
    extra: Any = None
    query: Query | None = None
    messages: tuple[Any, ...] = ()

    @property
    def is_ask(self) -> bool:
        """Whether the constraint is an ASK query, which is evaluated for each value."""
        return self.query is not None and self.query.is_ask


@dataclass(frozen=True)
class Shape:
    """A node shape, or a property shape if it has a path. Other shapes are referred to by their nodes."""

    node: Any
    path: Path | None
    targets: Targets
    constraints: tuple[Constraint, ...]
    properties: tuple[Any, ...]
    severity: str
    messages: tuple[Any, ...]
    is_deactivated: bool
    file: str

    @property
    def display_name(self) -> str:
        """The name of the shape in messages."""
        text = str(self.node)
        if text.startswith("_:") and self.path is not None:
            return f"the property shape for {self.path.text()}"
        return "an unnamed shape" if text.startswith("_:") else text


@dataclass(frozen=True)
class Rule:
    """A rule that adds triples: either `triple` with its three node expressions, or `construct` with its query.

    A node expression is a term, None for the focus node, or a path from it. The focus nodes are those of `shape` that
    conform to all `conditions`.
    """

    shape: Shape
    order: tuple[float, float, str]
    conditions: tuple[Any, ...] = ()
    triple: tuple[Any, ...] = ()
    construct: Query | None = None


@dataclass(frozen=True)
class Shapes:
    """Parsed and checked shapes, ready to validate any number of stores.

    `delegated` maps the shapes that this engine passes to pySHACL to the reason. `graph` has all statements of the
    files by subject and predicate, which reports need to describe unnamed shapes. `functions` are those that the files
    define for queries, `rules` add triples before the validation, `notes` say what was assumed,
    `line_of` finds the line of a shape in its file.
    """

    shapes: Mapping[Any, Shape]
    files: tuple[str, ...] = ()
    delegated: Mapping[Any, str] = field(default_factory=dict)
    graph: Mapping[Any, Mapping[str, list[Any]]] = field(default_factory=dict)
    functions: frozenset[Any] = frozenset()
    rules: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    line_of: Callable[[Any], int | None] = lambda node: None

    @property
    def has_preserved_targets(self) -> bool:
        """Whether a target node is a literal whose datatype Oxigraph would change."""
        nodes = (node for shape in self.shapes.values() for node in shape.targets.nodes)
        return any(preserve(node) is not node for node in nodes)

    @property
    def targeted(self) -> list[Shape]:
        """The active shapes with targets, by file and name."""
        shapes = [shape for shape in self.shapes.values() if shape.targets and not shape.is_deactivated]
        return sorted(shapes, key=lambda shape: (shape.file, str(shape.node)))
