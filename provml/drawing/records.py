"""What a store says about the lineage of a thing: items of data, steps, runs, and who used and generated what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    """Data or a model. `size` is text, `section` the epoch that generated it, `names` are all names of the content."""

    id: str
    kind: str
    names: tuple[str, ...]
    sha256: str = ""
    size: str = ""
    path: str = ""
    section: str = ""

    @property
    def name(self) -> str:
        """The name, or without one the end of the path or of the IRI."""
        return next(iter(self.names), "") or self.path.rpartition("/")[2] or self.id.rstrip("/#").rpartition("/")[2]


@dataclass(frozen=True)
class Step:
    """A stage or a step of a run.

    `sections` is the number of its epochs, folds or rounds, which are `section_kind`. `results` are the measures of the
    stage itself.
    """

    id: str
    run: str
    kind: str
    name: str
    status: str = ""
    error: str = ""
    sections: int = 0
    section_kind: str = "section"
    batches: int = 0
    adaptations: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    people: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """A run: `label` is its id for people, `name` that of its experiment, `started` is text."""

    id: str
    label: str
    name: str
    model: str = ""
    status: str = ""
    started: str = ""
    people: tuple[str, ...] = ()


@dataclass(frozen=True)
class Use:
    """A step used an item, in a role."""

    step: str
    item: str
    role: str = ""


@dataclass(frozen=True)
class Generation:
    """A step generated an item."""

    item: str
    step: str


@dataclass(frozen=True)
class Information:
    """A step was informed by another one: a validation by the training that it belongs to."""

    later: str
    earlier: str


@dataclass(frozen=True)
class LineageRecords:
    """Everything that a picture of a lineage shows. Runs are in the order of their start.

    `starts` are the items and steps that the picture is about, `omitted_steps` and `omitted_runs` count what is too
    much to show.
    """

    subject: str
    is_forward: bool
    items: Mapping[str, Item]
    steps: Mapping[str, Step]
    runs: Mapping[str, RunRecord]
    uses: tuple[Use, ...]
    generations: tuple[Generation, ...]
    informations: tuple[Information, ...]
    starts: frozenset[str]
    omitted_steps: int = 0
    omitted_runs: int = 0
