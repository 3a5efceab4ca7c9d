"""Runs that travel between homes: their journals, annotations and stored contents, which come in once.

A run is first copied to a temporary folder inside the home that receives it, then compared with the run of the same id
that the home may have. A file that continues the one in the home replaces it, an earlier state of it changes nothing,
and anything else under the same name is another run, which is left out. The run gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from provml.errors import FileFormatError, plural
from provml.exchange.arrived_journals import seal_import
from provml.exchange.imported_run import CHANGED, NEW, UNCHANGED, ImportedRun
from provml.exchange.losses import LossReport
from provml.journal import events, segments
from provml.journal.annotations import FOLDER as ANNOTATIONS
from provml.journal.annotations import file_sizes
from provml.journal.artifacts import ArtifactFiles
from provml.journal.reader import JournalReader, first_events, read_header, read_lines
from provml.journal.run_files import REPORT_SUFFIX, RUN_ID, journals_of_run
from provml.journal.status import is_being_written

EVENTS, CONTENTS = "events", "stored contents"
JOURNAL = re.compile(rf"{RUN_ID.pattern}\.jsonl")
RUN_FILE = re.compile(
    rf"{RUN_ID.pattern}\.jsonl|{ANNOTATIONS}/{RUN_ID.pattern}\.jsonl|{RUN_ID.pattern}{re.escape(REPORT_SUFFIX)}"
)
"""Names of the files of a run that travel, below its folder."""
Relation = Literal["same", "earlier", "later", "other"]


class RunConflict(Exception):
    """A home has another run with the same id."""


@dataclass
class Parcel:
    """A run in a temporary folder, and how to get the contents that it stored: a function that writes one to a file."""

    run: str
    folder: Path
    contents: dict[str, Callable[[ArtifactFiles], None]] = field(default_factory=dict)


@contextlib.contextmanager
def staging_folder(home: Path) -> Iterator[Path]:
    """Yield a temporary folder in a home, which is created if it does not exist, and removed if it stays empty."""
    is_new = not home.exists()
    folder = home / f"import-{uuid.uuid4().hex[:8]}.part"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                home.rmdir()  # only if it is empty: nothing came in


# ---- out of a home


def run_files(home: Path, run: str) -> list[str]:
    """Return the names of the files of a run that travel, below its folder."""
    folder = home / "runs" / run
    names = [path.name for path in journals_of_run(folder)]
    names += [f"{ANNOTATIONS}/{name}" for name in sorted(file_sizes(folder))]
    names += sorted(path.name for path in folder.glob(f"*{REPORT_SUFFIX}"))
    return [name for name in names if RUN_FILE.fullmatch(name)]


def read_file(home: Path, run: str, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file of a run; of a journal or of annotations the complete lines.

    The lines of a journal that is being written are those of the file, which only grows; those of a journal that has
    ended include what its buffer of batches holds in addition.
    """
    path = home / "runs" / run / name
    if name.endswith(REPORT_SUFFIX):
        yield path.read_bytes()
    elif "/" in name or is_being_written(path):
        yield from (line + b"\n" for _, _, line in read_lines(path))
    else:
        yield from (line + b"\n" for line in JournalReader(path).read_lines(is_over=True))


def file_time(home: Path, run: str, name: str) -> int:
    """Return the modification time of a file of a run in nanoseconds."""
    return segments.file_stat(home / "runs" / run / name).st_mtime_ns


def stored_contents(home: Path, run: str) -> dict[str, int]:
    """Return the contents that a run stored and that are there, with their sizes; those of folders included."""
    files, sizes = ArtifactFiles(home), dict[str, int]()
    for path in journals_of_run(home / "runs" / run):
        for record in JournalReader(path).read(batches=False):
            for event in record.events:
                if isinstance(event, events.Artifact):
                    digests = [event.sha256]
                    if event.is_folder and files.has(event.sha256):
                        with contextlib.suppress(FileFormatError):
                            digests += files.files_of_folder(event.sha256).values()
                    sizes |= {digest: files.path(digest).stat().st_size for digest in digests if files.has(digest)}
    return sizes


# ---- into a home


def install(home: Path, parcel: Parcel) -> ImportedRun:
    """Bring a run in. Raises RunConflict if the home has another run with its id, and FileFormatError for no run."""
    summary = _Summary(parcel)
    target = home / "runs" / parcel.run
    earlier = [path for path in journals_of_run(target) if segments.exists(path)]
    moves, removed = _plan(target, parcel) if earlier else ([], [])
    files = ArtifactFiles(home)
    missing = [digest for digest in parcel.contents if not files.has(digest)]
    for digest in missing:
        parcel.contents[digest](files)
    if not earlier:
        target.parent.mkdir(parents=True, exist_ok=True)
        for name in [path.name for path in parcel.folder.iterdir()] if target.is_dir() else []:
            (parcel.folder / name).rename(target / name)  # a run whose journals were lost has its annotations still
        if not target.is_dir():
            parcel.folder.rename(target)
        seal_import(home, parcel.run, [path.name for path in journals_of_run(target)], is_new=True)
        return summary.result(NEW)
    if moves:
        segments.restore(home, [parcel.run])
    for source, name in moves:
        (target / name).parent.mkdir(exist_ok=True)
        source.replace(target / name)
    for path in removed:
        path.unlink(missing_ok=True)
    seal_import(home, parcel.run, [name for _, name in moves], [path.name for path in removed], is_new=False)
    return summary.result(CHANGED if moves or missing else UNCHANGED)


def _plan(target: Path, parcel: Parcel) -> tuple[list[tuple[Path, str]], list[Path]]:
    """Return the files that come in with their names, and the files that they replace under another name."""
    moves, removed = [], []
    present = {_writer(path): path for path in journals_of_run(target)}
    for staged in sorted(parcel.folder.rglob("*")):
        if staged.is_dir():
            continue
        name = staged.relative_to(parcel.folder).as_posix()
        own = present.get(_writer(staged)) if "/" not in name and name.endswith(".jsonl") else target / name
        if own is None or not segments.exists(own):
            moves.append((staged, name))
            continue
        if name.endswith(REPORT_SUFFIX):
            continue
        relation = _compare(target, own, staged)
        if relation == "other":
            raise RunConflict(name)
        if relation == "later" and not is_being_written(own):
            moves.append((staged, name))
            removed += [own] if own.name != staged.name else []
    return moves, removed


def _writer(path: Path) -> str:
    header = read_header(path)
    return header.writer if header is not None else path.stem


def _compare(target: Path, own: Path, staged: Path) -> Relation:
    """Return how a file that comes in is related to the one that the home has.

    The line that says when a run was imported differs from import to import. If the source has grown between two
    imports, the later import counts.
    """
    own_name = own.relative_to(target).as_posix()
    present = read_file(target.parent.parent, target.name, own_name)
    with staged.open("rb") as incoming:
        for ours, theirs in zip_longest(_without_import(present), _without_import(incoming)):
            if ours is None:
                return "later"
            if theirs is None:
                return "earlier"
            if ours != theirs:
                times = _import_time(own), _import_time(staged)
                if None in times:
                    return "other"
                return "later" if (times[1] or 0.0) > (times[0] or 0.0) else "earlier"
    return "same"


def _without_import(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        if not line.startswith(events.IMPORTED_START):
            yield line


def _import_time(path: Path) -> float | None:
    return next((event.time for event in first_events(path, 3) if isinstance(event, events.Imported)), None)


class _Summary:
    """What a run in a temporary folder holds; its journals are read once, and checked."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.epochs = self.measures = self.lines = self.damaged = 0
        self.header: events.Header | None = None
        journals = sorted(path for path in parcel.folder.iterdir() if JOURNAL.fullmatch(path.name))
        if not journals:
            raise FileFormatError("the run has no journal", "Create the bundle again.", file=parcel.run)
        for path in journals:
            self._read(path)

    def _read(self, path: Path) -> None:
        header = read_header(path)
        if header is not None and header.run != self.parcel.run:
            reason = f"its journal {path.name} is that of the run {header.run!r}"
            raise FileFormatError(reason, "Do not trust this source.", file=self.parcel.run)
        if self.header is None or (header is not None and header.main and header.time < self.header.time):
            self.header = header
        for record in JournalReader(path).read():
            self.lines += 1
            self.damaged += record.error is not None
            for event in record.events:
                if isinstance(event, events.Measured):
                    self.measures += len(event.values)
                elif isinstance(event, events.Begin):
                    self.epochs += event.kind == "epoch" and not event.parent

    def result(self, result: str) -> ImportedRun:
        """Return the account of the run."""
        losses, count = LossReport(), len(self.parcel.contents)
        losses.count(EVENTS, self.lines)
        losses.preserve(EVENTS, self.lines)
        losses.count(CONTENTS, count)
        losses.preserve(CONTENTS, count)
        header = self.header or events.Header(events.VERSION, "", "", "", 0.0)
        notes = (f"{plural(self.damaged, 'line')} of its journals cannot be read.",) if self.damaged else ()
        name = header.run_name or header.name
        return ImportedRun(self.parcel.run, name, header.model, result, self.epochs, self.measures, notes, losses)


def write_staged(folder: Path, name: str, chunks: Iterator[bytes], time_ns: int) -> None:
    """Write a file of a run into its temporary folder, with its modification time."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(OSError, OverflowError):
        os.utime(path, ns=(time_ns, time_ns))
