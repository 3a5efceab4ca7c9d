"""Read and map journals in a process of its own, while this one loads what was mapped before.

Mapping is Python and takes a core; the loader of Oxigraph takes another. The child gets the journals and how far each
is indexed, and sends chunks with the checkpoint at their ends. A child that dies, or cannot be started, loses nothing:
the caller goes on from the last checkpoint that it got.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from provml.mapping import NewLinks
from provml.store.checkpoint import JournalCheckpoint
from provml.store.journal_mapping import JournalSource, sync_journal
from provml.store.siblings import FirstJournalCache
from provml.store.statements import SharedStatements

MAX_WAITING_CHUNKS = 2
"""Chunks that are mapped before they are needed, so that neither process waits for the other."""
LENGTH_BYTES = 8


class Journals(msgspec.Struct):
    """What a child has to map: journals with their paths below the home, and their checkpoints."""

    home: bytes
    """Its path, which need not be text."""
    events_per_chunk: int
    journals: list[tuple[str, JournalCheckpoint]]


class MappedChunk(msgspec.Struct, array_like=True):
    """The checkpoint of a journal after a number of events, and what links follow from; the N-Triples come next.

    A journal ends with a chunk of no events.
    """

    key: str
    events: int
    checkpoint: JournalCheckpoint
    links: NewLinks


def is_useful() -> bool:
    """Return whether this process may use a second core."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def map_in_child(journals: Journals) -> Iterator[tuple[MappedChunk, bytes]]:
    """Yield what a child maps, in order. It may end early: then the child has died."""
    paths = os.pathsep.join(part for part in sys.path if part)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import child_main; child_main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
    except OSError:
        return
    assert process.stdin is not None
    assert process.stdout is not None
    chunks: queue.Queue[tuple[bytes, bytes] | None] = queue.Queue(MAX_WAITING_CHUNKS)
    reader = threading.Thread(target=_receive, args=(process.stdout, chunks), name="provml-mapping", daemon=True)
    try:
        with contextlib.suppress(OSError):
            _send(process.stdin, msgspec.msgpack.encode(journals))
        reader.start()
        decoder = msgspec.msgpack.Decoder(MappedChunk)
        while (chunk := chunks.get()) is not None:
            yield decoder.decode(chunk[0]), chunk[1]
    finally:
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()
        while reader.is_alive():  # it may wait for a free place
            with contextlib.suppress(queue.Empty):
                chunks.get(timeout=0.01)
        process.stdout.close()
        process.wait()


def _receive(file: IO[bytes], chunks: queue.Queue[tuple[bytes, bytes] | None]) -> None:
    """Pass on the chunks of a child; None at the end, or where it died."""
    while (head := _read(file)) is not None and (text := _read(file)) is not None:
        chunks.put((head, text))
    chunks.put(None)


def _send(file: IO[bytes], data: bytes) -> None:
    file.write(len(data).to_bytes(LENGTH_BYTES, "big"))
    file.write(data)
    file.flush()


def _read(file: IO[bytes]) -> bytes | None:
    length = file.read(LENGTH_BYTES)
    data = file.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else b""
    return data if length and len(data) == int.from_bytes(length, "big") else None


def map_all(journals: Journals) -> Iterator[tuple[MappedChunk, bytes]]:
    """Map journals: the work of a child."""
    first_journals, shared = FirstJournalCache(), SharedStatements()
    home, per_chunk = Path(os.fsdecode(journals.home)), journals.events_per_chunk
    journals.journals.reverse()
    while journals.journals:
        key, checkpoint = journals.journals.pop()  # what is done takes no memory: there may be many
        links = NewLinks()
        source = JournalSource(key, home / key, first_journals)
        for events, text in sync_journal(source, checkpoint, links, shared=shared, events_per_chunk=per_chunk):
            yield MappedChunk(key, events, checkpoint, links), text
            links.clear()
        yield MappedChunk(key, 0, checkpoint, links), b""


def _exit_with_parent(file: IO[bytes]) -> None:
    """Exit when standard input ends, which happens when the parent ends."""
    file.read()
    os._exit(1)


def child_main() -> None:
    """Map what the request on standard input names, and write it to standard output."""
    request = _read(sys.stdin.buffer)
    if request is None:
        return
    threading.Thread(target=_exit_with_parent, args=(sys.stdin.buffer,), daemon=True).start()
    for head, text in map_all(msgspec.msgpack.decode(request, type=Journals)):
        _send(sys.stdout.buffer, msgspec.msgpack.encode(head))
        _send(sys.stdout.buffer, text)
    os._exit(0)  # nothing has to be closed, and the other thread waits for its input
