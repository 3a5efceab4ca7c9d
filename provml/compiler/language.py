"""The words of the languages that ontologies are written in, and the slips in them: RDF, RDFS, OWL and XML Schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import pyoxigraph as ox

from provml.compiler.source import OWL, RDF, RDFS, XSD, Source
from provml.errors import OntologyError

_TEXT = {
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

WORDS = {namespace: frozenset(text.split()) for namespace, text in _TEXT.items()}
"""What each of the four namespaces holds."""

_NAMES = {RDF: ("rdf", "RDF"), RDFS: ("rdfs", "RDF Schema"), OWL: ("owl", "OWL 2"), XSD: ("xsd", "XML Schema")}


def check(source: Source) -> None:
    """See that the terms which a source takes from the four languages exist."""
    for subject, predicate, node in source.triples:
        for iri in _named(subject, predicate, node):
            for namespace, words in WORDS.items():
                local = iri.removeprefix(namespace)
                counted = namespace == RDF and re.fullmatch(r"_[1-9]\d*", local)
                if local in ("", iri) or local in words or counted:
                    continue
                prefix, title = _NAMES[namespace]
                meant = _meant(namespace, local)
                advice = (
                    f"Did you mean {meant}? Mend the spelling there."
                    if meant
                    else "Check the spelling, or use a term of your own."
                )
                line = source.line_of(iri, predicate, subject.value if isinstance(subject, ox.NamedNode) else None)
                raise OntologyError(f"{prefix}:{local} is no term of {title}", advice, file=str(source.path), line=line)


def _named(subject: object, predicate: str, node: object) -> Iterator[str]:
    yield predicate
    for end in (subject, node):
        if isinstance(end, ox.NamedNode):
            yield end.value
    if isinstance(node, ox.Literal):
        yield node.datatype.value


def _meant(namespace: str, local: str) -> str | None:
    """The term that a misspelt one stands for: the same word elsewhere, a near one here, a near one elsewhere."""
    elsewhere = [other for other in WORDS if other != namespace]
    for other in elsewhere:
        if local in WORDS[other]:
            return f"{_NAMES[other][0]}:{local}"
    for other in (namespace, *elsewhere):
        word = near(local, WORDS[other])
        if word is not None:
            return f"{_NAMES[other][0]}:{word}"
    return None


def near(word: str, words: Iterable[str]) -> str | None:
    """The word that another one is probably a slip of; capitals count little."""
    by_lower = {known.lower(): known for known in sorted(words)}
    return next((by_lower[found] for found in get_close_matches(word.lower(), by_lower, 1, 0.75)), None)
