"""Experiments, runs and models that MLflow's client records: kept in `received/mlflow`, and readable at once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import posixpath
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from provml.exchange.mlflow import WRITER, Fields, Metric, MlflowRun, to_int
from provml.web.ingest.endpoint import not_the_owner
from provml.web.ingest.mlflow import search
from provml.web.ingest.received import Received, read_requests, redact_json
from provml.web.ingest.translation import SILENCE_SECONDS, Ingest, NotTheOwner, TranslatedRun
from provml.web.problems import Problem

EXPERIMENTS = "experiments"
"""Source of the requests about experiments."""
DEFAULT_ID, DEFAULT_NAME = "0", "Default"
RETRY_SECONDS = 300.0
"""A request to create a run that comes again within this time is the same request, if the run is still empty."""
MAX_KEY_CHARS = 250
STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
_KEY = re.compile(r"[/\w.\- :]+")
_ADJECTIVES = ("able", "bold", "calm", "deft", "eager", "fair", "glad", "keen", "lucid", "merry", "neat", "quick")
_NOUNS = ("ant", "bee", "crane", "dove", "elk", "finch", "gull", "hare", "ibis", "jay", "lynx", "mole", "newt", "owl")


def unknown(message: str) -> Problem:
    """Return the error for something that does not exist."""
    return Problem(404, "RESOURCE_DOES_NOT_EXIST", message)


class ExperimentTable:
    """The experiments of a home. An id follows from the name, so that it is the same on every server."""

    def __init__(self) -> None:
        self.experiments: dict[str, Fields] = {DEFAULT_ID: _experiment(DEFAULT_ID, DEFAULT_NAME, 0)}

    def apply(self, request: Received) -> Iterable[str]:
        """Take in a request about an experiment."""
        body = request.body
        experiment_id, now = str(body.get("experiment_id")), int(request.time * 1000)
        if request.action == "experiments/create":
            fields = _experiment(experiment_id, str(body["name"]), now)
            fields["tags"] = {str(tag.get("key")): str(tag.get("value")) for tag in body.get("tags") or ()}
            self.experiments.setdefault(experiment_id, fields)
        experiment = self.experiments.get(experiment_id)
        if experiment is None:
            return ()
        if request.action == "experiments/update" and body.get("new_name"):
            experiment["name"] = str(body["new_name"])
        elif request.action in ("experiments/delete", "experiments/restore"):
            experiment["lifecycle_stage"] = "deleted" if request.action.endswith("delete") else "active"
        elif request.action == "experiments/set-experiment-tag":
            experiment["tags"][str(body.get("key"))] = str(body.get("value"))
        elif request.action == "experiments/delete-experiment-tag":
            experiment["tags"].pop(str(body.get("key")), None)
        experiment["last_update_time"] = max(now, experiment["last_update_time"])
        return ()

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return nothing: experiments are shared."""
        return {}

    def run_ids(self) -> Iterable[str]:
        """Return nothing: an experiment is no run."""
        return ()

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return nothing: an experiment is no run."""
        return TranslatedRun((), now, is_over=True)

    def forget(self) -> None:
        """Do nothing: the table is small."""

    def find(self, name: str) -> Fields | None:
        """Return an experiment by its name."""
        return next((fields for fields in self.experiments.values() if fields["name"] == name), None)


class RunSource:
    """One run, or a model without a run."""

    def __init__(self) -> None:
        self.run = MlflowRun()

    def apply(self, request: Received) -> Iterable[str]:
        """Take in a request about the run."""
        self.run.apply(request.action, request.body, request.time)
        return self.run_ids()

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return the owner of the run."""
        return {self.run.run_id: self.run.owner}

    def run_ids(self) -> Iterable[str]:
        """Return the id of the run."""
        return [self.run.run_id] if self.run.run_id else []

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return the run. It is over when the client ended it, or by silence."""
        is_over = self.run.has_ended or now - self.run.last_time >= SILENCE_SECONDS
        return TranslatedRun(self.run.all_events(now), self.run.last_time, is_over)

    def forget(self) -> None:
        """Drop the values of measures."""
        self.run.forget_history()


class Tracking:
    """Everything that MLflow's client asks for, except the contents of files."""

    def __init__(self, home: Path) -> None:
        self.ingest: Ingest[Any] = Ingest(home, WRITER, new_source)
        self._lock = threading.RLock()
        self._runs: dict[str, MlflowRun] | None = None
        self._models: dict[str, str] = {}
        """The source of each model: a run, or the model itself."""

    # ---- what is there

    @property
    def table(self) -> ExperimentTable:
        """The experiments."""
        with self._lock:
            table: ExperimentTable = self.ingest.source(EXPERIMENTS).state
            return table

    @property
    def runs(self) -> dict[str, MlflowRun]:
        """All runs by their ids, read from what was received when they are first asked for."""
        with self._lock:
            if self._runs is None:
                self._runs = {}
                for path in self.ingest.log.files():
                    if not path.stem.startswith(f"{EXPERIMENTS}-"):
                        self._load(path)
            return self._runs

    def _load(self, path: Path) -> None:
        state = RunSource()
        for request in read_requests(path):
            state.apply(request)
        state.forget()
        self._register(state.run)

    def _register(self, run: MlflowRun) -> None:
        if run.run_id and self._runs is not None:
            self._runs[run.run_id] = run
        for model_id, fields in run.models.items():
            self._models[model_id] = run.run_id or str(fields["model_id"])

    def run(self, run_id: str) -> MlflowRun:
        """Return a run, perhaps without the history of its measures."""
        run = self.runs.get(run_id)
        if run is None:
            raise unknown(f"Run with id={run_id} not found")
        return run

    def write(self, source: str, action: str, body: Fields, request: Received) -> None:
        """Keep a request about a source and take it in."""
        message = msgspec.structs.replace(request, action=action, body=body)
        try:
            self.ingest.receive(source, message)
        except NotTheOwner as error:
            raise not_the_owner(error.run, "PERMISSION_DENIED") from None
        except OSError as error:
            detail = f"The request could not be kept ({error.strerror or error}). Free some space, then send it again."
            raise Problem(507, "RESOURCE_EXHAUSTED", detail) from error
        if source != EXPERIMENTS:
            with self._lock:
                self._register(self.ingest.source(source).state.run)

    # ---- experiments

    def create_experiment(self, fields: Fields, request: Received) -> Fields:
        """Create an experiment."""
        name = str(fields.get("name") or "")
        if not name:
            raise search.invalid("Invalid experiment name: ''. Pass a name.")
        with self._lock:
            existing = self.table.find(name)
            if existing is not None:
                raise Problem(400, "RESOURCE_ALREADY_EXISTS", f"Experiment(name={name}) already exists.")
            experiment_id = str(int(hashlib.sha256(name.encode()).hexdigest()[:14], 16))
            self.write(EXPERIMENTS, "experiments/create", {**fields, "experiment_id": experiment_id}, request)
        return {"experiment_id": experiment_id}

    def experiment(self, experiment_id: str) -> Fields:
        """Return an experiment by its id."""
        experiment = self.table.experiments.get(experiment_id)
        if experiment is None:
            raise unknown(f"No Experiment with id={experiment_id} exists")
        return experiment

    def experiment_by_name(self, name: str) -> Fields:
        """Return an experiment by its name."""
        experiment = self.table.find(name)
        if experiment is None:
            raise unknown(f"Could not find experiment with name '{name}'")
        return experiment

    def change_experiment(self, action: str, fields: Fields, request: Received) -> Fields:
        """Rename, tag, delete (that is, mark) or restore an experiment."""
        self.experiment(str(fields.get("experiment_id")))
        self.write(EXPERIMENTS, action, fields, request)
        return {}

    def search_experiments(self, fields: Fields) -> Fields:
        """Search experiments."""
        conditions = search.parse_filter(str(fields.get("filter") or ""))

        def lookup_of(experiment: Fields) -> search.Lookup:
            return lambda entity, key: experiment["tags"].get(key) if entity == "tag" else experiment.get(key)

        view = str(fields.get("view_type") or "ACTIVE_ONLY")
        matching = [
            experiment
            for experiment in self.table.experiments.values()
            if _is_in_view(experiment["lifecycle_stage"] == "deleted", view)
            and search.matches(conditions, lookup_of(experiment))
        ]
        orders = [*_texts(fields.get("order_by")), "creation_time DESC", "experiment_id"]
        page, token = paginate(search.sort(matching, orders, lookup_of), fields, default=1000)
        return _answer(experiments=[experiment_answer(item) for item in page], next_page_token=token)

    # ---- runs

    def create_run(self, fields: Fields, request: Received) -> MlflowRun:
        """Create a run. A request that came before, and whose answer may have been lost, gives the same run."""
        _check_types(fields)
        experiment = self.experiment(str(fields.get("experiment_id") or DEFAULT_ID))
        fields = {**fields, "experiment_id": experiment["experiment_id"]}
        with self._lock:
            redacted = redact_json(fields)
            twins = [run for run in self.runs.values() if run.created == redacted]
            for run in twins:
                is_recent = request.time - run.last_time < RETRY_SECONDS
                is_child = "mlflow.parentRunId" in run.first_tags  # the trials of a search are created alike
                if is_recent and not run.is_touched and not is_child:
                    return run
            text = f"{msgspec.json.encode(fields, order='sorted').decode()} {len(twins)}"
            run_id = hashlib.sha256(text.encode()).hexdigest()[:32]
            tags = {str(tag.get("key")): str(tag.get("value")) for tag in fields.get("tags") or ()}
            name = str(fields.get("run_name") or tags.get("mlflow.runName") or _made_up_name(run_id))
            body = {"request": fields, "run_id": run_id, "experiment": experiment["name"], "run_name": name}
            body |= {"client": request.client, "agent": request.agent, "owner": request.owner}
            self.write(run_id, "runs/create", body, request)
            return self.run(run_id)

    def change_run(self, action: str, fields: Fields, request: Received) -> MlflowRun:
        """Take in a request about a run, after the checks that MLflow's server makes."""
        run_id = str(fields.get("run_id") or fields.get("run_uuid") or "")
        run = self.run(run_id)
        _check_types(fields)
        _check_values(action, fields)
        _check_keys(action, fields)
        _check_params(run, action, fields)
        self.write(run_id, action, fields, request)
        return self.run(run_id)

    def search_runs(self, fields: Fields) -> Fields:
        """Search runs."""
        conditions = search.parse_filter(str(fields.get("filter") or ""))
        experiments = set(_texts(fields.get("experiment_ids")))
        view = str(fields.get("run_view_type") or "ACTIVE_ONLY")
        matching = [
            run
            for run in list(self.runs.values())
            if run.experiment_id in experiments
            and _is_in_view(run.is_deleted, view)
            and search.matches(conditions, _lookup_of(run))
        ]
        orders = [*_texts(fields.get("order_by")), "attributes.start_time DESC", "attributes.run_id"]
        page, token = paginate(search.sort(matching, orders, _lookup_of), fields, default=1000)
        return _answer(runs=[run_answer(run) for run in page], next_page_token=token)

    def history(self, fields: Fields) -> Fields:
        """Return the values of a measure, as they came."""
        run_id = str(fields.get("run_id") or fields.get("run_uuid") or "")
        self.run(run_id)
        key = str(fields.get("metric_key") or "")
        source = self.ingest.source(run_id)
        with source.lock:
            values = list(source.state.run.metrics.get(key, ()))
        page, token = paginate(values, fields, default=25000)
        return _answer(metrics=[metric_answer(key, metric) for metric in page], next_page_token=token)

    # ---- models

    def create_model(self, fields: Fields, request: Received) -> Fields:
        """Create a model, which is pending until the client says that it is complete."""
        run_id = str(fields.get("source_run_id") or "")
        experiment_id = self.experiment(str(fields.get("experiment_id") or DEFAULT_ID))["experiment_id"]
        with self._lock:
            count = len(self.run(run_id).models) if run_id else len(self._models)
            text = f"{run_id} {fields.get('name')} {count} {'' if run_id else request.time}"
            model_id = f"m-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
            now = int(request.time * 1000)
            body = {**fields, "model_id": model_id, "experiment_id": experiment_id, "created_ms": now}
            body["artifact_uri"] = f"mlflow-artifacts:/{experiment_id}/models/{model_id}/artifacts"
            self.write(run_id or model_id, "logged-models/create", body, request)
        return self.model(model_id)

    def model(self, model_id: str) -> Fields:
        """Return a model by its id."""
        source = self.source_of_model(model_id)
        run = self.runs.get(source)
        fields = run.models.get(model_id) if run is not None else None
        if fields is None:
            fields = self.ingest.source(source).state.run.models[model_id]
        return fields

    def source_of_model(self, model_id: str) -> str:
        """Return the source of a model: its run, or the model itself."""
        _ = self.runs
        source = self._models.get(model_id)
        if source is None:
            raise unknown(f"Logged model with ID '{model_id}' not found.")
        return source

    def update_model(self, model_id: str, fields: Fields, request: Received) -> Fields:
        """Change the status, the parameters or the tags of a model."""
        body = {**fields, "model_id": model_id, "updated_ms": int(request.time * 1000)}
        self.write(self.source_of_model(model_id), "logged-models/update", body, request)
        return self.model(model_id)

    def search_models(self, fields: Fields) -> Fields:
        """Search models."""
        conditions = search.parse_filter(str(fields.get("filter") or ""))
        experiments = set(_texts(fields.get("experiment_ids")))
        _ = self.runs
        models = [self.model(model_id) for model_id in list(self._models)]
        matching = [
            model
            for model in models
            if model["experiment_id"] in experiments and search.matches(conditions, _model_lookup(model))
        ]
        matching.sort(key=lambda model: -int(model["created_ms"]))
        page, token = paginate(matching, fields, default=100)
        return _answer(models=[model_answer(model) for model in page], next_page_token=token)


def new_source(key: str) -> ExperimentTable | RunSource:
    """Return a source by its key, or by the name of the file with its requests."""
    return ExperimentTable() if key == EXPERIMENTS or key.startswith(f"{EXPERIMENTS}-") else RunSource()


# ---- checks


def _check_types(fields: Fields) -> None:
    """Refuse a field that is not a list of objects although it should be."""
    for name in ("metrics", "params", "tags", "datasets", "models"):
        value = fields.get(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
            raise search.invalid(f"Invalid value {str(value)[:100]!r} for parameter '{name}': no list of objects.")


def _check_values(action: str, fields: Fields) -> None:
    """Refuse a value of a measure that is no number, and a status that MLflow does not have."""
    metrics = [fields] if action == "runs/log-metric" else fields.get("metrics") or ()
    for metric in metrics if action in ("runs/log-metric", "runs/log-batch") else ():
        try:
            float(metric.get("value", 0.0))
        except (TypeError, ValueError):
            value = str(metric.get("value"))[:100]
            raise search.invalid(f"Invalid value {value!r} for parameter 'value': a metric is a number.") from None
    status = fields.get("status")
    if action == "runs/update" and status is not None and status not in STATUSES:
        raise search.invalid(f"Invalid value {str(status)[:100]!r} for parameter 'status'. Pass {', '.join(STATUSES)}.")


def _check_keys(action: str, fields: Fields) -> None:
    """Refuse keys that MLflow refuses: a name that would be another one as a path."""
    items = [fields] if action in ("runs/log-metric", "runs/log-parameter", "runs/set-tag") else []
    for name in ("metrics", "params", "tags"):
        items += [item for item in fields.get(name) or () if isinstance(item, dict)]
    for item in items:
        key = str(item.get("key") or "")
        if not _KEY.fullmatch(key) or len(key) > MAX_KEY_CHARS:
            allowed = f"letters, digits, _ / - . : and spaces, and at most {MAX_KEY_CHARS} characters"
            raise search.invalid(
                f"Invalid value {key[:300]!r} for parameter 'key' supplied: Names may contain {allowed}."
            )
        if posixpath.normpath(key) != key or key.startswith(("/", "..")) or key == ".":
            reason = "Names may be treated as files, and must not resolve to other names when treated as such."
            raise search.invalid(f"Invalid value \"{key}\" for parameter 'name' supplied: {reason}")


def _check_params(run: MlflowRun, action: str, fields: Fields) -> None:
    """Refuse another value of a parameter."""
    params = [fields] if action == "runs/log-parameter" else fields.get("params") or ()
    for param in params if action in ("runs/log-parameter", "runs/log-batch") else ():
        key, value = str(param.get("key")), str(param.get("value", ""))
        if run.params.get(key, value) != value:
            raise search.invalid(
                f"Changing param values is not allowed. Param with key='{key}' was already logged with "
                f"value='{run.params[key]}' for run ID='{run.run_id}'. Attempted logging new value '{value}'."
            )


# ---- answers


def paginate(items: Sequence[Any], fields: Fields, *, default: int) -> tuple[Sequence[Any], str]:
    """Return a page of items, and the token of the next page; empty for the last one."""
    size = max(to_int(fields.get("max_results"), default), 0) or default
    start = 0
    if fields.get("page_token"):
        try:
            start = int(base64.urlsafe_b64decode(str(fields["page_token"])))
        except (ValueError, binascii.Error):
            raise search.invalid("Invalid page token. Pass the one of the previous page.") from None
    end = start + size
    token = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(items) else ""
    return items[start:end], token


def run_info(run: MlflowRun) -> Fields:
    """Return what MLflow calls the info of a run."""
    info = {
        "run_uuid": run.run_id,
        "experiment_id": run.experiment_id,
        "run_name": run.name,
        "user_id": run.user,
        "status": run.status,
        "start_time": run.start_ms,
        "end_time": run.end_ms,
        "artifact_uri": f"mlflow-artifacts:/{run.experiment_id}/{run.run_id}/artifacts",
        "lifecycle_stage": "deleted" if run.is_deleted else "active",
        "run_id": run.run_id,
    }
    return {name: value for name, value in info.items() if value is not None}


def run_answer(run: MlflowRun) -> Fields:
    """Return a run with its data; of each measure the last value."""
    data = _answer(
        metrics=[metric_answer(key, metric) for key, metric in run.latest.items()],
        params=_pairs(run.params),
        tags=_pairs(run.tags),
    )
    inputs = _answer(dataset_inputs=run.datasets, model_inputs=[{"model_id": item} for item in run.model_inputs])
    outputs = [{"model_id": model_id, "step": step} for model_id, step in run.model_outputs.items()]
    return {"info": run_info(run), "data": data, "inputs": inputs, "outputs": _answer(model_outputs=outputs)}


def metric_answer(key: str, metric: Metric) -> Fields:
    """Return a value of a measure; JSON has no NaN and no infinity."""
    value: float | str = metric.value
    if not math.isfinite(metric.value):
        value = "NaN" if math.isnan(metric.value) else "Infinity" if metric.value > 0 else "-Infinity"
    return {"key": key, "value": value, "timestamp": metric.timestamp, "step": metric.step, **dict(metric.extra)}


def model_answer(model: Fields) -> Fields:
    """Return a model."""
    info = {
        "model_id": model["model_id"],
        "experiment_id": model["experiment_id"],
        "name": model.get("name") or "model",
        "creation_timestamp_ms": model["created_ms"],
        "last_updated_timestamp_ms": model.get("last_updated_ms", model["created_ms"]),
        "artifact_uri": model["artifact_uri"],
        "status": model["status"],
        "model_type": model.get("model_type") or "",
        "source_run_id": model.get("source_run_id") or "",
        "tags": model.get("tags") or [],
    }
    extra = {"model_id": model["model_id"], "run_id": info["source_run_id"]}
    metrics = [{**metric_answer(key, metric), **extra} for (key, _), metric in model.get("metrics", {}).items()]
    return {"info": info, "data": _answer(params=model.get("params") or [], metrics=metrics)}


def experiment_answer(experiment: Fields) -> Fields:
    """Return an experiment."""
    return {name: value for name, value in {**experiment, "tags": _pairs(experiment["tags"])}.items() if value != []}


def _experiment(experiment_id: str, name: str, now: int) -> Fields:
    return {
        "experiment_id": experiment_id,
        "name": name,
        "artifact_location": f"mlflow-artifacts:/{experiment_id}",
        "lifecycle_stage": "active",
        "last_update_time": now,
        "creation_time": now,
        "tags": {},
    }


def _answer(**fields: Any) -> Fields:
    """Return an answer without empty fields, as MLflow's server does."""
    return {name: value for name, value in fields.items() if value}


def _pairs(values: dict[str, str]) -> list[Fields]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value] if value else []
    return [str(item) for item in items]


def _is_in_view(is_deleted: bool, view: str) -> bool:
    return view.upper() == "ALL" or is_deleted == (view.upper() == "DELETED_ONLY")


def _lookup_of(run: MlflowRun) -> search.Lookup:
    def lookup(entity: str, key: str) -> Any:
        if entity == "metric":
            metric = run.latest.get(key)
            return metric.value if metric is not None else None
        if entity == "dataset":
            return _dataset_values(run, key)
        if entity == "attribute":
            return run_info(run).get(key)
        return (run.params if entity == "param" else run.tags).get(key)

    return lookup


def _dataset_values(run: MlflowRun, key: str) -> list[Any]:
    if key == "context":
        tags = (tag for item in run.datasets for tag in item.get("tags") or ())
        return [tag.get("value") for tag in tags if tag.get("key") == "mlflow.data.context"]
    return [(item.get("dataset") or {}).get(key) for item in run.datasets]


def _model_lookup(model: Fields) -> search.Lookup:
    def lookup(entity: str, key: str) -> Any:
        if entity in ("param", "tag"):
            return {item.get("key"): item.get("value") for item in model.get(f"{entity}s") or ()}.get(key)
        return model_answer(model)["info"].get(key)

    return lookup


def _made_up_name(run_id: str) -> str:
    number = int(run_id[:12], 16)
    adjective, noun = _ADJECTIVES[number % len(_ADJECTIVES)], _NOUNS[number // 16 % len(_NOUNS)]
    return f"{adjective}-{noun}-{number // 256 % 1000}"
