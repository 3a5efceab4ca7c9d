"""Ranks of one `torchrun` without PROVML_RUN: they are one run, and a question counts their training once."""

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
