"""The scripts of examples/ without their captures, under autolog, record the same facts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.contract import adaptations, ask, measures_by_epoch, used

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = [
    pytest.mark.xdist_group("torch"),  # loading PyTorch takes seconds: once is enough
    pytest.mark.filterwarnings("ignore"),  # of the frameworks, about such small trainings
]
CHANGES = {
    "keras_digits": [("callbacks=[capture, halve]", "callbacks=[halve]"), (", callbacks=[capture]", "")],
    "lightgbm_digits": [("[*capture.callbacks, halve]", "[halve]")],
    "xgboost_digits": [
        ("callbacks=[capture, ", "callbacks=["),
        ("callbacks=[capture]", "callbacks=[]"),
        ("with capture.evaluation(booster) as test:", "if True:"),
        ("test.measured(", "dict("),
    ],
    "lightning_digits": [("callbacks=[capture]", "callbacks=[]")],
    "transformers_digits": [("callbacks=[capture]", "callbacks=[]")],
    "sklearn_digits": [("capture.fit(search, ", "search.fit("), ("capture.score(search, ", "search.score(")],
    "pytorch_digits": [
        ("with capture.training():", "if True:"),
        ("capture.epochs(3)", "range(3)"),
        ("capture.batches(loader)", "loader"),
        ("capture.measured(loss=loss)", "pass"),
        ("epoch.measured(", "dict("),
        ("with capture.evaluation() as test:", "if True:"),
        ("test.measured(", "dict("),
    ],
}
"""How to remove the capture from each example."""
UNKNOWN = {"accuracy", "loss_evaluations"}
"""Measures that the examples compute by hand."""


def facts(home: Path) -> dict[str, Any]:
    """Return what was recorded, without what differs by design: names of functions, hand-made measures."""
    with provml.open(home) as store:
        (run,) = store.runs()
        hyperparameters = {name: value for name, value in used(store).items() if name not in ("loss", "epochs")}
        kinds = ("TrainingEpochExecution", "RoundExecution", "ValidationEpochExecution")
        measures = {kind: measures_by_epoch(store, f"provml:{kind}") for kind in kinds}
        layers = ask(store, "SELECT ?t { ?l provml:layerType ?t ; rdfs:label ?n } ORDER BY ?n")
        return {
            "status": run.status,
            "hyperparameters": {
                name: value for name, value in hyperparameters.items() if not name.startswith("search_")
            },
            "measures": {kind: {n: len(v) for n, v in by_name.items()} for kind, by_name in measures.items()},
            "adaptations": adaptations(store),
            "layers": layers,
        }


@pytest.mark.parametrize("name", CHANGES)
def test_an_example_without_its_capture_records_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = re.sub(r"    with provml.open\(\).*\n.*\n", "", (EXAMPLES / f"{name}.py").read_text())
    without = re.sub(r"    with Capture\((?:[^()]|\([^()]*\))*\) as capture:", "    if True:", source)
    for old, new in CHANGES[name]:
        without = without.replace(old, new)
    assert "capture." not in without.replace("provml.capture.", "")
    recorded = []
    for text, folder in ((source, "explicit"), (without, "autolog")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("PROVML_HOME", str(tmp_path / folder / "home"))
        scope: dict[str, Any] = {"__name__": "example"}
        if folder == "explicit":
            exec(compile(text, name, "exec"), scope)
            scope["main"]()
        else:
            with autologging(strict=True, name="digits"):
                exec(compile(text, name, "exec"), scope)
                scope["main"]()
        recorded.append(facts(tmp_path / folder / "home"))
    explicit, automatic = recorded
    for kind in explicit["measures"].values():
        for measure in UNKNOWN if name == "pytorch_digits" else ():
            kind.pop(measure, None)
    if name == "pytorch_digits":  # which is recognized: its training set is evaluated without gradients
        explicit["measures"].pop("ValidationEpochExecution")
        automatic["measures"].pop("ValidationEpochExecution")
    missing = explicit["hyperparameters"].keys() - automatic["hyperparameters"].keys()
    assert not missing
    for key in ("status", "measures", "adaptations", "layers"):
        assert automatic[key] == explicit[key], key
