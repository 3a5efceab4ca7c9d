"""An ontology as the compiler sees it: classes, properties and individuals, with all that follows from them worked out.

Subclass and sub-property reasoning happens before things are written, once: what a node is written with at run time is
a table. Sources come in two sorts: those being compiled, and those compiled elsewhere that they build on. What a
compiled source says of a term that lives elsewhere cannot change the module there; it becomes a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyoxigraph as ox

from provml.compiler.datarange import ANY_SCALAR, DataRange
from provml.compiler.expression import ANYTHING, Restriction, union
from provml.compiler.source import OWL, RDF, Node, Source, split

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")


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
    required: bool

    @property
    def kind(self) -> str:
        return "thing" if self.prop.is_object else self.data.kind

    @property
    def upper(self) -> int | None:
        """How many values there may be."""
        return 1 if self.one else self.most

    @property
    def impossible(self) -> bool:
        """Whether more values are asked for than there may be."""
        return self.upper is not None and self.least > self.upper


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
    stated: tuple[Restriction, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    fields: dict[str, FieldSpec] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    inherited: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The classes above that state its other fields, nearest first, and which."""


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
    stop: bool = False


@dataclass
class Individual(Term):
    """A named individual and the class that it belongs to."""

    class_iri: str = ""


@dataclass(frozen=True)
class Note:
    """Something that the classes cannot express, and what they do instead."""

    source: Source
    line: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.source.path.name}{f':{self.line}' if self.line else ''}: {self.text}"


class Schema:
    """Everything that the generators need to know; `modules` says in which module the terms of a source live."""

    def __init__(self, targets: list[Source], imported: list[Source], modules: Mapping[Source, str]) -> None:
        self.targets = targets
        self.sources = [*imported, *targets]
        self.modules = modules
        self.notes: list[Note] = []
        self.said: dict[Node, dict[str, list[Node]]] = {}
        for source in self.sources:
            for subject, predicate, node in source.triples:
                held = self.said.setdefault(subject, {}).setdefault(predicate, [])
                if node not in held:
                    held.append(node)
        self.classes: dict[str, ClassTerm] = {}
        self.properties: dict[str, PropertyTerm] = {}
        self.individuals: dict[str, Individual] = {}
        self.canonical: dict[str, str] = {}

    # ---- looking things up

    def texts(self, iri: str, *predicates: str) -> list[str]:
        """The literals of some annotations: English first, then by the order of the predicates, then by the alphabet.

        Line ends are brought to one form, and control characters, which neither Python nor XML allows, are left out.
        """
        cell = self.said.get(ox.NamedNode(iri), {})
        found = [
            ((node.language or "en") != "en", place, _CONTROL.sub("", re.sub(r"\r\n?", "\n", node.value)))
            for place, name in enumerate(predicates)
            for node in cell.get(name, [])
            if isinstance(node, ox.Literal)
        ]
        return [text for *_, text in sorted(found)]

    def text(self, iri: str, *predicates: str) -> str:
        """The first of those literals, or nothing."""
        return next(iter(self.texts(iri, *predicates)), "")

    def objects(self, iri: str, predicate: str) -> list[Node]:
        return self.said.get(ox.NamedNode(iri), {}).get(predicate, [])

    def types(self, node: Node) -> set[str]:
        return {x.value for x in self.said.get(node, {}).get(RDF + "type", []) if isinstance(x, ox.NamedNode)}

    def axioms(self, term: Term, predicate: str) -> Iterator[Node]:
        """What counts as said of a term: all, or for a term compiled elsewhere only what is said elsewhere."""
        mine = term.source in self.targets
        speakers = [source for source in self.sources if mine or source not in self.targets]
        cells = [source.subjects.get(ox.NamedNode(term.iri), {}) for source in speakers]
        yield from dict.fromkeys(node for cell in cells for node in cell.get(predicate, []))

    def note(self, source: Source, iri: str, text: str) -> None:
        """Take down what the user should know about a term; terms compiled elsewhere had their notes there."""
        if source in self.targets:
            one = Note(source, source.line_of(iri), f"{split(iri)[1]}: {text}")
            if one not in self.notes:
                self.notes.append(one)

    # ---- the class tree

    def rank(self, iri: str) -> tuple[int, str]:
        """An order in which every class stands before its superclasses, so that Python can always linearize bases."""
        return (-len(self.classes[iri].ancestors), iri)

    def kept(self) -> Iterator[tuple[str, ClassTerm]]:
        """The classes that stand for themselves (aliases and equivalents stand for another)."""
        for iri, cls in self.classes.items():
            if self.canonical[iri] == iri:
                yield iri, cls

    def classes_of(self, node: Node) -> frozenset[str] | None:
        """A class expression as a union of classes: empty where it is anything, None where it is something else."""
        names = union(self.said, node)
        if names is not None and names & ANYTHING:
            return frozenset()
        names = (names or frozenset()) - {OWL + "Nothing"}
        return frozenset(self.canonical[x] for x in names) if names and names <= self.canonical.keys() else None

    def within(self, inner: frozenset[str], outer: frozenset[str]) -> bool:
        """Whether every class of one union lies in some class of another."""
        return all(not self.classes[x].ancestors.isdisjoint(outer) for x in inner)

    def narrowest(self, axioms: list[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """The axioms that do not follow from another one."""
        kept: list[frozenset[str]] = []
        for one in dict.fromkeys(axioms):
            if not any(self.within(other, one) for other in kept):
                kept = [other for other in kept if not self.within(one, other)] + [one]
        return tuple(sorted(kept, key=sorted))
