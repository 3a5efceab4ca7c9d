"""Compare journals with their seals and the ledger: name what was changed, cut, removed or added afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provml.journal import segments
from provml.journal.run_files import has_run, list_journals
from provml.journal.seals import (
    FOLDER,
    LEDGER,
    Ledger,
    LedgerLine,
    Mark,
    digest_buffer,
    digest_journal,
    marked_journals,
    read_mark,
)
from provml.journal.status import is_being_written
from provml.store.checkpoint import Problem

LEDGER_FILE = f"{FOLDER}/{LEDGER}"


@dataclass
class SealReport:
    """What the seals of a home say: problems, journals that are sealed and not, and those that a reader sealed."""

    problems: list[Problem] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    sealed_by_reader: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    """Journals, as `run/file`, that have ended and are in no line of the ledger."""
    rewritten: list[str] = field(default_factory=list)
    """Journals that were replaced after they were sealed, with who did it, by the ledger."""
    line_count: int = 0
    head: str = ""
    """SHA-256 of the last line of the ledger: all lines follow from it."""


def check_seals(home: Path) -> SealReport:
    """Compare all journals of a home with their seals."""
    report = SealReport()
    seals, earlier = _read_ledger(home, report)
    journals = set(list_journals(home))
    if (
        not report.line_count
        and (home / FOLDER).is_dir()
        and any(not is_being_written(home / "runs" / key) for key in journals)
    ):
        reason = "is missing or empty: the seals of all journals are gone; `provml seal` makes new ones"
        report.problems.append(Problem(LEDGER_FILE, 0, reason))
    for key, line in sorted(seals.items()):
        (report.sealed if line.entry.get("by") == "recorder" else report.sealed_by_reader).append(key)
        reason = _compare(home, key, line.entry) if key in journals else _missing(home, key, line)
        if reason:
            report.problems.append(Problem(f"runs/{key}", 0, reason))
        elif line.entry.get("kind") == "rewritten":
            report.rewritten.append(f"{key} (by {line.entry.get('by')}, line {line.number} of the ledger)")
        if key in journals:
            report.problems += _check_earlier(home / "runs" / key, earlier.get(key, []), line)
        if line.entry.get("agrees") is False:
            reason = (
                f"was changed before a reader sealed it: its first {line.entry.get('recorder_size'):,} bytes differ"
            )
            report.problems.append(Problem(f"runs/{key}", 0, f"{reason} from what its process wrote"))
    marked = {_key(path) for path in marked_journals(home)}
    for key in sorted(marked - journals):
        report.problems.append(Problem(f"runs/{key}", 0, "is missing: it was removed while it was written"))
    for key in sorted(marked & journals):
        report.problems += _check_mark(home / "runs" / key)
    for key in sorted(journals - set(seals) - marked):
        if not is_being_written(home / "runs" / key):
            report.unsealed.append(key)
    return report


def _read_ledger(home: Path, report: SealReport) -> tuple[dict[str, LedgerLine], dict[str, list[LedgerLine]]]:
    """Return the line that counts for each journal, as `run/file`, and the ones before it, of which it is to go on.

    Removed runs have none.
    """
    seals: dict[str, LedgerLine] = {}
    earlier: dict[str, list[LedgerLine]] = {}
    for line in Ledger(home).lines():
        report.line_count, report.head = line.number, line.sha256
        if line.error:
            report.problems.append(Problem(LEDGER_FILE, line.number, f"the line {line.error}"))
        kind, run = line.entry.get("kind"), str(line.entry.get("run", ""))
        if kind == "removed":
            seals = {key: item for key, item in seals.items() if not key.startswith(f"{run}/")}
            earlier = {key: items for key, items in earlier.items() if not key.startswith(f"{run}/")}
        elif kind in ("sealed", "rewritten"):
            key = f"{run}/{line.entry.get('journal')}"
            if kind == "rewritten":
                earlier.pop(key, None)
            elif key in seals:
                earlier.setdefault(key, []).append(seals[key])
            seals[key] = line
    return seals, earlier


def _check_earlier(path: Path, earlier: list[LedgerLine], line: LedgerLine) -> list[Problem]:
    """Compare a journal that was sealed more than once with its first seals: it may only have grown since.

    Whoever changes a journal could have a reader seal it again, by a mark of a process that seems to have been killed.
    """
    problems = []
    for former in earlier:
        mark, by = _mark(former.entry), line.entry.get("by")
        with contextlib.suppress(OSError):  # `_compare` reports it
            if mark is None or digest_journal(path, mark.size) != mark:
                reason = f"was changed after line {former.number} of the ledger, and sealed again by {by}"
                problems.append(Problem(f"runs/{_key(path)}", 0, f"{reason} (line {line.number})"))
    return problems


def _missing(home: Path, key: str, line: LedgerLine) -> str:
    run = key.partition("/")[0]
    subject = "the journal" if has_run(home, run) else "the run"
    return f"is missing: {subject} was removed without `provml remove` (line {line.number} of the ledger)"


def _compare(home: Path, key: str, entry: dict[str, Any]) -> str:
    """Return how a journal differs from its seal; empty if it does not."""
    path, sealed = home / "runs" / key, _mark(entry)
    if sealed is None:
        return "has a line in the ledger that cannot be understood"
    try:
        size = segments.file_stat(path).st_size
        if size < sealed.size:
            return f"was cut after it was sealed: it has {size:,} bytes, and had {sealed.size:,}"
        if digest_journal(path, sealed.size) != sealed:
            return "was changed after it was sealed" + (f": it had {sealed.size:,} bytes" if size > sealed.size else "")
        if digest_buffer(path) != entry.get("buffer_sha256", ""):
            return "has a buffer of batches that was changed, added or removed after it was sealed"
    except OSError as error:
        return f"cannot be compared with its seal ({error.strerror or error})"
    return f"was lengthened after it was sealed, by {size - sealed.size:,} bytes" if size > sealed.size else ""


def _mark(entry: dict[str, Any]) -> Mark | None:
    size, sha256 = entry.get("size"), entry.get("sha256")
    return Mark(size, sha256) if isinstance(size, int) and isinstance(sha256, str) else None


def _check_mark(path: Path) -> list[Problem]:
    """Compare a journal that is being written with what its process has digested so far."""
    mark, file = read_mark(path), f"runs/{_key(path)}"
    if mark is None:
        return []  # the process just ended, or is about to write the mark
    try:
        size = segments.file_stat(path).st_size
        if size < mark.size:
            reason = f"was cut while it was written: it has {size:,} bytes, and had {mark.size:,}"
            return [Problem(file, 0, reason)]
        if digest_journal(path, mark.size) != mark:
            return [Problem(file, 0, f"was changed while it was written: its first {mark.size:,} bytes differ")]
    except FileNotFoundError:
        return [Problem(file, 0, "is missing: it was removed while it was written")]
    return []


def _key(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def find_unsigned_changes(home: Path, signed_lines: int, unsealed: Iterable[str] = ()) -> list[Problem]:
    """Return how runs that were signed have changed since: journals removed, rewritten, lengthened or added.

    Whoever can write to the home can write journals, and lines of the ledger about them. `unsealed` are journals in no
    line.
    """
    signed: dict[str, Mark | None] = {}
    problems = []
    for line in Ledger(home).lines():
        kind, run = line.entry.get("kind"), str(line.entry.get("run", ""))
        key, mark = f"{run}/{line.entry.get('journal')}", _mark(line.entry)
        if line.number <= signed_lines:
            if kind == "removed":
                signed = _without(signed, run)
            elif kind in ("sealed", "rewritten"):
                signed[key] = mark
        elif kind == "removed" and _has_run(signed, run):
            reason = f"was removed, and this is not signed (line {line.number} of the ledger)"
            problems.append(Problem(f"runs/{run}", 0, reason))
            signed = _without(signed, run)
        elif kind in ("sealed", "rewritten") and (key not in signed or mark != signed[key]) and _has_run(signed, run):
            done = "rewritten" if kind == "rewritten" else "lengthened" if key in signed else "added"
            reason = f"was {done} by {line.entry.get('by')}, and this is not signed (line {line.number} of the ledger)"
            problems.append(Problem(f"runs/{key}", 0, reason))
    reason = "has no seal, and its run was signed"
    problems += [Problem(f"runs/{key}", 0, reason) for key in unsealed if _has_run(signed, key.partition("/")[0])]
    return problems


def _has_run(seals: Mapping[str, Any], run: str) -> bool:
    return any(key.startswith(f"{run}/") for key in seals)


def _without(seals: dict[str, Mark | None], run: str) -> dict[str, Mark | None]:
    return {key: mark for key, mark in seals.items() if not key.startswith(f"{run}/")}
