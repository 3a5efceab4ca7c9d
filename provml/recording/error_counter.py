"""Capture errors of one writer: counted by message, each message logged once, raised if the run is strict."""

from __future__ import annotations

import re

from provml.journal import events
from provml.journal.capture_errors import MAX_MESSAGES
from provml.journal.redaction import redact_text

MAX_ERROR_CHARS = 300
"""Length of a message in the journal."""
MAX_LOGGED = 10
"""Different messages that are logged."""
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")
"""The address of an object, which is different for each error of the same kind."""


class ErrorCounter:
    """Counts capture errors. The caller holds the lock of its writer."""

    def __init__(self, *, strict: bool) -> None:
        self.count = 0
        self.first_message = ""
        self.messages: dict[str, int] = {}
        """Number of errors by message, for the first `MAX_MESSAGES` messages."""
        self.lost_batches = 0
        self._strict = strict
        self._written = events.CaptureErrors(0, "")
        self._written_messages: dict[str, int] = {}
        self._announced = 0
        """Number of messages when an event was written last, with or without them."""
        self._raised: Exception | None = None
        self.deferred: Exception | None = None

    def add(self, error: Exception) -> str:
        """Count an error; return its message if it is to be logged, otherwise an empty text."""
        self.count += 1
        message = _message(error)
        self.first_message = self.first_message or message
        number = self.messages.get(message, 0)
        if number or len(self.messages) < MAX_MESSAGES:
            self.messages[message] = number + 1
        return message if not number and len(self.messages) <= MAX_LOGGED else ""

    def add_lost_batches(self, count: int) -> None:
        """Count batches that could not be written."""
        self.lost_batches += count

    def log(self, message: str) -> None:
        """Log a message that occurred for the first time."""
        import logging

        outcome = "The run is strict, so the error is raised" if self._strict else "Training continues"
        text = "provml: recording failed (%s). %s; `provml status` lists all errors."
        logging.getLogger("provml").warning(text, message.removesuffix("."), outcome)

    def is_new(self, error: Exception) -> bool:
        """Return False for an error that was counted and raised before."""
        return error is not self._raised or not self._strict

    def raise_if_strict(self, error: Exception) -> None:
        """Raise an error that was counted, if the run is strict."""
        if self._strict:
            self._raised = error
            raise error

    # ---- errors of the background thread

    def defer(self, error: Exception) -> None:
        """Keep an error of the background thread for the next call of the training's thread."""
        self.deferred = error

    def raise_deferred(self) -> None:
        """Raise the error of the background thread, if the run is strict."""
        error, self.deferred = self.deferred, None
        if error is not None:
            self.raise_if_strict(error)

    # ---- the count in the journal

    @property
    def is_due(self) -> bool:
        """True if there is a new message, or a count has doubled since it was written."""
        has_doubled = self.count >= 2 * self._written.count
        return has_doubled or self.has_new_message or self.lost_batches >= max(2 * self._written.lost_batches, 1)

    @property
    def has_new_message(self) -> bool:
        """True if there is a message that no event announced yet."""
        return len(self.messages) > self._announced

    @property
    def is_written(self) -> bool:
        """True if the journal has the current counts."""
        return self.has_counts and self.messages == self._written_messages

    @property
    def has_counts(self) -> bool:
        """True if the journal has the current counts; messages may be missing."""
        return (self.count, self.lost_batches) == (self._written.count, self._written.lost_batches)

    def event(self, *, is_short: bool = False) -> events.CaptureErrors:
        """Return the event with the current counts, and the messages whose count is not in the journal yet.

        A short event has at most one message, which is new: many of them fit the reserve of a journal.
        """
        changed = {text: count for text, count in self.messages.items() if self._written_messages.get(text) != count}
        if is_short:
            new = [text for text in changed if text not in self._written_messages and text != self.first_message]
            changed = {text: changed[text] for text in new[:1]}
        return events.CaptureErrors(self.count, self.first_message, changed, self.lost_batches)

    def mark_written(self, event: events.CaptureErrors) -> None:
        """Note that an event is in the journal."""
        self._written, self._announced = event, len(self.messages)
        self._written_messages |= event.messages


def _message(error: Exception) -> str:
    text = redact_text(str(error)[: 2 * MAX_ERROR_CHARS])
    return f"{type(error).__name__}: {ADDRESS.sub('0x…', text)}"[:MAX_ERROR_CHARS]
