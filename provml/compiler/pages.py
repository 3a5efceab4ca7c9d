"""A schema as pages for people: a Markdown page for each ontology and a picture of its class tree."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyoxigraph as ox

from provml.compiler.picture import draw
from provml.compiler.python import ModuleWriter, first_sentence, quote
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.source import DCTERMS, RDFS, Source, split


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
        parts = [f"{header}\n# {self.title}", self.summary.strip(), f"In Python: `from {where} import …`."]
        parts.append(f"![The classes of {self.title}]({self.names[self.source]}.svg)")
        if any(cls.side for cls in self.classes):
            parts.append("Light: prospective (what is to be done). Dark: retrospective (what was done).")
        parts += ["## Classes", *(part for cls in self.classes for part in self.class_section(cls))]
        properties = [prop for prop in self.schema.properties.values() if prop.source is self.source]
        properties.sort(key=lambda prop: prop.iri)
        parts += ["## Properties"] if properties else []
        parts += [part for prop in properties for part in self.property_section(prop)]
        individuals = [one for one in self.schema.individuals.values() if one.source is self.source]
        if individuals:
            lines = []
            for one in sorted(individuals, key=lambda x: x.iri):
                words = _line(one.definition or one.label)
                lines.append(f"- `{one.name}` (<{one.iri}>){f': {words}' if words else ''}")
            parts += ["## Individuals", "\n".join(lines)]
        notes = [f"- {_line(note.text)}" for note in self.schema.notes if note.source is self.source]
        parts += ["## What the classes leave to a reasoner", "\n".join(notes)] if notes else []
        return "\n\n".join(part for part in parts if part) + "\n"

    def class_section(self, cls: ClassTerm) -> list[str]:
        parts = [f"### {cls.name}", cls.definition.strip()]
        facts = [f"`{cls.iri}`"]
        if cls.side:
            facts.append(cls.side)
        if cls.deprecated:
            facts.append("**deprecated**")
        if cls.parents:
            facts.append("a " + ", ".join(self.link(x) for x in cls.parents))
        if cls.aliases:
            names = ", ".join(f"`{x}`" for x in cls.aliases)
            facts.append(f"also called {names}, which can be imported and warns")
        if cls.disjoint:
            facts.append("never " + ", ".join(self.link(x) for x in cls.disjoint))
        if cls.matches:
            facts.append("close to " + ", ".join(self.term(x) for x in cls.matches))
        parts.append(" · ".join(facts))
        parts += [self.example(example) for example in cls.examples]
        if cls.own:
            rows = [self.field_row(name, cls.fields[name]) for name in cls.own]
            parts.append("\n".join(["| field | takes | |", "|---|---|---|", *rows]))
        groups = [
            f"from {self.link(iri)}: {', '.join(self.field_name(name, cls.fields[name]) for name in names)}"
            for iri, names in cls.inherited
        ]
        parts += [f"Also has, {'; '.join(groups)}."] if groups else []
        return parts

    def field_name(self, name: str, spec: FieldSpec) -> str:
        return f"`{name}` (**required**)" if spec.required else f"`{name}`"

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
        must = ", **required**" if spec.required else ""
        return f"| `{name}` | {_code(takes)}, {count}{must} | {_cell(spec.prop.definition)} |"

    def property_section(self, prop: PropertyTerm) -> list[str]:
        facts = [f"`{prop.iri}`"]
        if prop.domains:
            facts.append("of " + " and ".join(" or ".join(self.link(x) for x in sorted(m)) for m in prop.domains))
        if prop.ranges:
            facts.append("to " + " and ".join(" or ".join(self.link(x) for x in sorted(m)) for m in prop.ranges))
        elif prop.data.datatype:
            facts.append(f"to `{split(prop.data.datatype)[1]}`")
        if prop.supers:
            facts.append("written with " + ", ".join(self.term(x) for x in prop.supers))
        if prop.inverse:
            facts.append(f"inverse of {self.term(prop.inverse)}, which is written too")
        if prop.deprecated:
            facts.insert(1, "**deprecated**")
        parts = [f"### {split(prop.iri)[1]} (property)", prop.definition.strip(), " · ".join(facts)]
        return parts + [self.example(example) for example in prop.examples]

    def example(self, example: str) -> str:
        """An example as code where it is Turtle, with the prefixes of its file and `ex:`; else as a quotation."""
        if "```" not in example and _is_turtle(example, {"ex": "http://example.org/", **self.source.prefixes}):
            return f"```turtle\n{example.strip()}\n```"
        return "\n".join(f"> {line}".rstrip() for line in f"Example: {example.strip()}".splitlines())

    def term(self, iri: str) -> str:
        """A term as code, with its prefix."""
        namespace, local = split(iri)
        for source in (self.source, *self.schema.sources):
            for name, value in source.prefixes.items():
                if value == namespace and name:
                    return f"`{name}:{local}`"
        return f"`{local if namespace == split(self.source.iri or '')[0] else iri}`"

    def link(self, iri: str) -> str:
        cls = self.schema.classes[self.schema.canonical[iri]]
        if cls.source not in self.schema.targets:
            return f"`{self.short(iri)}`"
        page = "" if cls.source is self.source else f"{self.names[cls.source]}.md"
        return f"[{self.short(iri)}]({page}#{cls.name.lower()})"

    def picture(self) -> str:
        """The class tree as SVG."""
        return draw(self.schema, self.source, self.title, self.short)

    def short(self, iri: str) -> str:
        cls = self.schema.classes[self.schema.canonical[iri]]
        here, there = self.schema.modules[self.source], self.schema.modules[cls.source]
        return cls.name if here == there else f"{there}.{cls.name}"


def title(schema: Schema, source: Source) -> str:
    """What an ontology calls itself, on one line; without that, the end of its IRI, or the name of its file."""
    stated = schema.text(source.iri, DCTERMS + "title", RDFS + "label") if source.iri else ""
    return _line(stated) or split((source.iri or "").rstrip("#/:"))[1] or source.path.stem


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text that may stand in a table."""
    return _line(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Text as code in a table."""
    marks = "``" if "`" in text else "`"
    return f"{marks}{_cell(text)}{marks}"


def _is_turtle(text: str, prefixes: Mapping[str, str]) -> bool:
    """Whether a text says something in Turtle, given some prefixes."""
    known = {name: iri for name, iri in prefixes.items() if re.fullmatch(r"[^<>\"{}|^`\\\s]*", iri)}
    head = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in known.items())
    try:
        return len(list(ox.parse(head + text, ox.RdfFormat.TURTLE))) > 0
    except (SyntaxError, ValueError):
        return False


def index_page(pages: list[PageWriter], header: str) -> str:
    """The page that leads to the others."""
    where = "In Python all of it is in `provml.vocab`, but for ML Schema, which is in `provml.vocab.mls`."
    old = "A name that a page gives as “also called” can be imported from the same places and warns."
    retired = "So can a class that is deprecated, which `import *` leaves out."
    lines = [header, "# The vocabulary", "", f"What can be said, from the general to the particular. {where}", ""]
    lines += [f"{old} {retired}", ""]
    lines += ["| page | classes | properties | |", "|---|---|---|---|"]
    for page in pages:
        count = sum(1 for p in page.schema.properties.values() if p.source is page.source)
        first = first_sentence(page.summary)
        lines.append(f"| [{page.title}]({page.names[page.source]}.md) | {len(page.classes)} | {count} | {first} |")
    return "\n".join(lines) + "\n"
