"""Seeds of loaded libraries are recorded with the run and queried in the graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import provml
from provml.recording.seeds import seeds


def test_the_numpy_seed_is_recorded():
    before = np.random.get_state()  # seeds() reads the global generator
    try:
        np.random.seed(1234)
        assert seeds()["numpy"] == 1234
    finally:
        np.random.set_state(before)


def test_a_seed_that_was_not_set_or_has_been_used_is_not_recorded():
    before = np.random.get_state()
    try:
        np.random.seed()
        assert "numpy" not in seeds()
        np.random.seed([1, 2])
        assert "numpy" not in seeds()
        np.random.seed(42)
        np.random.rand()
        assert "numpy" not in seeds()
        np.random.seed(2**32 - 1)
        assert seeds()["numpy"] == 2**32 - 1
    finally:
        np.random.set_state(before)


def test_a_library_that_is_not_loaded_stays_so():
    program = "import sys; from provml.recording.seeds import seeds; print(seeds(), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")


def test_the_hash_seed_is_recorded_if_it_is_set(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert seeds()["python hash"] == 7
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    assert "python hash" not in seeds()


def test_seeds_are_hyperparameters_of_the_run(tmp_path: Path):
    np.random.seed(99)
    with provml.record("seeded", home=tmp_path, strict=True):
        pass
    with provml.open(tmp_path) as store:
        answer = store.query(
            """SELECT ?seed { ?run a provml:LearningProcessExecution ; prov:used ?v .
               ?v prov:value ?seed ; prov:wasDerivedFrom/rdfs:label "seed of numpy" }"""
        )
    assert not isinstance(answer, bool)
    assert answer.rows == [(99,)]
