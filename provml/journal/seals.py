"""Seals: digests of journals, and the ledger of a home, which show that a journal was changed after it was written.

While a journal is written, the sync thread keeps its running SHA-256 in `home/seals/open/<run>~<writer>.json`, the
mark: a number of bytes and their digest. When the journal is closed, its size and digest become a line of the ledger,
`home/seals/ledger.jsonl`, and the mark is removed. A journal that comes from elsewhere is sealed when it has arrived
with its end. Each line of the ledger has the SHA-256 of the line before it, so
that no line can be changed, removed or inserted without changing all later ones. A journal whose process was killed is
sealed by the first reader, and its line says so.

A seal proves nothing against somebody who can write to the home and replaces the whole ledger. A signature, or a copy
of its last digest elsewhere, does: see `provml.evidence`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from provml.paths import NO_FOLLOW

try:
    import fcntl
except ImportError:  # without fcntl, two processes must not end a run at the same time
    fcntl = None  # type: ignore[assignment]

FOLDER = "seals"
LEDGER = "ledger.jsonl"
OPEN = "open"
CHUNK_BYTES = 1 << 20
MARK_BYTES = 256
"""Size of a mark, which is written in place, in a single write."""
MAX_LINE_BYTES = 1 << 16
FIRST = "0" * 64
"""Digest that the first line of a ledger has in place of that of a line before it."""
SCRUBBED = "scrubbed-artifact"
"""Kind of the line about an artifact that was removed because it had a secret."""


class WrittenFile(Protocol):
    """A journal that is being written."""

    path: Path
    end: int

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes that were written."""


class LedgerLine(NamedTuple):
    """A line of the ledger: its number from 1, its SHA-256, its entry, and what is wrong with it, if anything."""

    number: int
    sha256: str
    entry: dict[str, Any]
    error: str = ""


class Ledger:
    """The lines about sealed, removed and rewritten journals of a home, chained by their digests."""

    def __init__(self, home: Path) -> None:
        self.path = home / FOLDER / LEDGER

    def exists(self) -> bool:
        """Return whether a line was ever written."""
        return self.path.is_file()

    def append(self, kind: str, **facts: Any) -> None:
        """Write a line to the disk: what happened (`sealed`, `removed`, `rewritten`, …), and the facts."""
        self.path.parent.mkdir(exist_ok=True)  # without parents: a home that was deleted stays so
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            entry = {"kind": kind, "time": time.time(), **facts, "previous": _last_digest(file, size)}
            line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n"
            try:
                if os.write(file, line) != len(line):
                    raise OSError("the ledger could not be written as a whole")
            except OSError:
                os.ftruncate(file, size)  # nothing half-written: the lock is held
                raise
            os.fsync(file)
        finally:
            os.close(file)

    def lines(self) -> Iterator[LedgerLine]:
        """Yield the lines; one that does not follow from the line before it, or is not readable, has an error."""
        previous = FIRST
        try:
            file = self.path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as problem:  # a folder, or without permission
            yield LedgerLine(1, FIRST, {}, f"cannot be read ({(problem.strerror or str(problem)).lower()})")
            return
        with file:
            for number, line in enumerate(file, 1):
                sha256 = hashlib.sha256(line.rstrip(b"\n")).hexdigest()
                entry, error = _parse(line)
                if not error and entry.get("previous") != previous:
                    error = "does not follow from the line before it: lines were changed, removed or inserted"
                yield LedgerLine(number, sha256, entry, error)
                previous = sha256


def _parse(line: bytes) -> tuple[dict[str, Any], str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}, "is not readable"
    if not isinstance(entry, dict) or not line.endswith(b"\n"):
        return {}, "is not complete"
    return entry, ""


def _last_digest(file: int, size: int) -> str:
    """Return the SHA-256 of the last line of a file; complete a line that a crash of the machine has cut."""
    if not size:
        return FIRST
    start = max(size - MAX_LINE_BYTES, 0)
    tail = os.pread(file, size - start, start)
    if not tail.endswith(b"\n"):
        os.write(file, b"\n")  # the line stays as it is, and `lines` reports it
    return hashlib.sha256(tail.rstrip(b"\n").rpartition(b"\n")[2]).hexdigest()


class Mark(NamedTuple):
    """How far the recorder has digested a journal that it writes: bytes and their SHA-256."""

    size: int
    sha256: str


class RunningSeal:
    """The seal of a journal that is being written. Its sync thread calls it."""

    def __init__(self, file: WrittenFile) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0
        self._mark_size = -1

    def begin(self) -> None:
        """Create an empty mark, by which a reader finds the journal if its process is killed."""
        os.close(self._open_mark())

    def _open_mark(self) -> int:
        path = _mark_path(self._file.path)
        path.parent.parent.mkdir(exist_ok=True)  # without parents: a home that was deleted stays so
        path.parent.mkdir(exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | NO_FOLLOW, 0o644)

    def update(self) -> None:
        """Digest what was written since the last call, and write the mark."""
        self._read()
        if self._size == self._mark_size:
            return
        text = json.dumps({"size": self._size, "sha256": self._digest.hexdigest(), "time": time.time()})
        mark = self._open_mark()
        try:
            os.pwrite(mark, text.ljust(MARK_BYTES - 1).encode() + b"\n", 0)
        finally:
            os.close(mark)
        self._mark_size = self._size

    def close(self) -> None:
        """Write the line of the ledger, after everything was written, and remove the mark."""
        self._read()
        _append_sealed(self._file.path, Mark(self._size, self._digest.hexdigest()), by="recorder")

    def _read(self) -> None:
        end = self._file.end
        while self._size < end:
            chunk = self._file.read(self._size, min(end - self._size, CHUNK_BYTES))
            if not chunk:
                break
            self._digest.update(chunk)
            self._size += len(chunk)


def _append_sealed(journal: Path, mark: Mark, *, by: str, **facts: Any) -> None:
    run, name = journal.parent.name, journal.name
    Ledger(journal.parents[2]).append(
        "sealed", run=run, journal=name, size=mark.size, sha256=mark.sha256, by=by, **facts
    )
    _mark_path(journal).unlink(missing_ok=True)


def _mark_path(journal: Path) -> Path:
    return journal.parents[2] / FOLDER / OPEN / f"{journal.parent.name}~{journal.stem}.json"


def read_mark(journal: Path) -> Mark | None:
    """Return the mark of a journal that is being written, or whose process was killed; None if it has none."""
    try:
        content = json.loads(_mark_path(journal).read_bytes())
        return Mark(int(content["size"]), str(content["sha256"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def marked_journals(home: Path) -> list[Path]:
    """Return the journals with a mark: those that are being written, and those of killed processes."""
    try:
        names = os.listdir(home / FOLDER / OPEN)  # noqa: PTH208  # mostly missing or empty, at each opening of a store
    except OSError:
        return []
    parts = [name.removesuffix(".json").partition("~") for name in sorted(names)]
    return [home / "runs" / run / f"{writer}.jsonl" for run, _, writer in parts if run and writer]


def digest_journal(journal: Path, size: int | None = None) -> Mark:
    """Return size and SHA-256 of a journal, packed or not; or of its first bytes."""
    from provml.journal import segments  # not at the top: recording does not read journals

    digest, total = hashlib.sha256(), 0
    with segments.open_file(journal) as file:
        while size is None or total < size:
            chunk = file.read(CHUNK_BYTES if size is None else min(CHUNK_BYTES, size - total))
            if not chunk:
                break
            digest.update(chunk)
            total += len(chunk)
    return Mark(total, digest.hexdigest())


def digest_buffer(journal: Path) -> str:
    """Return the SHA-256 of the batches that a killed process left in its buffer; empty if there is none."""
    from provml.journal.batch_buffer import buffer_path  # not at the top: imports numbers and arrays

    with contextlib.suppress(OSError):
        return hashlib.sha256(buffer_path(journal).read_bytes()).hexdigest()
    return ""


def seal_by_reader(journal: Path) -> None:
    """Seal a journal whose process has ended without doing so, and say up to where its recorder vouches for it."""
    mark = read_mark(journal)
    facts: dict[str, Any] = {}
    if mark is not None:
        facts["recorder_size"] = mark.size
        facts["agrees"] = digest_journal(journal, mark.size) == mark
    if buffer := digest_buffer(journal):
        facts["buffer_sha256"] = buffer
    _append_sealed(journal, digest_journal(journal), by="reader", **facts)


def seal_arrived(journal: Path, *, by: str) -> None:
    """Seal a complete journal that came from elsewhere; `by` is the way: `import` or `service`."""
    _append_sealed(journal, digest_journal(journal), by=by)


def reseal(journal: Path, *, by: str, reason: str) -> None:
    """Write to the ledger that a sealed journal was rewritten, by provml."""
    mark = digest_journal(journal)
    facts = {"size": mark.size, "sha256": mark.sha256, "by": by, "reason": reason}
    Ledger(journal.parents[2]).append("rewritten", run=journal.parent.name, journal=journal.name, **facts)


def sealed_journals(home: Path, run: str) -> set[str]:
    """Return the names of the journals of a run that the ledger has a line for."""
    names: set[str] = set()
    try:
        file = (home / FOLDER / LEDGER).open("rb")
    except OSError:
        return names
    wanted = json.dumps(run, ensure_ascii=False).encode()
    with file:
        for line in file:
            entry = _parse(line)[0] if wanted in line else {}  # most lines are about other runs
            if entry.get("run") == run:
                names = set() if entry.get("kind") == "removed" else names | {str(entry.get("journal"))}
    return names


def seal_abandoned(home: Path) -> list[Path]:
    """Seal the journals of killed processes; return them. Where the home cannot be written to, do nothing."""
    from provml.journal.status import is_being_closed, is_being_written  # not at the top: recording reads no journals

    sealed = []
    for journal in marked_journals(home):
        with contextlib.suppress(OSError):
            if is_being_written(journal) or is_being_closed(journal):
                continue
            if not journal.is_file():  # removed
                _mark_path(journal).unlink(missing_ok=True)
                continue
            seal_by_reader(journal)
            sealed.append(journal)
    return sealed
