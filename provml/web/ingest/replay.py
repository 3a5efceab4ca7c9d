"""Translate again what was received from clients of other systems, after a correction or the loss of journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from provml.errors import FileFormatError, HomeNotFound
from provml.exchange import mlflow, openlineage, provlake
from provml.store import lock
from provml.web.ingest import dfanalyzer
from provml.web.ingest.dfanalyzer import DataflowSource
from provml.web.ingest.mlflow.tracking import new_source
from provml.web.ingest.openlineage import JobRunSource
from provml.web.ingest.provlake import WorkflowSource
from provml.web.ingest.received import FOLDER
from provml.web.ingest.translation import Ingest

SOURCES: dict[str, Callable[[str], Any]] = {
    dfanalyzer.PROTOCOL: lambda key: DataflowSource(),
    provlake.WRITER: lambda key: WorkflowSource(),
    mlflow.WRITER: new_source,
    openlineage.WRITER: lambda key: JobRunSource(),
}
"""What reads the requests of each protocol."""


class ReplayedRun(NamedTuple):
    """A run that was translated again, and whether its journal changed."""

    protocol: str
    run: str
    changed: bool


def replay(home: Path, protocols: Iterable[str] = ()) -> list[ReplayedRun]:
    """Translate all requests that a home has, of some protocols or all. No service may run over the home."""
    if not (home / FOLDER).is_dir():
        raise HomeNotFound(str(home), f"it has no folder `{FOLDER}`, so no client of another system recorded here")
    try:
        release = lock.acquire(home / "index" / "lock")
    except OSError:
        reason = "another process has the index open, perhaps a service"
        raise FileFormatError(reason, "Stop it, then replay.", file=str(home)) from None
    try:
        return [
            ReplayedRun(protocol, run, changed)
            for protocol in protocols or SOURCES
            for run, changed in Ingest(home, protocol, SOURCES[protocol]).replay()
        ]
    finally:
        release()
