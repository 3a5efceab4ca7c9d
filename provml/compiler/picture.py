"""The class tree of an ontology as a picture: SVG, a row for a class, its subclasses below and to the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

from provml.compiler.schema import ClassTerm, Schema
from provml.compiler.source import Source

ROW, STEP, PAD, HIGH, GAP = 26, 22, 14, 20, 8
"""Pixels: from row to row, from parent to child, around all, of a box, before a root."""


class Look(NamedTuple):
    """The colours of a box, and what the legend says of it."""

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
    """One class in the picture: how deep, and what it is besides a child of the box above it."""

    depth: int
    cls: ClassTerm
    also: tuple[str, ...]


def draw(schema: Schema, source: Source, title: str, short: Callable[[str], str]) -> str:
    """The classes of a source below those of other ontologies that they are subclasses of; `short` names a class."""
    rows = list(_rows(schema, source))
    looks = [_look(row.cls, source) for row in rows]
    top, width = PAD, 0.0
    boxes, lines = [], []
    legend = _legend(rows, looks)
    if legend:
        drawn, width = _draw_legend(legend)
        boxes.append(drawn)
        top += ROW + GAP
    trunks: dict[int, int] = {}
    for index, (row, look) in enumerate(zip(rows, looks, strict=True)):
        top += GAP if index and not row.depth else 0
        x = PAD + row.depth * STEP
        box, right = _box(x, top, short(row.cls.iri), look, dashed=row.cls.deprecated, hint=row.cls.definition)
        boxes.append(box)
        if row.also:
            also = f"also {', '.join(map(short, row.also))}"
            boxes.append(f'<text x="{right + 8:.1f}" y="{top + 14}" class="also">{escape(also)}</text>')
            right += 8 + 6.4 * len(also)
        if row.depth:
            lines.append(f'<path d="M{x - STEP + 8} {trunks[row.depth - 1]} V{top + HIGH // 2} H{x}"/>')
        trunks[row.depth] = top + HIGH
        width = max(width, right)
        top += ROW
    wide, high = round(width) + PAD, top - (ROW - HIGH) + PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'role="img">\n<title>The classes of {escape(title)}</title>\n<style>{STYLE}</style>\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join([*lines, *boxes]) + "\n</svg>\n"
    )


def _rows(schema: Schema, source: Source) -> Iterator[Row]:
    """The classes in the order of the picture.

    A class of several parents stands below one of its own ontology, else below the one that most others stand below,
    so that what belongs together stays together.
    """
    own = sorted((cls for _, cls in schema.kept() if cls.source is source), key=lambda cls: cls.iri)
    inside = {cls.iri for cls in own}
    crowd: dict[str, int] = {}
    for cls in own:
        for parent in cls.parents:
            crowd[parent] = crowd.get(parent, 0) + 1
    shown: dict[str, str] = {}
    for cls in own:
        near = [parent for parent in cls.parents if parent in inside]
        far = sorted(cls.parents, key=lambda iri: (-crowd[iri], -schema.sources.index(schema.classes[iri].source), iri))
        shown[cls.iri] = next(iter(near or far), "")
    children: dict[str, list[str]] = {}
    for iri, parent in shown.items():
        children.setdefault(parent, []).append(iri)
    foreign = [parent for parent in children if parent and parent not in inside]
    foreign.sort(key=lambda iri: (schema.sources.index(schema.classes[iri].source), iri))

    def below(iri: str, depth: int) -> Iterator[Row]:
        cls = schema.classes[iri]
        yield Row(depth, cls, tuple(x for x in cls.parents if x != shown[iri]) if iri in inside else ())
        for child in children.get(iri, []):
            yield from below(child, depth + 1)

    for root in [*children.get("", []), *foreign]:
        yield from below(root, 0)


def _look(cls: ClassTerm, source: Source) -> Look:
    return FOREIGN if cls.source is not source else SIDES.get(cls.side or "", OTHER)


def _legend(rows: list[Row], looks: list[Look]) -> list[Look]:
    """The looks that want a word: those that occur, where a class may look otherwise."""
    sides = [look for look in (PROSPECTIVE, RETROSPECTIVE) if look in looks]
    other = [OTHER] if sides and OTHER in looks else []
    foreign = [FOREIGN] if FOREIGN in looks else []
    return sides + other + foreign + ([DEPRECATED] if any(row.cls.deprecated for row in rows) else [])


def _draw_legend(legend: list[Look]) -> tuple[str, float]:
    """The legend as a row of boxes, and where it ends."""
    drawn, right = [], float(PAD - 10)
    for look in legend:
        box, right = _box(right + 10, PAD, look.meaning, look, dashed=look is DEPRECATED)
        drawn.append(box)
    return "\n".join(drawn), right


def _box(x: float, y: int, text: str, look: Look, *, dashed: bool = False, hint: str = "") -> tuple[str, float]:
    """A box with a text, and where it ends."""
    wide = 16 + 7.25 * len(text)
    style = ' stroke-dasharray="3 3"' if dashed else ""
    title = f"<title>{escape(hint)}</title>" if hint else ""
    edge = OTHER.edge if dashed else look.edge
    box = (
        f'<g>{title}<rect x="{x:g}" y="{y}" width="{wide:.1f}" height="{HIGH}" rx="4" fill="{look.fill}" '
        f'stroke="{edge}"{style}/><text x="{x + 8:g}" y="{y + 14}" fill="{look.ink}">{escape(text)}</text></g>'
    )
    return box, x + wide
