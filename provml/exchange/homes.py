"""Another home as a source of runs: `provml merge`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart
from provml.exchange.bundles import CONFLICT
from provml.exchange.imported_run import ImportedRun
from provml.exchange.run_transfer import (
    Parcel,
    RunConflict,
    file_time,
    install,
    read_file,
    run_files,
    staging_folder,
    stored_contents,
    write_staged,
)
from provml.journal import segments
from provml.journal.artifacts import ArtifactFiles
from provml.journal.reader import HEADER_PREFIX
from provml.journal.run_files import RUN_ID, require_home, scan_runs


class OtherHome:
    """Importer of the runs of another home."""

    name = "home"
    summary = "a home of provml: a folder with runs"

    def recognises(self, path: Path) -> bool:
        """Return whether a folder has journals of provml, packed or not."""
        if not path.is_dir():
            return False
        try:
            journals = (path / "runs").glob("*/*.jsonl")
            return len(segments.manifest(path)) > 0 or any(_is_journal(journal) for journal in journals)
        except OSError:  # a damaged list of packed runs is that of a home all the same
            return (path / segments.FOLDER / segments.MANIFEST).is_file()

    def bring_in(self, path: Path, home: Path, options: ImportOptions) -> Iterator[ImportedRun | SkippedPart]:
        """Bring all runs into a home. The other home is only read; its runs may be active."""
        require_home(path)
        if path.resolve() == home.resolve():
            raise FileFormatError("it is this home", "Pass another one.", file=str(path))
        with staging_folder(home) as folder:
            for files in sorted(scan_runs(path)):
                if not files.journals or not RUN_ID.fullmatch(files.run):
                    continue
                yield _bring_in(path, home, folder, files.run)
                options.advance(sum(file.stat().st_size for file in (path / "runs" / files.run).glob("*.jsonl")))


def _bring_in(other: Path, home: Path, folder: Path, run: str) -> ImportedRun | SkippedPart:
    staged = folder / run
    try:
        for name in run_files(other, run):
            write_staged(staged, name, read_file(other, run, name), file_time(other, run, name))
        contents = {digest: _copier(other, digest) for digest in stored_contents(other, run)}
        return install(home, Parcel(run, staged, contents))
    except RunConflict:
        return SkippedPart(run, CONFLICT)
    except FileNotFoundError:
        return SkippedPart(run, "it was removed meanwhile")


def _copier(other: Path, digest: str) -> Callable[[ArtifactFiles], None]:
    def copy(files: ArtifactFiles) -> None:
        with files.writer() as writer:
            ArtifactFiles(other).copy(digest, writer)  # type: ignore[arg-type]  # it only writes
            writer.commit()

    return copy


def _is_journal(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(HEADER_PREFIX)) == HEADER_PREFIX
