"""Ranks of one launch without PROVML_RUN: they are one run, and a question counts their training once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provml.store import Store

pytest.importorskip("torch")

PROGRAM = """
import sys
import provml

with provml.record("digits", model="net", home=sys.argv[1], strict=True, capture_environment=False) as run:
    data = run.dataset(b"digits", name="digits.csv", role="training")
    with run.training(using=data, learning_rate=0.1) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=1 / epoch.index)
        model = training.produced(b"weights", name="net.pt")
    with run.evaluation(of=model) as test:
        test.measured(accuracy=0.9)
"""


def test_the_ranks_of_a_launch_are_one_run_with_one_training(tmp_path: Path):
    program, home = tmp_path / "train.py", tmp_path / "home"
    program.write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, str(program), str(home)], env=environ, capture_output=True, text=True, check=True)
    with Store(home) as store:
        (run,) = store.runs()
        assert (run.status, run.writers) == ("FINISHED", 2)
        assert run.id.startswith("torchrun-")
        assert [row[:2] for row in store.ask("q5", model="net").rows] == [(f"{run.iri}/training", 0.9)]
        assert [row[0] for row in store.ask("q4", model="net").rows] == [f"{run.iri}/training"]
    assert (
        done.stderr.count(f"rank 1 of 2 and the other ranks of this launch are one run, {run.id}. Set PROVML_RUN") == 1
    )


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

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(sys.argv[1],), nprocs=2)
"""


def test_the_processes_of_one_spawn_are_one_run_with_and_without_a_process_group(tmp_path: Path):
    program, home = tmp_path / "train.py", tmp_path / "home"
    program.write_text(SPAWN)
    done = subprocess.run([sys.executable, str(program), str(home)], capture_output=True, text=True, check=True)
    with Store(home) as store:
        runs = {run.experiment: run for run in store.runs()}
        assert {name: run.id.split("-")[0] for name, run in runs.items()} == {"alone": "spawn", "grouped": "torch"}
        for name, run in runs.items():
            assert (run.status, run.writers) == ("FINISHED", 2)
            assert [row[:2] for row in store.ask("q5", model=name).rows] == [(f"{run.iri}/training", 0.9)]
        assert '"world_size":2' in (home / "runs" / runs["grouped"].id / "main.jsonl").read_text()
    assert done.stderr.count("are one run") == 2
