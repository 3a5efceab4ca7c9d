"""The end of a run or a process exits its captures: models and early stops are saved and recorded without a `with`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import adaptations, ask
from capture.digits import digits

os.environ.setdefault("KERAS_BACKEND", "torch")
pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    # Keras's variables on PyTorch give numpy an array in the train of numpy 1
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]


def by_keras(path: Path, **settings: Any) -> None:
    keras = pytest.importorskip("keras")
    from provml.capture.keras import Capture

    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=100.0, restore_best_weights=True)
    callbacks = [Capture(save_model=path.with_suffix(".keras"), **settings), stop]
    model.fit(*digits()["training"], epochs=9, callbacks=callbacks, verbose=0)


def by_torch(path: Path, **settings: Any) -> None:
    torch = pytest.importorskip("torch")
    from provml.capture.torch import Capture

    capture = Capture("", torch.nn.Linear(64, 10), save_model=path, **settings)
    for epoch in capture.epochs(9):
        if epoch.index == 2:
            break


def by_lightgbm(path: Path, **settings: Any) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    from provml.capture.lightgbm import Capture

    capture = Capture(save_model=path, **settings)
    training = lightgbm.Dataset(*digits()["training"])
    valid = lightgbm.Dataset(*digits()["validation"], reference=training)
    params = {"objective": "multiclass", "num_class": 10, "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    callbacks = [*capture.callbacks, lightgbm.early_stopping(2, verbose=False)]
    lightgbm.train({**params, "learning_rate": 2.0}, training, 40, valid_sets=[valid], callbacks=callbacks)


def by_sklearn(path: Path, **settings: Any) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from provml.capture.sklearn import Capture

    capture, model = Capture(save_model=path, **settings), linear.SGDClassifier()
    for _ in range(2):
        capture.partial_fit(model, *digits()["training"], classes=list(range(10)))


TRAININGS = [by_keras, by_torch, by_lightgbm, by_sklearn]


def check_recorded(home: Path, train: Any) -> None:
    """Check that the model and the early stop were saved and recorded."""
    assert len(list(home.parent.glob("net*"))) == 1
    with provml.open(home) as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        produced = "{ ?m prov:wasGeneratedBy ?t } UNION { ?m prov:wasGeneratedBy/provml:wasSectionOf ?t }"
        rows = ask(
            store, f"SELECT ?p {{ ?t a provml:TrainingExecution . {produced} ?m a provml:Model ; provlake:path ?p }}"
        )
        assert [Path(path).stem for (path,) in rows] == ["net"]
        stops = [row for row in adaptations(store) if row[1] in ("epochs", "num_iterations")]
        assert len(stops) == (train is not by_sklearn)


@pytest.mark.parametrize("train", TRAININGS)
def test_the_end_of_a_run_ends_its_captures(tmp_path: Path, train: Callable[..., None]):
    with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
        train(tmp_path / "net", run=run)
    check_recorded(tmp_path / "home", train)


@pytest.mark.parametrize("train", TRAININGS)
def test_a_run_that_failed_after_the_training_has_its_model(tmp_path: Path, train: Callable[..., None]):
    def fail() -> None:
        with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
            train(tmp_path / "net", run=run)
            raise OSError("after the training")

    with pytest.raises(OSError, match="after the training"):
        fail()
    check_recorded(tmp_path / "home", train)
    with provml.open(tmp_path / "home") as store:
        assert store.run("latest").status == "FAILED"


@pytest.mark.parametrize("train", TRAININGS)
def test_a_model_is_saved_if_recording_is_disabled(
    tmp_path: Path, train: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("digits", home=tmp_path / "home") as run:
        train(tmp_path / "net", run=run)
    assert len(list(tmp_path.glob("net*"))) == 1
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("train", "disabled"), [*((train, "") for train in TRAININGS), (by_sklearn, "1")])
def test_the_end_of_the_process_ends_its_captures(tmp_path: Path, train: Callable[..., None], disabled: str):
    pytest.importorskip(train.__name__.removeprefix("by_"))
    settings = f"home={str(tmp_path / 'home')!r}, strict=True, capture_environment=False"
    code = f"from pathlib import Path\nfrom capture.test_ends import *\n{train.__name__}(Path('net'), {settings})\n"
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "PROVML_DISABLED": disabled,
        "OMP_NUM_THREADS": "1",
    }
    environment["PYTHONPATH"] += os.pathsep + str(Path(provml.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    if disabled:
        assert len(list(tmp_path.glob("net*"))) == 1
    else:
        check_recorded(tmp_path / "home", train)


def exit_program(*_: Any) -> None:
    sys.exit()


def exit_in_keras(epochs: int = 9, **settings: Any) -> None:
    keras = pytest.importorskip("keras")
    from provml.capture.keras import Capture

    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    exits = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: exit_program() if batch == 2 else None
    )
    with Capture("digits", **settings) as capture:
        model.fit(*digits()["training"], epochs=epochs, callbacks=[capture, exits], verbose=0)


def exit_in_torch(epochs: int = 9, **settings: Any) -> None:
    torch = pytest.importorskip("torch")
    from provml.capture.torch import Capture

    with Capture("digits", torch.nn.Linear(64, 10), **settings) as capture:
        for epoch in capture.epochs(epochs):
            epoch.measured(loss=1.0)
            exit_program()


def exit_in_lightgbm(epochs: int = 9, **settings: Any) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    from provml.capture.lightgbm import Capture

    training = lightgbm.Dataset(*digits()["training"])
    params = {"objective": "multiclass", "num_class": 10, "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    with Capture("digits", **settings) as capture:
        lightgbm.train(params, training, epochs, callbacks=[*capture.callbacks, exit_program])


@pytest.mark.parametrize("train", [exit_in_keras, exit_in_torch, exit_in_lightgbm])
def test_a_program_that_exits_in_a_training_stopped_it(tmp_path: Path, train: Callable[..., None]):
    with pytest.raises(SystemExit):
        train(home=tmp_path, strict=True, capture_environment=False)
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        (stop,) = adaptations(store)
        assert (stop[2:4], stop[4]) == ((9, 1), "by hand")
        reasons = ask(store, "SELECT ?why { ?a a provml:AdaptationExecution ; provml:reason ?why }")
        assert reasons == [("the program was ended inside the last of them",)]


@pytest.mark.parametrize("train", [exit_in_keras, exit_in_torch, exit_in_lightgbm])
def test_an_exit_inside_the_last_epoch_is_recorded_as_incomplete(tmp_path: Path, train: Callable[..., None]):
    with pytest.raises(SystemExit):
        train(epochs=1, home=tmp_path, strict=True, capture_environment=False)
    with provml.open(tmp_path) as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        stops = [(1, "epochs", 1, 0, "by hand")]
        assert adaptations(store) == (
            [] if train is exit_in_lightgbm else stops
        )  # a round is recorded when it is complete
        reasons = ask(store, "SELECT ?why { ?a a provml:AdaptationExecution ; provml:reason ?why }")
        assert reasons == [("the program was ended inside epoch 1, which is incomplete",)] * (
            train is not exit_in_lightgbm
        )
        assert store.problems == []
