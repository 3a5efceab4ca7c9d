"""Ontology files as read: their triples, their imports, and the place of a term in the text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pyoxigraph as ox

from provml import resources
from provml.compiler.place import Place, in_json, in_turtle, in_xml, line_of
from provml.errors import OntologyError

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
DCTERMS = "http://purl.org/dc/terms/"
XSD = "http://www.w3.org/2001/XMLSchema#"
VANN = "http://purl.org/vocab/vann/"

CORE = (RDF, RDFS, OWL, XSD)
"""The namespaces of the languages that ontologies are written in: their terms are never compiled."""

STANDARD = (*CORE, SKOS, DCTERMS, VANN, "http://purl.org/dc/elements/1.1/", "http://xmlns.com/foaf/0.1/")
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
    """One ontology file: who it is, what it imports, what it says.

    Its triples stand in an order of their own, with blank nodes named by what is said of them: what is made of a file
    does not depend on the order in which it says things.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.bytes = path.read_bytes().removeprefix(b"\xef\xbb\xbf")  # Windows editors leave a mark there
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OntologyError(f"cannot be read ({reason})", "Check the path.", file=str(path)) from error
        self.prefixes: dict[str, str] = {}
        self.triples = self._parse()
        self.subjects: dict[Node, dict[str, list[Node]]] = {}
        for subject, predicate, node in self.triples:
            self.subjects.setdefault(subject, {}).setdefault(predicate, []).append(node)
        is_ontology = ox.NamedNode(OWL + "Ontology")
        heads = [node for node, said in self.subjects.items() if is_ontology in said.get(RDF + "type", [])]
        names = [node.value for node in heads if isinstance(node, ox.NamedNode)]
        if len(heads) > 1:
            reason = f"declares {len(heads)} ontologies ({', '.join(sorted(names))})"
            line = max((self.line_of(name) or 0 for name in names), default=0)
            raise OntologyError(reason, "Keep one `a owl:Ontology` in a file.", file=str(path), line=line or None)
        self.iri = names[0] if names else None
        said = self.subjects[heads[0]] if heads else {}
        self.imports = _values(said.get(OWL + "imports", []))
        self.names = frozenset([*names, *_values(said.get(OWL + "versionIRI", []))])

    def _parse(self) -> list[tuple[Node, str, Node]]:
        form = FORMATS.get(self.path.suffix.lower())
        if form is None:
            advice = f"Give a file that ends in one of {', '.join(FORMATS)}."
            reason = f"has an ending that names no RDF format ({self.path.suffix!r})"
            raise OntologyError(reason, advice, file=str(self.path))
        try:
            parser = ox.parse(self.bytes, form, without_named_graphs=True)
            graph = ox.Dataset(parser)
        except (SyntaxError, ValueError) as error:
            reason = re.sub(r"^Parser error at .*?: ", "", getattr(error, "msg", str(error))).rstrip(".")
            advice = f"Mend the syntax there; by its ending the file is read as {form.name}."
            if "No scheme" in reason:
                reason = f"a relative IRI, and no base to read it against ({reason})"
                advice = "Write the IRI in full, or declare a base (@base, xml:base)."
            line = getattr(error, "lineno", None)
            raise OntologyError(reason, advice, file=str(self.path), line=line) from error
        self.prefixes = dict(sorted(parser.prefixes.items()))
        if form is ox.RdfFormat.RDF_XML:
            declared = re.findall(
                r"""\bxmlns:([A-Za-z][\w.\-]*)\s*=\s*["']([^"'&]*)["']""", self.bytes.decode(errors="replace")
            )
            self.prefixes = dict(sorted(declared))
        graph.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
        triples = [(self._own(quad.subject), quad.predicate.value, self._own(quad.object)) for quad in graph]
        return sorted(triples, key=lambda triple: (str(triple[0]), triple[1], str(triple[2])))

    def _own(self, node: Node) -> Node:
        """A node whose name, if it is blank, is that of no node of another file."""
        return ox.BlankNode(f"{self.sha256}{node.value}") if isinstance(node, ox.BlankNode) else node

    @cached_property
    def sha256(self) -> str:
        """What the file's content is known by; line ends do not count."""
        return hashlib.sha256(self.bytes.replace(b"\r\n", b"\n")).hexdigest()

    @cached_property
    def places(self) -> list[Place]:
        """Every mention of a term in the text."""
        form = FORMATS[self.path.suffix.lower()]
        if form is ox.RdfFormat.RDF_XML:
            return in_xml(self.bytes)
        text = self.bytes.decode(errors="replace")
        if form is ox.RdfFormat.JSON_LD:
            return list(in_json(text, self.prefixes))
        return list(in_turtle(text))

    def line_of(self, iri: str, predicate: str | None = None, subject: str | None = None) -> int | None:
        """The line that says something of a term, or where it is an object; None where the text does not show it."""
        return line_of(self.places, iri, predicate, subject)


def _values(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(sorted(node.value for node in nodes if isinstance(node, ox.NamedNode)))


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
    "http://www.w3.org/ns/prov-o-20130430": "http://www.w3.org/ns/prov-o#",
    "http://www.w3.org/ns/mls": "http://www.w3.org/ns/mls#",
    "https://w3id.org/provlake#": "https://w3id.org/provlake",
    "https://w3id.org/provml#": "https://w3id.org/provml",
}
"""Other IRIs under which people import the same ontologies."""


def bundled(iri: str) -> Source:
    """One of our own ontologies; nothing is ever fetched."""
    return Source(resources.ontologies() / OURS[iri])


def load(paths: Iterable[Path], extra: Iterable[Path] = ()) -> tuple[list[Source], list[Source], list[Source]]:
    """The given files, the `extra` files that they may import, and those of ours that both build on.

    Each list has imports first. Ours come whole as soon as one of them is needed: its classes were compiled with the
    others.
    """
    targets = _read_once(paths)
    known = {source.path.resolve() for source in targets}
    extras = [source for source in _read_once(extra) if source.path.resolve() not in known]
    for source in targets:
        if source.iri in OURS:
            advice = "It is compiled already, as provml.vocab; give an ontology of your own an IRI of its own."
            raise OntologyError(f"is <{source.iri}>, which comes with provml", advice, file=str(source.path))
    extras = [source for source in extras if source.iri not in OURS]  # ours are what the classes were made of
    here = {name for source in (*targets, *extras) for name in source.names}
    needs_ours = False
    for source in (*targets, *extras):
        for iri in source.imports:
            if ALIASES.get(iri, iri) in OURS:
                needs_ours = True
            elif iri not in here:
                advice = f"Nothing is fetched: give its file with --import FILE, or import one of {', '.join(OURS)}."
                line = source.line_of(iri, OWL + "imports")
                raise OntologyError(f"imports <{iri}>, which is not here", advice, file=str(source.path), line=line)
        needs_ours = needs_ours or any(split(node.value)[0] in NAMESPACES for node in _named(source))
    return _in_order(targets), _in_order(extras), [bundled(iri) for iri in OURS] if needs_ours else []


def _read_once(paths: Iterable[Path]) -> list[Source]:
    """Each file once, however often and by whatever name it is given; the first name counts."""
    once: dict[Path, Path] = {}
    for path in paths:
        once.setdefault(Path(path).resolve(), Path(path))
    return [Source(path) for path in once.values()]


def _named(source: Source) -> Iterator[ox.NamedNode]:
    for subject, predicate, node in source.triples:
        yield ox.NamedNode(predicate)
        for end in (subject, node):
            if isinstance(end, ox.NamedNode):
                yield end


def _in_order(sources: list[Source]) -> list[Source]:
    """Each source after those that it imports; files that import each other keep the order given."""
    ordered: list[Source] = []
    by_name = {name: source for source in sources for name in source.names}

    def place(source: Source, above: tuple[Source, ...]) -> None:
        if source in ordered or source in above:
            return
        for iri in source.imports:
            if iri in by_name:
                place(by_name[iri], (*above, source))
        ordered.append(source)

    for source in sources:
        place(source, ())
    return ordered
