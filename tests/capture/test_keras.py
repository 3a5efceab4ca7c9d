"""Keras 3: real trainings and evaluations.

The backend is PyTorch unless KERAS_BACKEND is jax or tensorflow. The tests are the same for all backends.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import (
    Boom,
    CaptureContract,
    EvaluationContract,
    Expected,
    adaptations,
    ask,
    datasets_used_by,
    evaluated_models,
    measures_by_epoch,
    models_of,
    used,
)
from capture.digits import digits, rows
from provml.recording.run import Run

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed; `pip install 'provml[keras]'` and a backend")

from provml.capture._layers import keras_layers  # noqa: E402
from provml.capture.keras import Capture  # noqa: E402  # the backend is chosen before Keras is loaded

pytestmark = [
    pytest.mark.xdist_group("torch"),  # importing PyTorch takes seconds: in one process only
    # variables of Keras on PyTorch convert to arrays as numpy 1 did
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]
DIGITS = digits()


def network(*, rate: Any = 0.01, metrics: tuple[str, ...] = ("accuracy",)) -> Any:
    keras.utils.set_random_seed(7)
    head = keras.Sequential(
        [
            keras.layers.Input((16,)),
            keras.layers.Dropout(0.1, name="drop", seed=3),
            keras.layers.Dense(10, activation="softmax", name="out"),
        ],
        name="head",
    )
    inputs = keras.layers.Input((64,), name="image")
    features = keras.layers.Reshape((8, 8, 1), name="square")(inputs)
    features = keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", name="conv")(features)
    features = keras.layers.Flatten(name="flat")(features)
    regularizer = keras.regularizers.L2(0.001)
    features = keras.layers.Dense(16, activation="relu", kernel_regularizer=regularizer, name="dense")(features)
    model = keras.Model(inputs, head(features), name="digits")
    optimizer = keras.optimizers.Adam(rate, beta_1=0.8)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=list(metrics))
    return model


def weights(model: Any) -> bytes:
    return b"".join(array.tobytes() for array in model.get_weights())


class RaisesInEpoch(keras.callbacks.Callback):
    """A user's callback that raises in the third batch of an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.current == self.epoch and batch == 2:
            raise Boom("in the middle")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current = epoch + 1


def fit(model: Any, *callbacks: Any, epochs: int = 3, **more: Any) -> Any:
    arguments = {"validation_data": DIGITS["validation"], "batch_size": 48, "verbose": 0} | more
    return model.fit(*DIGITS["training"], epochs=epochs, callbacks=list(callbacks), **arguments)


class TestKeras(CaptureContract):
    software = "keras"

    @classmethod
    def train(cls, run: Run | None, folder: Path, *, fails: bool = False) -> Expected:
        model = network()
        capture = [Capture(run=run, save_model=folder / "digits.keras")] if run is not None else []
        lower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.004 if epoch == 2 else rate)
        history = fit(model, *capture, lower, *[RaisesInEpoch(2)] * fails, epochs=4).history
        if not capture:
            model.save(folder / "digits.keras")
        result = model.evaluate(*DIGITS["test"], callbacks=capture, return_dict=True, verbose=0)
        return Expected(
            result=weights(model),
            hyperparameters={
                "optimizer": "Adam", "learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.999, "epsilon": 1e-7,
                "amsgrad": False, "epochs": 4, "batch_size": 48, "loss": "sparse_categorical_crossentropy",
                "steps_per_epoch": 10, "num_layers": 8,
            },
            measures={name: history[name] for name in ("loss", "accuracy")},
            validation={name: history[f"val_{name}"] for name in ("loss", "accuracy")},
            adaptations=[(3, "learning_rate", 0.01, 0.004, "LearningRateScheduler")],
            layers=[
                ("image", "InputLayer"), ("square", "Reshape"), ("conv", "Conv2D"), ("flat", "Flatten"),
                ("dense", "Dense"), ("head", "Sequential"), ("drop", "Dropout"), ("out", "Dense"),
            ],
            evaluation=result,
            model=folder / "digits.keras",
        )  # fmt: skip


class TestSeveralTrainings(EvaluationContract):
    @classmethod
    def capture(cls, **settings: Any) -> Any:
        return Capture("digits", **settings)

    @classmethod
    def train_on(cls, capture: Any, folder: Path, some: slice, model: Any = None) -> Any:
        model = model or small()
        x, y = rows(some)
        model.fit(x, y, validation_data=(x[:20], y[:20]), epochs=1, callbacks=[capture], verbose=0)
        return model

    @classmethod
    def evaluate_on(cls, capture: Any, folder: Path, some: slice, model: Any) -> None:
        model.evaluate(*rows(some), callbacks=[capture], verbose=0)


# ---- adaptations


def small(rate: Any = 0.01, optimizer: Any = None) -> Any:
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")], name="small")
    model.compile(optimizer or keras.optimizers.SGD(rate), loss="sparse_categorical_crossentropy")
    return model


def recorded(home: Path, *others: Any, model: Any = None, first: bool = True, epochs: int = 3, **settings: Any) -> Any:
    """Return the store after a training with other callbacks, of which the capture is the first or the last."""
    with Capture("digits", home=home, strict=True, **settings) as capture:
        callbacks = (capture, *others) if first else (*others, capture)
        fit(model or small(), *callbacks, epochs=epochs)
    return provml.open(home)


@pytest.mark.parametrize("first", [True, False])
def test_a_plateau_and_a_scheduler_are_distinguished_at_any_position_of_the_capture(tmp_path: Path, first: bool):
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=100.0)
    warm_up = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, warm_up, first=first, epochs=4) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.02, "LearningRateScheduler"),
            (3, "learning_rate", 0.02, 0.002, "ReduceLROnPlateau"),
            (4, "learning_rate", 0.002, 0.0002, "ReduceLROnPlateau"),
        ], "nothing was learned with the rate that was set after the last epoch"
        rows = ask(store, """SELECT ?e ?r { ?s a provml:TrainingEpochExecution ; provml:sectionIndex ?e ;
            provml:hyperparameterInForce ?h . ?h prov:value ?r ; prov:wasDerivedFrom/rdfs:label "learning_rate" }
            ORDER BY ?e""")  # fmt: skip
        assert rows == [(1, 0.01), (2, 0.02), (3, 0.002), (4, 0.0002)]


def test_a_scheduler_that_changes_nothing_is_no_adaptation(tmp_path: Path):
    constant = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    with recorded(tmp_path, constant, model=small(0.1)) as store:
        assert adaptations(store) == []


@pytest.mark.parametrize("watch", ["epoch", "batch"])
def test_changes_of_a_schedule_are_recorded_once_per_epoch_or_with_every_batch(tmp_path: Path, watch: str):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    with recorded(tmp_path, model=small(schedule), epochs=2, watch=watch) as store:
        changes = adaptations(store)
        assert {row[4] for row in changes} == {"ExponentialDecay"}
        if watch == "epoch":
            assert [row[:4] for row in changes] == [
                (2, "learning_rate", 0.1, pytest.approx(0.05)),
            ]
        else:
            assert len(changes) == 19
        decay_rates = ask(store, "SELECT ?v { ?p prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'decay_rate' }")
        assert set(decay_rates) == {(0.5,)}


def test_every_hyperparameter_that_is_changed_by_hand_is_recorded(tmp_path: Path):
    class ChangesOptimizer(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.optimizer.momentum = 0.7
                self.model.optimizer.learning_rate = 0.03

    with recorded(
        tmp_path, ChangesOptimizer(), model=small(optimizer=keras.optimizers.SGD(0.01, momentum=0.2))
    ) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.03, "by hand"),
            (2, "momentum", 0.2, 0.7, "by hand"),
        ]


class SetsRate(keras.callbacks.Callback):
    """A user's callback that sets the rate at a hook of an epoch or of a batch."""

    def __init__(self, hook: str, epoch: int, rate: float, batch: int | None = None) -> None:
        super().__init__()
        self.hook, self.epoch, self.current, self.rate, self.batch = hook, epoch, 0, rate, batch

    def on_hook(self, hook: str, batch: int | None = None) -> None:
        if (hook, self.current, batch) == (self.hook, self.epoch, self.batch):
            self.model.optimizer.learning_rate = self.rate

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current = epoch + 1
        self.on_hook("epoch begin")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.on_hook("batch begin", batch + 1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.on_hook("batch end", batch + 1)


@pytest.mark.parametrize("first", [True, False])
def test_a_scheduler_is_distinguished_from_a_plateau_with_the_same_effect(tmp_path: Path, first: bool):
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=9)
    halving = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, halving, first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "LearningRateScheduler")]


@pytest.mark.parametrize("first", [True, False])
def test_the_technique_is_unknown_if_a_user_callback_and_a_scheduler_may_have_set_the_rate(tmp_path: Path, first: bool):
    constant = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    with recorded(tmp_path, SetsRate("epoch begin", 2, 0.005), constant, first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "unknown")]


@pytest.mark.parametrize("first", [True, False])
def test_a_change_inside_an_epoch_belongs_to_that_epoch(tmp_path: Path, first: bool):
    with recorded(tmp_path, SetsRate("batch begin", 2, 0.005, batch=3), first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("first", [True, False])
def test_a_change_inside_an_epoch_that_is_undone_is_recorded(tmp_path: Path, first: bool):
    constant = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    changes = SetsRate("batch begin", 2, 0.005, batch=3), SetsRate("batch begin", 2, 0.01, batch=5)
    with recorded(tmp_path, *changes, constant, first=first) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.005, "by hand"),
            (2, "learning_rate", 0.005, 0.01, "by hand"),
        ]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_before_the_last_batch_of_an_epoch_belongs_to_that_epoch(tmp_path: Path, first: bool, watch: str):
    with recorded(tmp_path, SetsRate("batch begin", 2, 0.005, batch=10), first=first, watch=watch) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_after_the_last_batch_of_an_epoch_belongs_to_the_next(tmp_path: Path, first: bool, watch: str):
    with recorded(tmp_path, SetsRate("batch end", 2, 0.005, batch=10), first=first, watch=watch) as store:
        assert adaptations(store) == [(3, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("batch", "reverted_in"), [(1, 2), (4, 2), (10, 3)])
def test_a_change_for_a_single_batch_and_its_reversal_are_recorded(
    tmp_path: Path, first: bool, watch: str, batch: int, reverted_in: int
):
    changes = SetsRate("batch begin", 2, 0.005, batch=batch), SetsRate("batch end", 2, 0.01, batch=batch)
    with recorded(tmp_path, *changes, first=first, watch=watch) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.005, "by hand"),
            (reverted_in, "learning_rate", 0.005, 0.01, "by hand"),
        ]


class OldHookName(keras.callbacks.Callback):
    """A user's callback that sets the rate for the last batch of the second epoch, in a hook with its old name."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current = epoch + 1

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        if (self.current, batch) == (2, 9):
            self.model.optimizer.learning_rate = 0.005


@pytest.mark.parametrize("first", [True, False])
def test_a_hook_with_its_old_name_is_recognized(tmp_path: Path, first: bool):
    with recorded(tmp_path, OldHookName(), first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("first", [True, False])
def test_changes_between_epochs_are_recorded_next_to_a_callback_of_batches(tmp_path: Path, first: bool):
    unchanged = SetsRate("batch begin", 9, 0.5, batch=1)
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=100.0)
    warm_up = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, warm_up, unchanged, first=first, epochs=3, watch="batch") as store:
        assert [(row[0], *row[3:4]) for row in adaptations(store)] == [(2, 0.02), (3, 0.002)]


def test_a_schedule_changes_the_rate_of_the_next_batch_next_to_a_callback_of_batches(tmp_path: Path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    unchanged = SetsRate("batch begin", 9, 0.5, batch=1)
    with recorded(tmp_path, unchanged, model=small(schedule), epochs=2, watch="batch") as store:
        assert [row[0] for row in adaptations(store)] == [1] * 9 + [2] * 10


def test_early_stopping_changes_the_number_of_epochs_with_a_reason(tmp_path: Path):
    stop = keras.callbacks.EarlyStopping("val_loss", patience=2, min_delta=100.0, restore_best_weights=True)
    with recorded(tmp_path / "home", stop, epochs=9, save_model=tmp_path / "best.keras") as store:
        assert adaptations(store) == [(3, "epochs", 9, 3, "EarlyStopping")]
        [(reason,)] = ask(store, "SELECT ?r { ?a a provml:AdaptationExecution ; provml:reason ?r }")
        assert "val_loss was best at epoch 1" in reason
        assert "restored" in reason
        assert ask(store, "SELECT ?e { ?h a provml:ModelHyperparameterValue ; prov:value ?e }") == [(1,)]
    loaded = keras.saving.load_model(tmp_path / "best.keras")
    model = small()
    fit(model, epochs=1)
    assert weights(loaded) == weights(model), "the best weights are saved, not the last"


class Wrapper(keras.callbacks.Callback):
    """A user's callback that calls the capture, which is not in the list of callbacks."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self.capture = capture

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self.capture.set_model(model)

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        self.capture.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        self.capture.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self.capture.on_train_end(logs)


def test_a_capture_inside_another_callback_saves_the_restored_weights(tmp_path: Path):
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0, restore_best_weights=True)
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True, save_model=tmp_path / "best.keras") as capture:
        fit(model, Wrapper(capture), stop, epochs=4)
    assert weights(keras.saving.load_model(tmp_path / "best.keras")) == weights(model)
    with provml.open(tmp_path / "home") as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]


# ---- models, data and several trainings


@pytest.mark.parametrize("first", [True, False])
def test_checkpoint_files_are_models_of_their_epochs(tmp_path: Path, first: bool):
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "at-{epoch:02d}.keras")
    with recorded(tmp_path / "home", checkpoint, first=first, epochs=2) as store:
        rows = ask(store, "SELECT ?e ?path { ?m a provml:Model ; provlake:path ?path ; prov:wasGeneratedBy ?s ."
                   " ?s provml:sectionIndex ?e } ORDER BY ?e")  # fmt: skip
        assert rows == [(1, str(tmp_path / "at-01.keras")), (2, str(tmp_path / "at-02.keras"))]
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 2, "the last file is the model of the training"


def test_a_second_fit_continues_from_the_model_of_the_first(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, epochs=1)
        fit(model, capture, epochs=3, initial_epoch=1)
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        assert ask(store, """SELECT ?n (COUNT(?e) AS ?epochs) { ?t a provml:TrainingExecution .
            BIND(EXISTS { ?t prov:used/a provml:Model } AS ?n) ?e provml:wasSectionOf ?t } GROUP BY ?t ?n
            ORDER BY ?n""") == [(False, 1), (True, 2)]  # fmt: skip
        assert measures_by_epoch(store, "provml:TrainingEpochExecution")["loss"]
        assert len(ask(store, "SELECT ?e { ?e a provml:EvaluationExecution ; provml:evaluated ?m }")) == 1


@pytest.mark.parametrize("is_separated", [False, True])
def test_a_capture_that_is_passed_twice_records_once(tmp_path: Path, is_separated: bool):
    model = small()
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "at.keras")
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        callbacks = [capture, *[checkpoint] * is_separated, capture]
        fit(model, *callbacks, epochs=2)
        model.evaluate(*DIGITS["test"], callbacks=callbacks, verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path / "home") as store:
        statuses = ask(store, "SELECT ?s { ?t a provml:LearningStageExecution ; provlake:status ?s }")
        assert statuses == [("FINISHED",)] * 5  # two trainings with a validation each, and an evaluation
        assert len(measures_by_epoch(store, "provml:TrainingEpochExecution")["loss"]) == 3
        assert len(measures_by_epoch(store, "provml:ValidationEpochExecution")["loss"]) == 3
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 30
        assert store.run("latest").status == "FINISHED"
    assert callbacks.count(capture) == 2, "the user's list is unchanged"


def test_a_capture_that_is_passed_without_a_list_records_every_batch(tmp_path: Path):
    with Capture("digits", home=tmp_path, strict=True) as capture:
        small().fit(*DIGITS["training"], batch_size=4, epochs=2, callbacks=capture, verbose=0)
    with provml.open(tmp_path) as store:
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 2 * -(-len(DIGITS["training"][0]) // 4)


def test_a_fit_that_raised_is_failed_and_the_next_is_recorded(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        with pytest.raises(Boom):
            fit(model, capture, RaisesInEpoch(2))
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
        rows = ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s } ORDER BY ?s")
        assert rows == [("FAILED",), ("FINISHED",)]


@pytest.mark.parametrize("is_other_model", [False, True])
def test_an_evaluation_by_a_callback_inside_fit_is_an_evaluation(tmp_path: Path, is_other_model: bool):
    class Evaluates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            (other if is_other_model else self.model).evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)

    model, other = small(), small()
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, Evaluates(), stop, epochs=4)
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(2, "epochs", 4, 2, "EarlyStopping")]
        assert len(measures_by_epoch(store, "provml:ValidationEpochExecution")["loss"]) == 2
        tested = datasets_used_by(store, "EvaluationExecution")
        assert len(tested) == 2
        assert tested[0] == tested[1]
        assert not tested[0] & datasets_used_by(store, "ValidationExecution")[0]
        assert len(set(evaluated_models(store))) == (1 if is_other_model else 2)
        assert ask(store, "SELECT DISTINCT ?s { ?t a provml:LearningStageExecution ; provlake:status ?s }") == [
            ("FINISHED",)
        ]


def test_an_evaluation_after_a_failed_fit_is_of_the_model_of_that_fit(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, epochs=1)
        with pytest.raises(Boom):
            fit(model, capture, RaisesInEpoch(2))
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path) as store:
        produced, initial = models_of(store)
        assert evaluated_models(store) == [produced[1]]
        assert initial == [None, produced[0], produced[1]]


def test_a_capture_with_its_own_run_ends_it_with_the_exception(tmp_path: Path):
    with pytest.raises(Boom), Capture("digits", home=tmp_path, strict=True) as capture:
        fit(small(), capture, RaisesInEpoch(2))
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FAILED"
        assert ask(store, "SELECT ?e ?s { ?x a provml:TrainingEpochExecution ; provml:sectionIndex ?e ;"
                   " provlake:status ?s } ORDER BY ?e") == [(1, "FINISHED"), (2, "FAILED")]  # fmt: skip


def test_only_selected_hyperparameters_are_recorded(tmp_path: Path):
    lower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    selection = {"OPTIMIZER_NAME": True, "MOMENTUM": True, "LEARNING_RATE": False}
    with recorded(tmp_path, lower, hyperparameters=selection) as store:
        names = ask(store, "SELECT DISTINCT ?n { ?t a provml:TrainingExecution ; prov:used ?v ."
                    " ?v prov:wasDerivedFrom ?a . ?a a provml:LearningHyperparameter ; rdfs:label ?n }")  # fmt: skip
        assert {"optimizer", "momentum"} <= {name for (name,) in names}
        assert "learning_rate" not in {name for (name,) in names}
        assert adaptations(store) == []


def test_layers_of_an_unbuilt_model_are_recorded_after_the_first_batch(tmp_path: Path):
    class Subclassed(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(12, activation="relu", name="first")
            self.second = keras.layers.Dense(10, activation="softmax", name="second")

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    model = Subclassed()
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, "SELECT ?n ?c { ?l a provml:Layer ; rdfs:label ?n ; provml:parameterCount ?c } ORDER BY ?n")
        assert rows == [("first", 780), ("second", 130)]


def test_layers_of_a_subclassed_model_have_the_shapes_that_they_were_built_for(tmp_path: Path):
    class Scale(keras.layers.Layer):
        calls = 0

        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            Scale.calls += 1
            return x * self.scale

    class Subclassed(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(12, name="first")
            self.scale = Scale(name="scale")
            self.twice = keras.layers.Lambda(lambda x: x * 2, name="twice")
            self.drop = keras.layers.Dropout(0.1, name="drop")
            self.last = keras.layers.Dense(10, activation="softmax", name="last")

        def call(self, x: Any) -> Any:
            return self.last(self.drop(self.twice(self.scale(self.first(x)))))

    model = Subclassed()
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    model.train_on_batch(*(array[:4] for array in digits()["training"]))
    before = Scale.calls
    shapes = {layer["name"]: (layer["input_shape"], layer["output_shape"]) for layer in keras_layers(model)}
    assert shapes == {
        "first": ("(None, 64)", "(None, 12)"),
        "scale": ("(None, 12)", None),  # Keras would have to call the layer
        "twice": ("(None, 12)", None),
        "drop": (None, None),  # never built
        "last": ("(None, 12)", "(None, 10)"),
    }
    assert Scale.calls == before
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, "SELECT ?n ?i ?o { ?l rdfs:label ?n ; provml:inputShape ?i ; provml:outputShape ?o }")
        assert sorted(rows) == [("first", *shapes["first"]), ("last", *shapes["last"])]


def test_layers_have_parameters_and_nested_models_are_blocks(tmp_path: Path):
    with recorded(tmp_path, model=network(), epochs=1) as store:
        layers = dict(ask(store, """SELECT ?name ?text { { SELECT ?name (GROUP_CONCAT(?item; separator=" ") AS ?text) {
            { SELECT ?name ?item { ?l rdfs:label ?name ; provml:hasParameter ?v . ?v prov:value ?x ;
              prov:wasDerivedFrom/rdfs:label ?key . BIND(CONCAT(?key, "=", STR(?x)) AS ?item) } ORDER BY ?name ?item }
            } GROUP BY ?name } }"""))  # fmt: skip
        for parameter in ("filters=4", "kernel_size=(3, 3)", "strides=(2, 2)", "padding=same", "activation=relu"):
            assert parameter in layers["conv"]
        assert "rate=0.1" in layers["drop"]
        assert "units=16" in layers["dense"]
        assert "kernel_regularizer=L2(l2=0.001)" in layers["dense"]
        inner = ask(store, "SELECT ?n { ?b a provml:Block ; rdfs:label 'head' ; provml:hasLayer/rdfs:label ?n }")
        assert sorted(inner) == [("drop",), ("out",)]
        counts = ask(store, "SELECT ?c { ?m a provml:ModelSchemaValue ; provml:parameterCount ?c }")
        assert counts == [(network().count_params(),)]


@pytest.mark.parametrize(("detail", "batches"), [("batch", 20), ("epoch", 0)])
def test_batches_are_recorded_by_level_of_detail(tmp_path: Path, detail: str, batches: int):
    with recorded(tmp_path, detail=detail, epochs=2) as store:
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == batches
        assert len(ask(store, "SELECT ?v { ?v a provml:BatchEvaluation }")) == batches


def test_data_is_identified_by_its_content_or_by_the_file_that_was_passed(tmp_path: Path):
    (tmp_path / "test.csv").write_text("1,2\n")
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True, data={"test": tmp_path / "test.csv"}) as capture:
        fit(model, capture, epochs=1)
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?name ?role (BOUND(?sha) AS ?hashed) { ?s prov:qualifiedUsage ?u .
            ?u prov:entity ?d ; prov:hadRole ?r . ?r rdfs:label ?role . ?d a provml:LearningDataset .
            ?d prov:wasDerivedFrom/rdfs:label ?name OPTIONAL { ?d provlake:sha256 ?sha } } ORDER BY ?name""",
        )
        assert set(rows) == {
            ("x", "training role", True), ("y", "training role", True), ("test.csv", "test role", True),
            ("validation x", "validation role", True), ("validation y", "validation role", True),
        }  # fmt: skip


# ---- optimizers, losses and data


def test_a_hyperparameter_that_is_switched_on_or_off_is_an_adaptation(tmp_path: Path):
    class ChangesOptimizer(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.optimizer.weight_decay = None
                self.model.optimizer.clipnorm = 0.5

    with recorded(
        tmp_path, ChangesOptimizer(), model=small(optimizer=keras.optimizers.SGD(0.01, weight_decay=0.1))
    ) as store:
        assert adaptations(store) == [
            (2, "clipnorm", "None", 0.5, "by hand"),
            (2, "weight_decay", 0.1, "None", "by hand"),
        ]


def test_the_inner_optimizer_of_a_loss_scaling_optimizer_is_recorded(tmp_path: Path):
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01, beta_1=0.8), initial_scale=1024.0)
    with recorded(tmp_path, model=small(optimizer=scaled), epochs=1) as store:
        expected = {"optimizer": "Adam", "learning_rate": 0.01, "beta_1": 0.8, "loss_scale": 1024.0}
        assert expected.items() <= used(store).items()
        assert adaptations(store) == []


def test_shared_weights_are_counted_once(tmp_path: Path):
    shared = keras.layers.Dense(64, name="shared")
    nested = keras.Sequential([keras.layers.Input((64,)), shared], name="nested")
    inputs = keras.layers.Input((64,))
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(nested(shared(inputs))))
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:
        counts = ask(store, "SELECT ?c { ?m a provml:ModelSchemaValue ; provml:parameterCount ?c }")
        assert counts == [(model.count_params(),)]


def test_several_inputs_have_the_default_batch_size_and_sample_weights_are_recorded(tmp_path: Path):
    x, y = DIGITS["training"]
    inputs = [keras.layers.Input((64,)), keras.layers.Input((64,))]
    output = keras.layers.Dense(10, activation="softmax")(keras.layers.Concatenate()(inputs))
    model = keras.Model(inputs, output)
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit([x, x], y, sample_weight=y * 0.1, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        hyperparameters = used(store)
        assert (hyperparameters["batch_size"], hyperparameters["sample_weight"]) == (32, f"ndarray of shape {y.shape}")


def loader(x: Any, y: Any) -> Any:
    """Return a data loader of the backend with batches of 40; None if the backend has no loaders."""
    if keras.backend.backend() == "torch":
        import torch

        dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        return torch.utils.data.DataLoader(dataset, batch_size=40)
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        return tensorflow.data.Dataset.from_tensor_slices((x, y)).batch(40).prefetch(1)
    return None


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")
def test_shuffling_is_recorded_only_if_keras_shuffles(tmp_path: Path):
    x, y = rows(slice(0, 80))

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return x[index * 40 : index * 40 + 40], y[index * 40 : index * 40 + 40]

    shuffled = {}
    sources = {"arrays": (x, y), "dataset": (Batches(),), "generator": (generate(Batches()),)}
    if loader(x, y) is not None:
        sources["loader"] = (loader(x, y),)
    for name, data in sources.items():
        with Capture("digits", home=tmp_path / name, strict=True) as capture:
            small().fit(*data, callbacks=[capture], steps_per_epoch=2, verbose=0)
        with provml.open(tmp_path / name) as store:
            shuffled[name] = used(store).get("shuffle")
    assert shuffled == {name: True if name in ("arrays", "dataset") else None for name in sources}


def generate(batches: Any) -> Any:
    yield from (batches[index] for index in range(len(batches)))


@pytest.mark.parametrize("weights", [{"digit": 1.0, "odd": 0.3}, None])
def test_the_weights_of_several_losses_are_recorded(tmp_path: Path, weights: Any):
    x, y = DIGITS["training"]
    inputs = keras.layers.Input((64,))
    outputs = {
        "digit": keras.layers.Dense(10, activation="softmax", name="digit")(inputs),
        "odd": keras.layers.Dense(1, activation="sigmoid", name="odd")(inputs),
    }
    model = keras.Model(inputs, outputs)
    losses = {"digit": "sparse_categorical_crossentropy", "odd": "binary_crossentropy"}
    model.compile("sgd", loss=losses, loss_weights=weights)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit(x, {"digit": y, "odd": y % 2}, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        value = used(store).get("loss_weights")
        assert (json.loads(value) if value else None) == weights


def double(x: Any) -> Any:
    return x * 2


def test_a_custom_function_is_recorded_by_name_and_never_by_its_code(tmp_path: Path):
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(12, activation=lambda x: x * 2, name="nameless"),
            keras.layers.Dense(12, activation=double, name="named"),
            keras.layers.Lambda(lambda x: x * 2, name="code"),
            keras.layers.Dense(10, activation="softmax", name="usual"),
        ]
    )
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:  # a warning would be an error
        rows = ask(store, """SELECT ?name ?key ?value { ?l a provml:Layer ; rdfs:label ?name ; provml:hasParameter ?v .
            ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label ?key }""")  # fmt: skip
        named = {name: value for name, key, value in rows if key == "activation"}
        assert named == {"nameless": "<lambda>", "named": "double", "usual": "softmax"}
        assert [key for name, key, _ in rows if name == "code"] == []


class PipelineStep:
    """A step of a TensorFlow data pipeline."""

    def __init__(self, *, source: Any = None, batch: Any = None) -> None:
        self._input_dataset = source
        if batch is not None:
            self._batch_size = batch


def test_the_batch_size_of_a_tensorflow_pipeline_is_read_from_its_steps():
    from provml.capture.keras._call_arguments import batch_size

    assert batch_size({"x": PipelineStep(source=PipelineStep(source=PipelineStep(batch=Tensor(12))))}) == 12
    assert batch_size({"x": PipelineStep()}) is None


class Tensor:
    def __init__(self, value: int) -> None:
        self.value = value

    def numpy(self) -> Any:
        return self.value


def test_a_file_that_keras_cannot_save_to_raises_before_the_run_begins(tmp_path: Path):
    with pytest.raises(provml.ProvmlError, match=r"save_model takes .*\.keras"):
        Capture("digits", home=tmp_path / "home", save_model="noext")
    assert not (tmp_path / "home").exists()


def test_callbacks_that_stop_or_save_are_recorded_with_their_settings_and_models_have_their_names(tmp_path: Path):
    def model(name: str | None = None) -> Any:
        net = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")], name=name)
        net.compile("sgd", "sparse_categorical_crossentropy")
        return net

    x, y = (array[:60] for array in DIGITS["training"])
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=4, min_delta=0.01)
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss", save_best_only=True)
    home = tmp_path / "home"
    with Capture("distilled", home=home, strict=True, checkpoints=False) as capture:
        for name in ("teacher", "student", None):
            model(name).fit(x, y, epochs=1, verbose=0, callbacks=[capture, stopping, checkpoint])
    (file,) = home.glob("runs/*/main.jsonl")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    values = next(event["values"] for event in events if event["e"] == "begin" and event["kind"] == "training")
    expected = {
        "early_stopping.monitor": "loss",
        "early_stopping.patience": 4,
        "early_stopping.min_delta": 0.01,
        "model_checkpoint.filepath": str(tmp_path / "best.keras"),
        "model_checkpoint.save_best_only": True,
    }
    assert expected.items() <= values.items()
    names = [event["name"] for event in events if event["e"] == "data" and event["kind"] == "model"]
    assert names == ["teacher", "student", "distilled"]


def test_a_model_has_its_name_also_if_its_fit_raised(tmp_path: Path):
    def stop(epoch: int, logs: Any) -> None:
        raise Boom("after the first epoch")

    x, y = (array[:60] for array in DIGITS["training"])
    layers = [keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")]
    teacher = keras.Sequential(layers, name="teacher")
    teacher.compile("sgd", "sparse_categorical_crossentropy")
    with Capture("school", home=tmp_path, strict=True) as capture:
        with pytest.raises(Boom):
            teacher.fit(x, y, verbose=0, callbacks=[capture, keras.callbacks.LambdaCallback(on_epoch_end=stop)])
        teacher.evaluate(x, y, verbose=0, callbacks=[capture])
    with provml.open(tmp_path) as store:
        names = ask(
            store,
            """SELECT ?name { ?test a provml:EvaluationExecution ; prov:used ?model .
            ?model a provml:Model ; provlake:wasDerivedFromAttribute/rdfs:label ?name }""",
        )
        assert names == [("teacher",)]
