"""A run that has just ended, held to the shapes: lifted from its own journal, in memory, without an index.

What came of it lies beside the journal, for people to see later; it can be had again at any time.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox

from provml import event
from provml.journal import read_lines
from provml.lift.lifter import Lifter, outcome
from provml.run import REPORT

if TYPE_CHECKING:
    from provml.validation import Report


def hold(folder: Path, writer: str, *, strict: bool = False) -> None:
    """Validate a run by its main journal, keep the report and log how it stands; only `strict` raises."""
    log, journal = logging.getLogger("provml"), folder / f"{writer}.jsonl"
    try:
        report = validated(journal)
        part = journal.with_suffix(".report.part")
        part.write_text(report.to_json(), encoding="utf-8")
        part.replace(journal.with_suffix(REPORT))
        log.log(logging.INFO if report else logging.WARNING, "validated: %s", report)
    except Exception as error:
        if strict:
            raise
        log.warning("the run could not be validated: %s", error)
        return
    if strict:
        report.raise_if_broken()


def validated(journal: Path) -> Report:
    """The report of what one journal tells of its run."""
    from provml.validation import validate
    from provml.validation.engine import user_shapes
    from provml.validation.reference import own_shapes

    lifter, store, last = Lifter(casts=True), ox.Store(), None
    for _, number, line in read_lines(journal):
        what = event.decode(line)
        for one in event.each(what):
            lifter.feed(one)
        last = what if isinstance(what, event.End) else last
        if number % 5000 == 0:
            store.bulk_load(lifter.written(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
    first = lifter.state.first
    if first is not None:
        status = last.status if last is not None else "RUNNING"
        lifter.tell(outcome(lifter.run, lifter.state.experiment, first.t, status, last))
    store.bulk_load(lifter.written(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
    files = [*own_shapes(), *user_shapes(journal.parents[2])]
    return validate(store, files, what=f"run {journal.parent.name}")
