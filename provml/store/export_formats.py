"""The one table of export formats: names, file extensions, what writes them, and which extra of provml they need.

Writers are named, not imported: those of other tools' formats are in `provml.exchange`, a layer above the store, and
most of them need packages that are not always installed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from provml.errors import MAX_SUGGESTIONS, FileFormatError, MissingDependency

Target = Literal["file", "folder", "store"]
"""What an export writes: a file, a new folder, or runs into the store of another tool."""
RDF_WRITER = "provml.store.export"
DESCRIPTION = "text that describes the model or the data"
LICENSE = "licence of the model or the data, such as mit or cc-by-4.0"


@dataclass(frozen=True)
class ExportFormat:
    """A format that runs can be exported to.

    `writer` is the module with a function `write(source, target)`. `modules` must be installed, which the extra `extra`
    does. `options` are the names of the options with what they mean. Without `many`, only one run can be written.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    writer: str
    unit: str = "triple"
    modules: tuple[str, ...] = ()
    extra: str = ""
    target: Target = "file"
    many: bool = False
    binary: bool = False
    options: dict[str, str] = field(default_factory=dict)
    group: str = ""

    def check_installed(self) -> None:
        """Raise MissingDependency unless the packages of the format are installed; none is imported."""
        missing = [name for name in self.modules if find_spec(name) is None]
        if missing:
            raise MissingDependency(" and ".join(missing), self.extra)

    def check_options(self, options: dict[str, str]) -> None:
        """Raise FileFormatError for an option that the format does not have."""
        for name in options:
            if name not in self.options:
                close = get_close_matches(name, self.options, MAX_SUGGESTIONS)
                listed = ", ".join(close or self.options) or "none"
                reason = f"the format {self.name} has no option {name!r}"
                raise FileFormatError(reason, f"Options: {listed}.", file="export")


def _rdf(name: str, summary: str) -> ExportFormat:
    options = {"vocabularies": "terms of other vocabularies to add, such as fair4ml,schema"}
    return ExportFormat(name, summary, (f".{name}",), RDF_WRITER, many=True, group="RDF", options=options)


def _prov(name: str, summary: str, *suffixes: str) -> ExportFormat:
    writer = "provml.exchange.prov_export"
    return ExportFormat(name, summary, suffixes, writer, "record", ("prov",), "prov", many=True, group="PROV")


ALL = (
    _rdf("nt", "N-Triples"),
    _rdf("nq", "N-Quads"),
    _rdf("ttl", "Turtle"),
    _rdf("trig", "TriG"),
    _rdf("rdf", "RDF/XML"),
    _rdf("jsonld", "JSON-LD"),
    _prov("provn", "PROV-N, for people", ".provn"),
    _prov("prov-json", "PROV-JSON", ".prov.json", ".provjson"),
    _prov("prov-xml", "PROV-XML", ".prov.xml", ".provx"),
    _prov("prov-jsonld", "PROV-JSONLD", ".prov.jsonld"),
    ExportFormat(
        "model-card", "model card of Hugging Face", (), "provml.exchange.card_export", "section",
        options={"license": LICENSE, "description": DESCRIPTION},
    ),
    ExportFormat(
        "dataset-card", "dataset card of Hugging Face", (), "provml.exchange.card_export", "section",
        options={"license": LICENSE, "description": DESCRIPTION,
                 "dataset": "name or SHA-256 of the data, by default the training data"},
    ),
    ExportFormat(
        "mlflow", "runs in a store of MLflow", (), "provml.exchange.mlflow_export", "run", ("mlflow",), "mlflow",
        target="store", many=True, options={"files": "yes or no: copy stored contents (default: yes)"},
    ),
    ExportFormat(
        "csv", "tables as CSV files", (), "provml.exchange.tables_export", "row", target="folder", many=True,
        options={"escape_formulas": "yes or no: an apostrophe before texts that look like formulas (default: no)",
                 "bom": "yes or no: a byte order mark, by which Excel recognises UTF-8 (default: no)"},
    ),
    ExportFormat(
        "parquet", "tables as Parquet files", (), "provml.exchange.tables_export", "row", ("pyarrow",), "tables",
        target="folder", many=True,
    ),
    ExportFormat(
        "xlsx", "tables as an Excel workbook", (".xlsx",), "provml.exchange.tables_export", "row", ("openpyxl",),
        "tables", many=True, binary=True,
    ),
    ExportFormat(
        "ml-schema", "ML Schema as Turtle", (".mls.ttl",), "provml.exchange.ml_vocabularies_export", many=True,
    ),
    ExportFormat(
        "fair4ml", "FAIR4ML as Turtle", (".fair4ml.ttl",), "provml.exchange.ml_vocabularies_export", many=True,
        options={"license": LICENSE},
    ),
    ExportFormat(
        "openlineage", "events of OpenLineage", (".jsonl",), "provml.exchange.openlineage_export", "event", many=True,
        options={"namespace": "namespace of jobs and data (default: provml)"},
    ),
    ExportFormat(
        "cyclonedx", "ML-BOM of CycloneDX 1.6", (".cdx.json",), "provml.exchange.cyclonedx_export", "component",
        options={"license": LICENSE},
    ),
    ExportFormat(
        "spdx", "SPDX 3.0.1 with the AI profile", (".spdx3.json", ".spdx.json"), "provml.exchange.spdx_export",
        "element", options={"license": LICENSE},
    ),
    ExportFormat(
        "ro-crate", "run crate of RO-Crate", (), "provml.exchange.rocrate_export", "item", target="folder",
        options={"license": LICENSE, "description": DESCRIPTION,
                 "profile": "process, workflow or provenance (default: provenance)",
                 "files": "yes or no: copy data and model files (default: no)"},
    ),
    ExportFormat(
        "annex-iv", "technical documentation, EU AI Act", (".annex-iv.md",), "provml.exchange.annex_iv_export",
        "statement",
    ),
    ExportFormat(
        "annex-iv-html", "the same as an HTML page", (".annex-iv.html",), "provml.exchange.annex_iv_export",
        "statement",
    ),
    ExportFormat(
        "annex-iv-docx", "the same for Word", (".docx",), "provml.exchange.annex_iv_export", "statement", ("docx",),
        "docx", binary=True,
    ),
    ExportFormat(
        "croissant", "data in Croissant with provenance", (".croissant.json",), "provml.exchange.croissant_export",
        "file", options={"license": LICENSE, "name": "name of the dataset", "url": "URL of the dataset",
                         "citation": "how to cite the dataset", "description": DESCRIPTION},
    ),
)  # fmt: skip
EXPORT_FORMATS: dict[str, ExportFormat] = {fmt.name: fmt for fmt in ALL}
ALIASES = {
    "prov-n": "provn", "provjson": "prov-json", "provxml": "prov-xml", "turtle": "ttl", "ntriples": "nt",
    "modelcard": "model-card", "datasetcard": "dataset-card", "excel": "xlsx", "mls": "ml-schema",
    "cdx": "cyclonedx", "ml-bom": "cyclonedx", "mlbom": "cyclonedx", "spdx3": "spdx", "rocrate": "ro-crate",
}  # fmt: skip
"""Other names of formats."""
DEFAULT = "ttl"


def find_format(name: str) -> ExportFormat:
    """Return a format by its name; raise FileFormatError with similar names for an unknown one."""
    key = name.strip().lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key in EXPORT_FORMATS:
        return EXPORT_FORMATS[key]
    close = list(dict.fromkeys(ALIASES.get(n, n) for n in get_close_matches(key, [*EXPORT_FORMATS, *ALIASES], 3, 0.5)))
    similar = f"Did you mean {', '.join(close)}? " if close else ""
    raise FileFormatError(f"unknown format {name!r}", f"{similar}List them: `provml export --list`.", file="export")


def format_of_path(path: str | os.PathLike[str]) -> ExportFormat:
    """Return the format that the extension of a path selects; raise FileFormatError for an unknown one."""
    name = Path(path).name.lower()
    matches = [(suffix, fmt) for fmt in ALL for suffix in fmt.suffixes if name.endswith(suffix)]
    if matches:
        return max(matches, key=lambda match: len(match[0]))[1]
    extension = Path(path).suffix.lower()
    reason = f"unknown extension '{extension}'" if extension else "no file extension"
    users = [fmt.name for fmt in ALL if extension and any(suffix.endswith(extension) for suffix in fmt.suffixes)]
    advice = f"Formats with it: {', '.join(users)}; name one with --as." if users else "Name the format with --as."
    raise FileFormatError(reason, f"{advice} List them: `provml export --list`.", file=str(path))
