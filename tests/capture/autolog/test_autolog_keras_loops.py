"""Autolog of loops of the user with Keras: `train_on_batch`, `test_on_batch`, and `apply` of an optimizer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

import provml
from capture.autolog.contracts import AutologContract, autologging
from capture.contract import Boom, CaptureContract, Expected, ask, measures_by_epoch, used
from capture.digits import digits
from provml.recording.run import Run

pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    pytest.mark.filterwarnings("ignore"),  # of Keras, about small models
]
DIGITS = digits()
ROWS = [slice(start, start + 40) for start in range(0, 200, 40)]


def small(name: str = "student", rate: float = 0.01) -> Any:
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(12, activation="relu", name="body"), keras.layers.Dense(10, name="head")]
    model = keras.Sequential([keras.layers.Input((64,)), *layers], name=name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss=loss, metrics=["accuracy"])
    return model


def weights(model: Any) -> bytes:
    return b"".join(np.asarray(item).tobytes() for item in model.get_weights())


class Loop(CaptureContract):
    """A loop around `train_on_batch`, which no capture records."""

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        model, (x, y) = small(), DIGITS["training"]
        measures: dict[str, list[float]] = {"loss": [], "accuracy": []}
        validation: dict[str, list[float]] = {"loss": [], "accuracy": []}
        for epoch in range(3):
            if epoch == 2:
                model.optimizer.learning_rate = 0.004
            results = []
            for rows in ROWS:
                results.append(model.train_on_batch(x[rows], y[rows]))
                if fails and epoch == 1:
                    raise Boom("in the middle")
            tested = model.test_on_batch(x[200:260], y[200:260], return_dict=True)
            for number, name in enumerate(("loss", "accuracy")):
                measures[name].append(float(np.mean([result[number] for result in results])))
                validation[name].append(tested[name])
        result = model.evaluate(*DIGITS["test"], return_dict=True, verbose=0)
        model.save(folder / "digits.keras")
        return Expected(
            result=weights(model),
            hyperparameters={
                "optimizer": "Adam", "learning_rate": 0.01, "beta_1": 0.9, "batch_size": 40, "num_layers": 2,
                "loss": "sparse_categorical_crossentropy", "loss.from_logits": True,
            },
            measures=measures,
            validation=validation,
            adaptations=[(3, "learning_rate", 0.01, 0.004, "by hand")],
            layers=[("body", "Dense"), ("head", "Dense")],
            evaluation=result,
            model=folder / "digits.keras",
        )  # fmt: skip


class TestTrainOnBatch(AutologContract):
    software = "keras"
    explicit = Loop


def test_the_steps_of_an_optimizer_are_recorded_with_the_losses_and_passes_of_pytorch(isolated_home: Path):
    import torch

    model, optimizer = small(), keras.optimizers.SGD(0.1)
    x, y = (torch.tensor(array[:120]) for array in DIGITS["training"])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x.float(), y), batch_size=40)
    losses: list[float] = []
    with autologging(name="digits", strict=True):
        for _ in range(2):
            for images, labels in loader:
                loss = model.loss(labels, model(images, training=True))
                model.zero_grad()
                loss.backward()
                variables = model.trainable_variables
                with torch.no_grad():
                    optimizer.apply([item.value.grad for item in variables], variables)
                losses.append(loss.item())
    with provml.open(isolated_home / ".provml") as store:
        (run,) = store.runs()
        assert (run.status, used(store)["optimizer"], used(store)["learning_rate"]) == ("FINISHED", "SGD", 0.1)
        assert used(store)["batch_size"] == 40
        means = [float(np.mean(losses[:3])), float(np.mean(losses[3:]))]
        assert measures_by_epoch(store, "provml:TrainingEpochExecution")["loss"] == pytest.approx(means)
        rules = ask(store, "SELECT ?r { ?e a provml:TrainingEpochExecution ; provml:recognizedBy ?r }")
        assert rules == [("pass over the training loader",)] * 2
        assert ask(store, "SELECT ?t { ?l provml:layerType ?t }") == [("Dense",), ("Dense",)]


def test_two_models_that_take_turns_are_one_training(isolated_home: Path, tmp_path: Path):
    x = DIGITS["training"][0][:16]
    judge = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(1)], name="judge")
    judge.compile(keras.optimizers.SGD(0.1), loss="mse")
    forger = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(64)], name="forger")
    both = keras.Sequential([forger, judge], name="both")
    both.compile(keras.optimizers.SGD(0.2), loss="mse")
    noise = np.random.default_rng(1).random((16, 4))
    with autologging(name="digits", strict=True):
        judged, fooled = [], []
        for _ in range(4):
            judged.append(judge.train_on_batch(x, np.ones((16, 1))))
            fooled.append(both.train_on_batch(noise, np.ones((16, 1))))
        forger.save(tmp_path / "forger.keras")
    with provml.open(isolated_home / ".provml") as store:
        (run,) = store.runs()
        assert run.status == "FINISHED"
        rates = {name: value for name, value in used(store).items() if name.endswith(".learning_rate")}
        assert rates == {"judge.learning_rate": 0.1, "both.learning_rate": 0.2}
        losses = """SELECT ?name (AVG(?value) AS ?mean) { ?batch provml:wasSectionOf/provml:wasSectionOf ?training .
            ?v prov:wasGeneratedBy ?batch ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name }
            GROUP BY ?name ORDER BY ?name"""
        assert ask(store, losses) == [
            ("both.loss", pytest.approx(np.mean(fooled))),
            ("judge.loss", pytest.approx(np.mean(judged))),
        ]
        models = """SELECT ?n { ?t a provml:TrainingExecution . ?m prov:wasGeneratedBy ?t ;
            provlake:wasDerivedFromAttribute/rdfs:label ?n }"""
        assert ("forger",) in ask(store, models)


def test_a_loop_before_and_after_fit_is_another_training_of_the_same_model(isolated_home: Path):
    x, y = (array[:40] for array in DIGITS["training"])
    model = small()
    with autologging(name="digits", strict=True):
        model.train_on_batch(x, y)
        model.fit(x, y, epochs=1, verbose=0)
        model.train_on_batch(x, y)
    with provml.open(isolated_home / ".provml") as store:
        trainings = ask(store, "SELECT ?t { ?t a provml:TrainingExecution } ORDER BY ?t")
        continued = """SELECT DISTINCT ?b { ?a a provml:TrainingExecution . ?b a provml:TrainingExecution ;
            prov:used/prov:wasGeneratedBy/prov:wasInformedBy? ?a FILTER(?a != ?b) } ORDER BY ?b"""
        assert len(trainings) == 3
        assert ask(store, continued) == trainings[1:]


def test_a_step_of_fit_is_not_a_loop(isolated_home: Path):
    """A training step of the user inside `fit` calls the optimizer, too."""
    x, y = (array[:40] for array in DIGITS["training"])
    with autologging(name="digits", strict=True):
        small().fit(x, y, epochs=2, verbose=0)
        small().predict(x, verbose=0)
    with provml.open(isolated_home / ".provml") as store:
        assert len(ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")) == 1


def test_a_step_that_raises_begins_nothing(isolated_home: Path):
    x, y = (array[:40] for array in DIGITS["training"])
    with autologging(name="digits", strict=True), pytest.raises(ValueError, match="expected"):
        small().train_on_batch(x[:, :3], y)
    assert not (isolated_home / ".provml").exists()


def test_a_fit_that_an_exception_left_says_why_although_the_script_caught_it(isolated_home: Path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                raise KeyboardInterrupt

    x, y = (array[:80] for array in DIGITS["training"])
    model = small()
    with autologging(name="digits", strict=True):
        with pytest.raises(KeyboardInterrupt):
            model.fit(x, y, epochs=5, batch_size=40, callbacks=[Stop()], verbose=0)
        model.evaluate(x, y, verbose=0)
    with provml.open(isolated_home / ".provml") as store:
        for kind in ("TrainingExecution", "TrainingEpochExecution"):
            assert ask(store, f"SELECT ?s {{ ?t a provml:{kind} ; provlake:status ?s }}") == [("INTERRUPTED",)]
        assert used(store)["epochs"] == 5


def test_a_file_is_one_of_the_model_that_was_saved_and_not_of_the_last_one(isolated_home: Path, tmp_path: Path):
    x, y = (array[:40] for array in DIGITS["training"])
    models = {name: small(name) for name in ("teacher", "pupil")}
    checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"))
    with autologging(name="digits", strict=True):
        for model in models.values():
            model.fit(x, y, verbose=0, callbacks=[checkpoint] if model.name == "teacher" else [])
        for name, model in models.items():
            model.save(tmp_path / f"{name}.keras")
    (journal,) = (isolated_home / ".provml").glob("runs/*/main.jsonl")
    lines = map(json.loads, journal.read_text().splitlines())
    names = {Path(line["path"]).name: line["name"] for line in lines if line["e"] == "data" and line.get("path")}
    assert names == {"best.keras": "teacher", "teacher.keras": "teacher", "pupil.keras": "pupil"}
