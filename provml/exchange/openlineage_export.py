"""Runs as events of OpenLineage, one JSON object on a line: the run, and each of its stages and steps as a child run.

OpenLineage has no place for settings and measures, so they are in facets of provml's own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, SummaryStep, json_number
from provml.mapping import iris
from provml.rdf.namespaces import NODES, OPENLINEAGE
from provml.store.exporting import Exported, Source
from provml.store.run_info import RunInfo

PRODUCER = NODES.rstrip("/")
ENDS = {"FINISHED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT", "LOST": "ABORT", "PRUNED": "ABORT"}
EVENT_SCHEMA = f"{OPENLINEAGE}2-0-2/OpenLineage.json#/$defs/RunEvent"
TABLE = MappingTable(
    "OpenLineage",
    """A file with one event on each line, as the file transport of OpenLineage writes it: START and COMPLETE (or FAIL,
ABORT) of the run and of each stage or step, with their data. Ids are UUIDs that depend on the run only, so that
sending the events twice changes nothing. `provml import` reads the file back.""",
    (
        Row("run, stages and steps", "runs with a job of the same name; stages have a parent facet"),
        Row(
            "start, end, status",
            "eventTime, eventType",
            "KILLED, LOST and PRUNED are ABORT; `provml_run` has the status",
        ),
        Row("error", "the facet `errorMessage`"),
        Row("data used and made", "inputs and outputs; the namespace is an option", "roles are in a facet of provml"),
        Row("SHA-256, size", "the facets `version` and `outputStatistics`"),
        Row(
            "hyperparameters, last measures",
            "the facets `provml_parameters` and `provml_measures`",
            "other tools ignore them",
        ),
        Row("single epochs and batches, adaptations, layers, environment", "", "left out"),
    ),
    ("openlineage",),
    "provml export latest --as openlineage -o events.jsonl",
)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the events of runs."""
    count = 0
    for info in sorted(source.runs, key=lambda info: (info.started, info.id)):
        for event in _RunEvents(source, info).events():
            file.write(
                json.dumps(event, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
            )
            count += 1
    losses = ("single epochs and batches, adaptations, layers and environment: OpenLineage has no place for them",)
    return Exported(count, source.format.unit, losses=losses)


class _RunEvents:
    """The events of one run."""

    def __init__(self, source: Source, info: RunInfo) -> None:
        self.info = info
        self.summary = RunSummary(source, info)
        self.namespace = source.option("namespace", "provml")
        self.data = {item.key: item for item in [*self.summary.datasets, *self.summary.models]}
        self.job = info.experiment or info.name or info.id

    def events(self) -> Iterator[dict[str, Any]]:
        info, summary = self.info, self.summary
        run_facets = {"provml_run": self._facet(id=info.id, status=info.status, model=info.model)}
        if info.parent:
            run_facets["parent"] = self._parent(_run_uuid(info.parent), info.parent)
        yield self._event("START", info.started, _run_uuid(info.id), self.job, run_facets)
        for step in summary.steps.values():
            yield from self._step(step)
        if info.status in ENDS:
            inputs, outputs = self._ends()
            end = summary.ended or max((s.ended for s in summary.steps.values() if s.ended), default=info.started)
            facets = {**run_facets, **self._error(info.error)}
            event = self._event(ENDS[info.status], end, _run_uuid(info.id), self.job, facets)
            yield event | {"inputs": inputs, "outputs": outputs}

    def _step(self, step: SummaryStep) -> Iterator[dict[str, Any]]:
        run_id, started = _run_uuid(f"{self.info.id}/{step.name}"), step.started or self.info.started
        facets = {
            "parent": self._parent(_run_uuid(self.info.id), self.job),
            "provml_parameters": self._facet(values={k: json_number(v) for k, v in step.parameters.items()}),
        }
        job = f"{self.job}.{step.name}"
        inputs = [self._dataset(key, role=role) for key, role in step.used]
        yield self._event("START", started, run_id, job, facets) | {"inputs": inputs}
        if step.status not in ENDS:
            return
        measures = {}
        for point in self.summary.points:
            if point.stage == step.name:
                measures[point.name] = json_number(point.value)
        facets |= {"provml_measures": self._facet(values=measures), **self._error(step.error)}
        outputs = [self._dataset(key, is_output=True) for key in step.outputs]
        event = self._event(ENDS[step.status], step.ended or started, run_id, job, facets)
        yield event | {"inputs": inputs, "outputs": outputs}

    def _event(self, kind: str, time: datetime, run_id: str, job: str, facets: dict[str, Any]) -> dict[str, Any]:
        return {
            "eventType": kind,
            "eventTime": time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "run": {"runId": run_id, "facets": facets},
            "job": {"namespace": self.namespace, "name": job, "facets": {}},
            "inputs": [],
            "outputs": [],
            "producer": PRODUCER,
            "schemaURL": EVENT_SCHEMA,
        }

    def _facet(self, **fields: Any) -> dict[str, Any]:
        """Return a facet of provml's own."""
        return {"_producer": PRODUCER, "_schemaURL": f"{OPENLINEAGE}2-0-2/OpenLineage.json#/$defs/RunFacet", **fields}

    def _standard_facet(self, schema: str, **fields: Any) -> dict[str, Any]:
        name = schema.rpartition("/")[2].partition(".")[0]
        return {"_producer": PRODUCER, "_schemaURL": f"{OPENLINEAGE}facets/{schema}#/$defs/{name}", **fields}

    def _parent(self, run_id: str, job: str) -> dict[str, Any]:
        names = {"namespace": self.namespace, "name": job}
        return self._standard_facet("1-0-1/ParentRunFacet.json", run={"runId": run_id}, job=names)

    def _error(self, text: str) -> dict[str, Any]:
        if not text:
            return {}
        schema = "1-0-1/ErrorMessageRunFacet.json"
        return {"errorMessage": self._standard_facet(schema, message=text, programmingLanguage="python")}

    def _ends(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return what the run took from elsewhere, and what it made."""
        inputs = [self._dataset(item.key) for item in self.summary.datasets if not item.made_by]
        outputs = [self._dataset(item.key, is_output=True) for item in self.data.values() if item.made_by]
        return inputs, outputs

    def _dataset(self, key: str, *, role: str = "", is_output: bool = False) -> dict[str, Any]:
        item = self.data.get(key) or SummaryData(key, key)
        facets: dict[str, Any] = {}
        if item.sha256:
            facets["version"] = self._standard_facet(
                "1-0-1/DatasetVersionDatasetFacet.json", datasetVersion=item.sha256
            )
        if role or item.is_model:
            facets["provml_data"] = self._facet(role=role, kind="model" if item.is_model else "dataset", path=item.path)
        dataset: dict[str, Any] = {"namespace": self.namespace, "name": item.name, "facets": facets}
        if is_output and item.size is not None:
            schema = "1-0-2/OutputStatisticsOutputDatasetFacet.json"
            dataset["outputFacets"] = {"outputStatistics": self._standard_facet(schema, size=item.size)}
        return dataset


def _run_uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, iris.run_iri(name) if "/" not in name else f"{NODES}run/{name}"))
