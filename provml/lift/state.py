"""What a lifter has to remember between two events of a journal; small, and kept beside the index."""

from __future__ import annotations

import msgspec

from provml import event


class Tally(msgspec.Struct):
    """What is known of one measure, or of the seconds, of the batches of an epoch."""

    count: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    total: float = 0.0
    last: float = 0.0

    def add(self, value: float) -> None:
        """Take one more value in; NaN counts for the mean and the last value only."""
        self.count += 1
        self.total += value
        self.last = value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value


class Place(msgspec.Struct):
    """A stage, a step or a section that has begun."""

    kind: str
    name: str = ""
    t: float = 0.0
    in_force: dict[str, str] = {}
    seconds: Tally | None = None
    measures: dict[str, Tally] = {}
    measured: list[str] = []
    has_network: bool = False


class State(msgspec.Struct):
    """All of it."""

    first: event.Run | None = None
    planned: set[str] = set()
    places: dict[str, Place] = {}
    refs: dict[str, str] = {}
    batch: str = ""
    batch_measured: list[str] = []
