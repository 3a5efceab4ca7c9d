"""Write a lake: read the runs of a home that are new or changed, write them as parts, and merge small parts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from provml.journal import annotations as run_annotations
from provml.journal import process, segments
from provml.journal.file import MOUNT_TABLE, find_mount
from provml.journal.run_files import RunFiles, journals_of_run, require_home, scan_runs
from provml.journal.status import is_being_written
from provml.lake.facts import Columns
from provml.lake.folder import LakeFolder, Manifest, Part, RunEntry
from provml.lake.links import LineageSource, as_columns
from provml.lake.rows import RunRows
from provml.lake.schema import DERIVED, SCHEMA_VERSION, TABLES, arrow_schema
from provml.store.checkpoint import format_fingerprint
from provml.store.siblings import FirstJournalCache

if TYPE_CHECKING:
    import pyarrow

MAX_PART_ROWS = 500_000
"""Rows of all tables after which a new part begins."""
MIN_SINGLE_RUNS = 8
"""From this number of new runs on, a part holds several of them: a file for each of 10,000 runs helps nobody."""
SMALL_PART_BYTES = 16 << 20
MAX_SMALL_PARTS = 8
"""Number of small parts from which on they are merged into one."""


@dataclass
class LakeReport:
    """What a build or an update did.

    `added` and `changed` are runs that were read, `removed` runs that the home has no longer, `missing` such runs that
    stay in the lake, `left_out` runs that are still being written, and `from_other_homes` runs that the lake has from
    another home. `problems` are lines that could not be read.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    included_open: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    from_other_homes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    runs: int = 0
    rows: int = 0
    size: int = 0
    parts: int = 0


def build(home: str | os.PathLike[str], folder: str | os.PathLike[str], **options: Any) -> LakeReport:
    """Write the runs of a home as a lake, from nothing; an existing lake is replaced when the new one is complete.

    Options are those of `update`.
    """
    return _Builder(home, folder, **options).run(from_nothing=True)


def update(home: str | os.PathLike[str], folder: str | os.PathLike[str], **options: Any) -> LakeReport:
    """Add the runs of a home that are new or changed to a lake, which is created if there is none.

    A run that is still being written is left out, and counted, unless `include_open`; the next update then replaces
    what was written of it. With `prune`, runs that this home has no longer are removed. `storage_options` are those of
    the file system (fsspec). `on_progress` is called with 1 for each run that was read.
    """
    return _Builder(home, folder, **options).run(from_nothing=False)


def home_id(home: Path, mount_table: Path = MOUNT_TABLE) -> str:
    """Return what all machines know a home by: its server and path on a network file system, else its host and path."""
    folder, mount = home.resolve(), find_mount(home, mount_table)
    if mount is None or not (mount.source.startswith("//") or ":/" in mount.source):
        return f"{process.host()}:{folder}"
    parts = (mount.source, mount.root, folder.relative_to(mount.point).as_posix())
    return "/".join(filter(None, (part.strip("/") for part in parts)))


class _Builder:
    """One build or update of a lake."""

    def __init__(
        self,
        home: str | os.PathLike[str],
        folder: str | os.PathLike[str],
        *,
        include_open: bool = False,
        prune: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.home = require_home(Path(home))
        self.folder = LakeFolder(folder, storage_options)
        self.include_open = include_open
        self.prune = prune
        self.on_progress = on_progress
        self.home_id = home_id(self.home)
        self.version = _rows_version()
        self.report = LakeReport()
        self.new_parts: list[Part] = []
        self.written: dict[str, RunEntry] = {}
        self.first_journals = FirstJournalCache()

    def run(self, *, from_nothing: bool) -> LakeReport:
        previous = self.folder.find(is_replaced=from_nothing)
        if previous is None:
            self.folder.require_free()
        start = Manifest() if previous is None or from_nothing else previous
        manifest = Manifest(start.version, parts=dict(start.parts), runs=dict(start.runs), derived=start.derived)
        manifest.left_out = {home: runs for home, runs in start.left_out.items() if home != self.home_id}
        if previous is not None:
            files = self.folder.files()
            self.folder.remove_leftovers(previous, files)
            self._forget_damaged(manifest, self.folder.damaged(manifest, files))
        try:
            self._update(manifest)
            if previous is None or from_nothing or self._has_changed(manifest, previous):
                manifest = self.folder.commit(manifest, previous)
        except BaseException:
            for part in self.new_parts:
                self.folder.remove_part(part)
            raise
        if previous is not None and from_nothing:
            self.report.removed = sorted(previous.runs.keys() - manifest.runs.keys())
        self._count(manifest)
        return self.report

    @staticmethod
    def _has_changed(manifest: Manifest, previous: Manifest) -> bool:
        names = ("version", "runs", "parts", "derived", "left_out")
        return any(getattr(manifest, name) != getattr(previous, name) for name in names)

    def _count(self, manifest: Manifest) -> None:
        parts = manifest.all_parts
        self.report.runs, self.report.parts = len(manifest.runs), len(manifest.parts)
        self.report.rows = sum(file.rows for part in parts for file in part.files.values())
        self.report.size = sum(part.size for part in parts)

    # ---- runs

    def _forget_damaged(self, manifest: Manifest, damaged: set[str]) -> None:
        """Remove damaged parts from the manifest: their runs are read again, if this home has them."""
        for run, entry in list(manifest.runs.items()):
            if entry.part in damaged:
                del manifest.runs[run]
                if entry.home != self.home_id:
                    self.report.problems.append(f"{run}: a file with it is damaged; update the lake from {entry.home}")
        manifest.parts = {name: part for name, part in manifest.parts.items() if name not in damaged}
        if manifest.derived is not None and manifest.derived.name in damaged:
            manifest.derived = None

    def _update(self, manifest: Manifest) -> None:
        present = {files.run: files for files in scan_runs(self.home) if files.journals}
        stale = self._find_missing(manifest, present)
        new = self._find_new(manifest, present)
        self._read_runs(manifest, new)
        dropped = {run for run in (*stale, *self.written) if run in manifest.runs}
        self._drop(manifest, dropped)
        manifest.runs.update(self.written)
        if manifest.version < SCHEMA_VERSION:
            self._renew_parts(manifest)
        if self.new_parts or dropped or manifest.derived is None:
            self._merge_small(manifest)
            manifest.derived = self._derive(manifest)

    def _find_missing(self, manifest: Manifest, present: Mapping[str, RunFiles]) -> list[str]:
        missing = [run for run, entry in manifest.runs.items() if entry.home == self.home_id and run not in present]
        if self.prune:
            self.report.removed = missing
            return missing
        self.report.missing = missing
        return []

    def _find_new(self, manifest: Manifest, present: Mapping[str, RunFiles]) -> dict[str, str]:
        """Return the runs that have to be read, with their signatures."""
        new: dict[str, str] = {}
        for run in sorted(present):
            entry = manifest.runs.get(run)
            if entry is not None and entry.home != self.home_id:
                self.report.from_other_homes.append(run)
                continue
            signature = self._signature(present[run])
            if entry is None or entry.signature != signature or entry.is_open:
                new[run] = signature
        return new

    def _signature(self, files: RunFiles) -> str:
        """Return a digest of the sizes and times of a run's files: what was read before need not be read again.

        It differs if the mapping or the tables have changed since.
        """
        folder, digest = self.home / "runs" / files.run, hashlib.sha256(self.version.encode())
        for name in sorted(files.journals):
            stat = segments.file_stat(folder / name)
            digest.update(f"{name}:{stat.st_size}:{stat.st_mtime_ns};".encode())
        if files.is_annotated:
            digest.update(repr(sorted(run_annotations.file_sizes(folder).items())).encode())
        return digest.hexdigest()[:16]

    def _read_runs(self, manifest: Manifest, new: Mapping[str, str]) -> None:
        is_single = len(new) < MIN_SINGLE_RUNS
        pending = _PendingPart()
        for run, signature in new.items():
            rows = self._read_run(manifest, run)
            if self.on_progress is not None:
                self.on_progress(1)
            if rows is None:
                continue
            (self.report.changed if run in manifest.runs else self.report.added).append(run)
            pending.add(rows, signature)
            if is_single or pending.row_count >= MAX_PART_ROWS:
                self._write(manifest, pending)
                pending = _PendingPart()
        self._write(manifest, pending)

    def _read_run(self, manifest: Manifest, run: str) -> RunRows | None:
        """Return the rows of a run; None if it is still being written, or if no journal of it can be read."""
        try:
            is_open = any(map(is_being_written, journals_of_run(self.home / "runs" / run)))
            if is_open and not self.include_open:  # what the lake has of a run that goes on stays as it is
                self.report.left_out.append(run)
                manifest.left_out.setdefault(self.home_id, []).append(run)
                return None
            rows = RunRows.read(self.home, run, self.first_journals)
        except OSError as error:
            self.report.problems.append(f"{run}: {error.strerror or error}")
            return None
        self.report.problems += rows.problems
        if rows.is_open:
            self.report.included_open.append(run)
        return None if rows.is_empty else rows

    def _write(self, manifest: Manifest, pending: _PendingPart) -> None:
        if not pending.runs:
            return
        part = self.folder.write_part(pending.tables())
        self.new_parts.append(part)
        manifest.parts[part.name] = part
        for run, (signature, is_open) in pending.runs.items():
            self.written[run] = RunEntry(part.name, signature, self.home_id, is_open)

    def _drop(self, manifest: Manifest, runs: set[str]) -> None:
        """Remove the rows of some runs from the parts that had them."""
        by_part: dict[str, set[str]] = {}
        for run in runs:
            by_part.setdefault(manifest.runs.pop(run).part, set()).add(run)
        for name, removed in by_part.items():
            part = manifest.parts.pop(name)
            others = [run for run, entry in manifest.runs.items() if entry.part == name]
            if not others:
                continue
            tables = {table: _without(self.folder.read_table(table, part), removed) for table in part.files}
            self._replace(manifest, others, tables)

    def _replace(self, manifest: Manifest, runs: Iterable[str], tables: Mapping[str, pyarrow.Table]) -> None:
        """Write a part with the rows of some runs, which were in other parts."""
        part = self.folder.write_part(tables)
        self.new_parts.append(part)
        manifest.parts[part.name] = part
        for run in runs:
            manifest.runs[run] = msgspec.structs.replace(manifest.runs[run], part=part.name)

    # ---- parts

    def _renew_parts(self, manifest: Manifest) -> None:
        """Write the parts of other homes again, with the columns of this version."""
        for part in [part for part in manifest.parts.values() if part not in self.new_parts]:
            del manifest.parts[part.name]
            runs = [run for run, entry in manifest.runs.items() if entry.part == part.name]
            self._replace(manifest, runs, {table: self.folder.read_table(table, part) for table in part.files})
        manifest.version = SCHEMA_VERSION

    def _merge_small(self, manifest: Manifest) -> None:
        """Merge small parts into one if there are many: files of finished runs become segments."""
        import pyarrow as pa

        small = [part for part in manifest.parts.values() if part.size < SMALL_PART_BYTES]
        if len(small) < MAX_SMALL_PARTS:
            return
        names = {part.name for part in small}
        tables = {}
        for table in TABLES:
            if any(table in part.files for part in small):
                tables[table] = pa.concat_tables([self.folder.read_table(table, part) for part in small])
        for name in names:
            del manifest.parts[name]
        self._replace(manifest, [run for run, entry in manifest.runs.items() if entry.part in names], tables)
        for part in small:
            if part in self.new_parts:
                self.new_parts.remove(part)
                self.folder.remove_part(part)

    def _derive(self, manifest: Manifest) -> Part:
        """Write the table that follows from all runs."""
        import pyarrow as pa

        source = LineageSource()
        for part in manifest.parts.values():
            source.add_flows(self._rows(part, "flows", "section", "stage", "data", "relation"))
            source.add_data(self._rows(part, "data", "data", "kind", "content", "alternate"))
            sections = self._rows(part, "sections", "run", "section", "stage", "kind")
            source.add_stages((run, section, kind) for run, section, stage, kind in sections if section == stage)
        table = pa.table(as_columns(source.lineage()), schema=arrow_schema(DERIVED))
        part = self.folder.write_part({DERIVED: table})
        self.new_parts.append(part)
        return part

    def _rows(self, part: Part, table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
        rows = self.folder.read_table(table, part, list(columns))
        return zip(*(rows.column(name).to_pylist() for name in columns), strict=True)


def _rows_version() -> str:
    """Return a digest of everything that decides which rows a journal becomes."""
    digest = hashlib.sha256(format_fingerprint().encode())
    for name in ("facts.py", "rows.py", "schema.py", "values.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


class _PendingPart:
    """Rows of runs that will be written as one part."""

    def __init__(self) -> None:
        self.columns: dict[str, Columns] = {}
        self.runs: dict[str, tuple[str, bool]] = {}
        self.row_count = 0

    def add(self, rows: RunRows, signature: str) -> None:
        self.runs[rows.run] = signature, rows.is_open
        self.row_count += rows.row_count
        if not self.columns:
            self.columns = rows.columns
            return
        for table, columns in rows.columns.items():
            for name, values in columns.items():
                self.columns[table][name] += values

    def tables(self) -> dict[str, pyarrow.Table]:
        import pyarrow as pa

        return {table: pa.table(columns, schema=arrow_schema(table)) for table, columns in self.columns.items()}


def _without(table: pyarrow.Table, runs: set[str]) -> pyarrow.Table:
    """Return a table without the rows of some runs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_removed = pc.is_in(table.column("run"), value_set=pa.array(sorted(runs), pa.string()))
    return table.filter(pc.invert(is_removed))
