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
RUNS_IN_BATCH = 200
"""Runs in one query: an answer then has fewer rows than the limits that endpoints set, such as 10,000."""
RUNS_IN_PAGE = 5000
"""Runs in one page of the list of runs."""
LATEST_RUNS = """
SELECT ?run (MIN(?time) AS ?started) WHERE {{
  ?run a provml:LearningProcessExecution .
  OPTIONAL {{ ?run prov:startedAtTime ?time }}
}} GROUP BY ?run ORDER BY DESC(?started) DESC(STR(?run)) LIMIT {limit} OFFSET {offset}"""
COUNT_RUNS = "SELECT (COUNT(DISTINCT ?run) AS ?count) WHERE { ?run a provml:LearningProcessExecution }"
RUN_FACTS = """
SELECT ?run ?property ?value WHERE {
  ?run a provml:LearningProcessExecution ; ?property ?value .
  FILTER(?property IN (
    provlake:status, prov:startedAtTime, provml:elapsedSeconds, provlake:exceptionType, provlake:exceptionMessage,
    provlake:wasDerivedFromWorkflow, provml:aimedAtModel, provml:hasTag, rdfs:label, provml:wasChildOf,
    provml:wasRerunOf))
}"""
NAME_FACTS = """
SELECT ?run ?property ?value WHERE {
  ?run a provml:LearningProcessExecution ; ?property ?value .
  FILTER(?property IN (provlake:wasDerivedFromWorkflow, rdfs:label))
}"""
LABELS = "SELECT DISTINCT ?node ?label WHERE { ?node rdfs:label ?label }"
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


Facts = dict[str, list[Any]]
"""The values of a run by the IRI of their property."""


def list_runs(endpoint: Endpoint, limit: int | None = None) -> list[RunInfo]:
    """List the runs, the latest first; with `limit` at most that number, and no other run is read."""
    return describe_runs(endpoint, list(latest_runs(endpoint, limit)))


def latest_runs(endpoint: Endpoint, limit: int | None = None) -> Iterator[str]:
    """Yield the IRIs of the runs, the latest first, page by page."""
    count = 0
    while limit is None or count < limit:
        size = RUNS_IN_PAGE if limit is None else min(limit - count, RUNS_IN_PAGE)
        page = [row[0].value for row in endpoint.query(LATEST_RUNS.format(limit=size, offset=count))]
        yield from page
        count += len(page)
        if len(page) < size:
            return


def count_runs(endpoint: Endpoint) -> int:
    """Return the number of runs."""
    return sum(int(row[0].value) for row in endpoint.query(COUNT_RUNS))


def name_runs(endpoint: Endpoint) -> dict[str, str]:
    """Return the names of all runs by their ids, the latest first."""
    runs = list(latest_runs(endpoint))
    facts = _facts(endpoint, NAME_FACTS, runs)
    labels = _labels(endpoint, facts.values())
    return {run_id(run): _name(facts.get(run, {}), labels) for run in runs}


def describe_runs(endpoint: Endpoint, runs: Sequence[str]) -> list[RunInfo]:
    """Return the summaries of runs by their IRIs, in their order."""
    facts = _facts(endpoint, RUN_FACTS, runs)
    labels = _labels(endpoint, facts.values())
    progress = Names(endpoint.data_graph).progress
    rows = _restricted(endpoint, COUNTS, "run", runs, graph=progress)
    counts = {run.value: (int(events.value), int(writers.value)) for run, events, writers in rows}
    notes: dict[str, list[Annotation]] = {}
    for run, annotation in read_annotations(endpoint, runs):
        if annotation.kind == "note" and annotation.removed is None:
            notes.setdefault(run, []).append(annotation)
    return [_info(run, facts[run], labels, counts.get(run, (0, 0)), notes.get(run, [])) for run in runs if run in facts]


def _restricted(
    endpoint: Endpoint, sparql: str, variable: str, nodes: Iterable[str], **options: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query for some nodes, by queries about a limited number of them each."""
    for values in batches(nodes, RUNS_IN_BATCH):
        yield from endpoint.query(sparql.replace("{", f"{{ VALUES ?{variable} {{ {values} }}", 1), **options)


def _facts(endpoint: Endpoint, sparql: str, runs: Iterable[str]) -> dict[str, Facts]:
    facts: dict[str, Facts] = {}
    for run, name, value in _restricted(endpoint, sparql, "run", runs):
        facts.setdefault(run.value, {}).setdefault(name.value, []).append(rdf.value(value))
    return facts


def _labels(endpoint: Endpoint, facts: Iterable[Facts]) -> dict[str, str]:
    """Return the names of the experiments and models of runs."""
    names = (f"{PROVLAKE}wasDerivedFromWorkflow", f"{PROVML}aimedAtModel")
    nodes = {str(node): None for values in facts for name in names for node in values.get(name, ())}
    return {node.value: label.value for node, label in _restricted(endpoint, LABELS, "node", nodes)}


def _first(facts: Facts, name: str, default: Any = "") -> Any:
    return min(facts.get(name, [default]), key=str)


def _name(facts: Facts, labels: dict[str, str]) -> str:
    """Return the own name of a run, else that of its experiment."""
    return str(_first(facts, f"{RDFS}label")) or labels.get(str(_first(facts, f"{PROVLAKE}wasDerivedFromWorkflow")), "")


def _info(run: str, facts: Facts, labels: dict[str, str], counts: tuple[int, int], notes: list[Annotation]) -> RunInfo:
    def first(name: str, default: Any = "") -> Any:
        return _first(facts, name, default)

    experiment = labels.get(str(first(f"{PROVLAKE}wasDerivedFromWorkflow")), "")
    error = [str(first(f"{PROVLAKE}{name}")) for name in ("exceptionType", "exceptionMessage")]
    began = first(f"{PROV}startedAtTime", None)
    return RunInfo(
        id=run_id(run),
        name=_name(facts, labels),
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
        rerun_of=run_id(str(first(f"{PROVML}wasRerunOf"))),
    )


def read_annotations(endpoint: Endpoint, of: Iterable[str]) -> list[tuple[str, Annotation]]:
    """Return the annotations of runs with the IRIs of these, in the order in which they were added."""
    nodes: dict[str, dict[str, list[Any]]] = {}
    runs: dict[str, str] = {}
    for node, run, name, value in _restricted(endpoint, ANNOTATIONS, "run", of):
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


def batches(nodes: Iterable[str], size: int = BATCH) -> Iterator[str]:
    """Yield IRIs for VALUES, some at a time."""
    nodes = list(nodes)
    for start in range(0, len(nodes), size):
        yield " ".join(f"<{node}>" for node in nodes[start : start + size])


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
