"""The table of runs: a row for each training, with hyperparameters and measures as columns.

A run with several trainings has several rows, a run without a training has one. The ranks of a distributed training are
one row, that of the first rank. Measures come from the training
(`train_`), its validation (`val_`) and its evaluation (`test_`), which may be in another run: the latest value of each.
They are separate columns, so that values of different data are never compared. A few queries read all runs at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from provml import rdf
from provml.answers import Answer
from provml.errors import ColumnNotFound, WrongValue
from provml.journal.statuses import STATUSES
from provml.rdf.namespaces import PROVML
from provml.store.backend import Backend
from provml.store.leakage import leaking_trainings, restrict
from provml.store.run_filter import compile_filter, suggest_columns
from provml.store.run_info import RunInfo

RANK_SUFFIX = re.compile(r"(@|%40)[0-9]+(\.[0-9]+)?$")
"""The end of the name of a stage that another rank than the first recorded."""
PREFIXES = {"evaluation": "test_", "validation": "val_", "training": "train_"}
"""The prefix of measures by the kind of stage. A name without a prefix means the first of these columns that exists."""
ALIASES = {"id": "run", "duration": "seconds"}
RUN_COLUMNS: dict[str, tuple[str, Callable[[RunInfo], Any]]] = {
    "run": ("string", lambda info: info.id),
    "name": ("string", lambda info: info.name),
    "model": ("string", lambda info: info.model),
    "status": ("string", lambda info: info.status),
    "started": ("dateTime", lambda info: info.started),
    "seconds": ("double", lambda info: info.seconds),
    "error": ("string", lambda info: info.error),
    "writers": ("integer", lambda info: info.writers),
    "events": ("integer", lambda info: info.events),
    "capture_errors": ("integer", lambda info: info.capture_errors.count),
    "lost_batches": ("integer", lambda info: info.capture_errors.lost_batches),
    "tags": ("string", lambda info: ", ".join(info.tags)),
    "parent": ("string", lambda info: info.parent),
}
"""Columns of a run: their type, and their value."""
TRAINING_COLUMNS = {"training": "string", "leakage": "boolean"}
"""More columns of a row with their types: the training of a run with several, and whether the training learned from
data that it was evaluated on."""

STAGES = """SELECT ?kind ?stage ?run ?started WHERE {
  VALUES (?type ?kind) {
    (provml:TrainingExecution "training") (provml:ValidationExecution "validation")
    (provml:EvaluationExecution "evaluation")
  }
  ?stage a ?type ; provlake:wasMemberOfWorkflowExecution ?run .
  OPTIONAL { ?stage prov:startedAtTime ?started }
}"""
NAMES = """SELECT ?attribute ?name WHERE {
  VALUES ?type { provml:LearningHyperparameter provml:EvaluationMeasure }
  ?attribute a ?type ; rdfs:label ?name .
}"""
HYPERPARAMETERS = """SELECT ?stage ?node ?attribute ?value WHERE {
  ?stage a provml:TrainingExecution ; prov:used ?node .
  FILTER NOT EXISTS { ?layer provml:hasParameter ?node }
  ?node prov:value ?value ; provlake:wasDerivedFromAttribute ?attribute .
}"""
LATEST = """SELECT ?stage ?node ?attribute ?value WHERE {
  ?stage provml:latestEvaluation ?node .
  ?node prov:value ?value ; provlake:wasDerivedFromAttribute ?attribute .
}"""
OF_STAGES = """SELECT ?stage ?node ?attribute ?value WHERE {
  VALUES ?type { provml:TrainingExecution provml:ValidationExecution provml:EvaluationExecution }
  ?stage a ?type .
  ?node prov:wasGeneratedBy ?stage ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute ?attribute .
}"""
OF_ANY = """SELECT ?stage ?node ?attribute ?value WHERE {
  ?node prov:wasGeneratedBy ?stage ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute ?attribute .
}"""
EVALUATED = "SELECT ?stage ?training WHERE { ?stage provml:evaluatedTraining ?training }"
VALIDATED = """SELECT DISTINCT ?stage ?training WHERE {
  ?stage a provml:ValidationExecution .
  { ?stage provml:latestEvaluation/prov:wasGeneratedBy/provml:validatedSection/provml:wasSectionOf ?training }
  UNION { ?stage provml:builtOn ?training }
  ?training a provml:TrainingExecution .
}"""
BUILT_ON = "SELECT ?stage ?training WHERE { ?stage provml:builtOn ?training ; a provml:ValidationExecution }"
VALIDATED_SECTIONS = """SELECT DISTINCT ?stage ?training WHERE {
  ?stage provml:latestEvaluation/prov:wasGeneratedBy/provml:validatedSection/provml:wasSectionOf ?training
}"""
"""The two parts of VALIDATED, which the engine answers fast for some stages; of a union it does not."""
CONSUMPTION = """SELECT ?stage ?node ?name ?value WHERE {
  ?stage provml:hadConsumption ?node .
  ?node prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  FILTER NOT EXISTS { ?node provml:consumingComponent ?component }
}"""
CONSUMPTION_COLUMNS = {"energy": "energy_kwh", "emissions": "emissions_kg"}
"""Columns of energy and emissions: of the training, or of the run if it has no training."""
TYPES_OF_STAGES = """SELECT ?type ?stage ?run ?started WHERE {
  ?stage provlake:wasMemberOfWorkflowExecution ?run ; a ?type .
  FILTER (?type IN (provml:TrainingExecution, provml:ValidationExecution, provml:EvaluationExecution))
  OPTIONAL { ?stage prov:startedAtTime ?started }
}"""
"""STAGES for some runs or stages: the engine starts from those, and not from the types."""
KINDS = {
    f"{PROVML}TrainingExecution": "training",
    f"{PROVML}ValidationExecution": "validation",
    f"{PROVML}EvaluationExecution": "evaluation",
}

Row = dict[str, Any]


@dataclass(frozen=True)
class RunTable:
    """Rows by column, and the columns in order; hyperparameters and measures that differ come first."""

    rows: list[Row]
    run_columns: list[str]
    hyperparameters: list[str]
    measures: list[str]
    sort_column: str = ""

    @property
    def varying(self) -> list[str]:
        """Hyperparameters and measures with several values; then those with one value that some rows do not have."""
        names = [name for name in self._values() if not self._is_constant(name)]
        return sorted(names, key=self.is_partial)

    @property
    def constants(self) -> list[str]:
        """Hyperparameters and measures with the same value in all rows."""
        return [name for name in self._values() if self._is_constant(name)]

    def is_partial(self, name: str) -> bool:
        """True if all rows that have a value of a column have the same."""
        return is_constant([row[name] for row in self.rows if row.get(name) is not None])

    def _values(self) -> list[str]:
        return [*self.hyperparameters, *self.measures]

    def _is_constant(self, name: str) -> bool:
        return is_constant([row.get(name) for row in self.rows])

    @property
    def columns(self) -> list[str]:
        """All columns: those of the run, then values that differ, then values that are the same in all rows."""
        return [*self.run_columns, *self.varying, *self.constants]

    def resolve(self, name: str) -> str | None:
        """Return the column that a name means: a column, another name of one, or a measure without its prefix."""
        names = (name, ALIASES.get(name, ""), *(prefix + name for prefix in PREFIXES.values()))
        columns = {*self.run_columns, *self._values()}
        return next((column for column in names if column in columns), None)

    def filtered(
        self, where: str | None = None, status: str | Iterable[str] | None = None, name: str | None = None
    ) -> RunTable:
        """Return the rows that fulfil a condition, have a status, and have a name that matches a pattern."""
        rows = self.rows
        if where is not None:
            if not isinstance(where, str):
                advice = "Pass a condition, such as 'learning_rate > 0.01'."
                raise WrongValue("Store.table", "where", where, "text", advice)
            columns = {column: [row.get(column) for row in rows] for column in self.columns}
            matches = compile_filter(where, columns, self.resolve)
            rows = [row for row in rows if matches(row)]
        if status is not None:
            statuses = {_checked_status(text) for text in ([status] if isinstance(status, str) else status)}
            rows = [row for row in rows if row["status"] in statuses]
        if name is not None:
            rows = [row for row in rows if fnmatchcase(row["name"], name)]
        return replace(self, rows=rows)._without_empty_columns()

    def _without_empty_columns(self) -> RunTable:
        filled = {name for row in self.rows for name, value in row.items() if value is not None}
        hyperparameters = [name for name in self.hyperparameters if name in filled]
        return replace(
            self, hyperparameters=hyperparameters, measures=[name for name in self.measures if name in filled]
        )

    def sorted(self, column: str, *, descending: bool = False) -> RunTable:
        """Return the rows sorted by a column; missing values come last."""
        resolved = self.resolve(column)
        if resolved is None:
            raise ColumnNotFound(column, suggest_columns(column, self.columns))
        by_value = Answer(["value", "row"], [(row.get(resolved), row) for row in self.rows])
        rows = by_value.sorted("value", reverse=descending).column("row")
        return replace(self, rows=rows, sort_column=resolved)

    def first(self, limit: int) -> RunTable:
        """Return the first rows."""
        if limit < 0:
            raise WrongValue("Store.table", "limit", limit, "a number of rows", "Pass 0 or more.")
        return replace(self, rows=self.rows[:limit])

    def answer(self) -> Answer:
        """Return the table with typed columns."""
        columns = self.columns
        types = {name: kind for name, (kind, _) in RUN_COLUMNS.items()} | TRAINING_COLUMNS
        rows = [tuple([row.get(name) for name in columns]) for row in self.rows]
        return Answer(columns, rows, types={name: types[name] for name in self.run_columns})


def is_constant(values: Sequence[Any]) -> bool:
    """True if all values are the same; NaN is the same as NaN, and 1 is not true."""
    return len({(value.__class__ is bool, "NaN" if value != value else value) for value in values}) <= 1


def _checked_status(status: object) -> str:
    text = str(status).upper()
    if text not in STATUSES:
        raise WrongValue("Store.table", "status", status, "the status of a run", f"Use {', '.join(STATUSES)}.")
    return text


def load_table(infos: Sequence[RunInfo], backend: Backend, *, is_part: bool = False) -> RunTable:
    """Read runs from a graph. The rows are in the order of the runs, and of the starts of their trainings.

    With `is_part` the graph has other runs as well, which are not read.
    """
    return (_PartLoader if is_part else _Loader)(infos, backend).table()


class _Loader:
    """One reading of all runs."""

    def __init__(self, infos: Sequence[RunInfo], backend: Backend) -> None:
        self.infos = infos
        self.backend = backend
        self.names: dict[str, str] = {}
        self.stages: dict[str, tuple[str, str, str]] = {}
        self.by_run: dict[str, dict[str, list[str]]] = {}
        self._load_stages()

    def _load_stages(self) -> None:
        self._add_stages(STAGES)
        self._add_names(NAMES)

    def _add_stages(self, sparql: str) -> None:
        for term, stage, run, started in self._select(sparql):
            kind = KINDS.get(term.value, term.value)
            # the engine writes 5.1200Z as 5.12Z, which as text would come after 5.1201Z
            self.stages[stage.value] = (kind, run.value, started.value.removesuffix("Z") if started is not None else "")
            self.by_run.setdefault(run.value, {}).setdefault(kind, []).append(stage.value)

    def _add_names(self, sparql: str) -> None:
        self.names.update((attribute.value, name.value) for attribute, name in self._select(sparql))

    def _of_stages(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query about stages."""
        return self._select(sparql)

    def _links_of_trainings(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query about stages and trainings."""
        return self._select(sparql)

    def _leaking(self) -> set[str]:
        return leaking_trainings(self._select)

    def _select(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows of terms: most are only compared, which needs no conversion to Python values."""
        return map(tuple, self.backend.query(sparql))  # type: ignore[arg-type]  # rows of SELECT

    def table(self) -> RunTable:
        settings = self._values(HYPERPARAMETERS, first=True)
        measures = self._measures()
        for node, consumption in self._consumption().items():
            measures[node] = measures.get(node, {}) | consumption
        leaking = self._leaking()
        ranks = {run: _by_first_rank(stages.get("training", ()), settings) for run, stages in self.by_run.items()}
        has_several = any(len(trainings) > 1 for trainings in ranks.values())
        run_columns = [*RUN_COLUMNS, *(["training"] if has_several else []), "leakage"]
        measure_names = _in_order(measures.values(), key=_measure_order)
        taken = {*run_columns, *ALIASES, *measure_names}
        names = {name: _free_name(name, taken) for name in _in_order(settings.values())}
        rows = []
        for info in self.infos:
            run = str(info.iri)
            base: Row = {name: value(info) for name, (_, value) in RUN_COLUMNS.items()}
            trainings = sorted(ranks.get(run, {}), key=self._start)
            for node in trainings or [run]:
                copies = ranks.get(run, {}).get(node, [])
                row = base | {"leakage": not leaking.isdisjoint(copies) if trainings else None}
                if len(copies) > 1:
                    row["ranks"] = len(copies)
                if has_several and trainings:
                    row["training"] = unquote(node.removeprefix(f"{run}/"))
                row |= {names[name]: value for name, value in settings.get(node, {}).items()}
                rows.append(row | measures.get(node, {}))
        return RunTable(rows, run_columns, list(names.values()), measure_names)

    def _start(self, stage: str) -> tuple[str, list[Any]]:
        return self.stages[stage][2], natural_key(stage)

    def _values(self, sparql: str, *, first: bool = False) -> dict[str, Row]:
        """Return the values by stage and name; of several values the last, or the first."""
        values: dict[str, dict[str, tuple[str, Any]]] = {}
        for stage, node, attribute, value in self._of_stages(sparql):
            name = self.names.get(attribute.value)
            if name is None:
                continue
            by_name = values.setdefault(stage.value, {})
            old = by_name.get(name)
            if old is None or (natural_key(node.value) < natural_key(old[0])) is first:
                by_name[name] = node.value, value
        return {stage: {name: rdf.value(term) for name, (_, term) in row.items()} for stage, row in values.items()}

    def _measures(self) -> dict[str, Row]:
        """Return the measures by training, or by run if it has no training, with the prefixes of their stages.

        A value of a whole stage counts more than that of its last section; of several evaluations, the latest counts.
        """
        by_stage = self._values(LATEST)
        for stage, row in self._values(OF_STAGES).items():
            by_stage[stage] = by_stage.get(stage, {}) | row
        targets = self._targets()
        measures: dict[str, Row] = {}
        for kind in reversed(PREFIXES):  # a validation's own loss replaces a training's val_loss
            stages = [stage for stage in by_stage if self.stages.get(stage, ("",))[0] == kind]
            for stage in sorted(stages, key=self._start):
                row = {measure_column(kind, name): value for name, value in by_stage[stage].items()}
                for target in targets(stage):
                    measures.setdefault(target, {}).update(row)
        return measures

    def _consumption(self) -> dict[str, Row]:
        """Return energy and emissions by stage and by run; those of a run that was resumed are added up."""
        rows: dict[str, Row] = {}
        for stage, _, name, value in sorted(self._amounts()):  # a sum of doubles depends on the order
            row, column = rows.setdefault(stage, {}), CONSUMPTION_COLUMNS.get(name, name)
            row[column] = row.get(column, 0.0) + value
        return rows

    def _amounts(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield amounts of energy and emissions: stage or run, node, name and value."""
        return self._select_amounts(CONSUMPTION)

    def _select_amounts(self, sparql: str) -> Iterator[tuple[str, str, str, float]]:
        for stage, node, name, value in self._select(sparql):
            yield stage.value, node.value, name.value, rdf.value(value)

    def _targets(self) -> Callable[[str], Iterable[str]]:
        """Return a function that gives the rows of a stage: trainings, or its run."""
        links: dict[str, set[str]] = {}
        has_several = any(len(stages.get("training", ())) > 1 for stages in self.by_run.values())
        for sparql in (EVALUATED, VALIDATED) if has_several else (EVALUATED,):
            for stage, training in self._links_of_trainings(sparql):
                links.setdefault(stage.value, set()).add(training.value)

        def targets(stage: str) -> Iterable[str]:
            kind, run, _ = self.stages[stage]
            if kind == "training":
                return (stage,)
            trainings = self.by_run[run].get("training", [])
            targets = links.get(stage, set())
            if not trainings:
                return {run, *targets}
            return targets or (trainings if len(trainings) == 1 and kind == "validation" else ())

        return targets


class _PartLoader(_Loader):
    """A reading of some runs, by queries that name them."""

    def _load_stages(self) -> None:
        self._add_stages(restrict(TYPES_OF_STAGES, "run", [info.iri for info in self.infos]))
        self._trainings = {stage for stage, (kind, _, _) in self.stages.items() if kind == "training"}
        links = (link for sparql in (EVALUATED, BUILT_ON) for link in self._links_of_trainings(sparql))
        others = {stage.value for stage, _ in links} - self.stages.keys()
        if others:  # evaluations of these trainings in other runs
            self._add_stages(restrict(TYPES_OF_STAGES, "stage", others))

    def _of_stages(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        sparql = OF_ANY if sparql == OF_STAGES else sparql  # the stages are known, and so are their types
        rows = list(self._select(restrict(sparql, "stage", self.stages)))
        missing = {attribute.value for _, _, attribute, _ in rows} - self.names.keys()
        if missing:
            self._add_names(restrict(NAMES, "attribute", missing))
        return iter(rows)

    def _links_of_trainings(self, sparql: str) -> Iterator[tuple[Any, ...]]:
        if sparql != VALIDATED:
            return self._select(restrict(sparql, "training", self._trainings))
        validations = [stage for stage, (kind, _, _) in self.stages.items() if kind == "validation"]
        queries = (restrict(part, "stage", validations) for part in (VALIDATED_SECTIONS, BUILT_ON))
        links = (link for query in queries for link in self._select(query))
        return (link for link in links if link[1].value in self._trainings)

    def _leaking(self) -> set[str]:
        return leaking_trainings(self._select, self._trainings)

    def _amounts(self) -> Iterator[tuple[str, str, str, float]]:
        nodes = {*self.stages, *(str(info.iri) for info in self.infos)}
        return self._select_amounts(restrict(CONSUMPTION, "stage", nodes))


def natural_key(iri: str) -> list[Any]:
    """Return a sort key that orders the numbers in an IRI by value: 9 before 10."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", iri)]


def _in_order(rows: Iterable[Mapping[str, Any]], key: Callable[[str], Any] = str) -> list[str]:
    return sorted({name for row in rows for name in row}, key=key)


def _by_first_rank(trainings: Iterable[str], settings: Mapping[str, Row]) -> dict[str, list[str]]:
    """Return trainings with their copies in other ranks of a distributed training: `training` with `training@1`.

    If a launcher began the run, all ranks have a number: `training@0` with `training@1`.
    A rank with hyperparameters of its own is no copy: such ranks are a sweep.
    """
    names = list(trainings)
    nodes = set(names)
    copies: dict[str, list[str]] = {}
    for name in names:
        firsts = [first for first in _first_ranks(name) if first in nodes and settings.get(first) == settings.get(name)]
        copies.setdefault(firsts[0] if firsts else name, []).append(name)
    return copies


def _first_ranks(training: str) -> list[str]:
    """Return the names that the first rank of a training may have: that of a parent process, or of rank 0."""
    match = RANK_SUFFIX.search(training)
    if match is None:
        return []
    base, sign, launch = training[: match.start()], match[1], match[2]
    return [*([f"{base}{sign}0{launch}"] if launch else []), base, f"{base}{sign}0"]


def _measure_order(name: str) -> tuple[int, str]:
    """Return a sort key: measures of evaluations first, then of validations, then of trainings."""
    prefixes = list(PREFIXES.values())
    return next((index for index, prefix in enumerate(prefixes) if name.startswith(prefix)), len(prefixes)), name


def measure_column(kind: str, name: str) -> str:
    """Return the column of a measure by the kind of its stage; a name that has such a prefix gets no second."""
    return name if name.startswith(tuple(PREFIXES.values())) else PREFIXES[kind] + name


def _free_name(name: str, taken: set[str]) -> str:
    """Return a column for a hyperparameter, with a prefix if another column has its name."""
    while name in taken:
        name = f"param_{name}"
    return name
