"""Remove a secret that was recorded: from journals, annotations, stored artifacts and the index of a home.

The bytes of the secret are replaced in the lines that have them; every other byte stays. The ledger gets a line for
each journal that was written again, with its former digest and the numbers of the lines, and for each artifact that was
removed. What is left afterwards, in files that this module does not write, is named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from provml.errors import FileFormatError
from provml.journal import segments
from provml.journal.annotations import FOLDER as ANNOTATIONS
from provml.journal.artifacts import CHUNK_BYTES, ArtifactFiles
from provml.journal.process import user_name
from provml.journal.redaction import REDACTED, mask, redact_text
from provml.journal.run_files import journals_of_run
from provml.journal.seals import SCRUBBED, Ledger, digest_journal
from provml.journal.status import is_being_written
from provml.store import Store
from provml.store.artifacts import references_of_run

MIN_SECRET_CHARS = 4
"""A shorter text would be replaced in the middle of names and numbers."""
STRUCTURE = frozenset({"e", "run", "writer", "location", "sha256", "ref", "time"})
"""Fields of events that name things; a rule of redaction does not apply to them."""


@dataclass
class ScrubReport:
    """What was removed, or would be: lines by file, digests of artifacts, and files that still have the secret."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lines or self.artifacts)


def scrub(store: Store, run_id: str, secrets: Sequence[str] = (), *, dry_run: bool = False) -> ScrubReport:
    """Remove secrets from a run that has ended: the texts that are passed, else what looks like a secret.

    Artifacts are removed if they contain one of the passed texts. With `dry_run` nothing is changed.
    """
    short = [secret for secret in secrets if len(secret) < MIN_SECRET_CHARS]
    if short:
        reason = f"a secret of {len(short[0])} characters is too short"
        raise FileFormatError(reason, f"Pass at least {MIN_SECRET_CHARS} characters.", file="secret")
    info = store.run(run_id)
    folder = store.home / "runs" / info.id
    if any(is_being_written(path) for path in journals_of_run(folder)):
        raise FileFormatError("the run is still running", "Wait for its end.", file=info.id)
    if not dry_run:
        segments.restore(store.home, [info.id])
    report = ScrubReport()
    for path in _line_files(folder):
        changed = _scrub_lines(path, secrets)
        if changed.lines:
            report.lines[str(path.relative_to(store.home))] = changed.lines
            if not dry_run:
                _replace(store.home, path, changed)
    report.artifacts = _artifacts_with(store.home, info.id, secrets)
    if not dry_run and report:
        _remove_artifacts(store.home, report.artifacts)
        for path in folder.glob("*.report.json"):  # may quote values
            path.unlink()
        store.rebuild()  # as new files: what is deleted from an index stays in its files for a time
        report.remaining = list(_files_with(store.home, secrets))
    return report


@dataclass
class _Changed:
    """The new content of a file, and the numbers of the lines that changed."""

    content: bytes
    lines: list[int]


def _line_files(folder: Path) -> list[Path]:
    return [*journals_of_run(folder), *sorted((folder / ANNOTATIONS).glob("*.jsonl"))]


def _scrub_lines(path: Path, secrets: Sequence[str]) -> _Changed:
    with segments.open_file(path) as file:
        lines = file.read().splitlines(keepends=True)
    numbers = []
    for number, line in enumerate(lines, 1):
        clean = _scrub_line(line, secrets)
        if clean != line:
            lines[number - 1] = clean
            numbers.append(number)
    return _Changed(b"".join(lines), numbers)


def _scrub_line(line: bytes, secrets: Sequence[str]) -> bytes:
    for secret in secrets:
        line = line.replace(_json(secret)[1:-1], REDACTED.encode())
    if not secrets:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):  # damaged: nothing to go by
            for old, new in _replacements(msgspec.json.decode(line)):
                line = line.replace(_json(old), _json(new))
    return line


def _replacements(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts in an event that look like secrets, and what replaces them."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if depth or key not in STRUCTURE:
                yield from _replacements(item, str(key) if depth else "", depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _replacements(item, name, depth + 1)
    elif isinstance(value, str) and REDACTED not in value:
        clean = mask(name, value) if name else redact_text(value)
        if clean != value:
            yield value, str(clean)


def _json(text: str) -> bytes:
    return msgspec.json.encode(text)


def _replace(home: Path, path: Path, changed: _Changed) -> None:
    """Write a file again, and a line of the ledger about it if it is a journal."""
    is_journal = path.parent.name != ANNOTATIONS
    before = digest_journal(path) if is_journal else None
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(changed.content)
        file.flush()
        os.fsync(file.fileno())
    shutil.copymode(path, part)
    os.utime(part, ns=times)
    part.replace(path)
    if before is not None:
        after = digest_journal(path)
        Ledger(home).append(
            "rewritten", run=path.parent.name, journal=path.name, size=after.size, sha256=after.sha256, by="scrub",
            former_size=before.size, former_sha256=before.sha256, lines=changed.lines[:1000], user=user_name(),
        )  # fmt: skip


def _artifacts_with(home: Path, run: str, secrets: Sequence[str]) -> list[str]:
    """Return the digests of the stored contents of a run that have one of the secrets."""
    files, digests = ArtifactFiles(home), set[str]()
    for reference in references_of_run(home, run) if secrets else ():
        if files.has(reference.sha256):
            digests.add(reference.sha256)
            if reference.is_folder:
                digests.update(files.files_of_folder(reference.sha256).values())
    patterns = [secret.encode() for secret in secrets]
    return sorted(sha256 for sha256 in digests if _contains(files.path(sha256), patterns))


def _remove_artifacts(home: Path, digests: Sequence[str]) -> None:
    files = ArtifactFiles(home)
    for sha256 in digests:
        Ledger(home).append(SCRUBBED, run="", sha256=sha256, user=user_name())
        files.path(sha256).unlink(missing_ok=True)


def _contains(path: Path, patterns: Sequence[bytes]) -> bool:
    overlap = max(map(len, patterns), default=1) - 1
    tail = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            window = tail + chunk
            if any(pattern in window for pattern in patterns):
                return True
            tail = window[-overlap:] if overlap else b""
    return False


def _files_with(home: Path, secrets: Sequence[str]) -> Iterator[str]:
    """Yield the files of a home that still have one of the secrets."""
    patterns = [pattern for secret in secrets for pattern in {secret.encode(), _json(secret)[1:-1]}]
    for path in sorted(home.rglob("*")) if patterns else ():
        if path.is_file() and not path.is_symlink() and _contains(path, patterns):
            yield str(path.relative_to(home))
