"""Bundles: zip files with runs, their journals, annotations, stored contents and digests.

`provml-bundle.json` lists each file with its size, SHA-256 and modification time. Everything is checked before anything
is written: names, sizes, digests, and that the archive is not a bomb. Nothing is unpacked but what the list names.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Annotated

import msgspec

from provml.errors import FileFormatError
from provml.exchange.base import ImportOptions, SkippedPart
from provml.exchange.imported_run import ImportedRun
from provml.exchange.run_transfer import (
    RUN_FILE,
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
from provml.exchange.source_files import sniff
from provml.journal import events
from provml.journal.artifacts import CHUNK_BYTES, DIGEST, ArtifactFiles
from provml.journal.run_files import RUN_ID
from provml.paths import atomic_write

LIST_NAME = "provml-bundle.json"
VERSION = 1
MAX_LIST_BYTES = 256 << 20
MAX_FILES = 1_000_000
MAX_RATIO = 200
"""Unpacked bytes for a byte of the archive. Journals shrink to a twentieth; contents are not compressed."""
FREE_BYTES = 1 << 30
"""Unpacked bytes that are allowed whatever the ratio."""
CONFLICT = (
    "another run with this id is in the home, and the two differ; rename neither, but import it into another home"
)
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, msgspec.Meta(ge=0)]


class FileEntry(msgspec.Struct):
    """A file of a run in a bundle; the time is that of its last change, in nanoseconds since 1970."""

    size: Size
    sha256: Digest
    time: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class RunEntry(msgspec.Struct):
    """A run in a bundle: its files by their names below its folder, and the contents that it stored."""

    files: dict[str, FileEntry]
    contents: list[Digest] = []


class BundleList(msgspec.Struct):
    """The list of a bundle; `contents` are sizes by SHA-256."""

    version: int
    created: float
    runs: dict[str, RunEntry]
    contents: dict[str, Size] = {}


# ---- write


def write_bundle(home: Path, runs: Iterable[str], path: Path, *, with_artifacts: bool = True) -> BundleList:
    """Write runs of a home to a zip file, which gets its name when it is complete."""
    listed = BundleList(VERSION, time.time(), {})
    with (
        atomic_write(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive,
    ):
        for run in runs:
            contents = stored_contents(home, run) if with_artifacts else {}
            listed.runs[run] = RunEntry({}, sorted(contents))
            for name in run_files(home, run):
                moment = file_time(home, run, name)
                with archive.open(_info(f"runs/{run}/{name}", moment), "w", force_zip64=True) as entry:
                    size, digest = _copy(read_file(home, run, name), entry)
                listed.runs[run].files[name] = FileEntry(size, digest, moment)
            for digest in sorted(contents.keys() - listed.contents.keys()):
                info = _info(f"artifacts/{digest}", 0)
                info.compress_type = zipfile.ZIP_STORED
                with archive.open(info, "w", force_zip64=True) as entry:
                    ArtifactFiles(home).copy(digest, entry)
                listed.contents[digest] = contents[digest]
        archive.writestr(_info(LIST_NAME, 0), msgspec.json.format(msgspec.json.encode(listed), indent=1))
    return listed


def _info(name: str, time_ns: int) -> zipfile.ZipInfo:
    moment = max(time.gmtime(time_ns // 1_000_000_000)[:6], (1980, 1, 1, 0, 0, 0))
    info = zipfile.ZipInfo(name, min(moment, (2107, 12, 31, 23, 59, 58)))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _copy(chunks: Iterable[bytes], file: IO[bytes] | None) -> tuple[int, str]:
    """Write chunks to a file, if there is one, and return their size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    for chunk in chunks:
        size += len(chunk)
        digest.update(chunk)
        if file is not None:
            file.write(chunk)
    return size, digest.hexdigest()


# ---- read


class BundleFile:
    """Importer of bundles."""

    name = "bundle"
    summary = "a bundle that `provml bundle` wrote"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is a zip with the list of a bundle."""
        if not path.is_file() or sniff(path, 2) != b"PK":
            return False
        try:
            with zipfile.ZipFile(path) as archive:
                return LIST_NAME in archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return path.name.endswith(".provml.zip")

    def bring_in(self, path: Path, home: Path, options: ImportOptions) -> Iterator[ImportedRun | SkippedPart]:
        """Check the whole bundle, then bring its runs into a home."""
        try:
            with zipfile.ZipFile(path) as archive:
                bundle = _Bundle(archive, path)
                bundle.check(options)
                with staging_folder(home) as folder:
                    yield from bundle.install_all(home, folder)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
            raise _damaged(path, str(error) or type(error).__name__) from error


def _damaged(path: Path, reason: str) -> FileFormatError:
    return FileFormatError(f"the bundle is damaged ({reason})", "Copy it again. Nothing came in.", file=str(path))


class _Bundle:
    """An open bundle."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive = archive
        self.path = path
        self.entries = self._check_entries()
        self.listed = self._read_list()

    def _refuse(self, reason: str) -> FileFormatError:
        return FileFormatError(f"refused: {reason}", "Do not trust this file. Nothing came in.", file=str(self.path))

    def _check_entries(self) -> dict[str, zipfile.ZipInfo]:
        """Return the entries by name; refuse an archive whose entries overlap, or unpack to far more than it holds."""
        infos = self.archive.infolist()
        archive_bytes = self.path.stat().st_size
        entries = {info.filename: info for info in infos}
        if len(entries) != len(infos) or len(infos) > MAX_FILES:
            raise self._refuse(
                "it has entries of the same name" if len(infos) <= MAX_FILES else "it has too many files"
            )
        position = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.flag_bits & 1:
                raise self._refuse(f"the entry {info.filename!r} is encrypted")
            if info.header_offset < position:
                raise self._refuse("its entries overlap")
            position = info.header_offset + info.compress_size
        if position > archive_bytes:
            raise _damaged(self.path, "it is cut off")
        total = sum(info.file_size for info in infos)
        if total > max(FREE_BYTES, archive_bytes * MAX_RATIO):
            raise self._refuse(f"it unpacks to {total:,} bytes, more than {MAX_RATIO} times its size")
        return entries

    def _read_list(self) -> BundleList:
        info = self.entries.get(LIST_NAME)
        if info is None:
            raise FileFormatError(f"it has no {LIST_NAME}", "Pass a bundle of provml.", file=str(self.path))
        if info.file_size > MAX_LIST_BYTES:
            raise self._refuse(f"{LIST_NAME} is too large")
        try:
            version = msgspec.json.decode(self.archive.read(info), type=_Version).version
            if version > VERSION:
                raise FileFormatError(f"the bundle has version {version}", "Upgrade provml.", file=str(self.path))
            return msgspec.json.decode(self.archive.read(info), type=BundleList)
        except msgspec.MsgspecError as error:
            raise _damaged(self.path, f"{LIST_NAME}: {error}") from error

    def check(self, options: ImportOptions) -> None:
        """Raise FileFormatError unless the archive has exactly what the list says, byte for byte."""
        expected = self._expected()
        for name in self.entries.keys() - expected.keys() - {LIST_NAME}:
            raise self._refuse(f"the list does not name the entry {name!r}")
        for name, (size, digest) in expected.items():
            if name not in self.entries:
                raise _damaged(self.path, f"{name} is missing")
            if _copy(self._chunks(name, size), None) != (size, digest):
                raise _damaged(self.path, f"{name} does not have its SHA-256")
            options.advance(self.entries[name].compress_size)
        for run, entry in self.listed.runs.items():
            for name, file in entry.files.items():
                if "/" not in name and name.endswith(".jsonl"):
                    self._check_header(run, next(self._chunks(f"runs/{run}/{name}", file.size), b""))

    def _expected(self) -> dict[str, tuple[int, str]]:
        """Return size and SHA-256 of each entry by its name; refuse names that have no place in a home."""
        expected: dict[str, tuple[int, str]] = {}
        for run, entry in self.listed.runs.items():
            if not RUN_ID.fullmatch(run):
                raise self._refuse(f"{run!r} is no id of a run")
            for name, file in entry.files.items():
                if not RUN_FILE.fullmatch(name):
                    raise self._refuse(f"{name!r} is no file of a run")
                expected[f"runs/{run}/{name}"] = file.size, file.sha256
            if unlisted := [digest for digest in entry.contents if digest not in self.listed.contents]:
                raise self._refuse(f"it lacks the content {unlisted[0]}")
        for digest, size in self.listed.contents.items():
            if not DIGEST.fullmatch(digest):
                raise self._refuse(f"{digest!r} is no SHA-256")
            expected[f"artifacts/{digest}"] = size, digest
        return expected

    def _check_header(self, run: str, start: bytes) -> None:
        """Refuse the journal of another run, and one of a newer version."""
        try:
            header = events.decode(start.partition(b"\n")[0])
        except (msgspec.MsgspecError, UnicodeDecodeError):  # damaged where it comes from; it travels as it is
            return
        if isinstance(header, events.Header) and header.run != run:
            raise self._refuse(f"a journal of {run!r} is that of the run {header.run!r}")
        if isinstance(header, events.Header) and header.version > events.VERSION:
            raise FileFormatError(f"a journal has version {header.version}", "Upgrade provml.", file=str(self.path))

    def _chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of an entry, no more than one byte beyond its size."""
        with self.archive.open(self.entries[name]) as file:
            remaining = size + 1
            while remaining > 0 and (chunk := file.read(min(CHUNK_BYTES, remaining))):
                remaining -= len(chunk)
                yield chunk

    def install_all(self, home: Path, folder: Path) -> Iterator[ImportedRun | SkippedPart]:
        """Bring the runs in, one after the other."""
        needed = sum(info.file_size for info in self.entries.values())
        if needed > shutil.disk_usage(folder).free:
            raise FileFormatError(f"the disk has no space for {needed:,} bytes", "Free some.", file=str(home))
        for run, entry in self.listed.runs.items():
            staged = folder / run
            for name, file in entry.files.items():
                write_staged(staged, name, self._chunks(f"runs/{run}/{name}", file.size), file.time)
            parcel = Parcel(run, staged, {digest: self._writer(digest) for digest in entry.contents})
            try:
                yield install(home, parcel)
            except RunConflict:
                yield SkippedPart(run, CONFLICT)

    def _writer(self, digest: str) -> Callable[[ArtifactFiles], None]:
        def write(files: ArtifactFiles) -> None:
            with files.writer() as writer:
                for chunk in self._chunks(f"artifacts/{digest}", self.listed.contents[digest]):
                    writer.write(chunk)
                if writer.commit().sha256 != digest:
                    raise _damaged(self.path, f"artifacts/{digest}")

        return write


class _Version(msgspec.Struct):
    version: int
