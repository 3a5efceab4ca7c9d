"""What the things of a run say, by node, and the rows that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from provml import vocab
from provml.journal import events
from provml.lake.values import to_columns
from provml.mapping.data import ROLES
from provml.model.thing import Thing

Columns = dict[str, list[Any]]
Fields = dict[str, Any]

STAGE_KINDS: dict[type[Thing], str] = {
    vocab.TrainingExecution: "training",
    vocab.ValidationExecution: "validation",
    vocab.EvaluationExecution: "evaluation",
    vocab.FilterExecution: "filter",
    vocab.DataSplitExecution: "split",
    vocab.FeatureExtractionExecution: "extraction",
    vocab.DataCurationExecution: "curation",
    vocab.DataPreparationExecution: "preparation",
}
SECTION_KINDS: dict[type[Thing], str] = {
    vocab.EpochExecution: "epoch",
    vocab.FoldExecution: "fold",
    vocab.RoundExecution: "round",
}
SETTING_KINDS: dict[type[Thing], str] = {
    vocab.LearningHyperparameterValue: "hyperparameter",
    vocab.PreparationParameterValue: "parameter",
    vocab.ModelHyperparameterValue: "model",
    vocab.AdaptationParameterValue: "adaptation",
}
DATA_KINDS: dict[type[Thing], str] = {
    vocab.Model: "model",
    vocab.FeatureSetData: "features",
    vocab.LearningDataset: "dataset",
    vocab.Artifact: "artifact",
    vocab.DataReference: "file",
}
ROLE_NAMES = {str(role.iri): name for name, role in ROLES.items()}
FLOWS = {"used": "used", "learned_from": "learned", "evaluated_on": "tested", "evaluated": "evaluated"}
"""The relation of data to a step, by the field of the step; all of them are uses."""
SECTION_FIELDS = {
    "section_index": "idx",
    "started_at_time": "started",
    "ended_at_time": "ended",
    "elapsed_seconds": "seconds",
    "status": "status",
    "batch_count": "batches",
    "mean_batch_seconds": "mean_seconds",
    "min_batch_seconds": "least_seconds",
    "max_batch_seconds": "most_seconds",
}
"""Columns of a section, by the field of its thing."""


class RunFacts:
    """What the things of a run say, by node."""

    def __init__(self, batches: Columns, batch_measures: Columns) -> None:
        self._batches = batches
        self._batch_measures = batch_measures
        self._labels: dict[str, str] = {}
        self._directions: dict[str, str] = {}
        self._sections: dict[str, Fields] = {}
        self._settings: dict[str, Fields] = {}
        self._measures: dict[str, Fields] = {}
        self._summaries: dict[str, Fields] = {}
        self._summary_owners: dict[str, str] = {}
        self._data: dict[str, Fields] = {}
        self._usages: dict[str, tuple[str, str]] = {}
        self._uses: dict[tuple[str, str], dict[str, None]] = {}
        self._roles: dict[str, list[str]] = {}
        self._in_force: dict[str, dict[str, None]] = {}
        self._adaptations: dict[str, Fields] = {}
        self._layer_settings: set[str] = set()
        self._networks: set[str] = set()
        self._units: dict[str, str] = {}
        self._amounts: dict[str, Fields] = {}
        self._consumers: dict[str, str] = {}
        self._open_batches: dict[str, Fields] = {}
        self._handlers: dict[type[Thing], Callable[[Any], None] | None] = {}
        self._writer = ""

    # ---- things

    def add(self, things: Iterable[Thing], writer: str) -> None:
        """Add the things of a journal."""
        self._writer = writer
        for thing in things:
            cls = thing.__class__
            if cls not in self._handlers:
                self._handlers[cls] = self._handler(cls)
            handler = self._handlers[cls]
            if handler is not None:
                handler(thing)

    def _handler(self, cls: type[Thing]) -> Callable[[Any], None] | None:
        handlers: dict[type[Thing], Callable[[Any], None]] = {
            vocab.BatchExecution: self._add_batch,
            vocab.AdaptationExecution: self._add_adaptation,
            vocab.DataTransformationExecution: self._add_section,
            vocab.LearningProcessExecution: self._add_run,
            vocab.ConsumptionValue: self._add_amount,
            vocab.ModelEvaluation: self._add_measure,
            vocab.BatchEvaluation: self._add_batch_measure,
            vocab.BatchSummary: self._add_summary,
            vocab.DataReference: self._add_data,
            vocab.Usage: self._add_usage,
            vocab.Layer: self._add_layer,
            vocab.ModelSchemaValue: self._add_network,
            vocab.DatasetRole: self._add_label,
            vocab.EvaluationMeasure: self._add_measure_plan,
            vocab.Attribute: self._add_attribute,
            vocab.DataTransformation: self._add_label,
            **dict.fromkeys(SETTING_KINDS, self._add_setting),
        }
        return next((handlers[base] for base in cls.__mro__ if base in handlers), None)

    def _add_label(self, thing: Thing) -> None:
        if thing.label:
            self._labels[str(thing.iri)] = str(thing.label[0])

    def _add_attribute(self, thing: Any) -> None:
        self._add_label(thing)
        if thing.unit:
            self._units[str(thing.iri)] = str(_first(thing.unit))

    def _add_measure_plan(self, thing: Any) -> None:
        self._add_label(thing)
        if thing.direction:
            self._directions[str(thing.iri)] = thing.direction

    def _add_section(self, thing: Any) -> None:
        iri, values = str(thing.iri), thing._values
        row = self._sections.get(iri)
        if row is None:
            row = self._sections[iri] = {"section": iri, "stage": iri, "writer": self._writer, "trains": False}
        cls = thing.__class__
        if "was_section_of" in values:
            row["stage"] = str(_first(values["was_section_of"]))
            row["section_plan"] = str(_first(values["was_derived_from_data_transformation"]))
            row["trains"] = row["trains"] or issubclass(cls, vocab.TrainingSectionExecution)
            row["section_kind"] = _kind(cls, SECTION_KINDS) or row.get("section_kind")
        else:
            row["kind"] = _kind(cls, STAGE_KINDS) or row.get("kind") or "step"
            row["plan"] = str(_first(values["was_derived_from_data_transformation"]))
        for name, column in SECTION_FIELDS.items():
            if name in values:
                row[column] = values[name]
        if "aimed_at_model" in values:
            row["model_plan"] = str(_first(values["aimed_at_model"]))
        if "validated_section" in values:
            row["validates"] = str(_first(values["validated_section"]))
        if "exception_type" in values:
            row["error"] = ": ".join(map(str, filter(None, (thing.exception_type, thing.exception_message))))
        self._add_links(iri, values)

    def _add_links(self, iri: str, values: dict[str, Any]) -> None:
        """Add what a step is linked to: data, settings, usages and summaries."""
        for name, relation in FLOWS.items():
            if name in values:
                self._uses.setdefault((iri, relation), {}).update(dict.fromkeys(map(str, values[name])))
                if relation != "used":
                    self._uses.setdefault((iri, "used"), {}).update(dict.fromkeys(map(str, values[name])))
        for name, links in (("qualified_usage", self._roles), ("hyperparameter_in_force", self._in_force)):
            if name not in values:
                continue
            targets = [str(node) for node in values[name]]
            if links is self._roles:
                self._roles.setdefault(iri, []).extend(targets)
            else:
                self._in_force.setdefault(iri, {}).update(dict.fromkeys(targets))
        for summary in values.get("has_batch_summary", ()):
            self._summary_owners[str(summary)] = iri
        self._consumers.update((str(node), iri) for node in values.get("had_consumption", ()))

    def _add_run(self, thing: Any) -> None:
        self._consumers.update((str(node), str(thing.iri)) for node in thing._values.get("had_consumption", ()))

    def _add_amount(self, thing: Any) -> None:
        self._amounts[str(thing.iri)] = {
            "plan": _attribute(thing),
            "value": thing.value,
            "component": thing.consuming_component,
            "metered": thing.was_metered,
            "method": thing.consumption_method,
        }

    def _add_adaptation(self, thing: Any) -> None:
        values = thing._values
        stage = str(_first(values["adapted_stage"])) if "adapted_stage" in values else ""
        started = values.get("started_at_time")
        self._adaptations[str(thing.iri)] = {"stage": stage, "started": started, "technique": values.get("technique")}
        for node in values.get("used", ()):
            self._uses.setdefault((str(thing.iri), "used"), {})[str(node)] = None

    def _add_batch(self, thing: Any) -> None:
        """Add a batch; one that has no end yet may come again with its end."""
        row = {
            "section": str(_first(thing._values["was_section_of"])),
            "idx": thing.section_index,
            "ended": thing.ended_at_time,
            "seconds": thing.elapsed_seconds,
        }
        if row["ended"] is not None or str(thing.iri) not in self._open_batches:
            self._open_batches[str(thing.iri)] = row

    def add_batches(self, section: str, event: events.Batches) -> None:
        """Add batches in columns."""
        count, batches, measures = len(event.index), self._batches, self._batch_measures
        batches["section"] += [section] * count
        batches["idx"] += event.index
        batches["ended"] += [round(time * 1e6) for time in event.times]
        batches["seconds"] += event.seconds
        for name, column in event.values.items():
            measures["section"] += [section] * count
            measures["idx"] += event.index
            measures["name"] += [name] * count
            measures["number"] += column
            measures["text"] += [None] * count
            measures["type"] += ["double"] * count

    def _add_batch_measure(self, thing: Any) -> None:
        batch = str(_first(thing._values["was_generated_by"]))
        self._measures[str(thing.iri)] = {"batch": batch, "plan": _attribute(thing), "value": thing.value}

    def _add_measure(self, thing: Any) -> None:
        self._measures[str(thing.iri)] = {
            "section": str(_first(thing._values["was_generated_by"])),
            "plan": _attribute(thing),
            "value": thing.value,
            "rank": thing._values.get("ranking_value"),
        }

    def _add_summary(self, thing: Any) -> None:
        self._summaries[str(thing.iri)] = {
            "plan": _attribute(thing),
            "least": thing.min_value,
            "greatest": thing.max_value,
            "mean": thing.mean_value,
            "last": thing.last_value,
            "rank": thing._values.get("ranking_value"),
        }

    def _add_setting(self, thing: Any) -> None:
        generated_by = thing._values.get("was_generated_by")
        self._settings[str(thing.iri)] = {
            "kind": _kind(thing.__class__, SETTING_KINDS),
            "plan": _attribute(thing),
            "value": thing.value,
            "generated_by": str(_first(generated_by)) if generated_by else "",
        }

    def _add_layer(self, thing: Any) -> None:
        self._layer_settings.update(map(str, thing.has_parameter))

    def _add_network(self, thing: Any) -> None:
        self._networks.add(str(thing.iri))

    def _add_usage(self, thing: Any) -> None:
        self._usages[str(thing.iri)] = (str(_first(thing._values["entity"])), str(_first(thing._values["had_role"])))

    def _add_data(self, thing: Any) -> None:
        values = thing._values
        row = self._data.setdefault(str(thing.iri), {"kind": "", "names": {}, "contents": {}, "alternates": {}})
        kind = _kind(thing.__class__, DATA_KINDS)
        row["kind"] = kind if row["kind"] in ("", "file") else row["kind"]
        row["names"][_attribute(thing)] = None
        for name, key in (("specialization_of", "contents"), ("alternate_of", "alternates")):
            row[key].update(dict.fromkeys(map(str, _items(values.get(name)))))
        row.setdefault("paths", {}).update(dict.fromkeys(map(str, _items(values.get("path")))))
        for name, column in (("sha256", "sha256"), ("size_bytes", "size")):
            if name in values:
                row[column] = _first(values[name])
        if "was_generated_by" in values:
            row["produced_by"] = str(_first(values["was_generated_by"]))

    # ---- rows

    def rows(self) -> Iterable[tuple[str, Fields]]:
        """Yield the rows of all tables but `runs` and `writers`, without the id of the run."""
        self._finish_batches()
        for iri, row in self._sections.items():
            yield "sections", self._section_row(iri, row)
        for iri, row in self._summaries.items():
            named = {"name": self._label(row["plan"]), "direction": self._directions.get(row["plan"])}
            yield "summaries", {**row, **named, "section": self._summary_owners.get(iri)}
        for iri, row in self._measures.items():
            if "batch" not in row:
                stage = self._sections.get(row["section"], {})
                place = {"stage": stage.get("stage", row["section"]), "idx": stage.get("idx")}
                yield "measures", {**row, **place, "node": iri, **self._value(row)}
        for iri, row in self._amounts.items():
            place = {"section": self._consumers.get(iri), "unit": self._units.get(row["plan"])}
            yield "consumption", {**row, **place, "node": iri, **self._value(row)}
        yield from self._setting_rows()
        yield from self._data_rows()
        yield from self._flow_rows()

    def _finish_batches(self) -> None:
        """Move single batches and their measures to the columns; then number the columns of the run."""
        for row in self._open_batches.values():
            ended = row["ended"]
            for name, column in self._batches.items():
                column.append(_microseconds(ended) if name == "ended" else row.get(name)) if name != "run" else None
        for row in self._measures.values():
            batch = self._open_batches.get(row.get("batch", ""))
            if batch is not None:
                cells = {"section": batch["section"], "idx": batch["idx"], **self._value(row)}
                for name, column in self._batch_measures.items():
                    column.append(cells.get(name)) if name != "run" else None

    def _label(self, plan: str) -> str | None:
        return self._labels.get(plan)

    def _value(self, row: Fields) -> Fields:
        number, text, kind = to_columns(row["value"])
        return {"name": self._label(row["plan"]), "number": number, "text": text, "type": kind}

    def _section_row(self, iri: str, row: Fields) -> Fields:
        stage = self._sections.get(row["stage"], {})
        section_kind = row.get("section_kind")
        if row["stage"] != iri and section_kind is None:  # a user's own kind differs by its plan
            section_kind = row["section_plan"].rpartition("/")[2]
        return {
            **row,
            "kind": stage.get("kind"),
            "section_kind": section_kind,
            "name": self._label(row.get("section_plan") or row.get("plan", "")),
            "model": self._label(row.get("model_plan", "")),
        }

    def _setting_rows(self) -> Iterable[tuple[str, Fields]]:
        for (section, relation), nodes in self._uses.items():
            if relation == "used":
                for node in nodes:
                    if node in self._settings:
                        adaptation = self._adaptations.get(section, {})
                        yield "settings", self._setting_row(section, "used", node, adaptation)
        for section, nodes in self._in_force.items():
            for node in nodes:
                if node in self._settings:
                    yield "settings", self._setting_row(section, "in_force", node, {})
        for node, setting in self._settings.items():
            maker = setting["generated_by"]
            if maker in self._adaptations:
                adaptation = self._adaptations[maker]
                yield "settings", self._setting_row(adaptation["stage"], "adapted", node, adaptation)
            elif maker:
                yield "settings", self._setting_row(maker, "produced", node, {})

    def _setting_row(self, section: str, relation: str, node: str, adaptation: Fields) -> Fields:
        setting = self._settings[node]
        return {
            "section": section,
            "relation": relation,
            "kind": setting["kind"],
            "node": node,
            "layer": node in self._layer_settings,
            "started": adaptation.get("started"),
            "technique": adaptation.get("technique"),
            **self._value(setting),
        }

    def _data_rows(self) -> Iterable[tuple[str, Fields]]:
        for iri, row in self._data.items():
            fixed = {"data": iri, "kind": row["kind"], "sha256": row.get("sha256"), "size": row.get("size")}
            for name in row["names"]:
                for content in row["contents"] or (None,):
                    for alternate in row["alternates"] or (None,):
                        for path in row["paths"] or (None,):
                            links = {"content": content, "alternate": alternate, "path": path}
                            yield "data", {**fixed, "name": self._label(name), **links}

    def _flow_rows(self) -> Iterable[tuple[str, Fields]]:
        for (section, relation), nodes in self._uses.items():
            if section in self._adaptations:
                continue
            stage = self._sections.get(section, {}).get("stage", section)
            roles = self._roles_of_data(section) if relation == "used" else {}
            for node in nodes:
                if node not in self._settings and node not in self._networks:
                    flow = {"section": section, "stage": stage, "data": node, "relation": relation}
                    yield from (("flows", {**flow, "role": role}) for role in roles.get(node, [None]))
        for iri, row in self._data.items():
            if maker := row.get("produced_by"):
                stage = self._sections.get(maker, {}).get("stage", maker)
                yield "flows", {"section": maker, "stage": stage, "data": iri, "relation": "produced"}

    def _roles_of_data(self, section: str) -> dict[str, list[str | None]]:
        """Return the roles in which a section used data, by data."""
        roles: dict[str, list[str | None]] = {}
        for usage in dict.fromkeys(self._roles.get(section, ())):
            entity, role = self._usages.get(usage, ("", ""))
            name = ROLE_NAMES.get(role) or self._label(role)
            if name not in roles.setdefault(entity, []):
                roles[entity].append(name)
        return roles


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1e6)


def _items(value: Any) -> Iterable[Any]:
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _attribute(thing: Any) -> str:
    return str(_first(thing._values.get("was_derived_from_attribute", "")))


def _kind(cls: type[Thing], kinds: dict[type[Thing], str]) -> str | None:
    return next((kinds[base] for base in cls.__mro__ if base in kinds), None)
