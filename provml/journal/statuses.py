"""The statuses of a run, apart from the code that determines them: the command line lists them without reading journals."""

from __future__ import annotations

STATUSES = ("FINISHED", "FAILED", "RUNNING", "KILLED", "LOST")
"""All statuses that `provml.journal.status.status_of_run` returns."""
