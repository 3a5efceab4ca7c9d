"""Draw SVG pictures: the class tree of an ontology, and the pattern of plans and executions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

from provml.compiler.schema import ClassTerm, Schema
from provml.compiler.sources import Source

ROW, STEP, PAD, HIGH, GAP = 26, 22, 14, 20, 8
"""Pixels: row height, indent of a child, margin, height of a box, gap before a root."""


class Look(NamedTuple):
    """The colours of a box and its meaning in the legend."""

    fill: str
    ink: str
    edge: str
    meaning: str


PROSPECTIVE = Look("#dbeafe", "#1e3a8a", "#93c5fd", "prospective")
RETROSPECTIVE = Look("#1e3a8a", "#ffffff", "#1e3a8a", "retrospective")
OTHER = Look("#ffffff", "#0f172a", "#94a3b8", "other")
FOREIGN = Look("#e2e8f0", "#475569", "#cbd5e1", "of another ontology")
DEPRECATED = Look("#ffffff", "#0f172a", "#94a3b8", "deprecated")
SIDES = {"prospective": PROSPECTIVE, "retrospective": RETROSPECTIVE}

STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".also{fill:#64748b;font-size:10.5px}path{fill:none;stroke:#cbd5e1}"
)


class Row(NamedTuple):
    """A class in the tree: its depth, and its superclasses except the one above it."""

    depth: int
    cls: ClassTerm
    other_parents: tuple[str, ...]


def draw_tree(schema: Schema, source: Source, title: str, short: Callable[[str], str]) -> str:
    """Draw the classes of a source below their superclasses in other ontologies; `short` names a class."""
    rows = list(_rows(schema, source))
    looks = [_look(row.cls, source) for row in rows]
    top, width = PAD, 0.0
    boxes, lines = [], []
    legend = _legend(rows, looks)
    if legend:
        row_of_boxes, width = draw_legend(legend)
        boxes.append(row_of_boxes)
        top += ROW + GAP
    bottoms: dict[int, int] = {}  # lower edge of the last box by depth
    for index, (row, look) in enumerate(zip(rows, looks, strict=True)):
        top += GAP if index and not row.depth else 0
        x = PAD + row.depth * STEP
        box, right = draw_box(x, top, short(row.cls.iri), look, dashed=row.cls.deprecated, hint=row.cls.definition)
        boxes.append(box)
        if row.other_parents:
            text = f"also {', '.join(map(short, row.other_parents))}"
            boxes.append(f'<text x="{right + 8:.1f}" y="{top + 14}" class="also">{escape(text)}</text>')
            right += 8 + 6.4 * len(text)
        if row.depth:
            lines.append(f'<path d="M{x - STEP + 8} {bottoms[row.depth - 1]} V{top + HIGH // 2} H{x}"/>')
        bottoms[row.depth] = top + HIGH
        width = max(width, right)
        top += ROW
    return document(f"The classes of {title}", round(width) + PAD, top - (ROW - HIGH) + PAD, [*lines, *boxes])


def document(title: str, width: int, height: int, elements: list[str]) -> str:
    """Return the SVG document."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def _rows(schema: Schema, source: Source) -> Iterator[Row]:
    """Return the classes in the order of the picture."""
    own = sorted((cls for _, cls in schema.canonical_classes() if cls.source is source), key=lambda cls: cls.iri)
    drawn_below = _choose_parents(schema, own)
    children: dict[str, list[str]] = {}
    for iri, parent in drawn_below.items():
        children.setdefault(parent, []).append(iri)
    foreign = [parent for parent in children if parent and parent not in drawn_below]
    foreign.sort(key=lambda iri: (schema.sources.index(schema.classes[iri].source), iri))

    def subtree(iri: str, depth: int) -> Iterator[Row]:
        cls = schema.classes[iri]
        is_own = iri in drawn_below
        yield Row(depth, cls, tuple(each for each in cls.parents if each != drawn_below[iri]) if is_own else ())
        for child in children.get(iri, []):
            yield from subtree(child, depth + 1)

    for root in [*children.get("", []), *foreign]:
        yield from subtree(root, 0)


def _choose_parents(schema: Schema, classes: list[ClassTerm]) -> dict[str, str]:
    """Return the superclass that each class is drawn below; empty for a root.

    Of several superclasses it is one of the same ontology, else the one with most subclasses, so that related classes
    are drawn together.
    """
    own = {cls.iri for cls in classes}
    counts = Counter(parent for cls in classes for parent in cls.parents)

    def rank(iri: str) -> tuple[int, int, str]:
        return (-counts[iri], -schema.sources.index(schema.classes[iri].source), iri)

    return {
        cls.iri: next((parent for parent in cls.parents if parent in own), min(cls.parents, key=rank, default=""))
        for cls in classes
    }


def _look(cls: ClassTerm, source: Source) -> Look:
    return FOREIGN if cls.source is not source else SIDES.get(cls.side or "", OTHER)


def _legend(rows: list[Row], looks: list[Look]) -> list[Look]:
    """Return the looks to explain: those that occur, if there are several."""
    sides = [look for look in (PROSPECTIVE, RETROSPECTIVE) if look in looks]
    other = [OTHER] if sides and OTHER in looks else []
    foreign = [FOREIGN] if FOREIGN in looks else []
    return sides + other + foreign + ([DEPRECATED] if any(row.cls.deprecated for row in rows) else [])


def draw_legend(legend: list[Look]) -> tuple[str, float]:
    """Return the legend as a row of boxes, and its right edge."""
    boxes, right = [], float(PAD - 10)
    for look in legend:
        box, right = draw_box(right + 10, PAD, look.meaning, look, dashed=look is DEPRECATED)
        boxes.append(box)
    return "\n".join(boxes), right


def draw_box(x: float, y: int, text: str, look: Look, *, dashed: bool = False, hint: str = "") -> tuple[str, float]:
    """Return a box with a text, and its right edge."""
    width = 16 + 7.25 * len(text)
    style = ' stroke-dasharray="3 3"' if dashed else ""
    title = f"<title>{escape(hint)}</title>" if hint else ""
    edge = OTHER.edge if dashed else look.edge
    box = (
        f'<g>{title}<rect x="{x:g}" y="{y}" width="{width:.1f}" height="{HIGH}" rx="4" fill="{look.fill}" '
        f'stroke="{edge}"{style}/><text x="{x + 8:g}" y="{y + 14}" fill="{look.ink}">{escape(text)}</text></g>'
    )
    return box, x + width
