"""Files of messages that clients of ProvLake and OpenLineage wrote instead of sending them: one JSON value a line.

The messages are those of the protocols, so the translations of the protocols read them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart, SourceRun
from provml.exchange.losses import DATASETS, OTHERS, PARAMETERS, POINTS, LossReport
from provml.exchange.openlineage import OpenLineageRun, run_id_of
from provml.exchange.provlake import ProvLakeRun, execution_of, workflow_of
from provml.exchange.source_files import sha256_of, sniff
from provml.journal import events

Fields = dict[str, Any]
MAX_LINE_BYTES = 64 << 20
FILE_WORDS = ("file", "path", "dataset", "raw")
"""Words in the names of values that are paths of files."""


class OpenLineageFile:
    """Importer of events of OpenLineage: one a line, or all in an array."""

    name = "openlineage"
    summary = "a file of OpenLineage events, one a line or in an array, or a folder with some"

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins with an event of OpenLineage."""
        return any(_has_words(file, b'"eventTime"', b'"producer"') for file in _files(path, "*.json*", "*.log"))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the runs of jobs; events about a job or a dataset alone are no runs."""
        files = [file for file in _files(path, "*.json*", "*.log") if _has_words(file, b'"eventTime"', b'"producer"')]
        runs: dict[str, OpenLineageRun] = {}
        counts: dict[str, int] = {}
        statics = damaged = 0
        for file in files:
            for message in read_messages(file):
                run_id = run_id_of(message) if message is not None else ""
                if message is None:
                    damaged += 1
                elif not run_id:
                    statics += 1
                else:
                    runs.setdefault(run_id, OpenLineageRun()).feed(message, file.stat().st_mtime)
                    counts[run_id] = counts.get(run_id, 0) + 1
            options.advance(file.stat().st_size)
        if statics:
            yield SkippedPart(path.name, f"{statics} events about a job or a dataset without a run", is_run=False)
        if damaged:
            yield SkippedPart(path.name, f"{damaged} lines are damaged or cut off: a partial import", is_run=False)
        version = ""
        digest = sha256_of(files[0]) if len(files) == 1 else ""
        for run_id, run in runs.items():
            losses = LossReport()
            losses.count(OTHERS, counts[run_id])
            losses.preserve(OTHERS, len(run.in_order))
            if counts[run_id] > len(run.in_order):
                losses.leave_out(OTHERS, "events", "the same event again", counts[run_id] - len(run.in_order))
            run_events = run.all_events()
            _account_for_datasets(losses, [message for _, message in run.in_order], run_events)
            losses.lack("parameters and metrics", "OpenLineage has none")
            if run.end is None:
                losses.lack("how the run ended", "its status is LOST")
            note = _imported("openlineage", path, version, digest)
            last_time = run.in_order[-1][0]
            yield SourceRun(run_id, _insert(run_events, note), losses=losses, last_time=last_time)


class ProvLakeLog:
    """Importer of the logs that ProvLake's client writes."""

    name = "provlake"
    summary = "a log of ProvLake's client, or a folder with some"

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins with a message of ProvLake."""
        return any(_has_words(file, b'"prov_obj"') for file in _files(path, "*.log", "*.json*"))

    def read(self, path: Path, options: ImportOptions) -> Iterator[SourceRun | SkippedPart]:
        """Yield the executions of workflows."""
        files = [file for file in _files(path, "*.log", "*.json*") if _has_words(file, b'"prov_obj"')]
        runs: dict[str, ProvLakeRun] = {}
        accounts: dict[str, LossReport] = {}
        values: dict[str, list[tuple[str, Any]]] = {}
        digests: dict[str, list[Path]] = {}
        damaged = 0
        for file in files:
            for message in read_messages(file):
                if message is None:
                    damaged += 1
                    continue
                run = ProvLakeRun(workflow_of(message), execution_of(message))
                run = runs.setdefault(run.id, run)
                run.infers_failure = True
                losses = accounts.setdefault(run.id, LossReport())
                losses.count(OTHERS)
                losses.preserve(OTHERS)
                referenced = _with_references(message, losses)
                values.setdefault(run.id, []).extend(_values_of(referenced))
                run.feed(referenced, _time_of(message, file))
                if file not in digests.setdefault(run.id, []):
                    digests[run.id].append(file)
            options.advance(file.stat().st_size)
        if damaged:
            yield SkippedPart(path.name, f"{damaged} lines are damaged or cut off: a partial import", is_run=False)
        for run_id, run in runs.items():
            losses = accounts[run_id]
            losses.lack("digests of the data", "the log has the paths of files only")
            if run.has_failed:
                reason = "ProvLake says FINISHED also after an exception; a training without an output has failed"
                losses.guess(OTHERS, "status", reason, 0)
            files_of_run = digests[run_id]
            digest = sha256_of(files_of_run[0]) if len(files_of_run) == 1 else ""
            note = _imported("provlake", path, "", digest)
            listed = run.all_events(is_silent=True)
            account_for_values(losses, values[run_id], listed)
            yield SourceRun(run_id, _insert(listed, note), losses=losses, last_time=run.last_time)


# ---- account


def _values_of(message: Fields) -> Iterator[tuple[str, Any]]:
    """Yield the values of a message of ProvLake."""
    body = message.get("prov_obj")
    values = body.get("values") if isinstance(body, dict) else None
    if isinstance(values, dict):
        yield from values.items()


def account_for_values(losses: LossReport, values: list[tuple[str, Any]], run_events: list[events.Event]) -> None:
    """Count the values of messages by what they are in the run; one whose name no event has is left out."""
    measured, settings, data = set[str](), {"epoch"}, set[str]()
    for event in run_events:
        if isinstance(event, events.Measured):
            measured |= event.values.keys()
        elif isinstance(event, (events.Begin, events.Parameter, events.Adapted)):
            settings |= event.values.keys()
        elif isinstance(event, events.Data):
            data |= {event.ref, event.name, event.path, *event.values}
        elif isinstance(event, events.Produced):
            settings |= event.values.keys()
    for name, value in values:
        is_data = isinstance(value, dict) and "value" in value
        if is_data:
            kind, is_there = DATASETS, str(value["value"]) in data or name in data
        elif name.removeprefix("val_").removeprefix("test_") in measured or name in measured:
            kind, is_there = POINTS, True
        else:
            kind, is_there = PARAMETERS, name in settings or name in data
        losses.count(kind)
        if is_there:
            losses.preserve(kind)
        else:
            losses.leave_out(kind, name, "a run has no place for this value")


def _account_for_datasets(losses: LossReport, messages: list[Fields], run_events: list[events.Event]) -> None:
    """Count the datasets that events of OpenLineage name, and those of them that the run has."""
    names: dict[str, None] = {}
    for message in messages:
        for side in ("inputs", "outputs"):
            items = message.get(side)
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict) and item.get("name"):
                    names[str(item["name"])] = None
    data = {event.name for event in run_events if isinstance(event, events.Data)}
    losses.count(DATASETS, len(names))
    for name in names:
        if name in data or any(other and name.endswith(other) for other in data):
            losses.preserve(DATASETS)
        else:
            losses.leave_out(DATASETS, name, "the event names it without a use")


# ---- files


def _files(path: Path, *patterns: str) -> list[Path]:
    if path.is_dir():
        return sorted({file for pattern in patterns for file in path.glob(pattern) if file.name != "expected.json"})
    return [path]


def _has_words(path: Path, *words: bytes) -> bool:
    start = sniff(path)
    return start.lstrip()[:1] in (b"{", b"[") and all(word in start for word in words)


def read_messages(path: Path) -> Iterator[Fields | None]:
    """Yield the messages of a file: one or an array of them on each line, or all in one array; None if damaged."""
    try:
        with path.open("rb") as file:
            start = file.read(1 << 12).lstrip()
            is_pretty = (start[:1] == b"[" and b"\n" in start[:4]) or start.partition(b"\n")[0].strip() in (b"{", b"[")
            file.seek(0)
            lines = [file.read(MAX_LINE_BYTES)] if is_pretty else iter(lambda: file.readline(MAX_LINE_BYTES), b"")
            for line in lines:
                if line.strip():
                    yield from _parse(line)
    except OSError as error:
        reason = f"it cannot be read ({str(error.strerror or error).lower()})"
        raise FileFormatError(reason, "Check the path.", file=str(path)) from error


def _parse(line: bytes) -> Iterator[Fields | None]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        yield None
        return
    for item in value if isinstance(value, list) else [value]:
        yield item if isinstance(item, dict) else None


# ---- events


def _imported(fmt: str, path: Path, version: str, digest: str) -> events.Imported:
    return events.Imported(time.time(), path.name, fmt, tool=fmt, version=version, sha256=digest)


def _insert(listed: list[events.Event], note: events.Imported) -> Iterator[Any]:
    """Yield events, and where they come from after the header."""
    yield listed[0]
    yield note
    yield from listed[1:]


def _time_of(message: Fields, file: Path) -> float:
    """Return the latest time in a message of ProvLake; that of the file if there is none."""
    body = message.get("prov_obj")
    fields = body if isinstance(body, dict) else {}
    inner = next((fields[name] for name in ("task", "cycle") if isinstance(fields.get(name), dict)), fields)
    times = [inner.get(name) for name in ("endTime", "startTime", "generatedTime")]
    valid = [value for value in times if isinstance(value, (int, float)) and events.MIN_TIME < value < events.MAX_TIME]
    return max(valid, default=file.stat().st_mtime)


def _with_references(message: Fields, losses: LossReport) -> Fields:
    """Return a message in which paths of files are references to data, as in messages with a plan."""
    body = message.get("prov_obj")
    values = body.get("values") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(values, dict):
        return message
    changed = {
        name: {"type": "data_reference", "value": value}
        for name, value in values.items()
        if isinstance(value, str) and PurePath(value).suffix and any(word in name.lower() for word in FILE_WORDS)
    }
    if not changed:
        return message
    for name in changed:
        losses.guess(OTHERS, name, "a file by the name of the value", 0)
    return {**message, "prov_obj": {**body, "values": {**values, **changed}}}
