"""MLflow's protocol: recorded exchanges of clients 2.x and 3.x, searches, artifacts, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyoxigraph as ox
import pytest
from starlette.testclient import TestClient

from provml.journal import events
from provml.web.ingest.mlflow import search
from provml.web.problems import Problem
from provml.web.service import Service
from tests.web.conftest import READ, bearer
from tests.web.ingest.exchanges import Exchange, all_events, opened, recorded, scenarios, send, statuses
from tests.web.ingest.mlflow_client import RawClient

SCENARIOS = [*scenarios("mlflow2"), *scenarios("mlflow3")]
INCOMPARABLE = {
    "artifact_location", "creation_time", "creation_timestamp_ms", "error_class", "file_size", "last_update_time",
    "last_updated_timestamp_ms", "message", "next_page_token", "run_name", "source", "sqlstate", "workspace",
}  # fmt: skip
"""Fields whose values a server makes up, or that only MLflow's own server has."""
LARGEST, MLFLOW_MAX_CHARS = 1.7976931348623157e308, 6000
SKIPPED = ("experiments/search", "server-info", "2/reading runs/search")
"""Answers that depend on what else a server has."""


class Replay:
    """Sends the exchanges of a scenario, with the ids that this server gives in place of the recorded ones."""

    def __init__(self, client: TestClient, *, is_concurrent: bool = False) -> None:
        self.client = client
        self.is_concurrent = is_concurrent
        """Whether the client sent requests at the same time, so that an answer may be older than its place."""
        self.ids: dict[str, str] = {}

    def run(self, name: str) -> None:
        """Send all requests of a scenario and compare their answers."""
        for exchange in recorded(name):
            self._create_earlier(exchange)
            answer = send(self.client, exchange, text=self.translate)
            label = f"{exchange['n']} {exchange['method']} {exchange['path']}"
            assert answer.status_code == exchange["answer"]["status"], (label, answer.text)
            body = exchange["answer"]["body"]
            if "json" in body:
                self._note_ids(body["json"], answer.json())
                is_early = self.is_concurrent and exchange["path"].endswith("runs/get")
                place = f"{name} {exchange['path'].partition('/mlflow/')[2]}"
                if not place.endswith(SKIPPED) and not is_early:
                    compare(json.loads(self.translate(json.dumps(body["json"]))), answer.json(), label)
            elif exchange["method"] == "GET":
                assert answer.content.decode() == body.get("text", ""), label

    def _create_earlier(self, exchange: Exchange) -> None:
        """Create an experiment that existed before the recording."""
        body = exchange["answer"]["body"].get("json", {})
        if exchange["path"].endswith("get-by-name") and exchange["answer"]["status"] == 200:
            name = body["experiment"]["name"]
            created = self.client.post("/api/2.0/mlflow/experiments/create", json={"name": name}).json()
            if "experiment_id" in created:
                self._note_ids(body["experiment"], created)
        elif exchange["path"].endswith("runs/create"):
            recorded_id = exchange["body"]["json"]["experiment_id"]
            if recorded_id not in self.ids:
                created = self.client.post("/api/2.0/mlflow/experiments/create", json={"name": f"e{recorded_id}"})
                self.ids[recorded_id] = created.json()["experiment_id"]

    def _note_ids(self, theirs: Any, ours: Any) -> None:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for name in ("experiment_id", "run_id", "model_id"):
                if name in theirs and name in ours:
                    self.ids[theirs[name]] = ours[name]
            for name in ("run", "model", "info", "experiment"):
                if name in theirs:
                    self._note_ids(theirs[name], ours.get(name))

    def translate(self, text: str) -> str:
        """Replace recorded ids: long ones anywhere, those of experiments where an experiment is meant."""
        for theirs, ours in self.ids.items():
            if len(theirs) > 20:
                text = text.replace(theirs, ours)
                continue
            for pattern in ('experiment_id": "{}"', "experiment_id={}", "mlflow-artifacts:/{}", "artifacts/{}/"):
                text = text.replace(pattern.format(theirs), pattern.format(f"\0{ours}"))
            text = text.replace(f'experiment_ids": ["{theirs}"]', f'experiment_ids": ["\0{ours}"]')
            text = text.replace(f"path={theirs}%2F", f"path=\0{ours}%2F")
        return text.replace("\0", "")


def compare(theirs: Any, ours: Any, label: str) -> None:
    """Compare answers: all that MLflow's server says is there."""
    if isinstance(theirs, dict):
        for name, value in theirs.items():
            if name not in INCOMPARABLE:
                assert name in ours, (label, name, ours)
                if theirs.get("key") != "mlflow.runName" and theirs.get("key") != "mlflow.log-model.history":
                    compare(value, ours[name], f"{label} {name}")
    elif isinstance(theirs, list):
        assert len(theirs) == len(ours), (label, theirs, ours)
        for one, other in zip(sorted(theirs, key=_sort_key), sorted(ours, key=_sort_key), strict=True):
            compare(one, other, label)
    elif theirs in (LARGEST, -LARGEST):  # what a database makes of an infinity
        assert ours in (theirs, "Infinity", "-Infinity"), label
    elif isinstance(theirs, str) and len(theirs) == MLFLOW_MAX_CHARS:  # MLflow's server cuts it, this one does not
        assert ours.startswith(theirs), label
    else:
        assert theirs == ours, label


def _sort_key(item: Any) -> str:
    if isinstance(item, dict) and "key" in item:
        return json.dumps([item["key"], item.get("step"), item.get("timestamp")])
    if isinstance(item, dict) and "info" in item:
        return str(item["info"].get("start_time"))
    return json.dumps(item, sort_keys=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recorded_client_gets_what_it_needs(client: TestClient, service: Service, name: str) -> None:
    Replay(client, is_concurrent="autolog" in name).run(name)
    ended = {exchange["path"].rpartition("/")[2] for exchange in recorded(name)}
    if "update" in ended:
        assert set(statuses(service).values()) <= {"FAILED", "FINISHED", "KILLED"}
    with opened(service) as store:
        assert store.validate().conforms


def test_an_epoch_of_keras_is_an_epoch_of_the_catalog(client: TestClient, service: Service) -> None:
    Replay(client, is_concurrent=True).run("mlflow3/keras-autolog")
    with opened(service) as store:
        table = store.table()
        epochs = store.query("SELECT (COUNT(?e) AS ?n) { ?e a provml:TrainingEpochExecution }")
    assert next(iter(epochs))[0] == 3
    assert len(list(table)) == 1
    used = [event for event in all_events(service) if isinstance(event, events.Used)]
    assert ("training", "training") in {(event.location, event.role) for event in used}
    produced = [event for event in all_events(service) if isinstance(event, events.Data) and event.kind == "model"]
    assert [event.name for event in produced] == ["model"]
    software = [event.software for event in all_events(service) if isinstance(event, events.Environment)]
    assert any("keras" in names for names in software)


def test_steps_that_are_no_epochs(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    for step in (0, 100, 200):
        run.post("log-metric", key="loss", value=1.0 / (step + 1), timestamp=1700000000000 + step, step=step)
    run.post("log-metric", key="test_accuracy", value=0.75, timestamp=1700000000500, step=0)
    run.finish()
    begins = [event for event in all_events(service) if isinstance(event, events.Begin)]
    assert [(event.location, event.kind) for event in begins[1:]] == [
        ("training/1", "step"),
        ("training/101", "step"),
        ("training/201", "step"),
    ]
    own = [
        event.values for event in all_events(service) if event == events.Measured("training", {"test_accuracy": 0.75})
    ]
    assert len(own) == 1


def test_where_a_run_came_from_is_in_the_graph(client: TestClient, service: Service) -> None:
    tags = {
        "mlflow.source.name": "train.py",
        "mlflow.source.git.commit": "9fceb02",
        "mlflow.source.git.branch": "main",
        "mlflow.note.content": "the first try",
    }
    client.headers["User-Agent"] = "mlflow-python-client/3.17.2 (linux)"
    run = RawClient(client).create_run(tags=[{"key": key, "value": value} for key, value in tags.items()])
    run.finish()
    service.sync()
    texts = {term.value for quad in service.store.graph(run.id) for term in quad if isinstance(term, ox.Literal)}
    assert {"train.py", "9fceb02", "main", "the first try", "mlflow-python-client", "3.17.2"} <= texts
    assert service.store.problems == []
    assert service.store.validate(run.id).conforms


def test_a_learning_rate_that_changes_is_an_adaptation(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    run.post("log-parameter", key="epochs", value="3")
    for step, rate in enumerate((0.1, 0.1, 0.05)):
        for key, value in (("loss", 1.0), ("lr", rate)):
            run.post("log-metric", key=key, value=value, timestamp=1700000000000 + step, step=step)
        service.sync()
    run.finish()
    adapted = [event for event in all_events(service) if isinstance(event, events.Adapted)]
    assert [(event.location, event.values) for event in adapted] == [("training/3", {"learning_rate": 0.05})]


def test_a_live_run_is_only_appended_to(client: TestClient, service: Service) -> None:
    """Measures of a step that come one by one, the learning rate last, and one that is logged once at the end."""
    run = RawClient(client).create_run()
    run.post("log-parameter", key="epochs", value="4")
    lines: list[bytes] = []
    for step in range(4):
        for key, value in (("loss", 1.0 / (step + 1)), ("val_loss", 1.5), ("lr", 0.1 if step < 2 else 0.05)):
            run.post("log-metric", key=key, value=value, timestamp=1700000000000 + 10 * step + len(key), step=step)
            service.sync()
            (path,) = service.home.glob("runs/*/*.jsonl")
            assert path.read_bytes().splitlines()[: len(lines)] == lines
            lines = path.read_bytes().splitlines()
    run.post("log-metric", key="test_accuracy", value=0.5, timestamp=1700000001000, step=0)
    run.finish()
    service.sync()
    assert path.read_bytes().splitlines()[: len(lines)] == lines


def test_a_model_that_is_never_complete_is_not_produced(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    body = {"experiment_id": "0", "name": "half", "source_run_id": run.id}
    model = client.post("/api/2.0/mlflow/logged-models", json=body).json()["model"]["info"]
    assert model["status"] == "LOGGED_MODEL_PENDING"
    run.finish()
    assert not [event for event in all_events(service) if isinstance(event, events.Produced)]
    client.patch(f"/api/2.0/mlflow/logged-models/{model['model_id']}", json={"status": "LOGGED_MODEL_READY"})
    produced = [event.ref for event in all_events(service) if isinstance(event, events.Produced)]
    assert produced == [model["model_id"]]


def test_the_same_path_with_new_bytes_is_other_data(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    place = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/latest.ckpt"
    for content in (b"one", b"two", b"one"):
        assert client.put(place, content=content).status_code == 200
    assert client.get(place).content == b"one"
    run.finish()
    stored = [event.sha256 for event in all_events(service) if isinstance(event, events.Artifact)]
    assert len(stored) == len(set(stored)) == 2


def test_deleting_marks(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    run.finish()
    run.post("delete")
    search_runs = {"experiment_ids": ["0"]}
    assert client.post("/api/2.0/mlflow/runs/search", json=search_runs).json() == {}
    assert run.get()["info"]["lifecycle_stage"] == "deleted"
    service.sync()
    assert len(list((service.home / "runs").iterdir())) == 1
    run.post("restore")
    assert len(client.post("/api/2.0/mlflow/runs/search", json=search_runs).json()["runs"]) == 1


def test_everything_is_there_after_a_restart(service: Service, client: TestClient) -> None:
    run = RawClient(client).create_run(run_name="before")
    for step in range(5):
        run.post("log-metric", key="loss", value=1.0 / (step + 1), timestamp=1700000000000 + step, step=step)
    client.put(f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/a/b.txt", content=b"hello")
    from provml.web.ingest.mlflow.tracking import Tracking, run_answer

    later = Tracking(service.home)
    assert run_answer(later.run(run.id)) == run.get()
    assert len(later.history({"run_id": run.id, "metric_key": "loss"})["metrics"]) == 5
    answer = later.search_runs({"experiment_ids": ["0"], "filter": "metrics.loss < 0.5"})
    assert [item["info"]["run_name"] for item in answer["runs"]] == ["before"]


@pytest.mark.parametrize("path", ["2.0/mlflow/registered-models/create", "3.0/mlflow/traces", "2.0/mlflow/runs/nope"])
def test_what_is_not_supported_has_the_code_that_clients_know(client: TestClient, path: str) -> None:
    for prefix in ("", "/mlflow"):
        answer = client.post(f"{prefix}/api/{path}", json={})
        assert (answer.status_code, answer.json()["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
        assert path.partition("mlflow/")[2] in answer.json()["message"]


def test_pages(client: TestClient) -> None:
    raw = RawClient(client)
    for number in range(5):
        raw.create_run(start_time=1700000000000 + number, run_name=f"run {number}")
    names, token = [], ""
    while True:
        body = {"experiment_ids": ["0"], "max_results": 2, "page_token": token, "order_by": ["start_time ASC"]}
        answer = client.post("/api/2.0/mlflow/runs/search", json=body).json()
        names += [run["info"]["run_name"] for run in answer["runs"]]
        token = answer.get("next_page_token", "")
        if not token:
            break
    assert names == [f"run {number}" for number in range(5)]
    bad = client.post("/api/2.0/mlflow/runs/search", json={"experiment_ids": ["0"], "page_token": "?"})
    assert (bad.status_code, bad.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


class TestErrors:
    @pytest.mark.parametrize(
        ("method", "path", "fields", "status", "code"),
        [
            ("POST", "runs/log-metric", {"run_id": "0" * 32, "key": "a"}, 404, "RESOURCE_DOES_NOT_EXIST"),
            ("POST", "runs/create", {"experiment_id": "424242"}, 404, "RESOURCE_DOES_NOT_EXIST"),
            ("GET", "experiments/get-by-name?experiment_name=x", None, 404, "RESOURCE_DOES_NOT_EXIST"),
            ("POST", "experiments/create", {"name": "Default"}, 400, "RESOURCE_ALREADY_EXISTS"),
            ("POST", "experiments/create", {"name": ""}, 400, "INVALID_PARAMETER_VALUE"),
            (
                "POST",
                "runs/search",
                {"experiment_ids": ["0"], "filter": "metrics.x ~ 3"},
                400,
                "INVALID_PARAMETER_VALUE",
            ),
            ("POST", "runs/create", [], 400, "INVALID_PARAMETER_VALUE"),
        ],
    )
    def test_errors_are_those_that_the_client_acts_on(
        self, client: TestClient, method: str, path: str, fields: Any, status: int, code: str
    ) -> None:
        answer = client.request(method, f"/api/2.0/mlflow/{path}", json=fields)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)
        assert answer.json()["message"]

    @pytest.mark.parametrize("key", ["bad/../name", "/abs", "a//b", "./a", "..", "", "a" * 251, "a;b"])
    def test_a_key_that_would_be_another_path(self, client: TestClient, key: str) -> None:
        run = RawClient(client).create_run()
        body = {"run_id": run.id, "key": key, "value": 1.0, "timestamp": 1, "step": 0}
        assert client.post("/api/2.0/mlflow/runs/log-metric", json=body).status_code == 400

    @pytest.mark.parametrize(
        ("action", "fields"),
        [
            ("log-metric", {"key": "a", "value": "high"}),
            ("log-batch", {"metrics": [{"key": "a", "value": None}]}),
            ("log-batch", {"metrics": [1]}),
            ("log-batch", {"params": {"a": 1}}),
            ("update", {"status": "ODD"}),
        ],
    )
    def test_a_value_of_the_wrong_type(self, client: TestClient, action: str, fields: dict[str, Any]) -> None:
        run = RawClient(client).create_run()
        answer = client.post(f"/api/2.0/mlflow/runs/{action}", json={"run_id": run.id, **fields})
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
        assert "metrics" not in run.get()["data"]
        assert run.get()["info"]["status"] == "RUNNING"

    def test_a_parameter_has_one_value(self, client: TestClient) -> None:
        run = RawClient(client).create_run()
        run.post("log-parameter", key="lr", value="1")
        run.post("log-parameter", key="lr", value="1")
        body = {"run_id": run.id, "params": [{"key": "lr", "value": "2"}]}
        answer = client.post("/api/2.0/mlflow/runs/log-batch", json=body)
        assert answer.status_code == 400
        assert "already logged with value='1'" in answer.json()["message"]

    def test_a_token_is_needed(self, client: TestClient) -> None:
        body = {"name": "x"}
        refused = client.post("/api/2.0/mlflow/experiments/create", json=body, headers={"Authorization": "Bearer no"})
        assert (refused.status_code, refused.json()["error_code"]) == (401, "UNAUTHENTICATED")
        reader = client.post("/api/2.0/mlflow/experiments/create", json=body, headers=bearer(READ))
        assert (reader.status_code, reader.json()["error_code"]) == (403, "PERMISSION_DENIED")
        assert client.get("/api/2.0/mlflow/experiments/get?experiment_id=0", headers=bearer(READ)).status_code == 200

    def test_a_form_of_a_page_cannot_write(self, client: TestClient, service: Service) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = client.post(
                "/api/2.0/mlflow/experiments/create", content=b'{"name":"x"}', headers={"Content-Type": kind}
            )
            assert answer.status_code == 415
        assert not (service.home / "received").exists()


class TestArtifacts:
    @pytest.mark.parametrize(
        "path",
        [
            "../x",
            "a/../../x",
            "%2e%2e/x",
            "%252e%252e/x",
            "%25252e%25252e/x",
            "/etc/passwd",
            "..%5cx",
            "a%5c..%5cx",
            "a//b",
        ],
    )
    def test_a_path_that_leads_elsewhere_is_refused(self, client: TestClient, home: Path, path: str) -> None:
        run = RawClient(client).create_run()
        place = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/{path}"
        for method in ("PUT", "GET"):
            assert client.request(method, place, content=b"x").status_code in (400, 404)
        listing = client.get("/api/2.0/mlflow-artifacts/artifacts", params={"path": f"0/{run.id}/artifacts/{path}"})
        assert listing.status_code in (400, 404)
        assert not list(home.glob("artifacts/*/*"))

    @pytest.mark.parametrize("name", ["a b.txt", "ü.txt", "A.txt", "x" * 300, "epoch=0-step=5.ckpt", "50%.txt"])
    def test_any_other_name_is_only_a_name(self, client: TestClient, name: str) -> None:
        run = RawClient(client).create_run()
        place = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/sub/{name.replace('%', '%25')}"
        assert client.put(place, content=name.encode()).status_code == 200
        assert client.get(place).content == name.encode()
        listing = client.get("/api/2.0/mlflow-artifacts/artifacts", params={"path": f"0/{run.id}/artifacts/sub"})
        assert [file["path"] for file in listing.json()["files"]] == [name]

    def test_a_page_is_a_download(self, client: TestClient) -> None:
        run = RawClient(client).create_run()
        place = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/x.html"
        client.put(place, content=b"<script>alert(1)</script>")
        answer = client.get(place)
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert "html" not in answer.headers["content-type"]

    def test_uploads_in_parts_are_refused(self, client: TestClient) -> None:
        assert client.post("/api/2.0/mlflow-artifacts/mpu/create/x", json={}).status_code == 501


class TestSearch:
    values: ClassVar[dict[tuple[str, str], Any]] = {
        ("metric", "loss"): 0.5,
        ("metric", "val.loss"): 0.25,
        ("param", "optimizer"): "Adam",
        ("param", "a b"): "x",
        ("tag", "mlflow.user"): "ana's",
        ("attribute", "status"): "FINISHED",
        ("attribute", "run_id"): "r1",
        ("attribute", "start_time"): 1700000000000,
        ("dataset", "name"): ["train", "test"],
    }

    def holds(self, text: str) -> bool:
        return search.matches(search.parse_filter(text), lambda entity, key: self.values.get((entity, key)))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "metrics.loss < 0.9 and params.optimizer = 'Adam'",
            "metric.loss >= 5e-1 AND metrics.loss <= .5 and metrics.loss != 1",
            'metrics."val.loss" = 0.25',
            "metrics.`val.loss` > 0.2",
            "metrics.val.loss = 0.25",
            'params."a b" = "x"',
            "params.optimizer LIKE 'A%m' and params.optimizer ILIKE 'aD__'",
            "params.optimizer != 'SGD'",
            "tags.mlflow.user = 'ana''s'",
            "attributes.status = 'FINISHED' and status IN ('FINISHED', 'FAILED')",
            "attributes.run_id NOT IN ('r2')",
            "start_time > 1600000000000",
            "datasets.name = 'test'",
            "params.missing IS NULL and params.optimizer IS NOT NULL",
        ],
    )
    def test_a_filter_holds(self, text: str) -> None:
        assert self.holds(text)

    @pytest.mark.parametrize(
        "text",
        [
            "metrics.loss > 0.5",
            "metrics.missing != 1",
            "params.optimizer LIKE 'a%'",
            "params.optimizer = 'Adam' and metrics.loss = 0.4",
            "attributes.status NOT IN ('FINISHED')",
            "tags.x = 'y'",
        ],
    )
    def test_a_filter_does_not_hold(self, text: str) -> None:
        assert not self.holds(text)

    @pytest.mark.parametrize(
        "text",
        [
            "metrics.loss", "metrics.loss <", "metrics.loss < 'a'", "foo.bar = 1", "metrics.loss = 1 or a = 2", "a = ",
            "metrics.loss = 1 metrics.loss = 2", "status IN 'a'", "= 3", "metrics.loss ~ 3", "params.x = 'open",
        ],
    )  # fmt: skip
    def test_a_filter_that_is_none(self, text: str) -> None:
        with pytest.raises(Problem) as error:
            search.parse_filter(text)
        assert (error.value.status, error.value.code) == (400, "INVALID_PARAMETER_VALUE")

    def test_order(self) -> None:
        items = [{"x": 2.0}, {"x": float("nan")}, {"x": 1.0}, {}, {"x": 3.0}]

        def lookup_of(item: dict[str, float]) -> search.Lookup:
            return lambda entity, key: item.get(key)

        ascending = search.sort(items, ["metrics.x ASC"], lookup_of)
        assert [item.get("x") for item in ascending[:3]] == [1.0, 2.0, 3.0]
        assert search.sort(items, ['metrics."x" desc'], lookup_of)[0] == {"x": 3.0}
        with pytest.raises(Problem):
            search.sort(items, ["metrics.x sideways"], lookup_of)
