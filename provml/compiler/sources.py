"""Ontology files: their triples, their imports, and the positions of terms in their text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote
from xml.parsers import expat

import pyoxigraph as ox

from provml import paths
from provml.compiler import owl_syntax
from provml.compiler.limits import check_nesting
from provml.compiler.problems import Problems
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
from provml.rdf.positions import Mention, in_json, in_turtle, in_xml, line_of
from provml.rdf.rdflib_bridge import as_file, is_rdflib_graph

_XML_PREFIX = re.compile(r"""\bxmlns:([A-Za-z][\w.\-]*)\s*=\s*["']([^"'&]*)["']""")

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

CORE = (RDF, RDFS, OWL, XSD)
"""Namespaces of the ontology languages; their terms are never compiled."""

STANDARD = (*CORE, SKOS, DCTERMS, VANN, DC, FOAF)
"""Namespaces whose terms an ontology may use without importing them."""

FORMATS: dict[str, ox.RdfFormat | str] = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".n3": ox.RdfFormat.N3,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
    ".json": ox.RdfFormat.JSON_LD,
    ".ofn": owl_syntax.FUNCTIONAL,
    ".omn": owl_syntax.MANCHESTER,
    ".owx": owl_syntax.OWL_XML,
}
"""Format by extension. The content decides for files whose extension is used for several formats, such as `.owl`."""

BASE = "http://example.org/"
"""Relative IRIs of a file without a base are resolved against this IRI and the name of the file."""


def detect_format(path: Path, data: bytes) -> ox.RdfFormat | str | None:
    """Return the format of a file; None if neither its extension nor its content tells."""
    suffix = path.suffix.lower()
    by_extension = FORMATS.get(suffix)
    if by_extension is not ox.RdfFormat.RDF_XML and (by_extension is not None or suffix not in ("", ".txt")):
        return by_extension
    start = re.sub(rb"\A(?:\s+|#[^\n]*\n|<\?.*?\?>|<!--.*?-->)*", b"", data[:4096], flags=re.DOTALL)
    for pattern, rdf_format in _FIRST_WORDS:
        if re.match(pattern, start):
            return rdf_format
    return by_extension


_FIRST_WORDS: tuple[tuple[bytes, ox.RdfFormat | str], ...] = (
    (rb"(?:Prefix|Ontology)\s*\(", owl_syntax.FUNCTIONAL),
    (rb"(?:Prefix|Ontology):", owl_syntax.MANCHESTER),
    (rb"(?:<!DOCTYPE\s+Ontology\b|<Ontology\b|<owl:Ontology\b)", owl_syntax.OWL_XML),
    (rb"(?i:@prefix\s|@base\s|prefix\s|base\s)|<[A-Za-z][\w+.\-]*:[^>\s]*>\s", ox.RdfFormat.TURTLE),
    (rb"[\[{]\s*[\"{]", ox.RdfFormat.JSON_LD),
)
"""What a file of each format begins with, after comments and the XML declaration."""


class Source:
    """One ontology file: its IRI, its imports and its triples.

    The triples are sorted and blank nodes are named by their content, so that the output of the compiler does not
    depend on the order of statements in the file.
    """

    def __init__(self, path: Path, problems: Problems | None = None) -> None:
        self.path = path
        self.problems = problems or Problems()
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
        headers = self._headers()
        self.iri = next((node.value for node in headers if isinstance(node, ox.NamedNode)), None)
        cells = [self.subjects[header] for header in headers]
        self.imports = _iris([node for cell in cells for node in cell.get(OWL + "imports", [])])
        versions = _iris([node for cell in cells for node in cell.get(OWL + "versionIRI", [])])
        self.names = frozenset([*(node.value for node in headers if isinstance(node, ox.NamedNode)), *versions])

    def _headers(self) -> list[Node]:
        """Return the nodes of the ontologies that the file declares, the one with the most statements first."""
        is_ontology = ox.NamedNode(OWL + "Ontology")
        headers = [node for node, cell in self.subjects.items() if is_ontology in cell.get(RDF + "type", [])]
        headers.sort(key=lambda node: (-sum(map(len, self.subjects[node].values())), str(node)))
        if len(headers) > 1:
            names = [node.value for node in headers if isinstance(node, ox.NamedNode)]
            self.problems.add(
                self.path,
                max((self.line_of(name) or 0 for name in names), default=0) or None,
                f"declares {len(headers)} ontologies ({', '.join(sorted(names))})",
                advice="Keep one `a owl:Ontology` per file.",
                assumption=f"one ontology <{names[0]}>" if names else "one ontology",
            )
        return headers

    def _parse(self) -> list[tuple[Node, str, Node]]:
        detected = detect_format(self.path, self.bytes)
        if detected is None:
            reason = f"has an extension of no RDF format ({self.path.suffix!r})"
            raise OntologyError(reason, f"Use one of {', '.join(FORMATS)}.", file=str(self.path))
        if isinstance(detected, str):
            self.rdf_format, rdf_bytes = ox.RdfFormat.RDF_XML, owl_syntax.to_rdf_xml(self.path, self.bytes, detected)
        else:
            self.rdf_format, rdf_bytes = detected, self.bytes
        self.is_converted = isinstance(detected, str)
        graph, prefixes = self._parse_graph(rdf_bytes)
        if self.rdf_format is ox.RdfFormat.RDF_XML:
            prefixes = dict(_XML_PREFIX.findall(rdf_bytes.decode(errors="replace")))
        if self.is_converted:
            prefixes |= owl_syntax.prefixes(self.bytes)
        self.prefixes = dict(sorted(prefixes.items()))
        check_nesting(graph, str(self.path))
        graph.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
        triples = [(self._qualify(quad.subject), quad.predicate.value, self._qualify(quad.object)) for quad in graph]
        return sorted(triples, key=lambda triple: (str(triple[0]), triple[1], str(triple[2])))

    def _parse_graph(self, data: bytes) -> tuple[ox.Dataset, dict[str, str]]:
        """Parse the content; relative IRIs of a file without a base get one from the name of the file."""
        parsed = ParsedFile(self.path, self.rdf_format, data=data, without_named_graphs=True)
        try:
            return ox.Dataset(parsed), parsed.prefixes
        except FileFormatError as error:
            if "No scheme" not in error.reason:
                raise self._syntax_error(error, self.rdf_format) from error
            relative = error
        base = BASE + quote(self.path.name)
        parsed = ParsedFile(self.path, self.rdf_format, data=data, without_named_graphs=True, base_iri=base)
        try:
            graph = ox.Dataset(parsed)
        except FileFormatError as error:
            raise self._syntax_error(error, self.rdf_format) from error
        problem = self._syntax_error(relative, self.rdf_format)
        advice = "Write the IRI in full, or declare a base (@base, xml:base)."
        self.problems.add(self.path, problem.line, problem.reason, advice=advice, assumption=f"the base <{base}>")
        return graph, parsed.prefixes

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
        text = self.bytes.decode(errors="replace")
        if self.is_converted:
            return list(in_turtle(text, self.prefixes))
        if self.rdf_format is ox.RdfFormat.RDF_XML:
            return in_xml(self.bytes)
        if self.rdf_format is ox.RdfFormat.JSON_LD:
            return list(in_json(text, self.prefixes))
        return list(in_turtle(text))

    @cached_property
    def _mentions_by_iri(self) -> dict[str, list[Mention]]:
        mentions: dict[str, list[Mention]] = {}
        for mention in self.mentions:
            mentions.setdefault(mention.iri, []).append(mention)
        return mentions

    def line_of(self, iri: str, predicate: str | None = None, subject: str | None = None) -> int | None:
        """Return the line of a term as a subject, or as object of the predicate; None if the text does not show it."""
        return line_of(self._mentions_by_iri.get(iri, ()), iri, predicate, subject)


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


def load(
    files: Iterable[Path], extra: Iterable[Path] = (), problems: Problems | None = None
) -> tuple[list[Source], list[Source], list[Source]]:
    """Read ontology files, the `extra` files that they may import, and the bundled ontologies that both build on.

    An extra path is a file, a folder of files or an XML catalog; of folders and catalogs, only what is imported is
    used. Each list has imports first. All bundled ontologies are loaded as soon as one of them is needed, because their
    classes were compiled together.
    """
    problems = problems or Problems()
    targets = _read_once(files, problems)
    target_paths = {source.path.resolve() for source in targets}
    named, offered = _expand(extra)
    extras = [source for source in _read_once(named, problems) if source.path.resolve() not in target_paths]
    extras += _select_imported([*targets, *extras], offered, problems)
    own_copies = [source for source in targets if source.iri in (*BUNDLED, *ALIASES)]
    # The classes of provml were compiled from the bundled files, not from another copy.
    extras = [source for source in extras if source.iri not in (*BUNDLED, *ALIASES)]
    sources = (*targets, *extras)
    available = {name for source in sources for name in source.names}
    is_needed = [_needs_bundled(source, available, problems) for source in sources]
    for source in own_copies:
        _check_own_copy(source, any(is_needed), problems)
    return _in_order(targets), _in_order(extras), [bundled(iri) for iri in BUNDLED] if any(is_needed) else []


def _check_own_copy(source: Source, needs_bundled: bool, problems: Problems) -> None:
    """Refuse to compile a copy of a bundled ontology together with the bundled ones: their terms are the same."""
    reason = f"is <{source.iri}>, which provml includes"
    advice = "It is compiled already, as provml.vocab. Give your ontology an IRI of its own."
    if needs_bundled:
        raise OntologyError(reason, advice, file=str(source.path))
    problems.add(source.path, None, reason, advice=advice, assumption="a module of its own, apart from provml.vocab")


def _expand(extra: Iterable[Path]) -> tuple[list[Path], dict[Path, str | None]]:
    """Return the files among some paths, and the files of folders and XML catalogs with the IRI of the catalog."""
    files: list[Path] = []
    offered: dict[Path, str | None] = {}
    for path in map(Path, extra):
        if path.is_dir():
            paths_below = (each for each in sorted(path.rglob("*")) if each.is_file())
            offered |= {each: None for each in paths_below if each.suffix.lower() in FORMATS}
        elif entries := _catalog_entries(path):
            offered |= {file: iri for iri, file in entries.items() if file.is_file()}
        else:
            files.append(path)
    return files, offered


def _catalog_entries(path: Path) -> dict[str, Path]:
    """Return the files that an OASIS XML catalog names, by IRI; empty if the file is no catalog."""
    entries: dict[str, Path] = {}
    if path.suffix.lower() != ".xml":
        return entries
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == f"{_CATALOG} uri" and {"name", "uri"} <= attributes.keys():
            entries[attributes["name"]] = path.parent / unquote(attributes["uri"].removeprefix("file://"))

    parser.StartElementHandler = start
    with suppress(OSError, expat.ExpatError):  # then it is read as an ontology, which reports the error
        parser.Parse(path.read_bytes(), True)
    return entries


_CATALOG = "urn:oasis:names:tc:entity:xmlns:xml:catalog"


def _select_imported(sources: list[Source], offered: Mapping[Path, str | None], problems: Problems) -> list[Source]:
    """Return the sources among the offered files that the given sources import, directly or not."""
    if not offered:
        return []
    candidates: dict[str, Source] = {}
    for path, iri in offered.items():
        try:
            candidate = Source(path, problems)
        except OntologyError:
            continue  # a folder may hold anything
        for name in (*candidate.names, *([iri] if iri else ())):
            candidates.setdefault(name, candidate)
        candidate.names |= {iri} if iri else set()
    paths = {source.path.resolve() for source in sources}
    selected: dict[Path, Source] = {}
    queue = [iri for source in sources for iri in source.imports]
    for iri in queue:  # grows while it is iterated
        match = candidates.get(iri)
        if match is not None and match.path.resolve() not in paths | selected.keys():
            selected[match.path.resolve()] = match
            queue += match.imports
    return list(selected.values())


def _needs_bundled(source: Source, available: set[str], problems: Problems) -> bool:
    """Return whether a source builds on a bundled ontology; report the imports that are missing."""
    own = {ALIASES.get(name, name) for name in available}
    namespaces = {namespace for namespace in NAMESPACES if ALIASES.get(namespace, namespace) not in own}
    is_needed = any(split(iri)[0] in namespaces for iri in _terms(source))
    for iri in source.imports:
        if ALIASES.get(iri, iri) in BUNDLED and ALIASES.get(iri, iri) not in own:
            is_needed = True
        elif iri not in available and ALIASES.get(iri, iri) not in own:
            problems.add(
                source.path,
                source.line_of(iri, OWL + "imports"),
                f"imports <{iri}>, which is missing",
                advice=f"Nothing is fetched: pass its file with --import FILE, or import one of {', '.join(BUNDLED)}.",
                assumption="its terms are what they are used as",
            )
    return is_needed


def _read_once(files: Iterable[Path], problems: Problems) -> list[Source]:
    """Read each file once; of several paths of one file the first counts. An rdflib graph counts as a file."""
    unique: dict[Path, Path] = {}
    for file in files:
        path = as_file(file) if is_rdflib_graph(file) else Path(file)
        unique.setdefault(path.resolve(), path)
    return [Source(path, problems) for path in unique.values()]


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
