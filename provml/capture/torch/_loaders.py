"""The training data of a PyTorch loop: passed to the capture, or taken from the first loader that the loop uses."""

from __future__ import annotations

from typing import Any

from provml.capture._data import CaptureData, is_loader, loader_settings, record_data
from provml.capture._hyperparameters import Selection
from provml.recording.data import Data
from provml.recording.run import Run
from provml.recording.stages import Stage


class LoaderTracker:
    """The loader of a training, which may be known only when its first batch is used."""

    def __init__(self, run: Run, data: CaptureData, selection: Selection) -> None:
        self._run = run
        self._data = data
        self._selection = selection
        self._loader: Any = None
        self._is_recorded = True
        """Whether the data of the training was recorded."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the loader, if it is known."""
        loader = self._data.provided.get("training", self._loader)
        return loader_settings(loader) if is_loader(loader) else {}

    def initial_data(self) -> list[Data]:
        """Return the datasets that are known when a training begins."""
        self._is_recorded = "training" in self._data.provided
        return self._data.get("training") if self._is_recorded else []

    def on_loader(self, stage: Stage, loader: Any) -> None:
        """Record the loader of a training's first batch, which may be inside a progress bar."""
        loader = getattr(loader, "iterable", loader)
        if not self._is_recorded and is_loader(loader):
            self._loader = loader
            stage.parameters(**self._selection.select(self.settings()))
            self._record(stage)

    def end(self, stage: Stage) -> None:
        """Record that a training had data, even if no loader is known; forget the loader."""
        try:
            if not self._is_recorded:
                self._record(stage)
        finally:
            self._loader = None

    def _record(self, stage: Stage) -> None:
        self._is_recorded = True
        loader = self._loader
        if loader is None:
            datasets = self._data.get("training")
        else:
            datasets = self._data.get(
                "training", lambda: record_data(self._run, loader, "training", "training data"), source=loader.dataset
            )
        for data in datasets:
            stage.used(data)
