"""The compiler's model of an ontology: classes, properties and individuals, with everything inferred from the axioms.

Subclass and sub-property reasoning happens here, once, so that nodes are written from a table at run time. There are
two kinds of sources: those being compiled, and those that were compiled before and that the others build on. Statements
of a compiled source about a term of another module cannot change that module; they become notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyoxigraph as ox

from provml.compiler.class_expressions import ANYTHING, Restriction, union
from provml.compiler.data_ranges import ANY_SCALAR, DataRange
from provml.compiler.sources import Node, Source, split
from provml.rdf.namespaces import OWL, RDF

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")


@dataclass
class Term:
    """The common part of classes, properties and individuals."""

    iri: str
    name: str
    source: Source
    label: str = ""
    definition: str = ""
    examples: tuple[str, ...] = ()
    deprecated: bool = False


@dataclass
class FieldSpec:
    """A property as a field of one class."""

    prop: PropertyTerm
    single: bool
    min_count: int
    max_count: int | None
    ranges: tuple[frozenset[str], ...]
    data: DataRange
    required: bool

    @property
    def kind(self) -> str:
        return "thing" if self.prop.is_object else self.data.kind

    @property
    def upper(self) -> int | None:
        """Maximum number of values; None if it is unlimited."""
        return 1 if self.single else self.max_count

    @property
    def is_impossible(self) -> bool:
        """Whether the minimum number of values exceeds the maximum."""
        return self.upper is not None and self.min_count > self.upper


@dataclass
class ClassTerm(Term):
    """A class: its superclasses, the types that its nodes are written with, and its fields."""

    parents: tuple[str, ...] = ()
    ancestors: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    """The superclasses that the Python class names."""
    types: tuple[str, ...] = ()
    equivalents: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    disjoint: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    side: str | None = None
    stated: tuple[Restriction, ...] = ()
    """Restrictions stated on the class itself."""
    restrictions: tuple[Restriction, ...] = ()
    """Restrictions stated on the class or inherited."""
    fields: dict[str, FieldSpec] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    """Names of the fields that the Python class states itself."""
    conflicts: frozenset[str] = frozenset()
    """Names of the fields that its superclasses have in different forms."""


@dataclass
class PropertyTerm(Term):
    """A property: its domain and range, and the properties that are written with it."""

    is_object: bool = True
    domains: tuple[frozenset[str], ...] = ()
    ranges: tuple[frozenset[str], ...] = ()
    data: DataRange = ANY_SCALAR
    functional: bool = False
    parents: tuple[str, ...] = ()
    ancestors: tuple[str, ...] = ()
    super_properties: tuple[str, ...] = ()
    """The super-properties that are written with each statement of the property."""
    inverse: str | None = None
    is_closure_stop: bool = False


@dataclass
class Individual(Term):
    """A named individual and its class."""

    class_iri: str = ""


@dataclass(frozen=True)
class Note:
    """An axiom that the Python classes cannot express."""

    source: Source
    line: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.source.path.name}{f':{self.line}' if self.line else ''}: {self.text}"


class Schema:
    """The input of all generators; `modules` maps each source to the Python module of its terms."""

    def __init__(self, targets: list[Source], imported: list[Source], modules: Mapping[Source, str]) -> None:
        self.targets = targets
        self.sources = [*imported, *targets]
        self.modules = modules
        self._notes: dict[Note, None] = {}
        self.statements: dict[Node, dict[str, list[Node]]] = {}
        for source in self.sources:
            for subject, predicate, node in source.triples:
                objects = self.statements.setdefault(subject, {}).setdefault(predicate, [])
                if node not in objects:
                    objects.append(node)
        self.classes: dict[str, ClassTerm] = {}
        self.properties: dict[str, PropertyTerm] = {}
        self.individuals: dict[str, Individual] = {}
        self.canonical: dict[str, str] = {}
        """For each class the class that represents it: itself, or an equivalent one."""
        self.assumed: set[str] = set()
        """IRIs of properties that are used but not declared. They are fields only where a restriction uses them."""

    def add_statement(self, source: Source, subject: str, predicate: str, node: str) -> None:
        """Add a fact to a source, as if its file stated it."""
        for cells in (source.subjects, self.statements):
            objects = cells.setdefault(ox.NamedNode(subject), {}).setdefault(predicate, [])
            if ox.NamedNode(node) not in objects:
                objects.append(ox.NamedNode(node))

    # ---- look up statements

    def texts(self, iri: str, *predicates: str) -> list[str]:
        """Return the literals of annotations: English first, then in the order of the predicates, then sorted.

        Line endings are normalised, and control characters, which neither Python nor XML allows, are removed.
        """
        cell = self.statements.get(ox.NamedNode(iri), {})
        literals = [
            ((node.language or "en") != "en", rank, _CONTROL.sub("", re.sub(r"\r\n?", "\n", node.value)))
            for rank, predicate in enumerate(predicates)
            for node in cell.get(predicate, [])
            if isinstance(node, ox.Literal)
        ]
        return [text for *_, text in sorted(literals)]

    def text(self, iri: str, *predicates: str) -> str:
        """Return the first of the `texts`, or an empty string."""
        return next(iter(self.texts(iri, *predicates)), "")

    def objects(self, iri: str, predicate: str) -> list[Node]:
        return self.statements.get(ox.NamedNode(iri), {}).get(predicate, [])

    def named_objects(self, iri: str, predicate: str) -> list[str]:
        return [node.value for node in self.objects(iri, predicate) if isinstance(node, ox.NamedNode)]

    def types(self, node: Node) -> set[str]:
        types = self.statements.get(node, {}).get(RDF + "type", [])
        return {each.value for each in types if isinstance(each, ox.NamedNode)}

    def axioms(self, term: Term, predicate: str) -> Iterator[Node]:
        """Return the objects of the axioms about a term; a term compiled before ignores the compiled sources."""
        is_target = term.source in self.targets
        speakers = [source for source in self.sources if is_target or source not in self.targets]
        cells = [source.subjects.get(ox.NamedNode(term.iri), {}) for source in speakers]
        yield from dict.fromkeys(node for cell in cells for node in cell.get(predicate, []))

    def named_axioms(self, term: Term, predicate: str) -> list[str]:
        return [node.value for node in self.axioms(term, predicate) if isinstance(node, ox.NamedNode)]

    def note(self, source: Source, iri: str, text: str) -> None:
        """Add a note about a term; terms compiled before had their notes then."""
        if source in self.targets:
            self._notes[Note(source, source.line_of(iri), f"{split(iri)[1]}: {text}")] = None

    @property
    def notes(self) -> list[Note]:
        """All notes, in the order in which they were made."""
        return list(self._notes)

    # ---- the class tree

    def rank(self, iri: str) -> tuple[int, str]:
        """Return a sort key that puts every class before its superclasses; Python searches them in this order."""
        return (-len(self.classes[iri].ancestors), iri)

    def canonical_classes(self) -> Iterator[tuple[str, ClassTerm]]:
        """Return the classes that represent themselves, without aliases and equivalents of others."""
        for iri, cls in self.classes.items():
            if self.canonical[iri] == iri:
                yield iri, cls

    def classes_of(self, node: Node) -> frozenset[str] | None:
        """Return the classes whose union an expression is: empty for owl:Thing, None if it is anything else."""
        names = union(self.statements, node)
        if names is not None and names & ANYTHING:
            return frozenset()
        names = (names or frozenset()) - {OWL + "Nothing"}
        return frozenset(self.canonical[name] for name in names) if names and names <= self.canonical.keys() else None

    def inherited_fields(self, cls: ClassTerm) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Return the superclasses that state the inherited fields of a class, nearest first, with their names."""
        assigned = set(cls.own)
        for iri in sorted(cls.ancestors - {cls.iri}, key=self.rank):
            names = tuple(name for name in self.classes[iri].own if name not in assigned)
            if names:
                yield iri, names
            assigned.update(names)

    def is_within(self, inner: frozenset[str], outer: frozenset[str]) -> bool:
        """Return whether every class of one union is a subclass of some class of another."""
        return all(not self.classes[name].ancestors.isdisjoint(outer) for name in inner)

    def narrowest(self, unions: list[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """Return the unions that do not follow from another one."""
        result: list[frozenset[str]] = []
        for candidate in dict.fromkeys(unions):
            if not any(self.is_within(other, candidate) for other in result):
                result = [other for other in result if not self.is_within(candidate, other)] + [candidate]
        return tuple(sorted(result, key=sorted))
