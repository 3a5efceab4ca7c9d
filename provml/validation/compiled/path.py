"""Property paths: from an RDF description to the SPARQL that walks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOWHERE = "<urn:provml:nowhere>"
"""A predicate that no graph has: as an alternative it keeps Oxigraph from taking a sequence apart into joins, which
inside EXISTS it would do anew, over the whole graph, for each node."""

SUFFIX = {"zeroOrMorePath": "*", "oneOrMorePath": "+", "zeroOrOnePath": "?"}


@dataclass(frozen=True)
class Path:
    """A predicate, or what is made of paths; `node` is the term of the shapes graph that describes it."""

    kind: str
    parts: tuple[Path, ...]
    node: Any

    @property
    def is_predicate(self) -> bool:
        """Whether it is one predicate, walked forwards."""
        return self.kind == "predicate"

    @property
    def is_nullable(self) -> bool:
        """Whether it also leads from a node to itself."""
        if self.kind in ("zeroOrMorePath", "zeroOrOnePath"):
            return True
        if self.kind in ("sequence", "inversePath", "oneOrMorePath"):
            return all(part.is_nullable for part in self.parts)
        return any(part.is_nullable for part in self.parts)

    @property
    def told(self) -> str:
        """It as a report tells it, as it was described."""
        if self.kind == "inversePath":
            return f"^{self.parts[0].told}"
        if self.kind in SUFFIX:
            return f"({self.parts[0].told}){SUFFIX[self.kind]}"
        between = "/" if self.kind == "sequence" else "|"
        return f"({between.join(part.told for part in self.parts)})" if self.parts else str(self.node)

    def text(self, *, inverted: bool = False) -> str:
        """It as SPARQL writes it; an inverse stands at the predicates only."""
        if self.kind == "predicate":
            return f"^{self.node}" if inverted else str(self.node)
        if self.kind == "inversePath":
            return self.parts[0].text(inverted=not inverted)
        if self.kind in SUFFIX:
            return f"({self.parts[0].text(inverted=inverted)}){SUFFIX[self.kind]}"
        parts = reversed(self.parts) if inverted and self.kind == "sequence" else self.parts
        between = "/" if self.kind == "sequence" else "|"
        return f"({between.join(part.text(inverted=inverted) for part in parts)})"

    @property
    def step(self) -> str:
        """It as SPARQL that is walked in one step, from a node that is known."""
        text = self.text()
        return text if self.is_predicate or text.startswith("^") else f"({text}|{NOWHERE})"
