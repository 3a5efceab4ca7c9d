"""Curves of runs: measures by epoch in training and validation, settings as steps, and marks for adaptations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

from provml.answers import format_cell, single_line
from provml.answers.plot import Curves, Mark, Series, section_positions
from provml.errors import InvalidParameter, PlotError
from provml.journal.location import Location
from provml.model.values import IRI
from provml.rdf.literals import format_literal
from provml.store import name_lookup
from provml.store.lineage_walk import TYPES, rows_about
from provml.store.name_lookup import Queryable
from provml.store.run_info import RunInfo

VALIDATION_PREFIXES = ("val_", "valid_", "validation_", "eval_")
"""Prefixes of measures on validation data: val_loss is drawn with loss."""
PREFERRED_MEASURES = ("loss",)
PREFERRED_SETTINGS = ("learning_rate", "lr")
MAX_LABEL_SETTINGS = 2
"""Settings that the label of a run shows, of those that differ between the runs."""
STAGE_KINDS = {
    "TrainingExecution": "training",
    "ValidationExecution": "validation",
    "EvaluationExecution": "evaluation",
}
AUTOMATIC_ID = re.compile(r"\d{8}-\d{6}-([0-9a-f]{6})")

MEASURES = """SELECT ?node ?stage ?index ?measure ?name ?value ?validated {
  ?stage provlake:wasMemberOfWorkflowExecution ?node .
  ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index .
  ?measure prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
           provlake:wasDerivedFromAttribute/rdfs:label ?name $filter
  OPTIONAL { ?section provml:validatedSection/provml:sectionIndex ?validated }
}"""
BATCH_MEANS = """SELECT ?node ?stage ?index ?measure ?name ?value ?validated {
  ?stage provlake:wasMemberOfWorkflowExecution ?node .
  ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index ; provml:hasBatchSummary ?measure .
  ?measure provml:meanValue ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name $filter
  OPTIONAL { ?section provml:validatedSection/provml:sectionIndex ?validated }
}"""
SETTINGS = """SELECT ?node ?stage ?index ?setting ?name ?value ?validated {
  ?stage provlake:wasMemberOfWorkflowExecution ?node .
  ?section provml:wasSectionOf ?stage ; provml:sectionIndex ?index ; provml:hyperparameterInForce ?setting .
  ?setting prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name $filter
}"""
ADAPTATIONS = """SELECT ?node ?adaptation ?stage ?index ?name ?old ?value {
  ?adaptation a provml:AdaptationExecution ; provlake:wasMemberOfWorkflowExecution ?node ; provml:adaptedDuring ?part .
  ?new prov:wasGeneratedBy ?adaptation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?part provml:sectionIndex ?index }
  OPTIONAL { ?part provml:wasSectionOf ?stage }
  OPTIONAL { ?new provml:revisesValue ?previous }
  OPTIONAL { ?previous prov:value ?old }
  OPTIONAL { ?adaptation prov:startedAtTime ?time }
} ORDER BY ?node ?time ?adaptation ?name"""
FIRST_SETTINGS = """SELECT DISTINCT ?node ?name ?value {
  ?stage provlake:wasMemberOfWorkflowExecution ?node ; a provml:TrainingExecution ; prov:used ?used .
  ?used a provml:LearningHyperparameterValue ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  FILTER NOT EXISTS { ?used prov:wasGeneratedBy ?adaptation }
} ORDER BY ?node ?name"""
SECTION_KINDS = """SELECT DISTINCT ?node ?tag {
  ?own provml:wasSectionOf ?node .
  OPTIONAL { ?own provml:validatedSection ?validated } BIND (COALESCE(?validated, ?own) AS ?section)
  ?section provlake:wasDerivedFromDataTransformation ?plan . ?plan provlake:tag ?tag
}"""


class Value(NamedTuple):
    """A value of a measure or a setting in a section of a stage; `node` is the IRI of the value."""

    run: IRI
    stage: IRI
    epoch: float
    node: IRI
    name: str
    value: Any


class Key(NamedTuple):
    """What identifies a series of a panel: a run, its training, and whether it is of training or of validation."""

    run: IRI
    training: str
    part: str


class RunCurves:
    """The curves of some runs. The store must be in sync."""

    def __init__(self, store: Queryable, runs: Sequence[RunInfo]) -> None:
        self.store = store
        self.runs = {info.iri: info for info in runs}
        if not self.runs:
            raise PlotError("No runs to plot", "Pass the id of a run, or `latest`.")

    # ---- names

    @cached_property
    def measures(self) -> list[str]:
        """The measures that sections of the runs have; those on validation data only with their own name."""
        names = {value.name for value in self._measured}
        bases = {name for name in names if not _is_of_validation(name, names)}
        return sorted(bases, key=lambda name: (name not in PREFERRED_MEASURES, name))

    @cached_property
    def adapted_settings(self) -> list[str]:
        """The numeric settings that were adapted."""
        names = dict.fromkeys(name for *_, name, _, value in self._adaptations if _is_number(value))
        return sorted(names, key=lambda name: (name not in PREFERRED_SETTINGS, name))

    def panels(self, names: Sequence[str] = ()) -> list[Curves]:
        """Return the curves of each measure or setting; without names of the loss, or else of the first measure."""
        if not names and not self.measures:
            raise PlotError("No measures of epochs are recorded in these runs", "Record them with epoch.measured(…).")
        return [self._panel(name) for name in dict.fromkeys(names or self.measures[:1])]

    def _panel(self, name: str) -> Curves:
        values = [value for value in self._measured if value.name in (name, *_validation_names(name))]
        if values:
            return self._curves(name, values)
        settings = self._values(SETTINGS, [name])
        if any(_is_number(value.value) for value in settings):
            return self._curves(name, settings, is_step=True)
        if settings:
            text = single_line(format_cell(settings[0].value))
            raise PlotError(f"{name} is {text!r}, which is not a number", "Choose a measure or a numeric setting.")
        raise self._unknown(name)

    def _unknown(self, name: str) -> InvalidParameter:
        names = [*self.measures, *dict.fromkeys(value.name for value in self._values(SETTINGS))]
        advice = f"Available: {name_lookup.suggest(name, names)}." if names else "Nothing is recorded by epoch."
        problem = f"no measure or setting named {single_line(name)!r} in the epochs of these runs"
        return InvalidParameter("plot", "measure", name, "", advice, problem=problem)

    # ---- values

    def _values(self, sparql: str, names: Iterable[str] = ()) -> list[Value]:
        """Return the values of all sections of the runs, or those with some names."""
        texts = ", ".join(format_literal(name) for name in names)
        query = sparql.replace("$filter", f". FILTER (STR(?name) IN ({texts}))" if texts else "")
        rows = list(rows_about(self.store, query, self.runs))
        positions = section_positions({(stage, index, validated) for _, stage, index, _, _, _, validated in rows})
        return [
            Value(run, stage, positions[stage, index], node, str(name), value)
            for run, stage, index, node, name, value, _ in rows
        ]

    @cached_property
    def _measured(self) -> list[Value]:
        """The measures of sections, and the means of batches for sections that have no such measure of their own."""
        own = self._values(MEASURES)
        names = {(value.stage, value.name) for value in own}
        return own + [value for value in self._values(BATCH_MEANS) if (value.stage, value.name) not in names]

    @cached_property
    def _adaptations(self) -> list[tuple[Any, ...]]:
        return list(dict.fromkeys(rows_about(self.store, ADAPTATIONS, self.runs)))

    # ---- curves

    def _curves(self, name: str, values: list[Value], *, is_step: bool = False) -> Curves:
        series: dict[Key, dict[float, float]] = {}
        skipped = 0
        kinds = self._kinds(values)
        for value in sorted(values, key=lambda value: name_lookup.natural_key(value.node)):
            if not _is_number(value.value):
                continue
            number = _to_float(value.value)
            if number - number != 0.0:
                skipped += 1
                continue
            part = "validation" if value.name != name else kinds[value.stage]
            if is_step and part != "training":
                continue
            series.setdefault(Key(value.run, self._training(value), part), {})[value.epoch] = number
        if not series:
            reason = "all values are NaN or infinite" if skipped else "no value is a number"
            raise PlotError(f"Nothing to plot of {single_line(name)}: {reason}", "Choose another measure.")
        has_training = any(key.part == "training" for key in series)
        groups = self._groups(series)
        has_groups, has_parts = len(set(groups.values())) > 1, len({key.part for key in series}) > 1
        drawn = [
            Series(
                f"{groups[key]} {key.part}" if has_groups and has_parts else key.part if has_parts else groups[key],
                sorted(points.items()),
                groups[key],
                key.part,
                is_dashed=has_training and key.part != "training",
                is_step=is_step,
            )
            for key, points in sorted(series.items(), key=lambda item: self._order(item[0]))
        ]
        marks = [] if is_step else self._marks(groups)
        return Curves(self._section_kind(values), name, drawn, skipped, marks)

    def _order(self, key: Key) -> tuple[int, str, int]:
        return list(self.runs).index(key.run), key.training, key.part != "training"

    def _kinds(self, values: list[Value]) -> dict[IRI, str]:
        """Return whether each stage is a training, a validation or an evaluation."""
        kinds: dict[IRI, str] = {}
        for stage, type_ in rows_about(self.store, TYPES, {value.stage for value in values}):
            name = str(type_).rpartition("#")[2]
            if name in STAGE_KINDS:
                kinds[stage] = STAGE_KINDS[name]
        return {value.stage: kinds.get(value.stage, "training") for value in values}

    def _training(self, value: Value) -> str:
        """Return the name of the training that a stage belongs to: a validation has the name of its training."""
        location = Location.from_text(unquote(value.stage.removeprefix(f"{value.run}/")))
        stage = "training" if location.stage == "validation" else location.stage.removesuffix("-validation")
        return str(location._replace(stage=stage))

    def _groups(self, series: Iterable[Key]) -> dict[Key, str]:
        """Return the label of each series without its part: of the run, and of the training if a run has several."""
        trainings: dict[IRI, set[str]] = {}
        for key in series:
            trainings.setdefault(key.run, set()).add(key.training)
        return {
            key: f"{self.labels[key.run]} {key.training}" if len(trainings[key.run]) > 1 else self.labels[key.run]
            for key in series
        }

    def _marks(self, groups: Mapping[Key, str]) -> list[Mark]:
        """Return a mark for each adaptation during a section of a training that is drawn."""
        labels: dict[tuple[str, int, IRI], list[str]] = {}
        for run, adaptation, stage, index, name, old, new in self._adaptations:
            if index is None:
                continue
            training = self._training(Value(run, stage, index, adaptation, name, new))
            group = next((text for key, text in groups.items() if key[:2] == (run, training)), None)
            if group is not None:
                change = f"{format_cell(old)} → {format_cell(new)}" if old is not None else format_cell(new)
                labels.setdefault((group, index, adaptation), []).append(f"{single_line(str(name))} {change}")
        return [Mark(index, ", ".join(texts), group) for (group, index, _), texts in labels.items()]

    def _section_kind(self, values: list[Value]) -> str:
        tags = {str(tag).lower() for _, tag in rows_about(self.store, SECTION_KINDS, {v.stage for v in values})}
        return next(iter(tags)) if len(tags) == 1 else "section"

    # ---- labels of runs

    @cached_property
    def labels(self) -> dict[IRI, str]:
        """A short label for each run, with settings that differ between the runs."""
        ids = {iri: info.id for iri, info in self.runs.items()}
        matches = {iri: AUTOMATIC_ID.fullmatch(text) for iri, text in ids.items()}
        short = {iri: match[1] if match else ids[iri] for iri, match in matches.items()}
        if len(set(short.values())) < len(short):
            short = ids
        if len({info.name for info in self.runs.values()}) > 1:
            short = {iri: f"{info.name} {short[iri]}" for iri, info in self.runs.items()}
        settings = self._different_settings() if len(self.runs) > 1 else {}
        return {
            iri: single_line(" ".join([text, *(f"{name}={value}" for name, value in settings.get(iri, {}).items())]))
            for iri, text in short.items()
        }

    def _different_settings(self) -> dict[IRI, dict[str, str]]:
        settings: dict[IRI, dict[str, str]] = {}
        for run, name, value in rows_about(self.store, FIRST_SETTINGS, self.runs):
            settings.setdefault(run, {}).setdefault(str(name), format_cell(value))
        names = dict.fromkeys(name for values in settings.values() for name in values)
        different = [name for name in names if len({settings.get(run, {}).get(name) for run in self.runs}) > 1]
        different.sort(key=lambda name: (name not in PREFERRED_SETTINGS, name))
        chosen = different[:MAX_LABEL_SETTINGS]
        return {run: {name: values[name] for name in chosen if name in values} for run, values in settings.items()}


def _validation_names(name: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for prefix in VALIDATION_PREFIXES)


def _is_of_validation(name: str, names: set[str]) -> bool:
    """True if a measure is another one on validation data: val_loss beside loss."""
    return any(name == f"{prefix}{base}" for base in names for prefix in VALIDATION_PREFIXES)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _to_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")
