"""Autolog of the frameworks that have callbacks: Keras, Lightning, Transformers, XGBoost, LightGBM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capture import test_boosting, test_keras, test_lightning, test_transformers
from capture.autolog.contracts import AutologContract
from capture.contract import Expected

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
