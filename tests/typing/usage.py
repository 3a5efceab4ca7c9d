"""Uses of the public API that mypy checks but nobody runs.

`assert_type` states what mypy infers. A line with `type: ignore` is an error that mypy has to find: with `--strict`, an
ignore comment without an error is an error itself.
"""

from __future__ import annotations

from typing import assert_type

import provml
from provml.answers import Answer
from provml.capture import keras, lightgbm, lightning, transformers, xgboost
from provml.capture._section import SafeEpoch
from provml.capture.sklearn import Capture
from provml.capture.torch import Capture as TorchCapture
from provml.recording.batches import Batch
from provml.recording.stages import Epoch, Stage, Step
from provml.store import Annotation, Artifact, RunInfo


def settings_of_a_run() -> None:
    run = provml.record("flowers", model="alexnet", detail="epoch", every=2, strict=True, by="alice")
    assert_type(run, provml.Run)
    provml.record("flowers", modle="alexnet")  # type: ignore[call-arg]
    provml.record("flowers", learning_rate=0.1)  # type: ignore[call-arg]
    provml.record("flowers", detail="batches")  # type: ignore[arg-type]
    provml.record("flowers", every="2")  # type: ignore[arg-type]


def child_runs(run: provml.Run, store: provml.Store) -> None:
    assert_type(run.child("fold 3", every=2), provml.Run)
    run.child("fold 3", evry=2)  # type: ignore[call-arg]
    for parent in (run, store.run("latest"), "20260102-030405-abcdef"):
        provml.record("flowers", parent=parent, run_name="fold 3")
    provml.record("flowers", parent=3)  # type: ignore[arg-type]


def annotations_of_runs(run: provml.Run, store: provml.Store) -> None:
    run.tag("baseline", "v1", by="ada")
    assert_type(store.tag(run, "baseline"), RunInfo)
    assert_type(store.annotations("latest"), list[Annotation])
    store.rename("latest", 3)  # type: ignore[arg-type]


def artifacts(run: provml.Run, store: provml.Store) -> None:
    assert_type(run.keep("config.yaml"), provml.Data)
    run.keep("config.yaml", instances=3)  # type: ignore[call-arg]
    assert_type(store.artifact("latest", "loss.png"), Artifact)
    assert_type(store.artifact(run).read(), bytes)


def sections_of_a_run(run: provml.Run) -> None:
    with run.training(learning_rate=0.1) as training:
        assert_type(training, Stage)
        for epoch in training.epochs(3):
            assert_type(epoch, Epoch)
            for batch in epoch.batches([1, 2]):
                assert_type(batch, Batch)
                batch.measured(loss=0.5)
            epoch.measured(loss=0.5)
            epoch.measured(0.5)  # type: ignore[call-arg]
            with epoch.validation() as validation:
                assert_type(validation, Epoch)
        training.adapted(learning_rate=0.01, technique="step decay", reason="the loss stalls")
        training.adapted(learning_rate=0.01, technique=1)  # type: ignore[arg-type]
        model = training.produced("model.pt", about="http://example.org/flowers", hidden_layers=2)
        assert_type(model, provml.Data)
        training.produced("model.pt", kind="modle")  # type: ignore[arg-type]
        training.produced("model.pt", store=3)  # type: ignore[arg-type]
    assert_type(run.evaluation(of=model), Stage)
    assert_type(run.step("tile", size=4), Step)
    assert_type(run.prepared("train.h5", step="gray-scale", using=[model]), provml.Data)
    run.prepared("train.h5")  # type: ignore[call-arg]


def recorded_functions(run: provml.Run) -> None:
    @run.step
    def double(number: int) -> int:
        return 2 * number

    @run.step(kind="filter")
    def halve(number: int) -> float:
        return number / 2

    run.step(kind="filtre")  # type: ignore[call-overload]
    assert_type(double(2), int)
    assert_type(halve(2), float)
    double("2")  # type: ignore[arg-type]


def captures(run: provml.Run) -> None:
    with Capture("flowers", model="forest", watch="epoch", data={"training": "train.h5"}) as capture:
        assert_type(capture.run, provml.Run)
    Capture(run=run)
    Capture("flowers", modle="forest")  # type: ignore[call-arg]
    Capture("flowers", watch="epochs")  # type: ignore[arg-type]
    with TorchCapture("flowers", save_model="net.pt", every=2) as loop, loop.training():
        for epoch in loop.epochs(3):
            assert_type(epoch, SafeEpoch)
            epoch.produced("model.pt", kind="modle")  # type: ignore[arg-type]
            epoch.validation(by=3)  # type: ignore[arg-type]
    TorchCapture("flowers", save_modle="net.pt")  # type: ignore[call-arg]
    TorchCapture("flowers", modle="net")  # type: ignore[call-arg]
    keras.Capture("flowers", modle="net")  # type: ignore[call-arg]
    lightgbm.Capture("flowers", modle="trees")  # type: ignore[call-arg]
    lightning.Capture("flowers", modle="net")  # type: ignore[call-arg]
    transformers.Capture("flowers", modle="net")  # type: ignore[call-arg]
    xgboost.Capture("flowers", modle="trees")  # type: ignore[call-arg]
    keras.Capture("flowers", detail="layer")  # type: ignore[arg-type]


def stores() -> None:
    with provml.open_store(".provml") as store:
        assert_type(store, provml.Store)
        assert_type(store.ask("q1", model="alexnet"), Answer)
        assert_type(store.validate(), provml.Report)
        store.validate(engine="pyshacl")
        store.validate(engine="java")  # type: ignore[arg-type]
        store.validate(engin="sparql")  # type: ignore[call-arg]
    assert_type(provml.open(), provml.Store)
