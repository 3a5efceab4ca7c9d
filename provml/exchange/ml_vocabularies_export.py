"""Runs in the vocabularies that others use for machine learning: ML Schema of the W3C group, and FAIR4ML of RDA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import pyoxigraph as ox

from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData
from provml.mapping.iris import quote_segment
from provml.rdf import term
from provml.rdf.namespaces import DCTERMS, FAIR4ML, MLS, PREFIXES, PROV, RDF_TYPE, RDFS, SCHEMA
from provml.store.exporting import Exported, Source
from provml.store.run_info import RunInfo

TABLE = MappingTable(
    "ML Schema and FAIR4ML",
    """Turtle in vocabularies that other tools read. `ml-schema` describes each training and evaluation as `mls:Run`,
with its inputs and outputs. `fair4ml` describes each model as `fair4ml:MLModel` (version 0.1.0) with
schema.org, as catalogs of models need it. Nodes have the IRIs of provml, so that the files can be loaded beside
the full graph.""",
    (
        Row(
            "trainings, evaluations, other steps", "`mls:Run`, in an `mls:Experiment` and `mls:Study`; FAIR4ML has none"
        ),
        Row("hyperparameters", "`mls:HyperParameterSetting` with `mls:hasValue`; `schema:additionalProperty`"),
        Row(
            "last measures of stages",
            "`mls:ModelEvaluation` of an `mls:EvaluationMeasure`; `schema:additionalProperty`",
        ),
        Row("data", "`mls:Dataset`; `fair4ml:trainedOn`, `validatedOn`, `testedOn`", "sizes; roles of other steps"),
        Row("models with SHA-256", "`mls:Model`; `fair4ml:MLModel` with `schema:identifier`"),
        Row("software", "`mls:Software`; `schema:softwareRequirements`"),
        Row("task, person, licence (option)", "`mls:Task`; `fair4ml:mlTask`, `schema:creator`, `schema:license`"),
        Row("values of epochs and batches, adaptations, layers, environment", "", "left out: use RDF or PROV"),
    ),
    ("ml-schema", "fair4ml"),
    "provml export latest --as ml-schema -o run.mls.ttl\n"
    "provml export latest --as fair4ml -o model.ttl --option license=MIT",
)
LOSSES = (
    "values of single epochs and batches, adaptations, layers and environment: the vocabulary has no terms for them",
)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the description of runs as Turtle."""
    graph = _MlSchema() if source.format.name == "ml-schema" else _Fair4Ml()
    for info in source.runs:
        graph.describe(RunSummary(source, info), info)
    prefixes = {**PREFIXES, "fair4ml": FAIR4ML, "schema": SCHEMA}
    ox.serialize(graph.triples, file, format=ox.RdfFormat.TURTLE, prefixes=prefixes)
    return Exported(len(graph.triples), source.format.unit, losses=LOSSES)


class _Graph:
    """Triples that are being collected, each once and in order."""

    def __init__(self) -> None:
        self._triples: dict[ox.Triple, None] = {}

    @property
    def triples(self) -> list[ox.Triple]:
        return list(self._triples)

    def add(self, subject: str, predicate: str, value: Any, *, is_node: bool = False) -> None:
        node = ox.NamedNode(value) if is_node else term(value)
        self._triples[ox.Triple(ox.NamedNode(subject), ox.NamedNode(predicate), node)] = None

    def link(self, subject: str, predicate: str, target: str) -> None:
        self.add(subject, predicate, target, is_node=True)

    def node(self, iri: str, cls: str, label: str) -> str:
        self.link(iri, RDF_TYPE, cls)
        self.add(iri, f"{RDFS}label", label)
        return iri

    def describe(self, summary: RunSummary, info: RunInfo) -> None:
        raise NotImplementedError


def data_iri(info: RunInfo, data: SummaryData) -> str:
    """Return the node of data: by its digest as in the graph, else a name in the run."""
    return f"urn:sha256:{data.sha256}" if data.sha256 else f"{info.iri}/data/{quote_segment(data.name)}"


class _MlSchema(_Graph):
    """Runs in ML Schema."""

    def describe(self, summary: RunSummary, info: RunInfo) -> None:
        study = self.node(f"{info.iri}/study", f"{MLS}Study", info.experiment or info.name or info.id)
        experiment = self.node(f"{info.iri}/experiment", f"{MLS}Experiment", info.name or info.id)
        self.link(study, f"{MLS}hasPart", experiment)
        nodes = {item.key: self._data(info, item) for item in [*summary.datasets, *summary.models]}
        software = [self._software(info, name, version) for name, version in summary.software]
        task = (
            next((text for name, text in summary.source.facts.remarks if name == "task"), "") if summary.is_only else ""
        )
        for step in summary.steps.values():
            run = self.node(f"{info.iri}/{quote_segment(step.name)}", f"{MLS}Run", step.name)
            self.link(experiment, f"{MLS}hasPart", run)
            for key, _ in step.used:
                self.link(run, f"{MLS}hasInput", nodes[key])
            for key in step.outputs:
                self.link(run, f"{MLS}hasOutput", nodes[key])
            for name, value in step.parameters.items():
                self._setting(run, name, value)
            implementation = self.node(f"{run}/implementation", f"{MLS}Implementation", info.model or step.name)
            self.link(run, f"{MLS}executes", implementation)
            for package in software:
                self.link(package, f"{MLS}hasPart", implementation)
            if task:
                self.link(run, f"{MLS}achieves", self.node(f"{info.iri}/task", f"{MLS}Task", task))
            for name, value in self._last(summary, step.name):
                self._evaluation(run, name, value)

    def _data(self, info: RunInfo, data: SummaryData) -> str:
        iri = self.node(data_iri(info, data), f"{MLS}Model" if data.is_model else f"{MLS}Dataset", data.name)
        if data.sha256:
            self.add(iri, f"{DCTERMS}identifier", f"sha256:{data.sha256}")
        return iri

    def _software(self, info: RunInfo, name: str, version: str) -> str:
        return self.node(f"{info.iri}/software/{quote_segment(name)}", f"{MLS}Software", f"{name} {version}".strip())

    def _setting(self, run: str, name: str, value: Any) -> None:
        setting = self.node(f"{run}/setting/{quote_segment(name)}", f"{MLS}HyperParameterSetting", name)
        parameter = self.node(f"{run}/implementation/{quote_segment(name)}", f"{MLS}HyperParameter", name)
        self.link(f"{run}/implementation", f"{MLS}hasHyperParameter", parameter)
        self.link(setting, f"{MLS}specifiedBy", parameter)
        self.add(setting, f"{MLS}hasValue", value)
        self.link(run, f"{MLS}hasInput", setting)

    def _evaluation(self, run: str, name: str, value: Any) -> None:
        evaluation = self.node(f"{run}/evaluation/{quote_segment(name)}", f"{MLS}ModelEvaluation", name)
        measure = self.node(f"{run}/measure/{quote_segment(name)}", f"{MLS}EvaluationMeasure", name)
        self.link(evaluation, f"{MLS}specifiedBy", measure)
        self.add(evaluation, f"{MLS}hasValue", value)
        self.link(run, f"{MLS}hasOutput", evaluation)

    def _last(self, summary: RunSummary, stage: str) -> Iterator[tuple[str, Any]]:
        last = {point.name: point.value for point in summary.points if point.stage == stage}
        yield from last.items()


class _Fair4Ml(_Graph):
    """Models in FAIR4ML."""

    def describe(self, summary: RunSummary, info: RunInfo) -> None:
        data = {item.key: self._dataset(info, item) for item in summary.datasets}
        for model in summary.models:
            iri = self.node(data_iri(info, model), f"{FAIR4ML}MLModel", model.name)
            self.add(iri, f"{SCHEMA}name", model.name)
            self.add(iri, f"{SCHEMA}dateCreated", summary.ended or info.started)
            self.link(iri, f"{PROV}wasGeneratedBy", str(info.iri))
            if model.sha256:
                self.add(iri, f"{SCHEMA}identifier", f"sha256:{model.sha256}")
            roles = {"training": "trainedOn", "validation": "validatedOn", "evaluation": "testedOn"}
            for kind, name in roles.items():
                for item in summary.data_in_role("test" if kind == "evaluation" else kind, kind):
                    self.link(iri, f"{FAIR4ML}{name}", data[item.key])
            self._add_texts(iri, summary)
            for name, value in summary.training_parameters.items():
                self._property(iri, "hyperparameter", name, value)
            for (kind, name), value in summary.last_values().items():
                self._property(iri, kind, name, value)

    def _dataset(self, info: RunInfo, data: SummaryData) -> str:
        iri = self.node(data_iri(info, data), f"{SCHEMA}Dataset", data.name)
        self.add(iri, f"{SCHEMA}name", data.name)
        if data.sha256:
            self.add(iri, f"{SCHEMA}identifier", f"sha256:{data.sha256}")
        return iri

    def _add_texts(self, iri: str, summary: RunSummary) -> None:
        source = summary.source
        for name, version in summary.software:
            self.add(iri, f"{SCHEMA}softwareRequirements", f"{name} {version}".strip())
        for person in summary.people:
            self.add(iri, f"{SCHEMA}creator", person)
        if source.option("license"):
            self.add(iri, f"{SCHEMA}license", source.option("license"))
        for name, text in source.facts.remarks if summary.is_only else ():
            if name == "task":
                self.add(iri, f"{FAIR4ML}mlTask", text)

    def _property(self, model: str, kind: str, name: str, value: Any) -> None:
        iri = f"{model}#{quote_segment(kind)}-{quote_segment(name)}"
        self.link(iri, RDF_TYPE, f"{SCHEMA}PropertyValue")
        self.add(iri, f"{SCHEMA}propertyID", kind)
        self.add(iri, f"{SCHEMA}name", name)
        self.add(iri, f"{SCHEMA}value", value)
        self.link(model, f"{SCHEMA}additionalProperty", iri)
