"""Things as RDF and back: N-Triples and N-Quads bytes, pyoxigraph terms, Python values."""

from provml.rdf.literal import KINDS, RDF, RDFS_LITERAL, WRITTEN_AS, XSD, term, value
from provml.rdf.reading import class_of, read
from provml.rdf.writing import nquads, ntriples, reachable, triples

__all__ = [
    "KINDS",
    "RDF",
    "RDFS_LITERAL",
    "WRITTEN_AS",
    "XSD",
    "class_of",
    "nquads",
    "ntriples",
    "reachable",
    "read",
    "term",
    "triples",
    "value",
]
