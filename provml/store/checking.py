"""A run, or all of a store, held to the shapes: provml's own and the user's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox

from provml.store.export import of_run
from provml.validation import Report
from provml.validation.engine import user_shapes, validate
from provml.validation.reference import own_shapes
from provml.validation.report import Progress

if TYPE_CHECKING:
    from provml.store.home import Store


def check(
    store: Store,
    run_id: str | None,
    shapes: Iterable[Path | str] = (),
    *,
    engine: str = "compiled",
    progress: Progress | None = None,
) -> Report:
    """The report of a run (its journals, lifted), or of all, against our shapes and the user's.

    All is run after run, each in memory: seven times faster than on the disk, and memory does not grow with the number
    of runs. Only where data was added by hand, which may speak of any run, all is validated where it is.
    """
    files = [*own_shapes(), *user_shapes(store.home), *shapes]
    runs = [] if run_id is not None or any((store.home / "added").glob("*.nq")) else store.runs()
    if not runs:
        what, held = graph(store, run_id)
        return validate(held, files, engine=engine, what=what, progress=progress)
    reports = []
    for number, info in enumerate(reversed(runs)):
        tell = None if progress is None else _shifted(progress, number, len(runs))
        reports.append(validate(of_run(store, info.id), files, engine=engine, progress=tell))
    return _joined(reports, f"all of {store.home}")


def _shifted(progress: Progress, number: int, runs: int) -> Progress:
    """Progress within one of several runs, told as that of all."""
    return lambda done, total, name: progress(number * total + done, runs * total, name)


def _joined(reports: list[Report], what: str) -> Report:
    """Several reports as one; what runs share and break is told once."""
    results = dict.fromkeys(result for report in reports for result in report)
    many = {key for report in reports for key in report.counts}
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports:
        kept = Counter((result.shape, result.component) for result in report)
        counts.update({key: report.counts.get(key, kept[key]) for key in many})
    triples = sum(report.checked.triples for report in reports if report.checked is not None)
    checked = reports[0].checked and replace(reports[0].checked, what=what, triples=triples)
    return Report(tuple(results), checked, dict(counts))


def graph(store: Store, run_id: str | None) -> tuple[str, ox.Store]:
    """What is to be validated, by name and as a store: a run in memory, or the index as it is."""
    if run_id is None:
        return f"all of {store.home}", store.engine
    info = store.run(run_id)
    return f"run {info.id}", of_run(store, info.id)
