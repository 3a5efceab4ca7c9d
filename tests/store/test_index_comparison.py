"""The comparison of an index with the journals: it agrees with all that is recorded, and finds what was edited."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from provml.recording.run import Run, record
from provml.store import Store
from provml.store.checkpoint import Problem


def index_problems(store: Store) -> list[Problem]:
    """What `verify` says about the index: about seals, there are tests of their own."""
    return [problem for problem in store.verify() if problem.in_index]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def train(home: Path, run: str) -> None:
    with record("flowers", home=home, strict=True, run=run, capture_environment=False) as recorded:
        _train(recorded)


def _train(run: Run) -> None:
    data = run.dataset(b"raw", name="raw.csv", role="training")
    with run.training(using=data, learning_rate=0.5) as training:
        for epoch in training.epochs(3):
            for batch in epoch.batches(range(2)):
                batch.measured(loss=1.0)
            epoch.measured(loss=0.25)
        model = training.produced(b"weights")
    with run.evaluation(of=model, using=data) as test:
        test.measured(accuracy=0.75)


def journal(home: Path, run: str = "first") -> Path:
    return home / "runs" / run / "main.jsonl"


def test_the_index_agrees_with_runs_that_share_data_models_and_annotations(home: Path, tmp_path: Path):
    train(home, "first")
    train(home, "second")
    settings: Any = {"home": home, "strict": True, "capture_environment": False}
    with record("parent", run="third", **settings) as parent, parent.child("fourth", run="fourth") as child:
        _train(child)
    graph = tmp_path / "more.ttl"
    with Store(home) as store:
        store.tag("first", "good", "bad")
        store.untag("first", "bad")
        store.rename("second", "other")
        graph.write_text(
            f'<{store.run("first").iri}> <http://example.org/cost> "01"^^<http://www.w3.org/2001/XMLSchema#int> .'
        )
        store.load(graph)
        assert index_problems(store) == []


def test_the_index_agrees_with_a_run_that_is_active(home: Path):
    with record("flowers", home=home, strict=True, run="first", capture_environment=False) as run:
        _train(run)
        with Store(home) as store, run.training() as training:
            assert index_problems(store) == []
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(3)):
                    batch.measured(loss=0.5)
                    assert index_problems(store) == []
    with Store(home) as store:
        assert index_problems(store) == []


def test_a_value_that_was_edited_is_reported_with_its_line(home: Path):
    train(home, "first")
    train(home, "second")
    with Store(home) as store:
        assert index_problems(store) == []
    lines = journal(home).read_text().splitlines(keepends=True)
    (number,) = [number for number, line in enumerate(lines, start=1) if '"accuracy":0.75' in line]
    stat = journal(home).stat()
    journal(home).write_text("".join(lines).replace('"accuracy":0.75', '"accuracy":0.95'))
    os.utime(journal(home), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with Store(home) as store:
        problems = index_problems(store)
        assert {(problem.file, problem.line, problem.in_index) for problem in problems} == {
            ("runs/first/main.jsonl", number, True)
        }
        assert any(problem.reason.endswith("prov:value 0.95, but the index has 0.75 instead") for problem in problems)
        store.rebuild()
        assert index_problems(store) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"accuracy":0.75', '"accuracy":0.987654321'),
        lambda text: text.replace('"accuracy":0.75', '"accuracy":1'),
        lambda text: text + '{"e":"measured","at":"evaluation","values":{"f1":1.0}}\n',
    ],
)
def test_a_journal_that_was_edited_to_another_size_is_reported_and_indexed_again(
    home: Path, edit: Callable[[str], str], caplog: pytest.LogCaptureFixture
):
    train(home, "first")
    with Store(home) as store:
        old = journal(home).stat().st_size
        store.sync()
    journal(home).write_text(edit(journal(home).read_text()))
    new = journal(home).stat().st_size
    reason = f"was changed after it was indexed: it has {new:,} bytes, and had {old:,}"
    with Store(home) as store:
        assert index_problems(store) == [Problem("runs/first/main.jsonl", 0, reason, in_index=True)]
        values = store.query(
            "SELECT ?v { ?m provml:rankingValue ?v ; prov:wasGeneratedBy/a provml:EvaluationExecution }"
        )
        assert len(values.rows) == 1 + ('"f1"' in journal(home).read_text())
        assert caplog.messages == [f"provml: {journal(home)} {reason}. The index is rebuilt from it."]
        assert index_problems(store) == []


def test_statements_that_only_the_index_has_or_lacks_are_reported(home: Path):
    train(home, "first")
    with Store(home) as store:
        graph, run = store.graph(), ox.NamedNode(store.run("first").iri)
        cost = ox.Quad(run, ox.NamedNode("http://example.org/cost"), ox.Literal("much"))
        graph.add(cost)
        reason = f"does not say {run.value} http://example.org/cost 'much', but the index does"
        assert index_problems(store) == [Problem("runs/first", 0, reason, in_index=True)]
        graph.remove(cost)
        (status,) = graph.quads_for_pattern(run, ox.NamedNode("https://w3id.org/provlake#status"), None)
        graph.remove(status)
        (problem,) = index_problems(store)
        assert problem.reason.startswith(f"says {run.value} provlake:status ")
        assert problem.reason.endswith(", but the index does not have it")


def test_statements_of_an_imported_file_that_the_index_lacks_are_reported(home: Path, tmp_path: Path):
    train(home, "first")
    (tmp_path / "more.nt").write_text("<http://example.org/a> <http://example.org/b> <http://example.org/c> .\n")
    with Store(home) as store:
        store.load(tmp_path / "more.nt")
        (name,) = [path.name for path in (home / "added").iterdir()]
        store.graph().update("DELETE WHERE { <http://example.org/a> ?p ?o }")
        (problem,) = index_problems(store)
        assert (problem.file, problem.in_index) == (f"added/{name}", True)


def test_a_run_that_was_deleted_is_no_disagreement(home: Path):
    train(home, "first")
    train(home, "second")
    with Store(home) as store:
        store.sync()
        shutil.rmtree(home / "runs" / "second")
        assert index_problems(store) == []


def test_many_differences_are_summarized(home: Path):
    train(home, "first")
    with Store(home) as store:
        store.sync()
    text = journal(home).read_text().replace('"flowers"', '"flowerz"')
    journal(home).write_text(text)
    with Store(home) as store:
        problems = index_problems(store)
    assert len(problems) == 21
    assert problems[-1].reason.startswith("disagrees with the index in ")
