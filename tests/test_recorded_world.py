"""The worlds of the questions, written by the recorder itself, give the papers' tables and the golden answers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_questions import DOMAIN, TABLES, agree, compare, near
from world import alexnet, seismic
from world.asking import World
from world.cases import ALEXNET, SEISMIC
from world.recorded import Recorded, recording

from provml import event


class Written:
    """A world that was recorded: its runs, their journals, and the graph."""

    def __init__(self, home: Path, runs: list[Recorded], *graphs: Path) -> None:
        self.home = home
        self.runs = runs
        self.world = World(home, *graphs)


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Written:
    home = tmp_path_factory.mktemp("trainings")
    with recording(tmp_path_factory.mktemp("work")) as runs:
        alexnet.write(home)
    return Written(home, runs)


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Written:
    home = tmp_path_factory.mktemp("cycle")
    with recording(tmp_path_factory.mktemp("work")) as runs:
        seismic.life_cycle().write(home)
    return Written(home, runs, DOMAIN)


@pytest.mark.parametrize("table", TABLES)
def test_asking_what_was_recorded_gives_the_table_of_the_paper(trainings: Written, table: str):
    question, values, columns, printed = TABLES[table]
    assert trainings.world.rows(question, *columns, **values) == near(printed)


@pytest.mark.parametrize("case", list(ALEXNET))
def test_the_recorded_trainings_give_the_golden_answer(trainings: Written, case: str):
    compare(trainings.world, case, ALEXNET[case], update=False)


@pytest.mark.parametrize("case", list(SEISMIC))
def test_the_recorded_life_cycle_gives_the_golden_answer(cycle: Written, case: str):
    compare(cycle.world, case, SEISMIC[case], update=False)


def test_the_recorded_life_cycle_agrees_with_plain_python(cycle: Written):
    agree(cycle.world, [*cycle.runs])
