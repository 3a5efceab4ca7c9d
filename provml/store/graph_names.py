"""The named graphs of a store that provml writes; all others were loaded."""

from __future__ import annotations

import pyoxigraph as ox

from provml.rdf.namespaces import INFERRED, ONTOLOGY

ONTOLOGY_GRAPH = ox.NamedNode(ONTOLOGY)
INFERRED_GRAPH = ox.NamedNode(INFERRED)
PROVIDED_GRAPHS = frozenset({ONTOLOGY_GRAPH, INFERRED_GRAPH})
