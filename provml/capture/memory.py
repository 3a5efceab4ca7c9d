"""What a model object is remembered as."""

from __future__ import annotations

from dataclasses import dataclass

from provml.content import Data
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
