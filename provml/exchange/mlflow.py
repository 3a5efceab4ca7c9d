"""Runs of MLflow, by what its client sends, as events.

MLflow has no epochs: a measure has a step, which is an epoch or not. All values of parameters are text. The same
measure may come twice, and in any order. So all of it is collected first, and the events follow from the whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from provml.exchange.user_agent import software_of
from provml.journal import events
from provml.journal.redaction import redact_text, redact_url
from provml.recording.artifacts import media_type_of
from provml.recording.encoding import encode_measures, encode_parameters

Fields = dict[str, Any]
WRITER = "mlflow"
TRAINING, VALIDATION = "training", "validation"
PARAMETER_TAGS = ("mlflow.source.git.branch", "mlflow.note.content")
"""Tags of MLflow itself that become parameters as those of users do; others say what the run is."""
ENDED = ("FINISHED", "FAILED", "KILLED")
EPOCH_LOGGERS = ("keras", "tensorflow", "pytorch")
"""Values of the tag `mlflow.autologging` with which a step is an epoch."""
EPOCH_PARAMETERS = ("epochs", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs")
RATE = re.compile(r"lr|learning_rate|lr-\w+")
VALIDATION_PREFIX = "val_"
EVALUATED_PREFIX = "validation_"
"""Keras' autolog also logs the measures of each validation under this prefix, always at step 0."""
ROLES = {
    "train": "training", "training": "training", "eval": "validation", "validation": "validation", "val": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
SETTLE_SECONDS = 2.0
"""A section is complete this long after its last value, if a run sends steps out of order."""
MAX_TEXT_CHARS = 6000
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.\-]*)(?:\[[^\]]*\])?==([^\s;#]+)")


class Metric(NamedTuple):
    """A value of a measure; `timestamp` is in milliseconds."""

    step: int
    timestamp: int
    value: float
    extra: tuple[tuple[str, str], ...] = ()
    """Model and dataset that the value belongs to, if the client sent them."""


class StoredArtifact(NamedTuple):
    """A file that the client uploaded: its path below the run or a model, its content, and when it came."""

    path: str
    sha256: str
    size: int
    time: float
    model: str = ""
    """Id of the model that it belongs to; empty for a file of the run itself."""

    @property
    def name(self) -> str:
        """Path below the run, also of a file of a model."""
        return f"models/{self.model}/{self.path}" if self.model else self.path


class DatasetInput(NamedTuple):
    """A dataset that a run used, as MLflow describes it; `context` is its role."""

    name: str
    ref: str
    context: str
    path: str
    source_type: str
    values: Fields


def describe_dataset(dataset: Mapping[str, Any], tags: dict[str, str]) -> DatasetInput:
    """Return a dataset of MLflow and the tags of its use. The digest is MLflow's own, not that of the content."""
    name, digest = str(dataset.get("name") or "dataset"), str(dataset.get("digest") or "")
    others = {key: value for key, value in tags.items() if key != "mlflow.data.context"}
    source = _parse(dataset.get("source"))
    path = next((str(source[key]) for key in ("uri", "url", "path", "table_name") if source.get(key)), "")
    kind = str(dataset.get("source_type") or "")
    values = {"digest": digest, "source_type": kind, **_parse(dataset.get("profile")), **others}
    values["schema"] = str(dataset.get("schema") or "")[:MAX_TEXT_CHARS]
    values = {key: value for key, value in values.items() if value != ""}
    ref = f"{events.SHARED_NAME}mlflow/{name}/{digest}"
    return DatasetInput(name, ref, tags.get("mlflow.data.context", ""), path, kind, values)


class MlflowRun:
    """What was received about one run."""

    def __init__(self) -> None:
        self.run_id = ""
        self.experiment_id = ""
        self.experiment = ""
        self.user = ""
        self.name = ""
        self.client = ""
        self.agent = ""
        self.owner = ""
        self.status = "RUNNING"
        self.start_ms = 0
        self.end_ms: int | None = None
        self.is_deleted = False
        self.created: Fields = {}
        """The body of the request that created the run."""
        self.tags: dict[str, str] = {}
        self.first_tags: dict[str, str] = {}
        self.tag_history: list[tuple[str, str]] = []
        self.params: dict[str, str] = {}
        self.metrics: dict[str, list[Metric]] = {}
        self.latest: dict[str, Metric] = {}
        """The last value of each measure: that of the highest step, then the latest."""
        self.datasets: list[Fields] = []
        self.model_inputs: list[str] = []
        self.model_outputs: dict[str, int] = {}
        self.models: dict[str, Fields] = {}
        self.logged_models: list[Fields] = []
        """Models of client 2.x, which has no model ids."""
        self.artifacts: list[StoredArtifact] = []
        self.software: dict[str, str] = {}
        self.is_touched = False
        """Whether anything was received since the run was created."""
        self.is_unordered = False
        self.last_time = 0.0
        self._identities: set[tuple[str, int, int, float | str]] = set()
        self._received: dict[int, float] = {}
        """Time of the last value of each step."""

    @property
    def has_ended(self) -> bool:
        """Whether the client ended the run."""
        return self.status in ENDED

    # ---- requests

    def apply(self, action: str, body: Fields, time: float) -> None:
        """Take in a request that was received at a time."""
        self.last_time = max(self.last_time, time)
        if action == "runs/create":
            self._create(body)
            return
        self.is_touched = True
        handler = {
            "runs/update": self._update,
            "runs/log-parameter": lambda fields: self._add_params([fields]),
            "runs/set-tag": lambda fields: self._set_tags([fields]),
            "runs/delete-tag": lambda fields: self.tags.pop(str(fields.get("key")), None),
            "runs/log-inputs": self._add_inputs,
            "runs/outputs": self._add_outputs,
            "runs/log-model": self._add_logged_model,
            "runs/delete": lambda fields: setattr(self, "is_deleted", True),
            "runs/restore": lambda fields: setattr(self, "is_deleted", False),
            "logged-models/create": self._add_model,
            "logged-models/update": self._update_model,
        }.get(action)
        if handler is not None:
            handler(body)
        elif action == "runs/log-metric":
            self._add_metrics([body], time)
        elif action == "runs/log-batch":
            self._add_metrics(_dicts(body.get("metrics")), time)
            self._add_params(_dicts(body.get("params")))
            self._set_tags(_dicts(body.get("tags")))
        elif action == "artifact":
            self._add_artifact(body, time)

    def _create(self, body: Fields) -> None:
        request = body["request"]
        self.created, self.run_id = request, str(body["run_id"])
        self.experiment_id, self.experiment = str(request.get("experiment_id")), str(body["experiment"])
        self.name, self.user = str(body["run_name"]), str(request.get("user_id") or "")
        self.start_ms = to_milliseconds(request.get("start_time"), self.last_time)
        self.client, self.agent = str(body.get("client", "")), str(body.get("agent", ""))
        self.owner = str(body.get("owner", ""))
        self._set_tags(_dicts(request.get("tags")))
        self.tags.setdefault("mlflow.runName", self.name)
        self.tag_history.clear()
        self.first_tags = dict(self.tags)
        self.tag_history += [(key, value) for key, value in self.tags.items() if not key.startswith("mlflow.")]

    def _update(self, body: Fields) -> None:
        if body.get("status") is not None:
            self.status = str(body["status"])
            self.end_ms = None
        if body.get("end_time") is not None:
            self.end_ms = to_milliseconds(body["end_time"], self.last_time)
        if body.get("run_name"):
            self.name = self.tags["mlflow.runName"] = str(body["run_name"])

    def _add_params(self, params: Iterable[Fields]) -> None:
        for param in params:
            self.params.setdefault(str(param.get("key")), str(param.get("value", "")))

    def _set_tags(self, tags: Iterable[Fields]) -> None:
        for tag in tags:
            key, value = str(tag.get("key")), str(tag.get("value", ""))
            if self.tags.get(key) != value and not key.startswith("mlflow."):
                self.tag_history.append((key, value))
            self.tags[key] = value
            if key == "mlflow.runName" and value:
                self.name = value

    def _add_metrics(self, metrics: Iterable[Fields], time: float) -> None:
        for fields in metrics:
            key, value = str(fields.get("key")), to_number(fields.get("value"))
            step, timestamp = to_int(fields.get("step"), 0), to_milliseconds(fields.get("timestamp"), time)
            identity = key, step, timestamp, "NaN" if math.isnan(value) else value
            names = ("model_id", "dataset_name", "dataset_digest")
            extra = tuple((name, str(fields[name])) for name in names if fields.get(name))
            self._add_model_metric(str(fields.get("model_id") or ""), key, Metric(step, timestamp, value, extra))
            if identity in self._identities:
                continue
            self._identities.add(identity)
            values = self.metrics.setdefault(key, [])
            self.is_unordered = self.is_unordered or any(step < other.step for other in values[-1:])
            metric = Metric(step, timestamp, value, extra)
            values.append(metric)
            self.latest[key] = max(metric, self.latest.get(key, metric), key=_rank)
            self._received[step] = max(time, self._received.get(step, 0.0))

    def _add_model_metric(self, model_id: str, key: str, metric: Metric) -> None:
        """Note a value of a measure of a model."""
        if model_id in self.models:
            self.models[model_id].setdefault("metrics", {})[key, _rank(metric)] = metric

    def _add_inputs(self, body: Fields) -> None:
        for item in _dicts(body.get("datasets")):
            if item not in self.datasets:
                self.datasets.append(item)
        for item in _dicts(body.get("models")):
            if item.get("model_id") not in self.model_inputs:
                self.model_inputs.append(str(item.get("model_id")))

    def _add_outputs(self, body: Fields) -> None:
        for item in _dicts(body.get("models")):
            self.model_outputs[str(item.get("model_id"))] = to_int(item.get("step"), 0)

    def _add_logged_model(self, body: Fields) -> None:
        try:
            model = json.loads(str(body.get("model_json")))
        except ValueError:
            return
        if isinstance(model, dict) and model not in self.logged_models:
            self.logged_models.append(model)
            self.tags["mlflow.log-model.history"] = json.dumps(self.logged_models)

    def _add_model(self, body: Fields) -> None:
        self.models.setdefault(str(body["model_id"]), {**body, "status": "LOGGED_MODEL_PENDING"})

    def _update_model(self, body: Fields) -> None:
        model = self.models.get(str(body.get("model_id")))
        if model is None:
            return
        changed = {"last_updated_ms": body.get("updated_ms", model.get("created_ms"))}
        if body.get("status"):
            changed["status"] = body["status"]
        for name in ("params", "tags"):
            merged = {str(item.get("key")): item for item in [*_dicts(model.get(name)), *_dicts(body.get(name))]}
            changed[name] = list(merged.values())
        model.update(changed)

    def _add_artifact(self, body: Fields, time: float) -> None:
        path, sha256, model = (str(body.get(name) or "") for name in ("path", "sha256", "model"))
        artifact = StoredArtifact(path, sha256, int(body["size"]), time, model)
        if artifact[:3] + artifact[4:] not in {other[:3] + other[4:] for other in self.artifacts[-1:]}:
            self.artifacts.append(artifact)
            self.software |= dict(_REQUIREMENT.findall(str(body.get("requirements") or "")))

    def forget_history(self) -> None:
        """Drop all values of measures but the latest, and keep what a search needs."""
        self.metrics, self._identities, self._received = {}, set(), {}

    # ---- events

    def all_events(self, now: float) -> list[events.Event]:
        """Return the events of the run at a time; a section that may not be complete is left out."""
        return list(_RunEvents(self, now).all_events())

    def is_settled(self, step: int, now: float) -> bool:
        """Return whether no more values of a step are expected."""
        return self.has_ended or not self.is_unordered or now - self._received.get(step, 0.0) >= SETTLE_SECONDS


class _RunEvents:
    """Writes the events of a run."""

    def __init__(self, run: MlflowRun, now: float) -> None:
        self.run = run
        self.now = now
        self.started = run.start_ms / 1000
        self.ended = run.end_ms / 1000 if run.end_ms is not None else run.last_time

    def all_events(self) -> Iterator[events.Event]:
        run = self.run
        header = events.Header(events.VERSION, run.run_id, WRITER, run.experiment, self.started, run.experiment)
        header.host, header.by, header.study = run.client, run.tags.get("mlflow.user") or run.user, run.experiment
        header.run_name, header.parent_run = run.name, run.first_tags.get("mlflow.parentRunId", "")
        yield header
        yield from self._environment()
        yield events.Begin(TRAINING, TRAINING, self.started, TRAINING)
        yield from self._implementation()
        yield from self._parameters()
        yield from self._datasets()
        yield from self._measures()
        yield from self._artifacts()
        yield from self._models()
        if run.software:
            yield events.Environment(software=run.software)
        if run.has_ended:
            yield events.Done(TRAINING, self.ended, max(self.ended - self.started, 0.0), run.status)
            yield events.End(self.ended, run.status)

    # ---- context and parameters

    def _environment(self) -> Iterator[events.Event]:
        tags = self.run.first_tags
        names = {"git_commit": "mlflow.source.git.commit", "git_repository": "mlflow.source.git.repoURL"}
        process = {name: redact_url(tags[tag]) for name, tag in names.items() if tags.get(tag)}
        software = software_of(self.run.agent)
        if process or software:
            yield events.Environment(process=process, software=software)

    def _implementation(self) -> Iterator[events.Event]:
        tags, script = dict(self.run.tag_history), self.run.first_tags.get("mlflow.source.name", "")
        if script:
            yield events.Implementation(TRAINING, redact_url(script))
        if tags.get("estimator_class"):
            name, algorithm = tags["estimator_class"], tags.get("estimator_name", "")
            yield events.Implementation(TRAINING, name, algorithm, name.partition(".")[0])

    def _parameters(self) -> Iterator[events.Event]:
        for key, value in self.run.params.items():
            encoded = encode_parameters({key: infer_value(value)})[0]
            if encoded:
                yield events.Parameter(TRAINING, encoded)
        own = [(key, self.run.first_tags[key]) for key in PARAMETER_TAGS if self.run.first_tags.get(key)]
        for key, value in [*own, *self.run.tag_history]:
            yield events.Parameter(TRAINING, encode_parameters({f"tag.{key}": redact_text(value)})[0])

    def _datasets(self) -> Iterator[events.Event]:
        """Write the datasets. MLflow's digest is not that of the content, and the source is not opened."""
        for item in self.run.datasets:
            tags = {str(tag.get("key")): str(tag.get("value")) for tag in _dicts(item.get("tags"))}
            data = describe_dataset(_dict(item.get("dataset")), tags)
            store = self.run.client if data.source_type in ("local", "code", "") else data.source_type
            event = events.Data(data.ref, "dataset", data.name, redact_url(data.path), store=store)
            event.values = encode_parameters(data.values)[0]
            yield event
            yield events.Used(TRAINING, data.ref, ROLES.get(data.context.lower(), data.context) or TRAINING)
        for model_id in self.run.model_inputs:
            if model_id not in self.run.models:
                yield events.Data(model_id, "model", model_id)
                yield events.Used(TRAINING, model_id, "model")

    # ---- measures

    def _measures(self) -> Iterator[events.Event]:
        own, sections = self._assign()
        kind = self._kind(sections)
        shift = 1 if min(sections, default=1) == 0 else 0
        steps = sorted(sections)
        rates: dict[str, float] = {}
        rate_keys = set(filter(RATE.fullmatch, self.run.metrics)) if any(steps) else set()
        previous, has_validation = self.started, False
        for number, step in enumerate(steps, 1):
            values = sections[step]
            is_followed = number < len(steps) or self.run.has_ended
            # other measures of a step may come after the first ones of the next step
            is_done = number + 1 < len(steps) or self.run.has_ended
            if not is_followed and not rate_keys <= {key for key, _ in values}:
                break  # the section began with a rate that is not known yet
            if not self.run.is_settled(step, self.now):
                break
            times = [metric.timestamp / 1000 for _, metric in values]
            begin, end = min(previous, *times), max(times)
            location, index = f"{TRAINING}/{step + shift}", step + shift
            yield from self._adaptations(location, values, rates)
            yield events.Begin(location, kind, begin, index=index)
            yield from self._values(location, [item for item in values if not item[0].startswith(VALIDATION_PREFIX)])
            validation = [
                (key.removeprefix(VALIDATION_PREFIX), metric)
                for key, metric in values
                if key.startswith(VALIDATION_PREFIX)
            ]
            if validation:
                if not has_validation:
                    yield events.Begin(VALIDATION, VALIDATION, self.started, VALIDATION)
                has_validation = True
                paired = f"{VALIDATION}/{index}"
                start = min(metric.timestamp for _, metric in validation) / 1000
                yield events.Begin(paired, kind, start, index=index, parent=location)
                yield from self._values(paired, validation)
            if is_done:
                if validation:
                    yield events.Done(paired, end, max(end - start, 0.0))
                yield events.Done(location, end, max(end - begin, 0.0))
            previous = max(min(times), previous)
        yield from self._values(TRAINING, own)
        if has_validation and self.run.has_ended:
            yield events.Done(VALIDATION, self.ended, max(self.ended - self.started, 0.0))

    def _assign(self) -> tuple[list[tuple[str, Metric]], dict[int, list[tuple[str, Metric]]]]:
        """Return the values that belong to the training itself, and those of each step.

        A measure that only has the default step 0 belongs to the training. While a run goes on, its first value may
        also be that of the first step, and is left out until that is known.
        """
        run = self.run
        own: list[tuple[str, Metric]] = []
        sections: dict[int, list[tuple[str, Metric]]] = {}
        is_epoch_logger = run.tags.get("mlflow.autologging") in EPOCH_LOGGERS
        has_steps = any(metric.step > 0 for values in run.metrics.values() for metric in values)
        for key, values in run.metrics.items():
            ordered = sorted(values, key=lambda metric: (metric.timestamp, metric.step, _sortable(metric.value)))
            if any(metric.step != 0 for metric in ordered):
                for metric in ordered:
                    target = sections.setdefault(metric.step, []) if metric.step >= 0 else own
                    target.append((key, metric))
                continue
            is_first = len(ordered) == 1
            is_epoch = is_epoch_logger and is_first and not key.startswith(EVALUATED_PREFIX)
            if is_epoch and not (run.has_ended and has_steps):
                sections.setdefault(0, []).append((key, ordered[0]))
            elif run.has_ended or not is_first:
                own += [(key, metric) for metric in ordered]
        for items in sections.values():
            items.sort(key=lambda item: (item[1].timestamp, item[0]))
        return own, sections

    def _kind(self, steps: Iterable[int]) -> str:
        """Return what a step is: an epoch if the logger or the number of epochs says so, else a step."""
        run = self.run
        if run.tags.get("mlflow.autologging") in EPOCH_LOGGERS:
            return "epoch"
        counts = [to_number(run.params[name]) for name in EPOCH_PARAMETERS if name in run.params]
        numbers = list(steps)
        last = max(numbers, default=0) - (0 if min(numbers, default=0) == 0 else 1)
        return "epoch" if any(last < count for count in counts) else "step"

    def _adaptations(
        self, location: str, values: list[tuple[str, Metric]], rates: dict[str, float]
    ) -> Iterator[events.Event]:
        """Write that a learning rate changed; the first value only says what it is."""
        for key, metric in values:
            if RATE.fullmatch(key) and rates.get(key, metric.value) != metric.value:
                changed = encode_measures({"learning_rate": metric.value})[0]
                yield events.Adapted(location, metric.timestamp / 1000, changed)
            if RATE.fullmatch(key):
                rates[key] = metric.value

    def _values(self, location: str, values: Iterable[tuple[str, Metric]]) -> Iterator[events.Event]:
        for key, metric in values:
            encoded = encode_measures({key: metric.value})[0]
            if encoded:
                yield events.Measured(location, encoded)

    # ---- files and models

    def _artifacts(self) -> Iterator[events.Event]:
        """Write the uploaded files. The same path with another content is other data."""
        first = {(artifact.name, artifact.sha256): artifact for artifact in reversed(self.run.artifacts)}
        produced: set[str] = set()
        for artifact in reversed(first.values()):
            name, ref, media_type = artifact.name, f"sha256:{artifact.sha256}", media_type_of(artifact.path)
            content = artifact.sha256, artifact.size, media_type
            yield events.Data(ref, "file", name, name, *content)
            yield events.Artifact(artifact.time, ref, name, *content, name)
            if ref not in produced:
                yield events.Produced("", ref)
            produced.add(ref)

    def _models(self) -> Iterator[events.Event]:
        """Write the models that are complete, and for client 2.x those that it logged."""
        names = {
            model_id: (str(model.get("name") or "model"), str(model.get("artifact_uri") or ""))
            for model_id, model in self.run.models.items()
            if model.get("status") == "LOGGED_MODEL_READY"
        }
        for model in self.run.logged_models:
            path = str(model.get("artifact_path") or "model")
            names[str(model.get("model_uuid") or path)] = (path, path)
        if names and not self.run.datasets:  # every model comes from data
            yield events.Data("dataset-training-data", "dataset", "training data", store=self.run.client)
            yield events.Used(TRAINING, "dataset-training-data", TRAINING)
        for ref, (name, path) in names.items():
            yield events.Data(ref, "model", name, path, store=WRITER)
            yield events.Produced(TRAINING, ref)


def infer_value(text: str) -> Any:
    """Return the value that a text stands for: the client sends every value by `str`."""
    if text in ("True", "False"):
        return text == "True"
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return redact_text(text)
    return text if "_" in text else number


def to_number(value: Any) -> float:
    """Return a number; the client sends NaN and infinities as text. NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def to_int(value: Any, default: int) -> int:
    """Return an integer of 64 bits, also from text; the default for anything else."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if -(1 << 63) <= number < 1 << 63 else default


def to_milliseconds(value: Any, default: float) -> int:
    """Return a time in milliseconds since 1970; the default, in seconds, if it is none or out of range."""
    number = to_int(value, 0)
    return number if 0 < number < events.MAX_TIME * 1000 else int(default * 1000)


def _rank(metric: Metric) -> tuple[int, int, float]:
    return metric.step, metric.timestamp, _sortable(metric.value)


def _sortable(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _dict(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Fields]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse(text: Any) -> Fields:
    """Return the object of a text that is JSON."""
    try:
        return _dict(json.loads(text)) if isinstance(text, str) else _dict(text)
    except (ValueError, RecursionError):
        return {}
