"""A run of another system's client belongs to the token that began it; secrets that clients send are in no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from provml.cli import main
from provml.web.security import Guard
from provml.web.service import Service
from provml.web.settings import Tokens
from tests.web.conftest import WRITE, bearer
from tests.web.ingest.exchanges import graph, recorded, send
from tests.web.ingest.mlflow_client import RawClient

OTHER = "another-write-token-of-the-tests"
SECRET = "hf_SecretSecretSecret1234"
JOB = {"namespace": "lab", "name": "train"}
RUN_EVENT: dict[str, Any] = {
    "eventType": "START",
    "eventTime": "2026-01-01T00:00:00Z",
    "run": {"runId": "0198d5a0-0000-7000-8000-000000000001"},
    "job": JOB,
    "producer": "https://example.org",
}
TASK: dict[str, Any] = {"tag": "t", "transformation": "training", "dataflow": "flow", "id": "1", "exec": "e1"}
WORKFLOW = [{"act_type": "workflow", "dataflow_name": "flow", "prov_obj": {"wf_execution": 1.5, "startTime": 1.5}}]
REQUESTS = [
    ("/api/v1/lineage", RUN_EVENT),
    ("/pde/task/json", {**TASK, "status": "RUNNING"}),
    ("/retrospective-provenance", WORKFLOW),
]


def replace_write_token(service: Service) -> None:
    """Let the service have another write token from now on."""
    service.guard = Guard(service.settings, Tokens("read-token-of-the-tests", OTHER))


@pytest.mark.parametrize(("path", "body"), REQUESTS, ids=["OpenLineage", "DfAnalyzer", "ProvLake"])
def test_another_token_cannot_change_a_run(client: TestClient, service: Service, path: str, body: Any) -> None:
    for _ in range(2):
        assert client.post(path, json=body, headers=bearer(WRITE)).status_code in (200, 201)
    before = {file: file.read_bytes() for file in service.home.glob("received/*/*.jsonl")}
    replace_write_token(service)
    answer = client.post(path, json=body, headers=bearer(OTHER))
    assert (answer.status_code, answer.json()["code"]) == (403, "NotTheOwner")
    assert {file: file.read_bytes() for file in service.home.glob("received/*/*.jsonl")} == before


@pytest.mark.parametrize(("path", "body"), REQUESTS, ids=["OpenLineage", "DfAnalyzer", "ProvLake"])
def test_a_refusal_is_logged_once_and_shown(
    client: TestClient, service: Service, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients do not tell their users that a request was refused."""
    client.post("/pde/dataflow/json", json={"tag": "flow", "transformations": [{"tag": "training"}]})
    client.post(path, json=body, headers=bearer(WRITE))
    service.sync()
    (run,) = {folder.name for folder in service.home.glob("runs/*")} - {"monday", "tuesday"}
    replace_write_token(service)
    for _ in range(3):
        assert client.post(path, json=body, headers=bearer(OTHER)).status_code == 403
    assert client.post(path, json=body, headers=bearer("a wrong one")).status_code == 401
    lost, unknown = [record.getMessage() for record in caplog.records if "REFUSED" in record.getMessage()]
    assert f"run {run}" in lost
    assert "another token" in lost
    assert "REFUSED 401" in unknown
    assert 'code="NotTheOwner"} 3\n' in client.get("/metrics", headers=bearer(OTHER)).text
    shown = client.get("/api/v1/status", headers=bearer(OTHER)).json()["refused"]
    assert [(item["status"], item["run"], item["requests"]) for item in shown] == [(401, "", 1), (403, run, 3)]
    client.__exit__(None, None, None)
    status = CliRunner().invoke(main, ["status", run, "--home", str(service.home)])
    assert "3 requests, the last by testclient at" in status.output


def test_another_token_cannot_change_a_run_of_mlflow(client: TestClient, service: Service) -> None:
    run = RawClient(client).create_run()
    run.post("log-metric", key="loss", value=1.0, timestamp=1, step=0)
    replace_write_token(service)
    body = {"run_id": run.id, "key": "loss", "value": 9.0, "timestamp": 2, "step": 1}
    file = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/x.txt"
    for answer in (
        client.post("/api/2.0/mlflow/runs/log-metric", json=body, headers=bearer(OTHER)),
        client.put(file, content=b"x", headers=bearer(OTHER)),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (403, "PERMISSION_DENIED")
    client.headers.update(bearer(OTHER))
    assert [item["value"] for item in run.history("loss")] == [1.0]
    RawClient(client).create_run(run_name="of the other token").finish()


def test_no_file_has_a_secret_that_a_client_sent(client: TestClient, service: Service) -> None:
    dataflow = {"tag": "flow", "transformations": [{"tag": "training", "sets": [
        {"tag": "iset", "type": "INPUT", "attributes": [{"name": "API_KEY", "type": "TEXT"}]}]}]}  # fmt: skip
    rows = {"sets": [None, {"tag": "iset", "elements": [["short-one"]]}], "error": f"login with {SECRET} failed"}
    task = {**WORKFLOW[0], "act_type": "task"}
    outcome = {"task": {"id": 2.0, "wf_execution": 1.5}, "dt": "train", "stderr": f"token={SECRET}", "type": "Output"}
    facets = {"env": {"environmentVariables": [{"name": "MY_TOKEN", "value": SECRET}]}}
    requests: list[tuple[str, Any]] = [
        ("/pde/task/json", {**TASK, "status": "FINISHED", **rows}),  # before its dataflow, which names the columns
        ("/pde/dataflow/json", dataflow),
        ("/pde/task/json", {**TASK, "id": "2", "status": "FINISHED", **rows}),
        ("/retrospective-provenance", [{**task, "prov_obj": outcome}]),
        ("/prospective-provenance", {"dataflow_name": "flow", "storage": f"postgres://ana:{SECRET}@host/db"}),
        ("/api/v1/lineage", {**RUN_EVENT, "run": {**RUN_EVENT["run"], "facets": facets}}),
        ("/api/v1/lineage/batch", [{**RUN_EVENT, "eventType": "COMPLETE", "note": f"Bearer {SECRET}"}]),
    ]
    for path, body in requests:
        assert client.post(path, json=body, headers={"User-Agent": f"x Bearer {SECRET}"}).status_code < 300, path
    for text in (f"password={SECRET}".encode(), b"\xff password=" + SECRET.encode()):
        headers = {"Content-Type": "application/json"}
        assert client.post("/pde/task/json", content=text, headers=headers).status_code == 200
    run = RawClient(client).create_run(tags=[{"key": "url", "value": f"https://ana:{SECRET}@host/"}])
    run.post("log-parameter", key="db_password", value="short-one")
    run.post("log-batch", metrics=[{"key": "token_accuracy", "value": 0.5, "timestamp": 1, "step": 0}])
    run.finish()
    place = f"/api/2.0/mlflow-artifacts/artifacts/0/{run.id}/artifacts/requirements.txt"
    client.put(place, content=b"# only the artifact itself has what was uploaded\n")
    service.sync()
    for file in service.home.rglob("*"):
        if file.is_file() and "index" not in file.parts:
            content = file.read_bytes()
            assert SECRET.encode() not in content, file
            assert b"short-one" not in content, file
    assert not any(SECRET in str(term) for quad in service.store.backend.graph() for term in quad)
    assert run.history("token_accuracy")[0]["value"] == 0.5


class TestReplayCommand:
    def replay(self, home: Path, *options: str) -> Any:
        return CliRunner().invoke(main, ["replay", "--home", str(home), *options])

    def test_the_same_runs_from_what_was_received(self, client: TestClient, service: Service, home: Path) -> None:
        for path, body in REQUESTS:
            client.post(path, json=body)
        for exchange in recorded("openlineage/training")[:4]:
            send(client, exchange)
        RawClient(client).create_run().finish()
        service.sync()
        while_serving = self.replay(home)
        assert while_serving.exit_code == 2
        assert "perhaps a service" in while_serving.output
        client.__exit__(None, None, None)
        service.close()
        expected = graph(home)
        unchanged = self.replay(home)
        assert unchanged.exit_code == 0, unchanged.output
        assert "; 0 journals changed" in unchanged.output
        for path in home.glob("runs/*/*.jsonl"):
            path.unlink()
        assert "; 0 journals changed" not in self.replay(home).output
        assert graph(home) == expected

    def test_a_home_without_requests(self, tmp_path: Path) -> None:
        answer = self.replay(tmp_path)
        assert answer.exit_code == 2
        assert "received" in answer.output
