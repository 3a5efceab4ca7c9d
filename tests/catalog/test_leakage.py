"""Evaluation data in trainings: by content, through derived data, through the model that a training continues from."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_runs import leaks
from example_runs.asking import ExampleGraph
from example_runs.cases import LEAKS, RUN

import provml
from catalog.test_questions import compare
from provml.store.store import Store


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("leaks")
    leaks.write(home)
    return home


@pytest.fixture(scope="module")
def graph(home: Path) -> ExampleGraph:
    return ExampleGraph(home)


@pytest.mark.parametrize("case", list(LEAKS))
def test_answers_are_golden(graph: ExampleGraph, case: str, update_golden: bool):
    compare(graph, case, LEAKS[case], update_golden)


def test_each_leak_is_found_with_its_path(graph: ExampleGraph):
    rows = graph.rows("leakage", "training", "name", "learned", "path")
    assert rows == [
        (f"{RUN}augmented/training", "unseen.csv", "bright.csv", "made from it by rotate and brighten"),
        (f"{RUN}same/training", "a-copy.csv", "a-copy.csv", "the same content"),
        (f"{RUN}tuned/training", "public.csv", "net of base", "made from it by training"),
        (f"{RUN}whole/training", "part.csv", "whole.csv", "evaluated on what split made from it"),
    ]


def test_folds_are_no_leak_but_can_be_shown(graph: ExampleGraph):
    assert graph.rows("leakage", model="folded") == []
    rows = graph.rows("leakage", "training", "evaluates_it", model="folded", any_evaluation=True)
    assert rows == [(f"{RUN}fold-1/training", False), (f"{RUN}fold-2/training", False)]


def test_validation_warns_about_the_same_trainings(home: Path):
    with Store(home) as store:
        warned = {
            result.focus.removeprefix(RUN).partition("/")[0]
            for info in store.runs()
            for result in store.validate(info.id)
            if "evaluation-data-in-training" in result.shape
        }
    assert warned == {"augmented", "same", "tuned", "whole"}


@pytest.mark.parametrize("any_evaluation", [False, True])
def test_runs_that_share_data_make_the_answer_grow_like_the_runs(tmp_path: Path, any_evaluation: bool):
    for number in range(12):
        leaks.shared(number).write(tmp_path)
    graph = ExampleGraph(tmp_path)
    rows = graph.rows("leakage", "training", "evaluates_it", any_evaluation=any_evaluation)
    own = [f"{RUN}shared-{number:02}/training" for number in range(12)]
    assert [training for training, evaluates_it in rows if evaluates_it] == own
    assert [training for training, evaluates_it in rows if not evaluates_it] == own[1:] * any_evaluation


def test_test_data_that_a_training_used_is_a_leak_wherever_it_is_asked(tmp_path: Path):
    with provml.record("leaky", model="cnn", run="leak", home=tmp_path) as run:
        reserved = run.dataset(b"T", name="test.csv", role="test")
        with run.training(using=reserved) as training:
            model = training.produced(b"weights")
        with run.evaluation(of=model, using=reserved) as evaluation:
            evaluation.measured(accuracy=0.9)
    with provml.open(tmp_path) as store:
        leaks = store.ask("leakage").to_dicts()
        assert [(row["name"], row["path"]) for row in leaks] == [("test.csv", "the same content")]
        assert [row["leakage"] for row in store.table().to_dicts()] == [True]
        assert "reserved for the evaluation" in str(store.validate("leak"))
