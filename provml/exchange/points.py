"""The points of all metrics of a run, in the order of their steps, in memory that does not grow with their number.

Up to CHUNK_POINTS are in memory, as plain numbers. More are sorted by step and moved to a temporary file, and read back
merged.
"""

from __future__ import annotations

import heapq
import itertools
import struct
import tempfile
from array import array
from collections.abc import Iterator
from operator import itemgetter
from typing import IO, NamedTuple

from provml.journal.events import MAX_TIME, MIN_TIME

CHUNK_POINTS = 1_000_000
MAX_TRACKED_STEPS = 100_000
"""Different steps that are counted; a run with more has no epochs that could be recognised."""
MAX_STEP = 1 << 62
NAN = float("nan")
_RECORD = struct.Struct("<qddIH")
_READ_RECORDS = 2000


class Point(NamedTuple):
    """A value of a metric. `time` is in seconds since 1970, NaN if unknown; `part` is the file that it comes from."""

    step: int
    time: float
    value: float
    key: int
    part: int


class KeyStats:
    """What is known about the points of one metric."""

    __slots__ = ("count", "first_time", "max_step", "min_step")

    def __init__(self) -> None:
        self.count = 0
        self.min_step = 1 << 62
        self.max_step = -(1 << 62)
        self.first_time = float("nan")


class Points:
    """The points of a run. `part` is the number of the file that is being read; the value of a later file counts."""

    def __init__(self, chunk_points: int = CHUNK_POINTS) -> None:
        self.names: list[str] = []
        self.stats: list[KeyStats] = []
        self.part = 0
        self.last_time = float("nan")
        self._chunk_points = chunk_points
        self._keys: dict[str, int] = {}
        self._columns = _new_columns()
        self._sorted = True
        self._last_step = -(1 << 62)
        self._files: list[IO[bytes]] = []
        self._steps: set[int] | None = set()
        self.count = 0
        self.wrong_steps = 0
        """Points whose step was beyond the range of an index."""

    def add(self, name: str, step: int, value: float, time: float) -> None:
        """Add a point. A step beyond the range of an index is none, and so is a time beyond the calendar."""
        if not -MAX_STEP < step < MAX_STEP:
            step = -1
            self.wrong_steps += 1
        if not MIN_TIME <= time <= MAX_TIME:
            time = NAN
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = len(self.names)
            self.names.append(name)
            self.stats.append(KeyStats())
        stats = self.stats[key]
        stats.count += 1
        if step < stats.min_step:
            stats.min_step = step
        if step > stats.max_step:
            stats.max_step = step
        if stats.count == 1:
            stats.first_time = time
        if not time <= self.last_time and time == time:
            self.last_time = time
        if step < self._last_step:
            self._sorted = False
        self._last_step = step
        if self._steps is not None:
            self._steps.add(step)
            if len(self._steps) > MAX_TRACKED_STEPS:
                self._steps = None
        steps, times, values, keys, parts = self._columns
        steps.append(step)
        times.append(time)
        values.append(value)
        keys.append(key)
        parts.append(self.part)
        self.count += 1
        if len(steps) >= self._chunk_points:
            self._spill()

    @property
    def steps(self) -> set[int] | None:
        """The different steps; None if there are too many."""
        return self._steps

    def stats_of(self, name: str) -> KeyStats:
        """Return what is known about a metric."""
        return self.stats[self._keys[name]]

    def __iter__(self) -> Iterator[Point]:
        """Yield all points by their steps, those of one step in the order in which they were added."""
        if not self._files:
            return self._in_memory()
        return heapq.merge(*map(_read, self._files), self._in_memory(), key=itemgetter(0))

    def by_step(self) -> Iterator[tuple[int, list[Point]]]:
        """Yield the points of each step."""
        for step, points in itertools.groupby(self, key=itemgetter(0)):
            yield step, list(points)

    def close(self) -> None:
        """Remove the temporary files."""
        for file in self._files:
            file.close()
        self._files.clear()

    def _in_memory(self) -> Iterator[Point]:
        columns = self._columns
        if self._sorted:
            return map(Point, *columns)
        order = sorted(range(len(columns[0])), key=columns[0].__getitem__)
        return map(Point, *([column[index] for index in order] for column in columns))

    def _spill(self) -> None:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        for piece in _batched(self._in_memory(), _READ_RECORDS):
            file.write(b"".join(itertools.starmap(_RECORD.pack, piece)))
        self._files.append(file)
        self._columns, self._sorted, self._last_step = _new_columns(), True, -(1 << 62)


def _new_columns() -> tuple[array[int], array[float], array[float], array[int], array[int]]:
    return array("q"), array("d"), array("d"), array("I"), array("H")


def _batched(points: Iterator[Point], size: int) -> Iterator[tuple[Point, ...]]:
    while piece := tuple(itertools.islice(points, size)):
        yield piece


def _read(file: IO[bytes]) -> Iterator[Point]:
    """Yield the points of a temporary file; several readers of one file do not disturb each other."""
    position = 0
    while True:
        file.seek(position)
        data = file.read(_RECORD.size * _READ_RECORDS)
        if not data:
            return
        position += len(data)
        for fields in _RECORD.iter_unpack(data):
            yield Point._make(fields)
