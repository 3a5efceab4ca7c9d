"""Segments: files that hold the journals of many runs that have ended.

A home with many runs has many small files. `provml pack` moves journals of runs that have ended into segments:
`home/segments/<name>.seg` holds compressed journals, and `home/segments/manifest` says where each of them is, with its
size, modification time and SHA-256. A packed journal has the same path as before, `home/runs/<run>/<writer>.jsonl`, and
is read through this module; `restore` writes it back byte for byte. A file at that path comes before a packed journal.

Everything is written before something is removed: a segment, then the manifest that names it, then the journals are
removed. A process that is killed in between leaves journals twice, or a segment that the manifest does not name.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

try:
    import fcntl
except ImportError:  # without fcntl, two processes must not pack a home at the same time
    fcntl = None  # type: ignore[assignment]

FOLDER = "segments"
MANIFEST = "manifest"
SUFFIX = ".seg"
VERSION = 1
MAX_SEGMENT_BYTES = 16 << 20
"""Compressed bytes after which a new segment begins: removing a run rewrites its segment."""
COMPRESSION_LEVEL = 6
DIGEST_BYTES = 16


class PackedFile(msgspec.Struct, array_like=True, frozen=True):
    """A journal in a segment: its name, size, time and SHA-256, and where its compressed bytes are."""

    name: str
    size: int
    time: int
    sha256: bytes
    offset: int
    length: int


class PackedRun(msgspec.Struct, array_like=True, frozen=True):
    """A run in a segment, and its journals."""

    segment: str
    files: tuple[PackedFile, ...]


class _Content(msgspec.Struct):
    version: int = VERSION
    runs: dict[str, msgspec.Raw] = {}


class FileStat(NamedTuple):
    """The size of a journal and its modification time in nanoseconds."""

    st_size: int
    st_mtime_ns: int


class Manifest:
    """The packed runs of a home."""

    def __init__(self, home: Path, runs: dict[str, msgspec.Raw] | None = None) -> None:
        self.home = home
        self._runs = {} if runs is None else runs

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def run(self, run: str) -> PackedRun | None:
        """Return where the journals of a run are; None if it is not packed."""
        raw = self._runs.get(run)
        return None if raw is None else msgspec.msgpack.decode(raw, type=PackedRun)

    def read(self, packed: PackedRun, file: PackedFile) -> bytes:
        """Return the content of a journal; raise OSError if it is damaged."""
        path = self.home / FOLDER / packed.segment
        with path.open("rb") as segment:
            segment.seek(file.offset)
            data = segment.read(file.length)
        try:
            content = zlib.decompress(data)
        except zlib.error as error:
            raise OSError(0, f"the journal is damaged in segments/{packed.segment} ({error})") from error
        if hashlib.sha256(content).digest() != file.sha256:
            raise OSError(0, f"the journal is damaged in segments/{packed.segment} (digest mismatch)")
        return content

    def replaced(self, removed: Collection[str], added: dict[str, PackedRun]) -> Manifest:
        """Return a manifest without some runs and with others."""
        runs = {run: raw for run, raw in self._runs.items() if run not in removed}
        return Manifest(self.home, runs | {run: _raw(packed) for run, packed in added.items()})

    def write(self) -> None:
        """Replace the manifest of the home, and remove the segments that it no longer names."""
        folder = self.home / FOLDER
        data = msgspec.msgpack.encode(_Content(runs=self._runs))
        part = folder / f"{MANIFEST}.{uuid.uuid4().hex[:8]}.part"
        _write(part, [hashlib.sha256(data).digest()[:DIGEST_BYTES], data])
        part.replace(folder / MANIFEST)
        _sync_folder(folder)
        named = {packed.segment for run in self if (packed := self.run(run)) is not None}
        for path in folder.glob(f"*{SUFFIX}"):
            if path.name not in named:
                path.unlink(missing_ok=True)


_CACHE: dict[str, tuple[tuple[int, int, int], Manifest]] = {}


def manifest(home: Path) -> Manifest:
    """Return the packed runs of a home. Raise OSError if the manifest is damaged."""
    path = f"{home}/{FOLDER}/{MANIFEST}"
    try:
        stat = os.stat(path)  # noqa: PTH116  # called for each journal
    except (FileNotFoundError, NotADirectoryError):
        return Manifest(home)
    signature = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    cached = _CACHE.get(path)
    if cached is None or cached[0] != signature:
        content = Path(path).read_bytes()
        data = content[DIGEST_BYTES:]
        if hashlib.sha256(data).digest()[:DIGEST_BYTES] != content[:DIGEST_BYTES]:
            raise OSError(0, f"{FOLDER}/{MANIFEST} is damaged (digest mismatch)")
        decoded = msgspec.msgpack.decode(data, type=_Content)
        if decoded.version > VERSION:
            raise OSError(0, f"{FOLDER}/{MANIFEST} has version {decoded.version}; upgrade provml")
        cached = _CACHE[path] = signature, Manifest(home, decoded.runs)
    return cached[1]


def _find(path: Path) -> tuple[Manifest, PackedRun, PackedFile] | None:
    """Return the packed journal with a path, if there is one."""
    if path.parent.parent.name != "runs":
        return None
    packed_runs = manifest(path.parent.parent.parent)
    packed = packed_runs.run(path.parent.name)
    for file in packed.files if packed is not None else ():
        if packed is not None and file.name == path.name:
            return packed_runs, packed, file
    return None


# ---- reading


def open_file(path: Path) -> BinaryIO | io.FileIO:
    """Open a journal, packed or not, to read bytes without a buffer."""
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        entry = _find(path)
        if entry is None:
            raise
        packed_runs, packed, file = entry
        return io.BytesIO(packed_runs.read(packed, file))


def file_stat(path: Path) -> FileStat | os.stat_result:
    """Return size and modification time of a journal, packed or not."""
    try:
        return path.stat()
    except FileNotFoundError:
        entry = _find(path)
        if entry is None:
            raise
        return FileStat(entry[2].size, entry[2].time)


def exists(path: Path) -> bool:
    """Return whether there is a journal, packed or not."""
    return path.is_file() or is_packed(path)


def is_packed(path: Path) -> bool:
    """Return whether a journal is in a segment."""
    return _find(path) is not None


def names(folder: Path | str) -> list[str]:
    """Return the names of the packed journals of a run's folder."""
    folder = Path(folder)
    return names_of_run(folder.parent.parent, folder.name) if folder.parent.name == "runs" else []


def names_of_run(home: Path, run: str) -> list[str]:
    """Return the names of the packed journals of a run."""
    packed = manifest(home).run(run)
    return [file.name for file in packed.files] if packed is not None else []


# ---- packing


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Be the only process that changes the segments of a home."""
    (home / FOLDER).mkdir(exist_ok=True)
    file = os.open(home / FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def pack(home: Path, runs: Iterable[str]) -> list[str]:
    """Move the journals of runs that have ended into segments; return the runs that were moved."""
    with _locked(home):
        present = manifest(home)
        added: dict[str, PackedRun] = {}
        contents: dict[str, dict[str, bytes]] = {}
        segment, blocks, size = _new_name(), list[bytes](), 0
        for run in runs:
            journals = {path.name: path for path in (home / "runs" / run).glob("*.jsonl")}
            if not journals:
                continue
            packed = present.run(run)
            contents[run] = {} if packed is None else {file.name: present.read(packed, file) for file in packed.files}
            contents[run] |= {name: path.read_bytes() for name, path in journals.items()}
            files = []
            for name, content in sorted(contents[run].items()):
                block = zlib.compress(content, COMPRESSION_LEVEL)
                time = file_stat(home / "runs" / run / name).st_mtime_ns
                files.append(PackedFile(name, len(content), time, hashlib.sha256(content).digest(), size, len(block)))
                blocks.append(block)
                size += len(block)
            contents[run] = {name: contents[run][name] for name in journals}
            added[run] = PackedRun(segment, tuple(files))
            if size >= MAX_SEGMENT_BYTES:
                _commit(home, segment, blocks, added)
                _remove_loose(home, contents)
                contents, segment, blocks, size = {}, _new_name(), [], 0
        if blocks:
            _commit(home, segment, blocks, added)
            _remove_loose(home, contents)
    return list(added)


def _commit(home: Path, segment: str, blocks: list[bytes], added: dict[str, PackedRun]) -> None:
    """Write a segment, then the manifest that names it."""
    part = home / FOLDER / f"{segment}.part"
    _write(part, blocks)
    part.replace(home / FOLDER / segment)
    _sync_folder(home / FOLDER)
    manifest(home).replaced((), added).write()


def _remove_loose(home: Path, contents: dict[str, dict[str, bytes]]) -> None:
    """Remove journals that are packed, unless somebody changed them meanwhile; then their folders, if empty."""
    for run, journals in contents.items():
        folder = home / "runs" / run
        for name, content in journals.items():
            with contextlib.suppress(FileNotFoundError):
                if (folder / name).read_bytes() == content:
                    (folder / name).unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty


def restore(home: Path, runs: Iterable[str]) -> list[str]:
    """Write the journals of packed runs back to their folders, byte for byte; return the runs that were packed."""
    runs = [run for run in runs if run in manifest(home)]
    if not runs:
        return []
    with _locked(home):
        packed_runs = manifest(home)
        for run in runs:
            packed = packed_runs.run(run)
            for file in packed.files if packed is not None else ():
                path = home / "runs" / run / file.name
                if packed is None or path.exists():  # changed after it was packed: the file counts
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f"{path.name}.{os.getpid()}.part")
                _write(part, [packed_runs.read(packed, file)])
                os.utime(part, ns=(file.time, file.time))
                part.replace(path)
        _drop(packed_runs, runs)
    return runs


def remove(home: Path, runs: Iterable[str]) -> None:
    """Remove runs from the segments: afterwards no byte of them is left."""
    runs = [run for run in runs if run in manifest(home)]
    if runs:
        with _locked(home):
            _drop(manifest(home), runs)


def _drop(packed_runs: Manifest, runs: Collection[str]) -> None:
    """Write the segments of some runs again without these runs, then the manifest."""
    home = packed_runs.home
    entries = {run: packed for run in packed_runs if (packed := packed_runs.run(run)) is not None}
    affected = {entries[run].segment for run in runs if run in entries}
    moved: dict[str, PackedRun] = {}
    for segment in affected:
        remaining = {run: packed for run, packed in entries.items() if packed.segment == segment and run not in runs}
        if not remaining:
            continue
        name, size, blocks = _new_name(), 0, []
        with (home / FOLDER / segment).open("rb") as file:
            for run, packed in remaining.items():
                files = []
                for item in packed.files:
                    file.seek(item.offset)
                    blocks.append(file.read(item.length))
                    files.append(msgspec.structs.replace(item, offset=size))
                    size += item.length
                moved[run] = PackedRun(name, tuple(files))
        _write(home / FOLDER / f"{name}.part", blocks)
        (home / FOLDER / f"{name}.part").replace(home / FOLDER / name)
    packed_runs.replaced(runs, moved).write()


def leftovers(home: Path) -> Iterator[Path]:
    """Yield the files of segments that killed processes left."""
    folder = home / FOLDER
    yield from folder.glob("*.part")
    packed_runs = manifest(home)
    named = {packed.segment for run in packed_runs if (packed := packed_runs.run(run)) is not None}
    yield from (path for path in folder.glob(f"*{SUFFIX}") if path.name not in named)


def _new_name() -> str:
    return f"{uuid.uuid4().hex[:12]}{SUFFIX}"


def _raw(packed: PackedRun) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(packed))


def _write(path: Path, blocks: Iterable[bytes]) -> None:
    """Write a file, which is on the disk when this returns."""
    with path.open("wb") as file:
        file.writelines(blocks)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    with contextlib.suppress(OSError):  # some systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
