"""Files with a graph: every RDF format and every PROV document, recognized by extension and content, as quads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.errors import FileFormatError
from provml.rdf.parse_file import ParsedFile
from provml.rdf.prov_carrier import restore
from provml.rdf.prov_documents import document_quads, prov_format, read_document

if TYPE_CHECKING:
    import pyoxigraph as ox

RDF_EXTENSIONS = {
    ".ttl": "text/turtle",
    ".trig": "application/trig",
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
    ".n3": "text/n3",
    ".rdf": "application/rdf+xml",
    ".owl": "application/rdf+xml",
    ".xml": "application/rdf+xml",
    ".jsonld": "application/ld+json",
    ".json": "application/ld+json",
}
"""The media types of RDF files by extension."""
PROV_EXTENSIONS = (".provn", ".json", ".xml", ".jsonld")
"""The extensions of PROV documents; the content tells PROV-JSON from JSON-LD, and PROV-XML from RDF/XML."""
GRAPH_EXTENSIONS = tuple(dict.fromkeys((*RDF_EXTENSIONS, *PROV_EXTENSIONS)))


def read_quads(path: Path, **options: Any) -> Iterator[ox.Quad]:
    """Iterate over the quads of a file. Raises FileFormatError for every kind of problem.

    `options` are those of `pyoxigraph.parse`. In a PROV document each bundle is a named graph.
    """
    fmt = prov_format(path)
    if not fmt:
        yield from ParsedFile(path, rdf_format(path), **options)
        return
    try:
        yield from restore(document_quads(read_document(path, fmt)))
    except FileFormatError:
        raise
    except ValueError as error:  # a name that is no IRI
        raise FileFormatError(f"it has an invalid name ({error})", "Correct it.", file=str(path)) from error


def check_extension(path: Path) -> None:
    """Raise FileFormatError for an extension that no graph has."""
    if path.suffix.lower() not in GRAPH_EXTENSIONS:
        reason = f"unknown extension {path.suffix!r}" if path.suffix else "no file extension"
        raise FileFormatError(reason, f"Use one of {', '.join(GRAPH_EXTENSIONS)}.", file=str(path))


def rdf_format(path: Path) -> ox.RdfFormat:
    """Return the RDF format of a file by its extension."""
    import pyoxigraph as ox

    check_extension(path)
    graph_format = ox.RdfFormat.from_media_type(RDF_EXTENSIONS.get(path.suffix.lower(), ""))
    if graph_format is None:
        reason, advice = f"it is no PROV document, which {path.suffix} stands for", "Correct its content or its name."
        raise FileFormatError(reason, advice, file=str(path))
    return graph_format
