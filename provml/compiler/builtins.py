"""Terms of RDF, RDFS, OWL and XML Schema, and the detection of misspelt ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import pyoxigraph as ox

from provml.compiler.sources import Source
from provml.rdf.namespaces import OWL, RDF, RDFS, XSD

_LISTS = {
    RDF: """
        Alt Bag CompoundLiteral HTML JSON List PlainLiteral Property Seq Statement XMLLiteral dirLangString direction
        first langRange langString language nil object predicate reifies rest subject type value
        """,
    RDFS: """
        Class Container ContainerMembershipProperty Datatype Literal Proposition Resource comment domain isDefinedBy
        label member range seeAlso subClassOf subPropertyOf
        """,
    OWL: """
        AllDifferent AllDisjointClasses AllDisjointProperties Annotation AnnotationProperty AsymmetricProperty Axiom
        Class DataRange DatatypeProperty DeprecatedClass DeprecatedProperty FunctionalProperty InverseFunctionalProperty
        IrreflexiveProperty NamedIndividual NegativePropertyAssertion Nothing ObjectProperty Ontology OntologyProperty
        ReflexiveProperty Restriction SymmetricProperty Thing TransitiveProperty allValuesFrom annotatedProperty
        annotatedSource annotatedTarget assertionProperty backwardCompatibleWith bottomDataProperty
        bottomObjectProperty cardinality complementOf datatypeComplementOf deprecated differentFrom disjointUnionOf
        disjointWith distinctMembers equivalentClass equivalentProperty hasKey hasSelf hasValue imports
        incompatibleWith intersectionOf inverseOf maxCardinality maxQualifiedCardinality members minCardinality
        minQualifiedCardinality onClass onDataRange onDatatype onProperties onProperty oneOf priorVersion
        propertyChainAxiom propertyDisjointWith qualifiedCardinality rational real sameAs someValuesFrom
        sourceIndividual targetIndividual targetValue topDataProperty topObjectProperty unionOf versionIRI versionInfo
        withRestrictions
        """,
    XSD: """
        ENTITIES ENTITY ID IDREF IDREFS NCName NMTOKEN NMTOKENS NOTATION Name QName anyAtomicType anySimpleType anyType
        anyURI base64Binary boolean byte date dateTime dateTimeStamp dayTimeDuration decimal double duration float gDay
        gMonth gMonthDay gYear gYearMonth hexBinary int integer language long negativeInteger nonNegativeInteger
        nonPositiveInteger normalizedString positiveInteger short string time token unsignedByte unsignedInt
        unsignedLong unsignedShort yearMonthDuration assertions enumeration explicitTimezone fractionDigits length
        maxExclusive maxInclusive maxLength minExclusive minInclusive minLength pattern totalDigits whiteSpace
        """,
}

TERMS = {namespace: frozenset(text.split()) for namespace, text in _LISTS.items()}
"""Local names of the terms of each namespace."""

_TITLES = {RDF: ("rdf", "RDF"), RDFS: ("rdfs", "RDF Schema"), OWL: ("owl", "OWL 2"), XSD: ("xsd", "XML Schema")}


def check(source: Source) -> None:
    """Report the terms of the four namespaces that a source uses and that do not exist."""
    for subject, predicate, node in source.triples:
        for iri in _iris(subject, predicate, node):
            namespace = next((each for each in TERMS if iri.startswith(each)), None)
            if namespace is None or _exists(namespace, iri.removeprefix(namespace)):
                continue
            local = iri.removeprefix(namespace)
            prefix, title = _TITLES[namespace]
            suggestion = _suggest(namespace, local)
            advice = f"Did you mean {suggestion}?" if suggestion else "Check the spelling, or use a term of your own."
            line = source.line_of(iri, predicate, subject.value if isinstance(subject, ox.NamedNode) else None)
            reason = f"{prefix}:{local} is not a term of {title}"
            source.problems.add(source.path, line, reason, advice=advice, assumption="an annotation, which is ignored")


def _exists(namespace: str, local: str) -> bool:
    is_membership = namespace == RDF and re.fullmatch(r"_[1-9]\d*", local)
    return local == "" or local in TERMS[namespace] or bool(is_membership)


def _iris(subject: object, predicate: str, node: object) -> Iterator[str]:
    yield predicate
    for end in (subject, node):
        if isinstance(end, ox.NamedNode):
            yield end.value
    if isinstance(node, ox.Literal):
        yield node.datatype.value


def _suggest(namespace: str, local: str) -> str | None:
    """Return the term probably meant: the same name in another namespace, a similar one here, a similar one there."""
    others = [other for other in TERMS if other != namespace]
    for other in others:
        if local in TERMS[other]:
            return f"{_TITLES[other][0]}:{local}"
    for other in (namespace, *others):
        match = closest(local, TERMS[other])
        if match is not None:
            return f"{_TITLES[other][0]}:{match}"
    return None


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, ignoring case, or None if none is similar."""
    by_lower = {each.lower(): each for each in sorted(names)}
    return next((by_lower[match] for match in get_close_matches(name.lower(), by_lower, 1, 0.75)), None)
