"""`provml compare`: differences that fit the terminal, and what is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from provml.recording.run import Run

from .helpers import error_of, json_of, output_of


@pytest.fixture(scope="module")
def pair_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three runs with long ids; two of them learned from different data."""
    home = tmp_path_factory.mktemp("pair") / "home"
    for number, tile in enumerate((224, 256, 224)):
        name = f"20261118-02124{number}-c0ffe{number}"
        with Run("flowers", home=home, run=name, model="alexnet", strict=True, capture_environment=False) as run:
            photos = run.dataset(b"photos", name="photos", role="raw")
            tiles = run.prepared(b"%d" % tile, step="tiling", using=photos, tile=tile, name="tiles " * 9)
            with run.training(using=tiles, learning_rate=0.1, optimizer="Adam") as training:
                training.measured(loss=0.5 if number == 1 else 0.4)
    return home


@pytest.mark.parametrize("columns", [80, 120])
def test_the_comparison_fits_the_terminal(pair_home: Path, columns: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    for runs in (("c0ffe0", "c0ffe1"), ("c0ffe0", "c0ffe1", "c0ffe2")):
        lines = output_of(pair_home, "compare", *runs).splitlines()
        assert max(map(len, lines)) <= columns
        assert lines[0].split()[:2] == ["what", "name"]
        rows = [line.split() for line in lines]
        assert ["measure", "train_loss", "0.4", "0.5"] in [row[:4] for row in rows]
        path = lines.index("first difference in the lineage")
        assert lines[path + 1 : path + 4] == [
            "training ← tiling",
            "  20261118-021240-c0ffe0: tile = 224",
            "  20261118-021241-c0ffe1: tile = 256",
        ]
        assert lines[path + 5].startswith("same in all runs: learning_rate = 0.1, optimizer = Adam")


def test_runs_that_do_not_differ_say_so(pair_home: Path):
    output = output_of(pair_home, "compare", "c0ffe0", "c0ffe2")
    assert output.startswith("The runs do not differ in what was recorded.\n\nsame in all runs: ")


def test_json_and_csv_have_all_rows_and_complete_digests(pair_home: Path):
    rows = {(row["what"], row["name"]): row for row in json_of(pair_home, "compare", "c0ffe0", "c0ffe1")}
    assert rows["hyperparameter", "learning_rate"]["differs"] is False
    assert rows["preparation", "tile"]["20261118-021241-c0ffe1"] == 256
    digest = rows["dataset", "training"]["20261118-021240-c0ffe0"].rpartition("(")[2].rstrip(")")
    assert len(digest) == 64
    assert output_of(pair_home, "compare", "c0ffe0", "c0ffe1", "--format", "csv").startswith("what,name,differs,2026")


def test_wrong_runs_are_explained(pair_home: Path):
    assert "a comparison needs two runs or more. Pass another run" in error_of(pair_home, "compare", "c0ffe0")
    assert "is named twice. Pass different runs." in error_of(pair_home, "compare", "c0ffe2", "latest")
    assert "No run 'zebra'" in error_of(pair_home, "compare", "c0ffe0", "zebra")
    assert "Missing argument" in error_of(pair_home, "compare")
