"""A run that was recorded elsewhere: its events in a list, with the clock of what was received.

Nothing is opened or read. The paths of its data are those of another machine, and so is its environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from provml.journal import events
from provml.recording.core import RunCore
from provml.recording.data import Data


class EventListRun(RunCore):
    """A run whose events go to `events`. `now` is the time of all that is recorded until it is set again.

    `store` names the machine whose paths the data has: a path stands for its content, since nobody can read it here.
    """

    def __init__(self, header: events.Header, *, store: str = "") -> None:
        model = header.model or header.name
        super().__init__(
            header.name,
            model=model,
            run_id=header.run,
            home=Path(),
            detail="batch",
            every=1,
            strict=False,
            validates=False,
        )
        self.disabled = False  # that recording is disabled here says nothing about the other machine
        self.rank = None
        self.now = header.time
        self.events: list[events.Event] = [header]
        self._store = store
        self._files: dict[tuple[str, str], Data] = {}
        self._messages: dict[str, int] = {}
        self._emit = self._append
        self._time = self._ticks = self._now

    def _append(self, event: events.Event) -> bool:
        self.events.append(event)
        return True

    def _now(self) -> float:
        return self.now

    def _end(self, error: BaseException | None) -> None:
        """Do nothing: what was received says how the run ended."""

    @property
    def capture_errors(self) -> int:
        """Number of capture errors."""
        return sum(self._messages.values())

    def _report_error(self, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}"
        self._messages[message] = self._messages.get(message, 0) + 1
        first = next(iter(self._messages))
        self._append(events.CaptureErrors(self.capture_errors, first, {message: self._messages[message]}))

    def _register_data(self, kind: str, source: Any, **options: Any) -> Data:
        """Emit a `Data` event; a path that occurred before is the same data."""
        if not isinstance(source, (str, os.PathLike)):
            return super()._register_data(kind, source, **options)
        key = kind, os.fsdecode(source)
        if key not in self._files:
            self._files[key] = super()._register_data(kind, source, **{"store": self._store, **options})
        return self._files[key]

    def _keep_long_text(self, text: str, name: str) -> str:
        """Return the text: there is no home for its artifact, and the index has its head."""
        return text

    def _keep_long_error(self, error: BaseException | None, location: str) -> None:
        """Do nothing, for the same reason."""

    def _digest(self, source: Any, *, must_exist: bool) -> tuple[str, int]:
        """Return no digest: the content is on another machine."""
        return "", -1
