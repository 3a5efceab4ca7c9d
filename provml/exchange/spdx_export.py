"""Bills of materials of models: SPDX 3.0.1 with the profiles AI and Dataset, as JSON-LD."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import IO, Any

from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, json_number, package_version
from provml.mapping.iris import quote_segment
from provml.rdf.namespaces import SPDX
from provml.store.exporting import Exported, Source

VERSION = "3.0.1"
CREATION = "_:creation"
NO_LICENSE = f"{SPDX}terms/ExpandedLicensing/NoAssertionLicense"
TABLE = MappingTable(
    "SPDX 3",
    """A document in SPDX 3.0.1 (JSON-LD) with the profiles Core, Software, SimpleLicensing, AI and Dataset. Every
object is valid by `spdx-python-model`, which is generated from the SHACL model of SPDX.""",
    (
        Row("models with SHA-256", "`ai_AIPackage` with hash, build time, supplier"),
        Row("hyperparameters, last measures", "`ai_hyperparameter`, `ai_metric`", "their types: entries are texts"),
        Row("task", "`ai_domain`"),
        Row("steps that prepared the data", "`ai_modelDataPreprocessing`, one sentence for each"),
        Row("training data, test data", "`dataset_DatasetPackage`, relationships `trainedOn` and `testedOn`"),
        Row("other data", "`dataset_DatasetPackage`, relationship `dependsOn`"),
        Row("software", "`software_Package`, relationship `dependsOn`"),
        Row("person", "`Person`; without one, a `SoftwareAgent`"),
        Row("licence (option)", "declared and concluded licence", "without the option: no assertion, listed as a gap"),
        Row("kind of the data, such as image or text", "no assertion", "a run does not know it: a gap"),
        Row("epochs, batches, adaptations, environment", "", "left out"),
    ),
    ("spdx",),
    "provml export latest --as spdx -o model.spdx3.json --option license=MIT",
)
LOSSES = ("single epochs and batches, adaptations and environment: SPDX has no place for them",)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the SPDX document of a run."""
    document = _Document(source)
    graph = document.graph()
    content = {"@context": f"{SPDX}spdx-context.jsonld", "@graph": graph}
    file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return Exported(len(graph), source.format.unit, tuple(document.gaps), LOSSES)


class _Document:
    """An SPDX document that is being written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.info = source.run
        self.summary = RunSummary(source)
        self.base = f"{self.info.iri}/spdx/"
        self.elements: list[dict[str, Any]] = []
        self.gaps: list[str] = []
        self.relations = 0

    def graph(self) -> list[dict[str, Any]]:
        summary = self.summary
        created = (summary.ended or self.info.started).astimezone(UTC)
        tool = self._add("Tool", "tool", name=f"provml {package_version()}")
        agents = [self._add("Person", f"person-{quote_segment(name)}", name=name) for name in summary.people]
        agents = agents or [self._add("SoftwareAgent", "agent", name="provml")]
        creation = {
            "type": "CreationInfo", "@id": CREATION, "specVersion": VERSION, "created": _time(created),
            "createdBy": agents, "createdUsing": [tool],
        }  # fmt: skip
        license_id = self._license()
        data = {item.key: self._dataset(item, agents[0], created) for item in summary.datasets}
        packages = [self._package(name, version) for name, version in summary.software]
        models = [self._model(item, agents[0], created) for item in summary.models]
        for package in [*models, *data.values()]:
            self._relate(package, "hasDeclaredLicense", [license_id])
            self._relate(package, "hasConcludedLicense", [license_id])
        for model in models:
            self._relate_data(model, data, packages)
        if not models:
            self.gaps.append("the model: none is recorded as produced")
        roots = models or list(data.values()) or agents[:1]
        document = {
            "type": "SpdxDocument", "spdxId": f"{self.base}document", "creationInfo": CREATION,
            "name": self.info.name or self.info.id, "rootElement": roots,
            "element": [element["spdxId"] for element in self.elements],
            "profileConformance": ["core", "software", "simpleLicensing", "ai", "dataset"],
        }  # fmt: skip
        return [creation, *self.elements, document]

    def _add(self, kind: str, local: str, /, **fields: Any) -> str:
        element = {"type": kind, "spdxId": self.base + local, "creationInfo": CREATION, **fields}
        self.elements.append({key: value for key, value in element.items() if value not in (None, "", [])})
        return str(element["spdxId"])

    def _license(self) -> str:
        name = self.source.option("license")
        if not name:
            self.gaps.append("the licence: pass --option license=NAME")
            return NO_LICENSE
        fields = {"simplelicensing_licenseExpression": name}
        return self._add("simplelicensing_LicenseExpression", "license", **fields)

    def _relate(self, subject: str, kind: str, targets: list[str]) -> None:
        if targets:
            self.relations += 1
            name = f"relationship-{self.relations}"
            self._add("Relationship", name, **{"from": subject, "relationshipType": kind, "to": targets})

    def _relate_data(self, model: str, data: dict[str, str], packages: list[str]) -> None:
        summary = self.summary
        trained = [data[item.key] for item in summary.data_in_role("training", "training")]
        tested = [data[item.key] for item in summary.data_in_role("test", "evaluation")]
        self._relate(model, "trainedOn", trained)
        self._relate(model, "testedOn", tested)
        others = [iri for iri in data.values() if iri not in (*trained, *tested)]
        self._relate(model, "dependsOn", [*others, *packages])

    def _artifact(self, item: SummaryData, agent: str, time: datetime) -> dict[str, Any]:
        hashes = [{"type": "Hash", "algorithm": "sha256", "hashValue": item.sha256}] if item.sha256 else []
        return {
            "name": item.name,
            "verifiedUsing": hashes,
            "suppliedBy": agent,
            "builtTime": _time(time),
            "releaseTime": _time(time),
            "software_packageVersion": item.sha256[:12] or self.info.id,
            "software_downloadLocation": f"urn:sha256:{item.sha256}" if item.sha256 else "",
        }

    def _model(self, model: SummaryData, agent: str, time: datetime) -> str:
        summary = self.summary
        prepared = [
            f"{step.name} ({step.kind}): " + ", ".join(f"{k}={json_number(v)}" for k, v in step.parameters.items())
            for step in summary.steps.values()
            if step.kind not in ("training", "validation", "evaluation")
        ]
        metrics = {f"{kind} {name}": value for (kind, name), value in summary.last_values().items()}
        task = [text for name, text in self.source.facts.remarks if name == "task"]
        trainings = [step.name for step in summary.steps.values() if step.kind == "training"]
        about = f"Trained by run {self.info.id} ({self.info.status}), in {', '.join(trainings)}." if trainings else ""
        return self._add(
            "ai_AIPackage",
            f"model-{quote_segment(model.key)}",
            **self._artifact(model, agent, time),
            software_primaryPurpose="model",
            ai_hyperparameter=_entries(summary.training_parameters),
            ai_metric=_entries(metrics),
            ai_modelDataPreprocessing=prepared,
            ai_domain=task,
            ai_informationAboutTraining=about,
        )

    def _dataset(self, item: SummaryData, agent: str, time: datetime) -> str:
        self.gaps.append(f"the kind of the data {item.name}, such as image or text")
        uses = [f"used by {name}" for name in item.used_by] + [f"made by {name}" for name in item.made_by]
        return self._add(
            "dataset_DatasetPackage",
            f"data-{quote_segment(item.key)}",
            **self._artifact(item, agent, time),
            software_primaryPurpose="data",
            dataset_datasetType=["noAssertion"],
            dataset_datasetSize=item.size,
            dataset_intendedUse=", ".join(item.roles),
            comment="; ".join(uses),
        )

    def _package(self, name: str, version: str) -> str:
        purl = f"pkg:pypi/{quote_segment(name.lower().replace('_', '-'))}" + (f"@{version}" if version else "")
        fields = {"software_packageVersion": version, "software_packageUrl": purl, "software_primaryPurpose": "library"}
        return self._add("software_Package", f"package-{quote_segment(name)}", name=name, **fields)


def _entries(values: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"type": "DictionaryEntry", "key": name, "value": str(json_number(value))} for name, value in values.items()
    ]


def _time(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
