"""What a journal tells, event by event, with what its writer has not yet written there but left on its slate."""

from __future__ import annotations

from pathlib import Path

from provml import event
from provml.journal import read_lines
from provml.slate import snapshot, unwritten


def told_in(path: Path) -> list[event.AnyEvent]:
    """All events of a journal; those of batches that were told together each by itself."""
    held = snapshot(path)
    lines = [line for _, _, line in read_lines(path)]
    told = [what.told for what in map(event.decode, lines) if isinstance(what, event.Batches)]
    lines += unwritten(held, max(told, default=0), is_over=True)
    return [one for line in lines for one in event.each(event.decode(line))]
