"""Artifacts: contents that runs store in their home, each once, by their SHA-256.

`home/artifacts/ab/abcdef…` is a read-only file with that content. It is written to a temporary file and renamed when it
is complete. A folder is stored as its files, and a list of them whose own SHA-256 is the digest of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple, Self

from provml.errors import FileFormatError

FOLDER = "artifacts"
"""Folder of the artifacts in a home."""
CHUNK_BYTES = 1 << 20
PART_SUFFIX = ".part"
REMOVED_SUFFIX = ".removed"
DIGEST = re.compile(r"[0-9a-f]{64}")
FIRST_ENTRY = re.compile(rb"[^\0]+\0[0-9a-f]{64}\n")
"""The beginning of the list of the files of a folder."""
FOLDER_TYPE = "inode/directory"
"""Media type of a folder."""


class Content(NamedTuple):
    """A content by its SHA-256, and its size in bytes; of a folder, the size of its files."""

    sha256: str
    size: int


class ArtifactFiles:
    """The contents that are stored in a home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def path(self, sha256: str) -> Path:
        """Return the file of a content, which need not exist."""
        return self.folder / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Return whether a content is stored."""
        return DIGEST.fullmatch(sha256) is not None and self.path(sha256).is_file()

    def digests(self) -> Iterator[str]:
        """Yield the SHA-256 of each content, in no order."""
        for folder in _entries(self.folder):
            if folder.is_dir():
                yield from (entry.name for entry in _entries(folder) if DIGEST.fullmatch(entry.name))

    # ---- write

    def add_file(self, source: Path, sha256: str = "") -> Content:
        """Store a file and return its content; `sha256` is its digest, if it is known.

        The file may change meanwhile: what counts is what was stored.
        """
        if sha256 and self.has(sha256):
            return Content(sha256, self.path(sha256).stat().st_size)
        with source.open("rb") as file:
            return self._write(iter(lambda: file.read(CHUNK_BYTES), b""))

    def add_bytes(self, data: bytes | bytearray | memoryview) -> Content:
        """Store bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        if self.has(sha256):
            return Content(sha256, memoryview(data).nbytes)
        return self._write([bytes(data)])

    def add_folder(self, files: Mapping[bytes, Path], digests: Mapping[bytes, str]) -> Content:
        """Store the files of a folder, by their names in it, and a list of them; `digests` are those that are known."""
        lines, size = [], 0
        for name, path in sorted(files.items()):
            content = self.add_file(path, digests.get(name, ""))
            lines.append(name + b"\0" + content.sha256.encode() + b"\n")
            size += content.size
        return Content(self.add_bytes(b"".join(lines)).sha256, size)

    def _write(self, chunks: Iterable[bytes]) -> Content:
        """Write a content, and give it its name when it is complete and on the disk."""
        with self.writer() as writer:
            for chunk in chunks:
                writer.write(chunk)
            return writer.commit()

    def writer(self) -> ContentWriter:
        """Return a writer of a content that comes in pieces."""
        return ContentWriter(self)

    def adopt(self, part: Path, sha256: str) -> bool:
        """Move a complete file of the same disk to the contents; return False if it does not have its digest."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if digest != sha256:
            return False
        part.chmod(0o444)
        target = self.path(sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)
        return True

    # ---- read

    def copy(self, sha256: str, file: IO[bytes]) -> None:
        """Write a content to a file; raise FileFormatError at its end if it does not have its digest."""
        digest = hashlib.sha256()
        with self.path(sha256).open("rb") as source:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            advice = "It is damaged: restore it from a backup, or store the original again."
            raise FileFormatError(f"its content has the SHA-256 {digest.hexdigest()}", advice, file=self._name(sha256))

    def is_intact(self, sha256: str) -> bool:
        """Return whether a content has its digest."""
        with self.path(sha256).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256

    def _name(self, sha256: str) -> str:
        return str(self.path(sha256))

    def files_of_folder(self, sha256: str) -> dict[str, str]:
        """Return the digests of the files of a folder by their names; raise FileFormatError if the list is damaged."""
        data, files = self.path(sha256).read_bytes(), {}
        position = 0
        while position < len(data):
            end = data.find(b"\0", position)
            name, digest = data[position:end], data[end + 1 : end + 65]
            position = end + 66
            if end < 0 or data[position - 1 : position] != b"\n" or not DIGEST.fullmatch(digest.decode("latin-1")):
                raise FileFormatError("not a list of files", "Restore it from a backup.", file=self._name(sha256))
            files[os.fsdecode(name)] = digest.decode()
        return files

    def is_folder(self, sha256: str) -> bool:
        """Return whether a content looks like the list of the files of a folder, all of which are stored."""
        with self.path(sha256).open("rb") as file:
            if not FIRST_ENTRY.match(file.read(CHUNK_BYTES)):  # most contents are not read to their end
                return False
        try:
            files = self.files_of_folder(sha256)
        except FileFormatError:
            return False
        return bool(files) and all(map(self.has, files.values()))

    def copy_folder(self, sha256: str, target: Path) -> None:
        """Write the files of a folder below a new folder: all of them, or after an error none."""
        import shutil  # not at the top: recording does not need it

        part = target.with_name(f".{target.name}-{os.urandom(4).hex()}{PART_SUFFIX}")
        try:
            part.mkdir()
            for name, digest in self.files_of_folder(sha256).items():
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    reason = f"the name {name!r} leads out of the folder"
                    raise FileFormatError(reason, "Do not trust this home.", file=self._name(sha256))
                path = part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    self.copy(digest, file)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)


class ContentWriter:
    """Writes a content in pieces to a temporary file, which `commit` gives its name; without it, nothing is stored."""

    def __init__(self, files: ArtifactFiles) -> None:
        self._files = files
        files.folder.mkdir(parents=True, exist_ok=True)
        self._part = files.folder / f"{os.urandom(16).hex()}{PART_SUFFIX}"
        self._file = self._part.open("xb")
        self._digest = hashlib.sha256()
        self.size = 0
        """Bytes that were written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Write a piece."""
        self._digest.update(chunk)
        self.size += len(chunk)
        self._file.write(chunk)

    def commit(self) -> Content:
        """Store what was written, and return its content."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.chmod(0o444)
        target = self._files.path(self._digest.hexdigest())
        target.parent.mkdir(exist_ok=True)
        self._part.replace(target)
        return Content(self._digest.hexdigest(), self.size)


def _entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
