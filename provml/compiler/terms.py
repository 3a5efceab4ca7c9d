"""Which terms there are: classes, properties and individuals with their names and words, and that each is defined."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pyoxigraph as ox

from provml.compiler import language
from provml.compiler.expression import ANYTHING, members, union
from provml.compiler.naming import class_name, constant_name, field_name
from provml.compiler.schema import ClassTerm, Individual, PropertyTerm, Schema
from provml.compiler.source import CORE, DCTERMS, OWL, RDF, RDFS, SKOS, STANDARD, XSD, Node, Source, split
from provml.errors import OntologyError
from provml.rdf import KINDS

PROVLAKE = "https://w3id.org/provlake#"

_SORTS = {
    OWL + "Class": "class",
    RDFS + "Class": "class",
    OWL + "DeprecatedClass": "class",
    OWL + "ObjectProperty": "object",
    OWL + "TransitiveProperty": "object",
    OWL + "SymmetricProperty": "object",
    OWL + "AsymmetricProperty": "object",
    OWL + "ReflexiveProperty": "object",
    OWL + "IrreflexiveProperty": "object",
    OWL + "InverseFunctionalProperty": "object",
    OWL + "DatatypeProperty": "data",
    RDF + "Property": "unsaid",
    OWL + "FunctionalProperty": "unsaid",
    OWL + "DeprecatedProperty": "unsaid",
}
"""What a type makes of a term; `unsaid` is a property of a sort that its range has to tell."""

_CLASS_PLACES = (
    RDFS + "subClassOf",
    RDFS + "domain",
    OWL + "equivalentClass",
    OWL + "disjointWith",
    OWL + "complementOf",
    OWL + "someValuesFrom",
    OWL + "allValuesFrom",
    OWL + "onClass",
)
_CLASS_LISTS = (OWL + "unionOf", OWL + "intersectionOf", OWL + "disjointUnionOf")
_PROPERTY_PLACES = (RDFS + "subPropertyOf", OWL + "inverseOf", OWL + "onProperty", OWL + "equivalentProperty")
_SAID_OF_CLASSES = (RDFS + "subClassOf", OWL + "equivalentClass", OWL + "disjointWith", OWL + "disjointUnionOf")
_SAID_OF_PROPERTIES = (
    RDFS + "subPropertyOf",
    RDFS + "domain",
    RDFS + "range",
    OWL + "inverseOf",
    OWL + "equivalentProperty",
)
_OTHERS = {
    RDFS + "Datatype": "a datatype",
    OWL + "AnnotationProperty": "an annotation property",
    OWL + "NamedIndividual": "an individual",
}
"""What else a term may be, that is taken for a class or a property."""


def declare(schema: Schema) -> None:
    """Find the terms, name them, and see that nothing builds on a term that is defined nowhere."""
    for source in schema.targets:
        language.check(source)
    homes = _homes(schema)
    names: dict[str, set[str]] = {}  # of classes, by module
    fields: set[str] = set()
    for source in schema.sources:
        mine = sorted(key for key, home in homes.items() if home is source)
        for kind, iri in mine:
            if kind == "class":
                taken = names.setdefault(schema.modules[source], set())
                name = class_name(split(iri)[1], taken | fields)
                _note_renamed(schema, source, iri, name, class_name(split(iri)[1]))
                taken.add(name)
                schema.classes[iri] = ClassTerm(iri, name, source, side=schema.text(iri, PROVLAKE + "side") or None)
                _describe(schema, schema.classes[iri])
        classes = set().union(*names.values())
        for kind, iri in mine:
            if kind != "class":
                name = field_name(split(iri)[1])
                if name in fields:
                    name = field_name(f"{_prefix(source, split(iri)[0])}_{name}", fields)
                name = field_name(name, classes | fields)
                _note_renamed(schema, source, iri, name, field_name(split(iri)[1]))
                fields.add(name)
                schema.properties[iri] = PropertyTerm(iri, name, source, is_object=kind == "object")
                _describe(schema, schema.properties[iri])
    _tell_sorts(schema, [iri for kind, iri in homes if kind == "unsaid"])
    for source in schema.targets:
        _check(schema, source)


def _homes(schema: Schema) -> dict[tuple[str, str], Source]:
    """The source that each term lives in: of those that declare it the one it says defines it, else the first."""
    found: dict[tuple[str, str], list[Source]] = {}
    for source in schema.sources:
        for subject, cell in source.subjects.items():
            types = {node.value for node in cell.get(RDF + "type", []) if isinstance(node, ox.NamedNode)}
            if not isinstance(subject, ox.NamedNode) or subject.value.startswith(STANDARD):
                continue
            if types & {RDFS + "Datatype", OWL + "AnnotationProperty"} and not types & {OWL + "Class"}:
                continue
            for kind in {_SORTS[name] for name in types if name in _SORTS}:
                found.setdefault((kind, subject.value), []).append(source)
    for source in schema.targets:
        for node, what, *_ in _references(schema, source):
            known = node.value.startswith(CORE) or ("class", node.value) in found
            if what == "a class" and node.value.startswith(STANDARD) and not known:
                found["class", node.value] = [source]  # skos:Concept and the like need no import
    homes: dict[tuple[str, str], Source] = {}
    for (kind, iri), declarers in found.items():
        sorts = [sort for sort in ("object", "data", "unsaid") if (sort, iri) in found]
        if kind == "class" or kind == sorts[0]:
            said = {node.value for node in schema.objects(iri, RDFS + "isDefinedBy") if isinstance(node, ox.NamedNode)}
            homes[kind, iri] = next((source for source in declarers if source.iri in said), declarers[0])
            if kind == "object" and "data" in sorts:
                schema.note(homes[kind, iri], iri, "declared as an object and a data property; it takes things")
    return homes


def _describe(schema: Schema, term: ClassTerm | PropertyTerm | Individual) -> None:
    """Give a term its words; one without a label gets its local name in words."""
    spoken = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-]+", " ", split(term.iri)[1]).lower().strip()
    term.label = schema.text(term.iri, RDFS + "label", SKOS + "prefLabel") or spoken
    term.definition = schema.text(term.iri, SKOS + "definition", RDFS + "comment", DCTERMS + "description")
    term.examples = tuple(schema.texts(term.iri, SKOS + "example"))
    retired = {OWL + "DeprecatedClass", OWL + "DeprecatedProperty"} & schema.types(ox.NamedNode(term.iri))
    term.deprecated = bool(retired or {"true", "1"} & set(schema.texts(term.iri, OWL + "deprecated")))


def _note_renamed(schema: Schema, source: Source, iri: str, name: str, wished: str) -> None:
    if name != wished:
        schema.note(source, iri, f"called {name} in Python, because {wished} is taken")


def _prefix(source: Source, namespace: str) -> str:
    """The prefix by which a source calls a namespace, or the name of its file."""
    return next((name for name, value in source.prefixes.items() if name and value == namespace), source.path.stem)


def _tell_sorts(schema: Schema, unsaid: list[str]) -> None:
    """A property of no stated sort is an object property if its range is a class or a property above it is one."""
    silent = []
    for prop in (schema.properties[iri] for iri in sorted(unsaid)):
        ranges = [union(schema.said, node) for node in schema.objects(prop.iri, RDFS + "range")]
        prop.is_object = any(names and names <= schema.classes.keys() | ANYTHING for names in ranges)
        silent += [] if ranges else [prop]
    for prop in silent:
        above = {prop.iri: prop}
        for name in (waiting := [prop.iri]):
            for node in schema.objects(name, RDFS + "subPropertyOf"):
                if isinstance(node, ox.NamedNode) and node.value in schema.properties and node.value not in above:
                    above[node.value] = schema.properties[node.value]
                    waiting.append(node.value)
        prop.is_object = any(one.is_object for one in above.values())
        if len(above) == 1:
            schema.note(prop.source, prop.iri, "a property without a range; it takes any scalar")


# ---- what must be defined


class Reference(NamedTuple):
    """A term that a statement uses as a class or as a property; without a predicate the term is its subject."""

    node: ox.NamedNode
    what: str
    predicate: str | None = None
    subject: str | None = None


def _references(schema: Schema, source: Source) -> Iterator[Reference]:
    """Every term that a source uses as a class or as a property."""
    for subject, predicate, node in source.triples:
        if predicate in _SAID_OF_CLASSES and isinstance(subject, ox.NamedNode):
            yield Reference(subject, "a class")
        if predicate in _SAID_OF_PROPERTIES and isinstance(subject, ox.NamedNode):
            yield Reference(subject, "a property")
        if predicate in _CLASS_PLACES or predicate in _CLASS_LISTS:
            what = "a class"
        elif predicate in _PROPERTY_PLACES:
            what = "a property"
        elif predicate == RDFS + "range" and _is_object(schema, subject):
            what = "a class"
        else:
            continue
        for used in members(schema.said, node) if predicate in _CLASS_LISTS else [node]:
            if isinstance(used, ox.NamedNode):
                yield Reference(used, what, predicate, subject.value if isinstance(subject, ox.NamedNode) else None)


def _is_object(schema: Schema, subject: Node) -> bool:
    kinds = {_SORTS.get(name) for name in schema.types(subject)}
    return "object" in kinds or ("data" not in kinds and "unsaid" in kinds)


def _check(schema: Schema, source: Source) -> None:
    """See that what a source uses as a class or a property is one."""
    known: dict[str, Collection[str]] = {"a class": schema.classes, "a property": schema.properties}
    for node, what, predicate, subject in _references(schema, source):
        if node.value.startswith(STANDARD) or node.value in known[what]:
            continue
        types = schema.types(node)
        if (RDFS + "Datatype" if what == "a class" else OWL + "AnnotationProperty") in types:
            continue
        others = [name for name, terms in known.items() if node.value in terms]
        others += [name for kind, name in _OTHERS.items() if kind in types]
        line = source.line_of(node.value, predicate, subject)
        if others:
            reason = f"<{node.value}> is {others[0]}, not {what}"
            spoken = f"{_short(predicate)} takes" if predicate else "what is said here is said of"
            advice = f"Give {what}, for {spoken} {what}; or declare it as {what} too."
        else:
            reason = f"<{node.value}> is used as {what} but defined nowhere"
            advice = f"Declare it as {what}, or import the ontology that does."
            meant = language.near(split(node.value)[1], _beside(node.value, known[what]))
            advice = f"Did you mean {meant}? Otherwise {advice[0].lower()}{advice[1:]}" if meant else advice
        raise OntologyError(reason, advice, file=str(source.path), line=line)
    for prop in schema.properties.values():
        for held in schema.objects(prop.iri, RDFS + "range") if prop.source is source else ():
            name = held.value if isinstance(held, ox.NamedNode) else ""
            is_data = name.startswith(XSD) or name in KINDS or RDFS + "Datatype" in schema.types(held)
            if prop.is_object and is_data:
                wrong, right = "an object property, but its range is a datatype", "an owl:DatatypeProperty"
            elif not prop.is_object and (name in schema.classes or name in ANYTHING):
                wrong, right = "a data property, but its range is a class", "an owl:ObjectProperty"
            else:
                continue
            reason = f"{split(prop.iri)[1]} is {wrong} ({split(name)[1]})"
            line = source.line_of(name, RDFS + "range", prop.iri) or source.line_of(prop.iri)
            raise OntologyError(reason, f"Declare it as {right}.", file=str(source.path), line=line)


def _beside(iri: str, terms: Iterable[str]) -> Iterator[str]:
    """The local names of the terms that share a namespace with one."""
    return (split(term)[1] for term in terms if split(term)[0] == split(iri)[0])


def _short(iri: str) -> str:
    """A term of the languages of ontologies by its usual prefix."""
    return f"{'owl' if iri.startswith(OWL) else 'rdfs'}:{split(iri)[1]}"


# ---- individuals


def declare_individuals(schema: Schema) -> None:
    """Find the named individuals of the compiled classes."""
    taken: dict[str, set[str]] = {}
    for cls in schema.classes.values():
        taken.setdefault(schema.modules[cls.source], set()).add(cls.name)
    for source in schema.sources:
        for subject, cell in source.subjects.items():
            types = {node.value for node in cell.get(RDF + "type", []) if isinstance(node, ox.NamedNode)}
            inside = sorted({schema.canonical[name] for name in types if name in schema.canonical}, key=schema.rank)
            if not isinstance(subject, ox.NamedNode) or OWL + "NamedIndividual" not in types or not inside:
                continue
            iri, names = subject.value, taken.setdefault(schema.modules[source], set())
            if iri in schema.individuals or iri in schema.classes:
                continue
            name = constant_name(split(iri)[1], names)
            names.add(name)
            schema.individuals[iri] = Individual(iri, name, source, class_iri=inside[0])
            _describe(schema, schema.individuals[iri])
            schema.individuals[iri].label = schema.text(iri, RDFS + "label", SKOS + "prefLabel")  # none is made up
            _note_renamed(schema, source, iri, name, constant_name(split(iri)[1]))
            if not schema.classes[inside[0]].ancestors.issuperset(inside):
                schema.note(
                    source, iri, f"belongs to several classes; it is made as a {schema.classes[inside[0]].name}"
                )
            if any(spec.required for spec in schema.classes[inside[0]].fields.values()):
                schema.note(source, iri, "its class asks for fields; it is given as an IRI")
