"""The statuses of a run, in a module of its own: the command line lists them without loading the reader of journals."""

from __future__ import annotations

STATUSES = ("FINISHED", "FAILED", "INTERRUPTED", "PRUNED", "RUNNING", "KILLED", "LOST")
"""All statuses that `provml.journal.status.status_of_run` returns."""
UNSUCCESSFUL = ("FAILED", "INTERRUPTED", "KILLED", "LOST")
"""Statuses of what did not come to its own end."""
