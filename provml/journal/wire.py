"""Journals over HTTP: bytes at an offset, in the manner of resumable uploads.

A client sends whole lines from an offset, and the receiver appends them only if that is the length of its own copy. It
answers with its new length, or with 409 and its present length. A request that is repeated after a lost answer
therefore appends nothing twice, and a client that was killed goes on where the receiver is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from provml.journal import segments
from provml.journal.batch_buffer import buffer_path
from provml.journal.reader import JournalReader, read_lines

MEDIA_TYPE = "application/x-ndjson"
OFFSET = "Upload-Offset"
"""Offset of the body in the file; in an answer, the length of the receiver's copy."""
COMPLETE = "Upload-Complete"
"""`?1` if nothing follows: the receiver writes its copy to the disk before it answers."""
LENGTH = "Upload-Length"
"""Length of a content that is sent in pieces."""
IDLE = "Writer-Idle"
"""Seconds since the last sign of life of the process that writes the journal; 0 while it is known to be alive."""
REDACTS = "Writer-Redacts"
"""`?1` if the sender has replaced secrets itself, as the recorders of provml do: its lines are stored as they are."""
REDACTED_LINES = "Redacted-Lines"
"""In an answer, the number of lines of the request in which the receiver has replaced secrets."""
FIRST_LINE = "Journal-Id"
"""Digest of the first line: whether two files of one name are copies of the same journal."""
LENIENT = "handling=lenient"
"""Value of `Prefer` with which damaged lines are taken as they are."""

CHUNK_BYTES = 1 << 20
"""Size of a request, unless a single line is longer."""
MAX_CHUNK_BYTES = 32 << 20
"""Largest request that a receiver takes: no line is longer, because no parser of RDF takes such a text."""
GZIP_MIN_BYTES = 4 << 10
"""Larger requests are compressed."""
CONTENT_CHUNK_BYTES = 4 << 20
"""Size of a request with a part of an artifact."""
_FIRST_BYTES = 1 << 16


def journal_path(run: str, name: str) -> str:
    """Return the path of a file in the folder of a run, `main.jsonl` or `annotations/x.jsonl`, on a service."""
    folder, _, file = name.rpartition("/")
    return f"/api/v1/runs/{run}/{folder or 'journals'}/{file.removesuffix('.jsonl')}"


def content_path(sha256: str) -> str:
    """Return the path of a content on a service."""
    return f"/api/v1/content/{sha256}"


def first_line_id(path: Path) -> str:
    """Return a digest of the first line of a file; empty if it has no complete line."""
    first = next(read_lines(path, block_bytes=_FIRST_BYTES), None)
    return hashlib.sha256(first[2]).hexdigest()[:32] if first is not None else ""


def read_chunk(path: Path, offset: int, *, max_bytes: int = CHUNK_BYTES, is_over: bool = False) -> bytes:
    """Return complete lines after an offset: at most `max_bytes`, or one line that is longer.

    With `is_over` the writer is gone, and a line that a power cut damaged is returned as it is: other lines may follow.
    """
    with segments.open_file(path) as file:
        file.seek(offset)
        data = file.read(min(_FIRST_BYTES, max_bytes))
        while b"\0" not in data and len(data) < max_bytes and (more := file.read(max_bytes - len(data))):
            data += more
    zero = data.find(b"\0")  # space that is allocated and not written yet
    end = data.rfind(b"\n", 0, zero if zero >= 0 else len(data)) + 1
    if end or not data or (zero >= 0 and not is_over):
        return data[:end]
    line = next(read_lines(path, offset), None)
    return line[2] + b"\n" if line is not None else b""


def unwritten_lines(path: Path) -> tuple[int, bytes]:
    """Return the length of the journal of a dead writer, and the lines that are only in the writer's batch buffer.

    These follow the last line of the file.
    """
    if not buffer_path(path).exists():
        return -1, b""
    reader, tail, position = JournalReader(path), [], 0
    for line in reader.read_lines(is_over=True):
        if reader.offset == position:  # not a line of the file
            tail.append(line + b"\n")
        position = reader.offset
    return position, b"".join(tail)
