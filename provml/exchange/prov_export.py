"""RDF with PROV-O as a PROV document, which has forms for people (PROV-N) and programs (PROV-JSON, PROV-XML).

A document is made of any triples: of one run, of a lineage, of a whole home. Nodes that are an entity, an activity or
an agent become elements with all their literals and types; relations of PROV-O become relations, with the roles and
times of their qualified forms; what other vocabularies say about a node becomes attributes. Needs the package `prov`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from provml.errors import MissingDependency, WrongValue
from provml.rdf import value as python_value
from provml.rdf.namespaces import NODES, PREFIXES, PROV, RDF, RDFS, RUNS, XSD

if TYPE_CHECKING:
    from prov.identifier import QualifiedName
    from prov.model import ProvDocument

FORMATS = {"provn": "text/provenance-notation", "json": "application/json", "xml": "application/provenance+xml"}
"""Formats of a document with their media types."""
ELEMENTS = {f"{PROV}Activity": "activity", f"{PROV}Agent": "agent", f"{PROV}Entity": "entity"}
"""The kinds of elements; of a node with several types, the first counts."""
RELATIONS = {
    "used": "Usage",
    "wasGeneratedBy": "Generation",
    "wasInvalidatedBy": "Invalidation",
    "wasInformedBy": "Communication",
    "wasDerivedFrom": "Derivation",
    "wasRevisionOf": "Revision",
    "wasQuotedFrom": "Quotation",
    "hadPrimarySource": "PrimarySource",
    "wasAssociatedWith": "Association",
    "wasAttributedTo": "Attribution",
    "actedOnBehalfOf": "Delegation",
    "wasInfluencedBy": "Influence",
    "specializationOf": "",
    "alternateOf": "",
    "hadMember": "",
}
"""Properties between elements with the name of their qualified form, if PROV-O has one."""
TIMED = ("used", "wasGeneratedBy", "wasInvalidatedBy")
INFLUENCERS = tuple(f"{PROV}{name}" for name in ("entity", "activity", "agent", "influencer"))
LABEL, VALUE = f"{RDFS}label", f"{PROV}value"
TYPE = f"{RDF}type"

Properties = dict[str, list[Any]]
"""The objects of a node by the IRI of the property."""


def prov_document(triples: Iterable[ox.Triple]) -> ProvDocument:
    """Return the PROV document of some triples."""
    return _Converter(triples).document()


def write_document(document: ProvDocument, fmt: str) -> bytes:
    """Return a document in a format: provn, json or xml."""
    if fmt not in FORMATS:
        raise WrongValue("prov_export", "format", fmt, "a format of PROV", f"Use one of {', '.join(FORMATS)}.")
    if fmt == "provn":
        return (document.get_provn() + "\n").encode()
    buffer = io.StringIO() if fmt == "json" else io.BytesIO()
    document.serialize(buffer, format=fmt, **({"indent": 1} if fmt == "json" else {}))
    content = buffer.getvalue()
    return content.encode() if isinstance(content, str) else content


class _Converter:
    """One conversion."""

    def __init__(self, triples: Iterable[ox.Triple]) -> None:
        try:
            from prov import model
        except ImportError:
            raise MissingDependency("prov", "prov") from None
        self.model = model
        self.result = model.ProvDocument()
        self.nodes: dict[str, Properties] = {}
        for triple in triples:
            if isinstance(triple.subject, ox.NamedNode):
                properties = self.nodes.setdefault(triple.subject.value, {})
                properties.setdefault(triple.predicate.value, []).append(triple.object)
        spaces = {**PREFIXES, "run": RUNS, "node": NODES}
        own = {prefix: space for prefix, space in spaces.items() if prefix not in ("prov", "xsd")}
        self.spaces = {space: self.result.add_namespace(prefix, space) for prefix, space in own.items()}
        self.spaces |= {PROV: model.PROV, XSD: model.XSD}
        self.ordered = sorted(self.spaces, key=len, reverse=True)

    def document(self) -> ProvDocument:
        for iri, properties in self.nodes.items():
            self._add_element(iri, properties)
        for iri, properties in self.nodes.items():
            self._add_relations(iri, properties)
        return self.result

    # ---- names and values

    def name(self, iri: str) -> QualifiedName:
        """Return an IRI as a qualified name; its namespace is declared."""
        space = next((space for space in self.ordered if iri.startswith(space) and len(iri) > len(space)), "")
        if not space:
            cut = max(iri.rfind(sign) for sign in "/#:") + 1
            space = iri[:cut] if 0 < cut < len(iri) else iri
            if space not in self.spaces:
                self.spaces[space] = self.result.add_namespace(f"ns{len(self.spaces)}", space)
        return self.model.QualifiedName(self.spaces[space], iri[len(space) :])

    def _attribute(self, term: Any) -> Any:
        """Return an object as the value of an attribute."""
        if isinstance(term, ox.NamedNode):
            return self.name(term.value)
        if term.language:
            return self.model.Literal(term.value, langtag=term.language)
        datatype = term.datatype.value
        return term.value if datatype == f"{XSD}string" else self.model.Literal(term.value, self.name(datatype))

    def _time(self, properties: Properties, name: str) -> datetime | None:
        values = [python_value(term) for term in properties.get(f"{PROV}{name}", ())]
        return next((value for value in values if isinstance(value, datetime)), None)

    # ---- elements

    def _add_element(self, iri: str, properties: Properties) -> None:
        types = [term.value for term in properties.get(TYPE, ()) if isinstance(term, ox.NamedNode)]
        kind = next((kind for cls, kind in ELEMENTS.items() if cls in types), None)
        if kind is None:
            return
        attributes = [(self.model.PROV["type"], self.name(cls)) for cls in types if cls not in ELEMENTS]
        attributes += self._attributes(properties)
        if kind == "activity":
            times = self._time(properties, "startedAtTime"), self._time(properties, "endedAtTime")
            self.result.activity(self.name(iri), *times, attributes)
        else:
            getattr(self.result, kind)(self.name(iri), attributes)

    def _attributes(self, properties: Properties) -> Iterator[tuple[QualifiedName, Any]]:
        """Yield what is said about a node besides its types, times and relations."""
        for key, terms in properties.items():
            if key == TYPE or (key.startswith(PROV) and key != VALUE):
                continue
            name = self.model.PROV["label"] if key == LABEL else self.name(key)
            for term in terms:
                if isinstance(term, (ox.NamedNode, ox.Literal)):
                    yield name, self._attribute(term)

    # ---- relations

    def _add_relations(self, iri: str, properties: Properties) -> None:
        stated: set[str] = set()
        for relation, qualified in RELATIONS.items():
            details = self._details(properties, qualified)
            for term in properties.get(f"{PROV}{relation}", ()):
                if not isinstance(term, ox.NamedNode):
                    continue
                if relation == "wasInfluencedBy" and term.value in stated:
                    continue  # implied by another relation
                stated.add(term.value)
                self._add_relation(relation, iri, term.value, details.get(term.value))

    def _details(self, properties: Properties, qualified: str) -> dict[str, Properties]:
        """Return the qualified forms of a relation by what they lead to."""
        details: dict[str, Properties] = {}
        for term in properties.get(f"{PROV}qualified{qualified}", ()) if qualified else ():
            node = self.nodes.get(getattr(term, "value", ""), {})
            for key in INFLUENCERS:
                for target in node.get(key, ()):
                    details.setdefault(target.value, node)
        return details

    def _add_relation(self, relation: str, subject: str, target: str, details: Properties | None) -> None:
        options: dict[str, Any] = {}
        if details is not None:
            roles = [(self.model.PROV["role"], self._attribute(role)) for role in details.get(f"{PROV}hadRole", ())]
            options["other_attributes"] = [*roles, *self._attributes(details)]
            if relation in TIMED:
                options["time"] = self._time(details, "atTime")
        getattr(self.result, relation)(self.name(subject), self.name(target), **options)
