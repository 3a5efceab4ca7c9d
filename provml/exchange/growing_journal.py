"""The journal of a run that another program records piece by piece, brought up to date with the events so far.

The events are translated again, all of them, when something new was received. What the journal lacks is appended.
It is replaced only if events that it has are no longer right, or if an order that matters would be another one; the
new file has another name, so that an index notices it. The graph does not depend on the order in which pieces come.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from provml.journal import events, segments
from provml.journal.location import Location
from provml.journal.reader import read_lines
from provml.journal.redaction import redact_foreign_event
from provml.journal.run_files import journals_of_run
from provml.journal.seals import Ledger, reseal, seal_arrived, sealed_journals
from provml.paths import NO_FOLLOW

REASON = "a later state was received"
Line = tuple[bytes, int]
"""A line, and how often it occurred before."""


class GrowingJournal:
    """The journal of one run in a home; `writer` names the translation."""

    def __init__(self, home: Path, run: str, writer: str) -> None:
        self.home = home
        self.folder = home / "runs" / run
        segments.restore(home, [run])
        self.writer = writer
        self._path: Path | None = None
        self._positions: dict[Line, int] | None = None
        self._sealed: set[str] | None = None
        self._has_changed = True

    def update(self, run_events: Sequence[events.Event], time: float) -> bool:
        """Bring the journal up to date and return whether it changed; `time` is that of the last sign of life."""
        lines = [*_numbered(events.encode(redact_foreign_event(event)) for event in run_events)]
        positions = self._read()
        missing = [line for line in lines if line not in positions]
        is_new = not positions
        if not is_new and (
            len(lines) - len(missing) < len(positions) or _is_out_of_order(run_events, lines, positions)
        ):
            self._replace(lines)
        elif missing:
            self._append(missing, positions)
        else:
            self._touch(time)
            return False
        self._has_changed = True
        self._touch(time)
        return True

    def seal(self, *, is_over: bool) -> None:
        """Seal the journal if its run is over, or again if it has changed since; without a seal it is complete, too."""
        if self._path is None or not self._has_changed:
            return
        if self._sealed is None:
            self._sealed = sealed_journals(self.home, self.folder.name)
        with contextlib.suppress(OSError):
            removed = {name for name in self._sealed if not (self.folder / name).exists()}
            if removed:
                Ledger(self.home).append("removed", run=self.folder.name, reason=REASON)
                for name in sorted(self._sealed - removed - {self._path.name}):
                    reseal(self.folder / name, by="service", reason=REASON)
            if self._path.name in self._sealed or removed:
                reseal(self._path, by="service", reason=REASON)
            elif is_over:
                seal_arrived(self._path, by="service")
            else:
                return
            self._sealed = (self._sealed - removed) | {self._path.name}
            self._has_changed = False

    def _read(self) -> dict[Line, int]:
        """Return the position of each line of the journal. A last line that was cut off by a kill is removed."""
        if self._positions is not None and (self._path is None or self._path.exists()):
            return self._positions
        self._path = next((path for path in journals_of_run(self.folder) if self._is_own(path)), None)
        lines: list[bytes] = []
        if self._path is not None:
            end = 0
            for end, _, line in read_lines(self._path):  # noqa: B007  # the end of the last line
                lines.append(line + b"\n")
            if end < self._path.stat().st_size:
                os.truncate(self._path, end)
        self._positions = {line: number for number, line in enumerate(_numbered(lines))}
        return self._positions

    def _is_own(self, path: Path) -> bool:
        return path.stem == self.writer or path.stem.startswith(f"{self.writer}-")

    def _append(self, missing: Sequence[Line], positions: dict[Line, int]) -> None:
        if self._path is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._path = self.folder / f"{self.writer}.jsonl"
        data = b"".join(line for line, _ in missing)
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o644)
        try:
            self._positions = None  # unknown if the disk is full in the middle of a line
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
        finally:
            os.close(file)
        for line in missing:
            positions[line] = len(positions)
        self._positions = positions

    def _replace(self, lines: Sequence[Line]) -> None:
        data = b"".join(line for line, _ in lines)
        previous = self._path
        path = self.folder / f"{self.writer}-{hashlib.sha256(data).hexdigest()[:12]}.jsonl"
        part = self.home / f"import-{uuid.uuid4().hex[:8]}.part"
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        if previous is not None and previous != path:
            previous.unlink(missing_ok=True)
        self._path, self._positions = path, {line: number for number, line in enumerate(lines)}

    def _touch(self, time: float) -> None:
        """Set the modification time, by which readers see whether the run is alive."""
        if self._path is not None:
            os.utime(self._path, (time, time))


def _numbered(lines: Iterator[bytes] | Sequence[bytes]) -> Iterator[Line]:
    counts: Counter[bytes] = Counter()
    for line in lines:
        yield line, counts[line]
        counts[line] += 1


def _is_out_of_order(run_events: Sequence[events.Event], lines: Sequence[Line], positions: dict[Line, int]) -> bool:
    """Return whether appending what is missing would change an order that the graph depends on.

    Values of the same name at a location are numbered. A section has the hyperparameters that were in force when it
    began. Data is used before or after it is produced again.
    """
    size, last, latest = len(positions), {}, {}  # type: ignore[var-annotated]
    for event, line in zip(run_events, lines, strict=True):
        position = positions.get(line, size)
        size += position == size
        for key in _ordered_keys(event):
            if last.get(key, -1) > position:
                return True
            last[key] = position
        group = _parameter_group(event)
        if group is not None:
            stage, is_section = group
            if latest.get((stage, not is_section), -1) > position:
                return True
            latest[stage, is_section] = max(position, latest.get((stage, is_section), -1))
    return False


def _ordered_keys(event: events.Event) -> Iterator[tuple[str, ...]]:
    if isinstance(event, (events.Measured, events.Parameter)):
        yield from ((event.location, name) for name in event.values)
    elif isinstance(event, (events.Produced, events.Used, events.Data)):
        yield ("data", event.ref)


def _parameter_group(event: events.Event) -> tuple[str, bool] | None:
    """Return the stage of an event that sets hyperparameters (False) or begins a section (True)."""
    if isinstance(event, (events.Parameter, events.Adapted)):
        return Location.from_text(event.location).stage_location, False
    if isinstance(event, events.Begin) and "/" in event.location:
        return Location.from_text(event.location).stage_location, True
    return None
