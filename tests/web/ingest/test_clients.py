"""Real clients in processes of their own, unmodified, against a real service on a free port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import provml
from tests.web.ingest.exchanges import body_of, graph, recorded, translated
from tests.web.serving import Server, running

TOKENS = {"PROVML_READ_TOKEN": "read-token-of-the-tests", "PROVML_WRITE_TOKEN": "write-token-of-the-tests"}
WRITE = TOKENS["PROVML_WRITE_TOKEN"]
HEADERS = {"Content-Type": "application/json"}


def run_script(script: str, **environment: str) -> str:
    """Run a script of a user and return what it printed."""
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "KERAS_BACKEND": "torch", **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def mlflow_environment(server: Server, prefix: str = "") -> dict[str, str]:
    return {"MLFLOW_TRACKING_URI": server.url + prefix, "MLFLOW_TRACKING_TOKEN": WRITE}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


MLFLOW_BASIC = """
import mlflow
mlflow.set_experiment("flowers")
with mlflow.start_run(run_name="first") as run:
    mlflow.log_params({"lr": 0.1, "epochs": 3, "optimizer": "Adam"})
    for epoch in range(3):
        mlflow.log_metrics({"loss": 1 / (epoch + 1), "val_loss": 1.1 / (epoch + 1)}, step=epoch)
    mlflow.set_tag("team", "a")
    mlflow.log_text("hello", "notes/hello.txt")
client = mlflow.MlflowClient()
text = "metrics.loss < 0.9 and params.optimizer = 'Adam'"
found = client.search_runs([run.info.experiment_id], text, order_by=["metrics.loss ASC"])
assert [item.info.run_id for item in found] == [run.info.run_id]
assert [metric.value for metric in client.get_metric_history(run.info.run_id, "loss")] == [1.0, 0.5, 1 / 3]
assert [item.path for item in client.list_artifacts(run.info.run_id, "notes")] == ["notes/hello.txt"]
assert mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/notes/hello.txt") == "hello"
try:
    with mlflow.start_run(run_name="second"):
        raise ValueError("diverged")
except ValueError:
    pass
"""
SKLEARN = """
import mlflow
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
mlflow.sklearn.autolog(log_models=False)
GridSearchCV(LogisticRegression(max_iter=500), {"C": [0.1, 1]}, cv=2).fit(*load_iris(return_X_y=True))
"""
KERAS = """
import keras, mlflow, numpy
mlflow.keras.autolog(log_models=False)
x, y = numpy.random.rand(32, 4).astype("float32"), numpy.random.rand(32, 1).astype("float32")
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(x, y, epochs=3, batch_size=8, validation_split=0.25, verbose=0)
"""
LIGHTNING = """
import lightning, mlflow, tempfile, torch
mlflow.pytorch.autolog(log_models=False)
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.rand(32, 4), torch.rand(32, 1))
options = dict(enable_progress_bar=False, logger=False, enable_model_summary=False)
trainer = lightning.Trainer(max_epochs=3, default_root_dir=tempfile.mkdtemp(), **options)
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=8))
"""
OPENLINEAGE = """
from datetime import datetime, timezone
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.uuid import generate_new_uuid
client = OpenLineageClient()
for job, source, target in (("prepare", "/raw.csv", "/clean.parquet"), ("train", "/clean.parquet", "/model.pt")):
    run, job = Run(str(generate_new_uuid())), Job("lab", "flowers." + job)
    for state in (RunState.START, RunState.COMPLETE):
        client.emit(RunEvent(
            eventType=state, eventTime=datetime.now(timezone.utc).isoformat(), run=run, job=job, producer="https://example.org",
            inputs=[InputDataset("file", source)], outputs=[OutputDataset("file", target)],
        ))
"""


def test_the_mlflow_client(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home, env=TOKENS) as server:
        run_script(MLFLOW_BASIC, **mlflow_environment(server))
        answer = server.send("GET", "/api/v1/runs", {"Authorization": f"Bearer {WRITE}"})
        assert answer.status == 200
    with provml.open(home) as store:
        assert {run.name: run.status for run in store.runs()} == {"first": "FINISHED", "second": "FAILED"}
        assert store.validate().conforms


@pytest.fixture(scope="module")
def mlflow2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with MLflow's client 2.x; the other packages that it needs are those of 3.x."""
    folder = tmp_path_factory.mktemp("mlflow2")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, "mlflow-skinny==2.22.5", "protobuf==5.29.5"], check=True, capture_output=True)
    return folder


def test_the_mlflow_client_of_version_2(tmp_path: Path, mlflow2: Path) -> None:
    home = tmp_path / "home"
    with running(home, env=TOKENS) as server:
        path = os.pathsep.join([str(mlflow2), os.environ.get("PYTHONPATH", "")])
        script = "import mlflow\nassert mlflow.__version__ == '2.22.5'\n" + MLFLOW_BASIC + SKLEARN
        run_script(script, PYTHONPATH=path, **mlflow_environment(server))
    with provml.open(home) as store:
        runs = [(run.name, run.status) for run in store.runs()]
        assert runs[-2:] == [("second", "FAILED"), ("first", "FINISHED")]
        assert [status for _, status in runs[:-2]] == ["FINISHED"] * 3  # a search and its two trials
        assert store.validate().conforms


@pytest.mark.parametrize(
    ("script", "runs", "epochs"),
    [(SKLEARN, 3, 0), (KERAS, 1, 3), (LIGHTNING, 1, 3)],
    ids=["scikit-learn", "keras", "lightning"],
)
def test_autolog_of_mlflow(tmp_path: Path, script: str, runs: int, epochs: int) -> None:
    home = tmp_path / "home"
    with running(home, env=TOKENS) as server:
        run_script(script, **mlflow_environment(server, "/mlflow"))
    with provml.open(home) as store:
        assert [run.status for run in store.runs()] == ["FINISHED"] * runs
        counted = store.query("SELECT (COUNT(?epoch) AS ?n) { ?epoch a provml:TrainingEpochExecution }")
        assert next(iter(counted))[0] == epochs
        assert store.validate().conforms


def test_the_openlineage_client(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home, env=TOKENS) as server:
        run_script(OPENLINEAGE, OPENLINEAGE_URL=server.url, OPENLINEAGE_API_KEY=WRITE)
    with provml.open(home) as store:
        assert {run.name: run.status for run in store.runs()} == {
            "flowers.train": "FINISHED",
            "flowers.prepare": "FINISHED",
        }
        # what one run wrote and another one read is the same dataset
        linked = store.query(
            "ASK { ?training prov:used ?data . ?made prov:specializationOf ?data ; prov:wasGeneratedBy ?preparation }"
        )
        assert linked is True


def test_a_script_without_dfa_url_records_by_the_port_of_dfanalyzer(tmp_path: Path) -> None:
    """The client sends no token there; on all other ports it needs one, which a DFA_URL with a password brings."""
    port, home = free_port(), tmp_path / "home"
    exchanges = recorded("dfanalyzer/dnnprov-default-url-double-slash")
    with running(home, "--also-listen", str(port), env=TOKENS) as server:
        further = Server(server.process, f"http://127.0.0.1:{port}", [])
        refused = server.send("POST", "//pde/task/json", HEADERS, body_of(exchanges[1]))
        assert refused.status == 401
        for exchange in exchanges:
            answer = further.send("POST", exchange["path"], HEADERS, body_of(exchange))
            assert (answer.status, answer.json()) == (200, exchange["body"]["json"])
        assert further.send("GET", "/api/v1/runs").status == 401
        foreign = {**HEADERS, "Origin": "https://evil.example"}
        assert further.send("POST", "/pde/task/json", foreign, b"{}").status == 403
    with provml.open(home) as store:
        assert [run.status for run in store.runs()] == ["FINISHED"]


@pytest.mark.parametrize("place", ["/dev/zero", "fifo", "/proc/self/mem"])
def test_paths_of_clients_are_not_opened(tmp_path: Path, place: str) -> None:
    if place == "fifo":
        place = str(tmp_path / "fifo")
        os.mkfifo(place)
    exchanges = recorded("dfanalyzer/workflow-files")
    text = json.dumps([exchange["body"]["json"] for exchange in exchanges]).replace("/data/raw/flowers.csv", place)
    with running(tmp_path / "home", env=TOKENS) as server:
        headers = {**HEADERS, "Authorization": f"Bearer {WRITE}"}
        for exchange, message in zip(exchanges, json.loads(text), strict=True):
            assert server.send("POST", exchange["path"], headers, json.dumps(message).encode()).status == 200
        assert server.send("GET", "/api/v1/runs", headers).status == 200
    (path,) = (tmp_path / "home").glob("runs/*/*.jsonl")
    assert json.dumps(place) in path.read_text()


def test_a_service_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    home, exchanges = tmp_path / "home", recorded("provlake/training")
    headers = {**HEADERS, "Authorization": f"Bearer {WRITE}"}
    for start in range(0, len(exchanges), 9):
        with running(home, env=TOKENS) as server:
            for exchange in exchanges[start : start + 9]:
                assert server.send("POST", exchange["path"], headers, body_of(exchange)).status == 200
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(timeout=30)
    with running(home, env=TOKENS):
        wait_for(lambda: any(b'"e":"end"' in path.read_bytes() for path in home.glob("runs/*/*.jsonl")))
    expected = graph(translated(tmp_path / "whole", "provlake", exchanges))
    assert without_context(graph(home)) == without_context(expected)


def without_context(triples: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Leave out what names the client: its address and its version."""
    words = ("127.0.0.1", "node-17", "python-requests", "/machine", "/environment", "/store/", "#environment")
    return {triple for triple in triples if not any(word in text for text in triple for word in words)}


def test_twenty_clients_at_once(tmp_path: Path) -> None:
    home, errors = tmp_path / "home", []
    with running(home, env=TOKENS) as server:
        headers = {**HEADERS, "Authorization": f"Bearer {WRITE}"}

        def record(number: int) -> None:
            body = {"experiment_id": "0", "user_id": str(number), "start_time": 1700000000000}
            created = server.send("POST", "/api/2.0/mlflow/runs/create", headers, json.dumps(body).encode())
            run_id = created.json()["run"]["info"]["run_id"]
            for step in range(20):
                metric = {
                    "run_id": run_id,
                    "key": "loss",
                    "value": 1.0,
                    "timestamp": 1700000000000 + step,
                    "step": step,
                }
                answer = server.send("POST", "/api/2.0/mlflow/runs/log-metric", headers, json.dumps(metric).encode())
                if answer.status != 200:
                    errors.append(answer)
            end = {"run_id": run_id, "status": "FINISHED", "end_time": 1700000001000}
            server.send("POST", "/api/2.0/mlflow/runs/update", headers, json.dumps(end).encode())

        threads = [threading.Thread(target=record, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    with provml.open(home) as store:
        counted = store.query("SELECT (COUNT(?m) AS ?n) { ?m a provml:ModelEvaluation }")
        assert next(iter(counted))[0] == 400
        assert [run.status for run in store.runs()] == ["FINISHED"] * 20


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
