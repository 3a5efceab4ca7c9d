"""Segments: files that hold the journals of many runs that have ended.

A home with many runs has many small files. `provml pack` moves journals of runs that have ended into segments:
`home/segments/<name>.seg` holds compressed journals, and `home/segments/manifest` says where each of them is, with its
size, modification time and SHA-256. A packed journal has the same path as before, `home/runs/<run>/<writer>.jsonl`, and
is read through this module; `restore` writes it back byte for byte. A file at that path comes before a packed journal.
Each segment ends with a list of its own journals, so that a manifest that is damaged or missing can be rebuilt.

Everything is written before something is removed: a segment, then the manifest that names it, then the journals are
removed. A process that is killed in between leaves journals twice, or a segment that the manifest does not name.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from provml.errors import FileFormatError, plural
from provml.paths import NO_FOLLOW

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
LENGTH_BYTES = 8
MAGIC = b"provmls1"
"""Last bytes of a segment with a list: before them are the length of the list and its digest."""


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


class _SegmentList(msgspec.Struct):
    """The journals of one segment; of two lists that name a run, the later one counts."""

    time: float
    runs: dict[str, PackedRun]


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
        """Return the content of a journal; raise JournalDamaged if it is damaged."""
        path = self.home / FOLDER / packed.segment
        with path.open("rb") as segment:
            segment.seek(file.offset)
            data = segment.read(file.length)
        try:
            content = zlib.decompress(data)
        except zlib.error as error:
            raise JournalDamaged(0, f"the journal is damaged in segments/{packed.segment} ({error})") from error
        if hashlib.sha256(content).digest() != file.sha256:
            raise JournalDamaged(0, f"the journal is damaged in segments/{packed.segment} (digest mismatch)")
        return content

    def replaced(self, removed: AbstractSet[str], added: dict[str, PackedRun]) -> Manifest:
        """Return a manifest without some runs and with others."""
        runs = {run: raw for run, raw in self._runs.items() if run not in removed}
        return Manifest(self.home, runs | {run: _raw(packed) for run, packed in added.items()})

    def write(self) -> None:
        """Replace the manifest of the home, and remove the segments that it no longer names."""
        folder = self.home / FOLDER
        data = msgspec.msgpack.encode(_Content(runs=self._runs))
        part = folder / f"{MANIFEST}.{uuid.uuid4().hex[:8]}.part"
        _write(part, [_digest(data), data])
        part.replace(folder / MANIFEST)
        _sync_folder(folder)
        named = {packed.segment for run in self if (packed := self.run(run)) is not None}
        for path in folder.glob(f"*{SUFFIX}"):
            if path.name not in named:
                path.unlink(missing_ok=True)


_Signature = tuple[int, int, int]
_CACHE: dict[str, tuple[_Signature, Manifest]] = {}
_DAMAGE: dict[str, str] = {}
"""What was wrong with manifests that this process rebuilt, by home."""


def signature(home: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever a run is packed or unpacked; None if there is no manifest."""
    try:
        stat = os.stat(f"{home}/{FOLDER}/{MANIFEST}")  # noqa: PTH116  # called for each journal
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def manifest(home: Path) -> Manifest:
    """Return the packed runs of a home; a manifest that is damaged or missing is rebuilt from the segments.

    Raise OSError if that is not possible.
    """
    path = f"{home}/{FOLDER}/{MANIFEST}"
    now = signature(home)
    if now is None:
        return _manifest_of_segments(home)
    cached = _CACHE.get(path)
    if cached is None or cached[0] != now:
        try:
            loaded = Manifest(home, _read_manifest(Path(path)))
        except (ManifestDamaged, IsADirectoryError) as error:
            loaded = _rebuild(home, str(error.strerror).lower())
        cached = _CACHE[path] = now, loaded
    return cached[1]


class JournalDamaged(OSError):
    """A packed journal whose bytes have changed."""


class ManifestDamaged(OSError):
    """A manifest whose digest does not match."""


def _read_manifest(path: Path) -> dict[str, msgspec.Raw]:
    content = path.read_bytes()
    data = content[DIGEST_BYTES:]
    if _digest(data) != content[:DIGEST_BYTES]:
        raise ManifestDamaged(0, "digest mismatch")
    decoded = msgspec.msgpack.decode(data, type=_Content)
    if decoded.version > VERSION:
        raise OSError(0, f"{FOLDER}/{MANIFEST} has version {decoded.version}; upgrade provml")
    return decoded.runs


# ---- rebuilding the manifest


def _manifest_of_segments(home: Path) -> Manifest:
    """Return the packed runs of a home without a manifest: mostly none."""
    folder = home / FOLDER
    try:
        stat = os.stat(folder)  # noqa: PTH116  # called for each journal
    except (FileNotFoundError, NotADirectoryError):
        return Manifest(home)
    signature = (stat.st_ino, 0, stat.st_mtime_ns)
    cached = _CACHE.get(str(folder))
    if cached is None or cached[0] != signature:
        has_segments = next(folder.glob(f"*{SUFFIX}"), None) is not None
        cached = _CACHE[str(folder)] = signature, _rebuild(home, "missing") if has_segments else Manifest(home)
    return cached[1]


def _rebuild(home: Path, reason: str) -> Manifest:
    """Return the manifest that the lists of the segments give, and write it unless another process changes them."""
    lists = []
    for path in sorted((home / FOLDER).glob(f"*{SUFFIX}")):
        listed = _read_list(path)
        if listed is None:
            raise OSError(0, f"{FOLDER}/{MANIFEST} is damaged ({reason}), and {FOLDER}/{path.name} has no list")
        lists.append(listed)
    runs: dict[str, PackedRun] = {}
    for listed in sorted(lists, key=lambda item: item.time):
        runs |= listed.runs
    rebuilt = Manifest(home).replaced(frozenset(), runs)
    if _DAMAGE.get(str(home)) != reason:
        message = "provml: %s of %s is damaged (%s). Nothing is lost: it is rebuilt from the segments."
        import logging  # not at the top: recording does not need it

        logging.getLogger("provml").warning(message, f"{FOLDER}/{MANIFEST}", home, reason)
    _DAMAGE[str(home)] = reason
    with contextlib.suppress(OSError), _locked(home, wait=False):  # read-only, or a process is packing
        if (home / FOLDER / MANIFEST).is_dir():
            (home / FOLDER / MANIFEST).rmdir()
        rebuilt.write()
    return rebuilt


def _read_list(path: Path) -> _SegmentList | None:
    """Return the list at the end of a segment; None if it has none, or a damaged one."""
    trailer = DIGEST_BYTES + LENGTH_BYTES + len(MAGIC)
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - trailer, 0))
            end = file.read()
            length = int.from_bytes(end[DIGEST_BYTES : -len(MAGIC)], "big")
            if not end.endswith(MAGIC) or length > size - trailer:
                return None
            file.seek(size - trailer - length)
            data = file.read(length)
        return msgspec.msgpack.decode(data, type=_SegmentList) if _digest(data) == end[:DIGEST_BYTES] else None
    except (OSError, msgspec.MsgspecError):
        return None


def _segment_list(segment: str, runs: dict[str, PackedRun]) -> bytes:
    """Return the list of a segment, with what follows it at the end of the file."""
    own = {run: packed for run, packed in runs.items() if packed.segment == segment}
    data = msgspec.msgpack.encode(_SegmentList(time.time(), own))
    return data + _digest(data) + len(data).to_bytes(LENGTH_BYTES, "big") + MAGIC


def damages(home: Path) -> list[tuple[str, str]]:
    """Return files of segments that were or are damaged, besides the journals in them, and what is wrong."""
    packed_runs, problems = manifest(home), list[tuple[str, str]]()
    if reason := _DAMAGE.get(str(home)):
        problems.append((f"{FOLDER}/{MANIFEST}", f"was damaged ({reason}) and is rebuilt"))
    ends: dict[str, int] = {}
    for packed in (packed for run in packed_runs if (packed := packed_runs.run(run)) is not None):
        for file in packed.files:
            ends[packed.segment] = max(ends.get(packed.segment, 0), file.offset + file.length)
    for segment, end in ends.items():
        path = home / FOLDER / segment
        if path.is_file() and path.stat().st_size > end and _read_list(path) is None:  # older ones have no list
            problems.append((f"{FOLDER}/{segment}", "the list of its journals is damaged; `provml unpack` saves them"))
    return problems


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


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
def _locked(home: Path, *, wait: bool = True) -> Iterator[None]:
    """Be the only process that changes the segments of a home; without `wait`, raise OSError if another one is."""
    (home / FOLDER).mkdir(exist_ok=True)
    file = os.open(home / FOLDER / "lock", os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(file)


def pack(home: Path, runs: Iterable[str]) -> list[str]:
    """Move the journals of runs that have ended into segments; return the runs that were moved."""
    with _locked(home):
        present = manifest(home)
        if not present:
            present.write()  # before the first segment: a segment without a manifest has lost it
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
                moment = file_stat(home / "runs" / run / name).st_mtime_ns
                files.append(PackedFile(name, len(content), moment, hashlib.sha256(content).digest(), size, len(block)))
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
        former = {packed.segment for run in added if (packed := present.run(run)) is not None}
        if former:  # runs that were resumed: their earlier journals are still in those segments
            _rewrite(manifest(home), former, frozenset())
    return list(added)


def _commit(home: Path, segment: str, blocks: list[bytes], added: dict[str, PackedRun]) -> None:
    """Write a segment, then the manifest that names it."""
    part = home / FOLDER / f"{segment}.part"
    _write(part, [*blocks, _segment_list(segment, added)])
    part.replace(home / FOLDER / segment)
    _sync_folder(home / FOLDER)
    manifest(home).replaced(frozenset(), added).write()


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
    """Write the journals of packed runs back to their folders, byte for byte; return the runs that were packed.

    A run with a damaged journal stays packed. When all others are written back, FileFormatError is raised for it.
    """
    present = manifest(home)
    runs = [run for run in runs if run in present]
    if not runs:
        return []
    damaged: dict[str, str] = {}
    with _locked(home):
        packed_runs = manifest(home)
        for run in runs:
            try:
                _restore_run(packed_runs, run)
            except JournalDamaged as error:
                damaged[run] = error.strerror or ""
        _drop(packed_runs, [run for run in runs if run not in damaged])
    for run, reason in damaged.items():
        stay = f"{plural(len(damaged), 'damaged run')} stayed packed, all others were unpacked."
        raise FileFormatError(reason, f"{stay} Run `provml verify` for details.", file=run)
    return runs


def _restore_run(packed_runs: Manifest, run: str) -> None:
    packed, folder = packed_runs.run(run), packed_runs.home / "runs" / run
    files = [] if packed is None else [file for file in packed.files if not (folder / file.name).exists()]
    contents = [] if packed is None else [packed_runs.read(packed, file) for file in files]
    for file, content in zip(files, contents, strict=True):  # a file that exists was changed after it was packed
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{file.name}.{os.getpid()}.part"
        _write(part, [content])
        os.utime(part, ns=(file.time, file.time))
        part.replace(folder / file.name)


def remove(home: Path, runs: Iterable[str]) -> None:
    """Remove runs from the segments: afterwards no byte of them is left."""
    present = manifest(home)
    runs = [run for run in runs if run in present]
    if runs:
        with _locked(home):
            _drop(manifest(home), runs)


def _drop(packed_runs: Manifest, runs: Collection[str]) -> None:
    """Write the segments of some runs again without these runs, then the manifest."""
    entries = (packed_runs.run(run) for run in runs)
    _rewrite(packed_runs, {packed.segment for packed in entries if packed is not None}, set(runs))


def _rewrite(packed_runs: Manifest, affected: Collection[str], removed: AbstractSet[str]) -> None:
    """Write segments again with what the manifest has there, but for some runs; then the manifest."""
    home = packed_runs.home
    by_segment: dict[str, dict[str, PackedRun]] = defaultdict(dict)
    for run in packed_runs:
        packed = packed_runs.run(run)
        if packed is not None and packed.segment in affected and run not in removed:
            by_segment[packed.segment][run] = packed
    moved: dict[str, PackedRun] = {}
    for segment, remaining in by_segment.items():
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
        _write(home / FOLDER / f"{name}.part", [*blocks, _segment_list(name, moved)])
        (home / FOLDER / f"{name}.part").replace(home / FOLDER / name)
    packed_runs.replaced(removed, moved).write()


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
