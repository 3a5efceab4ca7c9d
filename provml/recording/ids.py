"""Ids of runs and writers."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from provml.journal import process


def new_run_id() -> str:
    """Return a run id: the UTC time and a random part. Ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def new_writer_id() -> str:
    """Return the name of a journal file: host, process id and a random part."""
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in process.host())[:24] or "host"
    return f"{host}-{os.getpid()}-{os.urandom(3).hex()}"
