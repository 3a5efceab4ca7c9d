"""Keras, trained in ways that are less usual: optimizers, schedules and losses of one's own, an interrupted `fit`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import Boom, adaptations, ask, models_of, used
from capture.digits import rows

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed; `pip install 'provml[keras]'` and a backend")

from capture.test_keras import fit, network, recorded, small  # noqa: E402  # the backend is chosen before Keras is loaded
from provml.capture.keras import Capture  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    # Keras's variables on PyTorch give numpy an array in the way of numpy 1
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]


# ---- optimizers, schedules and losses


class Warm(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule as tutorials have it: it cannot say how to make it again."""

    def __init__(self, top: float) -> None:
        self.top = top

    def __call__(self, step: Any) -> Any:
        return self.top * keras.ops.minimum(1.0, (keras.ops.cast(step, "float32") + 1) / 20)


def test_a_schedule_that_keras_could_not_save_is_told_all_the_same(tmp_path: Path):
    model = small(optimizer=keras.optimizers.SGD(Warm(0.2), momentum=0.5))
    with recorded(tmp_path, model=model, epochs=2) as store:
        found = used(store)
        told = [
            found[name] for name in ("optimizer", "momentum", "learning_rate_schedule", "learning_rate_schedule.top")
        ]
        assert told == ["SGD", 0.5, "Warm", 0.2]
        assert found["learning_rate"] == pytest.approx(0.01)
        assert {row[4] for row in adaptations(store)} == {"Warm"}


def test_a_rate_that_a_function_gives_is_told_by_its_name(tmp_path: Path):
    with recorded(tmp_path, model=small(optimizer=keras.optimizers.SGD(lambda: 0.05)), epochs=2) as store:
        found = used(store)  # and a warning would be an error
        assert (found["learning_rate"], found["learning_rate_schedule"]) == (pytest.approx(0.05), "<lambda>")
        assert adaptations(store) == []


def test_the_steps_of_a_schedule_are_told(tmp_path: Path):
    steps = keras.optimizers.schedules.PiecewiseConstantDecay([10, 20], [0.1, 0.05, 0.01])
    with recorded(tmp_path, model=small(steps), epochs=2) as store:
        found = used(store)
        head = "learning_rate_schedule."
        assert (found[head + "boundaries"], found[head + "values"]) == ("[10, 20]", "[0.1, 0.05, 0.01]")


def test_the_parameters_of_losses_are_told(tmp_path: Path):
    x, y = rows(slice(0, 64))
    inputs = keras.layers.Input((64,))
    guesses = {name: keras.layers.Dense(size, name=name)(inputs) for name, size in (("digit", 10), ("value", 1))}
    model = keras.Model(inputs, guesses)
    both = {"digit": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "value": keras.losses.Huber(0.5)}
    model.compile("sgd", loss=both)
    with Capture("digits", home=tmp_path, strict=True) as capture:
        model.fit(x, {"digit": y, "value": y}, callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        found = used(store)
        assert (found["loss.digit.from_logits"], found["loss.value.delta"]) == (True, 0.5)
        assert "loss.value.reduction" not in found


class Pair(keras.Model):
    """A model with two optimizers of its own, as a GAN has."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = keras.layers.Dense(10, name="maker")
        self.judge = keras.layers.Dense(1, name="judge")

    def compile(self, maker: Any, judge: Any, **more: Any) -> None:
        super().compile(**more)
        self.for_maker, self.for_judge = maker, judge

    def call(self, x: Any) -> Any:
        return self.judge(self.maker(x))

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y_pred))

    def train_step(self, *given: Any) -> Any:
        return super().train_step(*given)


class Slower(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.model.for_judge.learning_rate = 0.02


@pytest.mark.parametrize("loss", [None, "mse"])
def test_optimizers_that_a_model_holds_itself_are_told_by_their_names(tmp_path: Path, loss: Any):
    model = Pair()
    model.compile(keras.optimizers.Adam(0.001), keras.optimizers.SGD(0.04, momentum=0.5), loss=loss)
    with recorded(tmp_path, Slower(), model=model, epochs=2) as store:
        found = used(store)
        told = {name: value for name, value in found.items() if name.endswith(("rate", "optimizer", "momentum"))}
        kept = {"for_maker.learning_rate": 0.001, "for_judge.learning_rate": 0.04, "for_judge.momentum": 0.5}
        assert kept.items() <= told.items()
        if loss is None:  # the one that Keras takes by itself has nothing to do
            assert told["optimizer"] == "Adam, SGD"
            assert "learning_rate" not in told
        else:
            assert (told["optimizer"], told["learning_rate"]) == ("RMSprop, Adam, SGD", 0.001)
        assert adaptations(store) == [(2, "for_judge.learning_rate", 0.04, 0.02, "by hand")]


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras has no MultiOptimizer")
def test_each_of_several_optimizers_in_one_has_its_name_and_its_schedule(tmp_path: Path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    usual, other = keras.optimizers.SGD(schedule, name="one"), keras.optimizers.SGD(0.3, name="one")
    model = network()
    several = keras.optimizers.OptimizerMap(usual, {"dense/.*": other})
    model.compile(keras.optimizers.MultiOptimizer(several), loss="sparse_categorical_crossentropy")
    with recorded(tmp_path, model=model, epochs=2) as store:
        found = used(store)
        told = found["optimizer"], found["one.learning_rate"], found["one_2.learning_rate_schedule"]
        assert told == ("SGD, SGD", 0.3, "ExponentialDecay")
        assert {row[1:2] + row[4:] for row in adaptations(store)} == {("one_2.learning_rate", "ExponentialDecay")}


# ---- what stands beside it


class Interrupted(keras.callbacks.Callback):
    """Lowers the rate for the second epoch, and raises in the third."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.model.optimizer.learning_rate = 0.005
        if epoch == 2:
            raise Boom("in the middle")


@pytest.mark.parametrize("first", [True, False])
def test_a_training_that_was_interrupted_goes_on_from_its_backup(tmp_path: Path, first: bool):
    with pytest.raises(Boom):
        recorded(tmp_path, keras.callbacks.BackupAndRestore(tmp_path / "kept"), Interrupted(), first=first, run="one")
    held = keras.callbacks.BackupAndRestore(tmp_path / "kept")
    with recorded(tmp_path, held, first=first, epochs=4, run="two") as store:
        kept = ask(store, "SELECT ?sha { ?m provlake:sha256 ?sha ; prov:wasGeneratedBy ?e . ?e provml:sectionIndex 2 ."
                   " ?e provml:wasSectionOf/a provml:TrainingExecution }")  # fmt: skip
        went_on = ask(store, "SELECT ?sha { ?t a provml:TrainingExecution ; prov:used ?m . ?m a provml:Model ;"
                      " provlake:sha256 ?sha }")  # fmt: skip
        assert went_on == kept, "what the first left is what the second goes on from"
        assert went_on
        said = ask(store, "SELECT ?run ?e { ?t a provml:TrainingExecution ; prov:used ?v . ?v prov:value ?e ;"
                   " provlake:wasDerivedFromAttribute/rdfs:label 'initial_epoch' BIND(STR(?t) AS ?run) }")  # fmt: skip
        assert [epoch for _, epoch in said] == [2]
        restored = [(3, "learning_rate", 0.01, 0.005, "BackupAndRestore")] if first else []
        assert adaptations(store) == [(2, "learning_rate", 0.01, 0.005, "by hand"), *restored]


def test_a_file_of_the_middle_of_an_epoch_is_not_the_model_that_a_training_left(tmp_path: Path):
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "at.keras", save_freq=7)
    model = small()
    with Capture("digits", home=tmp_path / "home", strict=True) as capture:
        fit(model, capture, kept, epochs=1)
        fit(model, capture, epochs=1)
    with provml.open(tmp_path / "home") as store:
        _, before = models_of(store)
        files = [one for (one,) in ask(store, "SELECT ?m { ?m a provml:Model ; provlake:path ?p }")]
        assert len(files) == 1
        assert before[1] not in files


def test_files_of_a_backup_are_left_unread_where_it_is_asked(tmp_path: Path):
    held = keras.callbacks.BackupAndRestore(tmp_path / "kept")
    with recorded(tmp_path / "home", held, epochs=2, checkpoints=False) as store:
        assert ask(store, "SELECT ?p { ?m a provml:Model ; provlake:path ?p }") == []


def test_a_change_that_is_not_in_force_says_so(tmp_path: Path):
    class Hand(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.momentum = (0.3, 0.7)[epoch]

    with recorded(tmp_path, Hand(), model=small(optimizer=keras.optimizers.SGD(0.01, momentum=0.2)), epochs=2) as store:
        reasons = ask(store, """SELECT ?e ?why { ?a a provml:AdaptationExecution ; provml:adaptedDuring ?during .
            ?during provml:sectionIndex ?e . OPTIONAL { ?a provml:reason ?why } } ORDER BY ?e""")  # fmt: skip
    backend = keras.backend.backend()
    why = (
        None
        if backend == "torch"
        else f"{backend} goes on with the momentum of before until the model is compiled anew"
    )
    assert reasons == [(1, None), (2, why)]


# ---- layers and data


def test_a_layer_that_is_frozen_says_so(tmp_path: Path):
    model = network()
    model.get_layer("conv").trainable = False
    model.get_layer("head").trainable = False
    with recorded(tmp_path, model=model, epochs=1) as store:
        rows = ask(store, """SELECT ?name ?value { ?l a provml:Layer ; rdfs:label ?name ; provml:hasParameter ?v .
            ?v prov:value ?value ; prov:wasDerivedFrom/rdfs:label "trainable" } ORDER BY ?name""")  # fmt: skip
        assert rows == [("conv", False), ("out", False)]


def test_a_data_frame_is_known_by_its_content(tmp_path: Path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; `pip install 'provml[pandas]'`")
    x, y = rows(slice(0, 64))
    with Capture("digits", home=tmp_path, strict=True) as capture:
        small().fit(pandas.DataFrame(x), pandas.Series(y), callbacks=[capture], verbose=0)
    with provml.open(tmp_path) as store:
        known = ask(
            store, "SELECT ?n { ?d a provml:LearningDataset ; provlake:sha256 ?s ; prov:wasDerivedFrom/rdfs:label ?n }"
        )
        assert sorted(known) == [("x",), ("y",)]
