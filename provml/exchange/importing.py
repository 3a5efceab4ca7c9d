"""Import runs of other tools: choose the importer, write what it reads into a home, and report the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from provml.errors import FileFormatError, plural
from provml.exchange.base import Importer, ImportOptions, SkippedPart
from provml.exchange.dnnprov import DfAnalyzerDump
from provml.exchange.run_journals import CHANGED, NEW, UNCHANGED, ImportedRun, write_run
from provml.paths import default_home, path_mode

IMPORTERS: dict[str, Importer] = {importer.name: importer for importer in (DfAnalyzerDump(),)}
"""Importers by the name of their format. A source is read by the first one that recognises it."""
SKIPPED = "skipped"


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

    def __str__(self) -> str:
        lines = [self.summary()]
        lines += [f"note: run {run.id}: {note}" for run in self.runs for note in run.notes]
        lines += [f"skipped {part.name}: {part.reason}" for part in self.skipped]
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
    path, folder = Path(source), Path(home or default_home())
    importer = choose_importer(path, fmt)
    report = ImportReport(path, folder, importer.name)
    for part in importer.read(path, ImportOptions(model, on_progress)):
        if isinstance(part, SkippedPart):
            report.skipped.append(part)
        else:
            report.runs.append(write_run(folder, part))
    if report.is_empty and not report.skipped:
        raise FileFormatError("it contains no runs", f"Pass {importer.summary}.", file=str(path))
    return report


def choose_importer(path: Path, fmt: str = "") -> Importer:
    """Return the importer of a format, or the first that recognises a source."""
    known_formats = "; ".join(f"{importer.name}: {importer.summary}" for importer in IMPORTERS.values())
    if fmt and fmt not in IMPORTERS:
        raise FileFormatError(f"unknown format {fmt!r}", f"Formats: {known_formats}.", file=str(path))
    if not path_mode(path):
        raise FileFormatError("no such file or directory", "Check the path.", file=str(path))
    if fmt:
        return IMPORTERS[fmt]
    for importer in IMPORTERS.values():
        if importer.recognises(path):
            return importer
    raise FileFormatError("the format is not recognised", f"Formats: {known_formats}.", file=str(path))
