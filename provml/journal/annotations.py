"""Annotations: tags, notes and names that people give to a run, as events in journals of their own.

They are in the folder `annotations` of the run, one append-only file per process that annotates the run. Nobody writes
to the file of another process, so that no lock is needed, and the journals of the run do not change. Nothing is
deleted: a tag is removed by another event. An event has a number that is higher than those of all events that its
writer has read, so that the order of events does not depend on the clocks of several machines.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from provml.errors import InvalidAnnotation
from provml.journal import process, segments
from provml.journal.events import Event, Time, encode
from provml.journal.reader import read_lines
from provml.paths import NO_FOLLOW

FOLDER = "annotations"
"""Folder of the annotations in the folder of a run."""
VERSION = 1
MAX_CHARS = {"tag": 100, "name": 200, "note": 10_000}
"""Longest text of each kind."""
Kind = Literal["tag", "note", "name"]


class AnnotationHeader(Event, tag="annotations"):
    """The first line of a file of annotations."""

    version: int
    run: str
    writer: str


class AnnotationEvent(Event, tag="annotation"):
    """Somebody gave a run a tag, a note or a name, or removed a tag or a note."""

    time: Time
    kind: Kind
    text: str
    by: str = ""
    removed: bool = False
    number: int = 0


class Annotation(msgspec.Struct, frozen=True):
    """A tag, a note or a name of a run: who gave it and when; `removed` and `removed_by` if it no longer holds.

    `id` is the file and the line of the event. A name no longer holds when the run gets another one.
    """

    kind: Kind
    text: str
    by: str
    added: datetime
    removed: datetime | None = None
    removed_by: str = ""
    id: str = ""


class LineProblem(NamedTuple):
    """A line of a file of annotations, or the whole file (line 0), that cannot be read."""

    file: str
    line: int
    reason: str


class AnnotationLog(NamedTuple):
    """The events of all files of a run, in their order, with the ids of their lines; and what cannot be read."""

    events: list[tuple[str, AnnotationEvent]]
    problems: list[LineProblem]


_decoder = msgspec.json.Decoder(AnnotationHeader | AnnotationEvent)


# ---- check


def check_text(kind: Kind, value: Any) -> str:
    """Return the text of an annotation without surrounding space; raise InvalidAnnotation if it is not suitable."""
    text = ("" if value is None else str(value)).strip()
    if not text:
        raise InvalidAnnotation(kind, text, "is empty", f"Pass the text of the {kind}.")
    if len(text) > MAX_CHARS[kind]:
        limit = MAX_CHARS[kind]
        advice = f"Shorten it to {limit} characters, or store a long text with run.text(…)."
        raise InvalidAnnotation(kind, text, f"has {len(text)} characters", advice)
    allowed = "\n\r\t" if kind == "note" else ""
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") and character not in allowed:
            reason = f"contains the character {character!r}"
            advice = "Remove it." if kind == "note" else f"Write the {kind} on one line, or use a note for longer text."
            raise InvalidAnnotation(kind, text, reason, advice)
    if kind == "tag" and "," in text:
        raise InvalidAnnotation(kind, text, "contains a comma", "Pass several tags as separate arguments.")
    if kind == "name" and text == "latest":
        raise InvalidAnnotation(kind, text, "stands for the run that began last", "Choose another name.")
    return text


# ---- write


class AnnotationFile:
    """The file of annotations of this process for one run. A forked child gets a file of its own."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / FOLDER
        self.run = run_folder.name
        self._pid = 0
        self._path = self.folder
        self._line_count = 0
        self._lock = threading.Lock()
        self._log = AnnotationLog([], [])
        self._log_sizes: dict[str, int] | None = None

    def append(self, new: Sequence[AnnotationEvent], *, sync: bool = False) -> None:
        """Append events: all of them or, after an error, none. `sync` waits until they are on the disk."""
        with self._lock:
            header = b""
            if self._pid != os.getpid():
                is_packed = bool(segments.names(self.folder.parent))  # else a missing folder is that of a removed run
                self.folder.mkdir(exist_ok=True, parents=is_packed)
                writer = _writer_id()
                self._path, self._line_count = self.folder / f"{writer}.jsonl", 0
                header = encode(AnnotationHeader(VERSION, self.run, writer))
            data = header + b"".join(map(encode, new))
            _append(self._path, data, sync=sync)
            self._pid = os.getpid()
            self._line_count += bool(header)
            for event in new:
                self._line_count += 1
                self._log.events.append((f"{self._path.stem}/{self._line_count}", event))
            if self._log_sizes is not None:
                self._log_sizes[self._path.name] = self._log_sizes.get(self._path.name, 0) + len(data)

    def read(self) -> AnnotationLog:
        """Return all annotations of the run. The files are read again only if another process has changed them."""
        with self._lock:
            sizes = file_sizes(self.folder.parent)
            if sizes != self._log_sizes:
                self._log, self._log_sizes = read(self.folder.parent), sizes
            return self._log


def _writer_id() -> str:
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in process.host())[:24] or "host"
    return f"{host}-{os.getpid()}-{os.urandom(4).hex()}"


def _append(path: Path, data: bytes, *, sync: bool) -> None:
    """Append to a file that only this process writes; cut what a failed write has left."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o644)
    try:
        size = os.fstat(file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
        except BaseException:
            os.ftruncate(file, size)
            raise
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def annotate(
    file: AnnotationFile, kind: Kind, texts: Iterable[Any], *, by: str = "", removed: bool = False, sync: bool = False
) -> list[str]:
    """Append annotations of one kind, or their removal, and return the texts that are new or removed.

    Raise InvalidAnnotation, before anything is written, for a text that is not suitable or that cannot be removed.
    """
    from provml.journal.redaction import redact_text  # not at the top: reading does not need its patterns

    checked = list(dict.fromkeys(redact_text(check_text(kind, text)) for text in texts))
    log = file.read()
    same_kind = [item for item in log.events if item[1].kind == kind] if removed or kind != "note" else []
    present = present_texts(resolve(AnnotationLog(same_kind, [])), kind)
    if removed:
        for text in checked:
            if text not in present:
                raise InvalidAnnotation(kind, text, f"is no {kind} of run {file.run}", _list_present(kind, present))
    elif kind != "note":
        checked = [text for text in checked if text not in present]
    if checked:
        number = 1 + (log.events[-1][1].number if log.events else 0)  # in their order
        person, now = by.strip() or process.user_name(), time.time()
        file.append([AnnotationEvent(now, kind, text, person, removed, number) for text in checked], sync=sync)
    return checked


def _list_present(kind: Kind, present: Sequence[str]) -> str:
    return f"It has the {kind}s {', '.join(map(repr, present))}." if present else f"It has no {kind}s."


# ---- read


def file_sizes(run_folder: Path) -> dict[str, int]:
    """Return the files of annotations of a run with their sizes; empty if it has none. Raise OSError if unreadable."""
    sizes = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(run_folder / FOLDER) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl") and entry.is_file():
                sizes[entry.name] = entry.stat().st_size
    return sizes


def read(run_folder: Path) -> AnnotationLog:
    """Read all annotations of a run. A line that is being written is left out; a damaged line is a problem."""
    events: list[tuple[str, AnnotationEvent]] = []
    problems: list[LineProblem] = []
    try:
        names = sorted(file_sizes(run_folder))
    except OSError as error:
        return AnnotationLog([], [LineProblem(FOLDER, 0, (error.strerror or str(error)).lower())])
    for name in names:
        path, file = run_folder / FOLDER / name, f"{FOLDER}/{name}"
        try:
            for _, number, line in read_lines(path):
                try:
                    event = _decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    problems.append(LineProblem(file, number, f"{type(error).__name__}: {error}"))
                    continue
                if isinstance(event, AnnotationEvent):
                    events.append((f"{path.stem}/{number}", event))
                elif event.version > VERSION:
                    reason = f"annotations of version {event.version}, newer than {VERSION}; upgrade provml"
                    problems.append(LineProblem(file, 0, reason))
                    break
        except FileNotFoundError:  # the run was removed meanwhile
            continue
        except OSError as error:
            problems.append(LineProblem(file, 0, (error.strerror or str(error)).lower()))
    events.sort(key=lambda item: (item[1].number, item[1].time, item[0]))
    return AnnotationLog(events, problems)


def resolve(log: AnnotationLog) -> list[Annotation]:
    """Return the annotations that the events make, those that no longer hold included, in the order of their events.

    A tag that the run has already is not added again. A new name replaces the name before it.
    """
    annotations: list[Annotation] = []
    present: dict[Kind, dict[str, list[int]]] = {"tag": {}, "note": {}, "name": {}}  # positions by kind and text
    for event_id, event in log.events:
        when = datetime.fromtimestamp(event.time, UTC)
        texts = present[event.kind]
        is_present = event.text in texts
        if event.removed:
            ended = texts.pop(event.text, [])
        elif event.kind == "name" and not is_present:
            ended = [position for positions in texts.values() for position in positions]
            texts.clear()
        else:
            ended = []
        for position in ended:
            annotation = annotations[position]
            removed = max(when, annotation.added)  # clocks may differ
            annotations[position] = msgspec.structs.replace(annotation, removed=removed, removed_by=event.by)
        if not event.removed and (event.kind == "note" or not is_present):
            texts.setdefault(event.text, []).append(len(annotations))
            annotations.append(Annotation(event.kind, event.text, event.by, when, id=event_id))
    return annotations


def present_texts(annotations: Iterable[Annotation], kind: Kind) -> tuple[str, ...]:
    """Return the texts of the annotations of a kind that hold at present."""
    return tuple(a.text for a in annotations if a.kind == kind and a.removed is None)


def present_name(annotations: Iterable[Annotation]) -> str:
    """Return the latest name that somebody gave to the run; empty if nobody did."""
    return "".join(present_texts(annotations, "name")[-1:])
