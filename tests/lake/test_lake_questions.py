"""The SQL twins of questions give the answers of the store: on the golden worlds and on random ones."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_strategies import SCENARIOS, record_scenario

import provml.lake
from lake.helpers import GOLDEN, answer_of, assert_same, assert_same_table, write_golden_home
from lake.worlds import FILES, MODELS, record_world
from provml.errors import QueryError, QueryNotFound
from provml.lake import Lake
from provml.store import Store


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Lake]]:
    home = write_golden_home(tmp_path_factory.mktemp("golden"))
    provml.lake.build(home, home / "lake", include_open=True)
    with Store(home) as store, provml.lake.open(home / "lake") as lake:
        yield store, lake


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_answers(golden: tuple[Store, Lake], name: str) -> None:
    store, lake = golden
    expected = answer_of(store, *GOLDEN[name])
    assert len(expected) > 0
    assert_same(expected, answer_of(lake, *GOLDEN[name]), name)


def test_the_table_of_runs(golden: tuple[Store, Lake]) -> None:
    store, lake = golden
    assert_same_table(store.table(), lake)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("q3", {"model": "alexnett"}),
    ("q3", {}),
    ("q3", {"model": "alexnet", "run": "no-such-run"}),
    ("q3", {"model": "alexnet", "measure": "los"}),
    ("q3", {"model": "alexnet", "run": "bes"}),
    ("l4", {"dataset": "no such data"}),
    ("l4", {"dataset": "f3-b-train.h5"}),
    ("l4", {"dataset": "urn:sha256:0"}),
    ("l5", {"from": 200, "to": 100}),
    ("l5", {"from": 5, "to": 6}),
    ("l5", {"from": "x", "to": 1}),
    ("l7", {"from_": 1, "to": 700, "measure": "accuracy"}),
    ("q5", {"model": "salt", "measure": "accuracy"}),
    ("b12", {"modell": "net"}),
    ("q5", {"model": "x' OR 1=1 --"}),
]


@pytest.mark.parametrize(("question", "values"), WRONG)
def test_names_and_wrong_values_are_those_of_the_store(
    golden: tuple[Store, Lake], question: str, values: dict[str, Any]
) -> None:
    store, lake = golden
    assert_same(answer_of(store, question, values), answer_of(lake, question, values))


def test_a_question_without_a_twin_names_those_that_have_one(golden: tuple[Store, Lake]) -> None:
    with pytest.raises(QueryError, match=r"lineage-backward has no SQL twin.*batch-times \(l4\)"):
        golden[1].ask("b1", start="x")


def test_an_unknown_question_has_suggestions(golden: tuple[Store, Lake]) -> None:
    with pytest.raises(QueryNotFound, match="leakage"):
        golden[1].ask("leakages")


RANGES = {"from": 0, "to": 10**6}
RANDOM: list[tuple[str, dict[str, Any]]] = [
    *(("q3", {"model": model}) for model in MODELS),
    ("q3", {"model": "net", "measure": "accuracy", "first": 2}),
    *(("q5", {"model": model, "top": top}) for model in MODELS for top in (1, 3)),
    ("q5", {"model": "net", "measure": "loss"}),
    *(("l4", {"dataset": file}) for file in FILES[:3]),
    ("l5", RANGES),
    ("l5", {"from": 100, "to": 300}),
    *(("l7", {**RANGES, "measure": measure}) for measure in ("loss", "accuracy")),
    ("b10", {}),
    ("b10", {"model": "net", "top": 2}),
    *(("b12", {"any_evaluation": any_evaluation}) for any_evaluation in (False, True)),
]
SCENARIO_QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *(("q3", {"model": model, "measure": "größe"}) for model in ("flowers", "größe / 2")),
    ("q5", {"model": "flowers"}),
    ("l4", {"dataset": "train"}),
    ("b10", {}),
    ("b12", {"any_evaluation": True}),
]


def assert_same_answers(home: Path, questions: list[tuple[str, dict[str, Any]]]) -> set[str]:
    """Assert that a lake answers questions as the store does; return the questions whose answers have rows."""
    provml.lake.build(home, home / "lake", include_open=True)
    answered = set()
    with Store(home) as store, provml.lake.open(home / "lake") as lake:
        for question, values in questions:
            expected = answer_of(store, question, values)
            assert_same(expected, answer_of(lake, question, values), question)
            if not isinstance(expected, str) and expected.rows:
                answered.add(question)
        assert_same_table(store.table(), lake)
    return answered


def test_random_worlds(tmp_path: Path) -> None:
    answered = set()
    for seed in range(8):
        record_world(tmp_path / str(seed), seed)
        answered |= assert_same_answers(tmp_path / str(seed), RANDOM)
    assert answered == {question for question, _ in RANDOM}  # none is compared by empty answers alone


@settings(max_examples=5)
@given(st.lists(SCENARIOS, min_size=1, max_size=3))
def test_random_scripts(scenarios: list[dict[str, Any]]) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        for scenario in scenarios:
            record_scenario(scenario, home)
        assert_same_answers(home, SCENARIO_QUESTIONS)
    finally:
        shutil.rmtree(home)
