"""Ontology files as read: their triples, their imports, and the place of a term in the text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyoxigraph as ox

from provml import resources
from provml.errors import OntologyError

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
DCTERMS = "http://purl.org/dc/terms/"
XSD = "http://www.w3.org/2001/XMLSchema#"
VANN = "http://purl.org/vocab/vann/"

STANDARD = (RDF, RDFS, OWL, XSD, SKOS, DCTERMS, VANN, "http://purl.org/dc/elements/1.1/", "http://xmlns.com/foaf/0.1/")
"""Namespaces whose terms an ontology may use without importing them."""

FORMATS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".n3": ox.RdfFormat.N3,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
}


class Source:
    """One ontology file: who it is, what it imports, what it says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.bytes = path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OntologyError(f"cannot be read ({reason})", "Check the path.", file=str(path)) from error
        self.triples = list(self._parse())
        self.subjects: dict[Node, dict[str, list[Node]]] = {}
        for subject, predicate, node in self.triples:
            self.subjects.setdefault(subject, {}).setdefault(predicate, []).append(node)
        heads = [
            node.value
            for node, said in self.subjects.items()
            if isinstance(node, ox.NamedNode) and ox.NamedNode(OWL + "Ontology") in said.get(RDF + "type", [])
        ]
        if len(heads) > 1:
            reason = f"declares {len(heads)} ontologies ({', '.join(sorted(heads))})"
            raise OntologyError(reason, "Keep one `a owl:Ontology` in a file.", file=str(path))
        self.iri: str | None = heads[0] if heads else None
        head = self.subjects.get(ox.NamedNode(self.iri), {}) if self.iri else {}
        self.imports = tuple(
            sorted(str(node.value) for node in head.get(OWL + "imports", []) if hasattr(node, "value"))
        )

    def _parse(self) -> Iterator[tuple[Node, str, Node]]:
        form = FORMATS.get(self.path.suffix.lower())
        if form is None:
            known = ", ".join(FORMATS)
            advice = f"Give a file that ends in one of {known}."
            raise OntologyError(
                f"has an ending that names no RDF format ({self.path.suffix!r})", advice, file=str(self.path)
            )
        try:
            base = self.path.resolve().as_uri()
            for quad in ox.parse(self.bytes, form, base_iri=base, without_named_graphs=True):
                yield quad.subject, quad.predicate.value, quad.object
        except SyntaxError as error:
            reason = re.sub(r"^Parser error at .*?: ", "", str(error.msg)).rstrip(".")
            raise OntologyError(reason, "Mend the syntax there.", file=str(self.path), line=error.lineno) from error
        except (ValueError, UnicodeDecodeError) as error:
            raise OntologyError(str(error), "Mend the file.", file=str(self.path)) from error

    @property
    def sha256(self) -> str:
        """What the file's content is known by; line ends do not count."""
        return hashlib.sha256(self.bytes.replace(b"\r\n", b"\n")).hexdigest()

    def line_of(self, iri: str) -> int | None:
        """The first line that names a term, in full or with a prefix; None where the text does not show it."""
        text = self.bytes.decode(errors="replace")
        namespace, name = split(iri)
        prefixes = re.findall(r"@?prefix\s+([\w.\-]*):\s*<([^>]*)>", text, re.IGNORECASE)
        written = [re.escape(f"<{iri}>")]
        written += [
            rf"(?<![\w:.\-]){re.escape(prefix)}:{re.escape(name)}(?![\w\-])"
            for prefix, ns in prefixes
            if ns == namespace
        ]
        found = [match for pattern in written if (match := re.search(pattern, text))]
        return text.count("\n", 0, min(match.start() for match in found)) + 1 if found else None


def split(iri: str) -> tuple[str, str]:
    """An IRI as namespace and local name."""
    cut = max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1
    return iri[:cut], iri[cut:]


OURS: dict[str, str] = {
    "http://www.w3.org/ns/prov-o#": "prov-o.ttl",
    "http://www.w3.org/ns/mls#": "mls.ttl",
    "https://w3id.org/provlake": "provlake.ttl",
    "https://w3id.org/provml": "provml.ttl",
    "https://w3id.org/provml-dl": "provml-dl.ttl",
}
"""The ontologies that come with provml, by IRI, each after those it imports."""

NAMESPACES: dict[str, str] = {
    "http://www.w3.org/ns/prov#": "http://www.w3.org/ns/prov-o#",
    "http://www.w3.org/ns/mls#": "http://www.w3.org/ns/mls#",
    "https://w3id.org/provlake#": "https://w3id.org/provlake",
    "https://w3id.org/provml#": "https://w3id.org/provml-dl",
}
"""Which of our ontologies to load for a term of one of these namespaces."""

ALIASES: dict[str, str] = {
    "http://www.w3.org/ns/prov#": "http://www.w3.org/ns/prov-o#",
    "http://www.w3.org/ns/prov": "http://www.w3.org/ns/prov-o#",
    "http://www.w3.org/ns/prov-o": "http://www.w3.org/ns/prov-o#",
    "http://www.w3.org/ns/mls": "http://www.w3.org/ns/mls#",
    "https://w3id.org/provlake#": "https://w3id.org/provlake",
    "https://w3id.org/provml#": "https://w3id.org/provml",
}
"""Other IRIs under which people import the same ontologies."""


def bundled(iri: str) -> Source:
    """One of our own ontologies; nothing is ever fetched."""
    return Source(resources.ontologies() / OURS[iri])


def load(paths: Iterable[Path], extra: Iterable[Path] = ()) -> tuple[list[Source], list[Source]]:
    """The given files, and what they import: ours by IRI, others from `extra`. Both lists have imports first."""
    targets = [Source(Path(path)) for path in paths]
    named = {source.iri: source for source in (Source(Path(path)) for path in extra)}
    known = {source.iri: source for source in targets if source.iri}
    imported: dict[str, Source] = {}

    def bring(iri: str, asked_by: Source) -> None:
        iri = ALIASES.get(iri, iri)
        if iri in known or iri in imported:
            return
        if iri in named:
            source = named[iri]
        elif iri in OURS:
            source = bundled(iri)
        else:
            advice = f"Nothing is fetched: give its file with --import FILE, or import one of {', '.join(OURS)}."
            raise OntologyError(
                f"imports <{iri}>, which is not here", advice, file=str(asked_by.path), line=asked_by.line_of(iri)
            )
        for other in source.imports:
            bring(other, source)
        imported[iri] = source

    for source in targets:
        for iri in source.imports:
            bring(iri, source)
        for namespace in sorted({split(node.value)[0] for node in _named(source)}):
            if namespace in NAMESPACES:
                bring(NAMESPACES[namespace], source)
    return _in_order(targets), list(imported.values())


def _named(source: Source) -> Iterator[ox.NamedNode]:
    for subject, predicate, node in source.triples:
        yield ox.NamedNode(predicate)
        for end in (subject, node):
            if isinstance(end, ox.NamedNode):
                yield end


def _in_order(sources: list[Source]) -> list[Source]:
    """Each source after those that it imports; files that import each other keep the order given."""
    ordered: list[Source] = []
    by_iri = {source.iri: source for source in sources}

    def place(source: Source, above: tuple[Source, ...]) -> None:
        if source in ordered or source in above:
            return
        for iri in source.imports:
            if ALIASES.get(iri, iri) in by_iri:
                place(by_iri[ALIASES.get(iri, iri)], (*above, source))
        ordered.append(source)

    for source in sources:
        place(source, ())
    return ordered
