"""Cells of IPython: what a cell that raised left is FAILED at once, while the kernel lives on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import provml
from provml.recording.context import CONTEXT

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell

BEGIN = """
import provml
run = provml.record('nb', home={home!r}, capture_environment=False)
training = run.training(using=run.dataset(b'rows', name='rows'))
"""
LOOP = """
for epoch in training.epochs(100):
    if epoch == 3:
        raise {error}('stop')
"""

TESTED_TRAINING = """
PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX provml: <https://w3id.org/provml#>
PREFIX provlake: <https://w3id.org/provlake#>
SELECT ?value ?status {
  ?test provml:evaluatedTraining/provlake:status ?status .
  ?measure prov:wasGeneratedBy ?test ; prov:value ?value .
}"""


@pytest.fixture
def run_cell(tmp_path: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Return a function that runs a cell and returns the events in the journal right after it."""
    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *args, **kwargs: None

    def run(cell: str) -> list[dict[str, Any]]:
        shell.run_cell(cell)
        lines = [line for file in tmp_path.glob("home/runs/*/*.jsonl") for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.strip("\0")]

    yield run
    shell.run_cell("run.finish()")
    InteractiveShell.clear_instance()
    assert not CONTEXT.active_runs


def ends(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the status of each section and the run that has ended."""
    ended = [event for event in events if event["e"] in ("done", "end")]
    return {event.get("at", "run"): event.get("status", "FINISHED") for event in ended}


def test_a_run_whose_cell_raised_has_failed_at_once(tmp_path: Path, run_cell: Callable[[str], list[dict[str, Any]]]):
    events = run_cell(BEGIN.format(home=str(tmp_path / "home")) + LOOP.format(error="ValueError"))
    assert ends(events) == {
        "training/1": "FINISHED",
        "training/2": "FINISHED",
        "training/3": "FAILED",
        "training": "FAILED",
        "run": "FAILED",
    }
    (end,) = [event for event in events if event["e"] == "end"]
    assert end["error"] == ["ValueError", "stop"]
    (planned,) = [event["values"] for event in events if event["e"] == "parameter"]
    assert planned == {"epochs": 100}


def test_a_run_that_was_interrupted_says_so_at_once_and_can_go_on(
    tmp_path: Path, run_cell: Callable[[str], list[dict[str, Any]]]
):
    home = tmp_path / "home"
    events = run_cell(BEGIN.format(home=str(home)) + LOOP.format(error="KeyboardInterrupt"))
    assert ends(events) == {
        "training/1": "FINISHED",
        "training/2": "FINISHED",
        "training/3": "INTERRUPTED",
        "training": "INTERRUPTED",
        "run": "INTERRUPTED",
    }
    assert [event["values"] for event in events if event["e"] == "parameter"] == [{"epochs": 100}]
    with provml.open_store(home) as store:
        (info,) = store.runs()
        assert info.status == "INTERRUPTED"
        assert store.ask("failed-runs").rows[0][2:6:3] == ("INTERRUPTED", "KeyboardInterrupt")

    run_cell("model = training.produced(b'weights', name='net')")
    with provml.open_store(home) as store:
        assert store.run(info.id).status == "RUNNING", "the run goes on"
    run_cell("with run.evaluation(of=model) as test:\n    test.measured(accuracy=0.9)\nrun.finish()")
    with provml.open_store(home) as store:
        assert store.run(info.id).status == "FINISHED"
        assert not [result for result in store.validate().results if result.severity == "Violation"]
        tested = store.query(TESTED_TRAINING)
        assert tested.rows == [(0.9, "INTERRUPTED")], "the evaluation judges the model of the training that was stopped"


def test_another_error_of_a_cell_ends_nothing(tmp_path: Path, run_cell: Callable[[str], list[dict[str, Any]]]):
    run_cell(BEGIN.format(home=str(tmp_path / "home")))
    assert ends(run_cell("a_name_that_does_not_exist")) == {}
    events = run_cell(LOOP.format(error="ValueError"))
    assert (ends(events)["training"], ends(events)["run"]) == ("FAILED", "FAILED")
    events = run_cell("with run.training() as training:\n    pass\nrun.finish()")
    assert {event.get("status", "FINISHED") for event in events if event["e"] == "end"} == {"FAILED", "FINISHED"}
