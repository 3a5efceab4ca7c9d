"""Journals of a run, read without the index, also while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from provml.journal import events
from provml.journal.capture_errors import ErrorSummary
from provml.journal.events import AnyEvent
from provml.journal.reader import JournalReader
from provml.journal.run_files import journals_of_run, main_journal
from provml.journal.status import WriterState, journal_status, status_of_run


class JournalTail:
    """One journal; each read continues where the previous one ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.first: events.Header | None = None
        self.end: events.End | None = None
        self.errors = ErrorSummary()
        self.problems: list[tuple[int, str]] = []
        self.last_seen = 0.0
        self.event_count = 0
        self._reader = JournalReader(path)
        self._is_complete = False

    def events(self) -> Iterator[tuple[float, AnyEvent]]:
        """Yield the new events, each with its time; an event without a time has that of the previous one."""
        try:
            yield from self._events()
        except FileNotFoundError:  # the run was removed
            return
        except OSError as error:
            problem = (0, (error.strerror or str(error)).lower())
            if problem not in self.problems:
                self.problems.append(problem)

    def _events(self) -> Iterator[tuple[float, AnyEvent]]:
        yield from self._read(is_over=False)
        if self.end is None and not self._is_complete and self.status != "RUNNING":
            self._is_complete = True  # the open batch must not be read twice
            yield from self._read(is_over=True)

    def _read(self, *, is_over: bool) -> Iterator[tuple[float, AnyEvent]]:
        for record in self._reader.read(is_over=is_over):
            self.number = record.number
            if record.error is not None:
                self.problems.append((record.number, str(record.error)))
            for event in record.events:
                if isinstance(event, events.Header):
                    self.first = self.first or event
                elif isinstance(event, events.End):
                    self.end = event
                elif isinstance(event, events.CaptureErrors):
                    self.errors.update(event)
                if not isinstance(event, events.Imported):  # an import is no sign of life of the run
                    self.last_seen = getattr(event, "time", self.last_seen)
                self.event_count += 1
                yield self.last_seen, event

    @property
    def status(self) -> str:
        """Status of this writer."""
        return journal_status(self.path, self.first, self.end)


class RunTail:
    """All journals of one run; `refresh` finds new ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journals: list[JournalTail] = []
        self.refresh()

    def refresh(self) -> list[JournalTail]:
        """Find new journals and return all of them."""
        paths = {tail.path for tail in self.journals}
        new = [JournalTail(path) for path in journals_of_run(self.folder) if path not in paths]
        self.journals += new
        return self.journals

    @property
    def main(self) -> JournalTail | None:
        """Journal that determines the status of the run."""
        return main_journal(self.journals, lambda tail: tail.first) if self.journals else None

    @property
    def status(self) -> str:
        """Status of the run."""
        return status_of_run([WriterState(tail.path, tail.first, tail.end) for tail in self.journals])[0]
