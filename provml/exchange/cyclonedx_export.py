"""Bills of materials of models: CycloneDX 1.6 (ML-BOM) as JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC
from typing import IO, Any
from urllib.parse import quote

from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, json_number, package_version
from provml.store.exporting import Exported, Source

SPEC_VERSION = "1.6"
TABLE = MappingTable(
    "CycloneDX ML-BOM",
    """A bill of materials in CycloneDX 1.6: the models of a run with their model card, the data that they were
trained and tested on, and the software. It is valid by the strict schema of `cyclonedx-python-lib`. That
library, as other tools that read and write again, has no model card of its own and drops it.""",
    (
        Row("models with SHA-256", "components `machine-learning-model` with hashes and a model card"),
        Row("hyperparameters", "properties `provml:hyperparameter:NAME`", "their types: properties are texts"),
        Row("last measures of the stages", "`performanceMetrics`, with the stage as slice; not finite ones as words"),
        Row("data", "components `data`, referred to by the model card", "data of other runs that it came from"),
        Row("task", "`modelParameters.task`"),
        Row("software with versions", "components `library` with package URLs of PyPI"),
        Row("person, time, run", "metadata"),
        Row("licence (option)", "licences of the models"),
        Row("steps, epochs, batches, adaptations, environment", "", "left out"),
        Row("intended use, limits, ethical considerations", "", "a run does not know them: listed as gaps"),
    ),
    ("cyclonedx",),
    "provml export latest --as cyclonedx -o model.cdx.json --option license=MIT",
)
LOSSES = ("steps, single epochs and batches, adaptations and environment: a bill of materials has no place for them",)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the bill of materials of a run."""
    bom = _Bom(source)
    content = bom.content()
    file.write(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace"))
    return Exported(len(content["components"]), source.format.unit, tuple(bom.gaps), LOSSES)


class _Bom:
    """A bill of materials that is being written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.info = source.run
        self.summary = RunSummary(source)
        self.gaps = ["the intended use, limits and ethical considerations of the model"]

    def content(self) -> dict[str, Any]:
        summary, info = self.summary, self.info
        data = [self._data(item) for item in summary.datasets]
        libraries = [self._library(name, version) for name, version in summary.software]
        models = [self._model(item) for item in summary.models]
        if not models:
            self.gaps.append("the model: none is recorded as produced")
        references = [component["bom-ref"] for component in [*data, *libraries]]
        time = (summary.ended or info.started).astimezone(UTC)
        return {
            "bomFormat": "CycloneDX",
            "specVersion": SPEC_VERSION,
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, str(info.iri))}",
            "version": 1,
            "metadata": {
                "timestamp": time.isoformat(timespec="seconds").replace("+00:00", "Z"),
                "tools": {"components": [{"type": "application", "name": "provml", "version": package_version()}]},
                **({"authors": [{"name": name} for name in summary.people]} if summary.people else {}),
                "component": {
                    "type": "application",
                    "bom-ref": "run",
                    "name": info.name or info.id,
                    "version": info.id,
                },
                "properties": list(_properties("provml", {"run": info.id, "status": info.status})),
            },
            "components": [*models, *data, *libraries],
            "dependencies": [{"ref": model["bom-ref"], "dependsOn": references} for model in models],
        }

    def _model(self, model: SummaryData) -> dict[str, Any]:
        license_name = self.source.option("license")
        if not license_name:
            self.gaps.append(f"the licence of {model.name}: pass --option license=NAME")
        task = next((text for name, text in self.source.facts.remarks if name == "task"), "")
        parameters: dict[str, Any] = {"datasets": [{"ref": _ref(item)} for item in self.summary.datasets]}
        if task:
            parameters["task"] = task
        values = {f"hyperparameter:{name}": value for name, value in self.summary.training_parameters.items()}
        values |= {"layers": model.layers, "parameters": model.parameters, "made_by": ", ".join(model.made_by)}
        return {
            "type": "machine-learning-model",
            "bom-ref": _ref(model),
            "name": model.name,
            "version": model.sha256[:12] or self.info.id,
            **_hashes(model),
            **({"licenses": [{"license": {"name": license_name}}]} if license_name else {}),
            "modelCard": {
                "modelParameters": parameters,
                "quantitativeAnalysis": {"performanceMetrics": list(self._metrics())},
            },
            "properties": list(_properties("provml", values)),
        }

    def _metrics(self) -> Iterator[dict[str, str]]:
        for (kind, name), value in self.summary.last_values().items():
            yield {"type": name, "value": str(json_number(value)), "slice": kind}

    def _data(self, item: SummaryData) -> dict[str, Any]:
        values = {
            "role": ", ".join(item.roles), "bytes": item.size, "path": item.path,
            "made_by": ", ".join(item.made_by), "used_by": ", ".join(item.used_by),
        }  # fmt: skip
        return {
            "type": "data",
            "bom-ref": _ref(item),
            "name": item.name,
            **_hashes(item),
            "data": [{"type": "dataset", "name": item.name}],
            "properties": list(_properties("provml", values)),
        }

    def _library(self, name: str, version: str) -> dict[str, Any]:
        url = f"pkg:pypi/{quote(name.lower().replace('_', '-'))}"
        return {
            "type": "library",
            "bom-ref": f"{url}@{version}" if version else url,
            "name": name,
            **({"version": version, "purl": f"{url}@{quote(version)}"} if version else {"purl": url}),
        }


def _ref(item: SummaryData) -> str:
    return f"{'model' if item.is_model else 'data'}:{item.key}"


def _hashes(item: SummaryData) -> dict[str, Any]:
    return {"hashes": [{"alg": "SHA-256", "content": item.sha256}]} if item.sha256 else {}


def _properties(prefix: str, values: dict[str, Any]) -> Iterator[dict[str, str]]:
    for name, value in values.items():
        if value not in (None, ""):
            yield {"name": f"{prefix}:{name}", "value": str(json_number(value))}
