"""What a model object, or the file of one, is remembered as."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from provml.content import Data, of
from provml.sections import Stage


@dataclass
class Subject:
    """A model that a training changes: from what it went on, and the last that was told of it, at which section."""

    stage: Stage
    before: Data | None = None
    made: Data | None = None
    at: str = ""

    @property
    def now(self) -> str:
        """Where its training is, or ended."""
        section = self.stage.epoch_now
        return section.at if section is not None else self.stage.at

    def left(self, made: Data) -> None:
        """This is the model as it is now."""
        self.made, self.at = made, self.now

    def told(self) -> Data | None:
        """The model as it is now: as it was told, or else told now; what it was before where nothing was trained."""
        section = self.stage.epoch_now
        if self.at != self.now:
            if section is None:
                return self.before
            self.left(section.produced(None, epoch=section.index))
        return self.made


class Files:
    """Models by the file or folder that they are in; a file that was changed since holds another."""

    def __init__(self) -> None:
        self._told: dict[str, Data] = {}

    def set(self, path: str | os.PathLike[str], told: Data) -> None:
        """This is in it now."""
        self._told[os.path.realpath(os.fspath(path))] = told

    def get(self, path: str | os.PathLike[str]) -> Data | None:
        """What it was told as; one that is gone is what it was."""
        told = self._told.get(os.path.realpath(os.fspath(path)))
        if told is None or not told.sha256 or not Path(path).is_file():
            return told
        now = of(path)
        return told if now is not None and now.sha256 == told.sha256 else None
