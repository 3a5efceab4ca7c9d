"""The trainings of the demo: six settings of one network, each trained and recorded as a run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from provml.demo import digits
from provml.demo.network import Network
from provml.recording.data import Data
from provml.recording.run import Run, record

Images = list[tuple[digits.Image, int]]

MODEL = "digits-net"
DECAY = 5.0
EPOCHS, BATCH, HIDDEN = 10, 20, 24
MAX_LOSS = 10.0
"""A training with a higher loss is stopped; random guessing has a loss of 2.3."""


@dataclass(frozen=True)
class Setting:
    """The hyperparameters and the filter of one training; `decay_at` is the epoch after which the rate is lowered."""

    name: str
    learning_rate: float
    dropout: float
    filter: str | None
    decay_at: int | None = None

    @property
    def file_name(self) -> str:
        """Name of its files, without an extension."""
        return self.name.replace(", ", "-").replace(" ", "-")


SETTINGS = (
    Setting("plain", learning_rate=0.05, dropout=0.4, filter=None),
    Setting("gray", learning_rate=0.05, dropout=0.4, filter="gray-scale"),
    Setting("gray, decayed", learning_rate=0.1, dropout=0.2, filter="gray-scale", decay_at=7),
    Setting("contrast", learning_rate=0.05, dropout=0.2, filter="contrast"),
    Setting("contrast, decayed", learning_rate=0.1, dropout=0.1, filter="contrast", decay_at=7),
    Setting("too fast", learning_rate=20.0, dropout=0.2, filter="contrast"),
)


class TrainingDiverged(ArithmeticError):
    """The loss is so high that further epochs are useless."""


def check_loss(loss: float) -> None:
    """Raise TrainingDiverged if the loss is too high."""
    if not loss < MAX_LOSS:
        raise TrainingDiverged(f"the loss is {loss:.1f}: the learning rate is too high")


def write_data(folder: Path) -> tuple[Path, Path]:
    """Write the raw data and return the files for training and for testing."""
    folder.mkdir(parents=True, exist_ok=True)
    return (
        digits.write(digits.draw(400, seed=1), folder / "digits.csv"),
        digits.write(digits.draw(100, seed=2), folder / "digits-test.csv"),
    )


class PreparedData(NamedTuple):
    """Training and test data: the recorded datasets and their images."""

    training: Data
    training_images: Images
    test: Data
    test_images: Images


def prepare(run: Run, setting: Setting, folder: Path) -> PreparedData:
    """Write and record the data, with the filter of the setting if it has one."""
    training_file, test_file = write_data(folder)
    training = run.dataset(training_file, name="digits", role="raw")
    test = run.dataset(test_file, name="digits-test", role="test")
    training_images, test_images = digits.read(training_file), digits.read(test_file)
    if setting.filter:
        apply_filter = digits.FILTERS[setting.filter]
        with run.filter(setting.filter, using=training, colours=digits.COLOURS) as step:
            training_images = [(apply_filter(image), digit) for image, digit in training_images]
            test_images = [(apply_filter(image), digit) for image, digit in test_images]
            filtered_file = digits.write(training_images, folder / f"digits-{setting.filter}.csv")
            training = step.produced(filtered_file, name="filtered digits")
    return PreparedData(training, training_images, test, test_images)


def train(setting: Setting, home: Path) -> Iterator[str]:
    """Train one setting and record it; yield the run's id at the start of the run and at the end of each epoch."""
    folder = home / "demo"
    with record("digits", model=MODEL, home=home, task="classification") as run:
        yield run.id
        data = prepare(run, setting, folder)
        images = data.training_images
        network = Network(len(images[0][0]), HIDDEN, setting.dropout, seed=3)
        rate, rng = setting.learning_rate, random.Random(4)
        hyperparameters: dict[str, Any] = {
            "learning_rate": rate,
            "dropout": setting.dropout,
            "hidden_units": HIDDEN,
            "batch_size": BATCH,
        }
        with run.training(using=data.training, **hyperparameters) as training:
            training.layers(network.layers())
            for epoch in training.epochs(EPOCHS):
                images = rng.sample(images, len(images))
                total_loss, correct = 0.0, 0
                for batch in epoch.batches(range(0, len(images), BATCH)):
                    batch_images = images[batch.data : batch.data + BATCH]
                    results = [network.learn(image, digit, rate) for image, digit in batch_images]
                    batch_loss = sum(loss for loss, _ in results)
                    batch.measured(loss=batch_loss / len(results))
                    total_loss += batch_loss
                    correct += sum(is_correct for _, is_correct in results)
                epoch.measured(loss=total_loss / len(images), accuracy=correct / len(images))
                check_loss(total_loss / len(images))
                if epoch.index == setting.decay_at:
                    rate /= DECAY
                    training.adapted(learning_rate=rate, technique="step decay", reason="planned")
                yield run.id
            model = training.produced(network.save(folder / f"{setting.file_name}.json"))
        with run.evaluation(of=model, using=data.test) as evaluation:
            evaluation.measured(accuracy=network.accuracy(data.test_images))
