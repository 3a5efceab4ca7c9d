"""Property paths of SHACL, in SPARQL syntax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from provml.validation.results import PATH_SUFFIXES

NOWHERE = "<urn:provml:nowhere>"
"""A predicate that no graph uses. As an alternative in a path it stops Oxigraph from splitting a sequence into joins,
which inside EXISTS it would compute over the whole graph for each node."""


@dataclass(frozen=True)
class Path:
    """A predicate, or a path composed of `parts`; `node` is its term in the shapes graph."""

    kind: str
    parts: tuple[Path, ...]
    node: Any

    @property
    def is_predicate(self) -> bool:
        """Whether the path is a single predicate, followed forwards."""
        return self.kind == "predicate"

    @property
    def is_nullable(self) -> bool:
        """Whether the path matches zero steps, so that a node is its own value."""
        if self.kind in ("zeroOrMorePath", "zeroOrOnePath"):
            return True
        if self.kind in ("sequence", "inversePath", "oneOrMorePath"):
            return all(part.is_nullable for part in self.parts)
        return any(part.is_nullable for part in self.parts)

    @property
    def description(self) -> str:
        """The path as reports show it, with the structure of the shapes graph."""
        if self.kind == "inversePath":
            return f"^{self.parts[0].description}"
        if self.kind in PATH_SUFFIXES:
            return f"({self.parts[0].description}){PATH_SUFFIXES[self.kind]}"
        separator = "/" if self.kind == "sequence" else "|"
        return f"({separator.join(part.description for part in self.parts)})" if self.parts else str(self.node)

    def text(self, *, inverted: bool = False) -> str:
        """Return the path in SPARQL syntax, with inverses moved to the predicates."""
        if self.kind == "predicate":
            return f"^{self.node}" if inverted else str(self.node)
        if self.kind == "inversePath":
            return self.parts[0].text(inverted=not inverted)
        if self.kind in PATH_SUFFIXES:
            return f"({self.parts[0].text(inverted=inverted)}){PATH_SUFFIXES[self.kind]}"
        parts = reversed(self.parts) if inverted and self.kind == "sequence" else self.parts
        separator = "/" if self.kind == "sequence" else "|"
        return f"({separator.join(part.text(inverted=inverted) for part in parts)})"

    @property
    def step(self) -> str:
        """The path in SPARQL syntax, written so that Oxigraph follows it in one step from a bound node."""
        text = self.text()
        return text if self.is_predicate or text.startswith("^") else f"({text}|{NOWHERE})"
