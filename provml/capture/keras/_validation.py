"""The validation that Keras runs at the end of an epoch, paired with that epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provml.recording.data import Data
from provml.recording.stages import Epoch

PREFIX = "val_"
"""Prefix of the validation measures in the logs of an epoch."""


class PairedValidation:
    """The validation epoch that belongs to the open epoch of a training, if there is one."""

    def __init__(self) -> None:
        self._epoch: Epoch | None = None
        self._recorded: set[str] = set()
        """Names of the measures of the last validation."""

    def reset(self) -> None:
        """Begin an epoch that has no validation yet."""
        self._epoch = None

    def begin(self, epoch: Epoch, using: Iterable[Data]) -> None:
        """Begin the validation of an epoch on these datasets."""
        self._epoch = epoch.validation(using=using)

    def end(self, measures: Mapping[str, Any]) -> None:
        """End the validation, with these measures."""
        if self._epoch is not None:
            self._recorded = set(measures)
            self._epoch.measured(**measures)
            self._epoch.done()

    def add_from_logs(self, logs: Mapping[str, Any]) -> None:
        """Add the validation measures that other callbacks wrote into the logs of the epoch."""
        if self._epoch is not None:
            names = {name: name.removeprefix(PREFIX) for name in logs if name.startswith(PREFIX)}
            added = {short: logs[name] for name, short in names.items() if short not in self._recorded}
            self._epoch.measured(**added)
