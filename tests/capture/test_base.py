"""The base of captures: wrong settings are rejected before a run starts, and unknown names are logged once."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import ask
from provml.capture._hyperparameters import HyperparameterSource, Selection
from provml.capture.base import CaptureBase
from provml.errors import ProvmlError

pytestmark = pytest.mark.usefixtures("isolated_home")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hyperparameters": ["learning_rate"]}, r"hyperparameters takes names .* True"),
        ({"hyperparameters": {"LEARNING_RATE": "yes"}}, r"hyperparameters takes names .* True.*'yes'"),
        ({"hyperparameters": {"LEARNING_RATE": 2}}, r"hyperparameters takes names .* True"),
        ({"hyperparameters": {7: True}}, r"hyperparameters takes names .* True"),
        ({"data": np.zeros(3)}, r"data takes data by role.*'training'"),
        ({"run": 7}, r"run takes a run"),
    ],
)
def test_a_wrong_setting_is_rejected_before_a_run_starts(settings: dict[str, Any], message: str):
    with pytest.raises(ProvmlError, match=message):
        CaptureBase("digits", **settings)
    assert not Path(".provml").exists()


@pytest.mark.parametrize("framework", ["torch", "sklearn", "xgboost", "lightgbm"])
def test_a_wrong_path_for_the_model_is_rejected_before_a_run_starts(framework: str):
    pytest.importorskip(framework)
    capture = importlib.import_module(f"provml.capture.{framework}").Capture
    with pytest.raises(ProvmlError, match="save_model"):
        capture("digits", save_model=7)
    assert not Path(".provml").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 3}, r"an unexpected argument 'lr'\. [^?]* Pass others as parameters=dict\(lr=3\)\.$"),
        ({"lr": 0.1, "arguments": []}, r"unexpected arguments 'lr', 'arguments'\. .*=dict\(lr=0.1, arguments=…\)\.$"),
        ({"paramters": {"lr": 3}}, r"'paramters'\. Did you mean 'parameters'\?"),
        ({"modle": "net"}, r"'modle'\. Did you mean 'model'\?"),
    ],
)
@pytest.mark.parametrize("framework", ["torch", "lightning", "transformers", "sklearn", "xgboost", "lightgbm"])
def test_a_hyperparameter_as_a_setting_is_refused_with_its_place(
    framework: str, settings: dict[str, Any], message: str
):
    """A capture has no `run.training`, which the message named."""
    pytest.importorskip(framework)
    capture = importlib.import_module(f"provml.capture.{framework}").Capture
    run = provml.record("digits", capture_environment=False)
    for into in ({}, {"run": run}):
        with pytest.raises(TypeError, match=message):
            capture("digits", **settings, **into)
    run.finish()
    with provml.open() as store:
        assert len(store.runs()) == 1, "no other run was started"


def test_an_argument_of_one_capture_is_suggested():
    pytest.importorskip("torch")
    capture = importlib.import_module("provml.capture.torch").Capture
    with pytest.raises(TypeError, match=r"Did you mean 'optimizer'\?"):
        capture("digits", optimiser=None)


def test_a_run_can_be_given_by_its_id():
    with CaptureBase("digits", run="my-id", capture_environment=False) as capture:
        capture.begin_training({"learning_rate": 0.1})
    with provml.open() as store:
        assert store.run("my-id").status == "FINISHED"


def test_data_of_an_unknown_role_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "provml"):
        CaptureBase("digits", data={"train": "a", "test": "b"}, capture_environment=False).finish()
    [message] = [record.getMessage() for record in caplog.records]
    assert "'train' is not recorded" in message
    assert "training, validation, test, model" in message


def test_a_misspelled_hyperparameter_is_logged_once_with_a_suggestion(caplog: pytest.LogCaptureFixture):
    choices = {"LEARNIGN_RATE": True, "MOMENTUM": True, "EPOCHS": True, "BETA": False, "colour": True}
    with (
        caplog.at_level(logging.WARNING, "provml"),
        CaptureBase("digits", hyperparameters=choices, capture_environment=False) as capture,
    ):
        capture.begin_training({"learning_rate": 0.1, "group_2.learning_rate": 0.2, "epochs": 3})
        assert len(caplog.records) == 1
        capture.end_training()
        capture.begin_training({"learning_rate": 0.1, "epochs": 3})
    first, second = (record.getMessage() for record in caplog.records)
    assert "'LEARNIGN_RATE'" in first
    assert "Did you mean learning_rate?" in first
    assert "'colour'" in second  # Adam has no momentum, and Keras-Prov asks for it all the same


def test_a_choice_may_be_a_numpy_bool():
    assert Selection({"learning_rate": np.bool_(True), "momentum": np.bool_(False)}).names == {"learning_rate"}


def test_a_selected_hyperparameter_that_exists_is_not_logged(caplog: pytest.LogCaptureFixture):
    selection = Selection({"DECAY": True, "lr": True})
    selection.warn_unknown({"weight_decay": 0.1, "group_2.learning_rate": 0.1})
    selection.warn_unknown((), is_over=True)
    assert caplog.records == []


class Switched(HyperparameterSource):
    """An optimizer with hyperparameters that may be switched off."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"weight_decay": 0.1, "clipnorm": None, "rate": 0.1}

    def current_hyperparameters(self) -> dict[str, Any]:
        return self.settings


def test_a_hyperparameter_that_is_switched_on_or_off_is_adapted():
    source = Switched()
    with CaptureBase("digits", source=source, strict=True, capture_environment=False) as capture:
        capture.begin_training(source.current_hyperparameters())
        for epoch in (1, 2, 3):
            if epoch == 2:
                source.settings = {"weight_decay": None, "clipnorm": 0.5, "rate": 0.1}
            capture.defer_epoch(epoch)
            capture.close_epoch({"loss": 0.1})
    with provml.open() as store:
        rows = ask(
            store,
            """SELECT ?epoch ?name ?old ?new { ?a a provml:AdaptationExecution ; provml:adaptedDuring ?during .
               ?during provml:sectionIndex ?epoch . ?v prov:wasGeneratedBy ?a ; prov:value ?new ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name . OPTIONAL { ?v provml:revisesValue/prov:value ?old } }
               ORDER BY ?name""",
        )
        assert rows == [(2, "clipnorm", "None", 0.5), (2, "weight_decay", 0.1, "None")]
