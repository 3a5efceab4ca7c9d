"""Bring an index up to date with the journals of its home: discover, read and map, load.

Chunks are mapped while they are loaded, so that no journal is in memory as a whole.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from provml.journal import run_files
from provml.journal.segments import file_stat
from provml.store.checkpoint import JournalCheckpoint
from provml.store.chunk_stream import ChunkStream
from provml.store.index import Index
from provml.store.journal_mapping import Chunk, JournalSource, sync_journal
from provml.store.links import derive_links
from provml.store.memory_throttle import MIN_LIMIT_BYTES, MemoryThrottle, release_freed_memory
from provml.store.run_status import journals_by_run
from provml.store.siblings import FirstJournalCache
from provml.store.statements import SharedStatements

MAX_RESERVED_BYTES = 1 << 20
"""A journal that is being written may have this many bytes of reserved space, which has no events yet."""
OnProgress = Callable[[int], None]
"""Called with the number of events of each chunk."""


def sync(index: Index, on_progress: OnProgress | None = None) -> int:
    """Index what is new in the journals and return the number of events.

    Many journals are indexed in parts: what is known of runs that have ended does not stay in memory then.
    """
    events = 0
    try:
        journals, annotated = discover(index)
        for part in batched(journals, index.limits.journals_per_load) if journals else [()]:
            events += _sync(index, part, annotated, on_progress)
            index.seal_if_due()
    except BaseException:
        index.roll_back()
        raise
    index.pack_if_due()
    index.snapshot_if_due(events)
    index.compact_if_due()
    return events


def batched(journals: list[str], size: int) -> Iterator[list[str]]:
    """Yield journals in lists of a size."""
    for start in range(0, len(journals), size):
        yield journals[start : start + size]


def _sync(
    index: Index,
    journals: Sequence[str],
    annotated: list[str],
    on_progress: OnProgress | None,
) -> int:
    index.reserve(journals)
    save = index.imported.load_new(index.backend, index.checkpoint.imported_files)
    has_limit = index.folder is not None  # an index in memory only grows
    if has_limit and len(journals) == index.limits.journals_per_load:
        release_freed_memory()  # of the part before this one
    throttle = MemoryThrottle(min_limit=MIN_LIMIT_BYTES) if has_limit else MemoryThrottle(None)
    events = load(index, map_journals(index, journals), throttle, on_progress)
    runs = journals_by_run(index.checkpoint)
    changed = index.status_writer.update(index.backend, index.checkpoint, runs)
    changed |= index.annotation_writer.update(index.backend, index.checkpoint, runs, annotated)
    if index.checkpoint.new_links:
        derive_links(index.backend.graph(), index.checkpoint.new_links)
        index.checkpoint.new_links.clear()
    if changed or events or save:
        index.commit(events, save=save)
    return events


def discover(index: Index) -> tuple[list[str], list[str]]:
    """List the journals of the home by their paths below it, and the runs that have annotations."""
    keys, annotated = [], []
    for files in run_files.scan_runs(index.home, index.open_runs()):
        keys += [f"runs/{files.run}/{name}" for name in files.journals]
        if files.is_annotated:
            annotated.append(files.run)
    return sorted(keys), annotated


def map_journals(index: Index, journals: Iterable[str]) -> Iterator[Chunk]:
    """Read and map what is new; yield numbers of events and their N-Triples.

    At each yield the checkpoint is at the end of what was yielded. Much that is new is mapped in another process.
    """
    remaining = {key: index.home / key for key in journals}
    if _is_large(index, remaining):
        yield from _map_in_child(index, remaining)
    first_journals, shared = FirstJournalCache(), SharedStatements()
    per_chunk = index.limits.events_per_chunk
    for key, path in remaining.items():
        journal = index.checkpoint.journals.setdefault(key, JournalCheckpoint())
        source = JournalSource(key, path, first_journals)
        links = index.checkpoint.new_links
        yield from sync_journal(source, journal, links, shared=shared, events_per_chunk=per_chunk)


def _is_large(index: Index, journals: Mapping[str, Path]) -> bool:
    """True if so much of the journals is new that mapping it in another process takes less time."""
    size = 0
    for key, path in journals.items():
        journal = index.checkpoint.journals.get(key)
        if journal is None or journal.signature is None:
            with contextlib.suppress(OSError):  # removed meanwhile, or not accessible
                unread = file_stat(path).st_size - (journal.offset if journal is not None else 0)
                size += unread if journal is None or not journal.offset or unread > MAX_RESERVED_BYTES else 0
        if size >= index.limits.worker_min_bytes:
            from provml.store.mapping_process import is_useful  # not at the top: most commands do not need it

            return is_useful()
    return False


def _map_in_child(index: Index, remaining: dict[str, Path]) -> Iterator[Chunk]:
    """Map journals in another process, and remove those that are done from `remaining`."""
    from provml.store.mapping_process import Journals, map_in_child

    checkpoints = index.checkpoint.journals
    todo = [(key, checkpoints.setdefault(key, JournalCheckpoint())) for key in remaining]
    request = Journals(os.fsencode(index.home.absolute()), index.limits.events_per_chunk, todo)
    for chunk, text in map_in_child(request):
        index.checkpoint.journals[chunk.key] = chunk.checkpoint
        index.checkpoint.new_links.update(chunk.links)
        if chunk.events:
            yield chunk.events, text
        else:
            del remaining[chunk.key]


def load(index: Index, chunks: Iterator[Chunk], throttle: MemoryThrottle, on_progress: OnProgress | None = None) -> int:
    """Load mapped chunks into the store and return the number of events."""
    limits = index.limits
    max_bytes = limits.chunk_bytes if throttle.is_active else limits.unthrottled_chunk_bytes
    events = 0
    for chunk in chunks:
        stream = ChunkStream(chunk, chunks, max_bytes, throttle, on_progress)
        if not stream.is_shorter_than(limits.transaction_bytes):
            size = index.backend.size_bytes()
            index.backend.load(stream, bulk=True)
            if throttle.is_active:
                release_freed_memory()
            if index.backend.size_bytes() > max(2 * size, limits.compact_min_bytes):
                index.mark_uncompacted()
            index.save_checkpoint()
        elif stream.buffer:
            index.backend.load(stream.buffer)
        events += stream.events
    return events
