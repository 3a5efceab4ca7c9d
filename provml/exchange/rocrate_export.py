"""Runs as run crates of RO-Crate: Process, Workflow or Provenance Run Crate, with the full graph of the run inside."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.exchange.foreign_run import slug_of
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import RunSummary, SummaryData, SummaryStep, json_number, package_version
from provml.journal.artifacts import ArtifactFiles
from provml.mapping.iris import quote_segment
from provml.rdf.namespaces import BIOSCHEMAS, RO_CRATE, RO_TERMS, RUN_CRATE, SCHEMA, WORKFLOW_HUB
from provml.store.exporting import Exported, Source

METADATA, GRAPH, WORKFLOW = "ro-crate-metadata.json", "provenance.nt", "workflow.json"
PROFILES = ("process", "workflow", "provenance")
PROFILE_VERSION = "0.5"
STATUSES = {"FINISHED": "CompletedActionStatus", "RUNNING": "ActiveActionStatus"}
LANGUAGE, README = "#python", "README.md"
TABLE = MappingTable(
    "RO-Crate",
    """A folder with `ro-crate-metadata.json` and `provenance.nt`, the full graph of the run, so that nothing is
lost. The metadata conforms to RO-Crate 1.1 and to the Process, Workflow or Provenance Run Crate 0.5 (option
`profile`). `files=yes` copies the contents that are stored in the home, and data files that are where they
were and unchanged.

`rocrate-validator` 0.13 finds no violation of a requirement (MUST) of the three profiles. It runs without a
network in the tests: for the context of RO-Crate 1.1 it gets that of 1.3 from the package `rocrate`, with the
four terms that differ set to their IRIs of 1.1, and for that of Workflow Run Crate the eight terms of its
specification. Checks of availability are off. Validate again with a network before you claim conformance.""",
    (
        Row("run", "`CreateAction` on the workflow, with status, times, agent and error"),
        Row("stages and steps", "`CreateAction` on a tool; with `provenance` also the chain from `HowToStep`"),
        Row("recorded steps with settings", "the workflow `workflow.json`", "the script itself is not copied"),
        Row("hyperparameters, last measures", "`PropertyValue` of a `FormalParameter`"),
        Row("data and models", "`File` with sha256 and size; with `files=yes` the files too"),
        Row("person, licence (option)", "`Person`, `license`", "organisation and ORCID: a run does not know them"),
        Row("software", "`SoftwareApplication` with version"),
        Row("epochs, batches, adaptations, layers, environment", "in `provenance.nt` only", "not in the metadata"),
    ),
    ("ro-crate",),
    "provml export latest --as ro-crate -o crate --option license=CC-BY-4.0 --option files=yes",
)  # fmt: skip


def write(source: Source, folder: Path) -> Exported:
    """Write a run as a crate into a new folder."""
    crate = _Crate(source, folder)
    crate.write()
    return Exported(len(crate.items), source.format.unit, tuple(crate.gaps), tuple(crate.losses))


class _Action(NamedTuple):
    """What an action took, gave, who did it, and how it ended."""

    objects: list[str]
    results: list[str]
    agents: list[str]
    status: str
    times: tuple[datetime | None, datetime | None]
    error: str


class _Crate:
    """A crate that is being written."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.info = source.run
        self.summary = RunSummary(source)
        self.profile = source.option("profile", "provenance")
        if self.profile not in PROFILES:
            reason = f"unknown profile {self.profile!r}"
            raise FileFormatError(reason, f"Use one of {', '.join(PROFILES)}.", file="export")
        self.items: dict[str, dict[str, Any]] = {}
        self.files: dict[str, str] = {}
        self.gaps: list[str] = []
        self.losses = [
            "epochs, batches, adaptations, layers, environment: they are in provenance.nt, not in the metadata"
        ]

    def write(self) -> None:
        with (self.folder / GRAPH).open("wb") as file:
            triples = sorted((quad.triple for quad in self.source.store.graph(self.info.id)), key=str)
            ox.serialize(triples, file, format=ox.RdfFormat.N_TRIPLES)
        self._add_files()
        agents = [self._add(f"#person-{slug_of(name)}", "Person", name=name) for name in self.summary.people]
        tools = self._add_tools()
        stages = [self._add_stage(step, tools[step.name], agents) for step in self.summary.steps.values()]
        if self.profile != "process":
            self._add_workflow(tools, stages, agents)
        self._add_root(stages)
        context: list[Any] = [f"{RO_CRATE}1.1/context", f"{RO_TERMS}workflow-run/context"]
        graph = [{name: _single(value) for name, value in item.items()} for item in self.items.values()]
        content = {"@context": context, "@graph": graph}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        (self.folder / METADATA).write_bytes(text.encode("utf-8", "backslashreplace"))

    def _add(self, item_id: str, kind: str | list[str], **fields: Any) -> str:
        content = {name: value for name, value in fields.items() if value not in (None, "", [])}
        self.items[item_id] = {"@id": item_id, "@type": kind, **content}
        return item_id

    # ---- root

    def _add_root(self, stages: list[str]) -> None:
        info, license_name = self.info, self.source.option("license")
        if not license_name:
            self.gaps.append("the licence: pass --option license=NAME")
        kinds = PROFILES[: PROFILES.index(self.profile) + 1]
        profiles = [f"{RUN_CRATE}{kind}/{PROFILE_VERSION}" for kind in kinds]
        has_workflow = self.profile != "process"
        if has_workflow:
            profiles.append(f"{WORKFLOW_HUB}workflow-ro-crate/1.0")
        for profile in profiles:
            name, version = profile.rsplit("/", 2)[-2:]
            self._add(profile, "CreativeWork", name=f"{name} crate profile", version=version)
        descriptor: list[str] = [f"{RO_CRATE}1.1", *(profiles[-1:] if has_workflow else [])]
        self._add(METADATA, "CreativeWork", about=_ref("./"), conformsTo=_refs(descriptor))
        actions = ["#run", *stages] if has_workflow else stages
        if self.profile == "provenance":
            actions.append("#engine-run")
        self._add(
            "./",
            "Dataset",
            name=f"{info.name or info.id}: run {info.id}",
            description=self.source.option("description") or f"Run {info.id} of {info.name}, recorded by provml.",
            datePublished=_time(self.summary.ended or info.started),
            license=_ref(self._add("#license", "CreativeWork", name=license_name or "not stated")),
            author=_refs(f"#person-{slug_of(name)}" for name in self.summary.people),
            conformsTo=_refs(profiles),
            mainEntity=_ref(WORKFLOW) if has_workflow else None,
            hasPart=_refs([GRAPH, README, *([WORKFLOW] if has_workflow else []), *self.files.values()]),
            mentions=_refs(actions),
        )  # fmt: skip
        title = f"{info.name or info.id}: run {info.id}"
        text = f"# {title}\n\nA run crate that provml wrote. `{GRAPH}` is the full graph of the run.\n"
        (self.folder / README).write_text(text, encoding="utf-8", errors="backslashreplace")
        self._add(README, "File", name="About this crate", about=_ref("./"), encodingFormat="text/markdown")
        for first in ("./", METADATA):
            self.items = {first: self.items[first], **self.items}

    # ---- data

    def _add_files(self) -> None:
        self._add(GRAPH, "File", name="The full graph of the run", encodingFormat="application/n-triples",
                  contentSize=str((self.folder / GRAPH).stat().st_size))  # fmt: skip
        copies = self.source.flag("files")
        for item in [*self.summary.datasets, *self.summary.models]:
            name = f"{'models' if item.is_model else 'data'}/{slug_of(item.file_name)}"
            if name in self.files.values():
                name = f"{name}-{item.sha256[:12] or slug_of(item.key)}"
            is_copied = copies and self._copy(item, name)
            if not is_copied:
                name = f"urn:sha256:{item.sha256}" if item.sha256 else f"urn:provml:{slug_of(item.key)}"
                if copies:
                    self.losses.append(f"the file of {item.name}: it is not in the home, and not unchanged at its path")
            self.files[item.key] = name
            media_type = mimetypes.guess_type(item.file_name)[0] or "application/octet-stream"
            self._add(name, "File" if is_copied else "CreativeWork", name=item.name, sha256=item.sha256,
                      contentSize=None if item.size is None else str(item.size),
                      encodingFormat=media_type, description=", ".join(item.roles),
                      additionalType="model" if item.is_model else "dataset")  # fmt: skip

    def _copy(self, item: SummaryData, name: str) -> bool:
        """Copy the content of data into the crate; False if it is not there any more."""
        files = ArtifactFiles(self.source.store.home)
        target = self.folder / name
        target.parent.mkdir(exist_ok=True)
        if files.has(item.sha256):
            if files.is_folder(item.sha256):
                return False
            with target.open("wb") as file:
                files.copy(item.sha256, file)
            return True
        path = Path(item.path) if item.path else None
        if path is None or not path.is_file() or not item.sha256:
            return False
        shutil.copyfile(path, target)
        with target.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == item.sha256:
                return True
        target.unlink()
        return False

    # ---- actions

    def _add_tools(self) -> dict[str, str]:
        tools = {}
        version = next((v for name, v in self.summary.software if name.lower() == self.summary.library), "")
        for step in self.summary.steps.values():
            tool = f"{self.info.iri}/tool/{quote_segment(step.name)}"
            tools[step.name] = tool
            self._add(tool, "SoftwareApplication", name=step.name, description=f"{step.kind} step",
                      version=version or package_version(), url=str(self.info.iri))  # fmt: skip
        return tools

    def _add_stage(self, step: SummaryStep, tool: str, agents: list[str]) -> str:
        objects = [self.files[key] for key, _ in step.used]
        results = [self.files[key] for key in step.outputs]
        for name, value in step.parameters.items():
            objects.append(self._value(tool, "input", step.name, name, value))
        last = {point.name: point.value for point in self.summary.points if point.stage == step.name}
        for name, value in last.items():
            results.append(self._value(tool, "output", step.name, name, value))
        action = _Action(objects, results, agents, step.status, (step.started, step.ended), step.error)
        return self._action(f"#{slug_of(step.name)}", step.name, tool, action)

    def _action(self, item_id: str, name: str, tool: str, action: _Action) -> str:
        status, agents, times = action.status, action.agents, action.times
        return self._add(
            item_id,
            "CreateAction",
            name=name,
            description=f"{name}: {status}",
            instrument=_ref(tool),
            object=_refs(action.objects),
            result=_refs(action.results),
            agent=_ref(agents[0]) if agents else None,
            startTime=_time(times[0]) if times[0] else None,
            endTime=_time(times[1]) if times[1] else None,
            actionStatus=f"{SCHEMA.replace('https', 'http')}{STATUSES.get(status, 'FailedActionStatus')}",
            error=action.error if status not in STATUSES else None,
        )  # fmt: skip

    def _value(self, owner: str, side: str, step: str, name: str, value: Any) -> str:
        """Add a value with its formal parameter, and return it."""
        local = f"{slug_of(step)}-{side}-{slug_of(name)}"
        kinds = {bool: "Boolean", int: "Integer", float: "Float"}
        parameter = f"#param-{local}"
        content = json_number(value)
        self._add(parameter, "FormalParameter", name=name, additionalType=kinds.get(type(content), "Text"),
                  conformsTo=_ref(f"{BIOSCHEMAS}FormalParameter/1.0-RELEASE"),
                  workExample=_ref(f"#value-{local}"), valueRequired="False")  # fmt: skip
        self._add(f"#value-{local}", "PropertyValue", name=name, value=str(content) if content != content else content,
                  exampleOfWork=_ref(parameter))  # fmt: skip
        self.items[owner].setdefault(side, []).append(_ref(parameter))
        return f"#value-{local}"

    # ---- workflow

    def _add_workflow(self, tools: dict[str, str], stages: list[str], agents: list[str]) -> None:
        summary, info = self.summary, self.info
        steps = [
            {"name": step.name, "kind": step.kind, "settings": {k: json_number(v) for k, v in step.parameters.items()}}
            for step in summary.steps.values()
        ]
        content = {"run": info.id, "experiment": info.experiment, "model": info.model, "steps": steps}
        (self.folder / WORKFLOW).write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        python = str(summary.environment.get("python version") or "")
        self._add(LANGUAGE, "ComputerLanguage", name="Python", version=python, url="https://www.python.org/",
                  identifier=_ref("https://www.python.org/"), alternateName="Python")  # fmt: skip
        self._add(
            WORKFLOW,
            ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            name=f"The steps of {info.name or info.id}",
            programmingLanguage=_ref(LANGUAGE),
            encodingFormat="application/json",
            conformsTo=_ref(f"{BIOSCHEMAS}ComputationalWorkflow/1.0-RELEASE"),
            hasPart=_refs(tools.values()),
            url=str(info.iri),
            version=info.id,
            creator=_ref(agents[0]) if agents else None,
            license=_ref("#license"),
        )  # fmt: skip
        inputs = [self.files[item.key] for item in summary.datasets if not item.made_by]
        outputs = [self.files[item.key] for item in [*summary.datasets, *summary.models] if item.made_by]
        objects, results = list(inputs), list(outputs)
        for name, value in summary.training_parameters.items():
            objects.append(self._value(WORKFLOW, "input", "run", name, value))
        for (kind, name), value in summary.last_values().items():
            results.append(self._value(WORKFLOW, "output", "run", f"{kind}-{name}", value))
        action = _Action(objects, results, agents, info.status, (info.started, summary.ended), info.error)
        self._action("#run", f"Run {info.id}", WORKFLOW, action)
        if self.profile == "provenance":
            self._add_control(tools, stages, agents)

    def _add_control(self, tools: dict[str, str], stages: list[str], agents: list[str]) -> None:
        """Add the steps of the workflow, and the engine that carried them out."""
        engine = self._add(
            f"{self.info.iri}/engine",
            "SoftwareApplication",
            name="provml",
            version=package_version(),
            url=f"{self.info.iri}",
        )
        steps, controls = [], []
        for position, ((name, tool), stage) in enumerate(zip(tools.items(), stages, strict=True), 1):
            step = f"#step-{slug_of(name)}"
            steps.append(self._add(step, "HowToStep", name=name, position=str(position), workExample=_ref(tool)))
            control = f"#control-{slug_of(name)}"
            controls.append(self._add(control, "ControlAction", name=f"control of {name}", instrument=_ref(step),
                                      object=_ref(stage)))  # fmt: skip
        self.items[WORKFLOW]["@type"] = [*self.items[WORKFLOW]["@type"], "HowTo"]
        self.items[WORKFLOW]["step"] = _refs(steps)
        self._add(
            "#engine-run",
            "OrganizeAction",
            name="Execution of the steps",
            instrument=_ref(engine),
            object=_refs(controls),
            result=_ref("#run"),
            agent=_ref(agents[0]) if agents else None,
            startTime=_time(self.info.started),
            endTime=_time(self.summary.ended) if self.summary.ended else None,
        )  # fmt: skip


def _ref(item_id: str) -> dict[str, str]:
    return {"@id": item_id}


def _refs(ids: Iterable[str]) -> Any:
    """Return references; a single one is not in a list."""
    references = [_ref(item_id) for item_id in dict.fromkeys(ids)]
    return references[0] if len(references) == 1 else references


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")
