"""What captures are asked for: wrong input is refused before a run is begun, and what is not there is logged once."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provml
from capture.contract import ask
from provml.capture.recording import Recording
from provml.capture.watch import Selection
from provml.errors import ProvmlError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED", "RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hyperparameters": ["learning_rate"]}, r"hyperparameters takes names .* True"),
        ({"hyperparameters": {"LEARNING_RATE": "yes"}}, r"hyperparameters takes names .* True.*'yes'"),
        ({"hyperparameters": {"LEARNING_RATE": 2}}, r"hyperparameters takes names .* True"),
        ({"hyperparameters": {7: True}}, r"hyperparameters takes names .* True"),
        ({"data": np.zeros(3)}, r"data takes data by role.*'training'"),
        ({"run": 7}, r"run takes a run"),
    ],
)
def test_wrong_input_is_refused_before_a_run_is_begun(wrong: dict[str, Any], said: str):
    with pytest.raises(ProvmlError, match=said):
        Recording("digits", **wrong)
    assert not Path(".provml").exists()


@pytest.mark.parametrize("framework", ["torch", "sklearn", "xgboost", "lightgbm"])
def test_a_place_to_save_a_model_that_is_none_is_refused_before_a_run_is_begun(framework: str):
    pytest.importorskip(framework)
    capture = importlib.import_module(f"provml.capture.{framework}").Capture
    with pytest.raises(ProvmlError, match="save_model"):
        capture("digits", save_model=7)
    assert not Path(".provml").exists()


def test_a_run_is_taken_by_its_id_too():
    with Recording("digits", run="my-id", capture_environment=False) as capture:
        capture.begin_training({"learning_rate": 0.1})
    with provml.open() as store:
        assert store.run("my-id").status == "FINISHED"


def test_data_of_a_role_that_no_capture_asks_for_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "provml"):
        Recording("digits", data={"train": "a", "test": "b"}, capture_environment=False).finish()
    [said] = [record.getMessage() for record in caplog.records]
    assert "'train' is not recorded" in said
    assert "training, validation, test, model" in said


def test_a_slip_of_the_pen_is_logged_once_with_what_is_near(caplog: pytest.LogCaptureFixture):
    asked = {"LEARNIGN_RATE": True, "MOMENTUM": True, "EPOCHS": True, "BETA": False, "colour": True}
    with (
        caplog.at_level(logging.WARNING, "provml"),
        Recording("digits", hyperparameters=asked, capture_environment=False) as capture,
    ):
        capture.begin_training({"learning_rate": 0.1, "group_2.learning_rate": 0.2, "epochs": 3})
        assert len(caplog.records) == 1
        capture.end_training()
        capture.begin_training({"learning_rate": 0.1, "epochs": 3})
    first, second = (record.getMessage() for record in caplog.records)
    assert "'LEARNIGN_RATE'" in first
    assert "did you mean learning_rate?" in first
    assert "'colour'" in second  # Adam has no momentum, and Keras-Prov asks for it all the same


def test_a_choice_may_be_one_of_numpys():
    assert Selection({"learning_rate": np.bool_(True), "momentum": np.bool_(False)}).names == {"learning_rate"}


def test_what_is_selected_and_there_is_not_doubted(caplog: pytest.LogCaptureFixture):
    selection = Selection({"DECAY": True, "lr": True})
    selection.doubt({"weight_decay": 0.1, "group_2.learning_rate": 0.1})
    selection.doubt((), is_over=True)
    assert caplog.records == []


class Switched(Recording):
    """A framework whose optimizer has hyperparameters that may be switched off."""

    settings: dict[str, Any]

    def now(self) -> dict[str, Any]:
        return self.settings


def test_a_hyperparameter_that_is_switched_on_or_off_is_adapted():
    with Switched("digits", strict=True, capture_environment=False) as capture:
        capture.settings = {"weight_decay": 0.1, "clipnorm": None, "rate": 0.1}
        capture.begin_training(capture.now())
        for epoch in (1, 2, 3):
            if epoch == 2:
                capture.settings = {"weight_decay": None, "clipnorm": 0.5, "rate": 0.1}
            capture.expect_epoch(epoch)
            capture.close_epoch({"loss": 0.1})
    with provml.open() as store:
        found = ask(
            store,
            """SELECT ?epoch ?name ?old ?new { ?a a provml:AdaptationExecution ; provml:adaptedDuring ?during .
               ?during provml:sectionIndex ?epoch . ?v prov:wasGeneratedBy ?a ; prov:value ?new ;
               provlake:wasDerivedFromAttribute/rdfs:label ?name . OPTIONAL { ?v provml:revisesValue/prov:value ?old } }
               ORDER BY ?name""",
        )
        assert found == [(2, "clipnorm", "None", 0.5), (2, "weight_decay", 0.1, "None")]
