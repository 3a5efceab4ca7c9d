"""The question about energy, for runs whose energy was metered, modelled and not recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_runs import energy
from example_runs.asking import ExampleGraph
from example_runs.cases import ENERGY

from catalog.test_questions import compare
from provml.store import Store


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("energy")
    energy.write(folder)
    return folder


@pytest.mark.parametrize("case", list(ENERGY))
def test_the_answer_is_golden(home: Path, case: str, update_golden: bool):
    compare(ExampleGraph(home), case, ENERGY[case], update_golden)


def test_the_table_has_the_totals_of_the_training(home: Path):
    with Store(home) as store:
        rows = {row["run"]: (row["energy_kwh"], row["emissions_kg"]) for row in store.table().to_dicts()}
    assert rows == {"metered": (0.1875, None), "modelled": (0.375, pytest.approx(0.15)), "plain": (None, None)}
