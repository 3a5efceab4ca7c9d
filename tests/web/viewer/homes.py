"""Homes that the tests of the viewer look at: two compared trainings, hostile names, and a run with many batches."""

from __future__ import annotations

from pathlib import Path

import provml

MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
CONTROL = "\u202eevil\u202c \x1b[31mred\x07"
LONG = "L" * 10_000


def record_flowers(home: Path) -> None:
    """Record two trainings that differ in a hyperparameter and in the filter of their data, and a failed one."""
    for name, rate, gray in (("monday", 0.1, False), ("tuesday", 0.2, True)):
        with provml.record("flowers", model="net", home=home, run=name, by="alice", study="petals") as run:
            data = run.dataset(b"raw images", name="images", role="raw")
            if gray:
                with run.filter("gray-scale", using=data, colours=2) as step:
                    data = step.produced(b"gray images", name="gray images")
            test_data = run.dataset(b"test images", name="test images", role="test")
            with run.training(using=data, learning_rate=rate, optimizer="Adam", epochs=6) as training:
                training.layers([{"name": "hidden", "type": "Dense", "units": 24, "parameter_count": 100}])
                for epoch in training.epochs(6):
                    for batch in epoch.batches(range(5)):
                        batch.measured(loss=1.0 / (epoch.index + batch.index))
                    epoch.measured(loss=rate * 5 / epoch.index, accuracy=0.5 + epoch.index / 20)
                    epoch.measured(val_loss=rate * 6 / epoch.index)
                    if epoch.index == 3 and gray:
                        training.adapted(learning_rate=0.05, technique="step decay", reason="plateau")
                model = training.produced(f"weights of {name}".encode(), keep=True)
            with run.evaluation(of=model, using=test_data) as test:
                test.measured(accuracy=0.9 if gray else 0.8)
    try:
        with (
            provml.record("flowers", model="net", home=home, run="wednesday", capture_environment=False) as run,
            run.training(learning_rate=9.0, optimizer="SGD") as training,
        ):
            for epoch in training.epochs(2):
                epoch.measured(loss=float("nan"))
            raise ArithmeticError("diverged")
    except ArithmeticError:
        pass


def record_hostile(home: Path) -> None:
    """Record runs whose names, settings, measures and data have markup, control characters and great length."""
    for number, (name, model) in enumerate(((MARKUP, MARKUP), (CONTROL, LONG), (LONG, CONTROL)), 1):
        with provml.record(
            name, model=model, home=home, run=f"h{number}", capture_environment=False, by=MARKUP, study=MARKUP
        ) as run:
            data = run.dataset(f"data {number}".encode(), name=MARKUP + CONTROL, role="training")
            with run.filter(MARKUP, using=data, **{"a b": MARKUP}) as step:
                data = step.produced(f"made {number}".encode(), name=LONG)
            with run.training(using=data, **{MARKUP: MARKUP, "long": LONG, "learning_rate": 0.1 * number}) as training:
                training.layers([{"name": MARKUP, "type": LONG, "units": 3}])
                for epoch in training.epochs(3):
                    epoch.measured(**{"loss": 1.0 / (epoch.index + number), MARKUP: float(epoch.index)})
                    if epoch.index == 2:
                        training.adapted(learning_rate=0.01, technique=MARKUP, reason=LONG)
                model_data = training.produced(f"model {number}".encode())
            with run.evaluation(of=model_data) as test:
                test.measured(**{MARKUP: 0.3, "accuracy": 0.5})
            run.tag(MARKUP[:80])
            run.note(LONG[:2000] + MARKUP)


def record_long(home: Path, epochs: int = 300, batches: int = 200) -> None:
    """Record a training with many epochs and batches."""
    with (
        provml.record("long", model="net", home=home, run="long", capture_environment=False) as run,
        run.training(learning_rate=0.1, epochs=epochs) as training,
    ):
        for epoch in training.epochs(epochs):
            for batch in epoch.batches(range(batches)):
                batch.measured(loss=1.0 / (epoch.index + batch.index))
            epoch.measured(loss=1.0 / epoch.index, accuracy=1.0 - 1.0 / (epoch.index + 1))


def record_many(home: Path, runs: int = 2000) -> None:
    """Record many small runs: a sweep over two hyperparameters on the same data, with a model and its evaluation."""
    for number in range(runs):
        rate, optimizer = (0.1, 0.01, 0.001)[number % 3], ("Adam", "SGD")[number % 2]
        with provml.record("sweep", model="net", home=home, run=f"s{number:04}", capture_environment=False) as run:
            data = run.dataset(b"training data", name="images", role="training")
            test_data = run.dataset(b"test data", name="test images", role="test")
            with run.training(using=data, learning_rate=rate, optimizer=optimizer) as training:
                for epoch in training.epochs(3):
                    epoch.measured(loss=rate * (1 + number % 7) / epoch.index)
                model = training.produced(f"weights {number}".encode())
            with run.evaluation(of=model, using=test_data) as test:
                test.measured(accuracy=0.5 + number % 50 / 100)
