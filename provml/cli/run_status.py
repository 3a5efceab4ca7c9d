"""The state of a run, read from its journals."""

from __future__ import annotations

from typing import Any

from provml.cli.run_tail import RunTail
from provml.journal import events
from provml.journal.capture_errors import add_up
from provml.journal.location import Location


class RunStatus:
    """Status, capture errors, open sections and the latest measures of a run, from one pass over its journals."""

    def __init__(self, tail: RunTail) -> None:
        self.tail = tail
        self._stages: dict[str, events.Values] = {}
        self._batch_counts: dict[str, int] = {}
        self.cut_texts = 0
        self._measures: dict[tuple[str, bool, str], tuple[Location, events.Value]] = {}
        for journal in tail.journals:
            for _, event in journal.events():
                self._update(event)
        main = tail.main
        self.run = tail.folder.name
        self.first = main.first if main else None
        self.end = main.end if main else None
        self.status = tail.status
        self.last_seen = max((journal.last_seen for journal in tail.journals), default=0.0)
        self.events = sum(journal.event_count for journal in tail.journals)
        self.corrupted = sum(len(journal.problems) for journal in tail.journals)
        self.errors = add_up(journal.errors for journal in tail.journals)

    def _update(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.Begin):
            if Location.from_text(event.location).epoch is not None:
                self._batch_counts[event.location] = 0
            else:
                self._stages[event.location] = event.values
        elif isinstance(event, events.Artifact):
            self.cut_texts += event.is_cut
        elif isinstance(event, events.BatchEnd):
            epoch = Location.from_text(event.location).section_location
            self._batch_counts[epoch] = self._batch_counts.get(epoch, 0) + 1
        elif isinstance(event, events.Done):
            self._batch_counts.pop(event.location, None)
            self._stages.pop(event.location, None)
        elif isinstance(event, events.Measured):
            location = Location.from_text(event.location)
            of_batch = location.batch is not None
            for name, value in event.values.items():
                self._measures[location.stage_location, of_batch, name] = (location, value)

    def open_sections(self) -> list[tuple[Any, ...]]:
        """Return stage, section, planned number of sections and batch count of what has begun and not ended."""
        rows: list[tuple[Any, ...]] = []
        for stage, values in self._stages.items():
            planned = next((values[key] for key in ("epochs", "rounds", "folds") if key in values), None)
            sections = [(Location.from_text(text), count) for text, count in self._batch_counts.items()]
            own = [(location.epoch, count) for location, count in sections if location.stage_location == stage]
            rows += [(stage, epoch, planned, count) for epoch, count in own] or [(stage, None, planned, None)]
        return rows

    def measures(self) -> list[tuple[Any, ...]]:
        """Return the latest value of each measure of a stage; of batches only while their epoch is open."""
        rows: list[tuple[Any, ...]] = []
        for (stage, of_batch, name), (location, value) in self._measures.items():
            if of_batch and location.section_location not in self._batch_counts:
                continue
            plain = value[1] if isinstance(value, list) and len(value) == 2 else value
            rows.append((stage, location.epoch, location.batch, name, plain))
        return rows

    def writers(self) -> list[tuple[Any, ...]]:
        """Return a row for each process that wrote a journal of the run."""
        return [
            (
                journal.path.stem,
                journal.first.pid if journal.first else None,
                journal.first.rank if journal.first else None,
                journal.status,
                journal.event_count,
                journal.errors.count,
                len(journal.problems),
            )
            for journal in self.tail.journals
        ]
