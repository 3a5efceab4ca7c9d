"""Autolog of the frameworks that have callbacks: Keras, Lightning, Transformers, XGBoost, LightGBM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import provml
from capture import test_boosting, test_keras, test_lightning, test_transformers
from capture.autolog.contracts import AutologContract, autologging
from capture.contract import Expected, ask, digest_of

transformers: Any = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    *test_keras.pytestmark[1:],
    *test_lightning.pytestmark[1:],
]


class TestKeras(AutologContract):
    software = "keras"
    explicit = test_keras.TestKeras


class TestLightning(AutologContract):
    software = "lightning"
    explicit = test_lightning.TestLightning


class TestTransformers(AutologContract):
    software = "transformers"
    explicit = test_transformers.TestTransformers


@pytest.mark.parametrize("is_pretrained", [False, True], ids=["module", "PreTrainedModel"])
def test_a_folder_that_a_trained_model_is_saved_in_is_recorded(is_pretrained: bool, tmp_path: Path):
    """The Trainer saves a module itself, and has a PreTrainedModel save itself."""
    network = PretrainedNetwork(transformers.PretrainedConfig()) if is_pretrained else test_transformers.Network()
    untrained = PretrainedNetwork(transformers.PretrainedConfig())
    with autologging(home=tmp_path / "home", strict=True, capture_environment=False, frameworks=["transformers"]):
        training = test_transformers.trainer(tmp_path, network, epochs=1, save_strategy="no", eval_strategy="no")
        training.train()
        training.save_model(tmp_path / "final")
        untrained.save_pretrained(tmp_path / "other")
    with provml.open(tmp_path / "home") as store:
        models = "SELECT DISTINCT ?d { ?t a provml:TrainingExecution . ?m prov:wasGeneratedBy ?t ; provlake:sha256 ?d }"
        digests = ask(store, models)
    assert digests == [(digest_of(tmp_path / "final" / "model.safetensors"),)]


class PretrainedNetwork(transformers.PreTrainedModel):
    """The network of the tests as a model of Transformers."""

    config_class = transformers.PretrainedConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.network = test_transformers.Network()
        self.post_init()

    def forward(self, pixels: Any, labels: Any = None) -> Any:
        return self.network(pixels, labels)


class TestXGBoost(AutologContract):
    software = "xgboost"
    section = "provml:RoundExecution"
    explicit = test_boosting.TestXGBoost

    @classmethod
    def expected(cls, expected: Expected) -> Expected:
        return replace(expected, evaluation={})


class TestLightGBM(AutologContract):
    software = "lightgbm"
    section = "provml:RoundExecution"
    explicit = test_boosting.TestLightGBM

    @classmethod
    def expected(cls, expected: Expected) -> Expected:
        return replace(expected, evaluation={})


class Interruption(test_boosting.xgboost.callback.TrainingCallback):
    """Ctrl-C in the second round."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == 1:
            raise KeyboardInterrupt
        return False


@pytest.mark.parametrize("is_estimator", [False, True], ids=["train", "estimator"])
def test_what_left_a_training_of_xgboost_is_recorded_although_the_script_caught_it(is_estimator: bool, tmp_path: Path):
    xgboost = test_boosting.xgboost
    with autologging(home=tmp_path, strict=True, capture_environment=False, frameworks=["xgboost"]):
        matrix = xgboost.DMatrix(test_boosting.X, test_boosting.Y)
        model = xgboost.XGBClassifier(n_estimators=4, callbacks=[Interruption()])
        with pytest.raises(KeyboardInterrupt):
            model.fit(test_boosting.X, test_boosting.Y) if is_estimator else xgboost.train(
                {}, matrix, 4, callbacks=[Interruption()]
            )
        xgboost.train({}, matrix, 1)
    with provml.open(tmp_path) as store:
        statuses = ask(
            store,
            """SELECT ?status { ?t a provml:TrainingExecution ; provlake:status ?status ; prov:startedAtTime ?at }
               ORDER BY ?at""",
        )
        assert statuses == [("INTERRUPTED",), ("FINISHED",)]
