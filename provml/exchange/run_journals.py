"""Imported runs as journals of a home. An import that is repeated changes nothing, unless the source has changed."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from provml.exchange.base import SourceRun
from provml.journal import events, segments
from provml.journal.run_files import journals_of_run

NEW, CHANGED, UNCHANGED = "new", "changed", "unchanged"
"""What an import did with a run: a changed one is in the home from an earlier import with other events."""


@dataclass(frozen=True)
class ImportedRun:
    """A run of a source after the import, with the number of its epochs and measured values."""

    id: str
    name: str
    model: str
    result: str
    epochs: int
    measures: int
    notes: tuple[str, ...] = ()


class _Counter:
    """Count the epochs and measured values of events while they are written."""

    def __init__(self) -> None:
        self.header = events.Header(events.VERSION, "", "", "", 0.0)
        self.epochs = 0
        self.measures = 0

    def lines(self, source: SourceRun) -> Iterator[bytes]:
        for event in source.events:
            if isinstance(event, events.Header):
                self.header = event
            elif isinstance(event, events.Begin) and event.kind == "epoch":
                self.epochs += not event.parent  # a paired validation epoch is not another one
            elif isinstance(event, events.Measured):
                self.measures += len(event.values)
            yield events.encode(event)


def write_run(home: Path, source: SourceRun) -> ImportedRun:
    """Write a run as a journal, unless an earlier import wrote the same.

    The name of the file has a digest of its content. A changed journal is therefore another file, so that an index
    notices that the earlier one is gone.
    """
    folder = home / "runs" / source.id
    segments.restore(home, [source.id])
    counter, digest = _Counter(), hashlib.sha256()
    temporary = home / f"import-{uuid.uuid4().hex[:8]}.part"
    home.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            for line in counter.lines(source):
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        writer = counter.header.writer
        earlier = [
            path for path in journals_of_run(folder) if path.stem == writer or path.stem.startswith(f"{writer}-")
        ]
        is_same = [_digest(path) for path in earlier] == [digest.hexdigest()]
        if not is_same:
            folder.mkdir(parents=True, exist_ok=True)
            for path in earlier:
                path.unlink()
            temporary.replace(folder / f"{writer}-{digest.hexdigest()[:12]}.jsonl")
    finally:
        temporary.unlink(missing_ok=True)
    result = UNCHANGED if is_same else CHANGED if earlier else NEW
    name, model = counter.header.name, counter.header.model
    return ImportedRun(source.id, name, model, result, counter.epochs, counter.measures, tuple(source.notes))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
