"""What became of a run that was imported."""

from __future__ import annotations

from dataclasses import dataclass, field

from provml.exchange.losses import LossReport

NEW, CHANGED, UNCHANGED = "new", "changed", "unchanged"
"""What an import did with a run: a changed one is in the home from an earlier import with other events."""


@dataclass(frozen=True)
class ImportedRun:
    """A run of a source after the import, with the number of its epochs and measured values."""

    id: str
    name: str
    model: str
    result: str
    epochs: int
    measures: int
    notes: tuple[str, ...] = ()
    losses: LossReport = field(default_factory=LossReport, compare=False)
