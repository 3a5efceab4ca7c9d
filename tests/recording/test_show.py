"""The curves of a run that is being recorded."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import provml
from provml.answers.table import NOTEBOOK_STYLE
from provml.drawing.palette import DARK, LIGHT


def test_show_draws_training_and_validation_with_adaptations_while_the_run_is_open(tmp_path: Path):
    with provml.record("net", home=tmp_path, capture_environment=False) as run:
        assert "no measures yet" in run.show()._repr_html_()
        with run.training(learning_rate=0.1) as training:
            for epoch in training.epochs(3):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=9.0)
                epoch.measured(loss=1.0 / epoch.index, val_loss=2.0 / epoch.index, accuracy=float("nan"))
                if epoch.index == 2:
                    training.adapted(learning_rate=0.01)
            charts = run.show()
    loss, rate = charts.panels
    assert [(series.is_step, series.points) for series in rate.series] == [(True, [(1, 0.1), (2, 0.1), (3, 0.01)])]
    assert [(series.part, [x for x, _ in series.points]) for series in loss.series] == [
        ("training", [1, 2, 3]),
        ("validation", [1, 2, 3]),
    ]
    assert [(mark.x, mark.label) for mark in loss.marks] == [(2, "learning_rate 0.01")]
    assert charts._repr_html_().startswith("<svg")
    assert "loss" in repr(charts)
    assert not (tmp_path / "index").exists()  # recording opens no store


def test_show_draws_several_validations_of_an_epoch_within_it(tmp_path: Path):
    with provml.record("net", home=tmp_path, run="r", capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=1.0)
            for number in (1, 2):
                with epoch.validation() as validation:
                    validation.measured(loss=epoch.index + number / 10)
        (curves,) = run.show().panels
    expected = {"training": [(1, 1.0), (2, 1.0)], "validation": [(0.5, 1.1), (1, 1.2), (1.5, 2.1), (2, 2.2)]}
    assert {series.part: series.points for series in curves.series} == expected
    with provml.open(tmp_path) as store:
        (curves,) = store.curves("r")
        assert {series.part: series.points for series in curves.series} == expected, "as from the graph"


def test_show_draws_exact_numbers(tmp_path: Path):
    with provml.record("net", home=tmp_path, capture_environment=False) as run, run.training() as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=Decimal("0.5"), share=Fraction(epoch.index, 4))
        panels = {curves.y: [series.points for series in curves.series] for curves in run.show().panels}
    assert panels == {"loss": [[(1, 0.5), (2, 0.5)]], "share": [[(1, 0.25), (2, 0.5)]]}


def test_tables_in_notebooks_have_the_colours_of_pictures_and_pages():
    for theme in (LIGHT, DARK):
        for color in (theme.text, theme.muted, theme.rule, theme.page):
            assert color in NOTEBOOK_STYLE
