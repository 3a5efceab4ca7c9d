"""Keras with custom optimizers, schedules and losses, and with a `fit` that was interrupted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import Boom, adaptations, ask, measures_by_epoch, models_of, used
from capture.digits import rows

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed; `pip install 'provml[keras]'` and a backend")

from capture.test_keras import fit, network, recorded, small  # noqa: E402  # the backend is chosen before Keras is loaded
from provml.capture.keras import Capture  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("torch"),  # importing PyTorch takes seconds: in one process only
    # variables of Keras on PyTorch convert to arrays as numpy 1 did
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]


# ---- optimizers, schedules and losses


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """A custom schedule without `get_config`, as in many tutorials."""

    def __init__(self, top: float) -> None:
        self.top = top

    def __call__(self, step: Any) -> Any:
        return self.top * keras.ops.minimum(1.0, (keras.ops.cast(step, "float32") + 1) / 20)


def test_a_schedule_that_keras_cannot_save_is_recorded(tmp_path: Path):
    model = small(optimizer=keras.optimizers.SGD(WarmUp(0.2), momentum=0.5))
    with recorded(tmp_path, model=model, epochs=2) as store:
        hyperparameters = used(store)
        expected = {"optimizer": "SGD", "momentum": 0.5}
        expected |= {"learning_rate_schedule": "WarmUp", "learning_rate_schedule.top": 0.2}
        assert expected.items() <= hyperparameters.items()
        assert hyperparameters["learning_rate"] == pytest.approx(0.01)
        assert {row[4] for row in adaptations(store)} == {"WarmUp"}


def test_a_function_as_learning_rate_is_recorded_by_name(tmp_path: Path):
    with recorded(tmp_path, model=small(optimizer=keras.optimizers.SGD(lambda: 0.05)), epochs=2) as store:
        hyperparameters = used(store)  # a warning would be an error
        assert hyperparameters["learning_rate"] == pytest.approx(0.05)
        assert hyperparameters["learning_rate_schedule"] == "<lambda>"
        assert adaptations(store) == []


def test_the_steps_of_a_schedule_are_recorded(tmp_path: Path):
    steps = keras.optimizers.schedules.PiecewiseConstantDecay([10, 20], [0.1, 0.05, 0.01])
    with recorded(tmp_path, model=small(steps), epochs=2) as store:
        hyperparameters = used(store)
        assert hyperparameters["learning_rate_schedule.boundaries"] == "[10, 20]"
        assert hyperparameters["learning_rate_schedule.values"] == "[0.1, 0.05, 0.01]"


def test_the_parameters_of_losses_are_recorded(tmp_path: Path):
    x, y = rows(slice(0, 64))
    inputs = keras.layers.Input((64,))
    outputs = {name: keras.layers.Dense(size, name=name)(inputs) for name, size in (("digit", 10), ("value", 1))}
    model = keras.Model(inputs, outputs)
    losses = {"digit": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "value": keras.losses.Huber(0.5)}
    model.compile("sgd", loss=losses)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit(x, {"digit": y, "value": y}, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        hyperparameters = used(store)
        assert hyperparameters["loss.digit.from_logits"] is True
        assert hyperparameters["loss.value.delta"] == 0.5
        assert "loss.value.reduction" not in hyperparameters


class AdversarialModel(keras.Model):
    """A model with two optimizers as attributes, like a GAN."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.layers.Dense(10, name="generator")
        self.critic = keras.layers.Dense(1, name="critic")

    def compile(self, generator: Any, critic: Any, **more: Any) -> None:
        super().compile(**more)
        self.g_optimizer, self.c_optimizer = generator, critic

    def call(self, x: Any) -> Any:
        return self.critic(self.generator(x))

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y_pred))

    def train_step(self, *args: Any) -> Any:
        return super().train_step(*args)


class LowersCriticRate(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.model.c_optimizer.learning_rate = 0.02


@pytest.mark.parametrize("loss", [None, "mse"])
def test_optimizers_that_are_attributes_of_a_model_are_recorded_by_name(tmp_path: Path, loss: Any):
    model = AdversarialModel()
    model.compile(keras.optimizers.Adam(0.001), keras.optimizers.SGD(0.04, momentum=0.5), loss=loss)
    with recorded(tmp_path, LowersCriticRate(), model=model, epochs=2) as store:
        hyperparameters = used(store)
        expected = {"g_optimizer.learning_rate": 0.001, "c_optimizer.learning_rate": 0.04, "c_optimizer.momentum": 0.5}
        assert expected.items() <= hyperparameters.items()
        if loss is None:  # the default optimizer of Keras is not used
            assert hyperparameters["optimizer"] == "Adam, SGD"
            assert "learning_rate" not in hyperparameters
        else:
            assert hyperparameters["optimizer"] == "RMSprop, Adam, SGD"
            assert hyperparameters["learning_rate"] == 0.001
        assert adaptations(store) == [(2, "c_optimizer.learning_rate", 0.04, 0.02, "by hand")]


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras has no MultiOptimizer")
def test_each_optimizer_of_a_multi_optimizer_has_its_name_and_schedule(tmp_path: Path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    default, other = keras.optimizers.SGD(schedule, name="sgd"), keras.optimizers.SGD(0.3, name="sgd")
    model = network()
    by_layer = keras.optimizers.OptimizerMap(default, {"dense/.*": other})
    model.compile(keras.optimizers.MultiOptimizer(by_layer), loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=2) as store:
        expected = {"optimizer": "SGD, SGD", "sgd.learning_rate": 0.3}
        expected |= {"sgd_2.learning_rate_schedule": "ExponentialDecay"}
        assert expected.items() <= used(store).items()
        assert {row[1:2] + row[4:] for row in adaptations(store)} == {("sgd_2.learning_rate", "ExponentialDecay")}


# ---- backups and checkpoints


class Interrupted(keras.callbacks.Callback):
    """A user's callback that lowers the rate for the second epoch and raises in the third."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.model.optimizer.learning_rate = 0.005
        if epoch == 2:
            raise Boom("in the middle")


@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_training_continues_from_its_backup(tmp_path: Path, first: bool):
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(Boom):
        recorded(tmp_path, backup, Interrupted(), first=first, run="first")
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with recorded(tmp_path, backup, first=first, epochs=4, run="second") as store:
        saved = ask(store, "SELECT ?sha { ?m provlake:sha256 ?sha ; prov:wasGeneratedBy ?e . ?e provml:sectionIndex 2 ."
                   " ?e provml:wasSectionOf/a provml:TrainingExecution }")  # fmt: skip
        continued = ask(store, "SELECT ?sha { ?t a provml:TrainingExecution ; prov:used ?m . ?m a provml:Model ;"
                      " provlake:sha256 ?sha }")  # fmt: skip
        assert continued == saved, "the second training begins with the model of the first"
        assert continued
        rows = ask(store, "SELECT ?run ?e { ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?e ;"
                   " provlake:wasDerivedFromAttribute/rdfs:label 'initial_epoch' BIND(STR(?t) AS ?run) }")  # fmt: skip
        assert [epoch for _, epoch in rows] == [2]
        restored = [(3, "learning_rate", 0.01, 0.005, "BackupAndRestore")] if first else []
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand"), *restored]


def test_a_checkpoint_inside_an_epoch_is_not_the_model_of_the_training(tmp_path: Path):
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "at.keras", save_freq=7)
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fit(model, capture, checkpoint, epochs=1)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path / "home") as store:
        _, initial = models_of(store)
        files = [model for (model,) in ask(store, "SELECT ?m { ?m a provml:Model ; provlake:path ?p }")]
        assert len(files) == 1
        assert initial[1] not in files


def test_files_of_a_backup_are_not_read_with_checkpoints_false(tmp_path: Path):
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with recorded(tmp_path / "home", backup, epochs=2, checkpoints=False) as store:
        assert ask(store, "SELECT ?p { ?m a provml:Model ; provlake:path ?p }") == []


def test_a_change_without_effect_has_a_reason(tmp_path: Path):
    class SetsMomentum(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.momentum = (0.3, 0.7)[epoch]

    model = small(optimizer=keras.optimizers.SGD(0.01, momentum=0.2))
    with recorded(tmp_path, SetsMomentum(), model=model, epochs=2) as store:
        reasons = ask(store, """SELECT ?e ?reason { ?a a provml:AdaptationExecution ; provml:adaptedDuring ?during .
            ?during provml:sectionIndex ?e . OPTIONAL { ?a provml:reason ?reason } } ORDER BY ?e""")  # fmt: skip
    backend = keras.backend.backend()
    reason = None if backend == "torch" else f"{backend} uses the old momentum until the model is compiled again"
    assert reasons == [(1, None), (2, reason)]


# ---- without frame inspection


def test_without_frame_inspection_a_training_with_validation_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROVML_NO_FRAME_INSPECTION", "1")
    lower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.005 if epoch == 1 else rate)
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, lower, epochs=2)
        model.evaluate(*rows(slice(0, 64)), callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        hyperparameters = used(store)
        assert (hyperparameters["optimizer"], hyperparameters["epochs"]) == ("SGD", 2)
        assert "batch_size" not in hyperparameters
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]
        assert len(measures_by_epoch(store, "provml:ValidationEpochExecution")["loss"]) == 2
        assert len(ask(store, "SELECT ?e { ?e a provml:EvaluationExecution ; provml:evaluated ?m }")) == 1


# ---- layers and data


def test_frozen_layers_are_recorded_as_not_trainable(tmp_path: Path):
    model = network()
    model.get_layer("conv").trainable = False
    model.get_layer("head").trainable = False
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, """SELECT ?name ?value { ?l a provml:Layer ; rdfs:label ?name ; provml:hasParameter ?v .
            ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label "trainable" } ORDER BY ?name""")  # fmt: skip
        assert rows == [("conv", False), ("out", False)]


def test_a_data_frame_is_identified_by_its_content(tmp_path: Path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; `pip install 'provml[pandas]'`")
    x, y = rows(slice(0, 64))
    with Capture("digits", home=tmp_path, strict=True) as capture:
        small().fit(pandas.DataFrame(x), pandas.Series(y), callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        names = ask(
            store, "SELECT ?n { ?d a provml:LearningDataset ; provlake:sha256 ?s ; prov:wasDerivedFrom/rdfs:label ?n }"
        )
        assert sorted(names) == [("x",), ("y",)]
