"""Ranks of one launch without PROVML_RUN: they are one run, and a question counts their training once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provml.store import Store

pytest.importorskip("torch")

TRAINING = """
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

def prepare():
    torch.manual_seed(1)
    network = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return network, optimizer, DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)

def step(network, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(network(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""
CAPTURED = """
from provml.capture.torch import Capture

torch.distributed.init_process_group("gloo")
network, optimizer, loader = prepare()
with Capture("digits", network, optimizer, model="net", home=sys.argv[1], strict=True) as capture:
    for epoch in capture.epochs(2):
        for x, y in capture.batches(loader):
            capture.measured(loss=step(network, optimizer, x, y))
    with capture.evaluation() as test:
        test.measured(accuracy=0.9)
torch.distributed.destroy_process_group()
"""
PLAIN = """
torch.distributed.init_process_group("gloo")
network, optimizer, loader = prepare()
for epoch in range(2):
    for x, y in loader:
        step(network, optimizer, x, y)
torch.distributed.destroy_process_group()
"""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


ABORTED = "terminate called without an active exception"
"""What PyTorch prints when gloo aborts a rank at its end: on a busy machine in 1 of 12 launches without provml."""
MAX_LAUNCHES = 5


def launch(tmp_path: Path, program: str, *arguments: str) -> str:
    """Run Python with these arguments and the program; return its error output."""
    path = tmp_path / "train.py"
    path.write_text(program)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments, str(path), str(tmp_path / "home")]
    for _ in range(MAX_LAUNCHES):
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_ranks_of_a_torchrun_are_one_run_with_one_training(tmp_path: Path):
    errors = launch(tmp_path, TRAINING + CAPTURED, *TORCHRUN)
    with Store(tmp_path / "home") as store:
        (run,) = store.runs()
        assert (run.status, run.writers) == ("FINISHED", 2)
        assert run.id.startswith("torchrun-")
        assert [row[:2] for row in store.ask("q5", model="net").rows] == [(f"{run.iri}/training", 0.9)]
        assert [row[0] for row in store.ask("q4", model="net").rows] == [f"{run.iri}/training"]
        assert '"world_size":2' in (tmp_path / "home" / "runs" / run.id / "main.jsonl").read_text()
    assert errors.count(f"rank 1 of 2 and the other ranks of this launch are one run, {run.id}. Set PROVML_RUN") == 1


def test_provml_run_records_the_ranks_of_a_torchrun_as_one_run(tmp_path: Path):
    launch(tmp_path, TRAINING + PLAIN, "-m", "provml", "run", "--home", str(tmp_path / "home"), *TORCHRUN)
    with Store(tmp_path / "home") as store:
        (run,) = store.runs()
        files = sorted(path.stem for path in (tmp_path / "home" / "runs" / run.id).glob("*.jsonl"))
        assert (run.status, run.experiment) == ("FINISHED", "train")
        assert files == ["main", "rank-1"], "the launcher trains nothing: rank 0 begins the run"
        assert store.validate(run.id), "it has a start"
        rows = store.query(EPOCHS).rows
        assert rows == [(1, 2), (2, 2)], "each rank has its own course"
        assert store.table().column("world_size") == [2], "the ranks of one training are one row"


EPOCHS = """
PREFIX provml: <https://w3id.org/provml#>
SELECT ?index (COUNT(?e) AS ?n) { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?index }
GROUP BY ?index ORDER BY ?index
"""

SPAWN = """
import os, sys
import torch.distributed, torch.multiprocessing
import provml
from provml.capture.torch import Capture

def train(rank, home):
    def record(name):
        network = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        with Capture(name, network, optimizer, model=name, home=home, strict=True) as capture:
            for _ in capture.epochs(2):
                optimizer.step()
            with capture.evaluation() as test:
                test.measured(accuracy=0.9)
    record("alone")
    torch.distributed.init_process_group("gloo", init_method=f"file://{home}-store", rank=rank, world_size=2)
    record("grouped")
    torch.distributed.destroy_process_group()

def join(rank, run):
    with run.training(name="joined") as training:
        model = training.produced(str(training).encode(), name="net")
    with run.evaluation(of=model) as test:
        test.measured(accuracy=0.9)

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(sys.argv[1],), nprocs=2)
    with provml.record("parent", home=sys.argv[1], strict=True) as run:
        for _ in range(2):
            torch.multiprocessing.spawn(join, args=(run,), nprocs=2)
"""


def test_the_processes_of_one_spawn_are_one_run_with_and_without_a_process_group(tmp_path: Path):
    home = tmp_path / "home"
    errors = launch(tmp_path, SPAWN)
    with Store(home) as store:
        runs = {run.experiment: run for run in store.runs()}
        parent = runs.pop("parent")
        assert len(store.ask("q5", model="parent").rows) == 2, "two trainings of two ranks each"
        assert (parent.status, parent.writers) == ("FINISHED", 5)
        assert {name: run.id.split("-")[0] for name, run in runs.items()} == {"alone": "spawn", "grouped": "torch"}
        for name, run in runs.items():
            assert (run.status, run.writers) == ("FINISHED", 2)
            assert [row[:2] for row in store.ask("q5", model=name).rows] == [(f"{run.iri}/training", 0.9)]
        assert '"world_size":2' in (home / "runs" / runs["grouped"].id / "main.jsonl").read_text()
    assert errors.count("are one run") == 2


LIGHTNING = """
import sys, torch, lightning
from torch.utils.data import DataLoader, TensorDataset
from provml.capture.lightning import Capture

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=4)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp_spawn", **quiet,
                                callbacks=[Capture("spawned", model="net", home=sys.argv[1], strict=True)])
    trainer.fit(Net(), loader)
"""
ACCELERATE = """
import provml
from accelerate import Accelerator

def train():
    accelerator = Accelerator(cpu=True)
    network = torch.nn.Linear(4, 1)
    data = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    network, optimizer, loader = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.1), data)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(network(x), y))
            optimizer.step()

if __name__ == "__main__":
    provml.autolog(home=sys.argv[1], strict=True, capture_environment=False)
    train()
    torch.distributed.destroy_process_group()
"""
ACCELERATE_LAUNCH = [
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
    *("--main_process_port", "0", "--mixed_precision", "no", "--dynamo_backend", "no"),
]
"""The option is the only one that starts processes without MPI; the program uses the CPU."""


@pytest.mark.parametrize(
    ("package", "program", "launcher"),
    [("lightning", LIGHTNING, []), ("accelerate", TRAINING + ACCELERATE, ACCELERATE_LAUNCH)],
    ids=["ddp_spawn of Lightning", "accelerate launch"],
)
def test_the_processes_that_a_launcher_starts_are_ranks_of_one_run(
    package: str, program: str, launcher: list[str], tmp_path: Path
):
    pytest.importorskip(package)
    launch(tmp_path, program, *launcher)
    with Store(tmp_path / "home") as store:
        (run,) = store.runs()
        names = {path.stem for path in (tmp_path / "home" / "runs" / run.id).glob("*.jsonl")}
        assert names == {"main", "rank-1"} | ({"rank-0"} if package == "lightning" else set())
        assert store.query(EPOCHS).rows == [(1, 2), (2, 2)]
        sizes = store.query(WORLD_SIZE).rows
        assert sizes == [(2,), (2,)]


WORLD_SIZE = """
PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX provlake: <https://w3id.org/provlake#>
PREFIX provml: <https://w3id.org/provml#> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
SELECT ?size { ?t a provml:TrainingExecution ; prov:used ?v .
               ?v prov:value ?size ; provlake:wasDerivedFromAttribute/rdfs:label "world_size" }
"""
