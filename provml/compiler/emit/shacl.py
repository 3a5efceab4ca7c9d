"""Generate SHACL shapes from domains, ranges, cardinalities and disjointness."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import pyoxigraph as ox

from provml.compiler.data_ranges import DataRange, with_derived
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.sources import Source, split
from provml.model.field import LIMITS
from provml.rdf.namespaces import RDF, SH, XSD

LINE_BREAK = "\n" + " " * 8
"""Within the value of a property."""
FACETS = ("minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "minLength", "maxLength")


class ShapeWriter:
    """Writes the shapes of the classes and properties that some sources define.

    With a `namespace`, the shapes are named there by prefix and local name of the term. Without, as for an ontology of
    a user, they are named in the namespace of the term.
    """

    def __init__(self, schema: Schema, sources: Iterable[Source], namespace: str | None = None) -> None:
        self.schema = schema
        self.sources = list(sources)
        self.namespace = namespace
        self.prefixes = {"sh": SH, "xsd": XSD}
        if namespace is not None:
            self.prefixes["shape"] = namespace
        for source in schema.sources:
            for name, iri in source.prefixes.items():
                is_taken = iri in self.prefixes.values() or name in self.prefixes
                if not is_taken and re.fullmatch(r"[A-Za-z][A-Za-z0-9\-]*", name):
                    self.prefixes[name] = iri
        self.used: set[str] = {"sh"}

    def text(self, header: str) -> str:
        """Return the text of the file."""
        classes = [cls for _, cls in self.schema.canonical_classes() if cls.source in self.sources]
        blocks = [block for cls in sorted(classes, key=lambda c: c.iri) for block in self.class_shapes(cls)]
        properties = [prop for prop in self.schema.properties.values() if prop.source in self.sources]
        blocks += [block for prop in sorted(properties, key=lambda p: p.iri) for block in self.subject_shape(prop)]
        lines = [f"@prefix {name}: <{self.prefixes[name]}> .\n" for name in sorted(self.used)]
        return header + "\n" + "".join(lines) + "".join(f"\n{block}\n" for block in blocks)

    # ---- names

    def name(self, iri: str) -> str:
        """Return an IRI in Turtle, with a prefix if there is one."""
        if self.namespace is not None and iri.startswith(self.namespace):
            self.used.add("shape")
            return f"shape:{iri.removeprefix(self.namespace)}"
        namespace, local = split(iri)
        for prefix, value in self.prefixes.items():
            if value == namespace and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_\-]*", local):
                self.used.add(prefix)
                return f"{prefix}:{local}"
        return f"<{iri}>"

    def shape_iri(self, iri: str, suffix: str = "Shape") -> str:
        """Return the IRI of the shape of a term."""
        if self.namespace is None:
            return f"{iri}{suffix}"
        namespace, local = split(iri)
        prefix = next(name for name, value in self.prefixes.items() if value == namespace)
        return f"{self.namespace}{prefix}-{local}{suffix.removesuffix('Shape')}"

    def property_name(self, prop: PropertyTerm) -> str:
        """Return a property in a message: its prefixed name, or its label if it has no prefix."""
        name = self.name(prop.iri)
        return f"'{prop.label}'" if name.startswith("<") else name

    def label(self, iri: str) -> str:
        return self.schema.classes[iri].label if iri in self.schema.classes else split(iri)[1]

    # ---- shapes

    def class_shapes(self, cls: ClassTerm) -> Iterator[str]:
        shape = self.shape_iri(cls.iri)
        rows = [(f"{shape}-{name}", cls.fields[name]) for name in cls.own]
        rows = [(iri, spec) for iri, spec in rows if self.constraints(spec)]
        disjoint = [other for other in cls.disjoint if self.order(other) > self.order(cls.iri)]
        if rows or disjoint:
            lines = [f"{self.name(shape)} a sh:NodeShape", f"sh:targetClass {self.name(cls.iri)}"]
            lines += [f"sh:property {self.name(iri)}" for iri, _ in rows]
            yield _block(lines)
        for iri, spec in rows:
            lines = [f"{self.name(iri)} a sh:PropertyShape", f"sh:path {self.name(spec.prop.iri)}"]
            lines += self.constraints(spec)
            lines.append(f"sh:message {_literal(self.message(cls, spec))}@en")
            yield _block(lines)
        for iri in disjoint:
            other = self.schema.classes[iri]
            lines = [f"{self.name(f'{shape}-not-{other.name}')} a sh:NodeShape", f"sh:targetClass {self.name(cls.iri)}"]
            lines.append(f"sh:not [ sh:class {self.name(iri)} ]")
            lines.append(f"sh:message {_literal(f'{_capital(_a(cls.label))} cannot also be {_a(other.label)}.')}@en")
            yield _block(lines)

    def order(self, iri: str) -> tuple[int, str]:
        """Return a sort key: the first of two disjoint classes by this order has the shape; it imports the other."""
        return (-self.schema.sources.index(self.schema.classes[iri].source), iri)

    def subject_shape(self, prop: PropertyTerm) -> Iterator[str]:
        """Return the shape of a domain: every subject of the property is in it."""
        if not prop.domains:
            return
        shape = self.shape_iri(prop.iri, "-subject" if self.namespace else "SubjectShape")
        lines = [f"{self.name(shape)} a sh:NodeShape", f"sh:targetSubjectsOf {self.name(prop.iri)}"]
        lines += [self.classes(names) for names in prop.domains]
        lines.append(
            f"sh:message {_literal(f'Only {self.one_of(prop.domains)} can have {self.property_name(prop)}.')}@en"
        )
        yield _block(lines)

    def constraints(self, spec: FieldSpec) -> list[str]:
        lines = []
        if spec.min_count:
            lines.append(f"sh:minCount {spec.min_count}")
        if spec.upper is not None:
            lines.append(f"sh:maxCount {spec.upper}")
        if spec.prop.is_object:
            lines.append("sh:nodeKind sh:BlankNodeOrIRI")
            return lines + [self.classes(names) for names in spec.ranges]
        return lines + list(self.data_constraints(spec.data))

    def data_constraints(self, data: DataRange) -> Iterator[str]:
        if data.choices:
            yield f"sh:in ( {' '.join(_literal(choice) for choice in data.choices)} )"
        elif data.kind == "words":
            yield self.datatypes([XSD + "string", RDF + "langString"])
        elif data.datatype is not None:
            yield self.datatypes(with_derived(data.datatype))
        else:
            yield "sh:nodeKind sh:Literal"
        for facet, bound in data.limits:
            if facet in FACETS:
                yield f"sh:{facet} {self.bound(facet, bound, data.datatype)}"
            elif facet == "length":
                yield f"sh:minLength {bound}"
                yield f"sh:maxLength {bound}"
        if data.pattern is not None:
            yield f"sh:pattern {_literal(f'^({data.pattern})$')}"

    def datatypes(self, datatypes: list[str]) -> str:
        if len(datatypes) == 1:
            return f"sh:datatype {self.name(datatypes[0])}"
        alternatives = [f"[ sh:datatype {self.name(datatype)} ]" for datatype in datatypes]
        lines = (" ".join(alternatives[start : start + 3]) for start in range(0, len(alternatives), 3))
        return f"sh:or ( {LINE_BREAK.join(lines)} )"

    def bound(self, facet: str, bound: float, datatype: str | None) -> str:
        if "Length" in facet or datatype is None or datatype == XSD + "integer":
            return str(bound)
        number = str(bound) if math.isfinite(bound) else str(bound).upper()
        return f'"{number}"^^{self.name(datatype)}'

    def classes(self, members: frozenset[str]) -> str:
        names = [self.name(iri) for iri in sorted(members)]
        if len(names) == 1:
            return f"sh:class {names[0]}"
        return f"sh:or ( {' '.join(f'[ sh:class {name} ]' for name in names)} )"

    # ---- messages

    def message(self, cls: ClassTerm, spec: FieldSpec) -> str:
        """Return the message of a property shape: number and class or datatype of the values."""
        count, value = _count(spec), self.value(spec)
        if count is None:
            return f"Each {self.property_name(spec.prop)} of {_a(cls.label)} must be {value}."
        condition = "" if spec.upper == 0 else f", which must be {value}"
        return f"{_capital(_a(cls.label))} {count} {self.property_name(spec.prop)}{condition}."

    def value(self, spec: FieldSpec) -> str:
        if spec.prop.is_object:
            return self.one_of(spec.ranges) or "a node"
        if spec.data.choices:
            return "one of " + ", ".join(spec.data.choices)
        limits = "".join(f" {LIMITS[facet][0]} {bound}" for facet, bound in spec.data.limits)
        return f"{_a(split(spec.data.datatype)[1] if spec.data.datatype else 'literal')}{limits}"

    def one_of(self, unions: Iterable[frozenset[str]]) -> str:
        """Return the classes of an intersection of unions in words."""
        return " and ".join(" or ".join(_a(self.label(iri)) for iri in sorted(names)) for names in unions)


def _count(spec: FieldSpec) -> str | None:
    """Return the number of values in words; None if any number is allowed."""
    minimum, maximum = spec.min_count, spec.upper
    if maximum == 0:
        return "must have no"
    if minimum and maximum == minimum:
        return f"must have exactly {_number(minimum)}"
    if minimum and maximum:
        return f"must have {minimum} to {maximum}"
    if minimum:
        return f"must have at least {_number(minimum)}"
    return None if maximum is None else f"can have at most {_number(maximum)}"


def _number(number: int) -> str:
    return "one" if number == 1 else str(number)


def _block(lines: list[str]) -> str:
    return " ;\n    ".join(lines) + " ."


def _literal(text: str) -> str:
    return str(ox.Literal(text))


def _a(label: str) -> str:
    """Return a label with its indefinite article; data and software have none."""
    if label.rpartition(" ")[2] in ("data", "software"):
        return label
    has_vowel = re.match(r"(?!uni|us[aei]|eu|one)[aeiou]", label, re.IGNORECASE)
    return f"{'an' if has_vowel else 'a'} {label}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
