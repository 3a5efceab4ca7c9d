"""References to terms: which terms the statements of an ontology use, and as what.

A published ontology often uses terms of ontologies that are not at hand, or that nobody defined. Such a term is
declared as what it is used as, and reported as a problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyoxigraph as ox

from provml.compiler import builtins, well_known
from provml.compiler.class_expressions import members
from provml.compiler.schema import Schema
from provml.compiler.sources import CORE, STANDARD, Node, Source, split
from provml.rdf import KIND_OF_DATATYPE
from provml.rdf.namespaces import OWL, RDF, RDFS, XSD

_TERM_KINDS = {
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
    RDF + "Property": "unspecified",
    OWL + "FunctionalProperty": "unspecified",
    OWL + "DeprecatedProperty": "unspecified",
}
"""Kind of term by type; the kind of an `unspecified` property is inferred from its range."""

_CLASS_OBJECTS = (
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
_PROPERTY_OBJECTS = (RDFS + "subPropertyOf", OWL + "inverseOf", OWL + "onProperty", OWL + "equivalentProperty")
_CLASS_SUBJECTS = (RDFS + "subClassOf", OWL + "equivalentClass", OWL + "disjointWith", OWL + "disjointUnionOf")
_PROPERTY_SUBJECTS = (
    RDFS + "subPropertyOf",
    RDFS + "domain",
    RDFS + "range",
    OWL + "inverseOf",
    OWL + "equivalentProperty",
)
_OTHER_KINDS = {
    RDFS + "Datatype": "a datatype",
    OWL + "AnnotationProperty": "an annotation property",
    OWL + "NamedIndividual": "an individual",
}
"""What a term that is neither a class nor a property may be."""

_PROPERTY_KINDS = ("object", "data", "unspecified")
_FILLERS = tuple(OWL + name for name in ("someValuesFrom", "allValuesFrom", "onClass", "onDataRange", "hasValue"))

TermKey = tuple[str, str]
"""Kind and IRI of a term."""

Declarations = dict[TermKey, list[Source]]
"""The sources that declare each term."""


class Reference(NamedTuple):
    """A term that a statement uses as a class or as a property; without a predicate, as its subject."""

    node: ox.NamedNode
    kind: str
    predicate: str | None = None
    subject: str | None = None


def term_kinds(types: set[str]) -> set[str]:
    """Return the kinds of term that the types of a node declare."""
    if types & {RDFS + "Datatype", OWL + "AnnotationProperty"} and OWL + "Class" not in types:
        return set()
    return {_TERM_KINDS[each] for each in types if each in _TERM_KINDS}


def declare_used_terms(schema: Schema, source: Source, declarations: Declarations) -> None:
    """Declare the terms that a source uses as a class or a property and that no source declares."""
    evidence: dict[str, set[str]] | None = None
    for reference in _references(schema, source):
        iri = reference.node.value
        if iri.startswith(CORE) or _is_declared(schema, reference, declarations):
            continue
        is_known = iri.startswith(STANDARD) or well_known.find(iri) is not None
        if not is_known and not _report(schema, source, reference, declarations):
            continue
        if reference.kind == "a class":
            _declare_class(schema, source, iri, declarations)
        elif reference.predicate == OWL + "onProperty" or not is_known:
            evidence = evidence if evidence is not None else _evidence(schema, source, declarations)
            kind = well_known.property_kind(iri) or _most_likely(evidence.get(iri, set()))
            declarations[kind, iri] = [source]
            schema.assumed.add(iri)


def _declare_class(schema: Schema, source: Source, iri: str, declarations: Declarations) -> None:
    """Declare a class, and its superclasses if they are facts of a well-known vocabulary."""
    declarations["class", iri] = [source]
    parent = well_known.superclass(iri)
    if parent is not None:
        schema.add_statement(source, iri, RDFS + "subClassOf", parent)
        if ("class", parent) not in declarations:
            _declare_class(schema, source, parent, declarations)


def _is_declared(schema: Schema, reference: Reference, declarations: Declarations) -> bool:
    iri, types = reference.node.value, schema.types(reference.node)
    if reference.kind == "a class":
        return ("class", iri) in declarations or RDFS + "Datatype" in types
    return any((kind, iri) in declarations for kind in _PROPERTY_KINDS) or OWL + "AnnotationProperty" in types


def _references(schema: Schema, source: Source) -> Iterator[Reference]:
    """Return every term that a source uses as a class or as a property."""
    for subject, predicate, node in source.triples:
        if isinstance(subject, ox.NamedNode):
            if predicate in _CLASS_SUBJECTS:
                yield Reference(subject, "a class")
            if predicate in _PROPERTY_SUBJECTS:
                yield Reference(subject, "a property")
        kind = _kind_of_object(schema, subject, predicate)
        if kind is None:
            continue
        for used in members(schema.statements, node) if predicate in _CLASS_LISTS else [node]:
            if isinstance(used, ox.NamedNode):
                yield Reference(used, kind, predicate, subject.value if isinstance(subject, ox.NamedNode) else None)


def _kind_of_object(schema: Schema, subject: Node, predicate: str) -> str | None:
    """Return what a predicate requires its object to be: a class, a property, or neither."""
    if predicate in _CLASS_OBJECTS or predicate in _CLASS_LISTS:
        return "a class"
    if predicate in _PROPERTY_OBJECTS:
        return "a property"
    if predicate == RDFS + "range" and _is_object_property(schema, subject):
        return "a class"
    return None


def _is_object_property(schema: Schema, subject: Node) -> bool:
    kinds = {_TERM_KINDS.get(name) for name in schema.types(subject)}
    return "object" in kinds or ("data" not in kinds and "unspecified" in kinds)


# ---- the kind of a property that nobody declares


def _evidence(schema: Schema, source: Source, declarations: Declarations) -> dict[str, set[str]]:
    """Return for each property what its uses in a source say about its kind."""
    evidence: dict[str, set[str]] = {}
    for subject, predicate, node in source.triples:
        if predicate == OWL + "onProperty" and isinstance(node, ox.NamedNode):
            evidence.setdefault(node.value, set()).update(_filler_kinds(schema, subject))
        elif predicate in _PROPERTY_OBJECTS and isinstance(node, ox.NamedNode) and isinstance(subject, ox.NamedNode):
            pair = (subject.value, node.value)
            kinds = {kind for kind in ("object", "data") for iri in pair if (kind, iri) in declarations}
            for iri in pair:
                evidence.setdefault(iri, set()).update({"object"} if predicate == OWL + "inverseOf" else kinds)
        elif predicate == RDFS + "range" and isinstance(subject, ox.NamedNode):
            evidence.setdefault(subject.value, set()).add("data" if _is_data_range(schema, node) else "object")
        elif not predicate.startswith(CORE):
            evidence.setdefault(predicate, set()).add("data" if isinstance(node, ox.Literal) else "object")
    return evidence


def _filler_kinds(schema: Schema, node: Node) -> set[str]:
    """Return what the values of a restriction say about the kind of its property."""
    cell = schema.statements.get(node, {})
    fillers = [filler for predicate in _FILLERS for filler in cell.get(predicate, [])]
    return {"data" if _is_data_range(schema, filler) else "object" for filler in fillers}


def _is_data_range(schema: Schema, node: Node) -> bool:
    if isinstance(node, ox.NamedNode):
        return node.value.startswith(XSD) or node.value in KIND_OF_DATATYPE or RDFS + "Datatype" in schema.types(node)
    cell = schema.statements.get(node, {})
    is_datatype = {RDFS + "Datatype", OWL + "DataRange"} & schema.types(node)
    return isinstance(node, ox.Literal) or bool(is_datatype) or OWL + "onDatatype" in cell


def _most_likely(kinds: set[str]) -> str:
    return next((kind for kind in ("object", "data") if kind in kinds), "unspecified")


# ---- reports


def _report(schema: Schema, source: Source, reference: Reference, declarations: Declarations) -> bool:
    """Report a term that is not what it is used as; return whether to declare it as that."""
    iri, types = reference.node.value, schema.types(reference.node)
    other = "a class" if reference.kind == "a property" else "a property"
    declared_kinds = {
        "a class" if kind == "class" else "a property"
        for kind in ("class", *_PROPERTY_KINDS)
        if (kind, iri) in declarations
    }
    other_kinds = [other] if other in declared_kinds else []
    other_kinds += [kind for name, kind in _OTHER_KINDS.items() if name in types]
    is_annotation = _is_annotation(schema, reference)
    if other_kinds:
        reason, advice = _explain_wrong_kind(reference, other_kinds[0])
    else:
        reason, advice = _explain_undefined(reference, declarations)
    is_used = other_kinds in ([], ["an individual"]) and not is_annotation
    assumption = f"{reference.kind}" if is_used else "an annotation property" if is_annotation else "no statement"
    line = source.line_of(iri, reference.predicate, reference.subject)
    source.problems.add(source.path, line, reason, advice=advice, assumption=assumption)
    return is_used


def _is_annotation(schema: Schema, reference: Reference) -> bool:
    """Return whether a term is used as a super-property of an annotation property."""
    if reference.predicate not in (RDFS + "subPropertyOf", OWL + "equivalentProperty") or reference.subject is None:
        return False
    types = schema.types(ox.NamedNode(reference.subject))
    return OWL + "AnnotationProperty" in types and not term_kinds(types)


def _explain_wrong_kind(reference: Reference, actual: str) -> tuple[str, str]:
    kind = reference.kind
    subject = f"{_short(reference.predicate)} takes" if reference.predicate else "this statement is about"
    return (
        f"<{reference.node.value}> is {actual}, not {kind}",
        f"Use {kind}, because {subject} {kind}; or declare it as {kind} too.",
    )


def _explain_undefined(reference: Reference, declarations: Declarations) -> tuple[str, str]:
    namespace, local = split(reference.node.value)
    advice = f"eclare it as {reference.kind}, or import the ontology that does."
    kinds = ("class",) if reference.kind == "a class" else _PROPERTY_KINDS
    similar = (split(iri)[1] for kind, iri in declarations if kind in kinds and split(iri)[0] == namespace)
    suggestion = builtins.closest(local, similar)
    return (
        f"<{reference.node.value}> is used as {reference.kind} but not defined",
        f"Did you mean {suggestion}? Otherwise d{advice}" if suggestion else f"D{advice}",
    )


def _short(iri: str) -> str:
    """Return a term of OWL or RDFS with its usual prefix."""
    return f"{'owl' if iri.startswith(OWL) else 'rdfs'}:{split(iri)[1]}"
