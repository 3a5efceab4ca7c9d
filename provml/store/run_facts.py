"""Everything that a report says about a run, read from the graph, and what is missing in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from provml.answers import format_cell
from provml.answers.plot import Curves
from provml.drawing.lineage import Lineage
from provml.errors import PlotError, plural
from provml.store.checkpoint import Problem
from provml.store.curves import RunCurves
from provml.store.name_lookup import Queryable
from provml.store.run_info import RunInfo
from provml.store.run_tables import RunTables

if TYPE_CHECKING:
    from provml.validation import Report

MAX_PANELS = 6
"""Measures that have curves, and settings that have some."""
MAX_NAMES = 5
LEAKAGE_SHAPE = "evaluation-data-in-training"

PEOPLE = """SELECT DISTINCT ?name ?what ?at WHERE {
  { BIND($run AS ?at) BIND("the run" AS ?what) ?at prov:wasAssociatedWith ?person }
  UNION {
    ?at provlake:wasMemberOfWorkflowExecution $run ; prov:wasAssociatedWith ?person .
    BIND(IF(EXISTS { ?at a provml:AdaptationExecution }, "adaptation", "step") AS ?what)
  }
  ?person a provml:Persona ; rdfs:label ?name .
} ORDER BY ?name ?what ?at"""
FACTS = """SELECT DISTINCT ?property ?value WHERE {
  { $run rdfs:comment ?value . BIND("comment" AS ?property) }
  UNION { $run provlake:wasDerivedFromWorkflow/^provml:hasExperiment/rdfs:label ?value . BIND("study" AS ?property) }
  UNION { $run provml:addressedTask/prov:value ?value . BIND("task" AS ?property) }
} ORDER BY ?property ?value"""
SEEDS = """SELECT DISTINCT ?name ?value WHERE {
  { $run prov:used ?seed }
  UNION { ?at provlake:wasMemberOfWorkflowExecution $run ; prov:used ?seed . BIND(true AS ?is_setting) }
  ?seed prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  FILTER(!BOUND(?is_setting) || REGEX(?name, "(^|_)(seed|random_state)$", "i"))
} ORDER BY ?name ?value"""
ARTIFACTS = """SELECT DISTINCT ?name ?size ?sha256 WHERE {
  $run provml:hasArtifact ?artifact . ?artifact rdfs:label ?name ; provlake:sha256 ?sha256 .
  OPTIONAL { ?artifact provlake:sizeBytes ?size }
} ORDER BY ?name ?sha256"""
CONSUMPTION = """SELECT ?quantity (SUM(?part) AS ?value) ?unit ?metered ?method WHERE {
  $run provml:hadConsumption ?amount .
  ?amount prov:value ?part ; provml:wasMetered ?metered ; provml:consumptionMethod ?method ;
          provlake:wasDerivedFromAttribute ?attribute .
  ?attribute rdfs:label ?quantity ; provlake:unit ?unit .
  FILTER NOT EXISTS { ?amount provml:consumingComponent ?component }
} GROUP BY ?quantity ?unit ?metered ?method ORDER BY DESC(?quantity) ?method"""
UNITS = {"kW.h": "kWh", "kg": "kg CO2e"}
DATA_NAMES = """SELECT DISTINCT ?data ?name WHERE {
  ?at provlake:wasMemberOfWorkflowExecution $run ; prov:used ?data .
  ?data a provlake:DataReference ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
}"""


class ReportStore(Queryable, Protocol):
    """What a report needs of a store."""

    home: Path

    @property
    def problems(self) -> list[Problem]:
        """Lines of journals that could not be indexed."""

    def lineage(self, subject: Any, /, *, forward: bool = False) -> Lineage:
        """Return the lineage of a run."""


class RunFacts:
    """What the graph says about a run. `validation` is the result of its validation, None if it was not done."""

    def __init__(self, store: ReportStore, info: RunInfo, validation: Report | None) -> None:
        self.store = store
        self.info = info
        self.validation = validation
        self.tables = RunTables(store, info)
        self.parts = self.tables.parts()
        self.stages = self.parts["stages"].to_dicts()
        self.datasets = self.parts["datasets"].to_dicts()
        self.models = self.parts["models"].to_dicts()
        self.kinds = {row["stage"]: row["kind"] for row in self.stages}
        self.environment: dict[str, Any] = {row["name"]: row["value"] for row in self.parts["environment"].to_dicts()}
        self.remarks = [(str(name), str(value)) for name, value in self.tables.select(FACTS)]
        self.seeds = self.tables.select(SEEDS)
        self.artifacts = self.tables.select(ARTIFACTS)
        self.people = [(str(name), str(role), at) for name, role, at in self.tables.select(PEOPLE)]
        self.lineage = store.lineage(info)
        self.later = store.lineage(info, forward=True).records

    # ---- learning

    def is_used_in(self, row: Mapping[str, Any], kind: str) -> bool:
        """True if a row of the datasets says that a stage of a kind used the data."""
        word, _, place = row["where"].partition("used by ")
        return not word and self.kinds.get(place.split(" ")[0]) == kind

    def training_data(self) -> list[str]:
        """Return the names of the data that trainings used: those in the role training, or without roles all."""
        rows = [row for row in self.datasets if self.is_used_in(row, "training")]
        named = [row["dataset"] for row in rows if row["role"] == "training"]
        return list(dict.fromkeys(named or [row["dataset"] for row in rows]))

    def section_kind(self) -> str:
        """Return what the sections of the training are: epochs, rounds or folds."""
        steps = self.lineage.records.steps.values()
        return next((step.section_kind for step in steps if step.kind == "training" and step.sections), "epoch")

    def evaluation_values(self) -> list[tuple[str, str, Any]]:
        """Return stage, measure and value of each evaluation of this run."""
        part = self.parts["measures"]
        values = []
        for stage, section, *row in part.rows:
            if self.kinds.get(stage) == "evaluation" and section is None:
                measured = zip(part.columns[2:], row, strict=True)
                values += [(stage, name, value) for name, value in measured if value is not None]
        return values

    def other_evaluations(self) -> list[str]:
        """Return the other runs that evaluated a model of this run."""
        steps = [step for step in self.later.steps.values() if step.kind == "evaluation"]
        runs = dict.fromkeys(step.run for step in steps if step.run != self.info.iri)
        return [self.later.runs[run].label for run in runs if run in self.later.runs]

    def later_runs(self) -> list[str]:
        """Return the other runs that used what this run generated."""
        return [run.label for iri, run in self.later.runs.items() if iri != self.info.iri]

    def leaked_data(self) -> list[str]:
        """Return the names of the evaluation data that validation found in trainings."""
        results = [r for r in self.validation or () if r.shape.endswith(f"/{LEAKAGE_SHAPE}")]
        if not results:
            return []
        names = {str(data): str(name) for data, name in self.tables.select(DATA_NAMES)}
        return list(dict.fromkeys(names.get(result.value.strip("<>"), result.value) for result in results))

    def has_test_data(self) -> bool:
        """True if data in the role test is recorded."""
        return any(row["role"] == "test" for row in self.datasets)

    def has_uncommitted_changes(self) -> bool:
        """True if the code of the run, or of one of its processes, had changes that were not committed."""
        return "true" in str(self.environment.get("git dirty", "")).lower()

    def consumption(self) -> dict[str, str]:
        """Return energy and emissions of the run as text, with method, and whether they were metered.

        A run that was resumed has a sum for each method.
        """
        texts: dict[str, list[str]] = {}
        for quantity, value, unit, metered, method in self.tables.select(CONSUMPTION):
            how = f"{'metered' if metered else 'modelled'} ({method})"
            texts.setdefault(str(quantity), []).append(f"{format_cell(value)} {UNITS.get(str(unit), unit)}, {how}")
        return {quantity: "; ".join(parts) for quantity, parts in texts.items()}

    @cached_property
    def curves(self) -> RunCurves:
        """The values by epoch."""
        return RunCurves(self.store, [self.info])

    @cached_property
    def panels(self) -> list[Curves]:
        """The curves of the measures, and of the settings that were adapted."""
        curves = self.curves
        panels: list[Curves] = []
        for name in [*curves.measures[:MAX_PANELS], *curves.adapted_settings[:MAX_PANELS]]:
            try:
                panels += curves.panels([name])
            except PlotError:  # all values are NaN, or text
                continue
        return panels

    # ---- gaps

    def gaps(self) -> list[str]:
        """Return what is not known about the run, in sentences."""
        checks = (self._end_gaps, self._record_gaps, self._learning_gaps, self._data_gaps, self._code_gaps)
        return [text for check in checks for text in check()]

    def _end_gaps(self) -> Iterator[str]:
        ends = {
            "RUNNING": "The run has not ended yet: this report shows its state when it was written.",
            "KILLED": "How the run ended: its process disappeared without an end.",
            "LOST": "How the run ended: its machine has been silent.",
        }
        if self.info.status in ends:
            yield ends[self.info.status]

    def _record_gaps(self) -> Iterator[str]:
        for name, text in self.remarks:
            if name == "comment" and text.startswith("Capture failed"):
                yield f"Whatever was not recorded because of errors. {text.rstrip('.')}."
        folder = f"runs/{self.info.id}/"
        problems = [problem for problem in self.store.problems if folder in problem.file.replace(os.sep, "/")]
        if problems:
            yield f"The content of {plural(len(problems), 'damaged line')} of the journal, see `provml verify`."

    def _learning_gaps(self) -> Iterator[str]:
        kinds = set(self.kinds.values())
        if "training" not in kinds:
            yield "The training: none is recorded."
        elif not any(self.kinds.get(stage) == "training" for stage, *_ in self.parts["hyperparameters"]):
            yield "The settings of the training: no hyperparameters are recorded."
        if not self.models:
            yield "The trained model: no model is recorded as produced."
        without = dict.fromkeys(row["model"] for row in self.models if not row["sha256"])
        if without:
            yield f"The content of models without a digest: {join_names(without)}."
        if "evaluation" in kinds:
            yield from self._evaluation_gaps()
        elif not self.other_evaluations():
            yield "How good the model is on unseen data: no evaluation is recorded."

    def _evaluation_gaps(self) -> Iterator[str]:
        if not self.evaluation_values():
            yield "The result of the evaluation: it has no measures."
        if not any(self.is_used_in(row, "evaluation") for row in self.datasets):
            yield "On which data the model was evaluated: the evaluation names no data."

    def _data_gaps(self) -> Iterator[str]:
        if not self.datasets:
            yield "The data: none is recorded."
        elif "training" in self.kinds.values() and not self.training_data():
            yield "On which data the model was trained: the training names no data."
        without = dict.fromkeys(row["dataset"] for row in self.datasets if not row["sha256"])
        if without:
            yield f"The content of data without a digest: {join_names(without)}."
        records = self.lineage.records
        generated = {generation.item for generation in records.generations}
        raw = {use.item for use in records.uses if use.role == "raw"}
        origins = {use.item for use in records.uses} - generated - raw
        if origins:
            names = sorted({records.items[item].name for item in origins})
            yield f"Where data came from that no recorded step made: {join_names(names)}."

    def _code_gaps(self) -> Iterator[str]:
        if not self.environment:
            yield "The machine and the software: no environment is recorded."
        if not self.environment.get("git commit"):
            yield "The version of the code: no git commit is recorded."
        elif self.has_uncommitted_changes():
            yield "The exact code: it had changes that were not committed."
        if not self.seeds:
            yield "Random seeds: none is recorded, so the run may not be repeatable exactly."
        if not self.people:
            yield "Who ran it: no person is recorded."


def join_names(names: Iterable[str]) -> str:
    """Join names to a list; of many, the first."""
    items = [str(name) for name in names]
    more = len(items) - MAX_NAMES
    return ", ".join(items[:MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
