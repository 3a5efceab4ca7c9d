"""The worlds of the questions, written by the recorder itself, give the papers' tables and the golden answers too."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from test_questions import DOMAIN, TABLE_4_7, TABLES, agree, compare, near
from world import alexnet, seismic
from world.asking import World
from world.cases import ALEXNET, SEISMIC
from world.recorded import Recorded, recording

from provml import event
from provml.journal import read_lines


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[World, Path, list[Recorded]]]:
    """Both worlds by name: as a graph, its home, and its runs."""
    homes = {name: tmp_path_factory.mktemp(name) for name in ("trainings", "cycle")}
    with recording(tmp_path_factory.mktemp("work")) as trainings:
        alexnet.write(homes["trainings"])
    with recording(tmp_path_factory.mktemp("work")) as cycle:
        seismic.life_cycle().write(homes["cycle"])
    return {
        "trainings": (World(homes["trainings"]), homes["trainings"], trainings),
        "cycle": (World(homes["cycle"], DOMAIN), homes["cycle"], cycle),
    }


@pytest.fixture(scope="module")
def trainings(recorded: dict[str, Any]) -> World:
    return recorded["trainings"][0]


@pytest.fixture(scope="module")
def cycle(recorded: dict[str, Any]) -> World:
    return recorded["cycle"][0]


@pytest.mark.parametrize("table", TABLES)
def test_asking_what_was_recorded_gives_the_table_of_the_paper(trainings: World, table: str):
    question, values, columns, printed = TABLES[table]
    assert trainings.rows(question, *columns, **values) == near(printed)


def test_asking_again_while_it_is_recorded_gives_the_next_table(tmp_path: Path):
    losses = alexnet.filled([loss for _, loss in TABLE_4_7], 200, 0.0184)
    (tmp_path / "work").mkdir()
    with recording(tmp_path / "work"):
        tale = alexnet.densed("k32-l4", 1, 32, 4, losses[:10], finished=False)
        tale.write(tmp_path)
        world = World(tmp_path)
        assert world.rows("h7", "epoch", "value", model="densed", k=32, l=4) == near(TABLE_4_7)
        for index, loss in enumerate(losses[10:], 11):
            tale.epoch("training", index, 15.0, loss=loss)
        tale.end("training")
        tale.finish()
        tale.write(tmp_path)
    world.sync()
    assert world.rows("h7", "epoch", "value", model="densed", k=32, l=4, last=1) == near([(200, 0.0184)])


@pytest.mark.parametrize("case", list(ALEXNET))
def test_the_recorded_trainings_give_the_golden_answer(trainings: World, case: str):
    compare(trainings, case, ALEXNET[case], update=False)


@pytest.mark.parametrize("case", list(SEISMIC))
def test_the_recorded_life_cycle_gives_the_golden_answer(cycle: World, case: str):
    compare(cycle, case, SEISMIC[case], update=False)


def test_the_recorded_life_cycle_agrees_with_plain_python(recorded: dict[str, Any]):
    world, _, runs = recorded["cycle"]
    agree(world, runs)


@pytest.mark.parametrize("name", ["trainings", "cycle"])
def test_every_journal_is_the_recorders_and_says_what_the_tale_says(recorded: dict[str, Any], name: str):
    _, home, runs = recorded[name]
    assert {path.name for path in (home / "runs").iterdir()} == {run.run for run in runs}
    for run in runs:
        (path,) = (home / "runs" / run.run).glob("*.jsonl")
        first, *written = (event.decode(line) for _, _, line in read_lines(path))
        assert isinstance(first, event.Run)
        assert first.pid == os.getpid(), "a tale has a process of its own invention"
        assert agreed([first, *written]) == agreed(run.events)


def agreed(told: list[event.AnyEvent]) -> Counter[bytes]:
    """Events as far as a tale and a recorder have to agree: in any order, data once, each batch by itself.

    Not in which process wrote them. Nor in when a validation during a training began: a tale begins it with the
    training, the recorder with the first epoch that is validated.
    """
    found: Counter[bytes] = Counter()
    for what in (one for several in told for one in event.each(several)):
        if isinstance(what, event.Run):
            what = replace(what, pid=0, born=0, boot="", ns="")
        elif isinstance(what, event.Begin) and what.at == "validation":
            what = replace(what, t=0.0)
        elif isinstance(what, event.Done):  # the difference of two times of a tale has lost some digits
            what = replace(what, s=0.0 if what.at == "validation" else round(what.s, 5))
        line = event.encode(what)
        found[line] = 1 if isinstance(what, event.Data) else found[line] + 1
    return found
