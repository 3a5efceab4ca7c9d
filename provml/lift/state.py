"""What a lifter has to remember between two events of a journal; small, and kept beside the index."""

from __future__ import annotations

import msgspec

from provml import event

NAN = float("nan")


class Tally(msgspec.Struct, array_like=True):
    """What is known of one measure, or of the seconds, of the batches of an epoch."""

    count: int = 0
    least: float = NAN
    most: float = NAN
    total: float = 0.0
    last: float = 0.0

    def add(self, value: float) -> None:
        """Take one more value in; as in SPARQL, NaN is larger than any number."""
        self.count += 1
        self.total += value
        self.last = value
        if not value >= self.least and value == value:
            self.least = value
        if not value <= self.most and (value == value or self.count == 1 or self.most == self.most):
            self.most = value


class Place(msgspec.Struct, array_like=True):
    """A stage, a step or a section. `path` is that of its IRI; `tail` ends the names of what is added to it here."""

    kind: str
    name: str = ""
    path: str = ""
    tail: str = ""
    begun: int = 1
    guessed: bool = False
    in_force: dict[str, str] = {}
    counts: dict[str, int] = {}
    batches: int = 0
    highest: int = -1
    seconds: Tally | None = None
    measures: dict[str, Tally] = {}


class Opened(msgspec.Struct, array_like=True):
    """A batch that has measures and no end yet: the path of its IRI, and how many values each measure has."""

    path: str
    counts: dict[str, int] = {}


class Known(msgspec.Struct, array_like=True):
    """Data by its reference: `base` is what it is known by everywhere, `iri` the entity that is in use by now."""

    kind: str
    name: str
    base: str
    iri: str
    made: int = 0
    said: dict[str, list[str]] = {}
    sha256: str = ""
    size: int = -1
    paths: list[str] = []


class State(msgspec.Struct):
    """All of it. `own` ends the names of what a journal other than the run's first one begins."""

    first: event.Run | None = None
    experiment: str = ""
    model: str = ""
    own: str = ""
    asked: bool = False
    planned: set[str] = set()
    places: dict[str, Place] = {}
    refs: dict[str, Known] = {}
    opened: dict[str, Opened] = {}
