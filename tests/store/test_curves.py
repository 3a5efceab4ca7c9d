"""Curves of runs: measures in training and validation, settings as steps, marks, labels, and wrong names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import provml
from provml.answers.plot import Curves, Mark
from provml.errors import InvalidParameter, PlotError, RunNotFound
from provml.store import Store


def record(home: Path, name: str, rate: float, optimizer: str = "Adam", experiment: str = "flowers") -> None:
    """Record a training of four epochs, adapted in the second, with a validation of its own and one by a prefix."""
    with (
        provml.record(experiment, home=home, run=name, strict=True) as run,
        run.training(learning_rate=rate, optimizer=optimizer, batch_size=64) as training,
    ):
        for epoch in training.epochs(4):
            for batch in epoch.batches(range(2)):
                batch.measured(norm=float(batch.index + epoch.index))
            epoch.measured(loss=9.0)
            epoch.measured(loss=rate / epoch.index, top=epoch.index, val_top=epoch.index - 0.5, text_only=float("nan"))
            with epoch.validation() as validation:
                validation.measured(loss=2 * rate / epoch.index)
            if epoch.index == 2:
                training.adapted(learning_rate=rate / 2, technique="decay")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    home = tmp_path_factory.mktemp("curves") / "home"
    record(home, "monday", 0.1)
    record(home, "tuesday", 0.2)
    record(home, "wednesday", 0.2, "SGD")
    with provml.open_store(home) as store:
        yield store


def points(curves: Curves) -> dict[str, list[tuple[int, float]]]:
    return {series.name: series.points for series in curves.series}


def test_training_and_validation_are_in_one_panel(store: Store):
    (curves,) = store.curves("monday", "loss")
    assert (curves.x, curves.y, curves.skipped) == ("epoch", "loss", 0)
    assert points(curves) == {
        "training": [(1, 0.1), (2, 0.05), (3, 0.1 / 3), (4, 0.025)],
        "validation": [(1, 0.2), (2, 0.1), (3, 0.2 / 3), (4, 0.05)],
    }
    assert [series.is_dashed for series in curves.series] == [False, True]
    assert {series.group for series in curves.series} == {"monday"}


def test_a_prefix_is_a_validation_too(store: Store):
    (curves,) = store.curves("monday", "top")
    assert points(curves) == {
        "training": [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)],
        "validation": [(1, 0.5), (2, 1.5), (3, 2.5), (4, 3.5)],
    }
    (alone,) = store.curves("monday", "val_top")
    assert [series.is_dashed for series in alone.series] == [False]


def test_batches_give_the_mean_of_a_measure_that_epochs_do_not_have(store: Store):
    (curves,) = store.curves("monday", "norm")
    assert points(curves) == {"monday": [(1, 2.5), (2, 3.5), (3, 4.5), (4, 5.5)]}


def test_adaptations_are_marks(store: Store):
    (curves,) = store.curves("monday", "loss")
    assert curves.marks == [Mark(2, "learning_rate 0.1 → 0.05", "monday")]


def test_a_setting_is_drawn_in_steps(store: Store):
    (curves,) = store.curves("monday", "learning_rate")
    assert points(curves) == {"monday": [(1, 0.1), (2, 0.1), (3, 0.05), (4, 0.05)]}
    assert curves.series[0].is_step
    assert curves.marks == []


def test_runs_are_labelled_by_the_settings_that_differ(store: Store):
    (curves,) = store.curves(["monday", "tuesday", "wednesday"], "loss")
    assert [series.group for series in curves.series[::2]] == [
        "monday learning_rate=0.1 optimizer=Adam",
        "tuesday learning_rate=0.2 optimizer=Adam",
        "wednesday learning_rate=0.2 optimizer=SGD",
    ]
    assert curves.series[0].name == "monday learning_rate=0.1 optimizer=Adam training"
    assert {mark.group for mark in curves.marks} == {series.group for series in curves.series}


def test_by_default_the_loss_of_the_latest_run_is_drawn(store: Store):
    (curves,) = store.curves()
    assert curves.y == "loss"
    assert curves.series[0].group == "wednesday"


def test_values_that_are_not_finite_are_counted(store: Store):
    with pytest.raises(PlotError, match="Nothing to plot of text_only: all values are NaN or infinite"):
        store.curves("monday", "text_only")


def test_an_unknown_measure_is_an_error_with_suggestions(store: Store):
    with pytest.raises(InvalidParameter, match=r"plot: no measure or setting named 'los' .* Available: loss, "):
        store.curves("monday", "los")


def test_a_setting_that_is_no_number_is_an_error(store: Store):
    with pytest.raises(PlotError, match="optimizer is 'Adam', which is not a number"):
        store.curves("monday", "optimizer")


def test_an_unknown_run_is_an_error(store: Store):
    with pytest.raises(RunNotFound, match="monda-y"):
        store.curves("monda-y")
    with pytest.raises(PlotError, match="No runs to plot"):
        store.curves([])


def test_a_run_without_epochs_is_an_error(tmp_path: Path):
    with provml.record("x", home=tmp_path / "home", strict=True) as run, run.training() as training:
        training.measured(loss=0.5)
    with provml.open_store(tmp_path / "home") as store:
        with pytest.raises(PlotError, match=r"No measures of epochs are recorded .* epoch\.measured"):
            store.curves()
        with pytest.raises(InvalidParameter, match=r"Nothing is recorded by epoch\."):
            store.curves("latest", "loss")


def test_two_trainings_of_a_run_are_two_groups(tmp_path: Path):
    with provml.record("x", home=tmp_path / "home", run="r", strict=True) as run:
        for name in ("first", "second"):
            with run.training(name=name) as training:
                for epoch in training.epochs(2):
                    epoch.measured(loss=1.0)
                    epoch.validation().measured(loss=2.0)
    with provml.open_store(tmp_path / "home") as store:
        (curves,) = store.curves("r", "loss")
    assert [(series.group, series.part) for series in curves.series] == [
        ("r first", "training"),
        ("r first", "validation"),
        ("r second", "training"),
        ("r second", "validation"),
    ]


def test_folds_and_rounds_are_named(tmp_path: Path):
    with provml.record("x", home=tmp_path / "home", run="r", strict=True) as run, run.training() as training:
        for fold in training.folds(3):
            fold.measured(loss=1.0)
    with provml.open_store(tmp_path / "home") as store:
        assert store.curves("r", "loss")[0].x == "fold"


# ---- matplotlib


def test_a_plot_has_lines_marks_and_the_axes_that_are_given(store: Store):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    assert store.plot("monday", "loss", ax=axes) is axes
    assert [line.get_linestyle() for line in axes.lines[:2]] == ["-", "--"]
    assert axes.lines[0].get_color() == axes.lines[1].get_color()
    assert [text.get_text().strip() for text in axes.texts] == ["learning_rate 0.1 → 0.05"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epoch", "loss")


def test_several_measures_have_axes_of_their_own(store: Store):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = list(figure.subplots(2))
    assert store.plot(["monday", "tuesday"], ["loss", "learning_rate"], ax=axes) == axes
    assert axes[1].lines[0].get_drawstyle() == "steps-pre"
    with pytest.raises(PlotError, match=r"2 measures cannot be drawn on 1 axes\. Pass as many axes as measures"):
        store.plot("monday", ["loss", "top"], ax=axes[:1])


def test_new_axes_are_made_without_ax(store: Store):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = store.plot("monday", ["loss", "top"])
    assert [each.get_ylabel() for each in axes] == ["loss", "top"]
    assert axes[0].get_xlabel() == ""
    assert store.plot("monday").get_ylabel() == "loss"
    pyplot.close("all")
