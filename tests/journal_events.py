"""Read a journal for tests, with the batches that are only in the buffer of its writer."""

from __future__ import annotations

from pathlib import Path

from provml.journal import events
from provml.journal.reader import JournalReader


def read_events(path: Path) -> list[events.AnyEvent]:
    """Return all events of a journal; batches that were written together are events of their own."""
    result = []
    for record in JournalReader(path).read(is_over=True):
        assert record.error is None
        result += record.events
    return result
