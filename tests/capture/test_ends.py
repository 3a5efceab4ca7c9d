"""What waits for an end comes with the run's: models are saved and told, and early stops are, where no `with` ends
the capture itself."""

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
    # Keras's variables on PyTorch give numpy an array in the way of numpy 1
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
    said = {"objective": "multiclass", "num_class": 10, "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    callbacks = [*capture.callbacks, lightgbm.early_stopping(2, verbose=False)]
    lightgbm.train({**said, "learning_rate": 2.0}, training, 40, valid_sets=[valid], callbacks=callbacks)


def by_sklearn(path: Path, **settings: Any) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from provml.capture.sklearn import Capture

    capture, model = Capture(save_model=path, **settings), linear.SGDClassifier()
    for _ in range(2):
        capture.partial_fit(model, *digits()["training"], classes=list(range(10)))


WAYS = [by_keras, by_torch, by_lightgbm, by_sklearn]


def holds(home: Path, way: Any) -> None:
    """What was waiting was saved and told."""
    assert len(list(home.parent.glob("net*"))) == 1
    with provml.open(home) as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        made = "{ ?m prov:wasGeneratedBy ?t } UNION { ?m prov:wasGeneratedBy/provml:wasSectionOf ?t }"
        rows = ask(
            store, f"SELECT ?p {{ ?t a provml:TrainingExecution . {made} ?m a provml:Model ; provlake:path ?p }}"
        )
        assert [Path(path).stem for (path,) in rows] == ["net"]
        stops = [row for row in adaptations(store) if row[1] in ("epochs", "num_iterations")]
        assert len(stops) == (way is not by_sklearn)


@pytest.mark.parametrize("way", WAYS)
def test_the_end_of_a_run_ends_its_captures(tmp_path: Path, way: Callable[..., None]):
    with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
        way(tmp_path / "net", run=run)
    holds(tmp_path / "home", way)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_failed_after_the_training_has_its_model_all_the_same(tmp_path: Path, way: Callable[..., None]):
    def train() -> None:
        with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
            way(tmp_path / "net", run=run)
            raise OSError("elsewhere")

    with pytest.raises(OSError, match="elsewhere"):
        train()
    holds(tmp_path / "home", way)
    with provml.open(tmp_path / "home") as store:
        assert store.run("latest").status == "FAILED"


@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_saved_where_recording_is_off(
    tmp_path: Path, way: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("digits", home=tmp_path / "home") as run:
        way(tmp_path / "net", run=run)
    assert len(list(tmp_path.glob("net*"))) == 1
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("way", "off"), [*((way, "") for way in WAYS), (by_sklearn, "1")])
def test_the_end_of_the_process_ends_them_too(tmp_path: Path, way: Callable[..., None], off: str):
    pytest.importorskip(way.__name__.removeprefix("by_"))
    said = f"home={str(tmp_path / 'home')!r}, strict=True, capture_environment=False"
    code = f"from pathlib import Path\nfrom capture.test_ends import *\n{way.__name__}(Path('net'), {said})\n"
    around = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "PROVML_DISABLED": off, "OMP_NUM_THREADS": "1"}
    around["PYTHONPATH"] += os.pathsep + str(Path(provml.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=around, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    if off:
        assert len(list(tmp_path.glob("net*"))) == 1
    else:
        holds(tmp_path / "home", way)


def leave(*_: Any) -> None:
    sys.exit()


def exit_in_keras(epochs: int = 9, **settings: Any) -> None:
    keras = pytest.importorskip("keras")
    from provml.capture.keras import Capture

    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    ends = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: leave() if batch == 2 else None)
    with Capture("digits", **settings) as capture:
        model.fit(*digits()["training"], epochs=epochs, callbacks=[capture, ends], verbose=0)


def exit_in_torch(epochs: int = 9, **settings: Any) -> None:
    torch = pytest.importorskip("torch")
    from provml.capture.torch import Capture

    with Capture("digits", torch.nn.Linear(64, 10), **settings) as capture:
        for epoch in capture.epochs(epochs):
            epoch.measured(loss=1.0)
            leave()


def exit_in_lightgbm(epochs: int = 9, **settings: Any) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    from provml.capture.lightgbm import Capture

    training = lightgbm.Dataset(*digits()["training"])
    said = {"objective": "multiclass", "num_class": 10, "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    with Capture("digits", **settings) as capture:
        lightgbm.train(said, training, epochs, callbacks=[*capture.callbacks, leave])


@pytest.mark.parametrize("way", [exit_in_keras, exit_in_torch, exit_in_lightgbm])
def test_a_program_that_is_ended_on_purpose_in_a_training_stopped_it_there(tmp_path: Path, way: Callable[..., None]):
    with pytest.raises(SystemExit):
        way(home=tmp_path, strict=True, capture_environment=False)
    with provml.open(tmp_path) as store:
        assert store.run("latest").status == "FINISHED"
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        (stop,) = adaptations(store)
        assert (stop[2:4], stop[4]) == ((9, 1), "by hand")
        reasons = ask(store, "SELECT ?why { ?a a provml:AdaptationExecution ; provml:reason ?why }")
        assert reasons == [("the program was ended inside the last of them",)]


@pytest.mark.parametrize("way", [exit_in_keras, exit_in_torch, exit_in_lightgbm])
def test_one_that_is_ended_inside_the_last_epoch_says_that_this_was_not_whole(tmp_path: Path, way: Callable[..., None]):
    with pytest.raises(SystemExit):
        way(epochs=1, home=tmp_path, strict=True, capture_environment=False)
    with provml.open(tmp_path) as store:
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        stops = [(1, "epochs", 1, 0, "by hand")]
        assert adaptations(store) == ([] if way is exit_in_lightgbm else stops)  # a round is told when it is done
        reasons = ask(store, "SELECT ?why { ?a a provml:AdaptationExecution ; provml:reason ?why }")
        assert reasons == [("the program was ended inside epoch 1, a part of one",)] * (way is not exit_in_lightgbm)
        assert store.problems == []
