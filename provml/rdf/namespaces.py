"""The one table of namespaces and prefixes.

`provml.model` is a layer below and writes out the few IRIs of RDF and RDFS that it needs.
"""

from __future__ import annotations

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SH = "http://www.w3.org/ns/shacl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
BIBO = "http://purl.org/ontology/bibo/"
DC = "http://purl.org/dc/elements/1.1/"
DCTERMS = "http://purl.org/dc/terms/"
FOAF = "http://xmlns.com/foaf/0.1/"
VANN = "http://purl.org/vocab/vann/"
PROV = "http://www.w3.org/ns/prov#"
MLS = "http://www.w3.org/ns/mls#"
PROVLAKE = "https://w3id.org/provlake#"
PROVML = "https://w3id.org/provml#"
SCHEMA = "https://schema.org/"
FAIR4ML = "https://w3id.org/fair4ml#"
OPENLINEAGE = "https://openlineage.io/spec/"
SPDX = "https://spdx.org/rdf/3.0.1/"
CROISSANT = "http://mlcommons.org/croissant/"
RAI = f"{CROISSANT}RAI/"
RO_CRATE = "https://w3id.org/ro/crate/"
RO_TERMS = "https://w3id.org/ro/terms/"
RUN_CRATE = "https://w3id.org/ro/wfrun/"
WORKFLOW_HUB = "https://w3id.org/workflowhub/"
BIOSCHEMAS = "https://bioschemas.org/profiles/"

ONTOLOGY = "https://w3id.org/provml"
"""IRI of the PROV-ML ontology, and of the named graph that holds the ontologies in a store."""

INFERRED = "https://w3id.org/provml/inferred"
"""IRI of the named graph that holds what follows from the other graphs of a store."""

NODES = "https://w3id.org/provml/"
"""Start of the IRI of every node that provml mints."""

RUNS = f"{NODES}run/"
SHAPES = f"{NODES}shape/"
GENERATED_SHAPES = f"{SHAPES}generated/"

RDF_TYPE = f"{RDF}type"
RDFS_LITERAL = f"{RDFS}Literal"

PREFIXES = {
    "dcterms": DCTERMS,
    "mls": MLS,
    "owl": OWL,
    "prov": PROV,
    "provlake": PROVLAKE,
    "provml": PROVML,
    "rdf": RDF,
    "rdfs": RDFS,
    "skos": SKOS,
    "xsd": XSD,
}
"""Prefixes that every query may use without declaring them, and that every export declares."""

OTHER_PREFIXES = {
    "dc": DC,
    "dcat": "http://www.w3.org/ns/dcat#",
    "foaf": FOAF,
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "schema": SCHEMA,
    "sh": SH,
    "time": "http://www.w3.org/2006/time#",
    "vann": VANN,
    "void": "http://rdfs.org/ns/void#",
}
"""Prefixes that a query has to declare; a message about a missing one can give its declaration."""
