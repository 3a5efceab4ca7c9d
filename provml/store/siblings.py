"""The journals of one run: which of them is the first, and the state of a parent's journal at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from provml.errors import FileFormatError
from provml.journal import events, segments
from provml.journal.reader import JournalReader, first_events
from provml.journal.run_files import journals_of_run
from provml.mapping import Siblings, State

FirstJournal = tuple[Path, list[events.AnyEvent]]
"""A journal and its first events: the header, and the workflow if it has one."""
MAX_CACHED_RUNS = 1000
"""Runs whose first journals are remembered."""


class FirstJournalCache:
    """The first journal of each run, for the time of one sync."""

    def __init__(self) -> None:
        self._cache: dict[Path, FirstJournal | None] = {}

    def find(self, folder: Path) -> FirstJournal | None:
        """Return the main journal of a run's folder that started first; None if there is none."""
        entry = self._cache.get(folder)
        if len(self._cache) >= MAX_CACHED_RUNS and folder not in self._cache:
            self._cache.clear()  # journals are read run by run
        if folder not in self._cache or (entry is not None and not segments.exists(entry[0])):
            entry = self._cache[folder] = _find_first(folder)
        return entry


def _find_first(folder: Path) -> FirstJournal | None:
    candidates = []
    for path in journals_of_run(folder):
        first = read_first_events(path)
        header = first[0] if first else None
        if isinstance(header, events.Header) and header.main and header.version <= events.VERSION:
            candidates.append((header.time, header.writer, (path, first)))
    return min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None


def read_first_events(path: Path) -> list[events.AnyEvent]:
    """Return the header of a journal, and its workflow if that is its second event."""
    first = first_events(path, 2)
    return first if len(first) > 1 and isinstance(first[1], events.Workflow) else first[:1]


class SiblingJournals(Siblings):
    """The other journals of a journal's run. `children` are journals that are being mapped for their parent's state."""

    def __init__(self, path: Path, first_journals: FirstJournalCache, children: frozenset[Path] = frozenset()) -> None:
        self.path = path
        self.children = children
        self.run = path.parent.name
        self.writer = path.stem
        self._first_journals = first_journals

    def first_journal_events(self, first: events.Header) -> list[events.AnyEvent]:
        """Return the first events of the run's first journal; none if this is it, or if there is none."""
        entry = self._first_journals.find(self.path.parent)
        return entry[1] if entry is not None and entry[0] != self.path else []

    def parent_state(self, first: events.Header) -> State | None:
        """Return the state of the parent's journal at the time the child was forked, with what the parent inherited."""
        path = self._parent(first)
        if path is None or path == self.path or path in self.children:
            return None
        from provml.mapping.mapper import EventMapper  # not at the top: it loads the vocabulary

        mapper = EventMapper(siblings=SiblingJournals(path, self._first_journals, self.children | {self.path}))
        for event in _events_until(path, first.time):
            with contextlib.suppress(Exception):  # reported when that journal itself is read
                mapper.feed(event)
            mapper.things.clear()
        return mapper.state

    def _parent(self, first: events.Header) -> Path | None:
        """Return the journal of the process that a writer was forked from; by default the run's first."""
        if first.parent:
            path = self.path.parent / f"{Path(first.parent).name}.jsonl"
            return path if segments.exists(path) else None
        entry = self._first_journals.find(self.path.parent)
        return entry[0] if entry is not None else None


def _events_until(path: Path, time: float) -> Iterator[events.AnyEvent]:
    """Yield the events of a journal up to a time, without batches and measures; none of a newer version."""
    with contextlib.suppress(FileFormatError):
        for record in JournalReader(path, shorten=True).read(batches=False):
            for event in record.events:
                if getattr(event, "time", time) > time:
                    return
                yield event
