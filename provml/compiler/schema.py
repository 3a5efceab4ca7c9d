"""An ontology as the compiler sees it: classes, properties and individuals, with all that follows from them worked out.

Subclass and sub-property reasoning happens here, once: what a node is written with at run time is a table. Sources come
in two sorts: those being compiled, and those compiled elsewhere that they build on. What a compiled source says of a
class that lives elsewhere cannot change that class's module; it becomes a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyoxigraph as ox

from provml.compiler.expression import (
    ANYTHING,
    DataRange,
    Restriction,
)
from provml.compiler.naming import class_name, constant_name, field_name
from provml.compiler.source import DCTERMS, OWL, RDF, RDFS, SKOS, STANDARD, Node, Source, split
from provml.errors import OntologyError

ANY_SCALAR = DataRange()
PROVLAKE = "https://w3id.org/provlake#"


@dataclass
class Term:
    """What every term has."""

    iri: str
    name: str
    source: Source
    label: str = ""
    definition: str = ""
    examples: tuple[str, ...] = ()
    deprecated: bool = False


@dataclass
class FieldSpec:
    """A property as one class takes it."""

    prop: PropertyTerm
    one: bool
    least: int
    most: int | None
    ranges: tuple[frozenset[str], ...]
    data: DataRange

    @property
    def kind(self) -> str:
        return "thing" if self.prop.is_object else self.data.kind


@dataclass
class ClassTerm(Term):
    """A class: its place in the tree, the types its nodes are written with, and its fields."""

    parents: tuple[str, ...] = ()
    ancestors: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()
    equivalents: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    disjoint: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    side: str | None = None
    restrictions: tuple[Restriction, ...] = ()
    fields: dict[str, FieldSpec] = field(default_factory=dict)
    own: tuple[str, ...] = ()


@dataclass
class PropertyTerm(Term):
    """A property: who may have it, what it takes, and which statements follow from it."""

    is_object: bool = True
    domains: tuple[frozenset[str], ...] = ()
    ranges: tuple[frozenset[str], ...] = ()
    data: DataRange = ANY_SCALAR
    functional: bool = False
    parents: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    supers: tuple[str, ...] = ()
    inverse: str | None = None
    chains: tuple[tuple[str, ...], ...] = ()
    stop: bool = False


@dataclass
class Individual(Term):
    """A named individual and the class that it belongs to."""

    class_iri: str = ""


class Schema:
    """Everything that the generators need to know."""

    def __init__(self, targets: list[Source], imported: Iterable[Source] = ()) -> None:
        self.targets = targets
        self.sources = [*imported, *targets]
        self.notes: list[str] = []
        self.said: dict[Node, dict[str, list[Node]]] = {}
        self.said_in: dict[Source, dict[Node, dict[str, list[Node]]]] = {}
        for source in self.sources:
            for subject, predicate, node in source.triples:
                held = self.said.setdefault(subject, {}).setdefault(predicate, [])
                if node not in held:
                    held.append(node)
        self.classes: dict[str, ClassTerm] = {}
        self.properties: dict[str, PropertyTerm] = {}
        self.individuals: dict[str, Individual] = {}
        self.canonical: dict[str, str] = {}
        self._declare()
        self._check_references()

    # ---- looking things up

    def texts(self, iri: str, *predicates: str) -> list[str]:
        """The literals of some annotations, English first, in a stable order."""
        cell = self.said.get(ox.NamedNode(iri), {})
        found = [node for name in predicates for node in cell.get(name, []) if isinstance(node, ox.Literal)]
        return [
            node.value for node in sorted(found, key=lambda node: ((node.language or "") not in ("en", ""), node.value))
        ]

    def objects(self, iri: str, predicate: str, *, only: Source | None = None) -> list[Node]:
        cell = (only.subjects if only else self.said).get(ox.NamedNode(iri), {})
        return cell.get(predicate, [])

    def note(self, source: Source, iri: str, text: str) -> None:
        """Something that the classes cannot express, and what they do instead."""
        line = source.line_of(iri)
        place = f"{source.path.name}:{line}" if line else source.path.name
        self.notes.append(f"{place}: {split(iri)[1]}: {text}")

    def speakers(self, home: Source) -> list[Source]:
        """The sources whose axioms about a term count: all, or for a term compiled elsewhere only those elsewhere."""
        return self.sources if home in self.targets else [s for s in self.sources if s not in self.targets]

    def axioms(self, term: Term, predicate: str) -> Iterator[Node]:
        seen = set()
        for source in self.speakers(term.source):
            for node in self.objects(term.iri, predicate, only=source):
                if node not in seen:
                    seen.add(node)
                    yield node

    # ---- terms

    def _declare(self) -> None:
        kinds = {
            "Class": ("owl:Class", "rdfs:Class"),
            "object": ("owl:ObjectProperty",),
            "data": ("owl:DatatypeProperty",),
            "rdf": ("rdf:Property",),
        }
        spelled = {"owl": OWL, "rdfs": RDFS, "rdf": RDF}
        wanted = {
            ox.NamedNode(spelled[name.split(":")[0]] + name.split(":")[1]): kind
            for kind, names in kinds.items()
            for name in names
        }
        home: dict[tuple[str, str], Source] = {}
        for source in self.sources:
            for subject, cell in source.subjects.items():
                for node in cell.get(RDF + "type", []):
                    if (
                        isinstance(subject, ox.NamedNode)
                        and isinstance(node, ox.NamedNode)
                        and node in wanted
                        and not subject.value.startswith(STANDARD)
                    ):
                        home.setdefault((wanted[node], subject.value), source)
        by_iri = {source.iri: source for source in self.sources}
        taken: dict[Source, set[str]] = {}
        fields_taken: dict[str, str] = {}
        order = {source: index for index, source in enumerate(self.sources)}
        for (kind, iri), source in sorted(home.items(), key=lambda item: (order[item[1]], item[0][1], item[0][0])):
            for node in self.objects(iri, RDFS + "isDefinedBy"):
                source = by_iri.get(getattr(node, "value", None), source)
            if kind == "rdf" and (("object", iri) in home or ("data", iri) in home):
                continue
            common = {
                "iri": iri,
                "source": source,
                "label": next(iter(self.texts(iri, RDFS + "label", SKOS + "prefLabel")), "") or _words(split(iri)[1]),
                "definition": next(
                    iter(self.texts(iri, SKOS + "definition", RDFS + "comment", DCTERMS + "description")), ""
                ),
                "examples": tuple(self.texts(iri, SKOS + "example")),
                "deprecated": "true" in self.texts(iri, OWL + "deprecated"),
            }
            if kind == "Class":
                name = class_name(split(iri)[1])
                while name in taken.setdefault(source, set()):
                    name = f"{name}_"
                taken[source].add(name)
                side = next(iter(self.texts(iri, PROVLAKE + "side")), None)
                self.classes[iri] = ClassTerm(name=name, side=side, **common)  # type: ignore[arg-type]
            else:
                name = field_name(split(iri)[1])
                if fields_taken.get(name, iri) != iri:
                    name = field_name(f"{self.prefix(iri, source)}_{name}")
                fields_taken[name] = iri
                self.properties[iri] = PropertyTerm(name=name, is_object=kind != "data", **common)  # type: ignore[arg-type]
                if kind == "rdf":
                    self._tell_sort(self.properties[iri])
        if not self.classes and not self.properties:
            file = str(self.targets[0].path)
            raise OntologyError("defines no class and no property", "Declare some with `a owl:Class`.", file=file)

    def _tell_sort(self, prop: PropertyTerm) -> None:
        """An rdf:Property is an object property if its range is a class, else a data property."""
        ranges = [node.value for node in self.objects(prop.iri, RDFS + "range") if isinstance(node, ox.NamedNode)]
        prop.is_object = any(name in self.classes or name in ANYTHING for name in ranges)
        if not ranges:
            self.note(prop.source, prop.iri, "an rdf:Property without a range; it takes any scalar")

    def prefix(self, iri: str, source: Source) -> str:
        """The prefix by which a source calls the namespace of a term."""
        import re

        namespace = split(iri)[0]
        text = source.bytes.decode(errors="replace")
        for name, value in re.findall(r"@?prefix\s+([\w.\-]+):\s*<([^>]*)>", text, re.IGNORECASE):
            if value == namespace:
                return str(name)
        return source.path.stem

    def _check_references(self) -> None:
        """Nothing may build on a term that is defined nowhere."""
        class_places = (
            RDFS + "subClassOf",
            RDFS + "domain",
            OWL + "disjointWith",
            OWL + "someValuesFrom",
            OWL + "onClass",
        )
        property_places = (RDFS + "subPropertyOf", OWL + "inverseOf", OWL + "onProperty", OWL + "equivalentProperty")
        annotations = ox.NamedNode(OWL + "AnnotationProperty")
        for source in self.targets:
            for subject, predicate, node in source.triples:
                if not isinstance(node, ox.NamedNode) or node.value.startswith(STANDARD):
                    continue
                kinds = self.said.get(node, {}).get(RDF + "type", [])
                if predicate in class_places and node.value not in self.classes:
                    if ox.NamedNode(RDFS + "Datatype") in kinds:
                        continue
                    what = "a class"
                elif predicate in property_places and node.value not in self.properties and annotations not in kinds:
                    what = "a property"
                elif predicate == RDFS + "range" and node.value not in self.classes and self._is_object(subject):
                    what = "a class"
                else:
                    continue
                advice = f"Declare it as {what}, or import the ontology that does."
                line = source.line_of(node.value)
                raise OntologyError(
                    f"<{node.value}> is used as {what} but defined nowhere", advice, file=str(source.path), line=line
                )

    def _is_object(self, subject: Node) -> bool:
        return (
            isinstance(subject, ox.NamedNode)
            and subject.value in self.properties
            and self.properties[subject.value].is_object
        )

    # ---- the class tree

    def rank(self, iri: str) -> tuple[int, str]:
        """An order in which every class stands before its superclasses, so that Python can always linearize bases."""
        return (-len(self.classes[iri].ancestors), iri)

    def kept(self) -> Iterator[tuple[str, ClassTerm]]:
        """The classes that stand for themselves (aliases and equivalents stand for another)."""
        for iri, cls in self.classes.items():
            if self.canonical[iri] == iri:
                yield iri, cls

    def within(self, inner: frozenset[str], outer: frozenset[str]) -> bool:
        """Whether every class of one union lies in some class of another."""
        return all(x in self.classes and not self.classes[x].ancestors.isdisjoint(outer) for x in inner)

    def narrowest(self, axioms: list[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """The axioms that do not follow from another one."""
        kept: list[frozenset[str]] = []
        for one in dict.fromkeys(axioms):
            if not any(self.within(other, one) for other in kept):
                kept = [other for other in kept if not self.within(one, other)] + [one]
        return tuple(sorted(kept, key=sorted))

    # ---- individuals

    def declare_individuals(self) -> None:
        named = ox.NamedNode(OWL + "NamedIndividual")
        for source in self.sources:
            for subject, cell in source.subjects.items():
                types = cell.get(RDF + "type", [])
                if not isinstance(subject, ox.NamedNode) or named not in types or subject.value in self.individuals:
                    continue
                inside = [
                    self.canonical[n.value] for n in types if isinstance(n, ox.NamedNode) and n.value in self.canonical
                ]
                if inside and subject.value not in self.classes:
                    iri = subject.value
                    self.individuals[iri] = Individual(
                        iri=iri,
                        name=constant_name(split(iri)[1]),
                        source=source,
                        label=next(iter(self.texts(iri, RDFS + "label")), ""),
                        definition=next(iter(self.texts(iri, SKOS + "definition", RDFS + "comment")), ""),
                        examples=tuple(self.texts(iri, SKOS + "example")),
                        class_iri=min(inside, key=self.rank),
                    )


def _words(name: str) -> str:
    """A label for a term that has none: its local name, in words."""
    import re

    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-]+", " ", name).lower().strip()
