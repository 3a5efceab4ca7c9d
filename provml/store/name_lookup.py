"""Resolve the names that people use: which node a name refers to, and which names there are."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyoxigraph as ox

from provml.answers import Answer, RowStream, single_line
from provml.catalog import Parameter, Query
from provml.errors import InvalidIRI, InvalidParameter, RunNotFound, plural
from provml.journal.run_files import resolve_run_id
from provml.model.values import IRI
from provml.rdf.namespaces import NODES
from provml.store.backend import Backend
from provml.store.run_info import RunInfo

DIGEST = re.compile("[0-9a-f]{64}")
DIGITS = re.compile("[0-9a-f]{6,64}")
"""Enough digits of a digest to look for it."""
MAX_SUGGESTIONS = 3
"""Number of names that an error lists."""

MODELS = """
SELECT DISTINCT ?node ?name ?run ?began WHERE {
  ?node a provml:Model ; provlake:wasDerivedFromAttribute/rdfs:label ?name ; prov:wasGeneratedBy ?activity .
  { ?activity provlake:wasMemberOfWorkflowExecution ?run }
  UNION { ?activity provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution ?run }
  OPTIONAL { ?run prov:startedAtTime ?began }
} ORDER BY ?began ?run ?node"""
DATASETS = """
SELECT DISTINCT ?node ?name ?other WHERE {
  ?node a provml:LearningDataset ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  FILTER NOT EXISTS { ?node prov:specializationOf ?content }
  OPTIONAL { { ?node provlake:sha256 ?other } UNION { ?node provlake:path ?other } }
}"""
CONTENTS = """
SELECT DISTINCT ?node WHERE {
  ?node provlake:sha256 ?digest ; a $class .
  FILTER(STRSTARTS(?digest, "$digits"))
  FILTER(EXISTS { ?node prov:wasGeneratedBy ?activity } || NOT EXISTS { ?node a provml:Model })
  FILTER(NOT EXISTS { ?node prov:specializationOf ?content } || EXISTS { ?node a provml:Model })
}"""
NODE_CLASSES = {"model": "provml:Model", "dataset": "provml:LearningDataset"}
RUNS = """
SELECT DISTINCT ?run WHERE {
  ?data prov:specializationOf? $node .
  { ?step prov:used ?data } UNION { ?data prov:wasGeneratedBy ?step }
  { ?step provlake:wasMemberOfWorkflowExecution ?run }
  UNION { ?step provml:wasSectionOf/provlake:wasMemberOfWorkflowExecution ?run }
} ORDER BY ?run LIMIT 3"""
NAME_QUERIES = {
    "model": """SELECT DISTINCT ?name {
  ?node a provml:ModelProspection ; rdfs:label ?name FILTER EXISTS { ?stage provml:aimedAtModel ?node }
}""",
    "measure": "SELECT DISTINCT ?name { ?node a provml:EvaluationMeasure ; rdfs:label ?name }",
    "hyperparameter": "SELECT DISTINCT ?name { ?node a provml:LearningHyperparameter ; rdfs:label ?name }",
    "person": "SELECT DISTINCT ?name { ?node a provml:Persona ; rdfs:label ?name }",
    "content": "SELECT DISTINCT ?name { ?node provlake:sha256 ?name }",
}
"""The names of each kind that a text parameter can refer to."""
NodesByName = dict[str, set[IRI]]


class Queryable(Protocol):
    """What a lookup needs of a store."""

    @property
    def opens_files(self) -> bool:
        """Whether a value may be the path of a file, whose content is then looked up."""

    @property
    def backend(self) -> Backend:
        """The engine."""

    def _answer(
        self, sparql: str, *, sync: bool = True, timeout: float | None = None, service: bool = False
    ) -> Answer | bool:
        """Execute a query."""

    def stream(self, sparql: str, *, sync: bool = True) -> RowStream | bool:
        """Execute a query; rows are computed while they are read."""

    def run(self, run_id: str) -> RunInfo:
        """Find a run."""


# ---- nodes


def resolve(store: Queryable, query: Query, param: Parameter, value: Any) -> Any:
    """Return the IRI that a name refers to. An IRI, and an object that has one, such as a run, refer to themselves."""
    if isinstance(value, (list, tuple)):
        return [resolve(store, query, param, item) for item in value]
    if isinstance(iri := getattr(value, "iri", None), IRI):
        return iri
    if not isinstance(value, str) or isinstance(value, IRI):
        return value
    if param.node_kind == "run":
        return _run_iri(store, value)
    if (node := _recorded_node(store, value)) is not None:
        return node
    nodes = _nodes_by_name(store, param.node_kind)
    candidates = _candidates(store, nodes, param.node_kind, value)
    if len(candidates) != 1:
        candidates = _nodes_of_content(store, param.node_kind, value) or candidates
    if len(candidates) == 1:
        return next(iter(candidates))
    problem, advice = (
        _explain_ambiguous(store, nodes, candidates, value) if candidates else _explain_unknown(nodes, param, value)
    )
    raise InvalidParameter(query.name, param.name, value, param.expected, advice, problem=problem)


def _run_iri(store: Queryable, value: str) -> IRI:
    """Return the IRI of a run by an IRI or by a name. A name such as lr:0.1 only looks like an IRI."""
    iri = _iri(value)
    if iri is not None and "//" in iri:
        return iri
    try:
        return store.run(value).iri
    except RunNotFound:
        if iri is None:
            raise
        return iri


def node_names(store: Queryable, kind: str = "") -> list[str]:
    """Return the names of models, datasets, or both, that refer to one node each; the latest first."""
    return [name for name, nodes in reversed(_nodes_by_name(store, kind).items()) if len(nodes) == 1]


def _nodes_by_name(store: Queryable, kind: str) -> NodesByName:
    """Return the models, the datasets, or both, by their names."""
    nodes: NodesByName = {}
    for lookup in {"model": (_models,), "dataset": (_datasets,)}.get(kind, (_models, _datasets)):
        for name, iris in lookup(store).items():
            nodes.setdefault(name, set()).update(iris)
    return nodes


def _candidates(store: Queryable, nodes: NodesByName, kind: str, value: str) -> set[IRI]:
    """Return the nodes that a name may refer to, from the first of several ways that gives any."""
    if nodes.get(value):
        return nodes[value]
    if (node := _node(store, value)) is not None:
        return {node}
    if "@" in value and (models := _models_of_run(store, nodes, value)):
        return models
    if not kind:
        try:
            return {store.run(value).iri}
        except RunNotFound:
            pass
    if len(value) > 3:
        similar = [name for name in nodes if name.startswith(value) or name.endswith(f"/{value}")]
        return set().union(*(nodes[name] for name in similar))
    return set()


def _nodes_of_content(store: Queryable, kind: str, value: str) -> set[IRI]:
    """Return the nodes with the content of a file on the disk, or with a digest that starts with the given digits."""
    digits = (file_digest(value) if store.opens_files else "") or value.lower()
    if not DIGITS.fullmatch(digits):
        return set()
    cls = NODE_CLASSES.get(kind, "provlake:DataReference")
    sparql = CONTENTS.replace("$class", cls).replace("$digits", digits)
    return {node for (node,) in _rows(store, sparql) if isinstance(node, IRI)}


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file on the disk; empty if there is no such file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


def only_choice(store: Queryable, query: Query, param: Parameter) -> Any:
    """Return the one model of a home, for a parameter that takes a model and was not passed.

    Raises an InvalidParameter that lists the names if there are several; None if the parameter takes no names.
    """
    nodes: NodesByName = {}
    if param.name_kind in NAME_QUERIES:
        names = names_of(store, param.name_kind)
        choices: list[Any] = list(names)
    elif param.node_kind in ("model", "dataset"):
        nodes = _nodes_by_name(store, param.node_kind)
        names, choices = sorted(nodes), sorted(set().union(*nodes.values()))
    else:
        return None
    if len(choices) == 1 and "model" in (param.name_kind, param.node_kind):
        return choices[0]
    if not names:
        return None
    problem = f"missing required parameter {param.name!r} ({param.expected})"
    advice = f"Pass {param.as_argument}=… or --{param.name} …: {suggest('', names)}."
    raise InvalidParameter(query.name, param.name, None, param.expected, advice, problem=problem)


def _explain_ambiguous(store: Queryable, nodes: NodesByName, candidates: set[IRI], value: str) -> tuple[str, str]:
    """Return the problem and the advice for a name of several nodes."""
    unique = [name for name, iris in nodes.items() if len(iris) == 1 and iris <= candidates]
    unique.reverse()  # the latest first
    unique.sort(key=_is_digest)
    details = {name: _runs_of(store, *nodes[name]) for name in unique[:MAX_SUGGESTIONS] if _is_digest(name)}
    advice = f"Use one of: {join_names(unique, details)}."
    if any(len(iris) == 1 and name.startswith(f"{value}@") for name, iris in nodes.items()):
        advice += " Each is the last model of that name in its run."
    return f"{single_line(value)!r} is the name of {len(candidates)} nodes", advice


def _explain_unknown(nodes: NodesByName, param: Parameter, value: str) -> tuple[str, str]:
    """Return the problem and the advice for a name of nothing."""
    kind = param.node_kind or "model, dataset or run"
    unique = [name for name, iris in nodes.items() if len(iris) == 1]
    plain = [name for name in unique if "@" not in name or name.partition("@")[0] not in unique]
    advice = f"Available: {suggest(value, plain)}." if plain else f"No {kind} is recorded yet."
    return f"no {kind} named {single_line(value)!r}", advice


def _iri(value: str) -> IRI | None:
    """Return a text as an IRI, if it is one."""
    try:
        return IRI(value)
    except InvalidIRI:
        return None


def _node(store: Queryable, value: str) -> IRI | None:
    """Return the node of an IRI, complete or as a table shows it. A name such as llama3:8b only looks like an IRI."""
    iri = _iri(value)
    if iri is not None and "//" in iri:
        return iri
    iri = iri or _iri(NODES + value)
    return iri if iri is not None and store._answer(f"ASK {{ <{iri}> ?p ?o }}", sync=False) else None


def _recorded_node(store: Queryable, value: str) -> IRI | None:
    """Return the node of a complete IRI that is in the graph, unless the text is a name: all names are slow to read."""
    iri = _iri(value)
    if iri is None or "//" not in iri:
        return None
    name = ox.Literal(value)
    sparql = f"ASK {{ <{iri}> a ?type FILTER NOT EXISTS {{ ?other rdfs:label|provlake:path {name} }} }}"
    return iri if store._answer(sparql, sync=False) else None


def _models_of_run(store: Queryable, nodes: NodesByName, value: str) -> set[IRI]:
    """Return the model of a name such as alexnet@3c1eb8, with a part of the run's id, or with the run's name."""
    name, _, part = value.rpartition("@")
    runs = [key.rpartition("@")[2] for key in nodes if key.startswith(f"{name}@") and key != f"{name}@latest"]
    with contextlib.suppress(RunNotFound):
        return nodes[f"{name}@{resolve_run_id(part, runs, lambda: 'latest')}"]
    with contextlib.suppress(RunNotFound):
        return nodes.get(f"{name}@{store.run(part).id}", set())
    return set()


def _models(store: Queryable) -> NodesByName:
    """Return the last model of each name and run, as alexnet, alexnet@20261116-… and alexnet@latest."""
    last: dict[tuple[str, str], IRI] = {}
    for node, name, run, _ in _rows(store, MODELS):
        key = (str(name), run.name)
        if key not in last or natural_key(node) > natural_key(last[key]):
            last[key] = node
    nodes: NodesByName = {}
    for (name, run), node in last.items():
        nodes.setdefault(name, set()).add(node)
        nodes[f"{name}@{run}"] = {node}
        nodes[f"{name}@latest"] = {node}  # runs come in the order of their start
    return nodes


def natural_key(text: str) -> list[Any]:
    """Return a sort key by which net-10 comes after net-2, and net before both."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", text)]


def _datasets(store: Queryable) -> NodesByName:
    """Return the datasets by name, by digest and by path."""
    nodes: NodesByName = {}
    for node, name, other in _rows(store, DATASETS):
        nodes.setdefault(str(name), set()).add(node)
        if other is not None:
            nodes.setdefault(str(other), set()).add(node)
    return nodes


def _runs_of(store: Queryable, node: IRI) -> str:
    """Return the runs that used or generated a dataset, to distinguish it from others of its name."""
    runs = [run.name for (run,) in _rows(store, RUNS.replace("$node", f"<{node}>"))]
    return f" (in {', '.join(runs[:2])}{', …' if len(runs) > 2 else ''})" if runs else ""


def _rows(store: Queryable, sparql: str) -> Iterable[tuple[Any, ...]]:
    answer = store._answer(store.backend.dialect.rewrite_question(sparql), sync=False)
    return answer.rows if isinstance(answer, Answer) else ()


# ---- names in text parameters


def check_names(store: Queryable, query: Query, values: Mapping[str, Any]) -> None:
    """Raise an error for a name that nothing has, if other things of its kind have names: it is misspelt."""
    for name, value in values.items():
        param = query.params.get(name)
        if param is None or param.name_kind not in NAME_QUERIES or not isinstance(value, str):
            continue
        names = names_of(store, param.name_kind)
        is_digest_prefix = param.name_kind == "content" and any(n.startswith(value.lower()) for n in names)
        if names and value not in names and not is_digest_prefix:
            has_name = "with the digest" if param.name_kind == "content" else "named"
            problem = f"no {param.name_kind} {has_name} {single_line(value)!r}"
            advice = f"Available: {suggest(value, names)}."
            raise InvalidParameter(query.name, name, value, param.expected, advice, problem=problem)


def names_of(store: Queryable, kind: str) -> list[str]:
    """Return the names of all things of a kind, sorted."""
    return sorted(str(name) for (name,) in _rows(store, NAME_QUERIES[kind]))


def explain_missing(store: Queryable, query: Query, values: Mapping[str, Any]) -> str:
    """Return a note about the first IRI among the values that the graph does not have: IRIs are not looked up."""
    for name, value in values.items():
        for iri in value if isinstance(value, (list, tuple)) else [value]:
            node = _iri(iri) if isinstance(iri, str) and query.params[name].type == "iri" else None
            if node is not None and not store._answer(
                f"ASK {{ {{ <{node}> ?p ?o }} UNION {{ ?s ?p <{node}> }} }}", sync=False
            ):
                return f"The graph has no node <{node}> (parameter {name})."
    return ""


def complete_digest(store: Queryable, query: Query, param: Parameter, value: Any) -> Any:
    """Return the SHA-256 digest that starts with the given digits; one that is complete is returned as it is."""
    if not isinstance(value, str):
        return value
    if not value:
        advice = "Pass the digest or its first digits."
        raise InvalidParameter(query.name, param.name, value, param.expected, advice, problem=f"{param.name} is empty")
    value = (file_digest(value) if store.opens_files else "") or value.lower()
    if len(value) >= 64:
        return value
    digests = [name for name in names_of(store, "content") if name.startswith(value)]
    if len(digests) > 1:
        problem = f"{plural(len(digests), 'digest')} start with {value!r}"
        advice = f"Pass more digits: {suggest(value, digests)}."
        raise InvalidParameter(query.name, param.name, value, param.expected, advice, problem=problem)
    return digests[0] if digests else value


# ---- suggestions


def suggest(value: str, names: Iterable[str]) -> str:
    """List the names that are most like a value, then the others; digests come last."""
    ordered = sorted(names, key=lambda name: (_is_digest(name), name))
    similar = difflib.get_close_matches(value, ordered, MAX_SUGGESTIONS, 0.3)
    return join_names(similar + [name for name in ordered if name not in similar])


def join_names(names: list[str], details: Mapping[str, str] | None = None) -> str:
    """Join the first names with their details and the number of the others; digests are shortened."""
    short = [(name[:12] if _is_digest(name) else single_line(name)) + (details or {}).get(name, "") for name in names]
    more = len(short) - MAX_SUGGESTIONS
    return ", ".join(short[:MAX_SUGGESTIONS]) + (f" and {more} more" if more > 0 else "")


def _is_digest(name: str) -> bool:
    return DIGEST.fullmatch(name) is not None
