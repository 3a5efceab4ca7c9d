"""How far the index has read: an offset and the mapper's state for each journal, and the status of each run."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import msgspec

from provml import mapping, paths, rdf, workflow
from provml.errors import IndexDamaged
from provml.journal import annotations as annotation_events
from provml.journal import capture_errors, location
from provml.journal import events as journal_events
from provml.journal.annotations import Annotation
from provml.journal.capture_errors import ErrorSummary
from provml.mapping import NewLinks, State
from provml.model import field, thing, values

MAX_PROBLEMS = 1000
"""Problems that are kept per journal; more of them would not help anyone."""
DIGEST_BYTES = 16
"""Length of the digest that a checkpoint file starts with."""
INDEX_FORMAT = 3
"""Version of what an index has besides the graph."""
MAPPED_MODULES = (annotation_events, journal_events, location, capture_errors, field, thing, values, workflow)
"""Modules besides the packages that decide what is in an index."""


class Problem(msgspec.Struct, frozen=True):
    """A line of a journal, or a file (line 0), that is damaged; with `in_index`, what the index has is wrong."""

    file: str
    line: int
    reason: str
    in_index: bool = False


class JournalCheckpoint(msgspec.Struct):
    """How far one journal file is indexed.

    `batch_rows` counts the batch rows that were indexed: rows in a writer's batch buffer are indexed before they are in
    the journal. `first_journal` is the journal of the run whose header this one was mapped with, if another one.
    `signature` is the size and modification time of a file that was read to its end: to the last event, or after its
    writer died or fell silent. `foreign` has the digests of statements about nodes that are not the run's own.
    """

    offset: int = 0
    line_number: int = 0
    events: int = 0
    batch_rows: int = 0
    state: State = msgspec.field(default_factory=State)
    first_journal: str = ""
    end: journal_events.End | None = None
    capture_errors: ErrorSummary = msgspec.field(default_factory=ErrorSummary)
    signature: tuple[int, int] | None = None
    problems: list[Problem] = []
    foreign: bytes = b""

    def add_problem(self, file: str, line: int, reason: str) -> None:
        """Add a problem, up to MAX_PROBLEMS."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(file, line, reason[:300]))

    def mark_unreadable(self, file: str, reason: str) -> None:
        """Record that the rest of the file cannot be read at present."""
        self.clear_error()
        self.problems.append(Problem(file, 0, reason[:300]))

    def clear_error(self) -> None:
        """Remove the record of `mark_unreadable`."""
        self.problems = [problem for problem in self.problems if problem.line]

    def seal(self, signature: tuple[int, int]) -> None:
        """Drop the state that only further events would need: a file with this signature has none."""
        state = self.state
        self.state = State(state.header, state.experiment, state.model, state.person, state.writer_suffix)
        self.signature = signature

    def reset(self) -> None:
        """Start again from the beginning of the file."""
        self.offset = self.line_number = self.events = self.batch_rows = 0
        self.state, self.end, self.signature = State(), None, None
        self.capture_errors = ErrorSummary()
        self.foreign = b""


def is_lengthened(journal: JournalCheckpoint, size: int) -> bool:
    """True if a journal has grown after its writer ended and all was indexed: somebody has edited it."""
    return journal.end is not None and journal.signature is not None and size > journal.signature[0]


class AnnotationCheckpoint(msgspec.Struct):
    """The annotations of one run that are in the index, and the sizes of the files that they were read from."""

    sizes: dict[str, int] = {}
    annotations: list[Annotation] = []
    problems: list[Problem] = []


class IndexCheckpoint(msgspec.Struct):
    """The state of an index.

    `fingerprint` identifies the code and ontologies that wrote the index, `journals` are keyed by their path below the
    home, `run_statuses` holds the status and end that were written for each run, `annotations` those of each run that
    somebody annotated. `new_links` is what was loaded and not yet used to derive links. Runs that have ended are in the
    table of sealed runs with the digest `sealed`, except for those in `unsealed`, which changed or were removed since.
    `statement_bytes` is the size of the file with the digests of their statements, and `unpackable` the number of them
    that could not be moved into segments. `manifest` is the signature of segments that have runs of the table only.
    `inferred` is a digest of the state at which the inferred triples were made.
    """

    fingerprint: str = ""
    journals: dict[str, JournalCheckpoint] = {}
    run_statuses: dict[str, str] = {}
    annotations: dict[str, AnnotationCheckpoint] = {}
    imported_files: list[str] = []
    new_links: NewLinks = msgspec.field(default_factory=NewLinks)
    sealed: str = ""
    unsealed: set[str] = set()
    statement_bytes: int = 0
    unpackable: int = 0
    manifest: tuple[int, int, int] | None = None
    inferred: str = ""


@cache
def format_fingerprint() -> str:
    """Return a digest of everything that decides what is in an index: ontologies, event format and mapping code."""
    digest = hashlib.sha256(f"{journal_events.VERSION} {INDEX_FORMAT}".encode())
    files = [*paths.ontologies().glob("*.ttl")]
    folders = [Path(str(package.__file__)).parent for package in (mapping, rdf)]
    folders.append(folders[0].with_name("vocab"))  # by its name: loading it is slow
    for folder in folders:
        files += folder.glob("*.py")
    files += [Path(str(module.__file__)) for module in MAPPED_MODULES]
    files.append(Path(__file__).with_name("links.py"))
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def decode(data: bytes) -> IndexCheckpoint:
    """Decode a checkpoint; return an empty one if the data is of another version."""
    try:
        return msgspec.msgpack.decode(data, type=IndexCheckpoint)
    except msgspec.MsgspecError:
        return IndexCheckpoint()


def encode(checkpoint: IndexCheckpoint) -> bytes:
    """Encode a checkpoint."""
    return msgspec.msgpack.encode(checkpoint)


def read(path: Path) -> IndexCheckpoint:
    """Read a checkpoint file; return an empty one if there is none. Raise IndexDamaged if its digest does not match."""
    data = read_checked(path)
    return IndexCheckpoint() if data is None else decode(data)


def read_checked(path: Path) -> bytes | None:
    """Return what `write` has written to a file; None if there is no file. Raise IndexDamaged if it was changed."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    data = content[DIGEST_BYTES:]
    if content[:DIGEST_BYTES] != _digest(data):
        raise IndexDamaged(f"digest mismatch in {path.name}")
    return data


def write(path: Path, data: bytes) -> None:
    """Write data to a file atomically, after its digest."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:  # never through a link that somebody put there
        file.write(_digest(data) + data)
    temporary.replace(path)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]
