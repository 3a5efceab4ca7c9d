"""The callback that autolog gives to a Trainer of Lightning."""

from __future__ import annotations

from typing import Any

from provml.capture import lightning as lightning_capture
from provml.capture.autolog import active_session
from provml.capture.lightning import Capture

CALLBACK: Any = vars(lightning_capture)["lightning"].Callback
"""The base class of callbacks, of the package under its new or its older name."""


class AutologCallback(CALLBACK):
    """Passes the calls of a Trainer on to the capture, unless the user gave the Trainer a capture.

    The capture, and with it a run, begins with the first fit, validation or test.
    """

    def __init__(self) -> None:
        self._capture: Capture | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle without the capture: another process has its own."""
        return {"_capture": None}

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        session = active_session()
        is_explicit = any(isinstance(callback, Capture) for callback in trainer.callbacks)
        if session is None or session.is_busy or is_explicit or stage == "predict":
            self._capture = None
        else:
            self._capture = session.guard(session.capture, "lightning")

    def _call(self, hook: str, *args: Any) -> None:
        if self._capture is not None:
            getattr(self._capture, hook)(*args)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_train_start", trainer, pl_module)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_train_epoch_start", trainer, pl_module)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._call("on_train_batch_start", trainer, pl_module, batch, batch_idx)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._call("on_train_batch_end", trainer, pl_module, outputs, batch, batch_idx)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_train_epoch_end", trainer, pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_fit_end", trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._call("on_exception", trainer, pl_module, exception)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_validation_start", trainer, pl_module)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_validation_end", trainer, pl_module)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_test_start", trainer, pl_module)

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._call("on_test_end", trainer, pl_module)
