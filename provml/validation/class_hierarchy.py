"""What the classes of the ontologies imply about a graph: super-classes, and the types of the roles.

provml writes all types of a node; other tools write the most specific one. A validation adds the others, so that a
prov:Person is accepted where a prov:Agent is required.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import pyoxigraph as ox

from provml import paths
from provml.rdf.namespaces import OWL, RDF_TYPE, RDFS

SUBCLASS_OF = f"{RDFS}subClassOf"
SUPER_CLASSES = f"""
SELECT DISTINCT ?class ?super {{
  ?class <{SUBCLASS_OF}>+ ?super FILTER (isIRI(?class) && isIRI(?super) && ?class != ?super)
}}"""
INDIVIDUALS = f"""
SELECT DISTINCT ?node ?type {{
  ?node a <{OWL}NamedIndividual> ; a/<{SUBCLASS_OF}>* ?type
  FILTER (isIRI(?node) && isIRI(?type) && ?type != <{OWL}NamedIndividual>)
}}"""


class ClassHierarchy(NamedTuple):
    """The super-classes of each class, direct or not, and the types of the named individuals."""

    super_classes: dict[ox.NamedNode, list[ox.NamedNode]]
    individuals: dict[ox.NamedNode, list[ox.NamedNode]]


@lru_cache(1)
def class_hierarchy() -> ClassHierarchy:
    """Return the class hierarchy of the ontologies."""
    store = ox.Store()
    for path in sorted(paths.ontologies().glob("*.ttl")):
        store.load(path=str(path), format=ox.RdfFormat.TURTLE)

    def group(query: str) -> dict[ox.NamedNode, list[ox.NamedNode]]:
        groups: dict[ox.NamedNode, list[ox.NamedNode]] = {}
        rows: Any = store.query(query)
        for key, value in rows:
            groups.setdefault(key, []).append(value)
        return groups

    return ClassHierarchy(group(SUPER_CLASSES), group(INDIVIDUALS))


def implied_triples(store: ox.Store) -> list[ox.Triple]:
    """Return the types and super-classes that the ontologies imply and that the default graph of a store lacks."""

    def nodes(pattern: str) -> list[Any]:
        rows: Any = store.query(f"SELECT DISTINCT ?node {{ {pattern} }}")
        return [row[0] for row in rows]

    hierarchy = class_hierarchy()
    implied: dict[ox.Triple, None] = {}
    for predicate in (ox.NamedNode(RDF_TYPE), ox.NamedNode(SUBCLASS_OF)):
        for cls in nodes(f"?any {predicate} ?node"):
            for other in hierarchy.super_classes.get(cls, ()):
                lacking = nodes(f"?node {predicate} {cls} FILTER NOT EXISTS {{ ?node {predicate} {other} }}")
                implied.update((ox.Triple(node, predicate, other), None) for node in lacking)
    for node, types in hierarchy.individuals.items():
        if store.query(f"ASK {{ {{ ?s ?p {node} }} UNION {{ {node} ?p ?o }} }}"):
            triples = [ox.Triple(node, ox.NamedNode(RDF_TYPE), cls) for cls in types]
            implied.update((triple, None) for triple in triples if ox.Quad(*triple) not in store)
    return list(implied)
