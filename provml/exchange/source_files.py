"""Reading the files of a source with care: limits, paths that lead out of it, digests, and plain errors."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from provml.errors import FileFormatError
from provml.rdf.text_files import MAX_TEXT_BYTES, check_depth, is_inside, parse_json, read_text, sniff

__all__ = [
    "MAX_TEXT_BYTES",
    "check_depth",
    "digest_of",
    "is_inside",
    "parse_json",
    "read_json",
    "read_text",
    "read_yaml",
    "sha256_of",
    "size_of",
    "sniff",
    "walk",
]

_HASH_BYTES = 1 << 20


def walk(root: Path, *, max_files: int = 1_000_000) -> Iterator[Path]:
    """Yield the plain files below a folder in the order of their names; links are not followed."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            count += 1
            if count > max_files:
                raise FileFormatError(f"it has more than {max_files:,} files", "Pass a smaller folder.", file=str(root))
            if not path.is_symlink() and path.is_file():
                yield path


def read_json(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file; NaN and Infinity are allowed."""
    return parse_json(read_text(path, root), path)


class _Loader(yaml.SafeLoader):
    """A loader that refuses aliases, with which a small file can become a huge value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def read_yaml(path: Path, root: Path | None = None) -> Any:
    """Return the content of a YAML file."""
    text = read_text(path, root)
    try:
        return yaml.load(text, _Loader)  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileFormatError(f"it is not valid YAML ({first})", "Copy the file again.", file=str(path)) from error


@lru_cache(maxsize=4096)
def _digest(path: str, size: int, changed_ns: int) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        remaining = size
        while remaining and (data := file.read(min(_HASH_BYTES, remaining))):
            digest.update(data)
            remaining -= len(data)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it cannot be read."""
    try:
        status = path.stat()
        return _digest(str(path), status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ""
    except OSError:
        return ""


def digest_of(files: Iterable[Path], root: Path) -> str:
    """Return the digest of files: of one, that of its content; of several, that of their names and digests."""
    paths = sorted(files)
    if len(paths) == 1:
        return sha256_of(paths[0])
    lines = [
        f"{path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name}\0{sha256_of(path)}"
        for path in paths
    ]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "backslashreplace")).hexdigest()


def size_of(path: Path) -> int:
    """Return the size of a file, or of all files below a folder, in bytes."""
    try:
        return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in walk(path))
    except (OSError, FileFormatError):
        return 0
