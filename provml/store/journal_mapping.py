"""Read and map one journal: its new events as N-Triples, and what cannot be indexed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from provml.errors import FileFormatError
from provml.journal import events
from provml.journal.reader import JournalReader, Record, has_lines, read_header
from provml.journal.run_files import is_main
from provml.journal.segments import file_stat
from provml.journal.status import HEARTBEAT_TIMEOUT, is_dead, journal_status
from provml.mapping import NewLinks
from provml.store.checkpoint import JournalCheckpoint
from provml.store.siblings import FirstJournalCache, SiblingJournals
from provml.store.statements import SharedStatements

if TYPE_CHECKING:
    from provml.mapping import EventMapper

EVENTS_PER_CHUNK = 1000
"""Events that are mapped before their N-Triples are yielded. Several chunks are in memory at a time."""

Chunk = tuple[int, bytes]
"""A number of events, and their N-Triples."""


class JournalSource:
    """A journal of a home: its name in messages, its path, and the first journals of the runs."""

    def __init__(self, key: str, path: Path, first_journals: FirstJournalCache) -> None:
        self.key = key
        self.path = path
        self.first_journals = first_journals

    def signature(self) -> tuple[int, int]:
        """Return the size and the modification time of the file."""
        stat = file_stat(self.path)
        return stat.st_size, stat.st_mtime_ns


def sync_journal(
    source: JournalSource,
    journal: JournalCheckpoint,
    links: NewLinks,
    *,
    shared: SharedStatements | None = None,
    events_per_chunk: int = EVENTS_PER_CHUNK,
) -> Iterator[Chunk]:
    """Map what is new in a journal of an index. A journal that cannot be read is marked in its checkpoint.

    With `shared`, statements of journals that are loaded before are left out.
    """
    signature = (0, 0)
    try:
        signature = source.signature()
        if is_complete(source, journal, signature) or (not journal.offset and must_wait(source)):
            return
        journal.clear_error()
        was_over = _is_over(source, journal)
        map_new = partial(map_events, source, journal, links=links, shared=shared, events_per_chunk=events_per_chunk)
        yield from map_new(is_over=was_over)
        if not was_over and _is_over(source, journal):  # the writer ended meanwhile
            was_over, signature = True, source.signature()
            yield from map_new(is_over=True)
        if was_over:
            journal.seal(signature)
    except FileNotFoundError:  # removed meanwhile: the next sync rebuilds the index
        return
    except OSError as error:  # no permission, or a failing disk: other journals can still be read
        journal.mark_unreadable(source.key, (error.strerror or str(error)).lower())
    except Exception as error:  # an error in the mapping: other journals are not affected
        journal.mark_unreadable(source.key, f"cannot be indexed ({type(error).__name__}: {error})")
        journal.seal(signature)  # until the file changes


def _is_over(source: JournalSource, journal: JournalCheckpoint) -> bool:
    """True if no more events are expected: the writer has ended, died, or been silent for long."""
    header = journal.state.header
    return journal.end is not None or (
        header is not None and header.host != "" and journal_status(source.path, header, None) != "RUNNING"
    )


def is_complete(source: JournalSource, journal: JournalCheckpoint, signature: tuple[int, int]) -> bool:
    """True if a sealed journal has nothing new; one that has is reset, to be read from the start."""
    if journal.signature is None:
        return False
    is_longer = journal.signature != signature and signature[0] > journal.offset
    if is_longer and JournalReader(source.path, offset=journal.offset, number=journal.line_number).has_more():
        journal.reset()
        return False
    journal.signature = signature  # another time, or the rest is reserved space that the writer never used
    return True


def must_wait(source: JournalSource) -> bool:
    """True if a new journal has to wait for the first journal of its run, whose header its mapping depends on.

    That journal may not exist yet, or have a header but no workflow yet. The wait is limited. If the first journal
    comes later still, the index is rebuilt.
    """
    header = read_header(source.path)
    if header is None or is_main(header):
        return False
    first_journal = source.first_journals.find(source.path.parent)
    if first_journal is not None:
        path, first = first_journal
        header = first[0] if isinstance(first[0], events.Header) else header
        if has_lines(path, 2):
            return False
    return abs(time.time() - header.time) < HEARTBEAT_TIMEOUT and not is_dead(header)


def map_events(
    source: JournalSource,
    journal: JournalCheckpoint,
    *,
    links: NewLinks | None = None,
    shared: SharedStatements | None = None,
    is_over: bool = False,
    events_per_chunk: int = EVENTS_PER_CHUNK,
) -> Iterator[Chunk]:
    """Map the events after a checkpoint, those of the batch buffer included, and add to `links` what links follow from.

    At each yield the checkpoint is at the end of what was yielded. Lines that `shared` knows are left out.
    """
    from provml.mapping.mapper import EventMapper  # not at the top: it loads the vocabulary

    if not journal.offset:
        first_journal = source.first_journals.find(source.path.parent)
        is_other = first_journal is not None and first_journal[0] != source.path
        journal.first_journal = first_journal[0].stem if first_journal is not None and is_other else ""
    mapper = EventMapper(journal.state, SiblingJournals(source.path, source.first_journals), use_templates=True)
    mapper.links = NewLinks() if links is None else links
    reader = JournalReader(
        source.path, offset=journal.offset, number=journal.line_number, batch_rows=journal.batch_rows, shorten=True
    )
    count, failure = 0, None
    try:
        for record in reader.read(is_over=is_over):
            mapped = _map_record(record, mapper, journal, source.key)
            journal.offset, journal.line_number, journal.batch_rows = reader.offset, reader.number, reader.batch_rows
            journal.events += mapped
            count += mapped
            if count >= events_per_chunk:
                yield count, _take_ntriples(mapper, journal, shared)
                count = 0
    except FileFormatError as error:
        journal.mark_unreadable(source.key, f"{error.reason}; upgrade provml")
    except OSError as error:  # raised after the events before it
        failure = error
    if count:
        yield count, _take_ntriples(mapper, journal, shared)
    if failure is not None:
        raise failure


def _take_ntriples(mapper: EventMapper, journal: JournalCheckpoint, shared: SharedStatements | None) -> bytes:
    """Return the N-Triples of a mapper, and add the digests of those about nodes of others to the checkpoint."""
    text = mapper.take_ntriples()
    if journal.state.header is None:
        return text
    new, digests = (SharedStatements() if shared is None else shared).take(text, journal.state.header.run)
    journal.foreign += digests
    return text if shared is None else new


def _map_record(record: Record, mapper: EventMapper, journal: JournalCheckpoint, key: str) -> int:
    """Map the events of one line and note its problems; return the number of events, at least one for a problem."""
    if record.number == 1:
        journal.problems.clear()
    count, error = 0, record.error
    try:
        for event in record.events:
            count += 1
            mapper.feed(event)
            if isinstance(event, events.End):
                journal.end = event
            elif isinstance(event, events.CaptureErrors):
                journal.capture_errors.update(event)
    except Exception as raised:
        error = raised
    if error is not None:
        mapper.problems.append(f"{type(error).__name__}: {error}")
    for problem in mapper.problems:
        journal.add_problem(key, record.number, problem)
    mapper.problems.clear()
    return max(count, 1) if error is not None else count
