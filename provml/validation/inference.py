"""Inference before a validation: what a graph implies by its classes, by RDFS or by OWL RL.

none     nothing: SHACL itself follows rdfs:subClassOf in the data
types    the superclasses of each type, and the types of named individuals, by the ontologies of provml (the default)
rdfs     subclasses, subproperties, domains and ranges, by the data and the ontologies
owlrl    OWL RL by the package owlrl, which comes with pySHACL; slow beyond some thousand triples
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import pyoxigraph as ox

from provml import paths
from provml.errors import MissingDependency, WrongValue
from provml.rdf.namespaces import RDF_TYPE, RDFS
from provml.validation.class_hierarchy import implied_triples

InferenceName: TypeAlias = Literal["none", "types", "rdfs", "owlrl"]
INFERENCES: tuple[InferenceName, ...] = get_args(InferenceName)

AXIOMS = ox.NamedNode("urn:provml:axioms")
"""The graph of what ontologies and data state about classes and properties."""
RDFS_RULES = (
    f"?s ?p ?o GRAPH {AXIOMS} {{ ?p <{RDFS}subPropertyOf> ?q }} FILTER(isIRI(?q))",
    f"?s0 ?p ?x GRAPH {AXIOMS} {{ ?p <{RDFS}domain> ?o }} FILTER(isIRI(?o)) BIND(?s0 AS ?s) BIND(<{RDF_TYPE}> AS ?q)",
    f"?x ?p ?s GRAPH {AXIOMS} {{ ?p <{RDFS}range> ?o }} FILTER(isIRI(?o) && !isLiteral(?s)) BIND(<{RDF_TYPE}> AS ?q)",
    f"?s a ?c GRAPH {AXIOMS} {{ ?c <{RDFS}subClassOf> ?o }} FILTER(isIRI(?o)) BIND(<{RDF_TYPE}> AS ?q)",
)
"""The conditions of the rules of RDFS; each gives the triple ?s ?q ?o."""


def check_inference(name: str) -> None:
    """Raise if there is no such inference."""
    if name not in INFERENCES:
        raise WrongValue("validation", "inference", name, "an inference", f"Use one of {', '.join(INFERENCES)}.")


def inferred_triples(store: ox.Store, inference: InferenceName) -> list[ox.Triple]:
    """Return the triples that the default graph of a store implies and lacks."""
    if inference == "none":
        return []
    if inference == "types":
        return implied_triples(store)
    return _by_rdfs(store) if inference == "rdfs" else _by_owl_rl(store)


def _with_ontologies(store: ox.Store) -> ox.Store:
    """Return a copy of the default graph, with the statements of data and ontologies about terms as axioms."""
    copy = ox.Store()
    copy.bulk_extend(ox.Quad(*quad.triple) for quad in store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
    for path in sorted(paths.ontologies().glob("*.ttl")):
        copy.load(path=str(path), format=ox.RdfFormat.TURTLE, to_graph=AXIOMS)
    terms = " ".join(f"<{RDFS}{name}>" for name in ("subClassOf", "subPropertyOf", "domain", "range"))
    copy.update(f"INSERT {{ GRAPH {AXIOMS} {{ ?s ?p ?o }} }} WHERE {{ VALUES ?p {{ {terms} }} ?s ?p ?o }}")
    return copy


def _by_rdfs(store: ox.Store) -> list[ox.Triple]:
    """Apply the rules of RDFS until nothing is new."""
    copy = _with_ontologies(store)
    inferred: dict[ox.Triple, None] = {}
    has_changed = True
    while has_changed:
        has_changed = False
        for condition in RDFS_RULES:
            query = f"CONSTRUCT {{ ?s ?q ?o }} WHERE {{ {condition} FILTER NOT EXISTS {{ ?s ?q ?o }} }}"
            triples: Any = copy.query(query)
            new = list(dict.fromkeys(triples))
            copy.extend(ox.Quad(*triple) for triple in new)
            inferred.update(dict.fromkeys(new))
            has_changed |= bool(new)
    return list(inferred)


def _by_owl_rl(store: ox.Store) -> list[ox.Triple]:
    """Let owlrl compute the closure; only what it says about the nodes of the data is returned."""
    try:
        import owlrl
        import rdflib
    except ImportError as error:
        raise MissingDependency("owlrl", "shacl") from error
    from provml.validation.rdflib_terms import to_pyoxigraph, to_rdflib

    graph = rdflib.Graph()
    stated = {quad.triple for quad in store.quads_for_pattern(None, None, None, ox.DefaultGraph())}
    nodes = {triple.subject for triple in stated} | {triple.object for triple in stated}
    for triple in stated:
        graph.add((to_rdflib(triple.subject), to_rdflib(triple.predicate), to_rdflib(triple.object)))
    for path in sorted(paths.ontologies().glob("*.ttl")):
        graph.parse(path, format="turtle")
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    inferred = []
    for subject, predicate, value in graph:
        if isinstance(subject, rdflib.Literal) or not isinstance(predicate, rdflib.URIRef):
            continue
        node = to_pyoxigraph(subject)
        if node in nodes and predicate != rdflib.OWL.sameAs and not isinstance(value, rdflib.Literal):
            inferred.append(ox.Triple(node, to_pyoxigraph(predicate), to_pyoxigraph(value)))
    return [triple for triple in inferred if triple not in stated]
