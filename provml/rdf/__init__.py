"""Conversion between things and RDF: N-Triples and N-Quads, JSON-LD, pyoxigraph terms, Python values."""

from provml.rdf.literals import DATATYPE_OF_KIND, KIND_OF_DATATYPE, term, value
from provml.rdf.namespaces import RDF, RDFS_LITERAL, XSD
from provml.rdf.parse import class_of, read
from provml.rdf.serialize import nquads, ntriples, reachable, triples

__all__ = [
    "DATATYPE_OF_KIND",
    "KIND_OF_DATATYPE",
    "RDF",
    "RDFS_LITERAL",
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
