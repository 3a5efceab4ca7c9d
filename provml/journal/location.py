"""Locations in a run: the path of a stage, a section of it, or a batch.

`training` is a stage, `training/3` its third epoch, `training/3/17` a batch of that epoch. A stage of any writer but
the first main one has a suffix that names its writer: `training@1/3/17`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Self

MAX_INDEX = (1 << 63) - 1
"""Largest index of a section or a batch that the checkpoint of an index can hold."""


class Location(NamedTuple):
    """A location in a run; `epoch` is the index of any section (an epoch, a fold, a round)."""

    stage: str
    epoch: int | None = None
    batch: int | None = None
    writer: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a location such as `training@1/3/17`; raise ValueError if the text has another form."""
        head, *indices = text.split("/")
        stage, at, writer = head.partition("@")
        if len(indices) > 2 or (at and not writer):
            raise ValueError(f"{text!r} is not a location such as 'training', 'training/3' or 'training/3/17'")
        numbers = [_index(index, text) for index in indices]
        return cls(stage, numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else None, writer)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a location for display; a text of any other form is taken as the name of a stage."""
        try:
            return cls.parse(text)
        except ValueError:
            return cls(text)

    def __str__(self) -> str:
        text = self.stage_location
        for index in (self.epoch, self.batch):
            if index is not None:
                text = f"{text}/{index}"
        return text

    @property
    def stage_location(self) -> str:
        """The location of the stage, as text."""
        return f"{self.stage}@{self.writer}" if self.writer else self.stage

    @property
    def section_location(self) -> str:
        """The location of the section, as text; that of the stage if there is none."""
        return self.stage_location if self.epoch is None else f"{self.stage_location}/{self.epoch}"


def _index(text: str, location: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or str(number) != text or not 0 <= number <= MAX_INDEX:
        raise ValueError(f"{location!r} is not a location: {text!r} is not an index")
    return number


parse_location = lru_cache(maxsize=4096)(Location.parse)
"""`Location.parse` with a cache, for the mapping of events."""


def is_batch(location: str) -> bool:
    """Return whether a location is that of a batch; faster than `Location.parse`."""
    return location.count("/") == 2


def split_batch(location: str) -> tuple[str, int]:
    """Return the section of a batch, as text, and the index of the batch; faster than `Location.parse`."""
    section, _, text = location.rpartition("/")
    index = int(text)
    if not 0 <= index <= MAX_INDEX:
        raise ValueError(f"{location!r} is not a location: {text!r} is not an index")
    return section, index
