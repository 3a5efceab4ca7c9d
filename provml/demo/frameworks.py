"""The trainings of the demo with a framework, recorded by its capture; only the chosen framework is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from provml.demo import settings
from provml.demo.settings import BATCH, DECAY, EPOCHS, HIDDEN, Images, Setting, TrainingDiverged, check_loss, prepare
from provml.recording.run import record

LOSS = "sparse_categorical_crossentropy"
RATE_FACTOR = 10.0
"""Factor of the learning rate: a framework does one step per batch, the network in plain Python one per image."""
Train = Callable[[Setting, Path], Iterator[str]]


class Demo(NamedTuple):
    """The name of the model, the function that trains a setting, and parameters of questions by question."""

    model: str
    train: Train
    parameters: Mapping[str, Mapping[str, object]]


def choose(framework: str | None) -> Demo:
    """Return the demo with a framework, or in plain Python; raise MissingDependency if it is not installed."""
    if framework is None:
        return Demo(settings.MODEL, settings.train, {})
    if framework == "keras" and "KERAS_BACKEND" not in os.environ and not importlib.util.find_spec("tensorflow"):
        os.environ["KERAS_BACKEND"] = "torch" if importlib.util.find_spec("torch") else "jax"
    importlib.import_module(f"provml.capture.{framework}")
    train: dict[str, Train] = {"keras": train_keras, "torch": train_torch, "sklearn": train_sklearn}
    dropout = {"keras": "rate", "torch": "p", "sklearn": "alpha"}[framework]  # the framework's name for it
    parameters: dict[str, dict[str, object]] = {"q7": {"hyperparameter": dropout}}
    if framework == "sklearn":
        parameters["q4"] = parameters["q6"] = {"hyperparameter": "learning_rate_init"}
        parameters["q7"]["value"] = 0.04
    return Demo(f"digits-{framework}", train[framework], parameters)


def _arrays(images: Images) -> tuple[Any, Any]:
    import numpy as np

    return np.array([image for image, _ in images], dtype="float32"), np.array([digit for _, digit in images])


def train_keras(setting: Setting, home: Path) -> Iterator[str]:
    """Train with Keras: the capture is a callback of `fit` and `evaluate`."""
    import keras

    from provml.capture.keras import Capture

    keras.utils.set_random_seed(3)
    with record("digits", model="digits-keras", home=home, task="classification") as run:
        yield run.id
        data = prepare(run, setting, home / "demo")
        pixels, digits = _arrays(data.training_images)
        layers = keras.layers
        network = keras.Sequential(
            [
                layers.Input((pixels.shape[1],)),
                layers.Dense(HIDDEN, activation="relu"),
                layers.Dropout(setting.dropout),
                layers.Dense(10, activation="softmax"),
            ]
        )
        network.compile(keras.optimizers.SGD(setting.learning_rate * RATE_FACTOR / 2), LOSS, metrics=["accuracy"])

        def decay(epoch: int, rate: float) -> float:  # Keras counts epochs from 0
            return rate / DECAY if epoch == setting.decay_at else rate

        callbacks = [
            keras.callbacks.LearningRateScheduler(decay),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: check_loss(logs["loss"])),
        ]
        capture = Capture(run=run, data={"training": data.training, "test": data.test})
        model_file = home / "demo" / f"{setting.file_name}.keras"
        network.fit(pixels, digits, batch_size=BATCH, epochs=EPOCHS, callbacks=[capture, *callbacks], verbose=0)
        network.save(model_file)
        capture.saved(model_file)
        network.evaluate(*_arrays(data.test_images), callbacks=[capture], verbose=0)
        yield run.id


def train_torch(setting: Setting, home: Path) -> Iterator[str]:
    """Train with PyTorch: the capture gets what the loop uses, and the loop iterates over its epochs and batches."""
    import torch

    from provml.capture.torch import Capture

    torch.manual_seed(3)
    with record("digits", model="digits-torch", home=home, task="classification") as run:
        yield run.id
        data = prepare(run, setting, home / "demo")
        pixels, digits = map(torch.from_numpy, _arrays(data.training_images))
        dataset = torch.utils.data.TensorDataset(pixels, digits)
        loader = torch.utils.data.DataLoader(dataset, batch_size=2 * BATCH, shuffle=True)
        nn = torch.nn
        network = nn.Sequential(
            nn.Linear(pixels.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(setting.dropout), nn.Linear(HIDDEN, 10)
        )
        optimizer = torch.optim.SGD(network.parameters(), lr=setting.learning_rate * RATE_FACTOR)
        milestones = [setting.decay_at] if setting.decay_at else []
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=1 / DECAY)
        loss_function = nn.CrossEntropyLoss()
        capture = Capture(
            "digits",
            network,
            optimizer,
            scheduler=scheduler,
            loss=loss_function,
            data={"training": data.training, "test": data.test},
            run=run,
        )
        for epoch in capture.epochs(EPOCHS):
            total_loss, correct = 0.0, 0
            for inputs, targets in capture.batches(loader):
                optimizer.zero_grad()
                outputs = network(inputs)
                loss = loss_function(outputs, targets)
                loss.backward()
                optimizer.step()
                capture.measured(loss=loss)
                total_loss += loss.item() * len(targets)
                correct += int((outputs.argmax(1) == targets).sum())
            scheduler.step()
            epoch.measured(loss=total_loss / len(dataset), accuracy=correct / len(dataset))
            check_loss(total_loss / len(dataset))
            yield run.id
        model_file = home / "demo" / f"{setting.file_name}.pt"
        torch.save(network.state_dict(), model_file)
        capture.saved(model_file)
        network.eval()
        with capture.evaluation() as evaluation, torch.no_grad():
            inputs, targets = map(torch.from_numpy, _arrays(data.test_images))
            evaluation.measured(accuracy=float((network(inputs).argmax(1) == targets).float().mean()))


def train_sklearn(setting: Setting, home: Path) -> Iterator[str]:
    """Train with scikit-learn, through the capture; its penalty `alpha` is used in place of dropout."""
    from sklearn.neural_network import MLPClassifier

    from provml.capture.sklearn import Capture

    with record("digits", model="digits-sklearn", home=home, task="classification") as run:
        yield run.id
        data = prepare(run, setting, home / "demo")
        network = MLPClassifier(
            (HIDDEN,),
            solver="sgd",
            alpha=setting.dropout / 10,
            batch_size=BATCH,
            learning_rate_init=setting.learning_rate,
            random_state=3,
        )
        model_file = home / "demo" / f"{setting.file_name}.joblib"
        capture = Capture(run=run, data={"training": data.training, "test": data.test}, save_model=model_file)
        pixels, digits = _arrays(data.training_images)
        for epoch in range(EPOCHS):
            if epoch == setting.decay_at:
                network.set_params(learning_rate_init=setting.learning_rate / DECAY)
                vars(network).pop("_optimizer", None)  # the next pass creates one with the new rate
            try:
                capture.partial_fit(network, pixels, digits, classes=range(10))
            except ValueError as error:  # scikit-learn stops by itself
                raise TrainingDiverged(str(error).partition(".")[0]) from error
            check_loss(network.loss_)
            yield run.id
        capture.score(network, *_arrays(data.test_images))
        capture.finish()
        yield run.id
