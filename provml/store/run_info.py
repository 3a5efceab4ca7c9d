"""Summary of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from provml.answers import html_table
from provml.errors import plural
from provml.journal.annotations import Annotation
from provml.journal.capture_errors import ErrorSummary
from provml.mapping import iris
from provml.model.values import IRI


@dataclass(frozen=True, repr=False)
class RunInfo:
    """Summary of a run: `seconds` is its duration if it has ended, `writers` the number of its journals.

    `name` is the name that somebody gave to the run, else that of its `experiment`. `tags` and `notes` are those that
    the run has at present; `store.annotations(run)` returns all. `parent` is the id of the run that it is a part of,
    `rerun_of` that of the run that it repeats.
    """

    id: str
    name: str
    model: str
    status: str
    started: datetime
    seconds: float | None
    error: str
    writers: int
    events: int
    experiment: str = ""
    tags: tuple[str, ...] = ()
    notes: tuple[Annotation, ...] = ()
    parent: str = ""
    capture_errors: ErrorSummary = field(default_factory=ErrorSummary)
    rerun_of: str = ""

    @property
    def status_text(self) -> str:
        """The status, with the number of capture errors if there are any."""
        count = self.capture_errors.count
        return f"{self.status}, {plural(count, 'capture error')}" if count else self.status

    @property
    def iri(self) -> IRI:
        """The node of the run in the graph."""
        return iris.run_iri(self.id)

    def __repr__(self) -> str:
        model = f", model={self.model!r}" if self.model else ""
        seconds = f", seconds={self.seconds:.3g}" if self.seconds is not None else ""
        error = f", error={self.error!r}" if self.error else ""
        tags = f", tags={list(self.tags)!r}" if self.tags else ""
        started = f"{self.started:%Y-%m-%d %H:%M:%S %Z}"
        facts = f"name={self.name!r}{model}, started={started!r}{seconds}{tags}{error}"
        return f"<RunInfo {self.id} {self.status_text} {facts}>"

    def _repr_html_(self) -> str:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values |= {"tags": ", ".join(self.tags), "notes": "; ".join(note.text for note in self.notes)}
        values["capture_errors"] = self.capture_errors.count
        return html_table(["field", "value"], list(values.items()))


def runs_html(runs: list[RunInfo], more: int = 0) -> str:
    """Return an HTML table of runs; `more` is the number of runs that are not in it."""
    columns = ["id", "name", "model", "status", "started", "seconds"]
    rows: list[tuple[Any, ...]] = [
        (info.id, info.name, info.model, info.status_text, info.started, info.seconds) for info in runs
    ]
    extra = {"parent": [info.parent for info in runs], "tags": [", ".join(info.tags) for info in runs]}
    for column, values in extra.items():
        if any(values):
            columns.append(column)
            rows = [(*row, value) for row, value in zip(rows, values, strict=True)]
    return html_table(columns, rows, more)
