"""What an importer is: it recognises a source of another tool, and reads the runs in it as events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from provml.exchange.imported_run import ImportedRun
from provml.exchange.losses import LossReport
from provml.journal import events


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    `model` is the name of the model where the source has none. `on_progress` is called with the number of bytes that
    were read since its last call.
    """

    model: str = ""
    on_progress: Callable[[int], None] | None = None

    def advance(self, size: int) -> None:
        """Report progress: a number of bytes was read."""
        if self.on_progress is not None:
            self.on_progress(size)


@dataclass(frozen=True)
class SourceRun:
    """A run of a source: an id that is the same in every import, and its events, the header first.

    `notes` describe what the importer had to guess; `losses` is the account of all items, complete when all events
    were read. `last_time` is the time of the last sign of life, in seconds since 1970, if the run has not ended.
    """

    id: str
    events: Iterable[events.AnyEvent]
    notes: list[str] = field(default_factory=list)
    losses: LossReport = field(default_factory=LossReport)
    last_time: float | None = None
    tags: tuple[str, ...] = ()
    """Words that the run was tagged with."""
    remarks: tuple[str, ...] = ()
    """Texts that people wrote about the run."""
    writer: str = ""


@dataclass(frozen=True)
class SkippedPart:
    """A part of a source that is not imported, and why; `is_run` says whether it would have been a run."""

    name: str
    reason: str
    is_run: bool = True


class Importer(Protocol):
    """Reads the runs of one format. An importer has no state: the registry has one object per format."""

    name: str
    """Name of the format, for `--as`: one word in lower case."""
    summary: str
    """What the sources are, in a few words."""

    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder looks like this format; cheap, and without an exception."""

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of a source, and the parts that are not imported. Raises FileFormatError."""


class RunImporter(Protocol):
    """Brings in runs that are journals of provml already; they are copied as they are."""

    name: str
    summary: str

    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder looks like this format; cheap, and without an exception."""

    def bring_in(self, path: Path, home: Path, options: ImportOptions) -> Iterator[ImportedRun | SkippedPart]:
        """Bring the runs into a home, and yield what became of each. Raises FileFormatError."""
