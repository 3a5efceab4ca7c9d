"""Keras 3, really trained: what `fit` and `evaluate` did is recorded.

On the PyTorch backend, unless KERAS_BACKEND says jax or tensorflow: the tests are the same for all of them.
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
    JudgingContract,
    Told,
    adaptations,
    ask,
    by_epoch,
    judged,
    models_of,
    used,
    used_by,
)
from capture.digits import digits, rows
from provml.recorder import Recorder

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed; `pip install 'provml[keras]'` and a backend")

from provml.capture.keras import Capture  # noqa: E402  # the backend is chosen before Keras is loaded
from provml.capture.layer import of_keras  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    # Keras's variables on PyTorch give numpy an array in the way of numpy 1
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
    held = keras.layers.Reshape((8, 8, 1), name="square")(inputs)
    held = keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", name="conv")(held)
    held = keras.layers.Flatten(name="flat")(held)
    held = keras.layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(0.001), name="dense")(
        held
    )
    model = keras.Model(inputs, head(held), name="digits")
    optimizer = keras.optimizers.Adam(rate, beta_1=0.8)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=list(metrics))
    return model


def weights(model: Any) -> bytes:
    return b"".join(array.tobytes() for array in model.get_weights())


class FailsAt(keras.callbacks.Callback):
    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.at == self.epoch and batch == 2:
            raise Boom("in the middle")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.at = epoch + 1


def fit(model: Any, *callbacks: Any, epochs: int = 3, **more: Any) -> Any:
    said = {"validation_data": DIGITS["validation"], "batch_size": 48, "verbose": 0} | more
    return model.fit(*DIGITS["training"], epochs=epochs, callbacks=list(callbacks), **said)


class TestKeras(CaptureContract):
    software = "keras"

    @classmethod
    def train(cls, run: Recorder | None, folder: Path, *, fails: bool = False) -> Told:
        model = network()
        capture = [Capture(run=run, save_model=folder / "digits.keras")] if run is not None else []
        lower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.004 if epoch == 2 else rate)
        history = fit(model, *capture, lower, *[FailsAt(2)] * fails, epochs=4).history
        if not capture:
            model.save(folder / "digits.keras")
        result = model.evaluate(*DIGITS["test"], callbacks=capture, return_dict=True, verbose=0)
        return Told(
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


class TestSeveral(JudgingContract):
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
    def judge_on(cls, capture: Any, folder: Path, some: slice, model: Any) -> None:
        model.evaluate(*rows(some), callbacks=[capture], verbose=0)


# ---- adaptations


def small(rate: Any = 0.01, optimizer: Any = None) -> Any:
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")], name="small")
    model.compile(optimizer or keras.optimizers.SGD(rate), loss="sparse_categorical_crossentropy")
    return model


def recorded(home: Path, *beside: Any, model: Any = None, first: bool = True, epochs: int = 3, **settings: Any) -> Any:
    """The store after a training with callbacks beside the capture, which stands first or last among them."""
    with Capture("digits", home=home, strict=True, **settings) as capture:
        callbacks = (capture, *beside) if first else (*beside, capture)
        fit(model or small(), *callbacks, epochs=epochs)
    return provml.open(home)


@pytest.mark.parametrize("first", [True, False])
def test_a_plateau_is_told_apart_from_a_scheduler_wherever_the_capture_stands(tmp_path: Path, first: bool):
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=100.0)
    warm = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, warm, first=first, epochs=4) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.02, "LearningRateScheduler"),
            (3, "learning_rate", 0.02, 0.002, "ReduceLROnPlateau"),
            (4, "learning_rate", 0.002, 0.0002, "ReduceLROnPlateau"),
            (4, "learning_rate", 0.0002, 0.00002, "ReduceLROnPlateau"),  # after the last epoch
        ]
        rows = ask(store, """SELECT ?e ?r { ?s a provml:TrainingEpochExecution ; provml:sectionIndex ?e ;
            provml:hyperparameterInForce ?h . ?h prov:value ?r ; prov:wasDerivedFrom/rdfs:label "learning_rate" }
            ORDER BY ?e""")  # fmt: skip
        assert rows == [(1, 0.01), (2, 0.02), (3, 0.002), (4, 0.0002)]


def test_a_scheduler_that_changes_nothing_adapts_nothing(tmp_path: Path):
    same = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    with recorded(tmp_path, same, model=small(0.1)) as store:
        assert adaptations(store) == []


@pytest.mark.parametrize("watch", ["epoch", "batch"])
def test_a_schedule_is_told_once_an_epoch_or_with_every_batch(tmp_path: Path, watch: str):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    with recorded(tmp_path, model=small(schedule), epochs=2, watch=watch) as store:
        found = adaptations(store)
        assert {row[4] for row in found} == {"ExponentialDecay"}
        if watch == "epoch":
            assert [row[:4] for row in found] == [
                (2, "learning_rate", 0.1, pytest.approx(0.05)),
                (2, "learning_rate", pytest.approx(0.05), pytest.approx(0.025)),
            ]
        else:
            assert len(found) == 20
        said = "SELECT ?v { ?p prov:value ?v ; prov:wasDerivedFrom/rdfs:label 'decay_rate' }"
        assert set(ask(store, said)) == {(0.5,)}


def test_what_a_hand_changes_is_told_whichever_hyperparameter_it_is(tmp_path: Path):
    class Hand(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.optimizer.momentum = 0.7
                self.model.optimizer.learning_rate = 0.03

    with recorded(tmp_path, Hand(), model=small(optimizer=keras.optimizers.SGD(0.01, momentum=0.2))) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.03, "by hand"),
            (2, "momentum", 0.2, 0.7, "by hand"),
        ]


class Hand(keras.callbacks.Callback):
    """A user's callback that sets the rate at a hook of an epoch, or of a batch where one is said."""

    def __init__(self, hook: str, epoch: int, rate: float, batch: int | None = None) -> None:
        super().__init__()
        self.hook, self.at, self.now, self.rate, self.batch = hook, epoch, 0, rate, batch

    def turn(self, hook: str, batch: int | None = None) -> None:
        if (hook, self.now, batch) == (self.hook, self.at, self.batch):
            self.model.optimizer.learning_rate = self.rate

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.now = epoch + 1
        self.turn("epoch begin")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.turn("batch begin", batch + 1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.turn("batch end", batch + 1)


@pytest.mark.parametrize("first", [True, False])
def test_a_scheduler_is_told_apart_from_a_plateau_that_would_have_done_the_same(tmp_path: Path, first: bool):
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=9)
    halves = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, halves, first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "LearningRateScheduler")]


@pytest.mark.parametrize("first", [True, False])
def test_who_set_a_rate_is_unknown_where_a_hand_and_a_scheduler_both_may_have(tmp_path: Path, first: bool):
    same = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    with recorded(tmp_path, Hand("epoch begin", 2, 0.005), same, first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "unknown")]


@pytest.mark.parametrize("first", [True, False])
def test_a_change_in_the_middle_of_an_epoch_stands_at_that_epoch(tmp_path: Path, first: bool):
    with recorded(tmp_path, Hand("batch begin", 2, 0.005, batch=3), first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("first", [True, False])
def test_a_change_in_the_middle_of_an_epoch_that_is_undone_is_told_all_the_same(tmp_path: Path, first: bool):
    same = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)
    hands = Hand("batch begin", 2, 0.005, batch=3), Hand("batch begin", 2, 0.01, batch=5)
    with recorded(tmp_path, *hands, same, first=first) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.005, "by hand"),
            (2, "learning_rate", 0.005, 0.01, "by hand"),
        ]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_for_the_last_batch_of_an_epoch_stands_at_that_epoch(tmp_path: Path, first: bool, watch: str):
    with recorded(tmp_path, Hand("batch begin", 2, 0.005, batch=10), first=first, watch=watch) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_after_the_last_batch_of_an_epoch_stands_at_the_next(tmp_path: Path, first: bool, watch: str):
    with recorded(tmp_path, Hand("batch end", 2, 0.005, batch=10), first=first, watch=watch) as store:
        assert adaptations(store) == [(3, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("watch", ["epoch", "batch"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("batch", "back_in"), [(1, 2), (4, 2), (10, 3)])
def test_a_change_for_one_batch_alone_is_told_and_so_is_the_way_back(
    tmp_path: Path, first: bool, watch: str, batch: int, back_in: int
):
    hands = Hand("batch begin", 2, 0.005, batch=batch), Hand("batch end", 2, 0.01, batch=batch)
    with recorded(tmp_path, *hands, first=first, watch=watch) as store:
        assert adaptations(store) == [
            (2, "learning_rate", 0.01, 0.005, "by hand"),
            (back_in, "learning_rate", 0.005, 0.01, "by hand"),
        ]


class OfOld(keras.callbacks.Callback):
    """A user's callback that sets the rate for the last batch of the second epoch, by the older name of the hook."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.now = epoch + 1

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        if (self.now, batch) == (2, 9):
            self.model.optimizer.learning_rate = 0.005


@pytest.mark.parametrize("first", [True, False])
def test_a_hook_by_its_older_name_is_a_users_too(tmp_path: Path, first: bool):
    with recorded(tmp_path, OfOld(), first=first) as store:
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand")]


@pytest.mark.parametrize("first", [True, False])
def test_who_moves_a_rate_between_epochs_is_told_beside_a_callback_of_batches(tmp_path: Path, first: bool):
    idle = Hand("batch begin", 9, 0.5, batch=1)
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=100.0)
    warm = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 if epoch == 1 else rate)
    with recorded(tmp_path, plateau, warm, idle, first=first, epochs=3, watch="batch") as store:
        assert [(row[0], *row[3:4]) for row in adaptations(store)] == [(2, 0.02), (3, 0.002), (3, 0.0002)]


def test_a_schedule_moves_with_the_next_batch_beside_a_callback_of_batches_too(tmp_path: Path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    idle = Hand("batch begin", 9, 0.5, batch=1)
    with recorded(tmp_path, idle, model=small(schedule), epochs=2, watch="batch") as store:
        assert [row[0] for row in adaptations(store)] == [1] * 9 + [2] * 11  # the last after the last step


def test_early_stopping_adapts_the_number_of_epochs_and_says_why(tmp_path: Path):
    stop = keras.callbacks.EarlyStopping("val_loss", patience=2, min_delta=100.0, restore_best_weights=True)
    with recorded(tmp_path / "home", stop, epochs=9, save_model=tmp_path / "best.keras") as store:
        assert adaptations(store) == [(3, "epochs", 9, 3, "EarlyStopping")]
        (why,) = ask(store, "SELECT ?why { ?a a provml:AdaptationExecution ; provml:reason ?why }")
        assert "val_loss was best at epoch 1" in why[0]
        assert "restored" in why[0]
        assert ask(store, "SELECT ?e { ?h a provml:ModelHyperparameterValue ; prov:value ?e }") == [(1,)]
    again = keras.saving.load_model(tmp_path / "best.keras")
    model = small()
    fit(model, epochs=1)
    assert weights(again) == weights(model), "the best weights were saved, not the last"


class Holder(keras.callbacks.Callback):
    """A callback of the user's that holds the capture, which is then not among those of `fit`."""

    def __init__(self, held: Capture) -> None:
        super().__init__()
        self.held = held

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self.held.set_model(model)

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        self.held.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        self.held.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self.held.on_train_end(logs)


def test_a_capture_that_another_callback_holds_saves_the_weights_that_were_restored(tmp_path: Path):
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0, restore_best_weights=True)
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True, save_model=tmp_path / "best.keras") as capture:
        fit(model, Holder(capture), stop, epochs=4)
    assert weights(keras.saving.load_model(tmp_path / "best.keras")) == weights(model)
    with provml.open(tmp_path / "home") as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]


# ---- models, data, several trainings


@pytest.mark.parametrize("first", [True, False])
def test_the_files_of_a_checkpoint_are_models_of_their_epochs(tmp_path: Path, first: bool):
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "at-{epoch:02d}.keras")
    with recorded(tmp_path / "home", kept, first=first, epochs=2) as store:
        rows = ask(store, "SELECT ?e ?path { ?m a provml:Model ; provlake:path ?path ; prov:wasGeneratedBy ?s ."
                   " ?s provml:sectionIndex ?e } ORDER BY ?e")  # fmt: skip
        assert rows == [(1, str(tmp_path / "at-01.keras")), (2, str(tmp_path / "at-02.keras"))]
        assert len(ask(store, "SELECT ?m { ?m a provml:Model }")) == 2, "the last one is the model of the training"


def test_a_second_fit_is_a_second_training_of_the_model_that_the_first_made(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, epochs=1)
        fit(model, capture, epochs=3, initial_epoch=1)
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        assert ask(store, """SELECT ?n (COUNT(?e) AS ?epochs) { ?t a provml:TrainingExecution .
            BIND(EXISTS { ?t prov:used/a provml:Model } AS ?n) ?e provml:wasSectionOf ?t } GROUP BY ?t ?n
            ORDER BY ?n""") == [(False, 1), (True, 2)]  # fmt: skip
        assert by_epoch(store, "provml:TrainingEpochExecution")["loss"]
        assert len(ask(store, "SELECT ?e { ?e a provml:EvaluationExecution ; provml:evaluated ?m }")) == 1


@pytest.mark.parametrize("between", [False, True])
def test_a_capture_that_is_handed_over_twice_records_once(tmp_path: Path, between: bool):
    model = small()
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "at.keras")
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        given = [capture, *[kept] * between, capture]
        fit(model, *given, epochs=2)
        model.evaluate(*DIGITS["test"], callbacks=given, verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path / "home") as store:
        found = ask(store, "SELECT ?s { ?t a provml:LearningStageExecution ; provlake:status ?s }")
        assert found == [("FINISHED",)] * 5  # two trainings with a validation each, and an evaluation
        assert len(by_epoch(store, "provml:TrainingEpochExecution")["loss"]) == 3
        assert len(by_epoch(store, "provml:ValidationEpochExecution")["loss"]) == 3
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 30
        assert store.run("latest").status == "FINISHED"
    assert given.count(capture) == 2, "the list of the user is as it was"


def test_a_capture_that_is_handed_over_without_a_list_misses_no_batch(tmp_path: Path):
    with Capture("digits", home=tmp_path, strict=True) as capture:
        small().fit(*DIGITS["training"], batch_size=4, epochs=2, callbacks=capture, verbose=0)
    with provml.open(tmp_path) as store:
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == 2 * -(-len(DIGITS["training"][0]) // 4)


def test_a_fit_that_failed_and_was_caught_is_failed_and_the_next_goes_on(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        with pytest.raises(Boom):
            fit(model, capture, FailsAt(2))
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
        rows = ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s } ORDER BY ?s")
        assert rows == [("FAILED",), ("FINISHED",)]


@pytest.mark.parametrize("other", [False, True])
def test_an_evaluation_by_a_callback_inside_fit_is_one_on_its_own_data(tmp_path: Path, other: bool):
    class Judge(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            (beside if other else self.model).evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)

    model, beside = small(), small()
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, Judge(), stop, epochs=4)
    with provml.open(tmp_path) as store:
        assert adaptations(store) == [(2, "epochs", 4, 2, "EarlyStopping")]
        assert len(by_epoch(store, "provml:ValidationEpochExecution")["loss"]) == 2
        tested = used_by(store, "EvaluationExecution")
        assert len(tested) == 2
        assert tested[0] == tested[1]
        assert not tested[0] & used_by(store, "ValidationExecution")[0]
        assert len(set(judged(store))) == (1 if other else 2)
        assert ask(store, "SELECT DISTINCT ?s { ?t a provml:LearningStageExecution ; provlake:status ?s }") == [
            ("FINISHED",)
        ]


def test_an_evaluation_after_a_fit_that_failed_judges_what_that_left(tmp_path: Path):
    model = small()
    with Capture("digits", home=tmp_path, strict=True) as capture:
        fit(model, capture, epochs=1)
        with pytest.raises(Boom):
            fit(model, capture, FailsAt(2))
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path) as store:
        made, before = models_of(store)
        assert judged(store) == [made[1]]
        assert before == [None, made[0], made[1]]


def test_a_capture_of_its_own_ends_its_run_by_the_exception(tmp_path: Path):
    with pytest.raises(Boom), Capture("digits", home=tmp_path, strict=True) as capture:
        fit(small(), capture, FailsAt(2))
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FAILED"
        assert ask(store, "SELECT ?e ?s { ?x a provml:TrainingEpochExecution ; provml:sectionIndex ?e ;"
                   " provlake:status ?s } ORDER BY ?e") == [(1, "FINISHED"), (2, "FAILED")]  # fmt: skip


def test_a_selection_narrows_what_is_recorded(tmp_path: Path):
    lower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    said = {"OPTIMIZER_NAME": True, "MOMENTUM": True, "LEARNING_RATE": False}
    with recorded(tmp_path, lower, hyperparameters=said) as store:
        names = ask(store, "SELECT DISTINCT ?n { ?t a provml:TrainingExecution ; prov:used ?v ."
                    " ?v prov:wasDerivedFrom ?a . ?a a provml:LearningHyperparameter ; rdfs:label ?n }")  # fmt: skip
        assert {"optimizer", "momentum"} <= {name for (name,) in names}
        assert "learning_rate" not in {name for (name,) in names}
        assert adaptations(store) == []


def test_a_model_that_is_not_built_yet_has_its_layers_after_the_first_batch(tmp_path: Path):
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(12, activation="relu", name="first")
            self.second = keras.layers.Dense(10, activation="softmax", name="second")

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    model = Own()
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, "SELECT ?n ?c { ?l a provml:Layer ; rdfs:label ?n ; provml:parameterCount ?c } ORDER BY ?n")
        assert rows == [("first", 780), ("second", 130)]


def test_layers_that_no_graph_holds_have_the_shapes_that_they_were_built_for(tmp_path: Path):
    class Scale(keras.layers.Layer):
        calls = 0

        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            Scale.calls += 1
            return x * self.scale

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(12, name="first")
            self.scale = Scale(name="scale")
            self.twice = keras.layers.Lambda(lambda x: x * 2, name="twice")
            self.drop = keras.layers.Dropout(0.1, name="drop")
            self.last = keras.layers.Dense(10, activation="softmax", name="last")

        def call(self, x: Any) -> Any:
            return self.last(self.drop(self.twice(self.scale(self.first(x)))))

    model = Own()
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    model.train_on_batch(*(one[:4] for one in digits()["training"]))
    before = Scale.calls
    shapes = {one["name"]: (one["input_shape"], one["output_shape"]) for one in of_keras(model)}
    assert shapes == {
        "first": ("(None, 64)", "(None, 12)"),
        "scale": ("(None, 12)", None),  # Keras would call it to know
        "twice": ("(None, 12)", None),
        "drop": (None, None),  # is never built
        "last": ("(None, 12)", "(None, 10)"),
    }
    assert Scale.calls == before
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, "SELECT ?n ?i ?o { ?l rdfs:label ?n ; provml:inputShape ?i ; provml:outputShape ?o }")
        assert sorted(rows) == [("first", *shapes["first"]), ("last", *shapes["last"])]


def test_layers_have_their_parameters_and_nested_models_are_blocks(tmp_path: Path):
    with recorded(tmp_path, model=network(), epochs=1) as store:
        said = dict(ask(store, """SELECT ?name ?said { { SELECT ?name (GROUP_CONCAT(?one; separator=" ") AS ?said) {
            { SELECT ?name ?one { ?l rdfs:label ?name ; provml:hasParameter ?v . ?v prov:value ?x ;
              prov:wasDerivedFrom/rdfs:label ?key . BIND(CONCAT(?key, "=", STR(?x)) AS ?one) } ORDER BY ?name ?one }
            } GROUP BY ?name } }"""))  # fmt: skip
        for one in ("filters=4", "kernel_size=(3, 3)", "strides=(2, 2)", "padding=same", "activation=relu"):
            assert one in said["conv"]
        assert "rate=0.1" in said["drop"]
        assert "units=16" in said["dense"]
        assert "kernel_regularizer=L2(l2=0.001)" in said["dense"]
        inside = ask(store, "SELECT ?n { ?b a provml:Block ; rdfs:label 'head' ; provml:hasLayer/rdfs:label ?n }")
        assert sorted(inside) == [("drop",), ("out",)]
        counts = ask(store, "SELECT ?c { ?m a provml:ModelSchemaValue ; provml:parameterCount ?c }")
        assert counts == [(network().count_params(),)]


@pytest.mark.parametrize(("detail", "batches"), [("batch", 20), ("epoch", 0)])
def test_batches_are_recorded_when_asked(tmp_path: Path, detail: str, batches: int):
    with recorded(tmp_path, detail=detail, epochs=2) as store:
        assert len(ask(store, "SELECT ?b { ?b a provml:BatchExecution }")) == batches
        assert len(ask(store, "SELECT ?v { ?v a provml:BatchEvaluation }")) == batches


def test_data_is_known_by_its_content_and_by_what_was_handed_over(tmp_path: Path):
    (tmp_path / "test.csv").write_text("1,2\n")
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True, data={"test": tmp_path / "test.csv"}) as capture:
        fit(model, capture, epochs=1)
        model.evaluate(*DIGITS["test"], callbacks=[capture], verbose=0)
    with provml.open(tmp_path / "home") as store:
        rows = ask(
            store,
            """SELECT ?name ?role (BOUND(?sha) AS ?known) { ?s prov:qualifiedUsage ?u .
            ?u prov:entity ?d ; prov:hadRole ?r . ?r rdfs:label ?role . ?d a provml:LearningDataset .
            ?d prov:wasDerivedFrom/rdfs:label ?name OPTIONAL { ?d provlake:sha256 ?sha } } ORDER BY ?name""",
        )
        assert set(rows) == {
            ("x", "training role", True), ("y", "training role", True), ("test.csv", "test role", True),
            ("validation x", "validation role", True), ("validation y", "validation role", True),
        }  # fmt: skip


# ---- what Keras says in its own way


def test_what_is_switched_on_and_off_is_an_adaptation(tmp_path: Path):
    class Hand(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.optimizer.weight_decay = None
                self.model.optimizer.clipnorm = 0.5

    with recorded(tmp_path, Hand(), model=small(optimizer=keras.optimizers.SGD(0.01, weight_decay=0.1))) as store:
        assert adaptations(store) == [
            (2, "clipnorm", "None", 0.5, "by hand"),
            (2, "weight_decay", 0.1, "None", "by hand"),
        ]


def test_the_optimizer_inside_one_that_scales_the_loss_is_named(tmp_path: Path):
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01, beta_1=0.8), initial_scale=1024.0)
    with recorded(tmp_path, model=small(optimizer=scaled), epochs=1) as store:
        found = used(store)
        told = {name: found[name] for name in ("optimizer", "learning_rate", "beta_1", "loss_scale")}
        assert told == {"optimizer": "Adam", "learning_rate": 0.01, "beta_1": 0.8, "loss_scale": 1024.0}
        assert adaptations(store) == []


def test_weights_that_two_models_share_are_counted_once(tmp_path: Path):
    shared = keras.layers.Dense(64, name="shared")
    nested = keras.Sequential([keras.layers.Input((64,)), shared], name="nested")
    inputs = keras.layers.Input((64,))
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(nested(shared(inputs))))
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:
        counts = ask(store, "SELECT ?c { ?m a provml:ModelSchemaValue ; provml:parameterCount ?c }")
        assert counts == [(model.count_params(),)]


def test_several_inputs_come_in_batches_of_the_usual_size_and_weights_of_samples_are_told(tmp_path: Path):
    x, y = DIGITS["training"]
    sides = [keras.layers.Input((64,)), keras.layers.Input((64,))]
    guess = keras.layers.Dense(10, activation="softmax")(keras.layers.Concatenate()(sides))
    model = keras.Model(sides, guess)
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit([x, x], y, sample_weight=y * 0.1, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        found = used(store)
        assert (found["batch_size"], found["sample_weight"]) == (32, f"ndarray of shape {y.shape}")


def loader(x: Any, y: Any) -> Any:
    """What the backend itself loads data by, where it has such a thing: in batches of 40."""
    if keras.backend.backend() == "torch":
        import torch

        held = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        return torch.utils.data.DataLoader(held, batch_size=40)
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        return tensorflow.data.Dataset.from_tensor_slices((x, y)).batch(40).prefetch(1)
    return None


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")  # just that
def test_that_data_is_shuffled_is_told_only_where_keras_shuffles(tmp_path: Path):
    x, y = rows(slice(0, 80))

    class Own(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return x[index * 40 : index * 40 + 40], y[index * 40 : index * 40 + 40]

    told = {}
    given = {"arrays": (x, y), "own": (Own(),), "generator": (iter_of(Own()),)}
    if loader(x, y) is not None:
        given["loader"] = (loader(x, y),)
    for name, data in given.items():
        with Capture("digits", home=tmp_path / name, strict=True) as capture:
            small().fit(*data, callbacks=[capture], steps_per_epoch=2, verbose=0)
        with provml.open(tmp_path / name) as store:
            told[name] = used(store).get("shuffle")
    assert told == {"arrays": True, "own": True, "generator": None} | {name: None for name in given if name == "loader"}


def iter_of(batches: Any) -> Any:
    yield from (batches[index] for index in range(len(batches)))


@pytest.mark.parametrize("weights", [{"digit": 1.0, "odd": 0.3}, None])
def test_the_weights_of_several_losses_are_told(tmp_path: Path, weights: Any):
    x, y = DIGITS["training"]
    inputs = keras.layers.Input((64,))
    guesses = {
        "digit": keras.layers.Dense(10, activation="softmax", name="digit")(inputs),
        "odd": keras.layers.Dense(1, activation="sigmoid", name="odd")(inputs),
    }
    model = keras.Model(inputs, guesses)
    losses = {"digit": "sparse_categorical_crossentropy", "odd": "binary_crossentropy"}
    model.compile("sgd", loss=losses, loss_weights=weights)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit(x, {"digit": y, "odd": y % 2}, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        found = used(store).get("loss_weights")
        assert (json.loads(found) if found else None) == weights


def twice(x: Any) -> Any:
    return x * 2


def test_a_function_of_ones_own_is_told_by_its_name_and_never_by_its_code(tmp_path: Path):
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(12, activation=lambda x: x * 2, name="nameless"),
            keras.layers.Dense(12, activation=twice, name="named"),
            keras.layers.Lambda(lambda x: x * 2, name="code"),
            keras.layers.Dense(10, activation="softmax", name="usual"),
        ]
    )
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=1) as store:  # and a warning would be an error
        said = ask(store, """SELECT ?name ?key ?value { ?l a provml:Layer ; rdfs:label ?name ; provml:hasParameter ?v .
            ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label ?key }""")  # fmt: skip
        named = {name: value for name, key, value in said if key == "activation"}
        assert named == {"nameless": "<lambda>", "named": "twice", "usual": "softmax"}
        assert [key for name, key, _ in said if name == "code"] == []


class Part:
    """A part of a pipeline of TensorFlow's."""

    def __init__(self, *, of: Any = None, batch: Any = None) -> None:
        self._input_dataset = of
        if batch is not None:
            self._batch_size = batch


def test_a_pipeline_of_tensorflow_is_asked_for_the_size_of_its_batches():
    from provml.capture.around import batch_size

    assert batch_size({"x": Part(of=Part(of=Part(batch=Tensor(12))))}) == 12
    assert batch_size({"x": Part()}) is None


class Tensor:
    def __init__(self, value: int) -> None:
        self.value = value

    def numpy(self) -> Any:
        return self.value


def test_a_file_that_keras_cannot_save_to_is_refused_at_once(tmp_path: Path):
    with pytest.raises(provml.ProvmlError, match=r"save_model takes .*\.keras"):
        Capture("digits", home=tmp_path / "home", save_model="noext")
    assert not (tmp_path / "home").exists()
