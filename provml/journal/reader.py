"""Read a journal: from an offset, whole events, merged with the batches that are only in the writer's buffer.

A journal may be written while it is read. The reader takes complete lines only, and each event once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from provml.errors import FileFormatError
from provml.journal import events, segments
from provml.journal.batch_buffer import read_buffer, recover_lines
from provml.journal.events import AnyEvent

BLOCK_BYTES = 1 << 20
FIRST_BLOCK_BYTES = 1 << 16
"""Enough for the first lines of nearly every journal."""
BATCHES_PREFIX = b'{"e":"batches"'
BATCH_PREFIXES = (b'{"e":"batch', b'{"e":"measured"')
"""Lines of batches and measures: most lines of a journal."""
HEADER_PREFIX = b'{"e":"run'
BEGIN_PREFIX = b'{"e":"begin"'
END_PREFIX = b'{"e":"end"'
ARTIFACT_PREFIX = b'{"e":"artifact"'
DATA_PREFIXES = (b'{"e":"data"', ARTIFACT_PREFIX)
CURVE_PREFIXES = (b'{"e":"measured"', b'{"e":"adapted"')
EVENT_PREFIX = b'{"e":"'


class Record(NamedTuple):
    """One line of a journal: its number from 1, its events, and what is wrong with it if it is damaged."""

    number: int
    events: Sequence[AnyEvent]
    error: Exception | None = None


class JournalReader:
    """Reads one journal from a position: an offset in bytes, a line number, and the rows of batches read so far.

    The position moves on with every record, so that a later reader can start from it. With `shorten`, long texts are
    cut, as the graph has them.
    """

    def __init__(
        self, path: Path, *, offset: int = 0, number: int = 0, batch_rows: int = 0, shorten: bool = False
    ) -> None:
        self.path = path
        self.offset = offset
        self.number = number
        self.batch_rows = batch_rows
        self.shorten = shorten

    def read(self, *, is_over: bool = False, batches: bool = True, expand: bool = True) -> Iterator[Record]:
        """Yield the records after the position.

        With `is_over` the writer is known to be gone, and the measures of its open batch are included. Without
        `batches` the events of batches, and all measures, are skipped. Without `expand`, batches stay in columns.
        Raise FileFormatError for a newer version.
        """
        for line in self._lines(is_over=is_over):
            if not batches and line.startswith(BATCH_PREFIXES):
                continue
            try:
                event = _decode(line, shorten=self.shorten)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                yield Record(self.number, (), error)
                continue
            if isinstance(event, events.Batches):
                rows, self.batch_rows = self.batch_rows, max(self.batch_rows, event.total_rows)
                event = events.without_rows(event, rows)
                yield Record(self.number, [*events.expand(event)] if expand else (event,))
                continue
            if isinstance(event, events.Header) and event.version > events.VERSION:
                reason = f"journal version {event.version} is newer than the latest supported version {events.VERSION}"
                raise FileFormatError(reason, "Upgrade provml.", file=str(self.path), line=self.number)
            yield Record(self.number, (event,))

    def read_lines(self, *, is_over: bool = False) -> Iterator[bytes]:
        """Yield the lines after the position as they are, damaged ones included."""
        for line in self._lines(is_over=is_over):
            if line.startswith(BATCHES_PREFIX):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    event = events.decode(line)
                    self.batch_rows = max(self.batch_rows, event.total_rows if isinstance(event, events.Batches) else 0)
            yield line

    def has_more(self) -> bool:
        """Return whether there is a line after the position."""
        return next(read_lines(self.path, self.offset, self.number), None) is not None

    def _lines(self, *, is_over: bool) -> Iterator[bytes]:
        """Yield the lines of the file, then those that its batch buffer holds in addition."""
        buffer = read_buffer(self.path)  # before the lines, so that its rows come after all of them
        yield from self._file_lines()
        yield from recover_lines(buffer, self.batch_rows, is_over=is_over)

    def _file_lines(self) -> Iterator[bytes]:
        """Yield the lines of the file.

        A line that was read while it was written may hold zeros although it is complete by now: read it again.
        """
        again = True
        while again:
            again = False
            for end, number, line in read_lines(self.path, self.offset, self.number):
                if b"\0" in line and _read_at(self.path, end - 1 - len(line), len(line)) != line:
                    again = True
                    break
                self.offset, self.number = end, number
                yield line


def read_lines(
    path: Path, offset: int = 0, number: int = 0, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the complete lines after an offset: the offset of its end, its number from 1, its bytes without the break.

    A line that holds a zero is still being written, and ends the reading, unless another line begins after it. Then
    either the writer overtook this reading, and a second look shows the complete line; or a power cut damaged it, and
    it is yielded like any other line, so that the caller reports it.
    """
    with segments.open_file(path) as file:  # unbuffered, because the second look must read the file
        file.seek(offset)
        block, start, zero, looked_twice = b"", 0, -1, -1
        while True:
            line_break = block.find(b"\n", start)
            is_torn = 0 <= zero < line_break
            if line_break < 0 or (is_torn and block.find(b"\n{", line_break) < 0):
                more = file.read(max(block_bytes, len(block) - start))  # doubled for a long line: linear time
                if not more:
                    return
                block, start = block[start:] + more, 0
                zero = block.find(b"\0")
                continue
            if is_torn and looked_twice != offset:
                looked_twice = file.seek(offset)
                block, start, zero = b"", 0, -1
                continue
            offset += line_break + 1 - start
            number += 1
            yield offset, number, block[start:line_break]
            start = line_break + 1
            if is_torn:
                zero = block.find(b"\0", start)


def _decode(line: bytes, *, shorten: bool) -> AnyEvent:
    event = events.decode(line)
    return events.shorten(event) if shorten and len(line) > events.MAX_TEXT else event


def _read_at(path: Path, offset: int, size: int) -> bytes:
    with segments.open_file(path) as file:
        file.seek(offset)
        return file.read(size)


def first_events(path: Path, count: int = 1) -> list[AnyEvent]:
    """Return the first events of a journal, up to a number and to the first damaged line; none if it cannot be read.

    Long texts are cut.
    """
    first: list[AnyEvent] = []
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        for _, _, line in islice(read_lines(path, block_bytes=FIRST_BLOCK_BYTES), count):
            first.append(_decode(line, shorten=True))
    return first


def has_lines(path: Path, count: int) -> bool:
    """Return whether a journal has at least a number of lines, damaged ones included."""
    return len(list(islice(read_lines(path, block_bytes=FIRST_BLOCK_BYTES), count))) == count


def read_header(path: Path) -> events.Header | None:
    """Return the header of a journal; None if its first line is not a header or cannot be read."""
    first = first_events(path)
    return first[0] if first and isinstance(first[0], events.Header) else None


def read_end(path: Path) -> events.End | None:
    """Return the end of a journal, if it has one; raise OSError if the file cannot be read."""
    end = None
    for _, _, line in read_lines(path):
        if line.startswith(END_PREFIX):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                event = events.decode(line)
                end = event if isinstance(event, events.End) else end
    return end


def read_data(path: Path) -> Iterator[tuple[int, events.Data | events.Artifact | bytes]]:
    """Yield the line number of each event about data, and the event; a damaged line is yielded as it is.

    Raise OSError if the file cannot be read.
    """
    for _, number, line in read_lines(path):
        if not line.startswith(DATA_PREFIXES) and line.startswith(EVENT_PREFIX):
            continue
        try:
            event = events.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            yield number, line
            continue
        if isinstance(event, (events.Data, events.Artifact)):
            yield number, event


def count_events(path: Path, offset: int = 0) -> int:
    """Estimate the number of events after an offset, without decoding them."""
    with contextlib.suppress(OSError):
        return sum(_count_events(line) for _, _, line in read_lines(path, offset))
    return 0


def _count_events(line: bytes) -> int:
    """Return the number of events of a line: two per batch with measures."""
    if not line.startswith(BATCHES_PREFIX):
        return 1
    batches = line[: line.find(b"]")].count(b",") - 1
    return batches * 2 if b'"values"' in line else batches
