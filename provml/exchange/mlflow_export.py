"""Runs into a store of MLflow, through its own client: parameters, metrics, tags, datasets and files.

A run that is in the store already, by its tag `provml.run`, is not written again unless it has changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from provml.errors import plural
from provml.exchange.mapping_table import MappingTable, Row
from provml.exchange.run_summary import Point, RunSummary, is_number, json_number, split_name
from provml.paths import is_url
from provml.store.exporting import Exported, Source
from provml.store.run_info import RunInfo

STATUSES = {"FINISHED": "FINISHED", "FAILED": "FAILED", "KILLED": "KILLED", "LOST": "KILLED", "PRUNED": "KILLED"}
MAX_PARAM_CHARS, MAX_TAG_CHARS, MAX_KEY_CHARS = 6000, 8000, 250
PARAMS_A_CALL, METRICS_A_CALL = 100, 1000
PREFIXES = {"validation": "val_", "evaluation": "test_"}
_NOT_KEY = re.compile(r"[^\w\-. :/]")
TABLE = MappingTable(
    "MLflow",
    """The runs are created again through the client of MLflow, in a folder with an SQLite store (`-o mlflow` makes
`mlflow/mlflow.db` and `mlflow/mlartifacts`), in a database file (`.db`), or at the URL of a tracking server. A
run that is there already is left as it is. `mlflow ui --backend-store-uri sqlite:///mlflow/mlflow.db` shows
them.""",
    (
        Row("experiment, name, start, end", "the same"),
        Row(
            "status", "FINISHED, FAILED, KILLED", "LOST and PRUNED are KILLED; the tag `provml.status` has the true one"
        ),
        Row(
            "hyperparameters of trainings",
            "parameters",
            "types: MLflow has texts; texts beyond 6,000 characters are cut",
        ),
        Row("hyperparameters of other steps", "parameters `STEP.NAME`"),
        Row("measures of epochs", "metrics with the number of the epoch as step; `val_` and `test_` for their stages"),
        Row("adaptations", "a metric of the setting, by the epoch in which it changed", "technique and reason: tags"),
        Row("measures that are texts", "tags"),
        Row("measures of batches", "", "left out"),
        Row("data with role and SHA-256", "datasets with the role as context", "the digest is cut to 36 characters"),
        Row("stored contents, models", "artifacts", "only what is stored in the home"),
        Row("parent run", "`mlflow.parentRunId`, if the parent is exported too"),
        Row("tags, notes, person, git commit", "tags; the notes are the description"),
        Row("lineage, layers, environment, plan", "the artifact `provml/run.ttl` has the whole graph"),
    ),
    ("mlflow",),
    "provml export latest --as mlflow -o mlflow\nprovml export --all --as mlflow -o http://localhost:5000",
)


def write(source: Source, target: str) -> Exported:
    """Create runs in a store of MLflow."""
    with _quiet():
        return _Writer(source, target).write()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence messages of MLflow about the creation of its database."""
    level = logging.root.manager.disable
    logging.disable(max(level, logging.INFO))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def tracking_uri(target: str) -> tuple[str, Path | None]:
    """Return the URI of a store, and the folder of its artifacts if it is a new one in a folder."""
    if is_url(target) or "://" in target:
        return target, None
    path = Path(target).absolute()
    if path.suffix == ".db":
        return f"sqlite:///{path}", path.with_name("mlartifacts")
    path.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path / 'mlflow.db'}", path / "mlartifacts"


class _Writer:
    """One export."""

    def __init__(self, source: Source, target: str) -> None:
        from mlflow import MlflowClient

        self.source = source
        uri, self.artifacts = tracking_uri(target)
        self.client = MlflowClient(uri)
        self.losses: dict[str, None] = {}
        self.ids: dict[str, str] = {}
        self.present = 0

    def write(self) -> Exported:
        runs = sorted(self.source.runs, key=lambda info: (info.started, info.id))
        for info in runs:
            self._write_run(info)
        note = f"{plural(self.present, 'run')} already there." if self.present else ""
        return Exported(len(runs), "run", losses=tuple(self.losses), note=note)

    def _write_run(self, info: RunInfo) -> None:
        from mlflow.entities import ViewType

        experiment = self._experiment(info.experiment or info.name or "provml")
        digest = self._digest(info)
        present = self.client.search_runs(
            [experiment], f"tags.`provml.digest` = '{digest}'", ViewType.ACTIVE_ONLY, max_results=1
        )
        if present:
            self.ids[info.id] = present[0].info.run_id
            self.present += 1
            return
        tags = self._tags(info) | {"provml.digest": digest}
        if info.parent in self.ids:
            tags["mlflow.parentRunId"] = self.ids[info.parent]
        started = int(info.started.timestamp() * 1000)
        run = self.client.create_run(experiment, started, tags, info.name or info.id)
        self.ids[info.id] = run.info.run_id
        try:
            self._fill(run.info.run_id, RunSummary(self.source, info))
        except BaseException:
            self.client.delete_run(run.info.run_id)  # nothing is half-written
            raise

    def _experiment(self, name: str) -> str:
        name = name.strip()[:500] or "provml"
        present = self.client.get_experiment_by_name(name)
        if present is not None:
            return str(present.experiment_id)
        location = (
            (self.artifacts / hashlib.sha256(name.encode()).hexdigest()[:12]).as_uri() if self.artifacts else None
        )
        return str(self.client.create_experiment(name, location))

    def _digest(self, info: RunInfo) -> str:
        """Return a digest of the graph of a run: another one means that the run has changed."""
        graph = self.source.store.graph(info.id)
        lines = sorted(str(quad) for quad in graph)
        return hashlib.sha256("\n".join(lines).encode("utf-8", "backslashreplace")).hexdigest()

    def _tags(self, info: RunInfo) -> dict[str, str]:
        tags = {"provml.run": info.id, "provml.status": info.status, "provml.model": info.model}
        tags |= {f"provml.tag.{_key(tag)}": "true" for tag in info.tags}
        if info.notes:
            tags["mlflow.note.content"] = "\n\n".join(note.text for note in info.notes)
        if info.error:
            tags["provml.error"] = info.error
        return {name: value[:MAX_TAG_CHARS] for name, value in tags.items() if value}

    def _fill(self, run: str, summary: RunSummary) -> None:
        from mlflow.entities import Metric, Param, RunTag

        texts: dict[str, str] = {}
        metrics = []
        for point in summary.points:
            name, value = self._metric_name(point), point.value
            time = point.time or summary.ended or summary.info.started
            if is_number(value):
                metrics.append(Metric(name, float(value), int(time.timestamp() * 1000), point.section or 0))
            else:
                texts[f"provml.measure.{name}"] = str(json_number(value))[:MAX_TAG_CHARS]
        metrics += [Metric(*item) for item in self._adapted(summary, texts)]
        for at in range(0, len(metrics), METRICS_A_CALL):
            self.client.log_batch(run, metrics[at : at + METRICS_A_CALL])
        params = [Param(name, value) for name, value in self._params(summary).items()]
        for at in range(0, len(params), PARAMS_A_CALL):
            self.client.log_batch(run, params=params[at : at + PARAMS_A_CALL])
        environment = summary.environment
        for name, key in (("git commit", "mlflow.source.git.commit"), ("user name", "mlflow.user")):
            if environment.get(name):
                texts[key] = str(environment[name])
        if texts:
            self.client.log_batch(run, tags=[RunTag(name, value) for name, value in texts.items()])
        self._log_datasets(run, summary)
        self._log_files(run, summary)
        if summary.info.status != "RUNNING":
            end = summary.ended or max((p.time for p in summary.points if p.time), default=summary.info.started)
            self.client.set_terminated(run, STATUSES[summary.info.status], int(end.timestamp() * 1000))

    def _metric_name(self, point: Point) -> str:
        kind, name = split_name(point)
        return self._valid_key(PREFIXES.get(kind, "") + name)

    def _adapted(self, summary: RunSummary, texts: dict[str, str]) -> Iterator[tuple[str, float, int, int]]:
        """Yield the values of settings that changed, from the first epoch on."""
        names = set()
        for during, name, old, new, technique, reason, by in summary.tables.adaptations():
            stage, _, section = str(during).partition(" ")
            moment = int(summary.info.started.timestamp() * 1000)
            index = int(section.split(" ")[0]) if section.split(" ")[0].isdecimal() else 0
            if is_number(old) and name not in names:
                yield self._valid_key(name), float(old), moment, 0
            if is_number(new):
                names.add(name)
                yield self._valid_key(name), float(new), moment, index
            text = json.dumps({"during": during, "technique": technique, "reason": reason, "by": by}, default=str)
            texts[self._valid_key(f"provml.adaptation.{name}.{stage}.{index}")] = text[:MAX_TAG_CHARS]

    def _params(self, summary: RunSummary) -> dict[str, str]:
        params: dict[str, str] = {}
        for step in summary.steps.values():
            for name, value in step.parameters.items():
                key = name if step.kind == "training" and name not in params else f"{step.name}.{name}"
                text = str(json_number(value))
                if len(text) > MAX_PARAM_CHARS:
                    self.losses[f"the end of {name}: a parameter of MLflow has at most 6,000 characters"] = None
                params[self._valid_key(key)] = text[:MAX_PARAM_CHARS]
        return params

    def _valid_key(self, name: str) -> str:
        key = _key(name)
        if key != name:
            self.losses["characters of names that MLflow does not allow: they are underscores"] = None
        return key

    def _log_datasets(self, run: str, summary: RunSummary) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = []
        for data in summary.datasets:
            if not data.used_by:
                continue
            origin = json.dumps({"uri": data.path or data.key, "sha256": data.sha256})
            profile = json.dumps({"bytes": data.size, "sha256": data.sha256})
            dataset = Dataset(data.name[:500], (data.sha256 or data.key)[:36], "local", origin, profile=profile)
            tags = [InputTag("mlflow.data.context", role) for role in data.roles[:1]]
            inputs.append(DatasetInput(dataset, tags))
        if inputs:
            self.client.log_inputs(run, inputs)

    def _log_files(self, run: str, summary: RunSummary) -> None:
        with TemporaryDirectory(prefix="provml-") as folder:
            graph = Path(folder) / "run.ttl"
            with graph.open("wb") as file:
                import pyoxigraph as ox

                from provml.rdf.namespaces import PREFIXES as RDF_PREFIXES

                triples = (quad.triple for quad in self.source.store.graph(summary.info.id))
                ox.serialize(triples, file, format=ox.RdfFormat.TURTLE, prefixes=RDF_PREFIXES)
            self.client.log_artifact(run, str(graph), "provml")
            if self.source.option("files", "yes") == "no":
                return
            for artifact in self.source.store.artifacts(summary.info.id):
                if not artifact.is_stored:
                    self.losses[f"the artifact {artifact.name}: its content is not in the home"] = None
                    continue
                place = Path(folder) / artifact.sha256[:12]
                place.mkdir(exist_ok=True)
                saved = artifact.save(place / artifact.file_name)
                log = self.client.log_artifacts if saved.is_dir() else self.client.log_artifact
                log(run, str(saved), saved.name if saved.is_dir() else None)


def _key(name: str) -> str:
    """Return a name as MLflow allows it for parameters, metrics and tags."""
    key = _NOT_KEY.sub("_", "".join(c if c.isprintable() else "_" for c in name))[:MAX_KEY_CHARS]
    key = re.sub(r"/+", "/", key).strip("/ ")
    return "_" if key in ("", ".", "..") else "/".join("_" if part in (".", "..") else part for part in key.split("/"))
