"""The runs of an endpoint by the graph alone, and the nodes and statements of each run.

A run owns the nodes whose IRIs begin with its own. All of them are linked to the run, directly or through each other or
through nodes that runs share, so they are found step by step, in time that grows with the run and not with the dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyoxigraph as ox

from provml import rdf
from provml.journal.annotations import Annotation, Kind
from provml.mapping import iris
from provml.rdf.namespaces import PROV, PROVLAKE, PROVML, RDF_TYPE, RDFS, RUNS
from provml.store.endpoint.client import Endpoint
from provml.store.endpoint.progress import ENDPOINT, Names
from provml.store.links import BUILT_ON, EVALUATED_TRAINING
from provml.store.run_info import RunInfo

BATCH = 500
"""Nodes in one query."""
RUN_FACTS = """
SELECT ?run ?property ?value WHERE {
  ?run a provml:LearningProcessExecution ; ?property ?value .
  FILTER(?property IN (
    provlake:status, prov:startedAtTime, provml:elapsedSeconds, provlake:exceptionType, provlake:exceptionMessage,
    provlake:wasDerivedFromWorkflow, provml:aimedAtModel, provml:hasTag, rdfs:label, provml:wasChildOf))
}"""
LABELS = """
SELECT DISTINCT ?node ?label WHERE {
  ?run a provml:LearningProcessExecution .
  { ?run provlake:wasDerivedFromWorkflow ?node } UNION { ?run provml:aimedAtModel ?node }
  ?node rdfs:label ?label
}"""
ANNOTATIONS = """
SELECT ?node ?run ?property ?value WHERE {
  ?node provml:annotates ?run ; ?property ?value .
  FILTER(?property IN (prov:value, prov:generatedAtTime, prov:wasAttributedTo, prov:invalidatedAtTime,
                       provml:wasRemovedBy, rdf:type))
}"""
COUNTS = f"""
SELECT ?run ?events ?writers WHERE {{
  ?node <{ENDPOINT}run> ?run ; <{ENDPOINT}events> ?events ; <{ENDPOINT}writers> ?writers
}}"""
KINDS: dict[str, Kind] = {f"{PROVML}Tag": "tag", f"{PROVML}Note": "note", f"{PROVML}RunName": "name"}


# ---- summaries


def list_runs(endpoint: Endpoint) -> list[RunInfo]:
    """List the runs, the latest first."""
    facts: dict[str, dict[str, list[Any]]] = {}
    for run, name, value in endpoint.query(RUN_FACTS):
        facts.setdefault(run.value, {}).setdefault(name.value, []).append(rdf.value(value))
    labels = {node.value: label.value for node, label in endpoint.query(LABELS)}
    noted = endpoint.query(COUNTS, graph=Names(endpoint.data_graph).progress)
    counts = {run.value: (int(events.value), int(writers.value)) for run, events, writers in noted}
    notes: dict[str, list[Annotation]] = {}
    for run, annotation in read_annotations(endpoint):
        if annotation.kind == "note" and annotation.removed is None:
            notes.setdefault(run, []).append(annotation)
    runs = [_info(run, values, labels, counts.get(run, (0, 0)), notes.get(run, [])) for run, values in facts.items()]
    return sorted(runs, key=lambda info: (info.started, info.id), reverse=True)


def _info(
    run: str, facts: dict[str, list[Any]], labels: dict[str, str], counts: tuple[int, int], notes: list[Annotation]
) -> RunInfo:
    def first(name: str, default: Any = "") -> Any:
        return min(facts.get(name, [default]), key=str)

    experiment = labels.get(str(first(f"{PROVLAKE}wasDerivedFromWorkflow")), "")
    error = [str(first(f"{PROVLAKE}{name}")) for name in ("exceptionType", "exceptionMessage")]
    began = first(f"{PROV}startedAtTime", None)
    return RunInfo(
        id=run_id(run),
        name=str(first(f"{RDFS}label")) or experiment,
        model=labels.get(str(first(f"{PROVML}aimedAtModel")), ""),
        status=str(first(f"{PROVLAKE}status", "RUNNING")),
        started=began if isinstance(began, datetime) else datetime.fromtimestamp(0, UTC),
        seconds=first(f"{PROVML}elapsedSeconds", None),
        error=": ".join(filter(None, error)),
        events=counts[0],
        writers=counts[1],
        experiment=experiment,
        tags=tuple(sorted(map(str, facts.get(f"{PROVML}hasTag", ())))),
        notes=tuple(notes),
        parent=run_id(str(first(f"{PROVML}wasChildOf"))),
    )


def read_annotations(endpoint: Endpoint) -> list[tuple[str, Annotation]]:
    """Return all annotations with the IRIs of their runs, in the order in which they were added."""
    nodes: dict[str, dict[str, list[Any]]] = {}
    runs: dict[str, str] = {}
    for node, run, name, value in endpoint.query(ANNOTATIONS):
        runs[node.value] = run.value
        nodes.setdefault(node.value, {}).setdefault(name.value, []).append(rdf.value(value))
    annotations = []
    for node, facts in nodes.items():
        kind = next((KINDS[str(name)] for name in facts.get(RDF_TYPE, ()) if str(name) in KINDS), None)
        if kind is None:
            continue
        removed = facts.get(f"{PROV}invalidatedAtTime", [None])[0]
        annotation = Annotation(
            kind=kind,
            text=str(facts.get(f"{PROV}value", [""])[0]),
            by=_person(facts.get(f"{PROV}wasAttributedTo", [""])[0]),
            added=facts[f"{PROV}generatedAtTime"][0],
            removed=removed,
            removed_by=_person(facts.get(f"{PROVML}wasRemovedBy", [""])[0]),
            id=unquote(node.partition("/annotation/")[2]),
        )
        annotations.append((runs[node], annotation))
    return sorted(annotations, key=lambda item: (item[1].added, item[1].id))


def _person(node: object) -> str:
    return unquote(str(node).rpartition("/persona/")[2])


def run_id(iri: str) -> str:
    """Return the id of a run by its IRI; other IRIs stay as they are."""
    return unquote(iri.removeprefix(RUNS))


# ---- nodes and statements of one run


def is_own(node: str, run: str) -> bool:
    """Return whether a node belongs to a run, by its IRI."""
    return node == run or node.startswith((f"{run}/", f"{run}#"))


def nodes_of_run(endpoint: Endpoint, run: str) -> list[str]:
    """List the nodes of a run; those that are nearer to the run come first."""
    shared = Names(endpoint.data_graph).shared_of(run)
    terms = endpoint.query("SELECT ?s ?o WHERE { ?s ?p ?o }", graph=shared)
    near = {term.value for row in terms for term in row if isinstance(term, ox.NamedNode)}
    nodes = dict.fromkeys([run, *sorted(node for node in near if is_own(node, run))])
    border: Sequence[str] = [*nodes, *sorted(near - nodes.keys())]
    while border:
        new: dict[str, None] = {}
        for values in batches(border):
            for pattern in ("?node ?p ?x", "?x ?p ?node"):
                text = f"SELECT DISTINCT ?x WHERE {{ VALUES ?node {{ {values} }} {pattern} {_own_filter(run)} }}"
                new.update((row[0].value, None) for row in endpoint.query(text) if is_own(row[0].value, run))
        border = [node for node in new if node not in nodes]
        nodes.update(dict.fromkeys(border))
    return list(nodes)


def _own_filter(run: str) -> str:
    return f'FILTER(isIRI(?x) && STRSTARTS(STR(?x), "{run}"))'


def batches(nodes: Iterable[str]) -> Iterator[str]:
    """Yield IRIs for VALUES, some at a time."""
    nodes = list(nodes)
    for start in range(0, len(nodes), BATCH):
        yield " ".join(f"<{node}>" for node in nodes[start : start + BATCH])


def _is_derived(triple: ox.Triple, run: str) -> bool:
    """True for a link that was derived from statements of several runs."""
    is_link = triple.predicate in (BUILT_ON, EVALUATED_TRAINING)
    return is_link and isinstance(triple.object, ox.NamedNode) and not is_own(triple.object.value, run)


def graph_of_run(endpoint: Endpoint, run_id: str) -> ox.Store:
    """Return the statements of a run in memory: those about its nodes, and those about nodes that it shares.

    Links to nodes of other runs are left out, as in the graph that is mapped from the journals of a run.
    """
    run, store = iris.run_iri(run_id), ox.Store()
    for values in batches(nodes_of_run(endpoint, run)):
        triples = endpoint.triples(f"VALUES ?s {{ {values} }} ?s ?p ?o")
        store.extend(ox.Quad(*triple) for triple in triples if not _is_derived(triple, run))
    shared = Names(endpoint.data_graph).shared_of(run)
    store.extend(ox.Quad(*triple) for triple in endpoint.triples(graph=shared))
    return store
