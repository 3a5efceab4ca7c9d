"""The other journals of a run, as far as lifting one of them needs to know them."""

from __future__ import annotations

from provml import event
from provml.lift.state import State


class Kin:
    """No other journal: what is lifted is the only one, or the first. The store has one that reads the files."""

    run = "unknown"
    writer = "unknown"

    def elder(self, first: event.Run) -> list[event.AnyEvent]:
        """The first words (who, and by which workflow) of the run's first journal; nothing where this is it."""
        return []

    def known_by(self, first: event.Run) -> State | None:
        """What the journal that a writer was forked from had told when it began; the run's first where none is said."""
        return None
