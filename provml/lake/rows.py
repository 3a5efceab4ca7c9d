"""The rows of one run, from its journals.

The rows are made from the same things as the triples of the graph, so that both give the same answers. Batches, which
are most of a journal, skip the things: they are columns in the journal and stay columns here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path

from provml.errors import FileFormatError
from provml.journal import annotations as run_annotations
from provml.journal import events
from provml.journal.capture_errors import ErrorSummary, add_up
from provml.journal.reader import JournalReader, Record
from provml.journal.run_files import journals_of_run, sort_journals
from provml.journal.status import WriterState, journal_status, status_of_run
from provml.lake.facts import Columns, Fields, RunFacts
from provml.lake.schema import DERIVED, TABLES
from provml.mapping import iris
from provml.mapping.mapper import EventMapper
from provml.mapping.state import RunningStats, SectionState
from provml.store.siblings import FirstJournalCache, SiblingJournals

MAX_THINGS = 10_000
"""Things that are held before they become rows."""


class RunRows:
    """The rows of a run by table, as columns; `problems` are lines that could not be read."""

    def __init__(self, home: Path, run: str, first_journals: FirstJournalCache | None = None) -> None:
        self.folder = home / "runs" / run
        self.run = run
        self.problems: list[str] = []
        self.columns: dict[str, Columns] = {
            name: {column: [] for column in table.names} for name, table in TABLES.items() if name != DERIVED
        }
        self._facts = RunFacts(self.columns["batches"], self.columns["batch_measures"])
        self._journals: list[_Journal] = []
        self._first_journals = first_journals or FirstJournalCache()

    @classmethod
    def read(cls, home: Path, run: str, first_journals: FirstJournalCache | None = None) -> RunRows:
        """Read all journals of a run. Raise OSError if one of them cannot be read."""
        rows = cls(home, run, first_journals)
        for path in journals_of_run(rows.folder):
            rows._read_journal(path)
        rows._finish()
        return rows

    @property
    def is_empty(self) -> bool:
        """Whether the run has no journal that could be read."""
        return not self.columns["runs"]["run"]

    @property
    def is_open(self) -> bool:
        """Whether a process still writes a journal of the run."""
        return any(journal.status == "RUNNING" for journal in self._journals)

    @property
    def row_count(self) -> int:
        """Number of rows of all tables."""
        return sum(len(columns["run"]) for columns in self.columns.values())

    def _read_journal(self, path: Path) -> None:
        journal = _Journal(path)
        mapper = _RowMapper(siblings=SiblingJournals(path, self._first_journals))
        mapper.facts = self._facts
        try:
            for record in JournalReader(path, shorten=True).read(is_over=True, expand=False):
                self._map_record(record, mapper, journal)
                if len(mapper.things) > MAX_THINGS:
                    self._facts.add(mapper.things, path.stem)
                    mapper.things.clear()
        except FileFormatError as error:
            self.problems.append(f"{path.parent.name}/{path.name}: {error.reason}; upgrade provml")
        self._facts.add(mapper.take(), path.stem)
        journal.header, journal.mapper = mapper.state.header, mapper
        if journal.header is not None:
            journal.status = journal_status(path, journal.header, journal.end)
            self._journals.append(journal)

    def _map_record(self, record: Record, mapper: _RowMapper, journal: _Journal) -> None:
        error = record.error
        try:
            for event in record.events:
                journal.events += mapper.feed_columns(event)
                if isinstance(event, events.End):
                    journal.end = event
                elif isinstance(event, events.CaptureErrors):
                    journal.capture_errors.update(event)
        except Exception as raised:
            error = raised
        if error is not None:
            mapper.problems.append(f"{type(error).__name__}: {error}")
            journal.events += not record.events
        name = f"{self.run}/{journal.path.name}:{record.number}"
        self.problems += [f"{name}: {problem}" for problem in mapper.problems]
        mapper.problems.clear()

    def _finish(self) -> None:
        """Add the rows of the run itself, and those that depend on all journals."""
        journals = sort_journals(self._journals, lambda journal: journal.header)
        if not journals:
            return
        self._add("runs", self._run_row(journals))
        for journal in journals:
            self._add("writers", journal.row(self.run))
        for table, row in self._facts.rows():
            self._add(table, {"run": self.run, **row})
        for table in ("batches", "batch_measures"):
            self.columns[table]["run"] = [self.run] * len(self.columns[table]["section"])

    def _add(self, table: str, row: Fields) -> None:
        for name, column in self.columns[table].items():
            column.append(row.get(name))

    def _run_row(self, journals: list[_Journal]) -> Fields:
        first = journals[0]
        assert first.header is not None  # journals without a header were left out
        header, state = first.header, first.mapper.state
        status, end = status_of_run([WriterState(journal.path, journal.header, journal.end) for journal in journals])
        start = header.time if header.time == header.time else 0.0
        present = run_annotations.resolve(run_annotations.read(self.folder))
        errors = add_up(journal.capture_errors for journal in journals)
        return {
            "run": self.run,
            "iri": str(iris.run_iri(self.run)),
            "name": run_annotations.present_name(present) or header.run_name or state.experiment,
            "experiment": state.experiment,
            "model": state.model,
            "study": header.study or None,
            "task": header.task or None,
            "person": header.by or None,
            "parent": header.parent_run,
            "status": status,
            "started": _time(start) if start else None,
            "ended": _time(end.time) if end is not None else None,
            "seconds": max(end.time - start, 0.0) if end is not None and start else None,
            "error": ": ".join(end.error) if end is not None else "",
            "writers": len(journals),
            "events": sum(journal.events for journal in journals),
            "capture_errors": errors.count,
            "lost_batches": errors.lost_batches,
            "tags": ", ".join(run_annotations.present_texts(present, "tag")),
            "problems": len(self.problems),
        }


class _Journal:
    """What the row of a run needs of one of its journals."""

    mapper: _RowMapper

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: events.Header | None = None
        self.end: events.End | None = None
        self.status = ""
        self.events = 0
        self.capture_errors = ErrorSummary()

    def row(self, run: str) -> Fields:
        header = self.header
        assert header is not None  # journals without a header were left out
        return {
            "run": run,
            "writer": self.path.stem,
            "main": header.main,
            "rank": header.rank,
            "host": header.host,
            "pid": header.pid,
            "started": _time(header.time) if header.time == header.time else None,
            "ended": _time(self.end.time) if self.end is not None else None,
            "status": self.status,
        }


class _RowMapper(EventMapper):
    """A mapper that also takes batches in columns."""

    facts: RunFacts

    def feed_columns(self, event: events.AnyEvent) -> int:
        """Map an event, or batches in columns; return the number of events as the index counts them."""
        if not isinstance(event, events.Batches):
            self.feed(event)
            return 1
        if not self._is_plain(event):
            expanded = list(events.expand(event))
            for part in expanded:
                self.feed(part)
            return len(expanded)
        section = self.section_state(event.location)
        iri = str(self.batch_parents(event.location)[0])
        self._count(section, event)
        self.facts.add_batches(iri, event)
        return len(event.index) * (2 if event.values else 1)

    def _is_plain(self, event: events.Batches) -> bool:
        """Return whether no batch needs a look of its own: all values are finite, and no batch is open."""
        if self.state.header is None or not event.index or min(event.index) < 0 or min(event.seconds) < 0:
            return False
        if any(location.startswith(f"{event.location}/") for location in self.state.open_batches):
            return False
        return all(set(map(type, column)) == {float} for column in event.values.values())

    @staticmethod
    def _count(section: SectionState, event: events.Batches) -> None:
        """Count the batches in the summary of their epoch, as the mapping of single batches does."""
        section.batches += len(event.index)
        section.max_batch_index = max(section.max_batch_index, *event.index)
        if section.seconds is None:
            section.seconds = RunningStats()
        _add_all(section.seconds, event.seconds)
        for name, column in event.values.items():
            _add_all(section.measures.setdefault(name, RunningStats()), column)  # type: ignore[arg-type]  # plain


def _add_all(stats: RunningStats, values: list[float]) -> None:
    """Add finite values in order: a sum of doubles depends on it, and `sum` would round differently."""
    stats.count += len(values)
    stats.total = reduce(add, values, stats.total)
    stats.last = values[-1]
    least, greatest = min(values), max(values)
    stats.min = least if not least >= stats.min else stats.min
    stats.max = greatest if not greatest <= stats.max else stats.max


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
