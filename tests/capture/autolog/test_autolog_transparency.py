"""Autolog changes nothing for the script: functions look as before, results and random numbers are equal to the bit."""

from __future__ import annotations

import inspect
import pickle
import random
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provml
from capture import test_keras, test_lightning, test_transformers
from capture.autolog.contracts import autologging
from capture.contract import ask
from provml.capture.autolog import FRAMEWORKS, current

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")
keras = pytest.importorskip("keras")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
lightning = pytest.importorskip("lightning.pytorch")
pytest.importorskip("optuna")
pytest.importorskip("sklearn.cluster")

pytestmark = [pytest.mark.xdist_group("torch"), *test_keras.pytestmark[1:], *test_lightning.pytestmark[1:]]

X = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("float32")


def train_keras(folder: Path) -> bytes:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(X, Y, epochs=2, batch_size=16, verbose=0)
    results = [model.train_on_batch(X[:16], Y[:16]), model.test_on_batch(X[16:], Y[16:], return_dict=True)]
    assert [type(result) for result in results] == [float, dict]
    assert type(history) is keras.callbacks.History
    assert isinstance(keras.models.clone_model(model), keras.Sequential)
    assert pickle.loads(pickle.dumps(model.optimizer)).get_config() == model.optimizer.get_config()
    return pickle.dumps([results, *(array.tobytes() for array in model.get_weights())])


def train_xgboost(folder: Path) -> bytes:
    settings = {"subsample": 0.5, "seed": 1, "nthread": 1}
    booster = xgboost.train(settings, xgboost.DMatrix(X, Y), 3)
    estimator = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, Y)
    assert type(booster) is xgboost.Booster
    assert isinstance(pickle.loads(pickle.dumps(estimator)), xgboost.XGBRegressor)
    return bytes(pickle.loads(pickle.dumps(booster)).save_raw()) + bytes(estimator.get_booster().save_raw())


def train_lightgbm(folder: Path) -> bytes:
    settings = {"verbose": -1, "min_data_in_leaf": 1, "bagging_fraction": 0.5, "bagging_freq": 1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, Y), 3)
    estimator = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(X, Y)
    assert type(booster) is lightgbm.Booster
    assert isinstance(pickle.loads(pickle.dumps(estimator)), lightgbm.LGBMRegressor)
    return (booster.model_to_string() + estimator.booster_.model_to_string()).encode()


TRAININGS: dict[str, Callable[[Path], Any]] = {
    "keras": train_keras,
    "xgboost": train_xgboost,
    "lightgbm": train_lightgbm,
    "lightning": lambda folder: test_lightning.TestLightning.train(None, folder).result,
    "transformers": lambda folder: test_transformers.TestTransformers.train(None, folder).result,
}
MISTAKES: dict[str, Callable[[], Any]] = {
    "keras": lambda: keras.Sequential([keras.layers.Dense(1)]).fit(X, Y),
    "xgboost": lambda: xgboost.train({}, X),
    "lightgbm": lambda: lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, Y), -1),
    "lightning": lambda: lightning.Trainer(max_epochs=1, devices="none"),
    "transformers": lambda: test_transformers.Trainer(),
}


def random_states() -> list[Any]:
    """Return the states of all random generators."""
    return [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]


def seeded(train: Callable[[Path], Any], folder: Path) -> tuple[Any, list[Any]]:
    """Return the result of a training from fixed seeds, and the states of the random generators after it."""
    folder.mkdir()
    random.seed(5)
    np.random.seed(5)  # what scripts use
    torch.manual_seed(5)
    return train(folder), random_states()


@pytest.mark.parametrize("framework", TRAININGS)
def test_weights_and_random_numbers_are_equal_to_the_bit(framework: str, isolated_home: Path):
    plain = seeded(TRAININGS[framework], isolated_home / "plain")
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, frameworks=[framework]):
        assert framework in current().patches  # type: ignore[union-attr]
        recorded = seeded(TRAININGS[framework], isolated_home / "recorded")
    assert recorded == plain
    with provml.open(isolated_home / "home") as store:
        assert store.run("latest").status == "FINISHED"
        assert ask(store, "SELECT ?t { ?t a provml:TrainingExecution }")


@pytest.mark.parametrize("framework", MISTAKES)
def test_a_mistake_raises_what_it_raised(framework: str, isolated_home: Path):
    def mistake() -> tuple[type[BaseException], str]:
        with pytest.raises(Exception) as caught:  # whatever the framework raises
            MISTAKES[framework]()
        return caught.type, str(caught.value)

    plain = mistake()
    with autologging(home=isolated_home / "home", capture_environment=False, frameworks=[framework]):
        assert mistake() == plain


def test_every_wrapper_looks_like_its_original_and_is_undone(isolated_home: Path):
    with autologging(home=isolated_home / "home"):
        patches = {name: list(items) for name, items in current().patches.items()}  # type: ignore[union-attr]
        assert {"keras", "xgboost", "lightgbm", "torch", "sklearn", "optuna", "transformers"} <= patches.keys()
        for framework, items in patches.items():
            for owner, name, original, replacement in items:
                label = f"{framework}: {name} of {owner}"
                assert vars(owner)[name] is replacement, label
                if inspect.isfunction(original):
                    assert replacement.__name__ == original.__name__, label
                    assert replacement.__doc__ == original.__doc__, label
                    assert replacement.__module__ == original.__module__, label
                    assert str(inspect.signature(replacement)) == str(inspect.signature(original)), label
                    if inspect.ismodule(owner) and getattr(sys.modules[original.__module__], name, None) is replacement:
                        assert pickle.loads(pickle.dumps(replacement)) is replacement, label
    for items in patches.values():
        for owner, name, _, replacement in items:
            assert vars(owner).get(name) is not replacement, f"{name} of {owner} is still replaced"
    assert not [item for item in sys.modules["transformers.trainer"].DEFAULT_CALLBACKS if "provml" in str(item)]


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "autolog.md"
COLLECTIVE = ("sklearn.metrics", "torch.nn.functional")
"""Modules whose wrapped functions the page names together."""
NAMES = {"scikit-learn": "sklearn", "PyTorch": "torch"}


def test_the_page_lists_everything_that_is_wrapped(isolated_home: Path):
    documented: dict[str, set[str]] = {}
    for line in PAGE.read_text().partition("## What is wrapped")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            framework = NAMES.get(cells[0], cells[0].lower())
            names = {name.rpartition(".")[2] for name in re.findall(r"`([^`]+)`", cells[2])}
            documented[framework] = names - {name.rpartition(".")[2] for name in COLLECTIVE}
    with autologging(home=isolated_home / "home"):
        for framework, patches in current().patches.items():  # type: ignore[union-attr]
            wrapped = {item.name for item in patches if getattr(item.owner, "__name__", "") not in COLLECTIVE}
            wrapped -= {"fn"}  # of a descriptor that stands for a listed method
            if framework == "torch":
                wrapped.add("__call__")  # until the networks are known
            if framework in ("lightning", "pytorch_lightning"):
                assert wrapped <= documented["lightning"]
            else:
                assert wrapped == documented[framework], framework


PACKAGES = {name: framework for name, framework in FRAMEWORKS.items() if framework.first and name != "torch"}


@pytest.mark.parametrize("framework", PACKAGES)
def test_an_unknown_version_is_left_alone_with_one_line_in_the_log(
    framework: str, isolated_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with suppress(ImportError):
        __import__(PACKAGES[framework].trigger)
    module = sys.modules[PACKAGES[framework].package or framework]
    monkeypatch.setattr(module, "__version__", "99.1.0")
    with autologging(home=isolated_home / "home", frameworks=[framework]):
        assert current().patches == {}  # type: ignore[union-attr]
        if framework == "lightning":
            assert not [item for item in lightning.Trainer(logger=False).callbacks if "provml" in type(item).__module__]
    lines = [entry.message for entry in caplog.records if entry.name == "provml"]
    assert len(lines) == 1
    assert f"{framework} 99.1.0" in lines[0]
    assert not (isolated_home / "home").exists()
