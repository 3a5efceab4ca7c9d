"""The demo's trainings: six settings of one network, each a run that is recorded with a few lines while it learns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provml.content import Data
from provml.demo import digit
from provml.demo.network import Network
from provml.recorder import Recorder, record

Images = list[tuple[digit.Image, int]]

MODEL = "digits-net"
DECAY = 5.0
EPOCHS, BATCH, HIDDEN = 10, 20, 24
HOPELESS = 10.0
"""A loss that no further epoch mends; guessing by chance gives 2.3."""


@dataclass(frozen=True)
class Trial:
    """One setting: what differs from training to training."""

    name: str
    learning_rate: float
    dropout: float
    filter: str | None
    decay_at: int | None = None

    @property
    def file(self) -> str:
        """What its files are called."""
        return self.name.replace(", ", "-").replace(" ", "-")


TRIALS = (
    Trial("plain", learning_rate=0.05, dropout=0.4, filter=None),
    Trial("gray", learning_rate=0.05, dropout=0.4, filter="gray-scale"),
    Trial("gray, decayed", learning_rate=0.1, dropout=0.2, filter="gray-scale", decay_at=7),
    Trial("contrast", learning_rate=0.05, dropout=0.2, filter="contrast"),
    Trial("contrast, decayed", learning_rate=0.1, dropout=0.1, filter="contrast", decay_at=7),
    Trial("too fast", learning_rate=20.0, dropout=0.2, filter="contrast"),
)


class Hopeless(ArithmeticError):
    """The loss is so high that no further epoch mends it."""


def check(loss: float) -> None:
    """Give a training up where there is no hope."""
    if not loss < HOPELESS:
        raise Hopeless(f"the loss is {loss:.1f}: the learning rate is too high")


def make_data(folder: Path) -> tuple[Path, Path]:
    """The raw files, for training and for testing."""
    folder.mkdir(parents=True, exist_ok=True)
    return (
        digit.write(digit.draw(400, seed=1), folder / "digits.csv"),
        digit.write(digit.draw(100, seed=2), folder / "digits-test.csv"),
    )


def prepare(run: Recorder, trial: Trial, folder: Path) -> tuple[Data, Images, Data, Images]:
    """The images to learn from and those to test with, through the filter of the trial where it has one."""
    raw, unseen = make_data(folder)
    data, tested = run.dataset(raw, name="digits", role="raw"), run.dataset(unseen, name="digits-test", role="test")
    images, seen = digit.read(raw), digit.read(unseen)
    if trial.filter:
        change = digit.FILTERS[trial.filter]
        with run.filter(trial.filter, using=data, colours=digit.COLOURS) as step:
            images = [(change(image), number) for image, number in images]
            seen = [(change(image), number) for image, number in seen]
            data = step.produced(digit.write(images, folder / f"digits-{trial.filter}.csv"), name="filtered digits")
    return data, images, tested, seen


def train(trial: Trial, home: Path) -> Iterator[str]:
    """Train one setting for real, recording it; yields the run's id as it begins and as each epoch ends."""
    folder = home / "demo"
    with record("digits", model=MODEL, home=home, task="classification") as run:
        yield run.id
        data, images, tested, seen = prepare(run, trial, folder)
        network = Network(len(images[0][0]), HIDDEN, trial.dropout, seed=3)
        rate, order = trial.learning_rate, random.Random(4)
        settings: dict[str, Any] = {
            "learning_rate": rate,
            "dropout": trial.dropout,
            "hidden_units": HIDDEN,
            "batch_size": BATCH,
        }
        with run.training(using=data, **settings) as training:
            training.layers(network.layers())
            for epoch in training.epochs(EPOCHS):
                images = order.sample(images, len(images))
                losses, right = 0.0, 0
                for batch in epoch.batches(range(0, len(images), BATCH)):
                    part = images[batch.data : batch.data + BATCH]
                    told = [network.learn(image, number, rate) for image, number in part]
                    batch.measured(loss=sum(loss for loss, _ in told) / len(told))
                    losses += sum(loss for loss, _ in told)
                    right += sum(is_right for _, is_right in told)
                epoch.measured(loss=losses / len(images), accuracy=right / len(images))
                check(losses / len(images))
                if epoch.index == trial.decay_at:
                    rate /= DECAY
                    training.adapted(learning_rate=rate, technique="step decay", why="planned")
                yield run.id
            model = training.produced(network.save(folder / f"{trial.file}.json"))
        with run.evaluation(of=model, using=tested) as test:
            test.measured(accuracy=network.accuracy(seen))
