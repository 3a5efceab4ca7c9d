"""What other runs say about the lineage of a run, so that a run can be validated alone.

The context has statements about nodes of other runs only: how they made the data and models that the run used, and the
evaluations of its trainings. It has no types, so no shape targets these nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyoxigraph as ox

from provml.rdf.namespaces import PROV, PROVLAKE, PROVML, RDF_TYPE
from provml.store.links import EVALUATED_TRAINING, Quads

_USED, _GENERATED_BY = ox.NamedNode(f"{PROV}used"), ox.NamedNode(f"{PROV}wasGeneratedBy")
_CONTENT = tuple(ox.NamedNode(f"{PROV}{name}") for name in ("specializationOf", "alternateOf"))
_EVALUATED_ON = ox.NamedNode(f"{PROVML}evaluatedOn")
_ENTITY = (*_CONTENT, _GENERATED_BY, ox.NamedNode(f"{PROVLAKE}sha256"))
_STEP = (
    _USED,
    _EVALUATED_ON,
    EVALUATED_TRAINING,
    *(ox.NamedNode(f"{PROVML}{name}") for name in ("wasSectionOf", "builtOn", "learnedFrom", "aimedAtModel")),
)
_STEPS = (_GENERATED_BY, *(ox.NamedNode(f"{PROVML}{name}") for name in ("wasSectionOf", "builtOn")))
_TYPE, _TRAINING = ox.NamedNode(RDF_TYPE), ox.NamedNode(f"{PROVML}TrainingExecution")
_GRAPH = ox.DefaultGraph()
Term = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


def lineage_context(index: Quads, run: ox.Store) -> Iterator[ox.Quad]:
    """Yield the statements of an index about the lineage of a run that the graph of the run does not have."""
    done: set[Term] = set()
    queue: list[Term] = [quad.object for quad in run.quads_for_pattern(None, _USED, None, _GRAPH)]
    for training in run.quads_for_pattern(None, _TYPE, _TRAINING, _GRAPH):
        tests = index.quads_for_pattern(None, EVALUATED_TRAINING, training.subject, _GRAPH)
        queue += [quad.subject for quad in tests]
    while queue:
        node = queue.pop()
        if node in done or not isinstance(node, ox.NamedNode):
            continue
        done.add(node)
        for predicate in _CONTENT:
            queue += [quad.subject for quad in index.quads_for_pattern(None, predicate, node, _GRAPH)]
        is_external = next(run.quads_for_pattern(node, _TYPE, None, _GRAPH), None) is None
        for predicate in (*_ENTITY, *_STEP):
            for quad in index.quads_for_pattern(node, predicate, None, _GRAPH):
                if predicate in _STEPS or predicate in (_USED, _EVALUATED_ON):
                    queue.append(quad.object)
                if is_external:
                    yield quad
