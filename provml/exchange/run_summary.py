"""What cards, bills of materials, tables and other tools need of a run, read from the graph in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from provml.store.exporting import Source
from provml.store.run_info import RunInfo
from provml.store.run_tables import MEMBER, RunTables

STEPS = f"""SELECT ?at ?started ?ended WHERE {{
  {MEMBER}
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
  OPTIONAL {{ ?at prov:endedAtTime ?ended }}
}} ORDER BY ?started ?at"""
POINTS = f"""SELECT ?at ?index ?node ?name ?value ?ended WHERE {{
  {MEMBER}
  {{ ?node prov:wasGeneratedBy ?at . OPTIONAL {{ ?at prov:endedAtTime ?ended }} }}
  UNION
  {{
    ?section provml:wasSectionOf ?at ; provml:sectionIndex ?index . ?node prov:wasGeneratedBy ?section .
    OPTIONAL {{ ?section prov:endedAtTime ?ended }}
  }}
  ?node a provml:ModelEvaluation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
}} ORDER BY ?at ?index ?node"""
SOFTWARE = """SELECT DISTINCT ?name ?version WHERE {
  $run prov:wasAssociatedWith ?environment . ?environment provml:hasSoftware ?software .
  ?software rdfs:label ?name . OPTIONAL { ?software provml:softwareVersion ?version }
} ORDER BY ?name"""
LIBRARIES = {
    "keras": "keras", "torch": "pytorch", "transformers": "transformers", "sklearn": "sklearn",
    "scikit-learn": "sklearn", "xgboost": "xgboost", "lightgbm": "lightgbm", "tensorflow": "tf-keras",
}  # fmt: skip
"""Names of libraries in Hugging Face's words, by the package."""


@dataclass
class SummaryStep:
    """A stage or a step; `used` and `outputs` are keys of data, with roles."""

    name: str
    kind: str
    status: str
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    used: list[tuple[str, str]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass
class SummaryData:
    """A dataset or a model, identified by its digest or its name."""

    key: str
    name: str
    sha256: str = ""
    size: int | None = None
    path: str = ""
    roles: list[str] = field(default_factory=list)
    used_by: list[str] = field(default_factory=list)
    made_by: list[str] = field(default_factory=list)
    is_model: bool = False
    layers: int | None = None
    parameters: int | None = None

    @property
    def file_name(self) -> str:
        """The name of its file; its own name if the path is not recorded."""
        return PurePath(self.path).name or self.name


@dataclass(frozen=True)
class Point:
    """A measured value of a stage, or of a section of it."""

    stage: str
    kind: str
    section: int | None
    name: str
    value: Any
    time: datetime | None


class RunSummary:
    """A run as exporters need it."""

    def __init__(self, source: Source, info: RunInfo | None = None) -> None:
        self.source = source
        self.info = info or source.run
        self.tables = RunTables(source.store, self.info)

    @cached_property
    def ended(self) -> datetime | None:
        """The end of the run; None if it has not ended."""
        seconds = self.info.seconds
        return self.info.started + timedelta(seconds=seconds) if seconds is not None else None

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The machine, the process and the code."""
        return {row["name"]: row["value"] for row in self.tables.environment().to_dicts()}

    @cached_property
    def software(self) -> list[tuple[str, str]]:
        """Packages with their versions."""
        return [(str(name), str(version or "")) for name, version in self.tables.select(SOFTWARE)]

    @property
    def library(self) -> str:
        """The framework in Hugging Face's words; empty if none is recorded."""
        names = {name.lower() for name, _ in self.software}
        return next((word for name, word in LIBRARIES.items() if name in names), "")

    @cached_property
    def steps(self) -> dict[str, SummaryStep]:
        """Stages and steps by name, in the order of their starts."""
        steps = {
            str(row["stage"]): SummaryStep(row["stage"], row["kind"], row["status"], error=row["error"] or "")
            for row in self.tables.stages().to_dicts()
        }
        for at, started, ended in self.tables.select(STEPS):
            step = steps.get(self.tables.place(at))
            if step is not None:
                step.started, step.ended = started, ended
        for stage, name, value in self.tables.hyperparameters():
            if stage in steps:
                steps[stage].parameters[name] = value
        for data in [*self.datasets, *self.models]:
            for name in data.made_by:
                if name.split(" ")[0] in steps:
                    steps[name.split(" ")[0]].outputs.append(data.key)
        for key, role, where in self._uses:
            if where in steps:
                steps[where].used.append((key, role))
        return steps

    @cached_property
    def _uses(self) -> list[tuple[str, str, str]]:
        rows = self.tables.datasets().to_dicts()
        return [
            (_key(row["sha256"], row["dataset"]), row["role"] or "", row["where"].removeprefix("used by "))
            for row in rows
            if row["where"].startswith("used by ")
        ]

    @cached_property
    def datasets(self) -> list[SummaryData]:
        """Datasets, each once."""
        items: dict[str, SummaryData] = {}
        for row in self.tables.datasets().to_dicts():
            key = _key(row["sha256"], row["dataset"])
            data = items.setdefault(key, SummaryData(key, str(row["dataset"]), row["sha256"] or "", row["bytes"]))
            data.path = data.path or str(row["path"] or "")
            word, place = row["where"].split(" by ", 1)
            places = data.made_by if word == "made" else data.used_by
            if place not in places:
                places.append(place)
            if row["role"] and row["role"] not in data.roles:
                data.roles.append(row["role"])
        return list(items.values())

    @cached_property
    def models(self) -> list[SummaryData]:
        """Models that the run produced, each content once, in the order of their generation."""
        items: dict[str, SummaryData] = {}
        for row in self.tables.models().to_dicts():
            key = _key(row["sha256"], row["model"])
            data = items.setdefault(key, SummaryData(key, str(row["model"]), row["sha256"] or "", row["bytes"]))
            data.is_model, data.layers, data.parameters = True, row["layers"], row["parameters"]
            data.path = data.path or str(row["path"] or "")
            data.made_by.append(str(row["made by"]))
        return list(items.values())

    def data_in_role(self, role: str, kind: str = "") -> list[SummaryData]:
        """Return the datasets in a role, or without roles those that stages of a kind used."""
        named = [data for data in self.datasets if role in data.roles]
        stages = {step.name for step in self.steps.values() if step.kind == kind}
        return named or [data for data in self.datasets if not data.roles and stages & set(data.used_by)]

    @cached_property
    def points(self) -> list[Point]:
        """Measured values of stages and sections, in their order; values of batches are not among them."""
        kinds = {step.name: step.kind for step in self.steps.values()}
        rows = self.tables.select(POINTS)
        return [
            Point(stage := self.tables.place(at), kinds.get(stage, "step"), index, str(name), value, ended)
            for at, index, _, name, value, ended in rows
        ]

    def last_values(self) -> dict[tuple[str, str], Any]:
        """Return the last value of each measure by the kind of stage and the name; training, validation, evaluation."""
        last: dict[tuple[str, str], tuple[Any, Any]] = {}
        for point in self.points:
            kind, name = split_name(point)
            order = point.section if point.section is not None else float("inf")
            key = (kind, name)
            if key not in last or order >= last[key][0]:
                last[key] = order, point.value
        return {key: value for key, (_, value) in last.items()}

    @cached_property
    def people(self) -> list[str]:
        """People, each once."""
        return list(dict.fromkeys(name for name, *_ in self.source.facts.people)) if self.is_only else []

    @property
    def is_only(self) -> bool:
        """True if this is the only run that is exported."""
        return len(self.source.runs) == 1

    @property
    def training_parameters(self) -> dict[str, Any]:
        """Hyperparameters of all trainings; of several, the last."""
        values: dict[str, Any] = {}
        for step in self.steps.values():
            if step.kind == "training":
                values |= step.parameters
        return values


def split_name(point: Point) -> tuple[str, str]:
    """Return the kind of stage and the measure; `val_loss` of a training is the loss of the validation."""
    if point.kind == "training" and point.name.startswith("val_"):
        return "validation", point.name.removeprefix("val_")
    return point.kind, point.name


def _key(sha256: Any, name: Any) -> str:
    return f"sha256:{sha256}" if sha256 else f"name:{name}"


def is_number(value: Any) -> bool:
    """Return whether a value is a number, not finite ones included."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def json_number(value: Any) -> Any:
    """Return a value as JSON can hold it: a number that is not finite is its name."""
    if isinstance(value, float) and value - value != 0.0:
        return "NaN" if value != value else "INF" if value > 0 else "-INF"
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def package_version() -> str:
    """Return the version of provml; 0 if it is not installed."""
    try:
        return version("provml")
    except PackageNotFoundError:
        return "0"
