"""Homes for lakes, and the comparison of a lake's answers with the store's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from example_runs import alexnet, energy, leaks, seismic
from example_runs.cases import CASES

from provml.answers import Answer
from provml.catalog import Catalog
from provml.errors import ProvmlError
from provml.lake import Lake
from provml.lake.twins import twins

CATALOG = Catalog()
QUESTIONS = {name: (name.split("-")[0], values) for name, values in CASES.items()}
GOLDEN = {name: case for name, case in QUESTIONS.items() if CATALOG[case[0]].name in twins()}
GOLDEN["b12-any"] = ("b12", {"any_evaluation": True})


def write_golden_home(home: Path) -> Path:
    """Write the journals of all golden answers."""
    alexnet.write(home)
    seismic.life_cycle().write(home)
    leaks.write(home)
    energy.write(home)
    return home


def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row in which NaN equals NaN, and numbers are equal that agree in nine digits."""
    return tuple(f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row)


def answer_of(source: Any, question: str, values: dict[str, Any]) -> Answer | str:
    """Return an answer, or the message of an error."""
    try:
        answer = source.ask(question, **values)
    except ProvmlError as error:
        return str(error)
    assert isinstance(answer, Answer)
    return answer


def assert_same(expected: Answer | str, actual: Answer | str, name: str = "") -> None:
    """Assert that two answers have the same columns, rows in the same order, types, curve and note."""
    if isinstance(expected, str) or isinstance(actual, str):
        assert actual == expected, name
        return
    assert actual.columns == expected.columns
    assert actual.types == expected.types
    assert actual.curve == expected.curve
    assert list(map(shown, actual.rows)) == list(map(shown, expected.rows)), name
    assert [tuple(map(type, row)) for row in actual] == [tuple(map(type, row)) for row in expected], name
    assert actual.note == expected.note


def assert_same_table(expected: Answer, lake: Lake) -> None:
    """Assert that a lake has the same table of runs."""
    actual = lake.table()
    assert actual.columns == expected.columns
    assert list(map(shown, actual.rows)) == list(map(shown, expected.rows))
    assert actual.types == expected.types
