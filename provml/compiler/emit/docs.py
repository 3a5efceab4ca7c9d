"""Generate Markdown pages of the vocabulary.

The bundled ontologies get one page per class, for the Sphinx site (MyST): `Site`. An ontology of a user gets one page,
which any Markdown viewer shows: `single_page`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyoxigraph as ox

from provml.compiler.emit.python import ModuleWriter, first_sentence, quote
from provml.compiler.emit.svg import draw_tree
from provml.compiler.schema import ClassTerm, FieldSpec, Individual, PropertyTerm, Schema
from provml.compiler.sources import Source, split
from provml.rdf.namespaces import DCTERMS, OWL, RDFS

Href = Callable[[ClassTerm | PropertyTerm], str | None]
"""The address of the section about a term, seen from the current page; None if it has none."""

SIDES_LEGEND = "Light boxes are prospective (what is planned), dark boxes retrospective (what happened)."


class SectionWriter:
    """Writes the sections about the terms of one ontology."""

    def __init__(self, schema: Schema, source: Source, href: Href) -> None:
        self.schema = schema
        self.source = source
        self.href = href
        self.types = ModuleWriter(schema, [source])
        self.classes = sorted((c for _, c in schema.canonical_classes() if c.source is source), key=lambda c: c.iri)
        self.properties = sorted((p for p in schema.properties.values() if p.source is source), key=lambda p: p.iri)

    @property
    def title(self) -> str:
        return title(self.schema, self.source)

    @property
    def summary(self) -> str:
        iri = self.source.iri
        return self.schema.text(iri, DCTERMS + "description", RDFS + "comment").strip() if iri else ""

    # ---- classes

    def class_parts(self, cls: ClassTerm) -> list[str]:
        """Return definition, facts, examples and fields of a class."""
        parts = [cls.definition.strip(), " · ".join(self.class_facts(cls))]
        parts += [self.example(example) for example in cls.examples]
        if cls.own:
            rows = [self.field_row(name, cls.fields[name]) for name in cls.own]
            parts.append("\n".join(["| field | type | definition |", "|---|---|---|", *rows]))
        inherited = [
            f"- from {self.link(iri)}: {', '.join(_field_name(name, cls.fields[name]) for name in names)}"
            for iri, names in self.schema.inherited_fields(cls)
        ]
        return [*parts, "Inherited fields:", "\n".join(inherited)] if inherited else parts

    def class_facts(self, cls: ClassTerm) -> Iterator[str]:
        yield f"`{cls.iri}`"
        if cls.side:
            yield cls.side
        if cls.deprecated:
            yield "**deprecated**"
        if cls.parents:
            yield "subclass of " + ", ".join(self.link(iri) for iri in cls.parents)
        if cls.aliases:
            yield f"deprecated names: {', '.join(f'`{alias}`' for alias in cls.aliases)}"
        if cls.disjoint:
            yield "disjoint with " + ", ".join(self.link(iri) for iri in cls.disjoint)
        if cls.matches:
            yield "similar to " + ", ".join(self.term(iri) for iri in cls.matches)

    def field_row(self, name: str, spec: FieldSpec) -> str:
        if spec.kind != "thing" and spec.data.choices:
            values = f"one of {', '.join(quote(choice) for choice in spec.data.choices)}"
        else:
            values = self.types.value_type(spec, accepted=False).replace(" | IRI", "").replace("|", "or")
        required = ", **required**" if spec.required else ""
        field = _linked(f"`{name}`", self.href(spec.prop))
        return f"| {field} | {_code(values)}, {_count(spec)}{required} | {_cell(spec.prop.definition)} |"

    # ---- properties and individuals

    def property_parts(self, prop: PropertyTerm) -> list[str]:
        """Return definition, facts and examples of a property."""
        facts = " · ".join(self.property_facts(prop))
        return [prop.definition.strip(), facts, *(self.example(example) for example in prop.examples)]

    def property_facts(self, prop: PropertyTerm) -> Iterator[str]:
        yield f"`{prop.iri}`"
        if prop.deprecated:
            yield "**deprecated**"
        if prop.domains:
            yield f"from {self.unions(prop.domains)}"
        if prop.ranges:
            yield f"to {self.unions(prop.ranges)}"
        elif prop.data.datatype:
            yield f"to `{split(prop.data.datatype)[1]}`"
        if prop.super_properties:
            yield "written together with " + ", ".join(self.term(iri) for iri in prop.super_properties)
        if prop.inverse:
            yield f"inverse of {self.term(prop.inverse)}, which is written too"

    def individuals(self) -> str:
        """Return the list of the individuals; empty if there are none."""
        members = [each for each in self.schema.individuals.values() if each.source is self.source]
        return "\n".join(map(_individual, sorted(members, key=lambda each: each.iri)))

    def notes(self) -> str:
        """Return a table of the axioms that Python classes cannot express, by reason; empty if there are none."""
        terms: dict[str, list[str]] = {}
        for note in self.schema.notes:
            if note.source is self.source:
                term, _, reason = _cell(note.text).rpartition(": ")
                terms.setdefault(reason, []).append(term.replace(": ", "."))
        rows = [f"| {', '.join(names)} | {reason} |" for reason, names in terms.items()]
        return "\n".join(["| term | axiom |", "|---|---|", *rows]) if rows else ""

    # ---- names and links

    def example(self, example: str) -> str:
        """Format an example as code if it is Turtle with the prefixes of its file and `ex:`, else as a quote."""
        if "```" not in example and _is_turtle(example, {"ex": "http://example.org/", **self.source.prefixes}):
            return f"```turtle\n{example.strip()}\n```"
        return "\n".join(f"> {line}".rstrip() for line in f"Example: {example.strip()}".splitlines())

    def term(self, iri: str) -> str:
        """Return a term as code with its prefix."""
        return f"`{self.prefixed(iri)}`"

    def prefixed(self, iri: str) -> str:
        namespace, local = split(iri)
        for source in (self.source, *self.schema.sources):
            for name, value in source.prefixes.items():
                if value == namespace and name:
                    return f"{name}:{local}"
        return local if namespace == split(self.source.iri or "")[0] else iri

    def unions(self, unions: Iterable[frozenset[str]]) -> str:
        return " and ".join(" or ".join(self.link(iri) for iri in sorted(names)) for names in unions)

    def link(self, iri: str) -> str:
        cls = self.schema.classes[self.schema.canonical[iri]]
        href = self.href(cls)
        return _linked(self.short(iri) if href else f"`{self.short(iri)}`", href)

    def short(self, iri: str) -> str:
        """Return the name of a class, with its module if that is another one."""
        cls = self.schema.classes[self.schema.canonical[iri]]
        here, there = self.schema.modules[self.source], self.schema.modules[cls.source]
        return cls.name if here == there else f"{there}.{cls.name}"

    def picture(self) -> str:
        """Return the class tree as SVG."""
        return draw_tree(self.schema, self.source, self.title, self.short)


# ---- one page per ontology


def single_page(schema: Schema, source: Source, names: Mapping[Source, str], header: str) -> tuple[str, str]:
    """Return the page and the picture of one ontology; `names` are the file names of the pages."""

    def href(term: ClassTerm | PropertyTerm) -> str | None:
        if isinstance(term, PropertyTerm) or term.source not in schema.targets:
            return None
        page = "" if term.source is source else f"{names[term.source]}.md"
        return f"{page}#{term.name.lower()}"

    writer = SectionWriter(schema, source, href)
    parts = [f"{header}\n# {writer.title}", writer.summary, f"In Python: `from {schema.modules[source]} import …`."]
    parts.append(f"![The classes of {writer.title}]({names[source]}.svg)")
    if any(cls.side for cls in writer.classes):
        parts.append(SIDES_LEGEND)
    parts.append("## Classes")
    for cls in writer.classes:
        parts += [f"### {cls.name}", *writer.class_parts(cls)]
    parts += ["## Properties"] if writer.properties else []
    for prop in writer.properties:
        parts += [f"### {split(prop.iri)[1]} (property)", *writer.property_parts(prop)]
    parts += _section("## Individuals", writer.individuals())
    parts += _section("## Axioms that Python classes do not express", writer.notes())
    return _join(parts), writer.picture()


# ---- one page per class


class Site:
    """Pages of the bundled ontologies: an index, and for each ontology an index, its properties and its classes.

    The pages are MyST Markdown; a link to a property relies on `myst_heading_anchors = 2`.
    """

    def __init__(self, schema: Schema, names: Mapping[Source, str], package: str, header: str) -> None:
        self.schema = schema
        self.names = names
        self.package = package
        self.header = header
        self.writers = [SectionWriter(schema, source, self.href_from(names[source])) for source in names]

    def href_from(self, folder: str) -> Href:
        """Return the addresses of terms seen from a page in the folder of an ontology."""

        def href(term: ClassTerm | PropertyTerm) -> str:
            name = self.names[term.source]
            place = "" if name == folder else f"../{name}/"
            if isinstance(term, ClassTerm):
                return f"{place}{term.name}.md"
            return f"{place}properties.md#{split(term.iri)[1].lower()}"

        return href

    def files(self) -> dict[str, str]:
        """Return all pages and pictures by path below the folder of the vocabulary."""
        files = {"index.md": self.index()}
        for writer in self.writers:
            name = self.names[writer.source]
            files[f"{name}/index.md"] = self.ontology_page(writer)
            files[f"{name}/classes.svg"] = writer.picture()
            for cls in writer.classes:
                files[f"{name}/{cls.name}.md"] = self.class_page(writer, cls)
            if writer.properties:
                files[f"{name}/properties.md"] = self.properties_page(writer)
        return files

    def index(self) -> str:
        """Return the page with the ontologies and a filterable table of all classes."""
        rows = ["| ontology | classes | properties | description |", "|---|---|---|---|"]
        terms = ["| class | side | definition |", "|---|---|---|"]
        for writer in self.writers:
            name = self.names[writer.source]
            counts = f"{len(writer.classes)} | {len(writer.properties)}"
            rows.append(f"| [{writer.title}]({name}/index.md) | {counts} | {_cell(first_sentence(writer.summary))} |")
            for cls in writer.classes:
                definition = _cell(first_sentence(cls.definition))
                terms.append(
                    f"| [{writer.prefixed(cls.iri)}]({name}/{cls.name}.md) | {cls.side or ''} | {definition} |"
                )
        return _join(
            [
                f"{self.header}\n# Vocabulary",
                INTRODUCTION,
                "\n".join(rows),
                "## All classes",
                FILTER_BOX,
                "\n".join(terms),
                _toctree(f"{name}/index" for name in self.names.values()),
            ]
        )

    def ontology_page(self, writer: SectionWriter) -> str:
        module = f"{self.package}.{self.schema.modules[writer.source]}"
        classes = ["| class | side | definition |", "|---|---|---|"]
        for cls in writer.classes:
            definition = _cell(first_sentence(cls.definition))
            classes.append(f"| [{cls.name}]({cls.name}.md) | {cls.side or ''} | {definition} |")
        parts = [f"{self.header}\n# {writer.title}", writer.summary, self.header_facts(writer)]
        parts += [f"In Python: `from {module} import …`.", f"![The classes of {writer.title}](classes.svg)"]
        parts += [SIDES_LEGEND] if any(cls.side for cls in writer.classes) else []
        parts += ["## Classes", "\n".join(classes)]
        parts += ["## Properties", "[All properties](properties.md)"] if writer.properties else []
        parts += _section("## Individuals", writer.individuals())
        parts += _section("## Axioms that Python classes do not express", writer.notes())
        pages = [cls.name for cls in writer.classes] + (["properties"] if writer.properties else [])
        return _join([*parts, _toctree(pages)])

    def header_facts(self, writer: SectionWriter) -> str:
        """Return IRI, version and citations of an ontology."""
        iri = writer.source.iri or ""
        version = self.schema.text(iri, OWL + "versionInfo")
        facts = [f"- IRI: `{iri}`, version {version}"]
        facts += [f"- Source: <{each}>" for each in self.schema.named_objects(iri, DCTERMS + "source")]
        facts += [f"- Citation: {_line(text)}" for text in self.schema.texts(iri, DCTERMS + "bibliographicCitation")]
        return "\n".join(facts)

    def class_page(self, writer: SectionWriter, cls: ClassTerm) -> str:
        parts = [f"{self.header}\n# {writer.prefixed(cls.iri)}", *writer.class_parts(cls)]
        subclasses = sorted(iri for iri, other in self.schema.canonical_classes() if cls.iri in other.parents)
        parts += [f"Subclasses: {', '.join(writer.link(iri) for iri in subclasses)}."] if subclasses else []
        users = [prop for prop in self.schema.properties.values() if any(cls.iri in names for names in prop.ranges)]
        links = [_linked(f"`{writer.prefixed(prop.iri)}`", writer.href(prop)) for prop in users]
        parts += [f"Properties with this range: {', '.join(sorted(links))}."] if links else []
        parts.append(f"In Python: `from {self.package}.{self.schema.modules[cls.source]} import {cls.name}`.")
        return _join(parts)

    def properties_page(self, writer: SectionWriter) -> str:
        parts = [f"{self.header}\n# Properties of {writer.title}"]
        for prop in writer.properties:
            parts += [f"## {split(prop.iri)[1]}", *writer.property_parts(prop)]
        return _join(parts)


INTRODUCTION = """The ontologies of provml, from the general to the particular. All classes are in `provml.vocab`,
except those of ML Schema, which are in `provml.vocab.mls`. Deprecated names and classes can be imported from the same
modules; a deprecated name warns. The w3id.org IRIs are not registered yet: they do not resolve on the web.

![The pattern of plans and executions](../../pictures/plan-execution.svg)"""

FILTER_BOX = """<input id="class-filter" type="search" placeholder="Filter the classes" aria-label="Filter the classes">
<script>
document.getElementById("class-filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  const table = [...document.querySelectorAll("table")].at(-1);
  for (const row of table.querySelectorAll("tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
</script>"""


def _toctree(pages: Iterable[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


# ---- texts


def title(schema: Schema, source: Source) -> str:
    """Return the title of an ontology on one line, else the end of its IRI, else the name of its file."""
    stated = schema.text(source.iri, DCTERMS + "title", RDFS + "label") if source.iri else ""
    return _line(stated) or split((source.iri or "").rstrip("#/:"))[1] or source.path.stem


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(heading: str, text: str) -> list[str]:
    return [heading, text] if text else []


def _individual(individual: Individual) -> str:
    text = _line(individual.definition or individual.label)
    return f"- `{individual.name}` (`{individual.iri}`){f': {text}' if text else ''}"


def _field_name(name: str, spec: FieldSpec) -> str:
    return f"`{name}` (**required**)" if spec.required else f"`{name}`"


def _count(spec: FieldSpec) -> str:
    """Return the allowed number of values in words."""
    minimum, maximum = spec.min_count, spec.upper
    if maximum == 0:
        return "none"
    if minimum and minimum == maximum:
        return "exactly one" if minimum == 1 else f"exactly {minimum}"
    bounds = [f"at least {minimum}"] if minimum else []
    if maximum is not None:
        bounds.append("at most one" if maximum == 1 else f"at most {maximum}")
    return " and ".join(bounds) or "any number"


def _linked(text: str, href: str | None) -> str:
    return f"[{text}]({href})" if href else text


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Return a text for a table cell."""
    return _line(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Return a text as code in a table cell."""
    marks = "``" if "`" in text else "`"
    return f"{marks}{_cell(text)}{marks}"


def _is_turtle(text: str, prefixes: Mapping[str, str]) -> bool:
    """Return whether a text is Turtle with at least one triple, given some prefixes."""
    valid = {name: iri for name, iri in prefixes.items() if re.fullmatch(r"[^<>\"{}|^`\\\s]*", iri)}
    declarations = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in valid.items())
    try:
        return len(list(ox.parse(declarations + text, ox.RdfFormat.TURTLE))) > 0
    except (SyntaxError, ValueError):
        return False
