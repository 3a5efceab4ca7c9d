"""RDF with PROV-O as a PROV document: PROV-N for people, PROV-JSON, PROV-XML and PROV-JSONLD for programs.

A document is made of any triples: of one run, of a lineage, of a whole home. Nodes that are an entity, an activity or
an agent become elements, relations of PROV-O become relations, and their qualified forms give them identifiers, roles
and times. Other statements about these nodes are attributes. What PROV has no record for (the labels of roles,
superclasses of a usage, a text with control characters) stands as N-Triples in one further entity, the carrier, so that
reading the document gives the same triples. `provml.rdf.prov_documents` reads it. Needs the package `prov`.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyoxigraph as ox

from provml.errors import MissingDependency, WrongValue
from provml.exchange.mapping_table import MappingTable, Row
from provml.rdf.namespaces import NODES, PREFIXES, PROV, RDF_TYPE, RDFS, RUNS, XSD
from provml.rdf.prov_carrier import CARRIER, CARRIER_TYPE, ESCAPED, STATEMENT, escape_name
from provml.store.exporting import Exported, Source

if TYPE_CHECKING:
    from prov.model import ProvDocument

FORMATS = {
    "provn": "text/provenance-notation",
    "json": "application/json",
    "xml": "application/provenance+xml",
    "jsonld": "application/ld+json",
}
"""Formats of a document with their media types."""
ELEMENTS = {f"{PROV}Activity": "Activity", f"{PROV}Agent": "Agent", f"{PROV}Entity": "Entity"}
"""The classes of elements; of a node with several, the first counts."""
SUBTYPES = {
    "Agent": ("Organization", "Person", "SoftwareAgent"),
    "Entity": ("Bundle", "Collection", "EmptyCollection", "Plan"),
}
"""Types of PROV that are types of an element in every format."""
TIMES = {"startedAtTime": "startTime", "endedAtTime": "endTime"}
ATTRIBUTES = {RDF_TYPE: "type", f"{RDFS}label": "label", f"{PROV}value": "value", f"{PROV}atLocation": "location"}
"""Properties that are attributes of PROV, besides those of other vocabularies."""


class Relation(NamedTuple):
    """A relation of PROV: its record, the attributes of its two ends, and how PROV-O qualifies it."""

    record: str
    subject: str
    target: str
    influencer: str = ""


RELATIONS = {
    "used": Relation("Usage", "activity", "entity", "entity"),
    "wasGeneratedBy": Relation("Generation", "entity", "activity", "activity"),
    "wasInvalidatedBy": Relation("Invalidation", "entity", "activity", "activity"),
    "wasStartedBy": Relation("Start", "activity", "trigger", "entity"),
    "wasEndedBy": Relation("End", "activity", "trigger", "entity"),
    "wasInformedBy": Relation("Communication", "informed", "informant", "activity"),
    "wasDerivedFrom": Relation("Derivation", "generatedEntity", "usedEntity", "entity"),
    "wasAssociatedWith": Relation("Association", "activity", "agent", "agent"),
    "wasAttributedTo": Relation("Attribution", "entity", "agent", "agent"),
    "actedOnBehalfOf": Relation("Delegation", "delegate", "responsible", "agent"),
    "wasInfluencedBy": Relation("Influence", "influencee", "influencer", "influencer"),
    "specializationOf": Relation("Specialization", "specificEntity", "generalEntity"),
    "alternateOf": Relation("Alternate", "alternate1", "alternate2"),
    "hadMember": Relation("Membership", "collection", "entity"),
}
"""The properties of PROV-O between elements."""
TIMED = ("Usage", "Generation", "Invalidation", "Start", "End")
LEXICAL_FORMS = {
    "double": re.compile(r"(?!-0(\.0*)?([eE].*)?$)[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|NaN|-?INF"),
    "integer": re.compile(r"0|-?[1-9]\d*"),
    "long": re.compile(r"0|-?[1-9]\d*"),
    "int": re.compile(r"0|-?[1-9]\d*"),
    "boolean": re.compile(r"true|false"),
    "dateTime": re.compile(r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[-+]\d\d:\d\d)?"),
    "decimal": re.compile(r"(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?"),
}
"""Texts of the datatypes that `prov` turns into Python values, if the value gives back the same term in a store."""
UNSUPPORTED = ("anyURI", "QName", "NOTATION")
_TEXT = re.compile("[\\n\\x20-\\x7e\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]*")
"""Texts that every format holds as they are."""
_CONTROL = re.compile("[^\\x20-\\x7e\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9._-]*/)?")
"""What becomes the namespace of another IRI: its host, if every format allows it, else its scheme."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9._-]*(?::\d+)?(?:[/?#].*)?|(?!//).+)", re.DOTALL)
_NCNAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

TABLE = MappingTable(
    "PROV documents",
    """PROV-N is for people, PROV-JSON, PROV-XML and PROV-JSONLD are for programs; the package `prov` writes all four.
Nothing is lost: `store.load` and `provml validate` read the document back as the same triples. What PROV has no record
for stands as N-Triples in one entity, `provml:carrier`, which other tools see as an entity with texts.

Few prefixes are declared. Names of PROV-XML are names of XML, which have no slashes and do not begin with a digit: such
characters are written as `_x002F_`, and `provml:carrier` says so. Another tool sees these escaped names.""",
    (
        Row("run, stages, epochs, batches, adaptations", "activities with start and end"),
        Row("data, models, hyperparameters, measures, plans", "entities; values are `prov:value`"),
        Row("people, software, machines, environments", "agents"),
        Row("use with its role", "`used` with an identifier and `prov:role`"),
        Row("generation, derivation, association, influence and others", "the relation of the same name"),
        Row("a revision of a value, time of an annotation", "`wasDerivedFrom`; the exact statement is in the carrier"),
        Row("statements in PROV-ML, PROVLake, MLS and other vocabularies", "attributes, with types and language tags"),
        Row("labels of roles, superclasses of a use, texts with control characters", "N-Triples in the carrier"),
        Row("loaded named graphs of a home (`--all`)", "bundles of the same name"),
    ),
    ("provn", "prov-json", "prov-xml", "prov-jsonld"),
    "provml export latest -o run.provn\nprovml export latest --as prov-json -o run.prov.json",
)
Properties = dict[str, list[Any]]
"""The objects of a node by the IRI of the property."""


Graphs = Iterable[tuple[ox.NamedNode, Iterable[ox.Triple]]]


def prov_document(triples: Iterable[ox.Triple], fmt: str = "", graphs: Graphs = ()) -> ProvDocument:
    """Return the PROV document of some triples; `fmt` is the format that it will be written in.

    Each of the named `graphs` is a bundle.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `prov`, about forms that a later version will refuse
        converter = _Converter(triples, fmt)
        for name, content in graphs:
            _BundleConverter(converter, name, content).add_records()
        return converter.document()


def write_document(document: ProvDocument, fmt: str) -> bytes:
    """Return a document in a format: provn, json, xml or jsonld."""
    if fmt not in FORMATS:
        raise WrongValue("prov_export", "format", fmt, "a format of PROV", f"Use one of {', '.join(FORMATS)}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fmt == "provn":
            return (document.get_provn() + "\n").encode()
        buffer = io.BytesIO()
        document.serialize(buffer, format=fmt, **({} if fmt == "xml" else {"indent": 1}))
        return buffer.getvalue()


class _Converter:
    """One conversion. Each triple becomes a part of a record, or goes to the carrier."""

    def __init__(self, triples: Iterable[ox.Triple], fmt: str) -> None:
        try:
            from prov import model
        except ImportError:
            raise MissingDependency("prov", "prov") from None
        self.model = model
        self.fmt = fmt
        self.result: Any = model.ProvDocument()
        self.carried: list[str] = []
        self.has_escaped_names = False
        self.graph = ""
        """The graph of a bundle, as the end of a line of N-Quads."""
        self._read(triples)
        spaces = {**PREFIXES, "run": RUNS, "node": NODES}
        own = {prefix: space for prefix, space in spaces.items() if prefix not in ("prov", "xsd")}
        self.spaces = {space: self.result.add_namespace(prefix, space) for prefix, space in own.items()}
        self.spaces[PROV] = model.PROV
        self.ordered = sorted(self.spaces, key=len, reverse=True)

    def _read(self, triples: Iterable[ox.Triple]) -> None:
        self.nodes: dict[str, Properties] = {}
        for triple in triples:
            subject, predicate = triple.subject, triple.predicate.value
            if all(map(_is_plain, triple)) and isinstance(subject, ox.NamedNode):
                self.nodes.setdefault(subject.value, {}).setdefault(predicate, []).append(triple.object)
            else:
                self.carried.append(f"{triple}{self.graph} .")
        self.kinds = {iri: kind for iri, properties in self.nodes.items() if (kind := _kind(properties))}

    def add_records(self) -> None:
        """Add the records of all nodes."""
        qualified = self._qualified_nodes()
        for iri, properties in self.nodes.items():
            if iri in self.kinds:
                self._add_element(iri, properties)
            elif iri not in qualified:
                self._carry(iri, properties)

    def document(self) -> ProvDocument:
        """Return the document, with the carrier if it is needed."""
        self.add_records()
        if self.carried or self.has_escaped_names:
            attributes: list[tuple[Any, Any]] = [(self.model.PROV["type"], self.name(CARRIER_TYPE))]
            attributes += [(self.name(STATEMENT), _ascii(line)) for line in sorted(self.carried)]
            if self.has_escaped_names:
                attributes.append((self.name(ESCAPED), True))
            self.result.entity(self.name(CARRIER), attributes)
        document: ProvDocument = self.result
        return document

    def _carry(self, iri: str, properties: Properties) -> None:
        for key, terms in properties.items():
            self.carried += [f"<{iri}> <{key}> {term}{self.graph} ." for term in terms]

    # ---- names and values

    def name(self, iri: str) -> Any:
        """Return an IRI as a qualified name; its namespace is declared, and its local part is valid in the format."""
        space = next((space for space in self.ordered if iri.startswith(space) and len(iri) > len(space)), "")
        if not space:
            match = _AUTHORITY.match(iri)
            space = match[0] if match and match.end() < len(iri) else iri[:-1]
            if space not in self.spaces:
                self.spaces[space] = self.result.add_namespace(f"ns{len(self.spaces)}", space)
        local, is_escaped = escape_name(iri[len(space) :], is_xml=self.fmt == "xml")
        self.has_escaped_names = self.has_escaped_names or is_escaped
        return self.model.QualifiedName(self.spaces[space], local)

    def _value(self, term: Any) -> Any:
        """Return an object as the value of an attribute; None if a format would change it."""
        if isinstance(term, ox.NamedNode):
            return None if term.value.startswith(XSD) else self.name(term.value)
        if not _TEXT.fullmatch(term.value) or term.value.strip() != term.value or term.direction is not None:
            return None
        if term.language:
            return self.model.Literal(term.value, langtag=term.language)
        datatype = term.datatype.value
        name = datatype.removeprefix(XSD)
        if name == "string":
            return term.value
        if name == datatype:
            return self._foreign_literal(term)
        pattern = LEXICAL_FORMS.get(name)
        if not term.value or name in UNSUPPORTED or (pattern is not None and not pattern.fullmatch(term.value)):
            return None
        try:
            is_read = pattern is None or self.model.parse_xsd_types(term.value, self.model.XSD[name]) is not None
        except (ValueError, OverflowError):
            return None
        return self.model.Literal(term.value, self.model.XSD[name]) if is_read or name == "decimal" else None

    def _foreign_literal(self, term: ox.Literal) -> Any:
        datatype = self.name(term.datatype.value)
        return self.model.Literal(term.value, datatype) if _NCNAME.fullmatch(datatype.localpart) else None

    def _values(self, terms: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the objects that attributes can have, each with its value; equal times count as one value in `prov`."""
        moments: set[datetime] = set()
        for term in terms:
            value = self._value(term)
            if value is not None and getattr(value, "datatype", None) == self.model.XSD["dateTime"]:
                moment = self.model.parse_xsd_datetime(value.value)
                if moment is None or moment in moments:
                    continue
                moments.add(moment)
            if value is not None:
                yield term, value

    def _time(self, terms: list[Any]) -> tuple[Any, datetime | None]:
        """Return the first object that is a time as PROV has it, and the time."""
        for term in terms:
            if isinstance(term, ox.Literal) and term.datatype.value == f"{XSD}dateTime":
                value = self._value(term)
                if value is not None:
                    return term, self.model.parse_xsd_datetime(value.value)
        return None, None

    # ---- elements

    def _add_element(self, iri: str, properties: Properties) -> None:
        kind = self.kinds[iri]
        attributes: list[tuple[Any, Any]] = []
        rest: Properties = {}
        for key, terms in properties.items():
            remaining = [term for term in terms if key != RDF_TYPE or term.value != f"{PROV}{kind}"]
            local = key.removeprefix(PROV)
            if local in TIMES and key != local and kind == "Activity":
                term, time = self._time(remaining)
                if time is not None:
                    attributes.append((self.model.PROV[TIMES[local]], time))
                    remaining.remove(term)
            elif local in RELATIONS and key != local:
                remaining = self._add_relations(iri, local, remaining)
            elif key == RDF_TYPE or key in ATTRIBUTES or not key.startswith((PROV, XSD)):
                name = self._attribute_name(key)
                pairs = list(self._values(self._plain_types(kind, remaining) if key == RDF_TYPE else remaining))
                if name is not None:
                    attributes += [(name, value) for _, value in pairs]
                    written = {term for term, _ in pairs}
                    remaining = [term for term in remaining if term not in written]
            elif key.startswith(f"{PROV}qualified"):
                remaining = [term for term in remaining if (iri, key, getattr(term, "value", "")) not in self.links]
            if remaining:
                rest[key] = remaining
        self.result.new_record(self.model.PROV[kind], self.name(iri), attributes)
        self._carry(iri, rest)

    def _attribute_name(self, key: str) -> Any:
        """Return the name of an attribute; None if a format would change it."""
        if key in ATTRIBUTES:
            return self.model.PROV[ATTRIBUTES[key]]
        name = self.name(key)
        return name if _NCNAME.fullmatch(name.localpart) else None

    def _plain_types(self, kind: str, terms: list[Any]) -> Iterator[Any]:
        """Yield the types of an element that no format takes for another record."""
        subtypes = [f"{PROV}{name}" for name in SUBTYPES.get(kind, ())]
        for term in terms:
            if isinstance(term, ox.NamedNode) and (not term.value.startswith(PROV) or term.value in subtypes):
                yield term

    # ---- relations

    def _qualified_nodes(self) -> dict[str, tuple[str, str, str]]:
        """Return the nodes that qualify one relation: its property, subject and target; find their links."""
        self.links: set[tuple[str, str, str]] = set()
        self.details: dict[tuple[str, str, str], list[str]] = {}
        nodes: dict[str, tuple[str, str, str]] = {}
        for iri, properties in self.nodes.items():
            for name, relation in RELATIONS.items() if iri in self.kinds else ():
                link = f"{PROV}qualified{relation.record}"
                for term in properties.get(link, ()) if relation.influencer else ():
                    target = self._target(term, relation)
                    stated = properties.get(f"{PROV}{name}", ())
                    if target is not None and target in stated and term.value not in nodes:
                        nodes[term.value] = key = (name, iri, target.value)
                        self.links.add((iri, link, term.value))
                        self.details.setdefault(key, []).append(term.value)
        return nodes

    def _target(self, term: Any, relation: Relation) -> Any:
        """Return the only influencer of a qualified form that is nothing else."""
        node = self.nodes.get(getattr(term, "value", ""), {})
        targets = node.get(f"{PROV}{relation.influencer}", [])
        types = [term.value for term in node.get(RDF_TYPE, ()) if isinstance(term, ox.NamedNode)]
        is_plain = term.value not in self.kinds and f"{PROV}{relation.record}" in types
        is_target = len(targets) == 1 and isinstance(targets[0], ox.NamedNode)
        return targets[0] if is_plain and is_target else None

    def _add_relations(self, iri: str, name: str, terms: list[Any]) -> list[Any]:
        """Add the relations of an element, and return the objects that are none."""
        relation = RELATIONS[name]
        for term in terms:
            if not isinstance(term, ox.NamedNode):
                continue
            ends = [
                (self.model.PROV[relation.subject], self.name(iri)),
                (self.model.PROV[relation.target], self.name(term.value)),
            ]
            details = self.details.get((name, iri, term.value), [])
            for node in details:
                self._add_qualified(relation, node, ends)
            if not details:
                self.result.new_record(self.model.PROV[relation.record], None, ends)
        return [term for term in terms if not isinstance(term, ox.NamedNode)]

    def _add_qualified(self, relation: Relation, node: str, ends: list[tuple[Any, Any]]) -> None:
        attributes = list(ends)
        rest: Properties = {}
        for key, terms in self.nodes[node].items():
            remaining = list(terms)
            if key == RDF_TYPE:
                remaining = [term for term in terms if term.value != f"{PROV}{relation.record}"]
            elif key == f"{PROV}{relation.influencer}":
                continue
            elif key == f"{PROV}atTime" and relation.record in TIMED:
                term, time = self._time(remaining)
                if time is not None:
                    attributes.append((self.model.PROV["time"], time))
                    remaining.remove(term)
            elif (key, relation.record) == (f"{PROV}hadPlan", "Association") and isinstance(terms[0], ox.NamedNode):
                attributes.append((self.model.PROV["plan"], self.name(remaining.pop(0).value)))
            if remaining and (key in (RDF_TYPE, f"{PROV}hadRole", f"{RDFS}label") or not key.startswith(PROV)):
                remaining = self._add_details(attributes, key, remaining)
            if remaining:
                rest[key] = remaining
        self.result.new_record(self.model.PROV[relation.record], self.name(node), attributes)
        self._carry(node, rest)

    def _add_details(self, attributes: list[tuple[Any, Any]], key: str, terms: list[Any]) -> list[Any]:
        """Add attributes of a qualified form, and return the objects that are none."""
        name = self.model.PROV["role"] if key == f"{PROV}hadRole" else self._attribute_name(key)
        if name is None:
            return terms
        pairs = list(self._values(self._plain_types("", terms) if key == RDF_TYPE else terms))
        attributes += [(name, value) for _, value in pairs]
        written = {term for term, _ in pairs}
        return [term for term in terms if term not in written]


class _BundleConverter(_Converter):
    """The conversion of a named graph: its records are in a bundle, names and the carrier are those of the document."""

    def __init__(self, outer: _Converter, graph: ox.NamedNode, triples: Iterable[ox.Triple]) -> None:
        self.outer, self.model, self.fmt = outer, outer.model, outer.fmt
        self.carried, self.spaces, self.ordered = outer.carried, outer.spaces, outer.ordered
        self.graph = f" {graph}"
        if _is_plain(graph):
            self.result = outer.result.bundle(outer.name(graph.value))
            self._read(triples)
        else:
            self.nodes, self.kinds = {}, {}
            self.carried += [f"{triple}{self.graph} ." for triple in triples]

    def name(self, iri: str) -> Any:
        """Return an IRI as a qualified name of the document."""
        return self.outer.name(iri)


def _is_plain(term: Any) -> bool:
    """Return whether every format can name a term: a literal, or an IRI whose host has no special characters."""
    return isinstance(term, ox.Literal) or (isinstance(term, ox.NamedNode) and _PLAIN.fullmatch(term.value) is not None)


def _kind(properties: Properties) -> str:
    """Return the kind of element that a node is; empty for none."""
    types = {term.value for term in properties.get(RDF_TYPE, ()) if isinstance(term, ox.NamedNode)}
    return next((kind for cls, kind in ELEMENTS.items() if cls in types), "")


def _ascii(line: str) -> str:
    """Return a line of N-Triples without characters that a format cannot hold."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04X}", line)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write runs as a PROV document."""
    fmt = source.format.name.removeprefix("prov-")
    document = prov_document(source.triples(), fmt, source.named_graphs())
    file.write(write_document(document, fmt))
    count = sum(len(list(part.get_records())) for part in (document, *document.bundles))
    return Exported(count, source.format.unit)
