"""The capture errors of a journal or a run: how many, which, and how many batches were lost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from provml.journal.events import CaptureErrors

MAX_MESSAGES = 100
"""Different messages that are recorded per journal; further ones are only counted."""


class ErrorSummary(msgspec.Struct):
    """Number of capture errors, the number of each message, and the number of lost batches.

    A message of which only the first occurrence was recorded has the number 0.
    """

    count: int = 0
    messages: dict[str, int] = {}
    lost_batches: int = 0

    def update(self, event: CaptureErrors) -> None:
        """Take over what an event of the same journal says: it has the totals, and the messages that changed."""
        self.count, self.lost_batches = event.count, event.lost_batches
        self.messages.setdefault(event.first, 0)
        self.messages.update(event.messages)

    def rows(self) -> list[tuple[str, int | None]]:
        """Return each message with its number, the most frequent first, and the number of errors of other messages."""
        ranked: list[tuple[str, int | None]] = [
            (message, number or None) for message, number in sorted(self.messages.items(), key=lambda item: -item[1])
        ]
        others = self.count - sum(self.messages.values())
        if others > 0 and len(self.messages) >= MAX_MESSAGES:
            ranked.append((f"errors with other messages than these {len(self.messages)}", others))
        return ranked


def add_up(summaries: Iterable[ErrorSummary]) -> ErrorSummary:
    """Return the sum over the journals of a run."""
    total = ErrorSummary()
    for summary in summaries:
        total.count += summary.count
        total.lost_batches += summary.lost_batches
        for message, number in summary.messages.items():
            total.messages[message] = total.messages.get(message, 0) + number
    return total
