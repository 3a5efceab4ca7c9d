"""The lineage of a run, data, a model, a step or a file, described for a picture."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from provml.answers import Answer, format_cell
from provml.answers.humanize import format_size
from provml.catalog import Parameter, Query
from provml.drawing.lineage import Lineage
from provml.drawing.records import Generation, Information, Item, LineageRecords, RunRecord, Step, Use
from provml.errors import InvalidParameter
from provml.mapping.iris import run_iri
from provml.model.values import IRI
from provml.paths import is_utf8
from provml.rdf.literals import format_literal
from provml.rdf.namespaces import RUNS
from provml.store import name_lookup
from provml.store.lineage_walk import DEFAULT_LIMITS, TYPES, LineageWalk, WalkLimits, rows_about
from provml.store.name_lookup import Queryable

STEP_KINDS = {
    "TrainingExecution": "training",
    "ValidationExecution": "validation",
    "EvaluationExecution": "evaluation",
    "DataCurationExecution": "curation",
    "FilterExecution": "filter",
    "DataSplitExecution": "split",
    "FeatureExtractionExecution": "extraction",
    "DataPreparationExecution": "preparation",
}
"""The kind of a step by its class; a filter is also a preparation, so the more special classes come first."""
ITEM_KINDS = {"Model": "model", "FeatureSetData": "features", "LearningDataset": "dataset"}

USAGE = "prov:qualifiedUsage ?usage . ?usage prov:entity ?item ; prov:hadRole/rdfs:label ?role"
ROLES = (
    f"SELECT DISTINCT ?node ?item ?role {{ ?node {USAGE} }}",
    f"SELECT DISTINCT ?node ?item ?role {{ ?section provml:wasSectionOf ?node ; {USAGE} }}",
)
EVALUATED = (
    "SELECT DISTINCT ?node ?item { ?node provml:evaluated ?item }",
    "SELECT DISTINCT ?node ?item { ?section provml:wasSectionOf ?node ; provml:evaluated ?item }",
)
STEP_FACTS = """SELECT ?node ?run ?status ?error ?message {
  OPTIONAL { ?node provlake:wasMemberOfWorkflowExecution ?run }
  OPTIONAL { ?node provlake:status ?status }
  OPTIONAL { ?node provlake:exceptionType ?error }
  OPTIONAL { ?node provlake:exceptionMessage ?message }
}"""
RUN_FACTS = """SELECT ?node ?started ?status ?name ?model {
  OPTIONAL { ?node prov:startedAtTime ?started }
  OPTIONAL { ?node provlake:status ?status }
  OPTIONAL { ?node provlake:wasDerivedFromWorkflow ?plan }
  OPTIONAL { ?plan rdfs:label ?name }
  OPTIONAL { ?node provml:aimedAtModel ?aim }
  OPTIONAL { ?aim rdfs:label ?model }
}"""
STEP_NAMES = (
    "SELECT ?node ?name { ?node rdfs:label ?name }",
    "SELECT ?node ?name { ?node provlake:wasDerivedFromDataTransformation/rdfs:label ?name }",
)
SECTIONS = """SELECT ?node (COUNT(?section) AS ?count) (SUM(COALESCE(?batches, 0)) AS ?total) {
  ?section provml:wasSectionOf ?node OPTIONAL { ?section provml:batchCount ?batches }
} GROUP BY ?node"""
SECTION_KINDS = """SELECT DISTINCT ?node ?tag {
  ?section provml:wasSectionOf ?node ; provlake:wasDerivedFromDataTransformation ?plan . ?plan provlake:tag ?tag
}"""
OF_SECTION = "?section provml:wasSectionOf ?node . ?adaptation provml:adaptedDuring ?section"
ADAPTATIONS = (
    "SELECT DISTINCT ?node ?adaptation { ?adaptation provml:adaptedDuring ?node }",
    f"SELECT DISTINCT ?node ?adaptation {{ {OF_SECTION} }}",
)
INFORMED = """SELECT DISTINCT ?node ?other {
  ?section provml:wasSectionOf ?node ; prov:wasInformedBy ?part . ?part provml:wasSectionOf ?other
}"""
SETTINGS = """SELECT DISTINCT ?node ?name ?value {
  ?node prov:used ?used . ?used prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  FILTER NOT EXISTS { ?layer provml:hasParameter ?used }
} ORDER BY ?node ?name"""
RESULTS = """SELECT DISTINCT ?node ?name ?value {
  ?measure prov:wasGeneratedBy ?node ; a provml:ModelEvaluation ; prov:value ?value ;
           provlake:wasDerivedFromAttribute/rdfs:label ?name
} ORDER BY ?node ?name ?measure"""
PEOPLE = """SELECT DISTINCT ?node ?name {
  ?node prov:wasAssociatedWith ?person . ?person a provml:Persona ; rdfs:label ?name
} ORDER BY ?node ?name"""
ITEM_NAMES = (
    "SELECT DISTINCT ?node ?name { ?node provlake:wasDerivedFromAttribute/rdfs:label ?name } ORDER BY ?node ?name",
    "SELECT DISTINCT ?node ?name { ?node rdfs:label ?name } ORDER BY ?node ?name",
)
ITEM_FACTS = """SELECT ?node ?sha256 ?size ?path {
  OPTIONAL { ?node provlake:sha256 ?sha256 }
  OPTIONAL { ?node provlake:sizeBytes ?size }
  OPTIONAL { ?node provlake:path ?path }
} ORDER BY ?node ?path"""
ITEM_SECTIONS = """SELECT DISTINCT ?node ?tag ?index {
  ?node prov:wasGeneratedBy ?section . ?section provml:sectionIndex ?index ;
  provlake:wasDerivedFromDataTransformation ?plan . ?plan provlake:tag ?tag
}"""
"""Queries about `?node`; the second of a pair is about its sections."""


def lineage(store: Queryable, subject: Any, *, forward: bool = False, limits: WalkLimits = DEFAULT_LIMITS) -> Lineage:
    """Return what a thing came from, or with `forward` what came of it. The store must be in sync."""
    walk = LineageWalk(store, resolve(store, subject), is_forward=forward, limits=limits)
    return Lineage(_Description(store, walk).records())


# ---- names


def resolve(store: Queryable, subject: Any) -> IRI:
    """Return the node of a run, a model, a dataset or a step by name, digest or IRI, or of the content of a file."""
    if isinstance(subject, os.PathLike) or (store.opens_files and isinstance(subject, str) and Path(subject).is_file()):
        return _resolve_file(store, Path(subject))
    expected = "a run, a model, a dataset, a file or an IRI"
    if isinstance(subject, str) and not is_utf8(Path(subject)):  # bytes of a command line that are no text
        raise InvalidParameter("lineage", "start", subject, expected, "Pass one of them.")
    if isinstance(subject, str) and (run := _exact_run(store, subject)) is not None:
        return run
    try:
        node = name_lookup.resolve(store, Query("lineage", "", "", Path()), Parameter("start", "iri"), subject)
    except InvalidParameter:
        node = _resolve_recorded_file(store, subject)
        if node is None and subject and store.opens_files and Path(subject).is_dir():
            advice = "Pass a file, or the name of the dataset that the directory holds."
            problem = f"no dataset is recorded for the directory {subject}"
            raise InvalidParameter("lineage", "start", subject, expected, advice, problem=problem) from None
        if node is None:
            raise
    if not isinstance(node, IRI):
        raise InvalidParameter("lineage", "start", subject, expected, "Pass one of them.")
    return node


def _exact_run(store: Queryable, subject: str) -> IRI | None:
    """Return the run with an id: the usual case, in which no other names have to be listed."""
    if not subject:
        return None
    iri = store.run(subject).iri if subject == "latest" else run_iri(subject)
    return iri if store._answer(f"ASK {{ <{iri}> a provlake:WorkflowExecution }}", sync=False) else None


def _resolve_recorded_file(store: Queryable, subject: str) -> IRI | None:
    """Return the content of a file by its recorded path or by the first digits of its digest, if there is one."""
    if not subject:
        return None
    condition = f"?path = {format_literal(subject)} || STRENDS(?path, {format_literal(f'/{subject}')})"
    digests = _rows(
        store, f"SELECT DISTINCT ?sha256 {{ ?n provlake:sha256 ?sha256 ; provlake:path ?path FILTER({condition}) }}"
    )
    if re.fullmatch("[0-9a-fA-F]{6,64}", subject):
        start = format_literal(subject.lower())
        digests += _rows(
            store, f"SELECT DISTINCT ?sha256 {{ ?n provlake:sha256 ?sha256 FILTER(STRSTARTS(?sha256, {start})) }}"
        )
    nodes = [_content(store, digest) for (digest,) in dict.fromkeys(digests)]
    return nodes[0] if len(nodes) == 1 else None


def _content(store: Queryable, digest: str) -> IRI | None:
    """Return the node of some content: one node for all runs if there is one."""
    nodes = [node for (node,) in _rows(store, f'SELECT DISTINCT ?node {{ ?node provlake:sha256 "{digest}" }}')]
    return min(nodes, key=lambda node: (not node.startswith("urn:"), node), default=None)


def _resolve_file(store: Queryable, path: Path) -> IRI:
    """Return the node of the content of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    node = _content(store, digest)
    if node is None:
        raise _unknown_file(store, path, digest)
    return node


def _unknown_file(store: Queryable, path: Path, digest: str) -> InvalidParameter:
    """Return the error for a file whose content is not recorded, with the content that is recorded for its path."""
    problem = f"no run used or generated the content of {path} (SHA-256 {digest[:12]}…)"
    recorded = _rows(store, "SELECT DISTINCT ?path ?sha256 { ?node provlake:path ?path ; provlake:sha256 ?sha256 }")
    digests = sorted({sha256 for other, sha256 in recorded if Path(other).absolute() == path.absolute()})
    advice = "Record the file with run.dataset(…) or produced(…), or pass the name of a run, a model or a dataset."
    if digests:
        listed = name_lookup.join_names(digests)
        advice = f"The file has changed since it was recorded. Pass the recorded digest instead: {listed}."
    return InvalidParameter("lineage", "start", str(path), "", advice, problem=problem)


def _rows(store: Queryable, sparql: str) -> list[tuple[Any, ...]]:
    answer = store._answer(sparql, sync=False)
    return answer.rows if isinstance(answer, Answer) else []


def _seconds(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else 0.0


# ---- description


class _Description:
    """Describes the nodes that a walk collected."""

    def __init__(self, store: Queryable, walk: LineageWalk) -> None:
        self.store = store
        self.walk = walk
        self.aliases = dict(walk.aliases)

    def records(self) -> LineageRecords:
        """Return everything that a picture of the lineage shows."""
        walk = self.walk
        described = self._items([*walk.items, *walk.aliases.values()])
        self._alias_evaluated_models(described)
        roles = self._roles()
        uses = dict.fromkeys((step, self._drawn(item)) for step, item in walk.uses)
        generations = dict.fromkeys((self._drawn(item), step) for item, step in walk.generations)
        drawn = dict.fromkeys([*(item for _, item in uses), *(item for item, _ in generations)])
        starts = frozenset(map(self._drawn, walk.starts))
        drawn.update(dict.fromkeys(start for start in starts if start not in walk.steps))
        items = {str(item): described[item] for item in drawn}
        steps = self._steps()
        return LineageRecords(
            subject=self._subject(items, steps),
            is_forward=walk.is_forward,
            items=items,
            steps=steps,
            runs=self._runs(steps),
            uses=tuple(Use(step, item, role) for step, item in uses for role in roles.get((step, item), [""])),
            generations=tuple(Generation(item, step) for item, step in generations),
            informations=tuple(
                Information(step, other)
                for step, other in self._about(INFORMED, walk.steps)
                if other in walk.steps and other != step
            ),
            starts=starts,
            omitted_steps=walk.omitted_steps,
            omitted_runs=len(walk.omitted_runs),
        )

    def _drawn(self, item: IRI) -> IRI:
        """Return the item that is drawn for an item: the entity of a run for its content."""
        while item in self.aliases:
            item = self.aliases[item]
        return item

    def _alias_evaluated_models(self, items: Mapping[str, Item]) -> None:
        """Draw a model that a run only evaluated as the content of its file, which that run used too."""
        generated = {item for item, _ in self.walk.generations}
        for name, item in items.items():
            content = IRI(f"urn:sha256:{item.sha256}") if item.sha256 else None
            if content is not None and content != name and content in items and IRI(name) not in generated:
                self.aliases.setdefault(IRI(name), content)

    def _about(self, sparql: str | tuple[str, ...], nodes: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        return rows_about(self.store, sparql, nodes)

    def _roles(self) -> dict[tuple[IRI, IRI], list[str]]:
        roles: dict[tuple[IRI, IRI], list[str]] = {}
        for step, item, role in self._about(ROLES, self.walk.steps):
            roles.setdefault((step, self._drawn(item)), []).append(str(role).removesuffix(" role"))
        for step, item in self._about(EVALUATED, self.walk.steps):
            roles.setdefault((step, self._drawn(item)), []).append("evaluated")
        return {key: sorted(set(names)) for key, names in roles.items()}

    def _kinds(self, nodes: Iterable[str], kinds: Mapping[str, str]) -> dict[str, str]:
        """Return the kind of each node by its classes; the first class in `kinds` counts."""
        types: dict[str, set[str]] = {}
        for node, type_ in self._about(TYPES, nodes):
            types.setdefault(node, set()).add(str(type_).rpartition("#")[2])
        return {node: next((kinds[name] for name in kinds if name in names), "") for node, names in types.items()}

    # ---- items

    def _items(self, nodes: Iterable[IRI]) -> dict[str, Item]:
        wanted = list(dict.fromkeys(nodes))
        kinds = self._kinds(wanted, ITEM_KINDS)
        names: dict[str, list[str]] = {}
        for node, name in self._about(ITEM_NAMES, wanted):
            if str(name) not in names.setdefault(node, []):
                names[node].append(str(name))
        facts: dict[str, tuple[Any, ...]] = {}
        for node, *values in self._about(ITEM_FACTS, wanted):
            facts.setdefault(node, tuple(values))
        sections = {node: f"{str(tag).lower()} {index}" for node, tag, index in self._about(ITEM_SECTIONS, wanted)}
        items = {}
        for node in wanted:
            sha256, size, path = facts.get(node, (None, None, None))
            items[str(node)] = Item(
                str(node),
                kinds.get(node, ""),
                tuple(names.get(node, ())),
                str(sha256 or ""),
                format_size(size),
                str(path or ""),
                sections.get(node, ""),
            )
        return items

    # ---- steps and runs

    def _steps(self) -> dict[str, Step]:
        nodes = list(self.walk.steps)
        kinds = self._kinds(nodes, STEP_KINDS)
        facts = {node: values for node, *values in self._about(STEP_FACTS, nodes)}
        names = {node: str(name) for node, name in self._about(STEP_NAMES, nodes)}
        sections = {node: (count, total) for node, count, total in self._about(SECTIONS, nodes)}
        section_kinds = {node: str(tag).lower() for node, tag in self._about(SECTION_KINDS, nodes)}
        adaptations: dict[str, set[str]] = {}
        for node, adaptation in self._about(ADAPTATIONS, nodes):
            adaptations.setdefault(node, set()).add(adaptation)
        settings, results = self._values(SETTINGS, nodes), self._values(RESULTS, nodes)
        people = self._people(nodes)
        steps = {}
        for node in nodes:
            run, status, error, message = facts.get(node, [None, None, None, None])
            count, batches = sections.get(node, (0, 0))
            kind = kinds.get(node, "") or "step"
            steps[str(node)] = Step(
                str(node),
                str(run or ""),
                kind,
                names.get(node, "") or str(node).rstrip("/#").rpartition("/")[2],
                str(status or ""),
                ": ".join(str(part) for part in (error, message) if part),
                int(count or 0),
                section_kinds.get(node, "section"),
                int(batches or 0),
                len(adaptations.get(node, ())),
                settings.get(node, {}),
                results.get(node, {}),
                people.get(node, ()),
            )
        return steps

    def _values(self, sparql: str, nodes: Iterable[str]) -> dict[str, dict[str, str]]:
        values: dict[str, dict[str, str]] = {}
        for node, name, value in self._about(sparql, nodes):
            values.setdefault(node, {})[str(name)] = format_cell(value)
        return values

    def _people(self, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
        people: dict[str, tuple[str, ...]] = {}
        for node, name in self._about(PEOPLE, nodes):
            people[node] = (*people.get(node, ()), str(name))
        return people

    def _runs(self, steps: Mapping[str, Step]) -> dict[str, RunRecord]:
        """Return the runs of the steps, in the order of their start."""
        wanted = {step.run for step in steps.values() if step.run} | ({self.walk.run} if self.walk.run else set())
        people = self._people(wanted)
        facts = {node: values for node, *values in self._about(RUN_FACTS, sorted(wanted))}
        runs: dict[str, RunRecord] = {}
        for iri in sorted(wanted, key=lambda iri: (_seconds(facts[iri][0]), iri)):
            started, status, name, model = facts[iri]
            runs[iri] = RunRecord(
                iri,
                unquote(iri.removeprefix(RUNS)),
                str(name or ""),
                str(model or ""),
                str(status or ""),
                f"{started.astimezone(UTC):%Y-%m-%d %H:%M}" if isinstance(started, datetime) else "",
                people.get(iri, ()),
            )
        return runs

    def _subject(self, items: Mapping[str, Item], steps: Mapping[str, Step]) -> str:
        walk = self.walk
        if walk.run is not None:
            return f"run {walk.run.removeprefix(RUNS)}"
        node = str(self._drawn(walk.node))
        if node in items:
            return f"{items[node].kind or 'entity'} {items[node].name}"
        step = steps[next(iter(walk.starts))]
        return step.name if step.name == step.kind else f"{step.kind} {step.name}"
