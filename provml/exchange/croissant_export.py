"""The data of a run as a Croissant dataset with provenance, as JSON-LD."""

from __future__ import annotations

import json
import mimetypes
from typing import IO, Any

from provml.exchange.foreign_run import slug_of
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, json_number
from provml.mapping.iris import quote_segment
from provml.rdf.namespaces import CROISSANT, DCTERMS, PROV, RAI, SCHEMA
from provml.store.exporting import Exported, Source

CONFORMS_TO = f"{CROISSANT}1.0"
CR_TERMS = (
    "citeAs", "column", "extract", "field", "fileProperty", "fileObject", "fileSet", "format", "includes",
    "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated",
    "replace", "samplingRate", "equivalentProperty", "separator", "source", "subField", "transform",
)  # fmt: skip
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": SCHEMA,
    "sc": SCHEMA,
    "cr": CROISSANT,
    "rai": RAI,
    "dct": DCTERMS,
    "prov": PROV,
    **{term: f"cr:{term}" for term in CR_TERMS},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}
TABLE = MappingTable(
    "Croissant",
    """The data of a run as a dataset in Croissant 1.0, the format of MLCommons that Hugging Face, Kaggle and OpenML
use. `mlcroissant` loads it. Each file has its SHA-256, and PROV terms say which step made it and from what.""",
    (
        Row("data with a SHA-256", "`FileObject` with sha256, size and media type"),
        Row("data without a SHA-256", "", "left out: Croissant requires a digest"),
        Row("path", "`contentUrl`: the name of the file", "the folder: a path of one machine is of no use to others"),
        Row("steps that made the data, with settings", "`prov:wasGeneratedBy`, an activity with times and `prov:used`"),
        Row("data that it came from", "`prov:wasDerivedFrom`"),
        Row("role, such as training or test", "the description of the file"),
        Row("person, time", "`creator`, `dateCreated`"),
        Row("licence, url, citation (options)", "`license`, `url`, `citeAs`", "without the options: gaps"),
        Row("columns and records", "", "a run does not record them: add record sets by hand"),
        Row("models, trainings, measures", "", "left out: Croissant describes data"),
    ),
    ("croissant",),
    "provml export latest --as croissant -o croissant.json --option license=cc-by-4.0",
)


def write(source: Source, file: IO[bytes]) -> Exported:
    """Write the data of a run as Croissant."""
    dataset = _Dataset(source)
    content = dataset.content()
    file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    count = len(content["distribution"])
    return Exported(count, source.format.unit, tuple(dataset.gaps), tuple(dataset.losses))


class _Dataset:
    """A description that is being written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.info = source.run
        self.summary = RunSummary(source)
        self.items = {item.key: item for item in self.summary.datasets if item.sha256}
        self.gaps: list[str] = []
        self.losses = ["models, trainings and measures: Croissant describes data"]
        for item in self.summary.datasets:
            if not item.sha256:
                self.losses.append(f"the data {item.name}: it has no SHA-256")

    def content(self) -> dict[str, Any]:
        summary, info = self.summary, self.info
        names = self._file_names()
        content: dict[str, Any] = {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "@id": str(info.iri),
            "name": self.source.option("name") or f"data-of-{info.id}",
            "description": self.source.option("description") or f"The data of run {info.id} of {info.name}.",
            "conformsTo": CONFORMS_TO,
            "version": "1.0.0",
            "dateCreated": info.started.isoformat(),
            "datePublished": (summary.ended or info.started).isoformat(),
            "creator": [{"@type": "sc:Person", "name": name} for name in summary.people],
            "distribution": [self._file(item, names[item.key]) for item in self.items.values()],
        }
        for option, term in (("license", "license"), ("url", "url"), ("citation", "citeAs")):
            if self.source.option(option):
                content[term] = self.source.option(option)
            else:
                self.gaps.append(f"{option}: pass --option {option}=…")
        return {name: value for name, value in content.items() if value != [] or name == "distribution"}

    def _file_names(self) -> dict[str, str]:
        """Return a name for each file; a digest tells files of the same name apart."""
        names: dict[str, str] = {}
        for key, item in self.items.items():
            name = slug_of(item.file_name)
            names[key] = name if name not in names.values() else f"{item.sha256[:12]}-{name}"
        return names

    def _file(self, item: SummaryData, name: str) -> dict[str, Any]:
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        roles = f"role {', '.join(item.roles)}; " if item.roles else ""
        used = f"used by {', '.join(item.used_by)}" if item.used_by else "not used in this run"
        file: dict[str, Any] = {
            "@type": "cr:FileObject",
            "@id": name,
            "name": item.name,
            "description": roles + used,
            "contentUrl": name,
            "encodingFormat": media_type,
            "sha256": item.sha256,
        }
        if item.size is not None:
            file["contentSize"] = f"{item.size} B"
        makers = [step for step in self.summary.steps.values() if item.key in step.outputs]
        if makers:
            file["prov:wasGeneratedBy"] = [self._activity(step.name) for step in makers]
            origins = dict.fromkeys(key for step in makers for key, _ in step.used)
            file["prov:wasDerivedFrom"] = [{"@id": _iri(key)} for key in origins]
        return file

    def _activity(self, name: str) -> dict[str, Any]:
        step = self.summary.steps[name]
        settings = ", ".join(f"{key}={json_number(value)}" for key, value in step.parameters.items())
        activity: dict[str, Any] = {
            "@type": "prov:Activity",
            "@id": f"{self.info.iri}/{quote_segment(name)}",
            "prov:label": f"{name} ({step.kind}) {settings}".strip(),
            "prov:used": [{"@id": _iri(key)} for key, _ in step.used],
        }
        for time, term in ((step.started, "prov:startedAtTime"), (step.ended, "prov:endedAtTime")):
            if time is not None:
                activity[term] = time.isoformat()
        return activity


def _iri(key: str) -> str:
    kind, _, name = key.partition(":")
    return f"urn:sha256:{name}" if kind == "sha256" else f"urn:provml:{quote_segment(name)}"
