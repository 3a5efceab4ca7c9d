"""Conversion between things and RDF: N-Triples, N-Quads, Turtle, JSON-LD, rdflib, pyoxigraph, Python values."""

from provml.rdf.literals import DATATYPE_OF_KIND, KIND_OF_DATATYPE, term, value
from provml.rdf.namespaces import RDF, RDFS_LITERAL, XSD
from provml.rdf.parse import class_of, read, read_all
from provml.rdf.serialize import jsonld, nquads, ntriples, reachable, to_rdflib, triples, turtle

__all__ = [
    "DATATYPE_OF_KIND",
    "KIND_OF_DATATYPE",
    "RDF",
    "RDFS_LITERAL",
    "XSD",
    "class_of",
    "jsonld",
    "nquads",
    "ntriples",
    "reachable",
    "read",
    "read_all",
    "term",
    "to_rdflib",
    "triples",
    "turtle",
    "value",
]
