"""What objects are remembered as: by identity, for as long as they live."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from provml.content import Data
from provml.sections import Stage

T = TypeVar("T")


class Memory(Generic[T]):
    """Something for each of some objects, none of which is kept alive by it. A copy of a memory is empty."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __reduce__(self) -> tuple[type[Memory[T]], tuple[()]]:
        return type(self), ()

    def get(self, one: Any) -> T | None:
        """What this very object is remembered as; None where it is not."""
        ref, what = self._held.get(id(one), (None, None))
        return what if ref is not None and ref() is one else None

    def pop(self, one: Any) -> None:
        """Remember it no more."""
        self._held.pop(id(one), None)

    def set(self, one: Any, what: T) -> None:
        """Remember it, unless it is of a kind that cannot be held weakly (None is)."""
        self._held = {key: held for key, held in self._held.items() if held[0]() is not None}
        try:
            self._held[id(one)] = weakref.ref(one), what
        except TypeError:
            return


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
