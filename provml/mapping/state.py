"""State of a mapper between two events of a journal; small, and saved with the index."""

from __future__ import annotations

import msgspec

from provml.journal import events

NAN = float("nan")


class RunningStats(msgspec.Struct, array_like=True):
    """Statistics of one measure, or of the duration in seconds, over the batches of an epoch."""

    count: int = 0
    min: float = NAN
    max: float = NAN
    total: float = 0.0
    last: float = 0.0

    def add(self, value: float) -> None:
        """Add a value. NaN is neither the least nor the greatest value, unless there is no other."""
        self.count += 1
        self.total += value
        self.last = value
        if not value >= self.min and value == value:
            self.min = value
        if not value <= self.max and value == value:
            self.max = value


class SectionState(msgspec.Struct, array_like=True):
    """A stage, a step or a section.

    `path` is the path of its IRI below the run, and `iri_suffix` ends the IRIs of nodes that this journal adds to it.
    `occurrence` counts how often a section with this location began. `inferred` means that its first event is lost.
    `in_force` holds the IRI of each parameter's current value, `counts` the number of nodes by kind and name.
    """

    kind: str
    name: str = ""
    path: str = ""
    iri_suffix: str = ""
    occurrence: int = 1
    inferred: bool = False
    in_force: dict[str, str] = {}
    counts: dict[str, int] = {}
    batches: int = 0
    max_batch_index: int = -1
    seconds: RunningStats | None = None
    measures: dict[str, RunningStats] = {}


class OpenBatch(msgspec.Struct, array_like=True):
    """A batch with measures and no end yet: the path of its IRI, and the number of values of each measure."""

    path: str
    counts: dict[str, int] = {}


class ArtifactState(msgspec.Struct, array_like=True):
    """Data or a model.

    `content_iri` identifies the content, `iri` the entity that is current in this run, and `generations` counts how
    often the run produced it. `characteristics` holds the distinct values recorded under each key, and `produced_by`
    the execution that produced the current entity.
    """

    kind: str
    name: str
    content_iri: str
    iri: str
    generations: int = 0
    characteristics: dict[str, list[str]] = {}
    sha256: str = ""
    size: int = -1
    paths: list[str] = []
    produced_by: str = ""


class State(msgspec.Struct):
    """State of the mapping of one journal.

    `person` is who executes the run, if known. `writer_suffix` ends the IRIs of nodes that start in a journal other
    than the run's first. `inherited` is set once the state of the parent's journal was taken over. `emitted` holds the
    keys of nodes that are emitted only once, `measure_count` the number of measures among them.
    """

    header: events.Header | None = None
    experiment: str = ""
    model: str = ""
    person: str = ""
    writer_suffix: str = ""
    inherited: bool = False
    emitted: set[str] = set()
    measure_count: int = 0
    sections: dict[str, SectionState] = {}
    artifacts: dict[str, ArtifactState] = {}
    open_batches: dict[str, OpenBatch] = {}
