"""Read the ontology files for the tests of this folder."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox

HERE = Path(__file__).parent
FOLDER = Path(__file__).parents[2] / "ontologies"
MODULES = (*sorted(FOLDER.glob("*.ttl")),)
ALIGNMENTS = (*sorted(FOLDER.glob("alignment/*.ttl")),)
FILES = (*MODULES, *ALIGNMENTS)

TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
LABEL = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
ONTOLOGY = ox.NamedNode("http://www.w3.org/2002/07/owl#Ontology")
EXAMPLE = ox.NamedNode("http://www.w3.org/2004/02/skos/core#example")
PREFIXES = {
    "mls": "http://www.w3.org/ns/mls#",
    "prov": "http://www.w3.org/ns/prov#",
    "provlake": "https://w3id.org/provlake#",
    "provml": "https://w3id.org/provml#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def read(file: Path) -> list[ox.Triple]:
    """Return the triples of a Turtle file in document order."""
    return [quad.triple for quad in ox.parse(path=file, format=ox.RdfFormat.TURTLE)]


def headers(triples: list[ox.Triple]) -> set[ox.NamedNode]:
    """Return the ontologies that the triples declare."""
    return {triple.subject for triple in triples if triple.predicate == TYPE and triple.object == ONTOLOGY}


def load(*files: Path) -> ox.Store:
    """Load each file into a graph named by its ontology, or by the file's URI if it declares none."""
    store = ox.Store()
    for file in files:
        triples = read(file)
        graph = min(headers(triples), key=str, default=ox.NamedNode(file.as_uri()))
        store.extend(ox.Quad(*triple, graph) for triple in triples)
    return store


def snippets(*files: Path) -> dict[ox.NamedNode, str]:
    """Return the Turtle in the examples of the files, by the term that the example belongs to.

    Turtle starts with a name of the namespace ex:, at the beginning or after some words and a colon.
    """
    examples = {
        triple.subject: triple.object.value for file in files for triple in read(file) if triple.predicate == EXAMPLE
    }
    matches = {term: re.search(r"(?:^|: )(ex:.*)", example, re.DOTALL) for term, example in examples.items()}
    return {term: match[1] for term, match in matches.items() if match}


def parse_snippet(turtle: str, namespace: str) -> list[ox.Triple]:
    """Parse Turtle without prefix declarations; ex: is bound to the namespace."""
    prefixes = "".join(f"@prefix {prefix}: <{iri}> ." for prefix, iri in {**PREFIXES, "ex": namespace}.items())
    return [quad.triple for quad in ox.parse(prefixes + turtle, format=ox.RdfFormat.TURTLE)]
