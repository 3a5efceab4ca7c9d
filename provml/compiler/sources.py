"""Ontology files: their triples, their imports, and the positions of terms in their text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pyoxigraph as ox

from provml import paths
from provml.compiler.positions import Mention, in_json, in_turtle, in_xml, line_of
from provml.errors import FileFormatError, OntologyError
from provml.rdf.namespaces import (
    DC,
    DCTERMS,
    FOAF,
    MLS,
    NODES,
    ONTOLOGY,
    OWL,
    PROV,
    PROVLAKE,
    PROVML,
    RDF,
    RDFS,
    SKOS,
    VANN,
    XSD,
)
from provml.rdf.parse_file import ParsedFile

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

CORE = (RDF, RDFS, OWL, XSD)
"""Namespaces of the ontology languages; their terms are never compiled."""

STANDARD = (*CORE, SKOS, DCTERMS, VANN, DC, FOAF)
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
    """One ontology file: its IRI, its imports and its triples.

    The triples are sorted and blank nodes are named by their content, so that the output of the compiler does not
    depend on the order of statements in the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.bytes = path.read_bytes().removeprefix(b"\xef\xbb\xbf")  # the byte order mark of Windows editors
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OntologyError(f"cannot be read ({reason})", "Check the path.", file=str(path)) from error
        self.prefixes: dict[str, str] = {}
        self.triples = self._parse()
        self.subjects: dict[Node, dict[str, list[Node]]] = {}
        for subject, predicate, node in self.triples:
            self.subjects.setdefault(subject, {}).setdefault(predicate, []).append(node)
        header = self._header()
        self.iri = header.value if isinstance(header, ox.NamedNode) else None
        statements = self.subjects[header] if header is not None else {}
        self.imports = _iris(statements.get(OWL + "imports", []))
        names = [self.iri] if self.iri else []
        self.names = frozenset([*names, *_iris(statements.get(OWL + "versionIRI", []))])

    def _header(self) -> Node | None:
        """Return the node of the ontology that the file declares, if any."""
        is_ontology = ox.NamedNode(OWL + "Ontology")
        headers = [node for node, cell in self.subjects.items() if is_ontology in cell.get(RDF + "type", [])]
        if len(headers) > 1:
            names = [node.value for node in headers if isinstance(node, ox.NamedNode)]
            reason = f"declares {len(headers)} ontologies ({', '.join(sorted(names))})"
            line = max((self.line_of(name) or 0 for name in names), default=0)
            raise OntologyError(reason, "Keep one `a owl:Ontology` per file.", file=str(self.path), line=line or None)
        return headers[0] if headers else None

    def _parse(self) -> list[tuple[Node, str, Node]]:
        rdf_format = FORMATS.get(self.path.suffix.lower())
        if rdf_format is None:
            reason = f"has an extension of no RDF format ({self.path.suffix!r})"
            raise OntologyError(reason, f"Use one of {', '.join(FORMATS)}.", file=str(self.path))
        parsed = ParsedFile(self.path, rdf_format, data=self.bytes, without_named_graphs=True)
        try:
            graph = ox.Dataset(parsed)
        except FileFormatError as error:
            raise self._syntax_error(error, rdf_format) from error
        self.prefixes = dict(sorted(parsed.prefixes.items()))
        if rdf_format is ox.RdfFormat.RDF_XML:
            declared = re.findall(
                r"""\bxmlns:([A-Za-z][\w.\-]*)\s*=\s*["']([^"'&]*)["']""", self.bytes.decode(errors="replace")
            )
            self.prefixes = dict(sorted(declared))
        graph.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
        triples = [(self._qualify(quad.subject), quad.predicate.value, self._qualify(quad.object)) for quad in graph]
        return sorted(triples, key=lambda triple: (str(triple[0]), triple[1], str(triple[2])))

    def _syntax_error(self, error: FileFormatError, rdf_format: ox.RdfFormat) -> OntologyError:
        reason = error.reason
        advice = f"Fix the syntax there; the extension selects the format {rdf_format.name}."
        if "No scheme" in reason:
            reason = f"a relative IRI without a base ({reason})"
            advice = "Write the IRI in full, or declare a base (@base, xml:base)."
        return OntologyError(reason, advice, file=str(self.path), line=error.line)

    def _qualify(self, node: Node) -> Node:
        """Give a blank node a name that no blank node of another file has."""
        return ox.BlankNode(f"{self.sha256}{node.value}") if isinstance(node, ox.BlankNode) else node

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content; line endings do not count."""
        return hashlib.sha256(self.bytes.replace(b"\r\n", b"\n")).hexdigest()

    @cached_property
    def mentions(self) -> list[Mention]:
        """All mentions of terms in the text."""
        rdf_format = FORMATS[self.path.suffix.lower()]
        if rdf_format is ox.RdfFormat.RDF_XML:
            return in_xml(self.bytes)
        text = self.bytes.decode(errors="replace")
        if rdf_format is ox.RdfFormat.JSON_LD:
            return list(in_json(text, self.prefixes))
        return list(in_turtle(text))

    def line_of(self, iri: str, predicate: str | None = None, subject: str | None = None) -> int | None:
        """Return the line of a term as a subject, or as object of the predicate; None if the text does not show it."""
        return line_of(self.mentions, iri, predicate, subject)


def _iris(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(sorted(node.value for node in nodes if isinstance(node, ox.NamedNode)))


def split(iri: str) -> tuple[str, str]:
    """Split an IRI into namespace and local name."""
    cut = max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1
    return iri[:cut], iri[cut:]


PROV_O = f"{NODES}module/prov-o"
ML_SCHEMA = f"{NODES}module/mls"

BUNDLED: dict[str, str] = {
    PROV_O: "prov-o.ttl",
    ML_SCHEMA: "mls.ttl",
    "https://w3id.org/provlake": "provlake.ttl",
    ONTOLOGY: "provml.ttl",
    "https://w3id.org/provml-dl": "provml-dl.ttl",
}
"""Files of the ontologies of provml by IRI, each after its imports."""

NAMESPACES = frozenset(
    {
        PROV,
        MLS,
        PROVLAKE,
        PROVML,
    }
)
"""Namespaces of the terms of the bundled ontologies."""

ALIASES: dict[str, str] = {
    PROV: PROV_O,
    "http://www.w3.org/ns/prov": PROV_O,
    "http://www.w3.org/ns/prov-o": PROV_O,
    "http://www.w3.org/ns/prov-o#": PROV_O,
    "http://www.w3.org/ns/prov-o-20130430": PROV_O,
    "http://www.w3.org/ns/mls": ML_SCHEMA,
    MLS: ML_SCHEMA,
    PROVLAKE: "https://w3id.org/provlake",
    PROVML: ONTOLOGY,
}
"""Other IRIs of the same ontologies, in imports and in rdfs:isDefinedBy: a bundled module restates W3C's original."""


def bundled(iri: str) -> Source:
    """Read one of the ontologies of provml; nothing is ever fetched."""
    return Source(paths.ontologies() / BUNDLED[iri])


def load(files: Iterable[Path], extra: Iterable[Path] = ()) -> tuple[list[Source], list[Source], list[Source]]:
    """Read ontology files, the `extra` files that they may import, and the bundled ontologies that both build on.

    Each list has imports first. All bundled ontologies are loaded as soon as one of them is needed, because their
    classes were compiled together.
    """
    targets = _read_once(files)
    target_paths = {source.path.resolve() for source in targets}
    extras = [source for source in _read_once(extra) if source.path.resolve() not in target_paths]
    for source in targets:
        if source.iri in (*BUNDLED, *ALIASES):
            advice = "It is compiled already, as provml.vocab. Give your ontology an IRI of its own."
            raise OntologyError(f"is <{source.iri}>, which provml includes", advice, file=str(source.path))
    # The classes of provml were compiled from the bundled files, not from another copy.
    extras = [source for source in extras if source.iri not in (*BUNDLED, *ALIASES)]
    sources = (*targets, *extras)
    available = {name for source in sources for name in source.names}
    is_needed = [_needs_bundled(source, available) for source in sources]
    return _in_order(targets), _in_order(extras), [bundled(iri) for iri in BUNDLED] if any(is_needed) else []


def _needs_bundled(source: Source, available: set[str]) -> bool:
    """Return whether a source builds on a bundled ontology; raise `OntologyError` if an import is missing."""
    is_needed = any(split(iri)[0] in NAMESPACES for iri in _terms(source))
    for iri in source.imports:
        if ALIASES.get(iri, iri) in BUNDLED:
            is_needed = True
        elif iri not in available:
            advice = f"Nothing is fetched: pass its file with --import FILE, or import one of {', '.join(BUNDLED)}."
            line = source.line_of(iri, OWL + "imports")
            raise OntologyError(f"imports <{iri}>, which is missing", advice, file=str(source.path), line=line)
    return is_needed


def _read_once(files: Iterable[Path]) -> list[Source]:
    """Read each file once; of several paths of one file the first counts."""
    unique: dict[Path, Path] = {}
    for path in files:
        unique.setdefault(Path(path).resolve(), Path(path))
    return [Source(path) for path in unique.values()]


def _terms(source: Source) -> Iterator[str]:
    for subject, predicate, node in source.triples:
        yield predicate
        for end in (subject, node):
            if isinstance(end, ox.NamedNode):
                yield end.value


def _in_order(sources: list[Source]) -> list[Source]:
    """Sort sources so that each follows its imports; files that import each other keep their order."""
    ordered: list[Source] = []
    by_name = {name: source for source in sources for name in source.names}

    def add(source: Source, importers: tuple[Source, ...]) -> None:
        if source in ordered or source in importers:
            return
        for iri in source.imports:
            if iri in by_name:
                add(by_name[iri], (*importers, source))
        ordered.append(source)

    for source in sources:
        add(source, ())
    return ordered
