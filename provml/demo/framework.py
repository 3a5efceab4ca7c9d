"""The demo's trainings with a framework, each recorded by its capture; only what is asked for is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from provml.demo import trial as plain
from provml.demo.trial import BATCH, DECAY, EPOCHS, HIDDEN, Hopeless, Trial, check, prepare
from provml.recorder import record

LOSS = "sparse_categorical_crossentropy"
FASTER = 10.0
"""A batch is one step here; the network in plain Python takes a step an image, and smaller ones"""
Way = Callable[[Trial, Path], Iterator[str]]


def way(framework: str | None) -> tuple[str, Way, dict[str, dict[str, object]]]:
    """The name of the model, how one setting is trained, and what the questions have to be told besides.

    A framework that is not installed is told here, by its capture, before anything is trained.
    """
    if framework is None:
        return plain.MODEL, plain.train, {}
    if framework == "keras" and "KERAS_BACKEND" not in os.environ and not importlib.util.find_spec("tensorflow"):
        os.environ["KERAS_BACKEND"] = "torch" if importlib.util.find_spec("torch") else "jax"
    importlib.import_module(f"provml.capture.{framework}")
    ways: dict[str, Way] = {"keras": train_keras, "torch": train_torch, "sklearn": train_sklearn}
    dropout = {"keras": "rate", "torch": "p", "sklearn": "alpha"}[framework]  # what a framework calls it
    told: dict[str, dict[str, object]] = {"q7": {"hyperparameter": dropout}}
    if framework == "sklearn":
        told["q4"] = told["q6"] = {"hyperparameter": "learning_rate_init"}
        told["q7"]["value"] = 0.04
    return f"digits-{framework}", ways[framework], told


def _arrays(images: plain.Images) -> tuple[Any, Any]:
    import numpy as np

    return np.array([image for image, _ in images], dtype="float32"), np.array([number for _, number in images])


def train_keras(trial: Trial, home: Path) -> Iterator[str]:
    """By Keras: two lines make the capture and hand it to `fit`."""
    import keras

    from provml.capture.keras import Capture

    keras.utils.set_random_seed(3)
    with record("digits", model="digits-keras", home=home, task="classification") as run:
        yield run.id
        data, images, tested, seen = prepare(run, trial, home / "demo")
        pixels, numbers = _arrays(images)
        layers = keras.layers
        network = keras.Sequential(
            [
                layers.Input((pixels.shape[1],)),
                layers.Dense(HIDDEN, activation="relu"),
                layers.Dropout(trial.dropout),
                layers.Dense(10, activation="softmax"),
            ]
        )
        network.compile(keras.optimizers.SGD(trial.learning_rate * FASTER / 2), LOSS, metrics=["accuracy"])

        def rate(epoch: int, now: float) -> float:  # Keras counts epochs from 0
            return now / DECAY if epoch == trial.decay_at else now

        callbacks = [
            keras.callbacks.LearningRateScheduler(rate),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: check(logs["loss"])),
        ]
        capture = Capture(run=run, data={"training": data, "test": tested})
        saved = home / "demo" / f"{trial.file}.keras"
        network.fit(pixels, numbers, batch_size=BATCH, epochs=EPOCHS, callbacks=[capture, *callbacks], verbose=0)
        network.save(saved)
        capture.saved(saved)
        network.evaluate(*_arrays(seen), callbacks=[capture], verbose=0)
        yield run.id


def train_torch(trial: Trial, home: Path) -> Iterator[str]:
    """By PyTorch: the capture is handed what the loop uses, and gives the loop its epochs and batches."""
    import torch

    from provml.capture.torch import Capture

    torch.manual_seed(3)
    with record("digits", model="digits-torch", home=home, task="classification") as run:
        yield run.id
        data, images, tested, seen = prepare(run, trial, home / "demo")
        pixels, numbers = map(torch.from_numpy, _arrays(images))
        pairs = torch.utils.data.TensorDataset(pixels, numbers)
        loader = torch.utils.data.DataLoader(pairs, batch_size=2 * BATCH, shuffle=True)
        nn = torch.nn
        network = nn.Sequential(
            nn.Linear(pixels.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(trial.dropout), nn.Linear(HIDDEN, 10)
        )
        optimizer = torch.optim.SGD(network.parameters(), lr=trial.learning_rate * FASTER)
        at = [trial.decay_at] if trial.decay_at else []
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, at, gamma=1 / DECAY)
        loss_of = nn.CrossEntropyLoss()
        said = {"scheduler": scheduler, "loss": loss_of, "data": {"training": data, "test": tested}, "run": run}
        capture = Capture("digits", network, optimizer, **said)
        for epoch in capture.epochs(EPOCHS):
            losses, right = 0.0, 0
            for shown, wanted in capture.batches(loader):
                optimizer.zero_grad()
                guess = network(shown)
                loss = loss_of(guess, wanted)
                loss.backward()
                optimizer.step()
                capture.measured(loss=loss)
                losses += loss.item() * len(wanted)
                right += int((guess.argmax(1) == wanted).sum())
            scheduler.step()
            epoch.measured(loss=losses / len(pairs), accuracy=right / len(pairs))
            check(losses / len(pairs))
            yield run.id
        saved = home / "demo" / f"{trial.file}.pt"
        torch.save(network.state_dict(), saved)
        capture.saved(saved)
        network.eval()
        with capture.evaluation() as test, torch.no_grad():
            shown, wanted = map(torch.from_numpy, _arrays(seen))
            test.measured(accuracy=float((network(shown).argmax(1) == wanted).float().mean()))


def train_sklearn(trial: Trial, home: Path) -> Iterator[str]:
    """By scikit-learn: passes and a score through the capture. It has no dropout: the penalty alpha stands in."""
    from sklearn.neural_network import MLPClassifier

    from provml.capture.sklearn import Capture

    with record("digits", model="digits-sklearn", home=home, task="classification") as run:
        yield run.id
        data, images, tested, seen = prepare(run, trial, home / "demo")
        network = MLPClassifier(
            (HIDDEN,),
            solver="sgd",
            alpha=trial.dropout / 10,
            batch_size=BATCH,
            learning_rate_init=trial.learning_rate,
            random_state=3,
        )
        saved = home / "demo" / f"{trial.file}.joblib"
        capture = Capture(run=run, data={"training": data, "test": tested}, save_model=saved)
        pixels, numbers = _arrays(images)
        for epoch in range(EPOCHS):
            if epoch == trial.decay_at:
                network.set_params(learning_rate_init=trial.learning_rate / DECAY)
                vars(network).pop("_optimizer", None)  # the next pass makes one with the new rate
            try:
                capture.partial_fit(network, pixels, numbers, classes=range(10))
            except ValueError as error:  # scikit-learn gives up by itself
                raise Hopeless(str(error).partition(".")[0]) from error
            check(network.loss_)
            yield run.id
        capture.score(network, *_arrays(seen))
        capture.finish()
        yield run.id
