"""Endless tiny trainings with each capture of a framework and with autolog, to be killed.

An event is acknowledged when the call that recorded it has returned: the calls of this process are wrapped to that end.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import provml
from provml.journal import events
from provml.journal.batch_buffer import BatchBuffer

os.environ.setdefault("KERAS_BACKEND", "torch")
Acknowledge = Callable[[str], None]
"""Called with the description of an event after the call that recorded it has returned."""
MANY = 10**9
"""Number of epochs or rounds of a training that ends only by a kill, where the framework takes such a number."""
DURABLE = (events.Measured, events.Begin, events.Done)
"""Events that are acknowledged, besides the ends of batches."""


def describe(event: events.AnyEvent) -> str:
    """Return the kind and the location of an event that is acknowledged; empty for others."""
    if isinstance(event, events.BatchEnd):
        return f"batch {event.location}"
    is_durable = isinstance(event, DURABLE) and not isinstance(event, events.BatchEnd)
    return f"{type(event).__name__} {event.location}" if is_durable else ""  # type: ignore[union-attr]


def acknowledge_calls(run: provml.Run, acknowledge: Acknowledge) -> None:
    """Acknowledge each event of a run, and each end of a batch in a buffer, after it was recorded."""
    emit, end = run._emit, BatchBuffer.end

    def emit_and_acknowledge(event: Any) -> bool:
        is_recorded = emit(event)
        if is_recorded and (text := describe(event)):
            acknowledge(text)
        return is_recorded

    def end_and_acknowledge(buffer: BatchBuffer, ago: float = 0.0, *, keep: bool = False) -> None:
        assert buffer.owner is not None
        location = f"{buffer.owner._location}/{buffer.index}"  # type: ignore[attr-defined]
        end(buffer, ago, keep=keep)
        acknowledge(f"batch {location}")

    run._emit = emit_and_acknowledge  # type: ignore[method-assign, assignment]
    BatchBuffer.end = end_and_acknowledge  # type: ignore[method-assign]


# ---- models and data


def _arrays(rows: int = 12) -> tuple[Any, Any]:
    import numpy as np

    chance = np.random.default_rng(7)
    return chance.random((rows, 4), dtype=np.float32), np.arange(rows) % 2


def _tensors() -> Any:
    import torch

    x, y = _arrays()
    return torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def _train_torch(make_capture: Callable[..., Any] | None = None) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    loader = torch.utils.data.DataLoader(_tensors(), batch_size=4)
    capture = make_capture(model, optimizer, scheduler) if make_capture is not None else None
    for _ in range(MANY) if capture is None else capture.epochs(MANY):
        for x, y in loader if capture is None else capture.batches(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if capture is not None:
                capture.measured(loss=loss.item())
        scheduler.step()


def _train_keras(callbacks: list[Any]) -> None:
    import keras

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2, activation="softmax")])
    model.compile("sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = _arrays()
    model.fit(x, y, epochs=MANY, batch_size=4, validation_data=(x, y), verbose=0, callbacks=callbacks)


def _train_lightning(callbacks: list[Any]) -> None:
    import torch
    from lightning import pytorch as lightning

    class Network(lightning.LightningModule):
        def __init__(self, rate: float = 0.1) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, 2)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = lightning.Trainer(
        max_epochs=MANY, accelerator="cpu", enable_checkpointing=False, callbacks=callbacks, **quiet
    )
    trainer.fit(Network(), torch.utils.data.DataLoader(_tensors(), batch_size=4))


def _train_transformers(callbacks: list[Any], folder: Path) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, pixels: Any, labels: Any = None) -> dict[str, Any]:
            output = self.layer(pixels)
            return {"loss": torch.nn.functional.cross_entropy(output, labels), "logits": output}

    data = [{"pixels": x, "labels": y} for x, y in _tensors()]
    arguments = TrainingArguments(
        str(folder), num_train_epochs=100_000, per_device_train_batch_size=4, logging_strategy="epoch",
        save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    Trainer(Network(), arguments, train_dataset=data, callbacks=callbacks).train()


def _train_xgboost(callbacks: list[Any]) -> None:
    import xgboost

    data = xgboost.DMatrix(*_arrays())
    settings = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    xgboost.train(settings, data, 1_000_000, evals=[(data, "train")], verbose_eval=False, callbacks=callbacks)


def _train_lightgbm(callbacks: list[Any]) -> None:
    import lightgbm

    data = lightgbm.Dataset(*_arrays(40))
    settings = {"objective": "binary", "num_leaves": 4, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 2}
    lightgbm.train(settings, data, 1_000_000, valid_sets=[data], callbacks=callbacks)


def _train_sklearn() -> None:
    from sklearn.linear_model import SGDClassifier

    while True:
        SGDClassifier(max_iter=5, tol=None).fit(*_arrays())


# ---- captures


def capture_torch(run: provml.Run) -> None:
    """Train with the capture of PyTorch."""
    from provml.capture.torch import Capture

    _train_torch(lambda model, optimizer, scheduler: Capture("", model, optimizer, scheduler=scheduler, run=run))


def capture_keras(run: provml.Run) -> None:
    """Train with the capture of Keras."""
    from provml.capture.keras import Capture

    _train_keras([Capture(run=run)])


def capture_lightning(run: provml.Run) -> None:
    """Train with the capture of Lightning."""
    from provml.capture.lightning import Capture

    _train_lightning([Capture(run=run)])


def capture_transformers(run: provml.Run) -> None:
    """Train with the capture of Hugging Face's Trainer."""
    from provml.capture.transformers import Capture

    _train_transformers([Capture(run=run)], run.home.parent / "checkpoints")


def capture_xgboost(run: provml.Run) -> None:
    """Train with the capture of XGBoost."""
    from provml.capture.xgboost import Capture

    _train_xgboost([Capture(run=run)])


def capture_lightgbm(run: provml.Run) -> None:
    """Train with the capture of LightGBM."""
    from provml.capture.lightgbm import Capture

    _train_lightgbm(Capture(run=run).callbacks)


def capture_sklearn(run: provml.Run) -> None:
    """Fit estimators with the capture of scikit-learn."""
    from sklearn.linear_model import SGDClassifier

    from provml.capture.sklearn import Capture

    capture = Capture(run=run)
    while True:
        capture.fit(SGDClassifier(max_iter=5, tol=None), *_arrays())


def autolog_torch(run: provml.Run) -> None:
    """Train a loop of PyTorch with autolog."""
    provml.autolog()
    _train_torch()


def autolog_keras(run: provml.Run) -> None:
    """Call `fit` of Keras with autolog."""
    provml.autolog()
    _train_keras([])


def autolog_lightning(run: provml.Run) -> None:
    """Train with Lightning and autolog."""
    provml.autolog()
    _train_lightning([])


def autolog_transformers(run: provml.Run) -> None:
    """Train with Hugging Face's Trainer and autolog."""
    provml.autolog()
    _train_transformers([], run.home.parent / "checkpoints")


def autolog_xgboost(run: provml.Run) -> None:
    """Train with XGBoost and autolog."""
    provml.autolog()
    _train_xgboost([])


def autolog_lightgbm(run: provml.Run) -> None:
    """Train with LightGBM and autolog."""
    provml.autolog()
    _train_lightgbm([])


def autolog_sklearn(run: provml.Run) -> None:
    """Fit estimators with autolog."""
    provml.autolog()
    _train_sklearn()


def import_frameworks() -> None:
    """Import what the children need, before they are forked."""
    import keras  # noqa: F401
    import lightgbm  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch
    import transformers
    import xgboost  # noqa: F401
    from lightning import pytorch as lightning  # noqa: F401

    import provml.capture as captures

    for name in captures.FRAMEWORKS:
        getattr(captures, name)
    transformers.Trainer, transformers.TrainingArguments  # noqa: B018  # imported at their first use
    torch.set_num_threads(1)


def silence() -> None:
    """Drop what frameworks print and log in this process; errors remain."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


CAPTURES: dict[str, Callable[[provml.Run], None]] = {
    function.__name__.replace("_", " "): function
    for function in (
        capture_torch, capture_keras, capture_lightning, capture_transformers, capture_xgboost, capture_lightgbm,
        capture_sklearn, autolog_torch, autolog_keras, autolog_lightning, autolog_transformers, autolog_xgboost,
        autolog_lightgbm, autolog_sklearn,
    )
}  # fmt: skip
