"""Texts and numbers of names that are too large for the graph: bounded, counted, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import provml
from provml.cli import main
from provml.journal import events
from provml.journal.artifacts import ArtifactFiles

LARGE = "the loss is 0.1 \n" * 100_000
"""1.7 MB: more than the graph has of a text."""


def status(home: Path, run: str) -> dict:
    result = CliRunner().invoke(main, ["status", run, "--home", str(home), "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run that has 1.7 MB as output, as hyperparameter and as message of an exception."""
    home = tmp_path_factory.mktemp("large") / "home"
    with provml.record("other", home=home, run="small") as run, run.training(lr=0.1) as training:
        training.measured(loss=0.5)
    with contextlib.suppress(RuntimeError), provml.record("texts", home=home, run="large") as run:
        with run.training(prompt=LARGE + "a", nested={"prompt": [LARGE + "b"]}) as training:
            training.execution(output=LARGE + "c")
        with run.step("prepare"):
            raise RuntimeError(LARGE + "d password=hunter2hunter2")
    return home


def test_a_large_text_is_an_artifact_with_its_head_in_the_graph(home: Path):
    (journal,) = (home / "runs" / "large").glob("*.jsonl")
    assert journal.stat().st_size < 1_000_000
    lines = [events.decode(line) for line in journal.read_bytes().rstrip(b"\0").splitlines()]
    cut = {event.name: event for event in lines if isinstance(event, events.Artifact) and event.is_cut}
    assert sorted(cut) == ["nested.txt", "prepare-RuntimeError.txt", "prompt.txt", "training-output.txt"]
    files = ArtifactFiles(home)
    assert files.path(cut["prompt.txt"].sha256).read_text() == LARGE + "a"
    assert files.path(cut["training-output.txt"].sha256).read_text() == LARGE + "c"
    message = files.path(cut["prepare-RuntimeError.txt"].sha256).read_text()
    assert message.startswith(LARGE)
    assert message.endswith("password=***")
    with provml.open_store(home) as store:
        heads = store.query(
            "SELECT ?text { ?s ?p ?text FILTER(CONTAINS(STR(?text), '[cut: all 1,700,001 characters')) }"
        )
        assert len(heads) >= 2
        assert all(len(row[0]) < 20_000 for row in heads)
        assert len(store.query("SELECT ?v { ?v prov:value ?x FILTER(?x = 0.5) }")) == 1  # another run


def test_the_recorder_counts_what_it_cut(home: Path):
    assert status(home, "large")["cut_texts"] == 4
    assert status(home, "small")["cut_texts"] == 0
    table = CliRunner().invoke(main, ["status", "large", "--home", str(home)]).output
    assert "4, whole as artifacts" in table


def test_a_run_has_at_most_a_number_of_measures(isolated_home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "MAX_MEASURES", 50)
    with provml.record("many", home=isolated_home, run="many") as run, run.training() as training:
        training.measured(**{f"m{number}": float(number) for number in range(100)})
        for epoch in training.epochs(2):
            epoch.measured(m0=1.0, other=2.0)
            for batch in epoch.batches(range(2)):
                batch.measured(m1=1.0, **{f"x{number}": 1.0 for number in range(10)})
    assert run.capture_errors
    assert "at most 50 different measures; 'm50' is left out" in json.dumps(status(isolated_home, "many"))
    with provml.open_store(isolated_home) as store:
        count = store.query("SELECT (COUNT(DISTINCT ?m) AS ?n) { ?v prov:value ?x . ?m a mls:EvaluationMeasure }")
        assert count.rows[0][0] <= 50


def test_a_journal_with_too_many_measures_is_a_problem_of_that_journal_alone(
    isolated_home: Path, monkeypatch: pytest.MonkeyPatch
):
    with provml.record("many", home=isolated_home, run="many") as run, run.training() as training:
        training.measured(**{f"m{number}": float(number) for number in range(100)})
    with provml.record("deep", home=isolated_home, run="deep") as run, run.training(lr=0.1) as training:
        training.measured(loss=0.25)
    (journal,) = (isolated_home / "runs" / "deep").glob("*.jsonl")
    lines = journal.read_bytes().rstrip(b"\0").splitlines(keepends=True)
    hostile = b'{"e":"workflow","said":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}\n"
    journal.write_bytes(b"".join([*lines[:2], hostile, *lines[2:]]))
    monkeypatch.setattr("provml.mapping.plan.MAX_MEASURES", 50)
    monkeypatch.setattr(events, "MAX_MEASURES", 50)
    with provml.open_store(isolated_home) as store:
        problems = "\n".join(map(str, store.problems))
        assert "runs/many/main.jsonl" in problems
        assert "more than 50 different measures" in problems
        assert "runs/deep/main.jsonl" in problems
        assert "line=3" in problems
        assert len(store.query("SELECT ?v { ?v a provml:ModelEvaluation ; prov:value ?x FILTER(?x = 0.25) }")) == 1
        assert {run.id for run in store.runs()} == {"many", "deep"}
