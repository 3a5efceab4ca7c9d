"""What differs between runs, and what is the same: settings, data, measures, adaptations, code and environment.

The last rows say where the lineages of two trainings part: the links `provml:builtOn` are followed from both in
parallel, from data that differs to the steps that made it, up to the first step or dataset that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from provml import rdf
from provml.answers import Answer, format_cell
from provml.errors import InvalidParameter
from provml.rdf.namespaces import PROVLAKE
from provml.store.backend import Backend
from provml.store.run_info import RunInfo
from provml.store.run_table import is_constant, measure_column, natural_key

LINEAGE = "lineage"
KINDS = (
    *("hyperparameter", "measure", "adaptation", "dataset", "preparation", LINEAGE),
    *("code", "environment", "machine", "software"),
)
"""Kinds of facts in the order of the rows."""
CODE = {
    f"{PROVLAKE}{name}"
    for name in ("gitCommit", "gitDirty", "gitDiffSha256", "gitRepository", "commandLine", "scriptSha256")
}
"""Properties of an environment that identify the code."""

_VALUE = "?node prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name"
PARAMETERS = f"""SELECT ?what ?name ?node ?value WHERE {{ # all in both parts: joins stay in the run
  {{ ?step provlake:wasMemberOfWorkflowExecution $run ; prov:used ?node . {_VALUE}
    FILTER NOT EXISTS {{ ?step a provml:AdaptationExecution }} }}
  UNION {{ $run prov:used ?node . {_VALUE} }} # seeds
  FILTER NOT EXISTS {{ ?layer provml:hasParameter ?node }}
  VALUES (?class ?what) {{
    (provml:LearningHyperparameterValue "hyperparameter") (provml:PreparationParameterValue "preparation")
  }}
  FILTER EXISTS {{ ?node a ?class }}
}}"""
ADAPTATIONS = """SELECT ("adaptation" AS ?what) ?name ?node ?value ?index ?technique WHERE {
  ?adaptation provlake:wasMemberOfWorkflowExecution $run ; a provml:AdaptationExecution .
  ?node prov:wasGeneratedBy ?adaptation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?adaptation provml:adaptedDuring/provml:sectionIndex ?index }
  OPTIONAL { ?adaptation provml:technique ?technique }
}"""
DATASETS = """SELECT DISTINCT ("dataset" AS ?what) ?name ?data ?file ?digest WHERE {
  ?stage provlake:wasMemberOfWorkflowExecution $run ; prov:qualifiedUsage ?usage .
  ?usage prov:entity ?entity ; prov:hadRole ?role .
  ?entity prov:specializationOf? ?data . ?data provlake:sha256 ?digest .
  ?entity provlake:wasDerivedFromAttribute/rdfs:label ?file .
  BIND(LCASE(REPLACE(STR(?role), "^.*[/#]|Role$", "")) AS ?name)
}"""
_MEASURE = f"?stage provlake:wasMemberOfWorkflowExecution $run . ?node a provml:ModelEvaluation . {_VALUE}"
MEASURES = f"""SELECT ?kind ?name ?node ?value WHERE {{
  {{ ?stage provml:latestEvaluation ?node . {_MEASURE} }} UNION {{ ?node prov:wasGeneratedBy ?stage . {_MEASURE} }}
  VALUES (?type ?kind) {{
    (provml:TrainingExecution "training") (provml:ValidationExecution "validation")
    (provml:EvaluationExecution "evaluation")
  }}
  FILTER EXISTS {{ ?stage a ?type }}
}}"""
ENVIRONMENT = """SELECT ?what ?name ?property ?value WHERE {
  $run prov:wasAssociatedWith ?place . ?place a provlake:ExecutionEnvironment .
  { ?place ?property ?value . BIND("environment" AS ?what) }
  UNION { ?place provlake:wasRunOn ?machine . ?machine ?property ?value . BIND("machine" AS ?what) }
  FILTER(isLiteral(?value))
  BIND(REPLACE(STR(?property), "^.*[/#]", "") AS ?name)
}"""
SOFTWARE = """SELECT ("software" AS ?what) ?name ?software ?value WHERE {
  $run prov:wasAssociatedWith/provml:hasSoftware ?software .
  ?software rdfs:label ?name ; provml:softwareVersion ?value .
}"""
TRAININGS = """SELECT ?stage ?started WHERE {
  ?stage provlake:wasMemberOfWorkflowExecution $run ; a provml:TrainingExecution .
  OPTIONAL { ?stage prov:startedAtTime ?started }
}"""
_DATA = "?data a provlake:DataReference ; provlake:wasDerivedFromAttribute/rdfs:label ?name"
INPUTS = f"""SELECT DISTINCT ?data ?content ?name ?digest WHERE {{
  {{ $run prov:used ?data . {_DATA} }} UNION {{ ?section provml:wasSectionOf $run ; prov:used ?data . {_DATA} }}
  OPTIONAL {{ ?data prov:specializationOf|prov:alternateOf ?content }}
  OPTIONAL {{ ?data provlake:sha256 ?digest }}
}}"""
MAKERS = """SELECT DISTINCT ?data ?maker WHERE {
  { $run prov:used ?data } UNION { ?section provml:wasSectionOf $run ; prov:used ?data }
  $run provml:builtOn ?maker .
  ?data (^prov:specializationOf|^prov:alternateOf)?/prov:wasGeneratedBy/provml:wasSectionOf? ?maker .
}"""
STEP = """SELECT ?label ?name ?node ?value WHERE {
  $run provlake:wasDerivedFromDataTransformation/rdfs:label ?label .
  OPTIONAL {
    $run prov:used ?node . ?node prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
    FILTER NOT EXISTS { ?layer provml:hasParameter ?node }
  }
}"""

Key = tuple[str, str]


class RunComparison(Answer):
    """Rows of what, name, whether the runs differ, and a column per run; rows that differ come first."""

    def __init__(self, runs: Sequence[RunInfo], rows: list[tuple[Any, ...]]) -> None:
        self.runs = list(runs)
        types = {"what": "string", "name": "string", "differs": "boolean"}
        super().__init__(["what", "name", "differs", *(info.id for info in runs)], rows, types=types)

    @property
    def differences(self) -> Answer:
        """The rows that differ, without the column that says so."""
        return self._part(differs=True)

    @property
    def equal(self) -> Answer:
        """The rows that are the same in all runs."""
        return self._part(differs=False)

    def _part(self, *, differs: bool) -> Answer:
        rows = [(*row[:2], *row[3:]) for row in self.rows if row[2] is differs]
        return Answer([*self.columns[:2], *self.columns[3:]], rows)

    def __reduce__(self) -> tuple[object, ...]:
        return RunComparison, (self.runs, self.rows)


def compare_runs(backend: Backend, infos: Sequence[RunInfo]) -> RunComparison:
    """Compare two or more different runs."""
    if len(infos) < 2:
        problem = "a comparison needs two runs or more"
        raise InvalidParameter(
            "compare", "runs", len(infos), "", "Pass another run; `provml runs` lists them.", problem=problem
        )
    repeated = next((info.id for index, info in enumerate(infos) if info in infos[:index]), None)
    if repeated is not None:
        raise InvalidParameter(
            "compare", "runs", repeated, "", "Pass different runs.", problem=f"{repeated!r} is named twice"
        )
    facts = [_facts(backend, info) for info in infos]
    keys = sorted({key for each in facts for key in each}, key=lambda key: (KINDS.index(key[0]), key[1]))
    rows: list[tuple[Any, ...]] = []
    for kind, name in keys:
        values = [each.get((kind, name)) for each in facts]
        rows.append((kind, name, not is_constant(values), *values))
    rows += _lineage_rows(backend, infos)
    rows.sort(key=lambda row: (not row[2], KINDS.index(row[0])))
    return RunComparison(infos, rows)


def _select(backend: Backend, sparql: str, node: str) -> Iterator[tuple[Any, ...]]:
    return map(tuple, backend.query(sparql.replace("$run", f"<{node}>")))  # type: ignore[arg-type]  # rows of SELECT


def _facts(backend: Backend, info: RunInfo) -> dict[Key, Any]:
    """Return the facts of a run by kind and name; several values of one name are joined in their order."""
    values: dict[Key, dict[str, tuple[list[Any], Any]]] = {}

    def add(kind: str, name: str, node: str, value: Any) -> None:
        values.setdefault((kind, name), {})[f"{node} {value!r}"] = (natural_key(node), value)

    for kind, name, node, value in _select(backend, MEASURES, info.iri):
        add("measure", measure_column(kind.value, name.value), node.value, rdf.value(value))
    for sparql in (PARAMETERS, SOFTWARE):
        for kind, name, node, value in _select(backend, sparql, info.iri):
            add(kind.value, name.value, node.value, rdf.value(value))
    for kind, name, key, value in _select(backend, ENVIRONMENT, info.iri):
        add("code" if key.value in CODE else kind.value, name.value, key.value, rdf.value(value))
    for kind, name, node, value, index, technique in _select(backend, ADAPTATIONS, info.iri):
        text = format_cell(rdf.value(value))
        text += f" at epoch {index.value}" if index is not None else ""
        text += f" by {technique.value}" if technique is not None else ""
        add(kind.value, name.value, node.value, text)
    for kind, name, _, file, digest in _select(backend, DATASETS, info.iri):
        add(kind.value, name.value, file.value, f"{file.value} ({digest.value})")
    return {key: _joined(entries.values()) for key, entries in values.items()}


def _joined(entries: Iterable[tuple[list[Any], Any]]) -> Any:
    values = [value for _, value in sorted(entries, key=lambda entry: (entry[0], str(entry[1])))]
    return values[0] if len(values) == 1 else ", ".join(map(format_cell, values))


# ---- lineage


@dataclass(frozen=True)
class Input:
    """Data that a step used: its name, what identifies its content, and the steps that made it."""

    name: str
    content: str
    digest: str
    makers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})" if self.digest else self.name


@dataclass(frozen=True)
class Difference:
    """Where two lineages part: the names of the steps up to there, and what each run has."""

    path: tuple[str, ...]
    values: tuple[str, str]


def _lineage_rows(backend: Backend, infos: Sequence[RunInfo]) -> Iterator[tuple[Any, ...]]:
    """Yield, for each other run, where its lineage and that of the first run part."""
    trainings = [_trainings(backend, info) for info in infos]
    walk = _ParallelWalk(backend)
    for number, others in enumerate(trainings[1:], 1):
        differences = (walk.inputs(pair, ("training",)) for pair in zip(trainings[0], others, strict=False))
        difference = next((each for each in differences if each is not None), None)
        if difference is not None:
            cells: list[str | None] = [None] * len(infos)
            cells[0], cells[number] = difference.values
            yield (LINEAGE, " ← ".join(difference.path), True, *cells)


def _trainings(backend: Backend, info: RunInfo) -> list[str]:
    rows = [
        (started.value if started is not None else "", stage.value)
        for stage, started in _select(backend, TRAININGS, info.iri)
    ]
    return [stage for _, stage in sorted(rows, key=lambda row: (row[0], natural_key(row[1])))]


class _ParallelWalk:
    """A walk from a pair of steps to what they were built on."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.visited: set[tuple[str, str]] = set()

    def inputs(self, pair: tuple[str, str], path: tuple[str, ...]) -> Difference | None:
        """Return the first difference in what two steps used."""
        if pair in self.visited:
            return None
        self.visited.add(pair)
        sides = [self._inputs(step) for step in pair]
        common = {data.content for data in sides[0]} & {data.content for data in sides[1]}
        sides = [[data for data in side if data.content not in common] for side in sides]
        names = {data.name for data in sides[0]} & {data.name for data in sides[1]}
        in_pairs = [sorted(side, key=lambda data: (data.name not in names, data.name)) for side in sides]
        for ours, theirs in zip_longest(*in_pairs):
            difference = self._upstream(ours, theirs, path)
            if difference is not None:
                return difference
        return None

    def _upstream(self, ours: Input | None, theirs: Input | None, path: tuple[str, ...]) -> Difference | None:
        """Return why two inputs differ: by the steps that made them, else by themselves."""
        if ours is not None and theirs is not None and ours.makers and theirs.makers:
            steps = ours.makers[0], theirs.makers[0]
            if steps in self.visited:
                return None
            labels, parameters = zip(*(self._step(step) for step in steps), strict=True)
            if labels[0] != labels[1]:
                return Difference((*path, "step"), (labels[0], labels[1]))
            difference = self.inputs(steps, (*path, labels[0]))
            if difference is not None:
                return difference
            for name in sorted({*parameters[0], *parameters[1]}):
                values = [each.get(name) for each in parameters]
                if values[0] != values[1]:
                    texts = [f"{name} = {value}" if value is not None else f"no {name}" for value in values]
                    return Difference((*path, labels[0]), (texts[0], texts[1]))
            path = (*path, labels[0])  # the same step with the same settings and inputs gave something else
        return Difference(path, (str(ours or "no other data"), str(theirs or "no other data")))

    def _inputs(self, step: str) -> list[Input]:
        makers: dict[str, set[str]] = {}
        for data, maker in _select(self.backend, MAKERS, step):
            makers.setdefault(data.value, set()).add(maker.value)
        inputs: dict[str, Input] = {}
        for data, content, name, digest in _select(self.backend, INPUTS, step):
            node = data.value
            identity = (digest or content or data).value
            steps = tuple(sorted(makers.get(node, ()), key=natural_key))
            inputs[node] = Input(name.value, identity, digest.value if digest is not None else "", steps)
        return list(inputs.values())

    def _step(self, step: str) -> tuple[str, dict[str, str]]:
        """Return the name of a step and its parameters as text."""
        label, parameters = step, {}
        for name, parameter, _, value in _select(self.backend, STEP, step):
            label = name.value
            if parameter is not None:
                parameters[parameter.value] = format_cell(rdf.value(value))
        return label, parameters
