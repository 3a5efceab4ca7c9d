"""A client that sends single requests of MLflow's protocol."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

API = "/api/2.0/mlflow"


class RawClient:
    """Sends requests to the tracking server."""

    def __init__(self, client: TestClient, prefix: str = "") -> None:
        self.client = client
        self.api = prefix + API

    def create_run(self, **fields: Any) -> RawRun:
        """Create a run."""
        body = {"experiment_id": "0", "user_id": "ana", "start_time": 1700000000000, **fields}
        answer = self.client.post(f"{self.api}/runs/create", json=body)
        assert answer.status_code == 200, answer.text
        return RawRun(self, answer.json()["run"]["info"])


class RawRun:
    """A run that was created."""

    def __init__(self, client: RawClient, info: dict[str, Any]) -> None:
        self.raw = client
        self.id = info["run_id"]
        self.name = info["run_name"]

    def post(self, action: str, **fields: Any) -> Any:
        """Send a request about the run."""
        answer = self.raw.client.post(f"{self.raw.api}/runs/{action}", json={"run_id": self.id, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def finish(self, status: str = "FINISHED") -> None:
        """End the run."""
        self.post("update", status=status, end_time=1700000100000)

    def get(self) -> dict[str, Any]:
        """Return the run."""
        answer: dict[str, Any] = self.raw.client.get(f"{self.raw.api}/runs/get", params={"run_id": self.id}).json()
        return answer["run"]

    def history(self, key: str) -> list[dict[str, Any]]:
        """Return the values of a measure."""
        params = {"run_id": self.id, "metric_key": key}
        answer = self.raw.client.get(f"{self.raw.api}/metrics/get-history", params=params)
        metrics: list[dict[str, Any]] = answer.json().get("metrics", [])
        return metrics
