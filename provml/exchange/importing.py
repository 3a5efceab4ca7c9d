"""Import runs of other tools: choose the importer, write what it reads into a home, and report the result."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from provml.errors import FileFormatError, plural
from provml.exchange.base import Importer, ImportOptions, RunImporter, SkippedPart
from provml.exchange.bundles import write_bundle
from provml.exchange.imported_run import CHANGED, NEW, UNCHANGED, ImportedRun
from provml.exchange.losses import LossReport
from provml.exchange.mlflow_store import is_database_url
from provml.exchange.registry import IMPORTERS
from provml.exchange.run_journals import write_run
from provml.journal.redaction import redact_url
from provml.journal.run_files import find_run_folder, require_home, scan_runs
from provml.paths import atomic_write, default_home, path_mode

SKIPPED = "skipped"
FOLLOW_SECONDS = 2.0


@dataclass(frozen=True)
class ImportReport:
    """What was imported from a source, and what was not."""

    source: Path
    home: Path
    format: str
    runs: list[ImportedRun] = field(default_factory=list)
    skipped: list[SkippedPart] = field(default_factory=list)

    columns = ("run", "name", "model", "epochs", "measures", "result", "note")

    @property
    def is_empty(self) -> bool:
        """True if the source has nothing that could be imported."""
        return not self.runs

    @property
    def totals(self) -> LossReport:
        """The numbers of all runs together, with the remarks of all."""
        totals = LossReport()
        for run in self.runs:
            totals.add(run.losses)
            totals.guesses += run.losses.guesses
            totals.losses += run.losses.losses
            totals.absent += run.losses.absent
        return totals

    def rows(self) -> list[tuple[object, ...]]:
        """Return a row for each run and each skipped part, by `columns`."""
        runs: list[tuple[object, ...]] = [
            (run.id, run.name, run.model, run.epochs, run.measures, run.result, " ".join(run.notes) or None)
            for run in self.runs
        ]
        return runs + [(None, part.name, None, None, None, SKIPPED, part.reason) for part in self.skipped]

    def summary(self) -> str:
        """Return the result in one sentence."""
        new, changed, unchanged = (
            [run for run in self.runs if run.result == result] for result in (NEW, CHANGED, UNCHANGED)
        )
        epochs = sum(run.epochs for run in (*new, *changed))
        parts = [f"imported {plural(len(new) + len(changed), 'run')} with {plural(epochs, 'epoch')}"]
        if changed:
            parts[0] += f", {len(changed)} of them changed since the last import"
        if unchanged:
            parts.append(f"{plural(len(unchanged), 'run')} already here")
        if self.skipped:
            parts.append(f"{plural(len(self.skipped), 'part')} skipped")
        return f"{self.source.name} ({self.format}): {'; '.join(parts)}"

    def to_data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        runs = [
            {
                **{name: getattr(run, name) for name in ("id", "name", "model", "result", "epochs", "measures")},
                "notes": list(run.notes),
                **run.losses.to_data(),
            }
            for run in self.runs
        ]
        skipped = [{"name": part.name, "reason": part.reason, "is_run": part.is_run} for part in self.skipped]
        totals = self.totals.to_data()["totals"]
        return {
            "source": redact_url(str(self.source)),
            "format": self.format,
            "totals": totals,
            "runs": runs,
            "skipped": skipped,
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report as a JSON file."""
        with atomic_write(Path(path)) as file:
            file.write(json.dumps(self.to_data(), indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))

    def __str__(self) -> str:
        lines = [self.summary()]
        lines += [f"note: run {run.id}: {note}" for run in self.runs for note in run.notes]
        lines += [f"skipped {part.name}: {part.reason}" for part in self.skipped]
        lines += self.totals.lines()
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())


def read(
    source: str | os.PathLike[str],
    home: str | os.PathLike[str] | None = None,
    *,
    fmt: str = "",
    model: str = "",
    on_progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Import the runs of another tool into a home, which is created if it does not exist.

    `fmt` is the name of a format; without it, the source is recognised by its content. `model` names the model where
    the source does not. Importing a source again adds what is new in it.
    """
    path, folder = _source_path(source), Path(home or default_home())
    importer = choose_importer(path, fmt)
    report = ImportReport(path, folder, importer.name)
    for part in _import_parts(importer, path, folder, ImportOptions(model, on_progress)):
        if isinstance(part, SkippedPart):
            report.skipped.append(part)
        else:
            report.runs.append(part)
    if report.is_empty and not report.skipped:
        raise FileFormatError("it contains no runs", f"Pass {importer.summary}.", file=str(path))
    return report


def _import_parts(
    importer: Importer | RunImporter, path: Path, home: Path, options: ImportOptions
) -> Iterator[ImportedRun | SkippedPart]:
    if not hasattr(importer, "read"):
        yield from importer.bring_in(path, home, options)
        return
    for part in importer.read(path, options):
        yield part if isinstance(part, SkippedPart) else write_run(home, part)


def merge(other: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> ImportReport:
    """Bring the runs of another home into a home. Runs that are there already are brought up to date."""
    return read(other, home, fmt="home")


def bundle(
    home: str | os.PathLike[str] | None,
    path: str | os.PathLike[str],
    runs: Iterable[str] | None = None,
    *,
    with_artifacts: bool = True,
) -> None:
    """Write runs of a home, by default all, with their stored contents to a zip file, which `read` imports."""
    folder = require_home(Path(home or default_home()))
    ids = sorted(files.run for files in scan_runs(folder) if files.journals)
    wanted = ids if runs is None else [find_run_folder(folder, name).name for name in runs]
    write_bundle(folder, dict.fromkeys(wanted), Path(path), with_artifacts=with_artifacts)


def follow(
    source: str | os.PathLike[str],
    home: str | os.PathLike[str] | None = None,
    *,
    fmt: str = "",
    model: str = "",
    seconds: float = FOLLOW_SECONDS,
) -> Iterator[ImportReport]:
    """Import a source, and again whenever it has changed; yield the report of each import.

    A source that cannot be read at a moment, because it is being written, is read again later.
    """
    path = _source_path(source)
    previous: object = None
    is_first = True
    while True:
        state = _state(path)
        if state != previous:
            previous = state
            try:
                yield read(path, home, fmt=fmt, model=model)
            except FileFormatError:
                if is_first and not path_mode(path):
                    raise
            is_first = False
        time.sleep(seconds)


def _source_path(source: str | os.PathLike[str]) -> Path:
    """Return a source as a path; the URL of an SQLite file is its path."""
    text = os.fspath(source)
    return Path(text.removeprefix("sqlite:///"))


def _state(path: Path) -> object:
    """Return what changes when a source changes: sizes and times of its files."""
    from provml.exchange.source_files import walk

    try:
        files = [path, *path.parent.glob(f"{path.name}-wal")] if path.is_file() else walk(path)
        return [(str(file), status.st_size, status.st_mtime_ns) for file in files for status in [file.stat()]]
    except (OSError, FileFormatError):
        return None


def choose_importer(path: Path, fmt: str = "") -> Importer | RunImporter:
    """Return the importer of a format, or the first that recognises a source."""
    names = ", ".join(IMPORTERS)
    if fmt and fmt not in IMPORTERS:
        raise FileFormatError(f"unknown format {fmt!r}", f"Formats: {names}.", file=str(path))
    if is_database_url(str(path)):
        return IMPORTERS["mlflow"]
    if not path_mode(path):
        raise FileFormatError("no such file or directory", "Check the path.", file=str(path))
    if fmt:
        return IMPORTERS[fmt]
    for importer in IMPORTERS.values():
        if importer.recognises(path):
            return importer
    raise FileFormatError("the format is not recognised", f"Name it with --as. Formats: {names}.", file=str(path))
