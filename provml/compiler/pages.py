"""A schema as pages for people: a Markdown page for each ontology and a picture of its class tree."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from provml.compiler.python import ModuleWriter, quote
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.source import DCTERMS, RDFS, Source, split

COLOURS = {"prospective": ("#dbeafe", "#1e3a8a"), "retrospective": ("#1e3a8a", "#ffffff"), None: ("#f1f5f9", "#0f172a")}
ROW, STEP, PAD = 26, 22, 12


class PageWriter:
    """Writes the page and the picture of one ontology."""

    def __init__(self, schema: Schema, source: Source, names: Mapping[Source, str], package: str = "") -> None:
        self.schema = schema
        self.source = source
        self.names = names
        self.package = package
        self.types = ModuleWriter(schema, [source])
        self.classes = sorted((c for _, c in schema.kept() if c.source is source), key=lambda c: c.iri)

    @property
    def title(self) -> str:
        return title(self.schema, self.source)

    @property
    def summary(self) -> str:
        iri = self.source.iri
        return self.schema.text(iri, DCTERMS + "description", RDFS + "comment") if iri else ""

    def text(self, header: str) -> str:
        """The whole page."""
        where = f"{self.package}{self.schema.modules[self.source]}"
        lines = [header, f"# {self.title}", "", self.summary, "", f"In Python: `from {where} import …`.", ""]
        lines += [f"![The classes of {self.title}]({self.names[self.source]}.svg)", ""]
        lines += ["Light: prospective (what is to be done). Dark: retrospective (what was done). Grey: neither.", ""]
        lines += ["## Classes", ""]
        for cls in self.classes:
            lines += self.class_section(cls)
        properties = sorted(
            (p for p in self.schema.properties.values() if p.source is self.source), key=lambda p: p.iri
        )
        lines += ["## Properties", ""]
        for prop in properties:
            lines += self.property_section(prop)
        individuals = [one for one in self.schema.individuals.values() if one.source is self.source]
        if individuals:
            lines += ["## Individuals", ""]
            for one in sorted(individuals, key=lambda x: x.iri):
                lines += [f"- `{one.name}` (<{one.iri}>): {_line(one.definition)}"]
            lines.append("")
        notes = [note for note in self.schema.notes if note.source is self.source]
        if notes:
            lines += ["## What the classes leave to a reasoner", "", *(f"- {_line(note.text)}" for note in notes), ""]
        return "\n".join(lines).rstrip() + "\n"

    def class_section(self, cls: ClassTerm) -> list[str]:
        lines = [f"### {cls.name}", "", cls.definition, ""]
        facts = [f"`{cls.iri}`"]
        if cls.side:
            facts.append(cls.side)
        if cls.deprecated:
            facts.append("**deprecated**")
        if cls.parents:
            facts.append("a " + ", ".join(self.link(x) for x in cls.parents))
        if cls.aliases:
            facts.append("also called " + ", ".join(f"`{x}`" for x in cls.aliases))
        if cls.disjoint:
            facts.append("never " + ", ".join(self.link(x) for x in cls.disjoint))
        if cls.matches:
            facts.append(
                "close to "
                + ", ".join(f"`{split(x)[0].split('/')[-1].rstrip('#')}:{split(x)[1]}`" for x in cls.matches)
            )
        lines += [" · ".join(facts), ""]
        lines += [line for example in cls.examples for line in _example(example)]
        if cls.own:
            lines += ["| field | takes | |", "|---|---|---|"]
            lines += [self.field_row(name, cls.fields[name]) for name in cls.own]
            lines.append("")
        return lines

    def field_row(self, name: str, spec: FieldSpec) -> str:
        least, most = spec.least, spec.upper
        if most == 0:
            count = "none"
        elif least and least == most:
            count = "exactly one" if least == 1 else f"exactly {least}"
        else:
            bounds = [f"at least {least}"] if least else []
            bounds += ["at most one" if most == 1 else f"at most {most}"] if most is not None else []
            count = " and ".join(bounds) or "any number"
        if spec.kind != "thing" and spec.data.choices:
            takes = f"one of {', '.join(quote(choice) for choice in spec.data.choices)}"
        else:
            takes = self.types.value_type(spec, given=False).replace(" | IRI", "").replace("|", "or")
        return f"| `{name}` | {_code(takes)}, {count} | {_cell(spec.prop.definition)} |"

    def property_section(self, prop: PropertyTerm) -> list[str]:
        facts = [f"`{prop.iri}`"]
        if prop.domains:
            facts.append("of " + " and ".join(" or ".join(self.link(x) for x in sorted(m)) for m in prop.domains))
        if prop.ranges:
            facts.append("to " + " and ".join(" or ".join(self.link(x) for x in sorted(m)) for m in prop.ranges))
        elif prop.data.datatype:
            facts.append(f"to `{split(prop.data.datatype)[1]}`")
        if prop.supers:
            facts.append("written with " + ", ".join(f"`{split(x)[1]}`" for x in prop.supers))
        if prop.inverse:
            facts.append(f"inverse of `{split(prop.inverse)[1]}`, which is written too")
        lines = [f"### {split(prop.iri)[1]}", "", prop.definition, "", " · ".join(facts), ""]
        return lines + [line for example in prop.examples for line in _example(example)]

    def link(self, iri: str) -> str:
        cls = self.schema.classes[self.schema.canonical[iri]]
        if cls.source not in self.schema.targets:
            return f"`{self.short(iri)}`"
        page = "" if cls.source is self.source else f"{self.names[cls.source]}.md"
        return f"[{self.short(iri)}]({page}#{cls.name.lower()})"

    def picture(self) -> str:
        """The class tree as SVG: a row a class, children below and to the right of their parent."""
        rows: list[tuple[int, ClassTerm, list[str]]] = []
        inside = {cls.iri for cls in self.classes}
        above = {c.iri: [p for p in c.parents if p in inside] for c in self.classes}
        children: dict[str, list[str]] = {}
        for iri, parents in above.items():
            children.setdefault(parents[0] if parents else "", []).append(iri)

        def place(iri: str, depth: int) -> None:
            cls = self.schema.classes[iri]
            shown = above[iri][0] if above[iri] else ""
            rows.append((depth, cls, [self.short(p) for p in cls.parents if p != shown]))
            for child in sorted(children.get(iri, [])):
                place(child, depth + 1)

        for root in sorted(children.get("", [])):
            place(root, 0)
        boxes: list[str] = []
        lines: list[str] = []
        last: dict[int, int] = {}
        width = 0.0
        for index, (depth, cls, others) in enumerate(rows):
            x, y = PAD + depth * STEP, PAD + index * ROW
            fill, ink = COLOURS[cls.side if cls.side in COLOURS else None]
            wide = 16 + 7.2 * len(cls.name)
            style = ' stroke-dasharray="3 3"' if cls.deprecated else ""
            title = escape(cls.definition)
            boxes.append(
                f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{wide:.1f}" height="20" rx="4" fill="{fill}" '
                f'stroke="#94a3b8"{style}/><text x="{x + 8}" y="{y + 14}" fill="{ink}">{escape(cls.name)}</text></g>'
            )
            right = x + wide
            if others:
                note = f"&lt; {escape(', '.join(others))}"
                boxes.append(f'<text x="{right + 8:.1f}" y="{y + 14}" class="also">{note}</text>')
                right += 8 + 6.2 * (2 + len(", ".join(others)))
            width = max(width, right)
            if depth:
                trunk = PAD + (depth - 1) * STEP + 8
                lines.append(f'<path d="M{trunk} {last[depth - 1] + 20} V{y + 10} H{x}"/>')
            last[depth] = y
        height = PAD * 2 + ROW * len(rows)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + PAD:.0f} {height}" '
            f'width="{width + PAD:.0f}" height="{height}" role="img">\n'
            f"<title>The classes of {escape(self.title)}</title>\n"
            "<style>text{font:12px ui-monospace,Menlo,Consolas,monospace}.also{fill:#64748b;font-size:10.5px}"
            "path{fill:none;stroke:#94a3b8}</style>\n"
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join([*lines, *boxes]) + "\n</svg>\n"
        )

    def short(self, iri: str) -> str:
        cls = self.schema.classes[self.schema.canonical[iri]]
        here, there = self.schema.modules[self.source], self.schema.modules[cls.source]
        return cls.name if here == there else f"{there}.{cls.name}"


def title(schema: Schema, source: Source) -> str:
    """What an ontology calls itself, on one line; without that, the name of its file."""
    stated = schema.text(source.iri, DCTERMS + "title", RDFS + "label") if source.iri else ""
    return _line(stated) or source.path.stem


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text that may stand in a table."""
    return _line(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Text as code in a table."""
    marks = "``" if "`" in text else "`"
    return f"{marks}{_cell(text)}{marks}"


def _example(example: str) -> list[str]:
    """An example as a quotation, or as code where it is Turtle."""
    if ";" in example and ":" in example and example.rstrip().endswith(".") and "```" not in example:
        return ["```turtle", *example.strip().splitlines(), "```", ""]
    return [f"> {line}".rstrip() for line in f"Example: {example}".splitlines()] + [""]


def index_page(pages: list[PageWriter], header: str) -> str:
    """The page that leads to the others."""
    lines = [header, "# The vocabulary", "", "What can be said, from the general to the particular:", ""]
    lines += ["| page | classes | properties | |", "|---|---|---|---|"]
    for page in pages:
        count = sum(1 for p in page.schema.properties.values() if p.source is page.source)
        first = page.summary.split(". ")[0].rstrip(".")
        lines.append(f"| [{page.title}]({page.names[page.source]}.md) | {len(page.classes)} | {count} | {first}. |")
    return "\n".join(lines) + "\n"
