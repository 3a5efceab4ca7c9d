"""docs/reference/constraints.md: each constraint with its messages and an example that violates it."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox

from provml import paths
from provml.rdf.namespaces import RDFS, SHAPES
from provml.validation import validate
from provml.validation.results import SEVERITIES

EXAMPLES = Path(__file__).parents[1] / "tests" / "shapes"

INTRODUCTION = """
# Constraints

The hand-written constraints on a recorded run, each with its messages and an example that violates it.
[Validate](../how-to/validate.md) shows how to check a run, a graph or a file.
"""


def validation_page(head: str) -> str:
    """Return the whole page."""
    folder = paths.shapes()
    files = [*sorted(folder.glob("*.ttl")), folder / "generated" / "unknown-term.ttl"]
    parts = [head + INTRODUCTION, "## All constraints\n"]
    constraints = [_constraint(path) for path in files]
    parts.append("\n".join(f"- [{title}](#{_anchor(title)})" for title, _ in constraints) + "\n")
    parts += [text for _, text in constraints]
    return "\n".join(parts)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _constraint(path: Path) -> tuple[str, str]:
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    node = ox.NamedNode(SHAPES + path.stem)
    title, comment = (
        next(iter(store.quads_for_pattern(node, ox.NamedNode(RDFS + name), None))).object.value
        for name in ("label", "comment")
    )
    lines = [f"### {title}\n", f"{comment} (`{path.relative_to(paths.shapes().parent).as_posix()}`)\n"]
    examples: dict[tuple[str, str], Path] = {}
    for example in sorted((EXAMPLES / path.stem).glob("fail-*.ttl")):
        for result in validate(example, only_shapes=path):
            examples.setdefault((result.severity, result.message), example)
    messages = sorted(examples, key=lambda message: (SEVERITIES.index(message[0]), message[1]))
    lines += [f"- {severity}: {text}" for severity, text in messages]
    lines += ["\nA graph that violates it:\n", f"```turtle\n{examples[messages[0]].read_text().strip()}\n```\n"]
    return title, "\n".join(lines)
