"""Shapes as they are read: what they are for, what they ask, and what they say when it does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provml.validation.compiled.path import Path

SH = "http://www.w3.org/ns/shacl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"


@dataclass(frozen=True)
class Targets:
    """The nodes that a shape is for."""

    nodes: tuple[Any, ...] = ()
    classes: tuple[Any, ...] = ()
    subjects_of: tuple[Any, ...] = ()
    objects_of: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.classes or self.subjects_of or self.objects_of)


@dataclass(frozen=True)
class Query:
    """SPARQL that a shapes graph brings: its text with prefixes, and the values that are bound in it beforehand."""

    text: str
    is_ask: bool
    bound: Mapping[str, Any]


@dataclass(frozen=True)
class Constraint:
    """One thing that a shape asks: `name` is the SHACL parameter, `value` what it was given."""

    name: str
    component: str
    value: Any
    also: Any = None
    query: Query | None = None
    messages: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Shape:
    """A node shape, or a property shape where it has a path. Other shapes are referred to by their nodes."""

    node: Any
    path: Path | None
    targets: Targets
    constraints: tuple[Constraint, ...]
    properties: tuple[Any, ...]
    severity: str
    messages: tuple[Any, ...]
    is_deactivated: bool
    file: str

    def named(self) -> str:
        """It as an error names it."""
        text = str(self.node)
        if text.startswith("_:") and self.path is not None:
            return f"the property shape for {self.path.text()}"
        return "a shape without a name" if text.startswith("_:") else text


@dataclass(frozen=True)
class Shapes:
    """Shapes that were read and checked, ready to validate any number of stores.

    `handed_over` names the shapes that this engine leaves to pySHACL, each with the reason. `graph` has what the files
    say about each node: a report has to describe those without a name.
    """

    shapes: Mapping[Any, Shape]
    files: tuple[str, ...] = ()
    handed_over: Mapping[Any, str] = field(default_factory=dict)
    graph: Mapping[Any, Mapping[str, list[Any]]] = field(default_factory=dict)

    @property
    def targeted(self) -> list[Shape]:
        """The shapes that are for some nodes, in the order of their names."""
        shapes = [shape for shape in self.shapes.values() if shape.targets and not shape.is_deactivated]
        return sorted(shapes, key=lambda shape: (shape.file, str(shape.node)))
