"""Validate a run that has just ended: map its own journal in memory, without the index, and check the shapes.

The report is stored next to the journal for readers.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox

from provml.journal import events
from provml.journal.reader import JournalReader
from provml.journal.run_files import REPORT_SUFFIX
from provml.mapping.mapper import EventMapper, outcome

if TYPE_CHECKING:
    from provml.validation import Report

LINES_PER_LOAD = 5000


def validate_run(folder: Path, writer: str, *, strict: bool = False) -> None:
    """Validate a run by its main journal, store the report and log its result. Raise only if `strict`."""
    log, journal = logging.getLogger("provml"), folder / f"{writer}.jsonl"
    try:
        report = report_of_journal(journal)
        part = journal.with_suffix(".report.part")
        part.write_text(report.to_json(), encoding="utf-8")
        part.replace(journal.with_suffix(REPORT_SUFFIX))
        log.log(logging.INFO if report else logging.WARNING, "provml: validated: %s", report)
    except Exception as error:
        if strict:
            raise
        log.warning("provml: the run could not be validated: %s", error)
        return
    if strict:
        report.raise_if_failed()


def report_of_journal(journal: Path) -> Report:
    """Return the validation report of the graph of one journal."""
    from provml.validation import validate
    from provml.validation.graph import ValidationGraph
    from provml.validation.shape_files import builtin_shapes, user_shapes

    mapper, store = EventMapper(use_templates=True), ox.Store()
    end: events.End | None = None
    for record in JournalReader(journal, shorten=True).read():
        if record.error is not None:
            raise record.error
        for event in record.events:
            mapper.feed(event)
            end = event if isinstance(event, events.End) else end
        if record.number % LINES_PER_LOAD == 0:
            _load(store, mapper)
    header = mapper.state.header
    if header is not None:
        status = end.status if end is not None else "RUNNING"
        mapper.emit(outcome(mapper.run, mapper.state.experiment, header.time, status, end))
    _load(store, mapper)
    files = [*builtin_shapes(), *user_shapes(journal.parents[2])]
    return validate(ValidationGraph(store), only_shapes=files, label=f"run {journal.parent.name}")


def _load(store: ox.Store, mapper: EventMapper) -> None:
    store.bulk_load(mapper.take_ntriples(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
