"""Which graphs a query sees as its default graph: the runs, with the ontologies, or with all that can be inferred."""

from __future__ import annotations

import re
from typing import Literal

import pyoxigraph as ox

from provml.errors import QueryError
from provml.rdf.namespaces import OWL, RDFS
from provml.store.graph_names import INFERRED_GRAPH, ONTOLOGY_GRAPH, PROVIDED_GRAPHS
from provml.store.sparql_tokens import tokenize

View = Literal["", "hierarchy", "inference"]
HIERARCHY = ("subClassOf", "subPropertyOf", "domain", "range")
"""Properties of RDF Schema that ontologies state, and runs do not."""
_HIERARCHY = re.compile(rf"(?:\brdfs:|<{re.escape(RDFS)})(?:{'|'.join(HIERARCHY)})\b|\bowl:|<{re.escape(OWL)}")


def view_of(sparql: str, *, inference: bool) -> View:
    """Return the view of a query: with inference if asked to, or with the ontologies if it asks for the hierarchy.

    A query that names its graphs sees these.
    """
    if not inference and not _HIERARCHY.search(sparql):
        return ""
    keywords = {token.keyword for token in tokenize(sparql)}
    if inference and "FROM" in keywords:
        raise QueryError("a query with FROM names its graphs itself", "Leave out FROM, or ask without inference.")
    if inference:
        return "inference"
    return "" if keywords & {"FROM", "GRAPH"} else "hierarchy"


def default_graphs(store: ox.Store, view: View) -> list[str]:
    """Return the named graphs that are part of the default graph of a view, besides the default graph itself.

    Of the loaded graphs, the hierarchy has those that state one, and inference has all.
    """
    if not view:
        return []
    loaded = [name for name in store.named_graphs() if isinstance(name, ox.NamedNode) and name not in PROVIDED_GRAPHS]
    if view == "inference":
        return [ONTOLOGY_GRAPH.value, INFERRED_GRAPH.value, *(name.value for name in loaded)]
    stated = [ox.NamedNode(RDFS + name) for name in HIERARCHY]
    return [
        ONTOLOGY_GRAPH.value,
        *(
            name.value
            for name in loaded
            if any(next(store.quads_for_pattern(None, term, None, name), None) is not None for term in stated)
        ),
    ]
