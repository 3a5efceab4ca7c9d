"""The files that ModelCheckpoint and BackupAndRestore write during a Keras training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import keras

from provml.capture._models import CaptureModels
from provml.recording.data import Data
from provml.recording.stages import Epoch

CLOCK_LAG_NS = 20_000_000
"""Nanoseconds by which the clock of a file system may be behind."""
FileVersion = tuple[int, int]
"""Time of modification in nanoseconds, and size in bytes."""


class ExpectedFile(NamedTuple):
    """A file that a callback may write after an epoch."""

    epoch: Epoch
    path: str
    is_complete_epoch: bool
    """Whether the file contains the model as it is at the end of the epoch."""


class CheckpointFiles:
    """The files of the checkpoint callbacks of one training, recorded as models of their epochs.

    The callbacks may come after the capture, so files are recorded when the next hook is called.
    """

    def __init__(self, models: CaptureModels, callbacks: list[Any], name: str = "") -> None:
        self.by_epoch: dict[int, Data] = {}
        """Models as they are at the end of an epoch."""
        self._models = models
        self._name = name
        """The name that the user gave to the model; empty if there is none."""
        self._checkpoints = [c for c in callbacks if isinstance(c, keras.callbacks.ModelCheckpoint)]
        self._backups = [_backup_path(c) for c in callbacks if isinstance(c, keras.callbacks.BackupAndRestore)]
        self._expected: list[ExpectedFile] = []
        self._versions: dict[str, FileVersion] = {}
        self._began_ns = time.time_ns() - CLOCK_LAG_NS

    def existing_backup(self) -> str | None:
        """Return the file of an interrupted `fit` from which BackupAndRestore continues."""
        return next((path for path in self._backups if _file_version(path) is not None), None)

    def expect(self, epoch: Epoch, number: int, logs: dict[str, Any]) -> None:
        """Expect the files of an epoch that is ending, with the epoch's number in Keras, from 1."""
        self._expected = []
        for callback in self._checkpoints:
            try:
                path = callback.filepath.format(epoch=number, **logs)
            except (KeyError, ValueError, IndexError):  # the name contains the batch, or a measure that does not exist
                continue
            self._expected.append(ExpectedFile(epoch, path, callback.save_freq == "epoch"))
        self._expected += [ExpectedFile(epoch, path, False) for path in self._backups]

    def clear_expected(self) -> None:
        """Expect no more files of the last epoch."""
        self._expected = []

    def record(self) -> None:
        """Record the expected files that were written since the last call."""
        for file in self._expected:
            version = _file_version(file.path)
            if version is None or version == self._versions.get(file.path) or version[0] < self._began_ns:
                continue
            self._versions[file.path] = version
            fields: dict[str, Any] = {"name": self._name, "epoch": file.epoch.index}
            model = self._models.record_file(file.epoch, file.path, is_current=file.is_complete_epoch, **fields)
            if file.is_complete_epoch:
                self.by_epoch[file.epoch.index] = model


def _backup_path(callback: Any) -> str:
    """Return the file in which BackupAndRestore saves the model."""
    return str(Path(callback.backup_dir) / "latest.weights.h5")


def _file_version(path: str) -> FileVersion | None:
    """Return the version of a file, which changes when the file is written; None if there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
