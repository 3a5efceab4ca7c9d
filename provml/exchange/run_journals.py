"""Imported runs as journals of a home. An import that is repeated changes nothing, unless the source has changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from provml.errors import InvalidAnnotation
from provml.exchange.arrived_journals import seal_import
from provml.exchange.base import SourceRun
from provml.exchange.imported_run import CHANGED, NEW, UNCHANGED, ImportedRun
from provml.journal import annotations as notes
from provml.journal import events, segments
from provml.journal.redaction import redact_foreign_event
from provml.journal.run_files import journals_of_run

WRITTEN_BYTES = 1 << 20


class Digest(Protocol):
    """The digest of bytes."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""


class _Counter:
    """Count the epochs and measured values of events while they are written."""

    def __init__(self) -> None:
        self.header = events.Header(events.VERSION, "", "", "", 0.0)
        self.epochs = 0
        self.measures = 0
        self.has_end = False

    def lines(self, source: SourceRun) -> Iterator[bytes]:
        for event in source.events:
            if isinstance(event, events.Measured):
                self.measures += len(event.values)
            elif isinstance(event, events.Begin):
                # a paired validation epoch is not another one
                self.epochs += event.kind == "epoch" and not event.parent
            elif isinstance(event, events.Header):
                self.header = event
            elif isinstance(event, events.End):
                self.has_end = True
            yield events.encode(redact_foreign_event(event))


def write_run(home: Path, source: SourceRun) -> ImportedRun:
    """Write a run as a journal, unless an earlier import wrote the same.

    The name of the file has a digest of its content. A changed journal is therefore another file, so that an index
    notices that the earlier one is gone.
    """
    folder = home / "runs" / source.id
    segments.restore(home, [source.id])
    counter, digest = _Counter(), hashlib.sha256()
    temporary = home / f"import-{uuid.uuid4().hex[:8]}.part"
    is_new_home = not home.exists()
    home.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb", buffering=WRITTEN_BYTES) as file:
            for line in counter.lines(source):
                _update(digest, line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not counter.has_end and source.last_time is not None:
            _set_time(temporary, source.last_time)
        writer = counter.header.writer
        earlier = [
            path for path in journals_of_run(folder) if path.stem == writer or path.stem.startswith(f"{writer}-")
        ]
        is_same = [_digest(path) for path in earlier] == [digest.hexdigest()]
        if not is_same:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{writer}-{digest.hexdigest()[:12]}.jsonl"
            temporary.replace(folder / name)
            for path in earlier:
                path.unlink()
            seal_import(home, source.id, [name], [path.name for path in earlier], is_new=not earlier)
        _annotate(folder, source)
    finally:
        temporary.unlink(missing_ok=True)
        if is_new_home:
            with contextlib.suppress(OSError):
                home.rmdir()  # only if it is empty: nothing was imported
    result = UNCHANGED if is_same else CHANGED if earlier else NEW
    name, model = counter.header.run_name or counter.header.name, counter.header.model
    counts = counter.epochs, counter.measures
    return ImportedRun(source.id, name, model, result, *counts, tuple(source.notes), source.losses)


def _annotate(folder: Path, source: SourceRun) -> None:
    """Add the tags and notes of a source to a run, each once: what people removed later does not come back."""
    wanted = {("tag", text) for text in source.tags} | {("note", text) for text in source.remarks}
    if not wanted:
        return
    present = {(event.kind, event.text) for _, event in notes.read(folder).events}
    file = notes.AnnotationFile(folder)
    texts: tuple[tuple[notes.Kind, Iterable[str]], ...] = (("tag", source.tags), ("note", source.remarks))
    for kind, items in texts:
        for text in items:
            with contextlib.suppress(InvalidAnnotation):
                if (kind, notes.check_text(kind, text)) not in present:
                    notes.annotate(file, kind, [text], by=source.writer)


def _set_time(path: Path, seconds: float) -> None:
    """Set the modification time, by which readers see whether a run without an end is alive."""
    with contextlib.suppress(OSError, OverflowError):
        os.utime(path, (seconds, seconds))


def _update(digest: Digest, line: bytes) -> None:
    """Add a line to a digest, but not the one that says where the run comes from: it differs from import to import."""
    if not line.startswith(events.IMPORTED_START):
        digest.update(line)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for line in file:
            _update(digest, line)
    return digest.hexdigest()
