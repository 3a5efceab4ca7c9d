"""A schema as SHACL: what domains, ranges, cardinalities and disjointness promise of a graph."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import pyoxigraph as ox

from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.source import RDF, XSD, Source, split
from provml.field import LIMITS

SH = "http://www.w3.org/ns/shacl#"
FACETS = ("minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "minLength", "maxLength")


class ShapeWriter:
    """Writes the shapes of the classes and properties that some sources define."""

    def __init__(self, schema: Schema, sources: Iterable[Source]) -> None:
        self.schema = schema
        self.sources = list(sources)
        self.prefixes = {"sh": SH, "xsd": XSD}
        for source in schema.sources:
            for name, iri in source.prefixes.items():
                known = iri in self.prefixes.values() or name in self.prefixes
                if not known and re.fullmatch(r"[A-Za-z][A-Za-z0-9\-]*", name):
                    self.prefixes[name] = iri
        self.used: set[str] = {"sh"}

    def text(self, header: str) -> str:
        """The whole file."""
        classes = [cls for _, cls in self.schema.kept() if cls.source in self.sources]
        blocks = [block for cls in sorted(classes, key=lambda c: c.iri) for block in self.class_shapes(cls)]
        properties = [prop for prop in self.schema.properties.values() if prop.source in self.sources]
        blocks += [block for prop in sorted(properties, key=lambda p: p.iri) for block in self.subject_shape(prop)]
        lines = [f"@prefix {name}: <{self.prefixes[name]}> .\n" for name in sorted(self.used)]
        return header + "\n" + "".join(lines) + "".join(f"\n{block}\n" for block in blocks)

    def name(self, iri: str) -> str:
        """An IRI, with a prefix where it has one."""
        namespace, local = split(iri)
        for prefix, value in self.prefixes.items():
            if value == namespace and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_\-]*", local):
                self.used.add(prefix)
                return f"{prefix}:{local}"
        return f"<{iri}>"

    def class_shapes(self, cls: ClassTerm) -> Iterator[str]:
        shape = f"{cls.iri}Shape"
        rows = [(f"{shape}-{name}", cls.fields[name]) for name in cls.own]
        rows = [(iri, spec) for iri, spec in rows if self.constraints(spec)]
        apart = [other for other in cls.disjoint if self.order(other) > self.order(cls.iri)]
        if not rows and not apart:
            return
        lines = [f"{self.name(shape)} a sh:NodeShape", f"sh:targetClass {self.name(cls.iri)}"]
        lines += [f"sh:property {self.name(iri)}" for iri, _ in rows]
        yield _block(lines)
        for iri, spec in rows:
            lines = [f"{self.name(iri)} a sh:PropertyShape", f"sh:path {self.name(spec.prop.iri)}"]
            lines += self.constraints(spec)
            lines.append(f"sh:message {_text(self.message(cls, spec))}@en")
            yield _block(lines)
        for other in apart:
            there = self.schema.classes[other]
            lines = [f"{self.name(f'{shape}-not-{there.name}')} a sh:NodeShape", f"sh:targetClass {self.name(cls.iri)}"]
            lines.append(f"sh:not [ sh:class {self.name(other)} ]")
            lines.append(f"sh:message {_text(f'Nothing is both {_a(cls.label)} and {_a(there.label)}.')}@en")
            yield _block(lines)

    def order(self, iri: str) -> tuple[int, str]:
        """Of two classes that exclude each other the first by this order says so; it knows the other."""
        return (-self.schema.sources.index(self.schema.classes[iri].source), iri)

    def subject_shape(self, prop: PropertyTerm) -> Iterator[str]:
        """Whoever has a property belongs to its domain."""
        if not prop.domains:
            return
        lines = [f"{self.name(f'{prop.iri}SubjectShape')} a sh:NodeShape", f"sh:targetSubjectsOf {self.name(prop.iri)}"]
        lines += [self.classes(members) for members in prop.domains]
        who = " and ".join(" or ".join(self.label(x) for x in sorted(members)) for members in prop.domains)
        lines.append(f"sh:message {_text(f'Only {_a(who)} has {_quoted(prop)}.')}@en")
        yield _block(lines)

    def constraints(self, spec: FieldSpec) -> list[str]:
        lines = []
        if spec.least:
            lines.append(f"sh:minCount {spec.least}")
        if spec.upper is not None:
            lines.append(f"sh:maxCount {spec.upper}")
        if spec.prop.is_object:
            lines.append("sh:nodeKind sh:BlankNodeOrIRI")
            lines += [self.classes(members) for members in spec.ranges]
            return lines
        data = spec.data
        if data.choices:
            lines.append(f"sh:in ( {' '.join(_text(choice) for choice in data.choices)} )")
        elif data.kind == "words":
            names = [self.name(datatype) for datatype in (XSD + "string", RDF + "langString")]
            lines.append(f"sh:or ( {' '.join(f'[ sh:datatype {name} ]' for name in names)} )")
        elif data.datatype is not None:
            lines.append(f"sh:datatype {self.name(data.datatype)}")
        else:
            lines.append("sh:nodeKind sh:Literal")
        for facet, bound in data.limits:
            if facet in FACETS:
                lines.append(f"sh:{facet} {self.bound(facet, bound, data.datatype)}")
            elif facet == "length":
                lines += [f"sh:minLength {bound}", f"sh:maxLength {bound}"]
        if data.pattern is not None:
            lines.append(f"sh:pattern {_text(f'^({data.pattern})$')}")
        return lines

    def bound(self, facet: str, bound: float, datatype: str | None) -> str:
        if "Length" in facet or datatype is None or datatype == XSD + "integer":
            return str(bound)
        written = str(bound) if math.isfinite(bound) else str(bound).upper()
        return f'"{written}"^^{self.name(datatype)}'

    def classes(self, members: frozenset[str]) -> str:
        names = [self.name(x) for x in sorted(members)]
        if len(names) == 1:
            return f"sh:class {names[0]}"
        return f"sh:or ( {' '.join(f'[ sh:class {name} ]' for name in names)} )"

    def label(self, iri: str) -> str:
        return self.schema.classes[iri].label if iri in self.schema.classes else split(iri)[1]

    def message(self, cls: ClassTerm, spec: FieldSpec) -> str:
        most = spec.upper
        number = {1: "one"}
        if spec.least and most == spec.least:
            count = f"exactly {number.get(spec.least, spec.least)}"
        elif spec.least:
            count = f"at least {number.get(spec.least, spec.least)}"
        else:
            count = "any number of" if most is None else f"at most {number.get(most, most)}"
        if spec.prop.is_object:
            what = " and ".join(" or ".join(_a(self.label(x)) for x in sorted(m)) for m in spec.ranges) or "a node"
        elif spec.data.choices:
            what = "one of " + ", ".join(spec.data.choices)
        else:
            limits = "".join(f" {LIMITS[facet][0]} {bound}" for facet, bound in spec.data.limits)
            what = f"{_a(split(spec.data.datatype)[1] if spec.data.datatype else 'literal')}{limits}"
        who = _a(cls.label)
        return f"{who[0].upper()}{who[1:]} has {count} {_quoted(spec.prop)}, which is {what}."


def _block(lines: list[str]) -> str:
    return " ;\n    ".join(lines) + " ."


def _text(text: str) -> str:
    return str(ox.Literal(text))


def _a(label: str) -> str:
    return f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}"


def _quoted(prop: PropertyTerm) -> str:
    return f"'{prop.label}'"
