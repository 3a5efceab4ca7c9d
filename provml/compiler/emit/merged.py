"""Write the bundled ontologies as one file, which tools can open without imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox

from provml.compiler.sources import BUNDLED, Source, bundled
from provml.errors import OntologyError
from provml.rdf.namespaces import BIBO, DCTERMS, NODES, OWL, RDF, VANN

COPIED = (
    *(DCTERMS + name for name in ("creator", "created", "issued", "modified")),
    BIBO + "status",
    VANN + "preferredNamespacePrefix",
    VANN + "preferredNamespaceUri",
)
"""Properties in the header of the last module that hold for all modules together."""
MERGED = f"{NODES}merged"
FORMATS = {".owl": ox.RdfFormat.RDF_XML, ".ttl": ox.RdfFormat.TURTLE, ".jsonld": ox.RdfFormat.JSON_LD}
TITLE = "PROV-ML with all its modules"
DESCRIPTION = (
    "PROV-ML, its deep-learning part, PROVLake, and the modules that restate W3C PROV-O and ML Schema, in one file "
    "without imports."
)


def merged_ontology(path: Path) -> bytes:
    """Return the bundled ontologies as one document in the format of the file extension: .owl, .ttl or .jsonld."""
    rdf_format = FORMATS.get(path.suffix.lower())
    if rdf_format is None:
        reason = f"unknown extension {path.suffix!r}" if path.suffix else "no file extension"
        raise OntologyError(reason, f"Use one of {', '.join(FORMATS)}.", file=str(path))
    sources = [bundled(iri) for iri in BUNDLED]
    prefixes = {name: iri for source in sources for name, iri in source.prefixes.items() if name}
    prefixes.pop("bibo", None)  # older OWL API parsers reject the escape in bibo:status\/draft
    triples = [*_header(sources), *(triple for source in sources for triple in _body(source))]
    document = ox.serialize(triples, format=rdf_format, prefixes=dict(sorted(prefixes.items())))
    assert document is not None  # it is None only for an output file
    return document


def _header(sources: list[Source]) -> Iterator[ox.Triple]:
    """Return the header of the merged ontology: version, dates and status of its last module, sources of all."""
    merged = ox.NamedNode(MERGED)
    newest = sources[-1].subjects[ox.NamedNode(sources[-1].iri or "")]
    (version,) = newest[OWL + "versionInfo"]
    yield ox.Triple(merged, ox.NamedNode(RDF + "type"), ox.NamedNode(OWL + "Ontology"))
    yield ox.Triple(merged, ox.NamedNode(OWL + "versionInfo"), version)
    version_iri = ox.NamedNode(f"{MERGED}/{version.value}")  # type: ignore[union-attr]
    yield ox.Triple(merged, ox.NamedNode(OWL + "versionIRI"), version_iri)
    yield ox.Triple(merged, ox.NamedNode(DCTERMS + "title"), ox.Literal(TITLE, language="en"))
    yield ox.Triple(merged, ox.NamedNode(DCTERMS + "description"), ox.Literal(DESCRIPTION, language="en"))
    for predicate in COPIED:
        for node in newest[predicate]:
            yield ox.Triple(merged, ox.NamedNode(predicate), node)
    for source in sources:
        header = source.subjects[ox.NamedNode(source.iri or "")]
        yield ox.Triple(merged, ox.NamedNode(DCTERMS + "hasPart"), header[OWL + "versionIRI"][0])
        for predicate in ("license", "source", "rightsHolder", "bibliographicCitation"):
            for node in header.get(DCTERMS + predicate, []):
                yield ox.Triple(merged, ox.NamedNode(DCTERMS + predicate), node)
    yield ox.Triple(
        ox.NamedNode(DCTERMS + "hasPart"), ox.NamedNode(RDF + "type"), ox.NamedNode(OWL + "AnnotationProperty")
    )


def _body(source: Source) -> Iterator[ox.Triple]:
    """Return the triples of a module without its header, declarations first: some parsers need them first."""
    body = [triple for triple in source.triples if triple[0] != ox.NamedNode(source.iri or "")]
    for subject, predicate, node in sorted(body, key=lambda triple: triple[1] != RDF + "type"):
        assert isinstance(subject, ox.NamedNode | ox.BlankNode)
        yield ox.Triple(subject, ox.NamedNode(predicate), node)
