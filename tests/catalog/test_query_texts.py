"""The texts of the question files: short plain SPARQL 1.1, without hints for one engine, and without copies."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from example_runs.asking import CATALOG

MAX_LINES = {"models-by-range": 70}
MAX_SHARED_LINES = 6


def lines_of(name: str) -> list[str]:
    """Return the lines of SPARQL: no header, no comment lines, no empty lines."""
    lines = (line.strip() for line in CATALOG[name].text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_question_is_short(name: str):
    assert len(lines_of(name)) <= MAX_LINES.get(name, 40)


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_question_has_no_hints_for_one_engine(name: str):
    text = "\n".join(lines_of(name))
    assert not re.search(r"\bLATERAL\b|\bSERVICE\b", text, re.IGNORECASE)
    assert all(int(number) == 1 for number in re.findall(r"\bLIMIT\s+(\d+)", text)), "a limit that cuts large answers"


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_question_does_not_compare_a_variable_with_itself(name: str):
    """Engines disagree on whether NaN equals itself: Jena and RDF4J compare terms first."""
    assert not re.search(r"(\?\w+)\s*!?=\s*\1\b", "\n".join(lines_of(name)))


def shared_lines(first: list[str], second: list[str]) -> int:
    """Return the length of the longest run of lines that both texts have."""
    longest, previous = 0, [0] * (len(second) + 1)
    for line in first:
        current = [0]
        for column, other in enumerate(second):
            current.append(previous[column] + 1 if line == other else 0)
        longest, previous = max(longest, *current), current
    return longest


def test_no_two_questions_share_a_block():
    texts = {name: lines_of(name) for name in CATALOG}
    shared = {pair: shared_lines(texts[pair[0]], texts[pair[1]]) for pair in combinations(texts, 2)}
    assert {pair: count for pair, count in shared.items() if count > MAX_SHARED_LINES} == {}
