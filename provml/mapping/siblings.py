"""The other journals of a run, as far as the mapping of one journal needs them."""

from __future__ import annotations

from provml.journal import events
from provml.mapping.state import State


class Siblings:
    """No other journals: the mapped journal is the only one of its run. The store has a subclass that reads files."""

    run = "unknown"
    writer = "unknown"

    def first_journal_events(self, header: events.Header) -> list[events.AnyEvent]:
        """Return the header and the workflow of the run's first journal; empty if `header` is that of the first."""
        return []

    def parent_state(self, header: events.Header) -> State | None:
        """Return the state of the parent's journal (by default the first) at the time when a process was forked."""
        return None
