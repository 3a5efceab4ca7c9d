"""Answers for the example runs if they are recorded by real runs: the tables of the papers and the golden files."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from example_runs import alexnet, seismic
from example_runs.asking import ExampleGraph
from example_runs.cases import ALEXNET, SEISMIC
from example_runs.recorded import RecordedRun, recording
from msgspec.structs import replace

from catalog.test_questions import DOMAIN, GOLDEN, TABLE_4_7, TABLES, agree, compare, near
from provml.journal import events as event
from provml.journal.reader import read_lines


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[ExampleGraph, Path, list[RecordedRun]]]:
    """The graph, the home and the runs of both examples."""
    homes = {name: tmp_path_factory.mktemp(name) for name in ("trainings", "cycle")}
    with recording(tmp_path_factory.mktemp("work")) as trainings:
        alexnet.write(homes["trainings"])
    with recording(tmp_path_factory.mktemp("work")) as cycle:
        seismic.life_cycle().write(homes["cycle"])
    return {
        "trainings": (ExampleGraph(homes["trainings"]), homes["trainings"], trainings),
        "cycle": (ExampleGraph(homes["cycle"], DOMAIN), homes["cycle"], cycle),
    }


@pytest.fixture(scope="module")
def trainings(recorded: dict[str, Any]) -> ExampleGraph:
    return recorded["trainings"][0]


@pytest.fixture(scope="module")
def cycle(recorded: dict[str, Any]) -> ExampleGraph:
    return recorded["cycle"][0]


@pytest.mark.parametrize("table", TABLES)
def test_the_answer_for_recorded_runs_is_the_table_of_the_paper(trainings: ExampleGraph, table: str):
    question, values, columns, printed = TABLES[table]
    assert trainings.rows(question, *columns, **values) == near(printed)


def test_a_later_answer_during_recording_is_the_next_table(tmp_path: Path):
    losses = alexnet.filled([loss for _, loss in TABLE_4_7], 200, 0.0184)
    (tmp_path / "work").mkdir()
    with recording(tmp_path / "work"):
        journal = alexnet.densed("k32-l4", 1, 32, 4, losses[:10], finished=False)
        journal.write(tmp_path)
        graph = ExampleGraph(tmp_path)
        assert graph.rows("h7", "epoch", "value", model="densed", k=32, l=4) == near(TABLE_4_7)
        for index, loss in enumerate(losses[10:], 11):
            journal.epoch("training", index, 15.0, loss=loss)
        journal.end("training")
        journal.finish()
        journal.write(tmp_path)
    graph.sync()
    assert graph.rows("h7", "epoch", "value", model="densed", k=32, l=4, last=1) == near([(200, 0.0184)])


@pytest.mark.parametrize("case", list(ALEXNET))
def test_answers_for_recorded_trainings_are_golden(trainings: ExampleGraph, case: str):
    compare(trainings, case, ALEXNET[case], update=False)


@pytest.mark.parametrize("case", [case for case in SEISMIC if not case.startswith("b11")])
def test_answers_for_the_recorded_life_cycle_are_golden(cycle: ExampleGraph, case: str):
    compare(cycle, case, SEISMIC[case], update=False)


def test_the_same_people_did_the_same_steps_in_recorded_runs(cycle: ExampleGraph):
    with (GOLDEN / "b11.csv").open(encoding="utf-8") as file:
        expected = {(row["who"], row["kind"], row["name"], row["what"]) for row in csv.DictReader(file)}
    assert set(cycle.rows("b11", "who", "kind", "name", "what")) == expected  # a recorded validation begins later


def test_answers_for_the_recorded_life_cycle_agree_with_plain_python(recorded: dict[str, Any]):
    graph, _, runs = recorded["cycle"]
    agree(graph, runs)


@pytest.mark.parametrize("name", ["trainings", "cycle"])
def test_recorded_journals_equal_the_built_ones(recorded: dict[str, Any], name: str):
    _, home, runs = recorded[name]
    assert {path.name for path in (home / "runs").iterdir()} == {run.run for run in runs}
    for run in runs:
        (path,) = (home / "runs" / run.run).glob("*.jsonl")
        first, *written = (event.decode(line) for _, _, line in read_lines(path))
        assert isinstance(first, event.Header)
        assert first.pid == os.getpid(), "the process of a built journal is made up"
        assert normalize([first, *written]) == normalize(run.events)


def normalize(events: list[event.AnyEvent]) -> Counter[bytes]:
    """Count events as far as built and recorded ones have to agree: in any order, data once, batches expanded.

    Processes differ. The start of a validation differs: a builder starts it with the training, a run with its first
    validated epoch.
    """
    counts: Counter[bytes] = Counter()
    for item in (part for entry in events for part in event.expand(entry)):
        if isinstance(item, event.Header):
            item = replace(item, pid=0, start_ticks=0, boot_id="", pid_namespace="")
        elif isinstance(item, event.Begin) and item.location == "validation":
            item = replace(item, time=0.0)
        elif isinstance(item, event.Done):  # the difference of two times is rounded
            item = replace(item, seconds=0.0 if item.location == "validation" else round(item.seconds, 5))
        line = event.encode(item)
        counts[line] = 1 if isinstance(item, event.Data) else counts[line] + 1
    return counts
