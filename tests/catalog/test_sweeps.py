"""Questions about the best training on sweeps: a parent run and its children are not counted twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from provml.recording.run import Run

RATES = (0.1, 0.3, 0.2)
"""The accuracy of each trial is its learning rate."""


def sweep(home: Path, *, save: bool, after: Callable[[Run, Any, Path], None] | None = None) -> None:
    """Record a parent run with a child for each rate; `after` gets the parent, the best model and its file."""
    with provml.record("flowers", model="net", home=home, strict=True, capture_environment=False) as run:
        data = run.dataset(b"train", name="train", role="training")
        test_data = run.dataset(b"test", name="test", role="test")
        best, best_file = None, home
        for rate in RATES:
            with run.child(f"rate {rate}", run=f"trial-{rate}") as trial:
                with trial.filter(f"blur {rate}", using=data) as step:
                    filtered = step.produced(f"filtered {rate}".encode(), role="training")
                with trial.training(using=filtered, learning_rate=rate) as training:
                    for epoch in training.epochs(2):
                        epoch.measured(loss=1 / epoch.index)
                        if epoch.index == 1:
                            training.adapted(learning_rate=rate / 2, technique="step decay")
                    file = home.parent / f"{rate}.pt"
                    file.write_text(f"weights {rate}")
                    model = training.produced(file if save else None)
                with trial.evaluation(of=model, using=test_data) as test:
                    test.measured(accuracy=rate)
            if rate == max(RATES):
                best, best_file = model, file
        if after is not None:
            after(run, best, best_file)


def repeat_by_model(run: Run, best: Any, file: Path) -> None:
    with run.evaluation(of=best) as test:
        test.measured(accuracy=max(RATES))


def repeat_by_file(run: Run, best: Any, file: Path) -> None:
    with run.evaluation(of=run._register_data("model", file, name="net")) as test:
        test.measured(accuracy=max(RATES))


def repeat_without_model(run: Run, best: Any, file: Path) -> None:
    with run.evaluation() as test:
        test.measured(accuracy=max(RATES))


def summarize_in_a_stage(run: Run, best: Any, file: Path) -> None:
    """Record what sweeps often record: the mean of the trials."""
    with run.evaluation() as test:
        test.measured(accuracy=sum(RATES) / len(RATES))


def trainings(store: Any, question: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """Return the rows of an answer with the trial in place of the training."""
    rows = store.ask(question, model="net", **parameters).rows
    return [(row[0].removesuffix("/training").rpartition("/")[2], *row[1:]) for row in rows]


AFTER = [None, repeat_by_model, repeat_without_model, summarize_in_a_stage]
CASES = [(after, save) for after in AFTER for save in (True, False)]


@pytest.mark.parametrize(("after", "save"), [*CASES, (repeat_by_file, True)])
def test_a_parent_that_repeats_the_evaluation_of_its_child_changes_no_answer(tmp_path: Path, after: Any, save: bool):
    sweep(tmp_path / "home", save=save, after=after)
    with provml.open(tmp_path / "home") as store:
        assert store.problems == []
        assert trainings(store, "q4") == [("trial-0.3", 0.3, 0.3)]
        assert trainings(store, "q5") == [
            (f"trial-{rate}", rate, f"learning_rate={rate}") for rate in sorted(RATES, reverse=True)
        ]
        assert [row[:2] for row in trainings(store, "q5", top=2)] == [("trial-0.3", 0.3), ("trial-0.2", 0.2)]
        assert trainings(store, "q6") == [("trial-0.3", 0.3, 1, 0.3, 0.15, "step decay")]
        assert trainings(store, "q8") == [("trial-0.3", "blur 0.3", 0.3, 2), ("trial-0.1", "blur 0.1", 0.1, 2)]


def test_a_parent_that_trains_the_final_model_itself_counts_as_a_training_of_its_own(tmp_path: Path):
    def refit(run: Run, best: Any, file: Path) -> None:
        with run.training(learning_rate=0.3) as training:
            model = training.produced(None)
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.4)

    sweep(tmp_path / "home", save=True, after=refit)
    with provml.open(tmp_path / "home") as store:
        parent = next(info.id for info in store.runs() if not info.parent)
        assert [row[:2] for row in trainings(store, "q5", top=10)] == [
            (parent, 0.4),
            *((f"trial-{rate}", rate) for rate in sorted(RATES, reverse=True)),
        ]
        assert trainings(store, "q4") == [(parent, 0.3, 0.4)]
